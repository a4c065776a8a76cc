/**
 * Operands that few compilers write: constant expressions, vectors of registers, sums with registers and elements of
 * arrays. The values of constants are those of ptxas 13.0.
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { allocate, load } from "./compiler_device.ts";
import { threadsModule, upTo } from "./threads.ts";

const threads = 8;

/** Runs a body in 8 threads, one by one and in gangs of 4, and returns what each thread wrote, as 32-bit numbers. */
function runBoth(body: string, { words = 1, declarations = "" }: { words?: number; declarations?: string } = {}) {
  const [alone, inGangs] = [undefined, 4 as const].map((gangWidth) => {
    const out = allocate(4 * words * threads);
    const input = allocate(4 * 64);
    for (let index = 0; index < 64; index++) input.view.setUint32(4 * index, 1000 + index, true);
    load(threadsModule(body, { words, declarations }), { gangWidth }).run("test", {
      block: [threads, 1, 1],
      parameters: [{ type: "u64", value: out.address }, { type: "u64", value: input.address }],
    });
    return [...new Uint32Array(out.bytes.slice().buffer)];
  });
  assertEquals(inGangs, alone, body);
  return upTo(threads, (thread) => alone!.slice(thread * words, (thread + 1) * words));
}

const constants: readonly (readonly [expression: string, value: bigint])[] = [
  ["(2+3)*4-6/4", 0x13n],
  ["1<<4|3&6^1", 0x13n],
  ["-(3)+~5", -9n],
  ["!5", 0n],
  ["!0", 1n],
  ["3<4 ? 7:8", 7n],
  ["0?2:0?3:4", 4n],
  ["1&&2", 1n],
  ["0||0", 0n],
  ["7 % 5", 2n],
  // The operands of a remainder are unsigned.
  ["-7 % 5", 4n],
  ["-8>>1", -4n],
  ["0xfffffffffffffff8>>1", 0x7ffffffffffffffcn],
  ["-8>>1U", -4n],
  ["(.s64)0xfffffffffffffff8U>>1", -4n],
  ["(.u64)-8>>1", 0x7ffffffffffffffcn],
  ["-5/2", -2n],
  ["-5/2U", 0x7ffffffffffffffdn],
  ["-1 < 1U", 0n],
  ["-1 < 1", 1n],
  ["9223372036854775808 > 1", 1n],
  ["~0 < 1", 0n],
  ["(1&1)-2 < 1", 1n],
  ["(7 % 5)-3 < 1", 0n],
  ["1<<64", 1n],
  ["1<<-1", 1n << 63n],
  ["(1 ? -1 : 1U) < 1", 1n],
  ["2 - 3 - 4", -5n],
  ["100/10/5", 2n],
  ["2+3<4", 0n],
  ["6&3==3", 0n],
  ["1|2^3&4", 3n],
  ["1<<2+1", 8n],
  ["--5", 5n],
  ["~~5", 5n],
  ["!!!5+!!WARP_SZ", 1n],
  ["077U+0B11U+0X1fU+010", 63n + 3n + 31n + 8n],
  ["1.5<2.5", 1n],
  ["9/-2", -4n],
  ["9223372036854775807+1", 1n << 63n],
  ["-9223372036854775808/-1", 0n],
  ["WARP_SZ*2", 64n],
  // Literals lose their high bits.
  ["0x123456789abcdef01", 0x23456789abcdef01n],
  ["36893488147419103233", 1n],
];

test("constant expressions have the values that ptxas computes", () => {
  const module = load(
    threadsModule("", {
      declarations: `.global .u64 q[] = {${constants.map(([expression]) => expression).join(", ")}};
        .global .f64 f[] = {1.5+2.0*3.0/4.0-0.5, -(1.5), .5, 0d3FF0000000000000+1.0, 1.};`,
    }),
  );
  const { view } = module.variable("q");
  for (const [index, [expression, value]] of constants.entries()) {
    assertEquals(view.getBigUint64(8 * index, true), BigInt.asUintN(64, value), expression);
  }
  assertEquals([...new Float64Array(module.variable("f").bytes.slice().buffer)], [2.5, -1.5, 0.5, 2, 1]);
});

