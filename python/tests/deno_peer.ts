/**
 * The other end of the Python package's tests, on whatever device there is.
 *
 *     deno run --allow-all python/tests/deno_peer.ts export PATH [--elements 6]   offers "weights": element i is i mod 65536
 *                                                                             with --virtual, in virtual memory
 *     deno run --allow-all python/tests/deno_peer.ts import PATH NAME             maps, and says what it has read
 *                                                                             with --virtual, only virtual memory
 *     deno run --allow-all python/tests/deno_peer.ts produce PATH --frames 5      frame n of "frames" has n everywhere
 *     deno run --allow-all python/tests/deno_peer.ts consume PATH                 reads "frames" until the end
 *     deno run --allow-all python/tests/deno_peer.ts double FROM TO               doubles the floats of "frames"
 *     deno run --allow-all python/tests/deno_peer.ts publish STORE NAME --elements 6   leaves floats in a store
 *     deno run --allow-all python/tests/deno_peer.ts map STORE NAME               maps from a store, and says what it has read
 *
 * What it says are lines of JSON. `export`, `import` and `map` hold their memory until stdin ends, and then release it. `export`
 * says the states of its leases for each line of stdin.
 *
 * @module
 */
import { type ChannelConsumer, type DeviceArray, Exporter, Importer, open, StoreClient } from "../../mod.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";

/** Milliseconds for each step. */
const timeout = 60_000;
const geometry = { grid: 64, block: 256 };

const [command, path, ...rest] = Deno.args as [string, string, ...string[]];
using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();

switch (command) {
  case "export":
    await exportWeights(numberOf("--elements", 6));
    break;
  case "import":
    await importBuffer(rest[0]!);
    break;
  case "produce":
    await produce(numberOf("--frames", 5));
    break;
  case "consume":
    await consume();
    break;
  case "double":
    await double(rest[0]!);
    break;
  case "publish":
    await publish(rest[0]!, numberOf("--elements", 6));
    break;
  case "map":
    await map(rest[0]!);
    break;
  default:
    throw new Error(`There is no command ${command}`);
}

async function exportWeights(elements: number): Promise<void> {
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = rest.includes("--virtual")
    ? gpu.allocate(4 * elements, { handleType: "posix-fd" })
    : pool.allocate(4 * elements, stream);
  fill(buffer.as(Float32Array));
  const over = Promise.withResolvers<void>();
  await using exporter = Exporter.listen(path, { onDisconnect: () => over.resolve() });
  const offer = exporter.offer("weights", buffer, {
    metadata: { dtype: "float32", shape: [2, elements / 2] },
    stream,
  });
  say({ offering: elements });
  await stdinAsks(() => say({ leases: offer.leases.map(({ state }) => state) }));
  buffer.free();
  await offer.ended({ signal: AbortSignal.timeout(timeout) });
  say({ ended: true, used: pool.usage().used });
}

async function importBuffer(name: string): Promise<void> {
  const signal = AbortSignal.timeout(timeout);
  const memory = rest.includes("--virtual") ? "virtual" : "any";
  await using importer = await Importer.connect(cuda, path, { wait: true, signal, memory });
  const offer = await importer.offer(name, { signal });
  using buffer = await offer.map({ stream, signal });
  const { byteLength } = buffer;
  // No array has more than a few GiB.
  const isLarge = byteLength > 2 ** 30;
  const bytes = await buffer.read(Uint8Array, { signal, length: isLarge ? 24 : byteLength });
  const last = await buffer.read(Uint8Array, { signal, byteOffset: Math.max(0, byteLength - 24) });
  say({
    metadata: offer.metadata ?? null,
    byteLength,
    first: [...bytes.slice(0, 24)],
    last: [...last],
    sum: isLarge ? null : sumOf(bytes),
  });
  await stdinEnds();
}

async function produce(frames: number): Promise<void> {
  const signal = AbortSignal.timeout(timeout);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using module = gpu.loadModule(fillPtx);
  await using exporter = Exporter.listen(path, { closeTimeout: timeout });
  await using channel = exporter.createChannel("frames", {
    pool,
    slots: 3,
    slotByteLength: 4096,
    stream,
    metadata: { dtype: "int32", shape: [32, 32] },
  });
  say({ producing: frames });
  for (let frame = 1; frame <= frames; frame++) {
    const slot = await channel.reserve({ signal });
    module.kernel("fill").launch({ ...geometry, stream }, slot.buffer, slot.buffer.byteLength, frame);
    channel.send(slot, { stream, metadata: { frame } });
  }
  channel.end();
}

