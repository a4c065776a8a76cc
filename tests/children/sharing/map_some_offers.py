"""An importer that may open few descriptors: python3 tests/children/sharing/map_some_offers.py PATH NAME...

Does what map_some_offers.ts does. With --export COUNT after PATH, offers so many buffers instead, each of a pool of its
own, until it is killed.
"""
from __future__ import annotations

import os
import signal
import sys
import time

from poolpass import Exporter, Importer, Mapping, MemoryPool, SharingError
from poolpass.cuda import cuda


def export(path: str, count: int) -> None:
    with Exporter.listen(path) as exporter:
        pools = [MemoryPool(0) for _ in range(count)]
        for index, pool in enumerate(pools):
            buffer = pool.allocate(4)
            buffer.write((1000 + index).to_bytes(4, "little"))
            exporter.offer(f"offer {index}", buffer)
        print("ready", flush=True)
        signal.pause()


def map_offers(path: str, names: list[str], holds: int = 0) -> None:
    try:
        # The first connection opens what the whole process shares.
        Importer.connect(path).close()
        cuda().release_stream(0)
        before = len(os.listdir("/proc/self/fd"))
        with Importer.connect(path) as importer:
            held: list[Mapping] = []
            for name in names:
                try:
                    print(f"{name}:", value_of(importer, name, held))
                except SharingError as error:
                    print(f"{name}: {error.code}: {error}")
                if len(held) > holds:
                    held.pop(0).release()
            for mapped in held:
                mapped.release()
        # The thread of a connection that its exporter has ended closes what it has by itself.
        deadline = time.monotonic() + 5
        while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
            time.sleep(0.01)
        print("left open:", max(0, len(os.listdir("/proc/self/fd")) - before))
    except SharingError as error:
        print(f"connect: {error.code}: {error}")


def value_of(importer: Importer, name: str, held: list[Mapping]) -> int:
    offer = importer.offer(name, timeout=20)
    if offer.kind == "pool":
        with offer.import_pool():
            return 0
    mapped = offer.map(timeout=20)
    held.append(mapped)
    return int.from_bytes(mapped.read()[:4], "little")


if sys.argv[2] == "--export":
    export(sys.argv[1], int(sys.argv[3]))
elif sys.argv[2] == "--hold":
    map_offers(sys.argv[1], sys.argv[4:], int(sys.argv[3]))
else:
    map_offers(sys.argv[1], sys.argv[2:])
