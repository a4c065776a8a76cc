"""Pools whose memory can be shared, and buffers in them."""
from __future__ import annotations

import math
import os
import threading
import weakref
from typing import Any, Sequence

from .closing import Closing
from .cuda import cuda, stream_handle
from .device_array import DeviceArray, check_nbytes, check_shape
from .dtypes import UINT8, DType, to_dtype
from .errors import CudaError
from .export_data import finish_exported_data
from .holding import Holding, UsedStreams


class MemoryPool(Closing):
    """A stream-ordered memory pool on one device, whose memory other processes can map by its descriptor.

    The pool is the boundary: a process that maps one of its buffers can reach all of it. What another process must not
    see belongs into another pool.
    """

    def __init__(self, device: int = 0):
        """Creates the pool on the device with this ordinal. Raises CudaUnavailableError, CudaError or ValueError."""
        calls = cuda()
        calls.check_device(device)
        self.device = device
        self._handle = calls.create_pool(device)
        self._descriptor = -1
        self._lock = threading.Lock()
        # The streams that memory was freed on.
        self._free_streams: set[int] = set()
        self._holding = Holding(lambda _: self._destroy())
        self._end = weakref.finalize(self, self._holding.drop, self._holding.add())
        self._end.atexit = False

    @property
    def is_closed(self) -> bool:
        return not self._end.alive

    def allocate(self, nbytes: int, *, stream: Any = None) -> Buffer:
        """Allocates bytes in the order of a stream: by default the device's default stream. See `Buffer`."""
        return self._allocate(UINT8, (check_nbytes(nbytes, "a size"),), stream, is_typed=False)

    def allocate_array(self, shape: Sequence[int], dtype: Any, *, stream: Any = None) -> Buffer:
        """Allocates an array in the order of a stream. `dtype` is a name, or a dtype of NumPy, CuPy or PyTorch.

        What is offered of it carries its element type and its shape.
        """
        return self._allocate(to_dtype(dtype), check_shape(shape), stream, is_typed=True)

    def _allocate(self, dtype: DType, shape: tuple[int, ...], stream: Any, *, is_typed: bool) -> Buffer:
        if self.is_closed:
            raise RuntimeError("Cannot allocate: the pool was closed")
        nbytes = dtype.itemsize * math.prod(shape)
        if nbytes < 1:
            raise ValueError(f"Cannot allocate {nbytes} bytes: memory that is shared has at least one")
        handle = stream_handle(stream)
        address = cuda().allocate(self._handle, nbytes, handle, self.device)
        return Buffer(AllocationHolding(self, address, nbytes, handle), dtype, shape, is_typed=is_typed)

    def close(self) -> None:
        """Destroys the pool, once all its buffers are freed."""
        self._end()

    def __repr__(self) -> str:
        return f"<MemoryPool of device {self.device}{', closed' if self.is_closed else ''}>"

    def _export(self) -> int:
        """The descriptor that importers are sent. The pool owns it."""
        with self._lock:
            if self._descriptor < 0:
                self._descriptor = cuda().export_pool(self._handle)
            return self._descriptor

    def _free(self, holding: AllocationHolding, streams: UsedStreams) -> None:
        """Frees an allocation behind the work of streams."""
        calls, stream = cuda(), holding.stream
        try:
            if streams is None:
                calls.synchronize_device(self.device)
            else:
                events = calls.record_each(streams - {stream}, self.device)
                calls.wait_for_each(stream, events, self.device)
            calls.free(holding.address, stream, self.device)
            self._free_streams.add(stream)
        except CudaError:
            self._free_after_all(holding)

    def _free_after_all(self, holding: AllocationHolding) -> None:
        """Frees an allocation whose stream is no more, behind everything that the device was given."""
        calls = cuda()
        try:
            calls.synchronize_device(self.device)
            stream = calls.release_stream(self.device)
            calls.free(holding.address, stream, self.device)
            self._free_streams.add(stream)
        except CudaError:
            # A lost device has taken its memory along.
            pass

    def _destroy(self) -> None:
        calls = cuda()
        try:
            # The driver may crash later if a pool is destroyed before its frees are done.
            for stream in self._free_streams:
                calls.synchronize(stream, self.device)
        except CudaError:
            self._synchronize_device()
        try:
            calls.destroy_pool(self._handle)
        except CudaError:
            pass
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _synchronize_device(self) -> None:
        try:
            cuda().synchronize_device(self.device)
        except CudaError:
            pass


class AllocationHolding(Holding):
    """Who uses an allocation of a pool in this process: its Buffer, views, other libraries, and offers of it."""

    def __init__(self, pool: MemoryPool, address: int, nbytes: int, stream: int):
        self.pool = pool
        self.address = address
        self.nbytes = nbytes
        # It is freed on this stream.
        self.stream = stream
        self._export_data: bytes | None = None
        # Keeps the pool.
        user = pool._holding.add()

        def on_last(streams: UsedStreams) -> None:
            pool._free(self, streams)
            pool._holding.drop(user)

        super().__init__(on_last)

    @property
    def export_data(self) -> bytes:
        """The 64 bytes with which another process maps the allocation.

        Raises SharingError: "too-large" if no process could.
        """
        if self._export_data is None:
            # The driver exports no pointer of a pool that was not exported itself.
            self.pool._export()
            data = cuda().export_pointer(self.address)
            self._export_data = finish_exported_data(data, self.pool.device, self.nbytes)
        return self._export_data


class Buffer(DeviceArray):
    """Memory from a pool: an array that other libraries write and read in place, by DLPack or the array interface.

    It is freed on the stream that it was allocated on, once it was released and no other library, no offer and no
    importer uses it any more.
    """

    _holding: AllocationHolding

    def __init__(self, holding: AllocationHolding, dtype: DType, shape: tuple[int, ...], *, is_typed: bool):
        super().__init__(
            holding, address=holding.address, dtype=dtype, shape=shape, device=holding.pool.device,
            stream=holding.stream, what=f"a buffer of {holding.nbytes} bytes", is_stream_kept=False,
        )
        self._is_typed = is_typed

    @property
    def pool(self) -> MemoryPool:
        return self._holding.pool

    def export_pointer(self) -> bytes:
        """The 64 bytes by which a process that has imported the whole pool maps this buffer.

        Nothing keeps the buffer for that process: free it only when the other one has released it. Raises SharingError:
        "too-large" for more than 4 GiB, or somewhat less, depending on its place in the pool.
        """
        self._check()
        return self._holding.export_data

    def free(self, stream: Any = None) -> None:
        """The same as `release`."""
        self.release(stream)
