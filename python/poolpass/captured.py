"""Collects the tensors of a dictionary or of a PyTorch module, to be published as weights."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Literal, Mapping

from .dtypes import stated
from .errors import quoted
from .tensor_bundle import SAFETENSORS_NAMES
from .torch_views import torch

Kind = Literal["parameter", "buffer", "tensor"]
_PLAIN = {bool, int, float, str, type(None)}


@dataclass
class Captured:
    """A tensor and all of its names. `is_persistent` is None unless the tensor is a buffer."""

    name: str
    kind: Kind
    tensor: Any
    dtype: str
    shape: list[int]
    is_persistent: bool | None
    # The order of the dimensions in memory; None if the tensor is in C order.
    order: list[int] | None
    aliases: list[str] = field(default_factory=list)

    @property
    def in_memory_order(self) -> Any:
        """The tensor, with its dimensions permuted so that it is contiguous."""
        return self.tensor.contiguous() if self.order is None else self.tensor.permute(self.order)


def capture(source: Any) -> list[Captured]:
    """Returns the tensors of a dictionary or a module. Raises TypeError, which names the tensor, if a tensor cannot be
    published."""
    if isinstance(source, torch().nn.Module):
        _check_attributes(source)
        return capture_registered(registered(source))
    if not isinstance(source, Mapping):
        raise TypeError(f"Cannot publish {type(source).__name__}: give a dictionary of tensors, or a module")
    return _without_aliases(((name, "tensor", tensor, None) for name, tensor in source.items()), is_module=False)


def capture_registered(found: Iterable[tuple[str, Kind, Any, bool | None]]) -> list[Captured]:
    """Returns parameters and buffers of a module, as `registered` yields them. Raises what `capture` raises."""
    return _without_aliases(found, is_module=True)


def registered(module: Any) -> Iterator[tuple[str, Kind, Any, bool | None]]:
    """Yields the parameters and buffers of a module under each of their names: the name, the kind, the tensor and, for
    a buffer, whether it is persistent."""
    for path, owner in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for leaf, tensor in owner._parameters.items():
            if tensor is not None:
                yield prefix + leaf, "parameter", tensor, None
        for leaf, tensor in owner._buffers.items():
            if tensor is not None:
                yield prefix + leaf, "buffer", tensor, leaf not in owner._non_persistent_buffers_set


def attributes(module: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yields the tensors that modules have as plain attributes, or in an attribute that is a list, tuple or dictionary,
    without being registered there: the path, the container, the key in the container, and the tensor."""
    is_tensor = torch().is_tensor
    for path, owner in module.named_modules():
        for name, value in vars(owner).items():
            # Most of a module's attributes are one of these, or an empty dictionary.
            if type(value) in _PLAIN or name in ("_parameters", "_buffers", "_modules"):
                continue
            if isinstance(value, dict):
                for key, each in value.items():
                    if is_tensor(each):
                        yield f"{_path(path, name)}[{key!r}]", value, key, each
            elif isinstance(value, (list, tuple)):
                for index, each in enumerate(value):
                    if is_tensor(each):
                        yield f"{_path(path, name)}[{index}]", value, index, each
            elif is_tensor(value):
                yield _path(path, name), vars(owner), name, value


def _path(owner: str, name: str) -> str:
    return f"{owner}.{name}" if owner else name


def _check_attributes(module: Any) -> None:
    known = {id(tensor) for _, _, tensor, _ in registered(module)}
    for where, _, _, tensor in attributes(module):
        if id(tensor) not in known:
            raise TypeError(
                f"Cannot publish {quoted(where)}: it is only an attribute; register it as a buffer, or remove it"
            )


def _without_aliases(named: Any, *, is_module: bool) -> list[Captured]:
    found: dict[object, Captured] = {}
    for name, kind, tensor, is_persistent in named:
        if not isinstance(name, str):
            raise TypeError(f"Cannot publish a tensor under the name {name!r}: give a string")
        dtype, order = _check(name, tensor, is_module)
        # Tensors with the same memory, dtype and layout are aliases.
        key: object = id(tensor)
        if tensor.numel() > 0:
            key = (kind, tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if key in found:
            found[key].aliases.append(name)
            continue
        stated_name, shape = stated(dtype, tuple(tensor.shape))
        found[key] = Captured(name, kind, tensor.detach(), SAFETENSORS_NAMES[stated_name], shape, is_persistent, order)
    return list(found.values())


def _check(name: str, tensor: Any, is_module: bool) -> tuple[str, list[int] | None]:
    library = torch()
    why = None
    dtype, order = "", None
    if not library.is_tensor(tensor):
        why = f"it is no tensor, but {type(tensor).__name__}"
    elif type(tensor) not in (library.Tensor, library.nn.Parameter):
        why = f"it is a tensor of the class {type(tensor).__name__}"
    elif tensor.is_meta:
        why = "it is on the meta device, and has no values"
    elif tensor.layout != library.strided:
        why = f"its layout is {tensor.layout}"
    elif tensor.is_conj() or tensor.is_neg():
        why = "its values are still to be conjugated or negated; call resolve_conj and resolve_neg"
    else:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if stated(dtype, (1,))[0] not in SAFETENSORS_NAMES:
            why = f"safetensors files have no {dtype}"
        elif is_module and not tensor.is_contiguous():
            order = sorted(range(tensor.dim()), key=lambda each: (-tensor.stride(each), each))
            if not tensor.permute(order).is_contiguous():
                why = f"its strides {list(tensor.stride())} leave gaps, or overlap; make it contiguous"
    if why is not None:
        raise TypeError(f"Cannot publish {quoted(name)}: {why}")
    return dtype, order
