import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { initializeDevice } from "../../initialize.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { testOnEachDriver } from "../support/drivers.ts";

testOnEachDriver("devices tell what they are", (cuda) => {
  for (const gpu of cuda.devices) {
    assert(/^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(gpu.uuid), gpu.uuid);
    assert(cuda.device(gpu.uuid) === gpu);
    assert(gpu.name.length > 0);
    assert(gpu.attribute("multiProcessorCount") > 0);
    assertEquals(gpu.attribute("warpSize"), 32);
    assert(gpu.computeCapability[0] >= 6);
    const { free, total } = gpu.memoryInfo();
    assert(free > 0 && free <= total);
  }
  assertThrows(() => cuda.device(0).attribute("nonesuch" as never), RangeError, "nonesuch");
  assertThrows(() => cuda.device(99), RangeError, "Cannot find device 99");
  assertThrows(() => cuda.device("GPU-0"), RangeError, cuda.device(0).uuid);
  assertThrows(() => cuda.device("0"), RangeError, 'Cannot find device "0"');
  assertThrows(() => cuda.device({} as never), TypeError, "Cannot find a device by an Object");
  const withPrefix = "cudaDevAttrMultiProcessorCount";
  assertThrows(
    () => cuda.device(0).attribute(withPrefix as never),
    RangeError,
    'leave the prefix out: "multiProcessorCount"',
  );
});

testOnEachDriver("CUDA may be started before it is opened, also where there is none", async (_cuda, { open }) => {
  const starting = [initializeDevice(), initializeDevice(99)];
  using cuda = new Cuda(new Session(open()));
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(4);
  buffer.fill(3);
  assertEquals(await buffer.read(Uint8Array), new Uint8Array(4).fill(3));
  await Promise.all(starting);
});

testOnEachDriver("a device is initialized once, and then used as any other", async (cuda, { open }) => {
  const gpu = cuda.device(0);
  await Promise.all([gpu.initialize(), gpu.initialize()]);
  using pool = gpu.createPool();
  using buffer = pool.allocate(4);
  buffer.fill(1);
  assertEquals(await buffer.read(Uint8Array), new Uint8Array(4).fill(1));
  await gpu.initialize();

  const driver = open();
  using other = new Cuda(new Session(driver));
  driver.deviceInitialize = () => Promise.reject(new CudaError(2, "cuDevicePrimaryCtxRetain"));
  const text = "Cannot initialize device 0: cuDevicePrimaryCtxRetain failed";
  await assertRejects(() => other.device(0).initialize(), CudaError, text);
});

testOnEachDriver("a device whose name or UUID cannot be determined says so", (_cuda, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  const refuse = (): never => {
    throw new CudaError(801, "cuDeviceGetName");
  };
  driver.deviceGetName = refuse;
  driver.deviceGetUuid = refuse;
  const gpu = cuda.device(0);
  const error = assertThrows(() => gpu.name, CudaError, "Cannot get the name of device 0: cuDeviceGetName failed");
  assertEquals([error.code, error.call], ["cudaErrorNotSupported", "cuDeviceGetName"]);
  assertThrows(() => gpu.uuid, CudaError, "Cannot get the UUID of device 0: ");
});
