/**
 * Accesses to local and shared memory whose checks others imply: random programs around the ends of the memory, with an
 * interpreter that knows which access is the first that leaves it.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { isLong, test } from "../support/test.ts";
import { Random } from "../differential/random.ts";
import { allocate, Fault, firstBodyLine, load, runBody, testModule } from "./compiler_device.ts";

const memoryBytes = 64;
const declarations = `.local .align 16 .b8 inLocal[${memoryBytes}];
.shared .align 16 .b8 inShared[${memoryBytes}];`;
/** 64-bit registers from `%rd2`, and 32-bit ones from `%r2`: few, so that programs use what they have computed. */
const [firstRegister, registerCount] = [2, 3];
const accessTypes = [["u8", 1], ["u16", 2], ["u32", 4], ["u64", 8], ["v2.u32", 8], ["v4.u32", 16]] as const;

/** What registers hold: 64-bit ones first. */
interface State {
  readonly wide: bigint[];
  readonly narrow: bigint[];
  predicate: boolean;
}

/** A line of PTX, and what it does. */
interface Line {
  readonly text: string;
  /** Changes the state. Returns the address that it accesses, and how many bytes. */
  run?(state: State): { readonly address: bigint; readonly bytes: number; readonly start: bigint } | undefined;
  /** How many lines to skip if the predicate is true. */
  readonly skips?: number;
}

/** The address of the variable in shared memory. */
const sharedStart = runBody(`${declarations}\nmov.u64 %rd2, inShared;\nst.global.u64 [%rd0], %rd2;`, undefined, 8)
  .getBigUint64(0, true);

const wide = (value: bigint) => BigInt.asUintN(64, value);
const narrow = (value: bigint) => BigInt.asUintN(32, value);

/** A line of a program. Most accesses are legal in the state that the lines before have left when all of them have run. */
function randomLine(random: Random, state: State): Line {
  const [d, a, b] = [0, 1, 2].map(() => random.below(registerCount)) as [number, number, number];
  const rd = (index: number) => `%rd${firstRegister + index}`;
  const r = (index: number) => `%r${firstRegister + index}`;
  const step = BigInt(random.pick([4, 8, 8, 16]));
  const guard = random.below(5) === 0 ? "@%p1 " : "";
  /** Does something if the guard allows it. */
  const guarded = <R>(run: (state: State) => R) => (state: State) =>
    guard === "" || state.predicate ? run(state) : undefined;
  const setWide = (text: string, value: (state: State) => bigint): Line => ({
    text: guard + text,
    run: guarded((state) => void (state.wide[d] = wide(value(state)))),
  });
  const setNarrow = (text: string, value: (state: State) => bigint): Line => ({
    text: guard + text,
    run: guarded((state) => void (state.narrow[d] = narrow(value(state)))),
  });
  switch (random.below(24)) {
    case 0:
      return setWide(`add.s64 ${rd(d)}, ${rd(a)}, ${step};`, ({ wide }) => wide[a]! + step);
    case 1:
      return setWide(`sub.s64 ${rd(d)}, ${rd(a)}, ${step};`, ({ wide }) => wide[a]! - step);
    case 2:
      return setWide(`add.s64 ${rd(d)}, ${rd(a)}, ${rd(b)};`, ({ wide }) => wide[a]! + wide[b]!);
    case 3:
      return setWide(`sub.s64 ${rd(d)}, ${rd(a)}, ${rd(b)};`, ({ wide }) => wide[a]! - wide[b]!);
    case 4:
      return setWide(`mov.u64 ${rd(d)}, ${rd(a)};`, ({ wide }) => wide[a]!);
    case 5:
      return setWide(`mul.wide.s32 ${rd(d)}, ${r(a)}, 4;`, ({ narrow }) => BigInt.asIntN(32, narrow[a]!) * 4n);
    case 6:
      return setWide(`mul.wide.u32 ${rd(d)}, ${r(a)}, 4;`, ({ narrow }) => narrow[a]! * 4n);
    case 7:
      return setWide(`cvt.s64.s32 ${rd(d)}, ${r(a)};`, ({ narrow }) => BigInt.asIntN(32, narrow[a]!));
    case 8:
      return setWide(`cvt.u64.u32 ${rd(d)}, ${r(a)};`, ({ narrow }) => narrow[a]!);
    case 9:
      return setWide(`shl.b64 ${rd(d)}, ${rd(a)}, 2;`, ({ wide }) => wide[a]! << 2n);
    case 10:
      return setWide(`mov.u64 ${rd(d)}, inShared+${step};`, () => sharedStart + step);
    case 11:
      return setWide(`mov.u64 ${rd(d)}, inLocal+${step};`, () => step);
    case 12:
      return setNarrow(`add.s32 ${r(d)}, ${r(a)}, ${step};`, ({ narrow }) => narrow[a]! + step);
    case 13:
      return setNarrow(`cvt.u32.u64 ${r(d)}, ${rd(a)};`, ({ wide }) => wide[a]!);
    case 14:
      return setNarrow(`mov.u32 ${r(d)}, inShared+${step};`, () => sharedStart + step);
    case 15: {
      const text = `setp.lt.u64 %p1, ${rd(a)}, ${memoryBytes / 2};`;
      return { text, run: (state) => void (state.predicate = state.wide[a]! < memoryBytes / 2) };
    }
    default: {
      const [type, bytes] = random.pick(accessTypes);
      const space = random.pick(["local", "shared"] as const);
      const isNarrow = space === "shared" && random.below(3) === 0;
      const start = space === "local" ? 0n : sharedStart;
      const value = isNarrow ? BigInt.asIntN(32, state.narrow[a]!) : BigInt.asIntN(64, state.wide[a]!);
      const place = random.below(12) === 0 ? memoryBytes : bytes * random.below(memoryBytes / bytes);
      const offset = BigInt.asIntN(31, start + BigInt(place) - value);
      const address = `[${isNarrow ? r(a) : rd(a)}+${offset}]`;
      const values = type.startsWith("v") ? `{${Array(bytes / 4).fill("0").join(", ")}}` : "0";
      return {
        text: `${guard}st.${space}.${type} ${address}, ${values};`,
        run: guarded((state) => ({
          address: isNarrow ? narrow(state.narrow[a]! + offset) : wide(state.wide[a]! + offset),
          bytes,
          start,
        })),
      };
    }
  }
}

