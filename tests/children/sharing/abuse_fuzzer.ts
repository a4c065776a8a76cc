// Sends invalid streams to an end of sharing: node tests/children/sharing/abuse_fuzzer.ts MODE PATH SEED COUNT [DEALER].
// "importer" connects to PATH COUNT times; "exporter" listens there and serves COUNT connections. A stream is the begin
// of a session that the protocol allows, and messages that break its rules. Both depend only on the stream's seed, apart
// from the frames that the session is about. Descriptors of every kind come with any message, and at any of its bytes;
// DEALER is the socket from which files of FUSE come. Every 64th seed sends a whole session and GOODBYE instead. It is an error
// if the peer ends a connection while a session waits for its messages.
import { readFileSync } from "node:fs";
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { connectTo, sendTo } from "../../../ffi/native/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { open } from "../../../src/open.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { decodeHeader, decodeMessage, headerByteLength } from "../../../src/sharing/protocol/decode_message.ts";
import { encodeMessage } from "../../../src/sharing/protocol/encode_message.ts";
import { MessageReader } from "../../../src/sharing/protocol/message_reader.ts";
import type { EventMessage, FrameMessage, Message } from "../../../src/sharing/protocol/messages.ts";
import { readable, waitFor } from "../../../src/sharing/transport/poller.ts";
import { takeConnection } from "../../../src/sharing/transport/unix_socket.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { parseUuid } from "../../../src/support/uuid.ts";
import { type Random, randomFor } from "../../support/ptx_mutations.ts";
import { isLegal, joined, spoiltStream } from "../../sharing/protocol/mutations.ts";
import { DescriptorKinds, type SentDescriptor } from "./descriptor_kinds.ts";

/** The messages that a peer has sent. */
class ReceivedMessages {
  readonly #fd: number;
  readonly #seed: number;
  readonly #reader: MessageReader;
  readonly #counts = new Map<Message["type"], number>();
  #frame: FrameMessage | undefined;

  constructor(fd: number, seed: number) {
    this.#fd = fd;
    this.#seed = seed;
    this.#reader = new MessageReader(fd, { pid: process.ppid, uid: 0, gid: 0 });
  }

