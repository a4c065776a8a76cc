import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ptx as fillPtx } from "../kernels/fill.ts";
import { Cuda } from "../src/cuda.ts";
import { CudaError } from "../src/errors.ts";
import { Session } from "../src/session.ts";
import { nextTurn } from "../src/turn.ts";
import { SoftwareDriver } from "../src/software/software_driver.ts";

interface Devices {
  devices?: number;
  peers?: boolean;
}

/** A test of what can only be arranged on the software device. */
function testSoftware(
  name: string,
  body: (cuda: Cuda) => void | Promise<void>,
  { devices = 2, peers = true }: Devices = {},
) {
  test(name, async () => {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices, peers })));
    await body(cuda);
  });
}

testSoftware("the first byte past a buffer is an illegal address, and the device is lost", async (cuda) => {
  const gpu = cuda.device(0);
  using stack = new DisposableStack();
  const pool = stack.adopt(gpu.createPool(), () => {});
  const buffer = pool.allocate(1001);
  const module = gpu.loadModule(fillPtx);
  const fill = module.kernel("fill");
  fill.launch({ grid: 1, block: 32 }, buffer, 1001, 0);
  gpu.synchronize();
  fill.launch({ grid: 1, block: 32 }, buffer, 1002, 0);
  const error = assertThrows(() => gpu.synchronize(), CudaError);
  assertEquals(error.code, "cudaErrorIllegalAddress");
  assertMatch(error.message, /Line \d+ of the PTX/);
  assertEquals(assertThrows(() => pool.allocate(4), CudaError).code, "cudaErrorIllegalAddress");
  using other = cuda.device(1).createPool();
  using alive = other.allocate(4);
  assertEquals((await alive.read(Uint8Array)).length, 4);
});

testSoftware("memory that was freed cannot be reached any more", (cuda) => {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const buffer = pool.allocate(64);
  const { address } = buffer;
  buffer.free();
  gpu.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 32 }, address, 64, 0);
  assertEquals(assertThrows(() => gpu.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
});

testSoftware("a kernel of another device needs access to the pool", async (cuda) => {
  const [owner, peer] = [cuda.device(0), cuda.device(1)];
  const pool = owner.createPool();
  const buffer = pool.allocate(64);
  await owner.finished();
  pool.setAccess(peer, "read-write");
  const fill = peer.loadModule(fillPtx).kernel("fill");
  fill.launch({ grid: 1, block: 32 }, buffer, 64, 0x05050505);
  await peer.finished();
  assertEquals(await buffer.read(Uint8Array), new Uint8Array(64).fill(5));
  pool.setAccess(peer, "none");
  fill.launch({ grid: 1, block: 32 }, buffer, 64, 0);
  assertEquals(assertThrows(() => peer.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
});

testSoftware("devices that are no peers say so when access is set", (cuda) => {
  using pool = cuda.device(0).createPool();
  const error = assertThrows(() => pool.setAccess(cuda.device(1), "read-write"), CudaError);
  assertEquals(error.code, "cudaErrorPeerAccessUnsupported");
  assertMatch(error.message, /device 1 is no peer of device 0/);
}, { peers: false });

/** Bytes that leave nothing else in the pool to allocate from. */
const wholeSegment = 32 * 2 ** 20;

testSoftware("each reuse policy lets another stream have memory, and without them it does not", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using event = gpu.createEvent();
  using busy = gpu.createPool();
  using ballast = busy.allocate(64 * 2 ** 20, stream);
  for (
    const policy of ["followEventDependencies", "allowOpportunistic", "allowInternalDependencies", "none"] as const
  ) {
    using pool = gpu.createPool({ releaseThreshold: Infinity });
    const { reuse } = pool;
    reuse.followEventDependencies = policy === "followEventDependencies";
    reuse.allowOpportunistic = policy === "allowOpportunistic";
    reuse.allowInternalDependencies = policy === "allowInternalDependencies";
    const first = pool.allocate(wholeSegment, stream);
    const { address } = first;
    ballast.fill(1, stream);
    first.free();
    using sentinel = cuda.allocateHost(1);
    ballast.subarray(0, 1).copyTo(sentinel, stream);
    if (policy === "followEventDependencies") {
      stream.record(event);
      other.wait(event);
    }
    // The work is done, but no synchronization has seen it: only luck finds it out.
    if (policy === "allowOpportunistic") {
      while (new Uint8Array(sentinel.buffer)[0] === 0) await nextTurn();
    }
    using second = pool.allocate(wholeSegment, other);
    assertEquals(second.address === address, policy !== "none", policy);
    second.free();
    gpu.synchronize();
    using third = pool.allocate(wholeSegment, other);
    assert(policy === "none" || third.address === address, "After a synchronization any stream may have the memory");
  }
});

testSoftware("a pool ends at its maxSize", (cuda) => {
  using pool = cuda.device(0).createPool({ maxSize: 4 * 2 ** 20 });
  using _first = pool.allocate(3 * 2 ** 20);
  assertEquals(assertThrows(() => pool.allocate(2 * 2 ** 20), CudaError).code, "cudaErrorMemoryAllocation");
});

testSoftware("the window is given back whole", (cuda) => {
  const gpu = cuda.device(0);
  gpu.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0n, 0, 0);
  gpu.synchronize();
  const { free } = gpu.memoryInfo();
  for (let round = 0; round < 3; round++) {
    using pool = gpu.createPool({ handleType: "posix-fd" });
    using handle = pool.exportHandle();
    using imported = gpu.importPool(handle);
    using buffer = pool.allocate(100 * 2 ** 20);
    using _mapped = imported.importPointer(buffer.exportPointer(), 1);
    assert(gpu.memoryInfo().free < free);
    gpu.synchronize();
  }
  gpu.synchronize();
  assertEquals(gpu.memoryInfo().free, free);
});

testSoftware("many allocations on several streams keep their bytes apart", async (cuda) => {
  const gpu = cuda.device(0);
  const streams = [gpu.createStream(), gpu.createStream({ nonBlocking: true }), gpu.createStream()];
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  let seed = 12345;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
  const held: { buffer: ReturnType<typeof pool.allocate>; byte: number }[] = [];
  for (let step = 0; step < 600; step++) {
    const stream = streams[random(streams.length)]!;
    if (held.length < 20 || random(2) === 0) {
      const buffer = pool.allocate(1 + random(200_000), stream);
      const byte = random(256);
      buffer.fill(byte);
      held.push({ buffer, byte });
    } else {
      const [{ buffer, byte }] = held.splice(random(held.length), 1) as [typeof held[0]];
      assert(buffer.readSync(Uint8Array).every((value) => value === byte), `step ${step}`);
      buffer.free();
    }
  }
  for (const { buffer, byte } of held) {
    assert((await buffer.read(Uint8Array)).every((value) => value === byte));
    buffer.free();
  }
  gpu.synchronize();
  assertEquals(pool.usage().used, 0);
  for (const stream of streams) stream[Symbol.dispose]();
});
