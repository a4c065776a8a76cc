"""Writes the tensors of an entry to a safetensors file, and reads them back. TypeScript does so in the same way."""
from __future__ import annotations

import ctypes
import json
import os
import urllib.parse
from typing import Any

from .cuda import DEVICE_TO_HOST, HOST_TO_DEVICE, cuda
from .errors import SharingError, quoted
from .revision import memory_digests, revision
from .safetensors_files import SafetensorsFiles
from .safetensors_header import PREFIX
from .staged_copies import PIECE, THREADS, move_pieces, write_at
from .tensor_bundle import SAFETENSORS, SAFETENSORS_NAMES, BundledTensor, bits_of, tensors_of
from .whole_memory import WholeMemory

# The key in a file's metadata of the list of tensors, if it is stored in memory.
_MANIFEST = "poolpass.tensors"
# The maximum length in bytes of such a list.
MAXIMUM_MANIFEST = 2**28
# What encodeURIComponent of JavaScript leaves as it is.
_PLAIN = "!~*'()"


def write_weights(folder: str, name: str, metadata: Any, memory: WholeMemory, nbytes: int) -> str:
    """Writes the tensors in memory to NAME@DIGEST.safetensors in a folder. Returns the path. The file is complete when
    it appears. Raises SharingError with the code "not-supported" if a tensor is transposed in memory, because files
    have no strides."""
    manifest = _manifest_of(metadata, memory, nbytes)
    described, places = _described(name, metadata, manifest, nbytes)
    for each in described:
        if each.get("strides") is not None:
            raise SharingError(
                "not-supported",
                f"Cannot write {quoted(name)} to a file: {quoted(each['name'])} is transposed in memory",
            )
    # Tensors with the widest elements come first, so that each is aligned.
    ordered = sorted(zip(described, places), key=lambda each: (-bits_of(_dtype_of(each[0])), each[1].name))
    more = {} if manifest is None else {_MANIFEST: manifest.decode()}
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **more}}
    end = 0
    for each, place in ordered:
        dtype = SAFETENSORS_NAMES[_dtype_of(each)]
        header[place.name] = {"dtype": dtype, "shape": each["shape"], "data_offsets": [end, end + place.nbytes]}
        end += place.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % PREFIX)
    digest = metadata.get("digest") or "unknown"
    own = urllib.parse.quote(name, safe=_PLAIN)
    path = os.path.join(folder, f"{'%2E' + own[1:] if own.startswith('.') else own}@{digest}.safetensors")
    temporary = f"{path}.{os.getpid()}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            write_at(descriptor, memoryview(len(text).to_bytes(PREFIX, "little") + text), 0)
            _write_tensors(descriptor, PREFIX + len(text), [place for _, place in ordered], memory)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
    return path


def read_weights(path: str, name: str, metadata: Any, memory: WholeMemory, nbytes: int) -> None:
    """Fills memory from a file that `write_weights` has written. Raises SharingError with the code "incompatible" if
    the file has other tensors."""
    with SafetensorsFiles(path) as files:
        place = metadata.get("manifest") if isinstance(metadata, dict) else None
        manifest = None
        if place is not None:
            manifest = files.metadata.get(_MANIFEST, "").encode()
            if place != {"byteOffset": place.get("byteOffset"), "byteLength": len(manifest)}:
                raise SharingError(
                    "incompatible", f"Cannot bring {quoted(name)} back: {path} lacks its list of tensors"
                )
        described, places = _described(name, metadata, manifest, nbytes)
        wanted = {
            place.name: (SAFETENSORS_NAMES[_dtype_of(each)], each["shape"], place)
            for each, place in zip(described, places)
        }
        offsets = []
        for tensor in files.tensors:
            dtype, shape, found = wanted.pop(tensor.name, (None, None, None))
            if found is None or (dtype, shape, found.nbytes) != (tensor.dtype, tensor.shape, tensor.nbytes):
                raise SharingError(
                    "incompatible", f"Cannot bring {quoted(name)} back: {quoted(tensor.name)} of {path} is not its own"
                )
            offsets.append(found.byte_offset)
        if wanted:
            raise SharingError("incompatible", f"Cannot bring {quoted(name)} back: {path} lacks {quoted(min(wanted))}")
        files.load(offsets, memory.address, memory.device)
    if manifest and place is not None:
        host = (ctypes.c_char * len(manifest)).from_buffer_copy(manifest)
        calls, device, address = cuda(), memory.device, memory.address + place["byteOffset"]
        stream = calls.copy_stream(device)
        calls.copy(address, ctypes.addressof(host), len(manifest), HOST_TO_DEVICE, stream, device)
        calls.synchronize(stream, device)


