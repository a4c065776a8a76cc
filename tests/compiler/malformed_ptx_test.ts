import { assert } from "@std/assert";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaError } from "../../src/support/errors.ts";
import { kernelSignatures } from "../../src/ptx/kernel_signature.ts";
import { isPtx } from "../../src/ptx/image_kind.ts";
import { PtxError } from "../../src/ptx/syntax.ts";
import { Session } from "../../src/session.ts";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { ptxNames, readStoredPtx } from "../corpus/stored_ptx.ts";
import { testModule } from "./compiler_device.ts";
import { mutate, randomFor, wordsOf } from "../support/ptx_mutations.ts";
import { isLong, someOf, test } from "../support/test.ts";

/** The total length of the mutations of each module. */
const mutatedLength = 50_000;

interface Source {
  readonly name: string;
  readonly text: string;
}

/** Small programs with many features in few lines. */
const programs: readonly Source[] = [
  {
    name: "loops and switches",
    text: testModule(`
  .shared .align 8 .b8 tile[64];
  .local .b32 stack[4];
  { .reg .pred %p1; setp.ne.and.s32 %p1|%p2, %r1, 0, %p3; }
$L1:
  @%p1 bra $L2;
  add.s32 %r1, %r1, -1;
  setp.gt.s32 %p1, %r1, 0;
  @!%p1 bra.uni $L1;
  ts: .branchtargets $L1, $L2, $L3;
  brx.idx %r1, ts;
$L2:
  st.shared.v2.u32 [tile+8], {%r1, 0x10};
  bra $L1;
$L3:
  cvt.rn.f32.s32 %f1, %r1;
  fma.rn.f32 %f2, %f1, 0f40000000, %f1;
  st.global.f32 [%rd0], %f2;`),
  },
  {
    name: "calls",
    text: `.version 8.5
.target sm_90
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf(.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.global .align 8 .u64 table[2] = {double, generic(table)+8};
.const .align 4 .b8 bytes[5] = {1, 2, 3};
.weak .func (.param .align 8 .b8 r[16]) double(.param .align 8 .b8 x[16], .param .b32 n) .noinline
{
  .reg .b64 %rd<4>;
  ld.param.v2.b64 {%rd1, %rd2}, [x];
  add.cc.u64 %rd1, %rd1, %rd1;
  addc.u64 %rd2, %rd2, %rd2;
  st.param.v2.b64 [r], {%rd1, %rd2};
  ret;
}
.visible .entry k(.param .u64 .ptr .global .align 8 p) .maxntid 64, 1, 1
{
  .reg .b64 %rd<4>;
  .reg .pred %p<2>;
  mov.u64 %rd1, table;
  ld.global.u64 %rd1, [%rd1+8];
  setp.eq.u64 %p1, %rd1, 0;
  { // callseq 0, 0
  .param .align 8 .b8 param0[16];
  .param .b32 param1;
  .param .align 8 .b8 retval0[16];
  st.param.b64 [param0+8], %rd1;
  st.param.b32 [param1], 7;
  @%p1 call.uni (retval0), double, (param0, param1);
  prototype_0: .callprototype (.param .align 8 .b8 _[16]) _ (.param .align 8 .b8 _[16], .param .b32 _);
  call (retval0), %rd1, (param0, param1), prototype_0;
  ld.param.b64 %rd2, [retval0];
  } // callseq 0
  bar.sync 0;
  atom.global.add.u64 %rd3, [%rd1], %rd2;
  ret;
}
`,
  },
];

const folders = ["../../kernels/", "../corpus/nvcc/", "../corpus/clang/"].map((path) => new URL(path, import.meta.url));
const files: readonly Source[] = folders.flatMap((folder) =>
  ptxNames(folder).map((name) => ({ name, text: readStoredPtx(folder, name) }))
);

/** The time limit for a text of this size. Quadratic effort exceeds it, a busy machine does not. */
const maximumMilliseconds = 5000;

/** Loading must either succeed or throw an error that names a line. Returns whether it succeeded. */
function loads(text: string, name: string): boolean {
  let loaded = false;
  for (const load of [kernelSignatures, compilePtx]) {
    const begin = performance.now();
    let end = begin;
    try {
      const result = load(text);
      end = performance.now();
      if ("wasm" in result) {
        assert(WebAssembly.validate(result.wasm), `${name}: what it was compiled to is not valid`);
        loaded = true;
      }
    } catch (error) {
      end = Math.max(end, performance.now());
      if (!(error instanceof PtxError)) throw new Error(`${name}: not a PtxError from ${load.name}`, { cause: error });
      assert(error.message.startsWith(`Line ${error.line}: `), `${name}: ${error.message}`);
      assert(error.message.length < 2000, `${name}: a message of ${error.message.length} characters`);
      const lines = text.split("\n").length;
      assert(error.line >= 1 && error.line <= lines, `${name}: of ${lines} lines, ${error.message}`);
    }
    assert(end - begin < maximumMilliseconds, `${name}: ${load.name} took ${Math.round(end - begin)} ms`);
  }
  return loaded;
}

