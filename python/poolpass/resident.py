"""Keeps models that transformers loads in a store, so that only the first process loads them. It replaces private
functions of transformers 5 while a `Resident` is entered."""
from __future__ import annotations

import dataclasses
import hashlib
import importlib
import inspect
import json
import re
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Callable, Sequence

from .captured import capture_registered, registered
from .checkpoints import Checkpoint
from .cuda import cuda, driver
from .errors import SharingError, SharingTimeoutError, quoted
from .limits import deadline_of, time_left
from .module_tensors import put_into
from .store import StoreClient, StoreEntry
from .stored_memory import StoredMemory
from .torch_views import torch
from .weights import Weights, check_entry_name, class_of, load, publish_loaded

if TYPE_CHECKING:
    from typing_extensions import Self

# Seconds in which memory that is published must be mapped. A store is asked again then: the name may have been removed.
_MAP_TIMEOUT = 5.0
_FIELDS = {"device_map", "device_mesh", "dtype", "hf_quantizer", "pretrained_model_name_or_path", "weight_mapping"}
_HOOKS = {
    "_load_pretrained_model": ["model", "state_dict", "checkpoint_files", "load_config"],
    "_finalize_model_loading": ["model", "load_config", "loading_info"],
}
_WARMUP = "caching_allocator_warmup"


class Resident:
    """A context manager in which models are loaded from a store. Created by `weights.resident`."""

    def __init__(self, store: StoreClient, *, name: str | None, private: Sequence[str], timeout: float | None):
        if isinstance(private, str):
            raise TypeError(f"Cannot use {private!r} as patterns of names: give a list of them")
        if name is not None:
            check_entry_name(name)
        self.weights: list[Weights] = []
        """The weights of each model that was loaded, in this order."""
        self._store = store
        self._name = name
        self._private = tuple(private)
        self._timeout = timeout
        self._has_seen = False
        self._loading: _Loading | None = None

    def __enter__(self) -> Self:
        _hooks.add()
        _active().append(self)
        self._has_seen = False
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        _active().remove(self)
        _hooks.remove()
        self._give_up()
        if kind is None and not self._has_seen:
            raise RuntimeError(
                "No model is resident: transformers loaded none in this block, or another thread did; call "
                "from_pretrained in the thread that has entered it"
            )

    def load(self, original: Callable[..., Any], call: inspect.BoundArguments) -> Any:
        """Does what `_load_pretrained_model` does."""
        self._give_up()
        self._has_seen = True
        given = call.arguments
        files = given["checkpoint_files"]
        if files is None:
            # The caller has given the tensors.
            return original(*call.args, **call.kwargs)
        model, config = given["model"], given["load_config"]
        device = _device_of(model, config)
        loading = self._loading = _Loading(model, config, device, Checkpoint(files))
        loading.name = self._name or loading.default_name()
        loading.held, loading.claim = self._find(loading)
        held = loading.held
        if held is None:
            loading.begin_digests()
            return original(*call.args, **call.kwargs)
        names = {name for name, kind, _, is_persistent in registered(model) if kind == "parameter" or is_persistent}
        given["state_dict"] = {name: held[name] for name in held if name in names}
        given["checkpoint_files"] = None
        # The tensors are what a model has after loading: they were converted and quantized before.
        given["load_config"] = dataclasses.replace(config, weight_mapping=[], hf_quantizer=None)
        with _without_warmup():
            result = original(*call.args, **call.kwargs)
        # These say how the tensors of files are called and combined, which save_pretrained reverts.
        used = held.metadata["made"]["conversions"]
        conversions = config.weight_mapping or []
        model._weight_conversions = [each for index, each in enumerate(conversions) if index in used]
        for each in model._weight_conversions:
            each._was_used = True
        return result

    def finalize(self, original: Callable[..., Any], call: inspect.BoundArguments) -> Any:
        """Does what `_finalize_model_loading` does."""
        result = original(*call.args, **call.kwargs)
        loading = self._loading
        if loading is None or loading.model is not call.arguments["model"]:
            return result
        model, held = loading.model, loading.held
        if held is None:
            # What the files lack has random values, which are not the same in each process.
            missing = set(result.missing_and_mismatched())
            captured = capture_registered(each for each in registered(model) if each[0] not in missing)
            self._free_cache()
            metadata = {"sources": loading.sources(), "made": loading.made()}
            held = loading.held = publish_loaded(
                self._store, loading.name, captured, metadata, device=loading.device, private=self._private,
                timeout=self._timeout,
            )
            del captured
            held.adopt_copies(model)
        held.replace_parameters(model)
        self.weights.append(held)
        is_first, loading.held = loading.claim is not None, None
        self._give_up()
        if is_first:
            self._free_cache()
        return result

    def _find(self, loading: _Loading) -> tuple[Weights | None, StoredMemory | None]:
        """Returns the weights if they are in the store. Otherwise waits while another process loads them, and returns
        memory that reserves the name until they are published."""
        deadline = deadline_of(self._timeout)
        while True:
            entries = self._store.entries(timeout=time_left(deadline))
            found = next((each for each in entries if self._is_of(each, loading)), None)
            if found is None:
                replaced = next((each.generation for each in entries if each.name == loading.name), 0)
                claim = self._store.create(
                    loading.name, 1, device=loading.device, once=True, replaces=replaced, timeout=time_left(deadline)
                )
                if claim is not None:
                    return None, claim
                continue
            try:
                held = load(self._store, found.name, private=self._private, timeout=_MAP_TIMEOUT)
            except SharingTimeoutError:
                if deadline is not None and time_left(deadline) == 0:
                    raise
                continue
            if held.generation == found.generation and held.metadata.get("sources") == found.metadata["sources"]:
                return held, None
            held.release()

    def _is_of(self, entry: StoreEntry, loading: _Loading) -> bool:
        """Whether an entry has the weights. Raises SharingError if they were made differently."""
        is_named = entry.name == loading.name
        stated = entry.metadata if isinstance(entry.metadata, dict) else {}
        made, own = stated.get("made"), loading.made()
        if not isinstance(made, dict) or not isinstance(made.get("conversions"), list):
            made = {}
        if any(made.get(key) != own[key] for key in _KEY) or entry.device != cuda().uuid_texts[loading.device]:
            if not is_named:
                return False
            why = _difference(made, own) or f"it is on the device {entry.device}"
            raise SharingError("incompatible", f"Cannot use the weights {quoted(entry.name)}: {why}")
        if self._name is not None and not is_named:
            return False
        return loading.checkpoint.is_stated(stated.get("sources"))

    def _give_up(self) -> None:
        """Lets another process load what this one has not published."""
        loading, self._loading = self._loading, None
        if loading is not None:
            loading.end()

    def _free_cache(self) -> None:
        if driver() == "cuda":
            torch().cuda.empty_cache()


