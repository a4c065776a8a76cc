"""The package as a client of a store: with a store of Deno in another process, and with other clients, also of Deno."""
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
from typing import Any

import support

support.use_software_device()

from cuda.bindings import virtual_memory
from cuda.bindings.runtime import F_ADD_SEALS, F_SEAL_SHRINK, PAGE, UUID
from poolpass import SharingError, SharingTimeoutError, StoreClient, dlpack
from poolpass import messages as m
from poolpass.cuda import cuda, format_uuid
from poolpass.documents import Documents, asks_of
from poolpass.tensor_bundle import tensors_of
from test_processes import DENO, DenoPeer

# A store that ends its first connection when it is asked for something.
FORGETFUL_STORE = os.path.join(support.ROOT, "tests", "sharing", "hostile", "forgetful_store.py")
FLOATS = bytes((ctypes.c_float * 6)(*range(6)))
UNIT = 2 * 2**20


class DenoStore:
    """A process of `poolpass store`."""

    def __init__(self, path: str, *arguments: str):
        assert DENO is not None
        self.process = subprocess.Popen(
            [
                DENO, "run", "--allow-all", "--no-check", "--no-lock", os.path.join(support.ROOT, "cli", "main.ts"),
                "store", path, "--driver", "software", *arguments,
            ],
            env=support.ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )

    def wait_for(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"The store has ended with {self.process.wait(support.TIMEOUT)}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class StoreChecks(unittest.TestCase):
    """Checks that share a store of Deno, in the folder that `support.run_checks` has made."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = os.environ["POOLPASS_WEIGHTS_FOLDER"]
        cls.path = os.path.join(cls.folder, "store.sock")
        cls.store = DenoStore(cls.path)
        cls.client = StoreClient.connect(cls.path, wait=support.TIMEOUT, **support.PATIENCE)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.store.close()


def write(array: Any, data: bytes) -> None:
    """Writes an array in place, as a library does by DLPack."""
    tensor = dlpack.import_capsule(array.__dlpack__(stream=0))
    ctypes.memmove(tensor.address, data, len(data))
    tensor.release()


class StoreTest(support.PoolpassTest):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.assert_nothing_mapped)

    def assert_nothing_mapped(self) -> None:
        gc.collect()
        support.wait_for(lambda: not virtual_memory.access, support.TIMEOUT, check=False)
        self.assertEqual((virtual_memory.access, virtual_memory.reserved, virtual_memory.memories), ({}, {}, {}))

    def start_store(self, path: str, *arguments: str) -> DenoStore:
        store = DenoStore(path, *arguments)
        self.addCleanup(store.close)
        return store

    def start_peer(self, *arguments: object) -> DenoPeer:
        peer = DenoPeer(*arguments)
        self.addCleanup(peer.close)
        return peer

    def connect(self, **options: Any) -> StoreClient:
        client = StoreClient.connect(self.path, **{"wait": support.TIMEOUT, **support.PATIENCE, **options})
        self.addCleanup(client.close)
        return client

    def assert_fails(self, code: str, call: Any) -> SharingError:
        with self.assertRaises(SharingError) as caught:
            call()
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        return caught.exception


@unittest.skipIf(DENO is None, "there is no Deno")
class DenoStoreTest(StoreTest):
    def test_publish_and_map(self) -> None:
        self.start_store(self.path)
        writer, reader = self.connect(), self.connect()
        self.assertEqual(writer.entries(), [])
        with writer.create("weights", shape=(2, 3), dtype="float32", metadata={"step": 1}) as memory:
            self.assertEqual((memory.array.dtype, memory.array.shape), ("float32", (2, 3)))
            self.assertFalse(memory.array.__cuda_array_interface__["data"][1])
            write(memory.array, FLOATS)
            self.assertEqual(reader.entries(), [])
            self.assertEqual(memory.publish(), 1)
            self.assertTrue(memory.is_published)
            self.assertEqual(list(virtual_memory.access.values()), [1])
            self.assertRaises(RuntimeError, memory.publish)
            mapping = reader.map("weights", timeout=support.TIMEOUT)
            self.assertEqual((mapping.dtype, mapping.shape, mapping.generation), ("float32", (2, 3), 1))
            self.assertEqual(mapping.metadata, {"dtype": "float32", "shape": [2, 3], "step": 1})
            self.assertEqual(mapping.read(), FLOATS)
            (entry,) = reader.entries()
            self.assertEqual((entry.name, entry.nbytes, entry.generation), ("weights", 24, 1))
            self.assertEqual({each.pid for each in entry.readers}, {os.getpid()})
        # The writer is gone, and the memory stays.
        writer.close()
        self.assertEqual(mapping.read(), FLOATS)
        mapping.release()
        self.wait_for(lambda: reader.entries()[0].readers == ())
        with reader.map("weights", write=True) as mapping:
            self.assertEqual(list(virtual_memory.access.values()), [3])
            write(mapping, bytes(24))
        with reader.map("weights") as mapping:
            self.assertEqual(mapping.read(), bytes(24))
        reader.remove("weights")
        self.assertEqual(reader.entries(), [])
        self.assert_fails("not-found", lambda: reader.remove("weights"))
        reader.close()
        self.assertRaises(RuntimeError, reader.entries)

    def test_with_a_client_of_deno(self) -> None:
        self.start_store(self.path)
        client = self.connect()
        with client.create("of python", shape=[6], dtype="float32") as memory:
            write(memory.array, FLOATS)
            memory.publish()
        peer = self.start_peer("map", self.path, "of python")
        self.assertEqual(peer.next(), {
            "metadata": {"dtype": "float32", "shape": [6]}, "generation": 1, "byteLength": 24, "first": list(FLOATS),
            "sum": sum(FLOATS),
        })
        self.assertEqual({each.pid for each in client.entries()[0].readers}, {peer.process.pid})
        self.assertEqual(peer.end(), [])
        # Waits for the first generation.
        peer = self.start_peer("publish", self.path, "of deno", "--elements", 6)
        with client.map("of deno", timeout=support.TIMEOUT) as mapping:
            self.assertEqual((mapping.dtype, mapping.shape, mapping.read()), ("float32", (2, 3), FLOATS))
        self.assertEqual(peer.next(), {"published": 6})
        self.assertEqual(peer.end(), [])

    def test_what_is_read_only_says_so(self) -> None:
        self.start_store(self.path)
        client = self.connect()
        with client.create("x", 8) as memory:
            memory.array.write(bytes(range(8)))
            self.assertFalse(self.is_read_only(memory.array))
            memory.publish()
            self.assertTrue(self.is_read_only(memory.array))
            self.assertRaisesRegex(RuntimeError, "mapped for reading", memory.array.write, b"x")
        with client.map("x") as mapping:
            self.assertTrue(self.is_read_only(mapping.view("int32")))
            self.assertRaisesRegex(RuntimeError, "mapped for reading", mapping.view("int32").write, b"x")
            self.assertEqual(mapping.read(), bytes(range(8)))
        with client.map("x", write=True) as mapping:
            self.assertFalse(self.is_read_only(mapping))
            mapping.write(b"xy", byte_offset=3)
            self.assertEqual(mapping.read(), b"\0\1\2xy\5\6\7")

    @staticmethod
    def is_read_only(array: Any) -> bool:
        tensor = dlpack.import_capsule(array.__dlpack__(stream=0, max_version=(1, 1)))
        tensor.release()
        return tensor.is_read_only

    def test_generations(self) -> None:
        self.start_store(self.path)
        client = self.connect()
        mappings = []
        for number in (1, 2):
            with client.create("x", 8) as memory:
                write(memory.array, bytes([number] * 8))
                self.assertEqual(memory.publish(stream=0), number)
            mappings.append(client.map("x"))
        self.assertEqual([each.read()[:1] for each in mappings], [b"\1", b"\2"])
        self.assertEqual([each.generation for each in mappings], [1, 2])
        # What was not published goes with its creator.
        memory = client.create("x", 8)
        memory.close()
        self.assertRaises(RuntimeError, memory.publish)
        with client.map("x") as mapping:
            self.assertEqual(mapping.generation, 2)

    def test_create_once(self) -> None:
        self.start_store(self.path)
        first, second = self.connect(), self.connect()
        memory = first.create("x", 8, once=True)
        assert memory is not None
        self.assertIsInstance(
            self.assert_fails("timed-out", lambda: second.create("x", 8, once=True, timeout=0.1)), SharingTimeoutError
        )
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.append(second.create("x", 8, once=True)))
        waiting.start()
        memory.array.write(bytes(range(8)))
        memory.publish()
        waiting.join(support.TIMEOUT)
        self.assertEqual(found, [None])
        # Another generation is created only if the one that is there is to be replaced.
        self.assertIsNone(second.create("x", 8, once=True, replaces=2))
        with second.create("x", 8, once=True, replaces=1) as replacing:
            # If it is given up, the client that waits is next.
            waiting = threading.Thread(target=lambda: found.append(first.create("x", 8, once=True, replaces=1)))
            waiting.start()
        waiting.join(support.TIMEOUT)
        self.assertEqual(found[1].publish(), 2)
        found[1].close()
        memory.close()
        self.assertRaises(TypeError, first.create, "x", 8, replaces=1)
        self.assertRaises(TypeError, first.create, "x", 8, once=True, replaces="1")
        self.assertRaises(ValueError, first.create, "x", 8, once=True, replaces=-1)

    def test_ranks(self) -> None:
        self.start_store(self.path)
        first, second = self.connect(), self.connect()
        parts = [each.create("x", 8, rank=(rank, 2)) for rank, each in enumerate((first, second))]
        for rank, part in enumerate(parts):
            part.array.write(bytes([rank] * 8))
        # Nothing is published without the other rank, and the memory can be written again.
        self.assert_fails("timed-out", lambda: parts[0].publish(timeout=0.1))
        parts[0].array.write(b"\7")
        self.assertEqual(first.entries(), [])
        self.assert_fails("in-use", lambda: second.create("x", 8, rank=(0, 2)))
        found: list[Any] = []
        publishing = threading.Thread(target=lambda: found.append(parts[0].publish(timeout=support.TIMEOUT)))
        publishing.start()
        self.assertEqual(parts[1].publish(timeout=support.TIMEOUT), 1)
        publishing.join(support.TIMEOUT)
        self.assertEqual(found, [1])
        with second.map("x", rank=(0, 2)) as mapping:
            self.assertEqual(mapping.read(), b"\7" + bytes(7))
        self.assertEqual([(each.generation, each.rank) for each in first.entries()], [(1, (0, 2)), (1, (1, 2))])
        self.assert_fails("not-found", lambda: first.map("x"))
        self.assert_fails("not-found", lambda: first.map("x", rank=(0, 4)))
        for each in parts:
            each.close()
        # If one gives up, the other one does not publish.
        parts = [each.create("x", 8, rank=(rank, 2)) for rank, each in enumerate((first, second))]
        parts[0].close()
        self.assert_fails("peer-gone", lambda: parts[1].publish(timeout=support.TIMEOUT))
        parts[1].close()
        self.assertRaises(ValueError, first.create, "x", 8, rank=(2, 2))
        self.assertRaises(TypeError, first.create, "x", 8, rank=2)

    def test_digests_and_keep(self) -> None:
        self.start_store(self.path, "--evict", "--limit", "6MiB")
        client = self.connect()
        held = []
        for digit in ("1", "2"):
            with client.create("x", 8) as memory:
                memory.array.write(digit.encode() * 8)
                memory.publish(digest=digit * 64, keep=digit == "2")
                held.append(client.map("x"))
        self.assertEqual([each.digest for each in held], ["1" * 64, "2" * 64])
        with client.map("x", digest="1" * 8) as mapping:
            self.assertEqual((mapping.read(), mapping.generation), (b"1" * 8, 1))
        self.assertEqual(
            [(each.generation, each.digest, each.keep, each.is_replaced) for each in client.entries(replaced=True)],
            [(2, "2" * 64, True, False), (1, "1" * 64, False, True)],
        )
        error = self.assert_fails("not-found", lambda: client.map("x", digest="3" * 8))
        self.assertIn(f'the digests {"2" * 64}, {"1" * 64}', str(error))
        for each in held:
            each.release()
        self.wait_for(lambda: len(client.entries(replaced=True)) == 1)
        self.assert_fails("timed-out", lambda: client.create("y", 3 * UNIT, timeout=0.1))
        self.assertRaises(ValueError, client.map, "x", digest="1234567")
        self.assertRaises(TypeError, client.map, "x", digest=12345678)
        with client.create("y", 8) as memory:
            self.assertRaises(ValueError, memory.publish, digest="1" * 63)

    def test_metadata_of_the_publication(self) -> None:
        self.start_store(self.path)
        client = self.connect()
        with client.create("x", 8, metadata={"digest": None}) as memory:
            self.assertRaises(TypeError, memory.publish, metadata=object())
            self.assertEqual(memory.publish(metadata={"digest": "ü"}), 1)
        with client.map("x") as mapping:
            self.assertEqual(mapping.metadata, {"digest": "ü"})
        self.assertEqual([each.metadata for each in client.entries()], [{"digest": "ü"}])

    def test_tensors_of_a_bundle(self) -> None:
        self.start_store(self.path)
        client = self.connect()
        tensors = [
            {"name": "a", "dtype": "F32", "shape": [2, 3], "byteOffset": 0, "byteLength": 24},
            {"name": "b", "dtype": "BF16", "shape": [4], "byteOffset": 256, "byteLength": 8},
            {"name": "c", "dtype": "F4", "shape": [16], "byteOffset": 512, "byteLength": 8},
        ]
        with client.create("bundle", 520, metadata={"format": "safetensors", "tensors": tensors}) as memory:
            write(memory.array, FLOATS + bytes(232) + bytes(range(8)) + bytes(248) + bytes(range(8)))
            memory.publish()
        found = client.tensors("bundle")
        self.assertEqual(
            {name: (each.dtype, each.shape) for name, each in found.items()},
            {"a": ("float32", (2, 3)), "b": ("bfloat16", (4,)), "c": ("float4_e2m1fn_x2", (8,))},
        )
        self.assertEqual([each.read() for each in found.values()], [FLOATS, bytes(range(8)), bytes(range(8))])
        # The mapping of the one that created the memory is released on a thread of its own.
        self.wait_for(lambda: len(virtual_memory.access) == 1)
        found.pop("a").release()
        self.assertEqual(found["b"].read(), bytes(range(8)))
        self.assert_fails("bad-message", lambda: self.bundle_of(client, "none", {"dtype": "uint8"}))
        tensors[2]["byteOffset"] = 513
        self.assert_fails("bad-message", lambda: self.bundle_of(client, "outside", {"tensors": tensors}))

    def bundle_of(self, client: StoreClient, name: str, metadata: Any) -> Any:
        with client.create(name, 520, metadata=metadata) as memory:
            memory.publish()
        return client.tensors(name)

    def test_refusals(self) -> None:
        self.start_store(self.path, "--limit", "4MiB")
        client = self.connect()
        self.assert_fails("limit-exceeded", lambda: client.create("x", 3 * UNIT))
        self.assertIsInstance(self.assert_fails("timed-out", lambda: client.map("x", timeout=0.1)), SharingTimeoutError)
        first = client.create("first", 2 * UNIT)
        self.assert_fails("timed-out", lambda: client.create("second", 1, timeout=0.1))
        # What was given up is not made later.
        first.close()
        with client.create("third", 2 * UNIT, timeout=support.TIMEOUT) as third:
            self.assertEqual(third.array.nbytes, 2 * UNIT)
        self.assertRaises(ValueError, client.create, "", 1)
        self.assertRaises(ValueError, client.create, "x", 0)
        self.assertRaises(TypeError, client.create, "x")
        self.assertRaises(TypeError, client.create, "x", 1, metadata=object())

    def test_what_other_libraries_use_stays_mapped(self) -> None:
        self.start_store(self.path)
        client = self.connect()
        with client.create("x", shape=[6], dtype="float32") as memory:
            write(memory.array, FLOATS)
            memory.publish()
        tensor = dlpack.import_capsule(client.map("x").__dlpack__(stream=0))
        client.close()
        self.assertEqual(ctypes.string_at(tensor.address, 24), FLOATS)
        other = self.connect()
        self.assertEqual(len(other.entries()[0].readers), 1)
        tensor.release()
        self.wait_for(lambda: other.entries()[0].readers == ())

    def test_deleter_does_not_wait_for_its_stream(self) -> None:
        self.start_store(self.path)
        client = self.connect()
        with client.create("x", 8) as memory:
            memory.publish()
        stream, gate = cuda().call("cudaStreamCreateWithFlags", 1), threading.Event()
        tensor = dlpack.import_capsule(client.map("x").__dlpack__(stream=int(stream)))
        stream.add(gate.wait)
        tensor.release()
        self.assertEqual(len(client.entries()[0].readers), 1)
        # The mapping of the one that created the memory is released on a thread of its own.
        self.wait_for(lambda: len(virtual_memory.access) == 1)
        gate.set()
        self.wait_for(lambda: client.entries()[0].readers == ())

    def test_killed_store_with_a_standby(self) -> None:
        standby = self.path + ".standby"
        first = self.start_store(self.path, "--standby", standby)
        first.wait_for("Serving at")
        second = self.start_store(self.path, "--standby", standby)
        client = self.connect()
        with client.create("x", shape=[6], dtype="float32") as memory:
            write(memory.array, FLOATS)
            memory.publish()
        mapping, unpublished = client.map("x"), client.create("y", 8)
        first.wait_for("A standby has everything")
        descriptors = support.count_descriptors()
        first.kill()
        (entry,) = client.entries(timeout=support.TIMEOUT)
        self.assertEqual((entry.name, entry.generation), ("x", 1))
        self.assertEqual([each.pid for each in entry.readers], [os.getpid()])
        self.assertEqual(mapping.read(), FLOATS)
        self.assertEqual(unpublished.publish(), 1)
        unpublished.close()
        mapping.release()
        self.wait_for(lambda: all(each.readers == () for each in client.entries()))
        with client.map("x") as again:
            self.assertEqual(again.read(), FLOATS)
        self.assertLessEqual(support.count_descriptors(), descriptors)
        second.wait_for("Serving at")

    def test_store_without_a_standby(self) -> None:
        store = self.start_store(self.path)
        client = self.connect()
        with client.create("x", 8) as memory:
            memory.publish()
        mapping, lost = client.map("x"), client.create("y", 8)
        store.kill()
        # Waits for a store, which has nothing.
        waiting = threading.Thread(target=lambda: entries.append(client.entries()))
        entries: list[Any] = []
        waiting.start()
        self.start_store(self.path)
        waiting.join(support.TIMEOUT)
        self.assertEqual(entries, [[]])
        self.assertEqual(mapping.read(), bytes(8))
        self.assert_fails("peer-gone", lost.publish)
        # Numbers of the new store are no numbers of the old one.
        with client.create("z", 8) as memory:
            mapping.release()
            lost.close()
            self.assertEqual(client.entries(), [])
            self.assertEqual(memory.publish(), 1)

    def test_store_that_does_not_come_back(self) -> None:
        store = self.start_store(self.path)
        client = self.connect(reconnect_timeout=0.3)
        with client.create("x", 8) as memory:
            memory.publish()
        mapping = client.map("x")
        store.kill()
        self.assert_fails("peer-gone", client.entries)
        self.assertFalse(client.is_connected)
        self.assertEqual(mapping.read(), bytes(8))
        begin = time.monotonic()
        client.close()
        self.assertLess(time.monotonic() - begin, 5)


class ForgetfulStoreTest(StoreTest):
    def test_removal_whose_answer_was_lost(self) -> None:
        store = subprocess.Popen(
            [sys.executable, "-S", FORGETFUL_STORE, self.path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(lambda: (store.kill(), store.communicate()))
        assert store.stdout is not None
        self.assertEqual(store.stdout.readline(), '"ready"\n')
        client = self.connect()
        removing = threading.Thread(target=lambda: removed.append(client.remove("x")))
        removed: list[None] = []
        removing.start()
        self.assertEqual([store.stdout.readline() for _ in range(2)], ['"remove"\n', '"claim"\n'])
        store.send_signal(signal.SIGUSR1)
        removing.join(support.TIMEOUT)
        self.assertEqual(removed, [None])
        # Nobody else has removed anything.
        self.assert_fails("not-found", lambda: client.remove("x"))


class HostileStoreTest(StoreTest):
    """A store of this process, which says what the test wants."""

    def setUp(self) -> None:
        super().setUp()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.listener.close)
        self.listener.bind(self.path)
        self.listener.listen()

    def serve(self, *steps: Any) -> None:
        """Answers the first requests, each by a step: a document, or a function of the socket and the request."""
        def run() -> None:
            connected, _ = self.listener.accept()
            # The client may leave before it has read all answers.
            with connected, contextlib.suppress(ConnectionError):
                self.receive(connected)
                connected.sendall(m.encode(m.Welcome(m.PROTOCOL_VERSION)))
                for step in steps:
                    request = self.receive(connected).request
                    if callable(step):
                        step(connected, request)
                    else:
                        self.answer(connected, request, step)
                while connected.recv(4096):
                    pass

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.addCleanup(thread.join, support.TIMEOUT)

    @staticmethod
    def receive(connected: socket.socket) -> Any:
        header = connected.recv(m.HEADER.size, socket.MSG_WAITALL)
        layout, length = m.decode_header(header)
        return m.decode(layout, connected.recv(length, socket.MSG_WAITALL))

    @staticmethod
    def answer(connected: socket.socket, request: int, document: Any) -> None:
        for ask in asks_of(request, document):
            connected.sendall(m.encode(m.Answer(ask.request, ask.remaining, ask.part)))

    def memory(self, length: int = UNIT) -> int:
        descriptor = os.memfd_create("memory", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        self.addCleanup(os.close, descriptor)
        os.truncate(descriptor, PAGE + length)
        fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK)
        os.pwrite(descriptor, struct.pack("<Q16sIIQ", virtual_memory.MEMORY_MAGIC, UUID, 1, 0, length), 0)
        return descriptor

    def answer_with_memory(self, document: Any, length: int = UNIT) -> Any:
        descriptor = self.memory(length)

        def step(connected: socket.socket, request: int) -> None:
            socket.send_fds(connected, [m.encode(m.Memory(request))], [descriptor])
            self.answer(connected, request, document)

        return step

    def test_answers_that_break_rules(self) -> None:
        for steps, code in (
            ([{"ok": True, "id": 1, "size": UNIT}], "bad-message"),
            ([self.answer_with_memory({"ok": True})], "bad-message"),
            ([self.answer_with_memory({"ok": False, "code": "not-found", "message": "\x1b[31m"})], "not-found"),
            ([{"ok": False}], "internal-error"),
            ([lambda connected, request: connected.sendall(m.encode(m.Answer(request + 1, 0, b"{}")))], "bad-message"),
            ([lambda connected, request: connected.sendall(m.encode(m.Answer(request, 0, b"[]")))], "bad-message"),
            ([lambda connected, request: connected.sendall(m.encode(m.Answer(request, 2**32 - 1, b"{")))],
             "limit-exceeded"),
            ([lambda connected, request: connected.sendall(m.encode(m.Withdraw(1)))], "bad-message"),
        ):
            with self.subTest(code=code):
                self.serve(*steps)
                client = self.connect()
                self.assert_fails(code, lambda: client.map("x"))
                client.close()

    def test_memory_that_is_not_as_was_said(self) -> None:
        good = {"ok": True, "id": 1, "byteLength": 8, "generation": 1, "device": format_uuid(UUID)}
        for change, code in (
            ({"size": 2 * UNIT}, "size-mismatch"),
            ({"size": 4}, "bad-message"),
            ({"size": UNIT, "device": "GPU-00000000-0000-0000-0000-000000000000"}, "device-not-visible"),
            ({"size": UNIT, "device": "?"}, "device-not-visible"),
            ({"size": UNIT, "byteLength": "8"}, "bad-message"),
        ):
            with self.subTest(change=change):
                self.serve(self.answer_with_memory({**good, **change}), {"ok": True, "held": True})
                client = self.connect()
                self.assert_fails(code, lambda: client.map("x"))
                client.close()

    def test_documents(self) -> None:
        document = {"text": "ü" * 70_000}
        parts = [m.Answer(each.request, each.remaining, each.part) for each in asks_of(3, document)]
        self.assertEqual(len(parts), 3)
        documents = Documents(2**20)
        self.assertEqual([documents.add(each) for each in parts], [None, None, document])
        documents.add(parts[0])
        self.assertRaises(m.ProtocolError, documents.add, parts[2])

    def test_bundles_of_others(self) -> None:
        tensor = {"name": "a", "dtype": "F32", "shape": [2], "byteOffset": 0, "byteLength": 8}
        self.assertEqual(len(tensors_of({"tensors": [tensor]}, 8, "x")), 1)
        for change in (
            {"name": 1}, {"dtype": None}, {"shape": [-1]}, {"shape": "2"}, {"byteOffset": 4}, {"byteOffset": 1.5},
            {"byteLength": 4}, {"dtype": "F6_E2M3", "byteLength": None}, {"shape": [2**62, 2**62]},
        ):
            with self.subTest(change=change), self.assertRaises(SharingError):
                tensors_of({"tensors": [{**tensor, **change}]}, 8, "x")
        self.assertRaises(SharingError, tensors_of, {"tensors": [tensor, tensor]}, 8, "x")

    def test_element_types_of_bundles(self) -> None:
        for dtype, shape, nbytes, expected in (
            ("F4", [3, 4], 6, ("float4_e2m1fn_x2", (3, 2))),
            ("float4_e2m1fn", [2], 1, ("float4_e2m1fn_x2", (1,))),
            # Rows of half bytes.
            ("F4", [2, 3], 3, ("uint8", (3,))),
            ("F6_E2M3", [8], 6, ("uint8", (6,))),
            ("F6_E3M2", [2, 4], 6, ("uint8", (6,))),
            ("F8_E4M3FNUZ", [2], 2, ("float8_e4m3fnuz", (2,))),
            ("F8_E5M2FNUZ", [2], 2, ("float8_e5m2fnuz", (2,))),
            ("SOMETHING_NEW", [7], 3, ("uint8", (3,))),
        ):
            tensor = {"name": "a", "dtype": dtype, "shape": shape, "byteOffset": 0, "byteLength": nbytes}
            with self.subTest(dtype=dtype):
                found, = tensors_of({"tensors": [tensor]}, nbytes, "x")
                self.assertEqual((found.dtype.name, found.shape), expected)
        tensor = {"name": "a", "dtype": "F6_E2M3", "shape": [8], "byteOffset": 0, "byteLength": 8}
        self.assertRaises(SharingError, tensors_of, {"tensors": [tensor]}, 8, "x")


class ConnectTest(support.PoolpassTest):
    def test_nobody_listens(self) -> None:
        for options, code in (({}, "not-listening"), ({"wait": 0.1}, "timed-out")):
            with self.assertRaises(SharingError) as caught:
                StoreClient.connect(self.path, **options)
            self.assertEqual(caught.exception.code, code)

    def test_an_exporter_listens(self) -> None:
        from poolpass import Exporter

        with Exporter.listen(self.path, **support.PATIENCE), self.assertRaises(SharingError) as caught:
            StoreClient.connect(self.path, **support.PATIENCE)
        self.assertEqual(caught.exception.code, "bad-message")


if __name__ == "__main__":
    unittest.main()
