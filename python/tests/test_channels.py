"""Channels, in one process and between processes that are killed."""
from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest
from typing import Any

import support

support.use_software_device()

from poolpass import ChannelProducer, Exporter, Importer, MemoryPool, SharingError, dlpack
from poolpass import messages as m
from poolpass.cuda import cuda

# Joins a channel, reports each frame, and releases none.
HOLDER = """
import sys, time
from poolpass import Importer
importer = Importer.connect(sys.argv[1], wait=10)
held = []
for frame in importer.channel("frames", timeout=10):
    held.append(frame)
    print(frame.sequence, flush=True)
"""


class ChannelTest(support.PoolpassTest):
    def setUp(self) -> None:
        super().setUp()
        self.pool = MemoryPool()
        self.addCleanup(self.pool.close)
        self.ends: list[SharingError | None] = []
        self.exporter = Exporter.listen(
            self.path, close_timeout=2.0, on_disconnect=lambda peer, error: self.ends.append(error), **support.PATIENCE
        )
        self.addCleanup(self.exporter.close)

    def create(self, **options: Any) -> ChannelProducer:
        options = {"slots": 3, "slot_nbytes": 1000, **options}
        return self.exporter.create_channel("frames", self.pool, **options)

    def connect(self) -> Importer:
        importer = Importer.connect(self.path, **support.PATIENCE)
        self.addCleanup(importer.close)
        return importer

    def send(self, channel: ChannelProducer, number: int, **options: Any) -> None:
        slot = channel.reserve(timeout=support.TIMEOUT)
        tensor = dlpack.import_capsule(slot.__dlpack__(stream=0))
        fill(tensor.address, number, slot.nbytes)
        tensor.release()
        channel.send(slot, **options)

    def test_frames(self) -> None:
        channel = self.create(shape=(250,), dtype="int32", slot_nbytes=None, metadata={"camera": 2})
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        self.assertEqual((consumer.slots, consumer.slot_nbytes), (3, 1000))
        self.assertEqual(consumer.metadata, {"dtype": "int32", "shape": [250], "camera": 2})
        for number in range(1, 11):
            self.send(channel, number, metadata=number)
            with consumer.next(support.TIMEOUT) as frame:
                self.assertEqual((frame.sequence, frame.metadata), (number, number))
                self.assertEqual((frame.dtype, frame.shape), ("int32", (250,)))
                self.assertEqual(frame.read(), bytes([number]) * 1000)
        self.send(channel, 11, nbytes=8, metadata={"dtype": "float64", "shape": [1]})
        frame = consumer.next(support.TIMEOUT)
        self.assertEqual((frame.dtype, frame.shape), ("float64", (1,)))
        frame.release()
        channel.end()
        self.assertIsNone(consumer.next(support.TIMEOUT))
        self.assertIsNone(consumer.next(support.TIMEOUT))
        self.assertEqual(list(consumer), [])
        channel.close()
        self.assertRaises(RuntimeError, channel.reserve)

    def test_producer_waits_for_the_slowest(self) -> None:
        channel = self.create()
        first, second = (self.connect().channel("frames", timeout=support.TIMEOUT) for _ in range(2))
        self.wait_for(lambda: len(channel.consumers) == 2)
        for number in range(3):
            self.send(channel, number)
            first.next(support.TIMEOUT).release()
        with self.assertRaises(SharingError) as caught:
            channel.reserve(timeout=0.05)
        self.assertEqual(caught.exception.code, "timed-out")
        self.assertIn(f"process {os.getpid()} has not released frames 1, 2, 3", str(caught.exception))
        second.next(support.TIMEOUT).release()
        self.send(channel, 4)
        self.assertEqual(channel.sent, 4)

    def test_producer_waits_for_consumers(self) -> None:
        channel = self.create()
        with self.assertRaisesRegex(SharingError, "0 importers have joined, and it waits for 1"):
            channel.reserve(timeout=0.01)

    def test_slots_that_are_not_sent(self) -> None:
        channel = self.create(minimum_consumers=0)
        self.wait_for(lambda: channel.free_slots == 3)
        with channel.reserve() as slot:
            self.assertEqual(channel.free_slots, 2)
        self.assertRaises(RuntimeError, channel.send, slot)
        self.wait_for(lambda: channel.free_slots == 3)
        other = self.exporter.create_channel("other", self.pool, slots=1, slot_nbytes=1, minimum_consumers=0)
        self.assertRaises(TypeError, channel.send, other.reserve(timeout=support.TIMEOUT))
        slot = channel.reserve()
        self.assertRaises(ValueError, channel.send, slot, nbytes=1001)

    def test_frame_waits_for_the_consumers_stream(self) -> None:
        channel = self.create(slots=1)
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        gate = threading.Event()
        self.send(channel, 1)
        tensor = dlpack.import_capsule(consumer.next(support.TIMEOUT).__dlpack__(stream=int(stream)))
        stream.add(gate.wait)
        gc.collect()
        tensor.release()
        self.assertRaises(SharingError, channel.reserve, timeout=0.1)
        gate.set()
        self.send(channel, 2)
        consumer.next(support.TIMEOUT).release()

    def test_frame_that_is_still_written(self) -> None:
        channel = self.create()
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        gate = threading.Event()
        stream.add(gate.wait)
        slot = channel.reserve(timeout=support.TIMEOUT)
        channel.send(slot, stream=stream)
        with self.assertRaisesRegex(SharingError, "the exporter still writes"):
            consumer.next(timeout=0.1)
        gate.set()
        self.assertEqual(consumer.next(support.TIMEOUT).sequence, 1)

    def test_frame_that_a_view_of_its_slot_still_writes(self) -> None:
        channel = self.create()
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        stream = cuda().call("cudaStreamCreateWithFlags", 1)
        gate = threading.Event()
        slot = channel.reserve(timeout=support.TIMEOUT)
        tensor = dlpack.import_capsule(slot.view("int32").view(shape=(2, 125)).__dlpack__(stream=int(stream)))
        stream.add(gate.wait)
        channel.send(slot)
        tensor.release()
        with self.assertRaisesRegex(SharingError, "the exporter still writes"):
            consumer.next(timeout=0.1)
        gate.set()
        self.assertEqual(consumer.next(support.TIMEOUT).sequence, 1)

    def test_slots_are_written_from_the_host(self) -> None:
        channel = self.create()
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        slot = channel.reserve(timeout=support.TIMEOUT)
        slot.write(b"x" * 996)
        slot.view("int32").write(b"last", byte_offset=996)
        self.assertRaises(ValueError, slot.write, b"more", byte_offset=997)
        channel.send(slot)
        self.assertRaises(RuntimeError, slot.write, b"x")
        with consumer.next(support.TIMEOUT) as frame:
            self.assertEqual(frame.read(), b"x" * 996 + b"last")

    def test_frames_are_dropped(self) -> None:
        channel = self.create(overflow="drop-oldest", slots=4, window=1)
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        self.wait_for(lambda: channel.consumers)
        for number in range(1, 21):
            self.send(channel, number)
        seen = []
        while len(seen) < 4:
            with consumer.next(support.TIMEOUT) as frame:
                seen.append(frame.sequence)
        self.assertEqual(seen, [1, 18, 19, 20])
        self.assertEqual(channel.dropped, 16)

    def test_importers_that_release_nothing_leave_slots(self) -> None:
        channel = self.create(overflow="drop-oldest", slots=4, window=4, hold_timeout=60)
        hoarder, honest = (self.connect().channel("frames", timeout=support.TIMEOUT) for _ in range(2))
        self.wait_for(lambda: len(channel.consumers) == 2)
        got = []
        for number in range(1, 31):
            self.send(channel, number)
            frame = honest.next(support.TIMEOUT)
            got.append(frame.sequence)
            frame.release()
        self.assertGreater(got[-1], 25)
        self.assertLessEqual(len(hoarder._coming), 2)

    def test_hold_timeout_cuts_off(self) -> None:
        channel = self.create(overflow="drop-oldest", hold_timeout=0.1)
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        self.wait_for(lambda: channel.consumers)
        self.send(channel, 1)
        frame = consumer.next(support.TIMEOUT)
        with self.assertRaises(SharingError) as caught:
            consumer.next(support.TIMEOUT)
        self.assertEqual(caught.exception.code, "cut-off")
        frame.release()
        self.end_own_connections()

    def test_closing_a_consumer_with_frames(self) -> None:
        channel = self.create()
        consumer = self.connect().channel("frames", timeout=support.TIMEOUT)
        for number in range(3):
            self.send(channel, number)
        tensor = dlpack.import_capsule(consumer.next(support.TIMEOUT).__dlpack__(stream=0))
        consumer.next(support.TIMEOUT)
        consumer.close()
        self.assertRaises(RuntimeError, consumer.next)
        # The frame that a tensor uses keeps the ring, and its slot.
        self.wait_for(lambda: channel.free_slots == 2)
        self.assertEqual(len(self.exporter.leases), 1)
        tensor.release()
        self.wait_for(lambda: channel.free_slots == 3 and self.exporter.leases == [])

    def test_wrong_channels(self) -> None:
        for options in (
            {"slots": 0}, {"slots": 1025}, {"window": 2}, {"overflow": "drop"}, {"slot_nbytes": 0},
            {"shape": (3,), "dtype": "float32"}, {"overflow": "drop-oldest", "window": 4},
            {"minimum_consumers": -1}, {"hold_timeout": -1},
        ):
            with self.subTest(options=options), self.assertRaises(ValueError):
                self.create(**options)
        self.assertRaises(TypeError, self.create, slot_nbytes=None)
        self.create()
        self.assertRaises(ValueError, self.create)
        self.exporter.offer("buffer", self.pool.allocate(4))
        with self.assertRaises(SharingError):
            self.connect().channel("buffer", timeout=support.TIMEOUT)

    def test_frames_that_break_a_rule(self) -> None:
        self.create()
        for frame in (
            m.Frame(1, 7, 1, 4, False, ""), m.Frame(1, 0, 1, 1001, False, ""), m.Frame(9, 0, 1, 1, False, ""),
        ):
            with self.subTest(frame=frame):
                importer = self.connect()
                consumer = importer.channel("frames", timeout=support.TIMEOUT)
                [sender] = [each for each in self.exporter._importers if each.is_connected]
                with self.exporter.loop.lock:
                    sender.send(frame)
                if frame.offer == 9:
                    # An offer that is not known any more: it may cross a release.
                    self.assertRaises(TimeoutError, consumer.next, timeout=0.1)
                    importer.close()
                    continue
                with self.assertRaises(SharingError) as caught:
                    consumer.next(support.TIMEOUT)
                self.assertEqual(caught.exception.code, "bad-message")
                consumer.close()
        self.end_own_connections()

    def test_consumer_that_leaves_before_its_frame_is_read(self) -> None:
        """Once it says that it has nothing mapped, the exporter does not look at its events any more."""
        channel = self.create(slots=1)
        offer = self.exporter.offers[0]._record.number
        honest = self.connect().channel("frames", timeout=support.TIMEOUT)
        with socket.socket(socket.AF_UNIX) as leaver:
            leaver.connect(self.path)
            leaver.send(b"".join(map(m.encode, (m.Hello(1, 1), m.Held(offer), m.Join(offer)))))
            self.wait_for(lambda: len(channel.consumers) == 2)
            self.send(channel, 1)
            # An event that no process but its own can open: the exporter asks when it has fired, and hears nothing.
            leaver.send(b"".join(map(m.encode, (
                m.Event(7, cuda().uuids[0], bytes(64)), m.ReleaseSlot(offer, 0, 1, 7), m.Goodbye("done", 1, 1, ""),
            ))))
            self.wait_for(lambda: len(self.ends) == 1)
        honest.next(support.TIMEOUT).release()
        self.send(channel, 2)
        self.assertEqual(honest.next(support.TIMEOUT).sequence, 2)
        self.assertEqual(self.ends, [None])

    def test_killed_consumers(self) -> None:
        channel = self.create(minimum_consumers=1)
        for round in range(3):
            holder = subprocess.Popen(
                [sys.executable, "-c", HOLDER, self.path], env=support.ENVIRONMENT, stdout=subprocess.PIPE, text=True
            )
            assert holder.stdout is not None
            for number in range(3):
                self.send(channel, number)
            for number in range(3):
                self.assertEqual(int(holder.stdout.readline()), 3 * round + number + 1)
            self.assertRaises(TimeoutError, channel.reserve, timeout=0.05)
            holder.send_signal(signal.SIGKILL)
            self.wait_for(lambda: channel.free_slots == 3)
            holder.wait()
            holder.stdout.close()
            self.wait_for(lambda: self.exporter.leases == [] and len(self.exporter._importers) == 0)

    def end_own_connections(self) -> None:
        """Lets the exporter believe that this process has ended, which holds quarantined leases."""
        for importer in list(self.exporter._importers):
            self.wait_for(lambda: not importer.is_connected)
        with self.exporter.loop.lock:
            for importer in list(self.exporter._importers):
                importer.process_ended()
            self.exporter.loop.wake()


def fill(address: int, byte: int, length: int) -> None:
    import ctypes

    ctypes.memset(address, byte, length)


if __name__ == "__main__":
    unittest.main()
