"""Weights in a store of Deno, on the software device, with PyTorch on the CPU. test_weights.py runs it in a process of
its own, whose environment selects the device."""
from __future__ import annotations

import ctypes
import gc
import hashlib
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest
from typing import Any
from unittest import mock

import support
import torch
from poolpass import CudaError, SharingError, SharingTimeoutError, StoreClient, moves, safetensors_files, weights
from poolpass.cuda import cuda
from poolpass.device_digests import device_digests
from poolpass.revision import memory_digests
from poolpass.software import runtime, virtual_memory
from test_processes import DENO
from test_store import DenoStore, StoreChecks
from torch import nn

PIECE = 16 * 2**10


def tree(data: bytes) -> bytes:
    """What revision.ts says of it."""
    pieces = [hashlib.sha256(data[each : each + PIECE]).digest() for each in range(0, max(1, len(data)), PIECE)]
    return pieces[0] if len(pieces) == 1 else tree(b"".join(pieces))


def write_file(path: str, tensors: dict[str, Any]) -> None:
    names = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int64: "I64", torch.uint8: "U8"}
    names[torch.float8_e4m3fn] = "F8_E4M3"
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        begin = len(data)
        data += tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def command(store: str, *arguments: str) -> str:
    assert DENO is not None
    return subprocess.check_output(
        [
            DENO, "run", "--allow-all", "--no-check", "--no-lock", os.path.join(support.ROOT, "cli", "main.ts"),
            "weights", *arguments, "--store", store, "--driver", "software",
        ],
        stderr=subprocess.PIPE, text=True, timeout=support.TIMEOUT,
    )


def address_of(held: Any) -> range:
    begin = held._first_address
    return range(begin, begin + held.nbytes)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.recurrent = nn.LSTM(8, 8, batch_first=True)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embedding.weight
        self.same = self.head
        self.transposed = nn.Parameter(torch.empty(16, 16).t())
        self.register_buffer("scale", torch.full((16,), 2.0), persistent=False)

    def forward(self, tokens: Any) -> Any:
        hidden, _ = self.recurrent(self.embedding(tokens))
        return self.head(self.norm(hidden.transpose(1, 2)).transpose(1, 2)) @ self.transposed * self.scale


def tied(seed: int = 1) -> Tied:
    torch.manual_seed(seed)
    # PyTorch multiplies by what needs a gradient in another order.
    model = Tied().eval().requires_grad_(False)
    nn.init.normal_(model.transposed)
    model.norm.running_mean.uniform_()
    return model


