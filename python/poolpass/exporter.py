"""Exporting: listening at a path, and offering memory there."""
from __future__ import annotations

import logging
import math
import os
import resource
import socket
import time
from collections import Counter
from typing import Any, Callable, Collection, Sequence

from . import messages as m
from .array_source import ArraySource
from .channel_producer import DEFAULT_HOLD_TIMEOUT, ChannelProducer, Overflow, stride_of
from .closing import Closing
from .connection import MESSAGES_PER_TURN, Connection
from .cuda import cuda, stream_handle
from .device_array import DeviceArray, check_nbytes, check_shape
from .dtypes import UINT8, described, to_dtype
from .errors import CudaError, SharingError, needing_descriptors, quoted
from .event_loop import EventLoop, Pace
from .event_waits import PollBudget
from .events import LocalEvent, LocalEvents, OpenedEvents
from .export_data import MAXIMUM_IMPORTABLE
from .importer_connection import ImporterConnection
from .limits import check_maximum, check_seconds
from .memory_pool import AllocationHolding, Buffer, MemoryPool, MemorySource
from .metadata_budget import MAXIMUM_OF_EXPORTER
from .offer import Lease, Offer, OfferRecord
from .peer import Peer
from .sockets import Listener, StrPath, check_path
from .users import check_users
from .virtual_memory import allocate_virtual_array

# Ended connections whose processes may still have memory mapped: each user who may connect has an equal share.
MAXIMUM_LINGERING = 1024
# Those of one process that are kept separately.
MAXIMUM_LINGERING_OF_PROCESS = 16
# Events that importers have announced, in all, and those that are open at a time.
MAXIMUM_EVENTS = 65_536
MAXIMUM_OPENED_EVENTS = 4096
# Descriptors that connections leave to the application; an eighth of all that the process may open, if that is less.
RESERVED_DESCRIPTORS = 64
# The fewest messages that are handled of one importer before it is the others' turn.
LEAST_PER_TURN = 8
# Seconds between attempts to accept while no descriptor is left.
ACCEPT_PAUSE = 0.1

logger = logging.getLogger("poolpass")

OnPeer = Callable[[Peer], None]
OnDisconnect = Callable[[Peer, SharingError | None], None]
OnLease = Callable[[str, Peer], None]


