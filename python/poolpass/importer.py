"""Importing: connecting to an exporter, and mapping what it offers."""
from __future__ import annotations

import time
import weakref
from typing import Any, Collection, Iterator, Literal

from . import messages as m
from .channel_consumer import ChannelConsumer
from .closing import Closing
from .connection import Connection
from .cuda import stream_handle
from .device_array import DeviceArray, array_type
from .dtypes import DType
from .errors import SharingError, SharingTimeoutError, needing_descriptors, quoted
from .exporter_connection import ExporterConnection, Hold, OfferState
from .holding import Holding
from .imported_memory_pool import ImportedMemoryPool
from .limits import check_seconds, deadline_of
from .peer import Peer
from .sockets import StrPath, check_path, connect
from .users import check_users


class Mapping(DeviceArray):
    """Memory of another process, mapped: an array of the element type and the shape that its exporter states.

    Its exporter keeps the memory until it is released: by `release`, at the end of a `with` block, or when nothing
    refers to it any more, in this process.
    """

    def __init__(
        self,
        connection: ExporterConnection,
        hold: Hold,
        dtype: DType,
        shape: tuple[int, ...],
        stream: int | None,
    ):
        self._connection = connection
        super().__init__(
            Holding(lambda streams: connection.release(hold, streams)), address=hold.address, dtype=dtype, shape=shape,
            device=hold.device, stream=stream, what=quoted(hold.state.message.name),
        )


# Metadata that nobody has asked for.
UNDECODED = object()


class RemoteOffer:
    """What an exporter offers: a buffer, a whole pool or a channel."""

    def __init__(self, importer: Importer, state: OfferState):
        # Keeps the connection open.
        self._importer = importer
        self._state = state
        self._metadata: Any = UNDECODED

    @property
    def name(self) -> str:
        """The name that the exporter gave it. It may contain any characters but NUL."""
        return self._state.message.name

    @property
    def kind(self) -> Literal["buffer", "pool", "channel"]:
        return self._state.message.kind

    @property
    def nbytes(self) -> int:
        """The size in bytes; 0 for a whole pool."""
        return self._state.message.byte_length

    @property
    def metadata(self) -> Any:
        """The JSON value that the exporter attached; None if there is none. Nothing checks what is in it."""
        if self._metadata is UNDECODED:
            self._metadata = self._state.metadata
        return self._metadata

    @property
    def dtype(self) -> str:
        """The element type that the metadata states, such as "float32"; "uint8" if it states none that fits."""
        return array_type(self.metadata, self.nbytes)[0].name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the metadata states; one dimension if it states none that fits the size."""
        return array_type(self.metadata, self.nbytes)[1]

    @property
    def slots(self) -> int:
        """The number of slots of a channel; 0 for anything else."""
        return 0 if self._state.channel is None else len(self._state.channel.ready_events)

    @property
    def slot_nbytes(self) -> int:
        """The size of a channel's slot in bytes; 0 for anything else."""
        return 0 if self._state.channel is None else self._state.channel.slot_byte_length

    @property
    def is_withdrawn(self) -> bool:
        return self._state.is_withdrawn

    @property
    def is_recalled(self) -> bool:
        """Whether the exporter asks for it back: release it soon, or the connection may be cut off."""
        return self._state.is_recalled

    def wait_recalled(self, timeout: float | None = None) -> bool:
        """Waits, for at most `timeout` seconds, until the exporter asks for it back. Returns whether it does.

        Raises SharingError if the connection ends.
        """
        connection = self._importer._connection
        with connection.loop.lock:
            connection.loop.wait_until(
                lambda: self._state.is_recalled or connection.end is not None, deadline_of(timeout)
            )
            if not self._state.is_recalled and connection.end is not None:
                raise connection.end
            return self._state.is_recalled

    def map(self, *, stream: Any = None, timeout: float | None = None) -> Mapping:
        """Maps the memory, without a copy, and returns once its contents may be read, on any stream.

        stream: the stream on which the memory will be used: it is released behind the work on that stream. Without it,
        DLPack's consumers say on which stream they use it.
        timeout: how many seconds to wait for the contents, and for a descriptor that this process had no room for.

        Raises SharingError: "not-found" if the offer was withdrawn, "not-supported" for a whole pool,
        "device-not-visible", "size-mismatch", "too-large" for what CUDA's driver cannot import, "not-permitted" if the
        importer maps only virtual memory, "timed-out", or "peer-gone" and others if the connection has ended.
        Raises CudaError.
        """
        name = quoted(self.name)
        if self.kind == "pool":
            raise SharingError("not-supported", f"Cannot map {name}: it is a whole pool; use import_pool")
        if self.kind == "channel":
            raise SharingError("not-supported", f"Cannot map {name}: it is a channel; use Importer.channel")
        handle = None if stream is None else stream_handle(stream)
        connection = self._importer._connection
        deadline = deadline_of(timeout)
        with connection.loop.lock:
            hold = connection.hold(self._state, deadline)
        dtype, shape = array_type(self.metadata, self.nbytes)
        mapping = Mapping(connection, hold, dtype, shape, handle)
        try:
            connection.wait_ready(hold, deadline)
        except BaseException:
            mapping.release()
            raise
        self._importer._mappings.add(mapping)
        return mapping

    def import_pool(self) -> ImportedMemoryPool:
        """Imports a whole pool, whose buffers are then mapped by the export data that the other process sends.

        Raises TypeError for anything else than a whole pool. Raises SharingError: "not-found" if the offer was
        withdrawn, "device-not-visible", "not-permitted" if the importer maps only virtual memory, or "peer-gone" and
        others if the connection has ended. Raises CudaError.
        """
        if self.kind != "pool":
            hint = "it is a buffer; use map" if self.kind == "buffer" else "it is a channel; use Importer.channel"
            raise TypeError(f"Cannot import the pool of {quoted(self.name)}: {hint}")
        connection = self._importer._connection
        with connection.loop.lock:
            hold = connection.hold_pool(self._state)
        pool = ImportedMemoryPool(connection, hold, self._importer._mappings.add)
        self._importer._pools.add(pool)
        return pool

    def __repr__(self) -> str:
        return f"<RemoteOffer {quoted(self.name)}: {self.kind}, {self.nbytes} bytes>"


