"""Computes digests of tensors in device memory with a kernel, which the TypeScript library uses as well."""
from __future__ import annotations

import ctypes
import importlib
from dataclasses import dataclass
from typing import Any, Callable, Sequence

from .cuda import cuda
from .torch_views import torch

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


def device_digests(tensors: Sequence[Any], launch: Launch) -> list[bytes]:
    """Returns the tree digest of each tensor. The tensors must be one-dimensional, contiguous, of type uint8, and on
    the same device. `launch` enqueues the kernel on PyTorch's current stream of this device."""
    if not tensors:
        return []
    library, device = torch(), tensors[0].device
    roots = library.empty(_DIGEST * len(tensors), dtype=library.uint8, device=device)
    levels = [_Range(index, each.data_ptr(), each.numel()) for index, each in enumerate(tensors)]
    # Keep the memory until the kernels, which read and write it, are complete.
    kept = []
    while levels:
        inner = library.empty(
            _DIGEST * sum(each.pieces for each in levels if each.pieces > 1), dtype=library.uint8, device=device
        )
        words: list[int] = []
        above = []
        first, inner_first = 0, 0
        for each in levels:
            target = roots.data_ptr() + _DIGEST * each.index
            if each.pieces > 1:
                target = inner.data_ptr() + _DIGEST * inner_first
                above.append(_Range(each.index, target, _DIGEST * each.pieces))
                inner_first += each.pieces
            words += [each.address, each.nbytes, target, first]
            first += each.pieces
        table = library.tensor(words, dtype=library.int64, device=device)
        launch(table.data_ptr(), len(levels), first)
        kept += [inner, table]
        levels = above
    # Waits for the kernels.
    host = bytes(roots.cpu().tolist())
    return [host[begin : begin + _DIGEST] for begin in range(0, len(host), _DIGEST)]


def digests_by_kernel(tensors: Sequence[Any]) -> list[bytes]:
    """Like `device_digests`, with the kernel in `tree_digest.ptx`. The tensors must be on the same GPU."""
    if not tensors:
        return []
    ordinal = tensors[0].device.index
    calls = cuda()
    with calls.on_device(ordinal):
        module = calls.call_driver("cuModuleLoadData", _ptx())
        try:
            kernel = calls.call_driver("cuModuleGetFunction", module, b"tree_digest")
            stream = torch().cuda.current_stream(ordinal).cuda_stream

            def launch(table: int, ranges: int, pieces: int) -> None:
                calls.call_driver(
                    "cuLaunchKernel", kernel, -(-pieces // _THREADS), 1, 1, _THREADS, 1, 1, 0, stream,
                    ((table, ranges, pieces), (ctypes.c_void_p, ctypes.c_uint, ctypes.c_ulonglong)), 0,
                )

            return device_digests(tensors, launch)
        finally:
            calls.call_driver("cuModuleUnload", module)


def _ptx() -> bytes:
    # The driver expects a null-terminated string.
    # Imported here, because it takes several milliseconds.
    resources = importlib.import_module("importlib.resources")
    return bytes(resources.files(__package__).joinpath("tree_digest.ptx").read_bytes()) + b"\0"
