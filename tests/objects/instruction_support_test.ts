import { assert, assertEquals, assertThrows } from "@std/assert";
import { open } from "../../mod.ts";
import type { Driver } from "../../src/driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { instructionSupport, SoftwareDriver } from "../../src/software/software_driver.ts";
import { adaptedDriver } from "../support/adapted_driver.ts";
import type { CudaModule } from "../../src/objects/modules/cuda_module.ts";
import { CudaError } from "../../src/support/errors.ts";
import { allInstructions } from "../../src/software/compiler/instructions/instructions.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** An instruction that the software device does not support. */
const multicast = "multimem.red.relaxed.sys.global.add.u32";

const header = ".version 8.1\n.target sm_90\n.address_size 64\n";

/** Valid for an H200. `helper` and `unused` are on lines 5 and 6, and each kernel's body begins on the line after it. */
const ptx = `${header}.visible .global .align 4 .f32 scale;
.func helper() { .reg .b64 %rd<2>; ${multicast} [%rd1], 1; ret; }
.func unused() { pmevent 3; ret; }
.visible .entry waves(.param .u64 out) {
  .reg .f32 %f<5>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.global.f32 %f1, [%rd1];
  sin.approx.ftz.f32 %f2, %f1; sin.approx.ftz.f32 %f2, %f2;
  mul.f32 %f3, %f2, %f1;
  mul.rn.f32 %f3, %f3, %f1;
  prefetch.global.L2 [%rd1];
  sin.approx.ftz.f32 %f4, %f3;
  st.global.f32 [%rd1], %f4;
  ret;
}
.visible .entry stops(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .f32 %f<2>;
  mov.u32 %r1, %aggr_smem_size;
  mov.u32 %r2, %tid.x;
  ${multicast} [%rd1], 1;
  ld.param.u64 %rd1, [out];
  ld.global.f32 %f1, [%rd1];
  call helper;
  ret;
}
.visible .entry calls() {
  call helper;
  ret;
}
`;

/** What is reported of an instruction, without what is the same in all. */
function reportOf(module: CudaModule, instruction: string) {
  return module.instructionSupport().filter((each) => each.instruction === instruction);
}

testOnEachDriver(
  "a module lists what is exact, approximate, ignored and not supported, with lines and kernels",
  (cuda) => {
    using module = cuda.device(0).loadModule(ptx);
    const use = (instruction: string, section: string | undefined, lines: number[], kernels: string[]) => {
      return { instruction, section, lines, kernels };
    };
    assertEquals(reportOf(module, "sin.approx.ftz.f32"), [{
      ...use("sin.approx.ftz.f32", "9.7.3.18", [11, 15], ["waves"]),
      support: "approximate",
      bound: "2^-20.5 absolute from -2pi to 2pi, 2^-14.7 absolute from -100pi to 100pi, none beyond",
    }]);
    assertEquals([...reportOf(module, "mul.f32"), ...reportOf(module, "mul.rn.f32")], [
      { ...use("mul.f32", "9.7.3.5", [12], ["waves"]), support: "exact", mayBeFused: true },
      { ...use("mul.rn.f32", "9.7.3.5", [13], ["waves"]), support: "exact", mayBeFused: false },
    ]);
    assertEquals(reportOf(module, "prefetch.global.L2"), [
      { ...use("prefetch.global.L2", "9.7.9.15", [14], ["waves"]), support: "ignored" },
    ]);
    assertEquals(reportOf(module, multicast), [{
      ...use(multicast, "9.7.9.14", [5, 23], ["stops", "calls"]),
      support: "unsupported",
      reason: "there is no multicast memory",
    }]);
    assertEquals(reportOf(module, "mov.u32").map(({ support, lines }) => [support, lines]), [["exact", [21, 22]]]);
    assertEquals(reportOf(module, "ld.global.f32").map(({ kernels }) => kernels), [["waves", "stops"]]);
    assertEquals(reportOf(module, "pmevent"), [], "no kernel reaches it");
    const supports = module.instructionSupport().map(({ support }) => support);
    assertEquals([...new Set(supports)], ["unsupported", "approximate", "ignored", "exact"]);
    assert(module.instructionSupport() === module.instructionSupport(), "it is computed once");
  },
);

