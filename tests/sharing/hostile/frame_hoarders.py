"""Importers that take every frame of a channel and release none: frame_hoarders.py PATH CHANNEL CONNECTIONS.

Connects again and again, each time after the connection before was sent a frame. Written from PROTOCOL.md."""
import select
import socket
import struct
import sys

HELLO, GOODBYE, OFFER, FRAME, HELD, JOIN = 1, 3, 19, 25, 32, 35


def message(type, body):
    return struct.pack("<IHH", len(body), type, 0) + body


class Hoarder:
    def __init__(self, path):
        self.data = b""
        self.is_open = True
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.sendall(message(HELLO, b"poolpass" + struct.pack("<HHI", 1, 1, 0)))

    def receive(self):
        """Returns the messages that have arrived."""
        try:
            part = self.socket.recv(65536)
        except ConnectionResetError:
            part = b""
        self.is_open = part != b""
        self.data += part
        while len(self.data) >= 8:
            length, type, _ = struct.unpack_from("<IHH", self.data)
            if len(self.data) < 8 + length:
                return
            body, self.data = self.data[8:8 + length], self.data[8 + length:]
            yield type, body

    def join(self, name):
        """Joins the channel, and returns once a frame was sent."""
        while self.is_open:
            for type, body in self.receive():
                if type == OFFER:
                    length, = struct.unpack_from("<H", body, 36)
                    if body[40:40 + length] == name:
                        offer = body[:4]
                        self.socket.sendall(message(HELD, offer) + message(JOIN, offer))
                if type == FRAME:
                    return


path, name, count = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
hoarders = []
for _ in range(count):
    hoarders.append(Hoarder(path))
    hoarders[-1].join(name)
print("hoarding", flush=True)
while hoarders:
    for hoarder in select.select([each.socket for each in hoarders], [], [])[0]:
        hoarder = next(each for each in hoarders if each.socket is hoarder)
        for type, body in hoarder.receive():
            if type == GOODBYE:
                print("goodbye", struct.unpack_from("<H", body)[0], body[8:].decode(), flush=True)
        if not hoarder.is_open:
            hoarders.remove(hoarder)
            hoarder.socket.close()
while True:
    select.select([], [], [])
