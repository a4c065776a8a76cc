import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { type CompiledKernel, compilePtx } from "../../src/software/compiler/compile.ts";
import { PtxError } from "../../src/ptx/syntax.ts";
import { mutate, randomFor, wordsOf } from "../support/ptx_mutations.ts";

/** A module with two kernels, of which the second has the body, and functions for its calls. */
function moduleOf(body: string): string {
  return `.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .u32 table[4] = {1, 2, 3, 4};
.extern .func undefined (.param .b32 x);
.func (.param .b32 r) twice (.param .b32 x) {
  .reg .b32 %r;
  ld.param.b32 %r, [x];
  add.u32 %r, %r, %r;
  st.param.b32 [r], %r;
  ret;
}
.visible .entry first(.param .u64 out) {
  .reg .b32 %r; .reg .b64 %rd;
  ld.param.u64 %rd, [out];
  mov.u32 %r, 7;
  st.global.u32 [%rd], %r;
  ret;
}
.visible .entry second(.param .u64 out) {
  .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .f32 %f<8>; .reg .f64 %fd<4>;
  .shared .align 16 .b8 tile[256];
  ld.param.u64 %rd0, [out];
  ${body}
  ret;
}
`;
}

/** The error of a module, or its refusals, and what is known of its kernels. */
function outcomeOf(ptx: string, isDeferred: boolean): unknown {
  try {
    const { kernels, refusals, deferred } = compilePtx(ptx, isDeferred ? { deferredAbove: 0 } : {});
    if (!isDeferred) assertEquals(deferred.size, 0);
    const known = new Map(kernels);
    const refused = new Map([...refusals].map(([name, { message }]) => [name, message]));
    for (const [name, kernel] of deferred) {
      const { wasm, kernel: compiled } = kernel.compile();
      assert(WebAssembly.validate(wasm));
      known.set(name, compiled);
    }
    return { kernels: [...known].map(described).sort(), refused: [...refused].sort() };
  } catch (error) {
    if (!(error instanceof PtxError)) throw error;
    return error.message;
  }
}

function described([name, { localBytes, savedBytes, suspensions, resumeLines }]: [string, CompiledKernel]): string {
  return JSON.stringify([name, localBytes, savedBytes, suspensions, resumeLines]);
}

/** Asserts that a module whose kernels are deferred is refused as one that is compiled at once. */
function assertSameOutcome(ptx: string): unknown {
  const outcome = outcomeOf(ptx, false);
  assertEquals(outcomeOf(ptx, true), outcome);
  return outcome;
}

const valid = [
  "add.u32 %r1, %r2, 5; @%p1 st.global.u32 [%rd0], %r1;",
  "ld.const.u32 %r1, [table+8]; mov.u64 %rd1, table; st.shared.v2.u32 [tile+8], {%r1, 3};",
  "loop: setp.lt.f32 %p1|%p2, %f1, 0f3F800000; @!%p1 bra loop; bar.sync 0; vote.sync.ballot.b32 %r1, %p2, 0xffffffff;",
  "{ .param .b32 x; .param .b32 r; st.param.b32 [x], %r1; call.uni (r), twice, (x); ld.param.b32 %r2, [r]; }",
  "mov.u64 %rd1, twice; p: .callprototype (.param .b32 _) _ (.param .b32 _); call (%r1), %rd1, (%r2), p;",
  "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
  "to: .branchtargets a, b; brx.idx %r1, to; a: b: tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd1, {%f4, %f5}];",
  "add.cc.u32 %r1, %r2, %r3; addc.u32 %r4, %r5, %tid.x; fma.rn.f64 %fd1, %fd2, %fd3, 0d3FF0000000000000;",
];

test("valid kernels of a module are compiled when they are asked for", () => {
  for (const body of valid) {
    const { kernels, deferred, refusals } = compilePtx(moduleOf(body), { deferredAbove: 0 });
    assertEquals([kernels.size, [...deferred.keys()], refusals.size], [0, ["first", "second"], 0], body);
    assertSameOutcome(moduleOf(body));
  }
});

