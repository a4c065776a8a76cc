"""Exchanges arrays with TypeScript: python3 tests/children/sharing/arrays.py OWN_PATH OTHER_PATH.

Offers an array of each element type at one path, and prints "ready". Then it maps all arrays that are offered at the
other path, and prints name, element type, shape and bytes of each as a line of JSON. It offers until it is killed.
"""
from __future__ import annotations

import json
import signal
import sys

from poolpass import Exporter, Importer, MemoryPool
from poolpass.dtypes import DTYPES

own_path, other_path = sys.argv[1:]
with Exporter.listen(own_path) as exporter, MemoryPool() as pool:
    for dtype in DTYPES:
        array = pool.allocate_array((2, 3), dtype)
        array.write(bytes(range(array.nbytes)))
        exporter.offer(dtype, array)
    scalar = pool.allocate_array((), "float32")
    scalar.write(bytes(range(4)))
    exporter.offer("scalar", scalar)
    print("ready", flush=True)
    with Importer.connect(other_path, wait=30) as importer:
        # The last offer has no element type.
        importer.offer("end", timeout=30)
        for offer in importer.offers():
            with offer.map() as mapped:
                print(json.dumps([offer.name, mapped.dtype, list(mapped.shape), mapped.read().hex()]), flush=True)
                assert (offer.dtype, offer.shape) == (mapped.dtype, mapped.shape)
    signal.pause()
