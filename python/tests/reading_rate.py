"""Measures how fast safetensors files are read into device memory, from the page cache. Needs a GPU.

python3 python/tests/reading_rate.py [GIB] [FOLDER]
"""
from __future__ import annotations

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from poolpass import allocate_virtual
from poolpass import safetensors_files as files
from poolpass.cuda import cuda

TENSOR = 64 * 2**20


def write_file(path: str, nbytes: int) -> None:
    """Writes tensors of 64 MiB."""
    places = {
        str(begin): {"dtype": "U8", "shape": [TENSOR], "data_offsets": [begin, begin + TENSOR]}
        for begin in range(0, nbytes, TENSOR)
    }
    header = json.dumps(places).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for _ in places:
            file.write(os.urandom(2**20) * (TENSOR // 2**20))


def main() -> None:
    gib = float(sys.argv[1]) if len(sys.argv) > 1 else 16
    folder = sys.argv[2] if len(sys.argv) > 2 else "/dev/shm"
    path = os.path.join(folder, "reading_rate.safetensors")
    nbytes = int(gib * 2**30) // TENSOR * TENSOR
    write_file(path, nbytes)
    try:
        with allocate_virtual(nbytes) as buffer:
            cuda().synchronize_device(0)
            offsets = list(range(0, nbytes, TENSOR))
            for piece, readers, hashes in (
                (4, 8, False), (4, 12, False), (4, 16, False), (8, 16, False), (16, 8, False), (4, 16, True),
            ):
                files._PIECE = piece * 2**20
                rates = []
                for _ in range(4):
                    begin = time.perf_counter()
                    with files.SafetensorsFiles(path) as opened:
                        opened.load(offsets, buffer.address, 0, readers=readers, hashes=hashes)
                    rates.append(nbytes / (time.perf_counter() - begin) / 1e9)
                extra = ", hashed by the CPU" if hashes else ""
                best, first = max(rates), rates[0]
                print(f"{readers} readers of {piece} MiB{extra}: {best:.1f} GB/s, first {first:.1f}", flush=True)
    finally:
        os.unlink(path)


if __name__ == "__main__":
    main()
