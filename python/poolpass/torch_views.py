"""PyTorch tensors in one allocation. They are views of a single tensor, because importing each through DLPack is
slower."""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Sequence

from .dlpack import contiguous_strides
from .dtypes import DType

if TYPE_CHECKING:
    from .device_array import DeviceArray


def torch() -> Any:
    """Returns the torch module, which is imported on first use."""
    return importlib.import_module("torch")


class TorchViews:
    """Creates tensors that are views of one allocation. Each of them keeps the memory mapped."""

    def __init__(self, array: DeviceArray):
        """`array` contains the bytes of the memory."""
        self._torch = torch()
        self.bytes: Any = self._torch.from_dlpack(array)
        # The whole memory as a tensor of each element type, by the name of the type.
        self._typed: dict[str, Any] = {}

    def make(self, dtype: DType, shape: tuple[int, ...], byte_offset: int, strides: Sequence[int] | None = None) -> Any:
        """Creates a tensor. `byte_offset` must be a multiple of the element size. If PyTorch does not support the
        element type, the result is a tensor of bytes, with an additional dimension for the bytes of an element."""
        typed = self._typed.get(dtype.name)
        if typed is None:
            element = getattr(self._torch, dtype.name, self._torch.uint8)
            nbytes = self.bytes.numel()
            typed = self._typed[dtype.name] = self.bytes[: nbytes - nbytes % element.itemsize].view(element)
        if typed.dtype.itemsize != dtype.itemsize:
            shape, strides, byte_offset = (*shape, dtype.itemsize), None, byte_offset * dtype.itemsize
        return typed.as_strided(shape, strides or contiguous_strides(shape), byte_offset // dtype.itemsize)
