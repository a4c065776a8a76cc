import { assert, assertEquals } from "@std/assert";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { runBody, testModule } from "../compiler_device.ts";
import { bitsOf, floatOf, randomNumbers } from "./references.ts";
import { isLong, someOf, test } from "../../support/test.ts";

/** The new value after an operation on the old value and its operands. */
type Update = (old: bigint, b: bigint, c: bigint) => bigint;

interface AtomicOperation {
  /** The modifiers after the state space. */
  readonly name: string;
  readonly bits: 16 | 32 | 64;
  readonly update: Update;
  /** Set if the result differs in shared memory. */
  readonly shared?: Update;
  readonly isExchange?: boolean;
}

const operations: AtomicOperation[] = [];
const signed = (value: bigint, bits: number) => BigInt.asIntN(bits, value);

for (const bits of [32, 64] as const) {
  const add = (name: string, update: Update) => operations.push({ name, bits, update });
  add(`and.b${bits}`, (old, b) => old & b);
  add(`or.b${bits}`, (old, b) => old | b);
  add(`xor.b${bits}`, (old, b) => old ^ b);
  add(`add.u${bits}`, (old, b) => old + b);
  add(`min.u${bits}`, (old, b) => old < b ? old : b);
  add(`max.u${bits}`, (old, b) => old > b ? old : b);
  add(`min.s${bits}`, (old, b) => signed(old, bits) < signed(b, bits) ? old : b);
  add(`max.s${bits}`, (old, b) => signed(old, bits) > signed(b, bits) ? old : b);
  operations.push({ name: `exch.b${bits}`, bits, isExchange: true, update: (_, b) => b });
}
operations.push({ name: "add.s32", bits: 32, update: (old, b) => old + b });
operations.push({ name: "inc.u32", bits: 32, update: (old, b) => old >= b ? 0n : old + 1n });
operations.push({ name: "dec.u32", bits: 32, update: (old, b) => old === 0n || old > b ? b : old - 1n });
for (const bits of [16, 32, 64] as const) {
  operations.push({ name: `cas.b${bits}`, bits, isExchange: true, update: (old, b, c) => old === b ? c : old });
}

const flush = (value: number) => Math.abs(value) < 2 ** -126 ? (value < 0 || Object.is(value, -0) ? -0 : 0) : value;
operations.push({
  name: "add.f32",
  bits: 32,
  update: (old, b) => bitsOf(flush(Math.fround(flush(floatOf(old, "f32")) + flush(floatOf(b, "f32")))), "f32"),
  shared: (old, b) => bitsOf(floatOf(old, "f32") + floatOf(b, "f32"), "f32"),
});
const firstNaN = (...operands: bigint[]) => operands.find((bits) => Number.isNaN(floatOf(bits, "f64")));
const sumOfDoubles = (old: bigint, b: bigint) => bitsOf(floatOf(old, "f64") + floatOf(b, "f64"), "f64");
operations.push({
  name: "add.f64",
  bits: 64,
  update: (old, b) => firstNaN(b, old) ?? sumOfDoubles(old, b),
  shared(old, b) {
    const nan = firstNaN(old, b);
    return nan === undefined ? sumOfDoubles(old, b) : nan | 0x0008_0000_0000_0000n;
  },
});