class Importer(Closing):
    """A connection to an exporter. Made by `Importer.connect`.

    A thread serves it. It answers the exporter, also while the application computes.
    """

    def __init__(self, connection: ExporterConnection):
        self._connection = connection
        self._mappings: weakref.WeakSet[DeviceArray] = weakref.WeakSet()
        self._pools: weakref.WeakSet[ImportedMemoryPool] = weakref.WeakSet()
        self._consumers: weakref.WeakSet[ChannelConsumer] = weakref.WeakSet()
        self._finalizer = weakref.finalize(self, connection.begin_close)
        self._finalizer.atexit = False

    @classmethod
    def connect(
        cls,
        path: StrPath,
        *,
        wait: float | None = None,
        users: Collection[int] = (),
        handshake_timeout: float = 5.0,
        message_timeout: float = 5.0,
        close_timeout: float = 5.0,
        memory: Literal["any", "virtual"] = "any",
    ) -> Importer:
        """Connects to the exporter that listens at a path.

        wait: how many seconds to wait for an exporter to listen; by default, nobody listening is an error.
        users: the IDs of other users whose exporters are trusted; this process's own user always is.
        handshake_timeout, message_timeout: seconds that the exporter has to answer, and to send a whole message.
        close_timeout: seconds that `close` waits for the exporter.
        memory: what may be mapped. With "virtual", only virtual memory, which the exporter allocates by
        `allocate_virtual`: its import takes a descriptor, and nothing that CUDA's driver would have to believe. No
        event of the exporter is opened either. For memory of users who are not trusted.

        Raises SharingError: "not-listening", "not-permitted", "path-too-long", "timed-out", "version-mismatch",
        "limit-exceeded", "out-of-descriptors" or another reason of the exporter.
        """
        path = check_path("connect to", path)
        check_seconds(handshake_timeout, "handshake_timeout")
        check_seconds(message_timeout, "message_timeout")
        check_seconds(close_timeout, "close_timeout")
        if memory not in ("any", "virtual"):
            raise ValueError(f'Cannot use {memory!r} as memory: it must be "any" or "virtual"')
        users = check_users(users)
        deadline = None if wait is None else time.monotonic() + check_seconds(wait, "wait")
        connected = connect(path, deadline, handshake_timeout)
        connection = Connection(connected, message_timeout=message_timeout)
        if not connection.is_of(users):
            uid = connection.peer.uid
            connection.say_goodbye("not-permitted", "The importer does not trust the user of the exporter")
            connection.process.close()
            raise SharingError(
                "not-permitted", f"Cannot use the exporter at {path}: it is run by user {uid}; list it in `users`"
            )
        try:
            with needing_descriptors(f"connect to {path}"):
                core = ExporterConnection(connection, close_timeout=close_timeout, maps_pools=memory == "any")
        except BaseException:
            connection.close()
            connection.process.close()
            raise
        core.start()
        importer = cls(core)
        with core.loop.lock:
            core.loop.wait_until(lambda: core.is_welcome or core.end is not None, time.monotonic() + handshake_timeout)
            end = core.end
        if end is None and core.is_welcome:
            return importer
        importer.close()
        if end is not None:
            raise end
        raise SharingError(
            "timed-out",
            f"Cannot connect to {path}: {connection.name} has not answered for {handshake_timeout:g} s; is it stopped?",
        )

    @property
    def peer(self) -> Peer:
        """The exporter's process."""
        return self._connection.connection.peer

    @property
    def is_connected(self) -> bool:
        return self._connection.end is None and not self._connection.is_closing

    def offers(self) -> list[RemoteOffer]:
        """What the exporter offers now, as far as it has been received."""
        with self._connection.loop.lock:
            return [RemoteOffer(self, each) for each in self._connection.offers.values() if each.is_complete]

    def changes(self, timeout: float | None = None) -> Iterator[tuple[Literal["offer", "withdraw"], RemoteOffer]]:
        """Yields each offer, those that exist first, and each withdrawal, until the exporter closes.

        timeout: seconds after which it ends. Raises SharingError if the connection ends with an error.
        """
        core = self._connection
        deadline = deadline_of(timeout)
        known: dict[OfferState, RemoteOffer] = {}
        while True:
            with core.loop.lock:
                def changed() -> bool:
                    return core.end is not None or any(is_new(each) for each in core.offers.values()) or any(
                        each.is_withdrawn for each in known
                    )

                def is_new(state: OfferState) -> bool:
                    return state.is_complete and state not in known

                is_over = not core.loop.wait_until(lambda: changed() or core.is_closing, deadline)
                gone = [known.pop(each) for each in list(known) if each.is_withdrawn]
                new = [each for each in core.offers.values() if is_new(each)]
                known.update((each, RemoteOffer(self, each)) for each in new)
                end = core.end
                is_over = is_over or core.is_closing
            for offer in gone:
                yield "withdraw", offer
            for state in new:
                yield "offer", known[state]
            if end is not None and not gone and not new:
                if core.has_closed:
                    return
                raise end
            if is_over:
                return

    def offer(self, name: str | None = None, *, timeout: float | None = None) -> RemoteOffer:
        """Waits for the offer of this name, or for any buffer if there is no name, and returns it.

        Raises SharingError: "timed-out" after `timeout` seconds, or "not-found" if the exporter closes before.
        """
        if name is not None:
            m.check_name(name, "the name of an offer")
        core = self._connection
        what = "a buffer" if name is None else quoted(name)

        def find() -> OfferState | None:
            for state in core.offers.values():
                if state.is_complete and (
                    state.message.kind == "buffer" if name is None else state.message.name == name
                ):
                    return state
            return None

        with core.loop.lock:
            core.loop.wait_until(
                lambda: find() is not None or core.end is not None or core.is_closing, deadline_of(timeout)
            )
            found = None if core.is_closing else find()
            if found is None:
                if core.has_closed:
                    raise SharingError("not-found", f"Cannot get {what}: the exporter has closed without offering it")
                core.check_open(f"get {what}")
                raise SharingTimeoutError(
                    "timed-out", f"Cannot get {what}: it was not offered within {timeout:g} s; there are "
                    f"{len(core.offers)} offers"
                )
        return RemoteOffer(self, found)

    def channel(self, name: str, *, stream: Any = None, timeout: float | None = None) -> ChannelConsumer:
        """Waits for a channel, maps its ring and joins it: frames sent from now on also come here.

        stream: the stream on which frames are used, if it is always the same; see `RemoteOffer.map`.
        Raises SharingError as `offer` and `RemoteOffer.map` do, and "not-supported" if it is no channel.
        """
        m.check_name(name, "the name of a channel")
        offer = self.offer(name, timeout=timeout)
        if offer.kind != "channel":
            raise SharingError("not-supported", f"Cannot join {quoted(name)}: it is a {offer.kind}; map it")
        consumer = ChannelConsumer(self._connection, offer._state, None if stream is None else stream_handle(stream))
        self._consumers.add(consumer)
        return consumer

    def close(self) -> None:
        """Releases what is mapped, and disconnects once the exporter knows that.

        What another library still uses stays mapped until that ends, and the connection stays until then. Waits for at
        most `close_timeout` seconds.
        """
        if self._connection.loop.is_forked:
            return
        for consumer in list(self._consumers):
            consumer.close()
        for mapping in list(self._mappings):
            if not mapping._is_handed_out:
                mapping.release()
        for pool in list(self._pools):
            pool.close()
        core = self._connection
        with core.loop.lock:
            self._finalizer()
            if core.loop.is_current:
                return
            core.loop.wake()
            core.loop.wait_until(
                lambda: not core.connection.is_open or core.is_closing and core.is_lingering,
                time.monotonic() + 2 * core.close_timeout,
            )
            is_over = core.is_over()
        if is_over:
            core.loop.join()

    def __iter__(self) -> Iterator[RemoteOffer]:
        """Yields the offers, those that exist first, until the exporter closes."""
        return (offer for what, offer in self.changes() if what == "offer")

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<Importer of {self._connection.connection.name}: {state}, {len(self._connection.offers)} offers>"
