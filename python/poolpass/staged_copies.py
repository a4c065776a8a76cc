"""Copies through page-locked memory: several threads each move one piece after another."""
from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import threading
from contextlib import ExitStack, contextmanager
from typing import Callable, Generic, Iterable, Iterator, TypeVar

from .cuda import DEVICE_TO_HOST, HOST_TO_DEVICE, cuda
from .descriptors import is_sealed_memory
from .errors import SharingError

Piece = TypeVar("Piece")
# The size in bytes of what a thread moves at once: more does not stay in the processor's caches between the two copies.
# With these, 16 GiB came back from host memory in 0.69 s on an H200. Files are read with other numbers.
PIECE = 4 * 2**20
THREADS = 16
# The number of pieces of a thread: while it reads one, another is copied.
BUFFERS = 2

_HUGE_PAGE = 2 * 2**20
# Linux before 6.1 refuses this, and nothing changes.
_MADV_COLLAPSE = 25
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
]
_libc.mmap.restype = ctypes.c_void_p

# Moves a piece through page-locked memory. The arguments are the piece, the memory, its address, and a stream, whose
# work is waited for before the memory is used again.
Act = Callable[[Piece, memoryview, int, int], None]


def move_pieces(pieces: Iterable[Piece], nbytes: int, device: int, threads: int, act: Act[Piece]) -> None:
    """Moves all pieces, each of at most `nbytes` bytes. Raises the first error, once nothing is copied any more."""
    _Moves(pieces, nbytes, device, act).run(threads)


def copy_file(descriptor: int, address: int, nbytes: int, device: int, *, to_device: bool) -> None:
    """Copies the beginning of a file to device memory, or back. Raises SharingError with the code "bad-message" if the
    file is shorter."""
    calls = cuda()

    def read(begin: int, host: memoryview, host_address: int, stream: int) -> None:
        data = host[: min(PIECE, nbytes - begin)]
        if read_at(descriptor, data, begin) < len(data):
            raise SharingError("bad-message", f"Cannot copy {nbytes} bytes from host memory: it is shorter")
        calls.copy(address + begin, host_address, len(data), HOST_TO_DEVICE, stream, device)

    def write(begin: int, host: memoryview, host_address: int, stream: int) -> None:
        data = host[: min(PIECE, nbytes - begin)]
        calls.copy(host_address, address + begin, len(data), DEVICE_TO_HOST, stream, device)
        if mapped is not None:
            _use_huge_pages(mapped + begin, len(data))
        calls.synchronize(stream, device)
        if mapped is None:
            write_at(descriptor, data, begin)
        else:
            ctypes.memmove(mapped + begin, host_address, len(data))

    begins = range(0, nbytes, PIECE)
    with _mapped_for_writing(None if to_device else descriptor, nbytes) as mapped:
        move_pieces(begins, min(PIECE, nbytes), device, min(THREADS, len(begins)), read if to_device else write)


@contextmanager
def _mapped_for_writing(descriptor: int | None, nbytes: int) -> Iterator[int | None]:
    """Maps a file, because the kernel lets only one thread call `pwrite` for a file. Yields the address; None if another
    process could shrink the file, because writing behind its end kills the process."""
    if descriptor is None or not is_sealed_memory(descriptor) or os.fstat(descriptor).st_size < nbytes:
        yield None
        return
    reserved = _map(None, nbytes + _HUGE_PAGE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, -1)
    try:
        address = -(-reserved // _HUGE_PAGE) * _HUGE_PAGE
        yield _map(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED, descriptor)
    finally:
        _libc.munmap(reserved, nbytes + _HUGE_PAGE)


def _map(address: int | None, nbytes: int, access: int, flags: int, descriptor: int) -> int:
    """Maps memory. The module `mmap` cannot choose an address, and huge pages need a multiple of their size."""
    mapped: int = _libc.mmap(address, nbytes, access, flags, descriptor, 0)
    if mapped == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return mapped


def _use_huge_pages(address: int, nbytes: int) -> None:
    """Gives a range of a memory file that is about to be written huge pages, if the kernel can: it takes far longer to
    provide and to free single ones. Only what has a page already can become a huge page."""
    for begin in range(address, address + nbytes - _HUGE_PAGE + 1, _HUGE_PAGE):
        ctypes.memset(begin, 0, 1)
        _libc.madvise(begin, _HUGE_PAGE, _MADV_COLLAPSE)


def read_at(descriptor: int, data: memoryview, byte_offset: int) -> int:
    """Reads from a file until `data` is full, or the file ends. Returns the number of bytes."""
    count = 0
    while count < len(data):
        length = os.preadv(descriptor, [data[count:]], byte_offset + count)
        if length == 0:
            break
        count += length
    return count


def write_at(descriptor: int, data: memoryview, byte_offset: int) -> None:
    """Writes all of `data` to a file."""
    while data:
        written = os.pwrite(descriptor, data, byte_offset)
        byte_offset, data = byte_offset + written, data[written:]


class _Moves(Generic[Piece]):
    def __init__(self, pieces: Iterable[Piece], nbytes: int, device: int, act: Act[Piece]):
        self._pieces = iter(pieces)
        self._nbytes = nbytes
        self._device = device
        self._act = act
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def run(self, count: int) -> None:
        threads = [threading.Thread(target=self._run, name="poolpass-copier", daemon=True) for _ in range(count)]
        try:
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        except BaseException as error:
            # The caller frees the memory: nothing may be copied there any more.
            self._fail(error)
            for each in threads:
                if each.ident is not None:
                    each.join()
            raise
        if self._error is not None:
            raise self._error

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None:
                self._error = error

    def _next(self) -> Piece | None:
        with self._lock:
            return None if self._error is not None else next(self._pieces, None)

    def _run(self) -> None:
        calls, device = cuda(), self._device
        try:
            with ExitStack() as stack:
                first = stack.enter_context(calls.page_locked(BUFFERS * self._nbytes, device))
                buffers = []
                for address in range(first, first + BUFFERS * self._nbytes, self._nbytes):
                    stream = stack.enter_context(calls.temporary_stream(device))
                    # The memory is freed once nothing is copied any more.
                    stack.callback(calls.synchronize, stream, device)
                    host = memoryview((ctypes.c_char * self._nbytes).from_address(address)).cast("B")
                    buffers.append((host, address, stream))
                for buffer in itertools.cycle(buffers):
                    calls.synchronize(buffer[2], device)
                    piece = self._next()
                    if piece is None:
                        break
                    self._act(piece, *buffer)
        except BaseException as error:
            self._fail(error)
