"""The package and Deno's poolpass in two processes, both ways, and what is left when one of them is killed."""
from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import signal
import subprocess
import threading
import unittest
from typing import Any
from unittest import mock

import support

support.use_software_device()

from cuda.bindings import virtual_memory

from poolpass import Exporter, Importer, MemoryPool, SharingError, dlpack, exporter
from poolpass.cuda import cuda

DENO = os.environ.get("POOLPASS_DENO") or shutil.which("deno")
FLOATS = (ctypes.c_float * 6)(*range(6))


class DenoPeer:
    """A process of deno_peer.ts, whose lines are JSON."""

    def __init__(self, *arguments: object):
        assert DENO is not None
        self.process = subprocess.Popen(
            [
                DENO, "run", "--allow-all", "--no-check", "--no-lock", os.path.join(support.TESTS, "deno_peer.ts"),
                *map(str, arguments),
            ],
            env=support.ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def next(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line == "":
            raise AssertionError(f"The process has ended with {self.process.wait(support.TIMEOUT)}")
        return json.loads(line)

    def ask(self) -> Any:
        """Returns the answer to a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.next()

    def end(self) -> list[Any]:
        """Lets it release what it holds. Returns the rest of what it says."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        rest = [json.loads(line) for line in self.process.stdout]
        code = self.process.wait(support.TIMEOUT)
        if code != 0:
            raise AssertionError(f"The process has ended with {code}")
        return rest

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@unittest.skipIf(DENO is None, "there is no Deno")
class ProcessesTest(support.PoolpassTest):
    def start(self, *arguments: object) -> DenoPeer:
        peer = DenoPeer(*arguments)
        self.addCleanup(peer.close)
        return peer

    def test_import_from_deno(self) -> None:
        peer = self.start("export", self.path)
        peer.next()
        with Importer.connect(self.path, **support.PATIENCE) as importer:
            self.assertEqual(importer.peer.pid, peer.process.pid)
            mapping = importer.offer("weights", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
            self.assertEqual((mapping.dtype, mapping.shape), ("float32", (2, 3)))
            self.assertEqual(mapping.read(), bytes(FLOATS))
            tensor = dlpack.import_capsule(mapping.__dlpack__(stream=0))
            mapping.release()
            # Written in place.
            (ctypes.c_float * 6).from_address(tensor.address)[0] = 5
            tensor.release()
        self.assertEqual(peer.end(), [{"ended": True, "used": 0}])

    def test_deleter_releases_in_stream_order(self) -> None:
        peer = self.start("export", self.path)
        peer.next()
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        with Importer.connect(self.path, **support.PATIENCE) as importer:
            mapping = importer.offer("weights", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
            tensor = dlpack.import_capsule(mapping.__dlpack__(stream=int(stream)))
            del mapping
            self.wait_for(lambda: peer.ask() == {"leases": ["held"]})
            stream.add(gate.wait)
            # Does not wait for the stream.
            tensor.release()
            self.wait_for(lambda: peer.ask() == {"leases": ["releasing"]})
            gate.set()
            self.wait_for(lambda: peer.ask() == {"leases": []})
        self.assertEqual(peer.end(), [{"ended": True, "used": 0}])

    def test_export_to_deno(self) -> None:
        with MemoryPool() as pool, Exporter.listen(self.path, **support.PATIENCE) as exporter:
            offer = exporter.offer_tensor("weights", Host(FLOATS, (2, 3)), pool=pool)
            peer = self.start("import", self.path, "weights")
            read = peer.next()
            self.assertEqual(read["metadata"], {"dtype": "float32", "shape": [2, 3]})
            self.assertEqual(read["first"], list(bytes(FLOATS)))
            self.wait_for(lambda: [each.state for each in exporter.leases] == ["held"])
            self.assertEqual(peer.end(), [])
            self.assertTrue(offer.wait_released(timeout=support.TIMEOUT))

    def test_virtual_memory_of_deno(self) -> None:
        elements = 2**20 + 6
        peer = self.start("export", self.path, "--elements", elements, "--virtual")
        peer.next()
        with Importer.connect(self.path, memory="virtual", **support.PATIENCE) as importer:
            offer = importer.offer("weights", timeout=support.TIMEOUT)
            with offer.map(timeout=support.TIMEOUT) as mapping, offer.map(timeout=support.TIMEOUT) as again:
                self.assertEqual((mapping.dtype, mapping.shape), ("float32", (2, elements // 2)))
                self.assertEqual(mapping.address, again.address)
                self.assertEqual(mapping.read(24, byte_offset=4 * 65536), bytes(FLOATS))
                self.assertEqual(mapping.read(24, byte_offset=4 * 2**20), bytes(FLOATS))
                self.wait_for(lambda: peer.ask() == {"leases": ["held"]})
                # Written in place.
                mapping.write(b"\x05", byte_offset=0)
                self.assertEqual(again.read(1), b"\x05")
            self.wait_for(lambda: peer.ask() == {"leases": []})
        self.assertEqual(peer.end(), [{"ended": True, "used": 0}])

    def test_virtual_memory_for_deno(self) -> None:
        elements = (ctypes.c_float * (2**20 + 6))(*range(6))
        with Exporter.listen(self.path, **support.PATIENCE) as exporting:
            with mock.patch.object(exporter, "MAXIMUM_IMPORTABLE", 2**20):
                offer = exporting.offer_tensor("weights", Host(elements, (2, 2**19 + 3)))
            peer = self.start("import", self.path, "weights", "--virtual")
            read = peer.next()
            self.assertEqual(read["metadata"], {"dtype": "float32", "shape": [2, 2**19 + 3]})
            self.assertEqual((read["byteLength"], read["first"]), (4 * len(elements), list(bytes(FLOATS))))
            self.wait_for(lambda: [each.state for each in exporting.leases] == ["held"])
            offer.withdraw()
            self.assertFalse(offer.wait_ended(0.05))
            # It is freed with its offer, when the process that holds it has ended.
            peer.kill()
            self.assertTrue(offer.wait_ended(support.TIMEOUT))
        self.wait_for(lambda: virtual_memory.access == {})

    def test_frames_of_deno(self) -> None:
        peer = self.start("produce", self.path, "--frames", 8)
        peer.next()
        with Importer.connect(self.path, **support.PATIENCE) as importer, importer.channel("frames", timeout=support.TIMEOUT) as frames:
            count = 0
            while (frame := frames.next(support.TIMEOUT)) is not None:
                count += 1
                with frame:
                    self.assertEqual((frame.dtype, frame.shape, frame.metadata), ("int32", (32, 32), {"frame": count}))
                    self.assertEqual(frame.read(), count.to_bytes(4, "little") * 1024)
            self.assertEqual(count, 8)
        self.assertEqual(peer.end(), [])

    def test_frames_for_deno(self) -> None:
        with MemoryPool() as pool, Exporter.listen(self.path, **support.PATIENCE) as exporter:
            with exporter.create_channel("frames", pool, slots=2, shape=(16, 16), dtype="float32") as channel:
                peer = self.start("consume", self.path)
                self.assertEqual(
                    peer.next(), {"joined": 2, "metadata": {"dtype": "float32", "shape": [16, 16]}}
                )
                for number in range(1, 7):
                    slot = channel.reserve(timeout=support.TIMEOUT)
                    tensor = dlpack.import_capsule(slot.__dlpack__(stream=0))
                    ctypes.memset(tensor.address, number, slot.nbytes)
                    tensor.release()
                    channel.send(slot, metadata={"number": number})
                channel.end()
                said = peer.end()
        self.assertEqual(said[:-1], [
            {"sequence": number, "metadata": {"number": number}, "byteLength": 1024, "sum": 1024 * number}
            for number in range(1, 7)
        ])
        self.assertEqual(said[-1], {"ended": True})

    def test_killed_importer(self) -> None:
        with MemoryPool() as pool, Exporter.listen(self.path, **support.PATIENCE) as exporter:
            buffer = pool.allocate(4096)
            offer = exporter.offer("held", buffer)
            peer = self.start("import", self.path, "held")
            peer.next()
            buffer.free()
            offer.withdraw()
            self.assertFalse(offer.wait_ended(0.05))
            peer.kill()
            self.assertTrue(offer.wait_ended(support.TIMEOUT))
            self.assertEqual((exporter.leases, exporter.importers), ([], []))

    def test_killed_exporter(self) -> None:
        peer = self.start("export", self.path, "--elements", 1024)
        peer.next()
        importer = Importer.connect(self.path, **support.PATIENCE)
        mapping = importer.offer("weights", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
        peer.kill()
        with self.assertRaises(SharingError) as caught:
            importer.offer("other", timeout=support.TIMEOUT)
        self.assertEqual(caught.exception.code, "peer-gone")
        # What was mapped stays.
        self.assertEqual(mapping.read(8, byte_offset=4096 - 8), bytes((ctypes.c_float * 2)(1022, 1023)))
        self.assertRaises(SharingError, importer.offers()[0].map)
        importer.close()
        del mapping
        gc.collect()

    def test_pipeline(self) -> None:
        doubled = self.path + ".doubled"
        with MemoryPool() as pool, Exporter.listen(self.path, **support.PATIENCE) as exporter:
            with exporter.create_channel("frames", pool, slots=3, shape=(64,), dtype="float32") as channel:
                peer = self.start("double", self.path, doubled)
                self.assertEqual(peer.next(), {"doubling": 3})
                with Importer.connect(doubled, **support.PATIENCE) as importer:
                    with importer.channel("doubled", timeout=support.TIMEOUT) as frames:
                        for number in range(1, 11):
                            slot = channel.reserve(timeout=support.TIMEOUT)
                            slot.view().release()
                            tensor = dlpack.import_capsule(slot.__dlpack__(stream=0))
                            values = (ctypes.c_float * 64).from_address(tensor.address)
                            values[:] = [number] * 64
                            tensor.release()
                            channel.send(slot)
                            with frames.next(support.TIMEOUT) as frame:
                                self.assertEqual((frame.dtype, frame.shape), ("float32", (64,)))
                                self.assertEqual(frame.read(), bytes((ctypes.c_float * 64)(*[2 * number] * 64)))
                        channel.end()
                        self.assertIsNone(frames.next(support.TIMEOUT))
            self.assertEqual(peer.end(), [])


class ForkTest(support.PoolpassTest):
    def test_forked_child_leaves_everything_to_its_parent(self) -> None:
        pool, exporter = MemoryPool(), Exporter.listen(self.path, close_timeout=1.0, **support.PATIENCE)
        self.addCleanup(pool.close)
        self.addCleanup(exporter.close)
        own = exporter.offer("x", pool.allocate(4))
        importer = Importer.connect(self.path, **support.PATIENCE)
        self.addCleanup(importer.close)
        mapping = importer.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
        self.wait_for(lambda: own.leases)
        child = os.fork()
        if child == 0:
            # Nothing that is raised here reaches the test's runner.
            try:
                calls = (
                    lambda: importer.offer("y"), lambda: importer.offers()[0].map(),
                    lambda: exporter.offer("y", pool), own.withdraw, own.recall, own.wait_ended,
                )
                errors = [error_of(call) for call in calls]
                for each in (mapping, importer, exporter, pool):
                    (each.release if each is mapping else each.close)()
                os._exit(0 if all("forked" in each for each in errors) else 1)
            except BaseException:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertEqual([each.state for each in own.leases], ["held"])
        self.assertEqual(mapping.read(), bytes(4))
        with Importer.connect(self.path, **support.PATIENCE) as other:
            other.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT).release()
        mapping.release()
        self.assertTrue(own.wait_released(2, support.TIMEOUT))

    def test_ctrl_c_does_not_keep_an_exporter_from_closing(self) -> None:
        pool, exporter = MemoryPool(), Exporter.listen(self.path, close_timeout=support.TIMEOUT, **support.PATIENCE)
        self.addCleanup(pool.close)
        own = exporter.offer("x", pool.allocate(4))
        importer = Importer.connect(self.path, **support.PATIENCE)
        mapping = importer.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
        self.wait_for(lambda: own.leases)

        def interrupt() -> None:
            importer.offer("x").wait_recalled(support.TIMEOUT)
            os.kill(os.getpid(), signal.SIGINT)

        aside = threading.Thread(target=interrupt)
        aside.start()
        with self.assertRaises(KeyboardInterrupt):
            exporter.close()
        aside.join()
        self.wait_for(lambda: not importer.is_connected)
        mapping.release()
        importer.close()
        with exporter.loop.lock:
            for each in list(exporter._importers):
                each.process_ended()
            exporter.loop.wake()


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return str(error)
    return ""


class Host:
    """An array in host memory, with DLPack."""

    def __init__(self, memory: Any, shape: tuple[int, ...]):
        self.memory = memory
        self.shape = shape

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __dlpack__(self) -> Any:
        from poolpass.dtypes import DTYPES

        return dlpack.export_capsule(
            address=ctypes.addressof(self.memory), shape=self.shape, dtype=DTYPES["float32"],
            device=self.__dlpack_device__(), is_versioned=False, on_delete=lambda: None,
        )


if __name__ == "__main__":
    unittest.main()
