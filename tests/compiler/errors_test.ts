import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { PtxError } from "../../src/ptx/syntax.ts";
import { kernelSignatures } from "../../src/ptx/kernel_signature.ts";
import { compilePtx, PtxVersionError } from "../../src/software/compiler/compile.ts";
import { allInstructions } from "../../src/software/compiler/instructions/instructions.ts";
import { firstBodyLine, refusalOf, type RefusedPart, testModule } from "./compiler_device.ts";
import { randomNumbers } from "./instructions/references.ts";
import { test } from "../support/test.ts";

const refused: readonly [body: string, message: RegExp, part?: RefusedPart][] = [
  ["frobnicate.u32 %r1, %r2;", /"frobnicate\.u32": the instruction "frobnicate" is not known/],
  ["mull.lo.u32 %r1, %r2, %r3;", /the instruction "mull" is not known; did you mean "mul"\?/],
  ["add.u8 %r1, %r2, %r3;", /"add\.u8": the modifier "\.u8" is not known here/],
  ["add.rz.u32 %r1, %r2, %r3;", /"\.u32" is not supported here/, "kernel"],
  ["mul.rn.ftz.f64 %fd1, %fd2, %fd3;", /"\.f64" is not supported here/, "kernel"],
  ["add.u32.u32 %r1, %r2, %r3;", /"\.u32" is not supported here/, "kernel"],
  ["add %r1, %r2, %r3;", /a modifier or a type is missing/],
  ["add.u32 %r1, %r2;", /it has 2 operands/],
  ["add.u32 %r1, %r2, %rd3;", /%rd3 is "\.b64", where "\.u32" is needed/],
  ["add.u32 %r1, %f2, %r3;", /%f2 is "\.f32"/],
  ["add.u64 %r1, %rd2, %rd3;", /%r1 is "\.b32"/],
  ["add.u32 5, %r2, %r3;", /its result must be a register/],
  ["add.f32 %f1, %f2, 1;", /the integer 1 is used where/],
  ["add.u32 %r1, %r2, [%rd1];", /operand of the wrong kind/],
  ["mov.u32 %r1, %r30;", /cannot find "%r30"/],
  ["mov.u32 %r1, %reserved_smem_offset_2;", /%reserved_smem_offset_2 is not supported/, "kernel"],
  ["mov.u32 %r1, %is_explicit_cluster;", /%is_explicit_cluster can only be read as a predicate/],
  ["mov.u32 %r1, %tid.q;", /%tid\.q is not known/],
  ["ld.global.u32 %r1, %rd1;", /must be in brackets/],
  ["ld.global.u32 %h1, [%rd1];", /%h1 is "\.b16"/],
  ["ld.acquire.global.u32 %r1, [%rd1];", /"\.acquire" is not supported here|a modifier or a type is missing/],
  ["ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];", /vector of 2/],
  ["ld.global.v4.u64 {%rd2, %rd3, %rd4, %rd5}, [%rd1];", /16 bytes need a GPU of sm_100/, "kernel"],
  ["ld.param.u64 %rd1, [out+8];", /the parameter "out" has only 8 bytes/],
  ["ld.param.u32 %r1, [out+2];", /not a multiple of 4/],
  ["ld.global.u32 %r1, [out];", /"out" is in "\.param"/],
  ["st.param.u32 [out], 1;", /a kernel's parameters are read-only/],
  ["bra nowhere;", /cannot find "nowhere"/],
  ["bra %r1;", /must name a label/],
  ["@%r1 bra out;", /cannot use "%r1" as a predicate/],
  ["setp.lt.and.u32 %p1, %r1, %r2;", /a predicate as last operand needs one of/],
  ["setp.lt.u32 %p1, %r1, %r2, %p2;", /a predicate as last operand needs one of/],
  ["setp.lt.b32 %p1, %r1, %r2;", /is not supported here/, "kernel"],
  ["lop3.b32 %r1, %r2, %r3, %r4, %r5;", /truth table/],
  ["cvt.f32.f64 %f1, %fd1;", /it needs a rounding mode: \.rn, \.rz, \.rm or \.rp/],
  ["cvt.rzi.f32.s32 %f1, %r1;", /it needs a rounding mode: \.rn, \.rz, \.rm or \.rp/],
  ["cvt.s32.f32 %r1, %f1;", /needs a rounding mode/],
  ["cvt.rn.f64.f32 %fd1, %f1;", /does not apply/],
  ["cvt.rn.f32.f16 %f1, %h1;", /does not apply/],
  ["cvt.rn.f16.f16 %h1, %h2;", /does not apply/],
  ["cvt.f16.f32 %h1, %f1;", /it needs a rounding mode/],
  ["cvt.rna.f16.f32 %h1, %f1;", /"\.f16" is not supported here/, "kernel"],
  ["cvt.rn.ftz.f16.f64 %h1, %fd1;", /\.ftz needs a type of \.f32/],
  ["cvt.rn.sat.bf16.f32 %h1, %f1;", /\.sat cannot be combined with \.bf16/],
  ["cvt.rn.bf16.s8 %h1, %h2;", /%h2 is "\.b16", where "\.s8" is needed/],
  ["cvt.rzi.u8.bf16 %r1, %h2;", /%r1 is "\.b32", where "\.u8" is needed/],
  ["cvt.rn.bf16.bf16 %h1, %h2;", /\.rn does not apply: nothing is rounded/],
  ["set.lo.u32.s32 %r1, %r2, %r3;", /\.lo needs an unsigned type/],
  ["set.lt.f32.b32 %f1, %r2, %r3;", /\.lt cannot compare untyped bits: use \.eq or \.ne/],
  ["set.lo.u16.f16 %h1, %h2, %h3;", /"\.f16" is not supported here/, "kernel"],
  ["set.eq.ftz.bf16.f32 %h1, %f1, %f2;", /\.ftz cannot be combined with a \.bf16 result/],
  ["ld.global.f16 %h1, [%rd1];", /"\.f16" is not known here/],
  ["mov.u32 %r1, 08;", /cannot read "08"/],
  [
    "fma.f64 %fd1, %fd2, %fd3, %fd4;",
    /a modifier or a type is missing at its end, which does not match "fma\.<rounding:rn\|rz\|rm\|rp>\..*<type:f64> d, a, b, c"/,
  ],
  [
    "add.u32 %r1, %r2, %r3.h1;",
    /cannot use "%r3\.h1" as an operand of "add\.<type:.*> d, a, b": only vectors and special registers, such as %tid\.x, have/,
  ],
  ["fma.rn.sat.f64 %fd1, %fd2, %fd3, %fd4;", /"\.f64" is not supported here/, "kernel"],
  ["bar.sync;", /it has 0 operands/],
  ["bar.sync 16;", /the barriers of a block are 0 to 15/],
  ["bar.sync -1;", /the barriers of a block are 0 to 15/],
  ["barrier.arrive 1, 40;", /must be a multiple of 32/],
  ["bar.red.popc.u32 %r1, 3, 0, %p1;", /must be a multiple of 32/],
  ["bar.arrive 1;", /it has 1 operands/],
  ["bar.red.xor.pred %p1, 0, %p2;", /"\.xor" is not known here/],
  ["bar.red.and.pred %r1, 0, %p2;", /%r1 is "\.b32"/],
  ["bar.red.popc.u32 %r1, 0, %r2;", /%r2 is "\.b32"/],
  ["bar.sync 0, %rd2;", /%rd2 is "\.b64"/],
  ["barrier.sync.unaligned 0;", /the modifier "\.unaligned" is not known/],
  ["shfl.sync.bfly.b32 %r1, %r2, 1, 31;", /it has 4 operands/],
  [
    "mul.wide.u64 %rd1, %rd2, %rd3;",
    /no GPU has it: .*; mul\.lo gives the lower 64 bits .* and mul\.hi the upper ones/,
  ],
  ["mul.wide.s64 %rd1, %rd2, 8;", /no GPU has it/],
  ["mad.wide.u64 %rd1, %rd2, %rd3, %rd4;", /no GPU has it/],
  ["shfl.sync.bfly.b64 %rd1, %rd2, 1, 31, -1;", /"\.b64" is not known here/],
  ["shfl.sync.left.b32 %r1, %r2, 1, 31, -1;", /the modifier "\.left" is not known/],
  ["vote.sync.ballot.pred %p1, %p2, -1;", /"\.pred" is not supported here/, "kernel"],
  ["match.any.sync.b32 %r1|%p1, %r2, -1;", /only \.all returns a predicate/],
  ["redux.sync.and.u32 %r1, %r2, -1;", /"\.u32" is not supported here/, "kernel"],
  ["redux.sync.add.f32 %f1, %f2, -1;", /"\.f32" is not known here/],
  ["call f;", /cannot find "f": it is not declared/],
  ["call %r1;", /it needs a prototype/],
  ["call 5;", /it must name a function, or a register with its address/],
  ["call %rd1;", /it needs a prototype that states what is passed/],
  ["call test, (%rd0, %rd1);", /"test" is a kernel/],
  ["alloca.u64 %rd2, 8, 3;", /power of two/],
  ["alloca.u64 %rd2, 8, 32;", /an alignment of more than 16 bytes is not supported/, "kernel"],
  ["alloca.u64 %rd2, 8, %r1;", /must be a literal/],
  ["tcgen05.wait::ld.sync.aligned;", /sm_100/, "kernel"],
  ["wgmma.wait_group.sync.aligned %r1;", /the number of groups must be a literal/],
  ["wgmma.wait_group.sync.aligned -1;", /the number of groups must be a literal that is not negative/],
  ["ld.global.f32 %f1, [%rd1, {%f5}];", /cannot pass coordinates to "ld\./],
  ["sin.f32 %f1, %f2;", /a modifier or a type is missing/],
  [".reg .v4 .f64 %v;", /vectors have at most 128/],
  [".reg .v2 .pred %v;", /predicates are scalars/],
  [".reg .v2 .f32 %v; add.f32 %v.x, %v.y, %v.z;", /"%v\.z": it has only 2 components/, "kernel"],
  [".reg .v2 .f32 %v; add.f32 %f1, %v.q, %f1;", /the components are x, y, z and w/],
  [".reg .v2 .f32 %v; add.f32 %v, %v, %v;", /its result must be a register/],
  [".reg .v2 .u32 %v; ld.global.v4.u32 %v, [%rd1];", /it needs a vector of 4 registers/],
  [".reg .v2 .f32 %v; ld.global.f32 %f1, [%v.x];", /cannot read "\.x"/],
  ["mov.v2.u32 {%r1, %r2}, {%r1, %r2, %r3};", /it needs vectors of 2 components/],
  ["mov.u32 %r1, 1/0;", /it divides by zero/],
  ["mov.u32 %r1, 1.5 + 2;", /defined for integers only/],
  ["mov.u32 %r1, (.s32)2;", /only "\.s64" and "\.u64" are possible/],
  ["mov.f32 %f1, %f2+4;", /cannot add to this operand/],
  ["mov.u32 %r1, %r2-4;", /cannot read "-"/],
  ["ld.global.u32 %r1, [%rd1-4];", /cannot read "-"/],
  ["ld.global.u32 %r1, %rd1[2];", /cannot take an element of "%rd1": it is not an array/],
  ["mov.f32 %f1, -0f3F800000;", /defined for integers only/],
  [".shared .b8 big[232452];", /232448/],
  [".const .b8 x[];", /cannot declare "test\.x\.0" without a length/],
  [".unknown thing;", /the directive "\.unknown"/],
];

test("unknown PTX is refused with its line and a reason", () => {
  for (const [body, message, expected = "module"] of refused) {
    const { error, part } = refusalOf(testModule(body));
    assert(message.test(error.message), `${body}: ${error.message}`);
    assertEquals(part, expected, body);
    const line = body.startsWith(".shared") ? 4 : firstBodyLine;
    assertEquals(error.line, line, `${body}: ${error.message}`);
    assert(error.message.startsWith(`Line ${line}: cannot `) && !error.message.endsWith("."), error.message);
  }
});

test("only existing versions, and targets that they support and the device runs, are accepted", () => {
  const compile = (version: string, target: string, rest = "") =>
    compilePtx(`// A comment\n.version ${version}\n.target ${target}\n.address_size 64\n${rest}`);
  const taken = [["1.0", "sm_10"], ["5.1", "sm_70"], ["7.0", "compute_80"], ["7.8", "sm_90"], ["8.0", "sm_90a"]];
  taken.push(["9.0", "sm_20"], ["7.0", "sm_60, texmode_independent"], ["7.0", "sm_60, sm_70"], ["7.0", "sm_60, debug"]);
  for (const [version, target] of taken) compile(version!, target!);
  for (const version of ["0.9", "1.6", "5.2", "7.9", "7.99", "9.1", "10.0", "99.0"]) {
    // The version is checked first, because a newer version may allow the rest.
    const error = assertThrows(() => compile(version, "sm_999", "broken("), PtxVersionError);
    assertEquals(error.message, `Line 2: cannot compile PTX ${version}: versions up to 9.0 are supported`);
  }
  const refused = [["9.0", "sm_100"], ["9.0", "sm_999"], ["9.0", "sm_80a"], ["8.0", "sm_90f"], ["7.0", "debug"]];
  refused.push(["7.0", "sm_60, map_f64_to_f32"], ["7.0", "sm_86"], ["7.8", "sm_90a"], ["7.0", "sm_60, sm_90"]);
  for (const [version, target] of refused) {
    const error = assertThrows(() => compile(version!, target!), PtxError) as PtxError;
    assert(!(error instanceof PtxVersionError) && error.line === 3, `${version} ${target}: ${error}`);
    assertMatch(error.message, /^Line 3: cannot compile for "/);
  }
});

test("errors name the line, whatever precedes it", () => {
  const body = "\n// one\n/* two\n three */ add.u32 %r1, %r1, 1; \r\n\tfuture.op %r1;";
  const error = assertThrows(() => compilePtx(testModule(body)), PtxError) as PtxError;
  assertEquals(error.line, firstBodyLine + 4);
});

test("a compiled module states what its kernels need", () => {
  const ptx = testModule(".shared .align 16 .b8 a[20]; .shared .u64 b; .local .u16 c; .local .f64 d;")
    .replace("in) {", "in)\n.maxntid 16, 8, 2\n{");
  const kernel = compilePtx(ptx).kernels.get("test")!;
  assertEquals(kernel.maxThreadsPerBlock, 256);
  assertEquals(kernel.requiredThreads, undefined);
  assertEquals([kernel.sharedBytes, kernel.localBytes, kernel.parameterBytes], [32, 16, 16]);
});

const headed = (directives: string) => testModule("").replace("in) {", `in)\n${directives}\n{`);

test("a kernel that requires a block size states it", () => {
  for (
    const [directives, required] of [
      [".reqntid 32", [32, 1, 1]],
      [".reqntid 8, 4", [8, 4, 1]],
      ['.pragma "nounroll"; .reqntid 4, 2, 16 .minnctapersm 2 .pragma "a", "b";', [4, 2, 16]],
    ] as const
  ) {
    const kernel = compilePtx(headed(directives)).kernels.get("test")!;
    assertEquals(kernel.requiredThreads, required);
    assertEquals(kernel.maxThreadsPerBlock, required[0] * required[1] * required[2]);
  }
  for (
    const directives of [".reqntid 0", ".maxntid 8, 0", ".maxntid", ".reqntid 1, 1, 1, 1", ".reqntid 8 .maxntid 8"]
  ) {
    const error = assertThrows(() => compilePtx(headed(directives)), PtxError, "cannot use the directive") as PtxError;
    assertEquals(error.line, 5, directives);
  }
  assertThrows(() => compilePtx(headed('.pragma "nounroll"')), PtxError, '";" was expected');
});

test("a kernel with more registers at once than engines allow in a function is divided", { long: true }, () => {
  const lines = (count: number, line: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => line(index)).join("\n");
  // All are live until the last has been set.
  const body = (count: number) =>
    testModule(`.reg .b32 %q<60000>;
${lines(count, (index) => `mov.u32 %q${index}, %clock;`)}
${lines(count, (index) => `add.u32 %r1, %r1, %q${index};`)}
st.global.u32 [%rd0], %r1;`);
  assert(WebAssembly.validate(compilePtx(body(49_900)).wasm));
  assert(WebAssembly.validate(compilePtx(body(50_000)).wasm));
  const error = compilePtx(body(50_000), { partBytes: Infinity }).refusals.get("test");
  assertStringIncludes(String(error?.message), "engines allow at most 50000");
  assertEquals(error?.line, 4);
});

test("registers of an inner scope hide those of an outer", () => {
  const ptx = testModule("{ .reg .b64 %r1; mov.u64 %r1, 1; } mov.u32 %r1, 2;");
  assert(WebAssembly.validate(compilePtx(ptx).wasm));
});

test("every form in the table names its section, and no form hides a later one", () => {
  for (const { syntax, section, emit, expansion, flow, refusal } of allInstructions()) {
    assert(/^9\.7(\.\d+){2,4}$/.test(section), syntax);
    assertEquals([emit, expansion, flow, refusal].filter((part) => part !== undefined).length, 1, syntax);
  }
  assertEquals(new Set(allInstructions().map(({ syntax }) => syntax)).size, allInstructions().length);
});

test("a module of thousands of lines compiles", () => {
  const step = (index: number) => `
  mad.lo.u32 %r1, %r1, ${index + 3}, %r2;
  setp.gt.u32 %p1, %r1, ${index};
  @%p1 bra L${index};
  add.u32 %r2, %r2, 7;
L${index}:`;
  const body = Array.from({ length: 900 }, (_, index) => step(index)).join("");
  const start = performance.now();
  assert(WebAssembly.validate(compilePtx(testModule(body)).wasm));
  assert(performance.now() - start < 2000);
});

test("control flow that nests too deeply is refused and does not crash", { long: true }, () => {
  const step = (index: number) => `
L${index}:
  add.u32 %r1, %r1, 1;
  setp.gt.u32 %p1, %r1, ${index};
  @%p1 bra done;`;
  const body = `${Array.from({ length: 5000 }, (_, index) => step(index)).join("")}\ndone:`;
  try {
    assert(WebAssembly.validate(compilePtx(testModule(body)).wasm));
  } catch (error) {
    assert(error instanceof PtxError && /nests more than/.test(error.message), String(error));
  }
});

const mutationSources = [
  fillPtx,
  saxpyPtx,
  testModule(`
  .shared .align 8 .b8 tile[64];
  ld.global.v2.f32 {%f1, %f2}, [%rd1+8];
  fma.rn.f32 %f3, %f1, %f2, 0f3F800000;
loop:
  setp.lt.and.f32 %p1|%p2, %f3, %f1, !%p3;
  @!%p1 bra out_of_loop;
  st.shared.f32 [tile+4], %f3;
  { .reg .b32 %t; mov.b32 %t, %f3; atom.shared.add.u32 %t, [tile], %t; }
  @%p2 bra loop;
  cvt.rzi.s32.f32 %r1, %f3;
targets: .branchtargets loop, out_of_loop;
  brx.idx %r1, targets;
out_of_loop:
  bfe.u32 %r2, %r1, 3, 5;
  st.global.u32 [%rd0], %r2;`),
  testModule(`
  mov.u32 %r1, area+4;
  ld.const.v2.f32 {%f1, %f2}, [table+8];
  cvt.rn.f16.f32 %h1, %f1;
  cvta.const.u64 %rd2, table+16;
  isspacep.const %p1, %rd2;
  @%p1 ld.u64 %rd3, [list+8];
  st.shared.b16 [%r1], %h1;
  cvt.rni.s32.f16 %r2, %h1;
  atom.global.add.u32 %r2, [counter], %r2;`).replace(
    ".visible",
    `.extern .shared .align 16 .b8 area[];
.const .align 8 .f32 table[2][3] = {{1.5, -2.5}, {0f3F800000}};
.global .u32 counter = 010;
.global .v2 .u64 list[] = {{generic(counter)+4, table}, {-1}};
.global .u8 packed[2] = {0xFF(generic(counter)), 7};
.visible`,
  ),
];

function mutate(text: string, random: () => bigint): string {
  const below = (limit: number) => Number(random() % BigInt(limit));
  const words = text.match(/[\w$%.]+|\s+|[^\w\s]/g)!;
  for (let count = 1 + below(3); count > 0; count--) {
    const at = below(words.length);
    switch (below(6)) {
      case 0:
        words.splice(at, 1);
        break;
      case 1:
        words.splice(at, 0, words[below(words.length)]!);
        break;
      case 2:
        words[at] = words[below(words.length)]!;
        break;
      case 3:
        words[at] = words[at]!.replace(/\d+/, String(random() % 70000n));
        break;
      case 4:
        words[at] = words[at]!.slice(0, below(words[at]!.length + 1)) + String.fromCharCode(below(160)) + words[at]!;
        break;
      case 5:
        words.length = at + 1;
        break;
    }
  }
  return words.join("");
}

test("mutated PTX compiles to valid WebAssembly or is refused with its line", { long: true }, () => {
  const random = randomNumbers(0x2545_f491_4f6c_dd1dn);
  const mutations = 3000;
  const outcomes = { compiled: 0, refused: 0 };
  for (let count = 0; count < mutations; count++) {
    const text = mutate(mutationSources[count % mutationSources.length]!, random);
    const lines = text.split("\n").length;
    for (const load of [compilePtx, kernelSignatures]) {
      try {
        const loaded = load(text);
        if ("wasm" in loaded) {
          assert(WebAssembly.validate(loaded.wasm), text);
          outcomes.compiled++;
        }
      } catch (error) {
        if (!(error instanceof PtxError)) throw new Error(`Not a PtxError for\n${text}`, { cause: error });
        assert(error.line >= 1 && error.line <= lines, `${error.message}\n${text}`);
        if (load === compilePtx) outcomes.refused++;
      }
    }
  }
  assert(Math.min(outcomes.compiled, outcomes.refused) > mutations / 15, JSON.stringify(outcomes));
});

test("code after a directive on its line is refused, not skipped", () => {
  const ptx = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry k()\n{\n.loc 1 1 0 trap;\nret;\n}\n";
  assertThrows(() => compilePtx(ptx), PtxError, "Line 6: cannot read code after a directive");
});