# The members of "made" that must be equal for weights to be the same.
_KEY = ("class", "dtype", "quantization", "layout", "transformers")


def _difference(made: dict[str, Any], own: dict[str, Any]) -> str | None:
    for key in _KEY:
        if made.get(key) != own[key]:
            return f"they were made with {key} {made.get(key)!r}, and this process has {own[key]!r}"
    return None


class _Loading:
    """A model that is being loaded."""

    def __init__(self, model: Any, config: Any, device: int, checkpoint: Checkpoint):
        self.model = model
        self.config = config
        self.device = device
        self.checkpoint = checkpoint
        self.name = ""
        self.held: Weights | None = None
        self.claim: StoredMemory | None = None
        self._digests: Future[Any] | None = None
        self._made = _made(model, config)

    def default_name(self) -> str:
        key = hashlib.sha256(json.dumps(
            [self.checkpoint.paths, [self._made[each] for each in _KEY], cuda().uuid_texts[self.device]]
        ).encode()).hexdigest()
        last = re.split("[/\\\\]", str(self.config.pretrained_model_name_or_path).rstrip("/"))[-1]
        return f"{re.sub('[^A-Za-z0-9._-]', '-', last)[:64]}-{key[:16]}"

    def begin_digests(self) -> None:
        """Computes the digests of the files while they are loaded."""
        pool = ThreadPoolExecutor(1, "poolpass-checkpoint")
        self._digests = pool.submit(self.checkpoint.digests)
        pool.shutdown(wait=False)

    def sources(self) -> list[dict[str, Any]]:
        if self._digests is not None:
            self._digests.result()
        stated = self.checkpoint.stated()
        self.checkpoint.check_unchanged()
        return stated

    def made(self) -> dict[str, Any]:
        used = getattr(self.model, "_weight_conversions", None) or []
        return {
            **self._made,
            "conversions": [
                index for index, each in enumerate(self.config.weight_mapping or [])
                if any(each is other for other in used)
            ],
        }

    def end(self) -> None:
        if self.held is not None:
            self.held.release()
        if self.claim is not None:
            self.claim.close()


