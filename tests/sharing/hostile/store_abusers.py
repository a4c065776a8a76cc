"""Clients of a store that break its rules: store_abusers.py SOCKET HOW [ARGS...]. Prints what it was answered."""
import itertools
import json
import signal
import socket
import struct
import sys

from poolpass_wire import GOODBYE, connect, goodbye, message, receive

ASK, ANSWER, MEMORY = 6, 7, 8
DEVICE = "GPU-706f6f6c-7061-7373-2073-6f6674776100"
REASONS = [
    "done", "version-mismatch", "not-permitted", "bad-message", "timed-out", "cut-off", "limit-exceeded", "device-lost",
    "out-of-resources", "not-released", "internal-error",
]

path, how, *args = sys.argv[1:]


def say(value):
    print(json.dumps(value), flush=True)


def greet(role=2):
    one = connect(path)
    one.sendall(message(1, b"poolpass" + struct.pack("<HHI", 1, 1, role)))
    return one


def ask(request, document, remaining=0):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return message(ASK, struct.pack("<II", request, remaining) + body)


def answers(one, count):
    """The next answers, or how the connection has ended."""
    found = []
    parts = {}
    while len(found) < count:
        next = receive(one)
        if next is None:
            return found + ["end"]
        type, body = next
        if type == GOODBYE:
            return found + [REASONS[struct.unpack_from("<H", body)[0]], body[8:].decode()]
        if type != ANSWER:
            continue
        request, remaining = struct.unpack_from("<II", body)
        parts[request] = parts.get(request, b"") + body[8:]
        if remaining == 0:
            found.append(json.loads(parts.pop(request)))
    return found


one = greet(int(args[0]) if how == "role" else 2)
if how != "role":
    receive(one)
if how == "raw":
    one.sendall(ask(1, args[0].encode()))
elif how in ("documents", "hold"):
    for number, document in enumerate(json.loads(args[0])):
        one.sendall(ask(number + 1, document))
        say(answers(one, 1))
    if how == "hold":
        signal.pause()
elif how == "burst":
    documents = json.loads(args[0])
    one.sendall(b"".join(ask(number + 1, document) for number, document in enumerate(documents)))
    say(answers(one, len(documents)))
elif how == "leave":
    one.sendall(ask(1, json.loads(args[0])))
    (created,) = answers(one, 1)
    waiting = ask(2, {"do": "map", "name": json.loads(args[0])["name"], "wait": True})
    publish = ask(3, {"do": "publish", "id": created["id"]})
    one.sendall(waiting + publish + goodbye(REASONS.index("done")))
    answers(one, 3)
    say("left")
    signal.pause()
elif how == "let go":
    ids = []
    for name in args:
        one.sendall(ask(1, {"do": "create", "name": name, "byteLength": 16, "device": DEVICE}))
        ids.append(answers(one, 1)[0]["id"])
        one.sendall(ask(1, {"do": "publish", "id": ids[-1]}))
        answers(one, 1)
    released = b"".join(ask(number + 1, {"do": "release", "id": id}) for number, id in enumerate(ids))
    one.sendall(released + goodbye(REASONS.index("not-released")))
    one.close()
    say("left")
    signal.pause()
elif how in ("leave with", "leave slowly with"):
    # The answers to the first documents are read; the other documents, and what it holds, come with its leave. Slowly, it
    # goes when all is answered.
    read, unread, kept = json.loads(args[0])
    ids = []
    for number, document in enumerate(read):
        one.sendall(ask(number + 1, document))
        ids.append(answers(one, 1)[0]["id"])
    asked = b"".join(ask(number + 1, document) for number, document in enumerate(unread))
    held = [{"id": ids[index], "count": count} for index, count in kept]
    leave = ask(len(unread) + 1, {"do": "leave", "held": held})
    left = goodbye(REASONS.index("not-released"))
    if how == "leave slowly with":
        one.sendall(asked + leave)
        answers(one, len(unread) + 1)
        one.sendall(left)
    else:
        one.sendall(asked + leave + left)
    one.close()
    say("left")
    signal.pause()
elif how == "twice":
    one.sendall(ask(1, {"do": "map", "name": "never", "wait": True}) * 2)
elif how == "flood":
    try:
        for number in range(16_500):
            one.sendall(ask(number + 1, {"do": "map", "name": f"never {number}", "wait": True}))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the store has answered already, and gone
elif how == "long":
    one.sendall(ask(1, b"{", 2**31))
elif how == "crumbs":
    document = json.dumps({"do": "remove", "name": "x", "more": "x" * int(args[0])}).encode()
    crumbs = (ask(1, document[at : at + 1], len(document) - at - 1) for at in range(len(document)))
    for some in itertools.batched(crumbs, 10_000) if hasattr(itertools, "batched") else [crumbs]:
        one.sendall(b"".join(some))
elif how == "contradiction":
    one.sendall(ask(1, b"{", 10) + ask(1, b"}", 3))
elif how == "memory":
    try:
        socket.send_fds(one, [message(MEMORY, struct.pack("<I", 1), 1)], [one.fileno()])
    except PermissionError:
        say(["bad-message", "the kernel refuses the descriptor"])
        sys.exit()
elif how == "deaf":
    one.settimeout(2)
    try:
        for number in range(2000):
            one.sendall(ask(number % 1000 + 1, {"do": "entries"}))
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        pass
    say("deaf")
    signal.pause()
if how not in ("documents", "burst"):
    say(answers(one, 1))
