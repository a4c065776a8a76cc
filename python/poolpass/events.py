"""Interprocess events: those of this process, which a peer may query, and those of a peer.

PROTOCOL.md, "Waiting for an event", says why a side queries them and never lets a stream wait for them.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Container

from . import messages as m
from .cuda import cuda
from .errors import CudaError
from .ipc_handles import can_open_event
from .peer import PeerProcess
from .users import is_allowed

Send = Callable[[m.Message], None]


@dataclass
class LocalEvent:
    """An interprocess event of this process, and the message that announces it."""

    event: Any
    ordinal: int
    message: m.Event

    @property
    def number(self) -> int:
        return self.message.event

    def record(self, stream: int) -> None:
        cuda().record(self.event, stream, self.ordinal)

    def has_fired(self) -> bool:
        return cuda().has_fired(self.event)


class LocalEvents:
    """The interprocess events of this process. One that a peer may query is not recorded for another purpose."""

    def __init__(self, maximum: int):
        self._maximum = maximum
        self._all: dict[int, LocalEvent] = {}
        self._free: dict[int, list[LocalEvent]] = {}

    def limit(self, maximum: int) -> None:
        """Lowers the maximum number of events. Existing events in excess of it are kept."""
        self._maximum = min(self._maximum, maximum)

    def take(self, ordinal: int) -> LocalEvent | None:
        """Returns an event of a device that no peer queries; None if there are too many. It may be new to the peer."""
        free = self._free.setdefault(ordinal, [])
        if free:
            return free.pop()
        if len(self._all) >= self._maximum:
            return None
        calls = cuda()
        event = calls.create_interprocess_event(ordinal)
        try:
            message = m.Event(len(self._all) + 1, calls.uuids[ordinal], calls.event_handle(event))
        except BaseException:
            calls.destroy_event(event)
            raise
        local = self._all[message.event] = LocalEvent(event, ordinal, message)
        return local

    def get(self, number: int) -> LocalEvent:
        return self._all[number]

    def put_back(self, local: LocalEvent) -> None:
        self._free[local.ordinal].append(local)

    def close(self) -> None:
        """Destroys all events. No peer may query one of them any more."""
        for local in self._all.values():
            try:
                cuda().destroy_event(local.event)
            except CudaError:
                # A lost device has taken its events along.
                pass
        self._all.clear()
        self._free.clear()


class EventAnswers:
    """Answers WAIT, with which a peer asks for events that it cannot open: sends FIRED once each has fired."""

    def __init__(self, send: Send, find: Callable[[int], LocalEvent | None]):
        self._send = send
        # Returns an event that the peer knows.
        self._find = find
        self._pending: dict[int, LocalEvent] = {}

    @property
    def are_pending(self) -> bool:
        return len(self._pending) > 0

    def on_wait(self, number: int) -> None:
        local = self._find(number)
        if local is None:
            raise m.ProtocolError(f"WAIT names event {number}, which was not announced")
        if number in self._pending:
            raise m.ProtocolError(f"WAIT for event {number} comes before FIRED for the last one")
        self._pending[number] = local
        self.poll()

    def poll(self) -> bool:
        """Returns whether an event has fired."""
        fired = [number for number, local in self._pending.items() if local.has_fired()]
        for number in fired:
            del self._pending[number]
            self._send(m.Fired(number))
        return len(fired) > 0

    def clear(self) -> None:
        self._pending.clear()


class OpenedEvents:
    """The events of peers that are open. Those of one exporter have one limit.

    Opening an event takes memory, and a mapping. What is open may be closed at any time, and is opened again when it is
    queried. Beyond the limit, the peer that has most of them open loses one.
    """

    def __init__(self, maximum: float = math.inf):
        self._maximum = maximum
        # The events of each peer, oldest first. None for those that cannot be opened.
        self._of_peers: dict[RemoteEvents, dict[int, Any]] = {}
        self._length = 0

    def of(self, peer: RemoteEvents) -> dict[int, Any]:
        return self._of_peers.get(peer, {})

    def add(self, peer: RemoteEvents, number: int, event: Any) -> None:
        self._of_peers.setdefault(peer, {})[number] = event
        self._length += event is not None

    def make_room(self) -> None:
        """Closes an event if there are too many."""
        if self._length < self._maximum:
            return
        largest = max(self._of_peers, key=lambda each: len(self._of_peers[each]))
        events = self._of_peers[largest]
        self.close(largest, next((number for number, event in events.items() if event is not None), -1))

    def close(self, peer: RemoteEvents, number: int) -> None:
        """Closes an event that is not needed soon, or forgets that it cannot be opened."""
        events = self._of_peers.get(peer, {})
        event = events.pop(number, None)
        if not events:
            self._of_peers.pop(peer, None)
        if event is not None:
            self._length -= 1
            cuda().destroy_event(event)


class RemoteEvents:
    """The events that a peer has announced. Those that cannot be opened here, the peer is asked for."""

    def __init__(
        self,
        process: PeerProcess,
        send: Send,
        maximum: int,
        opened: OpenedEvents | None = None,
        *,
        may_open: bool = True,
    ):
        self._process = process
        # Whether events may be opened: never those of another user, who could not end this process in other ways.
        self._may_open = may_open and is_allowed(process.peer.uid, ())
        self._send = send
        self._maximum = maximum
        # The UUID of each event's device, and its handle.
        self._announced: dict[int, tuple[bytes, bytes]] = {}
        self._opened = OpenedEvents() if opened is None else opened
        # Events for which WAIT was sent and FIRED has not come.
        self._asked: set[int] = set()
        # Of the events that cannot be opened, those whose latest record is known to have fired.
        self._fired: set[int] = set()

    def __len__(self) -> int:
        return len(self._announced)

    def define(self, message: m.Event) -> None:
        if message.event in self._announced:
            raise m.ProtocolError(f"Event {message.event} is announced twice")
        if len(self._announced) >= self._maximum:
            raise m.limit_exceeded(f"{self._maximum} events of a peer")
        self._announced[message.event] = message.device_uuid, message.handle

    def require(self, number: int) -> None:
        if number not in self._announced:
            raise m.ProtocolError(f"Event {number} was not announced")

    def ordinal_of(self, number: int) -> int:
        """The ordinal of the device of an event."""
        return cuda().device_of_uuid(self._announced[number][0])

    def renew(self, number: int) -> None:
        """The peer has recorded an event anew."""
        self._fired.discard(number)

    def has_fired(self, number: int) -> bool:
        """Whether the latest record of an event has fired. Asks the peer if it cannot be opened."""
        event = self._open(number)
        if event is not None:
            return cuda().has_fired(event)
        if number in self._fired:
            return True
        if number not in self._asked:
            self._asked.add(number)
            self._send(m.Wait(number))
        return False

    def on_fired(self, number: int) -> None:
        if number not in self._asked:
            raise m.ProtocolError(f"FIRED for event {number} answers no WAIT")
        self._asked.remove(number)
        self._fired.add(number)

    def shut(self, number: int) -> None:
        """Closes an event that is not needed soon. It is opened again when it is."""
        self._opened.close(self, number)

    def forget(self, number: int) -> None:
        self.require(number)
        del self._announced[number]
        self._asked.discard(number)
        self._fired.discard(number)
        self.shut(number)

    def forget_all_but(self, numbers: Container[int]) -> None:
        """Drops the events that nobody waits for: the connection has ended, and they are not used any more."""
        for number in list(self._announced):
            if number not in numbers:
                try:
                    self.forget(number)
                except CudaError:
                    # A lost device has taken its events along.
                    pass

    def close(self) -> None:
        self.forget_all_but(())

    def _open(self, number: int) -> Any:
        opened = self._opened.of(self)
        if number in opened:
            return opened[number]
        ordinal = self.ordinal_of(number)
        event = None
        if self._may_open:
            self._opened.make_room()
            event = open_remote_event(self._process, ordinal, self._announced[number][1])
        self._opened.add(self, number, event)
        return event


def open_remote_event(process: PeerProcess, ordinal: int, handle: bytes) -> Any:
    """Opens an event of a peer. Returns None if it cannot be opened here.

    From another PID namespace, CUDA would find another process's event, or none. Of a process that has ended, it opens
    a new event, which has fired: the process must be seen afterwards. And its driver believes what a handle states: one
    that no driver has made would end this process.
    """
    if not process.is_visible() or not can_open_event(ordinal, handle, process.peer.pid):
        return None
    try:
        event = cuda().open_event(ordinal, handle)
    except (CudaError, OSError):
        # Such as for the lack of descriptors.
        return None
    if process.is_visible():
        return event
    cuda().destroy_event(event)
    return None


def is_device_lost(ordinal: int) -> bool:
    """Whether nothing works on a device any more, after an error for which a peer's event may be the reason."""
    calls = cuda()
    try:
        calls.destroy_event(calls.create_event(ordinal))
    except CudaError:
        return True
    return False