test("literals lose the bits that their type does not have", () => {
  const stored = [
    ["u32", "mov.b32 %r1, 4294967296U; add.u32 %r1, %r1, 4294967299;", 3],
    ["u32", "mov.b32 %r1, 0x123456789;", 0x23456789],
    ["u32", "mov.s32 %r1, -4294967297;", 0xffffffff],
    ["u32", "mov.u16 %h1, 65537; cvt.u32.u16 %r1, %h1;", 1],
    ["u32", "setp.lt.u32 %p1, %r0, 4294967297; selp.u32 %r1, 1, 0, %p1;", (thread: number) => thread < 1 ? 1 : 0],
    ["u32", "shl.b32 %r1, 1, 3+1; mul.lo.u32 %r1, %r1, %r0;", (thread: number) => 16 * thread],
    ["u8", "mov.u32 %r1, 300;", 44],
    ["u32", "mov.pred %p1, 2; selp.u32 %r1, 1, 0, %p1;", 1],
    ["u32", "mov.pred %p1, 0x100000000; selp.u32 %r1, 1, 0, %p1;", 1],
    ["u32", "cvt.s32.s8 %r1, 200;", 0xffffffc8],
    ["u32", "mul.wide.u32 %rd3, %r0, 4294967299; cvt.u32.u64 %r1, %rd3;", (thread: number) => 3 * thread],
    ["u32", "mov.f64 %fd1, 0f3FC00000; mov.b64 {%r1, %r2}, %fd1; add.u32 %r1, %r1, %r2;", 0x3fc00000],
    ["u32", "mov.u32 %r1, (1+4)*2;", 10],
    ["u32", "mov.f32 %f1, 0.25+.5; mov.b32 %r1, %f1;", 0x3f400000],
  ] as const;
  for (const [type, code, expected] of stored) {
    assertEquals(
      runBoth(`${code}\nst.global.${type} [%rd2+2*(1-1)], %r1;`),
      upTo(threads, (thread) => [typeof expected === "number" ? expected : expected(thread)]),
      code,
    );
  }
});

test("a number is added to a register where PTX has an operand", () => {
  const expected = upTo(threads, (thread) => [
    thread + 4,
    (thread + 1) * (thread + 2) + thread + 3,
    (thread + 1) & 0xff,
    thread % 4 + 1,
    (thread + 65535 & 0xffff) + 1,
    (thread + 0x1ff & 0xff) - 1,
  ]);
  const body = `
    cvt.u16.u32 %h1, %r0;
    mov.u32 %r3, %r0+4; st.global.u32 [%rd2], %r3;
    mad.lo.s32 %r3, %r0+1, %r0+2, %r0+3; st.global.u32 [%rd2+4], %r3;
    st.global.u8 [%rd2+8], %r0+1;
    and.b32 %r4, %r0, 3; st.global.u32 [%rd2+12], %r4+1;
    add.u16 %h2, %h1+65535, 0; cvt.u32.u16 %r3, %h2; add.u32 %r3, %r3+0, 1; st.global.u32 [%rd2+16], %r3;
    cvt.u32.u8 %r3, %r0+0x1ff; add.u32 %r3, %r3, -1; st.global.u32 [%rd2+8+12], %r3;`;
  assertEquals(runBoth(body, { words: 6 }), expected.map((row) => row.map((value) => value >>> 0)));
  assertEquals(
    runBoth("mov.u32 %r3, %laneid+1; mov.u64 %rd3, %rd2+0; mov.u64 %rd4, %rd3+-4; st.global.u32 [%rd4+4], %r3;"),
    upTo(threads, (thread) => [thread + 1]),
  );
});

test("array[i] is an element's address, or the element of an instruction that takes an address", () => {
  const declarations = `
    .global .u32 numbers[8] = {10, 11, 12, 13, 14, 15, 16, 17};
    .const .f64 halves[4] = {0.5, 1.5, 2.5, 3.5};
    .global .v4 .u32 rows[4] = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};
    .global .u8 table[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};`;
  const body = `
    .shared .u32 tile[8];
    ld.global.u32 %r3, numbers[2]; st.global.u32 [%rd2], %r3;
    mov.u64 %rd3, numbers[1+2]; ld.global.u32 %r3, [%rd3+4]; st.global.u32 [%rd2+4], %r3;
    ld.global.u32 %r3, numbers[%r0]; st.global.u32 [%rd2+8], %r3;
    and.b32 %r4, %r0, 1; ld.const.f64 %fd1, halves[%r4+2]; cvt.rzi.u32.f64 %r3, %fd1; st.global.u32 [%rd2+12], %r3;
    st.shared.u32 tile[%r0], %r0; ld.shared.u32 %r3, tile[%r0]; st.global.u32 [%rd2+16], %r3;
    cvt.u64.u32 %rd4, %r0; mov.u64 %rd3, numbers[%rd4]; ld.global.u32 %r3, [%rd3]; st.global.u32 [%rd2+20], %r3;
    cvta.global.u64 %rd5, rows[4]; ld.u32 %r3, [%rd5]; ld.global.u8 %r4, table[5]; add.u32 %r3, %r3, %r4;
    st.global.u32 [%rd2+24], %r3;`;
  assertEquals(
    runBoth(body, { words: 7, declarations }),
    upTo(threads, (thread) => [12, 14, 10 + thread, 2 + thread % 2, thread, 10 + thread, 4 + 6]),
  );
});

