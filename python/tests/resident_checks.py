"""Models of transformers in a store of Deno, on the software device, with PyTorch on the CPU. test_resident.py runs it
in a process of its own, whose environment selects the device."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest
import zlib
from typing import Any
from unittest import mock

import support
import torch
import transformers
import weights_models
from poolpass import SharingError, weights
from resident_children import digest_of, outside
from safetensors.torch import load_file, save_file
from test_store import StoreChecks
from transformers import modeling_utils


class ResidentTest(StoreChecks):
    @classmethod
    def setUpClass(cls) -> None:
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        super().setUpClass()

    def save(self, name: str, into: str, **options: Any) -> str:
        # Each test has its own weights: equal files are the same weights, whatever folder they are in.
        seed = zlib.crc32(into.encode())
        return weights_models.save(name, os.path.join(self.folder, into), seed=seed, **options)

    def resident(self, path: str, model: str = "llama", **options: Any) -> tuple[Any, weights.Weights]:
        with weights.resident(self.client, timeout=support.TIMEOUT, **options) as resident:
            loaded = weights_models.load(model, path)
        held, = resident.weights
        return loaded, held

    def start(self, count: int, log: str, *models: str) -> subprocess.Popen[str]:
        script = os.path.join(support.TESTS, "resident_children.py")
        child = subprocess.Popen(
            [sys.executable, script, self.path, str(count), log, *models], stdout=subprocess.PIPE, text=True
        )

        def end() -> None:
            child.kill()
            child.communicate()

        self.addCleanup(end)
        return child

    def finish(self, child: subprocess.Popen[str]) -> list[Any]:
        output, _ = child.communicate(timeout=4 * support.TIMEOUT)
        return [json.loads(line) for line in output.splitlines()]

    def test_models(self) -> None:
        paths = {}
        expected: dict[str, Any] = {}
        for name in weights_models.MODELS:
            dtype = torch.bfloat16 if name == "qwen3" else torch.float32
            paths[name] = path = self.save(name, "models", dtype=dtype)
            plain = weights_models.load(name, path)
            logits = weights_models.logits(plain)
            for _ in range(2):
                model, held = self.resident(path, name)
                with self.subTest(name), held.guard():
                    self.assertTrue(torch.equal(weights_models.logits(model), logits))
                    self.check_same(model, plain, held)
            entry, = (each for each in self.client.entries() if each.name == held.name)
            self.assertEqual((entry.generation, len(entry.readers)), (1, 1))
            other = weights_models.on_meta(name, plain)
            loaded = weights.load(self.client, held.name, other)
            with self.subTest(name):
                self.assertTrue(torch.equal(weights_models.logits(other), logits))
                self.assertEqual(outside(other, loaded), [])
            # What is saved is the same as of a model that was loaded as usual.
            saved = []
            for each in (plain, model):
                folder = os.path.join(self.folder, "saved", name, str(len(saved)))
                each.save_pretrained(folder)
                saved.append(load_file(os.path.join(folder, "model.safetensors")))
            self.assertEqual(weights.revision_of(saved[0]), weights.revision_of(saved[1]))
            expected[name] = {
                "model": name, "name": held.name, "generation": 1, "digest": held.digest, "logits": digest_of(logits),
                "outside": [],
            }
        log = os.path.join(self.folder, "second")
        said = self.finish(self.start(1, log, *(f"{name}={path}" for name, path in paths.items())))
        self.assertEqual({each["model"]: each for each in said}, expected)
        self.assertFalse(os.path.exists(log))

    def check_same(self, model: Any, plain: Any, held: Any) -> None:
        self.assertIs(type(model), type(plain))
        self.assertEqual(outside(model, held), [])
        self.assertEqual(weights_models.tied_names(model), weights_models.tied_names(plain))
        self.assertFalse(any(each.requires_grad for each in model.parameters()))
        place = range(held._first_address, held._first_address + held.nbytes)
        for name, each in model.named_buffers():
            self.assertNotIn(each.data_ptr(), place, name)
        for name in ("named_parameters", "named_buffers"):
            own, other = (dict(getattr(each, name)()) for each in (model, plain))
            self.assertEqual(list(own), list(other))
            for key, each in own.items():
                self.assertFalse(each.is_meta, key)
                self.assertEqual((each.dtype, each.stride()), (other[key].dtype, other[key].stride()), key)
                self.assertTrue(torch.equal(each, other[key]), key)
        self.assertEqual(list(model.state_dict()), list(plain.state_dict()))

    def test_processes_that_start_at_once(self) -> None:
        path = self.save("llama", "at once")
        expected = digest_of(weights_models.logits(weights_models.load("llama", path)))
        log = os.path.join(self.folder, "log")
        said = self.finish(self.start(8, log, f"llama={path}"))
        self.assertEqual([each["logits"] for each in said], [expected] * 8)
        self.assertEqual(len({json.dumps(each) for each in said}), 1)
        with open(log, encoding="ascii") as file:
            self.assertEqual(len(file.readlines()), 1)
        names = [each.name for each in self.client.entries() if each.name == said[0]["name"]]
        self.assertEqual(len(names), 1)

    def test_a_process_that_is_killed_while_it_loads(self) -> None:
        path = self.save("llama", "killed")
        log = os.path.join(self.folder, "killed.log")
        with open(f"{log}.stop", "w", encoding="ascii"):
            pass
        child = self.start(4, log, f"llama={path}")

        def readers() -> list[int]:
            try:
                with open(log, encoding="ascii") as file:
                    return [int(line) for line in file]
            except FileNotFoundError:
                return []

        support.wait_for(readers, 2 * support.TIMEOUT)
        self.assertEqual(len(readers()), 1)
        os.kill(readers()[0], signal.SIGKILL)
        said = self.finish(child)
        self.assertEqual(len(said), 3)
        self.assertEqual({each["generation"] for each in said}, {1})
        self.assertEqual(len(readers()), 2)

    def test_files_that_change(self) -> None:
        path = self.save("llama", "changed")
        file = os.path.join(path, "model.safetensors")
        model, held = self.resident(path)
        logits = weights_models.logits(model)
        other = os.path.join(self.folder, "elsewhere")
        shutil.copytree(path, other)
        linked = os.path.join(self.folder, "linked")
        shutil.copytree(path, linked, copy_function=os.link)
        os.utime(file)
        for each in (path, other, linked):
            model, again = self.resident(each)
            self.assertEqual((again.name, again.generation), (held.name, 1))
            self.assertTrue(torch.equal(weights_models.logits(model), logits))

        def change(to: str, by: float) -> None:
            tensors = load_file(to)
            tensors["model.norm.weight"][0] += by
            save_file(tensors, f"{to}.new", metadata={"format": "pt"})
            with open(f"{to}.new", "rb") as source, open(to, "r+b") as target:
                target.write(source.read())
            os.remove(f"{to}.new")

        # The copy is another checkpoint now, although its header is the same.
        change(os.path.join(other, "model.safetensors"), 1)
        model, again = self.resident(other)
        self.assertNotEqual(again.name, held.name)
        self.assert_is(model, other)
        self.assertFalse(torch.equal(weights_models.logits(model), logits))
        # The file itself becomes the next generation.
        change(file, 2)
        model, again = self.resident(path)
        self.assertEqual((again.name, again.generation), (held.name, 2))
        self.assert_is(model, path)
        # Only the first model can be updated to it.
        self.assertTrue(held.update())
        self.assertEqual(held.digest, again.digest)

    def assert_is(self, model: Any, path: str) -> None:
        plain = weights_models.load("llama", path)
        self.assertTrue(torch.equal(weights_models.logits(model), weights_models.logits(plain)))

    def test_a_file_that_is_damaged(self) -> None:
        path = self.save("llama", "damaged")
        file = os.path.join(path, "model.safetensors")
        with open(file, "rb") as whole:
            data = whole.read()
        with open(file, "wb") as damaged:
            damaged.write(data[:-1])
        with self.assertRaises(Exception):
            self.resident(path)
        with open(file, "wb") as repaired:
            repaired.write(data)
        self.assertEqual(self.resident(path)[1].generation, 1)
        self.client.remove(self.resident(path)[1].name)
        finalize = modeling_utils.PreTrainedModel._finalize_model_loading

        def change(model: Any, load_config: Any, loading_info: Any) -> Any:
            os.utime(file)
            return finalize(model, load_config, loading_info)

        with mock.patch.object(modeling_utils.PreTrainedModel, "_finalize_model_loading", staticmethod(change)):
            self.assertRaisesRegex(RuntimeError, "changed meanwhile", self.resident, path)
        self.assertEqual(self.resident(path)[1].generation, 1)

    def test_other_weights_of_the_name(self) -> None:
        llama, qwen = self.save("llama", "named"), self.save("qwen3", "named")
        model, held = self.resident(llama, name="named")
        self.assertEqual((held.name, held.generation), ("named", 1))
        with self.assertRaisesRegex(SharingError, "Llama.*Qwen3") as caught:
            self.resident(qwen, "qwen3", name="named")
        self.assertEqual(caught.exception.code, "incompatible")
        with mock.patch.object(torch, "__version__", "1.2.3"):
            self.assertRaisesRegex(SharingError, "torch 2.*has 1.2.3", self.resident, llama)
        weights.publish(self.client, "by hand", model).release()
        self.assertRaisesRegex(SharingError, "made with class None", self.resident, llama, name="by hand")
        # Another dtype is another entry.
        with weights.resident(self.client) as resident:
            half = weights_models.load("llama", llama, dtype=torch.float16)
        self.assertEqual(half.lm_head.weight.dtype, torch.float16)
        self.assertNotEqual(resident.weights[0].name, self.resident(llama)[1].name)
        self.assertRaises(ValueError, weights.resident, self.client, name="a@b")
        self.assertRaises(TypeError, weights.resident, self.client, private="x")

    def test_what_files_lack(self) -> None:
        path = self.save("llama", "lacking")
        for _ in range(2):
            with weights.resident(self.client) as resident:
                model = transformers.AutoModelForSequenceClassification.from_pretrained(path)
            self.assertEqual(outside(model, resident.weights[0]), ["score.weight"])
            self.assertTrue(model.score.weight.requires_grad)
            self.assertNotIn("score.weight", resident.weights[0])
            model.score.weight.data.zero_()

    def test_writes(self) -> None:
        path = self.save("llama", "writes")
        for _ in range(2):
            model, held = self.resident(path, private=["*.q_proj.weight"])
            self.assertEqual(len(outside(model, held)), 2)
            self.assertTrue(all(".q_proj." in each for each in outside(model, held)))
            tokens = torch.arange(6)[None]
            model(tokens, labels=tokens).loss.backward()
            trained = [each for each in model.parameters() if each.requires_grad]
            self.assertEqual(len(trained), 2)
            with held.guard():
                torch.optim.AdamW(trained).step()
                with self.assertRaisesRegex(RuntimeError, '"model.layers.0.self_attn.k_proj.weight" of the weights'):
                    model.model.layers[0].self_attn.k_proj.weight.data.add_(1)

    def test_calls_that_are_left_alone(self) -> None:
        path = self.save("llama", "alone")
        plain = weights_models.load("llama", path)
        self.assertRaisesRegex(RuntimeError, "loaded none", self.enter_and, lambda: None)

        def in_a_thread() -> None:
            thread = threading.Thread(target=weights_models.load, args=("llama", path))
            thread.start()
            thread.join()

        self.assertRaisesRegex(RuntimeError, "another thread", self.enter_and, in_a_thread)
        self.assertRaisesRegex(KeyError, "own", self.enter_and, lambda: {}["own"])
        before = self.client.entries()
        with weights.resident(self.client) as resident:
            given = type(plain).from_pretrained(None, config=plain.config, state_dict=plain.state_dict())
        self.assertEqual((resident.weights, self.client.entries()), ([], before))
        self.assertTrue(torch.equal(given.lm_head.weight, plain.lm_head.weight))
        with self.assertRaisesRegex(ValueError, "loaded to meta"), weights.resident(self.client):
            weights_models.load("llama", path, device_map="meta")
        # Nothing of transformers stays replaced.
        for name in ("_load_pretrained_model", "_finalize_model_loading"):
            self.assertEqual(getattr(modeling_utils.PreTrainedModel, name).__module__, modeling_utils.__name__)
        self.assertEqual(modeling_utils.caching_allocator_warmup.__module__, modeling_utils.__name__)

    def enter_and(self, function: Any) -> None:
        with weights.resident(self.client):
            function()

    def test_transformers_that_are_not_known(self) -> None:
        other = staticmethod(lambda model, files: None)
        with mock.patch.object(modeling_utils.PreTrainedModel, "_load_pretrained_model", other):
            self.assertRaisesRegex(
                RuntimeError, r"from_pretrained\(None, config=CONFIG, state_dict=", self.enter_and, lambda: None
            )
        self.assertEqual(self.resident(self.save("llama", "known"))[1].generation, 1)

    def test_allocations_in_advance(self) -> None:
        path = self.save("llama", "advance")
        calls = []
        with mock.patch.object(modeling_utils, "caching_allocator_warmup", lambda *_: calls.append(1)):
            for expected in (1, 1):
                with weights.resident(self.client):
                    weights_models.load("llama", path, device_map="cpu")
                self.assertEqual(len(calls), expected)


if __name__ == "__main__":
    unittest.main()
