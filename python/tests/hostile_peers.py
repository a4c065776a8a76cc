"""Peers that attack: hostile_peers.py MODE PATH ARGUMENTS. Prints "ready" once it attacks. Killing it ends all waits
that it causes. Written from PROTOCOL.md; shares no code with the package."""
from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "sharing", "hostile"))
import poolpass_wire as wire

ALLOCATION, EVENT, CHANNEL, FRAME, RELEASED, JOIN = 17, 18, 20, 25, 33, 35
CHANNEL_KIND = 3
LINGER_SECONDS = 20
kept: list[object] = []


def ready() -> None:
    print("ready", flush=True)


def lingering_socket() -> int:
    """Returns a socket with data that its peer will not read."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    kept.append((listener, listener.accept()))
    sender.setblocking(False)
    try:
        while True:
            sender.send(bytes(65_536))
    except BlockingIOError:
        pass
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
    return sender.detach()


def send_descriptors(path: str, count: str) -> None:
    """An exporter that sends so many descriptors with one message, the last two of which linger."""
    descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(count) - 2)]
    descriptors += [lingering_socket(), lingering_socket()]
    one = wire.accept(path)
    # While the importer handles these, the attacker closes its own copies: the importer then closes the last ones.
    one.sendall(b"".join(
        wire.message(EVENT, struct.pack("<II16s64s", number, 0, bytes(16), bytes(64))) for number in range(1, 1500)
    ))
    socket.send_fds(one, [wire.host_pool(1)], descriptors)
    for each in descriptors:
        os.close(each)
    signal.pause()


def send_descriptors_to_exporter(path: str) -> None:
    """An importer that sends descriptors that linger, with a message and with a part. Prints what the system says."""
    for data in (wire.hello()[:4], wire.hello()):
        descriptor = lingering_socket()
        one = wire.connect(path)
        kept.append(one)
        try:
            socket.send_fds(one, [data], [descriptor])
            print("sent", flush=True)
        except PermissionError:
            print("refused", flush=True)
        # Closing a socket that was not sent would wait for its peer.
        kept.append(descriptor)
    ready()
    signal.pause()


def become(user: str) -> None:
    os.setresgid(int(user), int(user), int(user))
    os.setresuid(int(user), int(user), int(user))


def swap_for_link(path: str, target: str, user: str) -> None:
    """Replaces what is at a path with a link to a file, again and again."""
    become(user)
    folder = os.path.dirname(path)
    link = os.path.join(folder, "link")
    ready()
    while True:
        try:
            os.symlink(target, link)
        except FileExistsError:
            pass
        # The socket may have another name until it listens.
        for name in os.listdir(folder):
            try:
                os.rename(link, os.path.join(folder, name))
                break
            except OSError:
                pass


def greet(path: str) -> None:
    wire.connect(path).sendall(wire.hello())


def reconnect(path: str, count: str, name: str) -> None:
    """Connects again and again, and disconnects each time when it holds an offer and, of a channel, a frame."""
    for _ in range(int(count)):
        one = wire.connect(path)
        one.sendall(wire.hello())
        while (received := wire.receive(one)) is not None:
            kind, body = received
            if kind == wire.GOODBYE:
                raise SystemExit(body[8:].decode())
            if kind == wire.OFFER and offered_name(body) == name.encode():
                one.sendall(wire.message(wire.HELD, body[:4]))
                if body[4] != CHANNEL_KIND:
                    break
                one.sendall(wire.message(JOIN, body[:4]))
            if kind == FRAME:
                break
        one.close()
    ready()
    signal.pause()


def flood(path: str, count: str) -> None:
    """Holds and releases an offer as fast as the exporter reads, over so many connections."""
    def send_for_ever() -> None:
        one = wire.connect(path)
        one.sendall(wire.hello())
        while (received := wire.receive(one)) is not None:
            if received[0] == wire.OFFER:
                offer = received[1][:4]
                break
        started.release()
        messages = wire.message(wire.HELD, offer) + wire.message(RELEASED, offer + bytes(4))
        try:
            while True:
                one.sendall(messages * 4000)
        except OSError:
            pass

    started = threading.Semaphore(0)
    for _ in range(int(count)):
        threading.Thread(target=send_for_ever, daemon=True).start()
    for _ in range(int(count)):
        started.acquire()
    ready()
    signal.pause()


def offer_metadata(path: str, count: str, length: str) -> None:
    """An exporter whose metadata takes much more memory as a value than as a string."""
    one = wire.accept(path)
    wire.send_pool(one, 1)
    metadata = b"[" + b",".join([b"{}"] * ((int(length) - 1) // 3)) + b"]"
    try:
        for number in range(1, int(count) + 1):
            one.sendall(wire.pool_offer(number, 1, str(number).encode(), metadata))
    except OSError:
        pass
    signal.pause()


def offer_slots(path: str, slots: str) -> None:
    """An exporter of channels whose slots share one event."""
    one = wire.accept(path)
    wire.send_pool(one, 1)
    each = int(slots)
    one.sendall(
        wire.message(ALLOCATION, struct.pack("<IIQ64s", 1, 1, each, bytes(64))) +
        wire.message(EVENT, struct.pack("<II16s64s", 1, 0, bytes(16), bytes(64)))
    )
    events = struct.pack(f"<{each}I", *[1] * each)
    try:
        for number in range(1, 65_537):
            name = str(number).encode()
            offer = struct.pack("<IIIIQQIHH", number, CHANNEL_KIND, 1, 1, 0, each, 0, len(name), 0) + name
            channel = struct.pack("<IIQQII", number, each, 1, 1, each, 0) + events
            one.sendall(wire.message(wire.OFFER, offer) + wire.message(CHANNEL, channel))
    except OSError:
        pass
    signal.pause()


def offered_name(body: bytes) -> bytes:
    return body[40 : 40 + struct.unpack_from("<H", body, 36)[0]]


if __name__ == "__main__":
    {
        "descriptors": send_descriptors,
        "descriptors-to-exporter": send_descriptors_to_exporter,
        "flood": flood,
        "greet": greet,
        "metadata": offer_metadata,
        "slots": offer_slots,
        "reconnect": reconnect,
        "swap": swap_for_link,
    }[sys.argv[1]](*sys.argv[2:])
