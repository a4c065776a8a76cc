"""Access control by user: which users may connect, and which could replace a socket with their own."""
from __future__ import annotations

import errno
import os
import stat
from typing import Collection

from .errors import SharingError

ROOT = 0
# The user ID by which a user namespace shows every user that it does not map, unless the system is set up otherwise.
OVERFLOW_USER = 65_534
# The number of user IDs. The largest means "no user" in system calls.
ALL_USERS = 2**32 - 1
MAXIMUM_USER = 2**32 - 2
# The number of symbolic links that the kernel follows when it resolves a path.
MAXIMUM_LINKS = 40
WRITABLE_BY_OTHERS = 0o022


def check_users(users: Collection[int]) -> frozenset[int]:
    """Returns the users that an option lists. Raises TypeError or ValueError for values that are not user IDs."""
    for user in users:
        if isinstance(user, bool) or not isinstance(user, int):
            raise TypeError(f"Cannot use {user!r} as a user: give a user ID, a number such as `id -u` prints")
        if not 0 <= user <= MAXIMUM_USER:
            raise ValueError(f"Cannot use {user} as a user: it must be a number from 0 to {MAXIMUM_USER}")
    return frozenset(users)


def is_allowed(user: int, users: Collection[int]) -> bool:
    """Whether a process of a user may be a peer: this process's user may, and the listed ones. Root must be listed, too.

    In a user namespace, all unmapped users have the same ID. A process that has this ID itself does not take another
    one for its own user: the ID must be listed.
    """
    return user in users or user == os.geteuid() and not _is_unmapped(user)


def _is_unmapped(user: int) -> bool:
    """Whether a user ID of this process's user namespace may stand for several users."""
    if user != OVERFLOW_USER:
        return False
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            # Each line has the first ID here, the first ID in the parent's namespace, and their number.
            return sum(int(line.split()[2]) for line in file) < ALL_USERS
    except (OSError, ValueError, IndexError):
        return True


def check_folders(path: str) -> None:
    """Raises SharingError if a user other than this one and root could make a path lead to another socket.

    Resolves the path from the root, as the kernel does: once a component has passed the check, no other user can change
    it, so what it leads to stays valid.
    """
    own = os.geteuid()
    rest = os.path.dirname(path).split("/")[::-1]
    if not path.startswith("/"):
        rest += os.getcwd().split("/")[::-1]
    # The folder reached so far, free of links; "" is the root.
    reached = ""
    links = 0
    _check_folder(path, "/", _component_at(path, "/")[0], own)
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            reached = reached.rpartition("/")[0]
            continue
        at = f"{reached}/{name}"
        status, target = _component_at(path, at)
        if target is None:
            _check_folder(path, at, status, own)
            reached = at
            continue
        links += 1
        if links > MAXIMUM_LINKS:
            raise OSError(errno.ELOOP, f"Cannot listen at {path}: it has too many links")
        _check_owner(path, f"the link {at}", status, own)
        if target.startswith("/"):
            reached = ""
        rest += target.split("/")[::-1]


def _check_folder(path: str, at: str, status: os.stat_result, own: int) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise SharingError("not-found", f"Cannot listen at {path}: {at} is not a folder; correct the path")
    _check_owner(path, f"the folder {at}", status, own)
    # In a sticky folder, only a file's owner may replace it, and the owner of each file on the path is checked.
    if status.st_mode & WRITABLE_BY_OTHERS == 0 or status.st_mode & stat.S_ISVTX:
        return
    raise SharingError(
        "not-permitted",
        f"Cannot listen at {path}: the folder {at} of user {status.st_uid} (mode {_octal(status)}) lets other users "
        "put another socket there; remove their write permission (chmod go-w), or use another folder",
    )


def _check_owner(path: str, what: str, status: os.stat_result, own: int) -> None:
    if status.st_uid in (own, ROOT):
        return
    raise SharingError(
        "not-permitted",
        f"Cannot listen at {path}: {what} (mode {_octal(status)}) belongs to user {status.st_uid}, who could put "
        f"another socket there; use a folder of this process's user, {own}",
    )


def _component_at(path: str, at: str) -> tuple[os.stat_result, str | None]:
    """The status of a component of a path, and its target if it is a symbolic link."""
    try:
        descriptor = os.open(at, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise SharingError("not-found", f"Cannot listen at {path}: there is no folder {at}; make it first") from None
    except PermissionError:
        text = f"Cannot listen at {path}: the folder above {at} is not accessible to this user; use another folder"
        raise SharingError("not-permitted", text) from None
    try:
        status = os.fstat(descriptor)
        return status, os.readlink("", dir_fd=descriptor) if stat.S_ISLNK(status.st_mode) else None
    finally:
        os.close(descriptor)


def _octal(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):04o}"
