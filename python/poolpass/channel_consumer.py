"""The reading end of a channel."""
from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Iterator

from . import messages as m
from .closing import Closing
from .device_array import DeviceArray, array_type
from .dtypes import UINT8, DType
from .errors import SharingTimeoutError, quoted
from .exporter_connection import ExporterConnection, Hold, OfferState
from .holding import Holding
from .limits import deadline_of


class Frame(DeviceArray):
    """A frame of a channel, in place. Its slot is written again once it is released: as a Mapping is."""

    def __init__(
        self,
        ring: Holding,
        full: set[int],
        connection: ExporterConnection,
        hold: Hold,
        message: m.Frame,
        *,
        dtype: DType,
        shape: tuple[int, ...],
        address: int,
        stream: int | None,
        metadata: Any,
    ):
        self._message = message
        self._metadata = metadata
        # The ring stays mapped until its last frame is released.
        user = ring.add()

        def on_last(streams: frozenset[int] | None) -> None:
            full.discard(message.slot)
            connection.release_frame(hold, message, streams)
            ring.drop(user)

        super().__init__(
            Holding(on_last), address=address, dtype=dtype, shape=shape, device=hold.device, stream=stream,
            what=f"frame {message.sequence} of {quoted(hold.state.message.name)}",
        )

    @property
    def index(self) -> int:
        """The number of its slot, from 0."""
        return self._message.slot

    @property
    def sequence(self) -> int:
        """1 for the channel's first frame, one more for each that was sent; gaps are frames that were dropped."""
        return self._message.sequence

    @property
    def metadata(self) -> Any:
        """The JSON value that the producer attached; None if there is none."""
        return self._metadata


