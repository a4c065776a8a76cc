"""Importers that release what they hold with events that never fire:
event_hoarders.py PATH OFFER UUID CONNECTIONS EVENTS. All events are one memory file, whose handle the software device
opens. Written from PROTOCOL.md and from the layout of an event's file. Prints how many releases were sent, waits for a
signal (SIGUSR1), closes the connections, prints how many WAIT had arrived, and stays."""
import fcntl
import os
import select
import signal
import socket
import struct
import sys

HELLO, GOODBYE, WAIT, EVENT, OFFER, HELD, RELEASED = 1, 3, 4, 18, 19, 32, 33
PAGE = 65536
EVENT_MAGIC = 0x3130544E56504C50
F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2


def message(type, body):
    return struct.pack("<IHH", len(body), type, 0) + body


def event_handle(uuid):
    """Creates an event that was recorded once and has not fired."""
    header = struct.pack("<QQ16sQ", EVENT_MAGIC, 1, uuid, PAGE)
    descriptor = os.memfd_create("poolpass-hostile", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 2 * PAGE)
    os.pwrite(descriptor, header, 0)
    os.pwrite(descriptor, struct.pack("<q", 1), PAGE)
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK)
    pidfd = os.pidfd_open(os.getpid())
    scope = 0x811C9DC5
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        for byte in b"pidfs " + file.read():
            scope = (scope ^ byte) * 0x01000193 & 0xFFFFFFFF
    namespace = os.stat("/proc/self/ns/pid").st_ino
    location = struct.pack("<IIQII", os.getpid(), descriptor, os.fstat(pidfd).st_ino, scope, namespace)
    return header[:8] + location + header[8:]


class Hoarder:
    def __init__(self, path, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.sendall(message(HELLO, b"poolpass" + struct.pack("<HHI", 1, 1, 0)))
        data = b""
        while True:
            data += self.socket.recv(65536)
            while len(data) >= 8:
                length, type, _ = struct.unpack_from("<IHH", data)
                if len(data) < 8 + length:
                    break
                body, data = data[8:8 + length], data[8 + length:]
                if type == OFFER and body[40:40 + struct.unpack_from("<H", body, 36)[0]] == name:
                    self.offer = body[:4]
                    return

    def waits(self):
        """Counts the WAIT that have arrived, and closes the connection."""
        self.socket.shutdown(socket.SHUT_WR)
        data = b""
        try:
            while part := self.socket.recv(65536):
                data += part
        except ConnectionResetError:
            pass
        self.socket.close()
        count = 0
        while data:
            length, type, _ = struct.unpack_from("<IHH", data)
            count += type == WAIT
            data = data[8 + length:]
        return count

    def lend(self, uuid, handle, count):
        for event in range(1, count + 1):
            self.socket.sendall(
                message(EVENT, struct.pack("<II16s", event, 0, uuid) + handle) +
                message(HELD, self.offer) + message(RELEASED, self.offer + struct.pack("<I", event)))


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
path, name, uuid, connections, events = sys.argv[1:6]
uuid = bytes.fromhex(uuid)
handle = event_handle(uuid)
hoarders = []
for _ in range(int(connections)):
    hoarders.append(Hoarder(path, name.encode()))
    hoarders[-1].lend(uuid, handle, int(events))
print("lent", int(connections) * int(events), flush=True)
signal.sigwait([signal.SIGUSR1])
print("closed", sum(hoarder.waits() for hoarder in hoarders), flush=True)
signal.sigwait([signal.SIGUSR1])
