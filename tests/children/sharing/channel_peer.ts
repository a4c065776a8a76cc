/**
 * The other end of channels, which does what the test asks: node tests/children/sharing/channel_peer.ts DRIVER PATH.
 * PATH is that of an exporter with a channel "control". The metadata of each of its frames is a call, which a line of
 * output answers.
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
import { watchedDriver } from "../../support/adapted_driver.ts";
import { Gate } from "../../support/gate.ts";
import { FrameKernels } from "./channel_kernels.ts";

/** A report about a frame. */
export interface FrameReport {
  readonly sequence: number;
  readonly index: number;
  readonly byteLength: number;
  readonly metadata: JsonValue | null;
}

/** A report about frames that were read. */
export interface DrainReport {
  readonly sequences: number[];
  /** The number of correct and of wrong words, over all frames so far. */
  readonly words: [right: number, wrong: number];
  /** The code of the error that ended the channel, or null if its producer ended it. */
  readonly error: string | null;
}

/** The number of calls of each method of the driver. */
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
/** Resolves when the device may be lost. `loseDevice` is called before, because no calls arrive without the device. */
const losing = Promise.withResolvers<void>();
const lost = Promise.withResolvers<void>();
let reading: Promise<Uint8Array> | undefined;
let exporter: Exporter | undefined;
let producer: ChannelProducer | undefined;

const calls = {
  // Calls of a consumer.

  /** Connects if necessary, and joins a channel. */
  async join(path: string, name: string, as: string = name): Promise<void> {
    const key = `${path} ${as === name ? "" : as}`;
    if (!importers.has(key)) importers.set(key, await Importer.connect(cuda, path));
    consumers.set(as, await importers.get(key)!.channel(name, { stream }));
  },

  /** Joins twice at once and returns the error of the second join. */
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

  /** Whether an aborted wait rejects with the reason. */
  async aborts(as: string): Promise<boolean> {
    const controller = new AbortController();
    const waiting = consumers.get(as)!.next({ signal: controller.signal });
    controller.abort("enough");
    return await waiting.then(() => false, (error) => error === "enough");
  },

  /** Checks the oldest kept frame and releases it in stream order. */
  release(): void {
    const slot = received.shift()!;
    kernels.check(stream, slot.buffer, slot.sequence);
    slot.release();
  },

  /** Starts to read the oldest kept frame on a held stream, and releases the frame. */
  async releaseWhileRead(): Promise<void> {
    const slot = received.shift()!;
    const other = gpu.createStream({ nonBlocking: true });
    // The first read locks pages, for which a driver may wait for all streams.
    await slot.buffer.read(Uint8Array, { stream: other });
    gate.hold(other);
    reading = slot.buffer.read(Uint8Array, { stream: other });
    slot.release();
  },

  /** Takes a frame, starts to read it, and leaves the channel. */
  async leaveWhileRead(as: string): Promise<void> {
    reading = (await consumers.get(as)!.next())!.buffer.read(Uint8Array);
    await consumers.get(as)![Symbol.asyncDispose]();
  },

  /** Returns how many bytes were read, and how many of them are wrong. */
  async bytesRead(right: number): Promise<number[]> {
    const bytes = await reading!;
    let wrong = 0;
    for (const byte of bytes) if (byte !== right) wrong++;
    return [bytes.length, wrong];
  },

  /** Returns the errors of using a frame after its release. */
  misuse(): string[] {
    const slot = received.shift()!;
    slot.release();
    return [() => slot.release(), () => slot.buffer.address, () => slot.buffer.fill(1)].map(thrownBy);
  },

  /** Leaves a loop over the frames after the first one, which the loop releases. */
  async readOne(as: string): Promise<number | undefined> {
    for await (using slot of consumers.get(as)!) return slot.sequence;
  },

  /** Reads, checks and releases frames until the channel ends, or up to `count` frames. */
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

  /** Returns the name of the reason with which the ring's `recalled` signal is aborted. */
  async recalled(as: string): Promise<string> {
    const { recalled } = consumers.get(as)!;
    if (!recalled.aborted) await new Promise((resolve) => recalled.addEventListener("abort", resolve));
    return recalled.reason.name;
  },

  async disconnect(): Promise<void> {
    for (const importer of importers.values()) await importer[Symbol.asyncDispose]();
  },

  /** Loses the device once `useLostDevice` was called. Resolves when the driver has reported the loss. */
  async loseDevice(): Promise<string | undefined> {
    await losing.promise;
    gate.fail(stream);
    const code = await codeThrownBy(() => stream.finished());
    lost.resolve();
    return code;
  },

  /** Returns the errors of waiting for the next frame without a device, of releasing a kept one, and of leaving. */
  async useLostDevice(as: string): Promise<(string | undefined)[]> {
    const consumer = consumers.get(as)!;
    const slot = (await consumer.next())!;
    losing.resolve();
    await lost.promise;
    const thrown = [await codeThrownBy(() => consumer.next()), await codeThrownBy(() => slot.release())];
    slot[Symbol.dispose]();
    return [...thrown, await codeThrownBy(() => consumer[Symbol.asyncDispose]())];
  },

  // Calls of a producer.

  create(path: string, name: string, options: Omit<ChannelOptions, "pool">): void {
    exporter ??= Exporter.listen(path);
    producer = exporter.createChannel(name, { ...options, pool });
  },

  async reserve(): Promise<void> {
    reserved.push(await producer!.reserve());
  },

  /** Writes and sends `count` frames. */
  async produce(count: number): Promise<void> {
    for (let index = 0; index < count; index++) {
      const slot = await producer!.reserve();
      kernels.write(stream, slot.buffer, producer!.sent + 1);
      producer!.send(slot, { stream });
    }
  },

  /** Sends a frame, loses the device while all slots are in use and one is being written, and returns the errors. */
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

  // Other calls.

  /** Holds the stream until `open`. */
  hold(): void {
    gate.hold(stream);
  },

  open(): void {
    gate.open();
  },

  /** Loses the device of this process. */
  fail(): void {
    gate.fail(stream);
  },

  /** Returns how often each method of the driver was called since the last time. */
  driverCalls(): Record<string, number> {
    const result = { ...driverCalls };
    for (const name of Object.keys(driverCalls)) delete driverCalls[name];
    return result;
  },

  used(): number {
    return pool.usage().used;
  },
};

/** The calls that a test can make. */
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
  return watchedDriver(driver, (name) => driverCalls[name] = (driverCalls[name] ?? 0) + 1);
}
