"""Hostile peers, in processes of their own, and an honest one beside them, which is served all the same."""
from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import unittest
from typing import Any
from unittest import mock

import support

support.use_software_device()

from poolpass import CudaError, Exporter, Importer, MemoryPool, SharingError, StoreClient
from poolpass import importer_connection, metadata_budget, sockets
from poolpass import exporter as exporter_module
from poolpass import messages as m
from poolpass.cuda import cuda
from poolpass.errors import escape_controls
from poolpass.event_waits import MAXIMUM_AFTER_END
from poolpass.events import RemoteEvents
from poolpass.sockets import Listener, connect

# A user that has no processes.
OTHER_USER = 65_533
# Seconds in which an honest peer is served.
PROMPTLY = 2.0
HOSTILE = os.path.join(support.TESTS, "hostile_peers.py")
# Maps and reads an offer for each line that comes, and says how long that took.
HONEST = """
import os, sys, time
from poolpass import Importer
from poolpass.cuda import cuda
from poolpass.errors import escape_controls
cuda()
if len(sys.argv) > 1:
    os.setresgid(*[int(sys.argv[1])] * 3)
    os.setresuid(*[int(sys.argv[1])] * 3)
for path in sys.stdin:
    begin = time.monotonic()
    with Importer.connect(path.strip(), handshake_timeout=30, users=[0]) as importer:
        assert importer.offer("weights", timeout=30).map(timeout=30).read() == b"weights!"
    print(time.monotonic() - begin, flush=True)
"""


