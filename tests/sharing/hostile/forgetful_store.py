"""A store that ends its first connection when it is asked for something, and prints what it is asked by the second one:
forgetful_store.py SOCKET. Answers nothing there until SIGUSR1, and then what "remove" and "entries" are answered after a
removal."""
import json
import os
import signal
import socket
import struct
import sys

from poolpass_wire import ANSWER, ASK, message, receive, welcome


def say(value):
    print(json.dumps(value), flush=True)


def greeted(listener):
    one, _ = listener.accept()
    receive(one)
    one.sendall(welcome())
    return one


def asked(one):
    type, body = receive(one)
    assert type == ASK
    return struct.unpack_from("<I", body)[0], json.loads(body[8:])


def answer(one, request, document):
    one.sendall(message(ANSWER, struct.pack("<II", request, 0) + json.dumps(document).encode()))


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
path = sys.argv[1]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(path)
os.chmod(path, 0o600)
listener.listen(8)
say("ready")
first = greeted(listener)
say(asked(first)[1]["do"])
first.close()
second = greeted(listener)
request, document = asked(second)
say(document["do"])
signal.sigwait([signal.SIGUSR1])
answer(second, request, {"ok": True, "unknown": []})
while True:
    request, document = asked(second)
    say(document["do"])
    if document["do"] == "remove":
        answer(second, request, {"ok": False, "code": "not-found", "message": "nothing is published"})
    elif document["do"] == "entries":
        answer(second, request, {"ok": True, "entries": []})
