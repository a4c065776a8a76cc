"""Opens connections and says nothing: silent_importers.py PATH HELD [once]. Opens HELD of them, prints "filled", and, but
for "once", goes on to open more, and keeps the last HELD of them open."""
import collections
import signal
import sys

import poolpass_wire as wire

path, held = sys.argv[1], int(sys.argv[2])
connections = collections.deque()
count = 0
while True:
    connections.append(wire.connect(path))
    count += 1
    if count == held:
        print("filled", flush=True)
        if "once" in sys.argv:
            signal.pause()
    if len(connections) > held:
        connections.popleft().close()
