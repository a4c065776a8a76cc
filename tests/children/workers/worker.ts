/**
 * A Worker that uses a device of its own `Cuda` object. It executes one command of its process at a time, and answers
 * each: see `commands`.
 *
 * @module
 */
import { parentPort, workerData } from "node:worker_threads";
import { ptx as fillPtx } from "../../../kernels/fill.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaStream } from "../../../src/objects/streams/cuda_stream.ts";
import { Session } from "../../../src/session.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { loadDriver } from "../../conformance/load_driver.ts";
import { Random } from "../../differential/random.ts";
import { Gate } from "../../support/gate.ts";

/** What a Worker is started with. */
export interface WorkerData {
  /** The name of a driver under test. */
  readonly driverName: string;
  /** The seed of what is random. No two Workers have the same. */
  readonly seed: number;
  /** A path for a socket. No two Workers have the same. */
  readonly socketPath: string;
}

/** A command: the name of a function of `commands`. */
export type Command = keyof typeof commands;

/** The answer to a command: its result, or the error that it threw. */
export interface Answer {
  readonly result?: unknown;
  readonly error?: string;
}

const { driverName, seed, socketPath } = workerData as WorkerData;
const openDriver = await loadDriver(driverName);
const random = new Random(seed);
const bufferByteLength = 4096;
/** The limit of the pool that the Worker exhausts, in bytes. */
const limit = 64 * 2 ** 20;

/** What the Worker has opened, and keeps until `dispose`. */
let opened: OpenDevice | undefined;
/** The outcomes of the pending waits, by name. */
let waits: Record<string, Promise<string>> = {};

/** A device, a stream that a gate can hold, and a pool without free memory. */
class OpenDevice implements Disposable {
  readonly cuda = new Cuda(new Session(openDriver()));
  readonly gpu = this.cuda.device(0);
  readonly gate = new Gate(this.cuda);
  readonly module = this.gpu.loadModule(fillPtx);
  readonly stream = this.gpu.createStream({ nonBlocking: true });
  readonly buffer = this.gpu.currentPool.allocate(bufferByteLength, this.stream);
  readonly fullPool = this.gpu.createPool({ maxSize: limit });
  readonly rest = this.fullPool.allocate(limit, this.stream);

  constructor() {
    // What a driver does at the first launch or read may wait for all streams of the process.
    checkFilled(this.buffer, 1, this.fill(1));
  }

  fill(byte: number): CudaStream {
    const kernel = this.module.kernel("fill");
    kernel.launch({ grid: 2, block: 64, stream: this.stream }, this.buffer, bufferByteLength, byte * 0x01010101);
    return this.stream;
  }

  [Symbol.dispose](): void {
    const { rest, fullPool, buffer, gate, stream, module, cuda } = this;
    for (const object of [rest, fullPool, buffer, gate, stream, module, cuda]) object[Symbol.dispose]();
  }
}

