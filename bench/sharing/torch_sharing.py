"""Measures sharing with torch.multiprocessing: one process allocates tensors, another maps them, by way of queues."""

import platform

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
    import torch
    import torch.multiprocessing
except ImportError as error:
    report_missing_package(error)


def map_tensors(tensors, answers):
    """Maps received tensors, acknowledges them, and frees them, until the other process ends."""
    end_with_parent()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while (job := tensors.get()) is not None:
            is_mapping_acknowledged, repetitions = job
            for _ in range(repetitions):
                mapped = tensors.get()
                if is_mapping_acknowledged:
                    answers.put(None)
                del mapped
                stream.synchronize()
                answers.put(None)


def main():
    context = torch.multiprocessing.get_context("spawn")
    tensors, answers = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=map_tensors, args=(tensors, answers), daemon=True)
    process.start()
    stream = torch.cuda.Stream()

    def allocate(byte_length):
        return torch.empty(byte_length, dtype=torch.uint8, device="cuda")

    def share_one(request):
        byte_length = request.get("byteLength", 64 * 2**20)
        warm_up = request.get("warmUp", WARM_UP_OF_ONE)
        tensors.put((False, warm_up + request["repetitions"]))

        def share():
            start = now()
            tensor = allocate(byte_length)
            stream.synchronize()
            tensors.put([tensor])
            answers.get()
            return now() - start

        return samples(request, warm_up, share)

    def share_thousand(request):
        byte_length = request.get("byteLength", 64 * 2**10)
        warm_up = request.get("warmUp", WARM_UP_OF_THOUSAND)
        tensors.put((True, warm_up + request["repetitions"]))

        def share():
            shared = [allocate(byte_length) for _ in range(request.get("count", 1000))]
            stream.synchronize()
            start = now()
            tensors.put(shared)
            answers.get()
            elapsed = now() - start
            answers.get()
            return elapsed

        return samples(request, warm_up, share)

    with torch.cuda.stream(stream):
        answer_requests(
            name="torch.multiprocessing",
            device=torch.cuda.get_device_name(),
            uuid=str(torch.cuda.get_device_properties(0).uuid),
            versions=f"torch {torch.__version__}, Python {platform.python_version()}",
            works={
                "share-one": share_one,
                "share-one-offer": share_one,
                "share-thousand": share_thousand,
            },
        )
    tensors.put(None)
    process.join(5)


if __name__ == "__main__":
    main()
