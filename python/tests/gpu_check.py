#!/usr/bin/env python3
"""Checks the package on a GPU, with PyTorch, CuPy and Deno. Prints a line for each check.

    python3 python/tests/gpu_check.py [NAME...]

Needs a GPU, cuda-bindings, PyTorch, CuPy, and `deno` on the PATH (or its path in POOLPASS_DENO). NAME selects checks
whose name contains it. A check that takes longer than LIMIT ends the program.
"""
from __future__ import annotations

import faulthandler
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from typing import Any, Callable, Iterator
from contextlib import contextmanager

TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(TESTS))

import cupy
import torch

import poolpass
from poolpass import Exporter, Importer, MemoryPool, SharingError, StoreClient, ipc_handles, weights
from poolpass import messages as m
from poolpass.cuda import cuda

DENO = os.environ.get("POOLPASS_DENO") or shutil.which("deno")
# Seconds for a check, for a step of it, and for a process of Deno.
LIMIT = 240
TIMEOUT = 30.0
MIB = 2**20
# What a context may allocate or free for itself between two measurements.
SLACK = 48 * MIB

checks: list[tuple[str, Callable[[str], str]]] = []


def check(function: Callable[[str], str]) -> Callable[[str], str]:
    checks.append((function.__name__, function))
    return function


