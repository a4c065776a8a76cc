"""What the 64 bytes of cudaMemPoolExportPointer state.

CUDA calls them opaque, but its driver believes them: a size or an offset that is too large ends the importing process
(driver 580, measured). They are therefore read before the driver sees them, where they have the layout that is known.
"""
from __future__ import annotations

import os
import struct
import threading
import time

from .cuda import cuda
from .errors import CudaError, SharingError

EXPORT_DATA_LENGTH = 64
# The process, the offset in the pool and the size.
_FIELDS = struct.Struct("<Q16xQQ")
# From here on, the driver writes what its stack holds: addresses of the exporter's code. Imports do not read it.
_UNINITIALIZED_BEGIN = 48
# Pools consist of pieces of this many bytes.
_PIECE = 32 * 2**20
# The driver's import has room for this many pieces of an allocation, and writes beyond it for more.
_MAXIMUM_PIECES = 128
# The size in bytes up to which an allocation can be imported, wherever it begins in its pool.
MAXIMUM_IMPORTABLE = (_MAXIMUM_PIECES - 1) * _PIECE
# The size in bytes beyond which no allocation can be imported.
_LIMIT = _MAXIMUM_PIECES * _PIECE
# No device has so much memory: a larger offset was written by no driver, and ends the importer as well.
_MAXIMUM_OFFSET = 2**40
# Seconds until the layout is tried again, if there was no memory for that, or another library captured.
_RETRY_PAUSE = 1.0
# How memory of any size is allocated for other processes, in Python and elsewhere.
SHAREABLE_ADVICE = (
    'for other processes by poolpass.allocate_virtual, or elsewhere by CudaDevice.allocate(byteLength, { handleType: '
    '"posix-fd" })'
)


class ExportDataLayout:
    """Whether the driver's export data has the layout that is known. Decided at the first use."""

    def __init__(self) -> None:
        self._is_known: bool | None = None
        self._next_try = 0.0
        # Reentrant, as all locks that a finalizer may need.
        self._lock = threading.RLock()

    def is_known_on(self, ordinal: int) -> bool:
        """Whether the layout is known. Tries it on a device, unless that was done."""
        if self._is_known is not None:
            return self._is_known
        with self._lock:
            return self._decide(ordinal) if self._is_known is None else self._is_known

    def _decide(self, ordinal: int) -> bool:
        if time.monotonic() < self._next_try:
            return False
        try:
            self._is_known = _is_layout_known(ordinal)
        except CudaError as error:
            # Devices that cannot export, such as those of WSL, fail in other ways.
            if error.code == "cudaErrorMemoryAllocation" or error.code.startswith("cudaErrorStreamCapture"):
                self._next_try = time.monotonic() + _RETRY_PAUSE
            else:
                self._is_known = False
        return self._is_known is True


layout = ExportDataLayout()


def check_imported_data(export_data: bytes, ordinal: int, stated: int, *, is_whole: bool) -> int | None:
    """Checks export data before the driver imports it. Returns the size in bytes that the driver will map; None if the
    layout is not known.

    stated: what the exporter says the allocation has, in bytes.
    is_whole: whether the allocation must have that size, and not at least that size.

    Raises SharingError: "too-large", "size-mismatch", or "bad-message" if no driver has written the data.
    """
    if not layout.is_known_on(ordinal):
        if stated > _LIMIT:
            raise _too_large(f"import {stated} bytes", "the exporter must ")
        return None
    _, byte_offset, nbytes = _FIELDS.unpack_from(export_data)
    if nbytes == 0 or byte_offset + nbytes > _MAXIMUM_OFFSET:
        raise SharingError(
            "bad-message",
            f"Cannot import a pointer: its export data states {nbytes} bytes at byte {byte_offset} of its pool, which "
            "no exporter's driver writes",
        )
    check_size(nbytes, stated, is_whole=is_whole)
    if _pieces_of(byte_offset, nbytes) > _MAXIMUM_PIECES:
        raise _too_large(f"import {nbytes} bytes", "the exporter must ")
    return int(nbytes)


def check_size(nbytes: int, stated: int, *, is_whole: bool) -> None:
    """Raises SharingError for an exporter that states another size than it has allocated: "size-mismatch"."""
    if stated > nbytes or is_whole and stated < nbytes:
        raise SharingError(
            "size-mismatch", f"Cannot import memory of {stated} bytes: its exporter has allocated {nbytes}"
        )


def finish_exported_data(export_data: bytes, ordinal: int, nbytes: int) -> bytes:
    """Checks export data of this process, and removes what the driver did not initialize from it.

    Raises SharingError: "too-large" if no process could import it.
    """
    what = f"export a buffer of {nbytes} bytes"
    if not layout.is_known_on(ordinal):
        if nbytes > _LIMIT:
            raise _too_large(what)
        return export_data
    _, byte_offset, _ = _FIELDS.unpack_from(export_data)
    if _pieces_of(byte_offset, nbytes) > _MAXIMUM_PIECES:
        raise _too_large(what)
    return export_data[:_UNINITIALIZED_BEGIN] + bytes(EXPORT_DATA_LENGTH - _UNINITIALIZED_BEGIN)


def identity_of(export_data: bytes, ordinal: int) -> bytes:
    """The bytes that two export data of one allocation have in common: a mapping is found by them."""
    return export_data[:_UNINITIALIZED_BEGIN] if layout.is_known_on(ordinal) else export_data


def _pieces_of(byte_offset: int, nbytes: int) -> int:
    """The number of the pool's pieces that a range lies in."""
    return (byte_offset + nbytes - 1) // _PIECE - byte_offset // _PIECE + 1


def _too_large(what: str, who: str = "") -> SharingError:
    """The error for an allocation that ends the process that imports it."""
    return SharingError(
        "too-large",
        f"Cannot {what}: NVIDIA's driver ends a process that imports an allocation of a pool that lies in more than "
        f"{_MAXIMUM_PIECES} pieces of 32 MiB; {who}allocate it {SHAREABLE_ADVICE}, or in parts of at most "
        f"{MAXIMUM_IMPORTABLE} bytes",
    )


def _is_layout_known(ordinal: int) -> bool:
    """Exports two allocations, and looks whether the data has what is known of it. Keeps nothing."""
    calls = cuda()
    # Not a stream that others use, behind whose work the frees would have to be awaited.
    with calls.temporary_stream(ordinal) as stream:
        pool = calls.create_pool(ordinal)
        addresses: list[int] = []
        try:
            sizes = (2**20 + 512, 2**19 + 1024)
            for nbytes in sizes:
                addresses.append(calls.allocate(pool, nbytes, stream, ordinal))
            os.close(calls.export_pool(pool))
            fields = [_FIELDS.unpack_from(calls.export_pointer(each)) for each in addresses]
            (first_pid, first, first_size), (second_pid, second, second_size) = fields
            return (
                first_pid == second_pid == os.getpid() and (first_size, second_size) == sizes
                and second - first == addresses[1] - addresses[0]
            )
        finally:
            for address in addresses:
                calls.free(address, stream, ordinal)
            calls.synchronize(stream, ordinal)
            calls.destroy_pool(pool)
