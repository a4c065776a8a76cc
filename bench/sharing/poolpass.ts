/**
 * Sharing, by poolpass: this process allocates, and one that it starts maps. Answers requests by lines of JSON.
 *
 * What a sample is, here and in the other programs:
 *
 * - "share-one": allocate, synchronize the stream, export the pointer, send its 64 bytes; the other process imports them,
 *   frees the mapping, synchronizes the stream on which it did, and sends a byte, with which the sample ends. Then the
 *   memory is freed.
 * - "share-one-asked": the same, but that nobody synchronizes for a mapping that was freed: C++ asks its stream until it is
 *   at rest, this waits by `stream.finished()`, as a program with an event loop does. To the driver, only a synchronization
 *   is one, at which it also takes apart the mappings that were freed.
 * - "share-one-offer": the same by `Exporter.offer` until `Offer.released`: the other process has said that it holds the
 *   offer, has imported the pointer, has freed the mapping (`cudaFreeAsync`), has asked its stream, which was at rest, and
 *   then said that the offer is released; where a stream is not at rest, an event goes with that, and has fired. All
 *   others do as in "share-one".
 * - "share-thousand": a thousand buffers that were allocated and synchronized before; the sample begins with the first
 *   export and ends with the byte that says that the other process has mapped all. C++ and Python export and import each;
 *   here they lie in one slab, which is exported and imported once, and where in it each begins is sent beside that.
 * - "share-thousand-offer": the same by a thousand offers, each with a name and a lease of its own; the slab is exported
 *   once for good, and imported once a sample. C++ does as in "share-thousand".
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

/** Samples that come first and are not counted, unless the request says how many: the same in all languages. */
const warmUpOfOne = 500;
const warmUpOfThousand = 20;
/** Milliseconds in which the other process must have come up, with its driver. */
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
const ended = new AbortController();
const status = importer.status.then(() => ended.abort(new Error("the process that imports has ended")));
await using control = await listener.accept({
  signal: AbortSignal.any([ended.signal, AbortSignal.timeout(startTimeout)]),
});
using handle = pool.exportHandle();
await control.send(new Uint8Array(1), { handles: [handle] });

/** One buffer after another, each by its pointer. */
function shareOne(request: Request): Promise<number[]> {
  return shareOneByPointer("share-one", request);
}

/** The same, but that the other process does not synchronize. */
function shareOneAsked(request: Request): Promise<number[]> {
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

/** One buffer after another, each by an offer. */
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
    await offer.released({ signal: ended.signal });
    times.push(performance.now() - start);
    buffer.free();
    await offer.ended({ signal: ended.signal });
  }
  return inNanoseconds(times.slice(warmUp));
}

/** Many buffers of one slab, by its pointer and where in it each begins, until all are mapped. */
function shareThousand(request: Request): Promise<number[]> {
  return shareMany("share-thousand", request, async (buffers, allocator) => {
    const start = performance.now();
    const message = new Uint8Array(pointerByteLength + (1 + buffers.length) * numberByteLength);
    const numbers = new Float64Array(message.buffer, pointerByteLength);
    const { slab } = allocator.slabOf(buffers[0]!);
    numbers[0] = slab.byteLength;
    for (const [index, buffer] of buffers.entries()) {
      const part = allocator.slabOf(buffer);
      if (part.slab !== slab) throw new Error("Cannot share them by one pointer: they lie in several slabs");
      numbers[1 + index] = part.byteOffset;
    }
    message.set(slab.exportPointer());
    await control.send(message);
    await acknowledged(control);
    const time = performance.now() - start;
    // Until the other process maps the slab no more.
    await acknowledged(control);
    return time;
  });
}

/** Many buffers of one slab, each by an offer, until all are mapped. */
function shareThousandByOffers(request: Request): Promise<number[]> {
  return shareMany("share-thousand-offer", request, async (buffers) => {
    const start = performance.now();
    const offers = buffers.map((buffer, index) => exporter.offer(`buffer ${index}`, buffer));
    await acknowledged(control);
    const time = performance.now() - start;
    for (const offer of offers) offer.withdraw();
    for (const offer of offers) await offer.ended({ signal: ended.signal });
    return time;
  });
}

/** Many buffers of one slab again and again, by what gives the milliseconds of a sample. */
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

/** Room for all of them, in what the driver maps at once. */
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
  "share-one-asked": shareOneAsked,
  "share-one-offer": shareOneByOffer,
  "share-thousand": shareThousand,
  "share-thousand-offer": shareThousandByOffers,
});
await control[Symbol.asyncDispose]();
await status;
await Promise.all([exporter[Symbol.asyncDispose](), listener[Symbol.asyncDispose]()]);
Deno.removeSync(folder, { recursive: true });
