"""
Measures calls with PyTorch. Its memory comes from a pool of CUDA if PYTORCH_CUDA_ALLOC_CONF is
`backend:cudaMallocAsync`, and from its own cache otherwise.
"""

import os
import platform

from calls import (
    STREAMS,
    TimedCalls,
    answer_requests,
    report_missing_package,
    time_batches,
    time_random_allocations,
)

try:
    import torch
except ImportError as error:
    report_missing_package(error)


class Bench(TimedCalls):
    def __init__(self):
        self.uses_pool = "cudaMallocAsync" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        self.streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self.stream = self.streams[0]
        self.host_memory = {}
        torch.cuda.set_stream(self.stream)

    def works(self):
        if not self.uses_pool:
            return {
                "graph-launch": self.graph_launch,
                "kernels-launch": self.kernels_launch,
                "allocate-free-cached": self.allocate_free,
                "allocate-free-random-cached": self.allocate_free_random,
            }
        works = {
            "allocate-free": self.allocate_free,
            "allocate-free-random": self.allocate_free_random,
            "event-record": self.event_record,
            "stream-wait": self.stream_wait,
            "copy-to-device": self.copy_to_device,
            "copy-to-host": self.copy_to_host,
            "copy-on-device": self.copy_on_device,
        }
        if torch.cuda.device_count() > 1 and torch.cuda.can_device_access_peer(0, 1):
            works["peer-copy"] = self.peer_copy
        return works

    def synchronize(self):
        torch.cuda.synchronize()

    def finish(self):
        self.stream.synchronize()

    def allocate_free(self, request):
        size, streams = request["byteLength"], self.streams[: request["streams"]]
        empty, uint8, set_stream = torch.empty, torch.uint8, torch.cuda.set_stream

        def run_on_one(operations):
            for _ in range(operations):
                empty(size, dtype=uint8, device="cuda")

        def run_on_all(operations):
            for i in range(operations):
                set_stream(streams[i % len(streams)])
                empty(size, dtype=uint8, device="cuda")

        try:
            return time_batches(request, run_on_one if len(streams) == 1 else run_on_all, settle=self.synchronize)
        finally:
            set_stream(self.stream)
            if not self.uses_pool:
                torch.cuda.empty_cache()

    def allocate_free_random(self, request):
        allocate = torch.cuda.caching_allocator_alloc
        try:
            return time_random_allocations(
                request,
                # Handles, so that the allocator need not look them up in each call.
                [stream.cuda_stream for stream in self.streams],
                allocate=lambda size, stream: allocate(size, 0, stream),
                free=torch.cuda.caching_allocator_delete,
                settle=self.synchronize,
            )
        finally:
            if not self.uses_pool:
                torch.cuda.empty_cache()

    def graph_launch(self, request):
        """PyTorch has no kernels that do nothing: adds 1 to one number."""
        number, kernels = torch.zeros(1, device="cuda"), range(request["kernels"])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for _ in kernels:
                number.add_(1)
        return self.time_calls(request, graph.replay)

    def kernels_launch(self, request):
        number, kernels = torch.zeros(1, device="cuda"), range(request["kernels"])

        def launch_all():
            for _ in kernels:
                number.add_(1)

        return self.time_calls(request, launch_all)

    def event_record(self, request):
        event = torch.cuda.Event()
        return self.time_calls(request, event.record, self.stream)

    def stream_wait(self, request):
        event = torch.cuda.Event()
        event.record(self.streams[1])
        return self.time_calls(request, self.stream.wait_event, event)

    def host(self, memory, size):
        """Returns host memory, which is kept from round to round, because allocating it takes long."""
        key = (memory, size)
        if key not in self.host_memory:
            self.host_memory[key] = torch.ones(size, dtype=torch.uint8, pin_memory=memory == "pinned")
        return self.host_memory[key]

    def copy_to_device(self, request):
        source = self.host(request["memory"], request["byteLength"])
        target = torch.empty(request["byteLength"], dtype=torch.uint8, device="cuda")

        def copy():
            target.copy_(source, non_blocking=True)
            self.stream.synchronize()

        return self.time_calls(request, copy)

    def copy_to_host(self, request):
        memory, size = request["memory"], request["byteLength"]
        source = torch.empty(size, dtype=torch.uint8, device="cuda")
        target = self.host(memory, size) if memory == "pinned" else None
        results = []

        def run(operations):
            for _ in range(operations):
                if target is None:
                    results.append(source.cpu())
                else:
                    target.copy_(source, non_blocking=True)
                    self.stream.synchronize()

        return time_batches(request, run, settle=results.clear)

    def copy_on_device(self, request):
        source, target = (torch.empty(request["byteLength"], dtype=torch.uint8, device="cuda") for _ in range(2))
        return self.time_until_done(request, lambda: target.copy_(source, non_blocking=True))

    def peer_copy(self, request):
        source, target = (
            torch.empty(request["byteLength"], dtype=torch.uint8, device=f"cuda:{index}") for index in range(2)
        )
        torch.cuda.synchronize(1)
        return self.time_until_done(request, lambda: target.copy_(source, non_blocking=True))


def main():
    bench = Bench()
    properties = torch.cuda.get_device_properties(0)
    answer_requests(
        name="PyTorch",
        device=properties.name,
        uuid=f"GPU-{properties.uuid}",
        versions=f"torch {torch.__version__}, Python {platform.python_version()}",
        works=bench.works(),
    )


if __name__ == "__main__":
    main()
