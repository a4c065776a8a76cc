import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { Session } from "../../src/session.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";
import { warningsOf } from "../support/warnings.ts";
import { countHandles } from "../support/handle_balance.ts";
import { isLong } from "../support/test.ts";

const megabytes = 2 ** 20;
const oneThread = { grid: 1, block: 1 };
/** Adds one to the variable `counter`. */
const counterPtx = `.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .u32 counter = 1;
.visible .entry count() {
  .reg .b32 %r<2>;
  ld.global.u32 %r1, [counter];
  add.s32 %r1, %r1, 1;
  st.global.u32 [counter], %r1;
  ret;
}
`;

/** Waits until a condition holds, while the event loop runs. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 1));
}

testOnEachDriver("disposing a module does not wait for its kernels, which still run", async (_, { open }) => {
  const counted = countHandles(open());
  using cuda = new Cuda(new Session(counted.driver));
  const gpu = cuda.device(0);
  using gate = new Gate(cuda);
  const ownModules = counted.open.module ?? 0;
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using buffer = pool.allocate(1024, stream);
  using host = cuda.allocateHost(1024);
  const modules = () => (counted.open.module ?? 0) - ownModules;
  {
    using module = gpu.loadModule(fillPtx);
    const fill = module.kernel("fill");
    fill.launch({ ...oneThread, stream }, buffer, 1024, 0);
    stream.synchronize();
    gate.hold(stream);
    fill.launch({ ...oneThread, stream }, buffer, 1024, 0x01010101);
  }
  assertEquals([stream.query(), modules()], [false, 1]);
  buffer.copyTo(host);
  gate.open();
  await stream.finished();
  assertEquals(new Uint8Array(host.buffer), new Uint8Array(1024).fill(1));
  await until(() => modules() === 0);
});

testOnEachDriver("a module whose kernels are done is unloaded at once", (_, { open }) => {
  const counted = countHandles(open());
  using cuda = new Cuda(new Session(counted.driver));
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  const module = gpu.loadModule(counterPtx);
  module.kernel("count").launch({ ...oneThread, stream });
  module.kernel("count").launch(oneThread);
  gpu.synchronize();
  module[Symbol.dispose]();
  assertEquals(counted.open.module, undefined);
});

testOnEachDriver("a module with a requested variable stays until all streams have done their earlier work", async (
  _,
  { open },
) => {
  const counted = countHandles(open());
  using cuda = new Cuda(new Session(counted.driver));
  const gpu = cuda.device(0);
  using gate = new Gate(cuda);
  const ownModules = counted.open.module ?? 0;
  const modules = () => (counted.open.module ?? 0) - ownModules;
  using host = cuda.allocateHost(4);
  const module = gpu.loadModule(counterPtx);
  const counter = module.getGlobal("counter");
  {
    using stream = gpu.createStream({ nonBlocking: true });
    gate.hold(stream);
    counter.copyTo(host, stream);
  }
  module[Symbol.dispose]();
  assertThrows(() => counter.address, ReferenceError);
  assertEquals(modules(), 1);
  gate.open();
  await until(() => modules() === 0);
  assertEquals(new Uint32Array(host.buffer), Uint32Array.of(1));
});

testOnEachDriver("modules that are disposed while their kernels run do not pile up", async (_, { open }) => {
  const counted = countHandles(open());
  using cuda = new Cuda(new Session(counted.driver));
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  for (let pass = 0; pass < 100; pass++) {
    using module = gpu.loadModule(counterPtx);
    module.kernel("count").launch({ ...oneThread, stream });
    if (pass % 10 === 9) stream.synchronize();
    assert((counted.open.module ?? 0) < 50, `${counted.open.module} modules`);
  }
  await until(() => counted.open.module === undefined);
  await until(() => (counted.open.event ?? 0) === 0);
});

/** The ways to get memory whose stream can be set. */
const sources: Readonly<Record<string, (cuda: Cuda, stack: DisposableStack) => DeviceBuffer>> = {
  "a pool": (cuda, stack) => stack.use(cuda.device(0).createPool()).allocate(megabytes),
  "an allocator": (cuda, stack) => {
    return stack.use(stack.use(cuda.device(0).createPool()).createCachingAllocator()).allocate(megabytes);
  },
  "cudaMalloc": (cuda) => cuda.device(0).allocate(megabytes),
  "another process": (cuda, stack) => {
    const pool = stack.use(cuda.device(0).createPool({ handleType: "posix-fd" }));
    const handle = stack.use(pool.exportHandle());
    const exported = stack.use(pool.allocate(megabytes));
    cuda.device(0).synchronize();
    return stack.use(cuda.device(0).importPool(handle)).importPointer(exported.exportPointer(), megabytes);
  },
};

