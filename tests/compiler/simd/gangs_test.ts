import { assert, assertEquals, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../../kernels/saxpy.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { instructionForm } from "../../../src/software/compiler/instructions/instruction_form.ts";
import { allInstructions, instructionSetOf } from "../../../src/software/compiler/instructions/instructions.ts";
import { DeadlockError } from "../../../src/software/execution/scheduling/block_barriers.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { allocate, type Allocation, Fault, load, type RunOptions, testModule } from "../compiler_device.ts";
import { randomNumbers } from "../instructions/references.ts";
import { isLong, someOf, test } from "../../support/test.ts";

/** The widths of gangs. Undefined means no gangs. */
const widths: readonly (4 | 8 | 16 | 32)[] = isLong ? [4, 8, 16, 32] : [4, 32];
type Width = typeof widths[number] | undefined;

interface Launch {
  readonly ptx: string;
  readonly name?: string;
  readonly grid?: RunOptions["grid"];
  readonly block?: RunOptions["block"];
  readonly sharedMemoryBytes?: number;
  /** The words that are written, and those that are read. */
  readonly words?: number;
  readonly input?: Uint32Array;
  /** The offset of the addresses that the kernel gets from the start of the memory. */
  readonly skipped?: number;
  /** The parameters, given both addresses. Default: only the addresses. */
  readonly parameters?: (out: bigint, input: bigint) => RunOptions["parameters"];
}

/** Runs a kernel, and returns what it wrote or how it faulted. */
function run(launch: Launch, gangWidth: Width): Uint32Array | Fault {
  const { ptx, name = "test", block = [32, 1, 1], grid, input, words = 1024, skipped = 0 } = launch;
  const numbers = input ?? new Uint32Array(1024);
  const out = allocate(words * 4 + skipped), source = allocate(numbers.byteLength + skipped);
  out.bytes.fill(0xa5);
  source.bytes.set(new Uint8Array(numbers.buffer), skipped);
  const [first, second] = [out, source].map(({ address }: Allocation) => address + BigInt(skipped)) as [bigint, bigint];
  const parameters = launch.parameters?.(first, second) ??
    [{ type: "u64" as const, value: first }, { type: "u64" as const, value: second }];
  const { sharedMemoryBytes = 0 } = launch;
  try {
    load(ptx, { gangWidth }).run(name, { block, parameters, sharedMemoryBytes, ...(grid && { grid }) });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    // The memory has another address in each run.
    const begin = [second, first].find((begin) => begin <= error.address) ?? 0n;
    return new Fault(error.kind, error.address - begin, error.line);
  }
  return new Uint32Array(out.bytes.slice(skipped).buffer);
}

/** Runs a kernel without gangs, and in gangs of every width that divides its block. */
function runEveryWay(launch: Launch): { single: Uint32Array | Fault; inGangs: (Uint32Array | Fault)[] } {
  const [threads] = launch.block ?? [32, 1, 1];
  const inGangs = widths.filter((width) => threads % width === 0).map((width) => run(launch, width));
  return { single: run(launch, undefined), inGangs };
}

/** Asserts that a kernel writes the same in gangs as without. */
function assertSame(launch: Launch, what?: string): void {
  const { single, inGangs } = runEveryWay(launch);
  if (single instanceof Fault) throw single;
  for (const words of inGangs) assertEquals(words, single, what);
}

/** Asserts that a kernel faults in the same way in gangs as without. */
function assertSameFault(launch: Launch, what: string): void {
  const { single, inGangs } = runEveryWay(launch);
  if (!(single instanceof Fault)) throw new Error(`${what} does not fault`);
  for (const fault of inGangs) {
    if (!(fault instanceof Fault)) throw new Error(`${what} does not fault in gangs`);
    assertEquals([fault.kind, fault.address, fault.line], [single.kind, single.address, single.line], what);
  }
}

/** `%rd8` and `%rd9` are the addresses of the thread's words in `out` and `in`. `%r0` is its number in the grid. */
const places = `
  mov.u32 %r27, %ntid.x;
  mov.u32 %r28, %ctaid.x;
  mov.u32 %r29, %tid.x;
  mad.lo.s32 %r0, %r28, %r27, %r29;
  mul.wide.s32 %rd7, %r0, 4;
  add.s64 %rd8, %rd0, %rd7;
  add.s64 %rd9, %rd1, %rd7;`;

function body(text: string): string {
  return testModule(places + text);
}

function randomWords(length: number, seed: number): Uint32Array {
  const next = randomNumbers(BigInt(seed));
  return Uint32Array.from({ length }, () => Number(next() & 0xffff_ffffn));
}

const nanBits = [0x7fc0_0000, 0xffc1_2345, 0x7f80_0001, 0xff80_0001, 0x7fff_ffff, 0xffff_ffff];
const edges = Uint32Array.of(
  ...nanBits,
  ...[0, 0x8000_0000, 1, 0x8000_0001, 0x7f_ffff, 0x80_0000, 0x7f7f_ffff, 0x7f80_0000, 0xff80_0000],
  ...[0x3f80_0000, 0xbf80_0000, 0x3f80_0001, 0x7fff_fffe, 31, 32, 33, 0x4b80_0000, 0xcf00_0000, 0x5f00_0000],
  // The upper halves of infinities and NaNs of 64 bits.
  ...[0x7ff0_0000, 0xfff0_0000, 0x7ff0_0001, 0xfff8_1234],
);

/** Words with every pair of edge cases at the same index of two halves, and random words. */
function edgeWords(): { readonly words: Uint32Array; readonly count: number } {
  const pairs = [...edges].flatMap((a) => [...edges].map((b) => [a, b] as const));
  const count = Math.ceil((pairs.length + 256) / 64) * 64;
  const words = randomWords(3 * count, 7);
  pairs.forEach(([a, b], index) => {
    words[index] = a;
    words[count + index] = b;
    words[2 * count + index] = edges[(index * 7) % edges.length]!;
  });
  return { words, count };
}

/** Reads three words for each thread, and writes one. */
function operation(text: string, count: number): string {
  return body(`
  ld.global.u32 %r1, [%rd9];
  ld.global.u32 %r2, [%rd9+${count * 4}];
  ld.global.u32 %r3, [%rd9+${count * 8}];
  ld.global.f32 %f1, [%rd9];
  ld.global.f32 %f2, [%rd9+${count * 4}];
  ld.global.f32 %f3, [%rd9+${count * 8}];
  ${text}`);
}

/** Computes a number of 64 bits from three others, and writes a word that depends on all of its bits. */
function ofDoubles(text: string): string {
  return `mov.b64 %fd1, {%r1, %r2};
  mov.b64 %fd2, {%r3, %r1};
  mov.b64 %fd3, {%r2, %r3};
  ${text};
  mov.b64 {%r4, %r5}, %fd4;
  mad.lo.u32 %r4, %r5, 31, %r4;
  st.global.u32 [%rd8], %r4;`;
}

const comparisonsOfFloats = [
  "eq",
  "ne",
  "lt",
  "le",
  "gt",
  "ge",
  "equ",
  "neu",
  "ltu",
  "leu",
  "gtu",
  "geu",
  "num",
  "nan",
];

const operations: readonly string[] = [
  ...["add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max", "add.ftz", "mul.sat", "add.rz", "min.NaN"].map((name) =>
    `${name}.f32 %f4, %f1, %f2;\n  st.global.f32 [%rd8], %f4;`
  ),
  "fma.rn.f32 %f4, %f1, %f2, %f3;\n  st.global.f32 [%rd8], %f4;",
  "mad.rn.f32 %f4, %f1, %f2, %f3;\n  st.global.f32 [%rd8], %f4;",
  "add.rn.f32 %f4, %f1, %f2;\n  mul.rn.f32 %f5, %f4, %f3;\n  st.global.f32 [%rd8], %f5;",
  "add.rn.f32 %f4, %f1, %f2;\n  mov.b32 %r4, %f4;\n  st.global.u32 [%rd8], %r4;",
  ...["neg", "abs", "sqrt.rn", "rcp.rn"].map((name) => `${name}.f32 %f4, %f1;\n  st.global.f32 [%rd8], %f4;`),
  "mov.f32 %f4, %f1;\n  st.global.f32 [%rd8], %f4;",
  "mov.b32 %r4, %f1;\n  st.global.u32 [%rd8], %r4;",
  "ld.global.f32 %f4, [%rd1];\n  st.global.f32 [%rd8], %f4;",
  ...["volatile", "relaxed.gpu", "mmio.relaxed.sys"].map((order) =>
    `ld.${order}.global.u32 %r4, [%rd9];\n  st.${order}.global.u32 [%rd8], %r4;`
  ),
  "ld.global.nc.u32 %r4, [%rd9];\n  st.global.u32 [%rd8], %r4;",
  ...["", "volatile.", "relaxed.gpu."].map((order) =>
    `ld.${order}global.L2::128B.u32 %r4, [%rd9];\n  st.global.u32 [%rd8], %r4;`
  ),
  ...["", "relaxed.gpu."].map((order) => {
    return `ld.${order}global.L1::no_allocate.L2::128B.u32 %r4, [%rd9];\n  ` +
      `st.${order}global.L1::evict_first.u32 [%rd8], %r4;`;
  }),
  "ld.global.nc.L1::no_allocate.L2::128B.u32 %r4, [%rd9];\n  st.global.u32 [%rd8], %r4;",
  ...["cvt.rn.f32.s32 %f4, %r1", "cvt.rn.f32.u32 %f4, %r1", "cvt.rzi.s32.f32 %f4, %f1", "cvt.rzi.u32.f32 %f4, %f1"].map(
    (text) =>
      `${text.replace(/(32\.f32) %f4/, "$1 %r4")};\n  st.global.${
        /%r4/.test(text) || /i\.[su]/.test(text) ? "u32 [%rd8], %r4" : "f32 [%rd8], %f4"
      };`,
  ),
  ...["add.s32", "sub.s32", "mul.lo.s32", "min.s32", "min.u32", "max.s32", "max.u32", "and.b32", "or.b32", "xor.b32"]
    .map(
      (name) => `${name} %r4, %r1, %r2;\n  st.global.u32 [%rd8], %r4;`,
    ),
  ...["mul.hi.u32", "div.s32", "rem.u32", "shl.b32", "shr.s32", "shr.u32"].map(
    (name) => `${name} %r4, %r1, %r2;\n  st.global.u32 [%rd8], %r4;`,
  ),
  ...["neg.s32", "abs.s32", "not.b32", "popc.b32", "clz.b32", "brev.b32"].map((name) =>
    `${name} %r4, %r1;\n  st.global.u32 [%rd8], %r4;`
  ),
  ...[0, 1, 31, 32, 40].flatMap((amount) =>
    ["shl.b32", "shr.s32", "shr.u32"].map((name) => `${name} %r4, %r1, ${amount};\n  st.global.u32 [%rd8], %r4;`)
  ),
  ...["l.wrap", "r.wrap", "l.clamp", "r.clamp"].flatMap((name) =>
    [0, 5, 32, 37].map((amount) => `shf.${name}.b32 %r4, %r1, %r2, ${amount};\n  st.global.u32 [%rd8], %r4;`)
  ),
  ...[0x96, 0xe8, 0xca, 0, 0xff].map((table) => `lop3.b32 %r4, %r1, %r2, %r3, ${table};\n  st.global.u32 [%rd8], %r4;`),
  ...[0x0123, 0x7654, 0x6420, 0x9bdf].map((pick) => `prmt.b32 %r4, %r1, %r2, ${pick};\n  st.global.u32 [%rd8], %r4;`),
  "mad.lo.s32 %r4, %r1, %r2, %r3;\n  st.global.u32 [%rd8], %r4;",
  "mad.lo.s32 %r4, %r1, 7, %r0;\n  st.global.u32 [%rd8], %r4;",
  "mul.wide.u32 %rd3, %r1, %r2;\n  shr.u64 %rd4, %rd3, 7;\n  cvt.u32.u64 %r4, %rd4;\n  st.global.u32 [%rd8], %r4;",
  "mov.b64 %rd3, {%r1, %r2};\n  mov.b64 {%r4, %r5}, %rd3;\n  st.global.u32 [%rd8], %r5;",
  "cvt.u16.u32 %h1, %r1;\n  cvt.s32.s16 %r4, %h1;\n  st.global.u32 [%rd8], %r4;",
  ...comparisonsOfFloats.map((comparison) =>
    `setp.${comparison}.f32 %p1, %f1, %f2;\n  selp.b32 %r4, %r3, %r0, %p1;\n  st.global.u32 [%rd8], %r4;`
  ),
  ...["eq", "ne"].map((comparison) =>
    `setp.${comparison}.b32 %p1, %r1, %r2;\n  selp.b32 %r4, %r3, %r0, %p1;\n  st.global.u32 [%rd8], %r4;`
  ),
  ...["eq", "ne", "lt", "le", "gt", "ge"].flatMap((comparison) =>
    ["s32", "u32"].map((type) =>
      `setp.${comparison}.${type} %p1, %r1, %r2;\n  selp.f32 %f4, %f3, %f1, %p1;\n  st.global.f32 [%rd8], %f4;`
    )
  ),
  ...["add.rn", "sub.rn", "mul.rn", "div.rn", "add.rz", "min", "max"].map((name) =>
    ofDoubles(`${name}.f64 %fd4, %fd1, %fd2`)
  ),
  ...["neg", "abs", "sqrt.rn", "rcp.rn", "mov"].map((name) => ofDoubles(`${name}.f64 %fd4, %fd1`)),
  ...["cvt.rn.f64.s32 %fd4, %r1", "cvt.rn.f64.u32 %fd4, %r1", "cvt.rn.f64.s32 %fd4, %r0", "cvt.f64.f32 %fd4, %f1"].map(
    ofDoubles,
  ),
  ofDoubles("fma.rn.f64 %fd4, %fd1, %fd2, %fd3"),
  ofDoubles("mad.rn.f64 %fd4, %fd1, %fd2, %fd3"),
  ofDoubles("mul.rn.f64 %fd4, %fd1, 0d3FF8000000000000"),
  ofDoubles("add.f64 %fd5, %fd1, %fd2;\n  mul.f64 %fd6, %fd5, %fd3;\n  sub.f64 %fd4, %fd6, %fd1"),
  ofDoubles("cvt.s64.s32 %rd3, %r0;\n  mov.b64 %fd5, %rd3;\n  add.f64 %fd4, %fd5, %fd5"),
  // What a run reads is in memory, and set again in the run.
  ofDoubles(`ld.global.u32 %rd3, [%rd9];
  mul.f64 %fd5, %fd1, %fd2;
  add.s64 %rd3, %rd3, 1;
  add.f64 %fd5, %fd5, %fd3;
  cvt.rn.f64.s64 %fd6, %rd3;
  sub.f64 %fd4, %fd5, %fd6`),
  // Some results are read before the last one, are set again, or reach no other operation.
  ofDoubles(`add.f64 %fd1, %fd1, %fd2;
  mul.f64 %fd5, %fd1, %fd3;
  setp.lt.f64 %p1, %fd5, %fd2;
  add.f64 %fd1, %fd1, %fd3;
  add.u32 %r1, %r1, 1;
  selp.f64 %fd4, %fd1, %fd5, %p1;
  cvt.rn.f64.u32 %fd6, %r1;
  mul.f64 %fd4, %fd4, %fd6`),
  ofDoubles(`mov.f64 %fd4, %fd3;
  setp.gt.f64 %p1, %fd1, %fd2;
  @%p1 add.f64 %fd4, %fd1, %fd2;
  @!%p1 mov.f64 %fd4, %fd2`),
  ...comparisonsOfFloats.map((comparison) =>
    ofDoubles(`setp.${comparison}.f64 %p1, %fd1, %fd2;\n  selp.f64 %fd4, %fd3, %fd1, %p1`)
  ),
  `setp.lt.u32 %p1, %r1, %r2;
  setp.gt.and.s32 %p2, %r2, %r3, %p1;
  not.pred %p3, %p1;
  or.pred %p4, %p2, %p3;
  xor.pred %p5, %p4, %p1;
  setp.eq.or.u32 %p6|%p7, %r1, %r3, !%p5;
  mov.u32 %r4, 1;
  @%p5 add.s32 %r4, %r4, 2;
  @!%p6 mul.lo.s32 %r4, %r4, 5;
  @%p7 mov.u32 %r5, %r1;
  @!%p7 mov.u32 %r5, 9;
  add.s32 %r4, %r4, %r5;
  @%p2 st.global.u32 [%rd8], %r4;`,
];

test("operations give the same bits in gangs, including NaNs and all other edge cases", { long: true }, () => {
  const { words, count } = edgeWords();
  for (const text of operations) {
    const launch = { ptx: operation(text, count), input: words, words: count, block: [64, 1, 1] as const };
    assertSame({ ...launch, grid: [count / 64, 1, 1] }, text);
  }
});

test("every instruction that gangs execute on vectors is among these operations", () => {
  const executed = new Set<string>();
  const spying = allInstructions().map((form) => {
    const { emit, syntax, section, traits } = form;
    const { gangForm } = traits;
    if (emit === undefined || gangForm === undefined) return form;
    const spy: typeof gangForm = (gang, instruction) => {
      const write = gangForm(gang, instruction);
      if (write !== undefined) executed.add(syntax);
      return write;
    };
    return instructionForm(syntax, section, { lowering: emit, traits: { ...traits, gangForm: spy } });
  });
  const options = { gangs: "always", fusedMultiplyAdd: true, instructions: instructionSetOf(spying) } as const;
  for (const text of operations) {
    assert(compilePtx(operation(text, 64), options).kernels.get("test")!.compileGangs(4) !== undefined, text);
  }
  const missing = allInstructions().filter(({ traits, syntax }) => {
    // These operations are PTX that still has all its forms.
    return traits.gangForm !== undefined && !executed.has(syntax) && traits.removedIn === undefined;
  });
  assertEquals(
    missing.map(({ syntax }) => syntax),
    [],
    "Add each form to the operations of tests/compiler/simd/gangs_test.ts, with operands that vectors can hold",
  );
});

test("comparisons of strided with uniform numbers are right wherever the numbers wrap around", { long: true }, () => {
  for (const type of ["u32", "s32", "u64", "s64"]) {
    const bits = type.endsWith("64") ? 64n : 32n;
    const register = bits === 64n ? "%rd" : "%r";
    const borders = [0n, 1n << (bits - 1n)].flatMap((border) =>
      [-70n, -20n, -7n, -1n, 0n, 1n, 3n, 40n].map((by) => border + by)
    );
    for (const stride of [1n, 5n, -3n]) {
      const cases = borders.flatMap((base) =>
        [-16n, -9n, -1n, 0n, 1n, 7n, 15n, 31n, 200n].map((by) => [base, base + by * stride])
      );
      const input = new Uint32Array(BigUint64Array.from(cases.flat().map((value) => BigInt.asUintN(64, value))).buffer);
      const setup = `
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u64 %rd4, [%rd3];
  ld.global.u64 %rd5, [%rd3+8];
  cvt.u32.u64 %r4, %rd4;
  cvt.u32.u64 %r5, %rd5;
  mov.u32 %r2, %tid.x;
  mul.lo.s32 %r3, %r2, ${stride};
  add.s32 %r6, %r3, %r4;
  cvt.s64.s32 %rd10, %r3;
  add.s64 %rd6, %rd10, %rd4;
  mov.u32 %r7, 0;`;
      const compared = ["lt", "le", "gt", "ge", "eq", "ne"].flatMap((comparison, index) =>
        [`${register}6, ${register}5`, `${register}5, ${register}6`].map((operands, side) => `
  setp.${comparison}.${type} %p1, ${operands};
  selp.u32 %r8, ${1 << (2 * index + side)}, 0, %p1;
  or.b32 %r7, %r7, %r8;
  @%p1 bra taken${index}_${side};
  or.b32 %r7, %r7, ${1 << (16 + 2 * index + side)};
taken${index}_${side}:`)
      );
      const ptx = testModule(`${setup}${compared.join("")}
  mov.u32 %r9, %ntid.x;
  mad.lo.s32 %r10, %r1, %r9, %r2;
  mul.wide.u32 %rd8, %r10, 4;
  add.s64 %rd9, %rd0, %rd8;
  st.global.u32 [%rd9], %r7;`);
      assertSame({ ptx, input, words: cases.length * 32, grid: [cases.length, 1, 1] });
    }
  }
});

test("a 32-bit number that wraps around within a gang is extended as in single threads", { long: true }, () => {
  for (
    const extend of [
      "mul.wide.u32 %rd2, %r2, 4",
      "mul.wide.s32 %rd2, %r2, 4",
      "cvt.u64.u32 %rd2, %r2",
      "cvt.s64.s32 %rd2, %r2",
    ]
  ) {
    for (const start of [0, 0x7fff_fff5, 0xffff_fff5, 0xffff_ffe0, 0x8000_0000, 5]) {
      for (const step of ["mov.u32 %r2, %r1", "neg.s32 %r2, %r1", "shl.b32 %r2, %r1, 3"]) {
        const ptx = body(`
  ld.global.u32 %r3, [%rd1];
  add.s32 %r1, %r29, %r3;
  ${step};
  ${extend};
  shr.u64 %rd3, %rd2, 20;
  add.s64 %rd4, %rd2, %rd3;
  cvt.u32.u64 %r4, %rd4;
  st.global.u32 [%rd8], %r4;`);
        assertSame({ ptx, input: Uint32Array.of(start), words: 32 });
      }
    }
  }
});

/** Kernels in which gangs diverge. Each thread reads a word and writes one. */
const divergencePoints: Readonly<Record<string, string>> = {
  "a loop that some leave earlier": `
  ld.global.u32 %r1, [%rd9];
  and.b32 %r1, %r1, 15;
  mov.u32 %r2, 0;
  mov.f32 %f1, 0f3f800000;
loop:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra done;
  add.s32 %r2, %r2, 1;
  add.rn.f32 %f1, %f1, %f1;
  bra loop;
done:
  st.global.f32 [%rd8], %f1;`,
  "a loop whose end is as far for all but a few": `
  mov.u32 %r2, 1;
  add.s32 %r1, %r0, 2;
loop:
  add.s32 %r2, %r2, %r1;
  setp.lt.u32 %p1, %r2, 100;
  @%p1 bra loop;
  st.global.u32 [%rd8], %r2;`,
  "early returns": `
  ld.global.u32 %r1, [%rd9];
  and.b32 %r2, %r1, 3;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 ret;
  st.global.u32 [%rd8], %r1;
  setp.eq.u32 %p2, %r2, 1;
  @%p2 exit;
  st.global.u32 [%rd8], %r2;`,
  "branches in branches": `
  ld.global.u32 %r1, [%rd9];
  mov.u32 %r2, 7;
  setp.gt.u32 %p1, %r29, 20;
  @%p1 bra last;
  and.b32 %r3, %r1, 1;
  setp.ne.u32 %p2, %r3, 0;
  @!%p2 bra even;
  add.s32 %r2, %r2, %r1;
  and.b32 %r4, %r1, 2;
  setp.eq.u32 %p3, %r4, 0;
  @%p3 bra joined;
  mul.lo.s32 %r2, %r2, 3;
  bra joined;
even:
  sub.s32 %r2, %r2, %r1;
joined:
  xor.b32 %r2, %r2, 0x55;
last:
  st.global.u32 [%rd8], %r2;`,
  "a register that is the same in all threads on each of two ways": `
  setp.lt.u32 %p1, %r29, 5;
  @%p1 bra one;
  mov.u32 %r2, 11;
  bra both;
one:
  mov.u32 %r2, 12;
both:
  st.global.u32 [%rd8], %r2;`,
  "what was computed before, of every kind": `
  ld.global.u32 %r1, [%rd9];
  cvt.u64.u32 %rd2, %r1;
  cvt.u16.u32 %h1, %r1;
  cvt.rn.f64.u32 %fd1, %r1;
  setp.lt.s32 %p2, %r1, 0;
  shl.b32 %r5, %r29, 3;
  add.s64 %rd3, %rd9, 12;
  ld.global.u32 %r6, [%rd1];
  ld.global.f32 %f1, [%rd9];
  add.rn.f32 %f2, %f1, %f1;
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra skip;
  add.s64 %rd2, %rd2, 5;
skip:
  cvt.u32.u64 %r3, %rd2;
  cvt.u32.u16 %r4, %h1;
  cvt.rzi.u32.f64 %r7, %fd1;
  selp.u32 %r8, 1000, 2000, %p2;
  sub.s64 %rd4, %rd3, %rd9;
  cvt.u32.u64 %r9, %rd4;
  mov.b32 %r10, %f2;
  add.s32 %r3, %r3, %r4;
  xor.b32 %r3, %r3, %r5;
  add.s32 %r3, %r3, %r6;
  xor.b32 %r3, %r3, %r7;
  add.s32 %r3, %r3, %r8;
  xor.b32 %r3, %r3, %r9;
  add.s32 %r3, %r3, %r10;
  st.global.u32 [%rd8], %r3;`,
};

for (const [what, text] of Object.entries(divergencePoints)) {
  test(`the members of a gang diverge: ${what}`, () => {
    const input = randomWords(256, 3);
    input.set(nanBits, 40);
    for (const block of [[16, 1, 1], [64, 1, 1]] as const) {
      assertSame({ ptx: body(text), input, words: 256, block, grid: [256 / block[0], 1, 1] });
    }
  });

  test(`the members of a gang diverge and wait for each other: ${what}`, () => {
    // Twice, because a gang that has reconverged must be able to diverge again.
    const waiting = text.replace("skip:", "skip:\n  bar.sync 0;").replace(
      / {2}st\.global.*$/,
      "  bar.sync 0;\n  xor.b32 %r20, %r29, 3;\n  bar.sync 0;\n$&",
    );
    const divergence = waiting.replace(/ {2}bar\.sync 0;\n {2}xor.*\n/, (found) =>
      `${found}
  setp.lt.u32 %p8, %r20, 30;
  @%p8 bra behind;
  add.s32 %r20, %r20, 1;
behind:
  add.s64 %rd8, %rd8, 1024;
  st.global.u32 [%rd8], %r20;
  sub.s64 %rd8, %rd8, 1024;
`);
    const input = randomWords(256, 5);
    for (const block of [[16, 1, 1], [64, 1, 1]] as const) {
      assertSame({ ptx: body(divergence), input, words: 512, block, grid: [256 / block[0], 1, 1] });
    }
  });
}

test("sums and fills can have any length and begin anywhere", () => {
  for (const count of someOf([0, 1, 15, 16, 17, 100, 1000], 4)) {
    for (const skipped of [0, 4, 12]) {
      const input = Uint32Array.from(randomWords(1024, count));
      const parameters = (out: bigint, from: bigint) => [
        { type: "u32", value: count } as const,
        { type: "f32", value: 2.5 } as const,
        { type: "u64", value: from } as const,
        { type: "u64", value: out } as const,
      ];
      for (const grid of [[1, 1, 1], [8, 1, 1], [32, 1, 1]] as const) {
        assertSame({ ptx: saxpyPtx, name: "saxpy", input, skipped, parameters, grid });
      }
      const filled = (out: bigint) => [
        { type: "u64", value: out } as const,
        { type: "u64", value: count + skipped / 4 } as const,
        { type: "u32", value: 0x1234_5678 } as const,
      ];
      assertSame({ ptx: fillPtx, name: "fill", skipped, parameters: filled, grid: [4, 1, 1] });
    }
  }
});

test("gangs read and write memory in every order", () => {
  const reversed = body(`
  mov.u32 %r1, 255;
  sub.s32 %r1, %r1, %r0;
  mul.wide.s32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  st.global.u32 [%rd8], %r2;`);
  const gathered = body(`
  ld.global.u32 %r1, [%rd9];
  and.b32 %r1, %r1, 255;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  xor.b32 %r3, %r0, 85;
  mul.wide.u32 %rd4, %r3, 4;
  add.s64 %rd5, %rd0, %rd4;
  st.global.u32 [%rd5], %r2;`);
  const narrow = body(`
  cvt.s64.s32 %rd2, %r0;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.s8 %r1, [%rd3];
  add.s64 %rd4, %rd3, %rd2;
  ld.global.u16 %h1, [%rd4];
  cvt.u32.u16 %r2, %h1;
  add.s32 %r1, %r1, %r2;
  add.s64 %rd5, %rd0, %rd2;
  st.global.u8 [%rd5], %r1;`);
  const vectors = body(`
  shl.b32 %r1, %r0, 4;
  cvt.u64.u32 %rd2, %r1;
  and.b64 %rd2, %rd2, 1023;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd3];
  add.s64 %rd4, %rd0, %rd2;
  st.global.v2.u32 [%rd4], {%r5, %r3};`);
  const oneAddress = body(`
  ld.global.u32 %r1, [%rd9];
  st.global.u32 [%rd0], %r1;
  ld.global.u32 %r2, [%rd1];
  st.global.u32 [%rd8+64], %r2;
  st.global.u32 [%rd8+64], 17;`);
  const generic = body(`
  ld.u32 %r1, [%rd9];
  st.u32 [%rd8], %r1;`);
  for (const ptx of [reversed, gathered, narrow, vectors, oneAddress, generic]) {
    assertSame({ ptx, input: randomWords(256, 9), grid: [8, 1, 1] });
  }
  const doubles = body(`
  mul.wide.s32 %rd2, %r0, 8;
  add.s64 %rd3, %rd1, %rd2;
  add.s64 %rd4, %rd0, %rd2;
  ld.global.f64 %fd1, [%rd3+8];
  ld.f64 %fd2, [%rd3];
  neg.f64 %fd3, %fd1;
  st.global.f64 [%rd4], %fd3;
  @%p1 st.f64 [%rd4], %fd2;
  ld.global.f64 %fd4, [%rd4+1024];
  st.global.f64 [%rd4+1024], 0d3FF0000000000000;
  st.f64 [%rd4+1024], %fd4;`);
  assertSame({ ptx: doubles, input: randomWords(1024, 9), grid: [8, 1, 1] });
});

test("an illegal access by one member faults as it does without gangs", () => {
  const cases = {
    misalignedNull: ["mov.u64 %rd9, 26;\n  ld.global.u32 %r1, [%rd9];", 32],
    load: [`ld.global.u32 %r1, [%rd9];`, 28],
    store: [`st.global.u32 [%rd9], %r0;`, 30],
    misaligned: [`add.s64 %rd9, %rd9, 2;\n  ld.global.u32 %r1, [%rd9];`, 32],
    generic: [`st.u32 [%rd9], %r0;`, 30],
    double: [`add.s64 %rd9, %rd9, %rd7;\n  ld.global.f64 %fd1, [%rd9];`, 62],
    halfDouble: [`add.s64 %rd9, %rd9, %rd7;\n  ld.global.f64 %fd1, [%rd9];`, 63],
    storedDouble: [`add.s64 %rd9, %rd9, %rd7;\n  st.global.f64 [%rd9], 0d0000000000000000;`, 62],
    misalignedDouble: [`add.s64 %rd9, %rd9, %rd7;\n  ld.global.f64 %fd1, [%rd9+4];`, 128],
    gathered: [
      `xor.b32 %r1, %r0, 3;\n  mul.wide.u32 %rd2, %r1, 4;\n  add.s64 %rd3, %rd1, %rd2;\n  ld.global.u32 %r2, [%rd3];`,
      30,
    ],
  } as const;
  for (const [what, [text, words]] of Object.entries(cases)) {
    assertSameFault({ ptx: body(text), input: new Uint32Array(words) }, what);
  }
});

test("shared memory is checked for all members of a gang", () => {
  const text = (skipped: number) => `
  .shared .align 4 .b8 tile[128];
  mov.u32 %r1, tile;
  shl.b32 %r2, %r29, 2;
  add.s32 %r3, %r1, %r2;
  st.shared.u32 [%r3+${skipped}], %r0;
  bar.sync 0;
  ld.shared.u32 %r4, [%r3+${skipped}];
  st.global.u32 [%rd8], %r4;`;
  assertSame({ ptx: body(text(0)) });
  for (const skipped of [4, 2, 128, -4]) {
    assertSameFault({ ptx: body(text(skipped)) }, `an access ${skipped} bytes further on`);
  }
  const doubles = (skipped: number) =>
    body(`
  .shared .align 8 .b8 tile[256];
  mov.u32 %r1, tile;
  shl.b32 %r2, %r29, 3;
  add.s32 %r3, %r1, %r2;
  cvt.rn.f64.s32 %fd1, %r0;
  st.shared.f64 [%r3+${skipped}], %fd1;
  bar.sync 0;
  ld.shared.f64 %fd2, [%r3+${skipped}];
  cvt.rzi.s32.f64 %r4, %fd2;
  st.global.u32 [%rd8], %r4;`);
  assertSame({ ptx: doubles(0) });
  for (const skipped of [8, 4, 256, -8]) {
    assertSameFault({ ptx: doubles(skipped) }, `an access to a double ${skipped} bytes further on`);
  }
  // What a launch adds, although the kernel does not name it.
  assertSame({ ptx: body(text(100)), sharedMemoryBytes: 100 });
  assertSameFault({ ptx: body(text(100)), sharedMemoryBytes: 96 }, "an access behind what the launch adds");
  const dynamic = `.version 7.0\n.target sm_60\n.address_size 64\n.extern .shared .align 4 .b8 extra[];\n${
    body(text(0).replace(/.shared .align 4 .b8 tile\[128\];/, "").replace("tile", "extra")).split("\n").slice(3).join(
      "\n",
    )
  }`;
  assertSame({ ptx: dynamic, sharedMemoryBytes: 128 });
  assertSameFault({ ptx: dynamic, sharedMemoryBytes: 100 }, "too little shared memory");
});

test("gangs run in blocks of three dimensions", () => {
  const ptx = testModule(`
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %ntid.y;
  mad.lo.s32 %r6, %r3, %r5, %r2;
  mad.lo.s32 %r6, %r6, %r4, %r1;
  mov.u32 %r7, %ctaid.x;
  mov.u32 %r8, %ctaid.y;
  mov.u32 %r9, %ctaid.z;
  mov.u32 %r10, %nctaid.x;
  mov.u32 %r11, %nctaid.y;
  mad.lo.s32 %r12, %r9, %r11, %r8;
  mad.lo.s32 %r12, %r12, %r10, %r7;
  mad.lo.s32 %r13, %r12, 192, %r6;
  mul.wide.u32 %rd2, %r13, 4;
  add.s64 %rd3, %rd0, %rd2;
  mov.u32 %r14, %laneid;
  mov.u32 %r15, %warpid;
  mov.u32 %r16, %lanemask_lt;
  mad.lo.s32 %r17, %r14, 100, %r15;
  xor.b32 %r17, %r17, %r16;
  add.s32 %r17, %r17, %r2;
  and.b32 %r18, %r1, 12;
  setp.eq.u32 %p1, %r18, 8;
  @%p1 bra skip;
  add.s32 %r17, %r17, %r3;
skip:
  st.global.u32 [%rd3], %r17;`);
  assertSame({ ptx, words: 192 * 12, block: [32, 3, 2], grid: [3, 2, 2] });
  assertSame({ ptx, words: 192 * 12, block: [16, 4, 3], grid: [2, 3, 2] });
});

test("each member of a gang executes atomic operations", () => {
  const ptx = body(`
  .shared .align 4 .u32 counter;
  mov.u32 %r5, counter;
  st.shared.u32 [%r5], 0;
  bar.sync 0;
  atom.global.add.u32 %r1, [%rd0], 3;
  red.global.add.u32 [%rd0+4], 1;
  atom.shared.add.u32 %r2, [%r5], %r29;
  ld.global.u32 %r3, [%rd9];
  and.b32 %r3, %r3, 7;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd0, %rd2;
  red.global.max.u32 [%rd3+64], %r0;
  setp.gt.u32 %p1, %r3, 3;
  @%p1 red.global.add.u32 [%rd0+8], 1;
  mad.lo.s32 %r1, %r1, 64, %r2;
  st.global.u32 [%rd8+256], %r1;`);
  assertSame({ ptx, input: randomWords(256, 5), block: [64, 1, 1], grid: [4, 1, 1] });
});

/** The sum of a block's words, in shared memory, halved until one thread is left. */
const tree = `
  .shared .align 4 .b8 sums[1024];
  mov.u32 %r1, sums;
  shl.b32 %r2, %r29, 2;
  add.s32 %r3, %r1, %r2;
  ld.global.u32 %r4, [%rd9];
  st.shared.u32 [%r3], %r4;
  bar.sync 0;
  shr.u32 %r5, %r27, 1;
halve:
  setp.ge.u32 %p1, %r29, %r5;
  @%p1 bra wait;
  shl.b32 %r6, %r5, 2;
  add.s32 %r7, %r3, %r6;
  ld.shared.u32 %r8, [%r7];
  ld.shared.u32 %r9, [%r3];
  add.s32 %r9, %r9, %r8;
  st.shared.u32 [%r3], %r9;
wait:
  bar.sync 0;
  shr.u32 %r5, %r5, 1;
  setp.ne.u32 %p2, %r5, 0;
  @%p2 bra halve;
  ld.shared.u32 %r10, [%r1];
  st.global.u32 [%rd8], %r10;`;

test("threads wait for each other, in gangs or not", () => {
  const input = randomWords(512, 8);
  for (const block of [[16, 1, 1], [32, 1, 1], [128, 1, 1], [256, 1, 1]] as const) {
    assertSame({ ptx: body(tree), input, words: 512, block, grid: [512 / block[0], 1, 1] });
  }
});

test("barriers hold after some gangs have diverged, some threads have exited, and at several places", () => {
  const diverged = `
  .shared .align 4 .b8 words[1024];
  mov.u32 %r1, words;
  shl.b32 %r2, %r29, 2;
  add.s32 %r3, %r1, %r2;
  ld.global.u32 %r4, [%rd9];
  setp.lt.u32 %p1, %r29, 20;
  @!%p1 bra store;
  and.b32 %r5, %r4, 3;
  setp.eq.u32 %p2, %r5, 0;
  @%p2 bra store;
  mul.lo.s32 %r4, %r4, 3;
store:
  st.shared.u32 [%r3], %r4;
  bar.sync 0;
  xor.b32 %r6, %r29, 21;
  shl.b32 %r6, %r6, 2;
  add.s32 %r6, %r6, %r1;
  ld.shared.u32 %r7, [%r6];
  bar.sync 1;
  add.s32 %r7, %r7, %r0;
  st.shared.u32 [%r6], %r7;
  bar.sync 0;
  ld.shared.u32 %r8, [%r3];
  st.global.u32 [%rd8], %r8;`;
  const exiting = (bound: number) => `
  .shared .align 4 .b8 words[1024];
  mov.u32 %r1, words;
  shl.b32 %r2, %r29, 2;
  add.s32 %r3, %r1, %r2;
  st.shared.u32 [%r3], %r0;
  setp.ge.u32 %p1, %r29, ${bound};
  @%p1 ret;
  bar.sync 0;
  ld.shared.u32 %r4, [%r1+${4 * bound - 4}];
  st.global.u32 [%rd8], %r4;`;
  const twoPlaces = (bound: number) => `
  .shared .align 4 .b8 words[1024];
  mov.u32 %r1, words;
  shl.b32 %r2, %r29, 2;
  add.s32 %r3, %r1, %r2;
  st.shared.u32 [%r3], %r0;
  setp.ge.u32 %p1, %r29, ${bound};
  @%p1 bra other;
  bar.sync 0;
  ld.shared.u32 %r4, [%r1+252];
  bra end;
other:
  bar.sync 0;
  ld.shared.u32 %r4, [%r1];
end:
  st.global.u32 [%rd8], %r4;`;
  const input = randomWords(256, 4);
  for (const text of [diverged, exiting(32), exiting(40), exiting(1), twoPlaces(32), twoPlaces(37)]) {
    assertSame({ ptx: body(text), input, words: 256, block: [64, 1, 1], grid: [4, 1, 1] });
  }
});

test("gangs that wait at different barriers deadlock", () => {
  const text = `
  setp.ge.u32 %p1, %r29, 16;
  @%p1 bra other;
  bar.sync 0;
  bra end;
other:
  bar.sync 1;
end:
  st.global.u32 [%rd8], %r29;`;
  for (const width of [undefined, 4, 8, 16] as const) {
    assertThrows(() => run({ ptx: body(text) }, width), DeadlockError);
  }
});

test("gangs diverge where threads exchange values", () => {
  const text = `
  .shared .align 4 .b8 sums[128];
  ld.global.u32 %r1, [%rd9];
  mov.u32 %r2, 0;
loop:
  add.s32 %r1, %r1, %r0;
  add.s32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 5;
  @%p1 bra loop;
  shfl.sync.bfly.b32 %r3, %r1, 16, 31, -1;
  add.s32 %r1, %r1, %r3;
  bar.sync 0;
  shfl.sync.down.b32 %r4|%p2, %r1, 1, 31, -1;
  selp.u32 %r4, %r4, 77, %p2;
  setp.gt.s32 %p3, %r4, 0;
  vote.sync.ballot.b32 %r5, %p3, -1;
  bar.red.popc.u32 %r6, 0, %p3;
  add.s32 %r4, %r4, %r5;
  add.s32 %r4, %r4, %r6;
  st.global.u32 [%rd8], %r4;`;
  assertSame({ ptx: body(text), input: randomWords(256, 6), words: 256, block: [64, 1, 1], grid: [4, 1, 1] });
});

test("barriers in nested loops do not keep a kernel out of gangs", () => {
  // A barrier costs one instruction each time around, however deep its loop is.
  const ptx = body(`
  ld.global.u32 %r1, [%rd9];
  mov.u32 %r2, 0;
outer:
  mov.u32 %r3, 0;
middle:
  mov.u32 %r4, 0;
inner:
  add.s32 %r1, %r1, %r4;
  bar.sync 0;
  xor.b32 %r1, %r1, %r3;
  add.s32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, 3;
  @%p1 bra inner;
  add.s32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, 3;
  @%p1 bra middle;
  add.s32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 3;
  @%p1 bra outer;
  st.global.u32 [%rd8], %r1;`);
  assert(compilePtx(ptx).kernels.get("test")!.compileGangs(16) !== undefined);
  assertSame({ ptx, input: randomWords(64, 7), words: 64, block: [64, 1, 1] });
});

test("an endless loop is stopped in gangs too", () => {
  using cuda = new Cuda(
    new Session(new SoftwareDriver({ devices: 1, peers: false, gangs: "always", stepLimit: 1000 })),
  );
  const device = cuda.device(0);
  const module = device.loadModule(testModule("loop:\n  bra loop;"));
  module.kernel("test").launch({ grid: 1, block: 32 }, 0n, 0n);
  assertThrows(() => device.synchronize(), Error, "steps");
});

test("launches of any shape give the same results with and without gangs", { long: true }, () => {
  const results = ([false, true, "always"] as const).map((gangs) => {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, gangs })));
    const device = cuda.device(0);
    using pool = device.createPool();
    using out = pool.allocate(40_000 * 4);
    using module = device.loadModule(body(divergencePoints["a loop that some leave earlier"]!));
    using sums = device.loadModule(body(tree));
    const words: Uint32Array[] = [];
    for (const block of [16, 24, 1, 128]) {
      for (const kernel of [module, sums].slice(0, block === 128 || block === 16 ? 2 : 1)) {
        out.copyFrom(randomWords(40_000, 12));
        kernel.kernel("test").launch({ grid: Math.floor(40_000 / block), block }, out, out);
        words.push(out.readSync(Uint32Array));
      }
    }
    return words;
  });
  assertEquals(results[1], results[0]);
  assertEquals(results[2], results[0]);
});

test("nonexistent barriers fault in gangs as without", () => {
  for (const [number, count] of [[16, 32], [-1, 64], [3, 33], [3, -32]] as const) {
    const text = `
  mov.u32 %r3, ${number};
  mov.u32 %r4, ${count};
  bar.sync 0;
  bar.sync %r3, %r4;
  st.global.u32 [%rd8], 7;`;
    assertSameFault({ ptx: body(text), block: [64, 1, 1] }, `barrier ${number} of ${count}`);
  }
});
