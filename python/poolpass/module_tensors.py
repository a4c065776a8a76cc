"""Replaces the parameters and buffers of a PyTorch module with other tensors."""
from __future__ import annotations

from typing import Any, Callable, Mapping

from .captured import Kind, attributes, registered
from .torch_views import torch


def put_into(
    module: Any,
    what: str,
    found: Mapping[str, Any],
    key_of: Callable[[str], str],
    tensor_of: Callable[[str], Any],
    *,
    is_partial: bool = False,
) -> None:
    """Replaces tensors of a module under all of their names. Tied parameters stay tied.

    found: the shape and dtype of each new tensor, under each of its names. `key_of` returns the same key for all names
    of a tensor, and `tensor_of` creates the tensor with a given name.
    is_partial: whether the tensors of the module that are not in `found` stay as they are.

    Raises ValueError, without changing the module, if a parameter is missing, or has a different shape or dtype.
    """
    names: dict[int, list[str]] = {}
    tensors: dict[int, tuple[Kind, Any]] = {}
    for name, kind, tensor, _ in registered(module):
        names.setdefault(id(tensor), []).append(name)
        tensors[id(tensor)] = kind, tensor
    keys: dict[int, str] = {}
    wrong: list[str] = []
    for number, (kind, tensor) in tensors.items():
        present = [name for name in names[number] if name in found]
        first = names[number][0]
        if not present:
            # Keep buffers that the weights lack: the module initialized them itself.
            if not is_partial and (kind == "parameter" or tensor.is_meta):
                wrong.append(f"{first} is missing")
            continue
        shape, dtype = found[present[0]]
        if len({key_of(name) for name in present}) > 1:
            wrong.append(f"{' and '.join(present)} are one tensor in the module, and several in the weights")
        elif tuple(tensor.shape) != shape or tensor.dtype != dtype:
            wrong.append(
                f"{present[0]} is {_type_of(tensor.shape, tensor.dtype)} in the module, and "
                f"{_type_of(shape, dtype)} in the weights"
            )
        keys[number] = present[0]
    held = list(attributes(module))
    wrong += _left_behind(held, {number: tensors[number][1] for number in keys})
    if wrong:
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise ValueError(f"Cannot load {what}: {'; '.join(wrong[:5])}{more}")
    _replace(module, held, {number: tensor_of(name) for number, name in keys.items()}, key_of, keys)


# An attribute that is a tensor, or has one: see `attributes`.
_Held = tuple[str, Any, Any, Any]


def _replace(
    module: Any, held: list[_Held], tensors: dict[int, Any], key_of: Callable[[str], str], keys: dict[int, str]
) -> None:
    parameter = torch().nn.Parameter
    parameters: dict[str, Any] = {}
    replaced: dict[int, Any] = {}
    for owner in module.modules():
        for leaf, tensor in owner._parameters.items():
            if id(tensor) in tensors:
                key = key_of(keys[id(tensor)])
                if key not in parameters:
                    parameters[key] = parameter(tensors[id(tensor)], requires_grad=False)
                replaced[id(tensor)] = owner._parameters[leaf] = parameters[key]
        for leaf, tensor in owner._buffers.items():
            if id(tensor) in tensors:
                replaced[id(tensor)] = owner._buffers[leaf] = tensors[id(tensor)]
    # Attributes that refer to a replaced tensor must refer to the new tensor.
    for _, container, key, tensor in held:
        if id(tensor) in replaced and not isinstance(container, tuple):
            container[key] = replaced[id(tensor)]


def _left_behind(held: list[_Held], changed: Mapping[int, Any]) -> list[str]:
    """Returns descriptions of the attributes that would keep their old values."""
    wrong = []
    places = {_place_of(tensor) for tensor in changed.values()} - {0}
    for where, container, _, tensor in held:
        if id(tensor) in changed:
            if isinstance(container, tuple):
                wrong.append(f"{where} would stay what it is: it is in a tuple")
        elif tensor.is_meta:
            wrong.append(f"{where} has no values, and is only an attribute")
        elif _place_of(tensor) in places:
            wrong.append(f"{where} would stay what it is: a view of a tensor that is replaced")
    return wrong


def _place_of(tensor: Any) -> int:
    return 0 if tensor.layout != torch().strided else int(tensor.untyped_storage().data_ptr())


def _type_of(shape: Any, dtype: Any) -> str:
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
