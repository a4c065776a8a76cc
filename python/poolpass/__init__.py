"""CUDA memory pools shared between processes, with poolpass of other languages and of Python.

An `Exporter` offers buffers and channels at a socket's path; an `Importer` connects and maps them in place. A
`StoreClient` leaves memory to other processes in a store, which keeps it after this process has ended. What is mapped goes to PyTorch and
CuPy by DLPack or CUDA's array interface, without a copy.

Without a GPU, the environment variable POOLPASS_DRIVER=software selects a device in software, in this and in the other
processes. NumPy and PyTorch then use the memory in place.
"""
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .channel_consumer import ChannelConsumer, Frame
    from .channel_producer import ChannelProducer, Slot
    from .cuda import driver, initialize
    from .device_array import DeviceArray
    from .errors import CudaError, CudaUnavailableError, SharingError, SharingErrorCode, SharingTimeoutError
    from .exporter import Exporter
    from .imported_memory_pool import ImportedMemoryPool
    from .importer import Importer, Mapping, RemoteOffer
    from .memory_pool import Buffer, MemoryPool
    from .messages import PROTOCOL_VERSION
    from .offer import Lease, Offer
    from .peer import Peer
    from .store import StoreClient, StoreEntry, StoreMapping
    from .stored_memory import StoredMemory
    from .virtual_memory import allocate_virtual, allocate_virtual_array

__version__ = "0.1.0"

__all__ = [
    "PROTOCOL_VERSION",
    "Buffer",
    "ChannelConsumer",
    "ChannelProducer",
    "CudaError",
    "CudaUnavailableError",
    "DeviceArray",
    "Exporter",
    "Frame",
    "ImportedMemoryPool",
    "Importer",
    "Lease",
    "Mapping",
    "MemoryPool",
    "Offer",
    "Peer",
    "RemoteOffer",
    "SharingError",
    "SharingErrorCode",
    "SharingTimeoutError",
    "Slot",
    "StoreClient",
    "StoreEntry",
    "StoreMapping",
    "StoredMemory",
    "allocate_virtual",
    "allocate_virtual_array",
    "driver",
    "initialize",
]

# Imported on first use, because a program needs few of them.
_LATER = {
    "channel_consumer": ("ChannelConsumer", "Frame"),
    "channel_producer": ("ChannelProducer", "Slot"),
    "cuda": ("driver", "initialize"),
    "device_array": ("DeviceArray",),
    "errors": ("CudaError", "CudaUnavailableError", "SharingError", "SharingErrorCode", "SharingTimeoutError"),
    "exporter": ("Exporter",),
    "imported_memory_pool": ("ImportedMemoryPool",),
    "importer": ("Importer", "Mapping", "RemoteOffer"),
    "memory_pool": ("Buffer", "MemoryPool"),
    "messages": ("PROTOCOL_VERSION",),
    "offer": ("Lease", "Offer"),
    "peer": ("Peer",),
    "store": ("StoreClient", "StoreEntry", "StoreMapping"),
    "stored_memory": ("StoredMemory",),
    "virtual_memory": ("allocate_virtual", "allocate_virtual_array"),
}
_MODULES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
