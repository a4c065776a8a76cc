"""The software device, as README.md describes it: its scripts, each pasted into a file, and what is said without it."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import support

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

DENO = os.environ.get("POOLPASS_DENO")
# Without the tests' cuda-bindings.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "POOLPASS_DRIVER"},
    "PYTHONPATH": os.pathsep.join((support.PACKAGE, os.path.join(support.TESTS, "readme"))),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "NO_COLOR": "1",
}
SOFTWARE = {**ENVIRONMENT, "POOLPASS_DRIVER": "software"}


class SoftwareTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="poolpass-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *command: str, environment: dict[str, str] = SOFTWARE) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

        def end() -> None:
            child.kill()
            child.communicate()

        self.addCleanup(end)
        return child

    def output_of(self, *command: str, environment: dict[str, str] = SOFTWARE) -> str:
        return self.finish(self.start(*command, environment=environment))

    def finish(self, child: subprocess.Popen[str], answer: str = "") -> str:
        output, errors = child.communicate(answer, timeout=support.TIMEOUT)
        self.assertEqual(child.returncode, 0, errors)
        return output

    def run_here(self, program: str, **options: Any) -> str:
        return self.output_of(sys.executable, "-c", program, **options)


class DriverTest(SoftwareTest):
    SHOW = "import poolpass\ntry: print(poolpass.driver())\nexcept poolpass.CudaUnavailableError as error: print(error)"

    def test_imports_are_quick(self) -> None:
        """What takes long is imported when it is needed."""
        code = "import poolpass, sys; from poolpass import weights; poolpass.StoreClient; print(*sys.modules)"
        loaded = subprocess.check_output([sys.executable, "-S", "-c", code], env=support.ENVIRONMENT, text=True).split()
        slow = {"dataclasses", "datetime", "hashlib", "torch", "urllib.parse", "poolpass.exporter", "poolpass.moves"}
        self.assertEqual(slow & set(loaded), set())

    def test_driver_is_named(self) -> None:
        self.assertEqual(self.run_here(self.SHOW), "software\n")

    def test_what_is_missing_is_named(self) -> None:
        said = self.run_here(self.SHOW, environment=ENVIRONMENT)
        if said != "cuda\n":
            self.assertRegex(said, "^Cannot use CUDA: .*; without a GPU, set POOLPASS_DRIVER=software\n$")
        wrong = self.run_here(self.SHOW, environment={**ENVIRONMENT, "POOLPASS_DRIVER": "gpu"})
        self.assertEqual(wrong, 'Cannot use POOLPASS_DRIVER="gpu": it must be one of auto, cuda, software\n')

    @unittest.skipIf(numpy is None, "there is no NumPy")
    def test_numpy_uses_the_memory_in_place(self) -> None:
        program = """
import numpy
from poolpass import MemoryPool
with MemoryPool() as pool:
    array = pool.allocate_array((2, 3), "float32")
    first, second = numpy.from_dlpack(array), numpy.asarray(array)
    first[...] = numpy.arange(6).reshape(2, 3)
    assert second.sum() == 15 and second.shape == (2, 3)
    second[0, 0] = 1
    assert numpy.frombuffer(array.read(), "float32").sum() == 16
    assert not hasattr(array, "__cuda_array_interface__")
"""
        self.run_here(program)

    def test_devices_of_other_processes_are_named(self) -> None:
        program = """
from poolpass import SharingError
from poolpass.cuda import cuda
assert cuda().device_of_uuid(b"poolpass softwa\\0") == 0
for uuid in b"poolpass softwa\\1", bytes(16):
    try:
        cuda().device_of_uuid(uuid)
    except SharingError as error:
        print(error)
"""
        first, second = self.run_here(program).splitlines()
        self.assertRegex(first, "this process has the first software device only")
        self.assertRegex(second, "it is a GPU, and this process has POOLPASS_DRIVER=software")

    def test_parts_of_a_gpu_have_uuids_of_their_own(self) -> None:
        program = """
