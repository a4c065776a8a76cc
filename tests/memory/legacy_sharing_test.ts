import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { writeAt } from "../../ffi/native/shim/descriptors.ts";
import { ptx } from "../../kernels/fill.ts";
import { eventFlags } from "../../src/driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { startScript } from "../support/child_process.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { warningsOf } from "../support/warnings.ts";
import { assertNothingLeft, countResources } from "../support/resources.ts";
import { testSoftware } from "../support/software_devices.ts";

testOnEachDriver("memory without a pool is allocated, written, read and freed", async (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.allocate(2 ** 26);
  const { free } = gpu.memoryInfo();
  assertEquals([memory.pool, memory.byteLength], [undefined, 2 ** 26]);
  assert(memory.stream === gpu.defaultStream && memory.device === gpu);
  using stream = gpu.createStream({ nonBlocking: true });
  using module = gpu.loadModule(ptx);
  module.kernel("fill").launch({ grid: 64, block: 256, stream }, memory, memory.byteLength, 0x05050505);
  const bytes = await memory.read(Uint8Array, { stream, length: 1000, byteOffset: 2 ** 26 - 1000 });
  assertEquals(bytes, new Uint8Array(1000).fill(5));
  memory.free(stream);
  assertThrows(() => memory.address, ReferenceError, "it was freed");
  assert(gpu.memoryInfo().free > free);
});

testOnEachDriver("memory without a pool refuses impossible sizes and operations that need a pool", (cuda) => {
  const gpu = cuda.device(0);
  for (const size of [0, -1, 1.5, NaN]) assertThrows(() => gpu.allocate(size), RangeError, `Cannot use ${size}`);
  const error = assertThrows(() => gpu.allocate(2 ** 46), CudaError);
  assertEquals([error.code, error.call], ["cudaErrorMemoryAllocation", "cudaMalloc"]);
  assertMatch(error.message, /^Cannot allocate 70368744177664 bytes on device 0: .*free memory or ask for less$/);
  using memory = gpu.allocate(1000);
  assertThrows(() => memory.exportPointer(), TypeError, "not from a pool");
  const unseen = assertThrows(() => memory.hostView(), CudaError);
  assertStringIncludes(unseen.message, "Cuda.createHostPool");
  using pool = gpu.createPool();
  using buffer = pool.allocate(1000);
  assertThrows(() => buffer.exportHandle(), TypeError, "only memory from CudaDevice.allocate has one");
  assertThrows(() => memory.subarray(0, 10).exportHandle(), TypeError, "a part of a buffer");
});

testOnEachDriver("invalid handles are refused", (cuda) => {
  const gpu = cuda.device(0);
  assertThrows(() => gpu.openMemory(new Uint8Array(63), 1), RangeError, "a handle of 63 bytes: a handle has 64");
  assertThrows(() => gpu.openEvent(new Uint8Array(0)), RangeError, "a handle of 0 bytes: a handle has 64");
  assertThrows(() => gpu.openMemory("x" as never, 1), TypeError, "give its handle as a Uint8Array");
  assertThrows(() => gpu.openMemory(new Uint8Array(64), 0), RangeError, "the size of opened memory");
  const plain = gpu.createEvent();
  const error = assertThrows(() => plain.exportHandle(), CudaError);
  plain[Symbol.dispose]();
  assertEquals(error.code, "cudaErrorInvalidResourceHandle");
  assertStringIncludes(error.message, "create it with { interprocess: true }");
});

testOnEachDriver("a process cannot open the handles that it exported itself", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.allocate(1000);
  using event = gpu.createEvent({ interprocess: true });
  const ofMemory = assertThrows(() => gpu.openMemory(memory.exportHandle(), 1000), CudaError);
  const ofEvent = assertThrows(() => gpu.openEvent(event.exportHandle()), CudaError);
  for (const { code, message } of [ofMemory, ofEvent]) {
    assertEquals(code, "cudaErrorDeviceUninitialized");
    assert(
      message.endsWith("; a process cannot open what it has exported itself: open it in another process"),
      message,
    );
  }
});

testOnEachDriver("another process opens memory and waits for an event on its stream", async (cuda, driver) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using memory = gpu.allocate(2 ** 20);
  using event = gpu.createEvent({ interprocess: true });
  using module = gpu.loadModule(ptx);
  const fill = module.kernel("fill");
  for (let value = 1; value <= 40; value++) {
    fill.launch({ grid: 1, block: 64, stream }, memory, memory.byteLength, value * 0x01010101);
  }
  stream.record(event);
  const handles = [memory.exportHandle().toHex(), event.exportHandle().toHex()];
  await using child = startScript("children/sharing/use_shared.ts", [
    driver.name,
    ...handles,
    String(memory.byteLength),
  ]);
  const line = await child.nextLine();
  assertEquals(await child.ended, 0, await child.errors());
  const seen = JSON.parse(line!);
  assertEquals([seen.first, seen.isUniform, seen.isMappedOnce, seen.still], [40, true, true, 41]);
  assertMatch(seen.tooLong, /^size-mismatch: Cannot open 1099511627776 bytes: the other process has allocated \d+$/);
  assertMatch(seen.garbageMemory, /^cudaErrorInvalidValue: Cannot open memory of another process/);
  assertMatch(seen.garbageEvent, /^cudaErrorMapBufferObjectFailed: Cannot open an event of another process/);
  assertMatch(seen.exported, /^cudaErrorInvalidResourceHandle: /);
  assertEquals(await memory.read(Uint8Array), new Uint8Array(2 ** 20).fill(41));
});

