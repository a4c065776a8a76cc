#!/usr/bin/env python3
"""Kills processes that use a store, the store and its standby, each at random points. Prints a line for each check.

    python3 python/tests/kills_gpu_check.py [--kills COUNT] [--size MIB] [--seed NUMBER] [NAME...]

Needs `deno` on the PATH (or its path in POOLPASS_DENO), and a GPU with cuda-bindings, or POOLPASS_DRIVER=software. NAME
selects checks whose name contains it. Each kind of process is killed COUNT times. With PyTorch, transformers and
accelerate, processes that load models are killed, too.
"""
from __future__ import annotations

import argparse
import hashlib
import importlib.util
import multiprocessing.connection
import os
import random
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Iterator

from checking import CONTEXT, DRIVER, MIB, SHARED, TIMEOUT, Store, connect, pattern, run_checks, wait_until
from poolpass import SharingError, StoreClient
from poolpass.cuda import cuda
from poolpass.device_digests import PIECE
from poolpass.revision import revision, tree_of

LIMIT = 240.0
RANKS = 4
# What a driver may keep of processes that have ended.
SLACK = 64 * MIB
# The number of pieces in which memory is written.
PIECES = 16


def write(array: Any, tag: str) -> None:
    data = pattern(tag, array.nbytes)
    piece = -(-len(data) // PIECES)
    for begin in range(0, len(data), piece):
        array.write(data[begin : begin + piece], byte_offset=begin)


def check(mapping: Any, tag: str) -> None:
    if mapping.read() != pattern(tag, mapping.nbytes):
        raise AssertionError(f"What is mapped as {mapping.name} is not {tag}")


# Each kind of process does the same again and again, and yields what it has done.


def load(client: StoreClient, size: int, _: int, folder: str) -> Iterator[str]:
    """One of several that want the next generation: a single one of them writes it, all others map it."""
    generation = 0
    while True:
        memory = client.create("loaded", size, once=True, replaces=generation, timeout=TIMEOUT)
        if memory is not None:
            with memory:
                write(memory.array, f"generation {generation + 1}")
                published = memory.publish()
                assert published == generation + 1, f"{published} follows {generation}"
            yield f"loaded {published}"
        with client.map("loaded", timeout=TIMEOUT) as mapping:
            generation = mapping.generation
            check(mapping, f"generation {generation}")
        yield f"mapped {generation}"


def move(client: StoreClient, size: int, _: int, folder: str) -> Iterator[str]:
    """Moves an entry to host memory or to a file, and back."""
    while True:
        for to in ("host", folder):
            # The process that was killed may have moved it.
            with client.map("moved", timeout=TIMEOUT) as mapping:
                check(mapping, "moved")
            yield "brought back"
            try:
                client.offload("moved", to=to, timeout=TIMEOUT)
            except SharingError as error:
                if error.code != "in-use":
                    raise
            yield f"moved to {to}"


def sleep(client: StoreClient, size: int, _: int, folder: str) -> Iterator[str]:
    """Lets the entry that is moved sleep, and wakes it."""
    while True:
        with client.map("moved", timeout=TIMEOUT) as mapping:
            address = mapping._address
            for _ in range(4):
                mapping._entry.sleep()
                yield "asleep"
                for _ in range(8):
                    if next(each.place for each in client.entries() if each.name == "moved") != "device":
                        break
                mapping._entry.wake(TIMEOUT)
                assert mapping._address == address
                check(mapping, "moved")
                yield "awake"


def publish_rank(client: StoreClient, size: int, rank: int, folder: str) -> Iterator[str]:
    """Publishes the part of a rank, if no other rank has exited."""
    while True:
        try:
            with client.create("ranked", size // RANKS, rank=(rank, RANKS), timeout=TIMEOUT) as memory:
                write(memory.array, f"rank {rank}")
                yield f"published {memory.publish(timeout=TIMEOUT)}"
        except SharingError as error:
            if error.code not in ("peer-gone", "in-use"):
                raise
            yield error.code


def poll(client: StoreClient, size: int, _: int, folder: str) -> Iterator[str]:
    """Sees all parts of a set or none."""
    while True:
        check_set(client)
        yield "polled"


def check_set(client: StoreClient) -> None:
    found = [(*each.rank, each.generation) for each in client.entries() if each.name == "ranked"]
    whole = [(rank, RANKS, found[0][2]) for rank in range(RANKS)] if found else []
    assert sorted(found) == whole, f"A part of a set is visible: {found}"
    if found:
        rank = random.randrange(RANKS)
        with client.map("ranked", rank=(rank, RANKS), timeout=TIMEOUT) as mapping:
            check(mapping, f"rank {rank}")


KINDS: dict[str, Callable[[StoreClient, int, int, str], Iterator[str]]] = {
    "loader": load, "mover": move, "sleeper": sleep, "rank": publish_rank, "poller": poll,
}
# How many processes of a kind there are, if there are several.
COUNTS = {"loader": 3, "rank": RANKS}


def run(kind: str, number: int, path: str, size: int, folder: str, report: Any) -> None:
    try:
        with connect(path) as client:
            for step in KINDS[kind](client, size, number, folder):
                report.send(step)
    except BaseException:
        report.send(f"FAILED {traceback.format_exc()}")
        raise


def load_resident(path: str, model: str, report: Any) -> None:
    """Loads a model inside of `weights.resident`. Reports that it reads files, if it does, and the digest then."""
    import decoder
    import weights_models
    from poolpass import weights
    from transformers import modeling_utils
    from transformers.utils import logging

    logging.disable_progress_bar()
    opened = modeling_utils.safe_open

    def open_reported(*positional: Any, **named: Any) -> Any:
        report.send("reads")
        return opened(*positional, **named)

    modeling_utils.safe_open = open_reported
    with connect(path) as client:
        with weights.resident(client, timeout=2 * TIMEOUT) as resident:
            loaded = weights_models.load("llama", model, device_map=decoder.DEVICE)
        held, = resident.weights
        report.send((held.digest, decoder.digest_of(weights_models.logits(loaded))))
    # A context takes a while to end.
    os._exit(0)


class Loader:
    """A process that runs `load_resident`."""

    def __init__(self, path: str, model: str):
        self.reports, sending = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=load_resident, args=(path, model, sending), daemon=True)
        self.process.start()
        sending.close()

    def result(self) -> tuple[str, str]:
        """Waits until it has loaded the model."""
        while self.reports.poll(TIMEOUT):
            said = self.reports.recv()
            if said != "reads":
                return said
        raise AssertionError("A process hangs")

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.reports.close()


class Child:
    """A process of one kind."""

    def __init__(self, kind: str, number: int, path: str, size: int, folder: str):
        self.kind, self.number = kind, number
        self._reports, sending = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=run, args=(kind, number, path, size, folder, sending), daemon=True)
        self.process.start()
        sending.close()
        self.last = "started"

    def finish_step(self) -> None:
        """Waits until it has done something since the last time."""
        while self._reports.poll():
            self._receive()
        assert self._reports.poll(TIMEOUT), f"{self.kind} {self.number} hangs after it has {self.last}"
        self._receive()

    def _receive(self) -> None:
        self.last = self._reports.recv()
        assert not self.last.startswith("FAILED"), f"{self.kind} {self.number}: {self.last}"

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        try:
            while self._reports.poll():
                self._receive()
        except (EOFError, OSError):
            pass
        self._reports.close()


