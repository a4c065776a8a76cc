"""Processes of the same user that attack those who share memory in the folder of a fabric.

Arguments: the attack, the folder, and what it takes. Prints what came of it."""
import array
import fcntl
import os
import socket
import sys

F_ADD_SEALS, F_SEAL_SHRINK = 1033, 2


def shorten(folder):
    """Makes everything shorter that is in the folder, or that a socket there gives."""
    for name in sorted(os.listdir(folder)):
        path = folder + "/" + name
        try:
            os.truncate(path, 0)
            print(name, "was made shorter", flush=True)
            continue
        except OSError:
            pass
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        _, ancillary, _, _ = connection.recvmsg(1, 1024)
        (fd,) = array.array("i", ancillary[0][2])
        try:
            os.ftruncate(fd, 0)
            print(name, "was made shorter", flush=True)
        except PermissionError:
            print("sealed", flush=True)


def serve(folder, name, how, handle, header):
    """Serves what is no memory of a pool: a file that can be made shorter, a pipe, nothing, or another user's file."""
    if how == "other":
        os.umask(0)
        os.setuid(65534)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(folder + "/" + name)
    listener.listen()
    fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 65536)
    os.pwrite(fd, bytes.fromhex(header), 0)
    os.pwrite(fd, bytes.fromhex(handle), 1024)
    if how == "other":
        fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
    if how == "path":
        fd = os.open(f"/proc/self/fd/{fd}", os.O_PATH)
    elif how == "pipe":
        fd, _ = os.pipe()
    print("serving", flush=True)
    kept = []
    while True:
        client, _ = listener.accept()
        if how != "nothing":
            client.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        kept.append(client)


{"shorten": shorten, "serve": serve}[sys.argv[1]](*sys.argv[2:])
