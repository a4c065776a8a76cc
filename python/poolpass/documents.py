"""Documents: JSON objects of any length, in parts that fit messages. Clients of a store speak in them."""
from __future__ import annotations

import json
from typing import Any, Iterator

from . import messages as m
from .errors import escape_controls
from .records import Record

# The rest of a body is the request's number, and the number of bytes that follow.
MAXIMUM_PART = m.MAXIMUM_BODY - 8
QUOTED_LENGTH = 60

JsonObject = dict[str, Any]


def asks_of(request: int, document: JsonObject) -> Iterator[m.Ask]:
    """The messages that ask for something."""
    data = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    for begin in range(0, len(data), MAXIMUM_PART):
        part = data[begin : begin + MAXIMUM_PART]
        yield m.Ask(request, len(data) - begin - len(part), part)


class _Pending(Record):
    """The parts of a document that has not arrived completely."""

    remaining: int
    data: bytearray


class Documents:
    """Puts the documents of one peer together."""

    def __init__(self, maximum: int):
        """`maximum` is the number of bytes of all documents that have arrived in part."""
        self._maximum = maximum
        self._pending: dict[int, _Pending] = {}
        self._length = 0

    def add(self, message: m.Answer) -> JsonObject | None:
        """Adds a part. Returns the document that it completes, if any. Raises ProtocolError."""
        length = len(message.part)
        announced = length + message.remaining
        pending = self._pending.setdefault(message.request, _Pending(announced, bytearray()))
        if pending.remaining != announced:
            raise m.ProtocolError(f"The parts of document {message.request} contradict each other")
        # What is announced counts: a peer need not send it first to be refused.
        if self._length + announced > self._maximum:
            raise m.limit_exceeded(f"{self._maximum} bytes of documents at a time")
        pending.data += message.part
        pending.remaining = message.remaining
        self._length += length
        if pending.remaining > 0:
            return None
        del self._pending[message.request]
        self._length -= len(pending.data)
        return _parse(bytes(pending.data), message.request)


def _parse(data: bytes, request: int) -> JsonObject:
    try:
        value = json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise m.ProtocolError(f"Document {request} is not JSON") from None
    if not isinstance(value, dict):
        raise m.ProtocolError(f"Document {request} is not a JSON object")
    return value


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def text_of(document: JsonObject, name: str) -> str:
    """The member of a document that is a string."""
    value = document.get(name)
    if not isinstance(value, str):
        raise _refusal(name, value, "a string")
    return value


def number_of(document: JsonObject, name: str, least: int = 0) -> int:
    """The member of a document that is a whole number."""
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= m.MAXIMUM_INTEGER:
        raise _refusal(name, value, f"a whole number of at least {least}")
    return value


def object_of(document: JsonObject, name: str) -> JsonObject:
    value = document.get(name)
    if not isinstance(value, dict):
        raise _refusal(name, value, "an object")
    return value


def objects_of(document: JsonObject, name: str) -> list[JsonObject]:
    """The member of a document that is a list of objects. An absent one is empty."""
    value = document.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise _refusal(name, value, "a list of objects")
    return value


def _refusal(name: str, value: object, needed: str) -> m.ProtocolError:
    quoted = escape_controls(repr(value)[:QUOTED_LENGTH])
    return m.ProtocolError(f"The member {name} of a document is {quoted}; it takes {needed}")
