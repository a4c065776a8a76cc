import { assert, assertEquals } from "@std/assert";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { allocate, Fault, load } from "../compiler_device.ts";
import { test } from "../../support/test.ts";

const header = ".version 8.0\n.target sm_80\n.address_size 64\n";
const widths = [4, 8, 16, 32] as const;

function entry(body: string): string {
  return `${header}.visible .entry test(.param .u64 out, .param .u64 in) {
  .reg .pred p<9>; .reg .b32 r<20>; .reg .f32 f<9>; .reg .f64 d<9>; .reg .b64 l<12>;
  ld.param.u64 l0, [out]; ld.param.u64 l1, [in];
  mov.u32 r0, %tid.x; mul.wide.u32 l2, r0, 4; add.u64 l0, l0, l2; add.u64 l3, l1, l2;
  ld.global.u32 r1, [l3];
  ${body}
  ret;
}`;
}

/** An outer loop with a branch and a loop of two exits, all of which diverge. */
const nested = entry(`
  mov.u32 r2, 0; mov.u32 r3, 0; mov.u32 r10, 7;
  OUTER:
  and.b32 r4, r1, 3; setp.eq.u32 p0, r4, 0;
  @p0 bra SKIP;
  mov.u32 r5, 0; shr.u32 r6, r1, 2; xor.b32 r10, r10, r6;
  INNER:
  add.u32 r6, r6, r5; xor.b32 r10, r10, r5; and.b32 r7, r6, 31; setp.eq.u32 p1, r7, 5;
  @p1 bra FOUND;
  add.u32 r5, r5, 1; setp.lt.u32 p2, r5, r4;
  @p2 bra INNER;
  add.u32 r2, r2, 1;
  bra JOIN;
  FOUND:
  add.u32 r3, r3, r5; setp.gt.u32 p3, r3, 2; selp.b32 r8, 100, 1, p3; add.u32 r2, r2, r8;
  bra JOIN;
  SKIP:
  add.u32 r3, r3, 256;
  JOIN:
  shr.u32 r1, r1, 1; setp.ne.u32 p4, r1, 0;
  @p4 bra OUTER;
  shl.b32 r9, r3, 16; xor.b32 r9, r9, r2; xor.b32 r9, r9, r10; st.global.u32 [l0], r9;`);

function nestedResult(number: number): number {
  let sum = 0, found = 0, mixed = 7;
  do {
    const low = number & 3;
    if (low === 0) {
      found += 256;
    } else {
      let step = 0, value = number >>> 2, isFound = false;
      mixed ^= value;
      do {
        value = value + step >>> 0;
        mixed ^= step;
        isFound = (value & 31) === 5;
        if (isFound) break;
        step++;
      } while (step < low);
      if (!isFound) sum++;
      else {
        found += step;
        sum += found > 2 ? 100 : 1;
      }
    }
    number >>>= 1;
  } while (number !== 0);
  return (found << 16 ^ sum ^ mixed) >>> 0;
}

/** A loop that also reads and writes memory, and that members leave in two ways. */
const withMemory = entry(`
  mov.u32 r2, 0; mov.u64 l4, l1;
  AGAIN:
  ld.global.u32 r3, [l4]; add.u32 r2, r2, r3; st.global.u32 [l0+1024], r2;
  setp.gt.u32 p0, r2, 1000000;
  @p0 bra EARLY;
  add.u64 l4, l4, 4; sub.u32 r1, r1, 1; setp.ne.u32 p1, r1, 0;
  @p1 bra AGAIN;
  st.global.u32 [l0], r2;
  bra END;
  EARLY:
  not.b32 r2, r2; st.global.u32 [l0], r2;
  END:`);

/** Divides until the quotient is small. */
const floats = entry(`
  cvt.rn.f32.u32 f0, r1; mov.u32 r2, 0;
  AGAIN:
  div.rn.f32 f1, f0, 0f40400000; sub.rn.f32 f2, f0, f1; setp.lt.f32 p0, f2, 0f3F800000;
  mov.f32 f0, f1; add.u32 r2, r2, 1;
  @!p0 bra AGAIN;
  mov.b32 r3, f0; xor.b32 r3, r3, r2; st.global.u32 [l0], r3;`);

function floatsResult(number: number): number {
  const bits = new Uint32Array(1), float = new Float32Array(bits.buffer);
  let value = Math.fround(number), steps = 0;
  for (let isSmall = false; !isSmall; steps++) {
    const third = Math.fround(value / 3);
    isSmall = Math.fround(value - third) < 1;
    value = third;
  }
  float[0] = value;
  return (bits[0]! ^ steps) >>> 0;
}

/**
 * Some members set `d1` on one way and some on the other, some get a NaN on the way, and those that have left the loop
 * would take the square root of a negative number.
 */
