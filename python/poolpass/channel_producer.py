"""The writing end of a channel."""
from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from . import messages as m
from .channel_frames import ChannelFrames
from .closing import Closing
from .cuda import cuda, stream_handle
from .device_array import DeviceArray
from .dtypes import DType
from .errors import CudaError, SharingError, SharingTimeoutError, quoted
from .events import LocalEvent
from .limits import deadline_of
from .memory_pool import Buffer
from .peer import Peer

if TYPE_CHECKING:
    from .offer import OfferRecord

# Slots begin at multiples of this many bytes.
SLOT_ALIGNMENT = 512
# Seconds for which an importer may hold a frame by default, if frames are dropped.
DEFAULT_HOLD_TIMEOUT = 30.0
# Seconds for which all slots must be quarantined before that is an error: a process may just be ending.
QUARANTINE_TIME = 1.0

Overflow = Literal["wait", "drop-oldest"]


def stride_of(slot_nbytes: int) -> int:
    return -(-slot_nbytes // SLOT_ALIGNMENT) * SLOT_ALIGNMENT


class Slot(DeviceArray):
    """A slot to write, in place, by DLPack or the array interface. Returned to the channel unless it is sent."""

    def __init__(self, producer: ChannelProducer, index: int, dtype: DType, shape: tuple[int, ...]):
        self._producer = producer
        self._index = index
        ring = producer._ring
        super().__init__(
            ring._holding, address=ring._address + index * producer._stride, dtype=dtype, shape=shape,
            device=ring.device, stream=ring._holding.stream, what=f"slot {index} of {quoted(producer.name)}",
            is_stream_kept=False,
        )

    @property
    def index(self) -> int:
        """Its number, from 0."""
        return self._index

    def release(self, stream: Any = None) -> None:
        """Returns the slot to the channel, if it was not sent. What the stream has been given may still write it."""
        if not self.is_released:
            self._producer._return_slot(self, stream)

    def _end_use(self) -> None:
        self._end()


class ChannelProducer(Closing):
    """A ring of slots, which kernels write and kernels of other processes read. Made by `Exporter.create_channel`.

        with exporter.create_channel("frames", pool, slots=4, slot_nbytes=1 << 20) as channel:
            for number in range(100):
                slot = channel.reserve()
                torch.from_dlpack(slot).fill_(number)
                channel.send(slot, stream=torch.cuda.current_stream())
    """

    def __init__(
        self,
        record: OfferRecord,
        ring: Buffer,
        events: list[LocalEvent],
        *,
        slot_nbytes: int,
        slot_type: tuple[DType, tuple[int, ...]],
        overflow: Overflow,
        minimum_consumers: int,
        window: int,
        hold_timeout: float,
        close_timeout: float,
    ):
        self._record = record
        self._exporter = record.exporter
        self._ring = ring
        self._stride = stride_of(slot_nbytes)
        self._slot_nbytes = slot_nbytes
        self._slot_type = slot_type
        self._drops = overflow == "drop-oldest"
        self._minimum_consumers = minimum_consumers
        self._close_timeout = close_timeout
        self.events = events
        slots = len(events)
        self.message = m.Channel(record.number, slot_nbytes, self._stride, window, [each.number for each in events])
        self._free: deque[int] = deque()
        self._reserved: dict[int, Slot] = {}
        # Slots that nobody reads, whose last write may not be done.
        self._settling: set[int] = set(range(slots))
        self._sequence = 0
        self._has_ended = False
        self._is_closed = False
        self._quarantined_since: float | None = None
        self.frames = ChannelFrames(
            name=record.name, offer=record.number, window=window, dropping_slots=slots if self._drops else None,
            hold_timeout=hold_timeout, is_written=self._is_written, on_done=self._on_done,
        )
        # Until the ring's stream has got there, its memory may belong to another buffer.
        for event in events:
            event.record(ring._holding.stream)

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def slots(self) -> int:
        return len(self.events)

    @property
    def slot_nbytes(self) -> int:
        """The largest size of a frame in bytes."""
        return self._slot_nbytes

    @property
    def sent(self) -> int:
        """The number of frames sent."""
        return self._sequence

    @property
    def dropped(self) -> int:
        """The number of frames that were dropped to make room: at least one importer did not receive them."""
        with self._exporter.loop.lock:
            return self.frames.dropped

    @property
    def free_slots(self) -> int:
        """The number of slots that nobody uses."""
        with self._exporter.loop.lock:
            return len(self._free)

    @property
    def consumers(self) -> list[Peer]:
        """The processes that frames are sent to."""
        with self._exporter.loop.lock:
            return [each.peer for each in self.frames.consumers]

    def reserve(self, timeout: float | None = None) -> Slot:
        """Returns a slot to write, on any stream. Waits until one is free, and until importers have joined.

        The slot is an array of the channel's element type and shape, or of bytes.
        Raises SharingError: "timed-out" after `timeout` seconds, or "cut-off" if all slots are lost to processes whose
        connections have ended but which still run.
        """
        deadline = deadline_of(timeout)
        loop = self._exporter.loop
        with loop.lock:
            found = loop.wait_until(lambda: self._find_slot() is not None or self._refusal() is not None, deadline)
            refusal = self._refusal()
            if refusal is not None:
                raise refusal
            if not found:
                raise SharingTimeoutError(
                    "timed-out", f"No slot of {quoted(self.name)} was free within {timeout:g} s: {self._why_none()}"
                )
            slot = Slot(self, self._free.popleft(), *self._slot_type)
            self._reserved[slot.index] = slot
            return slot

    def send(self, slot: Slot, *, nbytes: int | None = None, metadata: Any = None, stream: Any = None) -> None:
        """Sends what a stream writes to a slot, in stream order. The slot belongs to the channel again.

        stream: the stream that writes the slot. By default that is taken from what wrote it by DLPack, or else from the
        channel; the device is waited for if it is not known.
        nbytes: the size of the frame, by default all that the slot has.
        metadata: any JSON value of at most 32 KiB.
        """
        if not isinstance(slot, Slot) or slot._producer is not self:
            raise TypeError(f"Cannot send {slot!r} in {quoted(self.name)}: give a slot that its `reserve` returned")
        length = slot.nbytes if nbytes is None else nbytes
        if not 0 <= length <= self._slot_nbytes:
            raise ValueError(f"Cannot send {length} bytes of a slot: it has {self._slot_nbytes}")
        text = m.encode_metadata(metadata)
        behind = self._stream_of(slot, stream)
        loop = self._exporter.loop
        with loop.lock:
            self._check_open()
            if self._reserved.get(slot.index) is not slot:
                raise RuntimeError(f"Cannot send {slot._what}: it was sent or returned; reserve another one")
            event = self.events[slot.index]
            event.record(behind)
            del self._reserved[slot.index]
            slot._end_use()
            self._sequence += 1
            has_event = not event.has_fired()
            self.frames.send(m.Frame(self._record.number, slot.index, self._sequence, length, has_event, text))
            loop.wake()

    def end(self) -> None:
        """No frame follows. Importers still read the frames that were sent."""
        if self._exporter.loop.is_forked:
            return
        with self._exporter.loop.lock:
            self._has_ended = True
            self.frames.end()
            self._exporter.loop.changed.notify_all()

    def close(self) -> None:
        """Ends the channel, waits until the frames were released, and withdraws it.

        Waits for at most the exporter's `close_timeout`. The ring is freed once no importer uses it.
        """
        loop = self._exporter.loop
        if loop.is_forked:
            return
        self.end()
        with loop.lock:
            if self._is_closed:
                return
            self._is_closed = True
            for slot in list(self._reserved.values()):
                self._return_slot(slot, None)
            try:
                if not loop.is_current:
                    loop.wait_until(
                        lambda: self.frames.are_done or self._record.has_ended, time.monotonic() + self._close_timeout
                    )
            finally:
                # Also if the wait was interrupted.
                self._order_ring()
                self._exporter._withdraw(self._record)
        self._ring.release()

    def __repr__(self) -> str:
        return f"<ChannelProducer {quoted(self.name)}: {self.slots} slots, {self.sent} frames>"

    # What follows needs the exporter's lock.

    def poll(self, now: float) -> bool:
        """Frees the slots whose last write is done. Returns whether there is one."""
        self.frames.poll(now)
        done = [slot for slot in self._settling if self._is_written(slot)]
        for slot in done:
            self._settling.remove(slot)
            self._free.append(slot)
        is_exhausted = len(self.frames.quarantined) == self.slots
        if not is_exhausted:
            self._quarantined_since = None
        elif self._quarantined_since is None:
            self._quarantined_since = now
        return len(done) > 0

    @property
    def has_waits(self) -> bool:
        return len(self._settling) > 0

    def next_deadline(self) -> float | None:
        deadlines = [self.frames.next_deadline()]
        if self._quarantined_since is not None and not self._is_quarantined():
            deadlines.append(self._quarantined_since + QUARANTINE_TIME)
        return min((each for each in deadlines if each is not None), default=None)

    def _on_done(self, slot: int) -> None:
        if self._is_written(slot):
            self._free.append(slot)
        else:
            self._settling.add(slot)
            self._exporter.restart_polling()

    def _is_written(self, slot: int) -> bool:
        try:
            return self.events[slot].has_fired()
        except CudaError:
            # A lost device writes nothing any more.
            return True

    def _find_slot(self) -> int | None:
        if self.frames.joined < self._minimum_consumers:
            return None
        # Slots that are still being written will be free soon.
        while not self._free and not self._settling and self._drops and self.frames.drop():
            pass
        return self._free[0] if self._free else None

    def _is_quarantined(self) -> bool:
        since = self._quarantined_since
        return since is not None and time.monotonic() >= since + QUARANTINE_TIME

    def _refusal(self) -> Exception | None:
        if self._has_ended:
            return RuntimeError(f"Cannot use {quoted(self.name)}: the channel has ended")
        if self._exporter.failure is not None:
            return self._exporter.failure
        if self._is_quarantined() and len(self.frames.quarantined) == self.slots:
            return SharingError(
                "cut-off",
                f"Cannot reserve a slot of {quoted(self.name)}: until they end, all are lost to processes whose "
                f"connections have ended: {self.frames.describe_holders()}",
            )
        return None

    def _check_open(self) -> None:
        self._exporter.loop.check_process()
        if self._has_ended:
            raise RuntimeError(f"Cannot use {quoted(self.name)}: the channel has ended")

    def _why_none(self) -> str:
        if self.frames.joined < self._minimum_consumers:
            return f"{self.frames.joined} importers have joined, and it waits for {self._minimum_consumers}"
        reasons = [self.frames.describe_holders()]
        if self._reserved:
            reasons.append(f"{len(self._reserved)} are reserved here")
        if self._settling:
            reasons.append(f"{len(self._settling)} are still being written")
        return "; ".join(each for each in reasons if each)

    def _stream_of(self, slot: Slot, stream: Any) -> int:
        if stream is not None:
            return stream_handle(stream)
        device = self._ring.device
        assert device is not None
        return cuda().stream_behind(slot._streams.value, self._ring._holding.stream, device)

    def _return_slot(self, slot: Slot, stream: Any) -> None:
        if self._exporter.loop.is_forked:
            return
        with self._exporter.loop.lock:
            if self._reserved.get(slot.index) is not slot:
                return
            del self._reserved[slot.index]
            slot._end_use()
            self.events[slot.index].record(self._stream_of(slot, stream))
            self._on_done(slot.index)
            self._exporter.loop.changed.notify_all()

    def _order_ring(self) -> None:
        """The ring is freed behind all writes to it."""
        device = self._ring.device
        assert device is not None
        try:
            for event in self.events:
                cuda().wait(self._ring._holding.stream, event.event, device)
        except CudaError:
            self._ring._holding.streams.add(None)
