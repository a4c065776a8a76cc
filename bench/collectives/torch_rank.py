"""
A rank that measures all-reduces of torch.distributed with NCCL, in the rounds of native.cu.

    torch_rank.py RENDEZVOUS SIZES ITERATIONS, with RANK and WORLD_SIZE in the environment

RENDEZVOUS is the path of a file that does not exist yet, the same for all ranks. Rank 0 prints {"version"}, and then a
line of JSON for each size in bytes, {"byteLength", "microseconds"}, the median of the rounds, and for small ones
"waitedMicroseconds", if each all-reduce is waited for.
"""

import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed

ROUNDS = 7
WARM_UPS = 5
# In bytes: whether smaller ones are waited for one by one matters.
LEAST_LARGE = 2**20


def main():
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rendezvous, sizes, iterations = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=world_size,
        timeout=datetime.timedelta(seconds=60),
    )
    if rank == 0:
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        print(json.dumps({"version": f"torch {torch.__version__}, NCCL {nccl}"}), flush=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for byte_length in map(int, sizes):
            # PyTorch's all_reduce is always in place.
            tensor = torch.zeros(byte_length // 4, dtype=torch.float32, device="cuda")
            count = max(5, min(iterations, iterations * 2**22 // byte_length))

            def repeat(count):
                for _ in range(count):
                    torch.distributed.all_reduce(tensor)
                stream.synchronize()

            def measure_round(count, repeats):
                repeat(1)
                begin = time.perf_counter()
                for _ in range(repeats):
                    repeat(count)
                return (time.perf_counter() - begin) * 1e6 / repeats / count

            repeat(WARM_UPS)
            times, waited_times = [], []
            for _ in range(ROUNDS):
                times.append(measure_round(count, 1))
                if byte_length < LEAST_LARGE:
                    waited_times.append(measure_round(1, count))
            if rank == 0:
                line = {"byteLength": byte_length, "microseconds": statistics.median(times)}
                if waited_times:
                    line["waitedMicroseconds"] = statistics.median(waited_times)
                print(json.dumps(line), flush=True)
            del tensor
            torch.cuda.empty_cache()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
