import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { test } from "node:test";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { eventFlags, hostRegisterFlag } from "../../src/driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { VisibleDevices } from "../../src/software/visible_devices.ts";
import { countResources } from "../support/resources.ts";
import { codeOf, launchFill, readBytes } from "../support/software_calls.ts";
import { testSoftware } from "../support/software_devices.ts";

const trapPtx = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry stop() { trap; ret; }\n";

testSoftware("accessing the first byte past a buffer is an illegal address, and all devices are lost", (cuda) => {
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
  assertMatch(
    error.message,
    /kernel fill, block \(0,0,0\), thread \(\d+,0,0\), fill\.cu:\d+: writes 1 byte at 0x7a\w+, right past the end of a buffer of 1001 bytes on device 0 \(/,
  );
  assertEquals(assertThrows(() => pool.allocate(4), CudaError).code, "cudaErrorIllegalAddress");
  const other = assertThrows(() => cuda.device(1).createStream(), CudaError);
  assertEquals(other.code, "cudaErrorIllegalAddress");
  assertMatch(other.message, /kernel fill on device 0/);
});

testSoftware("freed memory is inaccessible", (cuda) => {
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

testSoftware("setting access for devices that are not peers fails with the reason", (cuda) => {
  using pool = cuda.device(0).createPool();
  const error = assertThrows(() => pool.setAccess(cuda.device(1), "read-write"), CudaError);
  assertEquals(error.code, "cudaErrorPeerAccessUnsupported");
  assertMatch(error.message, /give device 1 access to a pool of device 0: the devices are not peers/);
}, { peers: false });

test("if no device is visible, open fails with the reason and advice", () => {
  for (const visible of ["", "7", "-1,0", "GPU-", "0,0"]) {
    const error = assertThrows(() => new SoftwareDriver({ devices: 2, peers: true, visible }), CudaError);
    assertEquals([error.code, error.call], ["cudaErrorNoDevice", "cuInit"]);
    assertMatch(error.message, new RegExp(`CUDA_VISIBLE_DEVICES="${visible}" .*unset it`));
  }
});

test("an invalid name in the list hides the devices from there on", () => {
  const driver = new SoftwareDriver({ devices: 3, peers: true, visible: "2,0,-1,1" });
  assertEquals(driver.getDeviceCount(), 2);
  driver.close();
});

testSoftware("lost devices release the memory freed on their streams", (cuda, driver) => {
  const [owner, peer] = [cuda.device(0), cuda.device(1)];
  const module = peer.loadModule(fillPtx);
  const create = () => driver.memPoolCreate({ handleTypes: 0, location: { type: 1, id: 0 }, maxSize: 0n });
  driver.memPoolDestroy(create());
  // Linear memory belongs to the process, so another driver reports how much is free.
  const observer = new SoftwareDriver({ devices: 1, peers: true });
  const { free } = observer.memGetInfo(0);
  const pool = create();
  const address = driver.mallocFromPoolAsync(0, 2000, pool, 0n);
  owner.synchronize();
  module.kernel("fill").launch({ grid: 1, block: 1 }, 0n, 4, 0);
  driver.freeAsync(1, address, 0n);
  assertEquals(assertThrows(() => peer.synchronize(), CudaError).code, "cudaErrorIllegalAddress");
  driver.memPoolDestroy(pool);
  assertEquals(observer.memGetInfo(0).free, free);
  observer.close();
});

test("an unexpected error loses the devices, and is reported with the device whose work caused it", () => {
  const devices = new VisibleDevices({ devices: 2, peers: true });
  const cause = new WebAssembly.RuntimeError("unreachable");
  devices.lose(1, cause);
  devices.lose(0, new Error("A later error is not reported"));
  const error = assertThrows(() => devices.check(0, "cudaDeviceSynchronize"), CudaError);
  assertEquals([error.code, error.cause], ["cudaErrorUnknown", cause]);
  assertMatch(error.message, /device 1 was lost \(unreachable\)/);
});

testSoftware(
  "page-locked memory is accessible by address to kernels, copies and fills of every device",
  (cuda, driver) => {
    const host = driver.hostAlloc(1000);
    const late = driver.hostAlloc(4);
    const bytes = new Uint8Array(host.buffer);
    launchFill(driver, 1, { address: host.address, byteLength: 1000 });
    driver.deviceSynchronize(1);
    assertEquals(bytes, new Uint8Array(1000).fill(5));
    driver.memsetAsync(0, host.address + 999n, 6, 1, 0n);
    // A copy between overlapping ranges behaves like one through a temporary copy, whichever range is given by address.
    bytes.set([1, 2, 3], 0);
    driver.memcpyHtoDAsync(0, host.address + 1n, bytes.subarray(0, 3), 0n);
    driver.memcpyPeerAsync(0, late.address, 0, host.address, 1, 4, 0n);
    driver.deviceSynchronize(0);
    assertEquals(bytes.subarray(0, 5), Uint8Array.of(1, 1, 2, 3, 5));
    assertEquals([bytes[999], ...new Uint8Array(late.buffer)], [6, 1, 1, 2, 3]);
    assertEquals(driver.memGetAddressRange(1, host.address + 9n), { base: host.address, byteLength: 1000 });
    driver.freeHost(host);
    launchFill(driver, 0, { address: late.address, byteLength: 4 });
    driver.deviceSynchronize(0);
    driver.freeHost(late);
    assertEquals(codeOf(() => driver.freeHost(late)), "cudaErrorInvalidValue");
    launchFill(driver, 0, { address: host.address, byteLength: 4 });
    assertEquals(codeOf(() => driver.deviceSynchronize(0)), "cudaErrorIllegalAddress");
    assertEquals(cuda.devices.length, 2);
  },
);

testSoftware("resources destroyed before the devices were lost are released", (_, driver) => {
  const stop = driver.moduleLoadData(0, trapPtx);
  const mappings = () => countResources().get("mapping");
  const before = mappings();
  const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming | eventFlags.interprocess);
  driver.launchKernel(driver.createKernelLaunch(0, driver.moduleGetFunction(stop, "stop"), 0));
  driver.eventRecord(0, event, 0n);
  driver.eventDestroy(0, event);
  assertEquals(codeOf(() => driver.deviceSynchronize(0)), "cudaErrorLaunchFailure");
  assertEquals(mappings(), before);
}, { skip: shimRefusal() });

testSoftware("an image that is neither PTX nor GPU code is refused", (_, driver) => {
  const elf = (machine: number) =>
    Uint8Array.from({ length: 64 }, (_, index) => [0x7f, 69, 76, 70][index] ?? 0).with(18, machine);
  const fatbin = new Uint8Array(64);
  new DataView(fatbin.buffer).setUint32(0, 0xba55ed50, true);
  for (const image of [fatbin, elf(190)]) {
    assertEquals(codeOf(() => driver.moduleLoadData(0, image)), "cudaErrorNoKernelImageForDevice");
  }
  const ptx = ".version 7.0\n.target sm_60\n.address_size 64\n";
  for (
    const image of [
      elf(62),
      Uint8Array.of(0x50, 0xed, 0),
      "",
      "//",
      "/* .version",
      `x ${ptx}`,
      `;${ptx}`,
      `\ufeff${ptx}`,
    ]
  ) {
    assertEquals(codeOf(() => driver.moduleLoadData(0, image)), "cudaErrorInvalidKernelImage");
  }
  for (const image of [`// x\n/* y\n */ ${ptx}`, `\n\t${ptx}`]) driver.moduleLoadData(0, image);
  for (const image of [".version", ".version 7\n.target sm_60\n", ".version x\n.target sm_60\n"]) {
    assertEquals(codeOf(() => driver.moduleLoadData(0, image)), "cudaErrorInvalidPtx");
  }
});

testSoftware("kernels with large static shared memory are launched", (_, driver) => {
  const kernelOf = (byteLength: number) => {
    const ptx = `.version 7.0\n.target sm_60\n.address_size 64\n.visible .entry large(.param .u64 to) {
      .shared .align 4 .b8 room[${byteLength}];
      .reg .b64 %to;
      .reg .b32 %value;
      ld.param.u64 %to, [to];
      st.shared.u32 [room+${byteLength - 4}], 7;
      ld.shared.u32 %value, [room+${byteLength - 4}];
      st.global.u32 [%to], %value;
      ret;
    }`;
    return driver.moduleGetFunction(driver.moduleLoadData(0, ptx), "large");
  };
  const address = driver.malloc(0, 4);
  const launch = (kernel: bigint, added: number) => {
    const kernelLaunch = driver.createKernelLaunch(0, kernel, 8);
    kernelLaunch.parameters.setBigUint64(0, address, true);
    kernelLaunch.sharedMemoryBytes = added;
    driver.launchKernel(kernelLaunch);
  };
  for (const [byteLength, blocks] of [[49152, 4], [49156, 4], [65536, 3], [102400, 2], [232448, 1]] as const) {
    const kernel = kernelOf(byteLength);
    launch(kernel, 0);
    assertEquals(readBytes(driver, address, 1), Uint8Array.of(7));
    assertEquals(driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel, 32, 0), blocks);
    const isFull = byteLength === 49152 || byteLength === 232448;
    if (isFull) assertEquals(codeOf(() => launch(kernel, 1)), "cudaErrorInvalidValue");
    else launch(kernel, 1);
  }
  assertEquals(codeOf(() => kernelOf(232452)), "cudaErrorInvalidPtx");
});

testSoftware("a copy to pageable memory fails if the device was lost before it", (cuda, driver) => {
  const gpu = cuda.device(0);
  const buffer = gpu.createPool().allocate(64);
  gpu.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0n, 4, 0);
  const error = assertThrows(() => driver.memcpyDtoHAsync(0, new Uint8Array(64), buffer.address, 0n), CudaError);
  assertEquals(error.code, "cudaErrorIllegalAddress");
});

