"""The calls of the CUDA runtime that this package makes, through NVIDIA's cuda-bindings or on the software device.

cuda-bindings are imported when CUDA is first used, so that a program without a GPU can import this package and list
what an exporter offers. Streams are given and kept as their handles, events as the objects of cuda-bindings.
"""
from __future__ import annotations

import ctypes
import importlib
import os
import re
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Literal

from .errors import CudaError, CudaUnavailableError, SharingError

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
# Handles of the default streams, as CUDA's headers define them. 0 is the legacy one unless compiled otherwise.
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2
# DLPack's stream for "do not synchronize".
NO_STREAM = -1

# The prefix of the UUIDs of software devices, which is the same in all languages.
SOFTWARE_UUID = b"poolpass softwa"
WITHOUT_GPU = "without a GPU, set POOLPASS_DRIVER=software"

# Reentrant, as all locks that a finalizer may need: it may run while its thread has them.
_lock = threading.RLock()
_cuda: Cuda | None = None


def cuda() -> Cuda:
    """Returns the calls of this process. Raises CudaUnavailableError if there is no CUDA to use."""
    global _cuda
    if _cuda is not None:
        return _cuda
    with _lock:
        if _cuda is None:
            _cuda = Cuda()
        return _cuda


def driver() -> Literal["cuda", "software"]:
    """Returns the driver that this process uses: "cuda" for GPUs, or "software" for the software device.

    The software device is used if the environment has POOLPASS_DRIVER=software when CUDA is first used. Raises
    CudaUnavailableError, whose message says what is missing, if neither can be used.
    """
    return cuda().driver


def initialize(device: int = 0) -> None:
    """Begins to create a device's context, in another thread, and returns at once.

    This takes a fifth of a second or more, in which a program can import its libraries, for example PyTorch. What needs
    the context waits for it. If it cannot be created, that raises the error.

    device: the ordinal of the device.

        import poolpass

        poolpass.initialize()
        import torch  # takes longer
    """
    threading.Thread(target=_initialize, args=(device,), name="poolpass-initializer", daemon=True).start()


def _initialize(device: int) -> None:
    try:
        with cuda().on_device(device):
            pass
    except Exception:
        # The next use of the device raises the error.
        pass


