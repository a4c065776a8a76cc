"""Reads safetensors files into device memory. Pieces of the files are read by several threads, through page-locked
memory."""
from __future__ import annotations

import glob
import hashlib
import os
from dataclasses import dataclass, field
from typing import Any, Iterator, Sequence

from .closing import Closing
from .cuda import HOST_TO_DEVICE, cuda
from .device_digests import PIECE
from .errors import needing_descriptors
from .revision import tree_of
from .safetensors_header import PREFIX, FileTensor, header_length, parse_header, parse_index
from .staged_copies import move_pieces, read_at

# The maximum size in bytes of what is read with a single call, a multiple of the pieces of digests, and the number of
# threads that read. Of 8, 12 and 16 threads with pieces of 4 and 8 MiB, these read 16 GiB from the page cache the fastest
# on an H200: in 1.1 s, where 16 threads with pieces of 4 MiB took 2.7 s.
_PIECE = 8 * 2**20
THREADS = 8
_MAXIMUM_INDEX = 200_000_000


@dataclass(eq=False)
class PlacedTensor:
    """A tensor of a file, and its offset in memory in bytes."""

    tensor: FileTensor
    byte_offset: int
    # The digests of the pieces of its bytes, if they are computed.
    digests: bytearray = field(default_factory=bytearray)


@dataclass(eq=False)
class _File:
    path: str
    descriptor: int
    tensors: list[FileTensor]
    data_offset: int
    before: os.stat_result
    header_digest: str
    metadata: dict[str, str]

    @property
    def source(self) -> dict[str, Any]:
        """Identifies the file. JSON has no exact numbers of this size, so that times and inodes are strings."""
        before = self.before
        return {
            "path": self.path, "dev": str(before.st_dev), "ino": str(before.st_ino), "size": before.st_size,
            "mtimeNs": str(before.st_mtime_ns), "ctimeNs": str(before.st_ctime_ns), "header": self.header_digest,
        }


@dataclass
class _Part:
    """A range of a tensor's bytes."""

    placed: PlacedTensor
    # The offset of the range in the tensor.
    begin: int
    nbytes: int


@dataclass
class _Piece:
    """A range of a file."""

    file: _File
    byte_offset: int
    parts: list[_Part]

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.parts)


class SafetensorsFiles(Closing):
    """An open safetensors file, or the open files of a model."""

    def __init__(self, path: str | os.PathLike[str]):
        """path: a file, an index of files, or a folder that contains the files of one model.

        Raises OSError if a file cannot be opened, and ValueError if a file is not valid, or the folder does not contain
        one model."""
        self._files: list[_File] = []
        try:
            with needing_descriptors(f"read {os.fspath(path)}"):
                for file, names in _files_at(os.fspath(path)):
                    self._files.append(_open(file, names))
        except BaseException:
            self.close()
            raise

    @property
    def tensors(self) -> list[FileTensor]:
        return [each for file in self._files for each in file.tensors]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata stored in the files."""
        return {key: value for file in self._files for key, value in file.metadata.items()}

    @property
    def sources(self) -> list[dict[str, Any]]:
        """Identifies the files: their paths, inodes, sizes and times, and the digest of the part of each file that
        precedes the tensors."""
        return [each.source for each in self._files]

    def load(
        self, offsets: Sequence[int], address: int, device: int, *, hashes: bool = False, readers: int | None = None
    ) -> list[bytes]:
        """Copies the tensors to the memory at an address, and waits for the copies. Returns the tree digest of each
        tensor, computed by the CPU, if `hashes` is True.

        offsets: the offset in memory of each tensor. `readers` is the number of threads.

        Raises ValueError if a file is shorter than it was, or was changed in the meantime."""
        placed = [PlacedTensor(tensor, offset) for tensor, offset in zip(self.tensors, offsets)]
        if hashes:
            for each in placed:
                each.digests = bytearray(32 * max(1, -(-each.tensor.nbytes // PIECE)))
                if each.tensor.nbytes == 0:
                    each.digests[:] = hashlib.sha256().digest()
        pieces = list(_pieces_of(self._files, placed))
        if readers is None:
            readers = THREADS
        calls = cuda()

        def act(piece: _Piece, host: memoryview, host_address: int, stream: int) -> None:
            data = host[: piece.nbytes]
            length = read_at(piece.file.descriptor, data, piece.byte_offset)
            if length < len(data):
                end = piece.byte_offset + length
                raise ValueError(f"Cannot read {piece.file.path}: it ends at byte {end}, and was longer before")
            for begin, target, nbytes in _copies(piece):
                calls.copy(address + target, host_address + begin, nbytes, HOST_TO_DEVICE, stream, device)
            if hashes:
                _hash(piece, data)

        largest = max((each.nbytes for each in pieces), default=0)
        move_pieces(pieces, largest, device, min(readers, len(pieces)), act)
        for file in self._files:
            if _version_of(os.fstat(file.descriptor)) != _version_of(file.before):
                raise ValueError(f"Cannot read {file.path}: it was changed in the meantime")
        return [tree_of(bytes(each.digests)) for each in placed] if hashes else []

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop().descriptor)


def _hash(piece: _Piece, data: memoryview) -> None:
    begin = 0
    for part in piece.parts:
        for first in range(0, part.nbytes, PIECE):
            digest = hashlib.sha256(data[begin + first : begin + min(first + PIECE, part.nbytes)]).digest()
            index = 32 * ((part.begin + first) // PIECE)
            part.placed.digests[index : index + 32] = digest
        begin += part.nbytes


def _copies(piece: _Piece) -> Iterator[tuple[int, int, int]]:
    """Yields what to copy: the offset in the piece, the offset in memory, and the number of bytes. Parts that are
    adjacent in memory, too, are copied as one."""
    begin, first, target = 0, 0, None
    for part in piece.parts:
        here = part.placed.byte_offset + part.begin
        if target is None:
            target = here
        elif here != target + begin - first:
            yield first, target, begin - first
            first, target = begin, here
        begin += part.nbytes
    if target is not None:
        yield first, target, begin - first


def _pieces_of(files: Sequence[_File], placed: Sequence[PlacedTensor]) -> Iterator[_Piece]:
    """Splits files into pieces. The bytes of a tensor are split where its digest's pieces end."""
    remaining = iter(placed)
    for file in files:
        piece, used = _Piece(file, 0, []), 0
        for tensor in file.tensors:
            each, begin = next(remaining), 0
            while begin < tensor.nbytes:
                place = file.data_offset + tensor.byte_offset + begin
                nbytes = min(tensor.nbytes - begin, _PIECE - used)
                if begin + nbytes < tensor.nbytes:
                    nbytes -= nbytes % PIECE
                if piece.parts and (nbytes == 0 or place != piece.byte_offset + used):
                    # The piece is full, or is followed by tensors that are not part of the model.
                    yield piece
                    piece, used = _Piece(file, 0, []), 0
                    continue
                if not piece.parts:
                    piece.byte_offset = place
                piece.parts.append(_Part(each, begin, nbytes))
                begin, used = begin + nbytes, used + nbytes
        if piece.parts:
            yield piece


