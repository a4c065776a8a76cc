#!/usr/bin/env python3
"""Checks models that sleep, leave the device and come back, and that are updated, while processes use them. Prints a
line for each check.

    python3 python/tests/traffic_gpu_check.py [--size MIB] [--cycles COUNT] [--generations COUNT] [NAME...]

Needs PyTorch, `deno` on the PATH (or its path in POOLPASS_DENO), and a GPU with cuda-bindings, or
POOLPASS_DRIVER=software. NAME selects checks whose name contains it.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from typing import Any, Callable

import decoder
import torch
from checking import CONTEXT, DRIVER, MIB, SHARED, TIMEOUT, Remote, Store, cli, connect, run_checks, wait_until
from poolpass import SharingError, weights

LIMIT = 180.0
PROMPTS = 8
# Cycles until what is allocated once has been allocated, and the growth after that which is tolerated.
WARM = 20
SLACK = 48 * MIB
TENSORS = 32


def answer_prompts(path: str, layers: int) -> dict[str, Callable[..., Any]]:
    """A process with a model of the store, and a graph that was captured before anything happens to it."""
    client = connect(path)
    model, held = decoder.load(client, "chat", layers)
    given = decoder.tokens()
    buffer = given.clone()
    step = decoder.captured(lambda: model(buffer).argmax(-1))

    def answer(prompt: int) -> tuple[str, str]:
        buffer.copy_((given + prompt) % decoder.VOCABULARY)
        for _ in range(4):
            buffer.copy_(step())
        with torch.no_grad():
            return decoder.digest_of(buffer), decoder.digest_of(model(buffer))

    def usage() -> dict[str, int]:
        return usage_of(os.getpid())

    return {
        "answer": answer, "sleep": held.sleep, "wake": held.wake, "usage": usage,
        "is_asleep": lambda: held.is_asleep, "addresses": lambda: [each.data_ptr() for each in model.parameters()],
    }


def follow(path: str) -> dict[str, Callable[..., Any]]:
    """A process with a graph that computes the least and the greatest of all values of some weights."""
    client = connect(path)
    held = weights.load(client, "numbers", timeout=TIMEOUT)
    tensors = list(held.values())
    find = decoder.captured(lambda: torch.stack([torch.stack([each.min(), each.max()]) for each in tensors]))

    def replay() -> tuple[float, float]:
        found = find()
        return float(found.min()), float(found.max())

    def until(generation: int) -> list[int]:
        """Updates until a generation, and returns those that were seen."""
        seen = []
        while held.generation < generation:
            held.update(timeout=TIMEOUT)
            for _ in range(3):
                found = replay()
                assert found == (held.generation, held.generation), f"{found} in generation {held.generation}"
            seen.append(held.generation)
        return seen

    return {"until": until, "replay": replay, "update": lambda: held.update(timeout=TIMEOUT)}


def create_only(path: str, nbytes: int, metadata: Any) -> dict[str, Callable[..., Any]]:
    """A process that writes memory and does not publish it."""
    client = connect(path)

    def create() -> None:
        create.memory = client.create("numbers", nbytes, metadata=metadata)  # type: ignore[attr-defined]
        create.memory.array.write(b"\xff" * min(nbytes, MIB))  # type: ignore[attr-defined]

    return {"create": create}


def usage_of(pid: int) -> dict[str, int]:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file)
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as file:
        mappings = len(file.readlines())
    return {
        "memory": int(rows["RssAnon"].split()[0]) * 1024, "mappings": mappings,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
    }


def host_memory(store: Store) -> int:
    """Returns how much host memory a store has for what was moved from the device."""
    total = 0
    for each in os.listdir(f"/proc/{store.process.pid}/fd"):
        path = f"/proc/{store.process.pid}/fd/{each}"
        try:
            if os.readlink(path).startswith("/memfd:poolpass-host"):
                total += os.stat(path).st_blocks * 512
        except FileNotFoundError:
            pass
    return total


def fill_device() -> list[Any]:
    """Allocates nearly all memory of the device."""
    filled, piece = [], 2**50
    while (free := torch.cuda.mem_get_info()[0] - 40 * MIB) > 8 * MIB and piece > 2 * MIB:
        try:
            filled.append(torch.empty(min(piece, free), dtype=torch.uint8, device=decoder.DEVICE))
        except torch.OutOfMemoryError:
            piece = min(piece, free) // 2
    return filled


class Check:
    def __init__(self, folder: str, given: Any):
        self.folder, self.cycles_count, self.generations_count = folder, given.cycles, given.generations
        self.size = given.size * MIB
        self.layers = decoder.layers_of(self.size)

    def cycles(self) -> str:
        """A model that sleeps in two processes makes room for another one, and is the same when it comes back."""
        model, other = decoder.make(self.layers), decoder.make(self.layers, seed=2)
        nbytes = sum(each.nbytes for each in model.parameters())
        # The store has room for one of them.
        limit = 3 * MIB * -(-nbytes // (2 * MIB))
        store = Store(os.path.join(self.folder, "limited.sock"), "--limit", str(limit))
        try:
            client = store.connect()
            weights.publish(client, "chat", model).release()
            processes = [Remote(answer_prompts, store.path, self.layers) for _ in range(2)]
            first, second = processes
            expected = [first.call("answer", prompt) for prompt in range(PROMPTS)]
            assert expected == [second.call("answer", prompt) for prompt in range(PROMPTS)]
            assert len(set(expected)) > PROMPTS // 2
            addresses = [each.call("addresses") for each in processes]
            before: list[Any] = []
            for cycle in range(self.cycles_count):
                prompt = cycle % PROMPTS
                # The second process answers while the first one falls asleep.
                second.begin("answer", prompt)
                first.call("sleep")
                assert second.finish() == expected[prompt], cycle
                if cycle % 10 == 0:
                    try:
                        client.offload("chat")
                        raise AssertionError("What is mapped was moved")
                    except SharingError as error:
                        assert error.code == "in-use" and str(second.pid) in str(error), error
                second.call("sleep")
                client.offload("chat")
                assert host_memory(store) >= nbytes
                weights.publish(client, "other", other).release()
                if cycle % 10 == 0:
                    try:
                        first.call("wake", 0.1)
                        raise AssertionError("There is no room")
                    except SharingError as error:
                        assert error.code == "timed-out", error
                    assert first.call("is_asleep")
                client.remove("other")
                for each in processes:
                    each.begin("wake", TIMEOUT)
                for each in processes:
                    each.finish()
                for each in processes:
                    each.begin("answer", prompt)
                for index, each in enumerate(processes):
                    assert each.finish() == expected[prompt], (cycle, index)
                    assert each.call("addresses") == addresses[index], (cycle, index)
                if cycle == min(WARM, self.cycles_count - 1):
                    before = self.used(store, processes)
            after = self.used(store, processes)
            growth = [
                {name: value - old[name] for name, value in new.items()} for old, new in zip(before, after)
            ]
            for each in growth:
                assert each["memory"] <= SLACK and each.get("device", 0) <= SLACK, growth
                assert each["descriptors"] <= 4 and each.get("mappings", 0) <= 64, growth
            for each in processes:
                each.kill()
            return f"{self.cycles_count} cycles of {nbytes / MIB:.0f} MiB, growth {growth}"
        finally:
            store.close()

    def used(self, store: Store, processes: list[Remote]) -> list[dict[str, int]]:
        """Returns what the processes, the store and the device use."""
        wait_until(lambda: host_memory(store) == 0, "Host memory is left")
        device = torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0] if decoder.IS_CUDA else 0
        own = {**usage_of(store.process.pid), "device": device}
        # The collector of the store's runtime changes these by itself.
        del own["mappings"]
        return [*(each.call("usage") for each in processes), own]

    def full_device(self) -> str:
        """A model does not wake while other programs use all memory of the device, and does when they release it."""
        if not decoder.IS_CUDA:
            return "skipped: the software device has no limit"
        store = Store(os.path.join(self.folder, "full.sock"))
        try:
            client = store.connect()
            model = decoder.make(self.layers)
            nbytes = sum(each.nbytes for each in model.parameters())
            weights.publish(client, "chat", model).release()
            process = Remote(answer_prompts, store.path, self.layers)
            expected = process.call("answer", 1)
            failures = []
            for _ in range(2):
                process.call("sleep")
                client.offload("chat")
                torch.cuda.empty_cache()
                filled = fill_device()
                assert torch.cuda.mem_get_info()[0] < nbytes
                try:
                    process.call("wake", 1)
                    raise AssertionError("There is no room")
                except Exception as error:
                    if isinstance(error, AssertionError):
                        raise
                    failures.append(f"{type(error).__name__}: {error}")
                assert process.call("is_asleep")
                filled.clear()
                torch.cuda.empty_cache()
                process.call("wake", TIMEOUT)
                assert process.call("answer", 1) == expected
            process.kill()
            return failures[-1]
        finally:
            store.close()

    def generations(self) -> str:
        """A graph that is replayed between updates sees each time all of one generation."""
        store = Store(os.path.join(self.folder, "generations.sock"))
        try:
            client = store.connect()
            length = max(1024, self.size // TENSORS // 4)

            def publish(value: int, length: int = length) -> Any:
                source = {
                    f"{index}": torch.full((length,), float(value), device=decoder.DEVICE) for index in range(TENSORS)
                }
                with weights.publish(client, "numbers", source) as held:
                    return held

            held = publish(1)
            follower = Remote(follow, store.path)
            assert follower.call("replay") == (1, 1)
            last = self.generations_count
            follower.begin("until", last)
            for generation in range(2, last + 1):
                publish(generation)
            seen = follower.finish()
            assert seen == sorted(seen) and seen[-1] == last, seen
            # A publisher that is killed before it publishes.
            nbytes, metadata = held.nbytes, held.metadata
            publisher = Remote(create_only, store.path, nbytes, metadata)
            publisher.call("create")
            assert follower.call("update") is False
            publisher.kill()
            assert (follower.call("update"), follower.call("replay")) == (False, (last, last))
            publish(last + 1)
            assert (follower.call("update"), follower.call("replay")) == (True, (last + 1, last + 1))
            publish(last + 2, length + 1)
            try:
                follower.call("update")
                raise AssertionError("Another layout was mapped")
            except SharingError as error:
                assert error.code == "layout-changed", error
            assert follower.call("replay") == (last + 1, last + 1)
            follower.kill()
            wait_until(
                lambda: [each.generation for each in client.entries(replaced=True)] == [last + 2],
                "Replaced generations are left",
            )
            return f"{len(set(seen))} of {last} generations of {nbytes / MIB:.0f} MiB seen in {len(seen)} updates"
        finally:
            store.close()

    def restart(self) -> str:
        """What is saved is the same when everything was stopped and the store is another one."""
        path, saved = os.path.join(self.folder, "restart.sock"), os.path.join(self.folder, "saved")
        os.mkdir(saved)
        store = Store(path)
        try:
            expected = {}
            with store.connect() as client:
                for seed in range(3):
                    model = decoder.make(self.layers, seed)
                    with weights.publish(client, f"model {seed}", model) as held:
                        expected[held.name] = held.digest, decoder.digest_of(decoder.logits(model))
                client.offload("model 1")
                self.command(path, "save", saved)
            store.close()
            store = Store(path)
            with store.connect() as client:
                assert client.entries() == []
                self.command(path, "restore", saved)
                for name, (digest, logits) in expected.items():
                    model, held = decoder.load(client, f"{name}@{digest}", self.layers, verify=True)
                    assert held.digest == digest
                    assert decoder.digest_of(decoder.logits(model)) == logits, name
                    del model
                    held.release()
            return f"{len(expected)} models"
        finally:
            store.close()

    def command(self, path: str, *arguments: str) -> None:
        subprocess.run(
            [*cli(), "weights", *arguments, "--store", path, "--driver", DRIVER], check=True, timeout=TIMEOUT,
            stdout=subprocess.DEVNULL,
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=64, help="the size of a model in MiB")
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--generations", type=int, default=50)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {decoder.DEVICE}", flush=True)
    CONTEXT.set_forkserver_preload(["decoder", "checking"])
    with tempfile.TemporaryDirectory(prefix="poolpass-", dir=SHARED) as folder:
        check = Check(folder, given)
        return run_checks([check.cycles, check.full_device, check.generations, check.restart], given.names, LIMIT)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A context that has failed must not keep the process.
    os._exit(code)
