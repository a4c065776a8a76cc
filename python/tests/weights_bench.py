#!/usr/bin/env python3
"""Measures how a model of transformers comes to a GPU: by a store, and by other libraries. Prints one table.

    python3 python/tests/weights_bench.py [--size 16GiB|tiny] [--rounds 3] [--folder /dev/shm] [NAME...]

Needs a GPU, cuda-bindings, PyTorch, transformers, accelerate, and `deno` on the PATH (or its path in POOLPASS_DENO).
The folder needs three times the size, the GPU four times. With POOLPASS_DRIVER=software and --size tiny, it runs without
a GPU, which shows that it works, and measures nothing of interest. NAME selects rows whose name contains it.

Each row has the median, the least and the first of its rounds. The parts of a row follow it.
"""
from __future__ import annotations

import sys
import time

# The seconds since the epoch at which a child's process was started.
STARTED = float(sys.argv[2]) if sys.argv[1:2] == ["--child"] else 0.0
MARKS = [("start of Python", time.time() - STARTED)]


def mark(what: str) -> None:
    MARKS.append((what, time.time() - STARTED))


def run_child(mode: str, folder: str, place: str, path: str) -> None:
    """Prints the seconds from the start of this process to the end of each of its steps, as JSON."""
    import os

    sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    if mode.startswith("resident"):
        import poolpass

        mark("import poolpass")
        if mode == "resident, initialized":
            poolpass.initialize()
    import torch

    mark("import torch")
    import transformers
    from transformers.models.auto import modeling_auto  # noqa: F401
    from transformers.models.llama import modeling_llama  # noqa: F401

    mark("import transformers and the model's class")
    if mode != "imports":
        torch.zeros(1, device=place).item()
        mark("create the context")
        transformers.utils.logging.disable_progress_bar()
        if mode.startswith("resident"):
            from poolpass import StoreClient, weights

            mark("import weights")
            client = StoreClient.connect(path)
            mark("connect")
            with weights.resident(client):
                model = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map=place)
        else:
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map=place)
        mark("from_pretrained")
        with torch.no_grad():
            model(torch.arange(12, device=place).reshape(2, 6)).logits.sum().item()
        mark("first logits")
    import json

    print(json.dumps(MARKS), flush=True)
    # The end of the process is not measured.
    os._exit(0)


if STARTED:
    run_child(*sys.argv[3:])

import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from checking import DENO, ROOT, TIMEOUT, Store
from poolpass import driver, moves, safetensors_files, weights
from poolpass.safetensors_files import SafetensorsFiles
from poolpass.store_link import StoreLink
from poolpass.whole_memory import WholeMemory

import safetensors.torch
import torch
import transformers
import weights_models

GIB = 2**30
# A model of 16 GiB has about the shapes of Llama 8B.
SHAPES = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 32_000,
}
LAYER = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
IS_GPU = driver() == "cuda"
PLACE = "cuda:0" if IS_GPU else "cpu"


def synchronize() -> None:
    if IS_GPU:
        torch.cuda.synchronize()


def free_cache() -> None:
    if IS_GPU:
        torch.cuda.empty_cache()


@contextmanager
def timed_parts(parts: dict[str, float]) -> Iterator[None]:
    """Adds up the seconds that parts of a move take."""

    def timing(what: Callable[..., str], function: Any) -> Any:
        def call(*positional: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*positional, **named)
            finally:
                key = what(*positional)
                parts[key] = parts.get(key, 0) + time.perf_counter() - begin

        return call

    with ExitStack() as stack:
        for owner, name in (
            (moves, "copy_file"), (moves, "read_weights"), (moves, "write_weights"), (moves, "check_weights"),
            (WholeMemory, "__init__"), (WholeMemory, "unmap"), (WholeMemory, "resume"), (WholeMemory, "suspend"),
        ):
            new = timing(lambda *_, name=name: {"__init__": "map"}.get(name, name), getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, new))
        new = timing(lambda link, document, *_: f"ask to {document['do']}", StoreLink.ask)
        stack.enter_context(mock.patch.object(StoreLink, "ask", new))
        yield


