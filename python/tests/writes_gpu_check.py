#!/usr/bin/env python3
"""Checks what PyTorch and CuPy do with weights that are mapped for reading: writes fail, and training of adapters,
torch.compile, CUDA graphs and FSDP give what they give with private weights. Prints a line for each check.

    python3 python/tests/writes_gpu_check.py [--size MIB] [NAME...]

Needs PyTorch, `deno` on the PATH (or its path in POOLPASS_DENO), and a GPU with cuda-bindings and CuPy, or
POOLPASS_DRIVER=software. NAME selects checks whose name contains it.
"""
from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import sys
import tempfile
from contextlib import nullcontext
from typing import Any, Callable

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import decoder
import torch
import torch.distributed as distributed
from checking import CONTEXT, MIB, SHARED, TIMEOUT, Store, connect, run_checks, wait_until
from poolpass import StoreClient, weights

LIMIT = 120.0
STEPS = 20
PARAMETER = "layers.0.query.weight"


def step_optimizer(model: Any, held: Any) -> None:
    model.requires_grad_(True)
    decoder.loss_of(model, decoder.tokens()).backward()
    torch.optim.AdamW(model.parameters(), lr=0.1).step()


def merge_adapters(model: Any, held: Any) -> None:
    decoder.adapt(model)
    for layer in model.layers:
        layer.query.up.data.fill_(1)
        layer.query.merge()


def load_state(model: Any, held: Any) -> None:
    model.load_state_dict({name: torch.zeros_like(each) for name, each in model.state_dict().items()})


def launch_kernel(model: Any, held: Any) -> None:
    weight = model.get_parameter(PARAMETER)
    if not decoder.IS_CUDA:
        ctypes.memset(weight.data_ptr(), 1, 16)
        return
    import cupy

    source = 'extern "C" __global__ void zero(unsigned short* to) { to[threadIdx.x] = 0; }'
    cupy.RawKernel(source, "zero")((1,), (32,), (cupy.from_dlpack(weight.view(torch.int16)),))


WRITES: dict[str, Callable[[Any, Any], None]] = {
    "AdamW": step_optimizer, "merge": merge_adapters, "load_state_dict": load_state, "kernel": launch_kernel,
}


def write(path: str, layers: int, kind: str, is_guarded: bool, report: Any) -> None:
    """Writes weights that are mapped for reading, and reports what became of it."""
    client = connect(path)
    model, held = decoder.load(client, "base", layers)
    try:
        with held.guard() if is_guarded else nullcontext():
            WRITES[kind](model, held)
            decoder.synchronize()
        report.send("written")
    except Exception as error:
        report.send(f"{type(error).__name__}: {error}")
        if is_guarded:
            report.send(decoder.digest_of(decoder.logits(decoder.load(client, "base", layers)[0])))
    # A context that has failed must not keep the process.
    os._exit(0)


def shard(path: str, layers: int, report: Any) -> None:
    """Shards a mapped model with FSDP, releases the mapping, and reports the digest of the logits."""
    from torch.distributed.fsdp import fully_shard

    with tempfile.NamedTemporaryFile() as file:
        backend = "nccl" if decoder.IS_CUDA else "gloo"
        distributed.init_process_group(backend, init_method=f"file://{file.name}", rank=0, world_size=1)
        mesh = distributed.device_mesh.init_device_mesh(torch.device(decoder.DEVICE).type, (1,))
        client = connect(path)
        model, held = decoder.load(client, "base", layers)
        with held.guard():
            for layer in model.layers:
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
        held.release()
        wait_until(lambda: os.getpid() not in readers(client), "The shards need the mapping")
        report.send(decoder.digest_of(decoder.logits(model)))
        decoder.synchronize()
        distributed.destroy_process_group()
    os._exit(0)


def readers(client: StoreClient) -> list[int]:
    return [each.pid for entry in client.entries() for each in entry.readers]


