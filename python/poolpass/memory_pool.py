"""Pools whose memory can be shared, and buffers in them."""
from __future__ import annotations

import math
import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any, Sequence

from .closing import Closing
from .cuda import cuda, stream_handle
from .device_array import DeviceArray, check_nbytes, check_shape
from .dtypes import UINT8, DType, to_dtype
from .errors import CudaError
from .export_data import finish_exported_data
from .holding import Holding, UsedStreams
from .messages import PoolKind


class MemorySource(ABC):
    """What allocations come from that can be offered: a pool, or a piece of virtual memory."""

    kind: PoolKind
    _holding: Holding

    def __init__(self, device: int):
        self.device = device
        self._descriptor = -1
        self._lock = threading.Lock()

    def _export(self) -> int:
        """The descriptor that importers are sent. The source owns it."""
        with self._lock:
            if self._descriptor < 0:
                self._descriptor = self._export_handle()
            return self._descriptor

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @abstractmethod
    def _export_handle(self) -> int:
        """Returns a descriptor, which the caller owns."""

    @abstractmethod
    def _export_pointer(self, address: int, nbytes: int) -> bytes:
        """The export data of an allocation. Raises SharingError: "too-large" if no process could import it."""

    @abstractmethod
    def _free(self, holding: AllocationHolding, streams: UsedStreams) -> None:
        """Frees an allocation behind the work of streams."""


class MemoryPool(MemorySource, Closing):
    """A stream-ordered memory pool on one device, whose memory other processes can map by its descriptor.

    The pool is the boundary: a process that maps one of its buffers can reach all of it. What another process must not
    see belongs into another pool.
    """

    kind = "device"

    def __init__(self, device: int = 0):
        """Creates the pool on the device with this ordinal. Raises CudaUnavailableError, CudaError or ValueError."""
        super().__init__(device)
        calls = cuda()
        calls.check_device(device)
        self._handle = calls.create_pool(device)
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

    def _export_handle(self) -> int:
        return cuda().export_pool(self._handle)

    def _export_pointer(self, address: int, nbytes: int) -> bytes:
        # The driver exports no pointer of a pool that was not exported itself.
        self._export()
        return finish_exported_data(cuda().export_pointer(address), self.device, nbytes)

    def _free(self, holding: AllocationHolding, streams: UsedStreams) -> None:
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
        self._close_descriptor()

    def _synchronize_device(self) -> None:
        try:
            cuda().synchronize_device(self.device)
        except CudaError:
            pass


class AllocationHolding(Holding):
    """Who uses an allocation in this process: its Buffer, views, other libraries, and offers of it."""

    def __init__(
        self, pool: MemorySource, address: int, nbytes: int, stream: int, *, announced: int | None = None
    ):
        self.pool = pool
        self.address = address
        self.nbytes = nbytes
        # The bytes that importers map: for virtual memory, all of its units.
        self.announced = nbytes if announced is None else announced
        # Memory of a pool is freed on this stream.
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
            self._export_data = self.pool._export_pointer(self.address, self.nbytes)
        return self._export_data


class Buffer(DeviceArray):
    """Memory from a pool, or of `allocate_virtual`: an array that other libraries write and read in place, by DLPack or
    the array interface.

    It is freed once it was released and no other library, no offer and no importer uses it any more: memory of a pool
    on the stream that it was allocated on, and virtual memory after the work with it.
    """

    _holding: AllocationHolding

    def __init__(self, holding: AllocationHolding, dtype: DType, shape: tuple[int, ...], *, is_typed: bool):
        super().__init__(
            holding, address=holding.address, dtype=dtype, shape=shape, device=holding.pool.device,
            stream=holding.stream, what=f"a buffer of {holding.nbytes} bytes", is_stream_kept=False,
        )
        self._is_typed = is_typed

    @property
    def pool(self) -> MemoryPool | None:
        """The pool that it is from; None for virtual memory, which is from none."""
        pool = self._holding.pool
        return pool if isinstance(pool, MemoryPool) else None

    def export_pointer(self) -> bytes:
        """The 64 bytes by which a process that has imported the whole pool maps this buffer.

        Nothing keeps the buffer for that process: free it only when the other one has released it. Raises SharingError:
        "too-large" for more than 4 GiB, or somewhat less, depending on its place in the pool. Raises TypeError for
        virtual memory.
        """
        self._check()
        if self.pool is None:
            raise TypeError("Cannot export a pointer to virtual memory: it is in no pool; offer it with an Exporter")
        return self._holding.export_data

    def free(self, stream: Any = None) -> None:
        """The same as `release`."""
        self.release(stream)
