import type { KernelCheck } from "../../src/kernel_checker.ts";
import { assert, assertEquals, assertNotStrictEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { type Cuda, type CudaModule, open } from "../../mod.ts";
import { compiledGangs, compiledModule, RecentlyUsed } from "../../src/software/execution/modules/compiled_modules.ts";

const header = ".version 7.0\n.target sm_60\n.address_size 64\n";
const counter = `${header}
.visible .global .align 4 .u32 total = 5;
.visible .entry add(.param .u32 amount) {
  .reg .b32 %r<4>;
  ld.param.u32 %r0, [amount];
  atom.global.add.u32 %r1, [total], %r0;
  ret;
}`;
const options = {
  boundsChecks: true,
  gangs: true,
  observesAccesses: false,
  variesThreads: false,
  checksWrites: false,
  kernelChecks: new Set<KernelCheck>(),
  stackBytes: 16384,
};

test("strings are kept up to a length, and the least recently used goes first", () => {
  const kept = new RecentlyUsed<string>(10);
  const created: string[] = [];
  const get = (key: string) =>
    kept.get(key, () => {
      created.push(key);
      return `the value of ${key}`;
    });
  for (const key of ["aaaa", "bbbb", "aaaa", "cc", "bbbb"]) assertEquals(get(key), `the value of ${key}`);
  assertEquals(created, ["aaaa", "bbbb", "cc"]);
  get("dddd");
  assertEquals(created.splice(0), ["aaaa", "bbbb", "cc", "dddd"]);
  // The last use of "aaaa" was before those of the others.
  for (const key of ["bbbb", "cc", "dddd", "aaaa"]) get(key);
  assertEquals(created.splice(0), ["aaaa"]);
  // Too long to be kept, and nothing else has room beside it.
  get("e".repeat(11));
  get("e".repeat(11));
  assertEquals(created.splice(0).length, 2);
  get("cc");
  assertEquals(created.splice(0), ["cc"]);
  const fail = () => {
    throw new Error("not compiled");
  };
  assertThrows(() => kept.get("ff", fail), Error, "not compiled");
  get("ff");
  assertEquals(created, ["ff"]);
});

test("the same PTX is compiled once for the same options", () => {
  const first = compiledModule(counter, options);
  assertStrictEquals(compiledModule(counter, { ...options }), first);
  const others = [
    compiledModule(`${counter}\n`, options),
    compiledModule(counter, { ...options, boundsChecks: false }),
    compiledModule(counter, { ...options, gangs: false }),
    compiledModule(counter, { ...options, stackBytes: 32768 }),
    compiledModule(counter, { ...options, gangs: "always" }),
    compiledModule(counter, { ...options, observesAccesses: true }),
    compiledModule(counter, { ...options, variesThreads: true }),
    compiledModule(counter, { ...options, kernelChecks: new Set(["memory"] as const) }),
    compiledModule([{ name: "a", ptx: counter }], options),
    compiledModule([{ name: "b", ptx: counter }], options),
  ];
  assertEquals(new Set([first, ...others]).size, 11);
  const linked = () => [{ name: "a", ptx: counter }, { name: "b", ptx: header }];
  assertStrictEquals(compiledModule(linked(), options), compiledModule(linked(), options));
  assertNotStrictEquals(compiledModule(linked().toReversed(), options), compiledModule(linked(), options));
  const { module } = compiledModule(counter, { ...options, gangs: "always" });
  const kernel = module.kernels.get("add")!;
  const gangs = compiledGangs(kernel, 32);
  assert(gangs !== undefined);
  assertStrictEquals(compiledGangs(kernel, 32), gangs);
  assertNotStrictEquals(compiledGangs(kernel, 16), gangs);
});

/** Adds an amount to a module's variable once for every thread, and returns the variable. */
function add(cuda: Cuda, module: CudaModule, amount: number): number {
  const stream = cuda.device(0).defaultStream;
  module.kernel("add").launch({ grid: 16, block: 512, stream }, amount);
  stream.synchronize();
  return module.getGlobal("total").readSync(Uint32Array)[0]!;
}

test("every load of the same PTX has variables of its own", () => {
  using cuda = open({ driver: "software" });
  using other = open({ driver: "software" });
  const load = (cuda: Cuda) => cuda.device(0).loadModule(counter);
  const link = (cuda: Cuda) => cuda.device(0).link([counter, header]);
  const threads = 16 * 512;
  using first = load(cuda);
  assertEquals(add(cuda, first, 1), 5 + threads);
  using second = load(cuda);
  using third = load(other);
  using fourth = link(cuda);
  using fifth = link(other);
  assertEquals(add(cuda, second, 2), 5 + 2 * threads);
  assertEquals(add(other, third, 3), 5 + 3 * threads);
  assertEquals(add(cuda, fourth, 4), 5 + 4 * threads);
  assertEquals(add(other, fifth, 5), 5 + 5 * threads);
  assertEquals(add(cuda, first, 1), 5 + 2 * threads);
  first[Symbol.dispose]();
  using again = load(cuda);
  assertEquals(add(cuda, again, 6), 5 + 6 * threads);
  assertEquals(add(cuda, second, 1), 5 + 3 * threads);
});
