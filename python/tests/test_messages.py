"""The codec, against the golden messages that every client of the protocol is tested with."""
from __future__ import annotations

import json
import os
import re
import struct
import unittest
from typing import Any

import support

support.use_software_device()

from poolpass import messages as m
from poolpass.errors import SharingError

GOLDEN = os.path.join(support.ROOT, "tests", "sharing", "protocol", "golden_messages")
OCTETS = ("device_uuid", "export_data", "handle", "part")
TYPES = {each.name.replace("_", "-").lower(): each.make for each in m.LAYOUTS}


def golden_entries() -> list[dict[str, Any]]:
    entries = []
    for name in ("messages.json", "longest_messages.json"):
        with open(os.path.join(GOLDEN, name), encoding="utf-8") as file:
            entries += json.load(file)
    return entries


def message_of(fields: dict[str, Any]) -> m.Message:
    values = {re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name): value for name, value in fields.items()}
    for name in OCTETS:
        if name in values:
            values[name] = bytes.fromhex(values[name])
    return TYPES[values.pop("type")](**values)


class MessagesTest(unittest.TestCase):
    def test_golden_messages(self) -> None:
        for entry in golden_entries():
            with self.subTest(entry["name"]):
                expected, data = message_of(entry["message"]), bytes.fromhex(entry["hex"])
                layout, length = m.decode_header(data[: m.HEADER.size])
                self.assertEqual(layout.descriptors, entry["descriptors"])
                self.assertEqual(length, len(data) - m.HEADER.size)
                self.assertEqual(m.decode(layout, data[m.HEADER.size :]), expected)
                self.assertEqual(m.encode(expected), data)

    def test_every_type_is_golden(self) -> None:
        self.assertEqual({type(message_of(each["message"])) for each in golden_entries()}, set(TYPES.values()))

    def test_wrong_lengths_and_counts_of_descriptors_are_refused(self) -> None:
        for entry in golden_entries():
            data = bytes.fromhex(entry["hex"])
            header, body = data[: m.HEADER.size], data[m.HEADER.size :]
            layout, _ = m.decode_header(header)
            for length in (len(body) - 1, len(body) + 1, m.MAXIMUM_BODY + 1):
                if layout.has_open_end and layout.shortest <= length <= m.MAXIMUM_BODY and layout.make is not m.Goodbye:
                    continue
                if layout.make is m.Goodbye and layout.shortest <= length <= layout.struct.size + m.MAXIMUM_TEXT:
                    continue
                with self.subTest(entry["name"], length=length):
                    self.assertRefused(struct.pack("<I", length) + header[4:], (body + b"x")[: max(0, length)])
            with self.subTest(entry["name"], descriptors=1 - entry["descriptors"]):
                self.assertRefused(header[:6] + struct.pack("<H", 1 - entry["descriptors"]), body)

    def test_rules_of_single_fields(self) -> None:
        for what, message in (
            ("size of nothing", m.Allocation(1, 1, 0, bytes(64))),
            ("more than 2^53 - 1 bytes", m.Allocation(1, 1, 2**53, bytes(64))),
            ("export data of 63 bytes", m.Allocation(1, 1, 1, bytes(63))),
            ("identifier 0", m.Wait(0)),
            ("versions that are not a range", m.Hello(2, 1)),
            ("host pool of a device", m.Pool(1, "host", b"1" * 16)),
            ("whole pool with a range", m.Offer(1, "pool", 0, 1, 0, 1, 0, "x", "")),
            ("buffer without memory", m.Offer(1, "buffer", 0, 1, 0, 1, 0, "x", "")),
            ("end behind 2^53 - 1", m.Offer(1, "buffer", 1, 1, 2**53 - 1, 1, 0, "x", "")),
            ("no name", m.Offer(1, "buffer", 1, 1, 0, 1, 0, "", "")),
            ("name with a NUL", m.Offer(1, "buffer", 1, 1, 0, 1, 0, "a\0b", "")),
            ("name with a lone surrogate", m.Offer(1, "buffer", 1, 1, 0, 1, 0, "\ud800", "")),
            ("metadata with NaN", m.Offer(1, "buffer", 1, 1, 0, 1, 0, "x", "NaN")),
            ("metadata that is not JSON", m.Frame(1, 0, 1, 1, False, "{")),
            ("metadata that is nested too deeply", m.Frame(1, 0, 1, 1, False, "[" * 30_000)),
            ("window beyond the ring", m.Channel(1, 1, 1, 2, [1])),
            ("slots that overlap", m.Channel(1, 2, 1, 1, [1])),
            ("slot without an event", m.Channel(1, 1, 1, 1, [0])),
            ("slots of more than 2^53 - 1 bytes", m.Channel(1, 1, 2**53 - 1, 1, [1, 2])),
            ("document without bytes", m.Ask(1, 0, b"")),
        ):
            with self.subTest(what), self.assertRaises(m.ProtocolError):
                m.encode(message)

    def test_unknown_type(self) -> None:
        with self.assertRaisesRegex(m.ProtocolError, "There is no message of type 99"):
            m.decode_header(m.HEADER.pack(4, 99, 0))

    def test_unknown_reason_counts_as_bad_message(self) -> None:
        layout, _ = m.decode_header(m.HEADER.pack(8, 3, 0))
        self.assertEqual(m.decode(layout, struct.pack("<HHHH", 500, 1, 1, 0)).reason, "bad-message")

    def test_metadata(self) -> None:
        self.assertEqual(m.encode_metadata(None), "")
        self.assertEqual(m.encode_metadata({"a": [1, "ü"]}), '{"a":[1,"ü"]}')
        self.assertRaises(TypeError, m.encode_metadata, {1j: 2})
        self.assertRaises(TypeError, m.encode_metadata, float("nan"))
        self.assertRaises(ValueError, m.encode_metadata, "x" * m.MAXIMUM_METADATA)

    def test_errors_of_goodbye(self) -> None:
        self.assertEqual(m.code_of_goodbye("not-released"), "peer-gone")
        self.assertEqual(m.code_of_goodbye("cut-off"), "cut-off")
        self.assertEqual(m.reason_of_error(SharingError("out-of-descriptors", "")), "out-of-resources")
        self.assertEqual(m.reason_of_error(SharingError("size-mismatch", "")), "internal-error")

    def assertRefused(self, header: bytes, body: bytes) -> None:
        with self.assertRaises(m.ProtocolError):
            m.decode(m.decode_header(header)[0], body)


if __name__ == "__main__":
    unittest.main()
