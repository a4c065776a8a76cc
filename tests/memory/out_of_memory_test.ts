import { assert, assertEquals, assertMatch, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import type { CachingAllocator } from "../../src/memory/caching/caching_allocator.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import type { MemoryPool } from "../../src/memory/pools/memory_pool.ts";
import { Session } from "../../src/session.ts";
import { CudaError } from "../../src/support/errors.ts";
import { nextTurn } from "../../src/support/waiting/waiting.ts";
import { startScript } from "../support/child_process.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { testSoftware } from "../support/software_devices.ts";
import { Gate } from "../support/gate.ts";

const mebibytes = 2 ** 20;
/** A pool's maximum size, which a GPU takes in units of 32 MiB. */
const limit = 64 * mebibytes;
/** Turns of the event loop after which a wait that could end has ended. */
const turns = 50;

type Source = MemoryPool | CachingAllocator;
const kinds = ["pool", "allocator"] as const;
const named = { pool: "a pool", allocator: "an allocator" } as const;

/** Calls back with a pool, or an allocator of one, that has at most `limit` bytes. */
async function withSource(
  gpu: CudaDevice,
  kind: typeof kinds[number],
  body: (source: Source, pool: MemoryPool) => void | Promise<void>,
): Promise<void> {
  using pool = gpu.createPool({ maxSize: limit });
  if (kind === "pool") return await body(pool, pool);
  using allocator = pool.createCachingAllocator({ maxSize: limit });
  await body(allocator, pool);
}

async function assertPending(promise: Promise<unknown>): Promise<void> {
  let isSettled = false;
  const settle = () => void (isSettled = true);
  promise.then(settle, settle);
  for (let turn = 0; turn < turns; turn++) await nextTurn();
  assertEquals(isSettled, false, "the allocation waits");
}

function allocateQuarters(source: Source, stream: CudaStream): DeviceBuffer[] {
  return Array.from({ length: 4 }, () => source.allocate(limit / 4, stream));
}

function freeAll(buffers: readonly DeviceBuffer[]): void {
  for (const buffer of buffers) buffer.free();
}

for (const kind of kinds) {
  testOnEachDriver(`a full ${kind} serves a large buffer from freed ones while their stream is busy`, async (cuda) => {
    const gpu = cuda.device(0);
    using gate = new Gate(cuda);
    using stream = gpu.createStream({ nonBlocking: true });
    await withSource(gpu, kind, (source) => {
      const quarters = allocateQuarters(source, stream);
      gate.hold(stream);
      freeAll(quarters);
      using whole = source.allocate(limit, stream);
      whole.fill(1);
      assertEquals(stream.query(), false);
      gate.open();
    });
  });

  testOnEachDriver(`allocateAsync of a full ${kind} waits for a free, first in, first out`, async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    await withSource(gpu, kind, async (source) => {
      const quarters = allocateQuarters(source, stream);
      const served: string[] = [];
      const note = (name: string) => (buffer: DeviceBuffer) => {
        served.push(name);
        return buffer;
      };
      const large = source.allocateAsync(limit / 2, { stream }).then(note("large"));
      const small = source.allocateAsync(limit / 4, { stream }).then(note("small"));
      quarters.pop()!.free();
      await assertPending(large);
      assertEquals(served, [], "the small one does not pass the large one");
      freeAll(quarters);
      freeAll([await large, await small]);
      assertEquals(served, ["large", "small"]);
    });
  });

  testOnEachDriver(`allocateAsync of ${named[kind]} that has memory left does not wait`, async (cuda) => {
    const gpu = cuda.device(0);
    await withSource(gpu, kind, async (source) => {
      using buffer = await source.allocateAsync(mebibytes);
      buffer.fill(3);
      assertEquals((await buffer.read(Uint8Array, { length: 1 }))[0], 3);
      assertStrictEquals(buffer.stream, gpu.defaultStream);
    });
  });

  testOnEachDriver(`allocateAsync of ${named[kind]} refuses at once what it can never have`, async (cuda) => {
    const gpu = cuda.device(0);
    await withSource(gpu, kind, async (source) => {
      const error = await assertRejects(() => source.allocateAsync(limit + 1), CudaError);
      assertEquals([error.code, error.call], ["cudaErrorMemoryAllocation", "cudaMallocFromPoolAsync"]);
      assertMatch(
        error.message,
        new RegExp(`: its maxSize is ${limit} bytes; ask for less, or create it with a larger maxSize$`),
      );
    });
    using unlimited = gpu.createPool();
    using allocator = unlimited.createCachingAllocator();
    const source = kind === "pool" ? unlimited : allocator;
    const { total } = gpu.memoryInfo();
    using tooLarge = gpu.createPool({ maxSize: 4 * total });
    using itsAllocator = tooLarge.createCachingAllocator();
    for (const each of [source, kind === "pool" ? tooLarge : itsAllocator]) {
      const error = await assertRejects(() => each.allocateAsync(total + 1), CudaError);
      assertMatch(error.message, new RegExp(`: the device has ${total} bytes; ask for less$`));
    }
  });

  testOnEachDriver(`a waiting allocateAsync of ${named[kind]} is no barrier for blocking streams`, async (cuda) => {
    const gpu = cuda.device(0);
    using held = gpu.createStream();
    using free = gpu.createStream();
    using gate = new Gate(cuda);
    await withSource(gpu, kind, async (source) => {
      source.allocate(limit / 2).free();
      await gpu.finished();
      using whole = source.allocate(limit, free);
      gate.hold(held);
      const waiting = source.allocateAsync(limit, { stream: free });
      await assertPending(waiting);
      whole.fill(1);
      await free.finished();
      gate.open();
      whole.free();
      (await waiting).free();
    });
  });

  testOnEachDriver(`an aborted allocateAsync of ${named[kind]} leaves nothing behind`, async (cuda) => {
    const gpu = cuda.device(0);
    await withSource(gpu, kind, async (source) => {
      const whole = source.allocate(limit);
      const reason = new Error("stop");
      const first = new AbortController();
      const second = new AbortController();
      const waiting = source.allocateAsync(limit, { signal: first.signal });
      const queued = source.allocateAsync(limit, { signal: second.signal });
      const last = source.allocateAsync(limit);
      await assertPending(waiting);
      for (const [controller, promise] of [[second, queued], [first, waiting]] as const) {
        controller.abort(reason);
        assertStrictEquals(await promise.then(() => undefined, (error) => error), reason);
      }
      const aborted = AbortSignal.abort(reason);
      assertStrictEquals(await source.allocateAsync(1, { signal: aborted }).then(() => {}, (error) => error), reason);
      whole.free();
      (await last).free();
    });
  });

  testOnEachDriver(
    `disposing ${named[kind]}, its stream or its Cuda object ends allocateAsync`,
    async (cuda, { open }) => {
      const gpu = cuda.device(0);
      await withSource(gpu, kind, async (source) => {
        using whole = source.allocate(limit);
        const stream = gpu.createStream();
        const onStream = source.allocateAsync(limit, { stream });
        stream[Symbol.dispose]();
        await assertRejects(() => onStream, ReferenceError, "was disposed while it was still waiting; await it before");
        const first = new AbortController();
        const waitingFirst = source.allocateAsync(limit, { signal: first.signal });
        const queuedStream = gpu.createStream();
        const queued = source.allocateAsync(limit, { stream: queuedStream });
        await assertPending(queued);
        queuedStream[Symbol.dispose]();
        await assertRejects(() => queued, ReferenceError, "was disposed while it was still waiting; await it before");
        await assertPending(waitingFirst);
        first.abort(new TypeError("stop"));
        await assertRejects(() => waitingFirst, TypeError, "stop");
        const waiting = [source.allocateAsync(limit), source.allocateAsync(1)];
        const rejections = waiting.map((promise) => assertRejects(() => promise, ReferenceError, "disposed"));
        await assertPending(waiting[0]!);
        whole.free();
        const { warn } = console;
        console.warn = () => {};
        try {
          using _kept = source.allocate(limit);
          source[Symbol.dispose]();
        } finally {
          console.warn = warn;
        }
        await Promise.all(rejections);
        await assertRejects(() => source.allocateAsync(1), ReferenceError, "disposed");
      });
      const other = new Cuda(new Session(open()));
      const pool = other.device(0).createPool({ maxSize: limit });
      const source = kind === "pool" ? pool : pool.createCachingAllocator();
      source.allocate(limit);
      const waiting = source.allocateAsync(limit);
      await assertPending(waiting);
      other[Symbol.dispose]();
      await assertRejects(() => waiting, ReferenceError, "disposed");
    },
  );

  testOnEachDriver(`invalid arguments of ${named[kind]}'s allocateAsync are refused`, async (cuda, { open }) => {
    using other = new Cuda(new Session(open()));
    await withSource(cuda.device(0), kind, async (source) => {
      for (const byteLength of [0, -1, 1.5, NaN]) {
        await assertRejects(() => source.allocateAsync(byteLength), RangeError);
      }
      const stream = other.device(0).defaultStream;
      await assertRejects(() => source.allocateAsync(1, { stream }), TypeError);
      await assertRejects(() => source.allocateAsync(1, { signal: 5 as unknown as AbortSignal }), TypeError);
      await assertRejects(() => source.allocateAsync(1, 5 as unknown as object), TypeError);
      source.allocate(limit).free();
    });
  });

  testOnEachDriver(
    `with ${kind}s on two streams, allocateAsync always succeeds within the limit`,
    async (cuda) => {
      const gpu = cuda.device(0);
      const streams = [gpu.createStream({ nonBlocking: true }), gpu.createStream({ nonBlocking: true })];
      for (let seed = 1; seed <= 4; seed++) {
        await withSource(gpu, kind, (source) => allocateAtRandom(source, streams, seed));
      }
      for (const stream of streams) stream[Symbol.dispose]();
    },
  );

  testOnEachDriver(`an out-of-memory error of ${named[kind]} lists the largest holders`, async (cuda, { open }) => {
    await withSource(cuda.device(0), kind, (source) => {
      const large = [source.allocate(limit / 4), source.allocate(limit / 4)];
      using small = source.allocate(mebibytes);
      const { message } = assertThrows(() => source.allocate(limit), CudaError);
      assertMatch(
        message,
        /2 buffers, 33554432 bytes, the oldest for \d+\.\d s; 1 buffer, 1048576 bytes; free memory or ask for less$/,
      );
      freeAll(large);
      small.fill(0);
    });
    using debugged = new Cuda(new Session(open(), { debug: true }));
    await withSource(debugged.device(0), kind, (source) => {
      const large = [0, 1].map(() => source.allocate(limit / 4));
      const { message } = assertThrows(() => source.allocate(limit), CudaError);
      const place = "2 buffers, 33554432 bytes, the oldest for \\d+\\.\\d s, allocated .*out_of_memory_test\\.ts";
      assertMatch(message, new RegExp(place));
      freeAll(large);
    });
  });
}

