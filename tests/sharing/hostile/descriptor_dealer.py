"""Gives files of a FUSE file system to processes that connect: descriptor_dealer.py FOLDER PATH.

FOLDER is where the files are mounted, in a mount namespace of this process, and PATH the socket. Whoever connects gets
one byte with two descriptors: of a file whose close succeeds, and of one whose close fails (FLUSH answers EIO). Prints
"ready", or why there is no such file system. Ends when its standard input does, and with it the file system and every
wait for it: a child of it is the server, because one that dies with files of its own open would wait for itself for
ever."""
import array
import errno
import os
import select
import signal
import socket
import struct
import sys

from fuse_file import *

READ = 15
FINE, FAILING = FILE_NODE, FILE_NODE + 1
nodes = {b"fine": FINE, b"failing": FAILING}
folder, path = sys.argv[1:3]


def mounted():
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    check(libc.mount(b"hostile", folder.encode(), b"fuse", 0, options.encode()))
    return device


def serve(device):
    def answer(body=b"", error=0):
        os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError:
            return
        opcode, unique, node = struct.unpack_from("<4xIQQ", request)
        try:
            if opcode == INIT:
                answer(struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 16, 12, 65536, 1, 16, 0, *[0] * 8))
            elif opcode == LOOKUP and request[40:].rstrip(b"\0") in nodes:
                found = nodes[request[40:].rstrip(b"\0")]
                answer(struct.pack("<4Q2I", found, 0, 3600, 3600, 0, 0) + attributes(found))
            elif opcode == LOOKUP:
                answer(error=errno.ENOENT)
            elif opcode == GETATTR:
                answer(struct.pack("<Q2I", 3600, 0, 0) + attributes(node))
            elif opcode == OPEN:
                answer(struct.pack("<QII", node, 0, 0))
            elif opcode == READ:
                answer(bytes(struct.unpack_from("<I", request, 56)[0]))
            elif opcode == FLUSH:
                answer(error=errno.EIO if node == FAILING else 0)
            elif opcode == RELEASE:
                answer()
            elif opcode not in (FORGET, BATCH_FORGET, INTERRUPT):
                answer(error=errno.ENOSYS)
        except OSError as error:
            # The request was interrupted.
            if error.errno != errno.ENOENT:
                raise


def deal(connection, fds):
    rights = array.array("i", fds)
    connection.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    connection.close()


try:
    device = mounted()
except OSError as error:
    print(f"no FUSE: {error.strerror}", flush=True)
    sys.exit()
dealer = os.getpid()
if os.fork() == 0:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == dealer:
        serve(device)
    os._exit(0)
os.close(device)
files = [os.open(os.path.join(folder, name.decode()), os.O_RDWR) for name in nodes]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("ready", flush=True)
while True:
    if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
        break
    deal(listener.accept()[0], files)
