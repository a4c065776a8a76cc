"""Moves entries of a store between their device and files, or host memory, which the store keeps. The store maps
neither: a client moves the bytes."""
from __future__ import annotations

from typing import Literal

from .cuda import cuda, parse_uuid
from .descriptors import discard
from .documents import JsonObject, number_of, text_of
from .errors import SharingError, quoted
from .staged_copies import copy_file
from .store_link import Hold, StoreLink, device_of
from .weights_files import check_weights, read_weights, write_weights
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
    link: StoreLink,
    name: str,
    which: JsonObject,
    to: Literal["device", "host", "file"],
    deadline: float | None,
    folder: str = "",
) -> None:
    """Moves an entry, unless it is at that place already. If this fails, the entry stays where it was. A file is
    written into `folder`."""
    asking = link.ask_for_room if to == "device" else link.ask
    request = asking({"do": "move", **which, "place": to}, deadline, may_bring=True)
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
        if on_device is None or (on_host is None and to != "file" and place in ("device", "host")):
            raise SharingError("bad-message", f"Cannot move {quoted(name)}: the store has sent no descriptor")
        metadata = document.get("metadata")
        done: JsonObject = {} if to == "file" else {"memory": number_of(document, "memory", 1)}
        memory = WholeMemory(on_device, size, device, "read-write" if to == "device" else "read")
        try:
            if to == "file":
                done["file"] = write_weights(folder, name, metadata, memory, nbytes)
            elif on_host is None:
                read_weights(place, name, metadata, memory, nbytes)
            else:
                copy_file(on_host, memory.address, nbytes, device, to_device=to == "device")
            if to == "device":
                check_weights(name, metadata, memory, nbytes)
        finally:
            memory.unmap()
        link.ask({"do": "moved", "id": id, **done}, None)
    except BaseException:
        link.abandon_move(id)
        raise
    finally:
        for descriptor in (target, source):
            if descriptor is not None:
                discard(descriptor)
        if request.hold is not None:
            link.forget(request.hold)