/** What the process can ask for. */
const commands = {
  /** Uses and disposes one `Cuda` after another, with streams and buffers in random order. */
  async compute(): Promise<void> {
    for (let round = 0; round < 5; round++) await useAndDispose();
  },
  open(): void {
    opened = new OpenDevice();
  },
  /** Uses what `open` has opened. */
  async use(): Promise<void> {
    const { buffer } = opened!;
    const byte = random.below(256);
    opened!.fill(byte);
    const bytes = await buffer.read(Uint8Array);
    if (bytes.some((read) => read !== byte)) throw new Error(`The buffer is not filled with ${byte}: ${bytes}`);
  },
  /** Begins waits for a stream, a device, a read, and memory, which last until `release`. */
  wait(): void {
    const { gate, stream, gpu, buffer, fullPool } = opened!;
    gate.hold(stream);
    opened!.fill(2);
    waits = {
      stream: outcomeOf(() => stream.finished()),
      device: outcomeOf(() => gpu.finished()),
      read: outcomeOf(() => buffer.read(Uint8Array)),
      memory: outcomeOf(() => allocateAndFree(fullPool)),
    };
  },
  /** Begins a wait for memory, which lasts until `release`. The device is idle. */
  waitForMemory(): void {
    waits = { memory: outcomeOf(() => allocateAndFree(opened!.fullPool)) };
  },
  /** Begins a wait for a connection, too, which nobody makes. */
  waitForPeer(): void {
    commands.waitForMemory();
    waits["connection"] = outcomeOf(() => UnixListener.listen(socketPath).accept());
  },
  /** Lets the waits succeed. */
  release(): void {
    opened!.gate.open();
    opened!.rest.free();
  },
  /** Returns the outcomes of the waits that have begun, when all have ended. */
  async outcomes(): Promise<Record<string, string>> {
    const ended: Record<string, string> = {};
    for (const [name, outcome] of Object.entries(waits)) ended[name] = await outcome;
    return ended;
  },
  /** Loses the context, as a kernel that traps does, and returns how that was reported. */
  async fail(): Promise<string> {
    const { gate, stream } = opened!;
    return await outcomeOf(() => {
      gate.fail(stream);
      return stream.finished();
    });
  },
  /** Returns the outcomes of calls that begin something new. */
  async next(): Promise<Record<string, string>> {
    const { gpu, stream, buffer } = opened!;
    const calls: Record<string, () => unknown> = {
      stream: () => gpu.createStream()[Symbol.dispose](),
      launch: () => opened!.fill(3),
      allocate: () => gpu.currentPool.allocate(bufferByteLength, stream).free(),
      allocateAsync: () => allocateAndFree(gpu.currentPool),
      read: () => buffer.read(Uint8Array),
      synchronize: () => gpu.synchronize(),
      finished: () => stream.finished(),
    };
    const outcomes: Record<string, string> = {};
    for (const [name, call] of Object.entries(calls)) outcomes[name] = await outcomeOf(call);
    return outcomes;
  },
  /** Opens another `Cuda` object, and returns the outcome of using it. */
  openAnother(): Promise<string> {
    return outcomeOf(() => {
      using other = new Cuda(new Session(openDriver()));
      other.device(0).createStream()[Symbol.dispose]();
    });
  },
  dispose(): void {
    opened?.[Symbol.dispose]();
    opened = undefined;
  },
};

/** `"ok"`, or the name and code of the error. */
async function outcomeOf(attempt: () => unknown): Promise<string> {
  try {
    await attempt();
    return "ok";
  } catch (error) {
    const { name, code } = error as { name: string; code?: string };
    return code === undefined ? String(error) : `${name} ${code}`;
  }
}

/** Waits for as much memory as a full pool has in all. */
async function allocateAndFree(pool: MemoryPool): Promise<void> {
  using _buffer = await pool.allocateAsync(limit, { stream: opened!.stream });
}

function checkFilled(buffer: DeviceBuffer, byte: number, stream: CudaStream): void {
  const bytes = buffer.readSync(Uint8Array, { stream });
  if (bytes.some((read) => read !== byte)) throw new Error(`The buffer is not filled with ${byte}: ${bytes}`);
}

async function useAndDispose(): Promise<void> {
  using cuda = new Cuda(new Session(openDriver()));
  const gpu = cuda.device(0);
  const kernel = gpu.loadModule(fillPtx).kernel("fill");
  const streams = Array.from({ length: 3 }, () => gpu.createStream({ nonBlocking: random.percent(50) }));
  using pool = gpu.createPool();
  const buffers: { buffer: DeviceBuffer; byte: number }[] = [];
  for (let step = 0; step < 20; step++) {
    if (random.percent(60) || buffers.length === 0) {
      const stream = random.pick(streams);
      const buffer = (random.percent(70) ? pool : gpu.currentPool).allocate(bufferByteLength, stream);
      const byte = random.below(256);
      kernel.launch({ grid: 2, block: 64, stream }, buffer, bufferByteLength, byte * 0x01010101);
      buffers.push({ buffer, byte });
    } else {
      const [{ buffer, byte }] = buffers.splice(random.below(buffers.length), 1) as [typeof buffers[0]];
      if (random.percent(50)) checkFilled(buffer, byte, buffer.stream);
      else await buffer.stream.finished();
      buffer.free();
    }
  }
  while (buffers.length > 0) {
    const { buffer, byte } = buffers.pop()!;
    checkFilled(buffer, byte, buffer.stream);
    buffer.free();
  }
  if (random.percent(50)) await gpu.finished();
  if (random.percent(50)) random.pick(streams)[Symbol.dispose]();
}

parentPort!.on("message", async (command: Command) => {
  let answer: Answer;
  try {
    answer = { result: await commands[command]() };
  } catch (error) {
    answer = { error: String((error as Error).stack ?? error) };
  }
  parentPort!.postMessage(answer);
});
