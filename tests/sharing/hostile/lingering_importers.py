"""Connects COUNT processes, each of which closes its connection once it has been sent an offer, and lives on:
lingering_importers.py PATH COUNT"""
import ctypes
import os
import signal
import sys

import poolpass_wire as wire

PR_SET_PDEATHSIG = 1

path, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        one = wire.connect(path)
        one.sendall(wire.hello())
        while wire.receive(one)[0] != wire.OFFER:
            pass
        one.close()
        os.close(writing)
        signal.pause()
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
print("closed", flush=True)
signal.pause()
