#!/usr/bin/env python3
"""Checks models that are split between the GPUs of a machine. Prints a line for each check.

    python3 python/tests/ranks_gpu_check.py [--size MIB] [--generations COUNT] [NAME...]

Needs PyTorch, `deno` on the PATH (or its path in POOLPASS_DENO), and two GPUs with cuda-bindings, or
POOLPASS_DRIVER=software. With one GPU, all ranks are on it. NAME selects checks whose name contains it.
"""
from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import Any, Callable

import decoder
import torch
import torch.distributed as distributed
from checking import CONTEXT, MIB, SHARED, TIMEOUT, Remote, Store, connect, run_checks
from poolpass import weights
from torch.nn.parallel import DistributedDataParallel

LIMIT = 150.0
RANKS = 2
MANY = 4
DEVICES = torch.cuda.device_count() if decoder.IS_CUDA else 1


def device_of(rank: int) -> str:
    return f"cuda:{rank % DEVICES}" if decoder.IS_CUDA else "cpu"


def begin_group(rank: int, file: str) -> None:
    if decoder.IS_CUDA:
        torch.cuda.set_device(rank % DEVICES)
    # NCCL refuses two ranks on one GPU.
    backend = "nccl" if DEVICES >= RANKS else "gloo"
    distributed.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=RANKS)


def be_rank(path: str, rank: int, layers: int, file: str) -> dict[str, Callable[..., Any]]:
    """A rank of a model that is split."""
    client, place = connect(path), device_of(rank)
    ordinal = rank % DEVICES
    begin_group(rank, file)
    model: Any = None
    held: Any = None

    def reduce(hidden: Any) -> Any:
        distributed.all_reduce(hidden)
        return hidden

    def publish() -> str:
        part = decoder.part_of(decoder.make(layers, device=place), rank, RANKS)
        with weights.publish(
            client, "split", part, device=ordinal, rank=(rank, RANKS), timeout=TIMEOUT
        ) as published:
            return published.digest

    def load() -> int:
        nonlocal model, held
        model, held = decoder.load(
            client, "split", layers, ranks=RANKS, reduce=reduce, rank=(rank, RANKS), device=ordinal
        )
        return held.generation

    def logits() -> Any:
        found = decoder.logits(model, place).float().cpu()
        return found.numpy()

    def sleep_and_wake() -> None:
        held.sleep()
        held.wake(TIMEOUT)

    return {"publish": publish, "load": load, "logits": logits, "sleep_and_wake": sleep_and_wake}


def train_in_parallel(path: str, rank: int, layers: int, file: str) -> dict[str, Callable[..., Any]]:
    """A rank that trains adapters of a mapped model, which is the same in all ranks."""
    client, place = connect(path), device_of(rank)
    begin_group(rank, file)
    model, held = decoder.load(client, f"base {rank % DEVICES}", layers)
    parameters = decoder.adapt(model, seed=1)
    ordinals = [rank % DEVICES] if decoder.IS_CUDA else None

    def refuse() -> str:
        """Lets the constructor write the parameters of all ranks, which the guard refuses."""
        try:
            with held.guard():
                DistributedDataParallel(model, device_ids=ordinals)
        except RuntimeError as error:
            return str(error)
        return "written"

    def train(steps: int) -> tuple[list[float], str, str]:
        with held.guard():
            wrapped = DistributedDataParallel(model, device_ids=ordinals, init_sync=False)
            optimizer = torch.optim.AdamW(parameters, lr=0.01)
            losses = []
            for step in range(steps):
                optimizer.zero_grad()
                given = (decoder.tokens(place) + step * RANKS + rank) % decoder.VOCABULARY
                loss = decoder.loss_of(wrapped, given)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        adapters = decoder.digest_of(torch.cat([each.detach().flatten() for each in parameters]))
        return losses, adapters, held.verify()

    return {"refuse": refuse, "train": train}


