"""What peers send for the driver: it is judged before the driver, which would believe it, sees it."""
from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import unittest
from typing import Any
from unittest import mock

import support

support.use_software_device()

from cuda.bindings import runtime

from poolpass import CudaError, Exporter, Importer, MemoryPool, SharingError, export_data, ipc_handles
from poolpass import messages as m
from poolpass.cuda import cuda

MIB, GIB = 2**20, 2**30
# The places of the fields of export data, as indices of u64.
OFFSET, SIZE = 3, 4
OTHER_USER = 12345

# As another user, maps "x" and releases it while its stream works. Says how many events it has opened.
IMPORTER_OF_OTHER_USER = """
import os, sys
from cuda.bindings import runtime
from poolpass import Importer
from poolpass.cuda import cuda
opened, open_handle = [], runtime.cudaIpcOpenEventHandle
runtime.cudaIpcOpenEventHandle = lambda handle: opened.append(handle) or open_handle(handle)
stream = cuda().call("cudaStreamCreateWithFlags", 1)
# The interpreter's files may be those of the first user alone.
os.setresuid(int(sys.argv[2]), int(sys.argv[2]), int(sys.argv[2]))
with Importer.connect(sys.argv[1], users=[0]) as importer:
    with importer.offer("x", timeout=30).map(stream=stream, timeout=30) as mapping:
        stream.add(lambda: None)
print(len(opened), mapping.is_released)
"""


def forged(data: bytes, changes: dict[int, int]) -> bytes:
    """A copy of export data in which fields have other values."""
    words = list(struct.unpack("<8Q", data))
    for index, value in changes.items():
        words[index] = value
    return struct.pack("<8Q", *words)


class Calls:
    """What a function of the runtime is called with last."""

    def __init__(self, test: unittest.TestCase, name: str):
        self.given: list[Any] = []
        call = getattr(runtime, name)

        def kept(*arguments: Any) -> Any:
            self.given.append(arguments[-1])
            return call(*arguments)

        patch = mock.patch.object(runtime, name, kept)
        patch.start()
        test.addCleanup(patch.stop)