/** Some milliseconds of an endless kernel. */
const stepLimit = 200_000;

/** Runs the kernels of a text that loads, to their end or to an error of CUDA's. Returns whether all ended. */
function runLoaded(text: string, { cuda, name }: { cuda: Cuda; name: string }): boolean {
  const gpu = cuda.device(0);
  try {
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(4096, stream);
    buffer.copyFrom(new Uint8Array(4096).fill(1));
    using module = gpu.loadModule(text);
    for (const kernel of module.kernelNames.map((kernelName) => module.kernel(kernelName))) {
      const args = kernel.parameters.map((type) => {
        if (typeof type === "object") return new Uint8Array(type.byteLength);
        return type.endsWith("64") && type !== "f64" ? buffer : 3;
      });
      kernel.launch({ grid: 2, block: 40, stream }, ...args);
      stream.synchronize();
    }
    return true;
  } catch (error) {
    if (error instanceof CudaError) return false;
    throw new Error(`${name}: not a CudaError`, { cause: error });
  }
}

const openDevice = (): Cuda => new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, stepLimit })));

test("mutated PTX loads and runs, or is refused with a line", { long: true }, () => {
  const sources = [...programs, ...someOf(files, 10)];
  const words = sources.map(({ text }) => wordsOf(text));
  const vocabulary = [...new Set(words.flat())];
  const outcomes = { refused: 0, ended: 0, failed: 0 };
  let cuda = openDevice();
  for (const [index, { name, text }] of sources.entries()) {
    // The smaller a text, the more of it a mutation affects, and the less time it takes.
    for (let count = Math.max(2, Math.round(mutatedLength / text.length)); count > 0; count--) {
      const random = randomFor(`${name} ${count}`);
      const { text: mutated, applied } = mutate(words[index]!, { random, vocabulary });
      const mutation = `${name}, mutation ${count} (${applied.join(", ")})`;
      if (!loads(mutated, mutation)) {
        outcomes.refused++;
      } else if (runLoaded(mutated, { cuda, name: mutation })) {
        outcomes.ended++;
      } else {
        outcomes.failed++;
        // A device does no further work after a kernel has failed.
        cuda[Symbol.dispose]();
        cuda = openDevice();
      }
    }
  }
  cuda[Symbol.dispose]();
  const [refused, run] = [1000, 20];
  assert(outcomes.refused > refused && outcomes.ended > run && outcomes.failed > run, JSON.stringify(outcomes));
});

const header = ".version 8.5\n.target sm_90\n.address_size 64\n";

/** Places where there may be too much of something. */
const places: Readonly<Record<string, (text: string) => string>> = {
  "alone": (text) => text,
  "in the version": (text) => `.version ${text}`,
  "in the module": (text) => header + text,
  "in a head": (text) => `${header}.entry k(${text}) { }`,
  "behind a head": (text) => `${header}.entry k() ${text} { }`,
  "in an initializer": (text) => `${header}.global .u32 x[4] = {${text}};`,
  "in a section": (text) => `${header}.section .debug_info { ${text}`,
  "in a body": testModule,
  "in an opcode": (text) => testModule(`add${text} %r1, %r2, %r3;`),
  "in an operand": (text) => testModule(`add.u32 %r1, %r2, ${text};`),
  "in an address": (text) => testModule(`ld.global.u32 %r1, [${text}];`),
};

const repeated = [
  ...'{}()[]<>,;:@!|=+-/*"\\.%_$a08 \n\0\u00e9\u{1f600}',
  ...["//", "/*", "/**/", '\\"', "//\n", "{{", ";{", "{}", "[1]", "{1},", "generic(", "%r1+", "-1+", "1,", "a,", ".a"],
  ...["a: ", "@p ", "@%p1 ret; ", "add.u32 %r1, %r2, %r3;\n", "call f; ", ".u32", ".u32 x, ", ".align 8 ", ".visible "],
  ...[
    ".maxntid 1\n",
    ".local .b8 z[4]; ",
    ".param .u32 a,",
    ".func f(); ",
    ".section x {} ",
    '.file 1 ""\n',
    ".loc 1 2 3\n",
  ],
];

test("too much of anything, anywhere, loads or is refused with a line", { long: true }, () => {
  for (const [place, textAround] of Object.entries(places)) {
    for (const part of repeated) {
      const count = Math.ceil(20_000 / part.length);
      loads(textAround(part.repeat(count)), `${count} times ${JSON.stringify(part)} ${place}`);
    }
  }
});

const manyCharacters = isLong ? 1_000_000 : 100_000;

