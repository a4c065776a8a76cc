"""Tensors of PyTorch in one piece of memory: views of a single tensor, as importing each by DLPack takes longer."""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Sequence

from .dlpack import contiguous_strides
from .dtypes import DType

if TYPE_CHECKING:
    from .device_array import DeviceArray


def torch() -> Any:
    """PyTorch, which is imported when it is first needed."""
    return importlib.import_module("torch")


class TorchViews:
    """Makes the tensors. Each of them keeps the memory mapped."""

    def __init__(self, array: DeviceArray):
        """`array` are the bytes of the memory."""
        self._torch = torch()
        self.bytes: Any = self._torch.from_dlpack(array)
        # Everything as elements of a type, by its name.
        self._typed: dict[str, Any] = {}

    def make(self, dtype: DType, shape: tuple[int, ...], byte_offset: int, strides: Sequence[int] | None = None) -> Any:
        """`byte_offset` is a multiple of an element's size. What PyTorch has no type for is a tensor of its bytes."""
        typed = self._typed.get(dtype.name)
        if typed is None:
            element = getattr(self._torch, dtype.name, self._torch.uint8)
            nbytes = self.bytes.numel()
            typed = self._typed[dtype.name] = self.bytes[: nbytes - nbytes % element.itemsize].view(element)
        if typed.dtype.itemsize != dtype.itemsize:
            shape, strides, byte_offset = (*shape, dtype.itemsize), None, byte_offset * dtype.itemsize
        return typed.as_strided(shape, strides or contiguous_strides(shape), byte_offset // dtype.itemsize)
