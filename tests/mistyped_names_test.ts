import { assertStringIncludes, assertThrows } from "@std/assert";
import { open } from "../mod.ts";
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
    [() => open({ driver: "cudda" as Anything }), 'did you mean "cuda"?'],
  ];
  for (const [call, message] of cases) assertStringIncludes(assertThrows(call, Error).message, message);
});

testOnEachDriver("reuse policies are booleans", (cuda) => {
  using pool: Anything = cuda.device(0).createPool();
  for (const value of [0, "false", null, undefined]) {
    assertThrows(() => pool.reuse.allowOpportunistic = value, TypeError, "allowOpportunistic");
  }
});