/** Rounds a number to 16 bits, and returns the bits. */
function halfBits(value: number, type: "f16" | "bf16"): bigint {
  if (Number.isNaN(value)) return 0x7fffn;
  const { precision, least, largest } = type === "f16"
    ? { precision: 11, least: -24, largest: 65504 }
    : { precision: 8, least: -133, largest: 2 ** 127 * (2 - 2 ** -7) };
  let rounded = value;
  if (value !== 0 && Number.isFinite(value)) {
    let lowest = least;
    while (2 ** (lowest + precision) <= Math.abs(value)) lowest++;
    const units = value / 2 ** lowest;
    const floor = Math.floor(units);
    const up = units - floor > 0.5 || (units - floor === 0.5 && floor % 2 !== 0);
    rounded = (up ? floor + 1 : floor) * 2 ** lowest;
    if (rounded === 0 && value < 0) rounded = -0;
    if (Math.abs(rounded) > largest) rounded = value < 0 ? -Infinity : Infinity;
  }
  const single = bitsOf(rounded, "f32");
  if (type === "bf16") return single >> 16n;
  const sign = single >> 31n << 15n;
  if (!Number.isFinite(rounded)) return sign | 0x7c00n;
  if (Math.abs(rounded) < 2 ** -14) return sign | BigInt(Math.abs(rounded) * 2 ** 24);
  return sign | (single & 0x7fff_ffffn) - (112n << 23n) >> 13n;
}

const halfValue = (bits: bigint, type: "f16" | "bf16") =>
  type === "f16" ? floatOf(bits, "f16") : floatOf(bits << 16n, "f32");
const halfOperations = {
  add: (x: number, y: number) => x + y,
  min: (x: number, y: number) => Number.isNaN(x) ? y : Number.isNaN(y) ? x : Math.min(x, y),
  max: (x: number, y: number) => Number.isNaN(x) ? y : Number.isNaN(y) ? x : Math.max(x, y),
} as const;
const updateHalf = (name: keyof typeof halfOperations, type: "f16" | "bf16") => (old: bigint, b: bigint): bigint =>
  halfBits(halfOperations[name](halfValue(old, type), halfValue(b, type)), type);
const updatePair = (name: keyof typeof halfOperations, type: "f16" | "bf16") => (old: bigint, b: bigint): bigint => {
  const half = updateHalf(name, type);
  return half(old & 0xffffn, b & 0xffffn) | half(old >> 16n, b >> 16n) << 16n;
};
for (const type of ["f16", "bf16"] as const) {
  operations.push({ name: `add.noftz.${type}`, bits: 16, update: updateHalf("add", type) });
  operations.push({ name: `add.noftz.${type}x2`, bits: 32, update: updatePair("add", type) });
}

const patterns: Readonly<Record<16 | 32 | 64, readonly bigint[]>> = {
  16: [
    0n,
    1n,
    0x8000n,
    0x8001n,
    0x3c00n,
    0xbc00n,
    0x7bffn,
    0x7c00n,
    0xfc00n,
    0x7e01n,
    0x0400n,
    0x3f80n,
    0x7f7fn,
    0x3f81n,
  ],
  32: [
    ...[0n, 1n, 2n, 0x7fff_ffffn, 0x8000_0000n, 0x8000_0001n, 0xffff_ffffn, 0x3f80_0000n, 0xbf80_0000n, 0x007f_ffffn],
    ...[0x0080_0000n, 0x8080_0001n, 0x7f7f_ffffn, 0x7f80_0000n, 0xff80_0000n, 0x7fc0_0001n, 0x3c00_7bffn, 0x7bff_0001n],
  ],
  64: [
    ...[0n, 1n, 0xffff_ffffn, 0x7fff_ffff_ffff_ffffn, 0x8000_0000_0000_0000n, 0xffff_ffff_ffff_ffffn],
    ...[0x3ff0_0000_0000_0000n, 0xbff0_0000_0000_0001n, 0x7ff0_0000_0000_0000n, 0xfff0_0000_0000_0000n],
    ...[0x7ff8_0000_0000_0001n, 0xfff0_0000_0000_0123n, 0x000f_ffff_ffff_ffffn, 0x3cb0_0000_0000_0000n],
  ],
};