testOnEachDriver("the report names the kernels that the software device refuses, and no others", (cuda) => {
  using module = cuda.device(0).loadModule(ptx);
  using software = open({ driver: "software" });
  using loaded = software.device(0).loadModule(ptx);
  const refused = module.kernelNames.filter((name) => {
    try {
      loaded.kernel(name);
      return false;
    } catch (error) {
      if (error instanceof CudaError && error.code === "cudaErrorNotSupported") return true;
      throw error;
    }
  });
  const named = module.instructionSupport().filter(({ support }) => support === "unsupported");
  assertEquals([...new Set(named.flatMap(({ kernels }) => kernels))].sort(), refused.sort());
});

testOnEachDriver("a linked module's report names the images that the lines are those of", (cuda) => {
  const image = `${header}.visible .func stop() {\n  .reg .b64 %rd<2>; ${multicast} [%rd1], 1;\n  ret;\n}\n`;
  const other = `${header}.extern .func stop();\n.visible .entry halts() {\n  call stop;\n  ret;\n}\n`;
  using module = cuda.device(0).link([{ name: "stop.ptx", image }, { name: "halts.ptx", image: other }]);
  const places = module.instructionSupport().map(({ instruction, image, lines, kernels }) => {
    return `${instruction} in ${image}:${lines} for ${kernels}`;
  });
  assertEquals(places.sort(), [
    "call in halts.ptx:6 for halts",
    `${multicast} in stop.ptx:5 for halts`,
    "ret in halts.ptx:7 for halts",
    "ret in stop.ptx:6 for halts",
  ]);
});

testOnEachDriver("a disposed module has no report", (cuda) => {
  const module = cuda.device(0).loadModule(ptx);
  module[Symbol.dispose]();
  assertThrows(() => module.instructionSupport(), ReferenceError, "Cannot use the module: it was disposed");
});

/** A driver that loads any image, as a GPU's does, in place of which the software device loads a module of its own. */
function loadingAnything(): Driver {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const loadOther = (device: number) => driver.moduleLoadData(device, ptx);
  return adaptedDriver(driver, { moduleLoadData: loadOther, linkModules: loadOther });
}

test("a cubin, and PTX that the software device does not load, have no report but an error that says why", () => {
  using cuda = new Cuda(new Session(loadingAnything(), { instructionSupport }));
  const gpu = cuda.device(0);
  const cubin = new Uint8Array(64);
  cubin.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  cubin[16] = 2;
  cubin[18] = 190;
  using machineCode = gpu.loadModule(cubin);
  using mixed = gpu.link([ptx, cubin]);
  for (const module of [machineCode, mixed]) {
    const message = "Cannot list the instructions of the module: not all of it is PTX; load the PTX itself";
    assertThrows(() => module.instructionSupport(), TypeError, message);
  }
  using newer = gpu.loadModule(ptx.replace("sm_90", "sm_100"));
  const error = assertThrows(() => newer.instructionSupport(), CudaError) as CudaError;
  assertEquals(error.code, "cudaErrorInvalidPtx");
  assertEquals(
    error.message,
    "Cannot list how the software device supports the instructions of the module: cuModuleLoadDataEx failed: " +
      'cudaErrorInvalidPtx: Line 2: cannot compile for "sm_100": the device runs code for sm_90 and older targets; ' +
      "the software device does not load this module",
  );
});

test("every approximate instruction of the table has a bound, and no other", () => {
  // Of reads of textures, those of cubemaps and with gradients leave bits open.
  const approximate = allInstructions().filter(({ syntax }) =>
    /\.(approx|full)\b|^tex\.grad|^(tex|tld4)\..*:cube/.test(syntax)
  );
  assert(approximate.length > 15);
  assertEquals(allInstructions().filter(({ traits }) => traits.bound !== undefined), approximate);
});