test(`${isLong ? "a million" : "many thousands"} of one character loads or is refused with a line`, () => {
  for (const part of [...'{(;"a0\n']) {
    for (const textAround of [places["alone"]!, places["in a body"]!]) {
      loads(textAround(part.repeat(manyCharacters)), `${manyCharacters} of ${JSON.stringify(part)}`);
    }
  }
});

test("source with thousands of comments before its version is PTX", () => {
  assert(isPtx(`${"// one\n/* two */".repeat(1_000_000)}.version 8.5`));
  assert(!isPtx(`${"/**/".repeat(1_000_000)}/*.version 8.5`));
});

/** A number of lines, each made from its index. */
function lines(count: number, line: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => line(index)).join("\n");
}

/** A number below the limit, always the same, and far from that of the next index. */
function scattered(index: number, limit: number): number {
  return (Math.imul(index ^ 0x5bd1_e995, 0x9e37_79b1) >>> 1) % limit;
}

const count = isLong ? 1000 : 250;
/** Texts that are mostly well-formed except for their size. */
const large: Readonly<Record<string, string>> = {
  "labels": testModule(lines(count, (index) => `$L${index}:`)),
  "branches to what follows": testModule(lines(count, (index) => `@%p1 bra $L${index};\n$L${index}:`)),
  "branches to one end": testModule(`${lines(count, () => "@%p1 bra $L;")}\n$L:`),
  "branches to one beginning": testModule(`$L:\n${lines(count, () => "@%p1 bra $L;")}`),
  "branches anywhere": testModule(lines(count, (index) => `$L${index}: @%p1 bra $L${scattered(index, count)};`)),
  "loops in loops": testModule(
    lines(300, (index) => `$L${index}:`) + lines(300, (index) => `@%p1 bra $L${299 - index};`),
  ),
  "branches in branches": testModule(
    lines(count, (index) => `@%p1 bra $L${index}; mov.u32 %r1, 1;`) +
      lines(count, (index) => `$L${count - 1 - index}:`),
  ),
  "branches across branches": testModule(
    lines(count, (index) => `@%p1 bra $L${index}; mov.u32 %r1, 1;`) + lines(count, (index) => `$L${index}:`),
  ),
  "targets of one switch": testModule(
    `t: .branchtargets ${Array.from({ length: count }, (_, index) => `$L${index}`)};\nbrx.idx %r1, t;\n` +
      lines(count, (index) => `$L${index}: mov.u32 %r1, 1;`),
  ),
  "switches to each other": testModule(
    `t: .branchtargets ${Array.from({ length: 60 }, (_, index) => `$L${index}`)};\n` +
      lines(60, (index) => `$L${index}: brx.idx %r1, t;`),
  ),
  "registers": testModule(lines(count, (index) => `.reg .u32 %x${index}; mov.u32 %x${index}, 1;`)),
  "registers in one declaration": testModule(".reg .u32 %x<2147483647>;\nmov.u32 %x2147483646, 1;"),
  "scopes": testModule(lines(count, (index) => `{ .reg .u32 %x; mov.u32 %x, ${index}; }`)),
  "kernels": header + lines(count, (index) => `.entry k${index}() { ret; }`),
  "functions": header + lines(count, (index) => `.func f${index}() { ret; }`),
  "parameters": `${header}.entry k(${
    Array.from({ length: 30 * count }, (_, index) => `.param .u8 p${index}`)
  }) { ret; }`,
  "variables in one declaration": `${header}.global .u32 ${
    Array.from({ length: 200 * count }, (_, index) => `v${index}`)
  };`,
  "bytes of variables": header + lines(count, (index) => `.global .b8 v${index}[2147483647];`),
  "dimensions": `${header}.global .b8 v[2147483647][2147483647][2];`,
  "elements": `${header}.global .u32 v[] = {${Array.from({ length: 200 * count }, (_, index) => index)}};`,
  "addresses": `${header}.global .u64 v[] = {${Array.from({ length: 20 * count }, (_, index) => `v+${index}`)}};`,
  "alignment": `${header}.global .align 1073741824 .b8 v;`,
  "threads": `${header}.entry k() .reqntid 2147483647, 2147483647, 2147483647 { ret; }`,
  "offset": testModule("ld.global.u32 %r1, [%rd1+18446744073709551615+18446744073709551615];"),
  "letters in a kernel's name": `${header}.entry ${"k".repeat(100 * count)}() { ret; }`,
  "letters in a label": testModule(`bra ${"a".repeat(100 * count)};\n${"a".repeat(100 * count)}:`),
  "letters in a register that is not there": testModule(`mov.u32 ${"a".repeat(100 * count)}, 1;`),
  "names of what every object has": testModule(
    ".reg .u32 __proto__, constructor;\nmov.u32 __proto__, constructor;\ntoString: add.hasOwnProperty %r1, %r1, %r1;",
  ),
};

test("large PTX loads in a few seconds, or is refused with a line", { long: true }, () => {
  for (const [name, text] of Object.entries(large)) loads(text, `too many ${name}`);
});