/** Allocates and frees on two streams, and awaits some of the allocations. */
async function allocateAtRandom(source: Source, streams: readonly CudaStream[], seed: number): Promise<void> {
  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
  const pending = new Set<Promise<unknown>>();
  const live: DeviceBuffer[] = [];
  let requested = 0;
  const allocate = (): void => {
    // Multiples of the size that an allocator rounds to, and that CUDA counts in.
    const byteLength = 512 * (1 + random(random(4) === 0 ? limit / 1024 : 1024));
    if (requested + byteLength > limit) return;
    requested += byteLength;
    const stream = streams[random(streams.length)]!;
    const promise = source.allocateAsync(byteLength, { stream }).then((buffer) => {
      if (random(2) === 0) buffer.subarray(0, 512).fill(1);
      live.push(buffer);
      pending.delete(promise);
    });
    pending.add(promise);
  };
  const free = (): void => {
    const buffer = live.splice(random(live.length), 1)[0];
    if (buffer === undefined) return;
    requested -= buffer.byteLength;
    const other = streams[random(streams.length)]!;
    if (random(4) === 0 && other !== buffer.stream) {
      using event = other.device.createEvent();
      buffer.stream.record(event);
      other.wait(event);
      buffer.free(other);
    } else buffer.free();
  };
  for (let step = 0; step < 300; step++) {
    const action = random(10);
    if (action < 5) allocate();
    else if (action < 8) free();
    else if (action === 8) await nextTurn();
    else if (random(10) === 0) await streams[random(streams.length)]!.finished();
  }
  // Whatever the fragmentation, the last one fits when everything before it is freed.
  while (pending.size > 0 || live.length > 0) {
    free();
    if (live.length === 0) await nextTurn();
  }
  assertEquals(requested, 0, `seed ${seed}`);
}

