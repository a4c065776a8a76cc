"""The common parts of the Python programs: the protocol in contract.ts, and the timing of workloads."""

import json
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Callable

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
    Returns the nanoseconds per operation, for each sample. A sample runs batches until they have taken `sampleTime`
    milliseconds, after uncounted batches for `warmUpTime` milliseconds.
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
    """Times the calls of a library. Subclasses implement the waits for all streams and for the first stream."""

    def synchronize(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def time_calls(self, request: Request, call: Callable, *arguments) -> list[float]:
        def run(operations):
            for _ in range(operations):
                call(*arguments)

        return time_batches(request, run, settle=self.synchronize)

    def time_until_done(self, request: Request, enqueue: Callable[[], None]) -> list[float]:
        def run(operations):
            for _ in range(operations):
                enqueue()
            self.finish()

        return time_batches(request, run)


def allocation_trace(request: Request) -> list[tuple[int, int, int]]:
    """Returns the slot, the stream and the size of each step. allocation_trace.ts explains the trace."""
    state, checksum = 1, 0

    def random():
        nonlocal state
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        return state

    steps = []
    for _ in range(request["steps"]):
        slot = random() % request["slots"]
        stream = random() % request["streams"]
        octave = request["leastByteLength"] << random() % request["octaves"]
        size = octave + random() % octave
        steps.append((slot, stream, size))
        for number in steps[-1]:
            checksum = (checksum * 31 + number) & 0xFFFFFFFF
    if checksum != request["checksum"]:
        raise RuntimeError("The trace is not the requested one")
    return steps


def time_random_allocations(
    request: Request,
    streams: list,
    *,
    allocate: Callable[[int, Any], Any],
    free: Callable[[Any], None],
    settle: Callable[[], None],
) -> list[float]:
    """
    Plays a trace again and again. All memory exists after the first time, which is not timed. A buffer has no more
    references after `free`.
    """
    steps = [(slot, streams[stream], size) for slot, stream, size in allocation_trace(request)]
    live = [None] * request["slots"]
    rest = cycle(steps)

    def run(operations):
        for slot, stream, size in islice(rest, operations):
            if live[slot] is not None:
                free(live[slot])
                live[slot] = None
            live[slot] = allocate(size, stream)

    try:
        run(len(steps))
        settle()
        return time_batches(request, run, settle=settle)
    finally:
        for buffer in live:
            if buffer is not None:
                free(buffer)
        settle()


def format_uuid(digits: bytes) -> str:
    uuid = digits.hex()
    return "GPU-" + "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))


def print_line(line: dict) -> None:
    print(json.dumps(line), flush=True)


def report_missing_package(error: ImportError) -> None:
    """Prints which package is not installed, in place of a greeting, and ends the program."""
    print_line({"missing": str(error)})
    sys.exit(0)


def answer_requests(*, name: str, device: str, uuid: str, versions: str, works: dict[str, Work]) -> None:
    greeting = {"name": name, "device": device, "uuid": uuid, "isSoftware": False, "versions": versions}
    print_line(greeting | {"works": list(works)})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            print_line({"nanoseconds": works[request["work"]](request)})
        except Exception as error:
            print_line({"error": f"{type(error).__name__}: {error}"})
