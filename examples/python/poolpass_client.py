#!/usr/bin/env python3
"""A Python client of poolpass's sharing protocol, written from src/sharing/protocol/PROTOCOL.md alone.

    poolpass_client.py list PATH [--follow]                       lists an exporter's offers; needs no CUDA
    poolpass_client.py import PATH [NAME] [--verify PATTERN] [--hold]
                                                                  maps a buffer, reads it, releases it
    poolpass_client.py consume PATH NAME [--verify PATTERN]       reads the frames of a channel until it ends
    poolpass_client.py export PATH [--bytes 1MiB] [--name NAME] [--pattern PATTERN] [--metadata JSON]
                              [--parts N] [--importers N]         offers a buffer and N parts of it
    poolpass_client.py golden FILE...                             checks the codec against golden messages

PATTERN describes the bytes. A number S means that byte i is (S + i) mod 251. 0xWWWWWWWW means that each 32-bit word has
this value. "sequence", for `consume` only, means S = the frame's number. The exporter ends on Ctrl-C or once N
importers have disconnected, and frees its memory once no importer uses it.

Needs Python 3.9 on Linux. All commands but `list` and `golden` also need NVIDIA's cuda-bindings. As a library, use the
classes Importer and Exporter.
"""
from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import re
import select
import selectors
import signal
import socket
import stat
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Callable, Iterator

VERSION = 1
HEADER = struct.Struct("<IHH")
MAXIMUM_BODY = 65_536
MAXIMUM_NAME = 255
MAXIMUM_METADATA = 32_768
MAXIMUM_TEXT = 1024
MAXIMUM_SLOTS = 1024
# Limits on what an exporter may announce at a time.
MAXIMUM_POOLS = 256
MAXIMUM_IDENTIFIERS = 65_536
MAXIMUM_ALL_METADATA = 64 * 2**20
GREETING = b"poolpass"
POOL_KINDS = ("device", "host")
OFFER_KINDS = ("buffer", "pool", "channel")
FORGET_KINDS = ("pool", "allocation", "event")
GOODBYE_REASONS = (
    "done", "version-mismatch", "not-permitted", "bad-message", "timed-out", "cut-off", "limit-exceeded", "device-lost",
    "out-of-resources", "not-released", "internal-error",
)
# Time limit in seconds for a message once its first byte has arrived, and for the handshake after connecting.
MESSAGE_TIMEOUT = 5.0
# Seconds between two polls of pending events.
EVENT_INTERVAL = 0.0005
# From sys/socket.h; Python has no name for it yet.
SO_PEERPIDFD = 77


class ClientError(Exception):
    """An error to report to the user."""


class ProtocolError(ClientError):
    """The peer broke a rule of the protocol. `reason` is the reason of the GOODBYE that reports it."""

    reason = "bad-message"


class LimitError(ProtocolError):
    """The peer exceeded a limit."""

    reason = "limit-exceeded"


class ConnectionEnded(ClientError):
    """The connection has ended. `reason` is the reason of the peer's GOODBYE, or None without a GOODBYE."""

    def __init__(self, message: str, reason: str | None = None):
        super().__init__(message)
        self.reason = reason


class Message(SimpleNamespace):
    """A message: its `type`, and its fields, named as in PROTOCOL.md and the golden messages."""

    type: str


@dataclass(frozen=True)
class Field:
    """A field of fixed length in a message body, and its permitted values."""

    name: str
    format: str
    least: int = 0
    most: int = 0
    names: tuple[str, ...] = ()
    constant: Any = None

    def to_value(self, raw: Any) -> Any:
        if isinstance(raw, bytes):
            return raw
        if not self.least <= raw <= self.most:
            raise ProtocolError(f"{self.name} is {raw} and must be {self.least} to {self.most}")
        return self.names[raw - 1] if self.names else raw

    def to_raw(self, values: dict[str, Any]) -> Any:
        if self.constant is not None:
            return self.constant
        value = values[self.name]
        if isinstance(value, bytes) and len(value) != struct.calcsize(self.format):
            raise ProtocolError(f"{self.name} has {len(value)} bytes")
        raw = self.names.index(value) + 1 if self.names else value
        self.to_value(raw)
        return raw


def u16(name: str, least: int = 0, most: int = 0xFFFF) -> Field:
    return Field(name, "H", least, most)


def u32(name: str, least: int = 0, most: int = 0xFFFF_FFFF) -> Field:
    return Field(name, "I", least, most)


def u64(name: str, least: int = 0) -> Field:
    return Field(name, "Q", least, 2**64 - 1)


def identifier(name: str) -> Field:
    return u32(name, 1)


def one_of(name: str, names: tuple[str, ...]) -> Field:
    return Field(name, "I", 1, len(names), names)


def octets(name: str, length: int) -> Field:
    return Field(name, f"{length}s")


def zero(format: str) -> Field:
    return Field("a zero field", format, constant=0)


def greeting() -> Field:
    return Field("the greeting", "8s", constant=GREETING)


class Layout:
    """The layout of a message type: fixed fields, then strings. The fixed fields include the lengths of the strings."""

    def __init__(self, number: int, *fields: Field, strings: tuple[str, ...] = (), descriptors: int = 0):
        self.number = number
        self.fields = fields
        self.strings = strings
        self.descriptors = descriptors
        self.struct = struct.Struct("<" + "".join(each.format for each in fields))
        # A string without a length field extends to the end of the body.
        names = {each.name for each in fields}
        self.has_open_end = any(f"{name}_length" not in names for name in strings)


NOTICE = (identifier("offer"),)
LAYOUTS = {
    "hello": Layout(1, greeting(), u16("lowest_version"), u16("highest_version"), zero("I")),
    "welcome": Layout(2, greeting(), u16("version"), zero("H"), zero("I")),
    "goodbye": Layout(3, u16("reason"), u16("lowest_version"), u16("highest_version"), zero("H"), strings=("text",)),
    "wait": Layout(4, identifier("event")),
    "fired": Layout(5, identifier("event")),
    "pool": Layout(16, identifier("pool"), one_of("kind", POOL_KINDS), octets("device_uuid", 16), descriptors=1),
    "allocation": Layout(
        17, identifier("allocation"), identifier("pool"), u64("byte_length", 1), octets("export_data", 64)
    ),
    "event": Layout(18, identifier("event"), zero("I"), octets("device_uuid", 16), octets("handle", 64)),
    "offer": Layout(
        19, identifier("offer"), one_of("kind", OFFER_KINDS), u32("allocation"), identifier("pool"),
        u64("byte_offset"), u64("byte_length"), u32("ready_event"),
        u16("name_length", 1, MAXIMUM_NAME), u16("metadata_length", 0, MAXIMUM_METADATA), strings=("name", "metadata"),
    ),
    "channel": Layout(
        20, identifier("offer"), u32("slots", 1, MAXIMUM_SLOTS), u64("slot_byte_length", 1), u64("slot_stride", 1),
        u32("window", 1, MAXIMUM_SLOTS), zero("I"),
    ),
    "withdraw": Layout(21, *NOTICE),
    "recall": Layout(22, *NOTICE),
    "forget": Layout(23, one_of("kind", FORGET_KINDS), identifier("identifier")),
    "event-free": Layout(24, identifier("event")),
    "frame": Layout(
        25, identifier("offer"), u32("slot", 0, MAXIMUM_SLOTS - 1), u64("sequence", 1), u64("byte_length"),
        u32("has_event", 0, 1), u32("metadata_length", 0, MAXIMUM_METADATA), strings=("metadata",),
    ),
    "end": Layout(26, *NOTICE),
    "held": Layout(32, *NOTICE),
    "released": Layout(33, identifier("offer"), u32("event")),
    "withdrawn": Layout(34, *NOTICE),
    "join": Layout(35, *NOTICE),
    "release-slot": Layout(
        37, identifier("offer"), u32("slot", 0, MAXIMUM_SLOTS - 1), u64("sequence", 1), u32("event")
    ),
}
TYPES = {layout.number: type for type, layout in LAYOUTS.items()}


