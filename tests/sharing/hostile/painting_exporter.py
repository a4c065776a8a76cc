"""Offers a pool whose name and metadata have control characters of every kind, as has the text of its GOODBYE, which
follows if it is told so: painting_exporter.py PATH ["at once"]"""
import json
import signal
import sys

import poolpass_wire as wire

controls = "".join(
    chr(code)
    for codes in ((1, 0x20), (0x7F, 0xA0), (0x2028, 0x202F), (0x2066, 0x206A))
    for code in range(*codes)
)
name = "\x1b]0;owned\x07\r\n[exporter] all is well\u202e" + controls
one = wire.accept(sys.argv[1])
wire.send_pool(one, 1)
one.sendall(wire.pool_offer(1, 1, name.encode(), json.dumps(name, ensure_ascii=False).encode()))
if "at once" in sys.argv:
    one.sendall(wire.goodbye(10, name.encode()))
signal.pause()
