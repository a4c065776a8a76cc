"""Model weights in a store: one process publishes them, and any number of processes use the same memory in place.

    from poolpass import StoreClient, weights

    with StoreClient.connect("/run/poolpass.sock") as client:
        weights.publish(client, "model", model)
        # In another process:
        with torch.device("meta"):
            model = Model()
        held = weights.load(client, "model", model)

PyTorch is imported on first use.
"""
from __future__ import annotations

import json
import math
import os
import re
import sys
import weakref
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence

from . import __version__
from . import cuda as cuda_calls
from .cuda import cuda
from .device_array import DeviceArray, is_shape
from .errors import SharingError, quoted
from .limits import deadline_of
from .mapped_entry import MappedEntry
from .records import Value
from .store import StoreClient, StoreMapping
from .stored_memory import Sharing
from .tensor_bundle import SAFETENSORS_NAMES, BundledTensor, tensors_of
from .torch_views import TorchViews, torch

if TYPE_CHECKING:
    from typing_extensions import Self

    from .captured import Captured
    from .resident import Resident
    from .safetensors_files import SafetensorsFiles

__all__ = ["Weights", "load", "publish", "resident", "revision_of"]

FORMAT, VERSION = "weights", 1
# The alignment of tensors in bytes, which is the same as that of CUDA's allocations.
_ALIGNMENT = 256
_MINIMUM_DIGITS = 8
# The maximum size in bytes of a list of tensors in the metadata. A longer list is stored in the memory itself, where
# its size is limited to _MAXIMUM_MANIFEST.
_MAXIMUM_LISTED, _MAXIMUM_MANIFEST = 2**20, 2**28


# The weights of this process, for the message of an error.
_in_use: weakref.WeakSet[Weights] = weakref.WeakSet()


def _explain_illegal_access() -> str:
    names = sorted({quoted(each.name) for each in list(_in_use) if each._entry.is_read_only})
    if not names:
        return ""
    listed = ", ".join(names[:5])
    return f"; the weights {listed} are mapped for reading: if a kernel wrote them, run again under guard()"


cuda_calls.explain_illegal_access = _explain_illegal_access


class _Tensor(Value):
    """A tensor, as described by the metadata of the weights. `dtype` and `shape` are the values in the metadata."""

    place: BundledTensor
    dtype: str
    shape: Sequence[int]
    kind: str
    strides: tuple[int, ...] | None
    names: tuple[str, ...]


