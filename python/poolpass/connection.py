"""A connected socket that carries the protocol's messages, and the process at its other end."""
from __future__ import annotations

import os
import socket
import time
from collections import deque
from typing import Collection, Iterator

from .descriptors import close_socket, discard, may_be_pool
from .errors import SharingError, escape_controls, needing_descriptors
from .messages import (
    HEADER,
    MAXIMUM_TEXT,
    PROTOCOL_VERSION,
    Goodbye,
    GoodbyeReason,
    Layout,
    Message,
    ProtocolError,
    code_of_goodbye,
    decode,
    decode_header,
    encode,
    layout_of,
)
from .peer import PeerProcess
from .users import is_allowed

READ_LENGTH = 65_536
# Reads for one call of `receive`: a peer that never pauses must not keep others waiting.
MAXIMUM_READS = 16
# The kernel's SCM_MAX_FD, which no message exceeds. With room for fewer, the kernel would close the others within the
# read, which takes for as long as their sender likes.
MAXIMUM_DESCRIPTORS = 253
# Bytes queued for a peer that does not read, beyond which nothing is sent that can wait.
BACKLOG = 256 * 1024


class Connection:
    """Sends and receives messages without waiting. Not safe for use by several threads at once."""

    def __init__(self, connected: socket.socket, *, message_timeout: float):
        """Takes ownership of the socket, even if this raises an error."""
        self.socket = connected
        try:
            connected.setblocking(False)
            with needing_descriptors("watch the process at the other end of a connection"):
                self.process = PeerProcess(connected)
        except BaseException:
            close_socket(connected)
            raise
        self.peer = self.process.peer
        self.is_open = True
        self._message_timeout = message_timeout
        self._received = bytearray()
        # The number of received bytes that were decoded already.
        self._offset = 0
        # Each with the offset in the stream of the end of the read that returned it.
        self._descriptors: deque[tuple[int, int]] = deque()
        self._outgoing: deque[tuple[memoryview, int | None]] = deque()
        self._outgoing_length = 0
        self._deadline: float | None = None

    @property
    def name(self) -> str:
        return f"process {self.peer.pid}" if self.peer.pid else "a process of another PID namespace"

    def is_of(self, users: Collection[int]) -> bool:
        """Whether the process runs as this one's user, or as one of others."""
        return is_allowed(self.peer.uid, users)

    @property
    def wants_to_write(self) -> bool:
        return self.is_open and len(self._outgoing) > 0

    @property
    def is_backlogged(self) -> bool:
        """Whether the peer reads more slowly than messages are sent."""
        return self._outgoing_length > BACKLOG

    @property
    def outgoing_length(self) -> int:
        """The number of bytes that wait for the peer to read."""
        return self._outgoing_length

    @property
    def deadline(self) -> float | None:
        """When the message that has begun to arrive must be complete, by time.monotonic()."""
        return self._deadline

    def send(self, message: Message, descriptor: int | None = None) -> None:
        """Sends as much as the socket accepts, and queues the rest for `flush`. The caller keeps the descriptor."""
        if not self.is_open:
            return
        data = encode(message)
        if (descriptor is None) != (layout_of(message).descriptors == 0):
            raise ValueError(f"{type(message).__name__} is sent with the wrong number of descriptors")
        with needing_descriptors(f"send a descriptor to {self.name}"):
            copy = None if descriptor is None else os.dup(descriptor)
        self._outgoing.append((memoryview(data), copy))
        self._outgoing_length += len(data)
        if len(self._outgoing) == 1:
            self.flush()

    def flush(self) -> None:
        while self.is_open and self._outgoing:
            data, descriptor = self._outgoing[0]
            try:
                if descriptor is None:
                    sent = self.socket.send(data, socket.MSG_NOSIGNAL)
                else:
                    sent = socket.send_fds(self.socket, [data], [descriptor], socket.MSG_NOSIGNAL)
                    os.close(descriptor)
            except BlockingIOError:
                return
            except OSError:
                # The peer is gone. Reading reports that, after the messages that the peer sent before.
                self._drop_outgoing()
                return
            self._outgoing.popleft()
            self._outgoing_length -= sent
            if sent < len(data):
                self._outgoing.appendleft((data[sent:], None))

    def receive(self) -> Iterator[tuple[Message, int | None]]:
        """Yields the messages that have arrived, each with its descriptor, which the caller then owns.

        Raises ProtocolError, or SharingError with the code "peer-gone".
        """
        for _ in range(MAXIMUM_READS):
            yield from self._take_messages()
            if not self.is_open or not self._read():
                return
        yield from self._take_messages()

    def check_deadline(self, now: float) -> None:
        if self._deadline is not None and now > self._deadline:
            raise SharingError(
                "timed-out", f"Cannot receive from {self.name}: a message took more than {self._message_timeout:g} s"
            )

    def say_goodbye(self, reason: GoodbyeReason, text: str = "") -> None:
        """Sends GOODBYE if the socket accepts it at once, and closes."""
        text = text.encode(errors="replace")[:MAXIMUM_TEXT].decode(errors="ignore").replace("\0", "")
        if not self._outgoing:
            self.send(Goodbye(reason, PROTOCOL_VERSION, PROTOCOL_VERSION, text))
        self.close()

    def close(self) -> None:
        """Closes the socket. `process` stays open."""
        if not self.is_open:
            return
        self.is_open = False
        self._deadline = None
        self._drop_outgoing()
        for descriptor, _ in self._descriptors:
            discard(descriptor)
        self._descriptors.clear()
        close_socket(self.socket)

    def _drop_outgoing(self) -> None:
        for _, descriptor in self._outgoing:
            if descriptor is not None:
                os.close(descriptor)
        self._outgoing.clear()
        self._outgoing_length = 0

    def _read(self) -> bool:
        """Reads once. Returns False if nothing has arrived."""
        try:
            data, descriptors, flags, _ = socket.recv_fds(
                self.socket, READ_LENGTH, MAXIMUM_DESCRIPTORS, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except OSError as error:
            raise SharingError("peer-gone", f"Cannot receive from {self.name}: {error.strerror}") from None
        end = self._offset + len(self._received) + len(data)
        self._descriptors.extend((each, end) for each in descriptors)
        if flags & socket.MSG_CTRUNC:
            # There is room for all that can come.
            raise SharingError(
                "out-of-descriptors",
                f"Cannot receive a descriptor from {self.name}: no descriptor is left; raise `ulimit -n`",
            )
        if len(descriptors) > 1:
            raise ProtocolError("More descriptors came than may accompany a message")
        if not data:
            raise SharingError("peer-gone", f"Cannot receive from {self.name}: it closed the connection")
        if self._deadline is None:
            self._deadline = time.monotonic() + self._message_timeout
        self._received += data
        return True

    def _take_messages(self) -> Iterator[tuple[Message, int | None]]:
        expected_descriptors = 0
        while len(self._received) >= HEADER.size:
            layout, length = decode_header(self._received)
            end = HEADER.size + length
            if len(self._received) < end:
                expected_descriptors = layout.descriptors
                break
            body = bytes(self._received[HEADER.size : end])
            descriptor = self._take_descriptor(layout, end) if layout.descriptors else None
            try:
                message = decode(layout, body)
            except BaseException:
                if descriptor is not None:
                    discard(descriptor)
                raise
            del self._received[:end]
            self._offset += end
            self._deadline = time.monotonic() + self._message_timeout if self._received else None
            yield message, descriptor
            if not self.is_open:
                return
            if self._descriptors and self._descriptors[0][1] <= self._offset:
                raise ProtocolError("A descriptor came without its message")
        else:
            # The message whose header is incomplete may be one with a descriptor.
            expected_descriptors = 1 if self._received else 0
        if len(self._descriptors) > expected_descriptors:
            raise ProtocolError("A descriptor came without its message")

    def _take_descriptor(self, layout: Layout, end: int) -> int:
        # A descriptor belongs to the last message that begins in its read.
        if not self._descriptors or self._descriptors[0][1] > self._offset + end:
            raise ProtocolError(f"{layout.name} has no descriptor")
        descriptor, _ = self._descriptors.popleft()
        if not may_be_pool(descriptor):
            discard(descriptor)
            raise ProtocolError(
                f"The descriptor of {layout.name} is neither memory that cannot shrink nor a device of NVIDIA's"
            )
        return descriptor


def goodbye_error(connection: Connection, message: Goodbye) -> SharingError:
    """The error that a peer's GOODBYE means for those who wait for the peer."""
    text = f": {escape_controls(message.text)}" if message.text else ""
    if message.reason == "version-mismatch":
        text += f"; it knows versions {message.lowest_version} to {message.highest_version} of the protocol, and this "
        text += f"side {PROTOCOL_VERSION}"
    what = f"{connection.name} ended the connection ({message.reason}){text}"
    return SharingError(code_of_goodbye(message.reason), what[:1].upper() + what[1:])