testOnEachDriver(
  "allocateAsync waits for a stream to execute a free, if no policy lets another stream reuse it",
  async (cuda) => {
    const gpu = cuda.device(0);
    using gate = new Gate(cuda);
    using stream = gpu.createStream({ nonBlocking: true });
    using other = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool({ maxSize: limit, releaseThreshold: Infinity });
    Object.assign(pool.reuse, {
      followEventDependencies: false,
      allowOpportunistic: false,
      allowInternalDependencies: false,
    });
    const whole = pool.allocate(limit, stream);
    gate.hold(stream);
    whole.free();
    const waiting = pool.allocateAsync(limit, { stream: other });
    await assertPending(waiting);
    gate.open();
    (await waiting).free();
  },
);

testOnEachDriver("an error for too little memory says what the device's other pools have reserved", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using other = gpu.createPool({ releaseThreshold: Infinity });
  using used = other.allocate(2 * mebibytes, stream);
  other.allocate(limit, stream).free();
  using pool = gpu.createPool();
  using limited = gpu.createPool({ maxSize: gpu.memoryInfo().total - limit });
  for (const source of [pool, pool.createCachingAllocator(), limited, limited.createCachingAllocator()]) {
    const { message } = assertThrows(() => source.allocate(gpu.memoryInfo().total - limit, stream), CudaError);
    const [, reserved, inUse] = /of this process: (\d+) bytes reserved, of which (\d+) are in use; free/.exec(message)!;
    // A driver may have released some memory that the other pool does not use.
    assert(Number(reserved) >= other.usage().reserved && Number(reserved) < gpu.memoryInfo().total, message);
    assert(Number(inUse) >= used.byteLength && Number(inUse) < limit, message);
  }
  using small = gpu.createPool({ maxSize: limit });
  const { message } = assertThrows(() => small.allocate(2 * limit, stream), CudaError);
  assertEquals(message.includes("of this process"), false, message);
});

