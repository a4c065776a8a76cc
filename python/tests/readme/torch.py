"""As much of PyTorch as README.md uses, with NumPy: its scripts are run on machines that have no PyTorch."""
from __future__ import annotations

from typing import Any

import numpy


class Tensor:
    def __init__(self, array: Any):
        self.array = numpy.asarray(array)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __str__(self) -> str:
        return f"tensor({self.array})"

    def reshape(self, *shape: int) -> Tensor:
        return Tensor(self.array.reshape(shape))

    def fill_(self, value: float) -> None:
        self.array[...] = value

    def normal_(self) -> None:
        self.array[...] = numpy.random.default_rng(1).normal(size=self.array.shape)

    def sum(self) -> Tensor:
        return Tensor(self.array.sum())

    def max(self) -> Tensor:
        return Tensor(self.array.max())

    def item(self) -> Any:
        return self.array.item()


def arange(end: float) -> Tensor:
    return Tensor(numpy.arange(end, dtype=numpy.float32))


def from_dlpack(array: Any) -> Tensor:
    return Tensor(numpy.from_dlpack(array))
