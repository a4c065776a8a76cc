"""The importer's end of a connection: what its exporter has announced, and what this process holds of that."""
from __future__ import annotations

import errno
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable

from . import messages as m
from .connection import Connection, goodbye_error
from .cuda import cuda
from .descriptors import discard, first_of_last_descriptors, lowest_free_descriptor
from .errors import CudaError, SharingError, SharingErrorCode, SharingTimeoutError, needing_descriptors, quoted
from .event_loop import EventLoop, Pace
from .events import EventAnswers, LocalEvent, LocalEvents, RemoteEvents
from .export_data import SHAREABLE_ADVICE
from .holding import UsedStreams
from .imported_memory import ImportedPool, MappedAllocation, map_allocation, unmap_allocation
from .metadata_budget import MetadataBudget
from .whole_memory import SharedMapping

# Answers that may wait for an exporter that does not read.
MAXIMUM_OUTGOING = 2**20
# Limits that apply while few descriptors are left, because each event, release and pool may occupy a descriptor: the
# maximum number of lent events, the maximum number of pending releases and of pools waiting to be destroyed with which
# an offer may be mapped, and the maximum time in seconds that mapping waits for their number to fall.
FEW_EVENTS = 2
FEW_ENDING = 2
ROOM_TIMEOUT = 5.0


@dataclass
class RemotePool:
    message: m.Pool
    # None if it was closed when it came, because few were left. It is requested again when it is needed.
    descriptor: int | None
    imported: ImportedPool | None = None
    # Whether `imported` is to be destroyed once the device has completed its work, unless it is used again before that.
    is_ending: bool = False
    # What is mapped of a piece of virtual memory.
    mapped: SharedMapping = field(default_factory=SharedMapping)


@dataclass(eq=False)
class OfferState:
    """An offer of the exporter, until it is withdrawn and not held any more."""

    # Without its metadata.
    message: m.Offer
    # As it came: of some values, Python takes more than twenty times the length.
    encoded_metadata: bytes
    channel: m.Channel | None = None
    is_withdrawn: bool = False
    is_recalled: bool = False
    # How often HELD was sent without RELEASED.
    holds: int = 0
    # Pending waits for the ready event. WITHDRAWN must not be sent before they end.
    waits: int = 0
    # Receives the frames of a channel that was joined, and None at its end.
    on_frame: Callable[[m.Frame | None], None] | None = None
    is_joined: bool = False

    @property
    def metadata(self) -> Any:
        """The value of its metadata, decoded each time."""
        return m.decode_metadata(self.encoded_metadata.decode())

    @property
    def text_length(self) -> int:
        """The bytes that count toward the limit of names and metadata."""
        return len(self.message.name.encode()) + len(self.encoded_metadata)

    @property
    def is_complete(self) -> bool:
        return self.message.kind != "channel" or self.channel is not None


@dataclass
class Settling:
    """A message that is sent once the work before an event is done."""

    event: Any
    send: Callable[[], None]


@dataclass
class Hold:
    """A mapped offer."""

    state: OfferState
    mapped: MappedAllocation | SharedMapping
    address: int
    # None for host memory.
    device: int | None
    # The device through which it is mapped.
    ordinal: int
    slot_events: dict[int, LocalEvent] = field(default_factory=dict)


@dataclass
class PoolHold:
    """A whole pool that was imported."""

    state: OfferState
    pool: ImportedPool
    # None for host memory.
    device: int | None