  /** Waits until enough messages have come. */
  async until(isEnough: (count: (type: Message["type"]) => number) => boolean): Promise<void> {
    const signal = AbortSignal.timeout(answerPatience);
    const count = (type: Message["type"]): number => this.#counts.get(type) ?? 0;
    while (!isEnough(count)) {
      if (!await this.#receive(signal)) throw this.#error(`no answer comes, only ${[...this.#counts.keys()]}`);
    }
  }

  /** Waits for a frame. Resolves with undefined if none comes. */
  async frame(): Promise<FrameMessage | undefined> {
    const signal = AbortSignal.timeout(framePatience);
    while (this.#frame === undefined && await this.#receive(signal));
    return this.#frame;
  }

  /** Waits for a message. Resolves with false if the signal is aborted. */
  async #receive(signal: AbortSignal): Promise<boolean> {
    for (;;) {
      const message = this.#next();
      if (message !== undefined) {
        this.#note(message);
        return true;
      }
      await waitFor([{ fd: this.#fd, events: readable }], [signal]).catch(() => {});
      if (signal.aborted) return false;
    }
  }

  #next(): Message | undefined {
    try {
      return this.#reader.next() ?? (this.#reader.receive() > 0 ? this.#reader.next() : undefined);
    } catch (cause) {
      throw this.#error("the peer ends the connection", cause);
    }
  }

  #note(message: Message): void {
    if (message.type === "goodbye") throw this.#error(`the peer says goodbye: ${message.reason}: ${message.text}`);
    if (message.type === "pool") message.handle[Symbol.dispose]();
    if (message.type === "frame") this.#frame = message;
    this.#counts.set(message.type, (this.#counts.get(message.type) ?? 0) + 1);
  }

  #error(what: string, cause?: unknown): Error {
    return new Error(`The session of seed ${this.#seed} cannot go on: ${what}`, { cause });
  }
}

const [mode, path, firstSeed, count, dealer] = process.argv.slice(2) as [string, string, string, string, string?];
const cuda = open({ driver: "software" });
const gpu = cuda.device(0);
const pool = gpu.createPool({ handleType: "posix-fd" });
const exported = pool.exportHandle();
const exportData = pool.allocate(4096).exportPointer();
const deviceUuid = parseUuid(gpu.uuid);
const handle = gpu.createEvent({ interprocess: true }).exportHandle();
/** Descriptors to send. The pool's own is more likely than others. */
const descriptorKinds = new DescriptorKinds([exported.fd, exported.fd, exported.fd, exported.fd], dealer);
/** A stand-in for a descriptor, for the decoder. */
const anyHandle = ShareableHandle.fromBytes(new Uint8Array(64));
/** The number of connections that an importer has at a time. */
const connectionsAtOnce = 8;
/** The number of offers that the exporter under test makes, and of those of a session. */
const offers = 3;
/** Milliseconds for the peer's answer. */
const answerPatience = 10_000;
/** Milliseconds for a frame, which does not come while earlier streams hold all slots. */
const framePatience = 20;

/** The messages of each end, in an order that the protocol allows once the peer's messages have come. */
const sessions: Readonly<Record<string, readonly (readonly Message[])[]>> = {
  importer: [
    [held(1), eventOf(1), released(1, 1), held(1), released(1, 0)],
    [held(2), joinOf(2), releaseSlot(2, 0, 1, 0), released(2, 0)],
    [held(3), eventOf(2), released(3, 0)],
    [eventOf(1), eventOf(2), held(2), joinOf(2), releaseSlot(2, 0, 1, 1), released(2, 2)],
    [
      { ...eventOf(3), handle: new Uint8Array(64) },
      held(1),
      released(1, 3),
      { type: "fired", event: 3 },
      { type: "wait", event: 1 },
    ],
  ],
  exporter: [[
    { type: "pool", pool: 1, kind: "device", deviceUuid, handle: exported },
    { type: "allocation", allocation: 1, pool: 1, byteLength: 4096, exportData },
    eventOf(1),
    offer(1, "buffer"),
    offer(2, "channel"),
    { type: "channel", offer: 2, slotByteLength: 32, slotStride: 32, window: 2, readyEvents: [1, 1] },
    offer(3, "pool"),
    frame(1),
    { type: "recall", offer: 1 },
    frame(2),
    { type: "withdraw", offer: 3 },
    { type: "end", offer: 2 },
    { type: "withdraw", offer: 2 },
    { type: "withdraw", offer: 1 },
    { type: "forget", kind: "allocation", identifier: 1 },
  ]],
};
const greeting: Message = mode === "importer"
  ? { type: "hello", lowestVersion: 1, highestVersion: 1 }
  : { type: "welcome", version: 1 };
const goodbye: Message = { type: "goodbye", reason: "done", lowestVersion: 1, highestVersion: 1, text: "" };
const golden = (JSON.parse(
  readFileSync(new URL("../../sharing/protocol/golden_messages/messages.json", import.meta.url), "utf8"),
) as {
  readonly hex: string;
}[]).map(({ hex }) => Uint8Array.fromHex(hex));
const own = sessions[mode]!.flat().map(encodeMessage);
/** Messages that are valid for this end occur more often than others. */
const messages = [...own, ...own, ...golden];

if (mode === "importer") {
  let seed = Number(firstSeed);
  const end = seed + Number(count);
  await Promise.all(Array.from({ length: connectionsAtOnce }, async () => {
    while (seed < end) await send(connected(), seed++);
  }));
} else {
  await using listener = UnixListener.listen(path);
  console.log("ready");
  const streams: Promise<void>[] = [];
  for (let i = 0; i < Number(count); i++) {
    const { fd, pidfd } = takeConnection(await listener.accept());
    if (pidfd >= 0) closeDescriptor(pidfd);
    streams.push(send(fd, Number(firstSeed) + i));
  }
  await Promise.all(streams);
}
console.log("done");
process.exit();

/** Sends the stream of a seed and closes the connection. */
async function send(connection: number | Promise<number>, seed: number): Promise<void> {
  const fd = await connection;
  const random = randomFor(`session ${seed}`);
  const spoilt = spoiltStream(messages, seed).pieces;
  parse(joined(spoilt), seed);
  const session = random.pick(sessions[mode]!);
  const begin = session.slice(0, random.below(session.length + 1));
  const isGreeted = random.below(16) > 0;
  if (isLegal(seed)) {
    await sendSession(fd, session, seed);
    sendTo(fd, encodeMessage(goodbye), []);
  } else if (isGreeted) {
    await sendSession(fd, begin, seed);
    sendPieces(fd, spoilt, random);
  } else {
    sendPieces(fd, [...begin.map(encodeMessage), ...spoilt], random);
  }
  closeDescriptor(fd);
}

function sendPieces(fd: number, pieces: readonly Uint8Array[], random: Random): void {
  for (const piece of pieces) {
    if (piece.length === 0) continue;
    // Descriptors belong to the first byte of a message. Elsewhere they are refused.
    const at = random.below(16) === 0 ? random.below(piece.length) : 0;
    const descriptors = descriptorsOf(piece, random);
    if (at > 0 && sendTo(fd, piece.subarray(0, at), []) < at) return;
    // The system limits the unread bytes of a peer. Sending stops there, because a gap would end the stream anyway.
    if (sendWith(fd, piece.subarray(at), descriptors) < piece.length - at) return;
  }
}

/** Sends bytes with descriptors, or without them if the receiver has the system refuse them. */
function sendWith(fd: number, bytes: Uint8Array, descriptors: readonly SentDescriptor[]): number {
  let sent = sendTo(fd, bytes, descriptors.map(({ fd }) => fd));
  for (const descriptor of descriptors) descriptor.sent(sent > 0);
  if (sent === -errno.EPERM && descriptors.length > 0) sent = sendTo(fd, bytes, []);
  return sent;
}

/** Greets and sends messages of a session, each as soon as the peer's messages allow it. */
async function sendSession(fd: number, session: readonly Message[], seed: number): Promise<void> {
  const received = new ReceivedMessages(fd, seed);
  sendTo(fd, encodeMessage(greeting), []);
  if (mode === "importer") await received.until((count) => count("offer") === offers);
  for (let message of session) {
    if (message.type === "release-slot") {
      const frame = await received.frame();
      if (frame === undefined) return;
      const { slot, sequence } = frame;
      message = { ...message, slot, sequence };
    }
    if (message.type === "fired") await received.until((count) => count("wait") === 1);
    if (message.type === "frame") await received.until((count) => count("join") === 1);
    if (message.type === "forget") {
      await received.until((count) => count("withdrawn") === offers && count("held") === count("released"));
    }
    sendTo(fd, encodeMessage(message), message.type === "pool" ? [exported.fd] : []);
  }
}

/** Returns mostly as many descriptors as the message announces. */
function descriptorsOf(piece: Uint8Array, random: Random): SentDescriptor[] {
  const announced = piece.length > 6 ? Math.min(piece[6]!, 3) : 0;
  const number = random.below(8) === 0 ? random.below(4) : announced;
  return Array.from({ length: number }, () => descriptorKinds.pick(random));
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

function eventOf(event: number): EventMessage {
  return { type: "event", event, deviceUuid, handle };
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