class Bench:
    def __init__(self, given: Any, folder: str):
        self.rounds = given.rounds
        self.names = given.names
        self.folder = folder
        self.path = os.path.join(folder, "store.sock")
        began = time.monotonic()
        layers = None if given.size == "tiny" else max(1, round(float(given.size.removesuffix("GiB")) * GIB / LAYER))
        options = {} if layers is None else {**SHAPES, "num_hidden_layers": layers, "make_on": PLACE}
        self.model = weights_models.save("llama", folder, dtype=torch.bfloat16, **options)
        free_cache()
        self.files = sorted(glob.glob(os.path.join(self.model, "*.safetensors")))
        self.size = sum(map(os.path.getsize, self.files))
        print(
            f"PyTorch {torch.__version__}, transformers {transformers.__version__}, "
            f"{torch.cuda.get_device_name(0) if IS_GPU else 'the software device'}: {self.size / GIB:.2f} GiB in "
            f"{len(self.files)} files, written in {time.monotonic() - began:.0f} s\n", flush=True,
        )
        self.print("", "median ms", "least", "first", "GB/s")
        self.store = Store(self.path)
        self.client = self.store.connect()

    def print(self, name: str, *cells: str) -> None:
        print(f"{name:<58}" + "".join(f"{each:>11}" for each in cells), flush=True)

    def is_wanted(self, name: str) -> bool:
        return not self.names or any(each in name for each in self.names)

    def row(
        self, name: str, act: Callable[[], Any], *, prepare: Callable[[], Any] = lambda: None, moves_all: bool = True,
        parts: dict[str, float] | None = None, rounds: int | None = None,
    ) -> None:
        """Measures a function, whose result is released afterwards, and prints the row."""
        if not self.is_wanted(name):
            return
        times = []
        for _ in range(rounds or self.rounds):
            prepare()
            synchronize()
            with ExitStack() as stack:
                if parts is not None:
                    parts.clear()
                    stack.enter_context(timed_parts(parts))
                begin = time.perf_counter()
                result = act()
                synchronize()
                times.append(time.perf_counter() - begin)
            if hasattr(result, "release"):
                result.release()
            del result
            free_cache()
        self.print_times(name, times, self.rate(times) if moves_all else "")
        if parts:
            listed = ", ".join(f"{what} {seconds * 1000:.1f}" for what, seconds in parts.items())
            print(f"    the last: {listed}, all else {1000 * (times[-1] - sum(parts.values())):.1f}", flush=True)

    def rate(self, times: list[float]) -> str:
        return f"{self.size / statistics.median(times) / 1e9:.1f}"

    def print_times(self, name: str, times: list[float], last: str) -> None:
        self.print(name, *(f"{1000 * each:.1f}" for each in (statistics.median(times), min(times), times[0])), last)

    def from_the_page_cache(self) -> None:
        def publish() -> Any:
            return weights.publish(self.client, "model", self.model)

        def remove() -> None:
            if any(each.name == "model" for each in self.client.entries()):
                self.client.remove("model")

        def read(threads: int) -> None:
            with SafetensorsFiles(self.model) as files:
                end, offsets = 0, []
                for each in files.tensors:
                    offsets.append(end)
                    end += each.nbytes
                files.load(offsets, memory.array.address, 0, readers=threads)

        with self.client.create("scratch", self.size) as memory:
            usual_numbers = (safetensors_files.THREADS, safetensors_files._PIECE)
            for threads, size in ((8, 4), (12, 4), (16, 4), (8, 8), (12, 8), (16, 8)):
                with mock.patch.object(safetensors_files, "_PIECE", size * 2**20):
                    is_usual = (threads, size * 2**20) == usual_numbers
                    usual = ", as usual" if is_usual else ""
                    self.row(f"read to the device by {threads} threads of {size} MiB{usual}", lambda: read(threads))
        self.row("weights.publish of the folder: create, read, digest", publish, prepare=remove)
        remove()
        device = PLACE
        self.row(
            "safetensors.torch.load_file",
            lambda: [safetensors.torch.load_file(each, device=device) for each in self.files],
        )
        self.row("from_pretrained", self.pretrained)
        try:
            import fastsafetensors
        except ImportError as error:
            self.print(f"fastsafetensors: {error}")
            return

        def fast() -> Any:
            loader = fastsafetensors.SafeTensorsFileLoader(
                fastsafetensors.SingleGroup(), torch.device(PLACE), nogds=True
            )
            loader.add_filenames({0: self.files})
            buffers = loader.copy_files_to_device()
            tensors = [buffers.get_tensor(each) for each in loader.get_keys()]
            synchronize()
            del tensors
            buffers.close()
            loader.close()

        self.row(f"fastsafetensors {getattr(fastsafetensors, '__version__', '')}", fast)

    def pretrained(self) -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(self.model, device_map=PLACE)

    def in_a_process(self) -> None:
        resident = weights.resident(self.client, timeout=TIMEOUT)

        def hit() -> Any:
            with resident:
                self.pretrained()
            return resident.weights[-1]

        def remove() -> None:
            for each in self.client.entries():
                self.client.remove(each.name)

        hit().release()
        self.row("weights.resident around from_pretrained: the first", hit, prepare=remove)
        self.row("weights.resident around from_pretrained: a hit", hit, moves_all=False)
        held = hit()
        self.name = held.name
        held.release()
        config = transformers.AutoConfig.from_pretrained(self.model)
        modules: list[Any] = []

        def skeleton() -> None:
            modules.clear()
            with torch.device("meta"):
                modules.append(transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16))

        self.row("the module on meta, without weights", skeleton, moves_all=False)
        self.row(
            "weights.load into it", lambda: weights.load(self.client, self.name, modules[0]), prepare=skeleton,
            moves_all=False,
        )
        modules.clear()

    def processes(self) -> None:
        """From the start of a process until it has the first logits. The last cell is how many ms it takes beyond the
        imports alone, at their quickest."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        # Modules are compiled once.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        imports = 0.0
        for mode in ("imports", "resident", "resident, initialized", "from_pretrained"):
            name = f"process start: {mode}"
            if not self.is_wanted(name):
                continue
            runs = []
            for _ in range(self.rounds):
                command = [sys.executable, os.path.abspath(__file__), "--child", str(time.time()), mode]
                said = subprocess.run(
                    [*command, self.model, PLACE, self.path], env=environment, check=True, stdout=subprocess.PIPE,
                    timeout=5 * TIMEOUT,
                ).stdout
                runs.append(json.loads(said))
            times = [marks[-1][1] for marks in runs]
            imports = imports or min(times)
            self.print_times(name, times, f"{1000 * (statistics.median(times) - imports):+.0f}")
            median = sorted(runs, key=lambda marks: marks[-1][1])[len(runs) // 2]
            before = 0.0
            parts = []
            for what, seconds in median:
                parts.append(f"{what} {1000 * (seconds - before):.0f}")
                before = seconds
            print(f"    the median: {', '.join(parts)}", flush=True)

    def moves(self) -> None:
        """Sleep and wake, from each place."""
        held = weights.publish(self.client, "moved", self.model)
        self.row("sleep and wake, in place", lambda: (held.sleep(), held.wake()) and None, moves_all=False)
        for to in ("host", self.folder):
            what = "host memory" if to == "host" else "a file"

            def prepare(to: str = to) -> None:
                held.sleep()
                self.client.offload("moved", to=to)

            def offload(to: str = to) -> None:
                self.client.offload("moved", to=to)

            parts: dict[str, float] = {}
            self.row(
                f"move to {what}", offload, prepare=lambda: (held.wake(), held.sleep()), parts=parts,
                rounds=min(2, self.rounds),
            )
            held.wake()
            self.row(f"wake from {what}", held.wake, prepare=prepare, parts={})
        held.release()
        self.client.remove("moved")

    def deno(self) -> None:
        """The same by the TypeScript library."""
        index = os.path.join(self.model, "model.safetensors.index.json")
        file = index if os.path.exists(index) else self.files[0]
        child = subprocess.Popen(
            [str(DENO), "run", "--allow-all", os.path.join(ROOT, "bench", "store", "client.ts"), self.path, file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "POOLPASS_DRIVER": driver()},
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdout.readline()
            for work, name, is_all in (
                ("publish", "Deno: publish", True), ("sleep", "Deno: sleep and wake, in place", False),
                ("offload", "Deno: move to host memory", True), ("wake", "Deno: wake from host memory", True),
            ):
                # The others need what the first publishes.
                if work != "publish" and not self.is_wanted(name):
                    continue
                times = []
                for _ in range(1 if work == "offload" else self.rounds):
                    child.stdin.write(json.dumps({"work": work, "repetitions": 1}) + "\n")
                    child.stdin.flush()
                    answer = json.loads(child.stdout.readline())
                    assert "error" not in answer, answer
                    times.append(answer["nanoseconds"][0] / 1e9)
                self.print_times(name, times, self.rate(times) if is_all else "")
        finally:
            child.kill()
            child.communicate()

    def run(self) -> None:
        try:
            for part in (self.from_the_page_cache, self.in_a_process, self.processes, self.moves, self.deno):
                try:
                    part()
                except Exception as error:
                    # The rows of other parts can be measured nevertheless.
                    print(f"{part.__name__} failed: {type(error).__name__}: {error}", flush=True)
                    self.failed = True
                free_cache()
        finally:
            self.client.close()
            self.store.close()

    failed = False


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="16GiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    folder = tempfile.mkdtemp(prefix="poolpass-", dir=given.folder)
    try:
        bench = Bench(given, folder)
        bench.run()
    finally:
        shutil.rmtree(folder)
    return int(bench.failed)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