class WeightsTest(StoreChecks):
    def tokens(self) -> Any:
        return torch.arange(12).reshape(2, 6)

    def test_module(self) -> None:
        model = tied()
        with torch.no_grad():
            expected = model(self.tokens())
        published = weights.publish(self.client, "module", model)
        self.assertEqual(published.digest, weights.revision_of(model))
        entry, = (each for each in self.client.entries() if each.name == "module")
        self.assertEqual(entry.metadata, published.metadata)
        self.assertEqual(entry.metadata["digest"], published.digest)
        for make in (lambda: Tied(), self.on_meta):
            copy = make().eval()
            held = weights.load(self.client, f"module@{published.digest[:8]}", copy, timeout=support.TIMEOUT)
            with torch.no_grad(), held.guard():
                self.assertTrue(torch.equal(copy(self.tokens()), expected))
            self.assertIs(copy.head.weight, copy.embedding.weight)
            self.assertIs(copy.same.weight, copy.embedding.weight)
            self.assertEqual(copy.transposed.stride(), model.transposed.stride())
            place = address_of(held)
            for name, parameter in copy.named_parameters():
                self.assertIn(parameter.data_ptr(), place, name)
                self.assertFalse(parameter.requires_grad, name)
            for name, buffer in copy.named_buffers():
                self.assertNotIn(buffer.data_ptr(), place, name)
                self.assertFalse(buffer.is_meta, name)
            self.assertEqual(list(copy.state_dict()), list(model.state_dict()))
            self.assertEqual(weights.revision_of({**held}), published.digest)
            copy.norm.train()
            copy(self.tokens())
            self.assertEqual(int(copy.norm.num_batches_tracked), 1)
            held.release()
            # The module uses the memory on.
            self.assertTrue(torch.equal(copy.head.weight, model.head.weight))
            self.assertRaisesRegex(RuntimeError, "released", lambda: held["scale"])
        published.release()

    def on_meta(self) -> Tied:
        with torch.device("meta"):
            return Tied()

    def test_dictionary(self) -> None:
        base = torch.arange(2**14, dtype=torch.float32)
        source = {
            "a.weight": base.reshape(128, 128).to(torch.bfloat16), "z": base[::2], "ü": torch.tensor(3),
            "none": torch.empty(0, 4), "tied": base, "same": base,
            "fp8": base[:32].to(torch.float8_e4m3fn), "fnuz": base[:32].to(torch.float8_e5m2fnuz),
            "pairs": torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(2, 4),
        }
        held = weights.publish(self.client, "dictionary", source)
        self.assertEqual(set(held), set(source))
        self.assertIs(held["tied"], held["same"])
        self.assertEqual((held.name, held.generation, held.device), ("dictionary", 1, 0))
        types = {"a.weight": "BF16", "z": "F32", "ü": "I64", "none": "F32", "tied": "F32"}
        types |= {"fp8": "F8_E4M3", "fnuz": "F8_E5M2FNUZ", "pairs": "F4"}
        lines = b""
        for name in sorted(types, key=str.encode):
            tensor = source[name].contiguous()
            shape = [2, 8] if name == "pairs" else tensor.shape
            data = bytes(tensor.reshape(-1).view(torch.uint8).tolist())
            self.assertEqual(bytes(held[name].reshape(-1).view(torch.uint8).tolist()), data, name)
            self.assertEqual((held[name].shape, held[name].dtype), (tensor.shape, tensor.dtype))
            stated = ",".join(map(str, shape))
            lines += f"{name}\0{types[name]}\0{stated}\0{tree(data).hex()}\n".encode()
        self.assertEqual(held.digest, hashlib.sha256(lines).hexdigest())
        self.assertEqual(
            [each for each in held.metadata["tensors"] if each["name"] in ("pairs", "tied")],
            [
                {
                    "name": "tied", "dtype": "F32", "shape": [2**14], "byteOffset": 65_792, "byteLength": 2**16,
                    "kind": "tensor", "aliases": ["same"],
                },
                {
                    "name": "pairs", "dtype": "F4", "shape": [2, 8], "byteOffset": 131_840, "byteLength": 8,
                    "kind": "tensor",
                },
            ],
        )
        found = self.client.tensors("dictionary", framework="torch")
        self.assertTrue(torch.equal(found["a.weight"], source["a.weight"]))
        with self.assertRaises(SharingError) as caught:
            weights.load(self.client, "dictionary@00000000")
        self.assertEqual(caught.exception.code, "not-found")
        self.assertIn(held.digest, str(caught.exception))
        self.assertRaises(ValueError, weights.load, self.client, "dictionary@0")
        self.assertRaises(ValueError, weights.publish, self.client, "x@y", source)

    def test_replaced_revisions(self) -> None:
        with weights.publish(self.client, "replaced", {"a": torch.tensor([1.0])}) as first:
            with weights.publish(self.client, "replaced", {"a": torch.tensor([2.0])}, keep=True) as second:
                self.assertEqual([each.keep for each in self.client.entries() if each.name == "replaced"], [True])
                with weights.load(self.client, f"replaced@{first.digest[:8]}") as found:
                    self.assertEqual((found.generation, float(found["a"])), (1, 1.0))
                with weights.load(self.client, f"replaced@{second.digest}") as found:
                    self.assertEqual((found.generation, float(found["a"])), (2, 2.0))
        # Nothing holds the first one any more.
        support.wait_for(
            lambda: not any(each.is_replaced for each in self.client.entries(replaced=True)), support.TIMEOUT
        )
        with self.assertRaisesRegex(SharingError, second.digest) as caught:
            weights.load(self.client, f"replaced@{first.digest}")
        self.assertEqual(caught.exception.code, "not-found")

    def test_ranks(self) -> None:
        found: list[Any] = []

        def publish(rank: int) -> None:
            source = {"a": torch.tensor([float(rank)])}
            found.append(weights.publish(
                self.client, "ranked", source, rank=(rank, 2), set="run 7", timeout=support.TIMEOUT
            ))

        threads = [threading.Thread(target=publish, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(support.TIMEOUT)
        self.assertEqual([each.generation for each in found], [1, 1])
        with weights.load(self.client, "ranked", rank=(1, 2)) as held:
            self.assertEqual(float(held["a"]), 1.0)
            self.assertFalse(held.update())
        with self.assertRaisesRegex(SharingError, "published for 2 ranks") as caught:
            weights.load(self.client, "ranked")
        self.assertEqual(caught.exception.code, "not-found")
        for each in found:
            each.release()
        entries = [each for each in self.client.entries() if each.name == "ranked"]
        self.assertEqual([each.metadata["rank"] for each in entries], [[0, 2], [1, 2]])
        self.assertEqual({each.metadata["set"] for each in entries}, {"run 7"})
        self.client.offload("ranked", rank=(1, 2))
        self.assertEqual([each.place for each in self.client.entries() if each.name == "ranked"], ["device", "host"])
        if DENO is None:
            return
        # The other language saves and restores what this one has published.
        folder = os.path.join(self.folder, "saved")
        os.mkdir(folder)
        self.assertIn("0 of 2", command(self.path, "list"))
        self.assertEqual(command(self.path, "save", folder, "ranked"), "ranked: saved\n")
        self.client.remove("ranked")
        self.assertEqual(command(self.path, "restore", folder), "ranked: restored\n")
        for rank in range(2):
            with weights.load(self.client, "ranked", rank=(rank, 2), verify=True) as held:
                self.assertEqual((float(held["a"]), held.metadata["rank"]), (rank, [rank, 2]))

    def test_entries_without_a_digest(self) -> None:
        """Those of files, and of a store that does not take metadata when memory is published."""
        tensor = {"name": "a", "dtype": "F32", "shape": [2], "byteOffset": 0, "byteLength": 8}
        with self.client.create("file", 8, metadata={"format": "safetensors", "tensors": [tensor]}) as memory:
            memory.publish()
        with weights.load(self.client, "file") as held:
            self.assertEqual(held.digest, weights.revision_of({"a": torch.zeros(2)}))
            self.assertEqual(held["a"].tolist(), [0, 0])
        place = {"byteOffset": 256, "byteLength": 2**20}
        metadata = {"format": "weights", "version": 1, "digest": None, "manifest": place}
        with self.client.create("nonsense", 2**20 + 256, metadata=metadata) as memory:
            memory.array.write(b"[1")
            memory.publish()
        self.assertRaisesRegex(SharingError, "list of them", weights.load, self.client, "nonsense")
        for change in ({"strides": [2]}, {"strides": "1"}, {"aliases": ["a"]}, {"aliases": 1}, {"kind": 1}):
            with self.subTest(change=change), self.assertRaises(SharingError):
                weights._tensors_of({"tensors": [{**tensor, **change}]}, 8, "x")
        with self.assertRaises(SharingError):
            weights._tensors_of({"format": "weights", "version": 2, "tensors": [tensor]}, 8, "x")

    def test_what_cannot_be_published(self) -> None:
        class Special(torch.Tensor):
            pass

        cached = nn.Linear(2, 2)
        cached.cache = torch.ones(2)
        listed = nn.Linear(2, 2)
        listed.caches = [torch.ones(2)]
        gaps = nn.Module()
        gaps.weight = nn.Parameter(torch.ones(2, 4)[:, ::2])
        for named, source in (
            ('"sub"', {"sub": torch.ones(2).as_subclass(Special)}),
            ('"lazy"', {"lazy": nn.LazyLinear(2).weight}),
            ('"meta".*meta', {"meta": torch.empty(2, device="meta")}),
            ('"sparse"', {"sparse": torch.ones(2).to_sparse()}),
            ('"c".*complex128', {"c": torch.ones(2, dtype=torch.complex128)}),
            ('"n".*int', {"n": 1}),
            ("1", {1: torch.ones(2)}),
            ('"cache"', cached),
            (r'"caches\[0\]"', listed),
            ('"weight".*strides', gaps),
            ("list", [torch.ones(2)]),
        ):
            with self.subTest(named=named):
                self.assertRaisesRegex(TypeError, named, weights.publish, self.client, "never", source)
        self.assertNotIn("never", [each.name for each in self.client.entries()])

    def test_modules_that_differ(self) -> None:
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
        weights.publish(self.client, "small", model).release()
        other = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2, dtype=torch.float16), nn.Linear(2, 2))
        before = dict(other.named_parameters())
        with self.assertRaises(ValueError) as caught:
            weights.load(self.client, "small", other)
        for text in ("1.weight is float16 [2, 3] in the module, and float32 [2, 3]", "2.weight is missing", "2.bias"):
            self.assertIn(text, str(caught.exception))
        self.assertTrue(all(each is before[name] for name, each in other.named_parameters()))
        joined = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
        joined[0].bias = joined[1].bias = nn.Parameter(torch.ones(2))
        self.assertRaisesRegex(ValueError, "one tensor in the module", weights.load, self.client, "small", joined)
        left = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
        left.view = left[0].weight.detach()
        self.assertRaisesRegex(ValueError, "view would stay", weights.load, self.client, "small", left)
        self.assertRaises(TypeError, weights.load, self.client, "small", {})
        self.assertRaises(TypeError, weights.load, self.client, "small", private="*")

    def test_digests_by_the_kernel(self) -> None:
        """What the kernel does, on the CPU."""
        lengths = (0, 1, 55, PIECE, PIECE + 1, 513 * PIECE + 7)
        tensors = [(torch.arange(each) * 7 >> 3).to(torch.uint8) for each in lengths]
        launches = []

        def launch(table: int, ranges: int, pieces: int) -> None:
            launches.append(ranges)
            words = (ctypes.c_uint64 * (4 * ranges)).from_address(table)
            firsts = []
            for begin in range(0, 4 * ranges, 4):
                address, length, target, first = words[begin : begin + 4]
                firsts.append(first)
                for piece in range(max(1, -(-length // PIECE))):
                    left = min(PIECE, length - piece * PIECE)
                    data = ctypes.string_at(address + piece * PIECE, left) if left else b""
                    ctypes.memmove(target + 32 * piece, hashlib.sha256(data).digest(), 32)
                    pieces -= 1
            self.assertEqual((pieces, firsts), (0, sorted(firsts)))

        expected = [tree(bytes(each.numpy())) for each in tensors]
        calls = cuda()
        ranges = [(each.data_ptr(), each.numel()) for each in tensors]

        def allocate(nbytes: int, stream: int, device: int) -> Any:
            return calls.page_locked(nbytes, device)

        def launch_behind(*arguments: int) -> None:
            # Behind the copy of the table.
            calls.synchronize(0, 0)
            launch(*arguments)

        with mock.patch.object(calls, "temporary_memory", allocate):
            self.assertEqual(device_digests(ranges, 0, 0, launch_behind), expected)
            self.assertEqual(device_digests([], 0, 0, launch_behind), [])
        self.assertEqual((launches, runtime.locked), ([6, 2, 1], {}))
        self.assertEqual(memory_digests(ranges, 0, 0), expected)

    def test_many_tensors(self) -> None:
        value = torch.arange(8, dtype=torch.float32)
        source = {f"{index}.{'x' * 1000}": value[index % 7 :] for index in range(1000)}
        source = {name: each.clone() for name, each in source.items()}
        with weights.publish(self.client, "many", source) as published:
            self.assertNotIn("tensors", published.metadata)
            with weights.load(self.client, "many@" + published.digest) as held:
                self.assertTrue(all(torch.equal(held[name], each) for name, each in source.items()))

    @unittest.skipIf(DENO is None, "there is no Deno")
    def test_typescript_reads_what_python_publishes(self) -> None:
        model = tied()
        model.transposed = nn.Parameter(model.transposed.contiguous(), requires_grad=False)
        many = {f"{index}.{'ü' * 1000}": torch.tensor([index]) for index in range(600)}
        digests = [weights.publish(self.client, name, each).digest for name, each in (("a", model), ("b", many))]
        said = subprocess.check_output(
            [
                DENO, "run", "--allow-all", "--no-check", "--no-lock", os.path.join(support.TESTS, "weights_peer.ts"),
                self.path,
            ],
            text=True, timeout=support.TIMEOUT,
        )
        self.assertEqual(said.split(), [*digests, weights.revision_of({"layer.bias": torch.arange(3.0)})])
        held = weights.load(self.client, "c")
        self.assertEqual((held.digest, held["layer.bias"].tolist()), (said.split()[2], [0, 1, 2]))

    def test_example_for_engines(self) -> None:
        sys.path.append(os.path.join(support.ROOT, "examples", "weights"))
        store_model = importlib.import_module("store_model")
        loads: list[Any] = []

        def load() -> Any:
            loads.append(tied())
            return loads[-1]

        with mock.patch.object(torch.cuda, "current_device", lambda: 0), mock.patch.object(torch.cuda, "empty_cache"):
            for _ in range(2):
                taken = store_model.StoreModel(self.path, "engine")
                model = taken.load(torch.float32, 0, 1, load=load, make_on_meta=self.on_meta)
                self.assertEqual((taken.held.name, len(loads)), ("engine.float32.0-of-1", 1))
                with torch.no_grad():
                    self.assertTrue(torch.equal(model(self.tokens()), tied()(self.tokens())))
                taken.held.release()
                taken._store.close()

    def test_readme(self) -> None:
        with open(os.path.join(support.PACKAGE, "README.md"), encoding="utf-8") as file:
            script = re.findall(r"```py\n(.*?)```", file.read(), re.DOTALL)[-1].replace("/tmp/store.sock", self.path)

        def run(argument: str) -> str:
            return subprocess.check_output([sys.executable, "-c", script, argument], text=True, timeout=support.TIMEOUT)

        self.assertRegex(run("publish"), "^[0-9a-f]{64}\n$")
        self.assertRegex(run("load"), r"^tensor\(\[.*\]\)\n$")

    def test_writes(self) -> None:
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
        weights.publish(self.client, "written", model).release()
        held = weights.load(self.client, "written", model, private=["1.*"])
        with held.guard(), torch.no_grad():
            model[1].weight.add_(1)
            model(torch.ones(2))
            for write in (
                lambda: model[0].weight.add_(1),
                lambda: model[0].weight.data[1].zero_(),
                lambda: torch.add(torch.ones(3, 2), 1, out=model[0].weight),
                lambda: model.load_state_dict({name: torch.ones_like(each) for name, each in model.named_parameters()}),
                lambda: torch._foreach_add_([model[1].weight, model[0].weight], 1.0),
            ):
                with self.assertRaisesRegex((RuntimeError), '"0.weight" of the weights "written"'):
                    write()
            optimizer = torch.optim.AdamW(model.parameters(), fused=True)
            for each in model.parameters():
                each.grad = torch.ones_like(each)
            self.assertRaisesRegex(RuntimeError, "adamw.*0.weight", optimizer.step)
        with mock.patch.object(runtime, "cudaDeviceSynchronize", lambda: (700,)):
            with self.assertRaisesRegex(CudaError, '"written".* are mapped for reading.*guard'):
                cuda().synchronize_device(0)
        with weights.load(self.client, "written", write=True) as writable, writable.guard():
            writable["0.weight"].add_(0)

    def test_files(self) -> None:
        folder = os.path.join(self.folder, "model")
        os.mkdir(folder)
        torch.manual_seed(1)
        source = {
            "a": torch.randn(70, 1000), "b": torch.tensor(3, dtype=torch.int64), "c": torch.empty(0, 4),
            "d": torch.randn(40_001).to(torch.bfloat16), "ü": torch.arange(8, dtype=torch.uint8), "e": torch.randn(33),
            "f": torch.arange(32.0).to(torch.float8_e4m3fn),
        }
        digest = weights.revision_of(source)
        whole = os.path.join(folder, "whole.safetensors")
        write_file(whole, source)
        shards = {"one.safetensors": ["d", "ü", "a"], "two.safetensors": ["e", "b", "f", "c"]}
        for name, names in shards.items():
            # The index leaves a tensor in the middle out.
            tensors = [(each, source[each]) for each in names]
            write_file(os.path.join(folder, name), dict([*tensors[:2], ("unused", torch.randn(3000)), *tensors[2:]]))
        index = os.path.join(folder, "model.safetensors.index.json")
        with open(index, "w", encoding="utf-8") as file:
            json.dump({"weight_map": {each: name for name, names in shards.items() for each in names}}, file)
        for path, piece, readers in ((whole, 8 * 2**20, 1), (whole, 2**15, 8), (index, 2**15, 1), (folder, 2**16, 8)):
            with (
                self.subTest(path=path, piece=piece), mock.patch.object(safetensors_files, "_PIECE", piece),
                mock.patch.object(safetensors_files, "THREADS", readers),
                weights.publish(self.client, "files", pathlib.Path(path), verify=piece < 2**20) as held,
            ):
                self.assertEqual(held.digest, digest)
                self.assertEqual(held.verify(), digest)
                for name, tensor in source.items():
                    self.assertEqual((held[name].dtype, held[name].shape), (tensor.dtype, tensor.shape))
                self.assertTrue(torch.equal(held["d"], source["d"]))
                paths = [each["path"] for each in held.metadata["sources"]]
                self.assertEqual(paths, [whole] if path == whole else [os.path.join(folder, each) for each in shards])
                entry, = (each for each in self.client.entries() if each.name == "files")
                status, stated = os.stat(paths[0]), entry.metadata["sources"][0]
                self.assertEqual((stated["size"], stated["mtimeNs"]), (status.st_size, str(status.st_mtime_ns)))
                self.assertEqual(entry.metadata["made"]["torch"], torch.__version__)
        # What Deno publishes has the same revision and the same layout.
        held = weights.load(self.client, "files", timeout=support.TIMEOUT)
        address = held["d"].data_ptr()
        held.release()
        for path in (whole, index):
            held = weights.publish(self.client, "files", path)
            address, tensors = held["d"].data_ptr(), held.metadata["tensors"]
            self.assertIn(digest[:12], command(self.path, "publish", path, "--name", "files"))
            self.assertTrue(held.update())
            self.assertEqual((held.digest, held["d"].data_ptr(), held.verify()), (digest, address, digest))
            self.assertEqual(held.metadata["tensors"], tensors)
            held.release()

    def test_files_that_are_not_valid(self) -> None:
        folder = os.path.join(self.folder, "invalid")
        os.mkdir(folder)
        path = os.path.join(folder, "a.safetensors")

        def of(**tensors: Any) -> bytes:
            return json.dumps(tensors).encode()

        tensor = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
        for header, data, why in (
            (b"", None, "length of a header"), (b"{", 0, "JSON"), (b"[]", 0, "begin with {"),
            (b'{"a": "\xff"}', 0, "UTF-8"),
            (b'{"a":{},"a":{}}', 0, "'a' twice"), (of(a=1), 0, "no object"), (of(a={**tensor, "dtype": "F3"}), 8, "F3"),
            (of(a={**tensor, "shape": [-1]}), 8, "shape"), (of(a={**tensor, "shape": [True, 2]}), 8, "shape"),
            (of(a={**tensor, "shape": [3]}), 8, "shape .* has 12"),
            (of(a={**tensor, "data_offsets": [8, 0]}), 8, "order"),
            (of(a=tensor), 9, "have 8 bytes"), (of(a=tensor, b=tensor), 16, "overlaps"), (of(a=tensor), 7, "7 bytes"),
            (of(a={**tensor, "data_offsets": [1, 9]}), 9, "gap"),
            (of(a=tensor, __metadata__={"a": 1}), 8, "__metadata__"),
            (of(a={**tensor, "dtype": "F4", "shape": [3], "data_offsets": [0, 2]}), 2, "has 1.5"),
        ):
            with self.subTest(header=header):
                with open(path, "wb") as file:
                    file.write(b"123" if data is None else len(header).to_bytes(8, "little") + header + bytes(data))
                self.assertRaisesRegex(ValueError, f"a.safetensors.*{why}", weights.publish, self.client, "never", path)
        with open(path, "wb") as file:
            file.write((10).to_bytes(8, "little") + b"{")
        self.assertRaisesRegex(ValueError, "10 bytes", weights.publish, self.client, "never", path)
        index = os.path.join(folder, "a.index.json")
        for text, why in (
            ("{}", "weight_map"), ('{"weight_map":{"a":"../a.safetensors"}}', "beside"), ("[", "JSON"),
            ('{"weight_map":{"b":"good.safetensors"}}', "lacks 'b'"),
        ):
            with open(index, "w", encoding="utf-8") as file:
                file.write(text)
            good = {"a": torch.arange(20_000.0)}
            write_file(os.path.join(folder, "good.safetensors"), good)
            self.assertRaisesRegex(ValueError, why, weights.publish, self.client, "never", index)
        self.assertRaisesRegex(ValueError, "a.safetensors, good", weights.publish, self.client, "never", folder)
        self.assertRaises(FileNotFoundError, weights.publish, self.client, "never", os.path.join(folder, "b"))
        empty = os.path.join(folder, "empty")
        os.mkdir(empty)
        self.assertRaisesRegex(ValueError, "no .*safetensors", weights.publish, self.client, "never", empty)
        # Files that change while they are read.
        path = os.path.join(folder, "good.safetensors")
        create = self.client.create
        for change, why in (
            (lambda: os.truncate(path, 200), "ends at byte 200"), (lambda: os.utime(path, (1, 1)), "changed"),
        ):

            def changing(*arguments: Any, **options: Any) -> Any:
                change()
                return create(*arguments, **options)

            write_file(path, good)
            with mock.patch.object(self.client, "create", changing):
                self.assertRaisesRegex(ValueError, why, weights.publish, self.client, "never", path)
        write_file(path, good)
        unhashed = mock.patch.object(safetensors_files, "_hash", lambda piece, data: None)
        with unhashed, self.assertRaises(SharingError) as caught:
            weights.publish(self.client, "never", path, verify=True)
        self.assertEqual(caught.exception.code, "digest-mismatch")
        self.assertNotIn("never", [each.name for each in self.client.entries()])
        self.assertEqual(runtime.locked, {})

    def test_verify(self) -> None:
        source = {"a": torch.arange(4.0), "b": torch.ones(2)}
        weights.publish(self.client, "verified", source, verify=True).release()
        with weights.load(self.client, "verified", verify=True, device=0) as held:
            self.assertEqual(held.verify(), held.digest)
            with weights.load(self.client, "verified", write=True) as writable:
                writable["b"][1] = 2
            with self.assertRaises(SharingError) as caught:
                held.verify()
            self.assertEqual(caught.exception.code, "digest-mismatch")
            self.assertIn(held.digest, str(caught.exception))
        self.assertRaisesRegex(SharingError, "now", weights.load, self.client, "verified", verify=True)
        self.assertRaisesRegex(SharingError, "device 1", weights.load, self.client, "verified", device=1)

    def test_modules_of_another_environment(self) -> None:
        model = nn.Linear(2, 2)
        published = weights.publish(self.client, "made", model)
        self.assertEqual(
            (published.metadata["made"]["class"], published.metadata["set"]), ("torch.nn.modules.linear.Linear", None)
        )
        published.release()
        renamed = type("Other", (nn.Linear,), {})(2, 2)
        for version, into, values in (
            ("1.9.7", model, "torch 2.*has 1.9.7"), (torch.__version__, renamed, "Linear, and this process has .*Other"),
        ):
            with mock.patch.object(torch, "__version__", version):
                with self.assertRaisesRegex(SharingError, values) as caught:
                    weights.load(self.client, "made", into)
            self.assertEqual(caught.exception.code, "incompatible")
        # A class of a script has another name where it is imported.
        weights.load(self.client, "made", type("Linear", (nn.Linear,), {"__module__": "__main__"})(2, 2)).release()
        # Tensors without a module are those of any.
        weights.load(self.client, "made").release()
        with mock.patch.object(cuda(), "capability", lambda device: "1.0"):
            weights.publish(self.client, "made", model).release()
            weights.load(self.client, "made", model).release()
        with mock.patch.object(cuda(), "capability", lambda device: "10.0"):
            self.assertRaisesRegex(SharingError, "capability 1.0.*has 10.0", weights.load, self.client, "made")
        if DENO is not None:
            with self.assertRaises(subprocess.CalledProcessError) as failed:
                command(self.path, "verify", "made")
            self.assertRegex(failed.exception.stderr, "capability 1.0, and this process has")

    def test_sleep_and_update(self) -> None:
        model = tied()
        weights.publish(self.client, "slept", model).release()
        copy = self.on_meta().eval()
        held = weights.load(self.client, "slept", copy, private=["recurrent.*"])
        address, place = copy.head.weight.data_ptr(), address_of(held)
        memories = len(virtual_memory.memories)

        def is_like(model: Any) -> bool:
            with torch.no_grad():
                return torch.equal(copy(self.tokens()), model(self.tokens()))

        for _ in range(2):
            for _ in range(2):
                held.sleep()
                self.assertTrue(held.is_asleep)
                self.assertNotIn(place.start, virtual_memory.access)
                entry, = (each for each in self.client.entries() if each.name == "slept")
                self.assertEqual((entry.readers, [each.pid for each in entry.sleepers]), ((), [os.getpid()]))
            # What sleeps is not in this process at all.
            self.assertEqual(len(virtual_memory.memories), memories - 1)
            for _ in range(2):
                held.wake()
                self.assertFalse(held.is_asleep)
            self.assertTrue(is_like(model))
        self.assertFalse(held.update())
        with weights.load(self.client, "slept") as another:
            another.sleep()
            # A private copy of what is not mapped.
            self.assertRaisesRegex(RuntimeError, "asleep", lambda: another["scale"])
        for sleeps in (False, True):
            model = tied(2 + sleeps)
            with weights.publish(self.client, "slept", model) as published:
                if sleeps:
                    held.sleep()
                self.assertTrue(held.update(timeout=support.TIMEOUT))
                self.assertEqual((held.generation, held.digest), (published.generation, published.digest))
            # Also the buffers, and the private copies of parameters.
            self.assertTrue(is_like(model))
            self.assertEqual((copy.head.weight.data_ptr(), address_of(held)), (address, place))
            self.assertEqual(weights.revision_of({**held}), held.digest)
        support.wait_for(lambda: len(virtual_memory.memories) == memories, support.TIMEOUT)
        replaced = self.client.entries(replaced=True)
        self.assertEqual([each.generation for each in replaced if each.name == "slept"], [3])
        # The generation that is mapped is the one that the store has this process down for.
        entry, = (each for each in self.client.entries() if each.name == "slept")
        self.assertEqual((entry.generation, [each.pid for each in entry.readers]), (3, [os.getpid()]))

        other = tied(4)
        other.scale = other.scale.double()
        weights.publish(self.client, "slept", other).release()
        with self.assertRaises(SharingError) as caught:
            held.update()
        self.assertEqual(caught.exception.code, "layout-changed")
        self.assertIn('"scale"', str(caught.exception))
        self.assertEqual((held.generation, is_like(model)), (3, True))
        held.release()
        for use in (held.sleep, held.wake, held.update):
            self.assertRaisesRegex(RuntimeError, "released", use)
        del copy
        support.wait_for(lambda: place.start not in virtual_memory.reserved, support.TIMEOUT)

    def test_sleep_in_another_generation(self) -> None:
        first, second = {"a": torch.arange(4.0)}, {"a": torch.arange(4.0) + 1}
        held = weights.publish(self.client, "sleeper", first)
        held.sleep()
        weights.publish(self.client, "sleeper", second).release()
        replaced = [each for each in self.client.entries(replaced=True) if each.name == "sleeper"]
        self.assertEqual([len(each.sleepers) for each in sorted(replaced, key=lambda each: each.generation)], [1, 0])
        held.wake()
        self.assertTrue(torch.equal(held["a"], first["a"]))
        self.client.remove("sleeper")
        held.sleep()
        held.wake(timeout=support.TIMEOUT)
        self.assertEqual((held["a"].tolist(), held.verify()), (first["a"].tolist(), held.digest))
        self.assertRaisesRegex(SharingError, "not answered", held.update, timeout=0.01)
        held.sleep()
        ask = self.client._link.ask
        with mock.patch.object(self.client._link, "ask", lambda document, deadline, **more: ask(document, 0, **more)):
            self.assertRaises(SharingTimeoutError, held.wake)
        self.assertTrue(held.is_asleep)
        held.wake()
        self.assertTrue(torch.equal(held["a"], first["a"]))
        held.release()

    def test_offload(self) -> None:
        source = {"a": torch.arange(3_000_000.0), "b": torch.arange(3.0)}
        held = weights.publish(self.client, "moved", source)
        address = held["a"].data_ptr()

        def entry() -> Any:
            return next(each for each in self.client.entries() if each.name == "moved")

        with self.assertRaises(SharingError) as caught:
            self.client.offload("moved")
        self.assertEqual(caught.exception.code, "in-use")
        self.assertIn(str(os.getpid()), str(caught.exception))
        with self.assertRaises(SharingError) as caught:
            self.client.offload("moved", timeout=0.05)
        self.assertEqual(caught.exception.code, "in-use")
        for wakes in (True, False):
            if wakes:
                later = threading.Thread(target=lambda: self.client.offload("moved", timeout=support.TIMEOUT))
                later.start()
                held.sleep()
                later.join()
            else:
                held.sleep()
            self.client.offload("moved")
            self.client.offload("moved")
            self.assertEqual((entry().place, len(entry().sleepers)), ("host", 1))
            if wakes:
                held.wake()
            else:
                with weights.load(self.client, f"moved@{held.digest}") as other:
                    self.assertTrue(torch.equal(other["a"], source["a"]))
                self.assertTrue(held.is_asleep)
                held.update()
            self.assertEqual((entry().place, held["a"].data_ptr()), ("device", address))
            self.assertEqual(held.verify(), weights.revision_of(source))
        held.sleep()
        # A move that fails leaves all as it was.
        with mock.patch.object(moves, "copy_file", side_effect=RuntimeError("cut")):
            self.assertRaisesRegex(RuntimeError, "cut", self.client.offload, "moved")
            self.assertEqual(entry().place, "device")
        self.client.offload("moved")
        with mock.patch.object(moves, "copy_file", side_effect=RuntimeError("cut")):
            self.assertRaisesRegex(RuntimeError, "cut", held.wake)
            self.assertRaisesRegex(RuntimeError, "cut", weights.load, self.client, "moved")
        self.assertEqual((held.is_asleep, entry().place), (True, "host"))
        held.wake()
        self.assertEqual(held.verify(), held.digest)
        # What comes back is checked.
        held.sleep()
        self.client.offload("moved")
        with mock.patch.object(moves, "copy_file"), self.assertRaises(SharingError) as caught:
            held.wake()
        self.assertEqual((caught.exception.code, held.is_asleep), ("digest-mismatch", True))
        held.wake()
        held.release()
        self.client.offload("moved")
        weights.load(self.client, "moved").release()
        self.client.offload("moved")
        self.assertEqual(entry().place, "host")
        self.assertRaises(NotADirectoryError, self.client.offload, "moved", to="disk")
        with self.assertRaises(SharingError) as caught:
            self.client.offload("none")
        self.assertEqual(caught.exception.code, "not-found")

    def test_shared_memory(self) -> None:
        source = {"a": torch.arange(3_000_000.0), "b": torch.arange(3.0)}
        many = {f"{index}.{'x' * 1000}": torch.tensor([index]) for index in range(1200)}

        def status() -> list[tuple[str, int]]:
            return [(each.name, each.generation) for each in self.client.entries() if each.name.startswith("same")]

        def memories() -> int:
            # The device is a process's own memory here: each memory is a file of its store.
            folder = f"/proc/{self.store.process.pid}/fd"
            return len({os.stat(os.path.join(folder, each)).st_ino for each in os.listdir(folder)
                        if os.readlink(os.path.join(folder, each)).startswith("/memfd:")})

        for tensors in (source, many):
            with weights.publish(self.client, "same 1", tensors) as first:
                # What earlier tests have left is gone.
                gc.collect()
                self.client._link.finish_unmapping(None)
                self.client.entries()
                before = memories()
                with weights.publish(self.client, "same 2", tensors) as second:
                    self.assertEqual((status(), memories()), ([("same 1", 1), ("same 2", 1)], before))
                    self.assertEqual((second.verify(), second.generation), (first.digest, 1))
                    for name, tensor in tensors.items():
                        self.assertTrue(torch.equal(second[name], tensor))
                    with self.assertRaises(SharingError) as caught:
                        weights.load(self.client, "same 1", write=True)
                    self.assertEqual(caught.exception.code, "in-use")
                    # Both are the same memory in this process, too.
                    second.sleep()
                    second.wake()
                with weights.publish(self.client, "same 3", tensors, share=False):
                    self.assertEqual(memories(), before + 1)
                self.client.remove("same 3")
                self.client.remove("same 1")
                with weights.load(self.client, "same 2") as other:
                    self.assertEqual(other.verify(), first.digest)
            self.client.remove("same 2")
        # What only claims to be the same.
        weights.publish(self.client, "same 1", source).release()
        with mock.patch.object(weights.Weights, "_compute_digest", return_value="0" * 64):
            false = weights.publish(self.client, "same 2", {**source, "b": torch.ones(3)})
            false.release()
        with weights.load(self.client, "same 2") as held:
            self.assertEqual(held["b"].tolist(), [1, 1, 1])
        mapped = self.client.map("same 1", write=True)
        mapped.release()
        with weights.publish(self.client, "same 3", source) as held:
            self.assertEqual(held.verify(), weights.revision_of(source))
            self.assertTrue(torch.equal(held["a"], source["a"]))
        for name in ("same 1", "same 2", "same 3"):
            self.client.remove(name)

    def test_making_room(self) -> None:
        path = os.path.join(os.environ["POOLPASS_WEIGHTS_FOLDER"], "small.sock")
        store = DenoStore(path, "--evict-to", "host", "--limit", "8MiB")
        self.addCleanup(store.close)
        with StoreClient.connect(path, wait=support.TIMEOUT, **support.PATIENCE) as client:
            def places() -> list[str]:
                client._link.finish_unmapping(None)
                return [each.place for each in client.entries()]

            # Each takes half of the device.
            models = {name: {"x": torch.full((1_000_000,), float(value))} for value, name in enumerate("abc")}
            held = {name: weights.publish(client, name, tensors) for name, tensors in list(models.items())[:2]}
            with self.assertRaises(SharingTimeoutError):
                weights.publish(client, "c", models["c"], timeout=0.05)
            held["a"].sleep()
            held["c"] = weights.publish(client, "c", models["c"])
            self.assertEqual(places(), ["host", "device", "device"])
            for name in "bc":
                held.pop(name).release()
            for name in "bcabc":
                with weights.load(client, name) as loaded:
                    self.assertTrue(torch.equal(loaded["x"], models[name]["x"]))
                    self.assertEqual(loaded.verify(), weights.revision_of(models[name]))
                self.assertEqual(sorted(places()), ["device", "device", "host"])
            held["a"].wake()
            self.assertTrue(torch.equal(held["a"]["x"], models["a"]["x"]))
            held["a"].release()

    def test_offload_to_files(self) -> None:
        folder = os.path.join(self.folder, "offloaded")
        os.mkdir(folder)
        source = {
            "a": torch.arange(3_000_000.0), "b": torch.arange(3.0).to(torch.bfloat16), "c": torch.empty(0),
            "pairs": torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(2, 4),
        }
        many = {f"{index}.{'ü' * 1000}": torch.tensor([index]) for index in range(600)}
        for name, tensors in (("a/b", source), ("many", many)):
            held = weights.publish(self.client, name, tensors)
            held.sleep()
            self.client.offload(name, to=folder)
            path = os.path.join(folder, f"{name.replace('/', '%2F')}@{held.digest}.safetensors")
            self.assertEqual([each.place for each in self.client.entries() if each.name == name], [path])
            with weights.publish(self.client, "copy", path) as copy:
                self.assertEqual(copy.digest, held.digest)
            held.wake()
            self.assertEqual(held.verify(), weights.revision_of(tensors))
            with weights.load(self.client, name) as again:
                self.assertEqual(set(again), set(tensors))
            # A file that was changed in the meantime.
            held.sleep()
            self.client.offload(name, to=pathlib.Path(folder))
            with open(path, "r+b") as file:
                file.seek(-1, os.SEEK_END)
                last = file.read()
                file.seek(-1, os.SEEK_END)
                file.write(bytes([last[0] ^ 1]))
            with self.assertRaises(SharingError) as caught:
                held.wake()
            self.assertEqual((caught.exception.code, held.is_asleep), ("digest-mismatch", True))
            write_file(path, {"other": torch.ones(2)})
            self.assertRaisesRegex(SharingError, '"other"|lacks its list', weights.load, self.client, name)
            held.release()
        self.assertEqual(len(os.listdir(folder)), 2)
        # What one language moves, the other one brings back.
        with weights.publish(self.client, "both", source) as held:
            held.sleep()
            self.client.offload("both", to=folder)
            command(self.path, "wake", "both")
            self.assertEqual([each.place for each in self.client.entries() if each.name == "both"], ["device"])
            for place in (folder, "host"):
                command(self.path, "offload", "both", "--to", place)
                held.wake()
                self.assertEqual(held.verify(), held.digest)
                held.sleep()
        self.assertEqual(len(os.listdir(folder)), 3)
        model = tied()
        weights.publish(self.client, "strided", model).release()
        self.assertRaisesRegex(SharingError, '"transposed" is transposed', self.client.offload, "strided", to=folder)
        self.assertEqual(len(os.listdir(folder)), 3)

    def test_sleep_with_a_store_that_does_not_know_it(self) -> None:
        held = weights.publish(self.client, "old", {"a": torch.arange(4.0)})
        refusal = SharingError("bad-message", "What is sleep?")
        with mock.patch.object(self.client._link, "ask", side_effect=refusal):
            held.sleep()
        self.assertTrue(held.is_asleep)
        held.wake()
        self.assertEqual(held["a"].tolist(), [0, 1, 2, 3])
        gone = SharingError("peer-gone", "It is gone")
        with mock.patch.object(self.client._link, "ask", side_effect=gone):
            self.assertRaises(SharingError, held.sleep)
        self.assertEqual((held.is_asleep, held["a"].tolist()), (False, [0, 1, 2, 3]))
        held.release()

    def test_sleep_and_update_that_fail(self) -> None:
        first, second = {"a": torch.arange(4.0)}, {"a": torch.arange(4.0) + 1}
        held = weights.publish(self.client, "failing", first)
        begin = held._first_address
        memories = len(virtual_memory.memories)
        weights.publish(self.client, "failing", second).release()
        failure = CudaError("no memory", code="CUDA_ERROR_OUT_OF_MEMORY", number=2, call="cuMemSetAccess")
        calls, set_access = cuda(), cuda().set_access

        def fail_once(address: int, *arguments: Any) -> None:
            if address == begin and not failed:
                failed.append(address)
                raise failure
            set_access(address, *arguments)

        for sleeps in (False, True):
            for change in (held.wake, held.update):
                failed: list[int] = []
                if sleeps:
                    held.sleep()
                elif change == held.wake:
                    continue
                with mock.patch.object(calls, "set_access", fail_once):
                    self.assertRaises(CudaError, change)
                self.assertEqual((held.is_asleep, held.generation), (sleeps, 1))
                held.wake()
                self.assertTrue(torch.equal(held["a"], first["a"]))
        support.wait_for(lambda: len(virtual_memory.memories) == memories, support.TIMEOUT)
        held.update()
        self.assertTrue(torch.equal(held["a"], second["a"]))
        held.sleep()
        held.release()
        support.wait_for(lambda: begin not in virtual_memory.reserved, support.TIMEOUT)


if __name__ == "__main__":
    unittest.main()
