"""The process at the other end of a connection. It may outlive the connection."""
from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct

from .errors import SharingError
from .records import Value

# From asm-generic/socket.h; Python has no name for it yet.
SO_PEERPIDFD = 77
# The type of the file system of pidfds, which statfs reports from Linux 6.9 on: they then have inodes of their own.
PID_FS_MAGIC = 0x50494446
STATFS_LENGTH = 256


class Peer(Value):
    """A process, as the kernel reported it when it connected or began to listen.

    `pid` is 0 if the process lives in another PID namespace.
    """

    pid: int
    uid: int
    gid: int


class PeerProcess:
    """A process, identified by a pidfd: its process ID may be reused."""

    def __init__(self, connected: socket.socket):
        """Does not own the socket."""
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.peer = Peer(*struct.unpack("=iII", credentials))
        # Becomes readable when the process ends.
        self.pidfd = _open_pidfd(connected, self.peer.pid)
        # Identifies the process in every namespace; None if the system has no such inodes.
        self._inode = _inode_of(self.pidfd) if self.pidfd >= 0 else None

    def is_same_as(self, other: PeerProcess) -> bool:
        """Whether this and another one are known to be the same process."""
        if self._inode is not None and other._inode is not None:
            return self._inode == other._inode
        # While neither has ended, their process IDs belong to them.
        return 0 != self.peer.pid == other.peer.pid and not self.has_ended() and not other.has_ended()

    def has_ended(self) -> bool:
        if self.pidfd < 0:
            return True
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return len(poll.poll(0)) > 0

    def is_visible(self) -> bool:
        """Whether the process lives in this process's PID namespace, and has not begun to end."""
        try:
            with open(f"/proc/{self.peer.pid}/status", "rb") as file:
                status = file.read()
        except OSError:
            return False
        if f"\nNSpid:\t{self.peer.pid}\n".encode() not in status:
            # It has more than one number.
            return False
        return b"\nFDSize:\t0\n" not in status and not self.has_ended()

    def close(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pidfd = -1


def _open_pidfd(connected: socket.socket, pid: int) -> int:
    """Returns -1 if the process has ended."""
    try:
        return connected.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        # Linux before 6.15 says EINVAL. The process ID may be another one's by now.
        if error.errno in (errno.ESRCH, errno.EINVAL):
            return -1
        if error.errno != errno.ENOPROTOOPT:
            raise
    # Before Linux 6.5.
    if pid == 0:
        raise SharingError(
            "not-supported", "Cannot watch a process of another PID namespace: that needs Linux 6.5 (SO_PEERPIDFD)"
        )
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1


def _inode_of(pidfd: int) -> int | None:
    status = ctypes.create_string_buffer(STATFS_LENGTH)
    if ctypes.CDLL(None).fstatfs(pidfd, status) != 0 or ctypes.c_long.from_buffer(status).value != PID_FS_MAGIC:
        return None
    return os.fstat(pidfd).st_ino
