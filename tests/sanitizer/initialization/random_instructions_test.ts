/**
 * Compares what kernels call uninitialized with what is: every value that the uninitialized bits may have is tried.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { allocate, load, shadowOf } from "../../compiler/compiler_device.ts";
import { isLong, test } from "../../support/test.ts";
import { type Draw, drawsFrom, instructionCount, randomInstruction, registersOfKind } from "./random_instructions.ts";

/** Of a program, as many bits are uninitialized: each of their values has a thread. */
const unknownBits = isLong ? 8 : 6;
const threads = 2 ** unknownBits;

/** The registers by kind, with the bytes that each takes in memory, one behind the other. */
const kinds = [["r", 4, "u32"], ["rd", 8, "u64"], ["h", 2, "u16"], ["f", 4, "f32"], ["p", 1, "u8"]] as const;
const recordBytes = 128;

interface Slot {
  readonly register: string;
  readonly kind: typeof kinds[number][0];
  readonly bytes: number;
  readonly type: string;
  readonly offset: number;
}

const slots: readonly Slot[] = layOut();

function layOut(): Slot[] {
  let offset = 0;
  return kinds.flatMap(([kind, bytes, type]) =>
    Array.from({ length: registersOfKind }, (_, number) => {
      offset = Math.ceil(offset / bytes) * bytes;
      const slot = { register: `%${kind}${number}`, kind, bytes, type, offset };
      offset += bytes;
      return slot;
    })
  );
}

function programOf(body: readonly string[]): string {
  const lines = slots.map(({ register, kind, type, offset }) => {
    return kind === "p"
      ? `  ld.global.u8 %t, [%in+${offset}];\n  and.b32 %t, %t, 1;\n  setp.ne.u32 ${register}, %t, 0;`
      : `  ld.global.${type} ${register}, [%in+${offset}];`;
  });
  const stores = slots.map(({ register, kind, type, offset }) => {
    return kind === "p"
      ? `  selp.u32 %t, 1, 0, ${register};\n  st.global.u8 [%out+${offset}], %t;`
      : `  st.global.${type} [%out+${offset}], ${register};`;
  });
  return `.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 out, .param .u64 in) {
  .reg .pred %p<${registersOfKind}>;
  .reg .b16 %h<${registersOfKind}>;
  .reg .b32 %r<${registersOfKind}>, %t;
  .reg .b64 %rd<${registersOfKind}>, %in, %out, %skip;
  .reg .f32 %f<${registersOfKind}>;
  ld.param.u64 %out, [out];
  ld.param.u64 %in, [in];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %skip, %t, ${recordBytes};
  add.u64 %in, %in, %skip;
  add.u64 %out, %out, %skip;
${lines.join("\n")}
${body.join("\n")}
${stores.join("\n")}
  ret;
}
`;
}

const input = allocate(threads * recordBytes), output = allocate(threads * recordBytes);

/** The values before a program, and which of their bits are uninitialized. */
interface Setting {
  readonly values: Uint8Array;
  readonly unknown: Uint8Array;
}

function randomSetting(draw: Draw): Setting {
  const values = new Uint8Array(recordBytes), unknown = new Uint8Array(recordBytes);
  const used = slots.at(-1)!.offset + 1;
  const isSmall = draw(2) === 0;
  for (let at = 0; at < used; at++) values[at] = isSmall && draw(3) > 0 ? 0 : draw(256);
  for (const { kind, offset, bytes } of slots) {
    if (kind === "p") values[offset]! &= 1;
    // Infinities and NaNs hide most of what is computed.
    if (kind === "f") values[offset + bytes - 1] = 0x3e + draw(4) + 0x80 * draw(2);
  }
  for (let left = unknownBits; left > 0;) {
    const { kind, offset, bytes } = slots[draw(slots.length)]!;
    for (let run = Math.min(left, 1 + draw(4)), bit = draw(8 * bytes); run > 0; run--, bit++) {
      const at = offset + (bit >> 3), mask = 1 << (kind === "p" ? 0 : bit & 7);
      if (bit >= 8 * bytes || (unknown[at]! & mask) !== 0) break;
      unknown[at]! |= mask;
      left--;
    }
  }
  return { values, unknown };
}

