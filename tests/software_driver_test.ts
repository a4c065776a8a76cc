import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ptx as fillPtx } from "../kernels/fill.ts";
import { CudaError } from "../src/errors.ts";
import { SoftwareDriver } from "../src/software/software_driver.ts";
import { testSoftware } from "./software_devices.ts";

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
  assertMatch(error.message, /give device 1 access to a pool of device 0: the two are no peers/);
}, { peers: false });

test("where no device is visible, opening says so and what to do", () => {
  for (const visible of ["", "7", "-1,0", "GPU-", "0,0"]) {
    const error = assertThrows(() => new SoftwareDriver({ devices: 2, peers: true, visible }), CudaError);
    assertEquals([error.code, error.call], ["cudaErrorNoDevice", "cuInit"]);
    assertMatch(error.message, new RegExp(`CUDA_VISIBLE_DEVICES="${visible}" .*unset it`));
  }
});

test("an invalid name hides the devices from it on", () => {
  const driver = new SoftwareDriver({ devices: 3, peers: true, visible: "2,0,-1,1" });
  assertEquals(driver.getDeviceCount(), 2);
  driver.close();
});

testSoftware("a lost device does not keep what was freed on its streams", (cuda) => {
  const [owner, peer] = [cuda.device(0), cuda.device(1)];
  const stream = owner.createStream();
  const pool = owner.createPool();
  const buffer = pool.allocate(2000, stream);
  const { address } = buffer;
  stream.synchronize();
  peer.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0n, 4, 0);
  buffer.free(peer.defaultStream);
  assertEquals(assertThrows(() => peer.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
  owner.synchronize();
  const again = pool.allocate(32, stream);
  assertEquals(again.address, address);
  owner.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1, stream }, address + 1024n, 4, 0);
  assertEquals(assertThrows(() => owner.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
});

testSoftware(
  "an error that nothing foresaw loses the device, and the event loop and the other streams go on",
  async (cuda, driver) => {
    const [gpu, other] = [cuda.device(0), cuda.device(1)];
    const stream = gpu.createStream({ nonBlocking: true });
    const pool = gpu.createPool();
    const buffer = pool.allocate(64, stream);
    const host = driver.hostAlloc(64);
    driver.memcpyDtoHAsync(0, new Uint8Array(host.buffer), buffer.address, stream.unsafeHandle);
    // Nothing can be copied into a buffer that the program has taken away.
    host.buffer.transfer();
    await new Promise((resolve) => setTimeout(resolve, 5));
    const error = assertThrows(() => stream.synchronize(), CudaError);
    assertEquals(error.code, "cudaErrorUnknown");
    assertMatch(error.message, /device 0 was lost/);
    using otherPool = other.createPool();
    using alive = otherPool.allocate(4);
    alive.fill(3);
    assertEquals(await alive.read(Uint8Array), new Uint8Array(4).fill(3));
  },
);

testSoftware("a copy to pageable memory that the device was lost before fails", (cuda, driver) => {
  const gpu = cuda.device(0);
  const buffer = gpu.createPool().allocate(64);
  gpu.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0n, 4, 0);
  const error = assertThrows(() => driver.memcpyDtoHAsync(0, new Uint8Array(64), buffer.address, 0n), CudaError);
  assertEquals(error.code, "cudaErrorIllegalAddress");
});

testSoftware("events of a lost device have no time between them, but its error", (cuda) => {
  const gpu = cuda.device(0);
  const [start, end] = [gpu.createEvent({ timing: true }), gpu.createEvent({ timing: true })];
  gpu.defaultStream.record(start);
  gpu.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0n, 4, 0);
  gpu.defaultStream.record(end);
  assertThrows(() => gpu.synchronize(), CudaError);
  assertEquals(assertThrows(() => end.elapsedTime(start), CudaError).code, "cudaErrorIllegalAddress");
});
