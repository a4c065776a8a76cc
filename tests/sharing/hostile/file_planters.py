"""Another user, who puts files where the library looks for its own.

Arguments: what to plant, a folder, and what that takes. Prints "planted", and keeps what it has planted until its
standard input ends."""
import fcntl
import hashlib
import json
import os
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


os.umask(0)
os.setgid(NOBODY)
os.setuid(NOBODY)
what, folder, *rest = sys.argv[1:]
{"cache": plant_cache}[what](folder, *rest)
print("planted", flush=True)
sys.stdin.read()