class Weights(Mapping[str, Any]):
    """A mapping from names to PyTorch tensors in the memory of a store. Created by `load` and `publish`.

    Each tensor object is created on first access, and is the same object under all of its names. The tensors are
    read-only, except for private copies. The memory stays mapped while any of the tensors exist, even after `release`.
    """

    def __init__(
        self,
        *,
        name: str,
        generation: int,
        metadata: Any,
        array: DeviceArray,
        private: Sequence[str],
        entry: MappedEntry,
        find: Callable[[float | None], tuple[StoreMapping, int]],
        release: Callable[[], None],
    ):
        self.name = name
        """The name in the store, without a digest."""
        self.generation = generation
        """The generation of the weights: how many times the name has been published, including this time."""
        self.metadata = metadata
        """The metadata that the weights were published with, a JSON value."""
        self._entry = entry
        # Maps the newest generation. Returns the mapping and its size in bytes.
        self._find = find
        self.nbytes = array.nbytes
        """The size of the memory in bytes."""
        self.device = array.device
        """The ordinal of the device in this process."""
        self._release = release
        self._what = f"the weights {quoted(name)}"
        tensors = _tensors_of(_with_tensors(metadata, array, quoted(name)), array.nbytes, quoted(name))
        self._tensors = {each: tensor for tensor in tensors for each in tensor.names}
        self._private = tuple(private)
        self._made: dict[str, Any] = {}
        # The private copies, each with the name of the tensor that it was copied from.
        self._copies: list[tuple[str, Any]] = []
        self._views: TorchViews | None = TorchViews(array)
        self._first_address = int(self._views.bytes.data_ptr())
        self._digest = _digest_of(metadata)
        _in_use.add(self)

    @property
    def digest(self) -> str:
        """The revision, as 64 hexadecimal digits: a digest of the names, dtypes, shapes and values of all tensors. If a
        tensor has several names, only the first one counts. Computed on first access if the publisher did not state
        it."""
        if self._digest is None:
            self._check_awake()
            self._digest = self._compute_digest()
        return self._digest

    def __getitem__(self, name: str) -> Any:
        tensor = self._tensors[name]
        made = self._made.get(tensor.place.name)
        if made is None:
            made = self._mapped(tensor)
            if self._is_private(tensor):
                made = self._copy(tensor)
            self._made[tensor.place.name] = made
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def verify(self) -> str:
        """Computes the revision of the tensors in the memory again, and returns it. Private copies are not considered.

        Raises SharingError with the code "digest-mismatch" if it is not `digest`: the memory was changed after it was
        published.
        """
        self._check_awake()
        found = self._compute_digest()
        self._compare(found, "they are now")
        return found

    def guard(self) -> Any:
        """Returns a context manager in which any PyTorch operator that would write to one of the tensors raises
        RuntimeError instead of causing a fault of the device. The error names the operator and the tensor. Intended for
        debugging, because it adds a few microseconds to each operator. Has no effect on weights that are mapped for
        writing."""
        if not self._entry.is_read_only:
            return nullcontext()
        from .write_guard import write_guard

        places = dict.fromkeys(self._tensors.values())
        return write_guard(self._what, [
            (self._first_address + each.place.byte_offset, each.place.nbytes, each.place.name) for each in places
        ])

    @property
    def is_asleep(self) -> bool:
        """Whether the memory is unmapped, from `sleep` until `wake` or `update`."""
        return self._entry.is_asleep

    def sleep(self) -> None:
        """Waits for all work of the device, and unmaps the memory. The addresses stay reserved. Tensors remain valid
        objects, but work that uses them fails until `wake` has been called, and takes the process's context along.
        Private copies are not affected. Has no effect if the weights are asleep.

        The weights stay in the store for this process, even if their name is removed or published again meanwhile.

        Raises SharingError with the code "peer-gone" if the store is gone: the weights then stay awake.
        """
        self._check()
        self._entry.sleep()

    def wake(self, timeout: float | None = None) -> None:
        """Maps the memory again after `sleep`, at the same addresses, so that tensors and captured CUDA graphs can be
        used again. If this fails, the weights stay asleep. Has no effect if they are awake.

        timeout: the maximum time to wait for the memory, in seconds.

        Raises CudaError. Raises SharingError: "timed-out", "peer-gone", "not-found" if the store was restarted and has
        lost the memory.
        """
        self._check()
        self._entry.wake(timeout)

    def update(self, timeout: float | None = None) -> bool:
        """Maps the newest generation of the name at the addresses of the current one. Returns whether there was a newer
        one. Existing tensors and captured CUDA graphs then use the new weights. Private copies, including those in
        modules, are overwritten with the new values.

        Waits for all work of the device first. The caller must ensure that no other thread enqueues work that uses the
        weights before this method returns. If it fails, the current generation stays mapped. Weights that are asleep
        are woken.

        timeout: the maximum time to wait, in seconds. The call waits if the name was removed.

        Raises SharingError: "layout-changed" if the names, dtypes, shapes or places of the tensors, or the size of the
        memory, are different; load them as other weights then. Also raises what `load` raises.

            if held.update():
                print(held.generation)
        """
        self._check()
        mapping, nbytes = self._find(timeout)
        with mapping:
            if mapping._entry.is_same_as(self._entry):
                self._entry.wake(timeout)
                return False
            with mapping._bytes(nbytes) as array:
                metadata = _with_tensors(mapping.metadata, array, quoted(self.name))
            tensors = _tensors_of(metadata, nbytes, quoted(self.name))
            changed = _change(self._tensors.values(), tensors)
            if changed is not None:
                raise SharingError(
                    "layout-changed", f"Cannot map generation {mapping.generation} of {self._what} at the same "
                    f"addresses: {changed}; load it anew"
                )
            self._entry.replace_by(mapping._entry)
            self.generation, self.metadata = mapping.generation, mapping.metadata
            self._digest = _digest_of(mapping.metadata)
            self._tensors = {each: tensor for tensor in tensors for each in tensor.names}
        for name, copy in self._copies:
            copy.copy_(self._mapped(self._tensors[name]))
        return True

    def release(self) -> None:
        """Releases the memory. Tensors that still exist keep it mapped. Has no effect if called again."""
        self._made.clear()
        self._copies.clear()
        if self._views is not None:
            self._views = None
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = ", released" if self._views is None else ", asleep" if self.is_asleep else ""
        return f"<Weights {quoted(self.name)}: {len(self)} tensors, {self.nbytes} bytes{state}>"

    # Mapping.__eq__ would compare the values, but the result of comparing tensors has no truth value.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _check(self) -> None:
        if self._views is None:
            raise RuntimeError(f"Cannot use {self._what}: they were released")

    def _mapped(self, tensor: _Tensor) -> Any:
        self._check()
        assert self._views is not None
        place = tensor.place
        return self._views.make(place.dtype, place.shape, place.byte_offset, tensor.strides)

    def _check_compatible(self, device: int | None, model: Any) -> None:
        if device is not None and device != self.device:
            raise SharingError(
                "incompatible", f"Cannot load {self._what} on device {device}: they are on device {self.device}"
            )
        made = self.metadata.get("made")
        if not isinstance(made, dict) or all(each.kind == "tensor" for each in self._tensors.values()):
            # Tensors of files are the same everywhere. Modules may have converted theirs for one device.
            return
        own = _made(self.device or 0, model)
        for what in ("torch", "capability", "class"):
            if what in made and what in own and not _agrees(what, str(made[what]), own[what]):
                raise SharingError(
                    "incompatible", f"Cannot load {self._what}: they were published with {what} {made[what]}, and "
                    f"this process has {own[what]}; publish them anew, or from files"
                )

    def _compute_digest(self) -> str:
        from .revision import revision, tree_digests

        tensors = list(dict.fromkeys(self._tensors.values()))
        digests = tree_digests(self._mapped(each).contiguous() for each in tensors)
        return revision((each.place.name, each.dtype, each.shape, digest) for each, digest in zip(tensors, digests))

    def _compare(self, found: str, what: str) -> None:
        if found != self.digest:
            raise SharingError(
                "digest-mismatch", f"Cannot trust {self._what}: {what} {found}, and their digest is {self.digest}"
            )

    def _copy(self, tensor: _Tensor) -> Any:
        """Returns a private copy of a tensor."""
        self._check_awake()
        copy = self._mapped(tensor).clone()
        self._copies.append((tensor.place.name, copy))
        return copy

    def _check_awake(self) -> None:
        if self.is_asleep:
            raise RuntimeError(f"Cannot read {self._what}: they are asleep; call wake")

    def _is_private(self, tensor: _Tensor) -> bool:
        # Modules may write to their buffers.
        return tensor.kind == "buffer" or any(
            fnmatchcase(name, pattern) for name in tensor.names for pattern in self._private
        )

    def replace_parameters(self, model: Any) -> None:
        """Replaces the parameters of a module that are in the weights and not private."""
        from .captured import registered
        from .module_tensors import put_into

        kept = {name for name, kind, _, _ in registered(model) if kind != "parameter"}
        found = {
            name: _type_in_torch(tensor.place) for name, tensor in self._tensors.items()
            if name not in kept and not self._is_private(tensor)
        }
        put_into(
            model, self._what, found, lambda name: self._tensors[name].place.name, self.__getitem__, is_partial=True
        )

    def adopt_copies(self, model: Any) -> None:
        """Makes the buffers and private parameters of the published module the private copies of these weights."""
        from .captured import registered

        for name, _, tensor, _ in registered(model):
            described = self._tensors.get(name)
            if described is not None and described.place.name == name and self._is_private(described):
                self._copies.append((name, tensor.detach()))

    def _put_into(self, model: Any) -> None:
        from .captured import registered
        from .module_tensors import put_into

        found = {name: _type_in_torch(tensor.place) for name, tensor in self._tensors.items()}
        made: dict[str, Any] = {}

        def tensor_of(name: str) -> Any:
            tensor = self[name]
            if registered_as[name] == "parameter" or self._is_private(self._tensors[name]):
                return tensor
            # The tensor is a buffer in this module, although the metadata does not say so: files do not state this.
            key = self._tensors[name].place.name
            if key not in made:
                made[key] = self._copy(self._tensors[name])
            return made[key]

        registered_as = {name: kind for name, kind, _, _ in registered(model)}
        put_into(model, self._what, found, lambda name: self._tensors[name].place.name, tensor_of)


