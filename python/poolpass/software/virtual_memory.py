"""The driver's virtual memory, as in src/software/memory/virtual/: a sealed memory file with a header of one page."""
from __future__ import annotations

import ctypes
import enum
import itertools
import mmap
import os
import struct
from types import SimpleNamespace

from .runtime import MAP_FIXED, NO_ACCESS, PAGE, UUID, create_file, libc, reserve

MEMORY_MAGIC = 0x31304D454D504C50
UNIT = 2 * 2**20


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NOT_SUPPORTED = 801
    CUDA_ERROR_UNKNOWN = 999


class CUmemAllocationHandleType(enum.IntEnum):
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1


class CUmemLocationType(enum.IntEnum):
    CU_MEM_LOCATION_TYPE_DEVICE = 1


class CUmemAccess_flags(enum.IntEnum):
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3


class CUmemAllocationType(enum.IntEnum):
    CU_MEM_ALLOCATION_TYPE_PINNED = 1


class CUmemAllocationGranularity_flags(enum.IntEnum):
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0


class CUmemAllocationProp:
    def __init__(self) -> None:
        self.type = None
        self.requestedHandleTypes = None
        self.location = SimpleNamespace(type=None, id=None)


class CUmemAccessDesc:
    def __init__(self) -> None:
        self.location = SimpleNamespace(type=None, id=None)
        self.flags = None


success, invalid = CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_INVALID_VALUE
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

handles = itertools.count(0x5000)
# The descriptors and sizes of memory by handle, the sizes of reserved ranges, and the access flags of mappings.
memories: dict[int, tuple[int, int]] = {}
reserved: dict[int, int] = {}
access: dict[int, int] = {}


def cuMemGetAllocationGranularity(properties, option):
    return success, UNIT


def cuMemCreate(length, properties, flags):
    if length <= 0 or length % UNIT != 0 or properties.location.id != 0:
        return invalid, None
    header = struct.pack("<Q16sI4xQ", MEMORY_MAGIC, UUID, properties.requestedHandleTypes, length)
    handle = next(handles)
    memories[handle] = create_file("poolpass-memory", header, PAGE + length), length
    return success, handle


def cuMemExportToShareableHandle(handle, kind, flags):
    return success, os.dup(memories[handle][0])


def cuMemImportFromShareableHandle(descriptor, kind):
    try:
        magic, uuid, _, _, length = struct.unpack("<Q16sIIQ", os.pread(descriptor, 40, 0))
    except (OSError, struct.error):
        return CUresult.CUDA_ERROR_UNKNOWN, None
    if magic != MEMORY_MAGIC or uuid != UUID or os.fstat(descriptor).st_size < PAGE + length:
        return CUresult.CUDA_ERROR_UNKNOWN, None
    handle = next(handles)
    memories[handle] = os.dup(descriptor), length
    return success, handle


def cuMemGetAllocationPropertiesFromHandle(handle):
    location = SimpleNamespace(type=CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, id=0)
    return (success, SimpleNamespace(location=location)) if handle in memories else (invalid, None)


def cuMemRelease(handle):
    descriptor, _ = memories.pop(handle)
    os.close(descriptor)
    return (success,)


def cuMemAddressReserve(length, alignment, address, flags):
    if length <= 0 or length % UNIT != 0:
        return invalid, None
    place = reserve(length)
    reserved[place] = length
    return success, place


def cuMemMap(address, length, offset, handle, flags):
    descriptor, size = memories[handle]
    if length != size:
        return (CUresult.CUDA_ERROR_NOT_SUPPORTED,)
    if reserved.get(address) != length or address in access or offset != 0:
        return (invalid,)
    libc.mmap(address, length, NO_ACCESS, mmap.MAP_SHARED | MAP_FIXED, descriptor, PAGE)
    access[address] = NO_ACCESS
    return (success,)


def cuMemSetAccess(address, length, descriptions, count):
    if address not in access or reserved[address] != length or count != 1:
        return (invalid,)
    flags = int(descriptions[0].flags)
    libc.mprotect(address, length, flags)
    access[address] = flags
    return (success,)


def cuMemUnmap(address, length):
    if access.pop(address, None) is None or reserved[address] != length:
        return (invalid,)
    reserve(length, address)
    return (success,)


def cuMemAddressFree(address, length):
    if address in access or reserved.pop(address, None) != length:
        return (invalid,)
    libc.munmap(address, length)
    return (success,)
