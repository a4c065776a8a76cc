"""Opens connections to a port of metrics, and keeps the last HELD of them open: metrics_hogs.py PORT HELD REQUEST [once].
Sends REQUEST, which may be a part of one, on each, and reads nothing. Prints "filled" when it has opened HELD, and, but
for "once", goes on to open more."""
import collections
import contextlib
import signal
import socket
import sys

port, held, request = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
connections = collections.deque()
count = 0
while True:
    one = socket.create_connection(("127.0.0.1", port))
    with contextlib.suppress(ConnectionError):
        one.sendall(request)
    connections.append(one)
    count += 1
    if count == held:
        print("filled", flush=True)
        if "once" in sys.argv:
            signal.pause()
    if len(connections) > held:
        connections.popleft().close()
