"""Memory of any size that can be offered: virtual memory, of which CUDA shares more than 4 GiB in one piece."""
from __future__ import annotations

import math
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any, Sequence

from .cuda import cuda, stream_handle
from .device_array import check_nbytes, check_shape
from .dtypes import UINT8, DType, to_dtype
from .errors import CudaError
from .event_loop import Pace
from .export_data import EXPORT_DATA_LENGTH
from .holding import Holding, UsedStreams
from .memory_pool import AllocationHolding, Buffer, MemorySource
from .whole_memory import map_anywhere, unmap

# Seconds for which memory is awaited that is about to be unmapped, if there is too little.
ROOM_TIMEOUT = 5.0


def allocate_virtual(nbytes: int, *, device: int = 0, stream: Any = None) -> Buffer:
    """Allocates bytes of virtual memory, which an exporter can offer whatever their number. CUDA shares no more than
    4 GiB in one allocation of a pool.

    device: the ordinal of the device that the memory is on. It has a multiple of 2 MiB.
    stream: the stream that the buffer is used on if nothing else is said; the memory can be used at once, on any.

    The memory is not freed in the order of a stream: it is unmapped soon after all work with it is done, and until then
    it counts as used. A process that maps it can reach nothing else.

    Raises CudaUnavailableError, CudaError, TypeError or ValueError.
    """
    return _allocate(UINT8, (check_nbytes(nbytes, "a size"),), device, stream, is_typed=False)


def allocate_virtual_array(shape: Sequence[int], dtype: Any, *, device: int = 0, stream: Any = None) -> Buffer:
    """Allocates an array of virtual memory. See `allocate_virtual`, and `MemoryPool.allocate_array` for `dtype`."""
    return _allocate(to_dtype(dtype), check_shape(shape), device, stream, is_typed=True)


def _allocate(dtype: DType, shape: tuple[int, ...], device: int, stream: Any, *, is_typed: bool) -> Buffer:
    cuda().check_device(device)
    nbytes = dtype.itemsize * math.prod(shape)
    if nbytes < 1:
        raise ValueError(f"Cannot allocate {nbytes} bytes: memory that is shared has at least one")
    handle = stream_handle(stream)
    try:
        memory = VirtualMemory(nbytes, device)
    except CudaError as error:
        if error.code != "CUDA_ERROR_OUT_OF_MEMORY" or not _unmapper.wait_for_room():
            raise
        memory = VirtualMemory(nbytes, device)
    holding = AllocationHolding(memory, memory.address, nbytes, handle, announced=memory.nbytes)
    return Buffer(holding, dtype, shape, is_typed=is_typed)


class VirtualMemory(MemorySource):
    """A piece of virtual memory, mapped. Importers are sent it like a pool that has one allocation."""

    kind = "memory"

    def __init__(self, nbytes: int, device: int):
        super().__init__(device)
        calls = cuda()
        with calls.on_device(device):
            # All of its bytes are a multiple of the granularity.
            self._handle, self.nbytes = calls.create_memory(nbytes, device)
            try:
                self.address = map_anywhere(self._handle, self.nbytes, device, "read-write")
            except BaseException:
                calls.call_driver("cuMemRelease", self._handle)
                raise
        self._holding = Holding(lambda _: self._destroy())
        _unmapper.begin()

    def unmap(self) -> None:
        try:
            unmap(self.address, self.nbytes, self.device)
        except CudaError:
            # A lost device has taken its memory along.
            pass

    def _export_handle(self) -> int:
        return cuda().export_memory(self._handle)

    def _export_pointer(self, address: int, nbytes: int) -> bytes:
        # The descriptor alone says which memory it is.
        return bytes(EXPORT_DATA_LENGTH)

    def _free(self, holding: AllocationHolding, streams: UsedStreams) -> None:
        events = None if streams is None else cuda().events_behind(streams, self.device)
        _unmapper.add(_Unmapping(self, events))

    def _destroy(self) -> None:
        # The mapping keeps the memory.
        try:
            cuda().call_driver("cuMemRelease", self._handle)
        except CudaError:
            pass
        self._close_descriptor()


@dataclass(eq=False)
class _Unmapping:
    """Memory that is unmapped once events have fired, or once the device has done its work if there are none."""

    memory: VirtualMemory
    events: list[Any] | None

    def is_done(self) -> bool:
        calls = cuda()
        try:
            if self.events is None:
                calls.synchronize_device(self.memory.device)
                return True
            while self.events:
                if not calls.has_fired(self.events[-1]):
                    return False
                calls.destroy_event(self.events.pop())
        except CudaError:
            # The device is lost.
            pass
        return True


class _Unmapper:
    """A thread that unmaps memory once the work with it is done: the last user, which may be a garbage
    collection or the thread of an exporter, does not wait for that. It runs while there is virtual memory."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        # How many pieces of memory are mapped.
        self._mapped = 0
        self._waiting: list[_Unmapping] = []
        # Reentrant, unlike events and conditions.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def begin(self) -> None:
        """A piece of memory was mapped, for which `add` will be called."""
        with self._changed:
            self._mapped += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="poolpass-unmapper", daemon=True)
                self._thread.start()

    def add(self, unmapping: _Unmapping) -> None:
        """Takes no lock: finalizers call it."""
        self._waiting.append(unmapping)
        self._wake.put(None)

    def wait_for_room(self) -> bool:
        """Waits until what is to be unmapped is. Returns whether there was anything."""
        deadline = time.monotonic() + ROOM_TIMEOUT
        had_any = len(self._waiting) > 0
        with self._changed:
            while self._waiting and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
        return had_any

    def _run(self) -> None:
        pace = Pace()
        while True:
            try:
                self._wake.get(timeout=max(0.0, pace.next() - time.monotonic()) if self._waiting else None)
                pace.restart()
            except queue.Empty:
                pass
            done = [each for each in list(self._waiting) if each.is_done()]
            for each in done:
                each.memory.unmap()
                self._waiting.remove(each)
            if not done:
                continue
            pace.restart()
            with self._changed:
                self._mapped -= len(done)
                self._changed.notify_all()
                if self._mapped == 0:
                    self._thread = None
                    return


_unmapper = _Unmapper()