const doubles = (result: string) =>
  entry(`
  cvt.rn.f64.u32 d0, r1; mov.f64 d1, 0d3FF0000000000000; mov.u32 r2, 0;
  AGAIN:
  cvt.rn.f64.u32 d2, r1; add.f64 d2, d2, 0dBFE0000000000000; sqrt.rn.f64 d3, d2; and.b32 r3, r1, 1;
  setp.eq.u32 p0, r3, 0;
  @p0 bra EVEN;
  mul.f64 d1, d1, d3; mul.rn.f64 d4, d1, d1; sub.rn.f64 d0, d4, d0;
  bra JOIN;
  EVEN:
  sub.f64 d4, d0, d1; div.rn.f64 d1, d4, d3;
  JOIN:
  mul.f64 d0, d0, d0; shr.u32 r1, r1, 1; add.u32 r2, r2, 1; setp.ne.u32 p1, r1, 0;
  @p1 bra AGAIN;
  selp.f64 d5, d0, d1, p0; add.f64 d6, d5, d1; mov.b64 {r4, r5}, d6; mad.lo.u32 r6, r5, 31, r4;
  st.global.u32 [l0], ${result};`);

/** More loops than are judged one by one, each of which depends on the one before. */
const loopCount = 20;
const manyLoops = entry(`
  ${
  Array.from({ length: loopCount }, (_, index) => `
  mov.u32 r2, 0;
  L${index}:
  and.b32 r3, r1, ${index + 7}; shr.u32 r4, r1, 1; xor.b32 r1, r4, r3; add.u32 r2, r2, 1; setp.gt.u32 p0, r1, 31;
  @p0 bra L${index};
  mad.lo.u32 r1, r1, 977, r2;`).join("")
}
  st.global.u32 [l0], r1;`);

function manyLoopsResult(number: number): number {
  for (let index = 0; index < loopCount; index++) {
    let steps = 0;
    do {
      number = (number >>> 1 ^ number & index + 7) >>> 0;
      steps++;
    } while (number > 31);
    number = Math.imul(number, 977) + steps >>> 0;
  }
  return number;
}

function run(
  ptx: string,
  { input, gangWidth }: { input: Uint32Array; gangWidth: typeof widths[number] | undefined },
) {
  const out = allocate(2048), source = allocate(input.byteLength);
  source.bytes.set(new Uint8Array(input.buffer));
  const parameters = [out, source].map(({ address }) => ({ type: "u64" as const, value: address }));
  load(ptx, { gangWidth }).run("test", { block: [64, 1, 1], parameters });
  return new Uint32Array(out.bytes.slice(0, 256).buffer);
}

/** Numbers of all sizes, so that members leave loops at different times. */
const numbers = new Uint32Array(64).map((_, index) => Math.imul(index + 3, 0x9e3779b1) >>> (index * 7 % 32)).map((n) =>
  n || 1
);

for (
  const [name, ptx, of] of [
    ["nested loops", nested, nestedResult],
    ["loops of floats", floats, floatsResult],
    ["many loops", manyLoops, manyLoopsResult],
  ] as const
) {
  test(`${name} whose threads diverge give the same results in gangs`, () => {
    assert(compilePtx(ptx).kernels.get("test")!.compileGangs(16)?.hasMaskedLoops);
    const expected = [...numbers].map(of);
    for (const gangWidth of [undefined, ...widths]) {
      assertEquals([...run(ptx, { input: numbers, gangWidth })], expected, `in gangs of ${gangWidth}`);
    }
  });
}

test("loops of doubles whose threads diverge give the same results in gangs, NaNs included", () => {
  const [upper, mixed] = ["r5", "r6"].map(doubles) as [string, string];
  const compiled = compilePtx(mixed).kernels.get("test")!.compileGangs(16);
  assert(compiled?.hasMaskedLoops);
  // d0 to d4: the others are set outside of the loop.
  assertEquals(compiled?.wideRegisters, 5);
  const isNaN = (upperHalf: number) => (upperHalf & 0x7fff_ffff) >= 0x7ff8_0000;
  const nans = run(upper, { input: numbers, gangWidth: undefined }).filter(isNaN).length;
  assert(nans > 8 && nans < 56, `${nans} results are NaNs`);
  const expected = run(mixed, { input: numbers, gangWidth: undefined });
  for (const gangWidth of widths) {
    assertEquals(run(mixed, { input: numbers, gangWidth }), expected, `in gangs of ${gangWidth}`);
  }
});

test("divergent loops with memory accesses give the same results in gangs", () => {
  const input = new Uint32Array(128).map((_, index) => index < 64 ? 1 + index * 37 % 61 : index * 9999);
  const expected = [...input.slice(0, 64)].map((count) => {
    for (let sum = 0, at = 0;; at++) {
      sum += input[at]!;
      if (sum > 1000000) return ~sum >>> 0;
      if (at === count - 1) return sum;
    }
  });
  for (const gangWidth of [undefined, ...widths]) {
    assertEquals([...run(withMemory, { input, gangWidth })], expected, `in gangs of ${gangWidth}`);
  }
});

test("an access of a divergent loop faults in gangs as without", () => {
  // Only threads from 5 on stay long enough to leave the buffer.
  const input = new Uint32Array(64).map((_, index) => index < 5 ? 2 : 100);
  const faults = [undefined, ...widths].map((gangWidth) => {
    try {
      run(withMemory, { input, gangWidth });
    } catch (error) {
      if (error instanceof Fault) return [error.kind, error.line];
      throw error;
    }
  });
  for (const fault of faults) assertEquals(fault, faults[0]);
  assert(faults[0] !== undefined);
});
