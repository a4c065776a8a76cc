"""The frames of a channel that are still needed, and the importers that they are sent to."""
from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Callable, Protocol

from . import messages as m
from .errors import quoted
from .frame_budget import FrameBudget, HoldKind
from .peer import Peer

# Seconds after which a frame that is held in turn counts as kept.
TURN_TIME = 1.0
# The number of processes that an error lists.
MAXIMUM_LISTED = 4


class ChannelPeer(Protocol):
    """What a channel needs of a connection to an importer."""

    @property
    def peer(self) -> Peer: ...

    @property
    def is_connected(self) -> bool: ...

    @property
    def is_backlogged(self) -> bool: ...

    def send(self, message: m.Message) -> None: ...

    def when_fired(self, number: int, callback: Callable[[], None]) -> None:
        """Calls back once an event of the importer has fired."""

    def cut_off(self, reason: m.GoodbyeReason, text: str) -> None: ...


@dataclass(eq=False)
class SentFrame:
    """A frame that the application has sent, until nobody needs it any more."""

    message: m.Frame
    # The importers that it was not sent to yet.
    waiting: set[Consumer] = field(default_factory=set)
    # Those that it was sent to and that have not released it.
    holders: set[Consumer] = field(default_factory=set)
    # How many of the holders do not hold it in turn.
    kept_count: int = 0


@dataclass(eq=False)
class FrameHold:
    frame: SentFrame
    kind: HoldKind
    # Since when the importer could read it, by time.monotonic().
    since: float
    # Whether RELEASE_SLOT has come. The importer's work may go on.
    is_releasing: bool = False


@dataclass(eq=False)
class Consumer:
    """An importer that has joined."""

    importer: ChannelPeer
    # Frames that it was not sent yet, in order.
    queue: dict[SentFrame, None] = field(default_factory=dict)
    # Frames that it was sent and has not released, by slot.
    held: dict[int, FrameHold] = field(default_factory=dict)
    in_turn: FrameHold | None = None
    has_released: bool = False
    is_joined: bool = True
    has_sent_end: bool = False


