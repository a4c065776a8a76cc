"""How messages and descriptors come over a socket, and what a connection refuses."""
from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import support

support.use_software_device()

from poolpass import messages as m
from poolpass.connection import Connection
from poolpass.descriptors import F_GET_SEALS, discard, may_be_pool
from poolpass.errors import SharingError
from poolpass.sockets import Listener, check_path, connect
from poolpass.users import check_users, is_allowed

F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2
POOL = m.Pool(1, "device", bytes(range(16)))


def sealed_memory(nbytes: int = 65_536) -> int:
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(descriptor, nbytes)
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK)
    return descriptor


class ConnectionTest(support.PoolpassTest):
    def setUp(self) -> None:
        super().setUp()
        own, self.peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection = Connection(own, message_timeout=0.05)
        self.addCleanup(self.peer.close)
        self.addCleanup(self.connection.process.close)
        self.addCleanup(self.connection.close)

    def receive(self) -> list[m.Message]:
        messages = []
        for message, descriptor in self.connection.receive():
            messages.append(message)
            if descriptor is not None:
                discard(descriptor)
        return messages

    def test_large_files_are_closed_on_another_thread(self) -> None:
        for nbytes, is_own in ((65_536, True), (2**25, False)):
            threads: list[threading.Thread] = []
            close = os.close

            def closing(descriptor: int) -> None:
                threads.append(threading.current_thread())
                close(descriptor)

            with mock.patch.object(os, "close", closing):
                discard(sealed_memory(nbytes))
                self.wait_for(lambda: threads)
            self.assertEqual(threads[0] is threading.current_thread(), is_own)

    def test_messages_that_are_joined_or_split_anywhere(self) -> None:
        sent = [m.Welcome(1), m.Withdraw(7), m.Frame(1, 2, 3, 4, True, '{"a":1}')]
        data = b"".join(map(m.encode, sent))
        for cut in range(len(data)):
            self.peer.send(data[:cut])
            received = self.receive()
            self.peer.send(data[cut:])
            self.assertEqual(received + self.receive(), sent)

    def test_descriptor_comes_with_its_message(self) -> None:
        descriptor = sealed_memory()
        self.addCleanup(os.close, descriptor)
        self.peer.send(m.encode(m.Withdraw(7)))
        socket.send_fds(self.peer, [m.encode(POOL)[:10]], [descriptor])
        self.assertEqual(self.receive(), [m.Withdraw(7)])
        self.peer.send(m.encode(POOL)[10:])
        [(message, received)] = self.connection.receive()
        self.assertEqual(message, POOL)
        assert received is not None
        self.assertTrue(fcntl.fcntl(received, F_GET_SEALS) & F_SEAL_SHRINK)
        os.close(received)

    def test_sent_descriptor(self) -> None:
        descriptor = sealed_memory()
        self.connection.send(POOL, descriptor)
        os.close(descriptor)
        data, [received], _, _ = socket.recv_fds(self.peer, 100, 2)
        self.assertEqual(data, m.encode(POOL))
        os.close(received)
        self.assertRaises(ValueError, self.connection.send, POOL)

    def test_pool_without_a_descriptor(self) -> None:
        self.peer.send(m.encode(POOL))
        self.assertRaisesRegex(m.ProtocolError, "POOL has no descriptor", self.receive)

    def test_descriptor_with_another_message(self) -> None:
        descriptor = sealed_memory()
        self.addCleanup(os.close, descriptor)
        socket.send_fds(self.peer, [m.encode(m.Withdraw(7))], [descriptor])
        self.assertRaisesRegex(m.ProtocolError, "without its message", self.receive)
        self.connection.close()

    def test_two_descriptors(self) -> None:
        descriptor = sealed_memory()
        self.addCleanup(os.close, descriptor)
        socket.send_fds(self.peer, [m.encode(POOL)], [descriptor, descriptor])
        self.assertRaises(m.ProtocolError, self.receive)
        self.connection.close()

    def test_descriptors_that_are_no_pools(self) -> None:
        with open("/dev/null") as null, socket.socket() as tcp:
            unsealed = os.memfd_create("test")
            read_end, write_end = os.pipe()
            for descriptor in (null.fileno(), tcp.fileno(), unsealed, read_end):
                self.assertFalse(may_be_pool(descriptor))
            socket.send_fds(self.peer, [m.encode(POOL)], [null.fileno()])
            self.assertRaisesRegex(m.ProtocolError, "neither memory that cannot shrink", self.receive)
            for each in (unsealed, read_end, write_end):
                os.close(each)

    def test_lingering_socket_is_closed_on_another_thread(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 6))
        client.setblocking(False)
        try:
            while True:
                client.send(bytes(2**20))
        except BlockingIOError:
            pass
        begin = time.monotonic()
        discard(client.detach())
        self.assertLess(time.monotonic() - begin, 1)
        self.wait_for(lambda: support.threads_of_poolpass() == 0)
        self.assertLess(time.monotonic() - begin, 3)
        accepted.close()
        listener.close()

    def test_length_of_4_gib_is_refused_at_once(self) -> None:
        self.peer.send(m.HEADER.pack(0xFFFF_FFFF, 19, 0))
        self.assertRaisesRegex(m.ProtocolError, "OFFER has a body of 4294967295 bytes", self.receive)

    def test_slow_message(self) -> None:
        self.peer.send(m.encode(m.Withdraw(7))[:9])
        self.assertEqual(self.receive(), [])
        self.connection.check_deadline(time.monotonic())
        with self.assertRaises(SharingError) as caught:
            self.connection.check_deadline(time.monotonic() + 0.1)
        self.assertEqual(caught.exception.code, "timed-out")

    def test_end_of_file(self) -> None:
        self.peer.send(m.encode(m.Withdraw(7)))
        self.peer.close()
        received = self.connection.receive()
        self.assertEqual(next(received)[0], m.Withdraw(7))
        with self.assertRaises(SharingError) as caught:
            next(received)
        self.assertEqual(caught.exception.code, "peer-gone")

    def test_queue_of_a_peer_that_does_not_read(self) -> None:
        message = m.Goodbye("done", 1, 1, "x" * 1024)
        while not self.connection.is_backlogged:
            self.connection.send(message)
        self.assertTrue(self.connection.wants_to_write)
        received = b""
        while self.connection.wants_to_write:
            received += self.peer.recv(2**20)
            self.connection.flush()
        self.peer.setblocking(False)
        try:
            while data := self.peer.recv(2**20):
                received += data
        except BlockingIOError:
            pass
        self.assertEqual(received, m.encode(message) * (len(received) // len(m.encode(message))))
        self.assertFalse(self.connection.is_backlogged)

    def test_peer_that_sends_without_a_pause(self) -> None:
        self.peer.send(m.encode(m.Withdraw(7)) * 1000)
        counts = [len(self.receive())]
        while self.connection.has_more:
            counts.append(len(self.receive()))
        self.assertEqual(counts, [128] * 7 + [104])
        self.peer.send(m.encode(m.Withdraw(7)) * 1000)
        self.assertEqual(len(list(self.connection.receive_rest())), 1000)

    def test_short_messages_that_wait_are_joined(self) -> None:
        while not self.connection.wants_to_write:
            self.connection.send(m.Withdraw(7))
        queued = self.connection.outgoing_length
        for _ in range(5000):
            self.connection.send(m.Withdraw(7))
        self.assertEqual(self.connection.outgoing_length, queued + 5000 * 12)
        self.assertLess(len(self.connection._outgoing), 8)
        descriptor = sealed_memory()
        self.connection.send(POOL, descriptor)
        self.connection.send(m.Withdraw(8))
        os.close(descriptor)
        received, descriptors = b"", []
        self.peer.setblocking(False)
        while True:
            self.connection.flush()
            try:
                data, more, _, _ = socket.recv_fds(self.peer, 65_536, 2)
            except BlockingIOError:
                break
            received += data
            descriptors += more
        self.assertTrue(received.endswith(m.encode(m.Withdraw(7)) + m.encode(POOL) + m.encode(m.Withdraw(8))))
        self.assertEqual((len(descriptors), self.connection.outgoing_length), (1, 0))
        os.close(descriptors[0])

    def test_peers_that_read_no_descriptors(self) -> None:
        # The kernel counts those of all connections of a user that nobody has read.
        descriptor = sealed_memory()
        with mock.patch("socket.send_fds", side_effect=OSError(errno.ETOOMANYREFS, "Too many references")):
            self.connection.send(POOL, descriptor)
        os.close(descriptor)
        self.assertTrue(self.connection.wants_to_write)
        self.connection.send(m.Withdraw(7))
        with self.assertRaises(SharingError) as caught:
            self.connection.check_deadline(time.monotonic())
        self.assertEqual(caught.exception.code, "out-of-descriptors")

    def test_peer_that_stops_reading_is_heard(self) -> None:
        self.peer.send(m.encode(m.Withdraw(7)))
        self.peer.shutdown(socket.SHUT_RD)
        self.connection.send(m.Withdraw(8))
        received = self.connection.receive()
        self.assertEqual(next(received)[0], m.Withdraw(7))
        with self.assertRaises(SharingError) as caught:
            next(received)
        self.assertEqual(caught.exception.code, "peer-gone")

    def test_peer(self) -> None:
        self.assertEqual((self.connection.peer.pid, self.connection.peer.uid), (os.getpid(), os.geteuid()))
        self.assertTrue(self.connection.process.is_visible())
        self.assertFalse(self.connection.process.has_ended())


class ListenerTest(support.PoolpassTest):
    def test_mode_and_end(self) -> None:
        listener = Listener(self.path, frozenset())
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
        listener.close()
        self.assertFalse(os.path.exists(self.path))
        listener = Listener(self.path, frozenset({12345}))
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o666)
        listener.close()

    def test_stale_socket_is_replaced(self) -> None:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(self.path)
        Listener(self.path, frozenset()).close()

    def test_what_is_there_is_left_alone(self) -> None:
        listener = Listener(self.path, frozenset())
        self.assertCode("address-in-use", Listener, self.path, frozenset())
        listener.close()
        with open(self.path, "w"):
            pass
        self.assertCode("address-in-use", Listener, self.path, frozenset())
        self.assertTrue(os.path.exists(self.path))

    def test_file_that_replaced_the_socket_stays(self) -> None:
        listener = Listener(self.path, frozenset())
        os.unlink(self.path)
        with open(self.path, "w"):
            pass
        listener.close()
        self.assertTrue(os.path.exists(self.path))

    def test_mode_whatever_the_umask(self) -> None:
        for umask in (0, 0o077, 0o777):
            self.addCleanup(os.umask, os.umask(umask))
            for users, mode in (({}, 0o600), ({os.geteuid()}, 0o600), ({12345}, 0o666)):
                listener = Listener(self.path, users)
                self.assertEqual(os.lstat(self.path).st_mode & 0o777, mode)
                listener.close()

    def test_folder_that_others_may_write_to(self) -> None:
        folder = os.path.join(os.path.dirname(self.path), "shared")
        link = os.path.join(os.path.dirname(self.path), "link")
        os.mkdir(folder)
        os.symlink("shared", link)
        for mode, is_safe in ((0o755, True), (0o775, False), (0o757, False), (0o1777, True)):
            os.chmod(folder, mode)
            for path in (os.path.join(folder, "sock"), os.path.join(link, "sock"), f"{folder}/../shared/./sock"):
                if is_safe:
                    Listener(path, frozenset()).close()
                else:
                    self.assertCode("not-permitted", Listener, path, frozenset())
        if os.geteuid() == 0:
            os.chown(link, 12345, 12345, follow_symlinks=False)
            self.assertCode("not-permitted", Listener, os.path.join(link, "sock"), frozenset())
            os.chown(folder, 12345, 12345)
            self.assertCode("not-permitted", Listener, os.path.join(folder, "sock"), frozenset())
        self.assertEqual(os.listdir(folder), [])

    def test_relative_paths_and_links_in_a_circle(self) -> None:
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(os.path.dirname(self.path))
        Listener("sock", frozenset()).close()
        os.symlink("circle", "circle")
        self.assertRaises(OSError, Listener, "circle/sock", frozenset())
        self.assertCode("not-found", Listener, "nothing/sock", frozenset())

    def test_socket_that_another_process_has_replaced_stays(self) -> None:
        listener = Listener(self.path, frozenset())
        os.unlink(self.path)
        other = Listener(self.path, frozenset())
        listener.close()
        connect(self.path, None).close()
        other.close()
        self.assertEqual(os.listdir(os.path.dirname(self.path)), [])

    def test_connections_that_nobody_has_accepted(self) -> None:
        listener = Listener(self.path, frozenset())
        waiting = [connect(self.path, None) for _ in range(3)]
        listener.close()
        for each in waiting:
            self.assertEqual(each.recv(1), b"")
            each.close()

    def test_users(self) -> None:
        for users in ([-1], [2**32 - 1], [1, 2**40]):
            self.assertRaises(ValueError, check_users, users)
        for users in (["1"], [True], [1.0]):
            self.assertRaises(TypeError, check_users, users)
        self.assertTrue(is_allowed(os.geteuid(), ()))
        self.assertFalse(is_allowed(os.geteuid() + 1, ()))
        self.assertTrue(is_allowed(12345, {12345}))

    @unittest.skipIf(shutil.which("unshare") is None, "there is no unshare")
    def test_users_that_are_not_mapped_are_not_taken_for_one(self) -> None:
        program = "import os; from poolpass.users import is_allowed; print(is_allowed(os.geteuid(), ()), os.geteuid())"
        command = ["unshare", "--user", sys.executable, "-c", program]
        child = subprocess.run(command, env=support.ENVIRONMENT, capture_output=True, text=True)
        if child.returncode != 0:
            self.skipTest("this user may not make a user namespace")
        self.assertEqual(child.stdout.strip(), "False 65534")

    def test_errors(self) -> None:
        self.assertCode("not-found", Listener, self.path + "/x", frozenset())
        self.assertCode("not-listening", connect, self.path, None)
        self.assertCode("timed-out", connect, self.path, time.monotonic() + 0.05)
        self.assertCode("path-too-long", check_path, "connect to", "/" + "x" * 107)
        for path in ("", "a\0b", "/tmp/"):
            self.assertRaises(ValueError, check_path, "connect to", path)
        self.assertRaises(TypeError, check_path, "connect to", b"/tmp/x")

    def assertCode(self, code: str, call: object, *arguments: object) -> None:
        with self.assertRaises(SharingError) as caught:
            call(*arguments)  # type: ignore[operator]
        self.assertEqual(caught.exception.code, code)


if __name__ == "__main__":
    unittest.main()
