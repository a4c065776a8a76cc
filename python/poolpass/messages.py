"""The messages of the sharing protocol and their encoding, as src/sharing/protocol/PROTOCOL.md specifies them.

Every message is an object with the names that PROTOCOL.md uses. `encode` returns header and body; `decode_header` and
`decode` raise ProtocolError for bytes that break a rule which the message alone shows.
"""
from __future__ import annotations

import json
import re
import struct
from typing import Any, Callable, Literal, cast

from .errors import SharingError, SharingErrorCode
from .records import Record, Value

# The highest version and the lowest one that are known.
PROTOCOL_VERSION = 3
LOWEST_VERSION = 1
# The version from which on virtual memory is offered.
MEMORY_VERSION = 2
# The version from which on an importer may request the descriptor of a pool again.
REQUEST_HANDLE_VERSION = 3
HEADER = struct.Struct("<IHH")
MAXIMUM_BODY = 65_536
MAXIMUM_NAME = 255
MAXIMUM_METADATA = 32_768
MAXIMUM_TEXT = 1024
MAXIMUM_SLOTS = 1024
# Every number, sum and product: the integers that JavaScript represents exactly.
MAXIMUM_INTEGER = 2**53 - 1
# What an exporter may announce at a time.
MAXIMUM_POOLS = 256
MAXIMUM_IDENTIFIERS = 65_536
# The events that an importer may announce.
MAXIMUM_IMPORTER_EVENTS = 1024
GREETING = b"poolpass"
# The number of characters that an error quotes of an invalid name.
QUOTED_LENGTH = 40

Role = Literal["importer", "operator", "store-client", "standby"]
# "memory" is a piece of virtual memory.
PoolKind = Literal["device", "host", "memory"]
OfferKind = Literal["buffer", "pool", "channel"]
ForgetKind = Literal["pool", "allocation", "event"]
GoodbyeReason = Literal[
    "done", "version-mismatch", "not-permitted", "bad-message", "timed-out", "cut-off", "limit-exceeded",
    "device-lost", "out-of-resources", "not-released", "internal-error",
]
GOODBYE_REASONS: tuple[GoodbyeReason, ...] = (
    "done", "version-mismatch", "not-permitted", "bad-message", "timed-out", "cut-off", "limit-exceeded",
    "device-lost", "out-of-resources", "not-released", "internal-error",
)


class ProtocolError(SharingError):
    """The peer broke a rule of the protocol, or exceeded a limit."""

    def __init__(self, message: str, code: SharingErrorCode = "bad-message"):
        super().__init__(code, message)


def limit_exceeded(limit: str) -> ProtocolError:
    return ProtocolError(f"The limit is {limit}", "limit-exceeded")


def versions_text(lowest: int, highest: int) -> str:
    return f"version {lowest}" if lowest == highest else f"versions {lowest} to {highest}"


def is_known_version(version: int) -> bool:
    return LOWEST_VERSION <= version <= PROTOCOL_VERSION


def code_of_goodbye(reason: GoodbyeReason) -> SharingErrorCode:
    """The error code for the reason of a peer's GOODBYE. Some reasons concern the peer alone: it is gone."""
    if reason in ("done", "out-of-resources", "not-released"):
        return "peer-gone"
    return cast(SharingErrorCode, reason)


def reason_of_error(error: BaseException) -> GoodbyeReason:
    """The reason of the GOODBYE that reports an error to the peer."""
    if not isinstance(error, SharingError):
        return "internal-error"
    if error.code == "out-of-descriptors":
        return "out-of-resources"
    if error.code == "device-not-visible":
        # The peer used a device that the two processes do not share.
        return "bad-message"
    return error.code if error.code in GOODBYE_REASONS else "internal-error"


class Message(Record):
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)


class Hello(Message):
    lowest_version: int
    highest_version: int
    role: Role = "importer"


class Welcome(Message):
    version: int


class Goodbye(Message):
    reason: GoodbyeReason
    lowest_version: int
    highest_version: int
    text: str


class Wait(Message):
    event: int


class Fired(Message):
    event: int


class Ask(Message):
    request: int
    remaining: int
    part: bytes


class Answer(Message):
    request: int
    remaining: int
    part: bytes


class Memory(Message):
    request: int


class Pool(Message):
    pool: int
    kind: PoolKind
    device_uuid: bytes


class PoolHandle(Message):
    """Answers RequestHandle. The next one repeats the token."""

    pool: int
    token: int


class RequestHandle(Message):
    pool: int
    # That of the last PoolHandle, or 0.
    token: int


class Allocation(Message):
    allocation: int
    pool: int
    byte_length: int
    export_data: bytes


class Event(Message):
    event: int
    device_uuid: bytes
    handle: bytes


