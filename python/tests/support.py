"""What the tests share: the stand-in for cuda-bindings, sockets' paths, and a count of what the process has open."""
from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from contextlib import contextmanager
from typing import Any, Callable, Iterator

TESTS = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(TESTS)
ROOT = os.path.dirname(PACKAGE)
SOFTWARE = os.path.join(TESTS, "software")
# Hostile peers that the tests in TypeScript have, too.
ATTACKS = os.path.join(ROOT, "tests", "sharing", "hostile")
# Seconds in which another thread or process must have done its work.
TIMEOUT = 30.0
# What an exporter and an importer allow each other, on a machine that may be busy with other tests.
PATIENCE = {"handshake_timeout": TIMEOUT, "message_timeout": TIMEOUT}

# The environment of a process that uses this package on the software device.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((PACKAGE, SOFTWARE)),
    "PYTHONDONTWRITEBYTECODE": "1",
    "POOLPASS_DRIVER": "software",
}


def run_checks(module: str, timeout: float) -> None:
    """Runs the tests of a module in a process of its own, on the software device. Raises AssertionError if any fails.
    POOLPASS_WEIGHTS_FOLDER is a folder for them."""
    with tempfile.TemporaryDirectory(prefix="poolpass-") as folder:
        environment = {**ENVIRONMENT, "POOLPASS_WEIGHTS_FOLDER": folder, "HF_HUB_OFFLINE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join((PACKAGE, SOFTWARE, TESTS))
        done = subprocess.run(
            [sys.executable, "-m", "unittest", module], env=environment, cwd=TESTS, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=timeout,
        )
    assert done.returncode == 0, done.stdout


def use_software_device() -> None:
    """Lets this process use the stand-in. A process that has imported cuda-bindings cannot."""
    for path in (SOFTWARE, PACKAGE):
        if path not in sys.path:
            sys.path.insert(0, path)


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def lowest_descriptor() -> int:
    """The number that the next descriptor gets."""
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    return descriptor


@contextmanager
def no_descriptor_left(but: int = 0) -> Iterator[None]:
    """Lets the process open only so many more descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 16, before[1]))
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    try:
        for _ in range(but):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in held:
            os.close(descriptor)


class PoolpassTest(unittest.TestCase):
    """A test that leaves no descriptors, threads or mappings behind."""

    def setUp(self) -> None:
        warm_up()
        # Cleanups run in reverse.
        self.addCleanup(self.assert_nothing_left, count_descriptors(), threads_of_poolpass())
        folder = tempfile.TemporaryDirectory(prefix="poolpass-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "shared.sock")

    def assert_nothing_left(self, descriptors: int, threads: int) -> None:
        def is_clean() -> bool:
            gc.collect()
            return count_descriptors() <= descriptors and threads_of_poolpass() <= threads

        wait_for(is_clean, TIMEOUT, check=False)
        if not is_clean():
            left = f"{count_descriptors() - descriptors} descriptors and {threads_of_poolpass() - threads} threads"
            self.fail(f"{left} are left: {opened()}")

    def wait_for(self, condition: Callable[[], Any]) -> None:
        wait_for(condition, TIMEOUT)


def opened() -> list[str]:
    paths = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            pass
    return paths


def threads_of_poolpass() -> int:
    return sum(each.name.startswith("poolpass-") for each in threading.enumerate())


def wait_for(condition: Callable[[], Any], timeout: float, *, check: bool = True) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            if check:
                raise AssertionError("It never came")
            return
        time.sleep(0.002)


def warm_up() -> None:
    """Creates what the process creates once and keeps."""
    from poolpass.cuda import cuda

    for make in (cuda().copy_stream, cuda().release_stream):
        make(0)
