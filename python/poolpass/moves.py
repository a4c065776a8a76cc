"""Moves entries of a store between their device and host memory, which the store keeps. The store maps neither: a
client moves the bytes."""
from __future__ import annotations

from typing import Any, Literal

from .cuda import cuda, parse_uuid
from .descriptors import discard
from .documents import JsonObject, number_of, text_of
from .errors import SharingError, quoted
from .safetensors_files import SafetensorsFiles
from .staged_copies import copy_file
from .store_link import Hold, StoreLink
from .tensor_bundle import SAFETENSORS_NAMES
from .whole_memory import WholeMemory


def bring_back(link: StoreLink, name: str, hold: Hold, deadline: float | None) -> int:
    """Returns a descriptor of memory that sleeps, which the caller then owns. Moves the memory to its device first if
    it is not there, or waits while another process does."""
    while True:
        descriptor = link.wake(hold, deadline)
        if descriptor is not None:
            return descriptor
        move(link, name, {"id": hold.id}, "device", deadline)


def move(
    link: StoreLink, name: str, which: JsonObject, to: Literal["device", "host"], deadline: float | None
) -> None:
    """Moves an entry, unless it is at that place already. If this fails, the entry stays where it was."""
    request = link.ask({"do": "move", **which, "place": to}, deadline, may_bring=True)
    document, target = request.answer, request.descriptor
    assert document is not None
    if document.get("done") is True:
        return
    id, source = number_of(document, "id", 1), None
    try:
        place = text_of(document, "place")
        nbytes = number_of(document, "byteLength", 1)
        size = number_of(document, "size", nbytes)
        device = device_of(text_of(document, "device"), name)
        if place in ("device", "host"):
            source = link.ask({"do": "source", "id": id}, deadline, may_bring=True).descriptor
        on_device, on_host = (target, source) if to == "device" else (source, target)
        if on_device is None or (on_host is None and place in ("device", "host")):
            raise SharingError("bad-message", f"Cannot move {quoted(name)}: the store has sent no descriptor")
        memory = WholeMemory(on_device, size, device, "read-write" if to == "device" else "read")
        try:
            if on_host is None:
                _read_file(name, place, document.get("metadata"), memory, nbytes)
            else:
                copy_file(on_host, memory.address, nbytes, device, to_device=to == "device")
        finally:
            memory.unmap()
        link.ask({"do": "moved", "id": id, "memory": number_of(document, "memory", 1)}, None)
    except BaseException:
        link.abandon_move(id)
        raise
    finally:
        for descriptor in (target, source):
            if descriptor is not None:
                discard(descriptor)
        if request.hold is not None:
            link.forget(request.hold)


def device_of(text: str, name: str) -> int:
    """Returns the ordinal of the device that an entry is on, given its UUID."""
    try:
        return cuda().device_of_uuid(parse_uuid(text))
    except ValueError as error:
        raise SharingError("device-not-visible", f"Cannot map {quoted(name)}: {error}") from None


def _read_file(name: str, path: str, metadata: Any, memory: WholeMemory, nbytes: int) -> None:
    """Fills memory from a safetensors file that has the tensors which the metadata lists."""
    tensors = metadata.get("tensors") if isinstance(metadata, dict) else None
    places: dict[tuple[str, str, tuple[int, ...]], int] = {}
    try:
        for each in tensors or ():
            dtype = SAFETENSORS_NAMES.get(each["dtype"], each["dtype"])
            places[each["name"], dtype, tuple(each["shape"])] = each["byteOffset"]
        with SafetensorsFiles(path) as files:
            offsets = [places[each.name, each.dtype, tuple(each.shape)] for each in files.tensors]
            is_right = len(offsets) == len(places) > 0 and all(
                0 <= offset <= nbytes - each.nbytes for offset, each in zip(offsets, files.tensors)
            )
            if is_right:
                files.load(offsets, memory.address, memory.device)
    except (LookupError, TypeError, AttributeError):
        is_right = False
    if not is_right:
        raise SharingError(
            "incompatible", f"Cannot bring {quoted(name)} back from {path}: the file does not have its tensors, and no "
            "others"
        )
