"""A service manager that keeps descriptors as systemd does: service_manager.py NOTIFY_PATH COMMAND...

Starts the command, with the descriptors that earlier runs of it have stored. Prints a line for each thing that happens.
SIGUSR1 kills the command with SIGKILL and starts it again; SIGTERM ends everything.
"""

import array
import os
import select
import signal
import socket
import subprocess
import sys

path, command = sys.argv[1], sys.argv[2:]
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("\0" + path[1:] if path.startswith("@") else path)
stored: list[tuple[str, int]] = []


def say(text: str) -> None:
    print(text, flush=True)


def same(a: int, b: int) -> bool:
    return os.path.sameopenfile(a, b) and os.fstat(a).st_rdev == os.fstat(b).st_rdev


def receive() -> None:
    data, ancillary, _flags, _address = notify.recvmsg(65536, socket.CMSG_SPACE(64 * 4))
    fds: list[int] = []
    for level, kind, bytes_ in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.extend(array.array("i", bytes_[: len(bytes_) // 4 * 4]))
    fields = dict(line.split("=", 1) for line in data.decode().split("\n") if line)
    name = fields.get("FDNAME", "stored")
    if fields.get("FDSTOREREMOVE") == "1":
        for kept in [entry for entry in stored if entry[0] == name]:
            stored.remove(kept)
            os.close(kept[1])
    elif fields.get("FDSTORE") == "1":
        for fd in fds:
            if any(same(fd, kept) for _, kept in stored):
                os.close(fd)
            else:
                stored.append((name, fd))
    if fields.get("READY") == "1":
        say("ready")
    else:
        say("stored " + ",".join(sorted(name for name, _ in stored)))


def start() -> subprocess.Popen[bytes]:
    # The descriptors begin at 3: they are moved out of the way first, and into place in the child.
    high = [os.dup(fd) for _, fd in stored]
    names = ":".join(name for name, _ in stored)
    script = (
        "import os, sys\n"
        "fds = [int(n) for n in sys.argv[1].split(',') if n]\n"
        "moved = [__import__('fcntl').fcntl(fd, 0, 500) for fd in fds]\n"
        "[os.dup2(fd, 3 + i) for i, fd in enumerate(moved)]\n"
        "os.closerange(3 + len(fds), 1000)\n"
        "os.environ['LISTEN_PID'] = str(os.getpid())\n"
        "os.execvp(sys.argv[2], sys.argv[2:])\n"
    )
    environment = dict(os.environ, NOTIFY_SOCKET=path)
    if stored:
        environment.update(LISTEN_FDS=str(len(stored)), LISTEN_FDNAMES=names)
    child = subprocess.Popen(
        [sys.executable, "-c", script, ",".join(map(str, high)), *command], env=environment, pass_fds=high,
        stdout=subprocess.DEVNULL,
    )
    for fd in high:
        os.close(fd)
    say(f"started {child.pid} {len(stored)}")
    return child


woken, wake = socket.socketpair()
wake.setblocking(False)
signal.set_wakeup_fd(wake.fileno())
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
child = start()
while True:
    ready, _, _ = select.select([notify, woken], [], [])
    if notify in ready:
        receive()
        continue
    number = woken.recv(1)[0]
    child.kill()
    child.wait()
    if number == signal.SIGTERM:
        break
    # What it has sent before is read before it is started again.
    while select.select([notify], [], [], 0)[0]:
        receive()
    child = start()