testSoftware("a limited pool gets what allocators of other pools keep unused", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  const { total } = gpu.memoryInfo();
  const half = Math.floor(total / 2 / limit) * limit + limit;
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  using limited = gpu.createPool({ maxSize: half });
  for (const source of [limited, limited.createCachingAllocator()]) {
    allocator.allocate(half, stream).free();
    gpu.synchronize();
    source.allocate(half, stream).free();
    assertEquals(allocator.usage().reserved, 0);
    if (source !== limited) source[Symbol.dispose]();
    gpu.synchronize();
  }
});

testOnEachDriver(
  "memory that caching allocators keep unused is released to the pool when it is needed",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool({ maxSize: limit });
    using one = pool.createCachingAllocator();
    using two = pool.createCachingAllocator();
    for (const source of [one, pool, two, one]) source.allocate(limit, stream).free();
    using kept = one.allocate(limit, stream);
    const { message } = assertThrows(() => pool.allocate(limit, stream), CudaError);
    assertMatch(message, /an allocator holds 67108864 bytes, of which 67108864 are in use/);
    const waiting = two.allocateAsync(limit, { stream });
    await assertPending(waiting);
    kept.free();
    (await waiting).free();
  },
);

testOnEachDriver("maxUnused limits what an allocator keeps unused", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using other = gpu.createStream();
  using pool = gpu.createPool();
  const slabByteLength = 2 * mebibytes;
  using allocator = pool.createCachingAllocator({ slabByteLength, maxUnused: 2 * slabByteLength });
  const buffers = Array.from(
    { length: 6 },
    (_, index) => allocator.allocate(slabByteLength, index % 2 === 0 ? stream : other),
  );
  assertEquals(allocator.usage().slabs, 6);
  for (const [index, buffer] of buffers.entries()) {
    buffer.free();
    assertEquals(allocator.usage().slabs, 6 - Math.max(0, index - 1));
  }
  const { reserved, used } = allocator.usage();
  assertEquals([reserved, used], [2 * slabByteLength, 0]);
  using none = pool.createCachingAllocator({ slabByteLength, maxUnused: 0 });
  using half = none.allocate(slabByteLength / 2, stream);
  none.allocate(slabByteLength / 2, stream).free();
  assertEquals(none.usage().reserved, slabByteLength, "a slab with a buffer stays");
  half.fill(1);
  half.free();
  assertEquals(none.usage().reserved, 0);
  assertThrows(() => pool.createCachingAllocator({ maxUnused: -1 }), RangeError);
});

testOnEachDriver("usageBySizeClass counts buffers and free pieces by size", (cuda) => {
  using pool = cuda.device(0).createPool();
  using allocator = pool.createCachingAllocator({ slabByteLength: mebibytes });
  assertEquals(allocator.usageBySizeClass(), []);
  const buffers = [1, 256, 300, 5000].map((byteLength) => allocator.allocate(byteLength));
  const rows = allocator.usageBySizeClass();
  assertEquals(rows.slice(0, 3), [
    { minByteLength: 256, maxByteLength: 256, buffers: 2, used: 512, freePieces: 0, free: 0 },
    { minByteLength: 512, maxByteLength: 768, buffers: 1, used: 512, freePieces: 0, free: 0 },
    { minByteLength: 4096, maxByteLength: 7936, buffers: 1, used: 5120, freePieces: 0, free: 0 },
  ]);
  const { reserved, used } = allocator.usage();
  assertEquals(rows.reduce((sum, row) => sum + row.used, 0), used);
  assertEquals(rows.reduce((sum, row) => sum + row.used + row.free, 0), reserved);
  freeAll(buffers);
  assert(allocator.usageBySizeClass().every(({ buffers, used }) => buffers === 0 && used === 0));
});

test("allocateAsync keeps the process alive while it waits [software]", async () => {
  await using child = startScript("children/memory/wait_for_memory.ts", []);
  assertEquals(await child.nextLine(), "allocated 1048576 bytes");
  assertEquals(await child.ended, 0);
});