def check_weights(name: str, metadata: Any, memory: WholeMemory, nbytes: int) -> None:
    """Computes the digest of what was brought back. Raises SharingError with the code "digest-mismatch" if it is not the
    one that was published. What is not weights, and tensors that are transposed in memory, are not checked."""
    stated = metadata.get("digest") if isinstance(metadata, dict) else None
    if stated is None:
        return
    described, places = _described(name, metadata, _manifest_of(metadata, memory, nbytes), nbytes)
    if any(each.get("strides") is not None for each in described):
        return
    ranges = [(memory.address + each.byte_offset, each.nbytes) for each in places]
    digests = memory_digests(ranges, memory.device, cuda().copy_stream(memory.device))
    found = revision(
        (place.name, SAFETENSORS_NAMES[_dtype_of(each)], each["shape"], digest)
        for each, place, digest in zip(described, places, digests)
    )
    if found != stated:
        raise SharingError(
            "digest-mismatch", f"Cannot bring {quoted(name)} back: its digest is {found}, and was {stated} when it was "
            "published"
        )


def _manifest_of(metadata: Any, memory: WholeMemory, nbytes: int) -> bytes | None:
    """Reads the list of tensors that is stored in memory; None if it is not stored there."""
    place = metadata.get("manifest") if isinstance(metadata, dict) else None
    if place is None:
        return None
    calls, device = cuda(), memory.device
    begin, length = place["byteOffset"], place["byteLength"]
    if not 0 <= begin <= begin + length <= nbytes or length > MAXIMUM_MANIFEST:
        raise SharingError("bad-message", "Cannot read a list of tensors: it is not in the memory")
    return calls.copy_to_host(memory.address + begin, length, calls.copy_stream(device), device)


def _described(
    name: str, metadata: Any, manifest: bytes | None, nbytes: int
) -> tuple[list[dict[str, Any]], list[BundledTensor]]:
    if manifest is not None:
        try:
            metadata = {**metadata, "tensors": json.loads(manifest)}
        except ValueError:
            raise SharingError(
                "bad-message", f"Cannot use the tensors of {quoted(name)}: their list is no JSON"
            ) from None
    places = tensors_of(metadata, nbytes, quoted(name))
    described: list[dict[str, Any]] = metadata["tensors"]
    for each in described:
        if _dtype_of(each) not in SAFETENSORS_NAMES:
            raise SharingError("not-supported", f"Cannot use {quoted(name)} with files: they have no {each['dtype']}")
    return described, places


def _dtype_of(described: dict[str, Any]) -> str:
    dtype: str = described["dtype"]
    return SAFETENSORS.get(dtype, dtype)


def _write_tensors(descriptor: int, byte_offset: int, places: list[BundledTensor], memory: WholeMemory) -> None:
    """Writes tensors one after another."""
    calls, device = cuda(), memory.device
    pieces = []
    for place in places:
        for begin in range(0, place.nbytes, PIECE):
            pieces.append((place.byte_offset + begin, byte_offset + begin, min(PIECE, place.nbytes - begin)))
        byte_offset += place.nbytes

    def act(piece: tuple[int, int, int], host: memoryview, host_address: int, stream: int) -> None:
        source, target, length = piece
        calls.copy(host_address, memory.address + source, length, DEVICE_TO_HOST, stream, device)
        calls.synchronize(stream, device)
        write_at(descriptor, host[:length], target)

    largest = max((length for _, _, length in pieces), default=0)
    move_pieces(pieces, largest, device, min(THREADS, len(pieces)), act)
