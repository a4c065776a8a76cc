"""How the slots of a channel that drops frames are divided among its importers."""
from __future__ import annotations

from typing import Literal

# How an importer holds a frame: in turn, if it is expected to release it soon, because it has released others.
HoldKind = Literal["in turn", "kept"]


class FrameBudget:
    """Decides who may hold how many frames, so that importers which release nothing cannot have all slots.

    PROTOCOL.md, "Frames held", has the rules.
    """

    def __init__(self, slots: int, window: int):
        self._slots = slots
        self._window = window
        # Frames that are held, and frames that are kept.
        self.held = 0
        self.kept = 0

    def kind_of(self, *, consumers: int, is_in_turn: bool, is_held: bool, is_kept: bool) -> HoldKind | None:
        """How an importer whose window is not full may hold a frame; None if it may not.

        is_in_turn: the importer has released a frame before, and holds none in turn.
        is_held, is_kept: another importer holds or keeps the frame.
        """
        kind: HoldKind = "in turn" if is_in_turn else "kept"
        # With more slots than all can hold, no rule is needed. A single importer harms the producer alone.
        if consumers * self._window < self._slots or consumers == 1:
            return kind
        held = self.held if is_held else self.held + 1
        producers_share = max(1, self._slots - 1)
        if kind == "in turn":
            return kind if is_held or held <= max(producers_share, self.kept + 1) else None
        if is_kept:
            return kind
        return kind if self.kept < max(1, self._slots - 2) and held <= producers_share else None
