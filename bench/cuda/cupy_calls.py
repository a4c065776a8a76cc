"""Measures calls with CuPy."""

import platform

from calls import (
    BLOCK,
    PTX,
    STREAMS,
    VECTOR_BYTE_LENGTH,
    TimedCalls,
    answer_requests,
    format_uuid,
    report_missing_package,
    time_batches,
    time_random_allocations,
)

try:
    import cupy
    import numpy as np
except ImportError as error:
    report_missing_package(error)


class Bench(TimedCalls):
    def __init__(self):
        self.streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
        self.stream = self.streams[0]
        # By default, the pool keeps its memory.
        self.pool = cupy.cuda.MemoryAsyncPool()
        self.cache = cupy.cuda.MemoryPool()
        cupy.cuda.set_allocator(self.pool.malloc)
        self.module = cupy.RawModule(path=str(PTX))
        self.host_memory = {}
        self.stream.use()

    def works(self):
        return {
            "allocate-free": lambda request: self.allocate_free(request, self.pool.malloc),
            "allocate-free-cached": lambda request: self.allocate_free(request, self.cache.malloc),
            "allocate-free-random": lambda request: self.allocate_free_random(request, self.pool.malloc),
            "allocate-free-random-cached": lambda request: self.allocate_free_random(request, self.cache.malloc),
            "launch-0": lambda request: self.launch(request, "empty_0", ()),
            "launch-3": lambda request: self.launch(request, "empty_3", self.numbers(1)),
            "launch-12": lambda request: self.launch(request, "empty_12", self.numbers(4)),
            "graph-launch": self.graph_launch,
            "kernels-launch": self.kernels_launch,
            "event-record": self.event_record,
            "stream-wait": self.stream_wait,
            "copy-to-device": self.copy_to_device,
            "copy-to-host": self.copy_to_host,
            "copy-on-device": self.copy_on_device,
            "copy-rows": self.copy_rows,
            "fill-kernel": self.fill_kernel,
            "copy-kernel": self.copy_kernel,
        }

    def synchronize(self):
        for stream in self.streams:
            stream.synchronize()

    def finish(self):
        self.stream.synchronize()

    def allocate_free(self, request, allocate):
        size, streams = request["byteLength"], self.streams[: request["streams"]]

        def run_on_one(operations):
            for _ in range(operations):
                allocate(size)

        def run_on_all(operations):
            for i in range(operations):
                streams[i % len(streams)].use()
                allocate(size)

        try:
            return time_batches(request, run_on_one if len(streams) == 1 else run_on_all, settle=self.synchronize)
        finally:
            self.stream.use()
            self.cache.free_all_blocks()

    def allocate_free_random(self, request, allocate):
        def allocate_on(size, stream):
            stream.use()
            return allocate(size)

        try:
            return time_random_allocations(
                request,
                self.streams,
                allocate=allocate_on,
                # Both pools free memory on the stream of its allocation when it has no more references.
                free=lambda buffer: None,
                settle=self.synchronize,
            )
        finally:
            self.stream.use()
            self.cache.free_all_blocks()

    def numbers(self, count):
        """Returns arguments for the kernels: `count` addresses, floats and integers each."""
        array = cupy.empty(256, dtype=cupy.uint32)
        return (array,) * count + (np.float32(2.5),) * count + (np.uint32(1024),) * count

    def launch(self, request, name, arguments):
        kernel = self.module.get_function(name)
        return self.time_calls(request, kernel, (1,), (1,), arguments)

    def graph_launch(self, request):
        kernel, arguments = self.module.get_function("empty_3"), self.numbers(1)
        self.stream.begin_capture()
        for _ in range(request["kernels"]):
            kernel((1,), (1,), arguments)
        graph = self.stream.end_capture()
        graph.upload(self.stream)
        return self.time_calls(request, graph.launch, self.stream)

    def kernels_launch(self, request):
        kernel, arguments, kernels = self.module.get_function("empty_3"), self.numbers(1), range(request["kernels"])

        def launch_all():
            for _ in kernels:
                kernel((1,), (1,), arguments)

        return self.time_calls(request, launch_all)

    def event_record(self, request):
        event = cupy.cuda.Event(disable_timing=True)
        return self.time_calls(request, event.record, self.stream)

    def stream_wait(self, request):
        event = cupy.cuda.Event(disable_timing=True)
        event.record(self.streams[1])
        return self.time_calls(request, self.stream.wait_event, event)

    def host(self, memory, size):
        """Returns host memory, which is kept from round to round, because allocating it takes long."""
        key = (memory, size)
        if key not in self.host_memory:
            if memory == "pinned":
                array = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), dtype=np.uint8, count=size)
                array.fill(1)
                self.host_memory[key] = array
            else:
                self.host_memory[key] = np.ones(size, dtype=np.uint8)
        return self.host_memory[key]

    def copy_to_device(self, request):
        source = self.host(request["memory"], request["byteLength"])
        target = cupy.empty(request["byteLength"], dtype=cupy.uint8)

        def copy():
            target.set(source, self.stream)
            self.stream.synchronize()

        return self.time_calls(request, copy)

    def copy_to_host(self, request):
        memory, size = request["memory"], request["byteLength"]
        source = cupy.empty(size, dtype=cupy.uint8)
        target = self.host(memory, size) if memory == "pinned" else None
        results = []

        def run(operations):
            for _ in range(operations):
                if target is None:
                    results.append(source.get(self.stream))
                else:
                    source.get(self.stream, out=target)

        return time_batches(request, run, settle=results.clear)

    def copy_on_device(self, request):
        source, target = (cupy.empty(request["byteLength"], dtype=cupy.uint8) for _ in range(2))
        return self.time_until_done(
            request, lambda: target.data.copy_from_device_async(source.data, source.nbytes, self.stream)
        )

    def copy_rows(self, request):
        pitch, width, height = 1024, 256, 64
        source, target = (cupy.empty(pitch * height, dtype=cupy.uint8) for _ in range(2))
        arguments = (target.data.ptr + 512, pitch, source.data.ptr + 256, pitch, width, height)
        kind, stream = cupy.cuda.runtime.memcpyDeviceToDevice, self.stream.ptr
        return self.time_calls(request, cupy.cuda.runtime.memcpy2DAsync, *arguments, kind, stream)

    def fill_kernel(self, request):
        target = cupy.empty(request["byteLength"], dtype=cupy.uint8)
        count = target.nbytes // VECTOR_BYTE_LENGTH
        kernel, grid = self.module.get_function("fill_vectors"), (-(-count // BLOCK),)
        arguments = (target, np.uint32(count), np.uint32(7))
        return self.time_until_done(request, lambda: kernel(grid, (BLOCK,), arguments))

    def copy_kernel(self, request):
        source, target = (cupy.empty(request["byteLength"], dtype=cupy.uint8) for _ in range(2))
        count = target.nbytes // VECTOR_BYTE_LENGTH
        kernel, grid = self.module.get_function("copy_vectors"), (-(-count // BLOCK),)
        arguments = (target, source, np.uint32(count))
        return self.time_until_done(request, lambda: kernel(grid, (BLOCK,), arguments))


def main():
    bench = Bench()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    answer_requests(
        name="CuPy",
        device=properties["name"].decode(),
        uuid=format_uuid(properties["uuid"]),
        versions=f"CuPy {cupy.__version__}, Python {platform.python_version()}",
        works=bench.works(),
    )


if __name__ == "__main__":
    main()
