/** Functions with parameters and results in registers, lists of call targets, and variables that functions declare. */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { refusalOf, testModule } from "./compiler_device.ts";
import { runThreads, upTo } from "./threads.ts";

const threads = { block: [8, 1, 1] } as const;

test("a function has its parameters and several results in registers", () => {
  const declarations = `
    .func (.reg .u32 sum, .reg .u32 product) both (.reg .u32 a, .param .u32 b) {
      .reg .u32 t; .reg .pred p;
      ld.param.u32 t, [b]; add.u32 sum, a, t; mul.lo.u32 product, a, t;
      setp.lt.u32 p, a, 4; @p ret;
      add.u32 sum, sum, 100;
    }`;
  const body = `
    call (%r3, %r4), both, (%r0, 3); st.global.v2.u32 [%rd2], {%r3, %r4};
    .param .u32 q; st.param.u32 [q], %r0; call.uni (_, %r3), both, (q, %r0); st.global.u32 [%rd2+8], %r3;
    mov.u32 %r4, 5; setp.gt.u32 %p1, %r0, 5; @%p1 call (%r4, _), both, (%r0, 1); st.global.u32 [%rd2+12], %r4;`;
  assertEquals(
    runThreads(body, { ...threads, words: 4, declarations }),
    upTo(8, (thread) => [
      thread + 3 + (thread < 4 ? 0 : 100),
      3 * thread,
      thread * thread,
      thread > 5 ? thread + 101 : 5,
    ]).flat(),
  );
});

test("a function that calls itself keeps its registers, and vectors are passed whole", () => {
  const declarations = `
    .func (.reg .u32 result) factorial (.reg .u32 n) {
      .reg .pred p; .reg .u32 t;
      mov.u32 result, 1; setp.eq.u32 p, n, 0; @p ret;
      sub.u32 t, n, 1; call (t), factorial, (t); mul.lo.u32 result, t, n; ret;
    }
    .func (.reg .v4 .f32 turned) turn (.reg .v4 .f32 v, .reg .f64 d) {
      .reg .f32 s; cvt.rn.f32.f64 s, d; mul.f32 turned.x, v.w, s; mov.f32 turned.y, v.z; mov.f32 turned.z, v.y;
      mov.f32 turned.w, v.x; ret;
    }`;
  const body = `
    call (%r3), factorial, (%r0); st.global.u32 [%rd2], %r3;
    .reg .v4 .f32 %v; cvt.rn.f32.u32 %v.x, %r0; add.f32 %v.y, %v.x, 1.0; add.f32 %v.z, %v.y, 1.0; add.f32 %v.w, %v.z, 1.0;
    call (%v), turn, (%v, 0d4000000000000000);
    cvt.rzi.u32.f32 %r3, %v.x; cvt.rzi.u32.f32 %r4, %v.w; mad.lo.u32 %r3, %r3, 1000, %r4; st.global.u32 [%rd2+4], %r3;`;
  const factorial = (n: number): number => n < 2 ? 1 : n * factorial(n - 1);
  assertEquals(
    runThreads(body, { ...threads, words: 2, declarations }),
    upTo(8, (thread) => [factorial(thread), 2 * (thread + 3) * 1000 + thread]).flat(),
  );
});

test("an indirect call takes its parameters from a list of targets or a table of functions", () => {
  const declarations = `
    .func (.param .u32 r) twice (.param .u32 a) { .reg .u32 t; ld.param.u32 t, [a]; shl.b32 t, t, 1; st.param.u32 [r], t; ret; }
    .func (.param .u32 r) next (.param .u32 a) { .reg .u32 t; ld.param.u32 t, [a]; add.u32 t, t, 1; st.param.u32 [r], t; ret; }
    .func (.reg .u32 r) same (.reg .u32 a) { mov.u32 r, a; ret; }
    .global .u64 table[2] = {twice, next};`;
  const body = `
    and.b32 %r3, %r0, 1; ld.global.u64 %rd3, table[%r3];
    T: .calltargets twice, next;
    call (%r4), %rd3, (%r0), T; st.global.u32 [%rd2], %r4;
    call (%r4), %rd3, (%r4), table; st.global.u32 [%rd2+4], %r4;
    mov.u64 %rd3, same; P: .callprototype (.reg .u32 _) _ (.reg .u32 _); call (%r4), %rd3, (%r0), P;
    st.global.u32 [%rd2+8], %r4;`;
  const step = (thread: number, value: number) => thread % 2 === 0 ? 2 * value : value + 1;
  assertEquals(
    runThreads(body, { ...threads, words: 3, declarations }),
    upTo(8, (thread) => [step(thread, thread), step(thread, step(thread, thread)), thread]).flat(),
  );
});

