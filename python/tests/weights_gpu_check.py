#!/usr/bin/env python3
"""Checks models of transformers in a store on a GPU. Prints a line for each check.

    python3 python/tests/weights_gpu_check.py [--size MIB] [NAME...]

Needs a GPU, cuda-bindings, PyTorch, transformers, accelerate, and `deno` on the PATH (or its path in POOLPASS_DENO).
NAME selects checks whose name contains it. SIZE is that of the large model. A check that takes longer than LIMIT
seconds ends the program.
"""
from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
import weights_models
from checking import MIB, SHARED, TESTS, TIMEOUT, Store, run_checks
from poolpass import weights
from resident_children import digest_of, outside

LIMIT = 150
# What a process may need besides the weights: the context is measured separately.
SLACK = 64 * MIB
DEVICE = "cuda:0"


class Check:
    """What the checks use."""

    def __init__(self, folder: str, size: int):
        self.folder = folder
        self.size = size
        self.path = os.path.join(folder, "store.sock")
        self.store = Store(self.path)
        self.client = self.store.connect()

    def resident(self, name: str, path: str, **options: Any) -> tuple[Any, weights.Weights]:
        with weights.resident(self.client, timeout=TIMEOUT, **options) as resident:
            model = weights_models.load(name, path, device_map=DEVICE)
        held, = resident.weights
        return model, held

    def models(self) -> str:
        """The same logits in each way of loading, every parameter in the memory of the store."""
        expected, given = {}, []
        for name in weights_models.MODELS:
            dtype = torch.float16 if name == "gpt2" else torch.float32 if name == "bert" else torch.bfloat16
            path = weights_models.save(name, os.path.join(self.folder, "models"), dtype=dtype)
            plain = weights_models.load(name, path, device_map=DEVICE)
            logits = weights_models.logits(plain)
            for _ in range(2):
                model, held = self.resident(name, path)
                assert torch.equal(weights_models.logits(model), logits), f"logits of {name}"
                assert outside(model, held) == [], (name, outside(model, held))
                assert weights_models.tied_names(model) == weights_models.tied_names(plain), name
                for key, each in [*model.named_parameters(), *model.named_buffers()]:
                    assert not each.is_meta and each.is_cuda, (name, key)
                if model.can_generate():
                    tokens = torch.arange(1, 7, device=DEVICE)[None]
                    options = {"max_new_tokens": 16, "do_sample": False, "pad_token_id": 0}
                    assert torch.equal(model.generate(tokens, **options), plain.generate(tokens, **options)), name
            other = weights_models.on_meta(name, plain)
            loaded = weights.load(self.client, held.name, other)
            assert torch.equal(weights_models.logits(other), logits), f"logits of {name} after load"
            assert outside(other, loaded) == [], name
            assert loaded.digest == weights.revision_of(loaded), name
            expected[name] = held.digest, digest_of(logits), []
            given.append(f"{name}={path}")
        said, _ = self.children(1, *given)
        found = {each["model"]: (each["digest"], each["logits"], each["outside"]) for each in said}
        assert found == expected, (found, expected)
        return f"{len(said)} models"

    def children(self, count: int, *models: str, kill_after: bool = False) -> tuple[list[Any], int]:
        """Returns what other processes have said, and how many have read files."""
        log = os.path.join(tempfile.mkdtemp(dir=self.folder), "log")
        if kill_after:
            with open(f"{log}.stop", "w", encoding="ascii"):
                pass
        script = os.path.join(TESTS, "resident_children.py")
        child = subprocess.Popen(
            [sys.executable, script, self.path, str(count), log, *models], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "POOLPASS_DEVICE_MAP": DEVICE, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            if kill_after:
                deadline = time.monotonic() + TIMEOUT
                while not os.path.exists(log) or os.path.getsize(log) == 0:
                    assert child.poll() is None and time.monotonic() < deadline, "no process has begun to load"
                    time.sleep(0.01)
                with open(log, encoding="ascii") as file:
                    os.kill(int(file.readline()), signal.SIGKILL)
            output, _ = child.communicate(timeout=LIMIT)
        finally:
            child.kill()
        reads = 0
        if os.path.exists(log):
            with open(log, encoding="ascii") as file:
                reads = len(file.readlines())
        return [json.loads(line) for line in output.splitlines()], reads

    def at_once(self) -> str:
        """Eight processes that start at once read the files once."""
        path = weights_models.save("llama", os.path.join(self.folder, "at once"), seed=2, dtype=torch.bfloat16)
        began = time.monotonic()
        said, reads = self.children(8, f"llama={path}")
        assert len(said) == 8 and len({json.dumps(each) for each in said}) == 1, said
        assert reads == 1, reads
        return f"8 processes, {reads} load, {time.monotonic() - began:.1f} s"

    def killed(self) -> str:
        """If the process that loads is killed, another one does."""
        path = weights_models.save("llama", os.path.join(self.folder, "killed"), seed=3, dtype=torch.bfloat16)
        said, reads = self.children(4, f"llama={path}", kill_after=True)
        assert len(said) == 3 and reads == 2 and {each["generation"] for each in said} == {1}, (said, reads)
        return "3 of 4 processes go on"

    def guard(self) -> str:
        """A write is named before it reaches the device."""
        path = weights_models.save("llama", os.path.join(self.folder, "guard"), seed=4, dtype=torch.bfloat16)
        model, held = self.resident("llama", path, private=["*.q_proj.weight"])
        with held.guard(), torch.no_grad():
            weights_models.logits(model)
            model.model.layers[0].self_attn.q_proj.weight.add_(1)
            try:
                model.model.layers[0].self_attn.k_proj.weight.add_(1)
            except RuntimeError as error:
                assert "model.layers.0.self_attn.k_proj.weight" in str(error), error
                return str(error)
        raise AssertionError("nothing was raised")

    def counted_once(self) -> str:
        """A large model is in the memory of the device once, however many processes use it."""
        hidden, layers = 2048, max(1, self.size // 100)
        path = weights_models.save(
            "llama", os.path.join(self.folder, "large"), seed=5, dtype=torch.bfloat16, hidden_size=hidden,
            intermediate_size=4 * hidden, num_hidden_layers=layers, num_attention_heads=16, num_key_value_heads=16,
            make_on=DEVICE,
        )
        gc.collect()
        torch.cuda.empty_cache()
        before, reserved = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
        said, models = [], []
        for which in ("first", "second"):
            began = time.monotonic()
            model, held = self.resident("llama", path)
            torch.cuda.synchronize()
            seconds = time.monotonic() - began
            used = before - torch.cuda.mem_get_info()[0]
            extra = torch.cuda.memory_reserved() - reserved
            said.append(f"{which} {seconds:.3f} s, {used / MIB:.0f} MiB, {extra / MIB:.0f} of PyTorch")
            assert used <= held.nbytes + SLACK, (which, used, held.nbytes)
            assert extra <= SLACK, (which, extra)
            models.append(model)
        return f"{held.nbytes / MIB:.0f} MiB: {'; '.join(said)}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=2000, help="the size of the large model in MiB")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    print(
        f"PyTorch {torch.__version__}, transformers {transformers.__version__}, {torch.cuda.get_device_name(0)}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="poolpass-", dir=SHARED) as folder:
        check = Check(folder, given.size)
        try:
            return run_checks(
                [check.models, check.at_once, check.killed, check.guard, check.counted_once], given.names, LIMIT
            )
        finally:
            check.store.close()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A context that has failed must not keep the process.
    os._exit(code)