def encode(message: Message) -> bytes:
    """Encodes a message, header and body. A descriptor is not included: it is sent with the first byte."""
    layout = LAYOUTS[message.type]
    values = dict(vars(message))
    tail = b""
    if message.type == "goodbye":
        values["reason"] = GOODBYE_REASONS.index(message.reason)
    if message.type == "channel":
        values["slots"] = len(message.ready_events)
        tail = struct.pack(f"<{len(message.ready_events)}I", *message.ready_events)
    for name in layout.strings:
        text = values[name].encode()
        decode_string(text, len(text))
        values[f"{name}_length"] = len(text)
        tail += text
    body = layout.struct.pack(*(each.to_raw(values) for each in layout.fields)) + tail
    check_message(message)
    return HEADER.pack(len(body), layout.number, layout.descriptors) + body


def decode_header(header: bytes) -> tuple[str, int]:
    """Returns the type and the body length, checked before any memory is allocated for the body."""
    length, number, descriptors = HEADER.unpack(header)
    type = TYPES.get(number)
    if type is None:
        raise ProtocolError(f"There is no message of type {number}")
    layout = LAYOUTS[type]
    if descriptors != layout.descriptors:
        raise ProtocolError(f"{type} states {descriptors} descriptors")
    if length > MAXIMUM_BODY or length < layout.struct.size:
        raise ProtocolError(f"{type} has a body of {length} bytes")
    if not layout.strings and type != "channel" and length != layout.struct.size:
        raise ProtocolError(f"{type} has a body of {length} bytes instead of {layout.struct.size}")
    return type, length


def decode(type: str, body: bytes) -> Message:
    """Decodes a body. Raises ProtocolError if the message alone shows that it breaks a rule."""
    layout = LAYOUTS[type]
    values: dict[str, Any] = {"type": type}
    for each, raw in zip(layout.fields, layout.struct.unpack_from(body)):
        if each.constant is None:
            values[each.name] = each.to_value(raw)
        elif raw != each.constant:
            raise ProtocolError(f"{each.name} of {type} is {raw!r}")
    rest = body[layout.struct.size:]
    if type == "channel":
        slots = values.pop("slots")
        if len(rest) != 4 * slots:
            raise ProtocolError(f"A channel of {slots} slots has {len(rest)} bytes of events")
        values["ready_events"] = list(struct.unpack(f"<{slots}I", rest))
    for name in layout.strings:
        length = values.pop(f"{name}_length", len(rest))
        values[name] = decode_string(rest[:length], length)
        rest = rest[length:]
    if layout.strings and rest:
        raise ProtocolError(f"{len(rest)} bytes follow the end of {type}")
    if type == "goodbye":
        reason = values["reason"]
        values["reason"] = GOODBYE_REASONS[reason] if reason < len(GOODBYE_REASONS) else "bad-message"
    if type == "frame":
        values["has_event"] = values["has_event"] == 1
    message = Message(**values)
    check_message(message)
    return message


def decode_string(text: bytes, length: int) -> str:
    if len(text) != length:
        raise ProtocolError(f"A string of {length} bytes is cut off after {len(text)}")
    if b"\0" in text:
        raise ProtocolError("A string contains a NUL")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ProtocolError("A string is not UTF-8") from None


def check_message(message: Message) -> None:
    """Checks the rules that concern more than one field."""
    type = message.type
    if type in ("hello", "goodbye") and message.lowest_version > message.highest_version:
        raise ProtocolError(f"Versions {message.lowest_version} to {message.highest_version} are not a range")
    if type == "goodbye" and len(message.text.encode()) > MAXIMUM_TEXT:
        raise ProtocolError("The text of GOODBYE is too long")
    if type == "pool" and message.kind == "host" and any(message.device_uuid):
        raise ProtocolError("A host pool names a device")
    if type == "offer":
        if message.kind == "pool":
            if message.allocation or message.byte_offset or message.byte_length:
                raise ProtocolError("The offer of a whole pool names a range")
        elif message.allocation == 0 or message.byte_length == 0:
            raise ProtocolError("An offer names no memory")
    if type == "channel":
        if message.slot_stride < message.slot_byte_length or message.window > len(message.ready_events):
            raise ProtocolError("A channel's slots overlap, or its window is larger than the ring")
        if 0 in message.ready_events:
            raise ProtocolError("A slot has no ready event")
    if type in ("offer", "frame") and message.metadata:
        parse_json(message.metadata)


def parse_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise ProtocolError("The metadata is not JSON") from None


class Connection:
    """A connected socket that carries messages in both directions, and the process at its other end."""

    def __init__(self, connected: socket.socket):
        self.socket = connected
        connected.setblocking(False)
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.pid, self.uid, _ = struct.unpack("=iII", credentials)
        self.process = open_process(connected, self.pid)
        self.is_open = True
        self._received = bytearray()
        # With the offset in the stream at which the read that returned the descriptor ended.
        self._descriptors: deque[tuple[int, int]] = deque()
        self._offset = 0
        self._outgoing: deque[tuple[memoryview, int | None]] = deque()
        self._deadline: float | None = None

    def sees_peer(self) -> bool:
        """Whether the peer lives in this process's PID namespace, and has not begun to end: it still has open files."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="utf-8", errors="replace") as file:
                status = file.read()
        except OSError:
            return False
        is_here = re.search(rf"^NSpid:\s*{self.pid}$", status, re.M) is not None
        return is_here and re.search(r"^FDSize:\s*0$", status, re.M) is None and not self.has_process_ended()

    def open_event(self, cuda: Cuda, message: Message) -> Any:
        """Opens an event of the peer. Returns None if it cannot be opened here."""
        try:
            event = cuda.open_event(message) if self.sees_peer() else None
        except CudaError:
            return None
        # Of a process that has ended, CUDA opens a new event, which has fired.
        if event is not None and not self.sees_peer():
            cuda.call("cudaEventDestroy", event)
            return None
        return event

    @property
    def wants_to_write(self) -> bool:
        return len(self._outgoing) > 0

    def send(self, message: Message, descriptor: int | None = None) -> None:
        """Sends as much as the socket accepts, and queues the rest for `flush`. The caller keeps the descriptor."""
        if not self.is_open:
            return
        self._outgoing.append((memoryview(encode(message)), descriptor))
        self.flush()

    def flush(self) -> None:
        while self.is_open and self._outgoing:
            data, descriptor = self._outgoing[0]
            try:
                if descriptor is None:
                    sent = self.socket.send(data, socket.MSG_NOSIGNAL)
                else:
                    sent = socket.send_fds(self.socket, [data], [descriptor], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                # The peer is gone. Reading reports that, after the messages that the peer sent before.
                self._outgoing.clear()
                return
            self._outgoing.popleft()
            if sent < len(data):
                self._outgoing.appendleft((data[sent:], None))

    def receive(self) -> Iterator[tuple[Message, int | None]]:
        """Yields the messages that have arrived, each with its descriptor, which the caller then owns. Never waits."""
        while self.is_open:
            yield from self._take_messages()
            try:
                data, descriptors, flags, _ = socket.recv_fds(
                    self.socket, 65_536, 16, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError as error:
                raise ConnectionEnded(f"Process {self.pid} broke off the connection: {error.strerror}") from None
            end = self._offset + len(self._received) + len(data)
            self._descriptors.extend((descriptor, end) for descriptor in descriptors)
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("The peer sent too many descriptors")
            if not data:
                raise ConnectionEnded(f"Process {self.pid} closed the connection without a GOODBYE")
            if self._deadline is None:
                self._deadline = time.monotonic() + MESSAGE_TIMEOUT
            self._received += data

    def _take_messages(self) -> Iterator[tuple[Message, int | None]]:
        descriptors_to_come = 0
        while len(self._received) >= HEADER.size:
            type, length = decode_header(bytes(self._received[: HEADER.size]))
            end = HEADER.size + length
            if len(self._received) < end:
                descriptors_to_come = LAYOUTS[type].descriptors
                break
            descriptor = None
            if LAYOUTS[type].descriptors == 1:
                # A descriptor belongs to the last message that begins in its read.
                if not self._descriptors or self._descriptors[0][1] > self._offset + end:
                    raise ProtocolError(f"{type} has no descriptor")
                descriptor, _ = self._descriptors.popleft()
            try:
                message = decode(type, bytes(self._received[HEADER.size : end]))
            except ProtocolError:
                if descriptor is not None:
                    os.close(descriptor)
                raise
            del self._received[:end]
            self._offset += end
            if self._descriptors and self._descriptors[0][1] <= self._offset:
                raise ProtocolError("A descriptor arrived without its message")
            self._deadline = time.monotonic() + MESSAGE_TIMEOUT if self._received else None
            yield message, descriptor
        else:
            # The incomplete message may be one with a descriptor.
            descriptors_to_come = 1 if self._received else 0
        if len(self._descriptors) > descriptors_to_come:
            raise ProtocolError("A descriptor arrived without its message")

    def check_deadline(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise TimeoutError(f"A message of process {self.pid} took more than {MESSAGE_TIMEOUT:.0f} s")

    def wait(self, seconds: float) -> None:
        """Waits until messages arrive, the socket accepts queued data, or the peer process ends."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN | (select.POLLOUT if self.wants_to_write else 0))
        poll.register(self.process, select.POLLIN)
        poll.poll(max(0, seconds * 1000))
        self.flush()

    def has_process_ended(self) -> bool:
        return has_ended(self.process)

    def send_goodbye(self, reason: str, text: str = "") -> None:
        """Sends a GOODBYE with the reason if the socket accepts it at once, and closes. `process` stays open."""
        text = text.encode()[:MAXIMUM_TEXT].decode(errors="ignore").replace("\0", "")
        if not self._outgoing:
            self.send(Message(
                type="goodbye", reason=reason, lowest_version=VERSION, highest_version=VERSION, text=text
            ))
        self.close()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.socket.close()
        for descriptor, _ in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def close_process(self) -> None:
        if self.process >= 0:
            os.close(self.process)
        self.process = -1


