"""A thread that serves sockets and polls events, for one importer or exporter."""
from __future__ import annotations

import ctypes
import os
import selectors
import threading
import time
import weakref
from collections import deque
from functools import cache, partial
from typing import Any, Callable, Protocol

from .forks import fork_count

# Seconds for which events are polled without a pause after something has happened, and the least and longest pauses.
BUSY_TIME = 0.016
LEAST_PAUSE = 0.0001
LONGEST_PAUSE = 0.1
# The most seconds for which a selector waits: it takes no infinity.
LONGEST_SELECT = 86_400.0
# Seconds for which the end of a thread is awaited that has nothing to do.
JOIN_TIMEOUT = 5.0


class Served(Protocol):
    """What a loop serves. All methods are called with the loop's lock held, on its thread."""

    def next_deadline(self) -> float | None:
        """When `poll` must be called next, by time.monotonic(); None if only for a descriptor."""

    def on_ready(self, key: Any) -> None:
        """A descriptor is ready that was registered with this key."""

    def poll(self) -> None:
        """Looks at what reports nothing by itself: events and deadlines."""

    def is_over(self) -> bool:
        """Whether the loop ends."""

    def on_over(self) -> None:
        """The loop has ended."""

    def on_failure(self, error: Exception) -> None:
        """One of the methods above, or a call, has raised an error that it should have handled."""


_loops: weakref.WeakSet[EventLoop] = weakref.WeakSet()


def _on_fork() -> None:
    """In the child, threads of the parent's hold the locks for ever."""
    for loop in list(_loops):
        loop.lock = threading.RLock()
        loop.changed = threading.Condition(loop.lock)
        loop._wake_lock = threading.RLock()


os.register_at_fork(after_in_child=_on_fork)


@cache
def load_unwinder() -> None:
    """Loads the library that glibc needs to terminate daemon threads when the process exits.

    Otherwise, glibc would load it at exit, and abort the process if no descriptor is left.
    """
    try:
        ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        # Other C libraries do not need it.
        pass


class EventLoop:
    """A daemon thread. Its lock protects all that it serves; `changed` is notified whenever that may have changed."""

    def __init__(self, name: str):
        load_unwinder()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._calls: deque[Callable[[], None]] = deque()
        self._selector = selectors.DefaultSelector()
        try:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except BaseException:
            self._selector.close()
            raise
        # Reentrant: a finalizer may call `wake` while this thread is in it.
        self._wake_lock = threading.RLock()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._served: Served | None = None
        self._forks = fork_count()
        _loops.add(self)

    def start(self, served: Served) -> None:
        self._served = served
        self._thread.start()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child that was forked: the thread runs in the parent, and serves the parent."""
        return self._forks != fork_count()

    @property
    def calls(self) -> int:
        """The number of pending `call_soon` functions."""
        return len(self._calls)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the loop's thread."""
        return threading.current_thread() is self._thread

    def call_soon(self, call: Callable[[], None]) -> None:
        """Calls a function on the loop's thread, with the lock held. Takes no lock itself, so finalizers may use it."""
        if self.is_forked:
            return
        self._calls.append(call)
        self.wake()

    def wake(self) -> None:
        if self.is_forked:
            return
        with self._wake_lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def register(self, descriptor: Any, key: object, *, writes: bool = False) -> None:
        """Watches a descriptor, on the loop's thread or before it starts."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)
        self._selector.register(descriptor, events, key)

    def watch(self, descriptor: Any, *, reads: bool, writes: bool) -> None:
        """Changes what a registered descriptor is watched for."""
        events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)
        key = self._selector.get_map().get(descriptor)
        if key is not None and key.events != events and events != 0:
            self._selector.modify(descriptor, events, key.data)

    def unregister(self, descriptor: Any) -> None:
        try:
            self._selector.unregister(descriptor)
        except (KeyError, ValueError):
            pass

    def check_process(self) -> None:
        """Raises RuntimeError in a child that was forked."""
        if self.is_forked:
            raise RuntimeError(
                "Cannot share memory in a child process that was forked from one that shares memory: start it with "
                'exec; multiprocessing does so with the start methods "spawn" and "forkserver"'
            )

    def wait_until(self, condition: Callable[[], bool], deadline: float | None) -> bool:
        """Waits, with the lock held, until a condition holds. Returns False if the deadline comes first.

        `deadline` is one of time.monotonic(), or None.
        """
        self.check_process()
        while not condition():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self.changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
        return True

    def join(self) -> None:
        """Waits for the end of the thread, which has nothing left to serve."""
        self._thread.join(JOIN_TIMEOUT)

    def _run(self) -> None:
        served = self._served
        assert served is not None
        while True:
            with self.lock:
                deadline = served.next_deadline()
            left = None if deadline is None else min(max(0.0, deadline - time.monotonic()), LONGEST_SELECT)
            ready = self._selector.select(left)
            with self.lock:
                for key, _ in ready:
                    if key.fileobj == self._wake:
                        os.eventfd_read(self._wake)
                    else:
                        self._guard(served, partial(served.on_ready, key.data))
                while self._calls:
                    self._guard(served, self._calls.popleft())
                self._guard(served, served.poll)
                self.changed.notify_all()
                if served.is_over() and not self._calls:
                    self._close(served)
                    return

    @staticmethod
    def _guard(served: Served, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            served.on_failure(error)

    def _close(self, served: Served) -> None:
        served.on_over()
        self.changed.notify_all()
        self._selector.close()
        with self._wake_lock:
            descriptor, self._wake = self._wake, -1
            os.close(descriptor)


class Pace:
    """How often to poll: without a pause at first, then ever more seldom while nothing happens."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def restart(self) -> None:
        self._since = time.monotonic()

    def next(self) -> float:
        """When to poll next, by time.monotonic()."""
        now = time.monotonic()
        idle = now - self._since
        return now + (LEAST_PAUSE if idle < BUSY_TIME else min(LONGEST_PAUSE, max(LEAST_PAUSE, idle / 16)))