for (const [source, allocate] of Object.entries(sources)) {
  for (const isKept of [false, true]) {
    const when = isKept ? "during a read" : "at once";
    testOnEachDriver(
      `memory of ${source} whose busy stream was disposed is freed ${when}, after its work`,
      async (cuda) => {
        const gpu = cuda.device(0);
        using stack = new DisposableStack();
        using gate = new Gate(cuda);
        using host = cuda.allocateHost(megabytes);
        const buffer = allocate(cuda, stack);
        buffer.fill(1);
        gpu.synchronize();
        const stream = gpu.createStream({ nonBlocking: true });
        buffer.stream = stream;
        gate.hold(stream);
        buffer.copyTo(host);
        const reading = isKept ? buffer.read(Uint8Array) : undefined;
        stream[Symbol.dispose]();
        // Freeing memory outside any pool blocks until the work is done.
        if (source === "cudaMalloc") gate.open();
        buffer.free();
        using other = buffer.pool === undefined || !("allocate" in buffer.pool)
          ? undefined
          : buffer.pool.allocate(megabytes);
        other?.fill(9);
        gate.open();
        if (reading !== undefined) assertEquals((await reading).indexOf(9), -1);
        gpu.synchronize();
        assertEquals(new Uint8Array(host.buffer).findIndex((byte) => byte !== 1), -1);
      },
    );
  }
}

testOnEachDriver("disposing a Cuda object reports memory that was not freed", async (_, { open }) => {
  const cuda = new Cuda(new Session(open()));
  const gpu = cuda.device(0);
  const pool = gpu.createPool({ handleType: "posix-fd" });
  const allocator = gpu.createPool().createCachingAllocator();
  using handle = pool.exportHandle();
  const buffer = pool.allocate(1000);
  gpu.synchronize();
  gpu.importPool(handle).importPointer(buffer.exportPointer(), 500);
  allocator.allocate(1024);
  gpu.allocate(24);
  gpu.allocate(8);
  cuda.allocateHost(16);
  gpu.createStream();
  const warnings = await warningsOf(() => cuda[Symbol.dispose]());
  assertEquals(warnings, [
    "poolpass: 2 buffers (2024 bytes), 1 imported buffer (500 bytes), 2 unpooled buffers (32 bytes), " +
    "1 host buffer (16 bytes) not freed before the Cuda object was disposed",
  ]);
});

testOnEachDriver(
  "objects that were not disposed are reported only in debug mode, with their origins",
  async (_, driver) => {
    const leave = (cuda: Cuda): void => {
      const gpu = cuda.device(0);
      for (let count = 0; count < 2; count++) gpu.createStream();
      gpu.createEvent();
      gpu.createPool();
      gpu.loadModule(counterPtx);
      gpu.createStream()[Symbol.dispose]();
      gpu.createPool()[Symbol.dispose]();
      void gpu.defaultPool;
      cuda[Symbol.dispose]();
    };
    assertEquals(await warningsOf(() => leave(new Cuda(new Session(driver.open())))), []);
    const debugging = new Cuda(new Session(driver.open(), { debug: true }));
    const [warning, ...others] = await warningsOf(() => leave(debugging));
    assertEquals(others, []);
    const [first, ...lines] = warning!.split("\n");
    const open = "2 streams, 1 event, 1 pool, 1 module not disposed";
    assertEquals(first, `poolpass: ${open} before the Cuda object was disposed`);
    assertEquals(lines.filter((line) => line.endsWith(" created")), [
      "stream created",
      "stream created",
      "event created",
      "pool created",
      "module created",
    ]);
    assertMatch(warning!, /disposal_test\.ts/);
  },
);

