"""The allocations of other processes that this process has mapped, each once.

CUDA unmaps an allocation at the first free, however often it was imported (NVIDIA's bug 5570902). Importers of one
process therefore share a mapping, and the last one frees it.
"""
from __future__ import annotations

import threading

from .cuda import cuda
from .export_data import check_imported_data, check_size, identity_of
from .peer import Peer

_lock = threading.Lock()


class ImportedPool:
    """A pool of another process. It is destroyed once its importer and all mappings in it have ended."""

    def __init__(self, descriptor: int, ordinal: int, exporter: Peer):
        self.ordinal = ordinal
        self.exporter = exporter
        self.handle = cuda().import_pool(descriptor, ordinal)
        self._users = 1
        # The number of calls of `retain`.
        self.uses = 0

    @property
    def is_used(self) -> bool:
        """Whether the pool has any users other than its importer."""
        return self._users > 1

    def retain(self) -> None:
        self._users += 1
        self.uses += 1

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

    def __init__(self, pool: ImportedPool, key: Key, address: int, nbytes: int):
        self.pool = pool
        self.key = key
        self.address = address
        # As the driver knows it.
        self.nbytes = nbytes
        self.users = 1


# The exporter's process and user, and what its export data says: an exporter could send those of another one.
Key = tuple[int, int, bytes]
_mapped: dict[Key, MappedAllocation] = {}


def map_allocation(pool: ImportedPool, export_data: bytes, stated: int, *, is_whole: bool) -> MappedAllocation:
    """Maps an allocation of which the exporter states a size in bytes: all of it, or what is needed of it.

    Raises SharingError: "too-large", "size-mismatch", or "bad-message" if no driver has written the export data.
    """
    with _lock:
        key = (pool.exporter.pid, pool.exporter.uid, identity_of(export_data, pool.ordinal))
        mapped = _mapped.get(key)
        if mapped is not None:
            check_size(mapped.nbytes, stated, is_whole=is_whole)
            mapped.users += 1
            return mapped
        calls = cuda()
        known = check_imported_data(export_data, pool.ordinal, stated, is_whole=is_whole)
        address = calls.import_pointer(pool.handle, export_data, pool.ordinal)
        size = calls.size_of(address, pool.ordinal) if known is None else known
        mapped = _mapped[key] = MappedAllocation(pool, key, address, size)
        pool.retain()
        try:
            check_size(size, stated, is_whole=is_whole)
        except BaseException:
            _unmap(mapped, calls.release_stream(pool.ordinal))
            raise
        return mapped


def unmap_allocation(mapped: MappedAllocation, stream: int) -> None:
    """Ends one use of a mapping. All work that used it comes before what the stream is given next."""
    with _lock:
        _unmap(mapped, stream)


def _unmap(mapped: MappedAllocation, stream: int) -> None:
    mapped.users -= 1
    if mapped.users > 0:
        # The last user frees the mapping on the same stream: each device has one for that.
        return
    del _mapped[mapped.key]
    cuda().free(mapped.address, stream, mapped.pool.ordinal)
    mapped.pool.release()