def open_process(connected: socket.socket, pid: int) -> int:
    """Opens a descriptor of the peer process, which becomes readable when that process ends."""
    try:
        return connected.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        # Before Linux 6.5.
        return os.pidfd_open(pid)


def has_ended(process: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return len(poll.poll(0)) > 0


class CudaError(ClientError):
    pass


class Cuda:
    """Calls CUDA runtime functions by name and raises their errors as exceptions."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver, runtime
        except ImportError:
            try:
                # The module names of older packages.
                from cuda import cuda as driver, cudart as runtime
            except ImportError:
                message = "Cannot use CUDA: cuda-bindings is not installed; pip install cuda-bindings"
                raise ClientError(message) from None
        self.driver = driver
        self.runtime = runtime
        self.handle_type = runtime.cudaMemAllocationHandleType.cudaMemHandleTypePosixFileDescriptor
        count = self.call("cudaGetDeviceCount")
        properties = [self.call("cudaGetDeviceProperties", ordinal) for ordinal in range(count)]
        self.uuids = [bytes(each.uuid.bytes) for each in properties]

    def call(self, name: str, *arguments: Any) -> Any:
        error, *values = getattr(self.runtime, name)(*arguments)
        if error != self.runtime.cudaError_t.cudaSuccess:
            raise CudaError(f"{name} failed: {getattr(error, 'name', error)}")
        return values[0] if values else None

    def use_device(self, uuid: bytes) -> int:
        """Makes the device with this UUID current and returns its ordinal in this process."""
        if uuid not in self.uuids:
            raise ClientError(f"Cannot use device {uuid.hex()}: it is not visible here; see CUDA_VISIBLE_DEVICES")
        ordinal = self.uuids.index(uuid)
        self.call("cudaSetDevice", ordinal)
        return ordinal

    def create_stream(self) -> Any:
        return self.call("cudaStreamCreateWithFlags", self.runtime.cudaStreamNonBlocking)

    def create_shared_event(self) -> Any:
        flags = self.runtime.cudaEventInterprocess | self.runtime.cudaEventDisableTiming
        return self.call("cudaEventCreateWithFlags", flags)

    def event_handle(self, event: Any) -> bytes:
        return bytes(self.call("cudaIpcGetEventHandle", event).reserved)

    def open_event(self, message: Message) -> Any:
        self.use_device(message.device_uuid)
        handle = self.runtime.cudaIpcEventHandle_t()
        handle.reserved = message.handle
        return self.call("cudaIpcOpenEventHandle", handle)

    def has_fired(self, event: Any) -> bool:
        (error,) = self.runtime.cudaEventQuery(event)
        if error == self.runtime.cudaError_t.cudaErrorNotReady:
            return False
        if error != self.runtime.cudaError_t.cudaSuccess:
            raise CudaError(f"cudaEventQuery failed: {getattr(error, 'name', error)}")
        return True

    def import_pool(self, descriptor: int) -> Any:
        return self.call("cudaMemPoolImportFromShareableHandle", descriptor, self.handle_type, 0)

    def import_pointer(self, pool: Any, export_data: bytes, byte_length: int) -> int:
        data = self.runtime.cudaMemPoolPtrExportData()
        data.reserved = export_data
        address = int(self.call("cudaMemPoolImportPointer", pool, data))
        # The exporter's length is only a claim.
        error, base, size = self.driver.cuMemGetAddressRange(address)
        if int(error) != 0 or int(base) != address or int(size) < byte_length:
            self.call("cudaFree", address)
            raise ClientError(f"The memory has {int(size)} bytes, but its exporter stated {byte_length}")
        return address

    def create_pool(self, ordinal: int) -> Any:
        properties = self.runtime.cudaMemPoolProps()
        properties.allocType = self.runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
        properties.handleTypes = self.handle_type
        properties.location.type = self.runtime.cudaMemLocationType.cudaMemLocationTypeDevice
        properties.location.id = ordinal
        return self.call("cudaMemPoolCreate", properties)

    def read(self, address: int, byte_length: int, stream: Any) -> bytes:
        host = ctypes.create_string_buffer(byte_length)
        kind = self.runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self.call("cudaMemcpyAsync", ctypes.addressof(host), address, byte_length, kind, stream)
        self.call("cudaStreamSynchronize", stream)
        return host.raw

    def write(self, address: int, data: bytes, stream: Any) -> Any:
        """Queues a copy. The caller must keep the returned host buffer until the stream has done the copy."""
        host = ctypes.create_string_buffer(data, len(data))
        kind = self.runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
        self.call("cudaMemcpyAsync", address, ctypes.addressof(host), len(data), kind, stream)
        return host


@dataclass
class LocalEvent:
    """An interprocess event that this process created."""

    event: Any
    message: Message


class LocalEvents:
    """The interprocess events of this process. An event lent to the peer is not reused until the peer frees it."""

    def __init__(self, cuda: Cuda):
        self._cuda = cuda
        self._all: dict[int, LocalEvent] = {}
        self._free: list[LocalEvent] = []

    def take(self, device_uuid: bytes) -> LocalEvent:
        """Returns an event that is not lent. It may be new, and then the peer does not know it yet."""
        for local in self._free:
            if local.message.device_uuid == device_uuid:
                self._free.remove(local)
                return local
        self._cuda.use_device(device_uuid)
        event = self._cuda.create_shared_event()
        message = Message(
            type="event", event=len(self._all) + 1, device_uuid=device_uuid, handle=self._cuda.event_handle(event)
        )
        local = self._all[message.event] = LocalEvent(event, message)
        return local

    def get(self, number: int) -> LocalEvent:
        return self._all[number]

    def put_back(self, number: int) -> None:
        self._free.append(self._all[number])

    def close(self) -> None:
        for local in self._all.values():
            self._cuda.call("cudaEventDestroy", local.event)
        self._all.clear()
        self._free.clear()


class EventAnswers:
    """Answers WAIT, with which a peer asks for events that it cannot open: sends FIRED once each has fired."""

    def __init__(self, cuda: Cuda | None, connection: Connection):
        self._cuda = cuda
        self._connection = connection
        self._pending: dict[int, Any] = {}

    @property
    def are_pending(self) -> bool:
        return len(self._pending) > 0

    def on_wait(self, number: int, local: LocalEvent | None) -> None:
        if local is None:
            raise ProtocolError(f"There is no event {number} to wait for")
        if number in self._pending:
            raise ProtocolError(f"Event {number} is waited for twice")
        self._pending[number] = local.event
        self.poll()

    def poll(self) -> None:
        for number, event in list(self._pending.items()):
            if self._cuda.has_fired(event):
                del self._pending[number]
                self._connection.send(Message(type="fired", event=number))


@dataclass
class Pool:
    """A pool from a POOL message."""

    message: Message
    descriptor: int
    imported: Any = None


@dataclass
class Allocation:
    """An allocation from an ALLOCATION message. It is mapped once, however many offers it contains."""

    message: Message
    address: int = 0
    users: int = 0


@dataclass
class RemoteOffer:
    """An offer of the exporter."""

    message: Message
    channel: Message | None = None
    is_withdrawn: bool = False
    is_recalled: bool = False
    mappings: int = 0
    # Pending waits for the ready event. WITHDRAWN must not be sent before they end.
    waits: int = 0

    @property
    def is_complete(self) -> bool:
        return self.message.kind != "channel" or self.channel is not None

    def __str__(self) -> str:
        message = self.message
        parts = [message.kind, f"{message.byte_length} bytes"] if message.kind != "pool" else ["pool"]
        if self.channel is not None:
            parts.append(f"{len(self.channel.ready_events)} slots of {self.channel.slot_byte_length}")
        if message.metadata:
            parts.append(message.metadata)
        return f"{json.dumps(message.name, ensure_ascii=False)}: {', '.join(parts)}"


@dataclass
class Mapping:
    """Mapped memory of an offer, until it is released."""

    offer: RemoteOffer
    address: int
    byte_length: int


class Importer:
    """The importing end: connects, receives offers, and maps, reads and releases their memory."""

    def __init__(self, path: str, cuda: Cuda | None):
        self.cuda = cuda
        self.offers: dict[int, RemoteOffer] = {}
        self._names: set[str] = set()
        # Bytes of the names and metadata of all offers.
        self._text_bytes = 0
        # Received frames of each joined channel, by offer number; None marks the end of the channel.
        self.frames: dict[int, deque[Message | None]] = {}
        # Offers withdrawn while mapped; they can still be recalled.
        self._withdrawn: dict[int, RemoteOffer] = {}
        self._pools: dict[int, Pool] = {}
        self._allocations: dict[int, Allocation] = {}
        self._remote_events: dict[int, Message] = {}
        self._opened: dict[int, Any] = {}
        # Events that were asked for by WAIT, and whether FIRED has come.
        self._asked: dict[int, bool] = {}
        self._sent_events: set[int] = set()
        self._lent: set[int] = set()
        self._news: deque[tuple[str, RemoteOffer]] = deque()
        self._end: ConnectionEnded | None = None
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.connect(path)
        except OSError as error:
            connected.close()
            raise ClientError(f"Cannot connect to {path}: {error.strerror}") from None
        self.connection = Connection(connected)
        self._answers = EventAnswers(cuda, self.connection)
        if self.connection.uid != os.geteuid():
            self.connection.send_goodbye("not-permitted", "The exporter runs as another user")
            raise ClientError(f"Process {self.connection.pid} runs as user {self.connection.uid}")
        if cuda is not None:
            self.stream = cuda.create_stream()
            self._local_events = LocalEvents(cuda)
        self._greet()

    def _greet(self) -> None:
        self.connection.send(Message(type="hello", lowest_version=VERSION, highest_version=VERSION))
        self._is_welcome = False
        try:
            self.wait_until(lambda: self._is_welcome, MESSAGE_TIMEOUT)
        except TimeoutError:
            self.connection.send_goodbye("timed-out", "WELCOME did not come")
            raise ClientError(f"Process {self.connection.pid} did not send WELCOME") from None

    def news(self, seconds: float) -> Iterator[tuple[str, RemoteOffer]]:
        """Yields changes as ("offer" or "withdraw", offer), for some seconds or until the exporter closes."""
        deadline = time.monotonic() + seconds
        while True:
            while self._news:
                yield self._news.popleft()
            if self._end is not None and self._end.reason == "done":
                return
            try:
                self.wait_until(lambda: len(self._news) > 0, deadline - time.monotonic())
            except TimeoutError:
                return
            except ConnectionEnded as error:
                if error.reason != "done":
                    raise

    def find(self, name: str | None, seconds: float) -> RemoteOffer:
        """Waits for the offer of this name, or for any buffer if `name` is None, and returns it."""

        def matches(offer: RemoteOffer) -> bool:
            return offer.is_complete and (offer.message.name == name or name is None and offer.message.kind == "buffer")

        try:
            self.wait_until(lambda: any(map(matches, self.offers.values())), seconds)
        except TimeoutError:
            raise ClientError(f"No offer within {seconds:.0f} s: {name or 'a buffer'}") from None
        return next(filter(matches, self.offers.values()))

    def map(self, offer: RemoteOffer) -> Mapping:
        """Maps an offer's memory, and returns once its contents are ready."""
        message = offer.message
        if message.kind == "pool":
            raise ClientError(f"Cannot map {message.name}: it is a whole pool; name a buffer or a channel")
        if offer.is_withdrawn:
            raise ClientError(f"Cannot map {message.name}: it was withdrawn")
        self.connection.send(Message(type="held", offer=message.offer))
        try:
            base = self._map_allocation(self._allocations[message.allocation])
        except ClientError:
            self.connection.send(Message(type="released", offer=message.offer, event=0))
            raise
        mapping = Mapping(offer, base + message.byte_offset, message.byte_length)
        offer.mappings += 1
        try:
            if message.ready_event != 0:
                self._wait_for_event(message.ready_event, offer)
        except BaseException:
            self.release(mapping)
            raise
        return mapping

    def read(self, mapping: Mapping, offset: int, byte_length: int) -> bytes:
        if not 0 <= offset <= offset + byte_length <= mapping.byte_length:
            raise ClientError("Cannot read past the end of a mapping")
        address = mapping.address + offset
        if self._pools[mapping.offer.message.pool].message.kind == "host":
            return ctypes.string_at(address, byte_length)
        return self.cuda.read(address, byte_length, self.stream)

    def release(self, mapping: Mapping) -> None:
        """Releases a mapping in stream order. The mapping is freed before the event is recorded."""
        message = mapping.offer.message
        allocation = self._allocations[message.allocation]
        allocation.users -= 1
        mapping.offer.mappings -= 1
        if mapping.offer.mappings == 0:
            self._withdrawn.pop(message.offer, None)
        pool = self._pools[message.pool].message
        if allocation.users == 0:
            self.cuda.call("cudaFreeAsync", allocation.address, self.stream)
            allocation.address = 0
        if pool.kind == "host" or message.kind == "channel":
            # Host memory has no device and so no events; each slot of a channel was released with an event.
            self.cuda.call("cudaStreamSynchronize", self.stream)
            self.connection.send(Message(type="released", offer=message.offer, event=0))
            return
        local = self._record(pool.device_uuid, None)
        self._lent.add(local.message.event)
        self.connection.send(Message(type="released", offer=message.offer, event=local.message.event))

    def join(self, offer: RemoteOffer) -> Channel:
        """Maps a channel's ring and joins the channel: frames sent from now on arrive here too."""
        if offer.channel is None:
            raise ClientError(f"Cannot join {offer.message.name}: it is not a channel")
        mapping = self.map(offer)
        self.frames[offer.message.offer] = deque()
        self.connection.send(Message(type="join", offer=offer.message.offer))
        return Channel(self, mapping, offer.channel)

    def close(self) -> None:
        """Disconnects once the exporter has freed all lent events, or is gone."""
        try:
            self.wait_until(lambda: len(self._lent) == 0, MESSAGE_TIMEOUT)
            self.connection.send_goodbye("done")
        except TimeoutError:
            self.connection.send_goodbye("done")
            return  # The exporter may still poll the events, so they stay until this process ends.
        except ConnectionEnded:
            # An exporter that is still alive may poll them too.
            if self._lent and not self.connection.has_process_ended():
                return
        finally:
            self.connection.close_process()
        if self.cuda is None:
            return
        self.cuda.call("cudaStreamSynchronize", self.stream)
        self._local_events.close()
        for event in self._opened.values():
            if event is not None:
                self.cuda.call("cudaEventDestroy", event)
        for number in list(self._pools):
            self._close_pool(number)
        self.cuda.call("cudaStreamDestroy", self.stream)

    def __enter__(self) -> Importer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def wait_until(self, condition: Callable[[], bool], seconds: float, polls: bool = False) -> None:
        """Handles messages until the condition holds. `polls`: it can become true without a message, as events do."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self._end is not None:
                raise self._end
            left = deadline - time.monotonic()
            if left < 0:
                raise TimeoutError
            self.connection.wait(min(left, EVENT_INTERVAL if polls or self._answers.are_pending else 1.0))
            self.take_messages()
            self._answers.poll()

    def take_messages(self) -> None:
        """Handles the messages that have arrived."""
        has_ended = self.connection.has_process_ended()
        try:
            for message, descriptor in self.connection.receive():
                self._on_message(message, descriptor)
            self.connection.check_deadline()
            if has_ended:
                raise ConnectionEnded(f"Process {self.connection.pid} has ended")
        except ConnectionEnded as error:
            self._end = error
            self.connection.close()
        except (ProtocolError, TimeoutError) as error:
            self.connection.send_goodbye("timed-out" if isinstance(error, TimeoutError) else error.reason, str(error))
            self._end = ConnectionEnded(f"Cannot continue with process {self.connection.pid}: {error}")

    def _map_allocation(self, allocation: Allocation) -> int:
        if allocation.users == 0:
            message = allocation.message
            pool = self._pools[message.pool]
            if pool.message.kind == "device":
                self.cuda.use_device(pool.message.device_uuid)
            if pool.imported is None:
                pool.imported = self.cuda.import_pool(pool.descriptor)
            allocation.address = self.cuda.import_pointer(pool.imported, message.export_data, message.byte_length)
        allocation.users += 1
        return allocation.address

    def _wait_for_event(self, number: int, offer: RemoteOffer | None = None) -> None:
        """Polls an event of the exporter until it fires. Raises ConnectionEnded if the exporter ends before that."""
        if number not in self._opened:
            self._opened[number] = self.connection.open_event(self.cuda, self._remote_events[number])
        event = self._opened[number]
        if offer is not None:
            offer.waits += 1
        try:
            if event is None:
                self._ask_for_event(number)
            else:
                self.wait_until(lambda: self.cuda.has_fired(event), float("inf"), polls=True)
        except ConnectionEnded:
            # An event that fired before the exporter ended stays fired.
            if event is None or not self.cuda.has_fired(event):
                raise
        finally:
            if offer is not None:
                offer.waits -= 1
                if offer.is_withdrawn and offer.waits == 0:
                    self.connection.send(Message(type="withdrawn", offer=offer.message.offer))

    def _ask_for_event(self, number: int) -> None:
        """Waits until the exporter reports that an event has fired."""
        if number not in self._asked:
            self._asked[number] = False
            self.connection.send(Message(type="wait", event=number))
        self.wait_until(lambda: self._asked[number], float("inf"))
        del self._asked[number]

    def _record(self, device_uuid: bytes, local: LocalEvent | None) -> LocalEvent:
        """Records an event after all work queued on the stream, and sends the event to the exporter if it is new."""
        local = local or self._local_events.take(device_uuid)
        self.cuda.call("cudaEventRecord", local.event, self.stream)
        if local.message.event not in self._sent_events:
            self._sent_events.add(local.message.event)
            self.connection.send(local.message)
        return local

    def _on_message(self, message: Message, descriptor: int | None) -> None:
        type = message.type
        if type == "goodbye":
            raise ConnectionEnded(f"The exporter disconnected ({message.reason}): {message.text}", message.reason)
        if not self._is_welcome:
            if type != "welcome":
                raise ProtocolError(f"{type} arrived before WELCOME")
            if message.version != VERSION:
                raise ProtocolError(f"The exporter speaks version {message.version}")
            self._is_welcome = True
        elif type == "pool":
            self._refuse_known(self._pools, message.pool, type)
            self._check_count(self._pools, MAXIMUM_POOLS, "pools")
            self._pools[message.pool] = Pool(message, descriptor)
        elif type == "allocation":
            self._refuse_known(self._allocations, message.allocation, type)
            self._check_count(self._allocations, MAXIMUM_IDENTIFIERS, "allocations")
            self._get(self._pools, message.pool, "pool")
            self._allocations[message.allocation] = Allocation(message)
        elif type == "event":
            self._refuse_known(self._remote_events, message.event, type)
            self._check_count(self._remote_events, MAXIMUM_IDENTIFIERS, "events")
            self._remote_events[message.event] = message
        elif type == "wait":
            is_known = message.event in self._sent_events
            self._answers.on_wait(message.event, self._local_events.get(message.event) if is_known else None)
        elif type == "fired":
            if self._asked.get(message.event) is not False:
                raise ProtocolError(f"FIRED for event {message.event} answers no WAIT")
            self._asked[message.event] = True
        elif type == "offer":
            self._on_offer(message)
        elif type == "channel":
            self._on_channel(message)
        elif type == "withdraw":
            offer = self._get(self.offers, message.offer, "offer")
            del self.offers[message.offer]
            self._names.remove(offer.message.name)
            self._text_bytes -= text_bytes(offer.message)
            offer.is_withdrawn = True
            if offer.mappings > 0:
                self._withdrawn[message.offer] = offer
            self._news.append(("withdraw", offer))
            if offer.waits == 0:
                self.connection.send(Message(type="withdrawn", offer=message.offer))
        elif type == "recall":
            offer = self.offers.get(message.offer) or self._withdrawn.get(message.offer)
            # The offer is unknown if it was released meanwhile.
            if offer is not None:
                offer.is_recalled = True
        elif type == "forget":
            self._on_forget(message)
        elif type == "event-free":
            if message.event not in self._lent:
                raise ProtocolError(f"Event {message.event} is freed but was not lent")
            self._lent.remove(message.event)
            self._local_events.put_back(message.event)
        elif type in ("frame", "end"):
            frames = self._get(self.frames, message.offer, "channel that was joined")
            frames.append(message if type == "frame" else None)
        else:
            raise ProtocolError(f"An exporter must not send {type}")

    def _on_offer(self, message: Message) -> None:
        if message.offer in self.offers or message.offer in self._withdrawn:
            raise ProtocolError(f"There already is offer {message.offer}")
        self._check_count(self.offers, MAXIMUM_IDENTIFIERS, "offers")
        self._text_bytes += text_bytes(message)
        if self._text_bytes > MAXIMUM_ALL_METADATA:
            raise LimitError(f"The limit is {MAXIMUM_ALL_METADATA} bytes of names and metadata of all offers")
        self._get(self._pools, message.pool, "pool")
        if message.name in self._names:
            raise ProtocolError(f"Two offers have the name {message.name!r}")
        if message.kind != "pool":
            allocation = self._get(self._allocations, message.allocation, "allocation").message
            if allocation.pool != message.pool:
                raise ProtocolError(f"Allocation {message.allocation} is in another pool than its offer")
            if message.byte_offset + message.byte_length > allocation.byte_length:
                raise ProtocolError("More is offered than was allocated")
        if message.ready_event != 0:
            self._get(self._remote_events, message.ready_event, "event")
        self._names.add(message.name)
        offer = self.offers[message.offer] = RemoteOffer(message)
        if offer.is_complete:
            self._news.append(("offer", offer))

    def _on_channel(self, message: Message) -> None:
        offer = self._get(self.offers, message.offer, "offer")
        if offer.message.kind != "channel" or offer.channel is not None:
            raise ProtocolError(f"Offer {message.offer} is not a channel, or has been described before")
        if len(message.ready_events) * message.slot_stride != offer.message.byte_length:
            raise ProtocolError("A channel's slots do not fill its ring")
        for event in message.ready_events:
            self._get(self._remote_events, event, "event")
        offer.channel = message
        self._news.append(("offer", offer))

    def _on_forget(self, message: Message) -> None:
        number = message.identifier
        if message.kind == "pool":
            self._get(self._pools, number, "pool")
            if any(each.message.pool == number for each in self._allocations.values()):
                raise ProtocolError(f"Pool {number} is forgotten before its allocations")
            self._close_pool(number)
        elif message.kind == "allocation":
            if self._get(self._allocations, number, "allocation").users > 0:
                raise ProtocolError(f"Allocation {number} is forgotten while it is held")
            del self._allocations[number]
        else:
            self._get(self._remote_events, number, "event")
            del self._remote_events[number]
            event = self._opened.pop(number, None)
            if event is not None:
                self.cuda.call("cudaEventDestroy", event)

    def _close_pool(self, number: int) -> None:
        pool = self._pools.pop(number)
        os.close(pool.descriptor)
        if pool.imported is not None:
            self.cuda.call("cudaStreamSynchronize", self.stream)
            self.cuda.call("cudaMemPoolDestroy", pool.imported)

    @staticmethod
    def _check_count(known: dict[int, Any], maximum: int, what: str) -> None:
        if len(known) >= maximum:
            raise LimitError(f"The limit is {maximum} {what} of an exporter")

    @staticmethod
    def _refuse_known(known: dict[int, Any], number: int, what: str) -> None:
        if number in known:
            raise ProtocolError(f"There already is {what} {number}")

    @staticmethod
    def _get(known: dict[int, Any], number: int, what: str) -> Any:
        if number not in known:
            raise ProtocolError(f"There is no {what} {number}")
        return known[number]


def text_bytes(message: Message) -> int:
    """The bytes of an offer that count toward MAXIMUM_ALL_METADATA."""
    return len(message.name.encode()) + len(message.metadata.encode())


class Channel:
    """The consuming end of a channel. Each frame is released once it has been read."""

    def __init__(self, importer: Importer, mapping: Mapping, message: Message):
        self._importer = importer
        self._mapping = mapping
        self._message = message
        # One local event for each slot. The exporter uses it until the slot arrives again.
        self._events: dict[int, LocalEvent] = {}

    def frames(self) -> Iterator[tuple[Message, bytes]]:
        """Yields each frame with its contents, until the channel ends."""
        importer, channel, offer = self._importer, self._message, self._mapping.offer.message
        coming = importer.frames[offer.offer]
        device_uuid = importer._pools[offer.pool].message.device_uuid
        while True:
            importer.wait_until(lambda: len(coming) > 0, float("inf"))
            frame = coming.popleft()
            if frame is None:
                return
            if frame.slot >= len(channel.ready_events) or frame.byte_length > channel.slot_byte_length:
                raise ProtocolError("A frame lies outside the ring")
            if frame.has_event:
                importer._wait_for_event(channel.ready_events[frame.slot])
            yield frame, importer.read(self._mapping, frame.slot * channel.slot_stride, frame.byte_length)
            local = self._events[frame.slot] = importer._record(device_uuid, self._events.get(frame.slot))
            importer.connection.send(Message(
                type="release-slot", offer=offer.offer, slot=frame.slot, sequence=frame.sequence,
                event=local.message.event,
            ))

    def close(self) -> None:
        self._importer.release(self._mapping)


@dataclass
class SentOffer:
    """An offer that was sent to an importer. Until it is over, the importer may use the memory."""

    held: int = 0
    # The opened events of RELEASED messages that have not fired yet, by number; None for one that WAIT asks for.
    releasing: dict[int, Any] = field(default_factory=dict)
    # Whether the importer has answered that it will not map the offer again.
    has_answered: bool = False

    @property
    def is_over(self) -> bool:
        return self.has_answered and self.held == 0 and not self.releasing


class ConnectedImporter:
    """The exporter's state of one importer."""

    def __init__(self, cuda: Cuda, connection: Connection):
        self.connection = connection
        self.answers = EventAnswers(cuda, connection)
        self.is_welcome = False
        self.handshake_deadline = time.monotonic() + MESSAGE_TIMEOUT
        self.sent_offers: dict[int, SentOffer] = {}
        self.events: dict[int, Message] = {}
        self.opened: dict[int, Any] = {}

    @property
    def is_gone(self) -> bool:
        return not self.connection.is_open and all(each.is_over for each in self.sent_offers.values())


class Exporter:
    """The exporting end: offers a buffer, whole and in parts, to all importers. The buffer has a pool to itself.

    The pool is the security boundary: an importer that maps a part could access the whole pool. `close` frees the
    memory. It waits until each importer has given up its offers or its process has ended.
    """

    def __init__(self, path: str, cuda: Cuda, data: bytes, say: Callable[[str], None] = lambda _: None):
        self.cuda = cuda
        self.served = 0
        self._say = say
        self._importers: set[ConnectedImporter] = set()
        self._offers: dict[int, Message] = {}
        self._is_closing = False
        self._selector = selectors.DefaultSelector()
        self._path = path
        self._listener = listen(path)
        self._selector.register(self._listener, selectors.EVENT_READ)
        uuid = cuda.uuids[0]
        cuda.use_device(uuid)
        self._stream = cuda.create_stream()
        self._pool = cuda.create_pool(0)
        self._descriptor = int(cuda.call("cudaMemPoolExportToShareableHandle", self._pool, cuda.handle_type, 0))
        self._address = int(cuda.call("cudaMallocFromPoolAsync", len(data), self._pool, self._stream))
        export_data = bytes(cuda.call("cudaMemPoolExportPointer", self._address).reserved)
        self._source = cuda.write(self._address, data, self._stream)
        self._events = LocalEvents(cuda)
        self._ready = self._events.take(uuid)
        cuda.call("cudaEventRecord", self._ready.event, self._stream)
        self._memory = [
            Message(type="pool", pool=1, kind="device", device_uuid=uuid),
            Message(type="allocation", allocation=1, pool=1, byte_length=len(data), export_data=export_data),
            self._ready.message,
        ]

    def offer(self, name: str, byte_offset: int, byte_length: int, metadata: str = "") -> None:
        """Offers a part of the buffer to importers that connect from now on."""
        number = len(self._offers) + 1
        message = Message(
            type="offer", offer=number, kind="buffer", allocation=1, pool=1, byte_offset=byte_offset,
            byte_length=byte_length, ready_event=self._ready.message.event, name=name, metadata=metadata,
        )
        encode(message)  # Raises an error for a name or metadata that cannot be sent.
        self._offers[number] = message

    def serve(self, until: Callable[[], bool]) -> None:
        """Serves importers until the condition holds."""
        while not until():
            for key, _ in self._selector.select(self._poll_timeout()):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, ConnectedImporter):
                    self._serve_importer(key.data)
            for importer in list(self._importers):
                self._poll_events(importer)
                self._check_deadlines(importer)
                self._update_interest(importer)
                if importer.is_gone:
                    self._remove(importer)

    def close(self) -> None:
        """Withdraws all offers, and frees the memory once no importer uses it."""
        self._is_closing = True
        self._selector.unregister(self._listener)
        self._listener.close()
        os.unlink(self._path)
        for importer in self._importers:
            for number, sent in importer.sent_offers.items():
                if sent.held > 0:
                    importer.connection.send(Message(type="recall", offer=number))
                importer.connection.send(Message(type="withdraw", offer=number))
        self.serve(lambda: all(each.is_over for one in self._importers for each in one.sent_offers.values()))
        self.cuda.call("cudaFreeAsync", self._address, self._stream)
        for importer in list(self._importers):
            importer.connection.send_goodbye("done")
            self._remove(importer)
        self.cuda.call("cudaStreamSynchronize", self._stream)
        self._events.close()
        os.close(self._descriptor)
        self.cuda.call("cudaMemPoolDestroy", self._pool)
        self.cuda.call("cudaStreamDestroy", self._stream)
        self._selector.close()

    def _poll_timeout(self) -> float:
        """Seconds to wait for sockets before checking events, deadlines and signals."""
        has_events = any(
            one.answers.are_pending or any(each.releasing for each in one.sent_offers.values())
            for one in self._importers
        )
        return EVENT_INTERVAL if has_events else 0.2

    def _accept(self) -> None:
        connected, _ = self._listener.accept()
        connection = Connection(connected)
        if connection.uid != os.geteuid():
            connection.send_goodbye("not-permitted", f"User {connection.uid} may not connect")
            connection.close_process()
            return
        importer = ConnectedImporter(self.cuda, connection)
        self._importers.add(importer)
        self._selector.register(connection.socket, selectors.EVENT_READ, importer)
        self._selector.register(connection.process, selectors.EVENT_READ, importer)

    def _serve_importer(self, importer: ConnectedImporter) -> None:
        connection = importer.connection
        has_ended = connection.has_process_ended()
        if connection.is_open:
            connection.flush()
            try:
                for message, descriptor in connection.receive():
                    if descriptor is not None:
                        os.close(descriptor)  # Importers must not send descriptors; the message is refused.
                    self._on_message(importer, message)
                if has_ended:
                    raise ConnectionEnded(f"Process {connection.pid} has ended")
            except ClientError as error:
                self._disconnect(importer, error)
        if has_ended:
            for sent in importer.sent_offers.values():
                sent.held = 0
                sent.releasing.clear()
                sent.has_answered = True

    def _disconnect(self, importer: ConnectedImporter, error: Exception) -> None:
        connection = importer.connection
        if not connection.is_open:
            return
        self._selector.unregister(connection.socket)
        if isinstance(error, ConnectionEnded):
            connection.close()
        else:
            connection.send_goodbye("timed-out" if isinstance(error, TimeoutError) else "bad-message", str(error))
        if isinstance(error, ConnectionEnded) and error.reason == "done":
            # An importer that sends this has no mappings left.
            for sent in importer.sent_offers.values():
                sent.has_answered = True
        self._say(f"importer {connection.pid} disconnected: {error}")

    def _check_deadlines(self, importer: ConnectedImporter) -> None:
        if not importer.connection.is_open:
            return
        try:
            importer.connection.check_deadline()
            if not importer.is_welcome and time.monotonic() > importer.handshake_deadline:
                raise TimeoutError("HELLO did not come")
        except TimeoutError as error:
            self._disconnect(importer, error)

    def _update_interest(self, importer: ConnectedImporter) -> None:
        """Registers for the socket events that matter now."""
        connection = importer.connection
        if connection.is_open:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_to_write else 0)
            if self._selector.get_key(connection.socket).events != events:
                self._selector.modify(connection.socket, events, importer)

    def _remove(self, importer: ConnectedImporter) -> None:
        self._importers.remove(importer)
        for event in importer.opened.values():
            if event is not None:
                self.cuda.call("cudaEventDestroy", event)
        self._selector.unregister(importer.connection.process)
        importer.connection.close_process()
        if importer.is_welcome:
            self.served += 1

    def _on_message(self, importer: ConnectedImporter, message: Message) -> None:
        type = message.type
        if type == "goodbye":
            raise ConnectionEnded(f"{message.reason} {message.text}".strip(), message.reason)
        if not importer.is_welcome:
            self._welcome(importer, message)
        elif type == "event":
            if message.event in importer.events:
                raise ProtocolError(f"There already is event {message.event}")
            importer.events[message.event] = message
        elif type == "wait":
            ready = self._ready.message.event
            importer.answers.on_wait(message.event, self._ready if message.event == ready else None)
        elif type == "fired":
            self._on_fired(importer, message.event)
        elif type in ("held", "released", "withdrawn"):
            sent = importer.sent_offers.get(message.offer)
            if sent is None or sent.is_over:
                raise ProtocolError(f"There is no offer {message.offer}")
            self._on_use(importer, sent, message)
        else:
            raise ProtocolError(f"An importer of buffers must not send {type}")

    def _welcome(self, importer: ConnectedImporter, message: Message) -> None:
        connection = importer.connection
        if message.type != "hello":
            raise ProtocolError(f"{message.type} arrived before HELLO")
        if not message.lowest_version <= VERSION <= message.highest_version:
            self._selector.unregister(connection.socket)
            connection.send_goodbye("version-mismatch", f"This exporter knows only version {VERSION}")
            self._say(f"importer {connection.pid} disconnected: it speaks another version")
            return
        importer.is_welcome = True
        connection.send(Message(type="welcome", version=VERSION))
        self._say(f"importer {connection.pid} connected")
        if self._is_closing:
            return
        for each in self._memory:
            connection.send(each, self._descriptor if each.type == "pool" else None)
        for number, offer in self._offers.items():
            importer.sent_offers[number] = SentOffer()
            connection.send(offer)

    def _on_use(self, importer: ConnectedImporter, sent: SentOffer, message: Message) -> None:
        connection, name = importer.connection, json.dumps(self._offers[message.offer].name)
        if message.type == "held":
            if sent.has_answered:
                raise ProtocolError(f"Offer {message.offer} is held after WITHDRAWN")
            sent.held += 1
            self._say(f"held {name} by {connection.pid}")
        elif message.type == "withdrawn":
            if not self._is_closing or sent.has_answered:
                raise ProtocolError(f"Offer {message.offer} was not withdrawn")
            sent.has_answered = True
        else:
            if sent.held == 0:
                raise ProtocolError(f"Offer {message.offer} is released but was not held")
            if message.event != 0:
                self._await_release(importer, sent, message.event)
            sent.held -= 1
            self._say(f"released {name} by {connection.pid}")

    def _await_release(self, importer: ConnectedImporter, sent: SentOffer, number: int) -> None:
        if number not in importer.events:
            raise ProtocolError(f"There is no event {number}")
        if any(number in each.releasing for each in importer.sent_offers.values()):
            raise ProtocolError(f"Event {number} is used again before it was freed")
        if number not in importer.opened:
            importer.opened[number] = importer.connection.open_event(self.cuda, importer.events[number])
        sent.releasing[number] = importer.opened[number]
        if importer.opened[number] is None:
            importer.connection.send(Message(type="wait", event=number))

    def _on_fired(self, importer: ConnectedImporter, number: int) -> None:
        for sent in importer.sent_offers.values():
            if number in sent.releasing and sent.releasing[number] is None:
                del sent.releasing[number]
                importer.connection.send(Message(type="event-free", event=number))
                return
        raise ProtocolError(f"FIRED for event {number} answers no WAIT")

    def _poll_events(self, importer: ConnectedImporter) -> None:
        if importer.connection.is_open:
            importer.answers.poll()
        for sent in importer.sent_offers.values():
            for number, event in list(sent.releasing.items()):
                if event is not None and self.cuda.has_fired(event):
                    del sent.releasing[number]
                    importer.connection.send(Message(type="event-free", event=number))