def load(
    store: StoreClient,
    name: str,
    model: Any = None,
    *,
    device: int | None = None,
    rank: tuple[int, int] = (0, 1),
    private: Sequence[str] = (),
    write: bool = False,
    verify: bool = False,
    timeout: float | None = None,
) -> Weights:
    """Maps weights and, if a PyTorch module is given, loads them into it. Waits until weights are published under the
    name.

    name: the name, or NAME@DIGEST to load only a specific revision, given by at least its first 8 hexadecimal digits.
    It may have been replaced, if processes still hold it.
    model: the module, which may be on the device "meta". The mapped tensors become its parameters, with requires_grad
    set to False, and private copies become its buffers. Tied parameters stay tied.
    device: the ordinal of the device that the weights must be on. By default, they may be on any.
    rank: the rank whose part of a model to load, and the number of ranks that have published it.
    private: patterns of names, such as "*.q_proj.weight", of tensors to copy. Tensors that are written must be copied.
    write: whether to map the memory for writing. Only the user who published the weights may do so. All processes that
    have mapped the weights see what is written, and `verify` then finds a difference.
    verify: whether to compute the revision of the tensors in the memory, and to compare it with the published one.
    timeout: the maximum time to wait, in seconds.

    Raises ValueError if any of the module's parameters are missing from the weights, or have a different shape or dtype
    there. The error names these parameters; the module is left unchanged. Raises SharingError: "not-found", with the
    revisions that there are, if another one is published, "bad-message" if the metadata does not list tensors,
    "digest-mismatch" if `verify` finds a difference, "incompatible" if the weights are on another device, or are those
    of a module of another class, or that was published with another minor version of PyTorch or on a device of another
    compute capability. Also raises what `StoreClient.map` raises.

        with torch.device("meta"):
            model = Model()
        held = weights.load(client, "model@3fa9c1d2", model, timeout=60)
    """
    if isinstance(private, str):
        raise TypeError(f"Cannot use {private!r} as patterns of names: give a list of them")
    entry, is_exact, wanted = name.partition("@")
    if is_exact and not re.fullmatch(f"[0-9a-f]{{{_MINIMUM_DIGITS},64}}", wanted):
        raise ValueError(f"Cannot load {quoted(name)}: give {_MINIMUM_DIGITS} to 64 hexadecimal digits behind the @")
    if model is not None and not isinstance(model, torch().nn.Module):
        raise TypeError(f"Cannot load {quoted(name)} into {type(model).__name__}: give a module of PyTorch")
    find = _finder(store, entry, write, rank)
    missing: SharingError | None = None
    try:
        mapping, nbytes = _finder(store, entry, write, rank, wanted)(timeout) if is_exact else find(timeout)
    except SharingError as error:
        if error.code != "not-found":
            raise
        # The store, or the publisher, may be of an earlier version: then only the metadata has the revision.
        missing = error
        mapping, nbytes = find(timeout)
    try:
        with mapping._bytes(nbytes) as array:
            held = Weights(
                name=entry, generation=mapping.generation, metadata=mapping.metadata, array=array, private=private,
                entry=mapping._entry, find=find, release=mapping.release,
            )
        if missing is not None and not held.digest.startswith(wanted):
            raise missing
        held._check_compatible(device, model)
        if verify:
            held.verify()
        if model is not None:
            held._put_into(model)
        return held
    except BaseException:
        mapping.release()
        raise