test("a kernel's code is the same, whenever it is compiled", () => {
  for (const body of valid) {
    const ptx = moduleOf(body);
    const { deferred } = compilePtx(ptx, { deferredAbove: 0 });
    // A kernel that is alone in its module, on the same lines.
    const alone = ptx.replace(/\.visible \.entry first[^]*?\n}/, (text) => text.replaceAll(/[^\n]/g, " "));
    assertEquals(deferred.get("second")!.compile().wasm, compilePtx(alone, { deferredAbove: 0 }).wasm, body);
  }
});

test("small modules and modules of one kernel are compiled at once", () => {
  const ptx = moduleOf("");
  assertEquals(compilePtx(ptx, { deferredAbove: 15 }).kernels.size, 2);
  assertEquals(compilePtx(ptx, { deferredAbove: 14 }).kernels.size, 0);
  const alone = ptx.replace(/\.visible \.entry first[^]*?\n}/, "");
  assertEquals(compilePtx(alone, { deferredAbove: 0 }).kernels.size, 1);
});

test("invalid PTX is refused when its module is loaded, also if its kernels are not compiled yet", () => {
  const invalid: readonly [body: string, message: RegExp][] = [
    ["add.u32 %r1, %r2, %rd3;", /%rd3 is "\.b64", where "\.u32" is needed/],
    // The form with other registers is valid.
    ["add.u32 %r1, %r2, %r3; add.u32 %r1, %f2, %r3;", /%f2 is "\.f32"/],
    ["add.u32 %r1, %r2, 3; add.u32 %r1, %r2, 0f00000000;", /a floating-point number is used/],
    ["bra %r1;", /must name a label/],
    ["brx.idx %r1, %r2;", /must name a \.branchtargets list/],
    ["brx.idx %rd1, to; to: .branchtargets a; a:", /%rd1 is "\.b64"/],
    ["call first, (%rd1);", /kernels cannot be called/],
    ["call (%r1), twice, (%r1, %r2);", /it has 2 arguments, and the function takes 1/],
    ["bar.sync 16;", /the barriers of a block are 0 to 15/],
    ["shfl.sync.up.b32 %r1|%p1, %r2, %rd3, 0, 0xffffffff;", /%rd3 is "\.b64"/],
    ["ld.param.u32 %r1, [out+8];", /the parameter "out" has only 8 bytes/],
    [".local .b8 large[600000]; st.local.u8 [large], %r1;", /bytes of \.local variables, and at most/],
    [
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1}, {%r0}, {%r4, %r5}, {%f4, %f5, %f6, %f7};",
      /vector/,
    ],
  ];
  for (const [body, message] of invalid) {
    const outcome = assertSameOutcome(moduleOf(body));
    assert(typeof outcome === "string" && message.test(outcome), `${body}: ${JSON.stringify(outcome)}`);
  }
});

test("what the device does not support is refused with its kernel, and what is never reached is not", () => {
  const refused = (body: string) => [...compilePtx(moduleOf(body), { deferredAbove: 0 }).refusals.keys()];
  for (const body of ["ld.global.v4.u64 {%rd0, %rd1, %rd2, %rd3}, [%rd1];", "call undefined, (%r1);"]) {
    assertSameOutcome(moduleOf(body));
    assertEquals(refused(body), ["second"]);
  }
  const unreached = "bra.uni done; add.u32 %r1, %f2, %r3; done:";
  assertSameOutcome(moduleOf(unreached));
  assertEquals(refused(unreached), []);
});

test("mutated modules are refused alike, whether their kernels are deferred or not", () => {
  const sources = valid.map(moduleOf);
  const vocabulary = sources.flatMap(wordsOf);
  const outcomes = { refused: 0, loaded: 0 };
  sources.forEach((text, index) => {
    const random = randomFor(`deferred ${index}`);
    for (let count = 0; count < 12; count++) {
      const outcome = assertSameOutcome(mutate(wordsOf(text), { random, vocabulary }).text);
      outcomes[typeof outcome === "string" ? "refused" : "loaded"]++;
    }
  });
  assert(Math.min(outcomes.refused, outcomes.loaded) > 5, JSON.stringify(outcomes));
});
