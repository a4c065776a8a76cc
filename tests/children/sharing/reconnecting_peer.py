"""Connects to an exporter COUNT times, holds its first offer, and breaks the connection off:
reconnecting_peer.py PATH COUNT. Prints "done" and stays."""
import os
import socket
import struct
import sys
import time

HELLO, GOODBYE, OFFER, HELD = 1, 3, 19, 32


def message(number: int, body: bytes) -> bytes:
    return struct.pack("<IHH", len(body), number, 0) + body


def read_until_offer(connection: socket.socket) -> int:
    data = b""
    while True:
        received, descriptors, _, _ = socket.recv_fds(connection, 65_536, 16)
        for descriptor in descriptors:
            os.close(descriptor)
        if not received:
            raise SystemExit("the connection has ended")
        data += received
        while len(data) >= 8 and len(data) >= 8 + struct.unpack_from("<I", data)[0]:
            length, number, _ = struct.unpack_from("<IHH", data)
            body, data = data[8 : 8 + length], data[8 + length :]
            if number == OFFER:
                return struct.unpack_from("<I", body)[0]
            if number == GOODBYE:
                raise SystemExit(f"refused: {body!r}")


path, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(message(HELLO, b"poolpass" + struct.pack("<HHI", 1, 1, 0)))
        connection.sendall(message(HELD, struct.pack("<I", read_until_offer(connection))))
print("done", flush=True)
time.sleep(3600)
