/**
 * Sequences of allocations that need at most half of the memory that they may use: they must succeed, whatever pieces
 * earlier allocations have left.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type { Cuda } from "../../src/objects/cuda.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { randomFor } from "../support/ptx_mutations.ts";
import { isLong } from "../support/test.ts";

const mebibyte = 2 ** 20;
const limit = 256 * mebibyte;
/** The maximum number of bytes of the buffers that are live at the same time. */
const mostLive = 128 * mebibyte;
const sizes = { least: 1024, most: 16 * mebibyte };

/** A pool or an allocator, of at most `limit` bytes. */
interface Source extends Disposable {
  allocate(byteLength: number, stream: CudaStream): DeviceBuffer;
}

/** An H200's refuses 104 of 36,000 such allocations, whatever it is asked to trim or to wait for. */
const drivers = "a limited pool of CUDA itself refuses some of them";

const sources: Readonly<Record<string, { create(cuda: Cuda): Source; notOnGpu?: string }>> = {
  "a pool": { create: (cuda) => cuda.device(0).createPool({ maxSize: limit }), notOnGpu: drivers },
  "an allocator whose pool is limited": {
    create(cuda) {
      const pool = cuda.device(0).createPool({ maxSize: limit });
      const allocator = pool.createCachingAllocator();
      return {
        allocate: (byteLength, stream) => allocator.allocate(byteLength, stream),
        [Symbol.dispose]: () => pool[Symbol.dispose](),
      };
    },
    notOnGpu: drivers,
  },
  "an allocator that is limited": {
    create(cuda) {
      const pool = cuda.device(0).createPool();
      const allocator = pool.createCachingAllocator({ maxSize: limit });
      return {
        allocate: (byteLength, stream) => allocator.allocate(byteLength, stream),
        [Symbol.dispose]: () => pool[Symbol.dispose](),
      };
    },
  },
};

/** The distributions of sizes: as many small buffers as large ones of each power of two, or mostly large ones. */
const distributions: Readonly<Record<string, (random: number) => number>> = {
  "of all powers of two": (random) => Math.floor(sizes.least * (sizes.most / sizes.least) ** random),
  "mostly large": (random) => Math.floor(sizes.least + random * (sizes.most - sizes.least)),
};

interface Sequence {
  readonly seed: number;
  readonly allocations: number;
  readonly streams: readonly CudaStream[];
  readonly size: (random: number) => number;
  /** Called for each new buffer, and for each one that is about to be freed on a stream. */
  readonly allocated?: (buffer: DeviceBuffer) => void;
  readonly freeing?: (buffer: DeviceBuffer, stream: CudaStream) => void;
}

/** Allocates buffers on random streams, and frees random ones on random streams. Throws if an allocation fails. */
function allocateAtRandom(
  source: Source,
  { seed, allocations, streams, size, allocated, freeing }: Sequence,
): void {
  const { below } = randomFor(`scarce memory ${seed}`);
  const live: DeviceBuffer[] = [];
  let liveBytes = 0;
  const freeAny = () => {
    const [buffer] = live.splice(below(live.length), 1);
    const stream = below(4) === 0 ? streams[below(streams.length)]! : buffer!.stream;
    freeing?.(buffer!, stream);
    liveBytes -= buffer!.byteLength;
    buffer!.free(stream);
  };
  for (let count = 0; count < allocations; count++) {
    const byteLength = size(below(2 ** 30) / 2 ** 30);
    while (liveBytes + byteLength > mostLive) freeAny();
    const buffer = source.allocate(byteLength, streams[below(streams.length)]!);
    allocated?.(buffer);
    live.push(buffer);
    liveBytes += byteLength;
    if (live.length > 4 && below(3) === 0) freeAny();
  }
  while (live.length > 0) freeAny();
}

for (const [name, { create, notOnGpu = "" }] of Object.entries(sources)) {
  for (const [kind, size] of Object.entries(distributions)) {
    testOnEachDriver(`${name} serves 3,000 buffers on two streams, ${kind}, from twice the memory`, (cuda) => {
      const gpu = cuda.device(0);
      using first = gpu.createStream({ nonBlocking: true });
      using second = gpu.createStream({ nonBlocking: true });
      for (let seed = 1; seed <= (isLong ? 12 : 2); seed++) {
        using source = create(cuda);
        allocateAtRandom(source, { seed, allocations: 3000, streams: [first, second], size });
        gpu.synchronize();
      }
    }, { notOnGpu, makesMistakes: true }); // Streams that nothing orders use and free the same buffers.
  }

  testOnEachDriver(`${name} that must reuse memory across streams never gives it away too early`, async (cuda) => {
    const gpu = cuda.device(0);
    const streams = [1, 2, 3].map(() => gpu.createStream({ nonBlocking: true }));
    using source = create(cuda);
    // Each buffer has its number at both ends from its allocation to its free.
    const numbers = new Map<DeviceBuffer, number>();
    using seen = gpu.createPool().allocate(2 * 4000);
    seen.fill(0);
    gpu.synchronize();
    let freed = 0;
    const ends = (buffer: DeviceBuffer) => [buffer.subarray(0, 1), buffer.subarray(buffer.byteLength - 1)];
    const expected: number[] = [];
    allocateAtRandom(source, {
      seed: 5,
      allocations: 1500,
      streams,
      size: distributions["of all powers of two"]!,
      allocated(buffer) {
        const number = 1 + numbers.size % 255;
        numbers.set(buffer, number);
        for (const end of ends(buffer)) end.fill(number, buffer.stream);
      },
      freeing(buffer, stream) {
        // A free on another stream must follow the work on the buffer's own one.
        if (stream !== buffer.stream) {
          using done = gpu.createEvent();
          buffer.stream.record(done);
          stream.wait(done);
        }
        for (const end of ends(buffer)) end.copyTo(seen.subarray(freed, ++freed), stream);
        expected.push(numbers.get(buffer)!, numbers.get(buffer)!);
      },
    });
    gpu.synchronize();
    const found = await seen.read(Uint8Array);
    assertEquals([...found.subarray(0, freed)], expected);
    for (const stream of streams) stream[Symbol.dispose]();
  }, { notOnGpu });
}

testOnEachDriver("an allocator with scarce memory reuses slabs of large buffers without asking its pool", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool({ maxSize: limit });
  using allocator = pool.createCachingAllocator();
  const round = () => {
    const buffers = [16, 15, 14, 13, 12, 11, 10, 9].map((size) => allocator.allocate(size * mebibyte, stream));
    const addresses = buffers.map(({ address }) => address);
    for (const buffer of buffers) buffer.free();
    return addresses;
  };
  const addresses = round();
  const { slabs, reserved } = allocator.usage();
  for (let count = 0; count < 10; count++) assertEquals(round().sort(), [...addresses].sort());
  assertEquals([allocator.usage().slabs, allocator.usage().reserved], [slabs, reserved]);
  assert(reserved <= mostLive, String(reserved));
});
