"""What the programs in Python have in common: they are asked and answer as contract.ts says, and do not outlive each other."""

import ctypes
import json
import signal
import sys
import time
from typing import Callable

# As in poolpass.ts.
WARM_UP_OF_ONE = 500
WARM_UP_OF_THOUSAND = 20

Work = Callable[[dict], list[int]]

REQUEST_TIMEOUT = 30
SET_PARENT_DEATH_SIGNAL = 1


def answer_requests(*, name: str, device: str, uuid: str, versions: str, works: dict[str, Work]) -> None:
    """Greets, and answers until standard input ends. After an error the two processes are out of step: it ends."""
    identifier = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    greeting = {"name": name, "device": device, "uuid": identifier, "isSoftware": False, "versions": versions}
    say(greeting | {"works": list(works)})
    signal.signal(signal.SIGALRM, give_up)
    for line in sys.stdin:
        request = json.loads(line)
        work = works.get(request["work"])
        if work is None:
            say({"error": f"there is no work {request['work']}"})
            continue
        signal.alarm(REQUEST_TIMEOUT)
        try:
            say({"nanoseconds": work(request)})
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
            sys.exit(1)
        finally:
            signal.alarm(0)


def samples(request: dict, warm_up: int, share: Callable[[], int]) -> list[int]:
    """The nanoseconds that `share` gives, each time but the first."""
    return [share() for _ in range(warm_up + request["repetitions"])][warm_up:]


def now() -> int:
    return time.perf_counter_ns()


def say(line: dict) -> None:
    print(json.dumps(line), flush=True)


def say_missing(error: ImportError) -> None:
    """Instead of a greeting, where a package is not installed."""
    say({"missing": str(error)})
    sys.exit(0)


def end_with_parent() -> None:
    """A queue does not tell its reader that its writer has ended."""
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def give_up(_signal, _frame) -> None:
    raise TimeoutError(f"it took longer than {REQUEST_TIMEOUT} s")