def resident(
    store: StoreClient, *, name: str | None = None, private: Sequence[str] = (), timeout: float | None = None
) -> Resident:
    """Returns a context manager in which `from_pretrained` of transformers takes the weights of models from a store.
    The first process that calls it with certain files loads them as usual, and then publishes the model's parameters
    and buffers. Processes that call it meanwhile wait, and all others map the same memory. If the first process ends
    before it has published, another one loads.

    Only calls of the thread that has entered the context manager are concerned. Each model must be loaded to a single
    GPU, for example with device_map="cuda:0". Its parameters have requires_grad set to False. Its buffers, and
    parameters that the files lack, belong to the process. The attribute `weights` of the context manager lists the
    `Weights` of each model.

    name: the name in the store. By default, it is derived from the paths of the files, the class and the dtype. If the
    files have changed, the model is loaded again, and becomes the next generation of the name.
    private: patterns of names, such as "*.q_proj.weight", of parameters that the process may write to.
    timeout: the maximum time, in seconds, to wait for another process that loads the model, and for memory.

    Raises RuntimeError if the installed transformers is not known, or if no model is loaded in the block. Raises
    ValueError if a model is not loaded to a single GPU. Raises TypeError, which names the tensor, if a model cannot be
    published. Raises SharingError: "incompatible" if the weights in the store were made by another version of PyTorch,
    for another GPU, or, with `name`, from another model. Also raises what `load` and `publish` raise.

        with weights.resident(client):
            model = AutoModelForCausalLM.from_pretrained("/models/llama-8b", device_map="cuda:0")
    """
    from .resident import Resident

    return Resident(store, name=name, private=private, timeout=timeout)