function casesOf({ bits }: AtomicOperation): [bigint, bigint, bigint][] {
  const random = randomNumbers(0x2545_f491_4f6c_dd1dn);
  const list = patterns[bits];
  // Each number with each, or with one in six of them.
  const isTaken = (old: number, b: number) => isLong || (old + b) % 6 === 0;
  const cases = list.flatMap((old, at) =>
    list.filter((_, index) => isTaken(at, index)).map((b): [bigint, bigint, bigint] => [old, b, random()])
  );
  for (let count = 0; count < (isLong ? 60 : 10); count++) cases.push([random(), random(), random()]);
  return cases.map((one) => one.map((value) => BigInt.asUintN(bits, value)) as [bigint, bigint, bigint]);
}

/** Applies an instruction to the first operand of each case, in a state space. Returns the old and the new values. */
function runCases(
  instruction: string,
  { bits, cases, space }: { bits: number; cases: readonly (readonly bigint[])[]; space: string },
): { old: bigint; now: bigint }[] {
  const [x, b, c, d] = { 16: "%h1 %h2 %h3 %h4", 32: "%r1 %r2 %r3 %r4", 64: "%rd11 %rd12 %rd13 %rd14" }[bits]!.split(
    " ",
  );
  const hasResult = instruction.startsWith("atom");
  const third = instruction.includes(".cas.") ? `, ${c}` : "";
  const body = cases.map((_, index) => {
    const [place, prepare] = space.startsWith("shared")
      ? [space === "shared" ? "sm" : "%rd3", ""]
      : ["%rd2", `add.u64 %rd2, %rd0, ${index * 16 + 8};`];
    const stored = space.startsWith("shared") ? "shared" : "global";
    const at = stored === "shared" ? "sm" : "%rd2";
    return `${prepare}
      ld.global.b${bits} ${x}, [%rd1+${index * 24}];
      ld.global.b${bits} ${b}, [%rd1+${index * 24 + 8}];
      ld.global.b${bits} ${c}, [%rd1+${index * 24 + 16}];
      st.${stored}.b${bits} [${at}], ${x};
      ${
      hasResult
        ? `${instruction} ${d}, [${place}], ${b}${third};`
        : `${instruction} [${place}], ${b}; mov.b${bits} ${d}, ${x};`
    }
      ld.${stored}.b${bits} ${x}, [${at}];
      st.global.b${bits} [%rd0+${index * 16}], ${d};
      st.global.b${bits} [%rd0+${index * 16 + 8}], ${x};`;
  });
  const input = new DataView(new ArrayBuffer(cases.length * 24));
  cases.forEach((operands, index) => {
    operands.forEach((operand, place) => input.setBigUint64(index * 24 + place * 8, operand, true));
  });
  const declarations = ".shared .align 16 .b8 sm[16];\nmov.u64 %rd3, sm; cvta.shared.u64 %rd3, %rd3;\n";
  const out = runBody(declarations + body.join("\n"), input, cases.length * 16);
  const mask = (1n << BigInt(bits)) - 1n;
  return cases.map((_, index) => ({
    old: out.getBigUint64(index * 16, true) & mask,
    now: out.getBigUint64(index * 16 + 8, true) & mask,
  }));
}

for (const space of ["global", "generic", "shared", "shared, by a generic address"]) {
  test(`atom and red update ${space} memory`, () => {
    for (const operation of someOf(operations, space === "global" ? 4 : 10)) {
      const { name, bits, isExchange } = operation;
      const cases = casesOf(operation);
      const update = space.startsWith("shared") ? operation.shared ?? operation.update : operation.update;
      const qualified = space === "global" || space === "shared" ? `.${space}` : "";
      for (const opcode of isExchange ? ["atom"] : ["atom", "red"]) {
        const results = runCases(`${opcode}${qualified}.${name}`, { bits, cases, space });
        results.forEach(({ old, now }, index) => {
          const [before, b, c] = cases[index]!;
          const expected = BigInt.asUintN(bits, update(before, b, c));
          const given = `${opcode}${qualified}.${name} of ${[before, b, c].map((value) => value.toString(16))}`;
          assertEquals(now.toString(16), expected.toString(16), given);
          assertEquals(old.toString(16), before.toString(16), given);
        });
      }
    }
  });
}

