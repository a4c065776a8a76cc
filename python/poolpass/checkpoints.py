"""The files that a model was loaded from: which they are, and whether others have the same content."""
from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping, Sequence

# The size in bytes of the pieces of a file whose digests are computed at the same time.
_PIECE = 16 * 2**20
_MAXIMUM_HEADER = 100_000_000


class Checkpoint:
    """The files of a checkpoint."""

    def __init__(self, paths: Sequence[str]):
        self.paths = [os.path.realpath(each) for each in paths]
        self.identities = [_identity(each) for each in self.paths]
        self._headers: list[str] | None = None
        self._digests: list[str] | None = None

    def check_unchanged(self) -> None:
        """Raises RuntimeError if a file was changed since this object was created."""
        for path, identity in zip(self.paths, self.identities):
            if _identity(path) != identity:
                raise RuntimeError(f"Cannot publish what was loaded from {path}: the file was changed meanwhile")

    def stated(self) -> list[dict[str, Any]]:
        """Returns the description of the files in the metadata of weights."""
        return [
            {"path": path, **identity, "header": header, "digest": digest}
            for path, identity, header, digest in zip(self.paths, self.identities, self.headers(), self.digests())
        ]

    def is_stated(self, stated: Any) -> bool:
        """Whether these files have the content of those that the metadata describes. Files with the same device, inode,
        size and times are the same. Others are read if they have the same size and header."""
        if not isinstance(stated, list) or len(stated) != len(self.paths):
            return False
        if not all(isinstance(each, Mapping) for each in stated):
            return False
        if all(
            {key: other.get(key) for key in identity} == identity for identity, other in zip(self.identities, stated)
        ):
            return True
        if [each["size"] for each in self.identities] != [each.get("size") for each in stated]:
            return False
        if self.headers() != [each.get("header") for each in stated]:
            return False
        return self.digests() == [each.get("digest") for each in stated]

    def headers(self) -> list[str]:
        """Returns the digest of each file's header."""
        if self._headers is None:
            self._headers = [_digest_of_header(each) for each in self.paths]
        return self._headers

    def digests(self) -> list[str]:
        """Returns the digest of each file's content: the SHA-256 digest of the digests of its pieces of 16 MiB."""
        if self._digests is None:
            with ThreadPoolExecutor(min(16, os.cpu_count() or 1), "poolpass-digests") as pool:
                self._digests = [_digest_of(each, pool) for each in self.paths]
        return self._digests


def _identity(path: str) -> dict[str, Any]:
    status = os.stat(path)
    return {
        # JSON has no exact numbers of this size.
        "dev": str(status.st_dev), "ino": str(status.st_ino), "size": status.st_size,
        "mtimeNs": str(status.st_mtime_ns), "ctimeNs": str(status.st_ctime_ns),
    }


def _digest_of_header(path: str) -> str:
    """Returns the digest of the header of a safetensors file, or of the first bytes of another file."""
    with open(path, "rb") as file:
        length = file.read(8)
        size = int.from_bytes(length, "little")
        return hashlib.sha256(length + file.read(size if size <= _MAXIMUM_HEADER else 2**16)).hexdigest()


def _digest_of(path: str, pool: ThreadPoolExecutor) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        def digest(begin: int) -> bytes:
            # Both calls let other threads run.
            return hashlib.sha256(os.pread(descriptor, _PIECE, begin)).digest()

        return hashlib.sha256(b"".join(pool.map(digest, range(0, os.fstat(descriptor).st_size, _PIECE)))).hexdigest()
    finally:
        os.close(descriptor)
