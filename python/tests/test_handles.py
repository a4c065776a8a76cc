"""What peers send for the driver: it is judged before the driver, which would believe it, sees it."""
from __future__ import annotations

import os
import struct
import unittest
from typing import Any
from unittest import mock

import support

support.use_software_device()

from cuda.bindings import runtime

from poolpass import CudaError, Exporter, Importer, MemoryPool, SharingError, export_data
from poolpass.cuda import cuda

MIB, GIB = 2**20, 2**30
# The places of the fields of export data, as indices of u64.
OFFSET, SIZE = 3, 4


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
                with mock.patch.object(buffer._holding, "nbytes", nbytes):
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


if __name__ == "__main__":
    unittest.main()
