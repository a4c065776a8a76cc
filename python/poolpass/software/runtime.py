"""Replaces cuda.bindings.runtime. Each stream runs its work on its own thread, after POOLPASS_TEST_DELAY seconds."""
from __future__ import annotations

import ctypes
import enum
import fcntl
import itertools
import mmap
import os
import queue
import struct
import threading
import time
from types import SimpleNamespace

PAGE = 65_536
POOL_MAGIC = 0x32304C4F4F504C50
EXPORT_DATA_MAGIC = 0x3230525450504C50
EVENT_MAGIC = 0x3130544E56504C50
LOCATION_DEVICE = 1
F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK = 1033, 1, 2
MAP_FIXED = 0x10
NO_ACCESS = 0
# The size of a pool's address range in bytes.
POOL_ADDRESSES = 2**36
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
    cudaErrorMemoryAllocation = 2
    cudaErrorDeviceUninitialized = 201
    cudaErrorInvalidResourceHandle = 400
    cudaErrorNotReady = 600
    cudaErrorUnknown = 999


class cudaMemAllocationHandleType(enum.IntEnum):
    cudaMemHandleTypePosixFileDescriptor = 1


class cudaMemAllocationType(enum.IntEnum):
    cudaMemAllocationTypePinned = 1


class cudaMemLocationType(enum.IntEnum):
    cudaMemLocationTypeDevice = LOCATION_DEVICE


class cudaMemcpyKind(enum.IntEnum):
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3


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
    """A mapping of a memory file or of a part of it. Does not use Python's mmap, which keeps a duplicate of the
    descriptor."""

    def __init__(self, descriptor: int, length: int, offset: int = 0):
        if os.fstat(descriptor).st_size < offset + length:
            raise ValueError("The file is shorter than what is to be mapped")
        self.address = reserve(length)
        self._length = self.length = length
        map_at(self.address, length, descriptor, offset)

    def close(self) -> None:
        libc.munmap(self.address, self._length)


class Piece:
    """A mapping of a part of a pool's file, at the corresponding address in the pool's address range."""

    def __init__(self, pool: Pool, length: int, offset: int):
        self.address = pool.base() + offset
        self.length = length
        self.offset = offset
        map_at(self.address, length, pool.descriptor, offset)

    def close(self) -> None:
        reserve(self.length, self.address)


libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def reserve(length: int, address: int | None = None) -> int:
    """Reserves an address range. If an address is given, replaces the mappings in the range at that address."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (0 if address is None else MAP_FIXED)
    return libc.mmap(address, length, NO_ACCESS, flags, -1, 0)


def map_at(address: int, length: int, descriptor: int, offset: int) -> None:
    flags = mmap.MAP_SHARED | MAP_FIXED
    assert libc.mmap(address, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, offset) == address


class Stream:
    handles = itertools.count(0x1000)
    by_handle: dict[int, Stream] = {}

    def __init__(self, handle: int | None = None) -> None:
        self.handle = next(self.handles) if handle is None else handle
        self.by_handle[self.handle] = self
        self._work: queue.Queue = queue.Queue()
        threading.Thread(target=self._run, name=f"software stream {self.handle}", daemon=True).start()

    def __int__(self) -> int:
        return self.handle

    def add(self, work) -> None:
        self._work.put(work)

    def synchronize(self) -> None:
        self._work.join()

    def destroy(self) -> None:
        """Ends the thread once its work is done."""
        del self.by_handle[self.handle]
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            time.sleep(DELAY)
            work()
            self._work.task_done()
        self._work.task_done()


default_stream = threading.Lock()


def stream_of(stream) -> Stream:
    """Raises KeyError for a stream that was destroyed."""
    handle = int(stream)
    if handle in (0, 1, 2):
        with default_stream:
            return Stream.by_handle.get(0) or Stream(0)
    return Stream.by_handle[handle]


class Event:
    """An event. Its memory holds the number of recordings begun, and a ring of the recordings that have completed."""

    def __init__(self, file: File | None = None, descriptor: int | None = None, handle: bytes | None = None):
        self._file = file
        self._descriptor = descriptor
        self.handle = handle
        ring = ctypes.c_int64 * (1 + RING_LENGTH)
        self._state = ring() if file is None else ring.from_address(file.address)
        self._lock = threading.Lock()
        # The number of users of the memory: the event, and pending work, which may outlive the event.
        self._uses = 1

    def begin_record(self):
        with self._lock:
            self._uses += 1
            self._state[0] += 1
            number = self._state[0]

        def reach() -> None:
            self._state[1 + number % RING_LENGTH] = number
            self.end_use()

        return reach

    def begin_wait(self):
        with self._lock:
            self._uses += 1
            number = self._state[0]

        def wait() -> None:
            while self._state[1 + number % RING_LENGTH] < number:
                time.sleep(0.0002)
            self.end_use()

        return wait

    def has_fired(self) -> bool:
        number = self._state[0]
        return self._state[1 + number % RING_LENGTH] >= number

    def end_use(self) -> None:
        with self._lock:
            self._uses -= 1
            if self._uses > 0:
                return
        if self._file is not None:
            self._file.close()
        if self._descriptor is not None:
            os.close(self._descriptor)


class Pool:
    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        magic, self.id, self.uuid, self.process = struct.unpack("<Q16s16s8xQ", os.pread(descriptor, 56, 0))
        if magic != POOL_MAGIC or self.uuid not in (UUID, bytes(16)):
            raise ValueError("This is no pool of the device")
        # The number of mappings, for a pool of another process; the number of live allocations, for a pool of this
        # process.
        self.users = 0
        # The number of frees that the host may not have waited for.
        self.frees = 0
        self._base: int | None = None
        # The sizes of the freed parts of the file of a pool of this process, by offset.
        self._free: dict[int, int] = {}
        self._lock = threading.Lock()

    def take(self, length: int) -> int | None:
        """Allocates a part of the file of a pool of this process. Returns its offset; None if the pool is full."""
        with self._lock:
            for offset, free in self._free.items():
                if free >= length:
                    del self._free[offset]
                    if free > length:
                        self._free[offset + length] = free - length
                    return offset
            offset = os.fstat(self.descriptor).st_size
            if offset + length > POOL_ADDRESSES:
                return None
            os.truncate(self.descriptor, offset + length)
            return offset

    def put_back(self, offset: int, length: int) -> None:
        with self._lock:
            self._free[offset] = length
            parts = sorted(self._free.items())
            self._free.clear()
            end = -1
            for each, free in parts:
                if each == end:
                    self._free[last] += free
                else:
                    last = each
                    self._free[last] = free
                end = each + free

    def base(self) -> int:
        """Returns the base address of a pool of this process. An allocation is at the base address plus its offset."""
        if self._base is None:
            self._base = reserve(POOL_ADDRESSES)
        return self._base

    def close(self) -> None:
        if self._base is not None:
            libc.munmap(self._base, POOL_ADDRESSES)
        os.close(self.descriptor)


def create_file(name: str, header: bytes, length: int) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(descriptor, length)
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)
    os.pwrite(descriptor, header, 0)
    return descriptor


# An addition to NVIDIA's bindings: invalid handles are safe to open, because the call rejects them.
checks_handles = True
success = cudaError_t.cudaSuccess
invalid = cudaError_t.cudaErrorInvalidValue
# The allocations of this process and the mappings of other processes' memory, by address.
allocated: dict[int, tuple[Piece, Pool, int]] = {}
mapped: dict[int, tuple[File, Pool]] = {}
# The sizes of page-locked host memory, by address.
locked: dict[int, int] = {}
current = threading.local()


def cudaGetDeviceCount():
    return success, 1


def cudaGetDevice():
    return success, getattr(current, "device", 0)


def cudaSetDevice(ordinal):
    current.device = ordinal
    return (success if ordinal == 0 else invalid,)


def cudaDeviceSynchronize():
    for stream in list(Stream.by_handle.values()):
        stream.synchronize()
    return (success,)


def cudaPointerGetAttributes(address):
    return success, SimpleNamespace(device=0)


def cudaStreamCreateWithFlags(flags):
    return success, Stream()


def cudaStreamSynchronize(stream):
    stream_of(stream).synchronize()
    return (success,)


def cudaStreamWaitEvent(stream, event, flags):
    stream_of(stream).add(event.begin_wait())
    return (success,)


def cudaStreamDestroy(stream):
    Stream.by_handle[int(stream)].destroy()
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
    if not flags & cudaEventInterprocess:
        return success, Event()
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
    if pid == os.getpid():
        return (cudaError_t.cudaErrorDeviceUninitialized, None)
    try:
        descriptor = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return (invalid, None)
    try:
        if os.pread(descriptor, 32, 8) != handle.reserved[32:]:
            return (invalid, None)
        return success, Event(File(descriptor, PAGE, PAGE))
    finally:
        os.close(descriptor)


def cudaEventRecord(event, stream):
    try:
        stream_of(stream).add(event.begin_record())
    except KeyError:
        return (cudaError_t.cudaErrorInvalidResourceHandle,)
    return (success,)


def cudaEventQuery(event):
    return (success if event.has_fired() else cudaError_t.cudaErrorNotReady,)


def cudaEventDestroy(event):
    event.end_use()
    return (success,)


def cudaMemPoolCreate(properties):
    assert properties.location.type == LOCATION_DEVICE and properties.location.id == 0
    header = struct.pack(
        "<Q16s16sIIQ", POOL_MAGIC, os.urandom(16), UUID, properties.handleTypes, LOCATION_DEVICE, os.getpid()
    )
    return success, Pool(create_file("poolpass-pool", header, PAGE))


def cudaMemPoolExportToShareableHandle(pool, handle_type, flags):
    return success, os.dup(pool.descriptor)


def cudaMemPoolImportFromShareableHandle(descriptor, handle_type, flags):
    copy = os.dup(descriptor)
    try:
        return success, Pool(copy)
    except (OSError, ValueError, struct.error):
        os.close(copy)
        return cudaError_t.cudaErrorUnknown, None


def cudaMemPoolDestroy(pool):
    # CUDA's driver refuses to destroy an imported pool with mappings. In the other cases, it may crash later.
    if pool.users > 0 or pool.frees > 0:
        return (invalid,)
    pool.close()
    return (success,)


def cudaMallocFromPoolAsync(length, pool, stream):
    pages = -(-length // PAGE) * PAGE
    offset = pool.take(pages)
    if offset is None:
        return cudaError_t.cudaErrorMemoryAllocation, None
    file = Piece(pool, pages, offset)
    allocated[file.address] = (file, pool, length)
    pool.users += 1
    return success, file.address


def cudaMemPoolExportPointer(address):
    file, pool, length = allocated[address]
    return success, cudaMemPoolPtrExportData(
        struct.pack("<Q16sQQQ16x", os.getpid(), pool.id, file.offset, length, EXPORT_DATA_MAGIC)
    )


def cudaMemPoolImportPointer(pool, data):
    process, id, offset, length, magic = struct.unpack("<Q16sQQQ16x", data.reserved)
    if magic != EXPORT_DATA_MAGIC or (process, id) != (pool.process, pool.id):
        return (invalid, None)
    before = offset % PAGE
    file = File(pool.descriptor, before + length, offset - before)
    pool.users += 1
    address = file.address + before
    mapped[address] = (file, pool)
    file.length = length
    return success, address


def cudaHostAlloc(length, flags):
    pages = -(-length // PAGE) * PAGE
    address = libc.mmap(
        None, pages, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    locked[address] = pages
    return success, address


def cudaFreeHost(address):
    libc.munmap(address, locked.pop(address))
    return (success,)


def cudaFreeAsync(address, stream):
    try:
        work = stream_of(stream)
    except KeyError:
        return (cudaError_t.cudaErrorInvalidResourceHandle,)
    is_own = address in allocated
    file, pool = allocated.pop(address)[:2] if is_own else mapped.pop(address)
    pool.users -= 1
    pool.frees += 1

    def free() -> None:
        if is_own:
            ctypes.memset(file.address, FREED, file.length)
        file.close()
        if is_own:
            pool.put_back(file.offset, file.length)
        pool.frees -= 1

    work.add(free)
    return (success,)


def cudaMemcpyAsync(target, source, length, kind, stream):
    stream_of(stream).add(lambda: ctypes.memmove(target, source, length))
    return (success,)
