"""A connected socket that carries the protocol's messages, and the process at its other end."""
from __future__ import annotations

import errno
import os
import socket
import time
from collections import deque
from typing import Collection, Iterator

from .descriptors import close_socket, discard, may_be_pool
from .errors import SharingError, escape_controls, needing_descriptors
from .messages import (
    HEADER,
    LOWEST_VERSION,
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
    versions_text,
)
from .peer import PeerProcess
from .users import is_allowed

READ_LENGTH = 65_536
# Bytes and messages for one call of `receive`: a peer that never pauses must not keep others waiting. A message takes
# some ten microseconds.
BYTES_PER_TURN = 65_536
MESSAGES_PER_TURN = 128
# More bytes than a socket buffers: bytes beyond them cannot come from a process that has ended.
BYTES_AFTER_END = 2**20
# The kernel's SCM_MAX_FD, which no message exceeds. With room for fewer, the kernel would close the others within the
# read, which takes for as long as their sender likes.
MAXIMUM_DESCRIPTORS = 253
# Bytes queued for a peer that does not read, beyond which nothing is sent that can wait.
BACKLOG = 256 * 1024
# Bytes into which short messages are joined while they wait: each for itself would take many times its length.
BATCH = 16_384


class Outgoing:
    """Messages that wait for the peer to read. One with a descriptor is the first and last of its write."""

    def __init__(self, data: bytearray, descriptor: int | None):
        self.data = data
        self.descriptor = descriptor
        self.sent = 0
        self.is_alone = descriptor is not None

    def takes(self, data: bytes) -> bool:
        return not self.is_alone and len(self.data) + len(data) <= BATCH


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
        # Each with the number of its bytes that were sent, and the descriptor that goes with the first.
        self._outgoing: deque[Outgoing] = deque()
        self._outgoing_length = 0
        # Why nothing can be sent any more. The peer may have sent something before.
        self._failure: SharingError | None = None
        # Whether messages may have arrived that `receive` has not yielded.
        self.has_more = False
        self._deadline: float | None = None

    @property
    def name(self) -> str:
        return f"process {self.peer.pid}" if self.peer.pid else "a process of another PID namespace"

    def is_of(self, users: Collection[int]) -> bool:
        """Whether the process runs as this one's user, or as one of others."""
        return is_allowed(self.peer.uid, users)

    @property
    def wants_to_write(self) -> bool:
        return self.is_open and (len(self._outgoing) > 0 or self._failure is not None)

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
        if self._failure is not None:
            return
        last = self._outgoing[-1] if self._outgoing else None
        if descriptor is None and last is not None and last.takes(data):
            last.data += data
            self._outgoing_length += len(data)
            return
        with needing_descriptors(f"send a descriptor to {self.name}"):
            copy = None if descriptor is None else os.dup(descriptor)
        self._outgoing.append(Outgoing(bytearray(data), copy))
        self._outgoing_length += len(data)
        if len(self._outgoing) == 1:
            self.flush()

    def flush(self) -> None:
        while self.is_open and self._outgoing:
            first = self._outgoing[0]
            try:
                with memoryview(first.data)[first.sent :] as rest:
                    if first.descriptor is None:
                        sent = self.socket.send(rest, socket.MSG_NOSIGNAL)
                    else:
                        sent = socket.send_fds(self.socket, [rest], [first.descriptor], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                self._fail_sending(error)
                return
            if first.descriptor is not None:
                os.close(first.descriptor)
                first.descriptor = None
            first.sent += sent
            self._outgoing_length -= sent
            if first.sent == len(first.data):
                self._outgoing.popleft()

    def _fail_sending(self, error: OSError) -> None:
        """The rest of the queue would begin in the middle of a message: nothing more is sent."""
        self._drop_outgoing()
        if error.errno == errno.ETOOMANYREFS:
            # Peers that do not read keep what they were sent: the kernel limits that for each user.
            text = f"Cannot send a descriptor to {self.name}: too many sent descriptors are unread; raise `ulimit -n`"
            self._failure = SharingError("out-of-descriptors", text)
        else:
            # Reading reports what the peer has sent before.
            self._failure = SharingError("peer-gone", f"Cannot send to {self.name}: {error.strerror}")

    def receive(self, maximum: int = MESSAGES_PER_TURN) -> Iterator[tuple[Message, int | None]]:
        """Yields messages that have arrived, `maximum` at most, each with its descriptor, which the caller then owns.

        Sets `has_more` if it must be called again. Raises ProtocolError, or SharingError with the code "peer-gone".
        """
        self.has_more = False
        messages, length = 0, self._offset + len(self._received)
        while True:
            for each in self._take_messages():
                yield each
                messages += 1
                if messages >= maximum and self.is_open:
                    self.has_more = True
                    return
            if not self.is_open:
                return
            if self._offset + len(self._received) - length >= BYTES_PER_TURN:
                self.has_more = True
                return
            if not self._read():
                break
        if self._failure is not None:
            raise self._failure

    def receive_rest(self) -> Iterator[tuple[Message, int | None]]:
        """Yields all that has arrived from a process that has ended. Raises what `receive` raises."""
        end = self._offset + len(self._received) + BYTES_AFTER_END
        self.has_more = True
        while self.is_open and self.has_more and self._offset < end:
            yield from self.receive()

    def check_deadline(self, now: float) -> None:
        """Raises SharingError if a message is late, or if nothing can be sent any more."""
        if self._failure is not None and self._failure.code != "peer-gone":
            raise self._failure
        if self._deadline is not None and now > self._deadline:
            raise SharingError(
                "timed-out", f"Cannot receive from {self.name}: a message took more than {self._message_timeout:g} s"
            )

    def say_goodbye(self, reason: GoodbyeReason, text: str = "") -> None:
        """Sends GOODBYE if the socket accepts it at once, and closes."""
        text = text.encode(errors="replace")[:MAXIMUM_TEXT].decode(errors="ignore").replace("\0", "")
        if not self._outgoing and self._failure is None:
            self.send(Goodbye(reason, LOWEST_VERSION, PROTOCOL_VERSION, text))
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
        for each in self._outgoing:
            if each.descriptor is not None:
                os.close(each.descriptor)
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
        theirs = versions_text(message.lowest_version, message.highest_version)
        text += f"; it knows {theirs} of the protocol, and this side {versions_text(LOWEST_VERSION, PROTOCOL_VERSION)}"
    what = f"{connection.name} ended the connection ({message.reason}){text}"
    return SharingError(code_of_goodbye(message.reason), what[:1].upper() + what[1:])
