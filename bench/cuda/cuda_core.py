"""Measures calls with cuda.core, and with cuda.bindings for calls that cuda.core lacks."""

import platform
from importlib.metadata import version

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
    import numpy as np
    from cuda.bindings import driver
    from cuda.core import (
        Buffer,
        Device,
        DeviceMemoryResource,
        DeviceMemoryResourceOptions,
        LaunchConfig,
        LegacyPinnedMemoryResource,
        ObjectCode,
        launch,
    )
except ImportError as error:
    report_missing_package(error)

HAS_PROPERTIES = hasattr(Buffer, "ipc_descriptor")


def checked(result):
    error, *values = result
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(error))
    return values[0] if values else None


def descriptor_of(buffer):
    """The descriptor is a property since version 1.0."""
    return buffer.ipc_descriptor if HAS_PROPERTIES else buffer.get_ipc_descriptor()


def create_pool(device, *, is_shared=False):
    pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(ipc_enabled=is_shared))
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    checked(driver.cuMemPoolSetAttribute(pool.handle, threshold, driver.cuuint64_t(2**64 - 1)))
    return pool


class Bench(TimedCalls):
    def __init__(self):
        self.device = Device()
        self.device.set_current()
        self.streams = [self.device.create_stream() for _ in range(STREAMS)]
        self.stream = self.streams[0]
        self.pool = create_pool(self.device)
        self.module = ObjectCode.from_ptx(str(PTX))
        self.host_memory = {}
        self.shared = None

    def works(self):
        return {
            "allocate-free": self.allocate_free,
            "allocate-free-random": self.allocate_free_random,
            "launch-0": lambda request: self.launch(request, "empty_0", ()),
            "launch-3": lambda request: self.launch(request, "empty_3", self.numbers(1)),
            "launch-12": lambda request: self.launch(request, "empty_12", self.numbers(4)),
            "graph-instantiate": self.graph_instantiate,
            "graph-launch": self.graph_launch,
            "kernels-launch": self.kernels_launch,
            "graph-update": self.graph_update,
            "event-record": self.event_record,
            "stream-wait": self.stream_wait,
            "copy-to-device": self.copy_to_device,
            "copy-to-host": self.copy_to_host,
            "copy-on-device": self.copy_on_device,
            "fill-kernel": self.fill_kernel,
            "copy-kernel": self.copy_kernel,
            "export-pointer": self.export_pointer,
            "import-pointer": self.import_pointer,
            "free-import": self.free_import,
        }

    def synchronize(self):
        for stream in self.streams:
            stream.sync()

    def finish(self):
        self.stream.sync()

    def allocate_free(self, request):
        size, count = request["byteLength"], request["streams"]
        allocate, streams = self.pool.allocate, self.streams

        def run(operations):
            for i in range(operations):
                # By default, close() frees on the stream of the allocation.
                allocate(size, stream=streams[i % count]).close()

        return time_batches(request, run, settle=self.synchronize)

    def allocate_free_random(self, request):
        allocate = self.pool.allocate
        return time_random_allocations(
            request,
            self.streams,
            allocate=lambda size, stream: allocate(size, stream=stream),
            # By default, close() frees on the stream of the allocation.
            free=lambda buffer: buffer.close(),
            settle=self.synchronize,
        )

    def numbers(self, count):
        """Returns arguments for the kernels: `count` addresses, floats and integers each."""
        self.argument = self.pool.allocate(1024, stream=self.stream)
        return (self.argument,) * count + (np.float32(2.5),) * count + (np.uint32(1024),) * count

    def launch(self, request, name, arguments):
        kernel, config, stream = self.module.get_kernel(name), LaunchConfig(grid=1, block=1), self.stream
        return self.time_calls(request, launch, stream, config, kernel, *arguments)

    def graph(self, request):
        """Returns a finished graph builder with kernels that do nothing."""
        kernel, config = self.module.get_kernel("empty_3"), LaunchConfig(grid=1, block=1)
        arguments = self.numbers(1)
        builder = self.device.create_graph_builder().begin_building("relaxed")
        for _ in range(request["kernels"]):
            launch(builder, config, kernel, *arguments)
        return builder.end_building()

    def graph_instantiate(self, request):
        graph = self.graph(request)
        return self.time_calls(request, lambda: graph.complete().close())

    def graph_launch(self, request):
        graph = self.graph(request).complete()
        graph.upload(self.stream)
        return self.time_calls(request, graph.launch, self.stream)

    def kernels_launch(self, request):
        kernel, config, stream = self.module.get_kernel("empty_3"), LaunchConfig(grid=1, block=1), self.stream
        arguments, kernels = self.numbers(1), range(request["kernels"])

        def launch_all():
            for _ in kernels:
                launch(stream, config, kernel, *arguments)

        return self.time_calls(request, launch_all)

    def graph_update(self, request):
        graph, other = self.graph(request).complete(), self.graph(request)
        return self.time_calls(request, graph.update, other)

    def event_record(self, request):
        # By default, events have no timing.
        event = self.stream.record()
        return self.time_calls(request, self.stream.record, event)

    def stream_wait(self, request):
        event = self.streams[1].record()
        return self.time_calls(request, self.stream.wait, event)

    def host(self, memory, size):
        """Returns host memory, which is kept from round to round, because allocating it takes long."""
        key = (memory, size)
        if key not in self.host_memory:
            if memory == "pinned":
                buffer = LegacyPinnedMemoryResource().allocate(size)
                checked(driver.cuMemsetD8(int(buffer.handle), 1, size))
                self.host_memory[key] = buffer
            else:
                self.host_memory[key] = np.ones(size, dtype=np.uint8)
        return self.host_memory[key]

    def copy_to_device(self, request):
        memory, size, stream = request["memory"], request["byteLength"], self.stream
        source = self.host(memory, size)
        target = self.pool.allocate(size, stream=stream)
        address, handle = int(target.handle), stream.handle

        def copy_pinned():
            target.copy_from(source, stream=stream)
            stream.sync()

        def copy_pageable():
            checked(driver.cuMemcpyHtoDAsync(address, source.ctypes.data, size, handle))
            stream.sync()

        times = self.time_calls(request, copy_pinned if memory == "pinned" else copy_pageable)
        target.close(stream)
        return times

    def copy_to_host(self, request):
        memory, size, stream = request["memory"], request["byteLength"], self.stream
        source = self.pool.allocate(size, stream=stream)
        address, handle = int(source.handle), stream.handle
        results = []

        def copy_pinned():
            source.copy_to(target, stream=stream)
            stream.sync()

        def copy_pageable():
            result = np.empty(size, dtype=np.uint8)
            results.append(result)
            checked(driver.cuMemcpyDtoHAsync(result.ctypes.data, address, size, handle))
            stream.sync()

        def run(operations):
            for _ in range(operations):
                copy()

        target = self.host(memory, size) if memory == "pinned" else None
        copy = copy_pinned if memory == "pinned" else copy_pageable
        times = time_batches(request, run, settle=results.clear)
        source.close(stream)
        return times

    def copy_on_device(self, request):
        size, stream = request["byteLength"], self.stream
        source, target = (self.pool.allocate(size, stream=stream) for _ in range(2))
        times = self.time_until_done(request, lambda: target.copy_from(source, stream=stream))
        source.close(stream)
        target.close(stream)
        return times

    def fill_kernel(self, request):
        size, stream = request["byteLength"], self.stream
        count = size // VECTOR_BYTE_LENGTH
        target = self.pool.allocate(size, stream=stream)
        kernel, config = self.module.get_kernel("fill_vectors"), LaunchConfig(grid=-(-count // BLOCK), block=BLOCK)
        arguments = (target, np.uint32(count), np.uint32(7))
        times = self.time_until_done(request, lambda: launch(stream, config, kernel, *arguments))
        target.close(stream)
        return times

    def copy_kernel(self, request):
        size, stream = request["byteLength"], self.stream
        count = size // VECTOR_BYTE_LENGTH
        source, target = (self.pool.allocate(size, stream=stream) for _ in range(2))
        kernel, config = self.module.get_kernel("copy_vectors"), LaunchConfig(grid=-(-count // BLOCK), block=BLOCK)
        arguments = (target, source, np.uint32(count))
        times = self.time_until_done(request, lambda: launch(stream, config, kernel, *arguments))
        source.close(stream)
        target.close(stream)
        return times

    def shared_pools(self):
        """Returns a pool and its import into this process.

        cuda.core imports a pool of the same process only if it receives a number instead of a handle object.
        """
        if self.shared is None:
            pool = create_pool(self.device, is_shared=True)
            handle = pool.allocation_handle if HAS_PROPERTIES else pool.get_allocation_handle()
            self.shared = pool, DeviceMemoryResource.from_allocation_handle(self.device, int(handle))
        return self.shared

    def allocate_shared(self, request):
        pool, _ = self.shared_pools()
        buffers = [pool.allocate(request["byteLength"], stream=self.stream) for _ in range(request["batch"])]
        self.stream.sync()
        return buffers

    def free(self, buffers):
        for buffer in buffers:
            buffer.close(self.stream)
        buffers.clear()
        self.stream.sync()

    def export_pointer(self, request):
        buffers = []

        def run(operations):
            for buffer in buffers:
                descriptor_of(buffer)

        return time_batches(
            request,
            run,
            prepare=lambda: buffers.extend(self.allocate_shared(request)),
            settle=lambda: self.free(buffers),
        )

    def time_imports(self, request, is_import_timed):
        buffers = self.allocate_shared(request)
        exported = [descriptor_of(buffer) for buffer in buffers]
        _, imported = self.shared_pools()
        mapped = []

        def import_all(operations=0):
            for descriptor in exported:
                mapped.append(Buffer.from_ipc_descriptor(imported, descriptor, stream=self.stream))

        def free_all(operations=0):
            for buffer in mapped:
                buffer.close(self.stream)

        def settle():
            if is_import_timed:
                free_all()
            mapped.clear()
            self.stream.sync()

        times = (
            time_batches(request, import_all, settle=settle)
            if is_import_timed
            else time_batches(request, free_all, prepare=import_all, settle=settle)
        )
        self.free(buffers)
        return times

    def import_pointer(self, request):
        return self.time_imports(request, True)

    def free_import(self, request):
        return self.time_imports(request, False)


def main():
    bench = Bench()
    device = checked(driver.cuDeviceGet(bench.device.device_id))
    answer_requests(
        name="cuda.core",
        device=bench.device.name,
        uuid=format_uuid(bytes(checked(driver.cuDeviceGetUuid(device)).bytes)),
        versions=f"cuda.core {version('cuda-core')}, Python {platform.python_version()}",
        works=bench.works(),
    )


if __name__ == "__main__":
    main()
