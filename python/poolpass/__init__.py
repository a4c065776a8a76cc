"""CUDA memory pools shared between processes, with poolpass of other languages and of Python.

An `Exporter` offers buffers and channels at a socket's path; an `Importer` connects and maps them in place. A
`StoreClient` leaves memory to other processes in a store, which keeps it after this process has ended. What is mapped goes to PyTorch and
CuPy by DLPack or CUDA's array interface, without a copy.

Without a GPU, the environment variable POOLPASS_DRIVER=software selects a device in software, in this and in the other
processes. NumPy and PyTorch then use the memory in place.
"""
from .channel_consumer import ChannelConsumer, Frame
from .channel_producer import ChannelProducer, Slot
from .cuda import driver
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
]
