"""The common parts of the Python programs: jobs, launches of the kernels, clocks, and answers."""

import json
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

PTX = Path(__file__).with_name("frames.ptx")
NUMBERS_OF_FRAME = 3
BLOCK = 256
CLOCK_SAMPLES = 50


class Job(NamedTuple):
    """The same as in job.ts."""

    frames: int
    slots: int
    slot_byte_length: int
    interval: float
    is_host_waiting: bool
    first_frame: int

    @property
    def vectors(self) -> int:
        return self.slot_byte_length // 16

    @property
    def grid(self) -> int:
        return min(1024, -(-self.vectors // BLOCK))


def greet(device: str, versions: str) -> None:
    print(json.dumps({"device": device, "isSoftware": False, "versions": versions}), flush=True)


def jobs() -> Iterator[Job]:
    for line in sys.stdin:
        numbers = line.split()
        yield Job(
            frames=int(numbers[0]),
            slots=int(numbers[1]),
            slot_byte_length=int(numbers[2]),
            interval=float(numbers[3]) / 1000,
            is_host_waiting=numbers[4] != "0",
            first_frame=int(numbers[5]),
        )


def sample_clocks(read_clock: Callable[[int], None], synchronize: Callable[[], None]) -> list[tuple[int, int]]:
    """Returns the host's times before and after each run of the kernel that reads the device's clock."""
    around = []
    for position in range(CLOCK_SAMPLES):
        before = time.perf_counter_ns()
        read_clock(position)
        synchronize()
        around.append((before, time.perf_counter_ns()))
    return around


def answer(sent: list[int], written, read, clock_samples: list[tuple[tuple[int, int], int]]) -> None:
    """Prints the answer. `written` and `read` are numpy arrays of uint64: what the kernels recorded for each frame."""
    device_base = clock_samples[0][1]
    host_base = clock_samples[0][0][0]

    def column(numbers, index: int) -> list[int]:
        return [int(number) for number in numbers.reshape(-1, NUMBERS_OF_FRAME)[:, index]]

    def starts(numbers) -> list[int]:
        return [~number % 2**64 - device_base for number in column(numbers, 0)]

    def ends(numbers) -> list[int]:
        return [number - device_base for number in column(numbers, 1)]

    times = {
        "sent": [moment - host_base for moment in sent],
        "writeStart": starts(written),
        "writeEnd": ends(written),
        "readStart": starts(read),
        "readEnd": ends(read),
        "wrongWords": column(read, 2),
        "clocks": [
            [before - host_base, device - device_base, after - host_base] for (before, after), device in clock_samples
        ],
    }
    print(json.dumps(times), flush=True)
