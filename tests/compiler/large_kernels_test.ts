/**
 * Kernels of thousands of blocks. A stage of the compiler that takes time in proportion to the square of that takes
 * minutes, and an engine that has a local for every register gigabytes.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { type BasicBlock, dominatorTree } from "../../src/ptx/analysis/control_flow_graph.ts";
import { liveRegisters } from "../../src/ptx/analysis/definitions_and_uses.ts";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import type { Register } from "../../src/ptx/instructions/resolved_instruction.ts";
import { typeNamed } from "../../src/ptx/instructions/scalar_types.ts";
import { open, type SanitizerReport } from "../../mod.ts";
import { test } from "../support/test.ts";

/** Computes one number from each of 8192 threads' indices, in %r1. */
function launch(body: readonly string[], result: string): Uint32Array {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using output = pool.allocate(4 * 8192, stream);
  using module = gpu.loadModule(`.version 7.0
.target sm_60
.address_size 64
.visible .entry test(.param .u64 output) {
.reg .pred %p<50000>; .reg .b32 %r<50000>; .reg .b64 %rd<4>;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
ld.param.u64 %rd1, [output]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
${body.join("\n")}
st.global.u32 [%rd3], ${result};
ret;
}`);
  module.kernel("test").launch({ grid: 16, block: 512, stream }, output);
  return output.readSync(Uint32Array);
}

const blocks = 10_000;

test("thousands of blocks whose text runs against their execution compile in linear time", { long: true }, () => {
  const blocks = 4000;
  const body = ["mov.u32 %r10, %r1;", "bra L0;"];
  for (let block = blocks - 1; block >= 0; block--) {
    body.push(`L${block}: add.u32 %r${block + 11}, %r${block + 10}, ${block & 7};`);
    body.push(block === blocks - 1 ? "bra DONE;" : `bra L${block + 1};`);
  }
  body.push("DONE:");
  const sum = Array.from({ length: blocks }, (_, block) => block & 7).reduce((sum, term) => sum + term);
  assertEquals(launch(body, `%r${blocks + 10}`), Uint32Array.from({ length: 8192 }, (_, thread) => thread + sum));
});

test("thousands of successive loops with many registers compile in linear time", { long: true }, () => {
  const body: string[] = ["mov.u32 %r5, %r1;"];
  for (let loop = 0; loop < blocks; loop++) {
    const [count, value] = [2 * loop + 10, 2 * loop + 11];
    body.push(`mov.u32 %r${count}, 0;`, `L${loop}: add.u32 %r${value}, %r5, %r${count};`);
    body.push(`xor.b32 %r5, %r${value}, ${loop & 15};`, `add.u32 %r${count}, %r${count}, 1;`);
    body.push(`setp.lt.u32 %p${loop}, %r${count}, 2;`, `@%p${loop} bra L${loop};`);
  }
  const expected = Uint32Array.from({ length: 8192 }, (_, thread) => {
    let value = thread;
    for (let loop = 0; loop < blocks; loop++) for (let count = 0; count < 2; count++) value = value + count ^ loop & 15;
    return value;
  });
  assertEquals(launch(body, "%r5"), expected);
});

for (const predicate of ["", "@%p "]) {
  test(`registers that ${predicate}add sets and that are never live together share locals`, { long: true }, () => {
    const body: string[] = [];
    // More registers than engines allow locals.
    for (let index = 0; index < 52_000; index++) body.push(`${predicate}add.u32 %r${index + 1}, %r${index}, 1;`);
    const { kernels, refusals } = compilePtx(`.version 7.0
.target sm_60
.address_size 64
.visible .entry test(.param .u64 output) {
.reg .pred %p; .reg .b32 %r<52001>; .reg .b64 %rd;
mov.u32 %r0, %tid.x; setp.eq.u32 %p, %r0, 0; ld.param.u64 %rd, [output];
${body.join("\n")}
st.global.u32 [%rd], %r52000;
}`);
    assertEquals([...kernels.keys(), ...refusals.keys()], ["test"]);
    assertEquals(refusals.size, 0);
  });
}

