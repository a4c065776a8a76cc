"""Descriptors that another process has sent. PROTOCOL.md, "Descriptors", says what they can do to their receiver."""
from __future__ import annotations

import ctypes
import errno
import fcntl
import math
import os
import re
import resource
import socket
import stat
import struct
import termios
import threading

# From linux/fcntl.h and linux/stat.h; Python names only the first two, and not everywhere.
F_GET_SEALS = 1034
F_SEAL_SHRINK = 2
AT_EMPTY_PATH = 0x1000
AT_STATX_DONT_SYNC = 0x4000
STATX_TYPE, STATX_MODE = 1, 2
STATX_LENGTH = 256
STATX_MODE_OFFSET, STATX_RDEV_MAJOR_OFFSET = 28, 128
# The major number of /dev/nvidiactl and /dev/nvidia0; others are allocated when a module is loaded.
NVIDIA_MAJOR = 195
# Of the descriptors that this process can open, a quarter is left to other uses than memory that nothing maps.
LEAST_RESERVED, MOST_RESERVED = 16, 256
# Threads that close descriptors. Each may be stuck in one for ever.
MAXIMUM_CLOSERS = 4
# The size in bytes from which on a memory file takes long to close: the kernel frees 8 GiB in about a second.
LARGE_FILE = 16 * 2**20


def is_sealed_memory(descriptor: int) -> bool:
    """Whether a descriptor is that of a memory file which cannot shrink: no access to it can be a SIGBUS."""
    try:
        return fcntl.fcntl(descriptor, F_GET_SEALS) & F_SEAL_SHRINK != 0
    except OSError:
        return False


def may_be_pool(descriptor: int) -> bool:
    """Whether a descriptor can be a pool's, judged without asking the file system that it is on."""
    return is_sealed_memory(descriptor) or _is_nvidia_device(descriptor)


def _is_nvidia_device(descriptor: int) -> bool:
    try:
        statx = ctypes.CDLL(None, use_errno=True).statx
    except AttributeError:
        # A C library from before 2018. A character device answers fstat by itself.
        status = os.fstat(descriptor)
        return stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) in _nvidia_majors()
    result = ctypes.create_string_buffer(STATX_LENGTH)
    flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC
    if statx(descriptor, b"", flags, ctypes.c_uint(STATX_TYPE | STATX_MODE), result) != 0:
        return False
    (mode,) = struct.unpack_from("=H", result.raw, STATX_MODE_OFFSET)
    (major,) = struct.unpack_from("=I", result.raw, STATX_RDEV_MAJOR_OFFSET)
    return stat.S_ISCHR(mode) and major in _nvidia_majors()


def _nvidia_majors() -> set[int]:
    try:
        with open("/proc/devices", encoding="ascii", errors="replace") as file:
            devices = file.read().partition("Block devices:")[0]
    except OSError:
        devices = ""
    return {NVIDIA_MAJOR, *(int(major) for major in re.findall(r"^ *(\d+) nvidia", devices, re.M))}


# Protects what follows.
_lock = threading.Lock()
_discarded: list[int] = []
# The threads that run, and how many of them are closing a descriptor.
_running = 0
_busy = 0


def first_of_last_descriptors() -> float:
    """The number from which on a descriptor is one of the last that this process can open.

    The kernel assigns the lowest free number. Descriptors of memory that nothing maps leave the others to what needs
    them.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    return limit - max(LEAST_RESERVED, min(limit // 4, MOST_RESERVED))


def lowest_free_descriptor() -> float:
    """Returns the number that the next descriptor will get; infinity if no descriptor can be opened."""
    try:
        descriptor = os.eventfd(0, os.EFD_CLOEXEC)
    except OSError:
        return math.inf
    os.close(descriptor)
    return descriptor


def discard(descriptor: int) -> None:
    """Closes a descriptor that came from another process, on a thread that does nothing else: it may take for ever."""
    global _running
    if is_sealed_memory(descriptor) and os.fstat(descriptor).st_size < LARGE_FILE:
        os.close(descriptor)
        return
    with _lock:
        _discarded.append(descriptor)
        # Those that close nothing take one each before they end.
        if _running - _busy >= len(_discarded) or _running >= MAXIMUM_CLOSERS:
            return
        _running += 1
    try:
        threading.Thread(target=_close_discarded, name="poolpass-closer", daemon=True).start()
    except RuntimeError:
        # The system has no thread left. The descriptor waits for the next call.
        with _lock:
            _running -= 1


def _close_discarded() -> None:
    global _running, _busy
    while True:
        with _lock:
            if not _discarded:
                _running -= 1
                return
            descriptor = _discarded.pop()
            _busy += 1
        try:
            close_unlingering(descriptor)
        finally:
            with _lock:
                _busy -= 1


def close_unlingering(descriptor: int) -> None:
    """Closes a descriptor. A socket loses its linger first, or else its close would wait for the peer."""
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        # It is no socket.
        pass
    else:
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        except OSError:
            pass
        finally:
            found.detach()
    try:
        os.close(descriptor)
    except OSError:
        # The number is free all the same. Closed twice, it could be another one's by then.
        pass


def close_socket(sock: socket.socket) -> None:
    """Closes a socket, connected or listening.

    The kernel closes what its queue still holds in the thread that closes the socket: descriptors of unread messages,
    and connections that nobody has accepted. After shutdown, nothing is added to the queue.
    """
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    try:
        (unread,) = struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, b"\0\0\0\0"))
        is_empty = unread == 0
    except OSError:
        is_empty = _close_unaccepted(sock)
    if is_empty:
        sock.close()
    else:
        discard(sock.detach())


def _close_unaccepted(listener: socket.socket) -> bool:
    """Returns whether nothing is left."""
    while True:
        try:
            accepted, _ = listener.accept()
        except OSError as error:
            return error.errno in (errno.EAGAIN, errno.EINVAL)
        close_socket(accepted)
