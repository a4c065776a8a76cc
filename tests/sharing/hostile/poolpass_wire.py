"""The bytes of the protocol's messages, for the hostile peers: written from PROTOCOL.md, and checked by nobody."""
import fcntl
import os
import socket
import struct

HELLO, WELCOME, GOODBYE, ASK, ANSWER, POOL, OFFER, HELD = 1, 2, 3, 6, 7, 16, 19, 32
POOL_KIND = 2


def message(type, body, descriptors=0):
    return struct.pack("<IHH", len(body), type, descriptors) + body


def hello(role=0):
    return message(HELLO, b"poolpass" + struct.pack("<HHI", 1, 1, role))


def ask(request, part, remaining=0):
    """A part of what an operator asks."""
    return message(ASK, struct.pack("<II", request, remaining) + part)


def welcome():
    return message(WELCOME, b"poolpass" + struct.pack("<HHI", 1, 0, 0))


def host_pool(number):
    """A pool of host memory. Its descriptor goes with its first byte."""
    return message(POOL, struct.pack("<II16x", number, 2), 1)


def pool_offer(number, pool, name, metadata=b""):
    """The offer of a whole pool."""
    return message(
        OFFER,
        struct.pack("<IIIIQQIHH", number, POOL_KIND, 0, pool, 0, 0, 0, len(name), len(metadata)) + name + metadata,
    )


def goodbye(reason, text=b""):
    return message(GOODBYE, struct.pack("<HHHH", reason, 1, 1, 0) + text)


def connect(path):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.connect(path)
    return one


def accept(path):
    """Listens, says so, and returns the first connection once it has sent HELLO and received WELCOME."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.path.exists(path):
        os.unlink(path)
    listener.bind(path)
    listener.listen(8)
    print("ready", flush=True)
    one, _ = listener.accept()
    receive(one)
    one.sendall(welcome())
    return one


def receive(one):
    """Returns the type and body of the next message, or None at the end of the connection."""
    header = exactly(one, 8)
    if header is None:
        return None
    length, type, _ = struct.unpack("<IHH", header)
    body = exactly(one, length)
    return None if body is None else (type, body)


def exactly(one, length):
    data = b""
    while len(data) < length:
        try:
            part = one.recv(length - len(data))
        except ConnectionResetError:
            return None
        if part == b"":
            return None
        data += part
    return data


def send_pool(one, number):
    """Announces a pool. Its descriptor is no pool's, which nobody can tell before it is mapped."""
    descriptor = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    socket.send_fds(one, [host_pool(number)], [descriptor])
    os.close(descriptor)