class ChannelConsumer(Closing):
    """Receives the frames of a channel. Made by `Importer.channel`.

        with importer.channel("frames") as frames:
            for frame in frames:
                with frame:
                    process(torch.from_dlpack(frame))

    Each frame must be released, in any order: the producer waits for its slot, and may cut off an importer that holds a
    frame for too long.
    """

    def __init__(self, connection: ExporterConnection, state: OfferState, stream: int | None):
        assert state.channel is not None
        self._connection = connection
        self._state = state
        self._channel = state.channel
        self._metadata = state.metadata
        self._stream = stream
        # Frames that the application has not taken.
        self._coming: deque[m.Frame] = deque()
        # Slots of the frames that were not released.
        self._full: set[int] = set()
        self._has_ended = False
        self._is_closed = False
        self._last_sequence = 0
        with connection.loop.lock:
            self._hold = hold = connection.hold(state)
            self._ring = ring = Holding(lambda streams: connection.release(hold, frozenset()))
            self._user = user = ring.add()
            self._frames: weakref.WeakSet[Frame] = weakref.WeakSet()
            try:
                connection.join(hold, weak_method(self._on_frame, lambda frame: release_unread(connection, hold, frame)))
            except BaseException:
                ring.drop(user)
                raise
        self._finalizer = weakref.finalize(self, ring.drop, user)
        self._finalizer.atexit = False

    @property
    def name(self) -> str:
        return self._state.message.name

    @property
    def slots(self) -> int:
        """The number of slots of the ring. An importer that holds all of them receives no frame."""
        return len(self._channel.ready_events)

    @property
    def slot_nbytes(self) -> int:
        """The largest size of a frame in bytes."""
        return self._channel.slot_byte_length

    @property
    def metadata(self) -> Any:
        """The JSON value that the producer attached to the channel; None if there is none."""
        return self._metadata

    @property
    def is_recalled(self) -> bool:
        """Whether the exporter asks for the ring back: close the consumer soon, or the connection may be cut off."""
        return self._state.is_recalled

    def next(self, timeout: float | None = None) -> Frame | None:
        """Waits for the next frame, and until it may be read. Returns None once the producer has ended the channel.

        The frame is an array of the element type and the shape that its metadata states, or else the channel's, if that
        has the frame's size; otherwise of bytes.
        Raises SharingError: "timed-out" after `timeout` seconds, "peer-gone" and others if the connection has ended.
        """
        deadline = deadline_of(timeout)
        core = self._connection
        with core.loop.lock:
            core.loop.wait_until(
                lambda: self._is_closed or len(self._coming) > 0 or self._has_ended or core.end is not None, deadline
            )
            if self._is_closed:
                raise RuntimeError(f"Cannot read {quoted(self.name)}: the consumer was closed")
            if not self._coming:
                if self._has_ended:
                    return None
                if core.end is not None:
                    raise core.end
                raise SharingTimeoutError("timed-out", f"No frame of {quoted(self.name)} came within {timeout:g} s")
            message = self._coming.popleft()
        try:
            if message.has_event:
                core.wait_fired(self._channel.ready_events[message.slot], deadline, f"a frame of {quoted(self.name)}")
        except BaseException:
            with core.loop.lock:
                self._coming.appendleft(message)
            raise
        frame = self._frame_of(message)
        self._frames.add(frame)
        return frame

    def __iter__(self) -> Iterator[Frame]:
        """Yields the frames until the producer ends the channel."""
        while (frame := self.next()) is not None:
            yield frame
            # Released when the application has no use for it: this must not keep it until the next one comes.
            del frame

    def close(self) -> None:
        """Releases the frames, and leaves the channel. Frames that another library still uses stay until that ends."""
        core = self._connection
        with core.loop.lock:
            if self._is_closed:
                return
            self._is_closed = True
            for message in self._coming:
                release_unread(core, self._hold, message)
            self._coming.clear()
            core.loop.changed.notify_all()
        for frame in list(self._frames):
            if not frame._is_handed_out:
                frame.release()
        self._finalizer()

    def __repr__(self) -> str:
        return f"<ChannelConsumer of {quoted(self.name)}: {len(self._coming)} frames waiting>"

    def _frame_of(self, message: m.Frame) -> Frame:
        metadata = m.decode_metadata(message.metadata)
        dtype, shape = array_type(metadata, message.byte_length)
        if dtype is UINT8 and not (isinstance(metadata, dict) and "dtype" in metadata):
            dtype, shape = array_type(self.metadata, message.byte_length)
        return Frame(
            self._ring, self._full, self._connection, self._hold, message, dtype=dtype, shape=shape,
            address=self._hold.address + message.slot * self._channel.slot_stride, stream=self._stream,
            metadata=metadata,
        )

    def _on_frame(self, message: m.Frame | None) -> None:
        """Runs on the loop's thread, with its lock held."""
        if message is None:
            self._has_ended = True
            return
        if message.slot >= self.slots:
            raise m.ProtocolError(f"Slot {message.slot} of {quoted(self.name)} does not exist: it has {self.slots}")
        if message.byte_length > self.slot_nbytes:
            raise m.ProtocolError(
                f"A frame of {quoted(self.name)} has {message.byte_length} bytes, and a slot {self.slot_nbytes}"
            )
        if message.sequence <= self._last_sequence:
            raise m.ProtocolError(f"Frame {message.sequence} of {quoted(self.name)} follows {self._last_sequence}")
        if message.slot in self._full:
            raise m.ProtocolError(f"Slot {message.slot} of {quoted(self.name)} comes again before it was released")
        if len(self._full) >= self._channel.window:
            raise m.ProtocolError(f"More frames of {quoted(self.name)} come than its window, {self._channel.window}")
        self._last_sequence = message.sequence
        if self._is_closed:
            release_unread(self._connection, self._hold, message)
        else:
            self._full.add(message.slot)
            self._coming.append(message)


def release_unread(connection: ExporterConnection, hold: Hold, message: m.Frame | None) -> None:
    """Releases a frame that nobody has read."""
    if message is not None:
        connection.release_frame(hold, message, frozenset())


def weak_method(method: Any, otherwise: Any) -> Any:
    """A function that calls a method for as long as its object lives, and another function afterwards."""
    reference = weakref.WeakMethod(method)

    def call(argument: Any) -> None:
        target = reference()
        (otherwise if target is None else target)(argument)

    return call
