"""The common parts of the Python programs: the protocol in contract.ts, and the end of both processes together."""

import ctypes
import json
import signal
import sys
import time
from typing import Callable

# The same as in poolpass.ts.
WARM_UP_OF_ONE = 500
WARM_UP_OF_THOUSAND = 20

Work = Callable[[dict], list[int]]

REQUEST_TIMEOUT = 30
SET_PARENT_DEATH_SIGNAL = 1


def answer_requests(*, name: str, device: str, uuid: str, versions: str, works: dict[str, Work]) -> None:
    """Prints a greeting and answers requests until standard input ends.

    Ends the program after an error, because the two processes are then out of step.
    """
    identifier = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    greeting = {"name": name, "device": device, "uuid": identifier, "isSoftware": False, "versions": versions}
    print_line(greeting | {"works": list(works)})
    signal.signal(signal.SIGALRM, raise_timeout)
    for line in sys.stdin:
        request = json.loads(line)
        work = works.get(request["work"])
        if work is None:
            print_line({"error": f"there is no workload {request['work']}"})
            continue
        signal.alarm(REQUEST_TIMEOUT)
        try:
            print_line({"nanoseconds": work(request)})
        except Exception as error:
            print_line({"error": f"{type(error).__name__}: {error}"})
            sys.exit(1)
        finally:
            signal.alarm(0)


def samples(request: dict, warm_up: int, share: Callable[[], int]) -> list[int]:
    """Returns the nanoseconds of each call of `share`, without the first `warm_up` calls."""
    return [share() for _ in range(warm_up + request["repetitions"])][warm_up:]


def now() -> int:
    return time.perf_counter_ns()


def print_line(line: dict) -> None:
    print(json.dumps(line), flush=True)


def report_missing_package(error: ImportError) -> None:
    """Prints which package is not installed, in place of a greeting, and ends the program."""
    print_line({"missing": str(error)})
    sys.exit(0)


def end_with_parent() -> None:
    """Ends this process with its parent, because a queue does not tell its reader that the writer has ended."""
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def raise_timeout(_signal, _frame) -> None:
    raise TimeoutError(f"it took longer than {REQUEST_TIMEOUT} s")