def _made(model: Any, config: Any) -> dict[str, Any]:
    quantizer = config.hf_quantizer
    layout = sorted(
        f"{name} {tensor.dtype} {list(tensor.shape)}" for name, _, tensor, _ in registered(model)
    )
    return {
        "class": class_of(model),
        "dtype": str(config.dtype).removeprefix("torch."),
        "quantization": None if quantizer is None else _digest(repr(quantizer.quantization_config)),
        # The parameters and buffers before loading, which depend on the model's configuration.
        "layout": _digest("\n".join(layout)),
        "transformers": importlib.import_module("transformers").__version__,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _device_of(model: Any, config: Any) -> int:
    """Returns the ordinal of the device that all of a model is loaded to. Raises ValueError if there is none."""
    library = torch()
    what = f"Cannot keep {type(model).__name__} in a store"
    if config.device_mesh is not None:
        raise ValueError(f"{what}: it is split between processes; load it with weights.publish and weights.load")
    places = {_torch_device(each) for each in (config.device_map or {"": "cpu"}).values()}
    kind = "cuda" if driver() == "cuda" else "cpu"
    if len(places) > 1 or any(each is None or each.type != kind for each in places):
        named = ", ".join(sorted({str(each or "disk") for each in places}))
        raise ValueError(
            f'{what}: it would be loaded to {named}; give from_pretrained a device_map such as "cuda:0", for all of it'
        )
    (place,) = places
    if kind == "cpu":
        return 0
    return int(library.cuda.current_device() if place.index is None else place.index)


def _torch_device(place: Any) -> Any:
    if place == "disk":
        return None
    return torch().device("cuda", place) if isinstance(place, int) else torch().device(place)


# What each thread has entered.
_of_thread = threading.local()


def _active() -> list[Resident]:
    active: list[Resident] = vars(_of_thread).setdefault("active", [])
    return active


class _without_warmup:
    """Lets transformers allocate no memory in advance, in this thread."""

    def __enter__(self) -> None:
        _of_thread.has_no_warmup = True

    def __exit__(self, *_: object) -> None:
        _of_thread.has_no_warmup = False


@dataclass
class _Replaced:
    owner: Any
    name: str
    # As it is stored in the owner.
    old: Any
    new: Any


class _Hooks:
    """Replaces functions of transformers while any thread has entered a `Resident`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._replaced: list[_Replaced] = []

    def add(self) -> None:
        with self._lock:
            if self._users == 0:
                self._replace()
            self._users += 1

    def remove(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            for each in self._replaced:
                # Another library may have replaced it since.
                if vars(each.owner).get(each.name) is each.new:
                    setattr(each.owner, each.name, each.old)
            self._replaced.clear()

    def _replace(self) -> None:
        module = importlib.import_module("transformers.modeling_utils")
        owner: Any = getattr(module, "PreTrainedModel", None)
        config: Any = getattr(module, "LoadStateDictConfig", None)
        is_known = callable(getattr(module, _WARMUP, None)) and dataclasses.is_dataclass(config)
        is_known = is_known and _FIELDS <= {each.name for each in dataclasses.fields(config)}
        for name, parameters in _HOOKS.items():
            old = vars(owner).get(name) if owner is not None else None
            if not is_known or not isinstance(old, staticmethod):
                is_known = False
                break
            signature = inspect.signature(old.__func__)
            is_known = list(signature.parameters)[: len(parameters)] == parameters
            method = Resident.finalize if name == "_finalize_model_loading" else Resident.load
            new = staticmethod(_dispatching(old.__func__, signature, method))
            self._replaced.append(_Replaced(owner, name, old, new))
        if not is_known:
            self._replaced.clear()
            version = importlib.import_module("transformers").__version__
            raise RuntimeError(
                f"Cannot load models of transformers {version} from a store by resident, which knows the internals of "
                "version 5.18; call weights.load(store, NAME), and pass the result to "
                "from_pretrained(None, config=CONFIG, state_dict=...)"
            )
        old = vars(module)[_WARMUP]

        def warm_up(*positional: Any, **named: Any) -> Any:
            return None if getattr(_of_thread, "has_no_warmup", False) else old(*positional, **named)

        self._replaced.append(_Replaced(module, _WARMUP, old, warm_up))
        for each in self._replaced:
            setattr(each.owner, each.name, each.new)


def _dispatching(old: Any, signature: inspect.Signature, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*positional: Any, **named: Any) -> Any:
        active = _active()
        if not active:
            return old(*positional, **named)
        return method(active[-1], old, signature.bind(*positional, **named))

    return call


_hooks = _Hooks()
