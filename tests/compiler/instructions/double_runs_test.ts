import { assertEquals } from "@std/assert";
import { allocate, load } from "../compiler_device.ts";
import { test } from "../../support/test.ts";

const ptx = `.version 8.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in) {
  .reg .pred p<3>; .reg .b32 r<4>; .reg .f64 d<9>; .reg .b64 l<5>;
  ld.param.u64 l0, [out]; ld.param.u64 l1, [in];
  mov.u32 r0, %tid.x; mul.wide.u32 l2, r0, 24; add.u64 l1, l1, l2; mul.wide.u32 l2, r0, 8; add.u64 l0, l0, l2;
  ld.global.f64 d0, [l1]; ld.global.f64 d1, [l1+8]; ld.global.f64 d2, [l1+16];
  mov.u32 r1, 0;
  AGAIN:
  add.rn.f64 d3, d0, d1;
  mul.rn.f64 d4, d3, d2;
  sub.rn.f64 d0, d4, d0;
  mul.rn.f64 d5, d0, d1;
  div.rn.f64 d1, d2, d5;
  add.rn.f64 d6, d1, d5;
  setp.gt.f64 p1, d6, 0d3FF0000000000000;
  add.u32 r1, r1, 1; setp.lt.u32 p0, r1, 3;
  @p0 bra AGAIN;
  mov.b64 l3, d0; mov.b64 l4, d1; xor.b64 l3, l3, l4; selp.u64 l4, 1, 0, p1; add.u64 l3, l3, l4;
  st.global.u64 [l0], l3;
  ret;
}`;

const bits = new BigUint64Array(1), double = new Float64Array(bits.buffer);

function numberOf(pattern: bigint): number {
  bits[0] = pattern;
  return double[0]!;
}

/** The NaN is that of the second operand, in a division of the first one; without any, the default. */
function operate(operation: "+" | "-" | "*" | "/", a: bigint, b: bigint): bigint {
  const [x, y] = [numberOf(a), numberOf(b)];
  double[0] = operation === "+" ? x + y : operation === "-" ? x - y : operation === "*" ? x * y : x / y;
  if (!Number.isNaN(double[0])) return bits[0]!;
  const operands = operation === "/" ? [a, b] : [b, a];
  const found = operands.find((pattern) => (pattern & 0x7fff_ffff_ffff_ffffn) > 0x7ff0_0000_0000_0000n);
  return found === undefined ? 0xfff8_0000_0000_0000n : found | 0x0008_0000_0000_0000n;
}

function expected(a: bigint, b: bigint, c: bigint): bigint {
  let isGreater = false;
  for (let round = 0; round < 3; round++) {
    a = operate("-", operate("*", operate("+", a, b), c), a);
    const product = operate("*", a, b);
    b = operate("/", c, product);
    isGreater = numberOf(operate("+", b, product)) > 1;
  }
  return BigInt.asUintN(64, (a ^ b) + (isGreater ? 1n : 0n));
}

test("runs of 64-bit arithmetic give the NaNs of their operands", () => {
  const patterns = [
    ...[0, -0, 1, -2.5, 1e300, 5e-324, Infinity, -Infinity].map((number) => {
      double[0] = number;
      return bits[0]!;
    }),
    ...[0x7ff0_0000_0000_0001n, 0x7ff8_0000_0000_0123n, 0xfff4_5678_9abc_def0n],
  ];
  const input = patterns.flatMap((a) => patterns.flatMap((b) => patterns.map((c) => [a, b, c] as const)));
  const count = input.length;
  const out = allocate(count * 8), source = allocate(count * 24);
  source.bytes.set(new Uint8Array(new BigUint64Array(input.flat()).buffer));
  for (let first = 0; first < count; first += 512) {
    const [to, from] = [out.address + BigInt(first * 8), source.address + BigInt(first * 24)];
    const parameters = [to, from].map((value) => ({ type: "u64" as const, value }));
    load(ptx, {}).run("test", { block: [Math.min(512, count - first), 1, 1], parameters });
  }
  const results = [...new BigUint64Array(out.bytes.slice().buffer)];
  const hex = (pattern: bigint) => pattern.toString(16);
  assertEquals(results.map(hex), input.map(([a, b, c]) => hex(expected(a, b, c))));
});
