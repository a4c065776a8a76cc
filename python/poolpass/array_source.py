"""An array of another library that is copied from."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from . import dlpack
from .cuda import DEVICE_TO_DEVICE, HOST_TO_DEVICE, cuda
from .dtypes import DType, dtype_of_typestr

HOST_TYPES = (dlpack.CPU, dlpack.CUDA_HOST)
DEVICE_TYPES = (dlpack.CUDA, dlpack.CUDA_MANAGED)


class ArraySource:
    """A C-contiguous array, which must be released once the copy is done."""

    def __init__(self, array: Any, stream: int):
        """Takes an array over. What its library has written is visible behind the stream, which is of its device."""
        self.address: int
        self.shape: tuple[int, ...]
        self.dtype: DType
        self.copy_kind: int
        # The array itself lives at least as long as what was made of it.
        self._array = array
        self._release: Callable[[], None] | None = None
        if hasattr(array, "__dlpack__"):
            self._take_dlpack(array, stream)
        else:
            self._take_interface(array.__cuda_array_interface__, stream)

    @staticmethod
    def device_of(array: Any) -> int | None:
        """The ordinal of an array's device; None if it lies in host memory."""
        if hasattr(array, "__dlpack_device__") and hasattr(array, "__dlpack__"):
            kind, number = (int(each) for each in array.__dlpack_device__())
            if kind in HOST_TYPES:
                return None
            if kind in DEVICE_TYPES:
                return number
            raise TypeError(f"Cannot copy from DLPack's device type {kind}: only CUDA's and the host's are known")
        if hasattr(array, "__cuda_array_interface__"):
            return cuda().device_of_address(array.__cuda_array_interface__["data"][0])
        raise TypeError(f"Cannot copy {type(array).__name__}: it has neither __dlpack__ nor __cuda_array_interface__")

    def release(self) -> None:
        """Lets the array's library have it back. Any thread may call this, once."""
        release, self._release = self._release, None
        self._array = None
        if release is not None:
            release()

    def _take_dlpack(self, array: Any, stream: int) -> None:
        ordinal = self.device_of(array)
        tensor = dlpack.import_capsule(call_dlpack(array, None if ordinal is None else stream))
        self._release = tensor.release
        try:
            check_contiguous(tensor.shape, tensor.strides, 1)
        except BaseException:
            self.release()
            raise
        self.address, self.shape, self.dtype = tensor.address, tensor.shape, tensor.dtype
        self.copy_kind = HOST_TO_DEVICE if ordinal is None else DEVICE_TO_DEVICE

    def _take_interface(self, interface: dict[str, Any], stream: int) -> None:
        self.dtype = dtype_of_typestr(interface["typestr"])
        self.shape = tuple(interface["shape"])
        strides = interface.get("strides")
        if strides is not None:
            check_contiguous(self.shape, strides, self.dtype.itemsize)
        self.address = interface["data"][0]
        self.copy_kind = DEVICE_TO_DEVICE
        before = interface.get("stream")
        if before is not None:
            ordinal = cuda().device_of_address(self.address)
            cuda().order(stream, before, ordinal)


def check_contiguous(shape: Sequence[int], strides: Sequence[int], unit: int) -> None:
    """Raises ValueError for an array that is not C-contiguous. The strides of one without elements mean nothing."""
    expected = (unit * each for each in dlpack.contiguous_strides(tuple(shape)))
    if 0 not in shape and any(size > 1 and own != wanted for size, own, wanted in zip(shape, strides, expected)):
        raise ValueError(f"Cannot copy an array of strides {list(strides)}: make it contiguous first")


def call_dlpack(array: Any, stream: int | None) -> Any:
    """Gets a capsule: versioned if the library has that."""
    # A library that takes no stream for host memory takes none at all.
    arguments: dict[str, Any] = {} if stream is None else {"stream": stream}
    try:
        return array.__dlpack__(max_version=dlpack.VERSION, **arguments)
    except TypeError:
        return array.__dlpack__(**arguments)