def publish(
    store: StoreClient,
    name: str,
    source: Any,
    *,
    device: int = 0,
    rank: tuple[int, int] = (0, 1),
    set: str = "",
    keep: bool = False,
    verify: bool = False,
    share: bool = True,
    timeout: float | None = None,
) -> Weights:
    """Copies tensors into new memory of a store, computes their revision, and publishes them under a name.

    source: the path of a safetensors file, of the index of a model in several files, or of a folder that contains one
    model. Alternatively, a dictionary of tensors, or a PyTorch module, whose parameters and buffers are published.
    Tensors that share the same memory are published once, under all of their names.
    device: the ordinal of the device to publish the tensors on.
    rank: the rank of this process, and the number of ranks that publish their parts of a model under the same name. All
    parts become visible together, with one generation. If a rank exits before, none does.
    set: the same string in all ranks, which tells them from others that publish the name at the same time.
    keep: whether the store never evicts the weights to make room.
    verify: whether the CPU also computes the revision of the source, to be compared with what is on the device.
    share: whether to share the memory of the same weights, at the same places, that this user has published on the
    device under any name, instead of keeping a second copy. They are verified first. Weights that several names share
    cannot be mapped for writing.
    timeout: the maximum time, in seconds, to wait until the store has enough memory, and then for the other ranks.

    Raises TypeError, which names the tensor, if a tensor cannot be published: it is an instance of a subclass, has no
    values (on "meta"), is sparse, has an element type that safetensors files cannot represent, or is an attribute of
    the module that is not registered. Raises OSError if a file cannot be read. Raises ValueError if a file is not
    valid, or was changed while it was read, or if the name contains an @. Raises SharingError with the code
    "digest-mismatch" if `verify` finds a difference. Also raises what `StoreClient.create` and `StoredMemory.publish`
    raise.

        with weights.publish(client, "model", "/models/llama-8b") as held:
            print(held.digest)
    """
    check_entry_name(name)
    if isinstance(source, (str, os.PathLike)):
        from .safetensors_files import SafetensorsFiles

        with SafetensorsFiles(source) as files:
            return _publish(
                store, name, _FileTensors(files), device, keep, verify, timeout, rank=rank, set=set, share=share
            )
    from .captured import capture

    is_module = isinstance(source, torch().nn.Module)
    tensors = _TorchTensors(capture(source), {"made": _made(device, source)} if is_module else None)
    return _publish(store, name, tensors, device, keep, verify, timeout, rank=rank, set=set, share=share)


