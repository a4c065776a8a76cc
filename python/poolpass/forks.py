"""Tells the objects that a process has made from those that it has of its parent, because it was forked.

CUDA does not work in a forked child, and the child shares the parent's sockets, selectors and socket files.
"""
from __future__ import annotations

import os

_forks = 0


def fork_count() -> int:
    """How often this process and its ancestors have forked to become it: an object keeps that of its maker."""
    return _forks


def _on_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_on_fork)
