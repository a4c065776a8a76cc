"""Hostile peers, in processes of their own, and an honest one beside them, which is served all the same."""
from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
import unittest
from typing import Any

import support

support.use_software_device()

from poolpass import Exporter, Importer, MemoryPool, SharingError, sockets
from poolpass.sockets import Listener

# A user that has no processes.
OTHER_USER = 65_533
# Seconds in which an honest peer is served.
PROMPTLY = 2.0
HOSTILE = os.path.join(support.TESTS, "hostile_peers.py")
# Maps and reads an offer for each line that comes, and says how long that took.
HONEST = """
import sys, time
from poolpass import Importer
for path in sys.stdin:
    begin = time.monotonic()
    with Importer.connect(path.strip(), handshake_timeout=30) as importer:
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

    def listen(self, **options: Any) -> Exporter:
        """An exporter that offers "weights"."""
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
            self._honest = self.start("-c", HONEST)
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


if __name__ == "__main__":
    unittest.main()