def check_entry_name(name: str) -> None:
    """Raises ValueError if weights cannot be published under the name."""
    if "@" in name:
        raise ValueError(f"Cannot publish {quoted(name)}: an @ ends a name, and a digest follows it")


def publish_loaded(
    store: StoreClient,
    name: str,
    captured: list[Captured],
    metadata: Mapping[str, Any],
    *,
    device: int,
    private: Sequence[str],
    timeout: float | None,
) -> Weights:
    """Publishes tensors of a module that transformers has loaded. `metadata` contains the members "made" and "sources"
    of the metadata."""
    metadata = {**metadata, "made": {**_made(device), **metadata["made"]}}
    return _publish(store, name, _TorchTensors(captured, metadata), device, False, False, timeout, private)


class _TorchTensors:
    """The tensors of a dictionary or a module, to be published."""

    def __init__(self, captured: list[Captured], metadata: dict[str, Any] | None = None):
        self._captured = captured
        self.metadata = metadata or {}

    def describe(self) -> list[tuple[int, dict[str, Any]]]:
        """Returns the size of each tensor in bytes, and what the metadata contains besides its place."""
        return [
            (each.tensor.numel() * each.tensor.dtype.itemsize, {
                "name": each.name, "dtype": each.dtype, "shape": each.shape,
                **({} if each.order is None else {"strides": list(each.tensor.stride())}), "kind": each.kind,
                **({} if each.is_persistent is None else {"persistent": each.is_persistent}),
                **({"aliases": each.aliases} if each.aliases else {}),
            })
            for each in self._captured
        ]

    def write(self, views: TorchViews, array: DeviceArray, offsets: list[int], verify: bool) -> list[bytes]:
        """Writes the tensors to the memory. Returns their digests as computed by the CPU if `verify` is True."""
        from .revision import bytes_of, tree_digests

        for each, begin in zip(self._captured, offsets):
            data = bytes_of(each.in_memory_order)
            views.bytes[begin : begin + data.numel()].copy_(data)
        return tree_digests(each.tensor.contiguous().cpu() for each in self._captured) if verify else []


class _FileTensors:
    """The tensors of files, to be published."""

    def __init__(self, files: SafetensorsFiles):
        self._files = files
        self.metadata: dict[str, Any] = {"sources": files.sources}

    def describe(self) -> list[tuple[int, dict[str, Any]]]:
        return [
            (each.nbytes, {"name": each.name, "dtype": each.dtype, "shape": each.shape, "kind": "tensor"})
            for each in self._files.tensors
        ]

    def write(self, views: TorchViews, array: DeviceArray, offsets: list[int], verify: bool) -> list[bytes]:
        assert array.device is not None
        return self._files.load(offsets, array._address, array.device, hashes=verify)