test("thousands of calls of thousands of functions by their addresses compile in linear time", { long: true }, () => {
  const count = 2000;
  const names = Array.from({ length: count }, (_, index) => `f${index}`);
  const call = "call %rd2, (), P;";
  const functions = names.map((name, index) => {
    const calling = index % 2 === 0 ? "" : `.reg .b64 %rd2; P: .callprototype _ (); mov.u64 %rd2, f0; ${call}`;
    return `.func ${name}() { ${calling} ret; }`;
  });
  const { kernels } = compilePtx(`.version 7.0
.target sm_60
.address_size 64
${functions.join("\n")}
.global .u64 table[${count}] = {${names.join()}};
.visible .entry test(.param .u64 output) {
.reg .b64 %rd<4>; .reg .b32 %r<4>;
P: .callprototype _ ();
ld.param.u64 %rd1, [output]; ld.global.u64 %rd2, [table];
ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;
${names.map(() => call).join("\n")}
ret;
}`);
  assertEquals([...kernels.keys()], ["test"]);
});

/** The number of a large kernel's threads, all in one block. */
const threadCount = 64;

/** A kernel whose threads each compute one number. */
interface LargeKernel {
  readonly ptx: string;
  /** What a correct kernel writes. */
  expected(): Uint32Array;
}

/** A kernel around a body that computes `%acc` from the thread's number `%t`. */
function largeKernel(registers: number, body: readonly string[]): string {
  return `.version 7.0
.target sm_70
.address_size 64
.visible .entry test(.param .u64 output) {
.reg .pred %p<${registers}>; .reg .b32 %r<${registers}>; .reg .b32 %t, %own, %other, %acc; .reg .b64 %rd<4>;
.shared .align 4 .b8 tile[${4 * threadCount}];
mov.u32 %t, %tid.x; mov.u32 %own, tile; mad.lo.u32 %own, %t, 4, %own; xor.b32 %other, %own, 128;
ld.param.u64 %rd1, [output]; mul.wide.u32 %rd2, %t, 4; add.u64 %rd3, %rd1, %rd2;
${body.join("\n")}
st.global.u32 [%rd3], %acc;
ret;
}`;
}

/**
 * A kernel like those that select the smallest of many values with whole warps, unrolled: it has `live` values at once,
 * which it exchanges between lanes, and now and then between warps.
 */
function unrolledSort({ live, shuffles }: { readonly live: number; readonly shuffles: number }): LargeKernel {
  const body: string[] = [];
  let next = 0;
  const set = (instruction: (register: string) => string): string => {
    const register = `%r${next++}`;
    body.push(instruction(register));
    return register;
  };
  const values = Array.from(
    { length: live },
    (_, index) => set((r) => `mad.lo.u32 ${r}, %t, ${2 * index + 1}, ${index};`),
  );
  for (let step = 0; step < shuffles; step++) {
    const index = step % live, other = (step + 1) % live;
    const old = values[index]!;
    const shuffled = set((r) => `shfl.sync.bfly.b32 ${r}, ${old}, ${1 << step % 5}, 31, -1;`);
    body.push(`setp.lt.u32 %p${step}, ${old}, ${shuffled};`);
    const least = set((r) => `selp.b32 ${r}, ${old}, ${shuffled}, %p${step};`);
    const low = set((r) => `min.u32 ${r}, ${least}, ${values[other]};`);
    values[other] = set((r) => `max.u32 ${r}, ${least}, ${values[other]};`);
    values[index] = set((r) => `mad.lo.u32 ${r}, ${low}, 3, ${values[other]};`);
    if (step % 20 > 0) continue;
    body.push(`st.shared.u32 [%own], ${values[index]};`, "bar.sync 0;");
    values[index] = set((r) => `ld.shared.u32 ${r}, [%other];`);
    body.push("bar.sync 0;");
  }
  body.push("mov.u32 %acc, 0;", ...values.map((value) => `mad.lo.u32 %acc, %acc, 31, ${value};`));
  const expected = () => {
    const threads = (valueOf: (thread: number) => number) =>
      Uint32Array.from({ length: threadCount }, (_, t) => valueOf(t));
    const values = Array.from({ length: live }, (_, index) => threads((t) => t * (2 * index + 1) + index));
    for (let step = 0; step < shuffles; step++) {
      const old = values[step % live]!, other = values[(step + 1) % live]!;
      const least = threads((t) => Math.min(old[t]!, old[t ^ 1 << step % 5]!));
      const low = threads((t) => Math.min(least[t]!, other[t]!)), high = threads((t) => Math.max(least[t]!, other[t]!));
      const sum = threads((t) => Math.imul(low[t]!, 3) + high[t]!);
      values[(step + 1) % live] = high;
      values[step % live] = step % 20 > 0 ? sum : threads((t) => sum[t ^ 32]!);
    }
    return threads((t) => values.reduce((sum, value) => Math.imul(sum, 31) + value[t]!, 0));
  };
  return { ptx: largeKernel(Math.max(next, shuffles), body), expected };
}

