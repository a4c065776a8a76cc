"""
Measures sharing with cuda.core and multiprocessing, in the way of cuda.core's own tests: one process allocates, and
another process maps.

    cuda_core.py [--registered]

By default, buffers are sent as objects and each message includes their pool, which is the simple way. With
--registered, buffers are pickled by hand and name a pool that the other process received at its start. cuda.core
recommends this for many buffers.
"""

import multiprocessing
import pickle
import platform
import sys
from importlib.metadata import version

from answers import (
    WARM_UP_OF_ONE,
    WARM_UP_OF_THOUSAND,
    answer_requests,
    end_with_parent,
    now,
    samples,
    report_missing_package,
)

try:
    from cuda.bindings import driver
    from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
except ImportError as error:
    report_missing_package(error)

IS_REGISTERED = "--registered" in sys.argv


def create_pool(device):
    pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(ipc_enabled=True))
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    (error,) = driver.cuMemPoolSetAttribute(pool.handle, threshold, driver.cuuint64_t(2**64 - 1))
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return pool


def send(connection, buffers, is_registered):
    if is_registered:
        connection.send_bytes(pickle.dumps(buffers))
    else:
        connection.send(buffers)


def receive(connection, is_registered):
    return pickle.loads(connection.recv_bytes()) if is_registered else connection.recv()


def map_buffers(device, memory, connection, is_registered):
    """Maps received buffers, acknowledges them, and frees them, until the other process ends.

    Receiving `memory` as an argument registers the pool.
    """
    end_with_parent()
    device.set_current()
    stream = device.create_stream()
    try:
        while True:
            is_mapping_acknowledged, repetitions = connection.recv()
            for _ in range(repetitions):
                buffers = receive(connection, is_registered)
                if is_mapping_acknowledged:
                    connection.send(None)
                for buffer in buffers:
                    buffer.close(stream)
                stream.sync()
                connection.send(None)
    except EOFError:
        pass


def main():
    multiprocessing.set_start_method("spawn")
    device = Device()
    device.set_current()
    stream = device.create_stream()
    memory = create_pool(device)
    connection, other_end = multiprocessing.Pipe()
    arguments = (device, memory, other_end, IS_REGISTERED)
    process = multiprocessing.Process(target=map_buffers, args=arguments, daemon=True)
    process.start()
    other_end.close()

    def share_one(request):
        byte_length = request.get("byteLength", 64 * 2**20)
        warm_up = request.get("warmUp", WARM_UP_OF_ONE)
        connection.send((False, warm_up + request["repetitions"]))

        def share():
            start = now()
            buffer = memory.allocate(byte_length, stream=stream)
            stream.sync()
            send(connection, [buffer], IS_REGISTERED)
            connection.recv()
            elapsed = now() - start
            buffer.close(stream)
            return elapsed

        return samples(request, warm_up, share)

    def share_thousand(request):
        byte_length = request.get("byteLength", 64 * 2**10)
        warm_up = request.get("warmUp", WARM_UP_OF_THOUSAND)
        connection.send((True, warm_up + request["repetitions"]))

        def share():
            buffers = [memory.allocate(byte_length, stream=stream) for _ in range(request.get("count", 1000))]
            stream.sync()
            start = now()
            send(connection, buffers, IS_REGISTERED)
            connection.recv()
            elapsed = now() - start
            connection.recv()
            for buffer in buffers:
                buffer.close(stream)
            return elapsed

        return samples(request, warm_up, share)

    answer_requests(
        name="cuda.core, registered pool" if IS_REGISTERED else "cuda.core",
        device=device.name,
        uuid=device.uuid,
        versions=f"cuda.core {version('cuda-core')}, Python {platform.python_version()}",
        works={
            "share-one": share_one,
            "share-one-offer": share_one,
            "share-thousand": share_thousand,
        },
    )
    connection.close()
    process.join(5)


if __name__ == "__main__":
    main()
