"""Descriptors that another process has sent. PROTOCOL.md, "Descriptors", says what they can do to their receiver."""
from __future__ import annotations

import ctypes
import fcntl
import os
import queue
import re
import socket
import stat
import struct
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
# Threads that close descriptors. Each may be stuck in one for ever.
MAXIMUM_CLOSERS = 4


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


_discarded: queue.SimpleQueue[int] = queue.SimpleQueue()
_closers: list[threading.Thread] = []
_lock = threading.Lock()


def discard(descriptor: int) -> None:
    """Closes a descriptor that came from another process, on a thread that does nothing else: it may take for ever."""
    if is_sealed_memory(descriptor):
        os.close(descriptor)
        return
    _discarded.put(descriptor)
    with _lock:
        _closers[:] = [each for each in _closers if each.is_alive()]
        if len(_closers) < MAXIMUM_CLOSERS:
            closer = threading.Thread(target=_close_discarded, name="poolpass-closer", daemon=True)
            _closers.append(closer)
            closer.start()


def _close_discarded() -> None:
    while True:
        try:
            descriptor = _discarded.get(timeout=0.05)
        except queue.Empty:
            return
        close_unlingering(descriptor)


def close_unlingering(descriptor: int) -> None:
    """Closes a descriptor. A socket loses its linger first, or else its close would wait for the peer."""
    try:
        with socket.socket(fileno=descriptor) as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    except OSError:
        try:
            os.close(descriptor)
        except OSError:
            pass