async function consume(): Promise<void> {
  const signal = AbortSignal.timeout(timeout);
  await using importer = await Importer.connect(cuda, path, { wait: true, signal });
  await using frames = await importer.channel("frames", { stream, signal });
  say({ joined: frames.slots, metadata: frames.metadata ?? null });
  for (let slot = await frames.next({ signal }); slot !== undefined; slot = await frames.next({ signal })) {
    const bytes = await slot.buffer.read(Uint8Array, { stream, signal });
    say({ sequence: slot.sequence, metadata: slot.metadata ?? null, byteLength: bytes.length, sum: sumOf(bytes) });
    slot.release(stream);
  }
  say({ ended: true });
}

/** A stage between two channels of the same size: what a kernel reads in one, it writes doubled to the other. */
async function double(to: string): Promise<void> {
  const signal = AbortSignal.timeout(timeout);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using module = gpu.loadModule(saxpyPtx);
  await using importer = await Importer.connect(cuda, path, { wait: true, signal });
  await using frames: ChannelConsumer = await importer.channel("frames", { stream, signal });
  await using exporter = Exporter.listen(to, { closeTimeout: timeout });
  await using channel = exporter.createChannel("doubled", {
    pool,
    slots: frames.slots,
    slotByteLength: frames.slotByteLength,
    stream,
    metadata: frames.metadata ?? null,
  });
  say({ doubling: frames.slots });
  for (let slot = await frames.next({ signal }); slot !== undefined; slot = await frames.next({ signal })) {
    const target = await channel.reserve({ signal });
    target.buffer.fill(0, stream);
    module.kernel("saxpy").launch({ ...geometry, stream }, slot.buffer.byteLength / 4, 2, slot.buffer, target.buffer);
    slot.release(stream);
    channel.send(target, { stream, byteLength: slot.buffer.byteLength });
  }
  channel.end();
}

async function publish(name: string, elements: number): Promise<void> {
  const signal = AbortSignal.timeout(timeout);
  await using client = await StoreClient.connect(cuda, path, { wait: true, signal });
  const metadata = { dtype: "float32", shape: [2, elements / 2] };
  await using memory = await client.create(name, 4 * elements, { metadata, stream, signal });
  fill(memory.buffer.as(Float32Array));
  await memory.publish(stream);
  say({ published: elements });
}

async function map(name: string): Promise<void> {
  const signal = AbortSignal.timeout(timeout);
  await using client = await StoreClient.connect(cuda, path, { wait: true, signal });
  using buffer = await client.map(name, { stream, signal });
  const entry = (await client.entries()).find((entry) => entry.name === name);
  const bytes = await buffer.read(Uint8Array, { signal });
  say({
    metadata: entry?.metadata ?? null,
    generation: entry?.generation ?? 0,
    byteLength: bytes.length,
    first: [...bytes.slice(0, 24)],
    sum: sumOf(bytes),
  });
  await stdinEnds();
}

function fill(weights: DeviceArray<Float32Array>): void {
  const elements = weights.length;
  const period = Float32Array.from({ length: Math.min(elements, 65536) }, (_, index) => index);
  for (let begin = 0; begin < elements; begin += period.length) {
    const end = Math.min(elements, begin + period.length);
    weights.subarray(begin, end).copyFrom(period.subarray(0, end - begin), stream);
  }
}

function numberOf(name: string, otherwise: number): number {
  const index = rest.indexOf(name);
  return index < 0 ? otherwise : Number(rest[index + 1]);
}

function sumOf(bytes: Uint8Array): number {
  let sum = 0;
  for (const byte of bytes) sum += byte;
  return sum;
}

function say(what: unknown): void {
  console.log(JSON.stringify(what));
}

async function stdinEnds(): Promise<void> {
  await stdinAsks(() => {});
}

/** Answers each line of stdin until it ends. */
async function stdinAsks(answer: () => void): Promise<void> {
  for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    for (const _ of text.matchAll(/\n/g)) answer();
  }
}
