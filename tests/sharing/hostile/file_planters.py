"""Another user, who puts files where the library looks for its own.

Arguments: what to plant, a folder, and what that takes. Prints "planted", and keeps it until it is killed."""
import fcntl
import hashlib
import json
import os
import signal
import sys

NOBODY = 65534


def forged_entry(key):
    """An entry of a compile cache that is whole, with PTX of the attacker's own."""
    ptx = b"forged"
    header = {"key": key, "log": "", "loweredNames": [], "ptxByteLength": len(ptx), "hasCubin": False}
    content = json.dumps(header).encode() + b"\n" + ptx
    return b"poolpass-compiled-1\n" + hashlib.sha256(content).digest() + content


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def plant_cache(folder, key):
    """Entries in a folder of its own, which a link leads to, and in one that everybody may write to."""
    entry = "poolpass-" + key
    os.mkdir(folder + "/squatted", 0o755)
    write(folder + "/squatted/" + entry, forged_entry(key))
    os.symlink("squatted", folder + "/linked")
    write(folder + "/open/" + entry, forged_entry(key))
    write(folder + "/sticky/" + entry, forged_entry(key))
    # In folders that everybody may still write to now, and later nobody else.
    write(folder + "/foreign/" + entry, forged_entry(key))
    os.mkfifo(folder + "/pipe/" + entry, 0o666)
    os.symlink("/dev/zero", folder + "/endless/" + entry)
    os.symlink(folder + "/squatted/" + entry, folder + "/link/" + entry)


def plant_ranks(folder, count, user):
    """Names as the ranks of another user's communicators have them."""
    for number in range(int(count)):
        os.close(os.open(f"{folder}/poolpass-ranks-{number:032x}-{user}", os.O_CREAT | os.O_RDWR, 0o600))


def plant_reports(folder, target):
    """A link to a file that it may not write to itself, and places where it can read what others write."""
    os.symlink(target, folder + "/link")
    os.close(os.open(folder + "/file", os.O_CREAT | os.O_RDWR, 0o666))
    os.mkfifo(folder + "/pipe", 0o666)
    os.open(folder + "/pipe", os.O_RDWR)


def plant_leases(folder, *names):
    """Files that everybody may open, with leases that are not given up: whoever opens one waits for 45 seconds."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    for name in names:
        fd = os.open(folder + "/" + name, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)


os.umask(0)
os.setgid(NOBODY)
os.setuid(NOBODY)
what, folder, *rest = sys.argv[1:]
globals()["plant_" + what](folder, *rest)
print("planted", flush=True)
while True:
    signal.pause()
