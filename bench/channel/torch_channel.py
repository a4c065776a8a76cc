"""
The channel benchmark with torch.multiprocessing: streams wait for events, and queues carry control messages. A ring of
tensors, with two interprocess events for each tensor, is shared once and reused. CuPy launches the kernels on torch's
streams.
"""

import platform
import time
import warnings

import cupy
import numpy as np
import torch
import torch.multiprocessing
from frames import BLOCK, CLOCK_SAMPLES, NUMBERS_OF_FRAME, PTX, answer, greet, jobs, sample_clocks

MAXIMUM_SLOTS = 4


def zeros(count):
    return torch.zeros(count, dtype=torch.int64, device="cuda")


def address_of(tensor):
    return np.uint64(tensor.data_ptr())


def to_array(tensor):
    return tensor.cpu().numpy().view(np.uint64)


def cupy_stream(stream):
    with warnings.catch_warnings():
        # CuPy 14 has a newer function for this, which older versions lack.
        warnings.simplefilter("ignore", DeprecationWarning)
        return cupy.cuda.ExternalStream(stream.cuda_stream)


def interprocess_events():
    return [torch.cuda.Event(interprocess=True) for _ in range(MAXIMUM_SLOTS)]


def consume(frames, releases):
    stream = torch.cuda.Stream()
    read_frame = cupy.RawModule(path=str(PTX)).get_function("read_frame")
    released = interprocess_events()
    releases.put(released)
    ring, written = frames.get()
    addresses = [address_of(tensor) for tensor in ring]
    with torch.cuda.stream(stream), cupy_stream(stream):
        while (job := frames.get()) is not None:
            numbers = zeros(NUMBERS_OF_FRAME * job.frames)
            address, vectors = address_of(numbers), np.uint32(job.vectors)
            for position in range(job.frames):
                slot, frame = frames.get()
                written[slot].wait(stream)
                arguments = (addresses[slot], vectors, np.uint32(frame), address, np.uint32(position))
                read_frame((job.grid,), (BLOCK,), arguments)
                released[slot].record(stream)
                releases.put(slot)
            releases.put(to_array(numbers))


def produce(job, *, addresses, written, released, stream, frames, releases, write_frame, clock_samples):
    numbers = zeros(NUMBERS_OF_FRAME * job.frames)
    address, vectors = address_of(numbers), np.uint32(job.vectors)
    sent = []
    before = clock_samples()
    frames.put(job)
    for position in range(job.frames):
        slot = position if position < job.slots else releases.get()
        if job.is_host_waiting:
            released[slot].synchronize()
        else:
            released[slot].wait(stream)
        frame = job.first_frame + position
        write_frame((job.grid,), (BLOCK,), (addresses[slot], vectors, np.uint32(frame), address, np.uint32(position)))
        sent.append(time.perf_counter_ns())
        written[slot].record(stream)
        frames.put((slot, frame))
        if job.interval > 0:
            time.sleep(job.interval)
    for _ in range(min(job.slots, job.frames)):
        releases.get()
    read = releases.get()
    answer(sent, to_array(numbers), read, before + clock_samples())


def main():
    context = torch.multiprocessing.get_context("spawn")
    frames, releases = context.SimpleQueue(), context.SimpleQueue()
    consumer = context.Process(target=consume, args=(frames, releases), daemon=True)
    consumer.start()
    stream = torch.cuda.Stream()
    module = cupy.RawModule(path=str(PTX))
    write_frame, read_clock = module.get_function("write_frame"), module.get_function("read_clock")
    released = releases.get()
    written = interprocess_events()
    ring = None
    versions = f"torch {torch.__version__}, CuPy {cupy.__version__}, Python {platform.python_version()}"
    greet(torch.cuda.get_device_name(), versions)
    with torch.cuda.stream(stream), cupy_stream(stream):
        clock_times = zeros(CLOCK_SAMPLES)

        def clock_samples():
            around = sample_clocks(
                lambda position: read_clock((1,), (1,), (address_of(clock_times), np.uint32(position))),
                stream.synchronize,
            )
            return list(zip(around, map(int, to_array(clock_times))))

        for job in jobs():
            if ring is None:
                ring = [
                    torch.empty(job.slot_byte_length, dtype=torch.uint8, device="cuda") for _ in range(MAXIMUM_SLOTS)
                ]
                stream.synchronize()
                frames.put((ring, written))
            produce(
                job,
                addresses=[address_of(tensor) for tensor in ring],
                written=written,
                released=released,
                stream=stream,
                frames=frames,
                releases=releases,
                write_frame=write_frame,
                clock_samples=clock_samples,
            )
    frames.put(None)
    consumer.join()


if __name__ == "__main__":
    main()