class HostileTest(support.PoolpassTest):
    def setUp(self) -> None:
        super().setUp()
        self.pool = MemoryPool()
        self.addCleanup(self.pool.close)
        self.ends: list[SharingError | None] = []
        self._honest: subprocess.Popen[str] | None = None
        # The user that the honest process runs as, if it is another one.
        self.honest_user: list[int] = []

    def listen(self, **options: Any) -> Exporter:
        """An exporter that offers "weights", and an honest process."""
        exporter = Exporter.listen(
            self.path, on_disconnect=lambda peer, error: self.ends.append(error), close_timeout=0.0,
            **{**support.PATIENCE, **options},
        )
        self.addCleanup(exporter.close)
        buffer = self.pool.allocate(8)
        buffer.write(b"weights!")
        exporter.offer("weights", buffer)
        self.serve_honest()
        return exporter

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Starts a program, which ends with the test."""
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=support.ENVIRONMENT,
        )
        self.addCleanup(self.end, process)
        return process

    def start_hostile(self, *arguments: object) -> subprocess.Popen[str]:
        process = self.start(HOSTILE, *arguments)
        self.assertEqual(next_line(process), "ready")
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()

    def serve_honest(self) -> None:
        """Lets an honest process connect, map and read."""
        if self._honest is None:
            self._honest = self.start("-c", HONEST, *self.honest_user)
        assert self._honest.stdin is not None
        print(self.path, file=self._honest.stdin, flush=True)
        self.assertLess(float(next_line(self._honest)), PROMPTLY)

    def assert_prompt(self, begin: float) -> None:
        self.assertLess(time.monotonic() - begin, PROMPTLY)


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


class DescriptorsTest(HostileTest):
    def test_descriptors_that_one_read_has_no_room_for(self) -> None:
        self.listen()
        for count in (18, 253):
            path = f"{self.path}-{count}"
            hostile = self.start_hostile("descriptors", path, count)
            begin = time.monotonic()
            with self.assertRaises(SharingError) as caught, Importer.connect(path, close_timeout=0.0) as importer:
                importer.offer("never", timeout=support.TIMEOUT)
            self.assertIn("More descriptors came", str(caught.exception))
            self.assert_prompt(begin)
            self.serve_honest()
            self.end(hostile)

    def test_descriptors_for_an_exporter(self) -> None:
        self.listen()
        hostile = self.start(HOSTILE, "descriptors-to-exporter", self.path)
        results = {next_line(hostile), next_line(hostile)}
        # Linux 6.16 and newer refuse to send them.
        self.assertIn(results, ({"sent"}, {"refused"}))
        self.assertEqual(next_line(hostile), "ready")
        self.serve_honest()


@unittest.skipIf(os.geteuid() != 0, "it takes root to become another user")
class FolderTest(HostileTest):
    """A user replaces the socket with a link to a file that only this user may read."""

    def setUp(self) -> None:
        super().setUp()
        self.private = os.path.dirname(self.path)
        os.chmod(self.private, 0o755)
        self.secret = os.path.join(self.private, "secret")
        with open(self.secret, "w"):
            os.chmod(self.secret, 0o600)
        self.folder = os.path.join(self.private, "shared")
        os.mkdir(self.folder)

    def test_folder_of_others_is_refused(self) -> None:
        os.chmod(self.folder, 0o777)
        hostile = self.start_hostile("swap", os.path.join(self.folder, "sock"), self.secret, OTHER_USER)
        for _ in range(200):
            with self.assertRaisesRegex(SharingError, "lets other users put another socket there") as caught:
                Exporter.listen(os.path.join(self.folder, "sock"), users=[OTHER_USER])
            self.assertEqual(caught.exception.code, "not-permitted")
        self.assertEqual(os.stat(self.secret).st_mode & 0o777, 0o600)
        self.assertIsNone(hostile.poll())
        self.listen()

    def test_mode_is_set_of_the_socket_alone(self) -> None:
        # Where the folder is sticky, another user can only take the path first.
        os.chmod(self.folder, 0o1777)
        path = os.path.join(self.folder, "sock")
        self.start_hostile("swap", path, self.secret, OTHER_USER)
        self.listen()
        listened = 0
        for _ in range(200):
            try:
                listener = Listener(path, {OTHER_USER})
            except SharingError as error:
                self.assertEqual(error.code, "address-in-use")
                os.unlink(path)
                continue
            status = os.lstat(path)
            self.assertTrue(stat.S_ISSOCK(status.st_mode))
            self.assertEqual((status.st_mode & 0o777, status.st_uid), (0o666, 0))
            listener.close()
            listened += 1
        self.assertGreater(listened, 0)
        self.assertEqual(os.stat(self.secret).st_mode & 0o777, 0o600)
        self.serve_honest()

    def test_modes_do_not_follow_links(self) -> None:
        # As if the folder had not been judged.
        os.chmod(self.folder, 0o777)
        path = os.path.join(self.folder, "sock")
        self.start_hostile("swap", path, self.secret, OTHER_USER)
        for _ in range(1000):
            try:
                listener, _ = sockets._listen(path, 0o666)
            except (SharingError, OSError):
                pass
            else:
                listener.close()
            for name in os.listdir(self.folder):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))
        self.assertEqual(os.stat(self.secret).st_mode & 0o777, 0o600)


class PlacesTest(HostileTest):
    def test_process_that_connects_again_and_again(self) -> None:
        with mock.patch.object(exporter_module, "MAXIMUM_LINGERING", 32):
            exporter = self.listen()
            hostile = self.start_hostile("reconnect", self.path, 100, "weights")
            self.wait_for(lambda: len(self.ends) >= 101)
            self.serve_honest()
            self.assertLessEqual(len(exporter.leases), 17)
            self.assertEqual({each.state for each in exporter.leases}, {"quarantined"})
            self.end(hostile)
            self.wait_for(lambda: exporter.leases == [])
            self.wait_for(lambda: exporter._importers == {})

    def test_process_that_joins_a_channel_again_and_again(self) -> None:
        exporter = self.listen()
        channel = exporter.create_channel("frames", self.pool, slots=64, slot_nbytes=4, overflow="drop-oldest")
        self.addCleanup(channel.close)
        stop = threading.Event()
        sender = threading.Thread(target=self.send_frames, args=(channel, stop))
        sender.start()
        self.addCleanup(sender.join)
        self.addCleanup(stop.set)
        hostile = self.start_hostile("reconnect", self.path, 40, "frames")
        self.serve_honest()
        self.assertLessEqual(len(exporter._importers), 17)
        stop.set()
        sender.join()
        self.end(hostile)
        self.wait_for(lambda: exporter._importers == {} and channel.free_slots == 64 and channel.frames.are_done)
        self.assertEqual((channel.frames._budget.held, channel.frames._budget.kept), (0, 0))

    def send_frames(self, channel: Any, stop: threading.Event) -> None:
        while not stop.wait(0.005):
            try:
                channel.send(channel.reserve(timeout=0.01))
            except SharingError:
                pass

    def test_processes_that_end_before_they_are_accepted(self) -> None:
        exporter = self.listen()
        with exporter.loop.lock:
            for _ in range(3):
                subprocess.run([sys.executable, HOSTILE, "greet", self.path], check=True)
        self.wait_for(lambda: len(self.ends) == 4)
        self.wait_for(lambda: exporter._importers == {})
        self.serve_honest()

    @unittest.skipIf(os.geteuid() != 0, "it takes root to become another user")
    def test_user_whose_processes_keep_memory(self) -> None:
        os.chmod(os.path.dirname(self.path), 0o755)
        self.honest_user = [OTHER_USER]
        with mock.patch.object(exporter_module, "MAXIMUM_LINGERING", 4):
            exporter = self.listen(users=[OTHER_USER])
            hostile = self.start(os.path.join(support.ATTACKS, "lingering_importers.py"), self.path, 2)
            self.assertEqual(next_line(hostile), "closed")
            self.wait_for(lambda: len(self.ends) == 3)
            with self.assertRaisesRegex(SharingError, "2 ended connections of one user whose processes hold memory"):
                Importer.connect(self.path)
            self.serve_honest()
            self.end(hostile)
            self.wait_for(lambda: exporter.leases == [])
            Importer.connect(self.path).close()


class LoadTest(HostileTest):
    """Importers that send what they may, and too much of it."""

    def test_importers_that_send_without_a_pause(self) -> None:
        exporter = self.listen()
        hostile = self.start_hostile("flood", self.path, 24)
        self.serve_honest()
        begin = time.monotonic()
        exporter.offer("more", self.pool.allocate(4))
        self.assert_prompt(begin)
        self.end(hostile)
        self.wait_for(lambda: exporter._importers == {})
        self.assertEqual(exporter.leases, [])

    def start_hoarders(self, connections: int, events: int) -> subprocess.Popen[str]:
        uuid = cuda().uuids[0].hex()
        return self.start(
            os.path.join(support.ATTACKS, "event_hoarders.py"), self.path, "weights", uuid, connections, events
        )

    def test_events_that_never_fire(self) -> None:
        before = count_events()
        with mock.patch.object(exporter_module, "MAXIMUM_OPENED_EVENTS", 100):
            exporter = self.listen()
        hostile = self.start_hoarders(8, 1000)
        self.assertEqual(next_line(hostile), "lent 8000")
        self.wait_for(lambda: sum(each.events for each in exporter._importers) == 8000)
        self.serve_honest()
        # The pauses grow: from then on, this process is idle most of the time.
        self.wait_for(lambda: busy_share(0.2) < 0.3)
        self.serve_honest()
        self.assertLessEqual(count_events() - before, 100)
        hostile.send_signal(signal.SIGUSR1)
        self.assertRegex(next_line(hostile), "^closed")
        self.wait_for(lambda: not any(each.is_connected for each in exporter._importers))
        self.wait_for(lambda: sum(each.events for each in exporter._importers) <= 8 * MAXIMUM_AFTER_END)
        self.end(hostile)
        self.wait_for(lambda: exporter._importers == {})
        self.assertEqual((count_events(), exporter.poll_budget.prompt, exporter.poll_budget.waiting), (before, 0, 0))

    def test_too_many_events_in_all(self) -> None:
        with mock.patch.object(exporter_module, "MAXIMUM_EVENTS", 1000):
            exporter = self.listen()
            modest = self.start_hoarders(1, 100)
            self.assertEqual(next_line(modest), "lent 100")
            self.start_hoarders(3, 500)
            self.wait_for(lambda: [each.code for each in self.ends if each] == ["limit-exceeded"])
            self.assertIn("this process has most", str(self.ends[-1]))
            self.serve_honest()
            self.assertIn(modest.pid, [each.pid for each in exporter.importers])

    def test_event_whose_query_fails(self) -> None:
        exporter = self.listen()
        error = CudaError("no", code="cudaErrorInvalidValue", number=1, call="cudaEventQuery")
        fails = mock.patch.object(RemoteEvents, "has_fired", side_effect=error)
        with fails:
            hostile = self.start_hoarders(1, 3)
            self.assertEqual(next_line(hostile), "lent 3")
            self.wait_for(lambda: [each.state for each in exporter.leases] == ["releasing"])
        self.serve_honest()
        self.assertIsNone(exporter.failure)
        self.assertEqual([each.state for each in exporter.leases], ["releasing"])
        self.end(hostile)
        self.wait_for(lambda: exporter.leases == [])

    def test_message_that_finds_a_mistake(self) -> None:
        exporter = self.listen()
        with mock.patch.object(importer_connection.ImporterConnection, "_on_held", side_effect=KeyError("mistake")):
            with self.assertLogs("poolpass", "ERROR"):
                self.start_hostile("flood", self.path, 1)
                self.wait_for(lambda: any(self.ends))
        self.assertIsNone(exporter.failure)
        self.assertEqual([each.code for each in self.ends if each], ["internal-error"])
        self.serve_honest()

    def test_event_that_finds_a_mistake(self) -> None:
        exporter = self.listen()
        with mock.patch.object(RemoteEvents, "has_fired", side_effect=KeyError("mistake")):
            with self.assertLogs("poolpass", "ERROR"):
                hostile = self.start_hoarders(1, 3)
                self.wait_for(lambda: any(self.ends))
        self.assertIsNone(exporter.failure)
        self.assertEqual([each.code for each in self.ends if each], ["internal-error"])
        # Only the end of the process says now that it reads nothing any more.
        self.assertEqual([each.state for each in exporter.leases], ["quarantined"])
        self.serve_honest()
        self.end(hostile)
        self.wait_for(lambda: exporter.leases == [])

    def test_connections_leave_descriptors_to_the_application(self) -> None:
        exporter = self.listen()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        limit = support.lowest_descriptor() + 64
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        silent = self.start(os.path.join(support.ATTACKS, "silent_importers.py"), self.path, 64, "once")
        self.assertEqual(next_line(silent), "filled")
        self.serve_honest()
        self.wait_for(lambda: any(each is not None and each.code == "limit-exceeded" for each in self.ends))
        files = [os.open("/dev/null", os.O_RDONLY) for _ in range(limit // 8 - 2)]
        for each in files:
            os.close(each)
        self.end(silent)
        crowd = self.start(os.path.join(support.ATTACKS, "crowding_importers.py"), self.path, 64)
        self.assertGreater(int(next_line(crowd)), 8)
        self.assertEqual(next_line(crowd), "8 The exporter has too many descriptors open")
        self.end(crowd)
        self.wait_for(lambda: exporter._importers == {})
        self.serve_honest()


class HostileExporterTest(HostileTest):
    def connect(self, path: str) -> Importer:
        importer = Importer.connect(path, close_timeout=0.0, **support.PATIENCE)
        self.addCleanup(importer.close)
        return importer

    def error_of(self, path: str) -> SharingError:
        """The error that ends the connection."""
        with self.assertRaises(SharingError) as caught:
            self.connect(path).offer("never", timeout=support.TIMEOUT)
        return caught.exception

    def test_metadata_that_grows_when_it_is_decoded(self) -> None:
        self.listen()
        path = f"{self.path}-metadata"
        self.start_hostile("metadata", path, 256, 32_768)
        before = memory_used()
        importer = self.connect(path)
        self.wait_for(lambda: len(importer.offers()) == 256)
        # As values, these 8 MiB take 190.
        self.assertLess(memory_used() - before, 64 * 2**20)
        self.assertEqual(importer.offers()[255].metadata, [{}] * 10_922)
        self.serve_honest()

    def test_metadata_of_all_exporters(self) -> None:
        self.listen()
        paths = [f"{self.path}-{number}" for number in range(3)]
        for path in paths:
            self.start_hostile("metadata", path, 24, 32_768)
        with mock.patch.object(metadata_budget, "MAXIMUM_IN_ALL", 2**20):
            first = self.connect(paths[0])
            self.wait_for(lambda: len(first.offers()) == 24)
            error = self.error_of(paths[1])
            self.assertEqual(error.code, "limit-exceeded")
            self.assertIn("the limit is 1048576 bytes of names and metadata of the offers of all", str(error).lower())
            first.close()
            third = self.connect(paths[2])
            self.wait_for(lambda: len(third.offers()) == 24)
            third.close()
            self.wait_for(lambda: metadata_budget._in_all == 0)
        self.serve_honest()

    def test_slots_of_all_channels(self) -> None:
        path = f"{self.path}-slots"
        self.start_hostile("slots", path, 1024)
        error = self.error_of(path)
        self.assertEqual(error.code, "limit-exceeded")
        self.assertIn("65536 slots of all channels", str(error))

    def test_control_characters_reach_no_terminal(self) -> None:
        path = f"{self.path}-painting"
        painting = self.start(os.path.join(support.ATTACKS, "painting_exporter.py"), path)
        self.assertEqual(next_line(painting), "ready")
        importer = self.connect(path)
        offer = next(iter(importer))
        with self.assertRaises(SharingError) as caught:
            offer.map()
        self.assertIn("\x1b", offer.name)
        for text in (repr(offer), str(caught.exception), repr(importer)):
            self.assertEqual(text, escape_controls(text))

    def test_listener_that_accepts_nothing(self) -> None:
        path = f"{self.path}-stopped"
        stopped = self.start(os.path.join(support.ATTACKS, "stopped_listener.py"), path)
        self.assertEqual(next_line(stopped), "full")
        for connect in (Importer.connect, StoreClient.connect):
            begin = time.monotonic()
            with self.assertRaises(SharingError) as caught:
                connect(path, handshake_timeout=0.2)
            self.assertEqual(caught.exception.code, "timed-out")
            self.assertGreaterEqual(time.monotonic() - begin, 0.2)
            self.assert_prompt(begin)

    def test_listener_that_is_busy(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
            listener.bind(self.path)
            listener.listen(0)
            first.connect(self.path)
            threading.Timer(0.1, lambda: listener.accept()[0].close()).start()
            connect(self.path, None, support.TIMEOUT).close()


def memory_used() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def count_events() -> int:
    """The memory files of events of other processes that this one has open."""
    return sum("poolpass-hostile" in each for each in support.opened())


def busy_share(seconds: float) -> float:
    """The share of the processor's time that this process takes meanwhile."""
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / seconds


if __name__ == "__main__":
    unittest.main()
