"""What cuda.bindings.driver has."""
from .runtime import mapped
from .virtual_memory import (
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationType, CUmemLocationType, cuMemAddressFree, cuMemAddressReserve, cuMemCreate,
    cuMemExportToShareableHandle, cuMemGetAllocationGranularity, cuMemGetAllocationPropertiesFromHandle,
    cuMemImportFromShareableHandle, cuMemMap, cuMemRelease, cuMemSetAccess, cuMemUnmap,
)


def cuMemGetAddressRange(address):
    return 0, address, mapped[address][0].length


def cuDevicePrimaryCtxGetState(ordinal):
    return 0, 0, 1
