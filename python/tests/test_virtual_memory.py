"""Virtual memory, which has any size: offered, mapped, held and released like memory of a pool."""
from __future__ import annotations

import array
import fcntl
import gc
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
from typing import Any
from unittest import mock

import support

support.use_software_device()

from cuda.bindings import runtime, virtual_memory as driver

import poolpass
from poolpass import CudaError, Exporter, Importer, MemoryPool, SharingError, allocate_virtual, dlpack, exporter, staged_copies
from poolpass import messages as m
from poolpass.cuda import cuda

MIB = 2**20
# No multiple of the granularity.
SIZE = 5 * MIB + 1000
WHOLE = 6 * MIB
FLOATS = array.array("f", range(6))

# Maps "x", says what it begins with, and holds it until stdin ends.
HOLDER = """
import sys
from poolpass import Importer
with Importer.connect(sys.argv[1], wait=30) as importer:
    mapping = importer.offer("x", timeout=30).map(timeout=30)
    print(mapping.read(4).hex(), mapping.nbytes, flush=True)
    sys.stdin.read()
"""
# Offers "x" of virtual memory until stdin ends.
EXPORTER = """
import sys
from poolpass import Exporter, allocate_virtual
with Exporter.listen(sys.argv[1]) as exporter:
    buffer = allocate_virtual(5 << 20)
    buffer.write(b"five" * (5 << 18))
    exporter.offer("x", buffer)
    print(flush=True)
    sys.stdin.read()
"""


