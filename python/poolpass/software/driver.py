"""Replaces cuda.bindings.driver."""
from types import SimpleNamespace

from .runtime import UUID, mapped
from .virtual_memory import (
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationType, CUmemLocationType, cuMemAddressFree, cuMemAddressReserve, cuMemCreate,
    cuMemExportToShareableHandle, cuMemGetAllocationGranularity, cuMemGetAllocationPropertiesFromHandle,
    cuMemImportFromShareableHandle, cuMemMap, cuMemRelease, cuMemSetAccess, cuMemUnmap,
)


def cuInit(flags):
    return (0,)


def cuDeviceGet(ordinal):
    return 0, ordinal


def cuDeviceGetUuid_v2(device):
    return 0, SimpleNamespace(bytes=UUID)


def cuDeviceGetName(length, device):
    return 0, b"poolpass software device\0"


def cuMemGetAddressRange(address):
    return 0, address, mapped[address][0].length


def cuDevicePrimaryCtxGetState(ordinal):
    return 0, 0, 1
