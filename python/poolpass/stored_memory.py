"""Memory that this process has created in a store."""
from __future__ import annotations

import re
from typing import Any, Callable, Literal, NamedTuple

from .closing import Closing
from . import messages as m
from .cuda import cuda, stream_handle
from .descriptors import discard
from .device_array import DeviceArray
from .documents import JsonObject, number_of
from .dtypes import UINT8
from .errors import CudaError, SharingError, quoted
from .holding import Holding
from .limits import deadline_of
from .mapped_entry import MappedEntry
from .store_link import Hold, StoreLink
from .whole_memory import WholeMemory

# The maximum size of an entry's metadata in bytes, as JSON.
MAXIMUM_ENTRY_METADATA = 4 * 2**20


def check_digest(digest: str, minimum: int) -> str:
    """Returns a digest, or its first digits. Raises unless there are `minimum` to 64 hexadecimal digits."""
    if not isinstance(digest, str):
        raise TypeError(f"Cannot use {digest!r} as a digest: give its digits")
    if not re.fullmatch(f"[0-9a-f]{{{minimum},64}}", digest):
        count = "64" if minimum == 64 else f"{minimum} to 64"
        raise ValueError(f"Cannot use {digest[:80]!r} as a digest: give {count} hexadecimal digits")
    return digest


class Sharing(NamedTuple):
    """How memory is shared with what was published before."""

    layout: str
    """A digest of how the contents are laid out, as 64 hexadecimal digits."""
    is_same: Callable[[DeviceArray], bool]
    """Returns whether other memory, published with the same digest and layout, really has the same contents."""


class StoredMemory(Closing):
    """Memory that this process has created in a store. Comes from `StoreClient.create`.

    `array` is the memory: mapped for writing until it is published, and for reading from then on.
    """

    def __init__(self, link: StoreLink, *, name: str, array: DeviceArray, memory: WholeMemory, hold: Hold):
        self.name = name
        self.array = array
        self._link = link
        self._memory = memory
        self._hold = hold
        self._state: Literal["new", "publishing", "published"] = "new"
        self._generation = 0

    @property
    def is_published(self) -> bool:
        return self._state == "published"

    @property
    def generation(self) -> int:
        """The number of this generation of the name: 1 for the first one. 0 before it is published."""
        return self._generation

    def publish(
        self,
        stream: Any = None,
        *,
        metadata: Any = None,
        digest: str | None = None,
        keep: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Waits for the pending work that writes the memory, and then publishes the memory under its name. Returns the
        generation number.

        Processes that map the name from then on get this memory. Those that have mapped the previous generation keep
        it. This process can then only read the memory, including through tensors that were created from `array`.

        stream: the stream that writes the memory. By default, the streams on which other libraries have imported the
        memory through DLPack; if these are unknown, the call waits for all work of the device.
        metadata: replaces the metadata that was passed to `create`, for information that is available only after the
        memory was written. Stores of earlier versions ignore this argument and the following ones.
        digest: a digest of the contents, as 64 hexadecimal digits, by which `StoreClient.map` finds this generation.
        keep: whether the store never evicts the memory.
        timeout: how many seconds to wait for the other ranks, if the memory was created for one of several. If they have
        not published then, "timed-out" is raised, nothing is published, and this may be called again.

        Raises RuntimeError if the memory was already published or closed. Raises SharingError: "not-permitted" if
        another user has published the name, "peer-gone" if the store is gone, or was restarted and has lost the memory, or
        if another rank has exited before all have published.
        """
        return self._publish(stream, metadata, digest, keep, deadline_of(timeout), None)

    def _publish(
        self,
        stream: Any,
        metadata: Any,
        digest: str | None,
        keep: bool,
        deadline: float | None,
        sharing: Sharing | None,
    ) -> int:
        """What `publish` does. With `sharing`, memory that the user has published before may take the place of this
        one, at the same addresses."""
        what = f"Cannot publish {quoted(self.name)}"
        handle = None if stream is None else stream_handle(stream)
        m.encode_metadata(metadata, MAXIMUM_ENTRY_METADATA)
        document: JsonObject = {
            "do": "publish", "id": self._hold.id, **({} if metadata is None else {"metadata": metadata}),
            **({} if digest is None else {"digest": check_digest(digest, 64)}), **({"keep": True} if keep else {}),
        }
        with self._link.loop.lock:
            if self.array.is_released:
                raise RuntimeError(f"{what}: it was closed")
            if self._state != "new":
                raise RuntimeError(f"{what}: it was published; create another generation")
            self._state = "publishing"
            # It stays mapped meanwhile, whatever other threads do.
            user = self.array._holding.add()
        try:
            self._wait_written(handle)
            # Nobody writes what others may read.
            self._memory.set_access("read")
            self.array._holding.is_read_only = True
            try:
                answer = self._ask_to_publish(document, deadline, sharing)
                self._generation = number_of(answer or {}, "generation", 1)
            except SharingError as error:
                self._memory.set_access("read-write")
                self.array._holding.is_read_only = False
                if not self._hold.is_lost:
                    raise
                raise SharingError("peer-gone", f"{what}: the store was started again without it") from error
            self._state = "published"
        finally:
            if self._state == "publishing":
                self._state = "new"
            self.array._holding.drop(user)
        return self._generation

    def _ask_to_publish(
        self, document: JsonObject, deadline: float | None, sharing: Sharing | None
    ) -> JsonObject | None:
        link, memory = self._link, self._memory
        if sharing is None:
            return link.ask(document, deadline, is_decided=True).answer
        document["layout"] = sharing.layout
        request = link.ask(document, deadline, is_decided=True, takes_memory=True)
        hold, descriptor = request.hold, request.descriptor
        if hold is None:
            return request.answer
        assert descriptor is not None
        try:
            offered = WholeMemory(descriptor, memory.nbytes, memory.device, "read")
        except BaseException:
            link.end_hold(hold)
            raise
        finally:
            discard(descriptor)
        holding = Holding(lambda streams: link.release(offered, hold, streams))
        with DeviceArray(
            holding, address=offered.address, dtype=UINT8, shape=(self.array.nbytes,), device=memory.device,
            stream=None, what=f"what has the digest of {quoted(self.name)}",
        ) as array:
            document["same"] = hold.id if sharing.is_same(array) else 0
            answer = link.ask(document, deadline, is_decided=True).answer or {}
            if answer.get("same") is True:
                cuda().synchronize_device(memory.device)
                try:
                    memory.swap(offered)
                except CudaError:
                    # It is published. The copy stays as long as it is mapped.
                    pass
        return answer

    def close(self) -> None:
        """Unmaps the memory. If it was not published, it goes. Does nothing if that has happened before."""
        self.array.release()

    @property
    def _entry(self) -> MappedEntry:
        return MappedEntry(self._link, self.name, self._memory, self._hold, self.array._holding)

    def __repr__(self) -> str:
        return f"<StoredMemory {quoted(self.name)}: {self.array.nbytes} bytes, {self._state}>"

    def _wait_written(self, stream: int | None) -> None:
        calls, device = cuda(), self._memory.device
        streams = self.array._holding.streams.value if stream is None else frozenset((stream,))
        if streams is None:
            calls.synchronize_device(device)
            return
        for each in streams:
            calls.synchronize(each, device)
