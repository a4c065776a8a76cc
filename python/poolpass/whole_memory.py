"""Memory that is mapped as a whole, at addresses of its own: CUDA's virtual memory management."""
from __future__ import annotations

from typing import Any, Literal

from .cuda import cuda
from .errors import CudaError, SharingError

Access = Literal["read", "read-write"]


class WholeMemory:
    """Maps the memory of another process's descriptor, which the caller keeps. Not safe for use by several threads at
    once."""

    def __init__(self, descriptor: int, nbytes: int, device: int, access: Access):
        """`nbytes` are all bytes of the memory. Raises SharingError: "size-mismatch", or "bad-message" if it is on
        another device than was said. Raises CudaError, also if the descriptor does not refer to memory."""
        self.nbytes = nbytes
        self.device = device
        self._access = access
        self._is_mapped = True
        calls = cuda()
        with calls.on_device(device):
            self._handle = self._import(descriptor)
            try:
                self.address = map_anywhere(self._handle, nbytes, device, access)
            except BaseException:
                calls.call_driver("cuMemRelease", self._handle)
                raise

    @property
    def is_mapped(self) -> bool:
        """False between `suspend` and `resume`."""
        return self._is_mapped

    def set_access(self, access: Access) -> None:
        """Sets what the device may do with the memory. All work that uses it must be done."""
        calls = cuda()
        with calls.on_device(self.device):
            calls.set_access(self.address, self.nbytes, self.device, access == "read-write")
        self._access = access

    def suspend(self) -> None:
        """Unmaps the memory, but keeps it, and its addresses reserved. All work that uses it must be done."""
        calls = cuda()
        with calls.on_device(self.device):
            calls.call_driver("cuMemUnmap", self.address, self.nbytes)
            self._is_mapped = False

    def let_go(self) -> None:
        """Ends the use of the memory after `suspend`. Its addresses stay reserved."""
        self._release()

    def resume(self, descriptor: int | None = None) -> None:
        """Maps the memory again, at the same addresses. After `let_go`, a descriptor of the memory is needed. If this
        fails, the memory stays unmapped. Raises what the constructor raises."""
        with cuda().on_device(self.device):
            if descriptor is None:
                self._map()
                return
            self._handle = self._import(descriptor)
            try:
                self._map()
            except BaseException:
                self._release()
                raise

    def swap(self, other: WholeMemory) -> None:
        """Exchanges the memory of two mappings of the same size, and leaves `other` unmapped. All work that uses either
        must be done. If this fails, the mappings stay as they were."""
        calls = cuda()
        was_mapped = self._is_mapped
        with calls.on_device(self.device):
            if was_mapped:
                calls.call_driver("cuMemUnmap", self.address, self.nbytes)
                self._is_mapped = False
            self._handle, other._handle = other._handle, self._handle
            try:
                self._map()
            except BaseException:
                self._handle, other._handle = other._handle, self._handle
                if was_mapped:
                    self._map()
                raise
            calls.call_driver("cuMemUnmap", other.address, other.nbytes)
            other._is_mapped = False

    def unmap(self) -> None:
        """Unmaps the memory and frees its addresses. All work that uses it must be done."""
        calls = cuda()
        with calls.on_device(self.device):
            if self._is_mapped:
                calls.call_driver("cuMemUnmap", self.address, self.nbytes)
                self._is_mapped = False
            calls.call_driver("cuMemAddressFree", self.address, self.nbytes)
            self._release()

    def _import(self, descriptor: int) -> Any:
        calls = cuda()
        handle = calls.import_memory(descriptor)
        try:
            device = calls.device_of_memory(handle)
            if device != self.device:
                where = "not on a device" if device is None else f"on device {device}"
                raise SharingError("bad-message", f"Cannot map memory: it is {where}, and not on device {self.device}")
            return handle
        except BaseException:
            calls.call_driver("cuMemRelease", handle)
            raise

    def _map(self) -> None:
        calls = cuda()
        _map_at(self.address, self.nbytes, self._handle)
        try:
            calls.set_access(self.address, self.nbytes, self.device, self._access == "read-write")
        except BaseException:
            calls.call_driver("cuMemUnmap", self.address, self.nbytes)
            raise
        self._is_mapped = True

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            cuda().call_driver("cuMemRelease", handle)


class SharedMapping:
    """Memory of another process, which is mapped once however many use it. Not safe for use by several threads at
    once."""

    def __init__(self) -> None:
        self._memory: WholeMemory | None = None
        self._users = 0

    @property
    def is_mapped(self) -> bool:
        return self._memory is not None

    def map(self, descriptor: int | None, nbytes: int, device: int) -> int:
        """Adds a user. Returns the address. The first user needs the descriptor. Raises what `WholeMemory` raises."""
        if self._memory is None:
            assert descriptor is not None
            self._memory = WholeMemory(descriptor, nbytes, device, "read-write")
        self._users += 1
        return self._memory.address

    def unmap(self) -> None:
        """Removes a user, whose work must be done. The last one unmaps the memory."""
        self._users -= 1
        if self._users == 0 and self._memory is not None:
            memory, self._memory = self._memory, None
            memory.unmap()


def map_anywhere(memory: object, nbytes: int, device: int, access: Access) -> int:
    """Maps all of a memory at addresses of its own. Returns the first."""
    calls = cuda()
    address = int(calls.call_driver("cuMemAddressReserve", nbytes, 0, 0, 0))
    is_mapped = False
    try:
        _map_at(address, nbytes, memory)
        is_mapped = True
        calls.set_access(address, nbytes, device, access == "read-write")
        return address
    except BaseException:
        if is_mapped:
            calls.call_driver("cuMemUnmap", address, nbytes)
        calls.call_driver("cuMemAddressFree", address, nbytes)
        raise


def unmap(address: int, nbytes: int, device: int) -> None:
    """Unmaps what `map_anywhere` has mapped. All work that uses it must be done."""
    calls = cuda()
    with calls.on_device(device):
        calls.call_driver("cuMemUnmap", address, nbytes)
        calls.call_driver("cuMemAddressFree", address, nbytes)


def _map_at(address: int, nbytes: int, memory: object) -> None:
    try:
        cuda().call_driver("cuMemMap", address, nbytes, 0, memory, 0)
    except CudaError as error:
        # CUDA maps no memory of another size.
        if error.code != "CUDA_ERROR_NOT_SUPPORTED":
            raise
        raise SharingError("size-mismatch", f"Cannot map {nbytes} bytes: the memory has another size") from error
