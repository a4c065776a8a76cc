/**
 * The other end of channels, which does as it is told: node tests/children/sharing/channel_peer.ts DRIVER PATH, where PATH is that
 * of an exporter with a channel "control". Each frame of that has a call as its metadata, which a line answers.
 *
 * @module
 */
import process from "node:process";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { Driver } from "../../../src/driver.ts";
import { Session } from "../../../src/session.ts";
import type { ChannelConsumer } from "../../../src/sharing/channel/channel_consumer.ts";
import type { ChannelOptions, ChannelProducer } from "../../../src/sharing/channel/channel_producer.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import type { JsonValue } from "../../../src/sharing/protocol/metadata.ts";
import type { ReceivedSlot, Slot } from "../../../src/sharing/channel/slot.ts";
import { loadDriver } from "../../conformance/load_driver.ts";
import { Gate } from "../../support/gate.ts";
import { FrameKernels } from "./channel_kernels.ts";

/** What is told of a frame. */
export interface FrameReport {
  readonly sequence: number;
  readonly index: number;
  readonly byteLength: number;
  readonly metadata: JsonValue | null;
}

/** What is told of frames that were read. */
export interface DrainReport {
  readonly sequences: number[];
  /** Words that were as they should be, and words that were not, in all so far. */
  readonly words: [right: number, wrong: number];
  /** The code of what ended the channel other than its producer. */
  readonly error: string | null;
}

/** How often a driver's methods were called. */
const driverCalls: Record<string, number> = {};
const [driverName, controlPath] = process.argv.slice(2) as [string, string];
const driver = (await loadDriver(driverName))();
const cuda = new Cuda(new Session(counted(driver)));
const gpu = cuda.device(0);
const gate = new Gate(cuda);
const kernels = new FrameKernels(cuda);
const stream = gpu.createStream({ nonBlocking: true });
const pool = gpu.createPool({ handleType: "posix-fd" });
const importers = new Map<string, Importer>();
const consumers = new Map<string, ChannelConsumer>();
const received: ReceivedSlot[] = [];
const reserved: Slot[] = [];
/** The device may be lost: no more calls can be told from then on. */
const losing = Promise.withResolvers<void>();
const lost = Promise.withResolvers<void>();
let reading: Promise<Uint8Array> | undefined;
let exporter: Exporter | undefined;
let producer: ChannelProducer | undefined;