test("an element of a variable in .local is read and written by its index", () => {
  const out = allocate(8);
  const body = ".local .u16 own[4]; st.local.u16 own[3], 77; mov.u64 %rd3, own[1]; ld.local.u16 %h1, [%rd3+4]; " +
    "st.global.u16 [%rd0], %h1;";
  load(threadsModule(body)).run("test", { parameters: [{ type: "u64", value: out.address }] });
  assertEquals(out.view.getUint16(0, true), 77);
});

test("registers of vector type are taken whole and by their components", () => {
  const body = `
    .reg .v4 .u32 %v, %w<3>; .reg .v2 .f32 %pair; .reg .v4 .u8 %bytes; .reg .v2 .b16 %halves; .reg .v2 .f64 %d;
    ld.global.v4.u32 %v, [%rd1];
    add.u32 %v.x, %v.r, %r0; add.u32 %v.a, %v.w, %v.z;
    mov.v4.u32 %w1, %v; mov.v4.u32 %w1, {%w1.w, %w1.z, %w1.y, %w1.x}; mov.v4.u32 {%r3, _, %r4, %r5}, %w1;
    st.global.v4.u32 [%rd2], %w1;
    sub.u32 %r5, %r5, %r4; st.global.u32 [%rd2+16], %r5;
    cvt.rn.f32.u32 %pair.x, %r0; mul.f32 %pair.y, %pair.x, %pair.x; 
    mov.b64 %rd3, %pair; mov.b64 %pair, %rd3; add.f32 %pair.x, %pair.x, %pair.y; mov.b32 %r3, %pair.x;
    st.global.u32 [%rd2+28], %r3;
    ld.global.v4.u8 %bytes, [%rd1+4]; cvt.u32.u8 %r3, %bytes.x; cvt.u32.u8 %r4, %bytes.y; mad.lo.u32 %r3, %r4, 256, %r3;
    st.global.u32 [%rd2+32], %r3;
    mov.b32 %halves, %r3; mov.b32 %r4, {%halves.y, %halves.x}; st.global.u32 [%rd2+36], %r4;
    mov.v4.u32 %w2, %tid; add.u32 %r3, %w2.x, %tid.r; st.global.u32 [%rd2+40], %r3;
    cvt.f64.f32 %d.y, %pair.y; cvt.rzi.u32.f64 %r3, %d.y;
    setp.gt.u32 %p1, %r0, 3; @%p1 mov.v2.u32 {%r3, %r4}, {%r4, 9}; st.global.u32 [%rd2+44], %r3;`;
  const single = new Float32Array(1);
  const bitsOf = (value: number) => {
    single[0] = value;
    return new Uint32Array(single.buffer)[0]!;
  };
  const expected = upTo(threads, (thread) =>
    [
      2005,
      1002,
      1001,
      1000 + thread,
      thread - 1,
      0,
      0,
      bitsOf(thread + thread * thread),
      1001,
      1001 << 16,
      2 * thread,
      thread > 3 ? 1001 << 16 : thread * thread,
    ].map((value) => value >>> 0));
  assertEquals(runBoth(body, { words: 12 }), expected);
});

test("a register of a family is named by its number, whatever zeros precede it", () => {
  const body = `.reg .u32 a<20>; .reg .f32 a1<5>;
    mov.u32 a12, %r0; add.u32 a012, a012, 1; { .reg .u32 a12; mov.u32 a12, 9; } st.global.u32 [%rd2], a12;`;
  assertEquals(runBoth(body), upTo(threads, (thread) => [thread + 1]));
});