class Offer(Message):
    offer: int
    kind: OfferKind
    allocation: int
    pool: int
    byte_offset: int
    byte_length: int
    ready_event: int
    name: str
    metadata: str


class Channel(Message):
    offer: int
    slot_byte_length: int
    slot_stride: int
    window: int
    ready_events: list[int]


class Withdraw(Message):
    offer: int


class Recall(Message):
    offer: int


class Forget(Message):
    kind: ForgetKind
    identifier: int


class EventFree(Message):
    event: int


class Frame(Message):
    offer: int
    slot: int
    sequence: int
    byte_length: int
    has_event: bool
    metadata: str


class End(Message):
    offer: int


class Held(Message):
    offer: int


class Released(Message):
    offer: int
    event: int


class Withdrawn(Message):
    offer: int


class Join(Message):
    offer: int


class ReleaseSlot(Message):
    offer: int
    slot: int
    sequence: int
    event: int


class _Field(Value):
    """A field of fixed length, and its permitted values."""

    name: str
    format: str
    least: int = 0
    most: int = 0
    # The names of the values from `least` on.
    names: tuple[str, ...] = ()
    constant: int | bytes | None = None

    def to_value(self, raw: Any) -> Any:
        if self.constant is not None:
            if raw != self.constant:
                raise ProtocolError(f"{self.name} is {raw!r}")
            return raw
        if isinstance(raw, bytes):
            return raw
        if not self.least <= raw <= self.most:
            raise ProtocolError(f"{self.name} is {raw} and must be {self.least} to {self.most}")
        return self.names[raw - self.least] if self.names else raw

    def to_raw(self, value: Any) -> Any:
        if isinstance(value, bytes) and len(value) != struct.calcsize(self.format):
            raise ProtocolError(f"{self.name} has {len(value)} bytes and must have {struct.calcsize(self.format)}")
        if not self.names:
            raw = value
        elif value in self.names:
            raw = self.names.index(value) + self.least
        else:
            raise ProtocolError(f"{self.name} is {value!r} and must be one of {', '.join(self.names)}")
        self.to_value(raw)
        return raw


def _u16(name: str, least: int = 0, most: int = 0xFFFF) -> _Field:
    return _Field(name, "H", least, most)


def _u32(name: str, least: int = 0, most: int = 0xFFFF_FFFF) -> _Field:
    return _Field(name, "I", least, most)


def _u64(name: str, least: int = 0) -> _Field:
    return _Field(name, "Q", least, MAXIMUM_INTEGER)


def _identifier(name: str) -> _Field:
    return _u32(name, 1)


def _one_of(name: str, *names: str, least: int = 1) -> _Field:
    return _Field(name, "I", least, least + len(names) - 1, names)


def _octets(name: str, length: int) -> _Field:
    return _Field(name, f"{length}s")


def _zero(format: str) -> _Field:
    return _Field("a zero field", format, constant=0)


_GREETING = _Field("the greeting", "8s", constant=GREETING)