from types import SimpleNamespace
from poolpass.cuda import Cuda
from poolpass.software import driver, runtime
runtime.cudaGetDeviceCount = lambda: (0, 3)
driver.cuDeviceGetUuid_v2 = lambda device: (0, SimpleNamespace(bytes=bytes(15) + bytes([device])))
names = b"NVIDIA A100-SXM4-40GB", b"NVIDIA A100-SXM4-40GB MIG 1g.5gb\\0", b"NVIDIA A100-SXM4-40GB MIG 2g.10gb"
driver.cuDeviceGetName = lambda length, device: (0, names[device])
calls = Cuda()
assert [calls.device_of_uuid(uuid) for uuid in calls.uuids] == [0, 1, 2]
zeros = "00000000-0000-0000-0000-00000000000"
assert calls.uuid_texts == [f"GPU-{zeros}0", f"MIG-{zeros}1", f"MIG-{zeros}2"]
"""
        self.run_here(program)

    def test_freed_memory_is_used_again(self) -> None:
        program = """
import os
from poolpass import MemoryPool
from poolpass.cuda import cuda
with MemoryPool() as pool:
    for _ in range(100):
        with pool.allocate(2**20), pool.allocate(2**20):
            pass
        cuda().synchronize_device(0)
    size = os.fstat(pool._export()).st_size
    assert size < 4 * 2**20, size
"""
        self.run_here(program)


@unittest.skipIf(numpy is None, "there is no NumPy")
class ReadmeTest(SoftwareTest):
    def setUp(self) -> None:
        super().setUp()
        with open(os.path.join(support.PACKAGE, "README.md"), encoding="utf-8") as file:
            text = file.read()
        self.scripts = re.findall(r"```(?:py|ts)\n(.*?)```", text, re.DOTALL)
        # The last one needs PyTorch itself: weights_checks.py runs it.
        self.assertEqual(len(self.scripts), 7)

    def save(self, number: int, name: str) -> str:
        """Saves a script in a file, with sockets that no other test has."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"/tmp/(\w+\.sock)", rf"{self.folder}/\1", self.scripts[number]))
        return path

    def start_script(self, number: int, *arguments: str) -> subprocess.Popen[str]:
        return self.start(sys.executable, self.save(number, f"script{number}.py"), *arguments)

    def run_script(self, number: int, *arguments: str) -> str:
        return self.finish(self.start_script(number, *arguments))

    def test_weights(self) -> None:
        exporter = self.start_script(0, "export")
        self.assertRegex(self.run_script(0, "import"), r"tensor\(66")
        if DENO:
            self.scripts[1] = self.scripts[1].replace("./mod.ts", os.path.join(support.ROOT, "mod.ts"))
            path = self.save(1, "import.ts")
            said = self.output_of(DENO, "run", "--no-check", "--allow-ffi", path)
            self.assertRegex(said, r"^float32 \[ 3, 4 \] Float32Array\(12\) \[\s*0,\s*1,")
        self.assertRegex(self.finish(exporter, "\n"), r"\d processes use it")

    def test_weights_without_a_copy(self) -> None:
        exporter = self.start_script(2)
        self.assertRegex(exporter.stdout.read(1) if exporter.stdout else "", "E")
        self.assertRegex(self.run_script(0, "import"), r"tensor\(")
        self.finish(exporter, "\n")

    def test_frames(self) -> None:
        producer = self.start_script(3, "produce")
        said = self.run_script(3, "consume").splitlines()
        self.assertEqual(said, [f"{{'number': {number}}} {number}" for number in range(100)])
        self.finish(producer)

    @unittest.skipIf(DENO is None, "there is no Deno")
    def test_store(self) -> None:
        path = os.path.join(self.folder, "store.sock")
        main = os.path.join(support.ROOT, "cli", "main.ts")
        store = self.start(DENO or "", "run", "--no-check", "-A", main, "store", path)
        self.assertRegex(store.stdout.readline() if store.stdout else "", "^Serving at")
        self.run_script(4)
        self.assertRegex(self.run_script(5), r"tensor\(6")


if __name__ == "__main__":
    unittest.main()
