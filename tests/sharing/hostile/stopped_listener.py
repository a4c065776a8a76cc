"""Listens at PATH, fills its own backlog, and accepts nothing: stopped_listener.py PATH"""
import errno
import signal
import socket
import sys

listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
listener.listen(2)
pending = []
while True:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.setblocking(False)
    code = one.connect_ex(sys.argv[1])
    if code == errno.EAGAIN:
        break
    pending.append(one)
print("full", flush=True)
signal.pause()