def _publish(
    store: StoreClient,
    name: str,
    source: _TorchTensors | _FileTensors,
    device: int,
    keep: bool,
    verify: bool,
    timeout: float | None,
    private: Sequence[str] = (),
    rank: tuple[int, int] = (0, 1),
    set: str = "",
    share: bool = True,
) -> Weights:
    described, offsets = [], []
    end = 0
    for nbytes, each in source.describe():
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = begin + nbytes
        offsets.append(begin)
        described.append({**each, "byteOffset": begin, "byteLength": nbytes})
    listed, manifest, layout = _listed(described, end)
    metadata: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "digest": None, "rank": list(rank), "set": set or None,
        "made": _made(device), **source.metadata, **listed,
    }
    nbytes = max(1, end) if manifest is None else listed["manifest"]["byteOffset"] + len(manifest)
    memory = store.create(
        name, nbytes, metadata=metadata, device=device, rank=rank, set=set, timeout=timeout
    )
    try:
        if manifest is not None:
            memory.array.write(manifest, byte_offset=nbytes - len(manifest))
        held = Weights(
            name=name, generation=0, metadata=metadata, array=memory.array, private=private, entry=memory._entry,
            find=_finder(store, name, False, rank), release=memory.close,
        )
        assert held._views is not None
        digests = source.write(held._views, memory.array, offsets, verify)
        if verify:
            from .revision import revision

            found = revision(
                (each["name"], each["dtype"], each["shape"], digest) for each, digest in zip(described, digests)
            )
            held._compare(found, "their source is")
        held.metadata = {**metadata, "digest": held.digest}
        def is_same(array: DeviceArray) -> bool:
            if manifest is not None and array.read(len(manifest), byte_offset=nbytes - len(manifest)) != manifest:
                return False
            other = Weights(
                name=name, generation=0, metadata=metadata, array=array, private=(), entry=memory._entry,
                find=_finder(store, name, False, rank), release=lambda: None,
            )
            with other:
                return other._compute_digest() == held.digest

        sharing = Sharing(layout, is_same) if share else None
        held.generation = memory._publish(None, held.metadata, held.digest, keep, deadline_of(timeout), sharing)
        return held
    except BaseException:
        memory.close()
        raise


