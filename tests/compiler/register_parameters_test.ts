/** Functions with parameters and results in registers, lists of call targets, and variables that functions declare. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { PtxError } from "../../src/ptx/syntax.ts";
import { compileLinked } from "../../src/software/compiler/linking/link_ptx.ts";
import { allocate, load, refusalOf, testModule } from "./compiler_device.ts";
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

test("a function has predicates and small registers for parameters and results", () => {
  const declarations = `
    .func (.reg .pred q, .reg .pred same) inverse (.reg .pred p, .reg .u32 depth) {
      .reg .pred z; not.pred q, p; mov.pred same, p; setp.eq.u32 z, depth, 0; @z ret;
      sub.u32 depth, depth, 1; call (q, _), inverse, (q, depth); ret;
    }
    .func (.reg .u16 sum) add (.reg .s16 a, .reg .b16 b, .reg .u8 c, .reg .f16 h) {
      .reg .u16 t, r; cvt.u16.u8 t, c; mov.b16 r, h; add.u16 sum, a, b; add.u16 sum, sum, t; add.u16 sum, sum, r; ret;
    }
    .func (.reg .v4 .b8 turned, .reg .v2 .b16 pair) turn (.reg .v4 .b8 v) {
      .reg .u16 t; cvt.u16.u8 t, v.w; cvt.u8.u16 turned.x, t; cvt.u16.u8 t, v.z; cvt.u8.u16 turned.y, t;
      cvt.u16.u8 pair.x, v.y; cvt.u16.u8 pair.y, v.x; ret;
    }
    .func (.reg .b128 out) swap (.reg .b128 in) { .reg .b64 l, h; mov.b128 {l, h}, in; mov.b128 out, {h, l}; ret; }`;
  const body = `
    .reg .pred %a, %b, %c; .reg .u8 %s; .reg .f16 %hf; .reg .v4 .b8 %v; .reg .v2 .b16 %t; .reg .b128 %w;
    setp.gt.u32 %a, %r0, 3; mov.pred %b, %a; mov.pred %c, %a;
    @%a call (%b, %c), inverse, (%a, %r0);
    selp.u32 %r3, 1, 0, %b; selp.u32 %r4, 10, 0, %c; add.u32 %r3, %r3, %r4; st.global.u32 [%rd2], %r3;
    P: .callprototype (.reg .pred _, .reg .pred _) _ (.reg .pred _, .reg .u32 _);
    mov.u64 %rd3, inverse; call (%b, _), %rd3, (%a, 0), P; selp.u32 %r3, 1, 0, %b; st.global.u32 [%rd2+4], %r3;
    cvt.u16.u32 %h1, %r0; mov.b16 %hf, %h1; cvt.u8.u32 %s, 255;
    call (%h2), add, (%h1, 300, %s, %hf); cvt.u32.u16 %r3, %h2; st.global.u32 [%rd2+8], %r3;
    st.global.u32 [%rd2+12], 0x44332211; ld.global.v4.b8 %v, [%rd2+12]; call (%v, %t), turn, (%v);
    st.global.v4.b8 [%rd2+12], %v; st.global.v2.b16 [%rd2+16], %t; st.global.u8 [%rd2+14], 0; st.global.u8 [%rd2+15], 0;
    mov.b128 %w, {%rd0, %rd1}; call (%w), swap, (%w); mov.b128 {%rd4, %rd5}, %w; sub.u64 %rd4, %rd4, %rd1;
    sub.u64 %rd5, %rd5, %rd0; cvt.u32.u64 %r3, %rd4; cvt.u32.u64 %r4, %rd5; or.b32 %r3, %r3, %r4;
    st.global.u32 [%rd2+20], %r3;`;
  assertEquals(
    runThreads(body, { ...threads, words: 6, declarations }),
    upTo(8, (thread) => {
      const inverted = thread <= 3 ? 0 : thread % 2 === 0 ? 0 : 1;
      return [thread <= 3 ? 0 : inverted + 10, thread > 3 ? 0 : 1, 2 * thread + 555, 0x3344, 0x00110022, 0];
    }).flat(),
  );
});

test("registers and variables in .local of a module exist once in each thread, in all its functions", () => {
  const ptx = `.version 2.3
.target sm_20
.reg .u32 g, %r<40>; .reg .pred p<3>; .reg .b16 h; .reg .v2 .f32 v; .reg .f64 d;
.local .align 64 .u32 x[4]; .local .b8 y[3];
.func (.reg .u32 old) count (.reg .pred up, .reg .u16 k) {
  .local .u32 mine; .reg .u32 t; .reg .u64 a;
  mov.u32 old, g; @up add.u32 g, g, 1; not.pred p1, up;
  cvt.u32.u16 t, k; add.u32 %r7, t, %r7; st.local.u32 [mine], t;
  ld.local.u32 t, [x+4]; add.u32 t, t, 1; st.local.u32 [x+4], t;
  mov.u64 a, x; ld.local.u32 t, [a+8]; cvta.local.u64 a, x; st.u32 [a+12], t;
  add.f32 v.y, v.y, v.x; add.u16 h, h, 3; add.f64 d, d, d; ret;
}
.func twice (.reg .pred p) { call (%r8), count, (p, 5); call (%r8), count, (p, 5); ret; }
.entry test (.param .u64 out) {
  .reg .u64 %o, %o2; .reg .u32 t<9>; .reg .pred w; .local .u32 here[5];
  ld.param.u64 %o, [out]; mov.u32 t0, %tid.x; mul.wide.u32 %o2, t0, 48; add.u64 %o, %o, %o2;
  mov.u32 g, t0; mov.u32 %r7, 100; mov.u16 h, 7; mov.f32 v.x, 0f3F800000; mov.f32 v.y, 0f40000000;
  mov.f64 d, 0d4000000000000000; setp.eq.u32 p1, 0, 1;
  st.local.u32 [here+16], 77; st.local.u32 [x+4], t0; st.local.u32 [x+8], 9; setp.gt.u32 w, t0, 2;
  call (t1), count, (w, 40);
  st.global.u32 [%o], g; st.global.u32 [%o+4], t1; st.global.u32 [%o+8], %r7;
  selp.u32 t2, 1, 0, p1; st.global.u32 [%o+12], t2; ld.local.u32 t3, [x+12]; st.global.u32 [%o+16], t3;
  @w call twice, (w);
  st.global.u32 [%o+20], g; ld.local.u32 t3, [here+16]; st.global.u32 [%o+24], t3;
  cvt.u32.u16 t4, h; st.global.u32 [%o+28], t4; ld.local.u32 t3, [x+4]; st.global.u32 [%o+32], t3;
  cvt.rzi.u32.f32 t5, v.y; st.global.u32 [%o+36], t5; cvt.rzi.u32.f64 t5, d; st.global.u32 [%o+40], t5;
  st.global.u32 [%o+44], %r8; exit;
}
.entry alone (.param .u64 out) { .reg .u64 %o; ld.param.u64 %o, [out]; mov.u32 g, 3; st.global.u32 [%o], g; exit; }
`;
  const expected = upTo(8, (thread) => {
    const times = thread > 2 ? 3 : 1;
    const counts = thread > 2;
    return [
      thread + Number(counts),
      thread,
      140,
      Number(!counts),
      9,
      counts ? thread + 3 : thread,
      77,
      7 + 3 * times,
      thread + times,
      2 + times,
      2 ** (times + 1),
      counts ? thread + 2 : 0,
    ];
  }).flat();
  for (const decide of [undefined, (line: number) => assert(line === 0, `line ${line} decides by what is unset`)]) {
    const out = allocate(8 * 48);
    const module = load(ptx, { decide });
    module.run("test", { block: [8, 1, 1], parameters: [{ type: "u64", value: out.address }] });
    assertEquals(Array.from({ length: 96 }, (_, index) => out.view.getUint32(4 * index, true)), expected);
    module.run("alone", { parameters: [{ type: "u64", value: out.address }] });
    assertEquals(out.view.getUint32(0, true), 3);
  }
});

test("registers that cannot be passed or declared refuse the module", () => {
  const early = ".version 2.3\n.target sm_20\n";
  for (
    const [declaration, message] of [
      [".func f(.reg .v2 .pred p) { ret; }", "cannot declare a vector of predicates"],
      [".func f(.reg .u32 p[2]) { ret; }", 'cannot pass "p" in registers: it is an array'],
      [".func f(.reg .u32 p) { T: .calltargets nobody; ret; }", 'cannot find "nobody"'],
      [".func f(.reg .pred p) { ret; }", '"p" is a predicate, and needs one'],
      [
        ".reg .u32 g; .func f(.reg .u32 p) { ret; }",
        "cannot declare registers outside a function: only PTX before 3.0",
      ],
      [".local .u32 g; .func f(.reg .u32 p) { ret; }", 'cannot declare "g" in ".local" outside a function: only PTX'],
    ] as const
  ) {
    const { error, part } = refusalOf(testModule("call f, (1);").replace(".visible", `${declaration}\n.visible`));
    assertEquals([part, error.message.includes(message)], ["module", true], error.message);
  }
  for (
    const [declaration, message] of [
      [".reg .u32 g; .reg .f32 g;", 'cannot declare "g" twice'],
      [".local .u32 g = 4;", 'cannot initialize "g": it is in ".local"'],
      [".param .u32 g;", 'cannot declare "g" in ".param" outside a function'],
    ] as const
  ) {
    const { error, part } = refusalOf(`${early}${declaration}\n.entry test (.param .u64 out) { exit; }`);
    assertEquals([part, error.message.includes(message)], ["module", true], error.message);
  }
  const linked = assertThrows(
    () => compileLinked([{ name: "a", ptx: `${early}.reg .u32 g;` }, { name: "b", ptx: early }], {}),
    PtxError,
  );
  assertEquals(linked.message.includes("cannot link a module that declares registers"), true, linked.message);
});
