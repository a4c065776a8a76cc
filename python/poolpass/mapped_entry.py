"""Memory of a store that this process has mapped, and that can be unmapped for a while without losing its addresses."""
from __future__ import annotations

import threading

from .cuda import cuda
from .descriptors import discard
from .errors import SharingError, quoted
from .holding import Holding
from .limits import deadline_of
from .store_link import Hold, StoreLink
from .whole_memory import WholeMemory


class MappedEntry:
    """Memory of a store, mapped. All users of the addresses count as users of `holding`."""

    def __init__(self, link: StoreLink, name: str, memory: WholeMemory, hold: Hold, holding: Holding):
        self.name = name
        self._link = link
        self._memory = memory
        self._hold = hold
        self._holding = holding
        self._lock = threading.Lock()

    @property
    def is_asleep(self) -> bool:
        return not self._memory.is_mapped

    @property
    def is_read_only(self) -> bool:
        return self._holding.is_read_only

    def is_same_as(self, other: MappedEntry) -> bool:
        """Whether both are mappings of the same memory in the store."""
        with self._link.loop.lock:
            return self._hold.id == other._hold.id and not self._hold.is_lost and not other._hold.is_lost

    def sleep(self) -> None:
        """Waits for all work of the device, and unmaps the memory, whose addresses stay reserved. Has no effect on an
        entry that is asleep."""
        with self._lock:
            if self.is_asleep:
                return
            with self._holding.used():
                self._finish_work()
                self._memory.suspend()
                try:
                    is_known = self._link.sleep(self._hold)
                except BaseException:
                    self._memory.resume()
                    raise
                if is_known:
                    # The store gives the memory back.
                    self._memory.let_go()

    def wake(self, timeout: float | None = None) -> None:
        """Maps the memory again, at the same addresses. If this fails, the entry stays asleep. Has no effect on an
        entry that is awake."""
        with self._lock:
            if not self.is_asleep:
                return
            with self._holding.used():
                if not self._hold.is_asleep:
                    self._memory.resume()
                    return
                from .moves import bring_back

                descriptor = bring_back(self._link, self.name, self._hold, deadline_of(timeout))
                try:
                    self._memory.resume(descriptor)
                except BaseException:
                    self._link.sleep_again(self._hold)
                    raise
                finally:
                    discard(descriptor)

    def replace_by(self, other: MappedEntry) -> None:
        """Waits for all work of the device, and maps the memory of another entry at the addresses of this one. If this
        fails, this entry stays as it is. `other` must be awake, and must not be used any more afterwards.

        Raises SharingError: "layout-changed" if the other memory has another size, or is on another device."""
        mine, others = self._memory, other._memory
        if (mine.nbytes, mine.device) != (others.nbytes, others.device):
            raise SharingError(
                "layout-changed", f"Cannot map the new memory of {quoted(self.name)} at the addresses of the old: it "
                f"has {others.nbytes} bytes on device {others.device}, and the old {mine.nbytes} on {mine.device}"
            )
        with self._lock, self._holding.used():
            self._link.finish_waking(self._hold, None)
            self._finish_work()
            mine.swap(others)
            # From now on, `other` holds the memory that this entry has held, and releases it.
            with self._link.loop.lock:
                self._hold.swap(other._hold)

    def _finish_work(self) -> None:
        # The streams on which a consumer of DLPack has used the memory may not be all: it may have others.
        cuda().synchronize_device(self._memory.device)
