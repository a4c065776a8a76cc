"""Computes digests of device memory with a kernel, which the TypeScript library uses as well."""
from __future__ import annotations

import ctypes
import importlib
from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Callable, Sequence

from .cuda import HOST_TO_DEVICE, cuda

# The size of a piece in bytes. Each piece is hashed by one thread.
PIECE = 16 * 2**10
_DIGEST = 32
_THREADS = 128

# Launches the kernel. The arguments are the address of the table, the number of ranges in it, and the total number of
# pieces.
Launch = Callable[[int, int, int], None]


@dataclass
class _Range:
    """A range of bytes. The kernel hashes all of its pieces."""

    index: int
    address: int
    nbytes: int

    @property
    def pieces(self) -> int:
        return max(1, -(-self.nbytes // PIECE))


def device_digests(ranges: Sequence[tuple[int, int]], device: int, stream: int, launch: Launch) -> list[bytes]:
    """Returns the tree digest of each range of a device's memory: an address, and a number of bytes. `launch` enqueues
    the kernel on the stream."""
    if not ranges:
        return []
    calls = cuda()
    with ExitStack() as stack:

        def allocate(nbytes: int) -> int:
            return stack.enter_context(calls.temporary_memory(nbytes, stream, device))

        roots = allocate(_DIGEST * len(ranges))
        levels = [_Range(index, address, nbytes) for index, (address, nbytes) in enumerate(ranges)]
        # Keep what is copied until the copies are complete.
        kept = []
        while levels:
            inner = allocate(_DIGEST * max(1, sum(each.pieces for each in levels if each.pieces > 1)))
            words = array("Q")
            above = []
            first = 0
            for each in levels:
                target = roots + _DIGEST * each.index
                if each.pieces > 1:
                    target, inner = inner, inner + _DIGEST * each.pieces
                    above.append(_Range(each.index, target, _DIGEST * each.pieces))
                words.extend((each.address, each.nbytes, target, first))
                first += each.pieces
            kept.append(words)
            host, count = words.buffer_info()
            table = allocate(count * words.itemsize)
            calls.copy(table, host, count * words.itemsize, HOST_TO_DEVICE, stream, device)
            launch(table, len(levels), first)
            levels = above
        # Waits for the kernels.
        digests = calls.copy_to_host(roots, _DIGEST * len(ranges), stream, device)
    return [digests[begin : begin + _DIGEST] for begin in range(0, len(digests), _DIGEST)]


def digests_by_kernel(ranges: Sequence[tuple[int, int]], device: int, stream: int) -> list[bytes]:
    """Like `device_digests`, with the kernel in `tree_digest.ptx`."""
    calls = cuda()
    with calls.on_device(device):
        module = calls.call_driver("cuModuleLoadData", _ptx())
        try:
            kernel = calls.call_driver("cuModuleGetFunction", module, b"tree_digest")

            def launch(table: int, ranges: int, pieces: int) -> None:
                calls.call_driver(
                    "cuLaunchKernel", kernel, -(-pieces // _THREADS), 1, 1, _THREADS, 1, 1, 0, stream,
                    ((table, ranges, pieces), (ctypes.c_void_p, ctypes.c_uint, ctypes.c_ulonglong)), 0,
                )

            return device_digests(ranges, device, stream, launch)
        finally:
            calls.call_driver("cuModuleUnload", module)


def _ptx() -> bytes:
    # The driver expects a null-terminated string.
    # Imported here, because it takes several milliseconds.
    resources = importlib.import_module("importlib.resources")
    return bytes(resources.files(__package__).joinpath("tree_digest.ptx").read_bytes()) + b"\0"
