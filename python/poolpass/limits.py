"""Checks of the numbers that options take."""
from __future__ import annotations

import time


def check_seconds(value: float, what: str) -> float:
    """Returns a number of seconds, at least 0; infinity is allowed. Raises TypeError or ValueError for others."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"Cannot use {value!r} as {what}: it must be a number of seconds, such as 5.0")
    if not value >= 0:
        raise ValueError(f"Cannot use {value!r} as {what}: it must be a number of seconds, at least 0")
    return value


def check_maximum(value: int, what: str) -> int:
    """Returns a limit, which is a number of at least 1. Raises TypeError or ValueError for others."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"Cannot use {value!r} as {what}: it must be a number")
    if not value >= 1:
        raise ValueError(f"Cannot use {value!r} as {what}: it must be 1 or more")
    return value


def deadline_of(timeout: float | None) -> float | None:
    """When a timeout is over, by time.monotonic(); None if it never is. Raises what `check_seconds` raises."""
    return None if timeout is None else time.monotonic() + check_seconds(timeout, "a timeout")


def time_left(deadline: float | None) -> float | None:
    """Returns the seconds until a deadline, at least 0; None if there is none."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
