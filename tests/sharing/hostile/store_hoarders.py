"""Clients of a store that take all that they can get: store_hoarders.py SOCKET USER HOW [ARGS...], as another user unless
USER is "-". Prints JSON. At SIGUSR1, goes on to what comes next."""
import itertools
import json
import os
import resource
import signal
import socket
import struct
import sys

from poolpass_wire import ANSWER, ask, connect, hello, receive

DEVICE = "GPU-706f6f6c-7061-7373-2073-6f6674776100"
path, user, how, *args = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))


def become_user():
    if user != "-":
        os.setgid(int(user))
        os.setuid(int(user))


def say(value):
    print(json.dumps(value), flush=True)


def connect_client():
    one = connect(path)
    one.sendall(hello(2))
    receive(one)
    return one


def request(number, document):
    """The messages that ask for something."""
    body = json.dumps(document).encode()
    parts = [body[at : at + 65_528] for at in range(0, len(body), 65_528)]
    left = len(body)
    messages = []
    for part in parts:
        left -= len(part)
        messages.append(ask(number, part, left))
    return b"".join(messages)


def answer_of(one, document, number=1):
    """What the store answers to a request. Descriptors are not received: the kernel closes them."""
    try:
        one.sendall(request(number, document))
    except (BrokenPipeError, ConnectionResetError):
        return "closed"
    return next_document(one)[1]


def next_answer(one):
    """The request that is answered next, and how."""
    number, answer = next_document(one)
    return number, code_of(answer)


def next_document(one):
    while True:
        received = receive(one)
        if received is None:
            return None, "closed"
        type, body = received
        if type == ANSWER:
            number, left = struct.unpack_from("<II", body)
            assert left == 0
            return number, json.loads(body[8:])


def code_of(answer):
    return answer if isinstance(answer, str) else "ok" if answer["ok"] else answer["code"]


def next_signal():
    signal.sigwait([signal.SIGUSR1])


if how == "squat":
    # The path's folder is not this user's: it has the path from before.
    squatted = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    squatted.bind(path)
    become_user()
    squatted.listen()
    say("listens")
    next_signal()
become_user()
if how == "waits":
    # Each connection asks for so many names, and then for something that is answered at once. Says how many are refused.
    count, size = map(int, args)
    while True:
        ones = [connect_client() for _ in range(count)]
        refused = 0
        for index, one in enumerate(ones):
            one.sendall(b"".join(
                request(number + 2, {"do": "map", "name": f"never {index} {number}", "wait": True})
                for number in range(size)
            ))
            one.sendall(request(1, {"do": "release", "id": 1}))
            while (answer := next_answer(one)) != (1, "ok"):
                assert answer[1] == "limit-exceeded", answer
                refused += 1
        say(refused)
        next_signal()
        for one in ones:
            one.close()
        say("closed")
        next_signal()
elif how == "memories":
    # Publishes memories of a byte, each with so much metadata, until one is refused.
    one = connect_client()
    metadata = "x" * int(args[0])
    for count in itertools.count():
        created = answer_of(one, {"do": "create", "name": f"{user} {count}", "byteLength": 1, "device": DEVICE, "metadata": metadata})
        if code_of(created) != "ok":
            say([count, code_of(created), created["message"]])
            break
        answer_of(one, {"do": "publish", "id": created["id"]})
    next_signal()
elif how == "room":
    # Asks for more room than there is, and goes on to wait for it.
    one = connect_client()
    one.sendall(request(2, {"do": "create", "name": "large", "byteLength": int(args[0]), "device": DEVICE}))
    answer_of(one, {"do": "release", "id": 1})
    say("waits")
    next_signal()
elif how == "parts":
    # Begins to send documents that never end, each on a connection of its own. Says how many connections it is left.
    ones = [connect_client() for _ in range(int(args[0]))]
    part = b"{" + b" " * 65_527
    for one in ones:
        try:
            for sent in range(100):
                one.sendall(ask(1, part, 7 * 2**20 - (sent + 1) * len(part)))
        except (BrokenPipeError, ConnectionResetError):
            pass
    say(sum(code_of(answer_of(one, {"do": "release", "id": 1}, 2)) == "ok" for one in ones))
    next_signal()
elif how == "hold":
    # Maps what is published under a name, again and again, and lets nothing go.
    one = connect_client()
    while True:
        mapped = answer_of(one, {"do": "map", "name": args[0], "wait": True})
        say([code_of(mapped), mapped.get("generation"), mapped.get("message")])
        next_signal()
elif how == "two clients":
    # Each makes memory and maps some; both lose their connections, connect again and say what they hold.
    ones = [connect_client() for _ in range(2)]
    held = []
    for index, one in enumerate(ones):
        created = answer_of(one, {"do": "create", "name": f"of {index}", "byteLength": 1, "device": DEVICE})
        mapped = [answer_of(one, {"do": "map", "name": "shared"}) for _ in range(1 + index)]
        held.append([{"id": created["id"], "count": 1}, {"id": mapped[0]["id"], "count": len(mapped)}])
    for one in ones:
        one.close()
    ones = [connect_client() for _ in range(2)]
    say([answer_of(one, {"do": "claim", "held": each}) for one, each in zip(ones, held)])
    say([answer_of(one, {"do": "publish", "id": each[0]["id"]}) for one, each in zip(ones, held)])
    next_signal()
    for one, (_, shared) in zip(ones, held):
        for _ in range(shared["count"]):
            answer_of(one, {"do": "release", "id": shared["id"]})
    say("released")
    next_signal()
elif how == "claim":
    # Maps nothing: claims the numbers behind that of its own memory.
    one = connect_client()
    first = answer_of(one, {"do": "create", "name": "mine", "byteLength": 1, "device": DEVICE})["id"]
    answer_of(one, {"do": "release", "id": first})
    say("ready")
    while True:
        next_signal()
        numbers = range(first + 1, first + 200)
        answer = answer_of(one, {"do": "claim", "held": [{"id": number, "count": 1} for number in numbers]})
        say(len(numbers) - len(answer["unknown"]))
