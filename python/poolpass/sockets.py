"""Listening at a path, and connecting to it."""
from __future__ import annotations

import errno
import os
import socket
import stat
import time
from typing import Collection

from .descriptors import close_socket
from .errors import SharingError, SharingTimeoutError, needing_descriptors

# The kernel's limit in bytes, without the terminating NUL.
MAXIMUM_PATH = 107
BACKLOG = 128
# From asm-generic/socket.h, since Linux 6.16.
SO_PASSRIGHTS = 83
# Seconds between two attempts to connect.
CONNECT_INTERVAL = 0.02

StrPath = str | os.PathLike[str]


def check_path(action: str, path: StrPath) -> str:
    """Returns a path as a string. Raises an error if it cannot be a socket's."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"Cannot {action} {path!r}: a socket's path must be a string")
    if text == "" or "\0" in text or text.endswith("/"):
        raise ValueError(f"Cannot {action} {text!r}: give the path of a file")
    length = len(os.fsencode(text))
    if length > MAXIMUM_PATH:
        raise SharingError(
            "path-too-long",
            f"Cannot {action} {text}: it has {length} bytes, and a socket's path at most {MAXIMUM_PATH}; use a "
            "shorter one, such as one in /tmp",
        )
    return text


def connect(path: str, deadline: float | None) -> socket.socket:
    """Connects to a listener. With a deadline, by time.monotonic(), waits until then for one to listen."""
    while True:
        with needing_descriptors(f"connect to {path}"):
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            prepare(connected, takes_descriptors=True)
            connected.setblocking(False)
            connected.connect(path)
            return connected
        except OSError as error:
            connected.close()
            if deadline is None or error.errno not in (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN):
                raise _connect_error(path, error) from error
            if time.monotonic() > deadline:
                raise SharingTimeoutError("timed-out", f"Cannot connect to {path}: nobody listens there") from error
        except BaseException:
            connected.close()
            raise
        time.sleep(CONNECT_INTERVAL)


def _connect_error(path: str, error: OSError) -> Exception:
    what = f"Cannot connect to {path}"
    if error.errno in (errno.ENOENT, errno.ECONNREFUSED):
        return SharingError("not-listening", f"{what}: nobody listens there; with wait=SECONDS, connect waits for it")
    if error.errno == errno.EAGAIN:
        return SharingError("not-listening", f"{what}: the listener does not accept connections; is it stopped?")
    if error.errno in (errno.EACCES, errno.EPERM):
        return SharingError("not-permitted", f"{what}: this user may not; the exporter must list it in `users`")
    return error


class Listener:
    """A listening socket. Its file is removed at the end, unless another has replaced it."""

    def __init__(self, path: str, users: Collection[int]):
        self.path = path
        self.socket = _listen(path, 0o666 if users else 0o600)
        status = os.stat(path)
        self._identity = status.st_dev, status.st_ino

    def accept(self) -> socket.socket | None:
        """Returns None if nobody has connected."""
        try:
            connected, _ = self.socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        return connected

    def close(self) -> None:
        try:
            status = os.lstat(self.path)
            if (status.st_dev, status.st_ino) == self._identity:
                os.unlink(self.path)
        except FileNotFoundError:
            pass
        close_socket(self.socket)


def _listen(path: str, mode: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Accepted sockets inherit it. Set now, no descriptor can be queued before a connection is accepted.
        prepare(listener, takes_descriptors=False)
        _remove_stale(path)
        listener.bind(path)
        # Nobody can connect before `listen`.
        os.chmod(path, mode)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        return listener
    except OSError as error:
        listener.close()
        raise _listen_error(path, error) from error
    except BaseException:
        listener.close()
        raise


def _listen_error(path: str, error: OSError) -> Exception:
    folder = os.path.dirname(path) or "."
    what = f"Cannot listen at {path}"
    if error.errno == errno.EADDRINUSE:
        return SharingError("address-in-use", f"{what}: another process has just taken it")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return SharingError("not-found", f"{what}: there is no folder {folder}; make it first")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SharingError("not-permitted", f"{what}: this user may not make a socket in {folder}; use another one")
    return error


def _remove_stale(path: str) -> None:
    """Removes a socket's file that a process has left behind."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise SharingError("address-in-use", f"Cannot listen at {path}: the file there is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass
    raise SharingError(
        "address-in-use", f"Cannot listen at {path}: a process listens there; stop it, or use another path"
    )


def prepare(sock: socket.socket, *, takes_descriptors: bool) -> None:
    """Sets a socket's options. From Linux 6.16 on, the kernel refuses to send it descriptors if it takes none."""
    if not takes_descriptors:
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        except OSError:
            pass
    # Without this, a read could drop an urgent byte together with the descriptors that came with it.
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    except OSError:
        pass
