"""Memory of a device as other libraries see it: CUDA's array interface, and DLPack."""
from __future__ import annotations

import ctypes
import math
import operator
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Sequence, TypeGuard

from . import dlpack
from .cuda import HOST_TO_DEVICE, NO_STREAM, cuda, stream_handle
from .dtypes import UINT8, DType, array_of, find_dtype, to_dtype
from .holding import Holding, StreamSet
from .messages import MAXIMUM_INTEGER

if TYPE_CHECKING:
    from typing_extensions import Self

# NumPy's limit.
MAXIMUM_DIMENSIONS = 64


class DeviceArray:
    """A C-contiguous array in memory that processes share. `torch.from_dlpack(array)`, `cupy.from_dlpack(array)` and
    `cupy.asarray(array)` use it in place.

    The memory stays mapped for as long as something made of it by DLPack exists. A library that uses the array
    interface keeps the DeviceArray itself alive instead: do not release the DeviceArray before the library is done.
    """

    def __init__(
        self,
        holding: Holding,
        *,
        address: int,
        dtype: DType,
        shape: tuple[int, ...],
        device: int | None,
        stream: int | None,
        what: str,
        is_stream_kept: bool = True,
    ):
        self._holding = holding
        self._address = address
        self._dtype = dtype
        self._shape = shape
        self._device = device
        # The stream behind whose work the memory may be used, if it is not every stream.
        self._stream = stream
        # Whether the application has promised to use the memory on that stream only.
        self._is_stream_kept = stream is not None and is_stream_kept
        # Where this object and its views were used; the holding has that of all.
        self._streams = StreamSet()
        self._what = what
        self._is_handed_out = False
        self._user = holding.add()
        if stream is not None:
            holding.streams.add(stream)
        # The last capsule. If a consumer refuses it, it must not end there: the destructor would lose the error.
        self._capsule: list[Any] = []
        self._end = weakref.finalize(self, end_use, holding, self._user, self._capsule)
        # At exit the process ends with all that it has mapped.
        self._end.atexit = False

    @property
    def is_released(self) -> bool:
        return not self._end.alive

    @property
    def address(self) -> int:
        """The address of the first byte. Raises RuntimeError if the memory was released."""
        self._check()
        self._hand_out()
        return self._address

    @property
    def dtype(self) -> str:
        """The name of the element type, such as "float32" or "bfloat16"."""
        return self._dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements in each dimension."""
        return self._shape

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._dtype.itemsize * math.prod(self._shape)

    @property
    def device(self) -> int | None:
        """The ordinal of the device in this process; None for host memory."""
        return self._device

    def view(self, dtype: Any = None, shape: Sequence[int] | None = None, *, byte_offset: int = 0) -> DeviceArray:
        """Returns a part of the memory, or all of it, as elements of another type or in another shape.

        Without a shape, the view has one dimension and reaches to the end. Raises ValueError if it does not fit.
        """
        self._check()
        element = self._dtype if dtype is None else to_dtype(dtype)
        byte_offset = check_nbytes(byte_offset, "an offset")
        left = self.nbytes - byte_offset
        if byte_offset < 0 or left < 0 or byte_offset % element.itemsize != 0:
            raise ValueError(
                f"Cannot view {self._what} from byte {byte_offset} on: it has {self.nbytes} bytes, and an element "
                f"{element.itemsize}"
            )
        if shape is None:
            if left % element.itemsize != 0:
                raise ValueError(f"Cannot view {left} bytes of {self._what} as {element.name}: they are no multiple")
            shape = (left // element.itemsize,)
        sizes = check_shape(shape)
        if element.itemsize * math.prod(sizes) > left:
            raise ValueError(
                f"Cannot view {self._what} as {element.name} of shape {list(sizes)}: that takes "
                f"{element.itemsize * math.prod(sizes)} bytes, and there are {left}"
            )
        self._is_handed_out = True
        view = DeviceArray(
            self._holding, address=self._address + byte_offset, dtype=element, shape=sizes, device=self._device,
            stream=self._stream, what=self._what, is_stream_kept=self._is_stream_kept,
        )
        # The view's part of the memory is not released before the view.
        view._is_handed_out = True
        # Where the view is used, this is used: a slot is sent behind what was written by its views.
        view._streams = self._streams
        return view

    def read(self, nbytes: int | None = None, *, byte_offset: int = 0) -> bytes:
        """Copies bytes to the host, by default all, behind the work of all streams on which the memory is used."""
        self._check()
        byte_offset = check_nbytes(byte_offset, "an offset")
        length = self.nbytes - byte_offset if nbytes is None else check_nbytes(nbytes, "a length")
        self._check_part("read", length, byte_offset)
        address = self._address + byte_offset
        if self._device is None:
            return ctypes.string_at(address, length)
        calls = cuda()
        own = calls.copy_stream(self._device) if self._stream is None else self._stream
        stream = calls.stream_behind(self._holding.streams.value, own, self._device)
        return calls.copy_to_host(address, length, stream, self._device)

    def write(self, data: Any, *, byte_offset: int = 0) -> None:
        """Copies bytes, or any contiguous object with the buffer protocol, from the host, behind the work of all
        streams on which the memory is used.

        Returns once the copy is done. Raises RuntimeError for memory of a store that is mapped for reading.
        """
        self._check()
        if self._holding.is_read_only:
            raise RuntimeError(f"Cannot write {self._what}: it is mapped for reading")
        view = memoryview(data).cast("B")
        self._check_part("write", view.nbytes, byte_offset)
        if view.nbytes == 0:
            return
        host = (ctypes.c_char * view.nbytes).from_buffer_copy(view)
        address = self._address + byte_offset
        if self._device is None:
            ctypes.memmove(address, host, view.nbytes)
            return
        calls = cuda()
        own = calls.copy_stream(self._device) if self._stream is None else self._stream
        stream = calls.stream_behind(self._holding.streams.value, own, self._device)
        calls.copy(address, ctypes.addressof(host), view.nbytes, HOST_TO_DEVICE, stream, self._device)
        calls.synchronize(stream, self._device)

    def _check_part(self, action: str, length: int, byte_offset: int) -> None:
        if length < 0 or byte_offset < 0 or byte_offset + length > self.nbytes:
            raise ValueError(
                f"Cannot {action} {length} bytes of {self._what} from byte {byte_offset} on: it has {self.nbytes}"
            )

    def release(self, stream: Any = None) -> None:
        """Ends the use of the memory by this object. Does nothing if that has ended before.

        stream: all work with the memory has been given to this stream, or comes before it in stream order. Without it,
        that is taken from what other libraries have said, and if that is not known, the device is waited for.
        """
        if stream is not None and self._end.alive:
            self._holding.streams.replace(stream_handle(stream))
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        state = ", released" if self.is_released else ""
        return f"<{type(self).__name__} of {self._what}: {self.dtype} {list(self.shape)}{state}>"

    @property
    def _is_host_memory(self) -> bool:
        """Whether the CPU can access the memory. True for all memory of the software device."""
        return self._device is None or cuda().driver == "software"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA's array interface, version 3. Its stream is what the memory was mapped or allocated on, if any."""
        if self._is_host_memory:
            raise AttributeError(f"{self._what} lies in host memory: use __array_interface__ or DLPack")
        interface = self._interface()
        # 0 is not allowed: it could be either default stream.
        interface["stream"] = 1 if self._stream == 0 else self._stream
        return interface

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, for host memory."""
        if not self._is_host_memory:
            raise AttributeError(f"{self._what} lies in device memory: use __cuda_array_interface__ or DLPack")
        self._finish_work()
        return self._interface()

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        # Without this, NumPy would make an array of one Python object.
        raise TypeError(
            f"Cannot make a NumPy array of {self._what}: it lies in device memory; use DLPack, or copy it with read"
        )

    def _interface(self) -> dict[str, Any]:
        self._check()
        if self._dtype.typestr is None:
            raise AttributeError(f"The array interface has no {self.dtype}: use DLPack, or view another type")
        self._hand_out()
        return {
            "version": 3,
            "shape": self._shape,
            "typestr": self._dtype.typestr,
            # PyTorch refuses memory that is said to be read-only here; in DLPack, it is said.
            "data": (self._address, False),
            "strides": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        return (dlpack.CPU, 0) if self._is_host_memory else (dlpack.CUDA, self._device or 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns a capsule for the memory: versioned if `max_version` allows it, otherwise legacy.

        stream: the handle of the stream that the consumer will use the memory on, as the array API defines it: None for
        the legacy default stream, -1 for no synchronization. Raises BufferError for a copy or another device.
        """
        self._check()
        if copy:
            raise BufferError(f"Cannot copy {self._what} by DLPack: it is shared in place; copy what you made of it")
        device = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"Cannot move {self._what} to device {dl_device}: it lies on {device}")
        if self._is_host_memory:
            self._finish_work()
        else:
            self._order_consumer(0 if stream is None else int(stream))
        user = self._holding.add()
        try:
            capsule = dlpack.export_capsule(
                address=self._address,
                shape=self._shape,
                dtype=self._dtype,
                device=device,
                is_versioned=max_version is not None and max_version[0] >= dlpack.VERSION[0],
                is_read_only=self._holding.is_read_only,
                on_delete=lambda: self._holding.drop(user),
            )
        except BaseException:
            self._holding.drop(user)
            raise
        self._capsule[:] = [capsule]
        return capsule

    def _finish_work(self) -> None:
        """Waits for pending writes, because the CPU's accesses are not ordered after the work of streams."""
        if self._device is not None:
            cuda().synchronize_device(self._device)

    def _order_consumer(self, stream: int) -> None:
        """Makes the consumer's stream wait for what was written on the memory's own."""
        assert self._device is not None
        if self._stream is not None and stream != NO_STREAM:
            cuda().order(stream, self._stream, self._device)
        self._use(stream)

    def _hand_out(self) -> None:
        """The memory is used on unknown streams, for as long as this object lives."""
        self._is_handed_out = True
        self._use(self._stream if self._is_stream_kept else None)

    def _use(self, stream: int | None) -> None:
        self._streams.add(stream)
        self._holding.streams.add(stream)

    def _check(self) -> None:
        if self.is_released:
            raise RuntimeError(f"Cannot use {self._what}: it was released")