class Exporter(Closing):
    """Offers memory to other processes. Made by `Exporter.listen`.

    A thread serves the importers. What is offered is freed only when no importer can use it any more: each one that has
    mapped it holds a lease, until it has released it and its work is done, or until its process has ended.
    """

    def __init__(
        self,
        listener: Listener,
        *,
        users: frozenset[int],
        maximum_importers: int,
        maximum_importers_per_user: int | None,
        maximum_handshakes: int,
        handshake_timeout: float,
        message_timeout: float,
        close_timeout: float,
        on_connect: OnPeer | None,
        on_disconnect: OnDisconnect | None,
        on_hold: OnLease | None,
        on_release: OnLease | None,
    ):
        self.loop = EventLoop("poolpass-exporter")
        # Why nothing can be shared any more.
        self.failure: Exception | None = None
        self._listener = listener
        self._users = users
        self._maximum_importers = maximum_importers
        self._maximum_importers_per_user = maximum_importers_per_user
        self._maximum_handshakes = maximum_handshakes
        self._handshake_timeout = handshake_timeout
        self._message_timeout = message_timeout
        self._close_timeout = close_timeout
        self._callbacks = (on_connect, on_disconnect, on_hold, on_release)
        self._importers: dict[ImporterConnection, None] = {}
        # Offers that are not withdrawn, by name, and all that have not ended.
        self._offers: dict[str, OfferRecord] = {}
        self._records: dict[OfferRecord, None] = {}
        self._channels: dict[OfferRecord, ChannelProducer] = {}
        self._text_length = 0
        self._last_offer = 0
        self._events = LocalEvents(m.MAXIMUM_IDENTIFIERS)
        # The events of importers.
        self.opened_events = OpenedEvents(MAXIMUM_OPENED_EVENTS)
        self.poll_budget = PollBudget()
        self._pools: dict[MemorySource, m.Pool] = {}
        self._allocations: dict[AllocationHolding, m.Allocation] = {}
        self._last_number = 0
        # Importers of which more has arrived than was handled.
        self._busy = 0
        # At least as many as connected importers have announced.
        self._event_count = 0
        self._memory_users: Counter[MemorySource | AllocationHolding] = Counter()
        # The pools of `offer_tensor`.
        self._own_pools: dict[int, MemoryPool] = {}
        # Arrays that are being copied, with the event behind the copy.
        self._sources: list[tuple[Any, ArraySource]] = []
        self._pace = Pace()
        self._is_closing = False
        self._is_listening = True
        self._accept_again: float | None = None
        self.loop.register(listener.socket, "listener")
        self.loop.start(self)

    @classmethod
    def listen(
        cls,
        path: StrPath,
        *,
        users: Collection[int] = (),
        maximum_importers: int = 1024,
        maximum_importers_per_user: int | None = None,
        maximum_handshakes: int = 128,
        handshake_timeout: float = 5.0,
        message_timeout: float = 5.0,
        close_timeout: float = 5.0,
        on_connect: OnPeer | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_hold: OnLease | None = None,
        on_release: OnLease | None = None,
    ) -> Exporter:
        """Listens at a path, and replaces a socket file that a process has left behind there.

        users: the IDs of other users whose processes may connect. Without them, the socket's mode is 0600.
        maximum_importers: how many importers may be connected.
        maximum_importers_per_user: how many of one user; by default an equal share for each user who may connect.
        maximum_handshakes: how many connections may not have said yet what they are.
        handshake_timeout, message_timeout: seconds that an importer has for that, and to send a whole message.
        close_timeout: seconds that `close` waits for importers to release what they hold.
        on_connect: called with the process of each importer.
        on_disconnect: called at the end of each connection, also of one that never became an importer, with the process
        and with the error, if any.
        on_hold, on_release: called with an offer's name and the process that maps or releases it.

        The callbacks run on the exporter's thread, and must soon return.
        Raises SharingError: "address-in-use", "not-found", "path-too-long", "out-of-descriptors", or "not-permitted",
        also if other users can change a folder or a link on the path.
        """
        check_maximum(maximum_importers, "maximum_importers")
        if maximum_importers_per_user is not None:
            check_maximum(maximum_importers_per_user, "maximum_importers_per_user")
        check_maximum(maximum_handshakes, "maximum_handshakes")
        check_seconds(handshake_timeout, "handshake_timeout")
        check_seconds(message_timeout, "message_timeout")
        check_seconds(close_timeout, "close_timeout")
        check_callback(on_connect, "on_connect")
        check_callback(on_disconnect, "on_disconnect")
        check_callback(on_hold, "on_hold")
        check_callback(on_release, "on_release")
        allowed = check_users(users)
        text = check_path("listen at", path)
        with needing_descriptors(f"listen at {text}"):
            listener = Listener(text, allowed)
            try:
                return cls(
                    listener, users=allowed, maximum_importers=maximum_importers,
                    maximum_importers_per_user=maximum_importers_per_user, maximum_handshakes=maximum_handshakes,
                    handshake_timeout=handshake_timeout, message_timeout=message_timeout, close_timeout=close_timeout,
                    on_connect=on_connect, on_disconnect=on_disconnect, on_hold=on_hold, on_release=on_release,
                )
            except BaseException:
                listener.close()
                raise

    @property
    def path(self) -> str:
        return self._listener.path

    @property
    def offers(self) -> list[Offer]:
        """What is offered now."""
        with self.loop.lock:
            return [Offer(each) for each in self._offers.values()]

    @property
    def leases(self) -> list[Lease]:
        """Who holds what, since when."""
        with self.loop.lock:
            return [lease for record in self._records for lease in self._leases(record)]

    @property
    def importers(self) -> list[Peer]:
        """The processes that are connected."""
        with self.loop.lock:
            return [each.peer for each in self._importers if each.is_connected and each.is_welcome]

    def offer(
        self, name: str, source: DeviceArray | MemoryPool, *, metadata: Any = None, stream: Any = None
    ) -> Offer:
        """Offers a buffer, a view of one, or a whole pool to all importers, without a copy.

        source: memory of a pool, up to 4 GiB in one allocation, or of `allocate_virtual`, of any size. Importers of a
        poolpass that knows no virtual memory are cut off when they would be sent some.
        metadata: any JSON value of at most 32 KiB. An object gets the array's "dtype" and "shape" in addition, unless
        it has them or the array has no type of its own.
        stream: the stream that writes the contents: importers wait for it. By default that is taken from what wrote the
        buffer by DLPack, or else it is the buffer's; the device is waited for if it is not known.

        Raises TypeError or ValueError for wrong arguments, RuntimeError if the exporter was closed, and CudaError.
        Raises SharingError: "too-large" for an allocation of a pool that CUDA's driver could not import.
        """
        if isinstance(source, MemoryPool):
            with self.loop.lock:
                record = self._new_record(name, "pool", source, None, 0, 0, metadata, source)
                return self._publish(record)
        holding = getattr(source, "_holding", None)
        if not isinstance(source, DeviceArray) or not isinstance(holding, AllocationHolding):
            raise TypeError(f"Cannot offer {source!r}: give a Buffer, a view of one, a MemoryPool, or use offer_tensor")
        source._check()
        check_offer_name(name)
        if source.nbytes < 1:
            raise ValueError(f"Cannot offer {quoted(name)}: it has no bytes; memory that is shared has at least one")
        if getattr(source, "_is_typed", True):
            metadata = described(metadata, source.dtype, source.shape)
        ordinal = holding.pool.device
        if stream is None:
            behind = cuda().stream_behind(holding.streams.value, holding.stream, ordinal)
        else:
            behind = stream_handle(stream)
        with self.loop.lock:
            offset = source._address - holding.address
            record = self._new_record(name, "buffer", holding.pool, holding, offset, source.nbytes, metadata, source)
            self._record_ready(record, behind, ordinal)
            return self._publish(record)

    def offer_tensor(
        self, name: str, array: Any, *, metadata: Any = None, pool: MemoryPool | None = None, stream: Any = None
    ) -> Offer:
        """Copies an array into a pool, or into virtual memory if it is too large for one, and offers the copy, with its
        element type and shape.

        array: anything with DLPack or CUDA's array interface, on a device or on the host; it must be C-contiguous.
        pool: where the copy lies. By default, up to 4064 MiB in a pool of this exporter on the array's device, or on
        device 0, and more in virtual memory of that device.
        stream: the stream that the array is used on. The copy is one more piece of work of that stream, which nobody
        waits for. Without it, this waits for what the array's library says is to be done before, and for the copy.

        The copy is freed when the offer was withdrawn and nobody holds it. Raises what `offer` raises.
        """
        check_offer_name(name)
        with self.loop.lock:
            self._check_open(name)
        ordinal = ArraySource.device_of(array)
        if ordinal is not None and pool is not None and ordinal != pool.device:
            raise ValueError(
                f"Cannot copy an array of device {ordinal} into a pool of device {pool.device}: copy it to that device "
                "first, or use a pool of its own"
            )
        calls, device = cuda(), pool.device if pool is not None else ordinal or 0
        own = calls.copy_stream(device)
        behind = own if stream is None else stream_handle(stream)
        source = ArraySource(array, behind)
        try:
            buffer = self._allocate_copy(name, source, pool, device, own)
            buffer._use(behind)
            calls.order(behind, own, device)
            calls.copy(buffer._address, source.address, buffer.nbytes, source.copy_kind, behind, device)
            if stream is None:
                calls.synchronize(behind, device)
                event = None
            else:
                event = calls.create_event(device)
                calls.record(event, behind, device)
        except BaseException:
            source.release()
            raise
        if event is None:
            source.release()
        else:
            with self.loop.lock:
                self._sources.append((event, source))
                self.restart_polling()
        return self.offer(name, buffer, metadata=metadata, stream=behind)

    def _allocate_copy(
        self, name: str, source: ArraySource, pool: MemoryPool | None, device: int, stream: int
    ) -> Buffer:
        if pool is None and source.dtype.itemsize * math.prod(source.shape) > MAXIMUM_IMPORTABLE:
            return allocate_virtual_array(source.shape, source.dtype, device=device, stream=stream)
        if pool is None:
            pool = self._own_pool(name, device)
        buffer = pool.allocate_array(source.shape, source.dtype, stream=stream)
        try:
            # Nothing is copied that no process could import.
            buffer.export_pointer()
        except BaseException:
            buffer.release()
            raise
        return buffer

    def _own_pool(self, name: str, device: int) -> MemoryPool:
        with self.loop.lock:
            self._check_open(name)
            pool = self._own_pools.get(device)
            if pool is None:
                pool = self._own_pools[device] = MemoryPool(device)
            return pool

    def create_channel(
        self,
        name: str,
        pool: MemoryPool,
        *,
        slots: int,
        slot_nbytes: int | None = None,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        metadata: Any = None,
        overflow: Overflow = "wait",
        minimum_consumers: int | None = None,
        window: int | None = None,
        hold_timeout: float | None = None,
        stream: Any = None,
    ) -> ChannelProducer:
        """Creates a channel: a ring of slots in a pool, through which frames go to importers in place.

        slots: the number of frames that the ring holds, 1 to 1024.
        slot_nbytes: the largest size of a frame in bytes; or its `shape` and `dtype`, which importers then get as well.
        metadata: any JSON value of at most 32 KiB.
        overflow: what happens when all slots are in use: "wait" lets `reserve` wait for the slowest importer, and
        "drop-oldest" drops frames that no importer holds.
        minimum_consumers: `reserve` waits until so many importers have joined: 1, or 0 if frames are dropped.
        window: how many frames each importer may hold if frames are dropped: 2, or 1 with fewer than 3 slots.
        hold_timeout: seconds after which an importer that holds a frame is cut off: 30 if frames are dropped.
        stream: the stream that the ring is allocated on, and that writes slots if nothing else is said.
        """
        drops = overflow == "drop-oldest"
        if overflow not in ("wait", "drop-oldest"):
            raise ValueError(f'Cannot create a channel with overflow {overflow!r}: use "wait" or "drop-oldest"')
        if isinstance(slots, bool) or not isinstance(slots, int):
            raise TypeError(f"Cannot create a channel of {slots!r} slots: it must be a whole number")
        if not 1 <= slots <= m.MAXIMUM_SLOTS:
            raise ValueError(f"Cannot create a channel of {slots} slots: it has 1 to {m.MAXIMUM_SLOTS}")
        if window is not None and not (drops and 1 <= window <= slots):
            raise ValueError(f'Cannot use the window {window}: with overflow "drop-oldest", it is 1 to {slots}')
        element = to_dtype(dtype) if dtype is not None else UINT8
        if shape is not None:
            sizes = check_shape(shape)
        elif slot_nbytes is not None:
            sizes = (check_nbytes(slot_nbytes, "slot_nbytes") // element.itemsize,)
        else:
            raise TypeError("Cannot create a channel whose slots have no size: give slot_nbytes, or shape and dtype")
        nbytes = element.itemsize * math.prod(sizes)
        if nbytes < 1:
            raise ValueError("Cannot create slots of 0 bytes: a slot has at least one")
        if slot_nbytes is not None and nbytes != slot_nbytes:
            raise ValueError(f"Cannot create slots of {slot_nbytes} bytes for {element.name} of shape {list(sizes)}")
        if shape is not None or dtype is not None:
            metadata = described(metadata, element.name, sizes)
        if minimum_consumers is None:
            minimum_consumers = 0 if drops else 1
        elif not minimum_consumers >= 0:
            raise ValueError(f"Cannot wait for {minimum_consumers} importers: minimum_consumers is 0 or more")
        if window is None:
            window = min(2, max(1, slots - 1)) if drops else slots
        if hold_timeout is None:
            hold_timeout = DEFAULT_HOLD_TIMEOUT if drops else math.inf
        check_seconds(hold_timeout, "hold_timeout")
        ring = pool.allocate(slots * stride_of(nbytes), stream=stream)
        with self.loop.lock:
            record = self._new_record(name, "channel", pool, ring._holding, 0, ring.nbytes, metadata, ring)
            try:
                events = [self._take_event(pool.device) for _ in range(slots)]
                channel = ChannelProducer(
                    record, ring, events, slot_nbytes=nbytes, slot_type=(element, sizes), overflow=overflow,
                    minimum_consumers=minimum_consumers, window=window, hold_timeout=hold_timeout,
                    close_timeout=self._close_timeout,
                )
            except BaseException:
                self._abandon(record)
                raise
            record.channel = self._channels[record] = channel
            self.restart_polling()
            self._publish(record)
        return channel

    def close(self) -> None:
        """Withdraws everything, asks for what is held, and waits for that for at most `close_timeout` seconds.

        What an importer has not released by then stays allocated until its process has ended. Does not close pools.
        """
        if self.loop.is_forked:
            return
        with self.loop.lock:
            if self._is_closing:
                return
            self._is_closing = True
            self._stop_listening()
        try:
            self._wait_released()
        finally:
            # Also if the wait was interrupted.
            is_over = self._end_importers()
        if is_over and not self.loop.is_current:
            self.loop.join()

    def _wait_released(self) -> None:
        with self.loop.lock:
            channels = list(self._channels.values())
        for channel in channels:
            channel.close()
        with self.loop.lock:
            self._withdraw_all()
            if not self.loop.is_current:
                self.loop.wait_until(self._is_idle, time.monotonic() + self._close_timeout)

    def _end_importers(self) -> bool:
        """Returns whether nothing is left to do."""
        with self.loop.lock:
            self._withdraw_all()
            for importer in list(self._importers):
                importer.end(self._close_timeout)
            self.loop.wake()
            pools = list(self._own_pools.values())
            self._own_pools.clear()
            is_over = self.is_over()
        for pool in pools:
            pool.close()
        return is_over

    def _withdraw_all(self) -> None:
        for record in list(self._records):
            self._recall(record, None)
            self._withdraw(record)

    def __repr__(self) -> str:
        state = ", closed" if self._is_closing else ""
        return f"<Exporter at {self.path}: {len(self._offers)} offers, {len(self.importers)} importers{state}>"

    # What follows needs the lock, and is used by the importers' connections and by offers.

    def restart_polling(self) -> None:
        self._pace.restart()
        if not self.loop.is_current:
            self.loop.wake()

    def check_room(self, importer: ImporterConnection) -> None:
        """Raises ProtocolError if no further importer may connect, in all or of this one's user."""
        users = len(self._users | {os.geteuid()})
        connected = [each for each in self._importers if each.is_connected and each.is_welcome]
        if len(connected) >= self._maximum_importers:
            raise m.limit_exceeded(f"{self._maximum_importers} importers (maximum_importers)")
        share = self._maximum_importers_per_user
        if share is None:
            share = math.ceil(self._maximum_importers / users)
        if sum(each.peer.uid == importer.peer.uid for each in connected) >= share:
            raise m.limit_exceeded(f"{share} importers of one user (maximum_importers_per_user)")
        # Those of one process are merged: these are of many processes.
        share = math.ceil(MAXIMUM_LINGERING / users)
        lingering = (each for each in self._importers if not each.is_connected)
        if sum(each.peer.uid == importer.peer.uid for each in lingering) >= share:
            raise m.limit_exceeded(f"{share} ended connections of one user whose processes hold memory")

    def limit_events(self) -> None:
        """Ends a connection if importers have announced too many events: one of the process, of the user, with most."""
        self._event_count += 1
        if self._event_count <= MAXIMUM_EVENTS:
            return
        connected = [each for each in self._importers if each.is_connected]
        # Ended connections have forgotten most.
        self._event_count = sum(each.events for each in connected)
        if self._event_count <= MAXIMUM_EVENTS:
            return
        largest = connected
        for key in ("uid", "pid"):
            counts = Counter[int]()
            for each in largest:
                counts[getattr(each.peer, key)] += each.events
            ((most, _),) = counts.most_common(1)
            largest = [each for each in largest if getattr(each.peer, key) == most]
        text = f"The limit is {MAXIMUM_EVENTS} events of all importers, and this process has most"
        max(largest, key=lambda each: each.events).cut_off("limit-exceeded", text)

    @property
    def messages_per_turn(self) -> int:
        """How many messages of one importer are handled before it is the others' turn."""
        return max(LEAST_PER_TURN, MESSAGES_PER_TURN // max(1, self._busy))

    def next_answer(self) -> float:
        """When to poll the events next that importers ask for, by time.monotonic()."""
        return self._pace.next()

    def on_linger(self, importer: ImporterConnection) -> None:
        """Merges the ended connections of a process if there are many: one that connects again and again costs no more.
        """
        process = importer.connection.process
        if process.has_ended():
            return
        others = [
            each for each in self._importers
            if each is not importer and not each.is_connected and not each.is_gone
            and each.connection.process.is_same_as(process)
        ]
        if len(others) >= MAXIMUM_LINGERING_OF_PROCESS:
            others[0].absorb(importer)

    def on_connect(self, importer: ImporterConnection) -> None:
        self._call_back(self._callbacks[0], importer.peer)
        for record in self._offers.values():
            importer.change(record)

    def on_disconnect(self, importer: ImporterConnection, error: SharingError | None) -> None:
        self._call_back(self._callbacks[1], importer.peer, error)

    def on_hold(self, record: OfferRecord, importer: ImporterConnection) -> None:
        self._call_back(self._callbacks[2], record.name, importer.peer)

    def on_release(self, record: OfferRecord, importer: ImporterConnection) -> None:
        self._call_back(self._callbacks[3], record.name, importer.peer)

    def _call_back(self, callback: Callable[..., None] | None, *arguments: object) -> None:
        if callback is None:
            return
        try:
            callback(*arguments)
        except Exception:
            # It must not harm the importers.
            logger.exception("A callback of the exporter at %s has failed", self.path)

    def on_offer_end(self, record: OfferRecord) -> None:
        self._records.pop(record, None)
        self._channels.pop(record, None)
        for event in record.events:
            self._events.put_back(event)
        self._forget_memory(record)

    def _withdraw(self, record: OfferRecord) -> None:
        self.loop.check_process()
        with self.loop.lock:
            if record.is_withdrawn:
                return
            if record.channel is not None:
                record.channel.end()
            record.is_withdrawn = True
            self._offers.pop(record.name, None)
            self._text_length -= record.text_length
            for importer in list(self._importers):
                importer.change(record)
            record.end_if_over()
            self.loop.wake()

    def _recall(self, record: OfferRecord, deadline: float | None) -> None:
        self.loop.check_process()
        with self.loop.lock:
            for importer in list(self._importers):
                importer.recall(record, deadline)

    def _leases(self, record: OfferRecord) -> list[Lease]:
        with self.loop.lock:
            sent = [(each, each.sent_offers[record.number]) for each in record.importers]
            return [
                Lease(record.name, each.peer, offer.since, each.state_of(offer), record.nbytes)
                for each, offer in sent
                if offer.is_used or not each.is_connected
            ]

    def _check_open(self, name: str) -> None:
        self.loop.check_process()
        if self.failure is not None:
            raise self.failure
        if self._is_closing:
            raise RuntimeError(f"Cannot offer {quoted(name)}: the exporter was closed")

    def _new_record(
        self,
        name: str,
        kind: m.OfferKind,
        pool: MemorySource,
        holding: AllocationHolding | None,
        byte_offset: int,
        nbytes: int,
        metadata: Any,
        source: object,
    ) -> OfferRecord:
        check_offer_name(name)
        self._check_open(name)
        if name in self._offers:
            raise ValueError(f"Cannot offer {quoted(name)}: there is an offer of this name; withdraw it first")
        if len(self._records) >= m.MAXIMUM_IDENTIFIERS:
            raise ValueError(f"Cannot offer {quoted(name)}: there are {len(self._records)} offers, the maximum")
        if isinstance(pool, MemoryPool) and pool.is_closed and holding is None:
            raise RuntimeError(f"Cannot offer {quoted(name)}: the pool was closed")
        if holding is not None:
            # Raises an error for memory that no process could import, of which nothing must stay behind.
            holding.export_data
        metadata_text = m.encode_metadata(metadata)
        number = self._last_offer + 1
        record = OfferRecord(
            self, number=number, name=name, kind=kind, pool=pool, pool_message=self._pool_message(pool),
            holding=holding, allocation_message=None if holding is None else self._allocation_message(holding),
            byte_offset=byte_offset, nbytes=nbytes, metadata=metadata, metadata_text=metadata_text, source=source,
        )
        self._memory_users[pool] += 1
        if holding is not None:
            self._memory_users[holding] += 1
        if self._text_length + record.text_length > MAXIMUM_OF_EXPORTER:
            self._abandon(record)
            raise ValueError(
                f"Cannot offer {quoted(name)}: the limit of names and metadata of all offers is {MAXIMUM_OF_EXPORTER} "
                "bytes; send the data in a buffer"
            )
        self._last_offer = number
        return record

    def _publish(self, record: OfferRecord) -> Offer:
        self._offers[record.name] = record
        self._records[record] = None
        self._text_length += record.text_length
        for importer in list(self._importers):
            importer.change(record)
        self.loop.wake()
        return Offer(record)

    def _abandon(self, record: OfferRecord) -> None:
        """Ends an offer that was not published."""
        record.is_withdrawn = True
        record.end_if_over()

    def _record_ready(self, record: OfferRecord, stream: int, ordinal: int) -> None:
        """Records the event behind which the contents are ready."""
        try:
            event = self._take_event(ordinal)
            try:
                event.record(stream)
                is_ready = event.has_fired()
            except BaseException:
                self._events.put_back(event)
                raise
        except BaseException:
            self._abandon(record)
            raise
        if is_ready:
            self._events.put_back(event)
        else:
            record.ready = event

    def _take_event(self, ordinal: int) -> LocalEvent:
        event = self._events.take(ordinal)
        if event is None:
            raise ValueError(f"Cannot offer more: there are {m.MAXIMUM_IDENTIFIERS} events, the maximum")
        return event

    def _pool_message(self, pool: MemorySource) -> m.Pool:
        message = self._pools.get(pool)
        if message is None:
            pool._export()
            self._last_number += 1
            message = self._pools[pool] = m.Pool(self._last_number, pool.kind, cuda().uuids[pool.device])
        return message

    def _allocation_message(self, holding: AllocationHolding) -> m.Allocation:
        message = self._allocations.get(holding)
        if message is None:
            data = holding.export_data
            self._last_number += 1
            message = m.Allocation(self._last_number, self._pools[holding.pool].pool, holding.announced, data)
            self._allocations[holding] = message
        return message

    def _forget_memory(self, record: OfferRecord) -> None:
        """Releases what no offer names any more."""
        self._memory_users[record.pool] -= 1
        if self._memory_users[record.pool] == 0:
            del self._memory_users[record.pool]
            self._pools.pop(record.pool, None)
        if record.holding is not None:
            self._memory_users[record.holding] -= 1
            if self._memory_users[record.holding] == 0:
                del self._memory_users[record.holding]
                self._allocations.pop(record.holding, None)

    def _is_idle(self) -> bool:
        """Whether no connected importer holds anything."""
        return not any(each.is_connected and each.sent_offers for each in self._importers)

    def _stop_listening(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self.loop.unregister(self._listener.socket)
            self._listener.close()

    # What follows is called by the loop.

    def next_deadline(self) -> float | None:
        deadlines: list[float | None] = [each.wake_at for each in self._importers]
        has_waits = len(self._sources) > 0
        for channel in self._channels.values():
            deadlines.append(channel.next_deadline())
            has_waits = has_waits or channel.has_waits
        if has_waits:
            deadlines.append(self._pace.next())
        deadlines.append(self._accept_again)
        return min((each for each in deadlines if each is not None), default=None)

    def on_ready(self, key: Any) -> None:
        if key == "listener":
            self._accept()
            return
        what, importer = key
        if what == "process":
            # It stays readable.
            self.loop.unregister(importer.connection.process.pidfd)
            importer.watches_process = False
            importer.process_ended()
        else:
            importer.receive()

    def poll(self) -> None:
        now = time.monotonic()
        has_advanced = False
        if self._accept_again is not None and now >= self._accept_again:
            self._accept_again = None
            self.loop.register(self._listener.socket, "listener")
        try:
            due = [each for each in self._importers if each.wake_at <= now]
            self._busy = sum(each.connection.has_more for each in due)
            for importer in due:
                has_advanced |= importer.poll(now)
                if importer.is_connected:
                    connection = importer.connection
                    # An importer that does not read is not read from: what it asks for would pile up.
                    self.loop.watch(
                        connection.socket, reads=not connection.is_backlogged, writes=connection.wants_to_write
                    )
                    if connection.wants_to_write:
                        connection.flush()
                importer.wake_at = importer.next_deadline(now)
                if importer.is_gone:
                    del self._importers[importer]
            self.poll_budget.end_turn(time.monotonic())
            for channel in list(self._channels.values()):
                has_advanced |= channel.poll(now)
            self._release_sources()
        except CudaError as error:
            self.on_failure(error)
        if has_advanced:
            self._pace.restart()

    def is_over(self) -> bool:
        return self._is_closing and not self._is_listening and not self._importers and not self._records

    def on_over(self) -> None:
        for _, source in self._sources:
            source.release()
        self._sources.clear()
        self._events.close()

    def on_failure(self, error: Exception) -> None:
        """Nothing can be shared any more: the device is lost, or this code has a mistake."""
        if self.failure is not None:
            return
        self.failure = error
        reason: m.GoodbyeReason = "device-lost" if isinstance(error, CudaError) else "internal-error"
        for importer in list(self._importers):
            importer.cut_off(reason, str(error) if reason == "device-lost" else "The exporter has failed")

    def _release_sources(self) -> None:
        for each in list(self._sources):
            event, source = each
            if cuda().has_fired(event):
                self._sources.remove(each)
                cuda().destroy_event(event)
                source.release()

    def _accept(self) -> None:
        try:
            connected = self._listener.accept()
        except OSError:
            # No descriptor is left. The connection waits.
            self.loop.unregister(self._listener.socket)
            self._accept_again = time.monotonic() + ACCEPT_PAUSE
            return
        if connected is None:
            return
        try:
            connection = Connection(connected, message_timeout=self._message_timeout)
        except (OSError, SharingError):
            return
        if not connection.is_of(self._users):
            connection.say_goodbye("not-permitted", f"User {connection.peer.uid} may not connect")
            connection.process.close()
            return
        if not has_descriptors(connected) and not self._end_handshake("The exporter needs the descriptor"):
            # Those that are left are for the application, and for closing what is connected.
            connection.say_goodbye("out-of-resources", "The exporter has too many descriptors open")
            connection.process.close()
            return
        importer = ImporterConnection(self, connection, time.monotonic() + self._handshake_timeout)
        self._importers[importer] = None
        self.loop.register(connection.socket, ("socket", importer))
        if importer.watches_process:
            self.loop.register(connection.process.pidfd, ("process", importer))
        self._limit_handshakes()
        if self.failure is not None:
            importer.cut_off("device-lost", str(self.failure))

    def _limit_handshakes(self) -> None:
        if sum(each.is_connected and not each.is_welcome for each in self._importers) > self._maximum_handshakes:
            self._end_handshake(f"The limit is {self._maximum_handshakes} connections that said nothing")

    def _end_handshake(self, text: str) -> bool:
        """Ends the oldest connection of the process, of the user, that has most of those that have said nothing.

        Returns whether there is one.
        """
        pending = [each for each in self._importers if each.is_connected and not each.is_welcome]
        if not pending:
            return False
        ((user, _),) = Counter(each.peer.uid for each in pending).most_common(1)
        pending = [each for each in pending if each.peer.uid == user]
        ((process, _),) = Counter(each.peer.pid for each in pending).most_common(1)
        oldest = next(each for each in pending if each.peer.pid == process)
        # Its HELLO may have arrived.
        oldest.receive()
        if oldest.is_welcome:
            return False
        oldest.cut_off("limit-exceeded", text)
        return True


def has_descriptors(sock: socket.socket) -> bool:
    """Whether more descriptors are left than those that connections leave to the application."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return True
    try:
        # The lowest number that is free.
        lowest = os.dup(sock.fileno())
    except OSError:
        return False
    os.close(lowest)
    return lowest < limit - min(RESERVED_DESCRIPTORS, limit // 8)


def check_callback(callback: object, what: str) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(f"Cannot use {callback!r} as {what}: it cannot be called")


def check_offer_name(name: str) -> None:
    m.check_name(name, "the name of an offer")