/** Gives each thread one of the values that the uninitialized bits may have. */
function prepare({ values, unknown }: Setting): void {
  for (let thread = 0; thread < threads; thread++) {
    let bits = thread;
    for (let at = 0; at < recordBytes; at++) {
      let value = values[at]! & ~unknown[at]!;
      for (let mask = 1; mask < 256; mask <<= 1) {
        if ((unknown[at]! & mask) === 0) continue;
        if (bits & 1) value |= mask;
        bits >>= 1;
      }
      input.bytes[thread * recordBytes + at] = value;
    }
    shadowOf(input).set(unknown, thread * recordBytes);
  }
}

/** A register, the bits of it that change, and those that are called uninitialized. */
interface Outcome {
  readonly slot: Slot;
  readonly changed: bigint;
  readonly called: bigint;
}

/** Runs a program. If `partBytes` is given, the program waits and is divided into parts of this size. */
function run(body: readonly string[], setting: Setting, partBytes?: number): Outcome[] {
  prepare(setting);
  const steps = partBytes === undefined ? body : ["bar.sync 0;", ...body];
  const module = load(programOf(steps), { decide: () => {}, partBytes });
  const parameters = [output, input].map(({ address }) => ({ type: "u64", value: address } as const));
  module.run("test", { block: [threads, 1, 1], parameters });
  return slots.map((slot) => {
    const read = (bytes: Uint8Array, thread: number) => {
      let value = 0n;
      for (let at = slot.bytes - 1; at >= 0; at--) {
        value = value << 8n | BigInt(bytes[thread * recordBytes + slot.offset + at]!);
      }
      return value;
    };
    let changed = 0n, called = 0n;
    for (let thread = 0; thread < threads; thread++) {
      changed |= read(output.bytes, thread) ^ read(output.bytes, 0);
      called |= read(shadowOf(output), thread);
    }
    if (slot.kind === "p") called &= 1n;
    return { slot, changed, called };
  });
}

function describe(body: readonly string[], setting: Setting, slot: Slot, bits: bigint): string {
  const shown = slots.map(({ register, offset, bytes }) => {
    const of = (from: Uint8Array) =>
      [...from.subarray(offset, offset + bytes)].reverse().map((byte) => {
        return byte.toString(16).padStart(2, "0");
      }).join("");
    return `${register}=${of(setting.values)}${/[^0]/.test(of(setting.unknown)) ? `?${of(setting.unknown)}` : ""}`;
  });
  return `${slot.register} bits ${bits.toString(16)}\n${shown.join(" ")}\n${body.join("\n")}`;
}

test("no instruction's result is called initialized that an uninitialized bit changes", () => {
  const missed: string[] = [], inexact: string[] = [];
  for (let index = 0; index < instructionCount; index += isLong ? 1 : 16) {
    for (let round = 0; round < (isLong ? 60 : 2); round++) {
      const draw = drawsFrom(index * 1000 + round);
      const { text, isExact } = randomInstruction(draw, index);
      const setting = randomSetting(draw);
      let over = 0n;
      for (const { slot, changed, called } of run([text], setting)) {
        if ((changed & ~called) !== 0n) missed.push(describe([text], setting, slot, changed & ~called));
        over = called & ~changed;
        if (isExact && over !== 0n) inexact.push(describe([text], setting, slot, over));
      }
    }
  }
  assertEquals(missed, []);
  assertEquals(inexact, []);
});

test("no random program's result is called initialized that an uninitialized bit changes", () => {
  const missed: string[] = [];
  for (let seed = 1; seed <= (isLong ? 3000 : 12); seed++) {
    const draw = drawsFrom(seed * 7919);
    const body = Array.from({ length: 1 + draw(12) }, () => randomInstruction(draw).text);
    const setting = randomSetting(draw);
    for (const { slot, changed, called } of run(body, setting)) {
      if ((changed & ~called) !== 0n) missed.push(describe(body, setting, slot, changed & ~called));
    }
  }
  assertEquals(missed, []);
});

test("the helpers that large kernels call find the same uninitialized bits", () => {
  const instructions = /\b(add|sub|min|max|lop3|setp\.[lg][te])\S*\.[sub](32|64) /;
  for (let index = 0; index < instructionCount; index += isLong ? 1 : 2) {
    for (let round = 0; round < (isLong ? 20 : 1); round++) {
      const draw = drawsFrom(index * 1000 + round);
      const { text } = randomInstruction(draw, index);
      if (!instructions.test(text)) continue;
      const setting = randomSetting(draw);
      assertEquals(run([text], setting, 10_000), run([text], setting), text);
    }
  }
});