test("variables of a function in .global and .const have a name of their own, and live as long as the module", () => {
  const declarations = `
    .global .u32 counter = 1000;
    .func (.reg .u32 before) count () { .global .u32 counter = 5; atom.global.add.u32 before, [counter], 1; ret; }`;
  const body = `
    .const .u32 factors[3] = {2, 3, 5}; .global .u32 counter = 70;
    call (%r3), count; st.global.u32 [%rd2], %r3;
    ld.const.u32 %r3, factors[2]; { .const .u32 factors[1] = {7}; ld.const.u32 %r4, [factors]; }
    mad.lo.u32 %r3, %r3, 10, %r4; st.global.u32 [%rd2+4], %r3;
    atom.global.add.u32 %r3, [counter], %r0; st.global.u32 [%rd2+8], %r3;`;
  const counted = runThreads(body, { ...threads, words: 3, declarations });
  assertEquals(
    counted,
    upTo(8, (thread) => [5 + thread, 57, 70 + thread * (thread - 1) / 2]).flat(),
  );
});

test("variables in .local and .param are aligned to what they ask for, in every function", () => {
  const declarations = `
    .func (.reg .u32 low) inner (.param .align 64 .b8 s[64]) {
      .local .b8 pad[3]; .local .align 256 .b8 buffer[5]; .reg .u64 a; .reg .u32 t, u;
      mov.u64 a, buffer; cvt.u32.u64 t, a; and.b32 low, t, 255; st.local.u8 [pad+2], 1; st.local.u8 [buffer+4], 9;
      ld.param.u32 u, [s+60]; mad.lo.u32 low, low, 1000, u; ld.local.u8 u, [buffer+4]; add.u32 low, low, u; ret;
    }
    .func (.reg .u32 low) outer (.reg .u32 n) {
      .local .b8 pad[7]; .param .align 64 .b8 s[64]; st.param.u32 [s+60], n; st.local.u8 [pad+6], 2;
      call (low), inner, (s); ret;
    }`;
  const body = `
    .local .b8 pad[5]; .local .align 128 .b32 here[2]; st.local.u8 [pad+4], 3; mov.u64 %rd3, here; cvt.u32.u64 %r3, %rd3;
    and.b32 %r3, %r3, 127; st.local.u32 [here+4], %r0; call (%r4), outer, (%r0); ld.local.u32 %r5, [here+4];
    cvta.local.u64 %rd3, %rd3; ld.u32 %r6, [%rd3+4]; st.global.v4.u32 [%rd2], {%r3, %r4, %r5, %r6};`;
  for (const stack of ["", "mov.u64 %rd5, 24; alloca.u64 %rd4, %rd5; st.local.u8 [%rd4+23], 1;"]) {
    assertEquals(
      runThreads(stack + body, { ...threads, words: 4, declarations }),
      upTo(8, (thread) => [0, thread + 9, thread, thread]).flat(),
    );
  }
});

test("registers that cannot be passed refuse the module", () => {
  for (
    const [declaration, message] of [
      [".func f(.reg .pred p) { ret; }", 'cannot pass "p" in a register: only 32 and 64 bits'],
      [".func f(.reg .u16 p) { ret; }", 'cannot pass "p" in a register: only 32 and 64 bits'],
      [".func f(.reg .u32 p) { T: .calltargets nobody; ret; }", 'cannot find "nobody"'],
    ] as const
  ) {
    const { error, part } = refusalOf(
      testModule("call f, (%r1);".replace("%r1", declaration.includes("pred") ? "%p1" : "1")).replace(
        ".visible",
        `${declaration}\n.visible`,
      ),
    );
    assertEquals([part, error.message.includes(message)], ["module", true], error.message);
  }
});