class VirtualMemoryTest(support.PoolpassTest):
    def setUp(self) -> None:
        super().setUp()
        # Nothing is left mapped, and no handle open.
        self.addCleanup(self.wait_for, lambda: (driver.memories, driver.reserved, driver.access) == ({}, {}, {}))
        self.addCleanup(gc.collect)
        self.ends: list[str | None] = []
        self.exporter = Exporter.listen(
            self.path, close_timeout=1.0,
            on_disconnect=lambda peer, error: self.ends.append(error and error.code), **support.PATIENCE,
        )
        self.addCleanup(self.exporter.close)

    def connect(self, **options: Any) -> Importer:
        importer = Importer.connect(self.path, **{**support.PATIENCE, **options})
        self.addCleanup(importer.close)
        return importer

    def start(self, program: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", program, self.path], env=support.ENVIRONMENT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )
        assert child.stdin is not None and child.stdout is not None
        for close in (child.stdout.close, child.stdin.close, child.wait, child.kill):
            self.addCleanup(close)
        return child

    def replace(self, target: object, name: str, value: object) -> None:
        patch = mock.patch.object(target, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def test_is_copied_to_a_memory_file_and_back(self) -> None:
        buffer, content = allocate_virtual(SIZE), bytes(index % 251 for index in range(SIZE))
        buffer.write(content)
        file = os.memfd_create("host", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, file)
        os.ftruncate(file, SIZE)
        # Only a file that cannot shrink is mapped.
        for seals in (0, fcntl.F_SEAL_SHRINK):
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
            staged_copies.copy_file(file, buffer.address, SIZE, 0, to_device=False)
            self.assertEqual(os.pread(file, SIZE, 0), content)
            os.pwrite(file, bytes(SIZE), 0)
        os.pwrite(file, content[::-1], 0)
        staged_copies.copy_file(file, buffer.address, SIZE, 0, to_device=True)
        self.assertEqual(buffer.read(), content[::-1])

    def test_is_offered_and_mapped_like_memory_of_a_pool(self) -> None:
        buffer = allocate_virtual(SIZE)
        self.assertEqual((buffer.nbytes, buffer.shape, buffer.device, buffer.pool), (SIZE, (SIZE,), 0, None))
        buffer.write(bytes(index % 251 for index in range(SIZE)))
        self.exporter.offer("whole", buffer, metadata=[SIZE])
        self.exporter.offer("part", buffer.view("int32", (2,), byte_offset=4 * MIB))
        importer = self.connect()
        whole = importer.offer("whole", timeout=support.TIMEOUT)
        self.assertEqual((whole.kind, whole.nbytes, whole.metadata), ("buffer", SIZE, [SIZE]))
        maps = mock.Mock(side_effect=driver.cuMemMap)
        self.replace(sys.modules["cuda.bindings.driver"], "cuMemMap", maps)
        with whole.map(timeout=support.TIMEOUT) as mapping, importer.offer("part").map() as part:
            # One mapping, however many use it.
            self.assertEqual(maps.call_count, 1)
            self.assertEqual(part.address, mapping.address + 4 * MIB)
            self.assertEqual(mapping.read(2, byte_offset=SIZE - 2), bytes([(SIZE - 2) % 251, (SIZE - 1) % 251]))
            part.write(b"in place")
            self.assertEqual(buffer.read(8, byte_offset=4 * MIB), b"in place")
            self.wait_for(lambda: [each.state for each in self.exporter.leases] == ["held", "held"])
            mapping.release()
            self.wait_for(lambda: [each.name for each in self.exporter.leases] == ["part"])
            # It lasts until its last user is gone.
            self.assertEqual(part.read(8), b"in place")
        self.wait_for(lambda: self.exporter.leases == [])
        self.assertEqual(whole.map().read(1), b"\0")
        self.assertEqual(maps.call_count, 2)

    def test_release_waits_for_the_work(self) -> None:
        offer = self.exporter.offer("x", allocate_virtual(SIZE))
        importer = self.connect()
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        mapping = importer.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
        tensor = dlpack.import_capsule(mapping.__dlpack__(stream=int(stream)))
        stream.add(gate.wait)
        mapping.release()
        begin = time.monotonic()
        tensor.release()
        self.assertLess(time.monotonic() - begin, 1.0)
        self.assertFalse(offer.wait_released(timeout=0.1))
        # It can be mapped meanwhile, and stays mapped.
        with importer.offer("x").map(timeout=support.TIMEOUT) as again:
            self.assertEqual(again.address, tensor.address)
            gate.set()
            self.wait_for(lambda: len(importer._connection._settling) == 0)
            self.assertEqual(again.read(4), bytes(4))
        self.assertTrue(offer.wait_released(timeout=support.TIMEOUT))

    def test_free_waits_for_the_work_and_nobody_for_that(self) -> None:
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        buffer = allocate_virtual(SIZE, stream=stream)
        offer = self.exporter.offer("x", buffer)
        stream.add(gate.wait)
        address = buffer.address
        buffer.free(stream)
        offer.withdraw()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))
        # The exporter serves others meanwhile.
        with MemoryPool() as pool:
            self.exporter.offer("y", pool.allocate(4))
            self.connect().offer("y", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT).release()
        self.assertIn(address, driver.access)
        gate.set()
        self.wait_for(lambda: address not in driver.access)

    def test_free_behind_streams_that_nobody_has_named(self) -> None:
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        buffer = allocate_virtual(SIZE)
        address = buffer.__cuda_array_interface__["data"][0]
        stream.add(gate.wait)
        buffer.free()
        self.assertIn(address, driver.access)
        gate.set()
        self.wait_for(lambda: address not in driver.access)

    def test_memory_that_is_about_to_be_unmapped_is_awaited_if_there_is_too_little(self) -> None:
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        create = driver.cuMemCreate

        def create_one(*arguments: Any) -> Any:
            out_of_memory = mock.MagicMock(__int__=lambda self: 2)
            out_of_memory.name = "CUDA_ERROR_OUT_OF_MEMORY"
            return (out_of_memory, None) if driver.access else create(*arguments)

        self.replace(sys.modules["cuda.bindings.driver"], "cuMemCreate", create_one)
        first = allocate_virtual(SIZE, stream=stream)
        with self.assertRaises(CudaError):
            allocate_virtual(SIZE)
        stream.add(gate.wait)
        first.free()
        threading.Timer(0.05, gate.set).start()
        allocate_virtual(SIZE).free()

    def test_freed_while_it_is_held(self) -> None:
        buffer = allocate_virtual(SIZE)
        buffer.write(b"x" * SIZE)
        offer = self.exporter.offer("x", buffer)
        mapping = self.connect().offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
        buffer.free()
        offer.withdraw()
        self.assertFalse(offer.wait_ended(0.05))
        self.assertEqual(mapping.read(4), b"xxxx")
        mapping.release()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))

    def test_a_process_that_holds_it_is_killed(self) -> None:
        buffer = allocate_virtual(SIZE)
        buffer.write(b"held" * (SIZE // 4))
        offer = self.exporter.offer("x", buffer)
        holder = self.start(HOLDER)
        assert holder.stdout is not None
        self.assertEqual(holder.stdout.readline(), f"{b'held'.hex()} {SIZE}\n")
        buffer.free()
        offer.withdraw()
        self.assertFalse(offer.wait_ended(0.05))
        holder.kill()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))
        self.assertEqual(self.exporter.leases, [])

    def test_its_exporter_is_killed(self) -> None:
        self.exporter.close()
        child = self.start(EXPORTER)
        assert child.stdout is not None
        child.stdout.readline()
        importer = self.connect()
        with importer.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT) as mapping:
            child.kill()
            self.wait_for(lambda: not importer.is_connected)
            self.assertEqual(mapping.read(4, byte_offset=5 * MIB - 4), b"five")
        importer.close()

    def test_tensors_that_are_too_large_for_a_pool(self) -> None:
        self.replace(exporter, "MAXIMUM_IMPORTABLE", 23)
        with MemoryPool() as pool:
            source = pool.allocate_array((2, 3), "float32")
            source.write(FLOATS)
            offer = self.exporter.offer_tensor("large", source)
            small = self.exporter.offer_tensor("small", source.view("uint8", (23,)))
            in_pool = self.exporter.offer_tensor("in a pool", source, pool=pool)
        kinds = {each._record.name: each._record.pool_message.kind for each in (offer, small, in_pool)}
        self.assertEqual(kinds, {"large": "memory", "small": "device", "in a pool": "device"})
        with self.connect().offer("large", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT) as mapping:
            self.assertEqual((mapping.dtype, mapping.shape, mapping.read()), ("float32", (2, 3), FLOATS.tobytes()))
        # The copy goes with its offer.
        self.wait_for(lambda: len(driver.access) == 1)
        offer.withdraw()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))
        self.wait_for(lambda: driver.access == {})

    def test_tensor_of_more_than_4_gib_for_a_pool_is_refused_before_it_is_copied(self) -> None:
        with MemoryPool() as pool:
            source = pool.allocate(512)
            allocate = cuda().allocate
            self.replace(cuda(), "allocate", lambda pool, nbytes, stream, ordinal: allocate(pool, 512, stream, ordinal))
            self.replace(cuda(), "copy", mock.Mock(side_effect=AssertionError("It was copied")))
            interface = {**source.__cuda_array_interface__, "shape": (2**32 + 1,)}
            tensor = type("Array", (), {"__cuda_array_interface__": interface})()
            self.assertCode("too-large", self.exporter.offer_tensor, "x", tensor, pool=pool)
            gc.collect()
            self.assertEqual(self.exporter.offers, [])

    def test_importer_of_version_1(self) -> None:
        with MemoryPool() as pool, socket.socket(socket.AF_UNIX) as old:
            honest = self.connect()
            old.settimeout(support.TIMEOUT)
            old.connect(self.path)
            old.send(m.encode(m.Hello(1, 1)))
            welcome = m.encode(m.Welcome(1))
            self.assertEqual(old.recv(len(welcome)), welcome)
            self.exporter.offer("large", allocate_virtual(SIZE))
            goodbye = m.Goodbye("version-mismatch", 1, 3, '"large" needs version 2')
            self.assertEqual(old.recv(1000), m.encode(goodbye))
            self.assertEqual(old.recv(1), b"")
            # Later ones are told so, too, and no other is disturbed.
            self.exporter.offer("small", pool.allocate(4))
            for name in ("large", "small"):
                honest.offer(name, timeout=support.TIMEOUT).map(timeout=support.TIMEOUT).release()
            with socket.socket(socket.AF_UNIX) as late:
                late.settimeout(support.TIMEOUT)
                late.connect(self.path)
                late.send(m.encode(m.Hello(1, 1)))
                data = b""
                while piece := late.recv(1000):
                    data += piece
            self.assertEqual(data, welcome + m.encode(goodbye))
            self.wait_for(lambda: self.ends == ["version-mismatch"] * 2)

    def test_versions(self) -> None:
        for lowest, highest, chosen in ((1, 1, 1), (1, 2, 2), (2, 9, 3)):
            with self.subTest(lowest=lowest, highest=highest), socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(support.TIMEOUT)
                sock.connect(self.path)
                sock.send(m.encode(m.Hello(lowest, highest)))
                self.assertEqual(sock.recv(1000), m.encode(m.Welcome(chosen)))

    def test_importer_that_maps_only_virtual_memory(self) -> None:
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        for name in ("cudaIpcOpenEventHandle", "cudaMemPoolImportFromShareableHandle", "cudaMemPoolImportPointer"):
            self.replace(runtime, name, mock.Mock(side_effect=AssertionError("It was given to the driver")))
        importer = self.connect(memory="virtual")
        with MemoryPool() as pool:
            buffer = allocate_virtual(SIZE, stream=stream)
            stream.add(gate.wait)
            self.exporter.offer("large", buffer, stream=stream)
            self.exporter.offer("pooled", pool.allocate(4))
            self.exporter.offer("pool", pool)
            self.exporter.create_channel("frames", pool, slots=2, slot_nbytes=4)
            threading.Timer(0.05, gate.set).start()
            with importer.offer("large", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT) as mapping:
                self.assertEqual(mapping.read(4), bytes(4))
            expected = "maps only virtual memory; the exporter must allocate it .* by poolpass.allocate_virtual"
            for call in (
                importer.offer("pooled", timeout=support.TIMEOUT).map,
                importer.offer("pool", timeout=support.TIMEOUT).import_pool,
                lambda: importer.channel("frames", timeout=support.TIMEOUT),
            ):
                with self.assertRaisesRegex(SharingError, expected) as caught:
                    call()
                self.assertEqual(caught.exception.code, "not-permitted")
            del caught
            self.assertRaisesRegex(ValueError, '"any" or "virtual"', Importer.connect, self.path, memory="pools")
            self.exporter.close()

    def test_what_exporters_may_not_say_of_it(self) -> None:
        self.exporter.close()
        memory = cuda().create_memory(WHOLE, 0)[0]
        self.addCleanup(cuda().call_driver, "cuMemRelease", memory)
        pool = MemoryPool()
        self.addCleanup(pool.close)
        descriptor = cuda().export_memory(memory)
        self.addCleanup(os.close, descriptor)
        uuid = cuda().uuids[0]
        # The size that the exporter states, and which memory it sends.
        for what, nbytes, sent, kind in (
            ("smaller", WHOLE // 3, descriptor, SharingError), ("larger", 2 * WHOLE, descriptor, SharingError),
            ("odd", WHOLE - 1, descriptor, CudaError), ("a pool", WHOLE, pool._export(), CudaError),
            ("huge", 2**52, descriptor, Exception),
        ):
            messages = [
                m.Pool(1, "memory", uuid), m.Allocation(1, 1, nbytes, bytes(64)),
                m.Offer(1, "buffer", 1, 1, 0, nbytes, 0, "x", ""),
            ]
            with self.subTest(what):
                self.serve(2, messages, sent, lambda: self.assertRaises(kind, self.map_once))
        whole = m.Allocation(1, 1, WHOLE, bytes(64))
        for what, version, messages, expected in (
            ("version 1", 1, [m.Pool(1, "memory", uuid)], "which version 1 has not"),
            ("export data", 2, [m.Pool(1, "memory", uuid), m.Allocation(1, 1, WHOLE, b"x" * 64)], "has export data"),
            (
                "two allocations", 2, [m.Pool(1, "memory", uuid), whole, m.Allocation(2, 1, 2 * WHOLE, bytes(64))],
                "has another allocation",
            ),
            (
                "a whole pool", 2, [m.Pool(1, "memory", uuid), m.Offer(1, "pool", 0, 1, 0, 0, 0, "x", "")],
                "offered as a whole pool",
            ),
        ):
            with self.subTest(what):
                self.serve(
                    version, messages, descriptor,
                    lambda: self.assertRaisesRegex(SharingError, expected, self.map_once),
                )

    def serve(self, version: int, messages: list[m.Message], descriptor: int, use: Any) -> None:
        """Sends messages, the first of which has a descriptor, to the importer that a function makes."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen()

            def answer() -> None:
                accepted, _ = listener.accept()
                with accepted:
                    accepted.recv(24)
                    accepted.send(m.encode(m.Welcome(version)))
                    socket.send_fds(accepted, [m.encode(messages[0])], [descriptor])
                    for message in messages[1:]:
                        accepted.send(m.encode(message))
                    while accepted.recv(1000):
                        pass

            aside = threading.Thread(target=answer)
            aside.start()
            try:
                use()
            finally:
                aside.join(support.TIMEOUT)
                os.unlink(self.path)

    def map_once(self) -> None:
        with Importer.connect(self.path, **support.PATIENCE) as importer:
            importer.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT).release()

    def test_wrong_arguments(self) -> None:
        for nbytes in (0, -1, 2**60):
            self.assertRaises(ValueError, allocate_virtual, nbytes)
        for nbytes in (1.5, "4"):
            self.assertRaises(TypeError, allocate_virtual, nbytes)
        self.assertRaises(ValueError, allocate_virtual, 4, device=7)
        self.assertRaises(ValueError, poolpass.allocate_virtual_array, (0,), "float32")
        # The use of a device that does not exist raises the error, and this does not.
        for device in (0, 7):
            poolpass.initialize(device)
        with poolpass.allocate_virtual_array((2, 3), "float16") as buffer:
            self.assertEqual((buffer.dtype, buffer.shape, buffer.nbytes), ("float16", (2, 3), 12))
            self.assertRaisesRegex(TypeError, "offer it with an Exporter", buffer.export_pointer)

    def assertCode(self, code: str, call: Any, *arguments: object, **options: object) -> None:
        with self.assertRaises(SharingError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        caught.exception.__traceback__ = None


if __name__ == "__main__":
    unittest.main()