/** A kernel of many instructions in a row, without anything that threads wait for. */
function straightCode(lines: number): LargeKernel {
  const body = ["mov.u32 %acc, %t;", "mov.u32 %r0, 1;"];
  for (let line = 0; line < lines; line++) {
    body.push(`prmt.b32 %acc, %acc, %r0, %acc;`, `mad.lo.u32 %r0, %acc, 5, %r0;`);
  }
  const expected = () =>
    Uint32Array.from({ length: threadCount }, (_, thread) => {
      let [acc, value] = [thread, 1];
      for (let line = 0; line < lines; line++) {
        acc = permuted(acc, value, acc);
        value = Math.imul(acc, 5) + value >>> 0;
      }
      return acc;
    });
  return { ptx: largeKernel(1, body), expected };
}

/** The result of `prmt.b32`. */
function permuted(a: number, b: number, selector: number): number {
  let result = 0;
  for (let byte = 0; byte < 4; byte++) {
    const choice = selector >>> 4 * byte & 15;
    const chosen = ((choice & 4) === 0 ? a : b) >>> 8 * (choice & 3) & 0xff;
    result |= ((choice & 8) === 0 ? chosen : (chosen >>> 7) * 0xff) << 8 * byte;
  }
  return result >>> 0;
}

/** What a kernel writes, with or without the sanitizer, which must have nothing to report. */
function written({ ptx }: LargeKernel, sanitize: boolean): Uint32Array {
  const reports: string[] = [];
  using cuda = open({ driver: "software", sanitize, onReport: ({ message }) => reports.push(message) });
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using output = pool.allocate(4 * threadCount, stream);
  using module = gpu.loadModule(ptx);
  module.kernel("test").launch({ grid: 1, block: threadCount, stream }, output);
  const result = output.readSync(Uint32Array);
  assertEquals(reports, []);
  return result;
}

for (const sanitize of [false, true]) {
  const how = sanitize ? " under the sanitizer" : "";
  test(`hundreds of shuffles among many live registers${how}`, () => {
    const kernel = unrolledSort({ live: 48, shuffles: sanitize ? 100 : 200 });
    assertEquals(written(kernel, sanitize), kernel.expected());
  });
  test(`thousands of shuffles among many live registers${how}`, { long: true }, () => {
    const kernel = unrolledSort({ live: 64, shuffles: sanitize ? 5000 : 10_000 });
    assertEquals(written(kernel, sanitize), kernel.expected());
  });
  test(`straight code of more bytes than engines allow in a function${how}`, { long: true }, () => {
    const kernel = straightCode(40_000);
    assertEquals(written(kernel, sanitize), kernel.expected());
  });
}

