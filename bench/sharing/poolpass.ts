/**
 * Measures sharing with poolpass: this process allocates, and a process that it starts maps. Answers requests with
 * lines of JSON.
 *
 * The samples of each workload, here and in the other programs:
 *
 * - "share-one": This process allocates a buffer, synchronizes its stream, exports the pointer and sends its 64 bytes.
 *   The other process imports the pointer, frees the mapping, synchronizes the stream of that free, and sends a byte,
 *   which ends the sample. Then the memory is freed.
 * - "share-one-asked": The same, but the other process does not synchronize after the free. C++ queries its stream
 *   until the stream is idle. This program awaits `stream.finished()`, as a program with an event loop does. The driver
 *   takes freed mappings apart only at a synchronization.
 * - "share-one-offer": The same with `Exporter.offer` until `Offer.released`. The other process reports that it holds
 *   the offer, imports the pointer, frees the mapping (`cudaFreeAsync`), queries its stream, which is idle, and reports
 *   that the offer is released. If the stream is not idle, the report includes an event, which must complete. All other
 *   programs do the same as in "share-one".
 * - "share-thousand": A thousand buffers are allocated and synchronized beforehand. The sample begins with the first
 *   export and ends with the byte that reports that the other process has mapped all buffers. C++ and Python export and
 *   import each buffer. Here, the buffers lie in one slab, which is exported and imported once and sent with the offset
 *   of each buffer.
 * - "share-thousand-offer": The same with a thousand offers, each with its own name and lease. The slab is exported
 *   only once in total, and imported once per sample. C++ does the same as in "share-thousand".
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import {
  type CachingAllocator,
  type CudaStream,
  type DeviceBuffer,
  Exporter,
  type MemoryPool,
  open,
  UnixListener,
} from "../../mod.ts";
import { answerRequests, numberOf, type Request } from "./contract.ts";
import { acknowledged, numberByteLength, pointerByteLength, sendJob } from "./control.ts";

/** The default numbers of uncounted samples that come first, which are the same in all languages. */
const warmUpOfOne = 500;
const warmUpOfThousand = 20;
/** Milliseconds in which the other process must start and open its driver. */
const startTimeout = 30_000;

using cuda = open();
const device = cuda.device(0);
using stream: CudaStream = device.createStream({ nonBlocking: true });
using pool: MemoryPool = device.createPool({ handleType: "posix-fd", releaseThreshold: Infinity });
const folder = Deno.makeTempDirSync();
await using exporter = Exporter.listen(`${folder}/exporter.sock`);
await using listener = UnixListener.listen(`${folder}/control.sock`);
const importer = new Deno.Command(Deno.execPath(), {
  args: [
    "run",
    "--no-prompt",
    "--allow-ffi",
    fileURLToPath(new URL("./poolpass_importer.ts", import.meta.url)),
    folder,
  ],
  stdin: "null",
  stdout: "null",
  stderr: "inherit",
}).spawn();
const importerEnded = new AbortController();
const status = importer.status.then(() => importerEnded.abort(new Error("the importing process has ended")));
await using control = await listener.accept({
  signal: AbortSignal.any([importerEnded.signal, AbortSignal.timeout(startTimeout)]),
});
using handle = pool.exportHandle();
await control.send(new Uint8Array(1), { handles: [handle] });

/** Shares one buffer after another by its pointer. */
function shareOne(request: Request): Promise<number[]> {
  return shareOneByPointer("share-one", request);
}

/** Shares one buffer after another by its pointer. The other process does not synchronize. */
function shareOnePolled(request: Request): Promise<number[]> {
  return shareOneByPointer("share-one-asked", request);
}

async function shareOneByPointer(work: "share-one" | "share-one-asked", request: Request): Promise<number[]> {
  const byteLength = numberOf(request, "byteLength", 64 * 2 ** 20);
  const { warmUp = warmUpOfOne } = request;
  const repetitions = warmUp + request.repetitions;
  await sendJob(control, { work, repetitions, byteLength, count: 1 });
  const times: number[] = [];
  for (let i = 0; i < repetitions; i++) {
    const start = performance.now();
    using buffer = pool.allocate(byteLength, stream);
    stream.synchronize();
    await control.send(buffer.exportPointer());
    await acknowledged(control);
    times.push(performance.now() - start);
  }
  return inNanoseconds(times.slice(warmUp));
}

