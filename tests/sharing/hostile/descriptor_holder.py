"""Takes a pool's descriptor and export data from one process and hands both to another: descriptor_holder.py PATH.

Uses no CUDA. Prints "ready", what it finds in the pool if that is a memory file, and "handed on"."""
import mmap
import os
import socket
import stat
import struct
import sys

EXPORT_DATA_LENGTH = 64
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
giver = listener.accept()[0]
data, ancillary, _, _ = giver.recvmsg(EXPORT_DATA_LENGTH, socket.CMSG_SPACE(4), socket.MSG_WAITALL)
descriptor = struct.unpack("i", ancillary[0][2])[0]
if stat.S_ISREG(os.fstat(descriptor).st_mode):
    with mmap.mmap(descriptor, os.fstat(descriptor).st_size) as memory:
        found = [byte for byte in range(1, 4) if memory.find(bytes([byte]) * 4096) >= 0]
    print(f"finds pages of {found}", flush=True)
else:
    print("finds no memory file", flush=True)
taker = listener.accept()[0]
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))]
taker.sendmsg([data], rights)
print("handed on", flush=True)
taker.recv(1)
