"""The revision of weights: a digest of what they are, wherever they come from. TypeScript computes the same."""
from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Iterable, Sequence

from .torch_views import torch

# The size in bytes of a piece of a tree.
_PIECE = 16 * 2**10
# So much of a device's memory is copied to the host at a time: a multiple of the piece.
_COPIED = 64 * 2**20


def revision(lines: Iterable[tuple[str, str, Sequence[int], bytes]]) -> str:
    """Returns the revision of tensors as 64 hexadecimal digits. A line is the name of a tensor, the dtype and the shape
    as safetensors files have them, and the tree digest of the bytes. The order of the lines is of no importance."""
    whole = hashlib.sha256()
    for name, rest in sorted(
        (name.encode(), f"\0{dtype}\0{','.join(map(str, shape))}\0{digest.hex()}\n".encode())
        for name, dtype, shape, digest in lines
    ):
        whole.update(name + rest)
    return whole.hexdigest()


def tree_digest(tensor: Any) -> bytes:
    """Returns the SHA-256 digest of the bytes of a contiguous tensor of PyTorch if they fit into 16 KiB, otherwise the
    digest of the digests of its pieces of 16 KiB, computed the same way."""
    digests = []
    for part in bytes_of(tensor).split(_COPIED):
        host = part.cpu()
        view = memoryview((ctypes.c_char * host.numel()).from_address(host.data_ptr()))
        digests += _digests_of_pieces(view)
    while len(digests) > 1:
        digests = _digests_of_pieces(b"".join(digests))
    return digests[0]


def bytes_of(tensor: Any) -> Any:
    """The bytes of a contiguous tensor, in one dimension."""
    return tensor.detach().reshape(-1).view(torch().uint8)


def _digests_of_pieces(data: bytes | memoryview) -> list[bytes]:
    return [hashlib.sha256(data[begin : begin + _PIECE]).digest() for begin in range(0, max(1, len(data)), _PIECE)]
