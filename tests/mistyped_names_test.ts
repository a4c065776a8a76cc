import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import * as poolpass from "../mod.ts";
import { testOnEachDriver } from "./support/drivers.ts";

// deno-lint-ignore no-explicit-any -- any argument that an untyped program could pass
type Anything = any;

const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .const .align 4 .b8 lookupTable[16] = {1, 2};
	.global .align 4 .u32 iterationCount;
.extern .shared .align 4 .b8 scratch[];
.visible .entry scale(.param .u64 x) { ret; }
.visible .entry _Z6rotatePfi(.param .u64 x, .param .u32 n) { ret; }
`;

testOnEachDriver("a mistyped name gets the nearest one", (cuda) => {
  const gpu: Anything = cuda.device(0);
  using module: Anything = gpu.loadModule(ptx);
  using pool: Anything = gpu.createPool();
  const cases: [call: () => unknown, message: string][] = [
    [() => gpu.attribute("multiprocesorCount"), 'did you mean "multiProcessorCount"?'],
    [() => gpu.attribute("CU_DEVICE_ATTRIBUTE_WARP_SIZE"), 'did you mean "warpSize"?'],
    [() => gpu.attribute("cudaDevAttrWarpsize"), 'did you mean "warpSize"?'],
    [() => gpu.attribute("sharedMemory"), 'did you mean "maxSharedMemoryPerBlock", '],
    [() => module.kernel("scal"), 'did you mean "scale"?'],
    [() => module.kernel("scal", { parameters: ["u64"] }), 'did you mean "scale"?'],
    [() => module.kernel("rotate"), 'did you mean "_Z6rotatePfi"?'],
    [() => module.kernel("nonesuch"), "its kernels are scale, _Z6rotatePfi"],
    [() => module.kernel("scale", { parameters: ["f23"] }), 'did you mean "f32"?'],
    [() => module.getGlobal("lookup"), 'did you mean "lookupTable"?'],
    [() => module.getGlobal("iteratonCount"), 'did you mean "iterationCount"?'],
    [() => module.getGlobal("nonesuch"), "its variables are lookupTable, iterationCount"],
    [() => gpu.createPool({ handleType: "posixfd" }), 'did you mean "posix-fd"?'],
    [() => pool.setAccess(gpu, "readwrite"), 'did you mean "read-write"?'],
    [() => pool.reuse.allowOportunistic = false, 'did you mean "allowOpportunistic"?'],
    [() => Object.assign(pool.reuse, { internalDependencies: true }), 'did you mean "allowInternalDependencies"?'],
    [() => pool.reuse.nonesuch = false, "the policies are followEventDependencies, "],
    [() => pool.releaseTreshold = 0, 'did you mean "releaseThreshold"?'],
    [() => gpu.curentPool = pool, 'did you mean "currentPool"?'],
    [() => gpu.defaultStream.devise = gpu, 'did you mean "device"?'],
    [() => poolpass.open({ driver: "cudda" as Anything }), 'did you mean "cuda"?'],
  ];
  for (const [call, message] of cases) assertStringIncludes(assertThrows(call, Error).message, message);
});

testOnEachDriver("an object that refuses mistyped properties has all that other objects have", (cuda) => {
  const gpu: Anything = cuda.device(0);
  const label = Symbol("label");
  for (const object of [gpu, gpu.defaultStream, gpu.defaultPool] as Anything[]) {
    assert(object instanceof Object && object.hasOwnProperty !== undefined);
    assertEquals(object.nonesuch, undefined);
    object[label] = 1;
    object.toJSON = () => "replaced";
    assertEquals([object[label], JSON.stringify(object)], [1, '"replaced"']);
    assert(delete object.toJSON);
  }
});

testOnEachDriver("an object that a program constructs is refused with the call that creates it", (cuda) => {
  const gpu: Anything = cuda.device(0);
  const classes: Record<string, Anything> = poolpass;
  const cases: [name: string, given: unknown[], source: string][] = [
    ["Cuda", [{ driver: "software" }], "open"],
    ["CudaDevice", [0], "Cuda.device"],
    ["CudaStream", [gpu, { priority: 0 }], "CudaDevice.createStream"],
    ["CudaEvent", [gpu, { timing: true }], "CudaDevice.createEvent"],
    ["CudaModule", [gpu, ptx], "CudaDevice.loadModule"],
    ["CudaKernel", [], "CudaModule.kernel"],
    ["MemoryPool", [gpu, { handleType: "posix-fd" }], "CudaDevice.createPool"],
    ["ImportedMemoryPool", [gpu], "CudaDevice.importPool"],
    ["CachingAllocator", [gpu.defaultPool], "MemoryPool.createCachingAllocator"],
    ["DeviceBuffer", [new ArrayBuffer(16)], "MemoryPool.allocate or allocateArray"],
    ["DeviceArray", [Float32Array, 16], "MemoryPool.allocate or allocateArray"],
    ["HostBuffer", [64], "Cuda.allocateHost"],
    ["PhysicalMemory", [gpu, 64], "CudaDevice.createMemory"],
    ["AddressRange", [64], "Cuda.reserveAddresses"],
  ];
  for (const [name, given, source] of cases) {
    const { message } = assertThrows(() => new classes[name](...given), TypeError, "Cannot construct a");
    assert(message.endsWith(`: use ${source}`), message);
  }
});

testOnEachDriver("reuse policies are booleans", (cuda) => {
  using pool: Anything = cuda.device(0).createPool();
  for (const value of [0, "false", null, undefined]) {
    assertThrows(() => pool.reuse.allowOpportunistic = value, TypeError, "allowOpportunistic");
  }
});