const calls = {
  // As a consumer.

  /** Connects, if that is not done, and joins a channel. */
  async join(path: string, name: string, as: string = name): Promise<void> {
    const key = `${path} ${as === name ? "" : as}`;
    if (!importers.has(key)) importers.set(key, await Importer.connect(cuda, path));
    consumers.set(as, await importers.get(key)!.channel(name, { stream }));
  },

  /** Two joins at once: the error of the second. */
  async joinTwice(path: string, name: string): Promise<string> {
    const importer = await Importer.connect(cuda, path);
    importers.set("", importer);
    const first = importer.channel(name, { stream });
    const second = importer.channel(name, { stream }).then(() => "none", (error) => error.message);
    consumers.set(name, await first);
    return await second;
  },

  /** Takes a frame and keeps it. */
  async next(as: string): Promise<FrameReport | null> {
    const slot = await consumers.get(as)!.next();
    if (slot === undefined) return null;
    received.push(slot);
    const { sequence, index, buffer: { byteLength }, metadata } = slot;
    return { sequence, index, byteLength, metadata: metadata ?? null };
  },

  /** Whether a wait that is aborted rejects with the reason. */
  async aborts(as: string): Promise<boolean> {
    const controller = new AbortController();
    const waiting = consumers.get(as)!.next({ signal: controller.signal });
    controller.abort("enough");
    return await waiting.then(() => false, (error) => error === "enough");
  },

  /** Checks the oldest frame that is kept, and releases it in stream order. */
  release(): void {
    const slot = received.shift()!;
    kernels.check(stream, slot.buffer, slot.sequence);
    slot.release();
  },

  /** Begins to read the oldest frame that is kept, on a stream that is held, and releases it. */
  async releaseWhileRead(): Promise<void> {
    const slot = received.shift()!;
    const other = gpu.createStream({ nonBlocking: true });
    // A first read locks pages, for which a driver may wait for all streams.
    await slot.buffer.read(Uint8Array, { stream: other });
    gate.hold(other);
    reading = slot.buffer.read(Uint8Array, { stream: other });
    slot.release();
  },

  /** Takes a frame, begins to read it, and leaves the channel. */
  async leaveWhileRead(as: string): Promise<void> {
    reading = (await consumers.get(as)!.next())!.buffer.read(Uint8Array);
    await consumers.get(as)![Symbol.asyncDispose]();
  },

  /** How many bytes were read, and how many of them are not as they should be. */
  async bytesRead(right: number): Promise<number[]> {
    const bytes = await reading!;
    let wrong = 0;
    for (const byte of bytes) if (byte !== right) wrong++;
    return [bytes.length, wrong];
  },

  /** What using a frame after its release throws. */
  misuse(): string[] {
    const slot = received.shift()!;
    slot.release();
    return [() => slot.release(), () => slot.buffer.address, () => slot.buffer.fill(1)].map(thrownBy);
  },

  /** Breaks out of a loop over the frames behind the first of them, which is released. */
  async readOne(as: string): Promise<number | undefined> {
    for await (using slot of consumers.get(as)!) return slot.sequence;
  },

  /** Reads, checks and releases frames until there are no more, or as many as given. */
  async drain(as: string, options: { count?: number; delays?: boolean } = {}): Promise<DrainReport> {
    const { count = Infinity, delays = false } = options;
    const sequences: number[] = [];
    let error: string | null = null;
    try {
      while (sequences.length < count) {
        using slot = await consumers.get(as)!.next();
        if (slot === undefined) break;
        if (delays && slot.sequence % 3 === 0) kernels.delay(stream);
        kernels.check(stream, slot.buffer, slot.sequence);
        sequences.push(slot.sequence);
      }
    } catch (thrown) {
      error = (thrown as { code?: string }).code ?? String(thrown);
    }
    return { sequences, words: await kernels.counts(stream), error };
  },

  async leave(as: string): Promise<void> {
    await consumers.get(as)![Symbol.asyncDispose]();
  },

  /** What the ring's recall says. */
  async recalled(as: string): Promise<string> {
    const { recalled } = consumers.get(as)!;
    if (!recalled.aborted) await new Promise((resolve) => recalled.addEventListener("abort", resolve));
    return recalled.reason.name;
  },

  async disconnect(): Promise<void> {
    for (const importer of importers.values()) await importer[Symbol.asyncDispose]();
  },

  /** Loses the device, once `useLostDevice` was called; resolves when the driver has told of it. */
  async loseDevice(): Promise<string | undefined> {
    await losing.promise;
    gate.fail(stream);
    const code = await codeThrownBy(() => stream.finished());
    lost.resolve();
    return code;
  },

  /** What it throws to wait for the next frame without a device, to release the one that was kept, and to leave. */
  async useLostDevice(as: string): Promise<(string | undefined)[]> {
    const consumer = consumers.get(as)!;
    const slot = (await consumer.next())!;
    losing.resolve();
    await lost.promise;
    const thrown = [await codeThrownBy(() => consumer.next()), await codeThrownBy(() => slot.release())];
    slot[Symbol.dispose]();
    return [...thrown, await codeThrownBy(() => consumer[Symbol.asyncDispose]())];
  },

  // As a producer.

  create(path: string, name: string, options: Omit<ChannelOptions, "pool">): void {
    exporter ??= Exporter.listen(path);
    producer = exporter.createChannel(name, { ...options, pool });
  },

  async reserve(): Promise<void> {
    reserved.push(await producer!.reserve());
  },

  /** Writes and sends frames, as many as given. */
  async produce(count: number): Promise<void> {
    for (let index = 0; index < count; index++) {
      const slot = await producer!.reserve();
      kernels.write(stream, slot.buffer, producer!.sent + 1);
      producer!.send(slot, { stream });
    }
  },

  /** Sends a frame, loses the device while the next is written and all slots are in use, and says what that costs. */
  async loseProducer(slots: number): Promise<(string | undefined)[]> {
    await calls.produce(1);
    await stream.finished();
    const [first, second] = await Promise.all(Array.from({ length: slots }, () => producer!.reserve()));
    gate.fail(stream);
    producer!.send(first!, { stream });
    return [
      await codeThrownBy(() => producer!.reserve()),
      await codeThrownBy(() => producer!.send(second!, { stream })),
    ];
  },

  async finished(): Promise<void> {
    await stream.finished();
  },

  end(): void {
    producer!.end();
  },

  async disposeProducer(): Promise<void> {
    await producer![Symbol.asyncDispose]();
  },

  // Everything else.

  /** Keeps the stream from going on. */
  hold(): void {
    gate.hold(stream);
  },

  open(): void {
    gate.open();
  },

  /** Costs this process the device. */
  fail(): void {
    gate.fail(stream);
  },

  /** How often the driver's methods were called since the last time. */
  driverCalls(): Record<string, number> {
    const result = { ...driverCalls };
    for (const name of Object.keys(driverCalls)) delete driverCalls[name];
    return result;
  },

  used(): number {
    return pool.usage().used;
  },
};

/** What can be called. */
export type ChannelPeerCalls = typeof calls;

const control = await (await Importer.connect(cuda, controlPath)).channel("control", {
  stream: gpu.createStream({ nonBlocking: true }),
});
console.log("ready");
for (;;) {
  const frame = await control.next().catch(() => process.exit());
  if (frame === undefined) process.exit();
  const [number, name, args] = frame.metadata as unknown as [number, keyof ChannelPeerCalls, never[]];
  frame.release();
  void answer(number, name, args);
}

async function answer(number: number, name: keyof ChannelPeerCalls, args: never[]): Promise<void> {
  try {
    const result = await (calls[name] as (...args: never[]) => unknown)(...args);
    console.log(JSON.stringify({ number, result }));
  } catch (error) {
    const { name, code, message } = error as Error & { code?: string };
    console.log(JSON.stringify({ number, error: { name, code, message } }));
  }
}

async function codeThrownBy(call: () => unknown): Promise<string | undefined> {
  try {
    await call();
    return "nothing";
  } catch (error) {
    return (error as { code?: string }).code ?? (error as Error).name;
  }
}

function thrownBy(call: () => void): string {
  try {
    call();
    return "nothing";
  } catch (error) {
    return (error as Error).name;
  }
}

function counted(driver: Driver): Driver {
  return new Proxy(driver, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        driverCalls[name as string] = (driverCalls[name as string] ?? 0) + 1;
        return member.apply(target, args);
      };
    },
  });
}
