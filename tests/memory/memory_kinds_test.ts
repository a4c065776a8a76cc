/**
 * What each kind of memory must do: sizes, alignment, random orders of allocations and frees, access of the host. The
 * cases are those of RMM's tests of its managed, pinned and pool resources.
 */
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import type { Cuda, CudaDevice, CudaStream, DeviceBuffer } from "../../mod.ts";
import { CudaError } from "../../src/support/errors.ts";
import { randomFor } from "../support/ptx_mutations.ts";
import { testOnEachDriver } from "../support/drivers.ts";

/** A kind of memory. */
interface Kind {
  readonly name: string;
  /** Whether the host accesses the memory in place. */
  readonly isOnHost: boolean;
  readonly isManaged: boolean;
  /** The CUDA version that has it. */
  readonly version?: number;
  allocate(gpu: CudaDevice, byteLength: number, stream: CudaStream): DeviceBuffer;
}

const kinds: readonly Kind[] = [
  {
    name: "the default pool of managed memory",
    isOnHost: true,
    isManaged: true,
    version: 13000,
    allocate: ({ cuda }, byteLength, stream) =>
      cuda.getDefaultPool(undefined, { type: "managed" }).allocate(byteLength, stream),
  },
  {
    name: "the device's default pool of managed memory",
    isOnHost: true,
    isManaged: true,
    version: 13000,
    allocate: (gpu, byteLength, stream) =>
      gpu.cuda.getDefaultPool(gpu, { type: "managed" }).allocate(byteLength, stream),
  },
  {
    name: "managed memory of no pool",
    isOnHost: true,
    isManaged: true,
    allocate: (gpu, byteLength) => gpu.allocateManaged(byteLength),
  },
  {
    name: "the host's default pool",
    isOnHost: true,
    isManaged: false,
    version: 13000,
    allocate(gpu, byteLength, stream) {
      const pool = gpu.cuda.getDefaultPool("host");
      pool.setAccess(gpu, "read-write"); // for fills, which the device makes
      return pool.allocate(byteLength, stream);
    },
  },
  {
    name: "the device's default pool",
    isOnHost: false,
    isManaged: false,
    allocate: (gpu, byteLength, stream) => gpu.defaultPool.allocate(byteLength, stream),
  },
];

/** Runs a test for each kind of memory on each driver. */
function testKinds(
  name: string,
  body: (kind: Kind, gpu: CudaDevice, stream: CudaStream) => void | Promise<void>,
  isWanted: (kind: Kind) => boolean = () => true,
): void {
  testOnEachDriver(name, async (cuda: Cuda) => {
    const gpu = cuda.device(0);
    for (const kind of kinds.filter(isWanted)) {
      if (cuda.driverVersion < (kind.version ?? 0)) continue;
      if (kind.isManaged && gpu.attribute("concurrentManagedAccess") !== 1) continue;
      using stream = gpu.createStream();
      await body(kind, gpu, stream);
    }
  });
}

testKinds("memory of each kind is allocated in every size, on every stream", async (kind, gpu, stream) => {
  for (const on of [stream, gpu.defaultStream]) {
    for (const byteLength of [4, 1024, 2 ** 20]) {
      using buffer = kind.allocate(gpu, byteLength, on);
      assertEquals([buffer.byteLength, buffer.address % 256n, buffer.isManaged], [byteLength, 0n, kind.isManaged]);
      buffer.fill(byteLength % 253, on);
      const last = await buffer.subarray(byteLength - 1).read(Uint8Array, { stream: on });
      assertEquals(last[0], byteLength % 253, kind.name);
    }
  }
});

testKinds("memory of each kind is refused if there is not so much, or if none is wanted", (kind, gpu, stream) => {
  const { code } = assertThrows(() => kind.allocate(gpu, 2 ** 50, stream), CudaError, "", kind.name);
  assertEquals(code, "cudaErrorMemoryAllocation", kind.name);
  assertThrows(() => kind.allocate(gpu, 0, stream), RangeError, "at least 1");
});

testKinds("two live allocations of each kind are different memory", (kind, gpu, stream) => {
  using first = kind.allocate(gpu, 8, stream);
  using second = kind.allocate(gpu, 8, stream);
  assertNotEquals(first.address, second.address, kind.name);
});

testKinds("memory of each kind is allocated and freed in random orders", async (kind, gpu, stream) => {
  const random = randomFor(kind.name);
  const live: { readonly buffer: DeviceBuffer; readonly value: number }[] = [];
  let count = 0;
  for (let step = 0; step < 100; step++) {
    if (live.length === 0 || (count < 50 && random.below(100) < 53)) {
      const buffer = kind.allocate(gpu, 1 + random.below(2 ** 16), stream);
      buffer.fill(count % 256, stream);
      live.push({ buffer, value: count++ % 256 });
      continue;
    }
    const [{ buffer, value }] = live.splice(random.below(live.length), 1) as [typeof live[number]];
    // Others may have been allocated since, but none in this memory.
    const [seen] = await buffer.subarray(buffer.byteLength - 1).read(Uint8Array, { stream });
    assertEquals(seen, value, kind.name);
    buffer.free();
  }
  for (const { buffer } of live) buffer.free();
});

testKinds("the host writes and reads its memory in place, and the device sees it", async (kind, gpu, stream) => {
  using buffers = new DisposableStack();
  const all = [512, 1024, 256].map((byteLength) => buffers.use(kind.allocate(gpu, byteLength, stream)));
  await stream.finished();
  for (const [index, buffer] of all.entries()) {
    const view = new Int32Array(buffer.hostView());
    for (let at = 0; at < view.length; at++) view[at] = at * (index + 1);
    assertEquals([view[0], view[50], view.at(-1)], [0, 50 * (index + 1), (view.length - 1) * (index + 1)], kind.name);
    using onDevice = gpu.defaultPool.allocate(buffer.byteLength, stream);
    onDevice.copyFrom(buffer, stream);
    assertEquals(await onDevice.read(Int32Array, { stream }), view.slice(), kind.name);
  }
}, ({ isOnHost }) => isOnHost);

testKinds("memory of the device cannot be viewed on the host", (kind, gpu, stream) => {
  using buffer = kind.allocate(gpu, 64, stream);
  assertThrows(() => buffer.hostView(), CudaError, "only managed memory");
}, ({ isOnHost }) => !isOnHost);

testKinds("managed memory is prefetched only if the program does it, and all of it", (kind, gpu, stream) => {
  const random = randomFor(kind.name);
  for (let step = 0; step < 5; step++) {
    using memory = gpu.allocateManaged(1000 + random.below(99_000));
    assertEquals(memory.advice.lastPrefetchLocation, undefined);
    memory.prefetch(gpu, stream);
    assert(memory.advice.lastPrefetchLocation === gpu, kind.name);
    memory.prefetch(gpu, stream);
    assert(memory.advice.lastPrefetchLocation === gpu, kind.name);
  }
}, ({ name }) => name === "managed memory of no pool");
