"""Listening at a path, and connecting to it."""
from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import time
from contextlib import contextmanager
from typing import Collection, Iterator

from .descriptors import close_socket
from .errors import SharingError, SharingTimeoutError, needing_descriptors
from .users import check_folders

# The kernel's limit in bytes, without the terminating NUL.
MAXIMUM_PATH = 107
BACKLOG = 128
# From asm-generic/socket.h, since Linux 6.16.
SO_PASSRIGHTS = 83
# From linux/fs.h.
RENAME_NOREPLACE = 1
# Attempts to replace a stale socket: another process may replace it at the same time.
MAXIMUM_ATTEMPTS = 8
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


def connect(path: str, deadline: float | None, patience: float = 0.0) -> socket.socket:
    """Connects to a listener. With a deadline, by time.monotonic(), waits until then for one to listen.

    patience: seconds for which this waits until the listener accepts connections that came before.
    """
    patient_until = time.monotonic() + patience
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
            is_waited_for = deadline is not None and error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN)
            is_busy = error.errno == errno.EAGAIN and time.monotonic() <= patient_until
            if not is_waited_for and not is_busy:
                raise _connect_error(path, error) from error
            if deadline is not None and not is_busy and time.monotonic() > deadline:
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
        return SharingTimeoutError("timed-out", f"{what}: the listener does not accept connections; is it stopped?")
    if error.errno in (errno.EACCES, errno.EPERM):
        return SharingError("not-permitted", f"{what}: this user may not; the exporter must list it in `users`")
    return error


FileIdentity = tuple[int, int]


class Listener:
    """A listening socket. Its file is removed at the end, unless another has replaced it."""

    def __init__(self, path: str, users: Collection[int]):
        """Raises SharingError also if a user other than this one and root could replace the socket."""
        self.path = path
        check_folders(path)
        mode = 0o600 if set(users) <= {os.geteuid()} else 0o666
        self.socket, self._identity = _listen(path, mode)

    def accept(self) -> socket.socket | None:
        """Returns None if nobody has connected."""
        try:
            connected, _ = self.socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        return connected

    def close(self) -> None:
        try:
            # While the socket is open, its inode number cannot be reused for another file.
            _remove(self.path, self._identity, is_own=True)
        except OSError:
            # The next listener replaces it.
            pass
        close_socket(self.socket)


def _listen(path: str, mode: int) -> tuple[socket.socket, FileIdentity]:
    for _ in range(MAXIMUM_ATTEMPTS):
        try:
            return _listen_once(path, mode)
        except FileExistsError:
            _remove_left_over(path)
        except OSError as error:
            raise _listen_error(path, error) from error
    raise SharingError("address-in-use", f"Cannot listen at {path}: other processes keep taking it")


def _listen_once(path: str, mode: int) -> tuple[socket.socket, FileIdentity]:
    """Raises FileExistsError if there is a file.

    The file has a temporary name until the socket listens, so a socket at the path that refuses connections is stale.
    `bind` gives the file the socket's own mode, less the umask: it is never wider than requested.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _folder_of(path) as folder:
            # Accepted sockets inherit it. Set now, no descriptor can be queued before a connection is accepted.
            prepare(listener, takes_descriptors=False)
            os.fchmod(listener.fileno(), mode)
            temporary = _temporary_name()
            # Through the open folder, so that a long path leaves room for the name.
            listener.bind(f"/proc/self/fd/{folder}/{temporary}")
            try:
                status = _set_mode(folder, temporary, mode)
                listener.listen(BACKLOG)
                listener.setblocking(False)
                _move(folder, temporary, os.path.basename(path))
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise
    except BaseException:
        listener.close()
        raise
    return listener, (status.st_dev, status.st_ino)


def _set_mode(folder: int, name: str, mode: int) -> os.stat_result:
    """Sets the mode of a socket's file, and of nothing that has replaced it: it follows no link."""
    file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(file)
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "Another file has replaced the socket")
        if stat.S_IMODE(status.st_mode) != mode:
            os.chmod(f"/proc/self/fd/{file}", mode)
        return status
    finally:
        os.close(file)


@contextmanager
def _folder_of(path: str) -> Iterator[int]:
    folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def _temporary_name() -> str:
    return f".poolpass-{os.urandom(8).hex()}"


def _move(folder: int, name: str, to: str) -> None:
    """Moves a file to a free name. Raises FileExistsError if it is taken."""
    libc = ctypes.CDLL(None, use_errno=True)
    # A C library from before 2018 has no such function, and some file systems do not know the flag.
    if hasattr(libc, "renameat2"):
        if libc.renameat2(folder, os.fsencode(name), folder, os.fsencode(to), RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(number, os.strerror(number))
    os.link(name, to, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(name, dir_fd=folder)


def _listen_error(path: str, error: OSError) -> Exception:
    folder = os.path.dirname(path) or "."
    what = f"Cannot listen at {path}"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return SharingError("not-found", f"{what}: there is no folder {folder}; make it first")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SharingError(
            "not-permitted", f"{what}: this user may not make or replace a socket in {folder}; use another one"
        )
    return error


def _remove_left_over(path: str) -> None:
    """Removes a socket's file that a process has left behind. Raises SharingError if something else is there."""
    what = f"Cannot listen at {path}"
    try:
        status = os.lstat(path)
        if not stat.S_ISSOCK(status.st_mode):
            raise SharingError("address-in-use", f"{what}: the file there is not a socket")
        if _is_live(path):
            raise SharingError("address-in-use", f"{what}: a process listens there; stop it, or use another path")
        _remove(path, (status.st_dev, status.st_ino), is_own=False)
    except FileNotFoundError:
        # Another process has removed it.
        pass
    except OSError as error:
        raise _listen_error(path, error) from error


def _is_live(path: str) -> bool:
    """Whether a socket is bound to a path. Probes with a datagram socket, which never becomes a client."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EPROTOTYPE):
                raise
        return True


def _remove(path: str, identity: FileIdentity, *, is_own: bool) -> None:
    """Removes a socket's file if it is that one and, unless it is this process's own, no process listens there.

    Another file can take the path between a check and a removal, so the file is moved aside, checked there, and moved
    back if it is another one.
    """
    with _folder_of(path) as folder:
        name, aside = os.path.basename(path), _temporary_name()
        if not _is_socket(folder, name, identity):
            return
        _move(folder, name, aside)
        if _is_socket(folder, aside, identity) and (is_own or not _is_live(f"/proc/self/fd/{folder}/{aside}")):
            os.unlink(aside, dir_fd=folder)
        else:
            _move(folder, aside, name)


def _is_socket(folder: int, name: str, identity: FileIdentity) -> bool:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return stat.S_ISSOCK(status.st_mode) and (status.st_dev, status.st_ino) == identity


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