class Check:
    def __init__(self, folder: str, given: Any):
        self.folder, self.kills, self.size = folder, given.kills, given.size * MIB + 12_345
        self.random = random.Random(given.seed)
        self.path = os.path.join(folder, "store.sock")
        self._sockets = (self.path, "--standby", os.path.join(folder, "standby.sock"))
        self.store = Store(*self._sockets)
        self.store.wait_for("Serving")
        self.standby: Store | None = None
        self.add_standby()
        self.children: list[Child] = []

    def add_standby(self) -> None:
        self.standby = Store(*self._sockets)
        self.store.wait_for("has everything")

    def close(self) -> None:
        for each in (*self.children, self.store, self.standby):
            if isinstance(each, Child):
                each.kill()
            elif each is not None:
                each.close()

    def loaders(self) -> str:
        """Of several processes that want weights, one writes them; if it is killed, another one does."""
        return self.kill_some("loader")

    def movers(self) -> str:
        """An entry is where it was if the process that moves it is killed, and whole wherever it is."""
        data = pattern("moved", self.size)
        pieces = (hashlib.sha256(data[begin : begin + PIECE]).digest() for begin in range(0, len(data), PIECE))
        digest = revision([("a", "U8", [len(data)], tree_of(b"".join(pieces)))])
        place = {"name": "a", "dtype": "U8", "shape": [len(data)], "byteOffset": 0, "byteLength": len(data)}
        metadata = {"format": "weights", "version": 1, "digest": digest, "tensors": [place]}

        def publish(client: StoreClient) -> None:
            with client.create("moved", len(data), metadata=metadata) as memory:
                write(memory.array, "moved")
                memory.publish(digest=digest)

        return self.kill_some("mover", "sleeper", prepare=publish)

    def ranks(self) -> str:
        """A set of ranks is visible as a whole or not at all."""
        return self.kill_some("rank", "poller")

    def residents(self) -> str:
        """If a process is killed while it loads a model, another one loads it, and all have the same."""
        import decoder
        import torch
        import transformers
        import weights_models

        transformers.utils.logging.disable_progress_bar()
        hidden, heads = (2048, 16) if decoder.IS_CUDA else (32, 4)
        model = weights_models.save(
            "llama", self.folder, seed=7, dtype=decoder.DTYPE, hidden_size=hidden, intermediate_size=4 * hidden,
            num_hidden_layers=max(1, self.size // (100 * MIB)), num_attention_heads=heads, num_key_value_heads=heads,
            make_on=decoder.DEVICE,
        )
        logits = decoder.digest_of(weights_models.logits(weights_models.load("llama", model, device_map=decoder.DEVICE)))
        with connect(self.path) as client:
            first = Loader(self.path, model)
            digest, found = first.result()
            assert found == logits
            first.kill()
            name, = (each.name for each in client.entries())
            client.remove(name)
            if decoder.IS_CUDA:
                torch.cuda.empty_cache()
            free, kills, loads = free_memory(), 0, 0
            waiting = [Loader(self.path, model) for _ in range(4)]
            seconds = 0.2
            while kills < self.kills:
                began = time.monotonic()
                ready = multiprocessing.connection.wait([each.reports for each in waiting], TIMEOUT)
                assert ready, "No process loads the model"
                loader = next(each for each in waiting if each.reports in ready)
                said = loader.reports.recv()
                if said == "reads":
                    began = time.monotonic()
                    if not loader.reports.poll(self.random.random() * seconds):
                        kills += 1
                    else:
                        # It was faster than it was to be killed.
                        seconds = max(0.02, time.monotonic() - began)
                        said = loader.reports.recv()
                if said != "reads":
                    assert said == (digest, logits), said
                    loads += 1
                    for each in client.entries():
                        client.remove(each.name)
                loader.kill()
                waiting.remove(loader)
                waiting.append(Loader(self.path, model))
            for each in waiting:
                assert each.result() == (digest, logits)
                each.kill()
            entry, = client.entries()
            assert entry.digest == digest
            client.remove(entry.name)
            wait_until(lambda: client.entries(replaced=True) == [], "Something is left")
            wait_until(lambda: free_memory() >= free - SLACK, f"{free - free_memory()} bytes of the device are not free")
        return f"{kills} kills, {loads} loads before"

    def kill_some(self, *kinds: str, prepare: Callable[[StoreClient], None] = lambda client: None) -> str:
        """Whichever process is killed, nothing that was published is lost or torn, and nothing is left."""
        with connect(self.path) as client:
            cuda().copy_stream(0)
            free = free_memory()
            prepare(client)
            self.children = [Child(kind, each, self.path, self.size, self.folder) for kind in kinds for each in range(COUNTS.get(kind, 1))]
            for each in self.children:
                each.finish_step()
            # After a takeover, the store keeps for some seconds what processes may claim: only a long run waits for that
            # in each check.
            takes_over = self.kills >= 10 or "mover" in kinds
            victims = [*kinds] * self.kills + ["store", "standby"] * (-(-self.kills // 3) if takes_over else 0)
            self.random.shuffle(victims)
            last: dict[str, int] = {}
            for victim in victims:
                self.kill(victim, client)
                self.check_entries(client, last)
            for each in self.children:
                each.finish_step()
            self.check_entries(client, last)
            while self.children:
                self.children.pop().kill()
            wait_until(
                lambda: not any(
                    each.readers or each.sleepers or each.is_replaced for each in client.entries(replaced=True)
                ),
                "Something is held by processes that have ended", pause=0.05,
            )
            for name in {each.name for each in client.entries()}:
                client.remove(name)
            assert client.entries(replaced=True) == []
            wait_until(lambda: free_memory() >= free - SLACK, f"{free - free_memory()} bytes of the device are not free")
            count = len(os.listdir(f"/proc/{self.store.process.pid}/fd"))
            assert count < 80, f"The store has {count} descriptors"
        generations = ", ".join(f"{count} generations of {name}" for name, count in last.items())
        return f"{len(victims)} kills, {generations}, {(free - free_memory()) / MIB:.0f} MiB of the device less"

    def kill(self, victim: str, client: StoreClient) -> None:
        """Kills a process at any moment of its work, and starts another one."""
        indexes = [index for index, each in enumerate(self.children) if each.kind == victim or victim not in KINDS]
        index = self.random.choice(indexes)
        child, began = self.children[index], time.monotonic()
        child.finish_step()
        time.sleep(self.random.random() * (time.monotonic() - began + 0.002))
        if victim in KINDS:
            child.kill()
            self.children[index] = Child(victim, child.number, self.path, self.size, self.folder)
            return
        assert self.standby is not None
        if victim == "standby":
            self.standby.close()
        else:
            self.store.close()
            client.entries(timeout=TIMEOUT)
            self.store = self.standby
        self.add_standby()

    def check_entries(self, client: StoreClient, last: dict[str, int]) -> None:
        """Checks that what is published is complete, and no older than it was the last time."""
        check_set(client)
        for each in client.entries():
            assert each.generation >= last.get(each.name, 0), f"{each} comes after {last}"
            last[each.name] = each.generation
            if each.name == "loaded":
                with client.map(each.name, timeout=TIMEOUT) as mapping:
                    check(mapping, f"generation {mapping.generation}")
        assert last.get("moved", 1) == 1, last


def free_memory() -> int:
    """Returns how much memory of the device is free."""
    return int(cuda().call("cudaMemGetInfo")) if DRIVER == "cuda" else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30, help="how often each kind of process is killed")
    parser.add_argument("--size", type=int, default=64, help="the size of the memory in MiB")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    print(f"{DRIVER}, seed {given.seed}", flush=True)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    has_models = all(importlib.util.find_spec(each) for each in ("torch", "transformers", "accelerate"))
    models = ["decoder", "weights_models"] if has_models else []
    CONTEXT.set_forkserver_preload(["poolpass", "checking", *models])
    with tempfile.TemporaryDirectory(prefix="poolpass-", dir=SHARED) as folder:
        checks = Check(folder, given)
        try:
            functions = [checks.loaders, checks.movers, checks.ranks, *([checks.residents] if has_models else [])]
            return run_checks(functions, given.names, LIMIT)
        finally:
            checks.close()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A context that has failed must not keep the process.
    os._exit(code)
