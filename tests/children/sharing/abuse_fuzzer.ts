// Sends invalid streams to an end of sharing: node tests/children/sharing/abuse_fuzzer.ts MODE PATH SEED COUNT.
// "importer" connects to PATH COUNT times; "exporter" listens there and serves COUNT connections. Each stream depends
// only on its seed.
import { readFileSync } from "node:fs";
import process from "node:process";
import { closeDescriptor, openDescriptor } from "../../../ffi/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/shim/memory_files.ts";
import { connectTo, sendTo } from "../../../ffi/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { open } from "../../../src/open.ts";
import { ShareableHandle } from "../../../src/memory/shareable_handle.ts";
import { decodeHeader, decodeMessage, headerByteLength } from "../../../src/sharing/protocol/decode_message.ts";
import { encodeMessage } from "../../../src/sharing/protocol/encode_message.ts";
import type { Message } from "../../../src/sharing/protocol/messages.ts";
import { takeConnection } from "../../../src/sharing/transport/unix_socket.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { parseUuid } from "../../../src/support/uuid.ts";
import { type Random, randomFor } from "../../support/ptx_mutations.ts";
import { joined, spoiltStream } from "../../sharing/protocol/mutations.ts";

const [mode, path, firstSeed, count] = process.argv.slice(2) as [string, string, string, string];
const cuda = open({ driver: "software" });
const gpu = cuda.device(0);
const pool = gpu.createPool({ handleType: "posix-fd" });
const exported = pool.exportHandle();
const exportData = pool.allocate(4096).exportPointer();
const deviceUuid = parseUuid(gpu.uuid);
const handle = gpu.createEvent({ interprocess: true }).exportHandle();
/** Descriptors to send with messages that announce one. */
const descriptors = [exported.fd, exported.fd, openDescriptor("/dev/null"), createMemoryFile("poolpass-test", 65_536)];
/** A stand-in for a descriptor, for the decoder. */
const anyHandle = ShareableHandle.fromBytes(new Uint8Array(64));

/** The messages of each end, in an order that the protocol allows. */
const sessions: Readonly<Record<string, readonly (readonly Message[])[]>> = {
  importer: [
    [held(1), { type: "event", event: 1, deviceUuid, handle }, released(1, 1), held(1), released(1, 0)],
    [held(2), joinOf(2), { type: "taken", offer: 2, sequence: 1 }, releaseSlot(2, 0, 1, 0), released(2, 0)],
    [held(3), { type: "event", event: 2, deviceUuid, handle }, released(3, 0), joinOf(3)],
    [{ type: "event", event: 1, deviceUuid, handle }, held(2), joinOf(2), releaseSlot(2, 0, 1, 1), released(2, 1)],
  ],
  exporter: [[
    { type: "pool", pool: 1, kind: "device", deviceUuid, handle: exported },
    { type: "allocation", allocation: 1, pool: 1, byteLength: 4096, exportData },
    { type: "event", event: 1, deviceUuid, handle },
    offer(1, "buffer"),
    offer(2, "channel"),
    { type: "channel", offer: 2, slotByteLength: 32, slotStride: 32, window: 2, readyEvents: [1, 1] },
    offer(3, "pool"),
    frame(1),
    { type: "recall", offer: 1 },
    frame(2),
    { type: "withdraw", offer: 3 },
    { type: "end", offer: 2 },
    { type: "withdraw", offer: 1 },
    { type: "forget", kind: "allocation", identifier: 1 },
  ]],
};
const greeting: Message = mode === "importer"
  ? { type: "hello", lowestVersion: 1, highestVersion: 1 }
  : { type: "welcome", version: 1 };
const golden = (JSON.parse(
  readFileSync(new URL("../../sharing/protocol/golden_messages/messages.json", import.meta.url), "utf8"),
) as {
  readonly hex: string;
}[]).map(({ hex }) => Uint8Array.fromHex(hex));
const own = sessions[mode]!.flat().map(encodeMessage);
/** Messages that are valid for this end occur more often than others. */
const messages = [...own, ...own, ...golden];

if (mode === "importer") {
  for (let i = 0; i < Number(count); i++) send(await connected(), Number(firstSeed) + i);
} else {
  await using listener = UnixListener.listen(path);
  console.log("ready");
  for (let i = 0; i < Number(count); i++) {
    const { fd, pidfd } = takeConnection(await listener.accept());
    if (pidfd >= 0) closeDescriptor(pidfd);
    send(fd, Number(firstSeed) + i);
  }
}
console.log("done");
process.exit();

/** Sends the stream of a seed and closes the connection. */
function send(fd: number, seed: number): void {
  const random = randomFor(`session ${seed}`);
  const spoilt = spoiltStream(messages, seed).pieces;
  parse(joined(spoilt), seed);
  const session = random.pick(sessions[mode]!);
  const begin = session.slice(0, random.below(session.length + 1)).map(encodeMessage);
  const isGreeted = random.below(16) > 0;
  for (const piece of [...isGreeted ? [encodeMessage(greeting)] : [], ...begin, ...spoilt]) {
    if (piece.length === 0) continue;
    // The system limits the unread bytes of a peer. Sending stops there, because a gap would end the stream anyway.
    if (sendTo(fd, piece, descriptorsOf(piece, random)) < piece.length) break;
  }
  closeDescriptor(fd);
}

/** Returns mostly as many descriptors as the message announces. */
function descriptorsOf(piece: Uint8Array, random: Random): number[] {
  const announced = piece.length > 6 ? Math.min(piece[6]!, 3) : 0;
  const number = random.below(24) === 0 ? random.below(3) : announced;
  return Array.from({ length: number }, () => random.pick(descriptors));
}

/** Decodes a stream. Every invalid message must be refused with the code "bad-message". */
function parse(bytes: Uint8Array, seed: number): void {
  try {
    for (let position = 0; position + headerByteLength <= bytes.length;) {
      const header = decodeHeader(bytes, position);
      const begin = position + headerByteLength;
      position = begin + header.bodyByteLength;
      if (position > bytes.length) return;
      decodeMessage(header, bytes.subarray(begin, position), header.descriptors > 0 ? anyHandle : undefined);
    }
  } catch (error) {
    if (!(error instanceof SharingError && error.code === "bad-message")) {
      throw new Error(`The stream of seed ${seed} is refused with another kind of error`, { cause: error });
    }
  }
}

async function connected(): Promise<number> {
  for (;;) {
    const fd = connectTo(path);
    if (fd >= 0) return fd;
    if (fd !== -errno.EAGAIN) throw new SystemError(-fd, "connect");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

function held(offer: number): Message {
  return { type: "held", offer };
}

function released(offer: number, event: number): Message {
  return { type: "released", offer, event };
}

function joinOf(offer: number): Message {
  return { type: "join", offer };
}

function releaseSlot(offer: number, slot: number, sequence: number, event: number): Message {
  return { type: "release-slot", offer, slot, sequence, event };
}

function offer(number: number, kind: "buffer" | "channel" | "pool"): Message {
  const isPool = kind === "pool";
  return {
    type: "offer",
    offer: number,
    kind,
    allocation: isPool ? 0 : 1,
    pool: 1,
    byteOffset: 0,
    byteLength: isPool ? 0 : 64,
    readyEvent: isPool ? 0 : 1,
    name: kind,
    metadata: "",
  };
}

function frame(sequence: number): Message {
  const slot = sequence - 1;
  return { type: "frame", offer: 2, slot, sequence, byteLength: 32, hasEvent: true, metadata: "[1]" };
}
