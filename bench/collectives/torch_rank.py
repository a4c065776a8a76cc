"""
A rank that measures all-reduces of torch.distributed with NCCL, in the rounds of native.cu.

    torch_rank.py RENDEZVOUS SIZES ITERATIONS, with RANK and WORLD_SIZE in the environment

RENDEZVOUS is the path of a file that does not exist yet, the same for all ranks. Rank 0 prints {"version"}, and then a
line of JSON for each size in bytes, {"byteLength", "microseconds"}: the median of the rounds.
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
            for _ in range(WARM_UPS):
                torch.distributed.all_reduce(tensor)
            stream.synchronize()
            times = []
            for _ in range(ROUNDS):
                torch.distributed.all_reduce(tensor)
                stream.synchronize()
                begin = time.perf_counter()
                for _ in range(count):
                    torch.distributed.all_reduce(tensor)
                stream.synchronize()
                times.append((time.perf_counter() - begin) * 1e6 / count)
            if rank == 0:
                print(json.dumps({"byteLength": byte_length, "microseconds": statistics.median(times)}), flush=True)
            del tensor
            torch.cuda.empty_cache()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
