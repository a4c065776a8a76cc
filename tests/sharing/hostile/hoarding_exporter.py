"""Offers COUNT pools, each with a name of NAME and metadata of METADATA bytes:
hoarding_exporter.py PATH COUNT NAME METADATA. Prints the reason and the text of the importer's GOODBYE."""
import struct
import sys
import threading
import time

import poolpass_wire as wire

path, count, name, metadata = sys.argv[1], *map(int, sys.argv[2:5])
one = wire.accept(path)


def print_goodbye():
    while (received := wire.receive(one)) is not None:
        type, body = received
        if type == wire.GOODBYE:
            print(struct.unpack("<H", body[:2])[0], body[8:].decode(), flush=True)
    print("over", flush=True)


reader = threading.Thread(target=print_goodbye)
reader.start()
wire.send_pool(one, 1)
value = b'"' + b"m" * (metadata - 2) + b'"' if metadata > 1 else b""
try:
    for number in range(1, count + 1):
        one.sendall(wire.pool_offer(number, 1, str(number).encode().zfill(name), value))
except OSError:
    pass
reader.join()
time.sleep(1000)
