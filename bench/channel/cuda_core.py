"""
The channel benchmark with cuda.core and multiprocessing: a ring of buffers from a shared pool, and streams that wait
for events. cuda.core does not record an interprocess event again, so each frame has two new events, which are sent with
it.
"""

import multiprocessing
import platform
import time
from importlib.metadata import version

import numpy as np
from cuda.bindings import driver
from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    LaunchConfig,
    ObjectCode,
    launch,
)
from frames import BLOCK, CLOCK_SAMPLES, NUMBERS_OF_FRAME, PTX, answer, greet, jobs, sample_clocks

MAXIMUM_SLOTS = 4
SHARED = EventOptions(ipc_enabled=True)


def zeros(device, count, stream):
    buffer = device.allocate(8 * count, stream=stream)
    buffer.fill(0, stream=stream)
    return buffer


def to_array(buffer, stream):
    stream.sync()
    array = np.empty(buffer.size // 8, dtype=np.uint64)
    (error,) = driver.cuMemcpyDtoH(array.ctypes.data, int(buffer.handle), buffer.size)
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return array


def consume(connection):
    device = Device()
    device.set_current()
    stream = device.create_stream()
    read_frame = ObjectCode.from_ptx(str(PTX)).get_kernel("read_frame")
    ring = None
    while True:
        message = connection.recv()
        if message is None:
            break
        if ring is None:
            ring, message = message, connection.recv()
        job = message
        numbers = zeros(device, NUMBERS_OF_FRAME * job.frames, stream)
        config = LaunchConfig(grid=job.grid, block=BLOCK)
        vectors = np.uint32(job.vectors)
        released = [None] * job.slots
        for position in range(job.frames):
            slot, frame, written = connection.recv()
            stream.wait(written)
            launch(stream, config, read_frame, ring[slot], vectors, np.uint32(frame), numbers, np.uint32(position))
            # Keeps the event until the slot is reused: by then, the producer waits for it.
            released[slot] = stream.record(options=SHARED)
            connection.send((slot, released[slot]))
        connection.send(to_array(numbers, stream))
    for buffer in ring or ():
        buffer.close(stream)
    stream.sync()


def produce(job, ring, *, device, stream, connection, write_frame, clock_samples):
    numbers = zeros(device, NUMBERS_OF_FRAME * job.frames, stream)
    config = LaunchConfig(grid=job.grid, block=BLOCK)
    vectors = np.uint32(job.vectors)
    sent = []
    before = clock_samples()
    connection.send(job)
    written = [None] * job.slots
    for position in range(job.frames):
        slot, released = (position, None) if position < job.slots else connection.recv()
        if released is not None:
            if job.is_host_waiting:
                released.sync()
            else:
                stream.wait(released)
        frame = job.first_frame + position
        launch(stream, config, write_frame, ring[slot], vectors, np.uint32(frame), numbers, np.uint32(position))
        sent.append(time.perf_counter_ns())
        # Keeps the event until the slot returns: by then, the consumer waits for it.
        written[slot] = stream.record(options=SHARED)
        connection.send((slot, frame, written[slot]))
        if job.interval > 0:
            time.sleep(job.interval)
    for _ in range(min(job.slots, job.frames)):
        connection.recv()[1].sync()
    read = connection.recv()
    answer(sent, to_array(numbers, stream), read, before + clock_samples())


def main():
    multiprocessing.set_start_method("spawn")
    connection, other_end = multiprocessing.Pipe()
    consumer = multiprocessing.Process(target=consume, args=(other_end,), daemon=True)
    consumer.start()
    other_end.close()
    device = Device()
    device.set_current()
    stream = device.create_stream()
    module = ObjectCode.from_ptx(str(PTX))
    write_frame, read_clock = module.get_kernel("write_frame"), module.get_kernel("read_clock")
    clock_times = zeros(device, CLOCK_SAMPLES, stream)
    one = LaunchConfig(grid=1, block=1)

    def clock_samples():
        around = sample_clocks(
            lambda position: launch(stream, one, read_clock, clock_times, np.uint32(position)), stream.sync
        )
        return list(zip(around, map(int, to_array(clock_times, stream))))

    memory = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(ipc_enabled=True))
    ring = None
    greet(device.name, f"cuda.core {version('cuda-core')}, Python {platform.python_version()}")
    for job in jobs():
        if ring is None:
            ring = [memory.allocate(job.slot_byte_length, stream=stream) for _ in range(MAXIMUM_SLOTS)]
            stream.sync()
            connection.send(ring)
        produce(
            job,
            ring,
            device=device,
            stream=stream,
            connection=connection,
            write_frame=write_frame,
            clock_samples=clock_samples,
        )
    connection.send(None)
    consumer.join()


if __name__ == "__main__":
    main()
