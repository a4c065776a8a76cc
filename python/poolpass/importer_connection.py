"""The exporter's end of a connection: what one importer was sent, and what it holds of that."""
from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Callable, Iterable, Literal

from . import messages as m
from .connection import Connection, goodbye_error
from .cuda import cuda
from .descriptors import discard
from .errors import CudaError, SharingError, quoted
from .event_waits import EventWaits
from .events import EventAnswers, LocalEvent, RemoteEvents, is_device_lost
from .peer import Peer

if TYPE_CHECKING:
    from .channel_producer import ChannelProducer
    from .exporter import Exporter
    from .memory_pool import MemorySource
    from .offer import OfferRecord

logger = logging.getLogger("poolpass")

LeaseState = Literal["announced", "held", "releasing", "quarantined"]


@dataclass(eq=False)
class SentOffer:
    """An offer that an importer was sent. Until it is over, the importer may use the memory."""

    record: OfferRecord
    held: int = 0
    # Events of RELEASED that have not fired.
    releasing: set[int] = field(default_factory=set)
    was_withdrawn: bool = False
    # Whether the importer has answered that it will not map the offer again.
    is_answered: bool = False
    was_held: bool = False
    recall: Literal["no", "wanted", "sent"] = "no"
    since: datetime | None = None

    @property
    def is_used(self) -> bool:
        return self.held > 0 or len(self.releasing) > 0

    def absorb(self, other: SentOffer) -> None:
        """Takes over what another connection of the same process holds of the offer. Both connections have ended."""
        self.held += other.held
        self.was_held = self.was_held or other.was_held
        times = [each for each in (self.since, other.since) if each is not None]
        self.since = min(times, default=None)


