#!/usr/bin/env python3
"""Imports from exporters of poolpass, and exports to its importers, in any language.

    poolpass_client.py list PATH [--follow]                       lists an exporter's offers; needs no CUDA
    poolpass_client.py import PATH [NAME] [--verify PATTERN] [--hold]
                                                                  maps a buffer, reads it, releases it
    poolpass_client.py consume PATH NAME [--verify PATTERN]       reads the frames of a channel until it ends
    poolpass_client.py export PATH [--bytes 1MiB] [--name NAME] [--pattern PATTERN] [--metadata JSON]
                              [--parts N] [--importers N] [--virtual]
                                                                  offers a buffer and N parts of it

PATTERN describes the bytes. A number S means that byte i is (S + i) mod 251. 0xWWWWWWWW means that each 32-bit word has
this value. "sequence", for `consume` only, means S = the frame's number. The exporter ends on Ctrl-C or once N
importers have disconnected, and frees its memory once no importer uses it. With --virtual, it offers virtual memory,
which can have more than 4 GiB, instead of a pool's.

Needs the package in ../../python: pip install ./python
"""
from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import signal
import struct
import sys
import threading
from typing import Any, Callable

from poolpass import (
    CudaError, CudaUnavailableError, Exporter, Importer, MemoryPool, Peer, RemoteOffer, SharingError, allocate_virtual,
)

PATTERN_PERIOD = 251
PIECE = 16 * 2**20


class WrongByteError(Exception):
    pass


def pattern_bytes(pattern: str, begin: int, length: int) -> bytes:
    """Returns `length` bytes of a pattern, from offset `begin` on."""
    if pattern.startswith("0x"):
        period = struct.pack("<I", int(pattern, 16))
    else:
        period = bytes((int(pattern) + index) % PATTERN_PERIOD for index in range(PATTERN_PERIOD))
    shift = begin % len(period)
    return (period * ((shift + length) // len(period) + 1))[shift : shift + length]


def verify(pattern: str | None, piece: bytes, begin: int, name: str) -> None:
    if pattern is None:
        return
    expected = pattern_bytes(pattern, begin, len(piece))
    if piece != expected:
        wrong = next(index for index, byte in enumerate(piece) if byte != expected[index])
        raise WrongByteError(f"Byte {begin + wrong} of {name} is {piece[wrong]}, and should be {expected[wrong]}")


def printable(text: str) -> str:
    """Escapes the characters that control a terminal: names, metadata and texts of the peer may contain them."""
    return re.sub(
        "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text
    )


def say(line: str) -> None:
    print(printable(line), flush=True)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def describe(offer: RemoteOffer) -> str:
    parts = ["pool"] if offer.kind == "pool" else [offer.kind, f"{offer.nbytes} bytes"]
    if offer.kind == "channel":
        parts.append(f"{offer.slots} slots of {offer.slot_nbytes}")
    if offer.metadata is not None:
        parts.append(as_json(offer.metadata))
    return f"{as_json(offer.name)}: {', '.join(parts)}"


def run_list(options: argparse.Namespace) -> None:
    with Importer.connect(options.path) as importer:
        # The protocol does not mark the end of the existing offers.
        for what, offer in importer.changes(None if options.follow else options.seconds):
            say(f"{what} {describe(offer)}")
        if options.follow:
            say("the exporter has closed")


def run_import(options: argparse.Namespace) -> None:
    with Importer.connect(options.path) as importer:
        offer = importer.offer(options.name, timeout=options.seconds)
        say(f"offer {describe(offer)}")
        name = as_json(offer.name)
        with offer.map() as mapping:
            digest = hashlib.sha256()
            for begin in range(0, mapping.nbytes, PIECE):
                piece = mapping.read(min(PIECE, mapping.nbytes - begin), byte_offset=begin)
                verify(options.verify, piece, begin, name)
                digest.update(piece)
            say(f"read {mapping.nbytes} bytes of {name}, SHA-256 {digest.hexdigest()}")
            if options.verify is not None:
                say(f"verified {name}")
            if options.hold:
                offer.wait_recalled()
                say(f"recalled {name}")
        say(f"released {name}")


def run_consume(options: argparse.Namespace) -> None:
    with Importer.connect(options.path) as importer:
        with importer.channel(options.name, timeout=options.seconds) as channel:
            say(f"offer {describe(importer.offer(options.name, timeout=options.seconds))}")
            count = 0
            for frame in channel:
                with frame:
                    pattern = str(frame.sequence) if options.verify == "sequence" else options.verify
                    verify(pattern, frame.read(), 0, f"frame {frame.sequence}")
                count += 1
            say(f"{'verified' if options.verify else 'read'} {count} frames")


def run_export(options: argparse.Namespace) -> None:
    left = threading.Semaphore(0)
    connected: set[Peer] = set()
    is_closing = threading.Event()

    def on_connect(peer: Peer) -> None:
        connected.add(peer)
        say(f"importer {peer.pid} connected")

    def on_disconnect(peer: Peer, error: SharingError | None) -> None:
        if not is_closing.is_set():
            say(f"importer {peer.pid} disconnected: {error or 'done'}")
        if peer in connected:
            left.release()

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with MemoryPool() as pool:
        buffer = allocate_virtual(options.bytes) if options.virtual else pool.allocate(options.bytes)
        buffer.write(pattern_bytes(options.pattern, 0, options.bytes))
        with Exporter.listen(
            options.path, close_timeout=math.inf, on_connect=on_connect, on_disconnect=on_disconnect,
            on_hold=lambda name, peer: say(f"held {as_json(name)} by {peer.pid}"),
            on_release=lambda name, peer: say(f"released {as_json(name)} by {peer.pid}"),
        ) as exporter:
            exporter.offer(options.name, buffer, metadata=options.metadata)
            length = options.bytes // max(1, options.parts)
            for part in range(options.parts):
                view = buffer.view("uint8", (length,), byte_offset=part * length)
                exporter.offer(f"{options.name}/{part}", view)
            say(f"listening at {options.path}")
            try:
                for _ in range(options.importers or sys.maxsize):
                    left.acquire()
            except KeyboardInterrupt:
                pass
            is_closing.set()
        buffer.free()
    say(f"freed {options.bytes} bytes")


def check_pattern(text: str) -> str:
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}|\d+|sequence", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a pattern")
    return text