class Peer:
    """A process of deno_peer.ts. Its lines are JSON; one that says nothing for TIMEOUT seconds is killed."""

    def __init__(self, *arguments: object):
        assert DENO is not None, "deno is not on the PATH"
        self.process = subprocess.Popen(
            [DENO, "run", "--allow-all", "--no-check", "--no-lock",
             os.path.join(TESTS, "deno_peer.ts"), *map(str, arguments)],
            env={**os.environ, "POOLPASS_DRIVER": "cuda"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        assert self.process.stdout is not None and self.process.stdin is not None
        self.output, self.input = self.process.stdout, self.process.stdin

    def next(self) -> Any:
        with self.limited():
            line = self.output.readline()
        assert line, f"Deno has ended with {self.process.wait(TIMEOUT)}"
        return json.loads(line)

    def ask(self) -> Any:
        self.input.write("\n")
        self.input.flush()
        return self.next()

    def end(self) -> list[Any]:
        with self.limited():
            self.input.close()
            rest = [json.loads(line) for line in self.output]
            code = self.process.wait(TIMEOUT)
        assert code == 0, f"Deno has ended with {code}"
        return rest

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(TIMEOUT)

    @contextmanager
    def limited(self) -> Iterator[None]:
        timer = threading.Timer(TIMEOUT, self.process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)
        self.input.close()
        self.output.close()


class Store:
    """A process of `poolpass store`, which serves when it was made."""

    def __init__(self, path: str):
        assert DENO is not None, "deno is not on the PATH"
        command = os.path.join(os.path.dirname(os.path.dirname(TESTS)), "cli", "main.ts")
        self.process = subprocess.Popen(
            [DENO, "run", "--allow-all", "--no-check", "--no-lock", command, "store", path, "--driver", "cuda"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {TIMEOUT:.0f} s"
        time.sleep(0.002)


def free_memory() -> int:
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def expected(elements: int) -> torch.Tensor:
    return (torch.arange(elements, device="cuda") % 65536).to(torch.float32).reshape(2, elements // 2)


@check
def torch_imports_from_deno(path: str) -> str:
    with Peer("export", path, "--elements", 2**20) as peer:
        peer.next()
        with Importer.connect(path) as importer:
            mapping = importer.offer("weights", timeout=TIMEOUT).map(timeout=TIMEOUT)
            address = mapping._address
            tensor = torch.from_dlpack(mapping)
            del mapping
            assert (tensor.dtype, tuple(tensor.shape)) == (torch.float32, (2, 2**19))
            assert tensor.data_ptr() == address and tensor.is_cuda
            assert torch.equal(tensor, expected(2**20))
            # In place: a second mapping sees it.
            tensor[0, 0] = 77
            torch.cuda.synchronize()
            with importer.offer("weights").map() as again:
                assert again.read(4) == torch.tensor([77.0]).numpy().tobytes()
            del tensor
            gc.collect()
        said = peer.end()
        assert said == [{"ended": True, "used": 0}], said
    return "2^20 floats, in place, freed by their exporter"


@check
def torch_imports_by_the_array_interface(path: str) -> str:
    with Peer("export", path, "--elements", 1024) as peer:
        peer.next()
        with Importer.connect(path) as importer:
            mapping = importer.offer("weights", timeout=TIMEOUT).map(timeout=TIMEOUT)
            tensor = torch.as_tensor(mapping, device="cuda")
            assert tensor.data_ptr() == mapping._address
            del mapping
            assert torch.equal(tensor, expected(1024))
            del tensor
            gc.collect()
        assert peer.end() == [{"ended": True, "used": 0}]
    return "torch.as_tensor keeps the mapping"


@check
def cupy_imports_from_deno(path: str) -> str:
    with Peer("export", path, "--elements", 2**20) as peer:
        peer.next()
        with Importer.connect(path) as importer:
            offer = importer.offer("weights", timeout=TIMEOUT)
            wanted = cupy.arange(2**20).reshape(2, 2**19) % 65536
            for make in (cupy.asarray, cupy.from_dlpack):
                mapping = offer.map(timeout=TIMEOUT)
                array = make(mapping)
                assert (array.dtype, array.shape) == (cupy.float32, (2, 2**19)), make
                assert array.data.ptr == mapping._address, make
                assert bool((array == wanted).all()), make
                del array, mapping
                gc.collect()
        assert peer.end() == [{"ended": True, "used": 0}]
    return "cupy.asarray and cupy.from_dlpack, in place"


# Sizes that CUDA shares in no allocation of a pool; the second one if the device has the memory for it.
LARGE = (5 * 2**30, 16 * 2**30)
# Elements of what is compared at once.
PART = 2**28


def large_sizes(copies: int) -> list[int]:
    torch.cuda.empty_cache()
    return [size for size in LARGE if free_memory() > copies * size + 8 * 2**30]


@check
def large_tensors_come_from_deno(path: str) -> str:
    sizes = large_sizes(1)
    for size in sizes:
        elements = size // 4
        with Peer("export", path, "--elements", elements, "--virtual") as peer:
            peer.next()
            before = free_memory()
            with Importer.connect(path, memory="virtual") as importer:
                offer = importer.offer("weights", timeout=TIMEOUT)
                begin = time.monotonic()
                tensor = torch.from_dlpack(offer.map(timeout=TIMEOUT)).view(-1)
                milliseconds = (time.monotonic() - begin) * 1000
                taken = before - free_memory()
                assert abs(taken) < SLACK, f"mapping {size // MIB} MiB took {taken // MIB} MiB"
                wanted = (torch.arange(PART, device="cuda") % 65536).to(torch.float32)
                for part in tensor.split(PART):
                    assert torch.equal(part, wanted[: len(part)])
                del tensor, part, wanted
                gc.collect()
            assert peer.end() == [{"ended": True, "used": 0}]
        torch.cuda.empty_cache()
    return f"{[size // MIB for size in sizes]} MiB, every byte, the last mapped in {milliseconds:.1f} ms"


@check
def large_tensors_go_to_deno(path: str) -> str:
    sizes = large_sizes(2)
    for size in sizes:
        source = torch.empty(size // 4, device="cuda", dtype=torch.int32).random_()
        with Exporter.listen(path) as exporter:
            before = free_memory()
            offer = exporter.offer_tensor("large", source)
            assert offer.nbytes == size
            last = list(source[-6:].cpu().numpy().tobytes())
            with Importer.connect(path) as importer:
                tensor = torch.from_dlpack(importer.offer("large", timeout=TIMEOUT).map(timeout=TIMEOUT))
                for own, other in zip(source.split(PART), tensor.split(PART)):
                    assert torch.equal(own, other)
                del tensor, own, other
                gc.collect()
            with Peer("import", path, "large", "--virtual") as peer:
                read = peer.next()
                assert (read["byteLength"], read["last"]) == (size, last), read
                peer.end()
            wait_for(lambda: exporter.leases == [], "the end of the leases")
            offer.withdraw()
            assert offer.wait_ended(TIMEOUT)
            # What the comparison took stays in PyTorch's cache.
            torch.cuda.empty_cache()
            wait_for(lambda: before - free_memory() < SLACK, "the memory of the copy")
        del source
        torch.cuda.empty_cache()
    return f"{[size // MIB for size in sizes]} MiB"


@check
def what_no_pool_can_share_is_refused(path: str) -> str:
    with Exporter.listen(path) as exporter, MemoryPool() as pool:
        codes = []
        for size in (4064 * MIB, 4096 * MIB + 1, LARGE[0]):
            with pool.allocate(size) as buffer:
                try:
                    exporter.offer("x", buffer).withdraw()
                    codes.append("shared")
                except SharingError as error:
                    codes.append(error.code)
                    error.__traceback__ = None
        assert codes == ["shared", "too-large", "too-large"], codes
    return "4064 MiB are shared, and more than 4096 MiB refused"


FORGED_EXPORT_DATA = """
import struct, sys
from poolpass import CudaError, Importer, SharingError, export_data
nbytes, data = int(sys.argv[2]), bytes.fromhex(sys.argv[3])
codes = []
with Importer.connect(sys.argv[1]) as importer, importer.offer("pool", timeout=30).import_pool() as pool:
    assert export_data.layout.is_known_on(0)
    for index, value in ((4, 0), (4, 8 << 30), (4, (1 << 32) + 1), (3, 1 << 40), (3, (1 << 64) - 1), (4, nbytes - 1)):
        words = list(struct.unpack("<8Q", data))
        words[index] = value
        try:
            pool.import_pointer(struct.pack("<8Q", *words), nbytes)
            codes.append("mapped")
        except (SharingError, CudaError) as error:
            codes.append(error.code)
    with pool.import_pointer(data, nbytes) as array:
        print(codes, array.read(4).decode())
"""


@check
def forged_export_data_ends_no_importer(path: str) -> str:
    with Exporter.listen(path) as exporter, MemoryPool() as pool:
        buffer = pool.allocate(2 * MIB)
        buffer.write(b"good" * (MIB // 2))
        data = buffer.export_pointer()
        assert data[48:] == bytes(16), "the driver's stack was exported"
        exporter.offer("pool", pool)
        child = subprocess.run(
            [sys.executable, "-c", FORGED_EXPORT_DATA, path, str(buffer.nbytes), data.hex()],
            env={**os.environ, "PYTHONPATH": os.path.dirname(TESTS)}, stdout=subprocess.PIPE, text=True, timeout=LIMIT,
        )
        buffer.free()
    expected = ["bad-message", "too-large", "too-large", "bad-message", "bad-message", "size-mismatch"]
    assert (child.returncode, child.stdout) == (0, f"{expected} good\n"), (child.returncode, child.stdout)
    return ", ".join(expected)


EXPORTER_OF_X = """
import sys
from poolpass import Exporter, MemoryPool
with MemoryPool() as pool, Exporter.listen(sys.argv[1], close_timeout=0) as exporter:
    exporter.offer("x", pool.allocate(4096))
    print("listening", flush=True)
    for line in sys.stdin:
        print([each.state for each in exporter.leases], flush=True)
"""


@check
def forged_event_handles_end_no_exporter(path: str) -> str:
    calls = cuda()
    event = calls.create_interprocess_event(0)
    handle = calls.event_handle(event)
    assert ipc_handles.can_open_event(0, handle, os.getpid()), "the layout of handles is not known"
    child = subprocess.Popen(
        [sys.executable, "-c", EXPORTER_OF_X, path], env={**os.environ, "PYTHONPATH": os.path.dirname(TESTS)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        assert child.stdout.readline() == "listening\n"
        for byte in (4, 12, 17, 18, 19, 20, 63):
            forged = handle[:byte] + bytes([handle[byte] ^ 0xFF]) + handle[byte + 1 :]
            with socket.socket(socket.AF_UNIX) as forger:
                forger.settimeout(TIMEOUT)
                forger.connect(path)
                messages = (m.Hello(1, 1), m.Held(1), m.Event(7, calls.uuids[0], forged), m.Released(1, 7))
                for message in messages:
                    forger.send(m.encode(message))
                data = b""
                while not data.endswith(m.encode(m.Wait(7))):
                    piece = forger.recv(65_536)
                    assert piece, f"byte {byte}: the exporter has ended with {child.poll()}"
                    data += piece
                forger.send(m.encode(m.Fired(7)) + m.encode(m.Goodbye("done", 1, 1, "")))
            with Importer.connect(path) as honest:
                honest.offer("x", timeout=TIMEOUT).map(timeout=TIMEOUT).release()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "[]\n"
        child.stdin.close()
        assert child.wait(TIMEOUT) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        calls.destroy_event(event)
    return "the peer is asked, and others are served"


@check
def memory_is_counted_once(path: str) -> str:
    elements = 2**28
    torch.zeros(1, device="cuda")
    with Peer("export", path, "--elements", elements) as peer:
        peer.next()
        with Importer.connect(path) as importer:
            offer = importer.offer("weights", timeout=TIMEOUT)
            before = free_memory()
            tensor = torch.from_dlpack(offer.map(timeout=TIMEOUT))
            taken = before - free_memory()
            assert tensor.nbytes == 4 * elements
            assert abs(taken) < SLACK, f"mapping {4 * elements // MIB} MiB took {taken // MIB} MiB"
            assert float(tensor[1, -1]) == 65535
            del tensor
            gc.collect()
        assert peer.end() == [{"ended": True, "used": 0}]
    return f"mapping 1024 MiB took {taken / MIB:.1f} MiB"


@check
def tensors_are_exported_to_deno(path: str) -> str:
    base = torch.arange(12, device="cuda").reshape(3, 4)
    tensors: dict[str, Any] = {
        "float32": base.float(), "float16": base.half(), "bfloat16": base.bfloat16(), "int64": base.long(),
        "uint8": base.to(torch.uint8), "bool": base > 3, "complex64": base.to(torch.complex64),
    }
    for name in ("float8_e4m3fn", "float8_e5m2"):
        if hasattr(torch, name):
            tensors[name] = base.float().to(getattr(torch, name))
    tensors["host"] = torch.arange(12, dtype=torch.int16)
    tensors["cupy"] = cupy.arange(12, dtype=cupy.float64).reshape(4, 3)
    done = []
    with Exporter.listen(path) as exporter:
        for name, tensor in tensors.items():
            try:
                exporter.offer_tensor(name, tensor)
            except (BufferError, TypeError, RuntimeError) as error:
                assert name.startswith("float8"), f"{name}: {error}"
                continue
            done.append(name)
        for name in done:
            tensor = tensors[name]
            with Peer("import", path, name) as peer:
                read = peer.next()
                dtype = {"host": "int16", "cupy": "float64"}.get(name, name)
                assert read["metadata"] == {"dtype": dtype, "shape": list(tensor.shape)}, read
                data = bytes_of(tensor)
                assert (read["byteLength"], read["first"]) == (len(data), list(data[:24])), (name, read)
                assert read["sum"] == sum(data), (name, read)
                peer.end()
        wait_for(lambda: exporter.leases == [], "the end of the leases")
    return ", ".join(done)


def bytes_of(array: Any) -> bytes:
    if isinstance(array, cupy.ndarray):
        return array.get().tobytes()
    try:
        return array.cpu().numpy().tobytes()
    except TypeError:
        # NumPy has no bfloat16 and no float8.
        return array.cpu().view(torch.uint8).numpy().tobytes()


@check
def exports_wait_for_their_stream(path: str) -> str:
    stream = torch.cuda.Stream()
    with Exporter.listen(path) as exporter, MemoryPool() as pool:
        with torch.cuda.stream(stream):
            source = torch.zeros(2**20, device="cuda")
            torch.cuda._sleep(400_000_000)
            source += 3
            exporter.offer_tensor("copied", source, stream=stream)
            source.zero_()
            buffer = pool.allocate_array((2**20,), "float32")
            tensor = torch.from_dlpack(buffer)
            torch.cuda._sleep(200_000_000)
            tensor.fill_(3)
            # The stream is known from DLPack.
            exporter.offer("in place", buffer)
        wanted = sum(torch.full((2**20,), 3.0).view(torch.uint8).tolist())
        for name in ("copied", "in place"):
            with Importer.connect(path) as importer:
                assert (torch.from_dlpack(importer.offer(name, timeout=TIMEOUT).map(timeout=TIMEOUT)) == 3).all(), name
                gc.collect()
            with Peer("import", path, name) as peer:
                assert peer.next()["sum"] == wanted, name
                peer.end()
        del tensor, buffer
        gc.collect()
    return "a copy and a buffer, offered while kernels run"


@check
def deleter_releases_in_stream_order(path: str) -> str:
    # A process cannot open its own events: only an exporter of another process sees that a release is still to come.
    with Peer("export", path, "--elements", 2**20) as peer:
        peer.next()
        with Importer.connect(path) as importer:
            offer = importer.offer("weights", timeout=TIMEOUT)
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                # Kernels, events and streams that are new may wait for the device.
                tensor = torch.from_dlpack(offer.map(timeout=TIMEOUT))
                torch.cuda._sleep(1000)
                wanted = float(tensor.sum())
                del tensor
                gc.collect()
                wait_for(lambda: peer.ask() == {"leases": []}, "the end of the first lease")
                tensor = torch.from_dlpack(offer.map(timeout=TIMEOUT))
                wait_for(lambda: peer.ask() == {"leases": ["held"]}, "the lease")
                torch.cuda._sleep(4_000_000_000)
                total = tensor.sum()
                assert not stream.query(), "launching has waited for the kernel"
                begin = time.monotonic()
                del tensor
                gc.collect()
                returned = time.monotonic() - begin
                assert not stream.query(), f"`del tensor` has waited for the kernel, {returned * 1000:.0f} ms"
            said = peer.ask()
            while said == {"leases": ["held"]}:
                assert not stream.query(), "the release came behind the kernel"
                time.sleep(0.002)
                said = peer.ask()
            assert said == {"leases": ["releasing"]} and not stream.query(), f"{said}, done: {stream.query()}"
            wait_for(lambda: peer.ask() == {"leases": []}, "the end of the lease")
            assert stream.query() and float(total) == wanted
        assert peer.end() == [{"ended": True, "used": 0}]
    return f"`del tensor` returned after {returned * 1000:.2f} ms, the lease ended with the kernel"


@check
def deleter_does_not_block_in_the_exporters_process(path: str) -> str:
    with Exporter.listen(path) as exporter, MemoryPool() as pool, Importer.connect(path) as importer:
        buffer = pool.allocate_array((2**20,), "float32")
        torch.from_dlpack(buffer).fill_(1)
        offer = exporter.offer("x", buffer)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for cycles in (1000, 4_000_000_000):
                tensor = torch.from_dlpack(importer.offer("x", timeout=TIMEOUT).map(timeout=TIMEOUT))
                torch.cuda._sleep(cycles)
                total = tensor.sum()
                is_running = not stream.query()
                begin = time.monotonic()
                del tensor
                gc.collect()
                returned = time.monotonic() - begin
                has_waited = is_running and stream.query()
                if cycles == 1000:
                    assert offer.wait_released(timeout=TIMEOUT)
        assert is_running, "launching has waited for the kernel"
        assert not has_waited, f"`del tensor` has waited for the kernel, {returned * 1000:.0f} ms"
        wait_for(lambda: offer.leases == [], "the end of the lease")
        assert stream.query() and float(total) == 2**20, "the lease ended before the kernel"
        buffer.free()
        offer.withdraw()
        assert offer.wait_ended(TIMEOUT)
    return f"`del tensor` returned after {returned * 1000:.2f} ms"


@check
def frames_of_deno_in_torch(path: str) -> str:
    with Peer("produce", path, "--frames", 200) as peer:
        peer.next()
        count = 0
        with Importer.connect(path) as importer, importer.channel("frames", timeout=TIMEOUT) as frames:
            while (frame := frames.next(TIMEOUT)) is not None:
                count += 1
                tensor = torch.from_dlpack(frame)
                assert (tensor.dtype, tuple(tensor.shape)) == (torch.int32, (32, 32))
                assert bool((tensor == count).all()), count
                del tensor, frame
        assert count == 200
        peer.end()
    return "200 frames"


@check
def frames_of_torch_in_deno(path: str) -> str:
    with MemoryPool() as pool, Exporter.listen(path) as exporter:
        with exporter.create_channel("frames", pool, slots=3, shape=(64, 64), dtype="uint8") as channel:
            with Peer("consume", path) as peer:
                peer.next()
                for number in range(1, 101):
                    slot = channel.reserve(TIMEOUT)
                    torch.from_dlpack(slot).fill_(number)
                    channel.send(slot, metadata=number)
                channel.end()
                said = peer.end()
    assert [(each["metadata"], each["sum"]) for each in said[:-1]] == [(n, 4096 * n) for n in range(1, 101)]
    return "100 frames, each behind the kernel that wrote it"


@check
def pipeline_of_torch_deno_and_cupy(path: str) -> str:
    doubled, frames, shape = path + ".doubled", 300, (1024, 4096)
    with MemoryPool() as pool, Exporter.listen(path) as exporter:
        with exporter.create_channel("frames", pool, slots=4, shape=shape, dtype="float32") as channel:
            with Peer("double", path, doubled) as peer:
                peer.next()
                with Importer.connect(doubled, wait=TIMEOUT) as importer:
                    consumer = importer.channel("doubled", timeout=TIMEOUT)
                    failures: list[BaseException] = []
                    writer = threading.Thread(target=produce, args=(channel, frames, failures))
                    writer.start()
                    count, begin = 0, time.monotonic()
                    while (frame := consumer.next(TIMEOUT)) is not None:
                        count += 1
                        array = cupy.from_dlpack(frame)
                        assert array.shape == shape
                        assert float(array.min()) == float(array.max()) == 2 * count, count
                        del array, frame
                    seconds = time.monotonic() - begin
                    writer.join(TIMEOUT)
                    consumer.close()
                assert not failures, failures
                peer.end()
    assert count == frames
    return f"{frames} frames of 16 MiB in {seconds:.2f} s, {frames / seconds:.0f} a second"


def produce(channel: Any, frames: int, failures: list[BaseException]) -> None:
    try:
        for number in range(1, frames + 1):
            slot = channel.reserve(TIMEOUT)
            torch.from_dlpack(slot).fill_(number)
            channel.send(slot)
    except BaseException as error:
        failures.append(error)
    channel.end()


@check
def killed_importer(path: str) -> str:
    with MemoryPool() as pool, Exporter.listen(path) as exporter:
        for _ in range(5):
            buffer = pool.allocate(16 * MIB)
            offer = exporter.offer("held", buffer)
            with Peer("import", path, "held") as peer:
                peer.next()
                buffer.free()
                offer.withdraw()
                assert not offer.wait_ended(0.05)
                begin = time.monotonic()
                peer.kill()
                assert offer.wait_ended(TIMEOUT)
                seconds = time.monotonic() - begin
    return f"5 times, the lease ended {seconds * 1000:.0f} ms after the kill"


@check
def killed_exporter(path: str) -> str:
    before = free_memory()
    with Peer("export", path, "--elements", 2**26) as peer:
        peer.next()
        importer = Importer.connect(path)
        tensor = torch.from_dlpack(importer.offer("weights", timeout=TIMEOUT).map(timeout=TIMEOUT))
        peer.kill()
        try:
            importer.offer("other", timeout=TIMEOUT)
            raise AssertionError("There was no error")
        except SharingError as error:
            assert error.code == "peer-gone", error
        assert torch.equal(tensor, expected(2**26))
        del tensor
        gc.collect()
        importer.close()
    torch.cuda.empty_cache()
    wait_for(lambda: before - free_memory() < SLACK, "the memory of the killed exporter")
    return "its memory stays readable, and is free once it was released"


@check
def store_from_torch_to_deno(path: str) -> str:
    with Store(path), StoreClient.connect(path, wait=TIMEOUT) as client:
        wanted = torch.arange(2**20, device="cuda", dtype=torch.float32)
        stream = torch.cuda.Stream()
        with client.create("weights", shape=(2**20,), dtype="float32", timeout=TIMEOUT) as memory:
            tensor = torch.from_dlpack(memory.array)
            assert tensor.data_ptr() == memory.array._address
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(400_000_000)
                tensor.copy_(wanted)
            assert memory.publish(stream) == 1
            assert stream.query(), "publish has not waited for the kernel"
            # It can still be read.
            assert torch.equal(tensor, wanted)
            del tensor
        data = bytes_of(wanted)
        with Peer("map", path, "weights") as peer:
            read = peer.next()
            assert read["metadata"] == {"dtype": "float32", "shape": [2**20]}, read
            assert (read["byteLength"], read["first"]) == (len(data), list(data[:24])), read
            assert read["sum"] == sum(data), read
            peer.end()
    return "2^20 floats, published behind the kernel that wrote them"


@check
def store_from_deno_to_torch(path: str) -> str:
    elements = 2**28
    torch.zeros(1, device="cuda")
    with Store(path), StoreClient.connect(path, wait=TIMEOUT) as client:
        with Peer("publish", path, "weights", "--elements", elements) as peer:
            assert peer.next() == {"published": elements}
            peer.end()
        before = free_memory()
        begin = time.monotonic()
        tensor = torch.from_dlpack(client.map("weights", timeout=TIMEOUT))
        milliseconds = (time.monotonic() - begin) * 1000
        taken = before - free_memory()
        assert (tensor.dtype, tuple(tensor.shape)) == (torch.float32, (2, elements // 2))
        assert abs(taken) < SLACK, f"mapping {4 * elements // MIB} MiB took {taken // MIB} MiB"
        assert torch.equal(tensor[:, -65536:], expected(elements)[:, -65536:])
        torch.cuda.empty_cache()
        # A second mapping reads the same memory; its deleter does not wait for what runs.
        again = torch.from_dlpack(client.map("weights", timeout=TIMEOUT))
        assert again.data_ptr() != tensor.data_ptr() and torch.equal(again[:, :64], tensor[:, :64])
        # Kernels that are new may wait for the device.
        again[:, :64].clone()
        torch.cuda.synchronize()
        torch.cuda._sleep(1_000_000_000)
        total = again[:, :64].clone()
        begin = time.monotonic()
        del again
        returned = (time.monotonic() - begin) * 1000
        assert not torch.cuda.current_stream().query(), f"`del tensor` has waited for the kernel, {returned:.0f} ms"
        assert torch.equal(total, tensor[:, :64])
        pid = os.getpid()
        assert [each.pid for each in client.entries(timeout=TIMEOUT)[0].readers] == [pid]
        del tensor
        gc.collect()
        wait_for(lambda: client.entries()[0].readers == (), "the release")
        client.remove("weights")
        wait_for(lambda: free_memory() - before > 4 * elements - SLACK, "the memory of the entry")
    return f"mapping 1024 MiB took {taken / MIB:.1f} MiB and {milliseconds:.1f} ms, `del` {returned:.2f} ms"


@check
def weights_go_from_module_to_module(path: str) -> str:
    def make(device: str) -> Any:
        model = torch.nn.Sequential(
            torch.nn.Embedding(32768, 4096), torch.nn.Linear(4096, 4096), torch.nn.LayerNorm(4096),
            torch.nn.Linear(4096, 32768, bias=False), torch.nn.BatchNorm1d(32768),
        ).eval()
        model[3].weight = model[0].weight
        return model.requires_grad_(False).to(device=device, dtype=torch.bfloat16)

    with Store(path), StoreClient.connect(path, wait=TIMEOUT) as client, torch.no_grad():
        model = make("cuda")
        model[4].running_mean.normal_()
        tokens = torch.arange(64, device="cuda")
        wanted = model(tokens)
        begin = time.monotonic()
        published = weights.publish(client, "model", model, timeout=TIMEOUT)
        took = time.monotonic() - begin
        begin = time.monotonic()
        assert weights.revision_of(model) == published.digest
        digesting = time.monotonic() - begin
        on_host = {each["name"]: published[each["name"]].cpu() for each in published.metadata["tensors"]}
        assert weights.revision_of(on_host) == published.digest
        copy = make("meta")
        before = free_memory()
        begin = time.monotonic()
        held = weights.load(client, f"model@{published.digest}", copy, timeout=TIMEOUT)
        loading = time.monotonic() - begin
        assert before - free_memory() < SLACK
        with held.guard():
            assert torch.equal(copy(tokens), wanted)
            try:
                copy[1].weight.add_(1)
            except RuntimeError as error:
                assert "1.weight" in str(error), error
            else:
                raise AssertionError("The write has raised nothing")
        assert copy[3].weight is copy[0].weight and not copy[1].weight.requires_grad
        copy[4].running_mean.zero_()
        assert torch.equal(model(tokens), wanted)
        nbytes = held.nbytes
        held.release()
        published.release()
        del copy, held, published
        gc.collect()
    rate = nbytes / digesting / 2**30
    return (
        f"{nbytes // MIB} MiB: published in {took * 1000:.0f} ms, digest {digesting * 1000:.0f} ms ({rate:.1f} GiB/s), "
        f"loaded in {loading * 1000:.1f} ms"
    )


@check
def threads_keep_their_device(path: str) -> str:
    devices = torch.cuda.device_count()
    last = devices - 1
    with Exporter.listen(path) as exporter, MemoryPool(last) as pool:
        torch.cuda.set_device(0)
        exporter.offer("x", pool.allocate(MIB))
        with Importer.connect(path) as importer, importer.offer("x", timeout=TIMEOUT).map(timeout=TIMEOUT) as mapping:
            assert mapping.device == last and torch.from_dlpack(mapping).device.index == last
        assert torch.cuda.current_device() == 0
        gc.collect()
    return f"{devices} devices"


def run(name: str, function: Callable[[str], str]) -> bool:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    descriptors = len(os.listdir("/proc/self/fd"))
    with tempfile.TemporaryDirectory(prefix="poolpass-") as folder:
        try:
            detail = function(os.path.join(folder, "shared.sock"))
            gc.collect()
            wait_for(lambda: poolpass_threads() == 0, f"the end of {poolpass_threads()} threads")
            left = len(os.listdir("/proc/self/fd")) - descriptors
            # Contexts and PyTorch open some when they are first used.
            suffix = f" ({left} descriptors more)" if left > 0 else ""
            print(f"ok     {name}: {detail}{suffix}", flush=True)
            return True
        except BaseException as error:
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
            return False
        finally:
            faulthandler.cancel_dump_traceback_later()


def poolpass_threads() -> int:
    return sum(each.name.startswith("poolpass-") for each in threading.enumerate())


def main() -> int:
    print(
        f"poolpass {poolpass.__version__}, Python {sys.version.split()[0]}, PyTorch {torch.__version__}, CuPy "
        f"{cupy.__version__}, {torch.cuda.get_device_name(0)}, Deno at {DENO}",
        flush=True,
    )
    torch.zeros(1, device="cuda")
    cupy.zeros(1)
    names = sys.argv[1:]
    results = [run(name, function) for name, function in checks if not names or any(each in name for each in names)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    code = main()
    # A tensor or context that is stuck must not keep the process.
    sys.stdout.flush()
    os._exit(code)