test("every order and scope of PTX is accepted, and no other", () => {
  for (const order of ["", ".relaxed", ".acquire", ".release", ".acq_rel"]) {
    for (const scope of ["", ".cta", ".gpu", ".sys"]) {
      for (const space of ["", ".global", ".shared::cta"]) {
        const compile = (opcode: string, operands: string) =>
          compilePtx(testModule(`${opcode}${order}${scope}${space}.add.u32 ${operands};`));
        assert(WebAssembly.validate(compile("atom", "%r1, [%rd1], 1").wasm));
        if (order === "" || order === ".relaxed" || order === ".release") compile("red", "[%rd1], 1");
      }
    }
  }
});

test("the result of an atomic may be discarded", () => {
  const out = runBody("st.global.u32 [%rd0], 4; atom.global.add.u32 _, [%rd0], 3;", undefined, 4);
  assertEquals(out.getUint32(0, true), 7);
});

test("vectors are updated element by element, and return the old values", () => {
  const single = (value: number) => `0f${bitsOf(value, "f32").toString(16).padStart(8, "0")}`;
  const out = runBody(
    `
    mov.f32 %f1, ${single(1)}; mov.f32 %f2, ${single(2)}; mov.f32 %f3, ${single(3)}; mov.f32 %f4, ${single(4)};
    st.global.v4.f32 [%rd0], {%f1, %f2, %f3, %f4};
    atom.global.add.v4.f32 {%f2, %f3, %f4, %f1}, [%rd0], {%f1, %f2, %f3, %f4};
    st.global.v4.f32 [%rd0+16], {%f2, %f3, %f4, %f1};
    red.global.v2.f32.add [%rd0], {%f1, %f1};
    `,
    undefined,
    32,
  );
  const floats = Array.from({ length: 8 }, (_, index) => out.getFloat32(index * 4, true));
  assertEquals(floats, [6, 8, 6, 8, 1, 2, 3, 4]);
});

test("vectors of 16-bit floats are updated by add, min and max", () => {
  const random = randomNumbers(0x1234_5678_9abc_def1n);
  for (const type of ["f16", "bf16"] as const) {
    for (const name of ["add", "min", "max"] as const) {
      const input = new DataView(new ArrayBuffer(64));
      for (let offset = 0; offset < 64; offset += 8) input.setBigUint64(offset, random(), true);
      const registers = (first: number) => Array.from({ length: 8 }, (_, index) => `%h${first + index}`);
      const loads = registers(1).map((register, index) => `ld.global.b16 ${register}, [%rd1+${32 + index * 2}];`);
      const out = runBody(
        `
        ld.global.v2.u64 {%rd4, %rd5}, [%rd1]; st.global.v2.u64 [%rd0], {%rd4, %rd5};
        ld.global.v2.u64 {%rd4, %rd5}, [%rd1+16]; st.global.v2.u64 [%rd0+16], {%rd4, %rd5};
        ${loads.join(" ")}
        atom.global.${name}.noftz.v8.${type} {${registers(9)}}, [%rd0], {${registers(1)}};
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+48];
        red.global.${name}.noftz.v4.${type}x2 [%rd0+16], {%r1, %r2, %r3, %r4};
        ${registers(9).map((register, index) => `st.global.b16 [%rd0+${32 + index * 2}], ${register};`).join(" ")}
        `,
        input,
        48,
      );
      for (let index = 0; index < 16; index++) {
        const [old, b] = [0, 32].map((base) => BigInt(input.getUint16(base + index * 2, true))) as [bigint, bigint];
        const expected = updateHalf(name, type)(old, b);
        assertEquals(BigInt(out.getUint16(index * 2, true)).toString(16), expected.toString(16), `${name} ${type}`);
        if (index < 8) assertEquals(BigInt(out.getUint16(32 + index * 2, true)), old);
      }
    }
  }
});
