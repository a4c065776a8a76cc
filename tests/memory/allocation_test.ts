import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { allocationOf } from "../../src/memory/device_buffer.ts";
import type { Driver } from "../../src/driver.ts";
import { whenPoolDisposed } from "../../src/memory/pools/memory_pool.ts";
import { Session } from "../../src/session.ts";
import { watchedDriver } from "../support/adapted_driver.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { indexOfOther } from "../support/bytes.ts";
import { recordWarnings } from "../support/warnings.ts";

const megabytes = 2 ** 20;
/** Declares one variable, `counter`. */
const modulePtx = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .global .align 4 .u32 counter = 1;\n";

interface DriverCall {
  readonly name: string;
  readonly arguments: readonly unknown[];
}

/** Records each call of a driver's methods in `calls`. */
function recordCalls(driver: Driver, calls: DriverCall[]): Driver {
  return watchedDriver(driver, (name, given) => calls.push({ name, arguments: given }));
}

function nothing(): void {}

testOnEachDriver("memory that is freed while it is kept stays allocated until it is released", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  const buffer = pool.allocate(1000, stream);
  const state: [freed: number, isFreed: boolean][] = [];
  let freed = 0;
  const letGo = allocationOf(buffer).keep(() => state.push([++freed, inspect(buffer).endsWith("freed, still kept }")]));
  assertEquals(state, []);
  buffer.free();
  assertEquals(state, [[1, true]], "onFree is called once, when the buffer is freed already");
  assertThrows(() => buffer.address, ReferenceError, "it was freed");
  assertThrows(() => buffer.free(), ReferenceError, "it was freed");
  assertThrows(() => allocationOf(buffer).keep(nothing), ReferenceError, "it was freed");
  buffer[Symbol.dispose]();
  stream.synchronize();
  assert(pool.usage().used >= 1000);
  letGo();
  stream.synchronize();
  assertEquals(pool.usage().used, 0);
  assertMatch(inspect(buffer), /freed }$/);
  using other = pool.allocate(1000, stream);
  letGo();
  stream.synchronize();
  assert(pool.usage().used >= 1000, "A second letting go frees nothing");
  assertEquals(state.length, 1);
  other.free();
});

testOnEachDriver("memory that is no longer kept is freed immediately", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const buffer = pool.allocate(1000);
  let freed = 0;
  const letGo = allocationOf(buffer).keep(() => freed++);
  letGo();
  assertMatch(inspect(buffer), /0x[0-9a-f]+ }$/);
  buffer.free();
  gpu.synchronize();
  assertEquals([freed, pool.usage().used], [0, 0]);
  letGo();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver(
  "memory stays until its last holder releases it, and a second release by one holder has no effect",
  (cuda) => {
    const gpu = cuda.device(0);
    using pool = gpu.createPool();
    const buffer = pool.allocate(1000);
    const notified: string[] = [];
    const letGoFirst = allocationOf(buffer).keep(() => {
      notified.push("first");
      letGoThird();
    });
    const letGoSecond = allocationOf(buffer).keep(() => notified.push("second"));
    const letGoThird = allocationOf(buffer).keep(() => notified.push("third"));
    buffer.free();
    assertEquals(notified, ["first", "second"], "a holder that released is not notified");
    letGoFirst();
    letGoFirst();
    gpu.synchronize();
    assert(pool.usage().used >= 1000);
    letGoSecond();
    gpu.synchronize();
    assertEquals(pool.usage().used, 0);
  },
);