def end_use(holding: Holding, user: object, capsule: list[Any]) -> None:
    capsule.clear()
    holding.drop(user)


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Raises TypeError if a shape is no sequence of whole numbers, and ValueError if they are out of range."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(f"Cannot use {shape!r} as a shape: give whole numbers, such as (2, 3)") from None
    if any(size < 0 for size in sizes):
        raise ValueError(f"Cannot use the shape {list(sizes)}: a size is negative")
    if math.prod(sizes) > MAXIMUM_INTEGER or max(sizes, default=0) > MAXIMUM_INTEGER:
        raise ValueError(f"Cannot use the shape {list(sizes)}: it has more than 2^53 - 1 elements")
    return sizes


def check_nbytes(nbytes: int, what: str) -> int:
    """Raises TypeError if a number of bytes is no whole number, and ValueError if it is out of range."""
    try:
        number = operator.index(nbytes)
    except TypeError:
        raise TypeError(f"Cannot use {nbytes!r} as {what}: it must be a whole number of bytes") from None
    if not 0 <= number <= MAXIMUM_INTEGER:
        raise ValueError(f"Cannot use {number} as {what}: it must be 0 to 2^53 - 1")
    return number


def array_type(metadata: Any, nbytes: int) -> tuple[DType, tuple[int, ...]]:
    """The element type and the shape that metadata of another process states: bytes if it states none that fits."""
    if isinstance(metadata, dict):
        dtype = find_dtype(metadata.get("dtype"))
        shape = metadata.get("shape")
        if dtype is not None and shape is None and nbytes % dtype.itemsize == 0:
            return dtype, (nbytes // dtype.itemsize,)
        array = array_of(metadata.get("dtype"), shape) if is_shape(shape) else None
        if array is not None and array[0].itemsize * math.prod(array[1]) == nbytes:
            return array
    return UINT8, (nbytes,)


def is_shape(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and len(value) <= MAXIMUM_DIMENSIONS and all(
        type(size) is int and 0 <= size <= MAXIMUM_INTEGER for size in value
    )
