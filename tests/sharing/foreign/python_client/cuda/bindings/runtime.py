"""cuda.bindings.runtime: each stream runs its work on its own thread, after POOLPASS_TEST_DELAY seconds."""
from __future__ import annotations

import ctypes
import enum
import fcntl
import mmap
import os
import queue
import struct
import threading
import time
from types import SimpleNamespace

PAGE = 65_536
POOL_MAGIC = 0x31304C4F4F504C50
DATUM_MAGIC = 0x3130525450504C50
EVENT_MAGIC = 0x3130544E56504C50
LOCATION_DEVICE = 1
F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK = 1033, 1, 2
RING_LENGTH = 4096
UUID = b"poolpass softwa\0"
FREED = 0xDD
DELAY = float(os.environ.get("POOLPASS_TEST_DELAY", "0"))

cudaStreamNonBlocking = 1
cudaEventDisableTiming = 2
cudaEventInterprocess = 4


class cudaError_t(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorNotReady = 600


class cudaMemAllocationHandleType(enum.IntEnum):
    cudaMemHandleTypePosixFileDescriptor = 1


class cudaMemAllocationType(enum.IntEnum):
    cudaMemAllocationTypePinned = 1


class cudaMemLocationType(enum.IntEnum):
    cudaMemLocationTypeDevice = LOCATION_DEVICE


class cudaMemcpyKind(enum.IntEnum):
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2


class cudaMemPoolProps:
    def __init__(self) -> None:
        self.allocType = None
        self.handleTypes = None
        self.location = SimpleNamespace(type=None, id=None)


class Reserved:
    """A struct of 64 bytes."""

    def __init__(self, reserved: bytes = bytes(64)):
        self.reserved = reserved


class cudaMemPoolPtrExportData(Reserved):
    pass


class cudaIpcEventHandle_t(Reserved):
    pass


class File:
    """A memory file, or a part of one, mapped."""

    def __init__(self, descriptor: int, length: int, offset: int = 0):
        self._map = mmap.mmap(descriptor, length, offset=offset)
        self._view = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._view)
        self.length = length

    def close(self) -> None:
        del self._view
        self._map.close()


class Stream:
    def __init__(self) -> None:
        self._work: queue.Queue = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, work) -> None:
        self._work.put(work)

    def synchronize(self) -> None:
        self._work.join()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            time.sleep(DELAY)
            work()
            self._work.task_done()


class Event:
    """The event's page has the number of records begun, and a ring of those completed."""

    def __init__(self, file: File, descriptor: int | None = None, handle: bytes | None = None):
        self._file = file
        self._descriptor = descriptor
        self.handle = handle
        self._state = (ctypes.c_int64 * (1 + RING_LENGTH)).from_address(file.address)

    def begin_record(self):
        self._state[0] += 1
        number = self._state[0]

        def reach() -> None:
            self._state[1 + number % RING_LENGTH] = number

        return reach

    def has_fired(self) -> bool:
        number = self._state[0]
        return self._state[1 + number % RING_LENGTH] >= number

    def destroy(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


class Pool:
    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        magic, self.id, self.uuid = struct.unpack("<Q16s16s", os.pread(descriptor, 40, 0))
        assert magic == POOL_MAGIC and self.uuid == UUID
        self.mappings = 0


def create_file(name: str, header: bytes, length: int) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(descriptor, length)
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)
    os.pwrite(descriptor, header, 0)
    return descriptor


success = cudaError_t.cudaSuccess
invalid = cudaError_t.cudaErrorInvalidValue
# By address: allocations of this process, and mappings of other processes' memory.
allocated: dict[int, tuple[File, Pool, int]] = {}
mapped: dict[int, tuple[File, Pool]] = {}


def cudaGetDeviceCount():
    return success, 1


def cudaGetDeviceProperties(ordinal):
    return success, SimpleNamespace(uuid=SimpleNamespace(bytes=UUID))


def cudaSetDevice(ordinal):
    return (success if ordinal == 0 else invalid,)


def cudaStreamCreateWithFlags(flags):
    return success, Stream()


def cudaStreamSynchronize(stream):
    stream.synchronize()
    return (success,)


