import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { PtxError } from "../../src/ptx/syntax.ts";
import { launchInSlices } from "../../src/software/execution/launching/kernel_launch.ts";
import { loadSoftwareModule, type SoftwareModule } from "../../src/software/execution/modules/module_loader.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { addressOfOffset, pageByteLength } from "../../src/software/memory/memory_layout.ts";

const ptx = `.version 7.0
.target sm_60
.address_size 64
.global .align 4 .u32 total = 5;
.global .align 8 .u64 pointer = generic(total);
.const .align 4 .b8 zeros[70];
.extern .shared .align 4 .b8 area[];
.visible .entry add(.param .u32 amount) {
  .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.u32 %r0, [amount];
  st.shared.u32 [area+60], %r0;
  ld.shared.u32 %r1, [area+60];
  ld.global.u64 %rd0, [pointer];
  ld.u32 %r2, [%rd0];
  add.u32 %r2, %r2, %r1;
  ld.const.u32 %r3, [zeros+64];
  add.u32 %r2, %r2, %r3;
  st.global.u32 [total], %r2;
  ret;
}`;
const device = 0;

/** Loads the module, runs a test with it, and releases its memory. */
function withModule(linearMemory: LinearMemory, run: (module: SoftwareModule) => void): void {
  const module = loadSoftwareModule(ptx, linearMemory, { reserve: (byteLength) => linearMemory.reserve(byteLength)! });
  const { begin, byteLength } = module.memory!;
  for (const variable of module.variables.values()) linearMemory.allow(device, variable.begin, variable.byteLength);
  try {
    run(module);
  } finally {
    // The next module must not depend on what this one left in memory.
    linearMemory.bytes.fill(0xee, begin, begin + byteLength);
    linearMemory.deny(device, begin, byteLength);
    linearMemory.release(begin, byteLength);
  }
}

function launch(module: SoftwareModule, linearMemory: LinearMemory, sharedMemoryBytes: number): void {
  const kernel = module.kernels.get("add")!;
  const { run } = launchInSlices(kernel, { grid: [1, 1, 1], block: [1, 1, 1] }, {
    linearMemory,
    parameters: new Uint8Array([3, 0, 0, 0]),
    bounds: linearMemory.boundsTableOf(device),
    sharedMemoryBytes,
  });
  assert(run());
}

test("a module's variables lie in linear memory, where its kernels find them", () => {
  const linearMemory = new LinearMemory();
  try {
    const free = (linearMemory.ensureBoundsTable(device), linearMemory.freeBytes);
    // The second time, the module finds what the first one left in its pages.
    for (let time = 0; time < 2; time++) {
      withModule(linearMemory, (module) => {
        assertEquals(module.memory!.byteLength, pageByteLength);
        assertEquals([...module.variables.keys()], ["total", "pointer", "zeros"]);
        const { begin, byteLength, space } = module.variables.get("total")!;
        assertEquals([space, byteLength], ["global", 4]);
        const view = new DataView(linearMemory.memory.buffer);
        assertEquals(view.getBigUint64(module.variables.get("pointer")!.begin, true), addressOfOffset(begin));
        launch(module, linearMemory, 64);
        launch(module, linearMemory, 64);
        assertEquals(view.getUint32(begin, true), 11);
        assertThrows(
          () => launch(module, linearMemory, 60),
          Error,
          "kernel add, block (0,0,0), thread (0,0,0), line 11 of the PTX: ",
        );
      });
    }
    assertEquals(linearMemory.freeBytes, free);
  } finally {
    linearMemory.close();
  }
});

test("a module without variables reserves nothing, nor does a refused one", () => {
  const linearMemory = new LinearMemory();
  const reserve = () => {
    throw new Error("Reserved");
  };
  const bare = ptx.replace(/\.global \.align[^]*(?=\.extern)/, "").replace(/ld\.global[^]*st\.global\.u32.*/, "");
  const { variables, memory, kernels } = loadSoftwareModule(bare, linearMemory, { reserve });
  assertEquals([variables.size, memory, [...kernels.keys()]], [0, undefined, ["add"]]);
  assertThrows(() => loadSoftwareModule(ptx.replace("add.u32", "frobnicate.u32"), linearMemory, { reserve }), PtxError);
  assertThrows(() => loadSoftwareModule(ptx, linearMemory, { reserve }), Error, "Reserved");
});

/** Makes WebAssembly refuse modules or instances while `run` runs. */
function whileEngineRefuses(name: "Module" | "Instance", run: () => void): void {
  const original = WebAssembly[name];
  const refuse = function () {
    throw new RangeError("Out of memory");
  };
  Object.assign(WebAssembly, { [name]: refuse });
  try {
    run();
  } finally {
    Object.assign(WebAssembly, { [name]: original });
  }
}

test("a module that the engine refuses keeps no linear memory", () => {
  const linearMemory = new LinearMemory();
  const free = linearMemory.freeBytes;
  let reserved = 0;
  const reserve = (byteLength: number) => {
    reserved = byteLength;
    return linearMemory.reserve(byteLength)!;
  };
  whileEngineRefuses("Instance", () => {
    assertThrows(() => loadSoftwareModule(ptx, linearMemory, { reserve }), RangeError, "Out of memory");
  });
  assertEquals([reserved, linearMemory.freeBytes], [pageByteLength, free]);
});

test("a kernel whose gang version the engine refuses runs thread by thread", () => {
  for (const name of ["Module", "Instance"] as const) {
    const linearMemory = new LinearMemory();
    try {
      const module = loadSoftwareModule(ptx, linearMemory, {
        reserve: (byteLength) => linearMemory.reserve(byteLength)!,
        gangs: "always",
      });
      const { begin, byteLength } = module.memory!;
      const total = module.variables.get("total")!;
      for (const variable of module.variables.values()) linearMemory.allow(device, variable.begin, variable.byteLength);
      const kernel = module.kernels.get("add")!;
      const geometry = { grid: [1, 1, 1], block: [32, 1, 1] } as const;
      assert(kernel.compiled.compileGangs(32) !== undefined);
      let isRefused = false;
      whileEngineRefuses(name, () => {
        isRefused = kernel.gang.for(geometry) === undefined;
        const place = {
          linearMemory,
          parameters: new Uint8Array([3, 0, 0, 0]),
          bounds: linearMemory.boundsTableOf(device),
        };
        assert(launchInSlices(kernel, geometry, { ...place, sharedMemoryBytes: 64 }).run());
      });
      assert(isRefused);
      // All lanes read the sum before one of them writes it.
      assertEquals(new DataView(linearMemory.memory.buffer).getUint32(total.begin, true), 5 + 3);
      linearMemory.deny(device, begin, byteLength);
      linearMemory.release(begin, byteLength);
    } finally {
      linearMemory.close();
    }
  }
});
