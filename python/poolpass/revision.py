"""The revision of weights: a digest of what they are, wherever they come from. TypeScript computes the same."""
from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Iterable, Sequence

from .device_digests import PIECE, digests_by_kernel
from .torch_views import torch


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


def tree_digests(tensors: Iterable[Any]) -> list[bytes]:
    """Returns for each contiguous tensor of PyTorch the SHA-256 digest of its bytes if they fit into 16 KiB, otherwise
    the digest of the digests of its pieces of 16 KiB, computed the same way."""
    data = [bytes_of(each) for each in tensors]
    digests = [b""] * len(data)
    on_device: dict[int, list[int]] = {}
    for index, each in enumerate(data):
        if each.is_cuda:
            on_device.setdefault(each.device.index, []).append(index)
        else:
            digests[index] = _tree_digest(each.cpu())
    for indexes in on_device.values():
        for index, digest in zip(indexes, digests_by_kernel([data[index] for index in indexes])):
            digests[index] = digest
    return digests


def _tree_digest(host: Any) -> bytes:
    digests = _digests_of_pieces(memoryview((ctypes.c_char * host.numel()).from_address(host.data_ptr())))
    while len(digests) > 1:
        digests = _digests_of_pieces(b"".join(digests))
    return digests[0]


def bytes_of(tensor: Any) -> Any:
    """The bytes of a contiguous tensor, in one dimension."""
    return tensor.detach().reshape(-1).view(torch().uint8)


def _digests_of_pieces(data: bytes | memoryview) -> list[bytes]:
    return [hashlib.sha256(data[begin : begin + PIECE]).digest() for begin in range(0, max(1, len(data)), PIECE)]
