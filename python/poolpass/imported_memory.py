"""The allocations of other processes that this process has mapped, each once.

CUDA unmaps an allocation at the first free, however often it was imported (NVIDIA's bug 5570902). Importers of one
process therefore share a mapping, and the last one frees it.
"""
from __future__ import annotations

import threading

from .cuda import cuda
from .errors import SharingError

_lock = threading.Lock()


class ImportedPool:
    """A pool of another process. It is destroyed once its importer and all mappings in it have ended."""

    def __init__(self, descriptor: int, ordinal: int):
        self.ordinal = ordinal
        self.handle = cuda().import_pool(descriptor, ordinal)
        self._users = 1

    def retain(self) -> None:
        self._users += 1

    def release(self) -> None:
        self._users -= 1
        if self._users > 0:
            return
        calls = cuda()
        # A pool whose frees the host has not waited for would leak a descriptor.
        calls.synchronize(calls.release_stream(self.ordinal), self.ordinal)
        calls.destroy_pool(self.handle)


class MappedAllocation:
    """A whole allocation of another process, mapped."""

    def __init__(self, pool: ImportedPool, export_data: bytes, address: int, nbytes: int):
        self.pool = pool
        self.export_data = export_data
        self.address = address
        # As the driver knows it.
        self.nbytes = nbytes
        self.users = 1


_mapped: dict[bytes, MappedAllocation] = {}


def map_allocation(pool: ImportedPool, export_data: bytes, nbytes: int) -> MappedAllocation:
    """Maps an allocation of which the exporter states that it has `nbytes`."""
    with _lock:
        mapped = _mapped.get(export_data)
        if mapped is None:
            address, size = cuda().import_pointer(pool.handle, export_data, pool.ordinal)
            mapped = MappedAllocation(pool, export_data, address, size)
            pool.retain()
            _mapped[export_data] = mapped
        else:
            mapped.users += 1
        if mapped.nbytes >= nbytes:
            return mapped
        text = f"Cannot map memory of {mapped.nbytes} bytes: its exporter states {nbytes}"
        _unmap(mapped, cuda().release_stream(pool.ordinal))
    raise SharingError("size-mismatch", text)


def unmap_allocation(mapped: MappedAllocation, stream: int) -> None:
    """Ends one use of a mapping. All work that used it comes before what the stream is given next."""
    with _lock:
        _unmap(mapped, stream)


def _unmap(mapped: MappedAllocation, stream: int) -> None:
    mapped.users -= 1
    if mapped.users > 0:
        # The last user frees the mapping on the same stream: each device has one for that.
        return
    del _mapped[mapped.export_data]
    cuda().free(mapped.address, stream, mapped.pool.ordinal)
    mapped.pool.release()
