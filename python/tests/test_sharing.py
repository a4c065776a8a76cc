"""Exporters and importers, in one process: each opens no event of the other, and asks for it."""
from __future__ import annotations

import array
import ctypes
import gc
import math
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
from typing import Any, Callable

import support

support.use_software_device()

import poolpass
from poolpass import CudaError, Exporter, Importer, MemoryPool, SharingError, StoreClient, dlpack
from poolpass import messages as m
from poolpass.cuda import cuda
from poolpass.imported_memory import _mapped

# Offers "x" once it is sent a line.
EXPORTER = """
import sys
from poolpass import CudaError, Exporter, MemoryPool
with Exporter.listen(sys.argv[1], close_timeout=0) as exporter, MemoryPool() as pool:
    sys.stdin.readline()
    exporter.offer("x", pool.allocate(4))
    sys.stdin.read()
"""
FLOATS = array.array("f", range(6))


class SharingTest(support.PoolpassTest):
    def setUp(self) -> None:
        super().setUp()
        self.pool = MemoryPool()
        self.ends: list[SharingError | None] = []
        self.exporter = Exporter.listen(
            self.path, on_disconnect=lambda peer, error: self.ends.append(error), close_timeout=1.0, **support.PATIENCE
        )
        self.addCleanup(self.pool.close)
        self.addCleanup(self.exporter.close)

    def connect(self, **options: Any) -> Importer:
        importer = Importer.connect(self.path, **{**support.PATIENCE, **options})
        self.addCleanup(importer.close)
        return importer

    def offer(self, name: str = "weights", **options: Any) -> poolpass.Offer:
        buffer = self.pool.allocate_array((2, 3), "float32")
        buffer.write(FLOATS)
        return self.exporter.offer(name, buffer, **options)

    def test_mapping(self) -> None:
        self.offer(metadata={"layer": 1})
        with self.connect() as importer:
            offer = importer.offer("weights", timeout=support.TIMEOUT)
            self.assertEqual((offer.kind, offer.nbytes, offer.dtype, offer.shape), ("buffer", 24, "float32", (2, 3)))
            self.assertEqual(offer.metadata, {"dtype": "float32", "shape": [2, 3], "layer": 1})
            with offer.map() as mapping:
                self.assertEqual((mapping.device, mapping.dtype, mapping.shape), (0, "float32", (2, 3)))
                self.assertEqual(mapping.read(), FLOATS.tobytes())
                self.assertEqual(mapping.read(4, byte_offset=4), FLOATS[1:2].tobytes())
                self.wait_for(lambda: self.exporter.leases)
                [lease] = self.exporter.leases
                self.assertEqual((lease.name, lease.state, lease.peer.pid), ("weights", "held", os.getpid()))
            self.assertRaises(RuntimeError, lambda: mapping.address)
        self.wait_for(lambda: self.exporter.leases == [])
        self.wait_for(lambda: self.ends == [None])

    def test_tensor_outlives_mapping_importer_and_offer(self) -> None:
        offer = self.offer()
        # Nothing but the capsule refers to the mapping.
        importer = Importer.connect(self.path, **support.PATIENCE)
        capsule = importer.offer("weights", timeout=support.TIMEOUT).map().__dlpack__(stream=1)
        del importer
        tensor = dlpack.import_capsule(capsule)
        gc.collect()
        offer.withdraw()
        self.assertFalse(offer.wait_ended(0.1))
        self.wait_for(lambda: [each.state for each in offer.leases] == ["held"])
        [mapped] = _mapped.values()
        self.assertEqual(mapped.address, tensor.address)
        tensor.release()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))
        self.assertEqual(_mapped, {})

    def test_close_with_a_tensor(self) -> None:
        offer = self.offer()
        importer = self.connect()
        mapping = importer.offer("weights", timeout=support.TIMEOUT).map()
        tensor = dlpack.import_capsule(mapping.__dlpack__(stream=1))
        importer.close()
        self.assertTrue(mapping.is_released)
        self.assertFalse(importer.is_connected)
        self.assertRaises(RuntimeError, importer.offer, "weights", timeout=1)
        self.wait_for(lambda: len(offer.leases) == 1)
        tensor.release()
        self.assertTrue(offer.wait_released(timeout=support.TIMEOUT))
        self.wait_for(lambda: self.ends == [None])

    def test_array_interface_keeps_the_mapping_at_close(self) -> None:
        offer = self.offer()
        importer = self.connect()
        mapping = importer.offer("weights", timeout=support.TIMEOUT).map()
        self.assertEqual(mapping.__cuda_array_interface__["shape"], (2, 3))
        importer.close()
        self.assertFalse(mapping.is_released)
        self.wait_for(lambda: len(offer.leases) == 1)
        del mapping
        gc.collect()
        self.assertTrue(offer.wait_released(timeout=support.TIMEOUT))

    def test_release_waits_for_the_consumers_stream(self) -> None:
        offer = self.offer()
        importer = self.connect()
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        gate = threading.Event()
        mapping = importer.offer("weights", timeout=support.TIMEOUT).map()
        tensor = dlpack.import_capsule(mapping.__dlpack__(stream=int(stream)))
        stream.add(gate.wait)
        mapping.release()
        tensor.release()
        self.wait_for(lambda: [each.state for each in offer.leases] == ["releasing"])
        offer.withdraw()
        self.assertFalse(offer.wait_ended(0.1))
        gate.set()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))

    def test_release_on_a_stream_that_was_destroyed(self) -> None:
        offer = self.offer()
        importer = self.connect()
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        mapping = importer.offer("weights", timeout=support.TIMEOUT).map(stream=stream)
        cuda().call("cudaStreamDestroy", stream)
        mapping.release()
        self.assertTrue(offer.wait_released(timeout=support.TIMEOUT))

    def test_contents_that_are_still_written(self) -> None:
        gate = threading.Event()
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        buffer = self.pool.allocate(64, stream=stream)
        stream.add(gate.wait)
        self.exporter.offer("late", buffer)
        offer = self.connect().offer("late", timeout=support.TIMEOUT)
        begin = time.monotonic()
        self.assertCode("timed-out", offer.map, timeout=0.1)
        self.assertGreaterEqual(time.monotonic() - begin, 0.1)
        threading.Timer(0.1, gate.set).start()
        offer.map(timeout=support.TIMEOUT).release()

    def test_withdrawal_while_the_contents_are_awaited(self) -> None:
        gate = threading.Event()
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        stream.add(gate.wait)
        own = self.exporter.offer("late", self.pool.allocate(64, stream=stream), stream=stream)
        offer = self.connect().offer("late", timeout=support.TIMEOUT)
        self.run_aside(lambda: (self.wait_for(lambda: own.leases), own.withdraw(), time.sleep(0.05), gate.set()))
        with offer.map(timeout=support.TIMEOUT):
            self.assertTrue(offer.is_withdrawn)
        self.assertTrue(own.wait_ended(support.TIMEOUT))

    def test_two_importers_share_a_mapping(self) -> None:
        self.offer()
        first, second = (self.connect().offer("weights", timeout=support.TIMEOUT).map() for _ in range(2))
        self.assertEqual(first._address, second._address)
        first.release()
        self.wait_for(lambda: len(self.exporter.leases) == 1)
        self.assertEqual(second.read(), FLOATS.tobytes())
        second.release()
        self.wait_for(lambda: _mapped == {})

    def test_parts_of_a_buffer(self) -> None:
        buffer = self.pool.allocate(1000)
        buffer.write(bytes(index % 251 for index in range(1000)))
        self.exporter.offer("all", buffer)
        self.exporter.offer("part", buffer.view("int32", byte_offset=100))
        importer = self.connect()
        self.assertIsNone(importer.offer("all", timeout=support.TIMEOUT).metadata)
        part = importer.offer("part", timeout=support.TIMEOUT)
        self.assertEqual((part.dtype, part.shape), ("int32", (225,)))
        with part.map() as mapping:
            self.assertEqual(mapping.read(2), bytes([100, 101]))
        self.assertRaises(ValueError, buffer.write, bytes(10), byte_offset=991)
        self.assertRaises(ValueError, buffer.read, 1, byte_offset=1000)

    def test_buffer_that_is_freed_while_it_is_held(self) -> None:
        buffer = self.pool.allocate(64)
        buffer.write(b"x" * 64)
        offer = self.exporter.offer("x", buffer)
        mapping = self.connect().offer("x", timeout=support.TIMEOUT).map()
        buffer.free()
        self.pool.close()
        self.assertEqual(mapping.read(), b"x" * 64)
        offer.withdraw()
        mapping.release()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))

    def test_tensors_are_copied(self) -> None:
        source = self.pool.allocate_array((2, 3), "bfloat16")
        source.write(bytes(range(12)))
        offer = self.exporter.offer_tensor("copy", source, metadata={"step": 4})
        self.assertEqual(offer.metadata, {"dtype": "bfloat16", "shape": [2, 3], "step": 4})
        source.write(bytes(12))
        with self.connect().offer("copy", timeout=support.TIMEOUT).map() as mapping:
            self.assertEqual((mapping.dtype, mapping.shape, mapping.read()), ("bfloat16", (2, 3), bytes(range(12))))
        offer.withdraw()
        self.assertTrue(offer.wait_ended(support.TIMEOUT))

    def test_tensors_are_copied_in_stream_order(self) -> None:
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        source = self.pool.allocate_array((4,), "int8", stream=stream)
        gate = threading.Event()
        stream.add(gate.wait)
        offer = self.exporter.offer_tensor("copy", source, stream=stream)
        stream.add(lambda: ctypes.memset(source._address, 9, 4))
        ctypes.memset(source._address, 7, 4)
        self.assertEqual(len(self.exporter._sources), 1)
        gate.set()
        self.assertEqual(self.connect().offer("copy", timeout=support.TIMEOUT).map().read(), bytes([7] * 4))
        self.wait_for(lambda: self.exporter._sources == [])
        self.assertEqual(source.read(), bytes([9] * 4))
        del offer

    def test_arrays_of_the_array_interface_are_copied(self) -> None:
        source = self.pool.allocate_array((3,), "int16")
        source.write(bytes(range(6)))
        interface = type("Array", (), {"__cuda_array_interface__": source.__cuda_array_interface__})()
        self.exporter.offer_tensor("copy", interface, metadata="text")
        offer = self.connect().offer("copy", timeout=support.TIMEOUT)
        self.assertEqual(offer.metadata, "text")
        self.assertEqual(offer.map().read(), bytes(range(6)))

    def test_write_by_dlpack_orders_the_offer(self) -> None:
        buffer = self.pool.allocate(16)
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        tensor = dlpack.import_capsule(buffer.__dlpack__(stream=int(stream)))
        stream.add(lambda: time.sleep(0.1))
        cuda().copy(tensor.address, tensor.address + 8, 8, 3, int(stream), 0)
        # The stream is known from the capsule.
        self.exporter.offer("x", buffer)
        begin = time.monotonic()
        self.connect().offer("x", timeout=support.TIMEOUT).map(timeout=support.TIMEOUT)
        self.assertGreater(time.monotonic() - begin, 0.05)
        tensor.release()

    def test_changes(self) -> None:
        first = self.offer("a")
        importer = self.connect()
        changes = importer.changes(timeout=support.TIMEOUT)
        self.assertEqual(self.names(next(changes)), ("offer", "a"))
        self.offer("b")
        self.assertEqual(self.names(next(changes)), ("offer", "b"))
        first.withdraw()
        self.assertEqual(self.names(next(changes)), ("withdraw", "a"))
        self.assertEqual([each.name for each in importer.offers()], ["b"])
        self.exporter.close()
        self.assertEqual(self.names(next(changes)), ("withdraw", "b"))
        self.assertEqual(list(changes), [])
        self.assertCode("not-found", importer.offer, "c", timeout=1)

    def test_waiting_for_an_offer(self) -> None:
        importer = self.connect()
        self.assertCode("timed-out", importer.offer, "weights", timeout=0.05)
        self.assertRaises(TimeoutError, importer.offer, timeout=0.05)
        threading.Timer(0.05, self.offer).start()
        self.assertEqual(importer.offer(timeout=support.TIMEOUT).name, "weights")

    def test_recall(self) -> None:
        own = self.offer()
        offer = self.connect().offer("weights", timeout=support.TIMEOUT)
        mapping = offer.map()
        self.assertFalse(offer.wait_recalled(0.01))
        self.wait_for(lambda: own.leases)
        own.recall()
        self.assertTrue(offer.wait_recalled(support.TIMEOUT))
        mapping.release()
        self.wait_for(lambda: self.exporter.leases == [] and not offer.is_recalled)

    def test_recall_with_a_deadline_cuts_off(self) -> None:
        own = self.offer()
        importer = self.connect()
        mapping = importer.offer("weights", timeout=support.TIMEOUT).map()
        self.wait_for(lambda: own.leases)
        own.recall(0.05)
        self.wait_for(lambda: not importer.is_connected)
        self.assertCode("cut-off", importer.offer, "other", timeout=1)
        # It is this process that holds it, which goes on living.
        self.wait_for(lambda: [each.state for each in own.leases] == ["quarantined"])
        mapping.release()
        self.assertEqual([error.code for error in self.ends if error], ["cut-off"])
        self.abandon_leases()

    def test_write_comes_behind_other_streams(self) -> None:
        buffer = self.pool.allocate(4)
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        tensor = dlpack.import_capsule(buffer.__dlpack__(stream=int(stream)))
        stream.add(gate.wait)
        stream.add(lambda: ctypes.memset(tensor.address, 1, 4))
        threading.Timer(0.05, gate.set).start()
        buffer.write(b"last")
        self.assertEqual(buffer.read(), b"last")
        tensor.release()

    def test_whole_pool(self) -> None:
        buffer = self.pool.allocate_array((2, 3), "float32")
        buffer.write(FLOATS)
        own = self.exporter.offer("pool", self.pool)
        importer = self.connect()
        offer = importer.offer("pool", timeout=support.TIMEOUT)
        self.assertEqual((offer.kind, offer.nbytes), ("pool", 0))
        self.assertCode("not-supported", offer.map)
        with offer.import_pool() as pool:
            self.assertEqual(pool.device, 0)
            array = pool.import_pointer(buffer.export_pointer(), 24, dtype="float32")
            self.assertEqual((array.dtype, array.shape, array.read()), ("float32", (6,), FLOATS.tobytes()))
            tensor = dlpack.import_capsule(array.__dlpack__(stream=1))
            self.assertCode("size-mismatch", pool.import_pointer, buffer.export_pointer(), 25)
            for data, nbytes in ((bytes(63), 24), (buffer.export_pointer(), 0)):
                self.assertRaises(ValueError, pool.import_pointer, data, nbytes)
            with MemoryPool() as other, other.allocate(24) as foreign:
                self.assertRaises(CudaError, pool.import_pointer, foreign.export_pointer(), 24)
            self.wait_for(lambda: [each.state for each in own.leases] == ["held"])
        self.assertRaises(RuntimeError, pool.import_pointer, buffer.export_pointer(), 24)
        importer.close()
        self.assertTrue(array.is_released)
        self.assertEqual(ctypes.string_at(tensor.address, 24), FLOATS.tobytes())
        self.assertEqual(len(own.leases), 1)
        tensor.release()
        self.assertTrue(own.wait_released(timeout=support.TIMEOUT))

    def test_whole_pool_that_is_let_go_and_imported_again(self) -> None:
        buffer = self.pool.allocate(8)
        own = self.exporter.offer("pool", self.pool)
        importer = self.connect()
        offer = importer.offer("pool", timeout=support.TIMEOUT)
        for round in range(1, 4):
            # Nothing but the array refers to the pool.
            array = offer.import_pool().import_pointer(buffer.export_pointer(), 8)
            self.assertEqual(array.read(), bytes(8))
            del array
            gc.collect()
            self.assertTrue(own.wait_released(round, support.TIMEOUT))
        self.offer()
        self.assertRaises(TypeError, importer.offer("weights", timeout=support.TIMEOUT).import_pool)
        own.withdraw()
        self.wait_for(lambda: offer.is_withdrawn)
        self.assertCode("not-found", offer.import_pool)

    def test_wrong_offers(self) -> None:
        self.offer()
        buffer = self.pool.allocate(4)
        for arguments in (("weights", buffer), ("", buffer), ("x" * 256, buffer), ("a\0", buffer)):
            with self.subTest(arguments=arguments), self.assertRaises(ValueError):
                self.exporter.offer(*arguments)
        for name in (5, None, b"x"):
            self.assertRaises(TypeError, self.exporter.offer, name, buffer)
        self.assertRaisesRegex(ValueError, "lone surrogate", self.exporter.offer, "a\ud800", buffer)
        self.assertRaises(TypeError, self.exporter.offer, "x", b"1234")
        self.assertRaises(TypeError, self.exporter.offer, "x", buffer, metadata=object())
        self.assertRaises(ValueError, self.exporter.offer, "x", buffer, metadata="x" * 40_000)
        for nbytes in (0, -1, 2**60):
            self.assertRaises(ValueError, self.pool.allocate, nbytes)
        for nbytes in (1.5, "4"):
            self.assertRaises(TypeError, self.pool.allocate, nbytes)
        self.assertRaises(ValueError, MemoryPool, 7)
        buffer.free()
        self.assertRaises(RuntimeError, self.exporter.offer, "x", buffer)
        self.exporter.close()
        self.assertRaises(RuntimeError, self.offer, "later")

    def test_array_of_no_bytes_is_not_offered(self) -> None:
        nothing = self.pool.allocate(4).view("uint8", (0,))
        self.assertRaisesRegex(ValueError, "no bytes", self.exporter.offer, "x", nothing)
        self.assertEqual(self.exporter.offers, [])
        self.offer()
        self.assertEqual(self.connect().offer("weights", timeout=support.TIMEOUT).nbytes, 24)

    def test_no_descriptor_is_left_to_connect_or_to_listen(self) -> None:
        for but in (0, 1, 2, 3):
            with self.subTest(but=but), support.no_descriptor_left(but):
                self.assertCode("out-of-descriptors", Importer.connect, self.path)
                if but < 2:
                    self.assertCode("out-of-descriptors", Exporter.listen, self.path + "2")
                    self.assertCode("out-of-descriptors", StoreClient.connect, self.path)
        self.connect()

    def test_no_descriptor_is_left_to_send(self) -> None:
        first, buffer = self.connect(), self.pool.allocate(4)
        self.pool._export()
        self.exporter._events.put_back(self.exporter._take_event(0))
        with support.no_descriptor_left():
            self.exporter.offer("x", buffer)
        self.assertCode("peer-gone", first.offer, "x", timeout=support.TIMEOUT)
        self.assertEqual([each.code for each in self.ends if each], ["out-of-descriptors"])
        # Its traceback refers to the buffer.
        self.ends.clear()
        # A process that connects again gets it.
        self.assertEqual(self.connect().offer("x", timeout=support.TIMEOUT).nbytes, 4)

    def test_no_descriptor_is_left_to_receive(self) -> None:
        exporter = subprocess.Popen(
            [sys.executable, "-c", EXPORTER, self.path + "2"], env=support.ENVIRONMENT, stdin=subprocess.PIPE, text=True
        )
        assert exporter.stdin is not None
        self.addCleanup(exporter.wait)
        self.addCleanup(exporter.stdin.close)
        with Importer.connect(self.path + "2", wait=support.TIMEOUT, **support.PATIENCE) as importer:
            with support.no_descriptor_left():
                print(file=exporter.stdin, flush=True)
                self.assertCode("out-of-descriptors", importer.offer, "x", timeout=support.TIMEOUT)

    def test_times_without_an_end(self) -> None:
        self.exporter.close()
        times = {"handshake_timeout": math.inf, "message_timeout": math.inf, "close_timeout": math.inf}
        with Exporter.listen(self.path, **times) as exporter, Importer.connect(self.path, **times) as importer:
            own = exporter.offer("x", self.pool.allocate(4))
            with socket.socket(socket.AF_UNIX) as silent:
                silent.connect(self.path)
                self.wait_for(lambda: len(exporter._importers) == 2)
                mapping = importer.offer("x", timeout=math.inf).map(timeout=math.inf)
                self.wait_for(lambda: own.leases)
                own.recall(math.inf)
                self.assertTrue(importer.offer("x").wait_recalled(support.TIMEOUT))
                mapping.release()
                self.assertTrue(own.wait_released(timeout=math.inf))

    def test_times_that_are_none(self) -> None:
        importer = self.connect()
        for value, kind in ((math.nan, ValueError), (-1, ValueError), ("1", TypeError), (False, TypeError)):
            with self.subTest(value=value):
                self.assertRaises(kind, importer.offer, "x", timeout=value)
                self.assertRaises(kind, Importer.connect, self.path, wait=value)
                for name in ("handshake_timeout", "message_timeout", "close_timeout"):
                    self.assertRaises(kind, Importer.connect, self.path, **{name: value})
                    self.assertRaises(kind, Exporter.listen, self.path + "2", **{name: value})
                self.assertRaises(kind, Exporter.listen, self.path + "2", maximum_importers=value)
        self.assertRaises(TypeError, Exporter.listen, self.path + "2", on_connect=3)

    def test_names_that_no_offer_has(self) -> None:
        importer = self.connect()
        self.assertRaises(TypeError, importer.offer, 5, timeout=support.TIMEOUT)
        self.assertRaises(ValueError, importer.offer, "", timeout=support.TIMEOUT)
        self.assertRaises(TypeError, importer.channel, None, timeout=support.TIMEOUT)

    def test_identifiers_come_back(self) -> None:
        importer = self.connect()
        for _ in range(30):
            own = self.offer()
            importer.offer("weights", timeout=support.TIMEOUT).map().release()
            own.withdraw()
            self.assertTrue(own.wait_ended(support.TIMEOUT))
        core = importer._connection
        self.wait_for(lambda: not core._allocations and not core._pools and not core._lent)
        self.assertLess(len(core._local_events._all), 5)
        self.assertLess(len(self.exporter._events._all), 5)

    def test_limits_on_importers(self) -> None:
        self.exporter.close()
        with Exporter.listen(self.path, maximum_importers=1) as exporter:
            first = self.connect()
            self.assertCode("limit-exceeded", Importer.connect, self.path)
            first.close()
            self.wait_for(lambda: exporter.importers == [])
            self.connect().close()

    def test_limit_on_the_importers_of_a_user(self) -> None:
        self.exporter.close()
        with Exporter.listen(self.path, users=[12345], maximum_importers_per_user=2):
            importers = [self.connect(), self.connect()]
            with self.assertRaisesRegex(SharingError, "2 importers of one user") as caught:
                Importer.connect(self.path)
            self.assertEqual(caught.exception.code, "limit-exceeded")
            for importer in importers:
                importer.close()

    def test_connections_that_say_nothing(self) -> None:
        self.exporter.close()
        with Exporter.listen(self.path, maximum_handshakes=2):
            silent = [socket.socket(socket.AF_UNIX) for _ in range(3)]
            for each in silent:
                self.addCleanup(each.close)
                each.connect(self.path)
            self.assertEqual(self.goodbye(silent[0]), "limit-exceeded")
            self.connect().close()
            # The importer has ended one more.
            self.assertEqual(self.goodbye(silent[1]), "limit-exceeded")

    def test_connection_that_says_nothing_in_time(self) -> None:
        self.exporter.close()
        with Exporter.listen(self.path, handshake_timeout=0.1), socket.socket(socket.AF_UNIX) as silent:
            silent.connect(self.path)
            self.assertEqual(self.goodbye(silent), "timed-out")

    def test_what_importers_may_not_send(self) -> None:
        for messages, reason in (
            ([m.Held(1)], "bad-message"),
            ([m.Hello(4, 5)], "version-mismatch"),
            ([m.Hello(0, 0)], "version-mismatch"),
            ([m.Hello(1, 1, "operator")], "bad-message"),
            ([m.Hello(1, 1), m.Held(99)], "bad-message"),
            ([m.Hello(1, 1), m.Wait(1)], "bad-message"),
            ([m.Hello(1, 1), m.Withdraw(1)], "bad-message"),
        ):
            with self.subTest(messages=messages), socket.socket(socket.AF_UNIX) as sock:
                sock.connect(self.path)
                sock.send(b"".join(map(m.encode, messages)))
                self.assertEqual(self.goodbye(sock), reason)

    def test_what_exporters_may_not_send(self) -> None:
        self.exporter.close()
        uuid = cuda().uuids[0]
        offer = m.Offer(1, "buffer", 1, 1, 0, 4, 0, "x", "")
        for messages, code in (
            ([m.Welcome(9)], "version-mismatch"),
            ([m.Withdraw(1)], "bad-message"),
            ([m.Goodbye("limit-exceeded", 1, 1, "full\x1b[2J")], "limit-exceeded"),
            ([m.Welcome(1), m.Allocation(1, 1, 4, bytes(64))], "bad-message"),
            ([m.Welcome(1), offer], "bad-message"),
            ([m.Welcome(1), m.Fired(1)], "bad-message"),
            ([m.Welcome(1), m.EventFree(1)], "bad-message"),
            ([m.Welcome(1), m.Withdraw(4)], "bad-message"),
            ([m.Welcome(1), m.Forget("pool", 4)], "bad-message"),
            ([m.Welcome(1), m.Held(4)], "bad-message"),
            ([m.Welcome(1), *(m.Event(number, uuid, bytes(64)) for number in (1, 1))], "bad-message"),
        ):
            with self.subTest(messages=messages), socket.socket(socket.AF_UNIX) as listener:
                listener.bind(self.path)
                listener.listen()
                answered = self.run_aside(lambda: self.answer(listener, messages))
                with self.assertRaises(SharingError) as caught:
                    with Importer.connect(self.path) as importer:
                        importer.offer("never", timeout=support.TIMEOUT)
                self.assertEqual(caught.exception.code, code)
                self.assertNotIn("\x1b", str(caught.exception))
                answered.join()
            os.unlink(self.path)

    def test_exporter_that_does_not_answer(self) -> None:
        self.exporter.close()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen()
            self.assertCode("timed-out", Importer.connect, self.path, handshake_timeout=0.05)

    def test_users(self) -> None:
        self.exporter.close()
        with Exporter.listen(self.path, users=[12345]):
            self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o666)
            self.connect().close()

    def test_importer_that_reads_nothing(self) -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self.path)
            sock.send(m.encode(m.Hello(1, 1)))
            self.wait_for(lambda: len(self.exporter.importers) == 1)
            buffer = self.pool.allocate(4)
            offers = [self.exporter.offer(str(index), buffer, metadata="x" * 10_000) for index in range(100)]
            [importer] = self.exporter._importers
            self.assertLess(importer.connection.outgoing_length, 300_000)
            for each in offers:
                each.withdraw()
            # Those that were not sent are over.
            self.wait_for(lambda: sum(each._record.has_ended for each in offers) > 50)
        self.abandon_leases()

    @staticmethod
    def names(change: tuple[str, poolpass.RemoteOffer]) -> tuple[str, str]:
        return change[0], change[1].name

    def answer(self, listener: socket.socket, messages: list[m.Message]) -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.settimeout(support.TIMEOUT)
            accepted.recv(24)
            for message in messages:
                accepted.send(m.encode(message))
            while accepted.recv(1000):
                pass

    def goodbye(self, sock: socket.socket) -> str:
        """The reason of the GOODBYE that comes last."""
        sock.settimeout(support.TIMEOUT)
        data = b""
        while piece := sock.recv(65_536):
            data += piece
        messages = []
        while data:
            layout, length = m.decode_header(data)
            messages.append(m.decode(layout, data[m.HEADER.size : m.HEADER.size + length]))
            data = data[m.HEADER.size + length :]
        assert isinstance(messages[-1], m.Goodbye), messages
        return messages[-1].reason

    def abandon_leases(self) -> None:
        """Lets the exporter believe that this process has ended, which holds quarantined leases."""
        self.exporter.close()
        with self.exporter.loop.lock:
            for importer in list(self.exporter._importers):
                importer.process_ended()
            self.exporter.loop.wake()

    def run_aside(self, call: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=call)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def assertCode(self, code: str, call: Callable[..., object], *arguments: object, **options: object) -> None:
        with self.assertRaises(SharingError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.code, code, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