testOnEachDriver("a holder may release memory in its onFree callback", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const buffer = pool.allocate(1000);
  const letGo = allocationOf(buffer).keep(() => letGo());
  buffer.free();
  gpu.synchronize();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("a part of a buffer has the allocation of the whole, and keeping it keeps the whole", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, 1000);
  const part = array.subarray(100, 200).subarray(10, 20);
  assert(allocationOf(part) === allocationOf(array));
  assertEquals([allocationOf(part).address, part.address], [array.address, array.address + 440n]);
  let freed = 0;
  const letGo = allocationOf(part).keep(() => freed++);
  array.free();
  assertEquals(freed, 1);
  assertMatch(inspect(part), /freed, still kept }$/);
  gpu.synchronize();
  assert(pool.usage().used >= 4000);
  letGo();
  gpu.synchronize();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("kept memory is freed on the stream that was passed to free", (_, driver) => {
  const calls: DriverCall[] = [];
  using cuda = new Cuda(new Session(recordCalls(driver.open(), calls)));
  const gpu = cuda.device(0);
  using allocating = gpu.createStream();
  using freeing = gpu.createStream();
  using pool = gpu.createPool();
  const buffer = pool.allocate(1000, allocating);
  const { address } = buffer;
  const frees = () => calls.filter(({ name }) => name === "freeAsync").map((call) => call.arguments);
  const letGo = allocationOf(buffer).keep(nothing);
  buffer.free(freeing);
  assertEquals(frees(), []);
  letGo();
  assertEquals(frees(), [[0, address, freeing.unsafeHandle]]);
});

testOnEachDriver("kept memory whose stream was destroyed is freed behind the work of that stream", async (cuda) => {
  const gpu = cuda.device(0);
  const byteLength = 32 * megabytes;
  // The next allocation must reuse the memory.
  using pool = gpu.createPool({ maxSize: byteLength });
  using module = gpu.loadModule(fillPtx);
  const stream = gpu.createStream({ nonBlocking: true });
  const buffer = pool.allocate(byteLength, stream);
  const { address } = buffer;
  // One thread writes half of it. If the buffer were freed immediately, the next owner would see the writes.
  module.kernel("fill").launch({ grid: 1, block: 1, stream }, buffer, byteLength / 2, 1);
  const letGo = allocationOf(buffer).keep(nothing);
  buffer.free();
  stream[Symbol.dispose]();
  letGo();
  using next = pool.allocate(byteLength);
  assertEquals(next.address, address);
  next.fill(4);
  await gpu.finished();
  assertEquals(indexOfOther(await next.read(Uint8Array), 4), -1);
});

testOnEachDriver("kept memory is freed on the default stream if its own was destroyed, and on no other", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const stream = gpu.createStream();
  const buffer = pool.allocate(1000, stream);
  let freed = 0;
  const letGo = allocationOf(buffer).keep(() => freed++);
  stream[Symbol.dispose]();
  assertThrows(() => buffer.free(stream), ReferenceError, "stream of device 0: it was disposed");
  assertEquals(freed, 0);
  buffer.free();
  assertEquals(freed, 1);
  letGo();
  gpu.synchronize();
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("reads and holders keep the same memory, and the last of them frees it", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using reader = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  const byteLength = 64 * megabytes;
  for (const letsGoFirst of [true, false]) {
    const buffer = pool.allocate(byteLength, stream);
    buffer.fill(3);
    await stream.finished();
    const letGo = allocationOf(buffer).keep(nothing);
    const reading = buffer.read(Uint8Array, { stream: reader });
    buffer.free();
    if (letsGoFirst) letGo();
    using other = pool.allocate(byteLength, stream);
    other.fill(4);
    assertEquals(indexOfOther(await reading, 3), -1);
    other.free();
    stream.synchronize();
    if (!letsGoFirst) assert(pool.usage().used >= byteLength);
    letGo();
    stream.synchronize();
    assertEquals(pool.usage().used, 0);
  }
});

testOnEachDriver("a pool outlives its kept memory, and does not report it as leaked", (_, driver) => {
  const calls: DriverCall[] = [];
  using cuda = new Cuda(new Session(recordCalls(driver.open(), calls)));
  using recorded = recordWarnings();
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const handle = pool.unsafeHandle;
  const destroys = () => calls.filter(({ name }) => name === "memPoolDestroy").map((call) => call.arguments);
  const buffer = pool.allocate(1000);
  const letGo = allocationOf(buffer).keep(nothing);
  buffer.free();
  pool[Symbol.dispose]();
  assertEquals(destroys(), []);
  letGo();
  assertEquals(destroys(), [[handle]]);
  assertEquals(recorded.warnings, []);
});

