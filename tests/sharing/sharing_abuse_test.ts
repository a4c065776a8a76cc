import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { chmodSync, chownSync, lstatSync, mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import type { Cuda } from "../../src/objects/cuda.ts";
import { CudaError, SharingError, type SharingErrorCode } from "../../src/support/errors.ts";
import { open } from "../../src/open.ts";
import type { ChannelProducer } from "../../src/sharing/channel/channel_producer.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { Exporter, type ExporterOptions } from "../../src/sharing/exporter/exporter.ts";
import { Importer, type ImporterOptions } from "../../src/sharing/importer/importer.ts";
import type { GoodbyeReason, Message, OfferMessage, OfferNotice } from "../../src/sharing/protocol/messages.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { parseUuid } from "../../src/support/uuid.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { countResources, difference, leakTest } from "../support/resources.ts";
import { joined } from "./protocol/mutations.ts";
import { receiveMessage, sendMessage } from "../support/software_messages.ts";
import { isLong, someOf, type TestOptions } from "../support/test.ts";

/** Milliseconds in which a peer's actions must take effect. */
const promptly = 1000;
/** Milliseconds for a child to start, and for long transmissions. */
const longTimeout = 20_000;
const slots = 4;
/** Linux 6.16 and newer refuse to send descriptors to an exporter. */
const refusedBySystem = "sendmsg failed: EPERM";

/** The process that breaks the protocol's rules. */
class AbusivePeer implements AsyncDisposable {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #control: UnixSocket;

  private constructor(child: ChildProcess, control: UnixSocket) {
    this.#child = child;
    this.#control = control;
    this.pid = child.pid;
  }

  static async start(folder: string): Promise<AbusivePeer> {
    await using stack = new AsyncDisposableStack();
    const listener = stack.use(UnixListener.listen(`${folder}/control`));
    const child = stack.use(startScript("children/sharing/abuse_peer.ts", [listener.path]));
    const control = await listener.accept({ signal: AbortSignal.timeout(longTimeout) });
    stack.move();
    const peer = new AbusivePeer(child, control);
    peer.#listener = listener;
    return peer;
  }

  /** Stays open, so that sockets which are not pools can connect to it. */
  #listener: UnixListener | undefined;

  async call<Result>(name: string, ...args: unknown[]): Promise<Result> {
    await sendMessage(this.#control, { name, args });
    const { result, error } = await receiveMessage(this.#control) as { result: Result; error?: string };
    if (error !== undefined) throw new Error(`The peer cannot ${name}: ${error}`);
    return result;
  }

  connect(path: string): Promise<number> {
    return this.call("connect", path);
  }

  /**
   * Sends messages in succession. The named descriptors all go with the first byte of the first message, which then has
   * a write of its own. Returns the system's error, or "" if everything was sent.
   */
  async send(
    connection: number,
    messages: readonly (Message | Uint8Array)[],
    descriptors: string[] = [],
  ): Promise<string> {
    const [first, ...rest] = messages.map((each) => each instanceof Uint8Array ? each : encodeMessage(each));
    if (first === undefined) return "";
    if (descriptors.length === 0) return await this.call("send", connection, joined([first, ...rest]), []);
    const error = await this.call<string>("send", connection, first, descriptors);
    return error || await this.call<string>("send", connection, joined(rest), []);
  }

  /** The types of the messages received, up to `last` or the end of the connection, with a goodbye's reason. */
  receive(connection: number, last = "goodbye"): Promise<string[]> {
    return this.call("receive", connection, last);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child[Symbol.asyncDispose]();
    await this.#control[Symbol.asyncDispose]();
    await this.#listener?.[Symbol.asyncDispose]();
  }
}

/** An exporter, a well-behaved importer, and an abusive peer. */
interface Fixture {
  readonly folder: string;
  readonly cuda: Cuda;
  readonly exporter: Exporter;
  readonly peer: AbusivePeer;
  /** A channel whose only consumers are the peer's. */
  readonly other: ChannelProducer;
  /** Resolves with the error that ended the next connection, promptly unless `milliseconds` is given. */
  ended(context: string, milliseconds?: number): Promise<SharingError | undefined>;
  /** Resolves with the errors of the next connections, when `count` have ended. */
  allEnded(count: number): Promise<(SharingError | undefined)[]>;
  /** Fails unless the other connections work as before. */
  assertUndisturbed(): Promise<void>;
}

/** The numbers of the offers of a fixture's exporter. */
const [weights, frames, other] = [1, 2, 3];

async function withFixture(options: ExporterOptions, body: (fixture: Fixture) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using stack = new AsyncDisposableStack();
    const cuda = stack.use(open({ driver: "software" }));
    const pool = stack.use(cuda.device(0).createPool({ handleType: "posix-fd" }));
    const ends: (SharingError | undefined)[] = [];
    let wake: () => void = () => {};
    const exporter = stack.use(Exporter.listen(`${folder}/exporter`, {
      closeTimeout: 0,
      ...options,
      onDisconnect(_peer, error) {
        ends.push(error);
        wake();
      },
    }));
    const buffer = stack.use(pool.allocateArray(Uint32Array, 1024));
    exporter.offer("weights", buffer);
    const channel = exporter.createChannel("frames", { pool, slots, slotByteLength: 4 });
    const otherChannel = exporter.createChannel("other", { pool, slots, slotByteLength: 4, minimumConsumers: 0 });
    exporter.offer("everything", pool);
    const starting = AbusivePeer.start(folder);
    const bystander = stack.use(
      startScript("children/sharing/abuse_bystander.ts", [exporter.path, `${folder}/bystander`], {
        permissions: ["-A"],
      }),
    );
    const peer = stack.use(await starting);
    assertEquals(await bystander.nextLine(), "ready");
    const importer = stack.use(await Importer.connect(cuda, `${folder}/bystander`, { closeTimeout: 0 }));
    let frame = 0;
    await body({
      folder,
      cuda,
      exporter,
      peer,
      other: otherChannel,
      async ended(context, milliseconds) {
        const ended = new Promise<void>((resolve) => ends.length > 0 ? resolve() : wake = resolve);
        await within(ended, `${context}: no connection ended`, milliseconds);
        return ends.shift();
      },
      async allEnded(count) {
        await until(() => ends.length >= count, `Not all of ${count} connections ended`);
        return ends.splice(0, count);
      },
      async assertUndisturbed() {
        using slot = await channel.reserve();
        slot.buffer.copyFrom(Uint32Array.of(++frame));
        channel.send(slot, { metadata: frame });
        const all = Array.from({ length: slots }, () => channel.reserve());
        for (const each of await within(Promise.all(all), "A frame was not released")) each[Symbol.dispose]();
        using steady = await (await importer.offer("steady")).map();
        assertEquals((await steady.read(Uint32Array)).slice(0, 4), Uint32Array.of(1, 2, 3, 4));
        assertEquals(ends.length, 0, ends[0]?.message);
      },
    });
    await peer[Symbol.asyncDispose]();
    const isBystander = ({ pid }: { pid: number }) => pid === bystander.pid;
    await until(
      () => exporter.leases.every((lease) => isBystander(lease.peer)) && exporter.importers.every(isBystander),
      "The dead peer's leases or connections stay",
    );
    assertEquals(exporter.importers.map(({ pid }) => pid), [bystander.pid]);
    bystander.kill("SIGKILL");
    await until(() => exporter.leases.length === 0, "The bystander's leases stay");
    for (const each of [channel, otherChannel]) await each[Symbol.asyncDispose]();
    buffer.free();
    await until(() => pool.usage().used === 0, "The memory is not free");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function fixtureTest(
  name: string,
  body: (fixture: Fixture) => Promise<void>,
  { long, ...options }: ExporterOptions & TestOptions = {},
): void {
  leakTest(name, () => withFixture(options, body), { long, warmUp });
}

function warmUp(): Promise<void> {
  return withFixture({}, ({ assertUndisturbed }) => assertUndisturbed());
}

async function within<Result>(promise: Promise<Result>, what: string, milliseconds = promptly): Promise<Result> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} within ${milliseconds} ms`)), milliseconds);
  });
  return await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Waits for a condition that has no callback. */
async function until(isSo: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + promptly;
  while (!isSo()) {
    assert(performance.now() < deadline, what);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

function assertCode(error: unknown, code: SharingErrorCode, text: string, context: string): void {
  assertInstanceOf(error, SharingError, `${context}: ${error}`);
  assertEquals((error as SharingError).code, code, `${context}: ${(error as Error).message}`);
  assertStringIncludes((error as Error).message, text, context);
}

async function assertNotifiedAndClosed(
  peer: AbusivePeer,
  connection: number,
  { reason, what }: { reason: string; what: string },
): Promise<void> {
  assertEquals((await within(peer.receive(connection), what)).at(-1), `goodbye: ${reason}`, what);
  await peer.call("close", connection);
}

function hello(lowestVersion = 1, highestVersion = lowestVersion): Message {
  return { type: "hello", lowestVersion, highestVersion };
}

function notice(type: OfferNotice["type"] | "join", offer: number): Message {
  return { type, offer } as Message;
}

function released(offer: number, event = 0): Message {
  return { type: "released", offer, event };
}

function releaseSlot(offer: number, slot: number, sequence: number, event = 0): Message {
  return { type: "release-slot", offer, slot, sequence, event };
}

function header(bodyByteLength: number, type: number, descriptors = 0): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setUint32(0, bodyByteLength, true);
  view.setUint16(4, type, true);
  view.setUint16(6, descriptors, true);
  return new Uint8Array(view.buffer);
}

/** Messages that are sent after HELLO, and the exporter's error. */
type Violation = readonly [what: string, messages: readonly (Message | Uint8Array)[], text: string];

const pool: Message = {
  type: "pool",
  pool: 1,
  kind: "host",
  deviceUuid: new Uint8Array(16),
  handle: undefined as never,
};

fixtureTest("messages that no importer may send end its connection, and no other", async (fixture) => {
  const { cuda, exporter, peer } = fixture;
  const deviceUuid = parseUuid(cuda.device(0).uuid);
  const { event: handle } = await peer.call<{ event: Uint8Array<ArrayBuffer> }>("memory");
  const pending = await peer.call<Uint8Array<ArrayBuffer>>("pendingEvent");
  const event = (handle: Uint8Array<ArrayBuffer>, number = 1, uuid = deviceUuid): Message => ({
    type: "event",
    event: number,
    deviceUuid: uuid,
    handle,
  });
  const garbage = new Uint8Array(64).fill(0xa5);
  const fired: Message = { type: "fired", event: 1 };
  const joinOther = [notice("held", other), notice("join", other)];
  const violations: readonly Violation[] = [
    ["HELLO again", [hello()], 'a message "hello" comes from an importer'],
    ["WELCOME", [{ type: "welcome", version: 1 }], 'a message "welcome" comes from an importer'],
    ["HELD of an offer that was not made", [notice("held", 99)], "offer 99 was not made"],
    ["RELEASED of an offer that was not held", [released(weights)], "offer 1 is released and was not held"],
    ["RELEASED of an offer that was not made", [released(99)], "offer 99 was not made"],
    ["RELEASED twice", [notice("held", weights), released(weights), released(weights)], "and was not held"],
    ["RELEASED with an unknown event", [notice("held", weights), released(weights, 7)], "event 7 was not announced"],
    ["EVENT twice", [event(handle), event(handle)], "event 1 is announced twice"],
    ["WAIT for no event", [{ type: "wait", event: 99 }], "event 99 is waited for and was not announced"],
    ["FIRED of no event", [{ type: "fired", event: 1 }], "event 1 was not announced"],
    ["FIRED without WAIT", [event(handle), { type: "fired", event: 1 }], "FIRED for event 1 answers no WAIT"],
    [
      "FIRED twice",
      [event(garbage), notice("held", weights), released(weights, 1), fired, fired],
      "FIRED for event 1 answers no WAIT",
    ],
    [
      "FIRED for an event that can be opened",
      [event(pending), notice("held", weights), released(weights, 1), fired],
      "FIRED for event 1 answers no WAIT",
    ],
    [
      "an event in use by another wait",
      [event(pending), notice("held", weights), notice("held", weights), released(weights, 1), released(weights, 1)],
      "event 1 is used again before EVENT_FREE",
    ],
    ["WITHDRAWN without WITHDRAW", [notice("withdrawn", weights)], "answers no WITHDRAW"],
    ["JOIN of a buffer", [notice("held", weights), notice("join", weights)], "offer 1 is not a channel"],
    ["JOIN of a channel that is not held", [notice("join", other)], "channel 3 is used and was not held"],
    ["JOIN twice", [...joinOther, notice("join", other)], '"other" is joined twice'],
    ["RELEASE_SLOT without JOIN", [notice("held", other), releaseSlot(other, 0, 1)], '"other" was not joined'],
    [
      "RELEASE_SLOT of a frame that was not sent",
      [...joinOther, releaseSlot(other, 3, 1)],
      'frame 1 in slot 3 of "other" is released and was not held',
    ],
    ["RELEASE_SLOT of a buffer", [releaseSlot(weights, 0, 1)], "offer 1 is not a channel"],
    ["WITHDRAW", [notice("withdraw", weights)], 'a message "withdraw" comes from an importer'],
    ["RECALL", [notice("recall", weights)], 'a message "recall" comes from an importer'],
    ["END", [notice("end", frames)], 'a message "end" comes from an importer'],
    ["FORGET", [{ type: "forget", kind: "pool", identifier: 1 }], 'a message "forget" comes from an importer'],
    ["EVENT_FREE", [{ type: "event-free", event: 1 }], 'a message "event-free" comes from an importer'],
    ["POOL without a descriptor", [pool], "the descriptor that it declares did not come"],
    ["a length of 4 GiB", [header(2 ** 32 - 1, 32)], "its length is 4294967295; it takes 4"],
    ["an unknown type", [header(4, 99)], "message of type 99: the protocol has no such type"],
    ["65,535 announced descriptors", [header(24, 16, 65_535)], "its count of descriptors is 65535; it takes 1"],
    ["text", [new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n")], "the protocol has no such type"],
  ];
  for (const [what, messages, text] of someOf(violations, 2)) {
    const connection = await peer.connect(exporter.path);
    await peer.send(connection, [hello()]);
    // The exporter must have sent the offers that the messages refer to.
    await peer.receive(connection, "offer");
    await peer.send(connection, messages);
    assertCode(await fixture.ended(what), "bad-message", text, what);
    await assertNotifiedAndClosed(peer, connection, { reason: "bad-message", what });
  }
  await fixture.assertUndisturbed();
  const connection = await peer.connect(exporter.path);
  const unseen = new Uint8Array(16).fill(7);
  await peer.send(connection, [hello(), event(handle, 1, unseen), notice("held", weights), released(weights, 1)]);
  assertCode(
    await fixture.ended("an event"),
    "device-not-visible",
    "it is not visible here",
    "an event of another device",
  );
  await fixture.assertUndisturbed();
});

fixtureTest("a release with an event that cannot be opened holds its lease until FIRED arrives", async (fixture) => {
  const { cuda, exporter, peer } = fixture;
  using ownEvent = cuda.device(0).createEvent({ interprocess: true });
  const deviceUuid = parseUuid(cuda.device(0).uuid);
  const handles = [new Uint8Array(64).fill(0xa5), ownEvent.exportHandle()];
  const connections = [await peer.connect(exporter.path), await peer.connect(exporter.path)];
  const states = () => exporter.leases.flatMap(({ peer: { pid }, state }) => pid === peer.pid ? state : []);
  for (const [index, handle] of handles.entries()) {
    const connection = connections[index]!;
    await peer.send(connection, [hello()]);
    await peer.receive(connection, "offer");
    await peer.send(connection, [
      { type: "event", event: 1, deviceUuid, handle },
      notice("held", weights),
      released(weights, 1),
    ]);
    await peer.receive(connection, "wait");
    assertEquals(states(), ["releasing"]);
    await peer.send(connection, [{ type: "fired", event: 1 }]);
    await peer.receive(connection, "event-free");
    assertEquals(states(), []);
  }
  // A peer that never answers holds its lease until its process has ended.
  await peer.send(connections[0]!, [notice("held", weights), released(weights, 1)]);
  await peer.receive(connections[0]!, "wait");
  await peer.call("close", connections[0]!);
  await fixture.ended("a connection");
  assert(states().includes("quarantined"));
  await fixture.assertUndisturbed();
});

fixtureTest("a peer that violates the handshake is not served", async (fixture) => {
  const { exporter, peer } = fixture;
  const text = new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n");
  const greetings:
    readonly (readonly [what: string, first: Message | Uint8Array, code: SharingErrorCode, text: string])[] = [
      ["no greeting", notice("held", weights), "bad-message", "its first message is HELD, not HELLO"],
      [
        "the exporter's greeting",
        { type: "welcome", version: 1 },
        "bad-message",
        "its first message is WELCOME, not HELLO",
      ],
      [
        "a later version",
        hello(4, 7),
        "version-mismatch",
        "it knows versions 4 to 7 of the protocol, and this process knows versions 1 to 3",
      ],
      ["no version", hello(0, 0), "version-mismatch", "it knows version 0 of the protocol"],
      ["a length of 4 GiB", header(2 ** 32 - 1, 1), "bad-message", "its length is 4294967295; it takes 16"],
      ["text", text, "bad-message", "the protocol has no such type"],
    ];
  for (const [what, first, code, text] of greetings) {
    const connection = await peer.connect(exporter.path);
    await peer.send(connection, [first]);
    assertCode(await fixture.ended(what), code, text, what);
    await assertNotifiedAndClosed(peer, connection, { reason: code, what });
  }
  // A message sent together with HELLO is handled after the answer.
  const connection = await peer.connect(exporter.path);
  await peer.send(connection, [hello(1, 9), notice("held", weights)]);
  assertEquals(await peer.receive(connection, "welcome"), ["welcome"]);
  await until(() => exporter.leases.some((lease) => lease.peer.pid === peer.pid && lease.state === "held"), "No lease");
  await fixture.assertUndisturbed();
});

fixtureTest("unexpected descriptors end the connection and are closed, or are refused to the peer", async (fixture) => {
  const { exporter, peer } = fixture;
  const text = "more descriptors came than they declare";
  const many = (count: number) => Array<string>(count).fill("file");
  const cases: readonly (readonly [what: string, first: Message, descriptors: string[], text: string])[] = [
    ["one with HELD", notice("held", weights), ["file"], text],
    ["two with HELD", notice("held", weights), ["pipe", "socket"], text],
    ["253 with HELD", notice("held", weights), many(253), text],
    ["one with POOL, which no importer sends", pool, ["memory file"], 'a message "pool" comes from an importer'],
    ["two with POOL", pool, ["memory file", "device"], text],
    ["253 with POOL", pool, many(253), text],
  ];
  await fixture.assertUndisturbed();
  const before = countResources();
  for (const [what, first, descriptors, text] of cases) {
    const connection = await peer.connect(exporter.path);
    await peer.send(connection, [hello()]);
    await peer.receive(connection, "offer");
    const isSent = (await peer.send(connection, [first], descriptors)) !== refusedBySystem;
    if (!isSent) await peer.call("close", connection);
    assertCode(await fixture.ended(what), isSent ? "bad-message" : "peer-gone", isSent ? text : "", what);
    if (isSent) await assertNotifiedAndClosed(peer, connection, { reason: "bad-message", what });
  }
  const connection = await peer.connect(exporter.path);
  const isSent = (await peer.send(connection, [hello()], ["file"])) !== refusedBySystem;
  if (!isSent) await peer.call("close", connection);
  assertCode(await fixture.ended("HELLO"), isSent ? "bad-message" : "peer-gone", isSent ? text : "", "one with HELLO");
  if (isSent) await peer.call("close", connection);
  await fixture.assertUndisturbed();
  const after = countResources();
  for (const kind of ["file", "pipe", "socket", "memfd", "device"]) {
    assertEquals(after.get(kind), before.get(kind), kind);
  }
}, { long: true });

fixtureTest("a peer that sends nothing, or too slowly, times out", async (fixture) => {
  const { exporter, peer } = fixture;
  const silent = await peer.connect(exporter.path);
  assertCode(await fixture.ended("silence"), "timed-out", "its greeting did not come within 200 ms", "silence");
  await assertNotifiedAndClosed(peer, silent, { reason: "timed-out", what: "silence" });
  for (const isGreeted of [false, true]) {
    const what = `byte by byte, ${isGreeted ? "after the greeting" : "from the first"}`;
    const connection = await peer.connect(exporter.path);
    if (isGreeted) await peer.send(connection, [hello()]);
    const ended = fixture.ended(what);
    let isOver = false;
    void ended.finally(() => isOver = true);
    // More bytes of a message do not extend its timeout.
    for (const byte of encodeMessage(isGreeted ? releaseSlot(other, 1, 1) : hello())) {
      await peer.send(connection, [Uint8Array.of(byte)]);
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (isOver) break;
    }
    assertCode(await ended, "timed-out", "within 200 ms", what);
    await assertNotifiedAndClosed(peer, connection, { reason: "timed-out", what });
  }
  await fixture.assertUndisturbed();
}, { handshakeTimeout: 200, messageTimeout: 200, long: true });

fixtureTest("a reset connection ends, at any point of a message", async (fixture) => {
  const { exporter, peer } = fixture;
  const bytes = encodeMessage(pool);
  for (const length of [0, 1, 8, 20]) {
    const what = `after ${length} bytes of a message with a descriptor`;
    const connection = await peer.connect(exporter.path);
    await peer.send(connection, [hello()]);
    if (length > 0) await peer.send(connection, [bytes.subarray(0, length)]);
    // Closing with unread data resets the connection.
    await peer.call("close", connection);
    assertCode(await fixture.ended(what), "peer-gone", length > 0 ? "in the middle of a message" : "", what);
  }
  await fixture.assertUndisturbed();
}, { long: true });

/** Numbers of successive connections by how they end, and of concurrent ones. */
const connections = isLong ? { perEnd: 2500, atOnce: 500 } : { perEnd: 25, atOnce: 20 };

const inAll = (4 * connections.perEnd).toLocaleString("en");

fixtureTest(`${inAll} connections, one after another, and ${connections.atOnce} at once`, async (fixture) => {
  const { exporter, peer } = fixture;
  const { perEnd, atOnce } = connections;
  await fixture.assertUndisturbed();
  const before = countResources();
  for (const [end, count] of [["at once", 2 * perEnd], ["greeted", perEnd], ["goodbye", perEnd]] as const) {
    const since = performance.now();
    await peer.call("oneAfterAnother", exporter.path, { count, end });
    for (const error of await fixture.allEnded(count)) {
      if (end === "goodbye") assertEquals(error, undefined);
      else assertCode(error, "peer-gone", "", end);
    }
    assert(performance.now() - since < 30_000, `${count} connections took ${performance.now() - since} ms`);
    await fixture.assertUndisturbed();
  }
  assertEquals(await peer.call("atOnce", exporter.path, atOnce), atOnce);
  await fixture.assertUndisturbed();
  assertEquals(exporter.importers.length, atOnce + 1);
  await peer.call("endAll");
  for (const error of await fixture.allEnded(atOnce)) assertEquals(error, undefined);
  await fixture.assertUndisturbed();
  const left = [...countResources()].map(([kind, count]) => count - (before.get(kind) ?? 0));
  assert(Math.max(...left) < 50, difference(before, countResources()));
});

/** Memory of the peer, in the fields of an exporter's messages. */
interface PeerMemory {
  readonly deviceUuid: Uint8Array<ArrayBuffer>;
  readonly exportData: Uint8Array<ArrayBuffer>;
  readonly event: Uint8Array<ArrayBuffer>;
}

/** Valid messages of a false exporter. */
class Truth {
  readonly #memory: PeerMemory;

  constructor(memory: PeerMemory) {
    this.#memory = memory;
  }

  /** Must be sent with one descriptor. */
  pool(number = 1): Message {
    const { deviceUuid } = this.#memory;
    return { type: "pool", pool: number, kind: "device", deviceUuid, handle: undefined as never };
  }

  allocation(number = 1, inPool = 1, byteLength = 4096): Message {
    const { exportData } = this.#memory;
    return { type: "allocation", allocation: number, pool: inPool, byteLength, exportData };
  }

  event(number = 1): Message {
    const { deviceUuid, event } = this.#memory;
    return { type: "event", event: number, deviceUuid, handle: event };
  }

  offer(changes: Partial<OfferMessage> = {}): Message {
    return {
      type: "offer",
      offer: 1,
      kind: "buffer",
      allocation: 1,
      pool: 1,
      byteOffset: 0,
      byteLength: 64,
      readyEvent: 0,
      name: "true",
      metadata: "",
      ...changes,
    };
  }

  /** A ring of two slots. */
  channel(changes: { offer?: number; readyEvents?: number[] } = {}): Message {
    return {
      type: "channel",
      offer: 2,
      slotByteLength: 32,
      slotStride: 32,
      window: 1,
      readyEvents: [1, 1],
      ...changes,
    };
  }

  /** A pool, an allocation, an event, a buffer and a channel. */
  all(): Message[] {
    const ring = this.offer({ offer: 2, kind: "channel", name: "ring" });
    return [this.pool(), this.allocation(), this.event(), this.offer(), ring, this.channel()];
  }
}

/** A connection of this process to the false exporter. */
interface FalseConnection extends AsyncDisposable {
  readonly connection: number;
  readonly importer: Importer;
}

/** The peer listens, and sends these messages and descriptors after its greeting. */
async function connectToFalse(
  { cuda, folder, peer }: Fixture,
  messages: readonly (Message | Uint8Array)[],
  { descriptors = ["pool"], options = {} }: { descriptors?: string[]; options?: ImporterOptions } = {},
): Promise<FalseConnection> {
  const connecting = Importer.connect(cuda, `${folder}/false`, { closeTimeout: 0, ...options });
  const connection = await peer.call<number>("accept");
  await peer.send(connection, [{ type: "welcome", version: 1 }]);
  const importer = await connecting;
  await peer.send(connection, messages, descriptors);
  return {
    connection,
    importer,
    async [Symbol.asyncDispose]() {
      await importer[Symbol.asyncDispose]();
      await peer.call("close", connection);
    },
  };
}

/** Returns the error that an iteration of the offers ends with, promptly unless `milliseconds` is given. */
async function endOf(importer: Importer, what: string, milliseconds?: number): Promise<unknown> {
  const ended = (async () => {
    for await (const _offer of importer);
  })();
  return await assertRejects(() => within(ended, what, milliseconds), what);
}

fixtureTest("messages that no exporter may send end its connection, and no other", async (fixture) => {
  const { folder, peer } = fixture;
  await peer.call("listen", `${folder}/false`);
  const truth = new Truth(await peer.call("memory"));
  const all = truth.all();
  const frame = (changes: Partial<Message>): Message =>
    ({
      type: "frame",
      offer: 2,
      slot: 0,
      sequence: 1,
      byteLength: 1,
      hasEvent: false,
      metadata: "",
      ...changes,
    }) as Message;
  const forget = (kind: "pool" | "allocation" | "event", identifier: number): Message => ({
    type: "forget",
    kind,
    identifier,
  });
  const violations: readonly Violation[] = [
    ["WELCOME again", [...all, { type: "welcome", version: 1 }], 'a message "welcome" comes from an exporter'],
    ["HELLO", [...all, hello()], 'a message "hello" comes from an exporter'],
    ["HELD", [...all, notice("held", 1)], 'a message "held" comes from an exporter'],
    ["RELEASED", [...all, released(1)], 'a message "released" comes from an exporter'],
    ["JOIN", [...all, notice("join", 2)], 'a message "join" comes from an exporter'],
    ["ALLOCATION twice", [...all, truth.allocation()], "allocation 1 is announced twice"],
    ["ALLOCATION in no pool", [...all, truth.allocation(2, 9)], "allocation 2 lies in unknown pool 9"],
    ["EVENT twice", [...all, truth.event()], "event 1 is announced twice"],
    ["OFFER twice", [...all, truth.offer({ name: "again" })], "offer 1 is made twice"],
    ["two offers of one name", [...all, truth.offer({ offer: 3 })], 'two offers have the name "true"'],
    ["an offer of a channel's name", [...all, truth.offer({ offer: 3, name: "ring" })], 'the name "ring"'],
    ["OFFER of no allocation", [...all, truth.offer({ offer: 3, name: "3", allocation: 9 })], "allocation 9 was not"],
    ["OFFER of no pool", [...all, truth.offer({ offer: 3, name: "3", pool: 9 })], "pool 9 was not announced"],
    [
      "OFFER behind its allocation",
      [...all, truth.offer({ offer: 3, name: "3", byteOffset: 4090 })],
      "bytes 4090 to 4154 are offered of an allocation of 4096 bytes",
    ],
    [
      "OFFER of more than its allocation",
      [...all, truth.offer({ offer: 3, name: "3", byteLength: 2 ** 50 })],
      "are offered of an allocation of 4096 bytes",
    ],
    ["OFFER with no event", [...all, truth.offer({ offer: 3, name: "3", readyEvent: 9 })], "event 9 was not announced"],
    ["CHANNEL of no offer", [...all, truth.channel({ offer: 9 })], "offer 9 is not a new channel"],
    ["CHANNEL of a buffer", [...all, truth.channel({ offer: 1 })], "offer 1 is not a new channel"],
    ["CHANNEL twice", [...all, truth.channel()], "offer 2 is not a new channel"],
    [
      "something else than the CHANNEL of an OFFER",
      [...all, truth.offer({ offer: 3, kind: "channel", name: "3" }), notice("withdraw", 1)],
      'offer 3 is a channel, and "withdraw" comes next',
    ],
    [
      "CHANNEL of other slots",
      [
        ...all,
        truth.offer({ offer: 3, kind: "channel", name: "3" }),
        truth.channel({ offer: 3, readyEvents: [1, 1, 1] }),
      ],
      "a channel has 3 slots of 32 bytes in a ring of 64",
    ],
    [
      "CHANNEL with no event",
      [...all, truth.offer({ offer: 3, kind: "channel", name: "3" }), truth.channel({ offer: 3, readyEvents: [1, 9] })],
      "event 9 was not announced",
    ],
    ["WITHDRAW of no offer", [...all, notice("withdraw", 9)], "offer 9 was not made"],
    ["WITHDRAW twice", [...all, notice("withdraw", 1), notice("withdraw", 1)], "offer 1 was not made"],
    ["FORGET of no pool", [...all, forget("pool", 9)], "pool 9 is forgotten and was not announced"],
    ["FORGET of no allocation", [...all, forget("allocation", 9)], "allocation 9 is forgotten and was not announced"],
    ["FORGET of no event", [...all, forget("event", 9)], "event 9 is forgotten and was not announced"],
    ["FORGET of a pool with allocations", [...all, forget("pool", 1)], "pool 1 is forgotten while in use"],
    [
      "FORGET of an allocation with offers",
      [...all, forget("allocation", 1)],
      "allocation 1 is forgotten while in use",
    ],
    ["FORGET of a channel's event", [...all, forget("event", 1)], "event 1 is forgotten while in use"],
    ["WAIT for no event", [...all, { type: "wait", event: 1 }], "event 1 is waited for and was not announced"],
    ["FIRED of no event", [...all, { type: "fired", event: 9 }], "event 9 was not announced"],
    ["FIRED without WAIT", [...all, { type: "fired", event: 1 }], "FIRED for event 1 answers no WAIT"],
    ["EVENT_FREE of no event", [...all, { type: "event-free", event: 1 }], "event 1 is freed and was not lent"],
    ["FRAME without JOIN", [...all, frame({})], "offer 2 was not joined"],
    ["END without JOIN", [...all, notice("end", 2)], "offer 2 was not joined"],
    ["POOL without a descriptor", [...all, truth.pool(2)], "the descriptor that it declares did not come"],
    ["a length of 4 GiB", [...all, header(2 ** 32 - 1, 19)], "its length is 4294967295; it takes"],
    ["an unknown type", [...all, header(0, 99)], "message of type 99: the protocol has no such type"],
  ];
  for (const [what, messages, text] of someOf(violations, 2)) {
    await using false_ = await connectToFalse(fixture, messages);
    assertCode(await endOf(false_.importer, what), "bad-message", text, what);
    const said = await peer.receive(false_.connection);
    assertEquals(said.at(-1), "goodbye: bad-message", `${what}: ${said}`);
  }
  const isJoined: readonly Violation[] = [
    ["FRAME in a missing slot", [frame({ slot: 2 })], 'slot 2 of "ring" does not exist: it has 2'],
    ["FRAME that is too long", [frame({ byteLength: 33 })], 'a frame of "ring" has 33 bytes, and a slot 32'],
    ["FRAMEs in the wrong order", [frame({ sequence: 2 }), frame({ slot: 1 })], "comes after frame 2"],
    ["FRAME twice", [frame({}), frame({})], "comes after frame 1"],
    ["FRAME in a slot that was not released", [frame({}), frame({ sequence: 2 })], "was not released"],
    [
      "FRAME beyond the window",
      [frame({}), frame({ slot: 1, sequence: 2 })],
      "comes while 1 are not released, the maximum",
    ],
    ["FRAME after END", [notice("end", 2), frame({})], 'frame 1 of "ring" comes after its end'],
    [
      "FORGET of mapped memory",
      [notice("withdraw", 1), forget("allocation", 1)],
      "allocation 1 is forgotten while in use",
    ],
    ["FORGET of an event that is polled", [notice("withdraw", 2), forget("event", 1)], "while in use"],
    [
      "OFFER of a channel's number before it was released",
      [notice("withdraw", 2), truth.offer({ offer: 2, name: "again" }), notice("withdraw", 2)],
      "offer 2 is made twice",
    ],
  ];
  for (const [what, messages, text] of isJoined) {
    await using false_ = await connectToFalse(fixture, all);
    const { importer, connection } = false_;
    using buffer = await (await importer.offer("true")).map();
    await using consumer = await importer.channel("ring");
    await peer.receive(connection, "join");
    await peer.send(connection, messages);
    assertCode(await endOf(importer, what), "bad-message", text, what);
    // Existing mappings stay.
    assertEquals((await buffer.read(Uint8Array)).length, 64);
    const rest = (async () => {
      for await (const slot of consumer) slot.release();
    })();
    const outcome = await within(rest.catch((error: unknown) => error), what);
    if (what === "FRAME after END") assertEquals(outcome, undefined);
    else assertCode(outcome, "bad-message", text, what);
  }
  await fixture.assertUndisturbed();
}, { long: true });

fixtureTest("false data of memory are reported when it is mapped", async (fixture) => {
  const { folder, peer } = fixture;
  await peer.call("listen", `${folder}/false`);
  const truth = new Truth(await peer.call("memory"));
  const offers = [
    truth.allocation(),
    truth.offer(),
    truth.offer({ offer: 3, kind: "pool", allocation: 0, byteLength: 0, name: "pool" }),
  ];
  for (const descriptor of ["file", "folder", "socket", "pipe", "device"]) {
    await using false_ = await connectToFalse(fixture, [truth.pool(), ...offers], { descriptors: [descriptor] });
    assertCode(await endOf(false_.importer, descriptor), "bad-message", "is no pool's", descriptor);
  }
  {
    await using false_ = await connectToFalse(fixture, [truth.pool(), ...offers], { descriptors: ["memory file"] });
    const { importer } = false_;
    const offer = await importer.offer("true");
    // Repeatedly, because a failed mapping must leave nothing behind.
    for (let i = 0; i < 3; i++) assertInstanceOf(await assertRejects(() => offer.map()), CudaError);
    const whole = await importer.offer("pool");
    assertInstanceOf(await assertRejects(async () => await whole.importPool()), CudaError);
  }
  const cases: readonly (readonly [what: string, messages: Message[], check: (error: unknown) => void])[] = [
    ["a larger size", [truth.allocation(1, 1, 2 ** 40)], (error) => assertCode(error, "size-mismatch", "4096", "size")],
    [
      "other data",
      [{ ...truth.allocation(), exportData: new Uint8Array(64).fill(7) } as Message],
      (error) => assertInstanceOf(error, CudaError),
    ],
    [
      "no data",
      [{ ...truth.allocation(), exportData: new Uint8Array(64) } as Message],
      (error) => assertInstanceOf(error, CudaError),
    ],
  ];
  for (const [what, messages, check] of cases) {
    await using false_ = await connectToFalse(fixture, [truth.pool(), ...messages, truth.offer()]);
    const offer = await false_.importer.offer("true");
    check(await assertRejects(() => offer.map(), what));
  }
  const unseen: Message = { ...truth.pool(), deviceUuid: new Uint8Array(16).fill(7) } as Message;
  const noEvent = { ...truth.event(), handle: new Uint8Array(64).fill(7) } as Message;
  {
    await using false_ = await connectToFalse(fixture, [unseen, truth.allocation(), truth.offer()]);
    const offer = await false_.importer.offer("true");
    assertCode(await assertRejects(() => offer.map()), "device-not-visible", "does not see it", "another device");
  }
  {
    // The wait never begins, and the end of the connection must not end it.
    const uncaught: unknown[] = [];
    const onUncaught = (error: unknown): void => void uncaught.push(error);
    process.on("uncaughtException", onUncaught);
    const event = { ...truth.event(), deviceUuid: new Uint8Array(16).fill(7) } as Message;
    const messages = [truth.pool(), truth.allocation(), event, truth.offer({ readyEvent: 1 })];
    {
      await using false_ = await connectToFalse(fixture, messages);
      const offer = await false_.importer.offer("true");
      assertCode(await assertRejects(() => offer.map()), "device-not-visible", "it is not visible here", "its event");
    }
    process.off("uncaughtException", onUncaught);
    assertEquals(uncaught, []);
  }
  {
    const ring = truth.offer({ offer: 2, kind: "channel", name: "ring" });
    const offer = truth.offer({ readyEvent: 1 });
    const messages = [truth.pool(), truth.allocation(), noEvent, offer, ring, truth.channel()];
    await using false_ = await connectToFalse(fixture, messages);
    const { importer, connection } = false_;
    // The handle cannot be told from one of another namespace: the exporter is asked, and may answer or not.
    const over = new AbortController();
    const trueOffer = await importer.offer("true");
    const unanswered = trueOffer.map({ signal: over.signal });
    await peer.receive(connection, "wait");
    over.abort("enough");
    assertEquals(await unanswered.catch((reason) => reason), "enough");
    const answered = trueOffer.map();
    await peer.send(connection, [{ type: "fired", event: 1 }]);
    using _mapped = await within(answered, "FIRED is not enough");
    assert(importer.isConnected);
  }
  await fixture.assertUndisturbed();
}, { long: true });

fixtureTest("an exporter that violates the handshake, or is silent or slow, is disconnected", async (fixture) => {
  const { cuda, folder, peer } = fixture;
  await peer.call("listen", `${folder}/false`);
  const truth = new Truth(await peer.call("memory"));
  const text = new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n");
  const goodbye = (reason: GoodbyeReason): Message => ({
    type: "goodbye",
    reason,
    lowestVersion: 2,
    highestVersion: 3,
    text: "No",
  });
  const greetings:
    readonly (readonly [what: string, first: Message | Uint8Array, code: SharingErrorCode, text: string])[] = [
      [
        "another version",
        { type: "welcome", version: 4 },
        "version-mismatch",
        "it chose version 4 of the protocol, and this process knows versions 1 to 3",
      ],
      ["the importer's greeting", hello(), "bad-message", "its first message is HELLO, not WELCOME"],
      ["no greeting", truth.offer(), "bad-message", "its first message is OFFER, not WELCOME"],
      ["a length of 4 GiB", header(2 ** 32 - 1, 2), "bad-message", "its length is 4294967295; it takes 16"],
      ["text", text, "bad-message", "the protocol has no such type"],
      ["silence", new Uint8Array(0), "timed-out", "its greeting did not come within 200 ms"],
      ["one byte", Uint8Array.of(16), "timed-out", "within 200 ms"],
      ["a farewell for the version", goodbye("version-mismatch"), "version-mismatch", "it knows versions 2 to 3"],
      ["a farewell for the user", goodbye("not-permitted"), "not-permitted", '"No"'],
      ["a farewell", goodbye("done"), "peer-gone", "it said goodbye"],
    ];
  for (const [what, first, code, text] of greetings) {
    const options = code === "timed-out" ? { handshakeTimeout: 200 } : {};
    const connecting = Importer.connect(cuda, `${folder}/false`, options);
    connecting.catch(() => {});
    const connection = await peer.call<number>("accept");
    await peer.send(connection, [first]);
    assertCode(await assertRejects(() => within(connecting, what)), code, text, what);
    const notified = (await peer.receive(connection)).at(-1);
    // No goodbye is sent to a peer that sent one.
    assertEquals(notified, what.startsWith("a farewell") ? "hello" : `goodbye: ${code}`, what);
    await peer.call("close", connection);
  }
  {
    const bytes = encodeMessage(truth.offer());
    const options = { messageTimeout: 200 };
    await using false_ = await connectToFalse(fixture, [truth.pool(), truth.allocation()], { options });
    const ended = endOf(false_.importer, "byte by byte");
    let isOver = false;
    void ended.finally(() => isOver = true);
    for (let i = 0; i < bytes.length && !isOver; i++) {
      await peer.send(false_.connection, [bytes.subarray(i, i + 1)]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assertCode(await ended, "timed-out", "within 200 ms", "byte by byte");
  }
  for (const length of [1, 8, 20]) {
    const what = `reset after ${length} bytes of a message with a descriptor`;
    await using false_ = await connectToFalse(fixture, [encodeMessage(truth.pool()).subarray(0, length)]);
    await peer.call("close", false_.connection);
    assertCode(await endOf(false_.importer, what), "peer-gone", "in the middle of a message", what);
    await peer.connect(`${folder}/control`);
  }
  await fixture.assertUndisturbed();
}, { long: true });

fixtureTest("the resources of a peer are limited", async (fixture) => {
  const { cuda, exporter, folder, peer } = fixture;
  const uuid = parseUuid(cuda.device(0).uuid);
  const truth = new Truth(await peer.call("memory"));
  const count = 70_000;
  {
    const connection = await peer.connect(exporter.path);
    await peer.send(connection, [hello()]);
    const event: Message = { type: "event", event: 1, deviceUuid: uuid, handle: new Uint8Array(64) };
    const sending = peer.call("flood", connection, encodeMessage(event), { count, at: 8 });
    const ended = await fixture.ended("events", longTimeout);
    assertCode(ended, "limit-exceeded", "the limit is 1024 events of a peer", "events");
    await sending;
    await peer.call("close", connection);
  }
  await peer.call("listen", `${folder}/false`);
  const numbered = [
    ["events", [], truth.event(), "the limit is 65536 events of a peer"],
    ["allocations", [truth.pool()], truth.allocation(), "the limit is 65536 allocations of an exporter"],
  ] as const;
  for (const [what, messages, message, text] of someOf(numbered, 2)) {
    await using false_ = await connectToFalse(fixture, messages, { descriptors: messages.length > 0 ? ["pool"] : [] });
    const ended = endOf(false_.importer, what, longTimeout);
    // One of them exists already.
    await peer.call("flood", false_.connection, encodeMessage(message), { count, at: 8 });
    assertCode(await ended, "limit-exceeded", text, what);
  }
  {
    // An exporter that never reads the answers.
    await using false_ = await connectToFalse(fixture, [truth.pool(), truth.allocation()]);
    const ended = endOf(false_.importer, "answers", longTimeout);
    const cycle = joined([encodeMessage(truth.offer()), encodeMessage(notice("withdraw", 1))]);
    await peer.call("flood", false_.connection, cycle, { count: 200_000 });
    assertCode(await ended, "limit-exceeded", "65536 answers that the exporter does not read", "answers");
  }
  {
    await using false_ = await connectToFalse(fixture, [], { descriptors: [] });
    const ended = endOf(false_.importer, "pools", longTimeout);
    for (let number = 1; number <= 257; number++) await peer.send(false_.connection, [truth.pool(number)], ["pool"]);
    assertCode(await ended, "limit-exceeded", "the limit is 256 pools of an exporter", "pools");
  }
  await fixture.assertUndisturbed();
}, { long: true });

function folderTest(
  name: string,
  body: (folder: string, cuda: Cuda) => Promise<void>,
  { skip, long }: { skip?: string; long?: boolean } = {},
): void {
  const inFolder = async () => {
    const folder = mkdtempSync("/tmp/poolpass-test-");
    try {
      using cuda = open({ driver: "software" });
      await body(folder, cuda);
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
  leakTest(name, inFolder, {
    skip,
    long,
    warmUp,
  });
}

folderTest(
  "an exporter without free descriptors fails with the reason, and continues once there are some",
  async (folder, cuda) => {
    const path = `${folder}/exporter`;
    await using child = startScript("children/sharing/abuse_few_descriptors.ts", ["export", path], {
      descriptorLimit: 100,
    });
    assertEquals(await child.nextLine(), "ready");
    await using importer = await Importer.connect(cuda, path, { closeTimeout: 0 });
    await using go = await UnixSocket.connect(`${path}.go`);
    const useFirst = async (from: Importer) => {
      const offer = await from.offer("first");
      // Maps it twice: the second mapping is released with an event that the exporter has not opened yet.
      using first = await offer.map();
      using again = await offer.map();
      for (const each of [first, again]) assertEquals((await each.read(Uint32Array))[0], 1);
    };
    assertEquals(await child.nextLine(), "offer: cudaErrorOperatingSystem");
    assertEquals(await child.nextLine(), "one is left");
    const refused = await assertRejects(() =>
      within(Importer.connect(cuda, path), "The exporter cannot watch a process")
    );
    assertCode(refused, "peer-gone", "", "a peer that cannot be watched");
    await useFirst(importer);
    await go.send(Uint8Array.of(1));
    assertEquals(await child.nextLine(), "full");
    const connecting = Importer.connect(cuda, path, { closeTimeout: 0 });
    await useFirst(importer);
    await go.send(Uint8Array.of(1));
    assertEquals(await child.nextLine(), "offer: nothing");
    await using late = await within(connecting, "Who waited is not served");
    for (const each of [importer, late]) {
      await useFirst(each);
      using second = await (await each.offer("second")).map();
      assertEquals(second.byteLength, 16);
    }
  },
);

folderTest(
  "an importer without free descriptors fails with the reason, and other importers can map what it cannot",
  async (folder, cuda) => {
    const ends: (SharingError | undefined)[] = [];
    await using exporter = Exporter.listen(`${folder}/exporter`, {
      onDisconnect: (_peer, error) => void ends.push(error),
    });
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using weights = pool.allocate(64);
    exporter.offer("weights", weights);
    await using child = startScript("children/sharing/abuse_few_descriptors.ts", ["import", exporter.path], {
      descriptorLimit: 100,
    });
    assertStringIncludes((await child.nextLine())!, "map: cudaError");
    assertEquals(await child.nextLine(), "connect: out-of-descriptors");
    using another = cuda.device(0).createPool({ handleType: "posix-fd" });
    using late = another.allocate(32);
    exporter.offer("late", late);
    assertEquals(await child.nextLine(), "another pool: out-of-descriptors");
    assertEquals(await child.nextLine(), "after: 64 32");
    assertEquals(await child.ended, 0, await child.errors());
    await until(() => exporter.leases.length === 0 && ends.length === 2, "The leases or connections stay");
    assertCode(ends[0], "peer-gone", "(out-of-resources)", "the exporter is notified");
    assertStringIncludes(ends[0]!.message, "cannot open more descriptors");
    assertEquals(ends[1], undefined);
  },
  { long: true },
);

const noOtherUser = process.geteuid!() === 0 ? undefined : "it takes root to become another user";

folderTest(
  "a process of an unlisted user is not served, and one of a listed user is",
  async (folder, cuda) => {
    chmodSync(folder, 0o755);
    const ends: (SharingError | undefined)[] = [];
    await using exporter = Exporter.listen(`${folder}/exporter`, {
      users: [65_533],
      onDisconnect: (_peer, error) => void ends.push(error),
    });
    assertEquals(lstatSync(exporter.path).mode & 0o777, 0o666);
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using weights = pool.allocate(64);
    exporter.offer("weights", weights);
    const as = (user: number) =>
      startScript("children/sharing/abuse_other_user.ts", ["connect", exporter.path, String(user)], {
        permissions: ["-A"],
      });
    await using other = as(65_534);
    assertEquals(await other.nextLine(), "not-permitted", await other.errors());
    assertEquals(await other.ended, 0);
    assertCode(ends.pop(), "not-permitted", "runs as user 65534, and only users 0, 65533 are allowed", "another user");
    await using listed = as(65_533);
    assertEquals(await listed.nextLine(), "mapped 64");
    assertEquals(await listed.ended, 0);
    await until(() => exporter.leases.length === 0 && ends.length === 1, "The leases or the connection stay");
    assertEquals(ends, [undefined]);
  },
  { skip: noOtherUser },
);

folderTest(
  "an exporter of an unlisted user is not used, and one of a listed user is",
  async (folder, cuda) => {
    chownSync(folder, 65_534, 65_534);
    const path = `${folder}/exporter`;
    const args = ["listen", path, "65534"];
    await using child = startScript("children/sharing/abuse_other_user.ts", args, { permissions: ["-A"] });
    assertEquals(await child.nextLine(), "ready");
    const error = await assertRejects(() => Importer.connect(cuda, path));
    assertCode(error, "not-permitted", "runs as user 65534, and only user 0 is allowed", "another user");
    await using importer = await Importer.connect(cuda, path, { users: [65_534], closeTimeout: 0 });
    using theirs = await (await importer.offer("theirs")).map();
    assertEquals((await theirs.read(Uint32Array))[0], 7);
  },
  { skip: noOtherUser, long: true },
);