def _files_at(path: str) -> Iterator[tuple[str, set[str] | None]]:
    """Yields the paths of the files, and the names of the tensors to take from each; None for all."""
    if os.path.isdir(path):
        path = _model_in(path)
    if not path.endswith(".json"):
        yield path, None
        return
    with open(path, "rb") as file:
        text = file.read(_MAXIMUM_INDEX + 1)
    try:
        if len(text) > _MAXIMUM_INDEX:
            raise ValueError(f"it has more than {_MAXIMUM_INDEX} bytes")
        files = parse_index(text)
    except ValueError as error:
        raise ValueError(f"Cannot read {path}: it is not the index of a model: {error}") from None
    for name, names in files.items():
        yield os.path.join(os.path.dirname(path), name), names


def _model_in(folder: str) -> str:
    # The index of a model in several files, or else its only file.
    for ending in (".safetensors.index.json", ".safetensors"):
        found = sorted(glob.glob(os.path.join(glob.escape(folder), f"*{ending}")))
        usual = os.path.join(folder, "model" + ending)
        if usual in found or len(found) == 1:
            return usual if usual in found else found[0]
        if found:
            names = ", ".join(map(os.path.basename, found))
            raise ValueError(f"Cannot choose a model in {folder}: give the path of one of {names}")
    raise ValueError(f"Cannot find a model in {folder}: it has no *.safetensors file")


def _open(path: str, names: set[str] | None) -> _File:
    path = os.path.abspath(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        before = os.fstat(descriptor)
        try:
            prefix = os.pread(descriptor, PREFIX, 0)
            length = header_length(prefix, before.st_size)
            header = os.pread(descriptor, length, PREFIX)
            if len(header) < length:
                raise ValueError("its header is cut off")
            tensors, metadata = parse_header(header, before.st_size - PREFIX - length)
        except ValueError as error:
            raise ValueError(f"Cannot read {path}: it is not a safetensors file: {error}") from None
        if names is not None:
            missing = names - {each.name for each in tensors}
            if missing:
                raise ValueError(f"Cannot read {path}: it lacks {min(missing)!r}, which the index says is in it")
            # Tensors that the index omits, or assigns to another file, are not part of the model.
            tensors = [each for each in tensors if each.name in names]
        digest = hashlib.sha256(prefix + header).hexdigest()
        return _File(path, descriptor, tensors, PREFIX + length, before, digest, metadata)
    except BaseException:
        os.close(descriptor)
        raise


def _version_of(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