testSoftware("the time between events of a lost device is the device's error", (cuda) => {
  const gpu = cuda.device(0);
  const [start, end] = [gpu.createEvent({ timing: true }), gpu.createEvent({ timing: true })];
  gpu.defaultStream.record(start);
  gpu.loadModule(fillPtx).kernel("fill").launch({ grid: 1, block: 1 }, 0n, 4, 0);
  gpu.defaultStream.record(end);
  assertThrows(() => gpu.synchronize(), CudaError);
  assertEquals(assertThrows(() => end.elapsedTime(start), CudaError).code, "cudaErrorIllegalAddress");
});

testSoftware(
  "registered memory is accessible at its address to kernels, copies and fills of every device",
  (_, driver) => {
    for (const byteOffset of [0, 3]) {
      const memory = new Uint8Array(new SharedArrayBuffer(10_000), byteOffset, 8001);
      const around = new Uint8Array(memory.buffer);
      const address = driver.hostRegister(memory, hostRegisterFlag.portable);
      memory.fill(1);
      launchFill(driver, 1, { address: address + 8n, byteLength: 64 });
      driver.deviceSynchronize(1);
      assertEquals([memory[7], memory[8], memory[71], memory[72]], [1, 5, 5, 1]);
      // Both see what the other changes, also when they change bytes of the same word.
      driver.memsetAsync(0, address + 8000n, 6, 1, 0n);
      memory[0] = 9;
      driver.memsetAsync(0, address + 1n, 7, 1, 0n);
      driver.deviceSynchronize(0);
      assertEquals([...memory.subarray(0, 3), memory[8000]], [9, 7, 1, 6]);
      // A copy by views goes to the memory itself, and one by addresses sees it.
      driver.memcpyHtoDAsync(0, address + 2n, memory.subarray(0, 2), 0n);
      driver.memcpyDtoHAsync(0, memory.subarray(100, 104), address, 0n);
      driver.deviceSynchronize(0);
      assertEquals([...memory.subarray(0, 4), ...memory.subarray(100, 104)], [9, 7, 9, 7, 9, 7, 9, 7]);
      assertEquals([around[byteOffset - 1] ?? 0, around[byteOffset + 8001]], [0, 0]);
      driver.hostUnregister(address);
      assertEquals(memory[8], 5);
      assertEquals(codeOf(() => driver.hostUnregister(address)), "cudaErrorHostMemoryNotRegistered");
    }
  },
);
