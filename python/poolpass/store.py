"""Stores: memory that outlives the processes that created it."""
from __future__ import annotations

import math
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Collection, Literal, Sequence, overload

from . import messages as m
from .closing import Closing
from .cuda import cuda, parse_uuid, stream_handle
from .descriptors import discard
from .device_array import DeviceArray, array_type, check_nbytes, check_shape
from .documents import JsonObject, number_of, objects_of, text_of
from .dtypes import UINT8, DType, described, to_dtype
from .errors import SharingError, needing_descriptors, quoted
from .holding import Holding
from .limits import check_seconds, deadline_of
from .mapped_entry import MappedEntry
from .peer import Peer
from .records import Value
from .sockets import StrPath, check_path
from .store_link import Hold, Request, StoreLink, device_of
from .stored_memory import MAXIMUM_ENTRY_METADATA, StoredMemory, check_digest
from .tensor_bundle import BundledTensor, tensors_of
from .torch_views import TorchViews
from .users import check_users
from .whole_memory import Access, WholeMemory

if TYPE_CHECKING:
    from datetime import datetime

# Seconds between two attempts to move memory that processes have mapped.
IN_USE_PAUSE = 0.02


class StoreEntry(Value):
    """What a store has under a name.

    `generation` says how often the name was published, `device` is the UUID of the memory's device, `readers` are the
    processes that have it mapped, `sleepers` those that hold it without having it mapped, `rank` is the rank that has
    written the memory and the number of ranks, and `since` is when it was published. `digest` is the digest of the contents that the publisher has stated, or None. `keep` says whether the
    store never evicts the memory, and `is_replaced` whether a newer generation has replaced it. `place` is "device";
    "host" if the memory was moved to host memory of the store; or the path of the file that it was moved to.
    """

    name: str
    nbytes: int
    generation: int
    metadata: Any
    readers: tuple[Peer, ...]
    device: str
    since: datetime
    sleepers: tuple[Peer, ...] = ()
    digest: str | None = None
    keep: bool = False
    is_replaced: bool = False
    rank: tuple[int, int] = (0, 1)
    place: str = "device"


