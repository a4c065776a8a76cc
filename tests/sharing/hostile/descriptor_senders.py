"""Sends descriptors that wait for their sender when they are used or closed:
descriptor_senders.py ROLE KIND PATH FOLDER ATTACK...

ROLE is `exporter`, which listens at PATH and attacks one importer after the other, or `importer`, which attacks the
exporter at PATH, each time in another way. KIND is the kind of the descriptors: `failing` (a file of FUSE, mounted at
FOLDER, whose close fails), `silent` (one whose server does not answer), `lingering` (a TCP socket that waits for its
peer when it is closed), or `device`. Prints "ready", and then what the system said to each attack. Killing it ends all
waits that it caused. Written from PROTOCOL.md."""
import errno
import os
import socket
import struct
import sys
import threading

import fuse_file

HELLO, WELCOME, GOODBYE, POOL = 1, 2, 3, 16
LINGER_SECONDS = 20
role, kind, path, folder = sys.argv[1:5]
attacks = sys.argv[5:]
kept = []


def message(type, body, descriptors=0):
    return struct.pack("<IHH", len(body), type, descriptors) + body


hello = message(HELLO, b"poolpass" + struct.pack("<HHI", 1, 1, 0))
welcome = message(WELCOME, b"poolpass" + struct.pack("<HHI", 1, 0, 0))
goodbye = message(GOODBYE, struct.pack("<HHHH", 0, 1, 1, 0))
pool = message(POOL, struct.pack("<II16x", 1, 2), 1)
greeting = welcome if role == "exporter" else hello

# What is sent before the descriptors, what is sent with them, and their number.
ATTACKS = {
    "at once": (b"", greeting, 3),
    "part of POOL before the greeting": (b"", pool[:20], 1),
    "part of POOL": (greeting, pool[:20], 1),
    "POOL": (greeting, pool, 1),
    "POOL with many": (greeting, pool, 3),
    "behind GOODBYE": (greeting + goodbye, pool, 3),
    "an urgent byte": (greeting, pool[:1], 1),
}


def lingering_socket():
    """Returns a socket with data that its peer will not read."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    kept.append((listener, listener.accept()))
    sender.setblocking(False)
    try:
        while True:
            sender.send(b"x" * 65536)
    except BlockingIOError:
        pass
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
    return sender.detach()


def new_descriptor():
    if kind == "lingering":
        return lingering_socket()
    return os.open("/dev/null" if kind == "device" else f"{folder}/file", os.O_RDWR)


def send(connection, data, descriptors, flags=0):
    """Returns what the system says."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(descriptors)}i", *descriptors))]
    try:
        connection.sendmsg([data], rights if descriptors else [], flags)
        return "sent"
    except OSError as error:
        return errno.errorcode[error.errno]


def attack(connection, name, descriptors):
    first, data, count = ATTACKS[name]
    if first != b"":
        send(connection, first, [])
    flags = socket.MSG_OOB if name == "an urgent byte" else 0
    result = send(connection, data, descriptors[:count], flags)
    # The receiver's close is then the last one. Closing a silent file would wait as the receiver's does.
    if result == "sent" and kind != "silent":
        for descriptor in descriptors[:count]:
            try:
                os.close(descriptor)
            except OSError:
                pass
    # One write, because other threads print, too.
    os.write(1, f"{result}\n".encode())
    kept.append(connection)
    if name.startswith("part") and role == "importer":
        connection.close()


if kind in ("failing", "silent"):
    fuse_file.serve_to_child(folder, errno.EIO if kind == "failing" else 0)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
if role == "exporter":
    listener.bind(path)
    listener.listen()
# Made beforehand, so that they are sent and closed before the receiver has noticed anything.
prepared = [[new_descriptor() for _ in range(ATTACKS[name][2])] for name in attacks]
print("ready", flush=True)
for name, descriptors in zip(attacks, prepared):
    if role == "exporter":
        connection, _ = listener.accept()
        connection.recv(65536)
    else:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
    # A thread that has to wait for its own close does not keep the next attack from happening.
    threading.Thread(target=attack, args=(connection, name, descriptors), daemon=True).start()
threading.Event().wait()
