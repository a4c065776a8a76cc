"""The revision of a model's weights: a digest of their content, independent of the files that they come from. The
TypeScript library computes the same revision."""
from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Iterable, Sequence

from .cuda import driver
from .device_digests import PIECE, digests_by_kernel
from .torch_views import torch

_DIGEST = 32


def revision(lines: Iterable[tuple[str, str, Sequence[int], bytes]]) -> str:
    """Returns the revision of tensors as 64 hexadecimal digits. Each of the `lines` consists of a tensor's name, its
    dtype and shape as in safetensors files, and the tree digest of its bytes. The order of the lines does not
    matter."""
    whole = hashlib.sha256()
    for name, rest in sorted(
        (name.encode(), f"\0{dtype}\0{','.join(map(str, shape))}\0{digest.hex()}\n".encode())
        for name, dtype, shape, digest in lines
    ):
        whole.update(name + rest)
    return whole.hexdigest()


def tree_digests(tensors: Iterable[Any]) -> list[bytes]:
    """Computes a digest of each tensor, which must be contiguous: the SHA-256 digest of its bytes if they fit into 16
    KiB. Otherwise, the bytes are split into pieces of 16 KiB, and the digest is that of the concatenated digests of the
    pieces, computed in the same way."""
    data = [bytes_of(each) for each in tensors]
    digests = [b""] * len(data)
    on_device: dict[int, list[int]] = {}
    for index, each in enumerate(data):
        if each.is_cuda:
            on_device.setdefault(each.device.index, []).append(index)
        else:
            host = each.cpu()
            digests[index] = _tree_digest(host.data_ptr(), host.numel())
    for device, indexes in on_device.items():
        ranges = [(data[index].data_ptr(), data[index].numel()) for index in indexes]
        stream = torch().cuda.current_stream(device).cuda_stream
        for index, digest in zip(indexes, digests_by_kernel(ranges, device, stream)):
            digests[index] = digest
    return digests


def memory_digests(ranges: Sequence[tuple[int, int]], device: int, stream: int) -> list[bytes]:
    """Computes the tree digest of each range of a device's memory: an address, and a number of bytes. Work of other
    streams that writes the memory must be done."""
    if driver() == "software":
        return [_tree_digest(address, nbytes) for address, nbytes in ranges]
    return digests_by_kernel(ranges, device, stream)


def _tree_digest(address: int, nbytes: int) -> bytes:
    data = memoryview((ctypes.c_char * nbytes).from_address(address))
    return tree_of(b"".join(_digests_of_pieces(data)))


def tree_of(digests: bytes) -> bytes:
    """Returns the tree digest of a tensor, given the digests of the pieces of its bytes."""
    while len(digests) > _DIGEST:
        digests = b"".join(_digests_of_pieces(digests))
    return digests


def bytes_of(tensor: Any) -> Any:
    """Returns the bytes of a contiguous tensor as a one-dimensional tensor of type uint8."""
    return tensor.detach().reshape(-1).view(torch().uint8)


def _digests_of_pieces(data: bytes | memoryview) -> list[bytes]:
    return [hashlib.sha256(data[begin : begin + PIECE]).digest() for begin in range(0, max(1, len(data)), PIECE)]