def cudaStreamDestroy(stream):
    return (success,)


def identity():
    """The inode of this process's pidfd, a hash of the machine's boot ID, and the inode of the PID namespace."""
    pidfd = os.pidfd_open(os.getpid())
    inode = os.fstat(pidfd).st_ino
    os.close(pidfd)
    hash = 0x811C9DC5
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        for byte in b"pidfs " + file.read():
            hash = (hash ^ byte) * 0x01000193 & 0xFFFFFFFF
    return inode, hash, os.stat("/proc/self/ns/pid").st_ino


def cudaEventCreateWithFlags(flags):
    assert flags == cudaEventInterprocess | cudaEventDisableTiming
    id = os.urandom(8)
    tail = id + UUID + struct.pack("<Q", PAGE)
    descriptor = create_file("poolpass-event", struct.pack("<Q", EVENT_MAGIC) + tail, 2 * PAGE)
    handle = struct.pack("<QIIQII", EVENT_MAGIC, os.getpid(), descriptor, *identity()) + tail
    return success, Event(File(descriptor, PAGE, PAGE), descriptor, handle)


def cudaIpcGetEventHandle(event):
    return (success, cudaIpcEventHandle_t(event.handle)) if event.handle is not None else (invalid,)


def cudaIpcOpenEventHandle(handle):
    magic, pid, number = struct.unpack_from("<QII", handle.reserved)
    if magic != EVENT_MAGIC:
        return (invalid, None)
    descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR)
    try:
        assert os.pread(descriptor, 32, 8) == handle.reserved[32:]
        return success, Event(File(descriptor, PAGE, PAGE))
    finally:
        os.close(descriptor)


def cudaEventRecord(event, stream):
    stream.add(event.begin_record())
    return (success,)


def cudaEventQuery(event):
    return (success if event.has_fired() else cudaError_t.cudaErrorNotReady,)


def cudaEventDestroy(event):
    event.destroy()
    return (success,)


def cudaMemPoolCreate(properties):
    assert properties.location.type == LOCATION_DEVICE and properties.location.id == 0
    header = struct.pack("<Q16s16sII", POOL_MAGIC, os.urandom(16), UUID, properties.handleTypes, LOCATION_DEVICE)
    return success, Pool(create_file("poolpass-pool", header, PAGE))


def cudaMemPoolExportToShareableHandle(pool, handle_type, flags):
    return success, os.dup(pool.descriptor)


def cudaMemPoolImportFromShareableHandle(descriptor, handle_type, flags):
    return success, Pool(os.dup(descriptor))


def cudaMemPoolDestroy(pool):
    if pool.mappings > 0:
        return (invalid,)
    os.close(pool.descriptor)
    return (success,)


def cudaMallocFromPoolAsync(length, pool, stream):
    offset = os.fstat(pool.descriptor).st_size
    pages = -(-length // PAGE) * PAGE
    os.truncate(pool.descriptor, offset + pages)
    file = File(pool.descriptor, pages, offset)
    allocated[file.address] = (file, pool, length)
    file.offset = offset
    return success, file.address


def cudaMemPoolExportPointer(address):
    file, pool, length = allocated[address]
    return success, cudaMemPoolPtrExportData(struct.pack("<Q16sQQ24x", DATUM_MAGIC, pool.id, file.offset, length))


def cudaMemPoolImportPointer(pool, data):
    magic, id, offset, length = struct.unpack("<Q16sQQ24x", data.reserved)
    if magic != DATUM_MAGIC or id != pool.id:
        return (invalid, None)
    before = offset % PAGE
    file = File(pool.descriptor, before + length, offset - before)
    pool.mappings += 1
    address = file.address + before
    mapped[address] = (file, pool)
    file.length = length
    return success, address


def cudaFreeAsync(address, stream):
    if address in allocated:
        file, _, length = allocated.pop(address)
        stream.add(lambda: ctypes.memset(file.address, FREED, length))
    else:
        file, pool = mapped.pop(address)
        pool.mappings -= 1
        stream.add(file.close)
    return (success,)


def cudaMemcpyAsync(target, source, length, kind, stream):
    stream.add(lambda: ctypes.memmove(target, source, length))
    return (success,)
