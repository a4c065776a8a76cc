"""Memory of another process that is mapped as a whole, at addresses of its own: CUDA's virtual memory management."""
from __future__ import annotations

from typing import Literal

from .cuda import Cuda, cuda
from .errors import CudaError, SharingError

Access = Literal["read", "read-write"]


class WholeMemory:
    """Maps the memory of a descriptor, which the caller keeps. Not safe for use by several threads at once."""

    def __init__(self, descriptor: int, nbytes: int, device: int, access: Access):
        """`nbytes` are all bytes of the memory. Raises SharingError: "size-mismatch", or "bad-message" if it is on
        another device than was said. Raises CudaError, also if the descriptor does not refer to memory."""
        self.nbytes = nbytes
        self.device = device
        calls = cuda()
        with calls.on_device(device):
            self.address = self._map(calls, descriptor, access)

    def set_access(self, access: Access) -> None:
        """Sets what the device may do with the memory. All work that uses it must be done."""
        calls = cuda()
        with calls.on_device(self.device):
            calls.set_access(self.address, self.nbytes, self.device, access == "read-write")

    def unmap(self) -> None:
        """Unmaps the memory. All work that uses it must be done."""
        calls = cuda()
        with calls.on_device(self.device):
            calls.call_driver("cuMemUnmap", self.address, self.nbytes)
            calls.call_driver("cuMemAddressFree", self.address, self.nbytes)

    def _map(self, calls: Cuda, descriptor: int, access: Access) -> int:
        memory = calls.import_memory(descriptor)
        # The mapping keeps the memory.
        try:
            device = calls.device_of_memory(memory)
            if device != self.device:
                where = "not on a device" if device is None else f"on device {device}"
                raise SharingError("bad-message", f"Cannot map memory: it is {where}, and not on device {self.device}")
            return self._map_memory(calls, memory, access)
        finally:
            calls.call_driver("cuMemRelease", memory)

    def _map_memory(self, calls: Cuda, memory: object, access: Access) -> int:
        address = int(calls.call_driver("cuMemAddressReserve", self.nbytes, 0, 0, 0))
        is_mapped = False
        try:
            self._map_at(calls, address, memory)
            is_mapped = True
            calls.set_access(address, self.nbytes, self.device, access == "read-write")
            return address
        except BaseException:
            if is_mapped:
                calls.call_driver("cuMemUnmap", address, self.nbytes)
            calls.call_driver("cuMemAddressFree", address, self.nbytes)
            raise

    def _map_at(self, calls: Cuda, address: int, memory: object) -> None:
        try:
            calls.call_driver("cuMemMap", address, self.nbytes, 0, memory, 0)
        except CudaError as error:
            # CUDA maps no memory of another size.
            if error.code != "CUDA_ERROR_NOT_SUPPORTED":
                raise
            text = f"Cannot map {self.nbytes} bytes: the memory has another size"
            raise SharingError("size-mismatch", text) from error
