"""What an exporter offers, and who holds it."""
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from . import messages as m
from .errors import quoted
from .events import LocalEvent
from .importer_connection import ImporterConnection, LeaseState
from .limits import deadline_of
from .memory_pool import AllocationHolding, MemorySource
from .peer import Peer

if TYPE_CHECKING:
    from .channel_producer import ChannelProducer
    from .exporter import Exporter


class OfferRecord:
    """An offer, until no importer can use its memory any more. Protected by the exporter's lock."""

    def __init__(
        self,
        exporter: Exporter,
        *,
        number: int,
        name: str,
        kind: m.OfferKind,
        pool: MemorySource,
        pool_message: m.Pool,
        holding: AllocationHolding | None,
        allocation_message: m.Allocation | None,
        byte_offset: int,
        nbytes: int,
        metadata: Any,
        metadata_text: str,
        source: object,
    ):
        self.exporter = exporter
        self.number = number
        self.name = name
        self.kind = kind
        self.pool = pool
        self.pool_message = pool_message
        self.allocation_message = allocation_message
        self.byte_offset = byte_offset
        self.nbytes = nbytes
        self.metadata = metadata
        self.metadata_text = metadata_text
        self.ready: LocalEvent | None = None
        self.channel: ChannelProducer | None = None
        self.importers: set[ImporterConnection] = set()
        self.is_withdrawn = False
        self.has_ended = False
        # How often an importer has held it and has released it.
        self.releases = 0
        # What the application gave: if it has no other use for it, it is freed with the offer.
        self._source: object = source
        self._holding = holding
        self._user = None if holding is None else holding.add()
        self._pool_user = pool._holding.add()

    @property
    def text_length(self) -> int:
        return len(self.name.encode()) + len(self.metadata_text.encode())

    @property
    def holding(self) -> AllocationHolding | None:
        return self._holding

    @property
    def events(self) -> list[LocalEvent]:
        """The events that its messages name."""
        events = [] if self.ready is None else [self.ready]
        return events + ([] if self.channel is None else self.channel.events)

    def message(self) -> m.Offer:
        if self.ready is not None and self.ready.has_fired():
            ready = 0
        else:
            ready = 0 if self.ready is None else self.ready.number
        allocation = 0 if self.allocation_message is None else self.allocation_message.allocation
        return m.Offer(
            self.number, self.kind, allocation, self.pool_message.pool, self.byte_offset, self.nbytes, ready, self.name,
            self.metadata_text,
        )

    def end_if_over(self) -> None:
        """Releases the memory once the offer was withdrawn and no importer can use it."""
        if self.has_ended or not self.is_withdrawn or self.importers:
            return
        self.has_ended = True
        self.exporter.on_offer_end(self)
        if self._holding is not None:
            self._holding.drop(self._user)
        self.pool._holding.drop(self._pool_user)
        self._source = None
        self.exporter.loop.changed.notify_all()


@dataclass(frozen=True)
class Lease:
    """What an importer may use, as it was when it was asked for: until it ends, the memory is not freed."""

    name: str
    peer: Peer
    # In UTC; None if the importer has not mapped it.
    since: datetime | None
    state: LeaseState
    nbytes: int


class Offer:
    """What an exporter offers. Made by `Exporter.offer` and `Exporter.offer_tensor`."""

    def __init__(self, record: OfferRecord):
        self._record = record

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def nbytes(self) -> int:
        """The size in bytes; 0 for a whole pool."""
        return self._record.nbytes

    @property
    def metadata(self) -> Any:
        """The JSON value that importers get."""
        return self._record.metadata

    @property
    def is_withdrawn(self) -> bool:
        return self._record.is_withdrawn

    @property
    def leases(self) -> list[Lease]:
        """The importers that hold it, or whose work with it goes on."""
        return [each for each in self._record.exporter._leases(self._record)]

    def withdraw(self) -> None:
        """Nobody can map it any more. Importers that have mapped it keep it until they release it."""
        self._record.exporter._withdraw(self._record)

    def recall(self, deadline: float | None = None) -> None:
        """Asks the importers that hold it to release it. Those that have not after `deadline` seconds are cut off."""
        self._record.exporter._recall(self._record, deadline_of(deadline))

    def wait_released(self, importers: int = 1, timeout: float | None = None) -> bool:
        """Waits until so many importers have mapped it and released it. Returns False after `timeout` seconds."""
        return self._wait(lambda: self._record.releases >= importers, timeout)

    def wait_ended(self, timeout: float | None = None) -> bool:
        """Waits until it was withdrawn and no importer holds it. Returns False after `timeout` seconds."""
        return self._wait(lambda: self._record.has_ended, timeout)

    def _wait(self, condition: Any, timeout: float | None) -> bool:
        loop = self._record.exporter.loop
        deadline = deadline_of(timeout)
        with loop.lock:
            return loop.wait_until(condition, deadline)

    def __repr__(self) -> str:
        state = ", withdrawn" if self.is_withdrawn else ""
        return f"<Offer {quoted(self.name)}: {self._record.kind}, {self.nbytes} bytes{state}>"