class ExporterConnection:
    """A connection to an exporter, and the thread that serves it. It lasts until nothing is held any more."""

    def __init__(self, connection: Connection, *, close_timeout: float, maps_pools: bool = True):
        self.connection = connection
        self.loop = EventLoop("poolpass-importer")
        self.offers: dict[int, OfferState] = {}
        # Why nothing more comes from the exporter.
        self.end: SharingError | None = None
        # Whether the exporter has ended the connection without an error.
        self.has_closed = False
        self.is_welcome = False
        self.version = m.LOWEST_VERSION
        # Whether memory of pools is mapped, and events are opened: the driver believes what the exporter says of them.
        self._maps_pools = maps_pools
        self.close_timeout = close_timeout
        self._close_deadline: float | None = None
        self._names: set[str] = set()
        self._metadata_budget = MetadataBudget()
        # Slots of all channels: each has an event of its own.
        self._slots = 0
        # Offers that were withdrawn while they were held; they can still be recalled.
        self._withdrawn: dict[int, OfferState] = {}
        self._pools: dict[int, RemotePool] = {}
        # The pools whose descriptors threads wait for, and how many. One is requested at a time.
        self._awaited_pools: dict[int, int] = {}
        self._requested_pool: int | None = None
        self._handle_token = 0
        # The pools whose descriptors were requested, and are kept until the next one comes, although few are left.
        self._kept_pools: set[int] = set()
        # From this one on, descriptors are the last that this process can open.
        self._first_of_last = first_of_last_descriptors()
        # Whether one of the last descriptors was ever opened.
        self._are_few_left = False
        # The number of pools whose `is_ending` is set.
        self._ending = 0
        # The number of offers of each pool as a whole. Every import of a whole pool needs the descriptor.
        self._whole_offers: Counter[int] = Counter()
        self._allocations: dict[int, m.Allocation] = {}
        # Offers and holds of each allocation, and allocations and whole offers of each pool.
        self._users: Counter[tuple[str, int]] = Counter()
        self._holds = 0
        self._settling: list[Settling] = []
        self._local_events = LocalEvents(m.MAXIMUM_IMPORTER_EVENTS)
        self._sent_events: set[int] = set()
        # Events that the exporter may query, until EVENT_FREE.
        self._lent: dict[int, LocalEvent] = {}
        self._remote_events = RemoteEvents(
            connection.process, self._send, m.MAXIMUM_IDENTIFIERS, may_open=maps_pools
        )
        self._answers = EventAnswers(self._send, self._find_event)
        self._pace = Pace()
        self._watches_process = connection.process.pidfd >= 0
        self.loop.register(connection.socket, "socket")
        if self._watches_process:
            self.loop.register(connection.process.pidfd, "process")

    def start(self) -> None:
        self._send(m.Hello(m.LOWEST_VERSION, m.PROTOCOL_VERSION))
        self.loop.start(self)

    def begin_close(self) -> None:
        """Disconnects once nothing is held any more. Takes no lock: finalizers call it."""
        self.loop.call_soon(self._begin_close)

    def _begin_close(self) -> None:
        if self._close_deadline is None:
            self._close_deadline = time.monotonic() + self.close_timeout

    @property
    def is_closing(self) -> bool:
        return self._close_deadline is not None

    @property
    def is_lingering(self) -> bool:
        """Whether what other libraries use keeps the connection open."""
        return self._holds > 0 and not self._settling and self.loop.calls == 0

    @property
    def is_held(self) -> bool:
        """Whether something is mapped, or a release is still to be sent."""
        return self._holds > 0 or len(self._settling) > 0

    # What follows runs on the caller's thread, with the loop's lock held.

    def check_open(self, action: str) -> None:
        self.loop.check_process()
        if self.end is not None:
            raise self.end
        if self.is_closing:
            raise RuntimeError(f"Cannot {action}: the importer was closed")

    def hold(self, state: OfferState, deadline: float | None = None) -> Hold:
        """Sends HELD and maps an offer. Its contents may not be there yet.

        Until the deadline, waits for a descriptor that must be requested.
        """
        message = state.message
        action = f"map {quoted(message.name)}"
        self._begin_hold(state, action, deadline)
        try:
            device = self._device_of(message.pool)
            with needing_descriptors(action):
                mapped, address = self._map(message, device or 0)
        except BaseException:
            self._abandon_hold(state)
            raise
        return Hold(state, mapped, address + message.byte_offset, device, device or 0)

    def _map(self, message: m.Offer, ordinal: int) -> tuple[MappedAllocation | SharedMapping, int]:
        pool, allocation = self._pools[message.pool], self._allocations[message.allocation]
        if pool.message.kind == "memory":
            return pool.mapped, pool.mapped.map(pool.descriptor, allocation.byte_length, ordinal)
        imported = self._import_pool(message.pool)
        if self._whole_offers[message.pool] == 0:
            # The descriptor is no longer needed.
            if self._are_few_left or self._is_one_of_last(lowest_free_descriptor()):
                self._close_descriptor(message.pool)
        mapped = map_allocation(imported, allocation.export_data, allocation.byte_length, is_whole=True)
        return mapped, mapped.address

    def hold_pool(self, state: OfferState) -> PoolHold:
        """Sends HELD and imports a whole pool."""
        number = state.message.pool
        action = f"import the pool of {quoted(state.message.name)}"
        self._begin_hold(state, action)
        try:
            with needing_descriptors(action):
                pool = self._import_pool(number)
            pool.retain()
        except BaseException:
            self._abandon_hold(state)
            raise
        return PoolHold(state, pool, self._device_of(number))

    def _begin_hold(self, state: OfferState, action: str, deadline: float | None = None) -> None:
        self._check_mappable(state, action)
        if self._are_few_left:
            self._wait_for_room(deadline)
            self._check_mappable(state, action)
        if not self._can_map(state.message):
            self._wait_for_descriptor(state, action, deadline)
            self._check_mappable(state, action)
        self._send(m.Held(state.message.offer))
        state.holds += 1
        self._holds += 1
        self._use(state.message, 1)

    def _check_mappable(self, state: OfferState, action: str) -> None:
        self.check_open(action)
        if state.is_withdrawn:
            raise SharingError("not-found", f"Cannot {action}: it was withdrawn")
        if not self._maps_pools and self._pools[state.message.pool].message.kind != "memory":
            raise SharingError(
                "not-permitted",
                f"Cannot {action}: it is memory of a pool, and this importer maps only virtual memory; the exporter "
                f"must allocate it {SHAREABLE_ADVICE}",
            )

    def _can_map(self, message: m.Offer) -> bool:
        """Whether the descriptor of an offer's pool is available, or no longer needed."""
        pool = self._pools.get(message.pool)
        return pool is not None and (
            pool.descriptor is not None or pool.imported is not None or pool.mapped.is_mapped
        )

    def _wait_for_room(self, deadline: float | None) -> None:
        """Waits until the loop's thread has unmapped released memory, and destroyed pools that are no longer in use.

        This frees descriptors. The wait has a time limit, because work that never completes must not block new
        mappings.
        """
        limit = time.monotonic() + ROOM_TIMEOUT
        self.loop.wait_until(
            lambda: self.loop.calls + self._ending <= FEW_ENDING or self.end is not None or self.is_closing,
            limit if deadline is None else min(limit, deadline),
        )

    def _wait_for_descriptor(self, state: OfferState, action: str, deadline: float | None) -> None:
        """Requests the descriptor of an offer's pool, and waits for it with the lock held."""
        number = state.message.pool
        # The exporter forgets no pool before WITHDRAWN.
        state.waits += 1
        self._awaited_pools[number] = self._awaited_pools.get(number, 0) + 1
        try:
            self._request_next()
            is_over = self.loop.wait_until(
                lambda: self._can_map(state.message) or self.end is not None or self.is_closing, deadline
            )
        finally:
            self._awaited_pools[number] -= 1
            if self._awaited_pools[number] == 0:
                del self._awaited_pools[number]
            state.waits -= 1
            if state.is_withdrawn and state.waits == 0:
                self._send(m.Withdrawn(state.message.offer))
        if not is_over:
            raise SharingTimeoutError("timed-out", f"Cannot {action}: the exporter does not send its descriptor")

    def _request_next(self) -> None:
        if self._requested_pool is not None:
            return
        missing = (each for each in self._awaited_pools if self._pools[each].descriptor is None)
        self._requested_pool = next(missing, None)
        if self._requested_pool is not None:
            self._send(m.RequestHandle(self._requested_pool, self._handle_token))

    def _abandon_hold(self, state: OfferState) -> None:
        self._end_hold(state)
        self._send(m.Released(state.message.offer, 0))

    def _import_pool(self, number: int) -> ImportedPool:
        pool = self._pools[number]
        if pool.imported is None:
            assert pool.descriptor is not None
            pool.imported = ImportedPool(pool.descriptor, self._device_of(number) or 0, self.connection.peer)
        return pool.imported

    def _device_of(self, number: int) -> int | None:
        """The ordinal of a pool's device; None for host memory, which is imported through device 0."""
        message = self._pools[number].message
        return None if message.kind == "host" else cuda().device_of_uuid(message.device_uuid)

    def join(self, hold: Hold, on_frame: Callable[[m.Frame | None], None]) -> None:
        state = hold.state
        if state.is_joined:
            name = quoted(state.message.name)
            raise RuntimeError(f"Cannot join {name}: a connection joins a channel once; connect again")
        state.is_joined = True
        state.on_frame = on_frame
        self._send(m.Join(state.message.offer))

    # What follows takes the lock itself.

    def wait_ready(self, hold: Hold, deadline: float | None) -> None:
        """Waits until the contents of an offer may be read."""
        state = hold.state
        number = state.message.ready_event
        if number == 0:
            return
        with self.loop.lock:
            state.waits += 1
        try:
            self.wait_fired(number, deadline, f"the contents of {quoted(state.message.name)}")
        finally:
            with self.loop.lock:
                state.waits -= 1
                self._remote_events.shut(number)
                if state.is_withdrawn and state.waits == 0:
                    self._send(m.Withdrawn(state.message.offer))

    def wait_fired(self, number: int, deadline: float | None, what: str) -> None:
        """Polls an event of the exporter until it has fired."""
        pace = Pace()
        while True:
            with self.loop.lock:
                end = self.end
                # An event that fired before the exporter ended stays fired.
                if self._remote_events.has_fired(number):
                    return
            if end is not None:
                raise end
            now = time.monotonic()
            if deadline is not None and now > deadline:
                raise SharingTimeoutError("timed-out", f"Cannot wait any longer for {what}: the exporter still writes")
            time.sleep(max(0.0, pace.next() - now))

    def release(self, hold: Hold, streams: UsedStreams) -> None:
        """Releases a mapping behind the work of streams. Any thread may call this, at any moment."""
        events = self._work_of(hold, streams)
        self.loop.call_soon(lambda: self._release(hold, events))

    def release_frame(self, hold: Hold, frame: m.Frame, streams: UsedStreams) -> None:
        """Releases a frame of a channel behind the work of streams. Any thread may call this, at any moment."""
        if self.loop.is_forked:
            return
        events = self._work_of(hold, streams)
        self.loop.call_soon(lambda: self._release_frame(hold, frame, events))

    def release_pool(self, hold: PoolHold) -> None:
        """Releases a whole pool, all of whose mappings were released. Any thread may call this, at any moment."""
        self.loop.call_soon(lambda: self._release_pool(hold))

    def unmap(self, hold: PoolHold, mapped: MappedAllocation, streams: UsedStreams) -> None:
        """Unmaps an allocation of a whole pool behind the work of streams. As `release`."""
        events = [] if hold.device is None else cuda().events_behind(streams, hold.device)
        self.loop.call_soon(lambda: self._unmap(hold, mapped, events))

    @staticmethod
    def _work_of(hold: Hold, streams: UsedStreams) -> list[Any]:
        """Events behind the work of streams. Waits for the device if the streams are not known."""
        return [] if hold.device is None else cuda().events_behind(streams, hold.device)

    # What follows runs on the loop's thread, with its lock held.

    def _release(self, hold: Hold, events: list[Any]) -> None:
        state = hold.state
        ordinal = hold.ordinal
        calls = cuda()
        stream = calls.release_stream(ordinal)
        try:
            calls.wait_for_each(stream, events, ordinal)
            if isinstance(hold.mapped, SharedMapping):
                # Mappings are not stream-ordered.
                self._when_done(stream, ordinal, lambda: self._unmap_whole(hold))
            else:
                unmap_allocation(hold.mapped, stream)
                self._end_unused_pools(state.message.pool)
                self._settle_release(hold, stream)
        except CudaError as error:
            self._end_hold(state)
            self._fail("not-released", f"The memory of {quoted(state.message.name)} cannot be released: {error}")
            return
        self._pace.restart()

    def _release_pool(self, hold: PoolHold) -> None:
        state, ordinal = hold.state, hold.pool.ordinal

        def send() -> None:
            hold.pool.release()
            self._end_unused_pools(state.message.pool)
            self._send(m.Released(state.message.offer, 0))
            self._end_hold(state)

        try:
            # Its mappings were unmapped on this stream.
            self._when_done(cuda().release_stream(ordinal), ordinal, send)
        except CudaError as error:
            self._end_hold(state)
            self._fail("not-released", f"The pool of {quoted(state.message.name)} cannot be released: {error}")

    def _unmap(self, hold: PoolHold, mapped: MappedAllocation, events: list[Any]) -> None:
        ordinal = hold.pool.ordinal
        calls = cuda()
        stream = calls.release_stream(ordinal)
        try:
            calls.wait_for_each(stream, events, ordinal)
            unmap_allocation(mapped, stream)
        except CudaError as error:
            self._fail("not-released", f"Memory of {quoted(hold.state.message.name)} cannot be released: {error}")

    def _end_unused_pools(self, kept: int) -> None:
        """If few descriptors are left, destroys all unused imported pools except one.

        Their descriptors can be requested again.
        """
        if not self._are_few_left or not self._can_request:
            return
        for number, pool in self._pools.items():
            imported = pool.imported
            if number != kept and imported is not None and not imported.is_used and not pool.is_ending:
                pool.is_ending = True
                self._ending += 1
                self._end_when_unused(pool, imported)

    def _end_when_unused(self, pool: RemotePool, imported: ImportedPool) -> None:
        uses = imported.uses

        def end() -> None:
            if imported.uses > uses and not imported.is_used:
                # The pool was used again in the meantime, and released after further work.
                self._end_when_unused(pool, imported)
                return
            pool.is_ending = False
            self._ending -= 1
            if pool.imported is imported and not imported.is_used:
                pool.imported = None
                imported.release()

        # The pool's memory was freed on the release stream.
        self._when_done(cuda().release_stream(imported.ordinal), imported.ordinal, end)

    def _settle_release(self, hold: Hold, stream: int) -> None:
        state = hold.state
        offer = state.message.offer
        ordinal = hold.ordinal
        # Host memory has no device whose events the exporter could query, and the events of a channel's slots come back
        # with 0 only.
        local = None
        if hold.device is not None and state.channel is None and self.connection.is_open:
            local = self._local_events.take(ordinal)
        if local is not None:
            local.record(stream)
            self._announce(local)
            self._lent[local.number] = local
            self._send(m.Released(offer, local.number))
            self._end_hold(state)
            return

        self._when_done(stream, ordinal, lambda: self._send_released(hold))

    def _send_released(self, hold: Hold) -> None:
        """Sends RELEASED for a mapping whose work is done."""
        for each in hold.slot_events.values():
            self._local_events.put_back(each)
        hold.slot_events.clear()
        self._send(m.Released(hold.state.message.offer, 0))
        self._end_hold(hold.state)

    def _unmap_whole(self, hold: Hold) -> None:
        """Unmaps virtual memory, whose work is done, and then lets the exporter have it back."""
        assert isinstance(hold.mapped, SharedMapping)
        try:
            hold.mapped.unmap()
        except CudaError as error:
            self._end_hold(hold.state)
            self._fail("not-released", f"The memory of {quoted(hold.state.message.name)} cannot be released: {error}")
            return
        self._send_released(hold)

    def _release_frame(self, hold: Hold, frame: m.Frame, events: list[Any]) -> None:
        ordinal = hold.ordinal
        calls = cuda()
        stream = calls.release_stream(ordinal)

        def send(event: int) -> None:
            if hold.state.holds > 0:
                self._send(m.ReleaseSlot(frame.offer, frame.slot, frame.sequence, event))

        try:
            if not events:
                # The work is done, or there was none.
                send(0)
                return
            calls.wait_for_each(stream, events, ordinal)
            local = hold.slot_events.get(frame.slot) or self._local_events.take(ordinal)
            if local is None:
                self._when_done(stream, ordinal, lambda: send(0))
                return
            # The exporter queries it until the slot comes with another frame.
            hold.slot_events[frame.slot] = local
            local.record(stream)
            self._announce(local)
            send(local.number)
        except CudaError as error:
            self._fail("not-released", f"Frame {frame.sequence} cannot be released: {error}")

    def _when_done(self, stream: int, ordinal: int, send: Callable[[], None]) -> None:
        """Calls a function once a stream has done its work so far."""
        event = cuda().create_event(ordinal)
        cuda().record(event, stream, ordinal)
        self._settling.append(Settling(event, send))
        self._pace.restart()

    def _announce(self, local: LocalEvent) -> None:
        if local.number not in self._sent_events:
            self._sent_events.add(local.number)
            self._send(local.message)

    def _end_hold(self, state: OfferState) -> None:
        state.holds -= 1
        self._holds -= 1
        self._use(state.message, -1)
        if state.holds == 0:
            self._withdrawn.pop(state.message.offer, None)
            state.is_recalled = False

    def next_deadline(self) -> float | None:
        deadlines = []
        if self.connection.is_open and self.connection.has_more:
            return 0.0
        if self.connection.deadline is not None:
            deadlines.append(self.connection.deadline)
        if self._close_deadline is not None and self.connection.is_open and not self.is_held:
            deadlines.append(self._close_deadline)
        if self._settling or self._answers.are_pending:
            deadlines.append(self._pace.next())
        return min(deadlines, default=None)

    def on_ready(self, key: Any) -> None:
        if key == "process":
            # It stays readable. What has arrived before is read first.
            self.loop.unregister(self.connection.process.pidfd)
            self._watches_process = False
        self._receive(is_rest=key == "process")
        if key == "process" and self.end is None:
            self._end_with(SharingError("peer-gone", f"The exporter, {self.connection.name}, has ended"))

    def poll(self) -> None:
        now = time.monotonic()
        has_advanced = False
        if self.connection.has_more:
            self._receive()
        if self.connection.is_open:
            try:
                self.connection.flush()
                self.connection.check_deadline(now)
                if self.connection.outgoing_length > MAXIMUM_OUTGOING:
                    raise m.limit_exceeded(f"{MAXIMUM_OUTGOING} bytes of answers that the exporter does not read")
                has_advanced = self._answers.poll()
            except (SharingError, CudaError) as error:
                self._end_for(error)
        done = [each for each in self._settling if self._has_settled(each)]
        for each in done:
            self._settling.remove(each)
            each.send()
        if has_advanced or done:
            self._pace.restart()
        if self.connection.is_open:
            self._leave_if_done(now)
        if self.connection.is_open:
            self.loop.watch(self.connection.socket, reads=True, writes=self.connection.wants_to_write)

    @staticmethod
    def _has_settled(settling: Settling) -> bool:
        try:
            if not cuda().has_fired(settling.event):
                return False
            cuda().destroy_event(settling.event)
        except CudaError:
            # Nothing of a lost device is used any more.
            pass
        return True

    def _leave_if_done(self, now: float) -> None:
        if self._close_deadline is None or self.is_held:
            return
        if not self._lent or now > self._close_deadline:
            self.loop.unregister(self.connection.socket)
            self.connection.say_goodbye("done")

    def is_over(self) -> bool:
        if self.connection.is_open or not self.is_closing or self.is_held:
            return False
        # The exporter may query the events for as long as it lives.
        return not self._lent or not self._watches_process or self.connection.process.has_ended()

    def on_over(self) -> None:
        self._metadata_budget.close()
        self._remote_events.close()
        self._local_events.close()
        for number in list(self._pools):
            self._close_pool(number)
        self.connection.process.close()

    def on_failure(self, error: Exception) -> None:
        self._end_for(error)

    def _receive(self, *, is_rest: bool = False) -> None:
        if not self.connection.is_open:
            return
        try:
            for message, descriptor in self.connection.receive_rest() if is_rest else self.connection.receive():
                self._on_message(message, descriptor)
        except (SharingError, CudaError) as error:
            self._end_for(error)

    def _end_for(self, error: Exception) -> None:
        """Ends the connection for an error of this side, or because the peer is gone."""
        if self.end is not None:
            return
        if isinstance(error, SharingError) and error.code == "peer-gone":
            self._end_with(error)
            return
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            error = SharingError("out-of-descriptors", "no descriptor is left; raise `ulimit -n`")
        if isinstance(error, SharingError) and error.code == "out-of-descriptors":
            error = self._with_advice(error)
        self._fail(m.reason_of_error(error), str(error), error if isinstance(error, SharingError) else None)

    def _with_advice(self, error: SharingError) -> SharingError:
        if not self.is_welcome or self._can_request:
            return error
        advice = "use a newer poolpass in the exporter: it sends the descriptors that do not fit when they are needed"
        return SharingError(error.code, f"{error}; or {advice}")

    def _fail(self, reason: m.GoodbyeReason, text: str, error: SharingError | None = None) -> None:
        if not self.connection.is_open:
            return
        self.loop.unregister(self.connection.socket)
        self.connection.say_goodbye(reason, text)
        is_own = error is not None and error.code == "out-of-descriptors"
        code: SharingErrorCode = "out-of-descriptors" if is_own else m.code_of_goodbye(reason)
        end = SharingError(code, f"Cannot continue with the exporter, {self.connection.name}: {text}")
        end.__cause__ = error
        self._end_with(end)

    def _end_with(self, error: SharingError) -> None:
        if self.connection.is_open:
            self.loop.unregister(self.connection.socket)
            self.connection.close()
        self._metadata_budget.close()
        if self.end is None:
            self.end = error

    def _send(self, message: m.Message) -> None:
        self.connection.send(message)
        if self.connection.wants_to_write and not self.loop.is_current:
            self.loop.wake()

    def _find_event(self, number: int) -> LocalEvent | None:
        return self._local_events.get(number) if number in self._sent_events else None

    def _on_message(self, message: m.Message, descriptor: int | None) -> None:
        if descriptor is not None and not (isinstance(message, (m.Pool, m.PoolHandle)) and self.is_welcome):
            discard(descriptor)
            descriptor = None
        if isinstance(message, m.Goodbye):
            self.has_closed = message.reason == "done"
            self._end_with(goodbye_error(self.connection, message))
        elif not self.is_welcome:
            self._on_welcome(message)
        elif isinstance(message, m.Pool):
            assert descriptor is not None
            self._on_pool(message, descriptor)
        elif isinstance(message, m.PoolHandle):
            assert descriptor is not None
            self._on_pool_handle(message, descriptor)
        elif isinstance(message, m.Allocation):
            self._on_allocation(message)
        elif isinstance(message, m.Event):
            self._remote_events.define(message)
        elif isinstance(message, m.Wait):
            self._answers.on_wait(message.event)
            self._pace.restart()
        elif isinstance(message, m.Fired):
            self._remote_events.on_fired(message.event)
        elif isinstance(message, m.Offer):
            self._on_offer(message)
        elif isinstance(message, m.Channel):
            self._on_channel(message)
        elif isinstance(message, m.Withdraw):
            self._on_withdraw(message.offer)
        elif isinstance(message, m.Recall):
            state = self.offers.get(message.offer) or self._withdrawn.get(message.offer)
            # RECALL may cross RELEASED on the way.
            if state is not None:
                state.is_recalled = True
        elif isinstance(message, m.Forget):
            self._on_forget(message)
        elif isinstance(message, m.EventFree):
            self._on_event_free(message.event)
        elif isinstance(message, m.Frame):
            self._on_frame(message.offer, message)
        elif isinstance(message, m.End):
            self._on_frame(message.offer, None)
        else:
            raise m.ProtocolError(f"An exporter must not send {m.layout_of(message).name}")

    def _on_welcome(self, message: m.Message) -> None:
        if not isinstance(message, m.Welcome):
            raise m.ProtocolError(f"{m.layout_of(message).name} came before WELCOME")
        if not m.is_known_version(message.version):
            raise m.ProtocolError(
                f"The exporter chose version {message.version} of the protocol, and this package knows "
                f"{m.versions_text(m.LOWEST_VERSION, m.PROTOCOL_VERSION)}",
                "version-mismatch",
            )
        self.version = message.version
        self.is_welcome = True

    def _on_pool(self, message: m.Pool, descriptor: int) -> None:
        try:
            if message.pool in self._pools:
                raise m.ProtocolError(f"Pool {message.pool} is announced twice")
            if len(self._pools) >= m.MAXIMUM_POOLS:
                raise m.limit_exceeded(f"{m.MAXIMUM_POOLS} pools of an exporter")
            if message.kind == "memory" and self.version < m.MEMORY_VERSION:
                raise m.ProtocolError(f"Pool {message.pool} is virtual memory, which version {self.version} has not")
        except SharingError:
            discard(descriptor)
            raise
        if self._is_one_of_last(descriptor) and self._can_request:
            # It was judged to be a pool's.
            os.close(descriptor)
            self._pools[message.pool] = RemotePool(message, None)
        else:
            self._pools[message.pool] = RemotePool(message, descriptor)

    def _on_pool_handle(self, message: m.PoolHandle, descriptor: int) -> None:
        number = message.pool
        if number != self._requested_pool:
            discard(descriptor)
            raise m.ProtocolError(f"The descriptor of pool {number} was not requested")
        self._requested_pool = None
        self._handle_token = message.token
        for each in [each for each in self._kept_pools if each not in self._awaited_pools]:
            self._close_descriptor(each)
        if number in self._awaited_pools:
            self._pools[number].descriptor = descriptor
            if self._is_one_of_last(descriptor):
                self._kept_pools.add(number)
        else:
            os.close(descriptor)
        self._request_next()

    @property
    def _can_request(self) -> bool:
        """Whether the exporter can send descriptors again on request."""
        return self.version >= m.REQUEST_HANDLE_VERSION

    def _is_one_of_last(self, descriptor: float) -> bool:
        if descriptor < self._first_of_last:
            return False
        if not self._are_few_left:
            self._are_few_left = True
            self._local_events.limit(FEW_EVENTS)
        return True

    def _close_descriptor(self, number: int) -> None:
        pool = self._pools[number]
        self._kept_pools.discard(number)
        if pool.descriptor is not None:
            os.close(pool.descriptor)
            pool.descriptor = None

    def _on_allocation(self, message: m.Allocation) -> None:
        if message.allocation in self._allocations:
            raise m.ProtocolError(f"Allocation {message.allocation} is announced twice")
        if len(self._allocations) >= m.MAXIMUM_IDENTIFIERS:
            raise m.limit_exceeded(f"{m.MAXIMUM_IDENTIFIERS} allocations of an exporter")
        if message.pool not in self._pools:
            what = f"Allocation {message.allocation} lies in pool {message.pool}"
            raise m.ProtocolError(f"{what}, which was not announced")
        if self._pools[message.pool].message.kind == "memory":
            self._check_is_memory(message)
        self._allocations[message.allocation] = message
        self._users["pool", message.pool] += 1

    def _check_is_memory(self, message: m.Allocation) -> None:
        """Raises ProtocolError unless an allocation may be a whole piece of virtual memory."""
        what = f"Allocation {message.allocation} is a piece of virtual memory"
        if any(message.export_data):
            raise m.ProtocolError(f"{what}, and has export data")
        if self._users["pool", message.pool] > 0:
            raise m.ProtocolError(f"{what}, which has another allocation")

    def _on_offer(self, message: m.Offer) -> None:
        if message.offer in self.offers or message.offer in self._withdrawn:
            raise m.ProtocolError(f"Offer {message.offer} is announced twice")
        if len(self.offers) >= m.MAXIMUM_IDENTIFIERS:
            raise m.limit_exceeded(f"{m.MAXIMUM_IDENTIFIERS} offers of an exporter")
        encoded, message.metadata = message.metadata.encode(), ""
        state = OfferState(message, encoded)
        if message.name in self._names:
            raise m.ProtocolError(f"Two offers have the name {quoted(message.name)}")
        if message.pool not in self._pools:
            raise m.ProtocolError(f"Pool {message.pool} was not announced")
        if message.kind == "pool" and self._pools[message.pool].message.kind == "memory":
            raise m.ProtocolError(f"Pool {message.pool} is a piece of virtual memory, and is offered as a whole pool")
        if message.kind != "pool":
            allocation = self._allocations.get(message.allocation)
            if allocation is None or allocation.pool != message.pool:
                raise m.ProtocolError(f"Allocation {message.allocation} of pool {message.pool} was not announced")
            if message.byte_offset + message.byte_length > allocation.byte_length:
                raise m.ProtocolError(f"More is offered than the {allocation.byte_length} bytes that were allocated")
        if message.ready_event != 0:
            self._remote_events.require(message.ready_event)
        self._metadata_budget.add(state.text_length)
        self._names.add(message.name)
        self._use(message, 1)
        self.offers[message.offer] = state

    def _on_channel(self, message: m.Channel) -> None:
        state = self.offers.get(message.offer)
        if state is None or state.is_complete:
            raise m.ProtocolError(f"Offer {message.offer} is no channel, or was described before")
        if len(message.ready_events) * message.slot_stride != state.message.byte_length:
            raise m.ProtocolError("A channel's slots do not fill its ring")
        if self._slots + len(message.ready_events) > m.MAXIMUM_IDENTIFIERS:
            raise m.limit_exceeded(f"{m.MAXIMUM_IDENTIFIERS} slots of all channels of an exporter")
        for event in message.ready_events:
            self._remote_events.require(event)
        self._slots += len(message.ready_events)
        state.channel = message

    def _on_withdraw(self, number: int) -> None:
        state = self.offers.pop(number, None)
        if state is None:
            raise m.ProtocolError(f"Offer {number} is withdrawn and was not made")
        self._names.discard(state.message.name)
        self._metadata_budget.remove(state.text_length)
        self._slots -= 0 if state.channel is None else len(state.channel.ready_events)
        self._use(state.message, -1)
        state.is_withdrawn = True
        if state.holds > 0:
            self._withdrawn[number] = state
        if state.waits == 0:
            self._send(m.Withdrawn(number))

    def _on_frame(self, number: int, frame: m.Frame | None) -> None:
        state = self.offers.get(number) or self._withdrawn.get(number)
        if state is not None and state.is_joined and state.on_frame is not None and state.holds > 0:
            if frame is not None and state.channel is not None and frame.has_event:
                if frame.slot < len(state.channel.ready_events):
                    self._remote_events.renew(state.channel.ready_events[frame.slot])
            state.on_frame(frame)
        # FRAME and END may cross RELEASED on the way.
        elif state is not None and not state.is_joined:
            raise m.ProtocolError(f"A frame came of channel {number}, which was not joined")

    def _on_forget(self, message: m.Forget) -> None:
        number = message.identifier
        if message.kind == "event":
            self._remote_events.forget(number)
        elif message.kind == "allocation":
            allocation = self._allocations.get(number)
            if allocation is None or self._users["allocation", number] > 0:
                raise m.ProtocolError(f"Allocation {number} is forgotten, and is used or was not announced")
            del self._allocations[number]
            del self._users["allocation", number]
            self._users["pool", allocation.pool] -= 1
        else:
            if number not in self._pools or self._users["pool", number] > 0:
                raise m.ProtocolError(f"Pool {number} is forgotten, and is used or was not announced")
            if number == self._requested_pool:
                raise m.ProtocolError(f"Pool {number} is forgotten, and its descriptor was requested")
            del self._users["pool", number]
            self._close_pool(number)

    def _use(self, message: m.Offer, count: int) -> None:
        """Counts the users of the memory of an offer."""
        if message.kind == "pool":
            self._users["pool", message.pool] += count
            self._whole_offers[message.pool] += count
        else:
            self._users["allocation", message.allocation] += count

    def _on_event_free(self, number: int) -> None:
        local = self._lent.pop(number, None)
        if local is None:
            raise m.ProtocolError(f"Event {number} is freed and was not lent")
        self._local_events.put_back(local)

    def _close_pool(self, number: int) -> None:
        self._close_descriptor(number)
        pool = self._pools.pop(number)
        self._whole_offers.pop(number, None)
        imported, pool.imported = pool.imported, None
        if imported is not None:
            try:
                imported.release()
            except CudaError:
                pass
