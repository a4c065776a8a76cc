"""Detects PyTorch operators that are about to write to a tensor in read-only memory."""
from __future__ import annotations

import importlib
from bisect import bisect_right
from typing import Any, Iterable

from .errors import quoted


def write_guard(what: str, places: Iterable[tuple[int, int, str]]) -> Any:
    """Returns a context manager in which such operators raise RuntimeError. `places` contains the address, the size in
    bytes and the name of each tensor."""
    ordered = sorted(each for each in places if each[1] > 0)
    begins = [begin for begin, _, _ in ordered]

    def name_of(tensor: Any) -> str | None:
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            # A tensor without memory, such as a fake tensor of a compiler.
            return None
        index = bisect_right(begins, address) - 1
        if index < 0:
            return None
        begin, nbytes, name = ordered[index]
        return name if address < begin + nbytes else None

    def check(operator: Any, argument: Any) -> None:
        for each in argument if isinstance(argument, (list, tuple)) else (argument,):
            name = name_of(each) if hasattr(each, "data_ptr") else None
            if name is not None:
                raise RuntimeError(
                    f"{operator} writes {quoted(name)} of {what}, which is mapped for reading; load it with "
                    f"private=[{quoted(name)}] to write it"
                )

    mode: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    class WriteGuard(mode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, operator: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
        ) -> Any:
            named = options or {}
            for index, each in enumerate(operator._schema.arguments):
                if each.alias_info is None or not each.alias_info.is_write:
                    continue
                if each.name in named:
                    check(operator, named[each.name])
                elif index < len(arguments):
                    check(operator, arguments[index])
            return operator(*arguments, **named)

    return WriteGuard()
