"""Waits for events of one importer, which may never fire, and how often they are queried."""
from __future__ import annotations

import math
import time
from typing import Callable

Callback = Callable[[], None]

# Seconds for which a wait is polled at every opportunity, how many are at a time, and the pause in between.
PROMPT_TIME = 0.016
MAXIMUM_PROMPT = 64
PROMPT_PAUSE = 0.0001
# After that, the pause between two polls is this part of the time since anything happened, within these limits: while
# the peer is connected, and afterwards.
PAUSE_RATIO = 1 / 16
SHORTEST_PAUSE = 0.001
LONGEST_PAUSE = 0.1
LONGEST_PAUSE_AFTER_END = 1.0
# How many events that have not fired are queried after a pause, in turn: of one importer, and of all.
UNFIRED_PER_PAUSE = 32
UNFIRED_PER_PAUSE_IN_ALL = 256
# Waits of all importers that are polled at every opportunity. The next polls after a pause are put off for this many
# times as long as the last ones took: an event that has to be opened costs much more than one that is open.
MAXIMUM_PROMPT_IN_ALL = 256
REST_RATIO = 7
# Waits that continue after the end of the connection.
MAXIMUM_AFTER_END = 64


class PollBudget:
    """What all importers of an exporter may cost it."""

    def __init__(self) -> None:
        # Waits that are polled at every opportunity.
        self.prompt = 0
        # The importers whose waits are polled after pauses.
        self.waiting = 0
        # When anything is polled after a pause again, and the time that it took in this turn.
        self.rests_until = 0.0
        self._taken = 0.0

    def add(self, seconds: float) -> None:
        self._taken += seconds

    def end_turn(self, now: float) -> None:
        """All that was due has been polled."""
        if self._taken > 0:
            self.rests_until = now + REST_RATIO * self._taken
            self._taken = 0.0


class EventWaits:
    """Polls the events of one importer. However many it lends, few are queried after each pause."""

    def __init__(self, budget: PollBudget) -> None:
        self._budget = budget
        # By the event's number, with the time at which the wait began.
        self._prompt: dict[int, tuple[float, Callback]] = {}
        # Those that were polled longest ago come first.
        self._patient: dict[int, Callback] = {}
        self._changed_at = 0.0
        self._next = math.inf
        self._has_ended = False

    def __contains__(self, number: object) -> bool:
        return number in self._prompt or number in self._patient

    def start(self, number: int, callback: Callback, now: float) -> None:
        """Calls back from `poll` once an event has fired."""
        has_room = len(self._prompt) < MAXIMUM_PROMPT and self._budget.prompt < MAXIMUM_PROMPT_IN_ALL
        if has_room and not self._has_ended:
            self._prompt[number] = now, callback
            self._budget.prompt += 1
        else:
            self._postpone(number, callback, now)

    def end(self) -> None:
        """The connection has ended: most that the events could tell, the end of the process tells, too.

        The oldest waits continue, so that the memory of a process that goes on living comes back.
        """
        self._has_ended = True
        for number in [*self._patient, *self._prompt][MAXIMUM_AFTER_END:]:
            self._remove(number)

    def clear(self) -> None:
        for number in [*self._prompt, *self._patient]:
            self._remove(number)

    def _remove(self, number: int) -> None:
        if self._prompt.pop(number, None) is not None:
            self._budget.prompt -= 1
        elif self._patient.pop(number, None) is not None and not self._patient:
            self._budget.waiting -= 1
            self._next = math.inf

    def next_deadline(self, now: float) -> float:
        """When to poll next, by time.monotonic()."""
        deadline = max(self._next, self._budget.rests_until)
        return min(now + PROMPT_PAUSE, deadline) if self._prompt else deadline

    def poll(self, now: float, has_fired: Callable[[int], bool]) -> bool:
        """Polls what is due. Returns whether an event has fired."""
        has_advanced = False
        for number, (since, callback) in list(self._prompt.items()):
            if self._poll(number, callback, has_fired):
                has_advanced = True
            elif now > since + PROMPT_TIME and number in self._prompt:
                self._remove(number)
                self._postpone(number, callback, now)
        if has_advanced and self._patient:
            # Others of the same stream have probably fired, too.
            self._changed_at = now
            self._next = min(self._next, now + SHORTEST_PAUSE)
        if now >= max(self._next, self._budget.rests_until):
            begin = time.monotonic()
            has_advanced |= self._poll_patient(now, has_fired)
            self._budget.add(time.monotonic() - begin)
        return has_advanced

    def _poll_patient(self, now: float, has_fired: Callable[[int], bool]) -> bool:
        left = max(1, min(UNFIRED_PER_PAUSE, UNFIRED_PER_PAUSE_IN_ALL // max(1, self._budget.waiting)))
        has_advanced = False
        for number, callback in list(self._patient.items()):
            if self._poll(number, callback, has_fired):
                has_advanced = True
                self._changed_at = now
            elif number in self._patient:
                # Those that were polled come last.
                self._patient[number] = self._patient.pop(number)
                left -= 1
                if left == 0:
                    break
        self._schedule(now)
        return has_advanced

    def _poll(self, number: int, callback: Callback, has_fired: Callable[[int], bool]) -> bool:
        """Polls a wait. Returns whether it has ended. A callback may have ended others."""
        if number not in self or not has_fired(number):
            return False
        self._remove(number)
        callback()
        return True

    def _postpone(self, number: int, callback: Callback, now: float) -> None:
        if not self._patient:
            self._budget.waiting += 1
        self._patient[number] = callback
        self._changed_at = now
        self._next = min(self._next, now + SHORTEST_PAUSE)

    def _schedule(self, now: float) -> None:
        if not self._patient:
            self._next = math.inf
            return
        longest = LONGEST_PAUSE_AFTER_END if self._has_ended else LONGEST_PAUSE
        pause = max(SHORTEST_PAUSE, min((now - self._changed_at) * PAUSE_RATIO, longest))
        # The waits of many importers are polled at the same times: each time, the exporter looks at all of them.
        step = 2.0 ** math.floor(math.log2(pause))
        self._next = math.ceil((now + pause) / step) * step