class ExportDataTest(support.PoolpassTest):
    def setUp(self) -> None:
        super().setUp()
        self.replace(export_data, "layout", export_data.ExportDataLayout())
        self.pool = MemoryPool()
        self.exporter = Exporter.listen(self.path, close_timeout=1.0, **support.PATIENCE)
        self.addCleanup(self.pool.close)
        self.addCleanup(self.exporter.close)
        self.importer = Importer.connect(self.path, **support.PATIENCE)
        self.addCleanup(self.importer.close)

    def replace(self, target: object, name: str, value: object) -> None:
        patch = mock.patch.object(target, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def import_pool(self) -> Any:
        self.exporter.offer("pool", self.pool)
        pool = self.importer.offer("pool", timeout=support.TIMEOUT).import_pool()
        self.addCleanup(pool.close)
        return pool

    def test_what_a_driver_would_believe_is_refused_before_it_sees_it(self) -> None:
        pool, data = self.import_pool(), self.pool.allocate(MIB).export_pointer()
        imports = Calls(self, "cudaMemPoolImportPointer")
        for changes, stated, code in (
            ({SIZE: 0}, 1, "bad-message"),
            ({SIZE: 8 * GIB}, 1, "too-large"),
            ({SIZE: 2**53}, 1, "bad-message"),
            ({SIZE: 2**64 - 1}, 1, "bad-message"),
            ({OFFSET: 2**40}, 1, "bad-message"),
            ({OFFSET: 2**64 - 1}, 1, "bad-message"),
            ({SIZE: MIB - 1}, MIB, "size-mismatch"),
            ({}, MIB + 1, "size-mismatch"),
        ):
            with self.subTest(changes=changes, stated=stated):
                self.assertCode(code, pool.import_pointer, forged(data, changes), stated)
        self.assertEqual(imports.given, [])

    def test_up_to_128_pieces_reach_the_driver(self) -> None:
        pool, data = self.import_pool(), self.pool.allocate(MIB).export_pointer()
        # The driver finds that they were not exported.
        self.replace(runtime, "cudaMemPoolImportPointer", lambda pool, data: (runtime.invalid, None))
        for offset in (0, 32 * MIB, 20 * GIB):
            self.assertRaises(CudaError, pool.import_pointer, forged(data, {OFFSET: offset, SIZE: 4 * GIB}), 1)
            self.assertCode("too-large", pool.import_pointer, forged(data, {OFFSET: offset, SIZE: 4 * GIB + 1}), 1)
        for offset in (2 * MIB, 16 * MIB, 30 * MIB):
            most = {OFFSET: offset, SIZE: 4 * GIB - offset}
            self.assertRaises(CudaError, pool.import_pointer, forged(data, most), 1)
            most[SIZE] += 1
            self.assertCode("too-large", pool.import_pointer, forged(data, most), 1)

    def test_export_data_has_nothing_that_the_driver_did_not_write(self) -> None:
        export = runtime.cudaMemPoolExportPointer
        self.replace(
            runtime, "cudaMemPoolExportPointer",
            lambda address: (runtime.success, runtime.Reserved(export(address)[1].reserved[:48] + b"\xa5" * 16)),
        )
        data = self.pool.allocate(4096).export_pointer()
        self.assertEqual(data[48:], bytes(16))
        self.assertEqual(struct.unpack_from("<Q24xQ", data), (os.getpid(), 4096))
        # Whatever the exporter leaves there, the allocation is mapped once.
        pool = self.import_pool()
        with pool.import_pointer(data, 4096) as first, pool.import_pointer(data[:48] + b"x" * 16, 4096) as second:
            self.assertEqual(first.address, second.address)

    def test_with_another_layout_the_stated_size_decides(self) -> None:
        export, import_pointer = runtime.cudaMemPoolExportPointer, runtime.cudaMemPoolImportPointer

        def rotated(address: int) -> Any:
            data = export(address)[1].reserved
            return runtime.success, runtime.Reserved(data[8:] + data[:8])

        self.replace(runtime, "cudaMemPoolExportPointer", rotated)
        self.replace(
            runtime, "cudaMemPoolImportPointer",
            lambda pool, data: import_pointer(pool, runtime.Reserved(data.reserved[-8:] + data.reserved[:-8])),
        )
        buffer = self.pool.allocate(4096)
        buffer.write(b"\x03" * 4096)
        pool, data = self.import_pool(), buffer.export_pointer()
        self.assertEqual(struct.unpack_from("<Q", data, 56), (os.getpid(),))
        sizes = mock.Mock(side_effect=cuda().size_of)
        self.replace(cuda(), "size_of", sizes)
        with pool.import_pointer(data, 4096) as mapped:
            self.assertEqual(mapped.read(1), b"\x03")
        self.assertEqual(sizes.call_count, 1)
        self.assertCode("size-mismatch", pool.import_pointer, data, 4097)
        self.assertCode("too-large", pool.import_pointer, bytes(64), 4 * GIB + 1)

    def test_an_import_whose_data_is_understood_makes_one_call(self) -> None:
        buffers = [self.pool.allocate(4096) for _ in range(2)]
        pool = self.import_pool()
        pool.import_pointer(buffers[0].export_pointer(), 4096).release()
        data = buffers[1].export_pointer()
        names: list[str] = []
        call = cuda().call
        self.replace(cuda(), "call", lambda name, *arguments: names.append(name) or call(name, *arguments))
        self.replace(cuda(), "size_of", mock.Mock(side_effect=AssertionError("The size is known")))
        with pool.import_pointer(data, 4096):
            self.assertEqual([name for name in names if name not in ("cudaGetDevice", "cudaSetDevice")],
                             ["cudaMemPoolImportPointer"])

    def test_offers_state_the_size_exactly(self) -> None:
        buffer = self.pool.allocate(4096)
        buffer.export_pointer()
        for nbytes in (4095, 4097, 8 * GIB):
            with self.subTest(nbytes=nbytes):
                with mock.patch.object(buffer._holding, "announced", nbytes):
                    offer = self.exporter.offer("x", buffer.view(shape=(64,)))
                self.assertCode("size-mismatch", self.importer.offer("x", timeout=support.TIMEOUT).map)
                offer.withdraw()
                self.assertTrue(offer.wait_ended(support.TIMEOUT))
        self.exporter.offer("x", buffer)
        self.importer.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT).release()

    def test_another_exporters_export_data_finds_no_mapping(self) -> None:
        """What an exporter of another process sends is its own, even if it repeats what another one has sent."""
        buffer = self.pool.allocate(4096)
        self.exporter.offer("x", buffer)
        with self.importer.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT):
            pool = self.import_pool()
            peer = pool._hold.pool.exporter
            with mock.patch.object(pool._hold.pool, "exporter", mock.Mock(pid=peer.pid + 1, uid=peer.uid)):
                imports = Calls(self, "cudaMemPoolImportPointer")
                pool.import_pointer(buffer.export_pointer(), 4096).release()
                self.assertEqual(len(imports.given), 1)

    def test_what_no_process_could_import_is_not_exported(self) -> None:
        large, allocate = 4 * GIB + 1, cuda().allocate
        self.replace(cuda(), "allocate", lambda pool, nbytes, stream, ordinal: allocate(pool, 512, stream, ordinal))
        with self.pool.allocate(large) as buffer:
            with self.assertRaisesRegex(SharingError, "poolpass.allocate_virtual.*at most 4261412864 bytes") as caught:
                buffer.export_pointer()
            self.assertEqual(caught.exception.code, "too-large")
            self.assertCode("too-large", self.exporter.offer, "x", buffer)
            del caught
        self.assertCode("too-large", self.exporter.create_channel, "x", self.pool, slots=2, slot_nbytes=2 * GIB + 1)
        self.assertEqual((self.exporter.offers, self.exporter._pools, self.exporter._allocations), ([], {}, {}))

    def assertCode(self, code: str, call: Any, *arguments: object, **options: object) -> None:
        with self.assertRaises(SharingError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        caught.exception.__traceback__ = None


class EventHandleTest(support.PoolpassTest):
    """The stand-in checks handles itself. Here, it is a driver like CUDA's: it believes them, and has their layout."""

    peer = 4_000_000

    def setUp(self) -> None:
        super().setUp()
        for target, name, value in (
            (cuda(), "checks_handles", False),
            (ipc_handles, "layout", ipc_handles.EventHandleLayout()),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.use_layout(lambda place: handle_of(os.getpid(), place))

    def use_layout(self, layout: Any) -> None:
        """Gives the handles of this process's events a layout."""
        ipc_handles.layout = ipc_handles.EventHandleLayout()
        places = iter(range(4095, 0, -1))
        patch = mock.patch.object(
            runtime, "cudaIpcGetEventHandle", lambda event: (runtime.success, runtime.Reserved(layout(next(places))))
        )
        patch.start()
        self.addCleanup(patch.stop)

    def can_open(self, handle: bytes) -> bool:
        return ipc_handles.can_open_event(0, handle, self.peer)

    def test_handles_that_no_driver_has_made(self) -> None:
        good = handle_of(self.peer, 17)
        self.assertTrue(self.can_open(good))
        self.assertTrue(self.can_open(changed(good, 4, 4095)))
        # Nothing is known of this field.
        self.assertTrue(self.can_open(changed(good, 2, 99)))
        zeros = (1, 3, *range(5, 16))
        for index, value in ((4, 4096), (4, 0xFF000011), (0, self.peer + 1), *((index, 1) for index in zeros)):
            with self.subTest(index=index, value=value):
                self.assertFalse(self.can_open(changed(good, index, value)))
        self.assertFalse(self.can_open(b"\xa5" * 64))

    def test_other_layouts(self) -> None:
        for what, layout in (
            ("another process", lambda place: handle_of(os.getpid() + 1, place)),
            ("the same place", lambda place: handle_of(os.getpid(), 5)),
            ("large places", lambda place: handle_of(os.getpid(), place + 4096)),
            ("a field that is not 0", lambda place: changed(handle_of(os.getpid(), place), 9, 1)),
        ):
            with self.subTest(what):
                self.use_layout(layout)
                self.assertFalse(self.can_open(handle_of(self.peer, 17)))
        with self.subTest("no IPC"):
            ipc_handles.layout = ipc_handles.EventHandleLayout()
            with mock.patch.object(runtime, "cudaIpcGetEventHandle", lambda event: (runtime.invalid, None)):
                self.assertFalse(self.can_open(handle_of(self.peer, 17)))

    def test_an_importer_that_forges_its_release_event_is_asked_for_it(self) -> None:
        opens = Calls(self, "cudaIpcOpenEventHandle")
        with Exporter.listen(self.path, close_timeout=1.0, **support.PATIENCE) as exporter, MemoryPool() as pool:
            offer = exporter.offer("x", pool.allocate(4096))
            with socket.socket(socket.AF_UNIX) as forger:
                forger.settimeout(support.TIMEOUT)
                forger.connect(self.path)
                event = m.Event(7, cuda().uuids[0], changed(handle_of(os.getpid(), 17), 4, 0x80000011))
                for message in (m.Hello(1, 1), m.Held(1), event, m.Released(1, 7)):
                    forger.send(m.encode(message))
                self.assertIn(m.encode(m.Wait(7)), received_until(forger, m.encode(m.Wait(7))))
                self.assertEqual([each.state for each in offer.leases], ["releasing"])
                # An honest importer beside it is served.
                with Importer.connect(self.path, **support.PATIENCE) as honest:
                    honest.offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT).release()
                forger.send(m.encode(m.Fired(7)))
                self.wait_for(lambda: offer.leases == [])
                forger.send(m.encode(m.Goodbye("done", 1, 1, "")))
                self.wait_for(lambda: exporter.importers == [])
        self.assertNotIn(event.handle, [each.reserved for each in opens.given])


class OtherUserTest(support.PoolpassTest):
    @unittest.skipIf(os.geteuid() != 0, "it takes root to become another user")
    def test_no_event_of_another_user_is_opened(self) -> None:
        os.chmod(os.path.dirname(self.path), 0o755)
        opens = Calls(self, "cudaIpcOpenEventHandle")
        gate = threading.Event()
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        with Exporter.listen(self.path, users=[OTHER_USER], **support.PATIENCE) as exporter, MemoryPool() as pool:
            buffer = pool.allocate(4096, stream=stream)
            stream.add(gate.wait)
            offer = exporter.offer("x", buffer, stream=stream)
            child = subprocess.Popen(
                [sys.executable, "-c", IMPORTER_OF_OTHER_USER, self.path, str(OTHER_USER)], stdout=subprocess.PIPE,
                env={**support.ENVIRONMENT, "POOLPASS_TEST_DELAY": "0.05"}, text=True,
            )
            self.addCleanup(child.wait)
            self.wait_for(lambda: [each.peer.uid for each in offer.leases] == [OTHER_USER])
            gate.set()
            self.assertTrue(offer.wait_released(timeout=support.TIMEOUT))
            said, _ = child.communicate(timeout=support.TIMEOUT)
            self.wait_for(lambda: exporter.leases == [])
        self.assertEqual((said, child.returncode, opens.given), ("0 True\n", 0, []))


def handle_of(pid: int, place: int) -> bytes:
    """The handle of an event in CUDA's layout."""
    return struct.pack("<16I", pid, 0, 3, 0, place, *[0] * 11)


def changed(handle: bytes, index: int, value: int) -> bytes:
    words = list(struct.unpack("<16I", handle))
    words[index] = value
    return struct.pack("<16I", *words)


def received_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data and (piece := sock.recv(65_536)):
        data += piece
    return data


if __name__ == "__main__":
    unittest.main()
