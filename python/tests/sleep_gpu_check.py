"""Sleep, wake, update and offload of weights on a GPU, with captured graphs. Needs PyTorch, and a running store.

python3 python/tests/sleep_gpu_check.py SOCKET [GIB] [FOLDER]
"""
from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from poolpass import SharingError, StoreClient, weights

TENSORS = 64


def timed(what: str, act: Callable[[], Any]) -> Any:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = act()
    torch.cuda.synchronize()
    print(f"{what}: {(time.perf_counter() - begin) * 1000:.2f} ms", flush=True)
    return result


def make(gib: float, value: int) -> dict[str, Any]:
    length = int(gib * 2**30 / 4 / TENSORS)
    return {f"layer.{index}": torch.full((length,), float(value + index), device="cuda") for index in range(TENSORS)}


def publish(client: StoreClient, gib: float, value: int) -> str:
    source = make(gib, value)
    with weights.publish(client, "sleep check", source) as published:
        digest = published.digest
    del source
    torch.cuda.empty_cache()
    return digest


def main() -> None:
    path, gib = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 4
    folder = sys.argv[3] if len(sys.argv) > 3 else "/dev/shm"
    with StoreClient.connect(path) as client:
        publish(client, gib, 1)
        held = timed("load", lambda: weights.load(client, "sleep check"))
        tensors = [held[f"layer.{index}"] for index in range(TENSORS)]
        addresses = [each.data_ptr() for each in tensors]
        total = torch.zeros((), device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            sum(each[-1] for each in tensors)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total.copy_(sum(each[-1] for each in tensors))

        def check(value: int) -> None:
            graph.replay()
            expected = TENSORS * value + TENSORS * (TENSORS - 1) // 2
            assert total.item() == expected, (total.item(), expected)
            assert [each.data_ptr() for each in tensors] == addresses

        check(1)
        for _ in range(3):
            timed("sleep", held.sleep)
            timed("wake", held.wake)
            check(1)
        for generation in range(2, 6):
            digest = publish(client, gib, generation)
            assert timed("update", held.update)
            check(generation)
            assert held.digest == digest
        for to in ("host", "host", folder):
            held.sleep()
            before = torch.cuda.mem_get_info()[0]
            timed(f"offload to {to}", lambda: client.offload("sleep check", to=to))
            freed = torch.cuda.mem_get_info()[0] - before
            assert freed > 0.9 * gib * 2**30, freed
            timed(f"wake from {to}", held.wake)
            check(5)
            assert timed("verify", held.verify) == digest
        publish(client, gib / 2, 1)
        try:
            held.update()
            raise AssertionError("Another layout was mapped")
        except SharingError as error:
            assert error.code == "layout-changed", error
        check(5)
        held.release()
        client.remove("sleep check")
        os.unlink(os.path.join(folder, f"sleep%20check@{digest}.safetensors"))
    print("passed")


if __name__ == "__main__":
    main()
