"""Clients of a store that do not read: unread_answers.py SOCKET lists CONNECTIONS, or maps NAME REQUESTS. Prints "asked"
when the store has done what comes before the answers, and "unread" when the answers have begun to arrive. Reads them when
it gets SIGUSR1, and prints for each connection what its list says, or "closed"."""
import json
import signal
import socket
import struct
import sys

from poolpass_wire import ANSWER, ask, connect, hello, receive

path, how, *args = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])


def say(value):
    print(json.dumps(value), flush=True)


def connect_client():
    one = connect(path)
    one.sendall(hello(2))
    receive(one)
    return one


def ask_for(request, document):
    return ask(request, json.dumps(document).encode())


def rest_of(one):
    """The document that has begun to arrive; None if it does not arrive completely."""
    parts = []
    while True:
        received = receive(one)
        if received is None:
            return None
        type, body = received
        if type != ANSWER:
            continue
        parts.append(body[8:])
        if struct.unpack_from("<I", body, 4)[0] == 0:
            return json.loads(b"".join(parts))


if how == "lists":
    connections = [connect_client() for _ in range(int(args[0]))]
    for one in connections:
        one.sendall(ask_for(1, {"do": "entries"}))
else:
    name, count = args
    connections = [connect_client()]
    wanted = {"do": "map", "name": name, "wait": True}
    connections[0].sendall(b"".join(ask_for(number + 2, wanted) for number in range(int(count))))
    connections[0].sendall(ask_for(1, {"do": "release", "id": 1}))
    assert rest_of(connections[0]) == {"ok": True, "held": False}
say("asked")
for one in connections:
    one.recv(1, socket.MSG_PEEK)
say("unread")
signal.sigwait([signal.SIGUSR1])
for one in connections:
    document = rest_of(one)
    say("closed" if document is None else [
        [entry["name"], entry["generation"], len(entry["metadata"]), len(entry["readers"])]
        for entry in document["entries"]
    ])