class ImporterConnection:
    """An importer, until it can use nothing any more: that may be long after the connection has ended."""

    def __init__(self, exporter: Exporter, connection: Connection, handshake_deadline: float):
        self.connection = connection
        self.handshake_deadline = handshake_deadline
        self.is_welcome = False
        self.version = m.LOWEST_VERSION
        self.sent_offers: dict[int, SentOffer] = {}
        self.is_gone = False
        self.watches_process = connection.process.pidfd >= 0
        # When `poll` has something to do, by time.monotonic(): at once whenever something has happened.
        self.wake_at = 0.0
        self._exporter = exporter
        # Offers that are to be sent, or about which something is.
        self._changed: dict[OfferRecord, None] = {}
        self._free_events: list[int] = []
        self._waits = EventWaits(exporter.poll_budget)
        self._channels: dict[SentOffer, ChannelProducer] = {}
        self._recall_deadlines: dict[SentOffer, float] = {}
        self._sent_pools: dict[int, int] = {}
        # What the announced pools are, whose descriptors the importer may request again.
        self._sources: dict[int, MemorySource] = {}
        # The token of the last descriptor that was requested.
        self._handle_token = 0
        self._sent_allocations: dict[int, int] = {}
        self._sent_events: dict[int, LocalEvent] = {}
        self._events = RemoteEvents(
            connection.process, connection.send, m.MAXIMUM_IMPORTER_EVENTS, exporter.opened_events
        )
        self._answers = EventAnswers(connection.send, self._sent_events.get)

    @property
    def peer(self) -> Peer:
        return self.connection.peer

    @property
    def is_connected(self) -> bool:
        return self.connection.is_open

    @property
    def is_backlogged(self) -> bool:
        return self.connection.is_backlogged

    @property
    def events(self) -> int:
        """The number of events that it has announced."""
        return len(self._events)

    def send(self, message: m.Message) -> None:
        self.wake_at = 0.0
        self.connection.send(message)
        if self.connection.wants_to_write:
            self._exporter.loop.wake()

    def change(self, record: OfferRecord) -> None:
        """Sends what the importer does not know yet of an offer, as soon as the importer reads."""
        if self.is_connected and self.is_welcome:
            self.wake_at = 0.0
            self._changed[record] = None
            self.pump()

    def when_fired(self, number: int, callback: Callable[[], None]) -> None:
        """Calls back once an event of the importer has fired, or can be known never to fire."""
        self._events.require(number)
        if number in self._waits:
            raise m.ProtocolError(f"Event {number} is used again before it was freed")
        self._events.renew(number)
        self._waits.start(number, callback, time.monotonic())
        self.wake_at = 0.0
        self._exporter.restart_polling()

    def recall(self, record: OfferRecord, deadline: float | None) -> None:
        self.wake_at = 0.0
        sent = self.sent_offers.get(record.number)
        if sent is None or sent.held == 0:
            return
        if sent.recall == "no":
            sent.recall = "wanted"
        if deadline is not None:
            self._recall_deadlines[sent] = min(deadline, self._recall_deadlines.get(sent, deadline))
        self.change(record)
        self._exporter.loop.wake()

    def state_of(self, sent: SentOffer) -> LeaseState:
        if not self.is_connected:
            return "quarantined"
        if sent.held > 0:
            return "held"
        return "releasing" if sent.releasing else "announced"

    # What follows runs on the exporter's thread, with its lock held, if nothing else is said.

    def receive(self) -> None:
        if self.is_connected:
            self._handle(self.connection.receive(self._exporter.messages_per_turn))

    def _handle(self, messages: Iterable[tuple[m.Message, int | None]]) -> None:
        self.wake_at = 0.0
        try:
            self.connection.flush()
            for message, descriptor in messages:
                if descriptor is not None:
                    discard(descriptor)
                    raise m.ProtocolError("An importer must not send descriptors")
                self._on_message(message)
        except SharingError as error:
            self.end_for(error)
        except CudaError as error:
            self._exporter.on_failure(error)
        except Exception as error:
            self._end_for_mistake("handle a message of", error)

    def _end_for_mistake(self, what: str, error: Exception) -> None:
        """A mistake of this package, which a peer has found, must not harm the others."""
        text = f"Cannot {what} {self.connection.name}"
        logger.exception(text)
        self.end_for(SharingError("internal-error", f"{text}: {type(error).__name__}"))

    def next_deadline(self, now: float) -> float:
        """When to poll next, by time.monotonic()."""
        deadline = self._waits.next_deadline(now)
        if not self.is_connected:
            return deadline
        if self.connection.has_more:
            return 0.0
        if self._answers.are_pending:
            deadline = min(deadline, self._exporter.next_answer())
        if self.connection.deadline is not None:
            deadline = min(deadline, self.connection.deadline)
        if not self.is_welcome:
            deadline = min(deadline, self.handshake_deadline)
        return min((deadline, *self._recall_deadlines.values()))

    def poll(self, now: float) -> bool:
        """Polls events and deadlines. Returns whether an event has fired."""
        try:
            return self._poll(now)
        except CudaError:
            raise
        except Exception as error:
            self._end_for_mistake("poll the events of", error)
            # Only the end of the process releases what they stand for.
            self._waits.clear()
            return False

    def _poll(self, now: float) -> bool:
        has_advanced = False
        if self.is_connected and self.connection.has_more:
            self.receive()
        if self.is_connected:
            try:
                self._check_deadlines(now)
                has_advanced = self._answers.poll()
            except SharingError as error:
                self.end_for(error)
        has_advanced |= self._waits.poll(now, self._has_fired)
        if self.is_connected:
            self.pump()
        return has_advanced

    def _has_fired(self, number: int) -> bool:
        try:
            return self._events.has_fired(number)
        except CudaError:
            if is_device_lost(self._events.ordinal_of(number)):
                raise
            # Its handle is not what it seems. Only the end of the process releases what it stands for.
            return False

    def pump(self) -> None:
        """Sends what can be sent. Any thread may call this that has the lock."""
        while self._free_events and not self.is_backlogged:
            self.send(m.EventFree(self._free_events.pop()))
        while self._changed and not self.is_backlogged:
            record = next(iter(self._changed))
            del self._changed[record]
            try:
                self._send_change(record)
            except SharingError as error:
                # Such as for the lack of a descriptor: it cannot be told of this offer, and not of the next ones.
                self.end_for(error)
                return
        if not self.is_backlogged:
            for channel in list(self._channels.values()):
                channel.frames.on_drain(self)

    def process_ended(self) -> None:
        """The kernel has taken from the process what it had mapped."""
        if self.is_connected:
            self._handle(self.connection.receive_rest())
        if self.is_connected:
            self.end_for(SharingError("peer-gone", f"Cannot continue with {self.connection.name}: it has ended"))
        self._release_all()

    def _release_all(self) -> None:
        self._waits.clear()
        for sent in list(self.sent_offers.values()):
            sent.held = 0
            sent.releasing.clear()
            sent.is_answered = True
            self._settle(sent)
        self.leave_if_unused()

    def cut_off(self, reason: m.GoodbyeReason, text: str) -> None:
        if self.is_connected:
            error = SharingError(m.code_of_goodbye(reason), f"Cannot continue with {self.connection.name}: {text}")
            self._disconnect(error, reason, text)

    def end_for(self, error: SharingError) -> None:
        """Ends the connection for an error: of the importer, or because it is gone."""
        self._disconnect(error, None if error.code == "peer-gone" else m.reason_of_error(error), str(error))

    def end(self, close_timeout: float) -> None:
        """Ends the connection, because the exporter closes. Any thread may call this that has the lock."""
        if any(sent.is_used for sent in self.sent_offers.values()):
            self.cut_off("cut-off", f"It has not released what it holds within {close_timeout:g} s")
        elif self.is_connected:
            self._disconnect(None, "done", "")

    def _disconnect(self, error: SharingError | None, reason: m.GoodbyeReason | None, text: str) -> None:
        if not self.is_connected:
            return
        self.wake_at = 0.0
        self._exporter.loop.unregister(self.connection.socket)
        if reason is None:
            self.connection.close()
        else:
            self.connection.say_goodbye(reason, text)
        self._changed.clear()
        self._free_events.clear()
        self._answers.clear()
        self._recall_deadlines.clear()
        # The others are waited for until the process has ended.
        self._waits.end()
        for channel in list(self._channels.values()):
            channel.frames.on_leave(self)
        self._events.forget_all_but(self._waits)
        self._exporter.on_disconnect(self, error)
        self.leave_if_unused()
        if self.connection.process.pidfd < 0 and not self.is_gone:
            # It had ended before it could be watched.
            self._release_all()
        elif not self.is_gone:
            self._exporter.on_linger(self)

    def absorb(self, other: ImporterConnection) -> None:
        """Takes over what another connection of the same process still holds. Both connections have ended.

        From now on, only the end of the process releases that.
        """
        other._waits.clear()
        for number, sent in list(other.sent_offers.items()):
            record = sent.record
            sent.held += len(sent.releasing)
            sent.releasing.clear()
            if record.channel is not None:
                record.channel.frames.on_absorb(other, self)
            record.importers.discard(other)
            known = self.sent_offers.setdefault(number, sent)
            if known is not sent:
                known.absorb(sent)
            known.is_answered = False
            record.importers.add(self)
        other.sent_offers.clear()
        other._channels.clear()
        other.leave_if_unused()

    def leave_if_unused(self) -> None:
        if self.is_connected or self.sent_offers or self.is_gone:
            return
        self.is_gone = True
        self.wake_at = 0.0
        # Those of frames: who says that it has nothing mapped need not have waited for them.
        self._waits.clear()
        self._events.close()
        if self.watches_process:
            self._exporter.loop.unregister(self.connection.process.pidfd)
            self.watches_process = False
        self.connection.process.close()

    def _check_deadlines(self, now: float) -> None:
        self.connection.check_deadline(now)
        if not self.is_welcome and now > self.handshake_deadline:
            raise SharingError("timed-out", f"Cannot continue with {self.connection.name}: HELLO did not come")
        for sent, deadline in self._recall_deadlines.items():
            if now > deadline:
                name = quoted(sent.record.name)
                raise SharingError("cut-off", f"{self.connection.name} has not released {name} in time")

    def _send_change(self, record: OfferRecord) -> None:
        sent = self.sent_offers.get(record.number)
        if sent is None:
            if not record.is_withdrawn:
                self._send_offer(record)
            return
        if sent.recall == "wanted":
            sent.recall = "sent"
            self.send(m.Recall(record.number))
        if record.is_withdrawn and not sent.was_withdrawn:
            sent.was_withdrawn = True
            self.send(m.Withdraw(record.number))

    def _send_offer(self, record: OfferRecord) -> None:
        pool, allocation = record.pool_message, record.allocation_message
        if pool.kind == "memory" and self.version < m.MEMORY_VERSION:
            raise m.ProtocolError(f"{quoted(record.name)} needs version {m.MEMORY_VERSION}", "version-mismatch")
        if pool.pool not in self._sent_pools:
            self.connection.send(pool, record.pool._export())
            self._sent_pools[pool.pool] = 0
            self._sources[pool.pool] = record.pool
        if allocation is not None and allocation.allocation not in self._sent_allocations:
            self._sent_allocations[allocation.allocation] = 0
            self._sent_pools[pool.pool] += 1
            self.send(allocation)
        for local in record.events:
            if local.number not in self._sent_events:
                self._sent_events[local.number] = local
                self.send(local.message)
        if allocation is None:
            self._sent_pools[pool.pool] += 1
        else:
            self._sent_allocations[allocation.allocation] += 1
        sent = self.sent_offers[record.number] = SentOffer(record)
        record.importers.add(self)
        self.send(record.message())
        if record.channel is not None:
            self._channels[sent] = record.channel
            self.send(record.channel.message)

    def _forget(self, record: OfferRecord) -> None:
        """Sends FORGET for what no offer names any more."""
        pool, allocation = record.pool_message.pool, record.allocation_message
        if allocation is None:
            self._sent_pools[pool] -= 1
        else:
            number = allocation.allocation
            self._sent_allocations[number] -= 1
            if self._sent_allocations[number] == 0:
                del self._sent_allocations[number]
                self._sent_pools[pool] -= 1
                self.send(m.Forget("allocation", number))
        if self._sent_pools[pool] == 0:
            del self._sent_pools[pool]
            del self._sources[pool]
            self.send(m.Forget("pool", pool))

    def _on_message(self, message: m.Message) -> None:
        if isinstance(message, m.Goodbye):
            self._on_goodbye(message)
        elif not self.is_welcome:
            self._on_hello(message)
        elif isinstance(message, m.Event):
            cuda().device_of_uuid(message.device_uuid)
            self._events.define(message)
            self._exporter.limit_events()
        elif isinstance(message, m.Wait):
            self._answers.on_wait(message.event)
            self._exporter.restart_polling()
        elif isinstance(message, m.Fired):
            self._events.on_fired(message.event)
        elif isinstance(message, m.Held):
            self._on_held(self._sent(message.offer))
        elif isinstance(message, m.Released):
            self._on_released(self._sent(message.offer), message.event)
        elif isinstance(message, m.Withdrawn):
            sent = self._sent(message.offer)
            if not sent.was_withdrawn or sent.is_answered:
                raise m.ProtocolError(f"WITHDRAWN for offer {message.offer} answers no WITHDRAW")
            sent.is_answered = True
            self._settle(sent)
        elif isinstance(message, (m.Join, m.ReleaseSlot)):
            self._on_channel(message)
        elif isinstance(message, m.RequestHandle):
            self._on_request_handle(message)
        else:
            raise m.ProtocolError(f"An importer must not send {m.layout_of(message).name}")

    def _on_request_handle(self, message: m.RequestHandle) -> None:
        source = self._sources.get(message.pool)
        if self.version < m.REQUEST_HANDLE_VERSION:
            raise m.ProtocolError(f"A descriptor is requested, which version {self.version} does not permit")
        if source is None:
            raise m.ProtocolError(f"The descriptor of pool {message.pool} is requested, which was not announced")
        # The token proves that the last answer was read: unread ones would take what the kernel lets this user send.
        if message.token != self._handle_token:
            raise m.ProtocolError(f"The descriptor of pool {message.pool} is requested without the last token")
        self._handle_token = 1 + secrets.randbelow(2**32 - 1)
        self.connection.send(m.PoolHandle(message.pool, self._handle_token), source._export())

    def _on_hello(self, message: m.Message) -> None:
        if not isinstance(message, m.Hello):
            raise m.ProtocolError(f"{m.layout_of(message).name} came before HELLO")
        version = min(message.highest_version, m.PROTOCOL_VERSION)
        if version < message.lowest_version or not m.is_known_version(version):
            known = m.versions_text(m.LOWEST_VERSION, m.PROTOCOL_VERSION)
            raise m.ProtocolError(f"This exporter knows only {known}", "version-mismatch")
        if message.role != "importer":
            raise m.ProtocolError(f"This exporter does not serve the role {message.role}")
        self._exporter.check_room(self)
        self.is_welcome = True
        self.version = version
        self.connection.send(m.Welcome(version))
        self._exporter.on_connect(self)

    def _on_goodbye(self, message: m.Goodbye) -> None:
        if message.reason == "done":
            # An importer that sends this has nothing mapped, and maps nothing any more.
            for sent in self.sent_offers.values():
                sent.is_answered = True
                sent.held = 0
            self._disconnect(None, None, "")
            for sent in list(self.sent_offers.values()):
                self._settle(sent)
            self.leave_if_unused()
        else:
            self._disconnect(goodbye_error(self.connection, message), None, "")

    def _on_held(self, sent: SentOffer) -> None:
        if sent.is_answered:
            raise m.ProtocolError(f"Offer {sent.record.number} is held after WITHDRAWN")
        if sent.held == 0:
            sent.since = datetime.now(timezone.utc)
        sent.held += 1
        sent.was_held = True
        self._exporter.on_hold(sent.record, self)

    def _on_released(self, sent: SentOffer, event: int) -> None:
        if sent.held == 0:
            raise m.ProtocolError(f"Offer {sent.record.number} is released and was not held")
        if event != 0:
            def on_fired() -> None:
                sent.releasing.discard(event)
                self._free_events.append(event)
                self._settle(sent)

            self.when_fired(event, on_fired)
            sent.releasing.add(event)
        sent.held -= 1
        if sent.held == 0:
            sent.recall = "no"
            self._recall_deadlines.pop(sent, None)
            if sent.record.channel is not None:
                sent.record.channel.frames.on_leave(self)
        self._exporter.on_release(sent.record, self)
        self._settle(sent)

    def _on_channel(self, message: m.Join | m.ReleaseSlot) -> None:
        sent = self._sent(message.offer)
        channel = sent.record.channel
        if channel is None or sent.held == 0:
            raise m.ProtocolError(f"Offer {message.offer} is no channel, or is used and was not held")
        if isinstance(message, m.Join):
            channel.frames.on_join(self)
        else:
            channel.frames.on_release(self, message)

    def _sent(self, number: int) -> SentOffer:
        sent = self.sent_offers.get(number)
        if sent is None:
            raise m.ProtocolError(f"Offer {number} was not made, or is over")
        return sent

    def _settle(self, sent: SentOffer) -> None:
        """Ends an offer that the importer cannot use any more."""
        record = sent.record
        if sent.is_used:
            return
        if sent.was_held:
            sent.was_held = False
            record.releases += 1
        if record.channel is not None:
            record.channel.frames.on_all_released(self)
        if sent.is_answered and self.sent_offers.get(record.number) is sent:
            del self.sent_offers[record.number]
            self._channels.pop(sent, None)
            self._recall_deadlines.pop(sent, None)
            record.importers.discard(self)
            if self.is_connected:
                self._forget(record)
            record.end_if_over()
        self.leave_if_unused()
