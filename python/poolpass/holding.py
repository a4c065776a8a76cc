"""Who uses a piece of memory in this process, on which streams, and what is done once nobody does."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Callable, Iterator

from .cuda import LEGACY_STREAM, NO_STREAM, PER_THREAD_STREAM
from .forks import fork_count

# The streams whose work must be done before memory is released; None if some are not known.
UsedStreams = frozenset[int] | None


class StreamSet:
    """Collects the streams on which memory is used."""

    def __init__(self) -> None:
        self._streams: set[int] = set()
        self._has_unknown = False

    @property
    def value(self) -> UsedStreams:
        return None if self._has_unknown else frozenset(self._streams)

    def add(self, stream: int | None) -> None:
        """Adds a stream; None for streams that nobody names."""
        if stream is None or stream in (NO_STREAM, PER_THREAD_STREAM):
            # Which stream is the per-thread one depends on the thread that uses it.
            self._has_unknown = True
        else:
            self._streams.add(0 if stream == LEGACY_STREAM else stream)

    def replace(self, stream: int) -> None:
        """All work comes before what this stream is given next."""
        self._has_unknown = False
        self._streams = set()
        self.add(stream)


class Holding:
    """Counts the users of a piece of memory: the object that the application has, and what other libraries made of it.

    `on_last` is called once, on the thread of the last user, with the streams on which the memory was used.
    A garbage collection may end a user at any moment, on any thread and within any function of this package. No lock is
    taken here therefore: each step is a single operation of a set or a list.
    """

    def __init__(self, on_last: Callable[[UsedStreams], None]):
        self.streams = StreamSet()
        # Whether the device can only read the memory.
        self.is_read_only = False
        self._forks = fork_count()
        self._on_last = [on_last]
        self._users: set[object] = set()

    def add(self) -> object:
        """Adds a user. Returns what `drop` takes."""
        user = object()
        self._users.add(user)
        return user

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keeps the memory in use for the duration of a block, whatever other threads do."""
        user = self.add()
        try:
            yield
        finally:
            self.drop(user)

    def drop(self, user: object) -> None:
        """Removes a user. Does nothing if it was removed before, or in a child that was forked."""
        if self._forks != fork_count():
            return
        self._users.discard(user)
        if self._users:
            return
        try:
            on_last = self._on_last.pop()
        except IndexError:
            return
        on_last(self.streams.value)