/** Shares one buffer after another by an offer. */
async function shareOneByOffer(request: Request): Promise<number[]> {
  const byteLength = numberOf(request, "byteLength", 64 * 2 ** 20);
  const { warmUp = warmUpOfOne } = request;
  const repetitions = warmUp + request.repetitions;
  await sendJob(control, { work: "share-one-offer", repetitions, byteLength, count: 1 });
  const times: number[] = [];
  for (let i = 0; i < repetitions; i++) {
    const start = performance.now();
    using buffer = pool.allocate(byteLength, stream);
    const offer = exporter.offer(`buffer ${i}`, buffer);
    await offer.released({ signal: importerEnded.signal });
    times.push(performance.now() - start);
    buffer.free();
    await offer.ended({ signal: importerEnded.signal });
  }
  return inNanoseconds(times.slice(warmUp));
}

/** Shares many buffers of one slab by the slab's pointer and their offsets, until all are mapped. */
function shareThousand(request: Request): Promise<number[]> {
  return shareMany("share-thousand", request, async (buffers, allocator) => {
    const start = performance.now();
    const message = new Uint8Array(pointerByteLength + (1 + buffers.length) * numberByteLength);
    const numbers = new Float64Array(message.buffer, pointerByteLength);
    const { slab } = allocator.slabOf(buffers[0]!);
    numbers[0] = slab.byteLength;
    for (const [index, buffer] of buffers.entries()) {
      const part = allocator.slabOf(buffer);
      if (part.slab !== slab) throw new Error("Cannot share the buffers by one pointer: they lie in several slabs");
      numbers[1 + index] = part.byteOffset;
    }
    message.set(slab.exportPointer());
    await control.send(message);
    await acknowledged(control);
    const time = performance.now() - start;
    // Waits until the other process has unmapped the slab.
    await acknowledged(control);
    return time;
  });
}

/** Shares many buffers of one slab by one offer each, until all are mapped. */
function shareThousandByOffers(request: Request): Promise<number[]> {
  return shareMany("share-thousand-offer", request, async (buffers) => {
    const start = performance.now();
    const offers = buffers.map((buffer, index) => exporter.offer(`buffer ${index}`, buffer));
    await acknowledged(control);
    const time = performance.now() - start;
    for (const offer of offers) offer.withdraw();
    for (const offer of offers) await offer.ended({ signal: importerEnded.signal });
    return time;
  });
}

/**
 * Allocates many buffers of one slab for each sample. `share` shares them and resolves to the milliseconds of the
 * sample.
 */
async function shareMany(
  work: "share-thousand" | "share-thousand-offer",
  request: Request,
  share: (buffers: readonly DeviceBuffer[], allocator: CachingAllocator) => Promise<number>,
): Promise<number[]> {
  const byteLength = numberOf(request, "byteLength", 64 * 2 ** 10);
  const count = numberOf(request, "count", 1000);
  const { warmUp = warmUpOfThousand } = request;
  const repetitions = warmUp + request.repetitions;
  using allocator = pool.createCachingAllocator({ slabByteLength: slabByteLengthOf(count * byteLength) });
  await sendJob(control, { work, repetitions, byteLength, count });
  const times: number[] = [];
  for (let i = 0; i < repetitions; i++) {
    const buffers = Array.from({ length: count }, () => allocator.allocate(byteLength, stream));
    stream.synchronize();
    times.push(await share(buffers, allocator));
    for (const buffer of buffers) buffer.free();
  }
  return inNanoseconds(times.slice(warmUp));
}

/** Rounds up to a power of two. */
function slabByteLengthOf(byteLength: number): number {
  return 2 ** Math.ceil(Math.log2(byteLength));
}

function inNanoseconds(milliseconds: readonly number[]): number[] {
  return milliseconds.map((time) => Math.round(time * 1e6));
}

await answerRequests({
  name: "poolpass",
  device: device.name,
  uuid: device.uuid,
  isSoftware: cuda.driver === "software",
  versions: `Deno ${Deno.version.deno}`,
}, {
  "share-one": shareOne,
  "share-one-asked": shareOnePolled,
  "share-one-offer": shareOneByOffer,
  "share-thousand": shareThousand,
  "share-thousand-offer": shareThousandByOffers,
});
await control[Symbol.asyncDispose]();
await status;
await Promise.all([exporter[Symbol.asyncDispose](), listener[Symbol.asyncDispose]()]);
Deno.removeSync(folder, { recursive: true });