class StoreMapping(DeviceArray):
    """Memory of a store, mapped: an array of the element type and the shape that its metadata states.

    Unless it was mapped for writing, work that writes it fails, and takes the process's context along. Versioned
    capsules of DLPack say that it is read-only, which PyTorch and CuPy do not heed.
    It is unmapped by `release`, at the end of a `with` block, or when nothing refers to it any more.
    """

    def __init__(
        self,
        holding: Holding,
        document: JsonObject,
        *,
        name: str,
        address: int,
        device: int,
        stream: int | None,
        entry: MappedEntry,
    ):
        self._name = name
        self._entry = entry
        self._generation = number_of(document, "generation")
        self._metadata = document.get("metadata")
        self._digest = _digest_of(document)
        dtype, shape = array_type(self._metadata, number_of(document, "byteLength", 1))
        super().__init__(
            holding, address=address, dtype=dtype, shape=shape, device=device, stream=stream, what=quoted(name)
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def generation(self) -> int:
        """How often the name had been published when this was mapped."""
        return self._generation

    @property
    def metadata(self) -> Any:
        """The JSON value that came with the memory; None if there is none. Nothing checks what is in it."""
        return self._metadata

    @property
    def digest(self) -> str | None:
        """The digest that the memory was published with, as 64 hexadecimal digits; None if there is none."""
        return self._digest

    def _bytes(self, nbytes: int) -> DeviceArray:
        """Returns all of the memory as bytes, regardless of the element type in its metadata."""
        return DeviceArray(
            self._holding, address=self._address, dtype=UINT8, shape=(nbytes,), device=self._device,
            stream=self._stream, what=self._what, is_stream_kept=self._is_stream_kept,
        )


class StoreClient(Closing):
    """A connection to a store, by which processes leave memory to each other. Made by `StoreClient.connect`.

    If the store is gone, the connection is made again with the next one that listens at the path. What is mapped stays
    valid meanwhile, and what is asked for waits. All methods may be called by several threads.

        with StoreClient.connect("/run/poolpass.sock") as client:
            with client.create("weights", shape=(1024,), dtype="float32") as memory:
                torch.from_dlpack(memory.array).normal_()
                memory.publish()
            # In another process, also when this one has ended:
            weights = torch.from_dlpack(client.map("weights"))
    """

    def __init__(self, link: StoreLink):
        self._link = link
        self._arrays: weakref.WeakSet[DeviceArray] = weakref.WeakSet()
        self._finalizer = weakref.finalize(self, link.begin_close)
        self._finalizer.atexit = False

    @classmethod
    def connect(
        cls,
        path: StrPath,
        *,
        wait: float | None = None,
        users: Collection[int] = (),
        handshake_timeout: float = 5.0,
        message_timeout: float = 5.0,
        reconnect_timeout: float = 30.0,
        close_timeout: float = 5.0,
    ) -> StoreClient:
        """Connects to the store that listens at a path.

        wait: how many seconds to wait for a store to listen; by default, nobody listening is an error.
        users: the IDs of other users whose stores are trusted; this process's own user always is.
        handshake_timeout, message_timeout: seconds that the store has to answer, and to send a whole message.
        reconnect_timeout: seconds in which a store must be there again when the one that was connected is gone.
        close_timeout: seconds that `close` waits for the store.

        Raises SharingError: "not-listening", "bad-message" if something else than a store listens there,
        "not-permitted", "path-too-long", "timed-out", "version-mismatch", "limit-exceeded" and others.
        """
        text = check_path("connect to", path)
        with needing_descriptors(f"connect to {text}"):
            link = StoreLink(
                text, users=check_users(users),
                wait=None if wait is None else check_seconds(wait, "wait"),
                handshake_timeout=check_seconds(handshake_timeout, "handshake_timeout"),
                message_timeout=check_seconds(message_timeout, "message_timeout"),
                reconnect_timeout=check_seconds(reconnect_timeout, "reconnect_timeout"),
                close_timeout=check_seconds(close_timeout, "close_timeout"),
            )
        link.start()
        client = cls(link)
        try:
            with link.loop.lock:
                link.loop.wait_until(lambda: link.is_connected or link.failure is not None, None)
                failure = link.failure
        except BaseException:
            client.close()
            raise
        if failure is not None:
            client.close()
            raise failure
        return client

    @property
    def path(self) -> str:
        """The path at which the store listens."""
        return self._link.path

    @property
    def is_connected(self) -> bool:
        return self._link.is_connected and not self._link.is_closing

    @overload
    def create(
        self, name: str, nbytes: int | None = None, *, shape: Sequence[int] | None = None, dtype: Any = None,
        metadata: Any = None, device: int = 0, stream: Any = None, rank: tuple[int, int] = (0, 1), set: str = "",
        once: Literal[False] = False, timeout: float | None = None,
    ) -> StoredMemory: ...

    @overload
    def create(
        self, name: str, nbytes: int | None = None, *, shape: Sequence[int] | None = None, dtype: Any = None,
        metadata: Any = None, device: int = 0, stream: Any = None, rank: tuple[int, int] = (0, 1), set: str = "",
        once: Literal[True], replaces: int = 0, timeout: float | None = None,
    ) -> StoredMemory | None: ...

    def create(
        self,
        name: str,
        nbytes: int | None = None,
        *,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        metadata: Any = None,
        device: int = 0,
        stream: Any = None,
        rank: tuple[int, int] = (0, 1),
        set: str = "",
        once: bool = False,
        replaces: int = 0,
        timeout: float | None = None,
    ) -> StoredMemory | None:
        """Creates memory in the store and maps it for writing. Nobody else sees it before it is published.

        nbytes: the size in bytes; or the `shape` and `dtype` of an array, which others then get as well. The memory
        itself has a multiple of 2 MiB.
        metadata: what others are told of it: any JSON value of at most 4 MiB.
        device: the ordinal of the device that the memory is on.
        stream: the stream that the array is used on, if it is always the same.
        rank: the rank that writes the memory, and the number of ranks, each of which creates and publishes memory under
        the same name. They become visible together, with one generation.
        set: the same string in all ranks, at most 255 characters, that tells them from other processes which publish
        the same name at the same time, such as the ID of a run.
        once: whether to wait while another process writes memory of the same name. Returns None if it has been
        published then: `map` returns it. If the other process exits without publishing, one of the waiting processes
        creates the memory. Stores of earlier versions ignore this, and give memory to every process.
        replaces: with `once`, the generation that is to be replaced: memory is created if it is the one that is
        published. By default, only if nothing is published under the name.
        timeout: how many seconds to wait until there is room, and until others have written.

        Raises SharingError: "limit-exceeded" if the store will never have so much, "timed-out", "device-not-visible",
        "peer-gone"; "in-use" if another process writes the memory of this rank, "not-supported" if a rank is given and
        the store is of an earlier version. Raises CudaError.
        """
        m.check_name(name, "the name of an entry")
        element, sizes = _type_of(nbytes, shape, dtype)
        length = element.itemsize * math.prod(sizes)
        if length < 1:
            raise ValueError(f"Cannot create {quoted(name)}: memory in a store has at least 1 byte")
        if shape is not None or dtype is not None:
            metadata = described(metadata, element.name, sizes)
        m.encode_metadata(metadata, MAXIMUM_ENTRY_METADATA)
        handle = None if stream is None else stream_handle(stream)
        calls = cuda()
        calls.check_device(device)
        document: JsonObject = {
            "do": "create", "name": name, "byteLength": length, "device": calls.uuid_texts[device],
            **({} if metadata is None else {"metadata": metadata}),
        }
        if replaces != 0 and not once:
            raise TypeError("Cannot replace a certain generation without once: give both")
        own, count = _check_rank(rank)
        if not isinstance(set, str) or len(set) > 255:
            raise TypeError(f"Cannot use {set!r} as set: give a string of at most 255 characters")
        if count > 1:
            document["set"] = {"id": set, "count": count, "rank": own}
        if once:
            document.update(once=True, replaces=_check_generation(replaces))
        request = self._link.ask_for_room(document, deadline_of(timeout), takes_memory=True)
        if request.hold is None:
            return None

        def find_device() -> int:
            if count > 1 and (request.answer or {}).get("set") is not True:
                raise SharingError(
                    "not-supported", f"Cannot create {quoted(name)} for {count} ranks: the store is of an earlier "
                    "version, which publishes memory alone"
                )
            return device

        memory, hold, holding = self._map(request, length, find_device, "read-write")
        array = DeviceArray(
            holding, address=memory.address, dtype=element, shape=sizes, device=device, stream=handle,
            what=quoted(name),
        )
        self._arrays.add(array)
        return StoredMemory(self._link, name=name, array=array, memory=memory, hold=hold)

    def map(
        self,
        name: str,
        *,
        write: bool = False,
        digest: str | None = None,
        rank: tuple[int, int] = (0, 1),
        stream: Any = None,
        timeout: float | None = None,
    ) -> StoreMapping:
        """Maps the memory that was published under a name last, without a copy. Waits until something is.

        write: whether it is mapped for writing. Who may do that is who has published it.
        digest: the first 8 to 64 digits of the digest that the memory was published with. Maps the newest such
        generation of the name, also one that was replaced and that processes still hold.
        rank: the rank whose memory to map, and the number of ranks, if they were published together.
        stream: the stream on which the memory will be used: it is unmapped behind the work on that stream. Without it,
        DLPack's consumers say on which stream they use it.
        timeout: how many seconds to wait.

        Raises SharingError: "timed-out", "device-not-visible", "size-mismatch", "peer-gone"; "not-permitted" if it is
        to be written, and another user has published it; "limit-exceeded" if this user holds too much that others have
        replaced or removed; "not-found" if no generation of the name has the digest, or another number of
        ranks is published. Raises CudaError.
        """
        return self._map_published(name, write, stream, timeout, digest=digest, rank=rank)[0]

    @overload
    def tensors(
        self, name: str, *, write: bool = False, stream: Any = None, timeout: float | None = None,
        framework: None = None,
    ) -> dict[str, DeviceArray]: ...

    @overload
    def tensors(
        self, name: str, *, write: bool = False, stream: Any = None, timeout: float | None = None,
        framework: Literal["torch"],
    ) -> dict[str, Any]: ...

    def tensors(
        self,
        name: str,
        *,
        write: bool = False,
        stream: Any = None,
        timeout: float | None = None,
        framework: Literal["torch"] | None = None,
    ) -> dict[str, Any]:
        """Maps all tensors that an entry's metadata lists, for example those that examples/weights_store.ts publishes.

        All tensors share one mapping, which exists as long as any of them. A tensor whose element type is not supported
        is returned as an array of bytes.

        framework: "torch" to return PyTorch tensors. They are views of a single tensor, which is much faster than
        calling `torch.from_dlpack` for each array.

        Otherwise like `map`. Also raises SharingError with the code "bad-message" if the metadata does not list
        tensors, or lists tensors that are not within the memory.
        """
        if framework not in (None, "torch"):
            raise ValueError(f'Cannot make tensors of {framework!r}: framework must be "torch", or left out')
        mapping, holding, length = self._map_published(name, write, stream, timeout)
        with mapping:
            found: list[BundledTensor] = tensors_of(mapping.metadata, length, quoted(name))
            if framework == "torch":
                with mapping._bytes(length) as array:
                    views = TorchViews(array)
                return {each.name: views.make(each.dtype, each.shape, each.byte_offset) for each in found}
            arrays = {
                each.name: DeviceArray(
                    holding, address=mapping._address + each.byte_offset, dtype=each.dtype, shape=each.shape,
                    device=mapping.device, stream=mapping._stream, what=f"{quoted(each.name)} of {quoted(name)}",
                )
                for each in found
            }
        for array in arrays.values():
            self._arrays.add(array)
        return arrays

    def entries(self, *, replaced: bool = False, timeout: float | None = None) -> list[StoreEntry]:
        """What the store has. With `replaced`, also replaced generations that processes still hold. Raises
        SharingError: "timed-out", "peer-gone"."""
        document: JsonObject = {"do": "entries", **({"replaced": True} if replaced else {})}
        answer = self._link.ask(document, deadline_of(timeout)).answer
        return [_entry_of(each) for each in objects_of(answer or {}, "entries")]

    def offload(
        self, name: str, *, to: StrPath = "host", rank: tuple[int, int] = (0, 1), timeout: float | None = None
    ) -> None:
        """Moves what is published under a name from its device to host memory that the store keeps, or to a file, and
        frees the device memory. Processes in which it sleeps keep it; no process may have it mapped, including this
        one. The process that maps or wakes it next moves it back, and others wait for that.

        If this fails or the process exits, the memory stays where it was.

        to: "host", or the path of an existing folder, in which weights become the file NAME@DIGEST.safetensors. It is
        complete when it appears, and stays when the weights are moved back. Their digest is then checked.
        rank: the rank whose memory to move, and the number of ranks, if they were published together.
        timeout: how many seconds to wait while a process has it mapped, or another one moves it. By default, it is not
        waited for those that have it mapped.

        Raises SharingError: "in-use" if a process has it mapped; the message names the processes. "limit-exceeded" if
        the store may have no more host memory, "not-found",
        "not-permitted" if another user has published it, "bad-message" if the store is of an earlier version,
        "not-supported" if weights cannot be written to a file, because a tensor is transposed in memory,
        "device-not-visible", "timed-out", "peer-gone". Raises OSError.

            client.offload("model")
            held = weights.load(client, "model")  # back on the device
        """
        m.check_name(name, "the name of an entry")
        place: Literal["host", "file"] = "host" if to == "host" else "file"
        folder = "" if to == "host" else os.path.abspath(os.fsdecode(to))
        if folder and not os.path.isdir(folder):
            raise NotADirectoryError(f'Cannot move {quoted(name)} to {folder}: give "host", or an existing folder')
        deadline = deadline_of(timeout)
        from .moves import move

        # What this process has released must not be in use.
        self._link.finish_unmapping(deadline)
        which: JsonObject = {"name": name, **({} if _check_rank(rank)[1] == 1 else {"rank": list(rank)})}
        in_use: SharingError | None = None
        while True:
            try:
                return move(self._link, name, which, place, deadline, folder)
            except SharingError as error:
                if error.code == "timed-out" and in_use is not None:
                    raise in_use from None
                if error.code != "in-use" or deadline is None or time.monotonic() >= deadline:
                    raise
                in_use = error
            time.sleep(max(0, min(IN_USE_PAUSE, deadline - time.monotonic())))

    def remove(self, name: str, *, timeout: float | None = None) -> None:
        """Takes the name from what is published under it. The memory goes when its last reader has released it.

        Raises SharingError: "not-found", "not-permitted", "timed-out", "peer-gone".
        """
        m.check_name(name, "the name of an entry")
        self._link.ask({"do": "remove", "name": name}, deadline_of(timeout), done_code="not-found")

    def close(self) -> None:
        """Unmaps what is mapped, and disconnects. Memory that was not published goes.

        What another library still uses stays mapped until that ends, and the connection stays until then. Waits for at
        most `close_timeout` seconds.
        """
        link = self._link
        if link.loop.is_forked:
            return
        for array in list(self._arrays):
            if not array._is_handed_out:
                array.release()
        with link.loop.lock:
            self._finalizer()
            if link.loop.is_current:
                return
            link.loop.wait_until(
                lambda: link.is_over() or link.is_closing and link.is_lingering, deadline_of(2 * link.close_timeout)
            )
            is_over = link.is_over()
        if is_over:
            link.loop.join()

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<StoreClient of {self.path}: {state}>"

    def _map_published(
        self,
        name: str,
        write: bool,
        stream: Any,
        timeout: float | None,
        *,
        digest: str | None = None,
        rank: tuple[int, int] = (0, 1),
    ) -> tuple[StoreMapping, Holding, int]:
        m.check_name(name, "the name of an entry")
        handle = None if stream is None else stream_handle(stream)
        asked: JsonObject = {"do": "map", "name": name, "write": bool(write), "wait": True, "places": True}
        if digest is not None:
            asked["digest"] = check_digest(digest, 8)
        if _check_rank(rank)[1] > 1:
            asked["rank"] = list(rank)
        deadline = deadline_of(timeout)
        request = self._link.ask(asked, deadline, takes_memory=True)
        document = request.answer
        assert document is not None
        if request.descriptor is None and request.hold is not None:
            # The memory is not on its device.
            from .moves import bring_back

            try:
                request.descriptor = bring_back(self._link, name, request.hold, deadline)
            except BaseException:
                self._link.end_hold(request.hold)
                raise
        device = 0

        def find_device() -> int:
            nonlocal device
            if digest is not None and not (_digest_of(document) or "").startswith(digest):
                raise SharingError(
                    "not-found", f"Cannot map {quoted(name)} with the digest {digest}: the store is of an earlier "
                    "version, which knows no digests"
                )
            if rank[1] > 1 and _rank_of(document) != tuple(rank):
                raise SharingError(
                    "not-found", f"Cannot map {quoted(name)} for rank {rank[0]} of {rank[1]}: the store is of an "
                    "earlier version, which has no ranks"
                )
            device = device_of(text_of(document, "device"), name)
            return device

        length = document.get("byteLength")
        memory, hold, holding = self._map(request, length, find_device, "read-write" if write else "read")
        entry = MappedEntry(self._link, name, memory, hold, holding)
        mapping = StoreMapping(
            holding, document, name=name, address=memory.address, device=device, stream=handle, entry=entry
        )
        self._arrays.add(mapping)
        return mapping, holding, number_of(document, "byteLength", 1)

    def _map(
        self, request: Request, length: Any, find_device: Callable[[], int], access: Access
    ) -> tuple[WholeMemory, Hold, Holding]:
        """Maps what an answer has brought. If that fails, gives it back to the store."""
        link, hold, descriptor, document = self._link, request.hold, request.descriptor, request.answer
        assert hold is not None and descriptor is not None and document is not None
        try:
            number_of({"byteLength": length}, "byteLength", 1)
            size = number_of(document, "size", length)
            memory = WholeMemory(descriptor, size, find_device(), access)
        except BaseException:
            link.end_hold(hold)
            raise
        finally:
            discard(descriptor)
        holding = Holding(lambda streams: link.release(memory, hold, streams))
        holding.is_read_only = access == "read"
        return memory, hold, holding


def _type_of(nbytes: int | None, shape: Sequence[int] | None, dtype: Any) -> tuple[DType, tuple[int, ...]]:
    element = UINT8 if dtype is None else to_dtype(dtype)
    if shape is not None:
        sizes = check_shape(shape)
        length = element.itemsize * math.prod(sizes)
        if nbytes is not None and nbytes != length:
            raise ValueError(f"Cannot create {nbytes} bytes for {element.name} of shape {list(sizes)}: it has {length}")
        return element, sizes
    if nbytes is None:
        raise TypeError("Cannot create memory that has no size: give nbytes, or shape and dtype")
    nbytes = check_nbytes(nbytes, "a size")
    if nbytes % element.itemsize != 0:
        raise ValueError(f"Cannot create {nbytes} bytes of {element.name}: they are no multiple")
    return element, (nbytes // element.itemsize,)


def _check_rank(rank: tuple[int, int]) -> tuple[int, int]:
    try:
        own, count = rank
    except (TypeError, ValueError):
        own = count = None  # type: ignore[assignment]
    if not isinstance(own, int) or not isinstance(count, int):
        raise TypeError(f"Cannot use {rank!r} as rank: give the rank and the number of ranks, such as (0, 4)")
    if not 0 <= own < count <= 4096:
        raise ValueError(f"Cannot use {rank!r} as rank: of at most 4096 ranks, the first is 0")
    return own, count


def _rank_of(document: JsonObject) -> tuple[int, int]:
    value = document.get("rank", [0, 1])
    if not isinstance(value, list) or len(value) != 2:
        raise m.ProtocolError("The store does not say which rank it has")
    own, count = value
    return number_of({"rank": own}, "rank"), number_of({"rank": count}, "rank", 1)


def _check_generation(value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"Cannot replace generation {value!r}: give a whole number, or 0 for none")
    if not 0 <= value <= m.MAXIMUM_INTEGER:
        raise ValueError(f"Cannot replace generation {value}: give a whole number, or 0 for none")
    return value


def _digest_of(document: JsonObject) -> str | None:
    return None if document.get("digest") is None else text_of(document, "digest")


def _peers_of(entry: JsonObject, name: str) -> tuple[Peer, ...]:
    return tuple(
        Peer(number_of(each, "pid"), number_of(each, "uid"), number_of(each, "gid")) for each in objects_of(entry, name)
    )


def _entry_of(entry: JsonObject) -> StoreEntry:
    from datetime import datetime, timezone

    return StoreEntry(
        name=text_of(entry, "name"),
        nbytes=number_of(entry, "byteLength", 1),
        generation=number_of(entry, "generation", 1),
        metadata=entry.get("metadata"),
        readers=_peers_of(entry, "readers"),
        device=text_of(entry, "device"),
        since=datetime.fromtimestamp(number_of(entry, "since") / 1000, timezone.utc),
        sleepers=_peers_of(entry, "sleepers"),
        digest=_digest_of(entry),
        keep=entry.get("keep") is True,
        is_replaced=entry.get("replaced") is True,
        rank=_rank_of(entry),
        place=text_of(entry, "place") if "place" in entry else "device",
    )
