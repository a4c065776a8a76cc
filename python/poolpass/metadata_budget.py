"""The bytes of names and metadata that exporters' offers occupy in this process: they decide how many there are."""
from __future__ import annotations

import threading

from . import messages as m

# For all offers of one exporter at a time, and of all exporters.
MAXIMUM_OF_EXPORTER = 64 * 2**20
MAXIMUM_IN_ALL = 256 * 2**20

_lock = threading.Lock()
_in_all = 0


class MetadataBudget:
    """The bytes of one exporter. Protected by the lock of its connection."""

    def __init__(self) -> None:
        self._used = 0
        self._is_closed = False

    def add(self, length: int) -> None:
        """Adds an offer's bytes. Raises ProtocolError."""
        global _in_all
        if self._used + length > MAXIMUM_OF_EXPORTER:
            raise m.limit_exceeded(f"{MAXIMUM_OF_EXPORTER} bytes of names and metadata of all offers")
        with _lock:
            if _in_all + length > MAXIMUM_IN_ALL:
                raise m.limit_exceeded(f"{MAXIMUM_IN_ALL} bytes of names and metadata of the offers of all exporters")
            if not self._is_closed:
                _in_all += length
        self._used += length

    def remove(self, length: int) -> None:
        """Removes the bytes of an offer that was withdrawn."""
        global _in_all
        self._used -= length
        if not self._is_closed:
            with _lock:
                _in_all -= length

    def close(self) -> None:
        """The connection has ended: nothing more arrives, and what is left counts no more toward the total."""
        global _in_all
        if not self._is_closed:
            self._is_closed = True
            with _lock:
                _in_all -= self._used