testOnEachDriver("peers reach memory without a pool once peer access is enabled", async (cuda) => {
  const [gpu, peer] = [cuda.device(0), cuda.device(1)];
  if (!peer.canAccessPeer(gpu)) return;
  using memory = gpu.allocate(4096);
  using module = peer.loadModule(ptx);
  using stream = peer.createStream();
  peer.enablePeerAccess(gpu);
  module.kernel("fill").launch({ grid: 1, block: 64, stream }, memory, 4096, 0x07070707);
  await stream.finished();
  assertEquals(await memory.read(Uint8Array), new Uint8Array(4096).fill(7));
  const error = assertThrows(() => peer.enablePeerAccess(gpu), CudaError);
  assertEquals(error.code, "cudaErrorPeerAccessAlreadyEnabled");
  assertStringIncludes(error.message, "; it is enabled already");
  peer.disablePeerAccess(gpu);
  const disabled = assertThrows(() => peer.disablePeerAccess(gpu), CudaError);
  assertEquals(disabled.code, "cudaErrorPeerAccessNotEnabled");
  assertStringIncludes(disabled.message, "; it is not enabled");
  const own = assertThrows(() => gpu.enablePeerAccess(gpu), CudaError);
  assertStringIncludes(own.message, "; a device has access to its own memory");
}, { devices: 2 });

testSoftware("leaked memory without a pool is reported", async (cuda) => {
  let memory;
  const warnings = await warningsOf(() => {
    memory = cuda.device(0).allocate(1000);
    cuda.device(0).allocate(24).free();
    cuda[Symbol.dispose]();
  });
  assertEquals(warnings, [
    "poolpass: 1 unpooled buffer (1000 bytes) not freed before the Cuda object was disposed",
  ]);
  memory![Symbol.dispose]();
});

testOnEachDriver("a buffer that is freed during a read is not reported as leaked", async (cuda) => {
  const warnings = await warningsOf(async () => {
    const memory = cuda.device(0).allocate(2 ** 26);
    memory.fill(3);
    const reading = memory.read(Uint8Array);
    memory.free();
    assertEquals((await reading)[2 ** 26 - 1], 3);
    cuda[Symbol.dispose]();
  });
  assertEquals(warnings, []);
});

testSoftware("memory that a lost context made impossible to free is not reported as leaked", async (cuda) => {
  const warnings = await warningsOf(() => {
    const gpu = cuda.device(0);
    const pool = gpu.createPool();
    const buffer = pool.allocate(1000);
    const memory = gpu.allocate(1000);
    const module = gpu.loadModule(ptx);
    module.kernel("fill").launch({ grid: 1, block: 32 }, memory, 2000, 1);
    assertThrows(() => gpu.synchronize(), CudaError, "the device's context is lost");
    for (const each of [module, memory, buffer, pool, cuda]) each[Symbol.dispose]();
  });
  assertEquals(warnings, []);
});

testSoftware("an error for memory that a lost context made impossible to free is thrown once", (cuda) => {
  const [gpu, other] = [cuda.device(0), cuda.device(1)];
  using memory = gpu.allocate(1000);
  using stream = other.createStream();
  using module = gpu.loadModule(ptx);
  module.kernel("fill").launch({ grid: 1, block: 32 }, memory, 2000, 1);
  assertThrows(() => gpu.synchronize(), CudaError, "the device's context is lost");
  const { message } = assertThrows(() => memory.free(stream), CudaError);
  assertMatch(
    message,
    /^Cannot free the buffer of 1000 bytes on device 0: (cudaStreamSynchronize failed: cudaError|kernel fill )/,
  );
});

testSoftware(
  "dispose does not wait for leaked memory, on a device that waits for an event of a dead process",
  async (cuda, driver) => {
    const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming | eventFlags.interprocess);
    const fd = new DataView(driver.ipcGetEventHandle(event).buffer).getUint32(12, true);
    // Imitates a process that recorded the event and died before its stream reached it.
    writeAt(fd, new Uint8Array(new BigInt64Array([1n]).buffer), { offset: 65536 });
    driver.streamWaitEvent(0, 0n, event);
    const warnings = await warningsOf(() => {
      cuda.device(0).allocate(1000);
      cuda[Symbol.dispose]();
    });
    assertEquals(warnings.length, 1);
  },
);

testOnEachDriver("sharing by handles leaves no resources behind", async (cuda) => {
  const gpu = cuda.device(0);
  const share = () => {
    using memory = gpu.allocate(100_000);
    using event = gpu.createEvent({ interprocess: true });
    memory.exportHandle();
    memory.exportHandle();
    event.exportHandle();
  };
  share();
  const before = countResources();
  for (let round = 0; round < 20; round++) share();
  await assertNothingLeft(before);
});