def publish_many(path: str, rank: int, size: int) -> dict[str, Callable[..., Any]]:
    """One of many ranks that publish generation after generation."""
    client = connect(path)

    def publish(count: int) -> None:
        for generation in range(1, count + 1):
            source = {"a": torch.full((size // 4,), float(10 * generation + rank), device=device_of(rank))}
            with weights.publish(
                client, "many", source, device=rank % DEVICES, rank=(rank, MANY), timeout=TIMEOUT
            ) as held:
                assert held.generation == generation, held.generation

    return {"publish": publish}


def poll(path: str) -> dict[str, Callable[..., Any]]:
    client = connect(path)

    def until(last: int) -> tuple[int, int]:
        """Looks at the store until a generation is there. Returns how often, and how many generations were seen."""
        count, seen = 0, set()
        while last not in seen:
            found = [(*each.rank, each.generation) for each in client.entries() if each.name == "many"]
            whole = [(rank, MANY, found[0][2]) for rank in range(MANY)] if found else []
            assert sorted(found) == whole, f"A part of a set is visible: {found}"
            count += 1
            if not found:
                continue
            seen.add(found[0][2])
            rank = count % MANY
            with client.map("many", rank=(rank, MANY), timeout=TIMEOUT) as mapping:
                value = int(torch.frombuffer(bytearray(mapping.read()[:4]), dtype=torch.float32)[0])
                assert value == 10 * mapping.generation + rank, (value, mapping.generation, rank)
        return count, len(seen)

    return {"until": until}


class Check:
    def __init__(self, folder: str, given: Any):
        self.folder, self.size, self.count = folder, given.size * MIB, given.generations
        self.layers = decoder.layers_of(self.size)
        self.store = Store(os.path.join(folder, "store.sock"))
        self.client = self.store.connect()

    def split(self) -> str:
        """A model that is split by hand has the logits of the whole one."""
        expected = decoder.logits(decoder.make(self.layers)).float().cpu()
        file = os.path.join(self.folder, "split")
        ranks = [Remote(be_rank, self.store.path, rank, self.layers, file) for rank in range(RANKS)]
        digests = each_of(ranks, "publish")
        assert len(set(digests)) == RANKS, digests
        assert each_of(ranks, "load") == [1] * RANKS
        first = [torch.from_numpy(each) for each in each_of(ranks, "logits")]
        assert torch.equal(first[0], first[1]), "The ranks differ"
        error = float((first[0] - expected).abs().max() / expected.abs().max())
        assert error < (0.05 if decoder.IS_CUDA else 1e-4), error
        each_of(ranks, "sleep_and_wake")
        for before, after in zip(first, each_of(ranks, "logits")):
            assert torch.equal(before, torch.from_numpy(after)), "The logits differ after sleep"
        devices = {each.device for each in self.client.entries() if each.name == "split"}
        assert len(devices) == min(DEVICES, RANKS), devices
        for each in ranks:
            each.kill()
        return f"{RANKS} ranks on {len(devices)} devices, relative error {error:.1e}"

    def visible_together(self) -> str:
        """A process that polls sees all ranks of a generation or none."""
        poller = Remote(poll, self.store.path)
        ranks = [Remote(publish_many, self.store.path, rank, self.size // MANY) for rank in range(MANY)]
        poller.begin("until", self.count)
        each_of(ranks, "publish", self.count)
        count, seen = poller.finish()
        for each in (poller, *ranks):
            each.kill()
        return f"{self.count} generations of {MANY} ranks, polled {count} times, {seen} seen"

    def parallel(self) -> str:
        """DistributedDataParallel writes mapped weights, but not with init_sync=False."""
        model = decoder.make(self.layers)
        for ordinal in range(min(DEVICES, RANKS)):
            copy = decoder.make(self.layers, device=device_of(ordinal))
            weights.publish(self.client, f"base {ordinal}", copy, device=ordinal).release()
        digest = weights.revision_of(model)
        file = os.path.join(self.folder, "parallel")
        ranks = [Remote(train_in_parallel, self.store.path, rank, self.layers, file) for rank in range(RANKS)]
        refusals = each_of(ranks, "refuse")
        assert all("of the weights" in each for each in refusals), refusals
        results = each_of(ranks, "train", 10)
        (losses, adapters, found), (other_losses, other_adapters, other_found) = results
        assert adapters == other_adapters and losses != other_losses
        assert found == other_found == digest
        for each in ranks:
            each.kill()
        return f"{refusals[0][:80]}...; loss {losses[0]:.4f} to {losses[-1]:.4f}"


def each_of(remotes: list[Remote], name: str, *arguments: Any) -> list[Any]:
    for each in remotes:
        each.begin(name, *arguments)
    return [each.finish() for each in remotes]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=100, help="the size of the model in MiB")
    parser.add_argument("--generations", type=int, default=30)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {DEVICES} devices such as {decoder.DEVICE}", flush=True)
    CONTEXT.set_forkserver_preload(["decoder", "checking"])
    with tempfile.TemporaryDirectory(prefix="poolpass-", dir=SHARED) as folder:
        check = Check(folder, given)
        try:
            return run_checks([check.split, check.visible_together, check.parallel], given.names, LIMIT)
        finally:
            check.store.close()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A context that has failed must not keep the process.
    os._exit(code)
