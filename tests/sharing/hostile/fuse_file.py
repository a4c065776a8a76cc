"""A FUSE server with one file, written directly on /dev/fuse.

The mount is in a mount namespace of its own and ends with the processes in it. Killing the server ends all waits for
it, its users' included."""
import ctypes
import errno
import os
import signal
import stat
import struct

LOOKUP, FORGET, GETATTR, OPEN, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 18, 25, 26, 36, 42
CLONE_NEWNS, MS_REC, MS_PRIVATE, PR_SET_PDEATHSIG = 0x00020000, 0x4000, 0x40000, 1
FOLDER_NODE, FILE_NODE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def serve_to_child(folder, flush_error):
    """Returns in a child process, which finds the file at FOLDER/file. The server answers FLUSH with an error; if that
    is 0, it answers neither FLUSH nor any question about the file's attributes."""
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    check(libc.mount(b"hostile", folder.encode(), b"fuse", 0, options.encode()))
    if os.fork() == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(device)
        return
    while True:
        serve_one(device, flush_error)


def serve_one(device, flush_error):
    request = os.read(device, 1 << 18)
    opcode, unique, node = struct.unpack_from("<4xIQQ", request)

    def answer(body=b"", error=0):
        os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    if opcode == INIT:
        answer(struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 16, 12, 65536, 1, 16, 0, *[0] * 8))
    elif opcode == LOOKUP:
        answer(struct.pack("<4Q2I", FILE_NODE, 0, 0, 0, 0, 0) + attributes(FILE_NODE))
    elif opcode == OPEN:
        answer(struct.pack("<QIi", 1, 0, 0))
    elif opcode == RELEASE:
        answer()
    elif opcode == FLUSH and flush_error != 0:
        answer(error=flush_error)
    elif opcode == GETATTR and (flush_error != 0 or node == FOLDER_NODE):
        answer(struct.pack("<Q2I", 0, 0, 0) + attributes(node))
    elif opcode not in (FLUSH, GETATTR, FORGET, BATCH_FORGET, INTERRUPT):
        answer(error=errno.ENOSYS)


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == FOLDER_NODE else stat.S_IFREG | 0o644
    return struct.pack("<6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)