/** A generator of reproducible random numbers from 0 to 1 (mulberry32). */
function randomNumbers(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let bits = Math.imul(seed ^ (seed >>> 15), seed | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Opens something of every kind, and uses it. */
function openAll(cuda: Cuda): Disposable[] {
  const gpu = cuda.device(0);
  const streams = [gpu.createStream(), gpu.createStream({ nonBlocking: true })];
  const pool = gpu.createPool({ handleType: "posix-fd" });
  const plain = gpu.createPool({ releaseThreshold: Infinity });
  const allocator = plain.createCachingAllocator();
  const handle = pool.exportHandle();
  const module = gpu.loadModule(fillPtx);
  const withVariable = gpu.loadModule(counterPtx);
  withVariable.getGlobal("counter");
  const opened: Disposable[] = [...streams, pool, plain, allocator, handle, module, withVariable, gpu.createEvent()];
  opened.push(gpu.createEvent({ interprocess: true }), cuda.allocateHost(100), gpu.allocate(100));
  const allocateOn = (stream: CudaStream): void => {
    const buffers = [pool.allocate(1000, stream), plain.allocate(1000, stream), allocator.allocate(1000, stream)];
    for (const buffer of buffers) module.kernel("fill").launch({ ...oneThread, stream }, buffer, buffer.byteLength, 1);
    opened.push(...buffers);
  };
  for (const stream of [...streams, gpu.defaultStream]) allocateOn(stream);
  const shared = pool.allocate(1000);
  gpu.synchronize();
  const [first, second] = [gpu.importPool(handle), gpu.importPool(handle)];
  const mapped = [first.importPointer(shared.exportPointer(), 1000), second.importPointer(shared.exportPointer(), 10)];
  return [...opened, shared, first, second, ...mapped];
}

testOnEachDriver("nothing is left after a Cuda object, in any order of disposal", async (_, driver) => {
  const orders = isLong ? 200 : 20;
  let freeBytes: number | undefined;
  for (let seed = 1; seed <= orders; seed++) {
    const random = randomNumbers(seed);
    // Pending work goes on after the end, as on a GPU.
    const counted = countHandles(driver.open(), { dropsWork: false });
    const cuda = new Cuda(new Session(counted.driver));
    const objects = openAll(cuda).map((object) => ({ object, key: random() })).sort((a, b) => a.key - b.key);
    const end = Math.floor(random() * (objects.length + 1));
    const isSynchronized = random() < 0.5;
    await warningsOf(async () => {
      for (const { object } of objects.splice(0, end)) disposeOf(object);
      if (isSynchronized) { for (const device of cuda.devices) device.synchronize(); }
      cuda[Symbol.dispose]();
      if (isSynchronized) assertEquals(counted.open, {}, `seed ${seed}, disposed after ${end} objects`);
      for (const { object } of objects) disposeOf(object);
      await until(() => Object.keys(counted.open).length === 0);
    });
    using next = new Cuda(new Session(driver.open()));
    using pool = next.device(0).createPool();
    pool.allocate(1000).free();
    next.device(0).synchronize();
    // The first orders may load what CUDA keeps.
    const { free } = next.device(0).memoryInfo();
    if (seed > 2) freeBytes ??= free;
    // A pool would keep 32 MiB.
    const lost = freeBytes === undefined ? 0 : freeBytes - free;
    assert(lost < 16 * megabytes, `seed ${seed}: ${lost} bytes are lost`);
  }
});

function disposeOf(object: Disposable): void {
  try {
    object[Symbol.dispose]();
  } catch (error) {
    assertMatch(String(error), /ReferenceError: Cannot dispose the imported pool .* buffers are not freed/);
  }
}

testOnEachDriver(
  "disposing a Cuda object does not wait for its work, and releases all when that is done",
  async (_, driver) => {
    let isClosed = false;
    const real = driver.open();
    // Two Cuda objects of one driver, of which one holds the other's stream. The driver outlives both.
    const counted = countHandles(real, { dropsWork: false, close: () => void (isClosed = true) });
    using cuda = new Cuda(new Session(counted.driver));
    using holder = new Cuda(new Session(real));
    using gate = new Gate(holder);
    using held = holder.device(0).createStream({ nonBlocking: true });
    using event = holder.device(0).createEvent();
    const stream = cuda.device(0).createStream({ nonBlocking: true });
    const pool = cuda.device(0).createPool();
    cuda.device(0).loadModule(fillPtx);
    const host = cuda.allocateHost(8);
    pool.allocate(1000, stream).free();
    stream.synchronize();
    gate.hold(held);
    held.record(event);
    counted.driver.streamWaitEvent(0, stream.unsafeHandle, event.unsafeHandle);
    pool.allocate(1000, stream).fill(1);
    pool.allocate(1000, stream).free();
    const warnings = await warningsOf(() => cuda[Symbol.dispose]());
    assertEquals(warnings.length, 1);
    assertThrows(() => stream.query(), ReferenceError, "the Cuda object was disposed");
    assertThrows(() => host.buffer, ReferenceError, "it was disposed");
    assert(!isClosed && counted.open.stream === 1);
    gate.open();
    await until(() => isClosed);
    assertEquals(counted.open, {});
  },
);

testOnEachDriver("errors while a Cuda object is disposed do not keep the rest from being released", (_, { open }) => {
  const fail = (name: string) => () => {
    throw new Error(`${name} failed`);
  };
  const overrides = { eventDestroy: fail("eventDestroy"), memPoolDestroy: fail("memPoolDestroy") };
  const counted = countHandles(open(), overrides);
  const cuda = new Cuda(new Session(counted.driver));
  const gpu = cuda.device(0);
  gpu.createStream();
  gpu.createEvent();
  gpu.createPool().allocate(100).free();
  gpu.loadModule(counterPtx);
  gpu.synchronize();
  const error = assertThrows(() => cuda[Symbol.dispose](), SuppressedError);
  assertEquals(new Set(messagesOf(error)), new Set(["eventDestroy failed", "memPoolDestroy failed"]));
  // On a GPU, there is also the event by which the end waits for the context.
  assertEquals(Object.keys(counted.open).sort(), ["event", "pool"]);
});

/** The messages of an error and of all errors that it suppressed. */
function messagesOf(error: unknown): string[] {
  if (error instanceof SuppressedError) return [...messagesOf(error.error), ...messagesOf(error.suppressed)];
  return [(error as Error).message];
}