class Check:
    def __init__(self, folder: str, size: int):
        self.store = Store(os.path.join(folder, "store.sock"))
        self.client = self.store.connect()
        self.layers = decoder.layers_of(size)
        self.plain = decoder.make(self.layers)
        self.logits = decoder.logits(self.plain)
        weights.publish(self.client, "base", self.plain).release()
        self.model, self.held = decoder.load(self.client, "base", self.layers)
        assert torch.equal(decoder.logits(self.model), self.logits)

    def child(self, function: Callable[..., None], *arguments: Any) -> list[str]:
        """Returns what a process reports until it has ended."""
        receiving, sending = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(
            target=function, args=(self.store.path, self.layers, *arguments, sending), daemon=True
        )
        process.start()
        sending.close()
        said: list[str] = []
        try:
            while receiving.poll(TIMEOUT):
                said.append(receiving.recv())
            raise AssertionError(f"A process hangs, and has said {said}")
        except EOFError:
            return said
        finally:
            process.kill()
            process.join()

    def check_unchanged(self) -> None:
        assert torch.equal(decoder.logits(self.model), self.logits), "The logits have changed"
        assert self.held.verify() == self.held.digest

    def writes(self) -> str:
        """A write fails where it is made, and the other processes have the weights as they were."""
        given = []
        for kind in WRITES:
            for is_guarded in (False, True):
                # A guard knows PyTorch's operators only.
                if kind == "kernel" and is_guarded:
                    continue
                said = self.child(write, kind, is_guarded)
                assert "written" not in said, (kind, is_guarded)
                if is_guarded:
                    assert f'{PARAMETER}" of the weights "base"' in said[0] or "embedding.weight" in said[0], said
                    assert said[1] == decoder.digest_of(self.logits), (kind, said)
                elif decoder.IS_CUDA:
                    assert len(said) == 1, (kind, said)
                given.append(f"{kind}: {said[0].splitlines()[0][:90] if said else 'killed'}")
                self.check_unchanged()
        return "; ".join(given)

    def adapters(self) -> str:
        """Adapters that are trained on a mapped model have the losses that they have on a private one."""
        losses: list[list[float]] = []
        trained = []
        for base in (decoder.make(self.layers), decoder.load(self.client, "base", self.layers)[0]):
            parameters = decoder.adapt(base)
            optimizer = torch.optim.AdamW(parameters, lr=0.01)
            losses.append([])
            with self.held.guard():
                for _ in range(STEPS):
                    optimizer.zero_grad()
                    loss = decoder.loss_of(base, decoder.tokens())
                    loss.backward()
                    optimizer.step()
                    losses[-1].append(loss.item())
            trained.append(parameters)
        assert losses[0] == losses[1], losses
        assert all(torch.equal(mine, other) for mine, other in zip(*trained))
        assert losses[0][-1] < losses[0][0], losses[0]
        self.check_unchanged()
        return f"{STEPS} steps, loss {losses[0][0]:.4f} to {losses[0][-1]:.4f}"

    def compiled(self) -> str:
        """A compiled model gives the same with mapped weights, also after they slept."""
        has_compiler = any(shutil.which(each) for each in ("cc", "gcc", "clang"))
        small = decoder.make(1)
        weights.publish(self.client, "compiled", small).release()
        mapped, held = decoder.load(self.client, "compiled", 1)
        given = []
        for options in ({}, {"mode": "reduce-overhead"}) if has_compiler else ({"backend": "aot_eager"},):
            torch.compiler.reset()
            plain, model = torch.compile(small, **options), torch.compile(mapped, **options)
            expected = decoder.logits(plain).clone()
            for _ in range(3):
                assert torch.equal(decoder.logits(model), expected), options
            held.sleep()
            held.wake()
            assert torch.equal(decoder.logits(model), expected), options
            given.append(options.get("mode", "default"))
        assert held.verify() == held.digest
        return f"inductor: {', '.join(given)}" if has_compiler else "aot_eager only: there is no C compiler"

    def graphs(self) -> str:
        """A CUDA graph gives the same with mapped weights, also after they slept and were moved."""
        given = decoder.tokens()
        expected = decoder.captured(lambda: self.plain(given))().clone()
        replay = decoder.captured(lambda: self.model(given))
        assert torch.equal(replay(), expected)
        for moves in (False, True):
            self.held.sleep()
            if moves:
                self.client.offload("base")
            self.held.wake()
            assert torch.equal(replay(), expected), moves
        self.check_unchanged()
        return "equal before, and after sleep and offload"

    def sharded(self) -> str:
        """FSDP copies the weights: the mapping can be released."""
        said = self.child(shard)
        assert said == [decoder.digest_of(self.logits)], said
        self.check_unchanged()
        return "FSDP on one rank"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=100, help="the size of the model in MiB")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {decoder.DEVICE}", flush=True)
    CONTEXT.set_forkserver_preload(["decoder", "checking"])
    with tempfile.TemporaryDirectory(prefix="poolpass-", dir=SHARED) as folder:
        check = Check(folder, given.size * MIB)
        try:
            return run_checks(
                [check.writes, check.adapters, check.graphs, check.sharded, check.compiled], given.names, LIMIT
            )
        finally:
            check.store.close()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A context that has failed must not keep the process.
    os._exit(code)
