"""What scripts that check the package on a GPU share: a store, bytes to recognize, and a line for each check."""
from __future__ import annotations

import faulthandler
import functools
import hashlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import traceback
from typing import Any, Callable, Sequence

TESTS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(TESTS))
sys.path[:0] = [os.path.dirname(TESTS), TESTS]
# For the process that others are forked from.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*sys.path[:2], os.environ.get("PYTHONPATH")]))

from poolpass import StoreClient

# As `poolpass.driver()` says it, which initializes CUDA: no process can be forked from one that has.
DRIVER = "software" if os.environ.get("POOLPASS_DRIVER") == "software" else "cuda"
# Nor does torch.cuda.is_available() then.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
DENO = os.environ.get("POOLPASS_DENO") or shutil.which("deno")
# Seconds in which another process must have done its work.
TIMEOUT = 60.0
MIB = 2**20
# Forks of a process that has imported everything, and has not initialized CUDA.
CONTEXT = multiprocessing.get_context("forkserver")
SHARED = "/dev/shm" if os.path.isdir("/dev/shm") else None


class Store:
    """A process of `poolpass store`."""

    def __init__(self, path: str, *arguments: str):
        assert DENO is not None, "deno is not on the PATH"
        self.path = path
        self.process = subprocess.Popen(
            [*cli(), "store", path, "--driver", DRIVER, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )

    def wait_for(self, text: str) -> None:
        """Waits until it has printed a line that contains `text`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"The store has ended with {self.process.wait()}")

    def connect(self) -> StoreClient:
        return connect(self.path)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def cli() -> list[str]:
    """Returns the command `poolpass` of this checkout."""
    return [str(DENO), "run", "--allow-all", "--no-check", "--no-lock", os.path.join(ROOT, "cli", "main.ts")]


def connect(path: str) -> StoreClient:
    return StoreClient.connect(path, wait=TIMEOUT, handshake_timeout=TIMEOUT, message_timeout=TIMEOUT)


def wait_until(condition: Callable[[], Any], what: str, *, pause: float = 0.002) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(pause)


@functools.lru_cache(8)
def pattern(tag: str, nbytes: int) -> bytes:
    """Returns bytes of which each page is different, and which are different for each tag."""
    block = hashlib.shake_128(tag.encode()).digest(min(nbytes, 65_537))
    return (block * -(-nbytes // max(1, len(block))))[:nbytes]


class Remote:
    """A process that makes the calls that it is sent: of functions by name, which `function(*arguments)` returns."""

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        self._connection, other = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_obey, args=(function, arguments, other), daemon=True)
        self.process.start()
        other.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def begin(self, name: str, *arguments: Any) -> None:
        self._connection.send((name, arguments))

    def finish(self) -> Any:
        """Returns the result of the first call that was begun, or raises its error."""
        assert self._connection.poll(TIMEOUT), "A process hangs"
        result = self._connection.recv()
        if isinstance(result, BaseException):
            raise result
        return result

    def call(self, name: str, *arguments: Any) -> Any:
        self.begin(name, *arguments)
        return self.finish()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._connection.close()


def _obey(function: Callable[..., Any], arguments: tuple[Any, ...], connection: Any) -> None:
    calls = function(*arguments)
    while True:
        try:
            name, values = connection.recv()
        except (EOFError, OSError):
            return
        try:
            connection.send(calls[name](*values))
        except Exception as error:
            connection.send(error)


def run_checks(functions: Sequence[Callable[[], str]], names: Sequence[str], limit: float) -> int:
    """Runs the functions whose names contain any of some, prints a line for each, and returns the exit status. A
    function that takes longer than `limit` seconds ends the program."""
    results = []
    for function in functions:
        name = function.__name__
        if names and not any(each in name for each in names):
            continue
        faulthandler.dump_traceback_later(limit, exit=True)
        began = time.monotonic()
        try:
            text, passed = function(), True
        except Exception:
            text, passed = traceback.format_exc(), False
        results.append(passed)
        print(f"{'PASS' if passed else 'FAIL'} {name} ({time.monotonic() - began:.1f} s): {text}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if all(results) else 1