def listen(path: str) -> socket.socket:
    """Listens at a path that no other user can ever connect to. Replaces the socket of a dead exporter."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        remove_stale_socket(path)
        listener.bind(path)
        listener.listen(64)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ClientError(f"Cannot listen at {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    return listener


def remove_stale_socket(path: str) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)


PATTERN_PERIOD = 251
PIECE = 16 * 2**20


def pattern_bytes(pattern: str, begin: int, length: int) -> bytes:
    """Returns `length` bytes of a pattern, from offset `begin` on."""
    if pattern.startswith("0x"):
        period = struct.pack("<I", int(pattern, 16))
    else:
        period = bytes((int(pattern) + index) % PATTERN_PERIOD for index in range(PATTERN_PERIOD))
    shift = begin % len(period)
    return (period * ((shift + length) // len(period) + 1))[shift : shift + length]


def check_pattern(text: str) -> str:
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}|\d+|sequence", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a pattern")
    return text


def check_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)(|B|KiB|MiB|GiB)", text)
    units = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(match[1]) * units[match[2]]


def check_metadata(text: str) -> str:
    try:
        parse_json(text)
    except ProtocolError:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON") from None
    return text


def printable(text: str) -> str:
    """Escapes the characters that control a terminal: names, metadata and texts of the peer may contain them."""
    return re.sub(
        "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", text
    )


def say(line: str) -> None:
    print(printable(line), flush=True)


def run_list(options: argparse.Namespace) -> None:
    with Importer(options.path, None) as importer:
        # The protocol does not mark the end of the existing offers.
        for what, offer in importer.news(float("inf") if options.follow else options.seconds):
            say(f"{what} {offer}")
        if options.follow:
            say("the exporter has closed")


def run_import(options: argparse.Namespace) -> None:
    with Importer(options.path, Cuda()) as importer:
        offer = importer.find(options.name, options.seconds)
        say(f"offer {offer}")
        mapping = importer.map(offer)
        try:
            digest, name = hashlib.sha256(), json.dumps(offer.message.name, ensure_ascii=False)
            for begin in range(0, mapping.byte_length, PIECE):
                piece = importer.read(mapping, begin, min(PIECE, mapping.byte_length - begin))
                check_piece(options.verify, piece, begin, name)
                digest.update(piece)
            say(f"read {mapping.byte_length} bytes of {name}, SHA-256 {digest.hexdigest()}")
            if options.verify is not None:
                say(f"verified {name}")
            if options.hold:
                importer.wait_until(lambda: offer.is_recalled, float("inf"))
                say(f"recalled {name}")
        finally:
            importer.release(mapping)
        say(f"released {name}")


def check_piece(pattern: str | None, piece: bytes, begin: int, name: str) -> None:
    if pattern is None:
        return
    expected = pattern_bytes(pattern, begin, len(piece))
    if piece != expected:
        wrong = next(index for index, byte in enumerate(piece) if byte != expected[index])
        raise ClientError(f"Byte {begin + wrong} of {name} is {piece[wrong]}, and should be {expected[wrong]}")


def run_consume(options: argparse.Namespace) -> None:
    with Importer(options.path, Cuda()) as importer:
        offer = importer.find(options.name, options.seconds)
        say(f"offer {offer}")
        channel = importer.join(offer)
        try:
            count = 0
            for frame, contents in channel.frames():
                pattern = str(frame.sequence) if options.verify == "sequence" else options.verify
                check_piece(pattern, contents, 0, f"frame {frame.sequence}")
                count += 1
            say(f"{'verified' if options.verify else 'read'} {count} frames")
        finally:
            channel.close()


def run_export(options: argparse.Namespace) -> None:
    interrupted: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: interrupted.append(number))
    exporter = Exporter(options.path, Cuda(), pattern_bytes(options.pattern, 0, options.bytes), say)
    exporter.offer(options.name, 0, options.bytes, options.metadata or "")
    for part in range(options.parts):
        length = options.bytes // options.parts
        exporter.offer(f"{options.name}/{part}", part * length, length)
    say(f"listening at {options.path}")
    exporter.serve(lambda: bool(interrupted) or 0 < options.importers <= exporter.served)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    exporter.close()
    say(f"freed {options.bytes} bytes")


def run_golden(options: argparse.Namespace) -> None:
    for path in options.files:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
        for entry in entries:
            try:
                check_golden(entry)
            except (AssertionError, ProtocolError) as error:
                raise ClientError(f"{path}: {entry['name']}: {error}") from None
        say(f"{len(entries)} messages of {os.path.basename(path)} are right")


def check_golden(entry: dict[str, Any]) -> None:
    expected = message_of_golden(entry["message"])
    data = bytes.fromhex(entry["hex"])
    header, body = data[: HEADER.size], data[HEADER.size :]
    type, length = decode_header(header)
    assert LAYOUTS[type].descriptors == entry["descriptors"], "its number of descriptors differs"
    assert length == len(body), "its body length differs"
    message = decode(type, body)
    assert message == expected, f"it is decoded as {message}"
    assert encode(expected) == data, "it is encoded differently"
    layout = LAYOUTS[type]
    for length in (len(body) - 1, len(body) + 1, MAXIMUM_BODY + 1):
        # A string that extends to the end of its body may be shorter or longer.
        is_valid = layout.has_open_end and layout.struct.size <= length <= MAXIMUM_BODY
        if length >= 0 and not is_valid:
            what = f"a body of {length} bytes instead of {len(body)}"
            assert_refused(struct.pack("<I", length) + header[4:], (body + bytes(1))[:length], what)
    descriptors = 1 - entry["descriptors"]
    assert_refused(header[:6] + struct.pack("<H", descriptors), body, f"{descriptors} descriptors")


def assert_refused(header: bytes, body: bytes, what: str) -> None:
    try:
        decode(decode_header(header)[0], body)
    except ProtocolError:
        return
    raise AssertionError(f"it is accepted with {what}, which the protocol does not allow")


def message_of_golden(fields: dict[str, Any]) -> Message:
    def snake(name: str) -> str:
        return re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), name)

    values = {snake(name): value for name, value in fields.items()}
    for name in ("device_uuid", "export_data", "handle"):
        if name in values:
            values[name] = bytes.fromhex(values[name])
    return Message(**values)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="poolpass_client.py", description=__doc__.split("\n")[0])
    parser.add_argument("--version", action="version", version=f"%(prog)s, version {VERSION} of the protocol")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help)
        command.set_defaults(run=run)
        if name != "golden":
            command.add_argument("path")
        return command

    listing = add("list", run_list, "print what an exporter offers")
    listing.add_argument("--follow", action="store_true", help="print changes until the exporter closes")
    listing.add_argument("--seconds", type=float, default=0.5, help="how long to wait for offers without --follow")
    importing = add("import", run_import, "read a buffer")
    importing.add_argument("name", nargs="?")
    importing.add_argument("--hold", action="store_true", help="keep it until the exporter recalls it")
    consuming = add("consume", run_consume, "read the frames of a channel")
    consuming.add_argument("name")
    for command in (importing, consuming):
        command.add_argument("--verify", type=check_pattern, metavar="PATTERN")
        command.add_argument("--seconds", type=float, default=30.0, help="how long to wait for the offer")
    exporting = add("export", run_export, "offer a buffer")
    exporting.add_argument("--bytes", type=check_bytes, default=2**20)
    exporting.add_argument("--name", default="buffer")
    exporting.add_argument("--pattern", type=check_pattern, default="0")
    exporting.add_argument("--metadata", type=check_metadata, metavar="JSON")
    exporting.add_argument("--parts", type=int, default=0)
    exporting.add_argument("--importers", type=int, default=0)
    golden = add("golden", run_golden, "check the encoder and the decoder")
    golden.add_argument("files", nargs="+")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    try:
        options.run(options)
        return 0
    except KeyboardInterrupt:
        return 130
    except ClientError as error:
        print(f"Error: {printable(str(error))}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