def class_of(model: Any) -> str:
    """Returns the full name of a module's class."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def _made(device: int, model: Any = None) -> dict[str, str]:
    """Returns the versions of the software, the kind of device, and the class, that weights are published with."""
    made = {"poolpass": __version__}
    if model is not None:
        made["class"] = class_of(model)
    for library in ("torch", "transformers"):
        version = getattr(sys.modules.get(library), "__version__", None)
        if version is not None:
            made[library] = str(version)
    capability = cuda().capability(device)
    return made if capability is None else {**made, "capability": capability}


def _agrees(what: str, stated: str, own: str) -> bool:
    """Whether tensors that were converted for one environment are right in another one."""
    if what != "class":
        # The minor versions.
        return stated.split(".")[:2] == own.split(".")[:2]
    if stated.startswith("__main__.") or own.startswith("__main__."):
        # A class of the script that was started has another name in programs that import the script.
        stated, own = (each.rpartition(".")[2] for each in (stated, own))
    return stated == own


def revision_of(source: Any) -> str:
    """Returns the revision of a dictionary of tensors or of a module, as 64 hexadecimal digits. `Weights.digest` is the
    same if the tensors are published. The revision depends only on the names, dtypes, shapes and values of the tensors.
    If a tensor has several names, only the first one counts.

    Raises TypeError if a tensor cannot be published.
    """
    from .captured import capture
    from .revision import revision, tree_digests

    if isinstance(source, Weights):
        return source.digest
    captured = capture(source)
    digests = tree_digests(each.tensor.contiguous() for each in captured)
    return revision((each.name, each.dtype, each.shape, digest) for each, digest in zip(captured, digests))


def _finder(
    store: StoreClient, name: str, write: bool, rank: tuple[int, int], digest: str | None = None
) -> Callable[[float | None], tuple[StoreMapping, int]]:
    def find(timeout: float | None) -> tuple[StoreMapping, int]:
        mapping, _, nbytes = store._map_published(name, write, None, timeout, digest=digest, rank=rank)
        return mapping, nbytes

    return find


def _digest_of(metadata: Any) -> str | None:
    digest = metadata.get("digest")
    return digest if isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) else None


def _change(old: Iterable[_Tensor], new: Iterable[_Tensor]) -> str | None:
    """Describes a difference between two layouts. Returns None if they are the same."""
    before, after = ({each.place.name: each for each in tensors} for tensors in (old, new))
    for name in (*before, *after):
        if name not in after:
            return f"{quoted(name)} is gone"
        if name not in before:
            return f"{quoted(name)} is new"
        mine, other = before[name], after[name]
        if (mine.place, mine.dtype, mine.strides, mine.names) != (other.place, other.dtype, other.strides, other.names):
            return f"{quoted(name)} has another dtype, shape or place, or other names"
    return None


def _listed(described: list[dict[str, Any]], end: int) -> tuple[dict[str, Any], bytes | None, str]:
    """Returns the members of the metadata that list the tensors. If the list is too long for the metadata, also returns
    the encoded list, which is to be stored in the memory after the tensors; otherwise None. Also returns a digest of the
    list."""
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    import hashlib

    layout = hashlib.sha256(text).hexdigest()
    if len(text) <= _MAXIMUM_LISTED:
        return {"tensors": described}, None, layout
    begin = -(-end // _ALIGNMENT) * _ALIGNMENT
    return {"manifest": {"byteOffset": begin, "byteLength": len(text)}}, text, layout


def _with_tensors(metadata: Any, array: DeviceArray, what: str) -> Any:
    """Returns the metadata including the list of tensors, which is read from the memory if necessary."""
    place = metadata.get("manifest") if isinstance(metadata, dict) else None
    if place is None:
        return metadata
    try:
        begin, length = place["byteOffset"], place["byteLength"]
        if not is_shape([begin, length]) or length > _MAXIMUM_MANIFEST:
            raise ValueError
        return {**metadata, "tensors": json.loads(array.read(length, byte_offset=begin))}
    except (LookupError, TypeError, ValueError, RecursionError):
        raise SharingError(
            "bad-message", f"Cannot use the tensors of {what}: the list of them that its metadata names is none"
        ) from None


def _type_in_torch(place: BundledTensor) -> tuple[tuple[int, ...], Any]:
    return place.shape, getattr(torch(), place.dtype.name, None)


def _tensors_of(metadata: Any, nbytes: int, what: str) -> list[_Tensor]:
    """Decodes the tensors that another process's metadata describes. Raises SharingError if the metadata is invalid."""
    places = tensors_of(metadata, nbytes, what)
    version = metadata.get("version", VERSION) if metadata.get("format") == FORMAT else VERSION
    if version != VERSION:
        raise SharingError("bad-message", f"Cannot use the tensors of {what}: version {version!r} of their metadata")
    found = [_tensor_of(described, place) for described, place in zip(metadata["tensors"], places)]
    tensors = [each for each in found if each is not None]
    names = [name for each in tensors for name in each.names]
    if len(tensors) < len(found) or len(set(names)) < len(names):
        raise SharingError(
            "bad-message", f"Cannot use the tensors of {what}: its metadata describes one in a way that is not possible"
        )
    return tensors


def _tensor_of(described: dict[str, Any], place: BundledTensor) -> _Tensor | None:
    aliases, strides = described.get("aliases", []), described.get("strides")
    kind = described.get("kind", "tensor")
    if not isinstance(aliases, list) or not all(isinstance(each, str) for each in aliases) or not isinstance(kind, str):
        return None
    if strides is not None:
        if not is_shape(strides) or len(strides) != len(place.shape):
            return None
        last = sum((size - 1) * stride for size, stride in zip(place.shape, strides))
        if 0 not in place.shape and last >= math.prod(place.shape):
            return None
    return _Tensor(
        place, SAFETENSORS_NAMES.get(described["dtype"], described["dtype"]), tuple(described["shape"]), kind,
        None if strides is None else tuple(strides), (place.name, *aliases),
    )
