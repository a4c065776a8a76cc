import { assertEquals, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import { type Cuda, CudaError, open } from "../../mod.ts";
import type { KernelCheck } from "../../src/kernel_checker.ts";
import { UnsupportedPtxError } from "../../src/ptx/instruction_support.ts";
import { compiledKernel, compiledModule } from "../../src/software/execution/modules/compiled_modules.ts";
import { ModuleKernels } from "../../src/software/execution/modules/module_loader.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";

const header = ".version 8.0\n.target sm_80\n.address_size 64\n";

/** A kernel of more than 400 statements that adds a number to the variable `total`, once for each thread. */
function kernel(name: string, { amount, body = "" }: { amount: number; body?: string }): string {
  return `.visible .entry ${name}() {
  .reg .b32 %r<2>;
  mov.u32 %r0, ${amount - 400};
  ${"add.u32 %r0, %r0, 1;\n".repeat(400)}
  atom.global.add.u32 %r1, [total], %r0;
  ${body}
  ret;
}
`;
}

const variable = ".visible .global .align 4 .u32 total = 5;\n";
const large = [
  header,
  variable,
  kernel("one", { amount: 1 }),
  kernel("newer", { amount: 2, body: "tcgen05.wait::ld.sync.aligned;" }),
  kernel("ten", { amount: 10, body: "bar.sync 0;" }),
].join("");

const options = {
  boundsChecks: true,
  gangs: true,
  observesAccesses: false,
  variesThreads: false,
  checksWrites: false,
  kernelChecks: new Set<KernelCheck>(),
  stackBytes: 16384,
};

test("a kernel of a large module is compiled when it is first used, and once for all loads", () => {
  const { module } = compiledModule(large, options);
  const names = [module.kernels, module.deferred, module.refusals].map((kernels) => [...kernels.keys()]);
  assertEquals(names, [[], ["one", "ten"], ["newer"]]);
  const deferred = module.deferred.get("ten")!;
  const compiled = compiledKernel(deferred);
  assertStrictEquals(compiledKernel(deferred), compiled);
  assertEquals(WebAssembly.Module.exports(compiled.code).map(({ name }) => name), ["ten"]);
});

test("the kernels of a large module share its variables, and each load has its own", () => {
  using cuda = open({ driver: "software" });
  const loads: ((cuda: Cuda) => ReturnType<typeof load>)[] = [
    load,
    load,
    // A module that another one is linked with.
    (cuda) => cuda.device(0).link([header + kernel("other", { amount: 3 }).replace(/^.*atom.*$/m, ""), large]),
  ];
  for (const loadOne of loads) {
    using module = loadOne(cuda);
    const total = module.getGlobal("total");
    const [stream, grid] = [cuda.device(0).defaultStream, 16];
    for (const block of [64, 512]) {
      const before = total.readSync(Uint32Array)[0]!;
      module.kernel("ten").launch({ grid, block, stream });
      module.kernel("one").launch({ grid, block, stream });
      stream.synchronize();
      assertEquals(total.readSync(Uint32Array)[0]! - before, 11 * grid * block);
    }
    assertEquals(
      module.kernelNames.toSorted(),
      ["newer", "one", "ten", ...loadOne === loads[2] ? ["other"] : []].sort(),
    );
    assertThrows(() => module.getGlobal("one"), Error);
  }
});

function load(cuda: Cuda) {
  return cuda.device(0).loadModule(large);
}

test("a large module says which of its kernels the device cannot run, and invalid PTX is refused when it is loaded", () => {
  using cuda = open({ driver: "software" });
  using module = load(cuda);
  const error = assertThrows(() => module.kernel("newer"), CudaError);
  assertEquals([error.code, error.call], ["cudaErrorNotSupported", "cuModuleGetFunction"]);
  assertStringIncludes(error.message, "(the software device runs 2 of the module's 3 kernels)");
  assertThrows(() => module.kernel("two"), Error, "two");
  const invalid = large + kernel("wrong", { amount: 0, body: "add.u32 %r0, %r1, 0f00000000;" });
  const refusal = assertThrows(() => cuda.device(0).loadModule(invalid), CudaError);
  assertEquals([refusal.code, refusal.call], ["cudaErrorInvalidPtx", "cuModuleLoadDataEx"]);
  assertStringIncludes(refusal.message, 'Line 1634: cannot compile "add.u32": a floating-point number is used');
});

test("a kernel that turns out to exceed an engine's limits is refused by its name", () => {
  const { code, module } = compiledModule(large, options);
  let count = 0;
  const compile = () => {
    count++;
    throw new UnsupportedPtxError(7, "it is too large");
  };
  const linearMemory = new LinearMemory();
  try {
    const deferred = new Map([...module.deferred, ["giant", { compile }]]);
    const kernels = new ModuleKernels({ code, module: { ...module, deferred } }, {
      linearMemory,
      begin: 0,
      stepLimit: Infinity,
      leastThreads: 0,
      running: undefined,
      codeWithout: () => ({ code, module }),
      left: { races: false, accesses: false, initialization: false, barriers: false, writes: true },
    });
    assertEquals([kernels.size, kernels.has("giant"), [...kernels.refusals.keys()]], [3, true, ["newer"]]);
    for (let time = 0; time < 2; time++) assertEquals(kernels.get("giant"), undefined);
    assertEquals([kernels.size, kernels.has("giant"), count], [2, false, 1]);
    assertEquals([kernels.keys(), [...kernels.refusals.keys()]], [["one", "ten"], ["newer", "giant"]]);
    assertEquals(kernels.get("one"), kernels.get("one"));
    assertEquals([...kernels.compiled].map(({ compiled: { name } }) => name), ["one"]);
  } finally {
    linearMemory.close();
  }
});