def check_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)(|B|KiB|MiB|GiB)", text)
    units = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(match[1]) * units[match[2]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="poolpass_client.py", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help)
        command.set_defaults(run=run)
        command.add_argument("path")
        return command

    listing = add("list", run_list, "print what an exporter offers")
    listing.add_argument("--follow", action="store_true", help="print changes until the exporter closes")
    listing.add_argument("--seconds", type=float, default=0.5, help="how long to wait for offers without --follow")
    importing = add("import", run_import, "read a buffer")
    importing.add_argument("name", nargs="?")
    importing.add_argument("--hold", action="store_true", help="keep it until the exporter recalls it")
    consuming = add("consume", run_consume, "read the frames of a channel")
    consuming.add_argument("name")
    for command in (importing, consuming):
        command.add_argument("--verify", type=check_pattern, metavar="PATTERN")
        command.add_argument("--seconds", type=float, default=30.0, help="how long to wait for the offer")
    exporting = add("export", run_export, "offer a buffer")
    exporting.add_argument("--bytes", type=check_bytes, default=2**20)
    exporting.add_argument("--name", default="buffer")
    exporting.add_argument("--pattern", type=check_pattern, default="0")
    exporting.add_argument("--metadata", type=json.loads, metavar="JSON")
    exporting.add_argument("--parts", type=int, default=0)
    exporting.add_argument("--importers", type=int, default=0)
    exporting.add_argument("--virtual", action="store_true", help="offer virtual memory")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    try:
        options.run(options)
        return 0
    except KeyboardInterrupt:
        return 130
    except (SharingError, CudaError, CudaUnavailableError, WrongByteError) as error:
        print(f"Error: {printable(str(error))}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