function randomLines(random: Random, start: State): Line[] {
  const lines: Line[] = [];
  const state = { ...start, wide: [...start.wide], narrow: [...start.narrow] };
  for (let count = 10 + random.below(20); count > 0; count--) {
    const line = random.below(8) === 0 ? { text: "", skips: 1 + random.below(6) } : randomLine(random, state);
    line.run?.(state);
    lines.push(line);
  }
  return lines;
}

/** The text, one line for each. The labels stand behind the lines that branches skip. */
function textOf(lines: readonly Line[]): string {
  const labels = new Map<number, string[]>();
  const texts = lines.map(({ text, skips }, index) => {
    if (skips === undefined) return text;
    const target = Math.min(lines.length, index + 1 + skips);
    labels.set(target, [...labels.get(target) ?? [], `L${index}:`]);
    return `@%p1 bra L${index};`;
  });
  return [...texts, ""].map((text, index) => [...labels.get(index) ?? [], text].join(" ")).join("\n");
}

/** The index of the line that faults, if the lines run from the top so many times. */
function firstFault(lines: readonly Line[], state: State, times: number): number | undefined {
  for (let time = 0; time < times; time++) {
    for (let index = 0; index < lines.length; index++) {
      const { run, skips } = lines[index]!;
      if (skips !== undefined) index += state.predicate ? skips : 0;
      const access = run?.(state);
      if (access === undefined) continue;
      const { address, bytes, start } = access;
      const isInside = address >= start && address + BigInt(bytes) <= start + BigInt(memoryBytes);
      if (!isInside || address % BigInt(bytes) !== 0n) return index;
    }
  }
  return undefined;
}

test("an access faults if it leaves the memory, whichever accesses are before it", () => {
  const times = 3;
  let faults = 0;
  const programs = isLong ? 1500 : 150;
  for (let seed = 0; seed < programs; seed++) {
    const random = new Random(seed);
    const start = Array.from(
      { length: registerCount },
      () => BigInt(wide(BigInt(random.pick([-8, -4, 0, 8, 32, 56, 60])))),
    );
    const state = { wide: [...start], narrow: start.map(narrow), predicate: start[0] === 0n };
    const lines = randomLines(random, state);
    const setup = [
      declarations,
      ...start.map((value, index) => `mov.u64 %rd${firstRegister + index}, ${value};`),
      ...start.map((value, index) => `mov.u32 %r${firstRegister + index}, ${narrow(value)};`),
      "setp.eq.u32 %p1, %r2, 0;",
      `mov.u32 %r1, ${times};`,
      "again:",
    ].join("\n");
    const body = `${setup}\n${textOf(lines)}\nsub.u32 %r1, %r1, 1;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra again;`;
    const expected = firstFault(lines, state, times);
    let found: number | undefined;
    try {
      load(testModule(body)).run("test", { parameters: [{ type: "u64", value: allocate(8).address }] });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      found = error.line - firstBodyLine - setup.split("\n").length;
    }
    assertEquals(found, expected, `program ${seed}\n${body}`);
    if (found !== undefined) faults++;
  }
  assert(faults > programs / 10 && faults < programs * 0.9, `${faults} of ${programs} programs fault`);
});

/** Programs whose last access leaves the memory, by what distinguishes it from the accesses before it. */
const programs: Readonly<Record<string, string>> = {
  "a value extended without its sign": `mov.u32 %r2, -1;
mul.wide.s32 %rd2, %r2, 4;
st.local.u32 [%rd2+4], 0;
st.local.u32 [%rd2+12], 0;
mul.wide.u32 %rd3, %r2, 4;
st.local.u32 [%rd3+8], 0;`,
  "a register that is set only if a predicate holds": `mov.u64 %rd2, 0;
st.local.u32 [%rd2], 0;
setp.ne.u64 %p1, %rd2, 0;
mov.u64 %rd3, 64;
@%p1 mov.u64 %rd3, %rd2;
st.local.u32 [%rd3], 0;`,
  "a register that a loop changes": `mov.u64 %rd2, 0;
mov.u64 %rd3, 0;
again: st.local.u8 [%rd2], 0;
setp.eq.u64 %p1, %rd3, 0;
@!%p1 bra last;
add.u64 %rd3, %rd3, 64;
bra again;
last: st.local.u8 [%rd3], 0;`,
  "a way around the accesses": `mov.u64 %rd2, 64;
setp.eq.u64 %p1, %rd2, 64;
@%p1 bra behind;
st.local.u32 [%rd2], 0;
st.local.u32 [%rd2+8], 0;
behind: st.local.u32 [%rd2+4], 0;`,
};

for (const [difference, body] of Object.entries(programs)) {
  test(`an access is checked that differs from others by ${difference}`, () => {
    const run = load(testModule(`${declarations}\n${body}`));
    const parameters = [{ type: "u64", value: allocate(8).address }] as const;
    const { line } = assertThrows(() => run.run("test", { parameters }), Fault);
    assertEquals(line, firstBodyLine + `${declarations}\n${body}`.split("\n").length - 1);
  });
}