test("the sanitizer finds the mistakes of a large kernel", () => {
  const mistakes = `
ld.global.u32 %r0, [%rd3+4096];
ld.global.u32 %r0, [%rd3+1024]; and.b32 %r0, %r0, 4; cvt.u64.u32 %rd0, %r0; add.u64 %rd0, %rd3, %rd0;
ld.global.u32 %r0, [%rd0];
st.global.u32 [%rd3], %acc;`;
  const ptx = unrolledSort({ live: 48, shuffles: 100 }).ptx.replace("st.global.u32 [%rd3], %acc;", mistakes);
  const line = 1 + ptx.split("\n").findIndex((line) => line.includes("4096"));
  const found: string[] = [];
  const onReport = ({ kind, message }: SanitizerReport) => {
    found.push(`${kind} ${/(?:reads|At) (?:at )?PTX line (\d+)/.exec(message)?.[1]}`);
  };
  using cuda = open({ driver: "software", sanitize: ["memory", "initialization"], onReport });
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using output = pool.allocate(4096, stream);
  using neighbour = pool.allocate(4096, stream);
  assertEquals(neighbour.address, output.address + 4096n);
  neighbour.fill(0, stream);
  using module = gpu.loadModule(ptx);
  module.kernel("test").launch({ grid: 1, block: threadCount, stream }, output);
  stream.synchronize();
  assertEquals(found, [`out-of-bounds ${line}`, `uninitialized-address ${line + 2}`]);
});

test("the code of a shuffle grows with the registers that change, not with those that are live", () => {
  const bytes = (live: number, shuffles: number) =>
    compilePtx(unrolledSort({ live, shuffles }).ptx, { dividedAbove: 0 }).wasm.length;
  const perShuffle = [10, 100].map((live) => (bytes(live, 300) - bytes(live, 200)) / 100);
  assert(perShuffle.every((count) => count < 220), perShuffle.join());
});

test("threads of large kernels keep few registers, which share their places", () => {
  const { savedBytes } = compilePtx(unrolledSort({ live: 40, shuffles: 300 }).ptx).kernels.get("test")!;
  assert(savedBytes < 1000, `${savedBytes}`);
});

test("a kernel that cannot be divided is refused, and the error says what to do", { long: true }, () => {
  const { ptx } = straightCode(40_000);
  const message = compilePtx(ptx, { partBytes: Infinity }).refusals.get("test")?.message ?? "";
  assert(/ \d+ bytes of WebAssembly, and engines allow at most 7654321; unroll its loops less/.test(message), message);
});

/** A chain of blocks. Each can leave it for the last one. */
function ladder(length: number): BasicBlock<undefined>[] {
  const chain = Array.from({ length }, (): BasicBlock<undefined> => ({
    instructions: [],
    terminator: { kind: "exit" },
  }));
  chain.slice(0, -1).forEach((block, index) => {
    block.terminator = { kind: "branch", on: undefined, taken: chain.at(-1)!, otherwise: chain[index + 1]! };
  });
  return chain;
}

test("liveness visits only the blocks of each live range", () => {
  const chain = ladder(blocks);
  const indices = new Map(chain.map((block, index) => [block, index]));
  const type = typeNamed("b32");
  const registers = chain.map((_, index): Register => ({ kind: "register", name: `%r${index}`, type }));
  let visits = 0;
  const live = liveRegisters({
    entry: chain[0]!,
    at: [chain[blocks / 2]!],
    next: (block) => {
      visits++;
      return block.terminator.kind === "branch" ? [block.terminator.taken, block.terminator.otherwise] : [];
    },
    // Each block sets a register that is read three blocks later. The last one can be reached from all others.
    use: (block) => {
      const index = indices.get(block)!;
      visits++;
      return {
        uses: new Set(index < 3 ? [] : [registers[index - 3]!]),
        definitions: new Set([registers[index]!]),
      };
    },
  });
  assertEquals(live(chain[blocks / 2]!).map(({ name }) => name).sort(), ["%r4997", "%r4998", "%r4999", "%r9996"]);
  assertEquals(visits < 4 * blocks, true);
});

test("dominators of a long chain with a common exit are found", () => {
  const chain = ladder(blocks);
  const tree = dominatorTree(chain[0]!);
  assertEquals(tree.children(chain[0]!).length, 2);
  assertEquals(tree.parent(chain.at(-1)!), chain[0]);
  for (let index = 1; index < blocks - 1; index++) assertEquals(tree.parent(chain[index]!) === chain[index - 1], true);
  assertEquals(tree.size(chain[1]!), blocks - 2);
});
