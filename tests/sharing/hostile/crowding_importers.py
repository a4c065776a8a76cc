"""Connects COUNT importers at a time, as user USER if that is given: crowding_importers.py PATH COUNT [USER]. Prints
how many are served, and the text of the first refusal."""
import contextlib
import os
import signal
import sys

import poolpass_wire as wire

path, count = sys.argv[1], int(sys.argv[2])
if len(sys.argv) > 3:
    os.setresgid(int(sys.argv[3]), int(sys.argv[3]), int(sys.argv[3]))
    os.setresuid(int(sys.argv[3]), int(sys.argv[3]), int(sys.argv[3]))
connections, served, refusal = [], 0, ""
for _ in range(count):
    one = wire.connect(path)
    connections.append(one)
    # Whoever is refused may be told before it says anything.
    with contextlib.suppress(ConnectionError):
        one.sendall(wire.hello())
for one in connections:
    type, body = wire.receive(one)
    if type == wire.WELCOME:
        served += 1
    else:
        refusal = refusal or f"{int.from_bytes(body[:2], 'little')} {body[8:].decode()}"
print(served, flush=True)
print(refusal, flush=True)
signal.pause()
