"""The shortest program that allocates from a pool with one of the libraries: `first_allocation.py LIBRARY`."""

import sys


def with_cuda_core():
    from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions

    device = Device()
    device.set_current()
    stream = device.create_stream()
    return DeviceMemoryResource(device, options=DeviceMemoryResourceOptions()).allocate(2**20, stream=stream)


def with_cupy():
    import cupy

    with cupy.cuda.Stream(non_blocking=True):
        return cupy.cuda.MemoryAsyncPool().malloc(2**20)


def with_torch():
    # PYTORCH_CUDA_ALLOC_CONF makes PyTorch allocate from a pool.
    import torch

    with torch.cuda.stream(torch.cuda.Stream()):
        return torch.empty(2**20, dtype=torch.uint8, device="cuda")


memory = {"cuda.core": with_cuda_core, "cupy": with_cupy, "torch": with_torch}[sys.argv[1]]()
print("allocated", flush=True)
