"""What the 64 bytes of an event's IPC handle state.

CUDA calls them opaque, but its driver believes them: the place of an event that does not exist ends the process that
opens it (driver 580, measured). They are therefore read before the driver sees them.
"""
from __future__ import annotations

import os
import struct
import threading
from typing import Any

from .cuda import cuda
from .errors import CudaError

_WORDS = struct.Struct("<16I")
# The places of the fields, as indices of u32: the process, and the event's place among those of the process.
_PROCESS, _PLACE = 0, 4
# All other fields are 0, but one.
_ZEROS = (1, 3, *range(5, 16))
# Places from here on do not exist.
_EVENT_PLACES = 4096


class EventHandleLayout:
    """Whether the driver's handles of events have the layout that is known. Decided at the first use."""

    def __init__(self) -> None:
        self._is_known: bool | None = None
        self._lock = threading.RLock()

    def is_known_on(self, ordinal: int) -> bool:
        """Whether the layout is known. Tries it on a device, unless that was done."""
        with self._lock:
            if self._is_known is None:
                try:
                    self._is_known = _is_layout_known(ordinal)
                except CudaError:
                    # There is no IPC.
                    self._is_known = False
            return self._is_known


layout = EventHandleLayout()


def can_open_event(ordinal: int, handle: bytes, pid: int) -> bool:
    """Whether the driver may open the handle of an event of another process, on a device: it is one that the driver of
    that process has made, as far as this process can tell."""
    if cuda().checks_handles:
        return True
    return layout.is_known_on(ordinal) and _is_event_of(handle, pid)


def _is_event_of(handle: bytes, pid: int) -> bool:
    words = _WORDS.unpack(handle)
    return words[_PROCESS] == pid and words[_PLACE] < _EVENT_PLACES and all(words[index] == 0 for index in _ZEROS)


def _is_layout_known(ordinal: int) -> bool:
    """Looks whether the handles of two own events have what is known of them. Keeps nothing."""
    calls = cuda()
    events: list[Any] = []
    try:
        for _ in range(2):
            events.append(calls.create_interprocess_event(ordinal))
        first, second = (calls.event_handle(each) for each in events)
        places = {_WORDS.unpack(each)[_PLACE] for each in (first, second)}
        return all(_is_event_of(each, os.getpid()) for each in (first, second)) and len(places) == 2
    finally:
        for event in events:
            calls.destroy_event(event)
