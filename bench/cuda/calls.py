"""What the programs in Python have in common: how they are asked and answer, as contract.ts says, and how works are timed."""

import json
import sys
import time
from pathlib import Path
from typing import Callable

PTX = Path(__file__).with_name("kernels.ptx")
BLOCK = 256
VECTOR_BYTE_LENGTH = 16
STREAMS = 8

Request = dict
Work = Callable[[Request], list[float]]


def do_nothing() -> None:
    pass


def time_batches(
    request: Request,
    run: Callable[[int], None],
    *,
    prepare: Callable[[], None] = do_nothing,
    settle: Callable[[], None] = do_nothing,
) -> list[float]:
    """
    Nanoseconds for each operation, of samples: as many batches as take `sampleTime` milliseconds, after the same for
    `warmUpTime` milliseconds that are not counted.
    """
    operations = request.get("batch", 1)
    warm_up_time = request.get("warmUpTime", 0) * 1e6
    sample_time = request.get("sampleTime", 0) * 1e6

    def time_batch():
        prepare()
        start = time.perf_counter_ns()
        run(operations)
        elapsed = time.perf_counter_ns() - start
        settle()
        return elapsed

    warm_up_start = time.perf_counter_ns()
    while time.perf_counter_ns() - warm_up_start < warm_up_time:
        time_batch()
    times = []
    for _ in range(request["repetitions"]):
        elapsed, batches = time_batch(), 1
        while elapsed < sample_time:
            elapsed += time_batch()
            batches += 1
        times.append(elapsed / (batches * operations))
    return times


class TimedCalls:
    """How a library's calls are timed: which waits for its streams, and for the first of them, as it does that."""

    def synchronize(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def time_calls(self, request: Request, call: Callable, *arguments) -> list[float]:
        def run(operations):
            for _ in range(operations):
                call(*arguments)

        return time_batches(request, run, settle=self.synchronize)

    def time_until_done(self, request: Request, give: Callable[[], None]) -> list[float]:
        def run(operations):
            for _ in range(operations):
                give()
            self.finish()

        return time_batches(request, run)


def format_uuid(digits: bytes) -> str:
    text = digits.hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def say(line: dict) -> None:
    print(json.dumps(line), flush=True)


def say_missing(error: ImportError) -> None:
    """Instead of a greeting, where a package is not installed."""
    say({"missing": str(error)})
    sys.exit(0)


def answer_requests(*, name: str, device: str, uuid: str, versions: str, works: dict[str, Work]) -> None:
    greeting = {"name": name, "device": device, "uuid": uuid, "isSoftware": False, "versions": versions}
    say(greeting | {"works": list(works)})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say({"nanoseconds": works[request["work"]](request)})
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