testOnEachDriver("a pool reports kept memory only if it was never freed", (cuda) => {
  using recorded = recordWarnings();
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const leaked = pool.allocate(24);
  const freed = pool.allocate(1000);
  const letGoLeaked = allocationOf(leaked).keep(nothing);
  const letGo = allocationOf(freed).keep(nothing);
  freed.free();
  pool[Symbol.dispose]();
  assertEquals(recorded.warnings.length, 1);
  assertMatch(
    recorded.warnings[0]!,
    /: 1 buffer was not freed before the pool on device 0 was disposed, 24 bytes; free them/,
  );
  letGo();
  leaked.free();
  letGoLeaked();
}, { makesMistakes: true });

testOnEachDriver("holders of a pool's memory are notified when the pool is disposed", (_, driver) => {
  const calls: DriverCall[] = [];
  using cuda = new Cuda(new Session(recordCalls(driver.open(), calls)));
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const handle = pool.unsafeHandle;
  gpu.currentPool = pool;
  const buffer = pool.allocate(1000);
  const letGo = allocationOf(buffer).keep(nothing);
  buffer.free();
  const notified: string[] = [];
  whenPoolDisposed(pool, () => {
    assertThrows(() => pool.allocate(1), ReferenceError, "it was disposed");
    notified.push("first");
    letGo();
  });
  const same = () => notified.push("same");
  whenPoolDisposed(pool, same);
  const cancel = whenPoolDisposed(pool, same);
  cancel();
  cancel();
  assertEquals(notified, []);
  pool[Symbol.dispose]();
  pool[Symbol.dispose]();
  assertEquals(notified, ["first", "same"]);
  const destroys = calls.filter(({ name }) => name === "memPoolDestroy").map((call) => call.arguments);
  assertEquals(destroys, [[handle]]);
  assert(gpu.currentPool === gpu.defaultPool);
  assertThrows(() => whenPoolDisposed(pool, nothing), ReferenceError, "the pool on device 0: it was disposed");
});

testOnEachDriver("disposing a device's default pool has no effect and notifies no holders", (cuda) => {
  const { defaultPool } = cuda.device(0);
  const cancel = whenPoolDisposed(defaultPool, () => {
    throw new Error("It is not disposed");
  });
  defaultPool[Symbol.dispose]();
  cancel();
});

testOnEachDriver("memory without a pool can be kept, and is not reported once it was freed", (cuda, driver) => {
  using recorded = recordWarnings();
  const letGo = (() => {
    using other = new Cuda(new Session(driver.open()));
    const buffer = other.device(0).allocate(1000);
    const letGo = allocationOf(buffer).keep(nothing);
    buffer.free();
    return letGo;
  })();
  letGo();
  assertEquals(recorded.warnings, []);
  const gpu = cuda.device(0);
  const calls: string[] = [];
  const buffer = gpu.allocate(1000);
  buffer.fill(6);
  const held = allocationOf(buffer).keep(() => calls.push("freed"));
  buffer.free();
  assertEquals(calls, ["freed"]);
  held();
  assertMatch(inspect(buffer), /freed }$/);
});

testOnEachDriver("disposing a Cuda object also frees kept memory", (_, driver) => {
  using recorded = recordWarnings();
  const cuda = new Cuda(new Session(driver.open()));
  const gpu = cuda.device(0);
  const stream = gpu.createStream();
  const pool = gpu.createPool();
  const freed = pool.allocate(1000, stream);
  const unfreed = pool.allocate(1000, stream);
  const letGoFreed = allocationOf(freed).keep(nothing);
  const letGoUnfreed = allocationOf(unfreed).keep(nothing);
  const letGoLater = allocationOf(unfreed).keep(nothing);
  freed.free();
  cuda[Symbol.dispose]();
  letGoFreed();
  letGoUnfreed();
  unfreed[Symbol.dispose]();
  letGoLater();
  pool[Symbol.dispose]();
  stream[Symbol.dispose]();
  assertEquals(recorded.warnings, [
    "poolpass: 1 buffer (1000 bytes) not freed before the Cuda object was disposed",
  ]);
});

testOnEachDriver("a module's variable is freed with its module, and cannot be kept", (cuda) => {
  using module = cuda.device(0).loadModule(modulePtx);
  const variable = module.getGlobal("counter");
  assertThrows(
    () => allocationOf(variable).keep(nothing),
    TypeError,
    "Cannot keep the buffer: it is a module's variable",
  );
});