class ChannelFrames:
    """Sends frames, and says when a slot is not read any more. Protected by the exporter's lock."""

    def __init__(
        self,
        *,
        name: str,
        offer: int,
        window: int,
        # The number of slots if frames are dropped, otherwise None.
        dropping_slots: int | None,
        hold_timeout: float,
        is_written: Callable[[int], bool],
        on_done: Callable[[int], None],
    ):
        self._name = name
        self._offer = offer
        self._window = window
        self._budget = None if dropping_slots is None else FrameBudget(dropping_slots, window)
        self._hold_timeout = hold_timeout
        self._is_written = is_written
        self._on_done = on_done
        self._frames: dict[SentFrame, None] = {}
        self._consumers: dict[ChannelPeer, Consumer] = {}
        # Importers that were not sent a frame because others hold too many.
        self._refused: set[Consumer] = set()
        self._has_ended = False
        self.dropped = 0

    @property
    def consumers(self) -> list[ChannelPeer]:
        return [each.importer for each in self._consumers.values() if each.is_joined]

    @property
    def joined(self) -> int:
        return sum(each.is_joined for each in self._consumers.values())

    @property
    def are_done(self) -> bool:
        return not self._frames

    @property
    def quarantined(self) -> set[int]:
        """The slots that processes may still use whose connections have ended."""
        return {
            slot for each in self._consumers.values() if not each.importer.is_connected for slot in each.held
        }

    def describe_holders(self) -> str:
        """Who holds frames, for error messages."""
        holding = [each for each in self._consumers.values() if each.held]
        texts = [
            f"process {each.importer.peer.pid} has not released frames "
            + ", ".join(str(hold.frame.message.sequence) for hold in each.held.values())
            for each in holding[:MAXIMUM_LISTED]
        ]
        if len(holding) > MAXIMUM_LISTED:
            texts.append(f"{len(holding) - MAXIMUM_LISTED} more processes hold frames")
        return "; ".join(texts)

    def send(self, message: m.Frame) -> None:
        frame = SentFrame(message)
        self._frames[frame] = None
        for consumer in list(self._consumers.values()):
            if consumer.is_joined:
                frame.waiting.add(consumer)
                consumer.queue[frame] = None
                self._pump(consumer)
        self._end_if_done(frame)

    def drop(self) -> bool:
        """Drops the oldest frame that nobody holds. Returns False if there is none."""
        for frame in self._frames:
            if not frame.holders:
                for consumer in frame.waiting:
                    del consumer.queue[frame]
                frame.waiting.clear()
                self.dropped += 1
                self._end_if_done(frame)
                return True
        return False

    def end(self) -> None:
        """No frame follows."""
        if not self._has_ended:
            self._has_ended = True
            for consumer in self._consumers.values():
                self._pump(consumer)

    def on_join(self, importer: ChannelPeer) -> None:
        if importer in self._consumers:
            raise m.ProtocolError(f"Channel {quoted(self._name)} is joined twice")
        self._consumers[importer] = consumer = Consumer(importer)
        self._pump(consumer)

    def on_release(self, importer: ChannelPeer, message: m.ReleaseSlot) -> None:
        consumer = self._consumers.get(importer)
        hold = None if consumer is None else consumer.held.get(message.slot)
        if consumer is None or hold is None or hold.frame.message.sequence != message.sequence or hold.is_releasing:
            raise m.ProtocolError(
                f"Frame {message.sequence} in slot {message.slot} of {quoted(self._name)} is released and was not held"
            )
        if message.event == 0:
            self._on_released(consumer, hold)
            return
        hold.is_releasing = True
        importer.when_fired(message.event, lambda: self._on_released(consumer, hold))

    def on_drain(self, importer: ChannelPeer) -> None:
        """The connection has room for messages again."""
        consumer = self._consumers.get(importer)
        if consumer is not None:
            self._pump(consumer)

    def on_leave(self, importer: ChannelPeer) -> None:
        """No more frames may be sent to an importer, which may still hold some."""
        consumer = self._consumers.get(importer)
        if consumer is None:
            return
        consumer.is_joined = False
        self._refused.discard(consumer)
        for frame in list(consumer.queue):
            del consumer.queue[frame]
            frame.waiting.discard(consumer)
            self._end_if_done(frame)
        if not importer.is_connected and consumer.held:
            self._end_turn(consumer)
        self._pump_refused()

    def on_all_released(self, importer: ChannelPeer) -> None:
        """An importer uses no slot any more."""
        consumer = self._consumers.get(importer)
        if consumer is None:
            return
        self.on_leave(importer)
        del self._consumers[importer]
        for hold in list(consumer.held.values()):
            self._on_released(consumer, hold)

    def on_absorb(self, importer: ChannelPeer, by: ChannelPeer) -> None:
        """What an importer holds, another one of the same process holds from now on. Both connections have ended."""
        leaving = self._consumers.get(importer)
        if leaving is None:
            return
        self.on_leave(importer)
        del self._consumers[importer]
        staying = self._consumers.setdefault(by, Consumer(by))
        staying.is_joined = False
        for hold in list(leaving.held.values()):
            # The other connection may have released the frame that this one still holds. Nothing reports when both are
            # done before the process ends.
            other = staying.held.get(hold.frame.message.slot)
            if other is not None:
                self._remove_hold(staying, other)
            self._remove_hold(leaving, hold)
            self._add_hold(staying, hold.frame, "kept")

    def next_deadline(self) -> float | None:
        """When `poll` has something to do, by time.monotonic()."""
        deadlines: list[float] = []
        if self._refused:
            turns = [each.in_turn.since for each in self._consumers.values() if each.in_turn is not None]
            deadlines.extend(since + TURN_TIME for since in turns)
        if self._hold_timeout < math.inf:
            for each in self._consumers.values():
                if each.importer.is_connected:
                    deadlines.extend(hold.since + self._hold_timeout for hold in each.held.values())
        return min(deadlines, default=None)

    def poll(self, now: float) -> None:
        if self._refused:
            self._end_turns(now)
        if self._hold_timeout < math.inf:
            self._end_holds(now)

    def _end_turns(self, now: float) -> None:
        """A frame that is held in turn for long is kept: others are then served with what is left."""
        for consumer in self._consumers.values():
            if consumer.in_turn is not None and consumer.in_turn.since + TURN_TIME <= now:
                self._end_turn(consumer)
        self._pump_refused()

    def _end_holds(self, now: float) -> None:
        for consumer in list(self._consumers.values()):
            # One that has left may still hold frames: until an event of its own has fired, or its process has ended.
            if not consumer.importer.is_connected:
                continue
            for hold in list(consumer.held.values()):
                if not self._is_written(hold.frame.message.slot):
                    hold.since = now
                elif hold.since + self._hold_timeout <= now:
                    text = f"It has held a frame of {quoted(self._name)} for more than {self._hold_timeout:g} s"
                    consumer.importer.cut_off("cut-off", text)
                    break

    def _pump(self, consumer: Consumer) -> None:
        """Sends as many frames as the window, the other importers and the connection allow."""
        importer = consumer.importer
        if not consumer.is_joined or importer.is_backlogged:
            return
        for frame in list(consumer.queue):
            if len(consumer.held) >= self._window or importer.is_backlogged:
                return
            kind = self._kind_of(consumer, frame)
            if kind is None:
                self._refuse(consumer)
                return
            self._give(consumer, frame, kind)
        self._refused.discard(consumer)
        if self._has_ended and not consumer.has_sent_end:
            consumer.has_sent_end = True
            importer.send(m.End(self._offer))

    def _kind_of(self, consumer: Consumer, frame: SentFrame) -> HoldKind | None:
        if self._budget is None:
            return "kept"
        return self._budget.kind_of(
            consumers=self.joined,
            is_in_turn=consumer.has_released and consumer.in_turn is None,
            is_held=len(frame.holders) > 0,
            is_kept=frame.kept_count > 0,
        )

    def _refuse(self, consumer: Consumer) -> None:
        """Handles an importer that may not be sent its next frame, because others hold too many."""
        self._refused.add(consumer)
        if consumer.has_released or consumer.held:
            return
        # A frame that is kept anyway takes no further slot. Once it was released, the importer is served in turn.
        kept = [frame for frame in self._frames if frame.kept_count > 0]
        if not kept:
            return
        newest = kept[-1]
        for frame in list(consumer.queue):
            if frame.message.sequence >= newest.message.sequence:
                break
            del consumer.queue[frame]
            frame.waiting.discard(consumer)
            self._end_if_done(frame)
        self._give(consumer, newest, "kept")

    def _pump_refused(self) -> None:
        for consumer in list(self._refused):
            self._pump(consumer)

    def _give(self, consumer: Consumer, frame: SentFrame, kind: HoldKind) -> None:
        consumer.queue.pop(frame, None)
        frame.waiting.discard(consumer)
        self._add_hold(consumer, frame, kind)
        consumer.importer.send(frame.message)

    def _add_hold(self, consumer: Consumer, frame: SentFrame, kind: HoldKind) -> None:
        hold = FrameHold(frame, kind, time.monotonic())
        consumer.held[frame.message.slot] = hold
        frame.holders.add(consumer)
        if kind == "in turn":
            consumer.in_turn = hold
        else:
            frame.kept_count += 1
        if self._budget is not None:
            self._budget.held += len(frame.holders) == 1
            self._budget.kept += kind == "kept" and frame.kept_count == 1

    def _remove_hold(self, consumer: Consumer, hold: FrameHold) -> None:
        frame = hold.frame
        del consumer.held[frame.message.slot]
        frame.holders.discard(consumer)
        if hold.kind == "in turn":
            consumer.in_turn = None
        else:
            frame.kept_count -= 1
        if self._budget is not None:
            self._budget.held -= not frame.holders
            self._budget.kept -= hold.kind == "kept" and frame.kept_count == 0

    def _end_turn(self, consumer: Consumer) -> None:
        hold = consumer.in_turn
        if hold is None:
            return
        consumer.in_turn = None
        hold.kind = "kept"
        hold.frame.kept_count += 1
        if self._budget is not None:
            self._budget.kept += hold.frame.kept_count == 1

    def _on_released(self, consumer: Consumer, hold: FrameHold) -> None:
        if consumer.held.get(hold.frame.message.slot) is not hold:
            return
        self._remove_hold(consumer, hold)
        consumer.has_released = True
        self._end_if_done(hold.frame)
        # In a channel that waits, nobody waits for a window.
        if self._budget is not None:
            self._pump(consumer)
            self._pump_refused()

    def _end_if_done(self, frame: SentFrame) -> None:
        if not frame.waiting and not frame.holders and frame in self._frames:
            del self._frames[frame]
            self._on_done(frame.message.slot)
