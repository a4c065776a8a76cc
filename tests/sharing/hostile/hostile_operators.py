"""Connects as an operator and misbehaves: hostile_operators.py PATH MODE. Prints "ready" once it has begun, and the
reason and text of the GOODBYE that it is sent, if it is sent one."""
import itertools
import signal
import struct
import sys

import poolpass_wire as wire

path, mode = sys.argv[1:]
STATUS = b'{"do": "status"}'


def connect():
    one = wire.connect(path)
    one.sendall(wire.hello(1))
    assert wire.receive(one)[0] == wire.WELCOME
    return one


def print_goodbye(one):
    while True:
        received = wire.receive(one)
        if received is None:
            return print("closed", flush=True)
        type, body = received
        if type == wire.GOODBYE:
            return print(struct.unpack_from("<H", body)[0], body[8:].decode(), flush=True)


def say(*messages):
    one = connect()
    print("ready", flush=True)
    try:
        for each in messages:
            one.sendall(each)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the exporter has answered already, and gone
    print_goodbye(one)


if mode == "flood":
    one = connect()
    print("ready", flush=True)
    try:
        for request in itertools.count(1):
            one.sendall(wire.ask(request % 2**32, STATUS))
    except (BrokenPipeError, ConnectionResetError):
        pass
    print_goodbye(one)
elif mode == "again and again":
    # Reads each answer and asks again, on a new connection each time.
    for count in itertools.count(1):
        one = connect()
        one.sendall(b"".join(wire.ask(request, STATUS) for request in range(1, 17)))
        assert wire.receive(one)[0] == wire.ANSWER
        one.close()
        if count == 3:
            print("ready", flush=True)
elif mode == "never reads":
    one = connect()
    one.sendall(b"".join(wire.ask(request, STATUS) for request in range(1, 17)))
    print("ready", flush=True)
    signal.pause()
elif mode == "half a document":
    one = connect()
    one.sendall(wire.ask(1, STATUS[:5], len(STATUS) - 5))
    print("ready", flush=True)
    signal.pause()
elif mode == "half a message":
    say(wire.ask(1, STATUS)[:-1])
elif mode == "long":
    say(wire.ask(1, b"{", 4096))
elif mode == "many halves":
    say(*(wire.ask(request, b" " * 100, 1) for request in range(1, 100)))
elif mode == "no JSON":
    say(wire.ask(1, b'{"do": status}'))
elif mode == "no object":
    say(wire.ask(1, b"[" * 2000 + b"]" * 2000))
elif mode == "something else":
    say(wire.ask(1, b'{"do": "\\u001b[2Jstop"}'))
elif mode == "the same number":
    say(wire.ask(1, STATUS) + wire.ask(1, STATUS))  # at once: else the first may be answered before the second
elif mode == "an importer's message":
    say(wire.message(wire.HELD, struct.pack("<I", 1)))
elif mode == "an answer":
    say(wire.message(wire.ANSWER, struct.pack("<II", 1, 0) + b"{}"))
