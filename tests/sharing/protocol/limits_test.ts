import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../../support/test.ts";

const root = new URL("../../../", import.meta.url);

/** What the specification says, and the constant of a source that says so. */
const numbers: readonly (readonly [said: string, file: string, constant: string])[] = [
  ["in bytes, at most 65,536", "src/sharing/protocol/messages.ts", "maximumBodyByteLength = 65_536;"],
  ["at most 1,024 bytes", "src/sharing/protocol/messages.ts", "maximumGoodbyeTextByteLength = 1024;"],
  ["name in bytes, 1 to 255", "src/sharing/protocol/messages.ts", "maximumNameByteLength = 255;"],
  ["metadata in bytes, 0 to 32,768", "src/sharing/protocol/messages.ts", "maximumMetadataByteLength = 32_768;"],
  ["number of slots, 1 to 1,024", "src/sharing/protocol/messages.ts", "maximumSlots = 1024;"],
  ["a quarter of `ulimit -n`", "src/sharing/transport/last_descriptors.ts", "reservedPart = 1 / 4;"],
  ["16 to 256", "src/sharing/transport/last_descriptors.ts", "[leastReserved, mostReserved] = [16, 256];"],
  ["16 to 256", "python/poolpass/descriptors.py", "LEAST_RESERVED, MOST_RESERVED = 16, 256"],
  ["poolpass has up to four of them", "ffi/native/shim/foreign.c", "MOST_THREADS 4\n"],
  ["all four have been stuck for a second", "ffi/native/shim/foreign.c", "STUCK_MILLISECONDS 1000\n"],
  ["it has held for a second", "src/sharing/channel/channel_frames.ts", "turnMilliseconds = 1000;"],
  ["30 seconds in a channel that drops", "src/sharing/channel/channel_producer.ts", "defaultHoldTimeout = 30_000;"],
  ["at every opportunity for 16 ms", "src/sharing/events/event_waits.ts", "promptMilliseconds = 16;"],
  ["at most 64 of one peer at a time", "src/sharing/events/event_waits.ts", "maximumPrompt = 64;"],
  ["for a sixteenth of the time", "src/sharing/events/event_waits.ts", "pauseRatio = 1 / 16;"],
  [
    "at most 100 ms (1 s after the end of the connection)",
    "src/sharing/events/event_waits.ts",
    "longestPause = { connected: 100, ended: 1000 }",
  ],
  ["queries at most 32 events of one peer", "src/sharing/events/event_waits.ts", "unfiredPerPause = 32;"],
  ["at most 64 events of the importer", "src/sharing/events/event_waits.ts", "maximumAfterEnd = 64;"],
  ["at most 1,024 events of one peer open", "src/sharing/events/remote_events.ts", "maximumOfPeer = 1024;"],
  ["and 4,096 in a process or Worker", "src/sharing/events/remote_events.ts", "maximumOfProcess = 4096;"],
  ["keeps at most 4,096 of them", "src/sharing/events/event_waits.ts", "maximumKept = 4096;"],
  ["pools of an exporter at a time | 256 |", "src/sharing/importer/remote_memory.ts", "maximumPools = 256;"],
  ["offers of an exporter at a time | 65,536 |", "src/sharing/protocol/messages.ts", "maximumIdentifiers = 65_536;"],
  ["events of an importer at a time | 1,024 |", "src/sharing/protocol/messages.ts", "maximumImporterEvents = 1024;"],
  [
    "64 MiB | `maximumMetadata` |",
    "src/sharing/protocol/messages.ts",
    "defaultMaximumMetadata: number = 64 * 2 ** 20;",
  ],
  ["256 MiB, or more", "src/sharing/importer/remote_offers.ts", "maximumInAll = 256 * 2 ** 20;"],
  ["128 | `maximumHandshakes` |", "src/sharing/exporter/exporter_options.ts", "maximumHandshakes = 128 "],
  ["1,024 | `maximumImporters` |", "src/sharing/exporter/exporter_options.ts", "maximumImporters = 1024,"],
  ["of one process merged above 16 |", "src/sharing/exporter/connected_importer.ts", "maximumLingering = 16;"],
  ["an equal share of 1,024 |", "src/sharing/exporter/acceptor.ts", "maximumEnded = 1024;"],
  ["a sixteenth, 8 to 64 |", "src/sharing/transport/unix_listener.ts", "reservedPart = 1 / 16;"],
  ["8 to 64 |", "src/sharing/transport/unix_listener.ts", "[leastReserved, mostReserved] = [8, 64];"],
  ["fewer than 8 connections", "src/sharing/transport/unix_listener.ts", "fewConnections = 8;"],
  ["256 KiB |", "src/sharing/protocol/message_writer.ts", "backlogByteLength = 256 * 1024;"],
  [
    "at most 65,536 requests wait for a name or for room",
    "src/sharing/store/memories/pending_request.ts",
    "maximumWaiting = 65_536;",
  ],
  ["at most 128 MiB of requests have arrived", "src/sharing/store/store_service.ts", "maximumUnbegun = 128 * 2 ** 20;"],
  ["with 512 bytes for each besides", "src/sharing/store/store_connection.ts", "requestByteLength = 512;"],
  ...["exporter/exporter_options.ts", "importer/connect_to_exporter.ts"].flatMap((file) => [
    ["5 s | `handshakeTimeout` |", `src/sharing/${file}`, "handshakeTimeout = 5000"] as const,
    ["5 s | `messageTimeout` |", `src/sharing/${file}`, "messageTimeout = 5000"] as const,
  ]),
];

test("the numbers of the specification are those of the sources", () => {
  const specification = read("src/sharing/protocol/PROTOCOL.md").replace(/\s+/g, " ");
  const problems = numbers.flatMap(([said, file, constant]) => [
    ...specification.includes(said) ? [] : [`PROTOCOL.md does not say: ${said}`],
    ...read(file).includes(constant) ? [] : [`${file} does not say: ${constant}`],
  ]);
  assertEquals(problems, []);
});

function read(path: string): string {
  return readFileSync(new URL(path, root), "utf8");
}