def message_name(make: Callable[..., Message]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", getattr(make, "__name__", "")).upper()


class Layout:
    """The layout of a type of message: fixed fields, then strings or bytes, whose lengths are among the fields."""

    def __init__(
        self,
        number: int,
        make: Callable[..., Message],
        *fields: _Field,
        strings: tuple[str, ...] = (),
        octets: str | None = None,
        descriptors: int = 0,
    ):
        self.number = number
        self.make = make
        # As PROTOCOL.md writes it: RELEASE_SLOT.
        self.name = message_name(make)
        self.fields = fields
        self.strings = strings
        # The name of the bytes, at least one, that follow the fields up to the end of the body.
        self.octets = octets
        self.descriptors = descriptors
        self.struct = struct.Struct("<" + "".join(each.format for each in fields))
        self.shortest = self.struct.size + (1 if octets else 0)
        names = {each.name for each in fields}
        # A string without a length field extends to the end of the body.
        self.has_open_end = octets is not None or any(f"{name}_length" not in names for name in strings)
        self.has_fixed_length = not strings and octets is None and make is not Channel


_OFFER = _identifier("offer")
_SLOT = _u32("slot", 0, MAXIMUM_SLOTS - 1)
_METADATA_LENGTH = 0, MAXIMUM_METADATA
LAYOUTS: tuple[Layout, ...] = (
    Layout(
        1, Hello, _GREETING, _u16("lowest_version"), _u16("highest_version"),
        _one_of("role", "importer", "operator", "store-client", "standby", least=0),
    ),
    Layout(2, Welcome, _GREETING, _u16("version"), _zero("H"), _zero("I")),
    Layout(3, Goodbye, _u16("reason"), _u16("lowest_version"), _u16("highest_version"), _zero("H"), strings=("text",)),
    Layout(4, Wait, _identifier("event")),
    Layout(5, Fired, _identifier("event")),
    Layout(6, Ask, _identifier("request"), _u32("remaining"), octets="part"),
    Layout(7, Answer, _identifier("request"), _u32("remaining"), octets="part"),
    Layout(8, Memory, _identifier("request"), descriptors=1),
    Layout(
        16, Pool, _identifier("pool"), _one_of("kind", "device", "host", "memory"), _octets("device_uuid", 16),
        descriptors=1,
    ),
    Layout(
        17, Allocation, _identifier("allocation"), _identifier("pool"), _u64("byte_length", 1),
        _octets("export_data", 64),
    ),
    Layout(18, Event, _identifier("event"), _zero("I"), _octets("device_uuid", 16), _octets("handle", 64)),
    Layout(
        19, Offer, _OFFER, _one_of("kind", "buffer", "pool", "channel"), _u32("allocation"), _identifier("pool"),
        _u64("byte_offset"), _u64("byte_length"), _u32("ready_event"), _u16("name_length", 1, MAXIMUM_NAME),
        _u16("metadata_length", *_METADATA_LENGTH), strings=("name", "metadata"),
    ),
    Layout(
        20, Channel, _OFFER, _u32("slots", 1, MAXIMUM_SLOTS), _u64("slot_byte_length", 1), _u64("slot_stride", 1),
        _u32("window", 1, MAXIMUM_SLOTS), _zero("I"),
    ),
    Layout(21, Withdraw, _OFFER),
    Layout(22, Recall, _OFFER),
    Layout(23, Forget, _one_of("kind", "pool", "allocation", "event"), _identifier("identifier")),
    Layout(24, EventFree, _identifier("event")),
    Layout(
        25, Frame, _OFFER, _SLOT, _u64("sequence", 1), _u64("byte_length"), _u32("has_event", 0, 1),
        _u32("metadata_length", *_METADATA_LENGTH), strings=("metadata",),
    ),
    Layout(26, End, _OFFER),
    Layout(27, PoolHandle, _identifier("pool"), _identifier("token"), descriptors=1),
    Layout(32, Held, _OFFER),
    Layout(33, Released, _OFFER, _u32("event")),
    Layout(34, Withdrawn, _OFFER),
    Layout(35, Join, _OFFER),
    Layout(37, ReleaseSlot, _OFFER, _SLOT, _u64("sequence", 1), _u32("event")),
    Layout(38, RequestHandle, _identifier("pool"), _u32("token")),
)
_BY_NUMBER = {each.number: each for each in LAYOUTS}
_BY_TYPE = {each.make: each for each in LAYOUTS}


def layout_of(message: Message) -> Layout:
    return _BY_TYPE[type(message)]


def encode(message: Message) -> bytes:
    """Returns header and body. Raises ProtocolError if the message breaks a rule.

    The descriptor of a message that has one is not part of the bytes: it is sent with the first of them.
    """
    layout = layout_of(message)
    values: dict[str, Any] = dict(vars(message))
    tail = b""
    if isinstance(message, Goodbye):
        values["reason"] = GOODBYE_REASONS.index(message.reason)
    if isinstance(message, Channel):
        values["slots"] = len(message.ready_events)
        tail = struct.pack(f"<{len(message.ready_events)}I", *message.ready_events)
    if layout.octets is not None:
        tail = values[layout.octets]
    for name in layout.strings:
        text = _encode_string(name, values[name])
        values[f"{name}_length"] = len(text)
        tail += text
    fields = (
        each.constant if each.constant is not None else each.to_raw(values[each.name]) for each in layout.fields
    )
    body = layout.struct.pack(*fields) + tail
    if not layout.shortest <= len(body) <= MAXIMUM_BODY:
        raise ProtocolError(f"{layout.name} has a body of {len(body)} bytes")
    _check(message)
    return HEADER.pack(len(body), layout.number, layout.descriptors) + body


def decode_header(header: bytes | bytearray) -> tuple[Layout, int]:
    """Returns the type's layout and the length of the body, checked before memory is allocated for the body."""
    length, number, descriptors = HEADER.unpack_from(header)
    layout = _BY_NUMBER.get(number)
    if layout is None:
        raise ProtocolError(f"There is no message of type {number}")
    if descriptors != layout.descriptors:
        raise ProtocolError(f"{layout.name} states {descriptors} descriptors")
    if not layout.shortest <= length <= MAXIMUM_BODY or layout.has_fixed_length and length != layout.struct.size:
        raise ProtocolError(f"{layout.name} has a body of {length} bytes")
    return layout, length


def decode(layout: Layout, body: bytes) -> Message:
    """Decodes a body of the length that `decode_header` returned."""
    values: dict[str, Any] = {}
    for each, raw in zip(layout.fields, layout.struct.unpack_from(body)):
        value = each.to_value(raw)
        if each.constant is None:
            values[each.name] = value
    rest = body[layout.struct.size :]
    if layout.make is Channel:
        slots = values.pop("slots")
        if len(rest) != 4 * slots:
            raise ProtocolError(f"A channel of {slots} slots has {len(rest)} bytes of events")
        values["ready_events"] = list(struct.unpack(f"<{slots}I", rest))
    if layout.octets is not None:
        values[layout.octets] = rest
    for name in layout.strings:
        length = values.pop(f"{name}_length", len(rest))
        values[name] = _decode_string(rest[:length], length)
        rest = rest[length:]
    if layout.strings and rest:
        raise ProtocolError(f"{len(rest)} bytes follow the end of {layout.name}")
    if layout.make is Goodbye:
        reason = values["reason"]
        values["reason"] = GOODBYE_REASONS[reason] if reason < len(GOODBYE_REASONS) else "bad-message"
    if layout.make is Frame:
        values["has_event"] = values["has_event"] == 1
    message = layout.make(**values)
    _check(message)
    return message


def _encode_string(name: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ProtocolError(f"The {name} has a lone surrogate") from None
    if b"\0" in data:
        raise ProtocolError(f"The {name} contains a NUL")
    return data


def _decode_string(data: bytes, length: int) -> str:
    if len(data) != length:
        raise ProtocolError(f"A string of {length} bytes is cut off after {len(data)}")
    if b"\0" in data:
        raise ProtocolError("A string contains a NUL")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtocolError("A string is not UTF-8") from None


def _check(message: Message) -> None:
    """Checks the rules that concern more than one field."""
    if isinstance(message, (Hello, Goodbye)) and message.lowest_version > message.highest_version:
        raise ProtocolError(f"Versions {message.lowest_version} to {message.highest_version} are not a range")
    if isinstance(message, Goodbye) and len(message.text.encode()) > MAXIMUM_TEXT:
        raise ProtocolError(f"The text of GOODBYE has more than {MAXIMUM_TEXT} bytes")
    if isinstance(message, Pool) and message.kind == "host" and any(message.device_uuid):
        raise ProtocolError("A host pool names a device")
    if isinstance(message, Offer):
        _check_range(message)
    if isinstance(message, Channel):
        slots = len(message.ready_events)
        if message.slot_stride < message.slot_byte_length or message.window > slots:
            raise ProtocolError("A channel's slots overlap, or its window is larger than the ring")
        if slots * message.slot_stride > MAXIMUM_INTEGER:
            raise ProtocolError("A channel's slots have more than 2^53 - 1 bytes")
        if 0 in message.ready_events:
            raise ProtocolError("A slot has no ready event")
    if isinstance(message, (Offer, Frame)) and message.metadata:
        decode_metadata(message.metadata)


def _check_range(message: Offer) -> None:
    if message.kind == "pool":
        if message.allocation or message.byte_offset or message.byte_length:
            raise ProtocolError("The offer of a whole pool names a range")
    elif message.allocation == 0 or message.byte_length == 0:
        raise ProtocolError("An offer names no memory")
    if message.byte_offset + message.byte_length > MAXIMUM_INTEGER:
        raise ProtocolError("An offer ends behind 2^53 - 1 bytes")


def check_name(name: object, what: str) -> None:
    """Raises TypeError or ValueError if a message cannot carry a name."""
    if not isinstance(name, str):
        raise TypeError(f"Cannot use {name!r} as {what}: it must be a string")
    length = len(name.encode(errors="replace"))
    is_well_formed = re.search("[\ud800-\udfff]", name) is None
    if not 1 <= length <= MAXIMUM_NAME or "\0" in name or not is_well_formed:
        raise ValueError(
            f"Cannot use {name[:QUOTED_LENGTH]!r} as {what}: it has {length} bytes of UTF-8; a name has 1 to "
            f"{MAXIMUM_NAME} bytes, no NUL and no lone surrogate"
        )


def decode_metadata(text: str) -> Any:
    """Returns the value of metadata; None if it is empty. Raises ProtocolError if it is not JSON."""
    if text == "":
        return None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ProtocolError("The metadata is not JSON") from None


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def encode_metadata(value: Any, maximum: int = MAXIMUM_METADATA) -> str:
    """Returns a value as JSON, and None as the empty string, which means that there is no metadata.

    Raises TypeError for what JSON cannot represent, and ValueError for more than `maximum` bytes.
    """
    if value is None:
        return ""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        length = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"Cannot send metadata that JSON cannot represent: {error}") from None
    if length > maximum:
        raise ValueError(f"Cannot send metadata of {length} bytes: the limit is {maximum}; use a buffer")
    return text