class Cuda:
    """Calls functions of the runtime by name, and raises their errors."""

    def __init__(self) -> None:
        self.driver = _choose_driver()
        driver, runtime = _import_bindings(self.driver)
        self._driver: Any = driver
        self._runtime: Any = runtime
        # Whether the driver rejects invalid handles, like the software device. NVIDIA's driver may crash instead.
        self.checks_handles = bool(getattr(runtime, "checks_handles", False))
        self._success = runtime.cudaError_t.cudaSuccess
        self._not_ready = runtime.cudaError_t.cudaErrorNotReady
        self._handle_type = runtime.cudaMemAllocationHandleType.cudaMemHandleTypePosixFileDescriptor
        self._copy_kinds = {
            HOST_TO_DEVICE: runtime.cudaMemcpyKind.cudaMemcpyHostToDevice,
            DEVICE_TO_HOST: runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost,
            DEVICE_TO_DEVICE: runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
        }
        try:
            count = self.call("cudaGetDeviceCount")
            devices = [self._identify(ordinal) for ordinal in range(count)]
        except (CudaError, RuntimeError) as error:
            # cuda-bindings raise RuntimeError if there is no driver.
            raise CudaUnavailableError(f"Cannot use CUDA: {error}; {WITHOUT_GPU}") from error
        if count == 0:
            raise CudaUnavailableError(f"Cannot use CUDA: there is no GPU; {WITHOUT_GPU}")
        # 16 bytes of each device, by ordinal.
        self.uuids = [uuid for uuid, _ in devices]
        # The UUIDs in the format of CUDA's tools.
        self.uuid_texts = [format_uuid(uuid, kind) for uuid, kind in devices]
        self._streams: dict[tuple[str, int], int] = {}
        self._streams_lock = threading.RLock()
        self._kept: list[Any] = []

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function. Returns what it returns besides the error."""
        error, *values = getattr(self._runtime, name)(*arguments)
        if error != self._success:
            raise _failure(name, error)
        return values[0] if values else None

    def call_driver(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the driver. Returns what it returns besides the error."""
        error, *values = getattr(self._driver, name)(*arguments)
        if int(error) != 0:
            raise _failure(name, error)
        return values[0] if values else None

    def _identify(self, ordinal: int) -> tuple[bytes, Literal["GPU", "MIG"]]:
        """Returns the UUID of a device, and whether the device is a whole GPU or a MIG instance."""
        self.call_driver("cuInit", 0)
        device = self.call_driver("cuDeviceGet", ordinal)
        # The original function returns the same UUID for all MIG instances of a GPU. In version 13 of the bindings, the
        # old name refers to the new function.
        name = "cuDeviceGetUuid_v2" if hasattr(self._driver, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
        uuid = bytes(self.call_driver(name, device).bytes)
        # The device's name identifies a MIG instance: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
        product = bytes(self.call_driver("cuDeviceGetName", 256, device))
        return uuid, "MIG" if re.search(rb" MIG \d", product) else "GPU"

    def device_of_uuid(self, uuid: bytes) -> int:
        """Returns the ordinal in this process of the device with a UUID."""
        if uuid in self.uuids:
            return self.uuids.index(uuid)
        is_software = uuid.startswith(SOFTWARE_UUID)
        if is_software and self.driver == "cuda":
            why = "it is the software device; set POOLPASS_DRIVER=software in this process, too"
        elif not is_software and self.driver == "software":
            why = "it is a GPU, and this process has POOLPASS_DRIVER=software; set it in all processes, or in none"
        elif is_software:
            why = "this process has the first software device only; set POOLPASS_SOFTWARE_DEVICES=1 in the other one"
        else:
            why = "this process does not see it; see CUDA_VISIBLE_DEVICES"
        raise SharingError("device-not-visible", f"Cannot use device {format_uuid(uuid)}: {why}")

    def device_of_address(self, address: int) -> int:
        """Returns the ordinal of the device that memory lies on."""
        return int(self.call("cudaPointerGetAttributes", address).device)

    def capability(self, ordinal: int) -> str | None:
        """Returns the compute capability of a device, such as "9.0". None for the software device."""
        if self.driver == "software":
            return None
        attributes = self._runtime.cudaDeviceAttr
        return ".".join(str(int(self.call("cudaDeviceGetAttribute", each, ordinal))) for each in (
            attributes.cudaDevAttrComputeCapabilityMajor, attributes.cudaDevAttrComputeCapabilityMinor,
        ))

    def check_device(self, ordinal: int) -> None:
        if not 0 <= ordinal < len(self.uuids):
            raise ValueError(f"There is no device {ordinal}: this process sees {len(self.uuids)} devices")

    def on_device(self, ordinal: int) -> _OnDevice:
        """Makes a device current, and then the one that was: other libraries depend on it."""
        return _OnDevice(self, ordinal)

    def has_context(self, ordinal: int) -> bool:
        try:
            error, _, is_active = self._driver.cuDevicePrimaryCtxGetState(ordinal)
        except AttributeError:
            return True
        return int(error) != 0 or bool(is_active)


    def release_stream(self, ordinal: int) -> int:
        """The stream of a device on which mappings are freed. It waits for the streams that have used them."""
        return self._own_stream("release", ordinal)

    def copy_stream(self, ordinal: int) -> int:
        """The stream of a device on which this package copies."""
        return self._own_stream("copy", ordinal)

    def _own_stream(self, purpose: str, ordinal: int) -> int:
        with self._streams_lock:
            stream = self._streams.get((purpose, ordinal))
            if stream is None:
                with self.on_device(ordinal):
                    created = self.call("cudaStreamCreateWithFlags", self._runtime.cudaStreamNonBlocking)
                # It lives as long as the process, and so does the object that may destroy it.
                self._kept.append(created)
                stream = self._streams[purpose, ordinal] = int(created)
            return stream

    @contextmanager
    def temporary_stream(self, ordinal: int) -> Iterator[int]:
        """A stream that nobody else uses. Its work must be done at the end."""
        with self.on_device(ordinal):
            created = self.call("cudaStreamCreateWithFlags", self._runtime.cudaStreamNonBlocking)
        try:
            yield int(created)
        finally:
            with self.on_device(ordinal):
                self.call("cudaStreamDestroy", created)

    def create_event(self, ordinal: int) -> Any:
        with self.on_device(ordinal):
            return self.call("cudaEventCreateWithFlags", self._runtime.cudaEventDisableTiming)

    def create_interprocess_event(self, ordinal: int) -> Any:
        flags = self._runtime.cudaEventInterprocess | self._runtime.cudaEventDisableTiming
        with self.on_device(ordinal):
            return self.call("cudaEventCreateWithFlags", flags)

    def destroy_event(self, event: Any) -> None:
        self.call("cudaEventDestroy", event)

    def event_handle(self, event: Any) -> bytes:
        return bytes(self.call("cudaIpcGetEventHandle", event).reserved)

    def open_event(self, ordinal: int, event_handle: bytes) -> Any:
        handle = self._runtime.cudaIpcEventHandle_t()
        handle.reserved = event_handle
        with self.on_device(ordinal):
            return self.call("cudaIpcOpenEventHandle", handle)

    def record(self, event: Any, stream: int, ordinal: int) -> None:
        """Records an event of a device on a stream of it. The default streams are those of the device."""
        with self.on_device(ordinal):
            self.call("cudaEventRecord", event, stream)

    def has_fired(self, event: Any) -> bool:
        (error,) = self._runtime.cudaEventQuery(event)
        if error == self._not_ready:
            return False
        if error != self._success:
            raise _failure("cudaEventQuery", error)
        return True

    def wait(self, stream: int, event: Any, ordinal: int) -> None:
        """Makes a stream of a device wait for an event of this process."""
        with self.on_device(ordinal):
            self.call("cudaStreamWaitEvent", stream, event, 0)

    def order(self, stream: int, before: int, ordinal: int) -> None:
        """Makes a stream wait for the work that another one of the device has been given."""
        if stream == before:
            return
        event = self.create_event(ordinal)
        try:
            self.record(event, before, ordinal)
            self.wait(stream, event, ordinal)
        finally:
            # It is destroyed once it has fired.
            self.destroy_event(event)

    def record_each(self, streams: Iterable[int], ordinal: int) -> list[Any]:
        """Returns an event behind the work of each stream. If a stream is no more, waits for the device instead."""
        events: list[Any] = []
        try:
            for stream in streams:
                events.append(self.create_event(ordinal))
                self.record(events[-1], stream, ordinal)
            return events
        except CudaError:
            for event in events:
                self.destroy_event(event)
            self.synchronize_device(ordinal)
            return []

    def wait_for_each(self, stream: int, events: Iterable[Any], ordinal: int) -> None:
        """Makes a stream wait for events, and destroys these."""
        for event in events:
            try:
                self.wait(stream, event, ordinal)
            finally:
                self.destroy_event(event)

    def events_behind(self, streams: frozenset[int] | None, ordinal: int) -> list[Any]:
        """Events behind the work of streams. Waits for the device if the streams are not known, which None stands for.

        Returns none if the device is lost, and its work with it.
        """
        try:
            if streams is None:
                self.synchronize_device(ordinal)
                return []
            return self.record_each(streams, ordinal)
        except CudaError:
            return []

    def stream_behind(self, streams: frozenset[int] | None, stream: int, ordinal: int) -> int:
        """Returns a stream whose next work comes behind that of `stream` and `streams`; None stands for any stream."""
        if streams is None:
            self.synchronize_device(ordinal)
            return stream
        if streams <= {stream}:
            return stream
        behind = self.copy_stream(ordinal)
        self.wait_for_each(behind, self.record_each(streams | {stream}, ordinal), ordinal)
        return behind

    def synchronize(self, stream: int, ordinal: int) -> None:
        with self.on_device(ordinal):
            self.call("cudaStreamSynchronize", stream)

    def synchronize_device(self, ordinal: int) -> None:
        with self.on_device(ordinal):
            self.call("cudaDeviceSynchronize")


    def create_pool(self, ordinal: int) -> Any:
        """Creates a pool whose memory can be shared by a descriptor."""
        runtime = self._runtime
        properties = runtime.cudaMemPoolProps()
        properties.allocType = runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
        properties.handleTypes = self._handle_type
        properties.location.type = runtime.cudaMemLocationType.cudaMemLocationTypeDevice
        properties.location.id = ordinal
        with self.on_device(ordinal):
            return self.call("cudaMemPoolCreate", properties)

    def export_pool(self, pool: Any) -> int:
        """Returns a descriptor, which the caller owns."""
        return int(self.call("cudaMemPoolExportToShareableHandle", pool, self._handle_type, 0))

    def import_pool(self, descriptor: int, ordinal: int) -> Any:
        with self.on_device(ordinal):
            return self.call("cudaMemPoolImportFromShareableHandle", descriptor, self._handle_type, 0)

    def destroy_pool(self, pool: Any) -> None:
        self.call("cudaMemPoolDestroy", pool)

    def create_memory(self, nbytes: int, ordinal: int) -> tuple[Any, int]:
        """Creates memory that has no address and can be shared by a descriptor. Returns it, and its size in bytes: that
        of whole units."""
        driver = self._driver
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.requestedHandleTypes = self._memory_handle_type
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = ordinal
        least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        unit = int(self.call_driver("cuMemGetAllocationGranularity", properties, least))
        whole = -(-nbytes // unit) * unit
        return self.call_driver("cuMemCreate", whole, properties, 0), whole

    def export_memory(self, memory: Any) -> int:
        """Returns a descriptor, which the caller owns."""
        return int(self.call_driver("cuMemExportToShareableHandle", memory, self._memory_handle_type, 0))

    def import_memory(self, descriptor: int) -> Any:
        """Imports memory that has no address."""
        return self.call_driver("cuMemImportFromShareableHandle", descriptor, self._memory_handle_type)

    @property
    def _memory_handle_type(self) -> Any:
        return self._driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

    def device_of_memory(self, memory: Any) -> int | None:
        """The ordinal of the device that imported memory is on; None if it is on none."""
        location = self.call_driver("cuMemGetAllocationPropertiesFromHandle", memory).location
        is_on_device = location.type == self._driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        return int(location.id) if is_on_device else None

    def set_access(self, address: int, nbytes: int, ordinal: int, writes: bool) -> None:
        """Sets what a device may do with mapped memory: read it, or also write it."""
        flags = self._driver.CUmemAccess_flags
        description = self._driver.CUmemAccessDesc()
        description.location.type = self._driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        description.location.id = ordinal
        description.flags = (
            flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if writes else flags.CU_MEM_ACCESS_FLAGS_PROT_READ
        )
        self.call_driver("cuMemSetAccess", address, nbytes, [description], 1)

    def allocate(self, pool: Any, nbytes: int, stream: int, ordinal: int) -> int:
        with self.on_device(ordinal):
            return int(self.call("cudaMallocFromPoolAsync", nbytes, pool, stream))

    def export_pointer(self, address: int) -> bytes:
        return bytes(self.call("cudaMemPoolExportPointer", address).reserved)

    def import_pointer(self, pool: Any, export_data: bytes, ordinal: int) -> int:
        """Maps an allocation. Returns its address. The driver believes the export data: check it before."""
        data = self._runtime.cudaMemPoolPtrExportData()
        data.reserved = export_data
        with self.on_device(ordinal):
            return int(self.call("cudaMemPoolImportPointer", pool, data))

    def size_of(self, address: int, ordinal: int) -> int:
        """The size in bytes of the memory that begins at an address, as the driver knows it; 0 if it knows of none."""
        with self.on_device(ordinal):
            error, base, size = self._driver.cuMemGetAddressRange(address)
        return int(size) if int(error) == 0 and int(base) == address else 0

    def free(self, address: int, stream: int, ordinal: int) -> None:
        with self.on_device(ordinal):
            self.call("cudaFreeAsync", address, stream)

    @contextmanager
    def page_locked(self, nbytes: int, ordinal: int) -> Iterator[int]:
        """Allocates host memory that a device can copy from quickly. Copies must be done at the end. Yields its
        address."""
        with self.on_device(ordinal):
            address = int(self.call("cudaHostAlloc", nbytes, 0))
        try:
            yield address
        finally:
            with self.on_device(ordinal):
                self.call("cudaFreeHost", address)

    @contextmanager
    def temporary_memory(self, nbytes: int, stream: int, ordinal: int) -> Iterator[int]:
        """Allocates device memory for work of a stream. Yields its address."""
        with self.on_device(ordinal):
            address = int(self.call("cudaMallocAsync", nbytes, stream))
        try:
            yield address
        finally:
            self.free(address, stream, ordinal)

    def copy(self, target: int, source: int, nbytes: int, kind: int, stream: int, ordinal: int) -> None:
        with self.on_device(ordinal):
            self.call("cudaMemcpyAsync", target, source, nbytes, self._copy_kinds[kind], stream)

    def copy_to_host(self, address: int, nbytes: int, stream: int, ordinal: int) -> bytes:
        """Copies out what a stream has written, and waits for that."""
        host = ctypes.create_string_buffer(nbytes)
        self.copy(ctypes.addressof(host), address, nbytes, DEVICE_TO_HOST, stream, ordinal)
        self.synchronize(stream, ordinal)
        return host.raw


class _OnDevice:
    """The context manager of `on_device`. Each piece of a copy needs several."""

    __slots__ = ("_before", "_calls", "_ordinal")

    def __init__(self, calls: Cuda, ordinal: int):
        self._calls = calls
        self._ordinal = ordinal

    def __enter__(self) -> None:
        self._before = int(self._calls.call("cudaGetDevice"))
        # Creates the device's context if this is the first call.
        self._calls.call("cudaSetDevice", self._ordinal)

    def __exit__(self, *_: object) -> None:
        # Making a device current that nobody has used would create a context, which takes memory.
        if self._before != self._ordinal and self._calls.has_context(self._before):
            self._calls.call("cudaSetDevice", self._before)


# Returns what to add to the message of an illegal access, depending on what is mapped. Set by modules that map memory.
explain_illegal_access: Callable[[], str] | None = None
# cudaErrorIllegalAddress, which the driver calls CUDA_ERROR_ILLEGAL_ADDRESS.
_ILLEGAL_ADDRESS = 700


def _failure(call: str, error: Any) -> CudaError:
    number, code = int(error), getattr(error, "name", str(error))
    more = explain_illegal_access() if number == _ILLEGAL_ADDRESS and explain_illegal_access is not None else ""
    return CudaError(f"{call} failed: {code} ({number}){more}", code=code, number=number, call=call)


def _choose_driver() -> Literal["cuda", "software"]:
    chosen = os.environ.get("POOLPASS_DRIVER") or "auto"
    if chosen == "software":
        return "software"
    if chosen not in ("auto", "cuda"):
        raise CudaUnavailableError(f'Cannot use POOLPASS_DRIVER="{chosen}": it must be one of auto, cuda, software')
    return "cuda"


def _import_bindings(chosen: Literal["cuda", "software"]) -> tuple[Any, Any]:
    if chosen == "software":
        return importlib.import_module("poolpass.software.driver"), importlib.import_module("poolpass.software.runtime")
    # The second are the names of the first releases of version 12.
    for driver, runtime in (("cuda.bindings.driver", "cuda.bindings.runtime"), ("cuda.cuda", "cuda.cudart")):
        try:
            return importlib.import_module(driver), importlib.import_module(runtime)
        except ImportError:
            pass
    raise CudaUnavailableError(
        f"Cannot use CUDA: cuda-bindings is not installed; pip install cuda-bindings; {WITHOUT_GPU}"
    )


def stream_handle(stream: Any) -> int:
    """Returns the handle of a stream: of CUDA's default stream for None, of an int, or of an object of cuda.core,
    cuda-bindings, PyTorch, CuPy or Numba. The object must live for as long as the memory that it is given for."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    try:
        return int(stream)
    except (TypeError, ValueError):
        raise TypeError(f"Cannot use {stream!r} as a stream: give a stream of a CUDA library, or its handle") from None


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a UUID as nvidia-smi prints it. Raises ValueError."""
    # The prefix is "GPU-", or "MIG-" for a part of a GPU.
    uuid = bytes.fromhex(text[4:].replace("-", ""))
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not the UUID of a device")
    return uuid


def format_uuid(uuid: bytes, kind: Literal["GPU", "MIG"] = "GPU") -> str:
    """Formats a device's UUID like nvidia-smi. `kind` is "MIG" for a MIG instance."""
    text = uuid.hex()
    return f"{kind}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
