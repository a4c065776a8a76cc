import { assert, assertEquals } from "@std/assert";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import { allocate, load } from "./compiler_device.ts";
import { randomNumbers } from "./instructions/references.ts";
import { runThreads, threadsModule, upTo } from "./threads.ts";
import { isLong, test } from "../support/test.ts";

/** Ways to leave the kernel and resume later, with the declarations that they need before the kernel. */
const suspensions: readonly [suspend: string, declarations: string][] = [
  ["bar.sync 0;", ""],
  ["nanosleep.u32 20;", ""],
  ["bar.warp.sync 1;", ""],
  ["shfl.sync.idx.b32 %r9, %r8, 0, 31, 1;", ""],
  ["call busy;", busyFunction("")],
  ["call busy;", busyFunction("bar.sync 3;")],
];

/** A function that uses registers of every kind. */
function busyFunction(wait: string): string {
  return `.func busy() {
  .reg .b32 %a<9>; .reg .b64 %b<9>; .reg .f32 %c<9>; .reg .f64 %d<9>; .reg .b16 %e<9>; .reg .pred %p<9>;
  ${
    upTo(9, (n) =>
      `mov.u32 %a${n}, ${n + 77}; cvt.u64.u32 %b${n}, %a${n}; cvt.rn.f32.u32 %c${n}, %a${n};
  cvt.rn.f64.u32 %d${n}, %a${n}; cvt.u16.u32 %e${n}, %a${n}; setp.eq.u32 %p${n}, %a${n}, 80;`).join("\n")
  }
  ${wait}
  .local .b32 kept;
  ${
    upTo(9, (n) => `@%p${n} st.local.b32 [kept], %a${n}; st.local.b32 [kept], %c${n}; st.local.b16 [kept], %e${n};`)
      .join(
        "\n",
      )
  }
  .local .b64 wide;
  ${upTo(9, (n) => `st.local.b64 [wide], %b${n}; st.local.f64 [wide], %d${n};`).join("\n")}
  ret;
}`;
}

interface KeptRegister {
  readonly type: string;
  readonly bytes: number;
  /** The type for loads and stores, if it is not the register's own. */
  readonly by?: string;
  readonly bits: readonly bigint[];
}

const halves = [0n, 0x8000n, 0x7c01n, 0xfe12n, 0x3c00n, 0xffffn];
const singles = [0n, 0x8000_0000n, 0x7f80_0001n, 0xffc1_2345n, 0x7fbf_ffffn, 1n, 0x3f80_0000n];
const doubles = [0n, 1n << 63n, 0x7ff0_0000_0000_0001n, 0xfff8_0000_dead_beefn, 0x7ff7_ffff_ffff_ffffn, 1n];
const kept: readonly KeptRegister[] = [
  { type: "u8", bytes: 1, bits: [0n, 0x80n, 0xffn, 0x7fn] },
  { type: "s8", bytes: 1, bits: [0n, 0x80n, 0xffn, 0x7fn] },
  { type: "b8", bytes: 1, bits: [0n, 0x80n, 0xffn, 0x7fn] },
  { type: "u16", bytes: 2, bits: halves },
  { type: "s16", bytes: 2, bits: halves },
  { type: "b16", bytes: 2, bits: halves },
  { type: "f16", by: "b16", bytes: 2, bits: halves },
  { type: "u32", bytes: 4, bits: singles },
  { type: "s32", bytes: 4, bits: singles },
  { type: "b32", bytes: 4, bits: singles },
  { type: "f16x2", by: "b32", bytes: 4, bits: singles },
  { type: "f32", bytes: 4, bits: singles },
  { type: "u64", bytes: 8, bits: doubles },
  { type: "s64", bytes: 8, bits: doubles },
  { type: "b64", bytes: 8, bits: doubles },
  { type: "f64", bytes: 8, bits: doubles },
];

for (const [suspend, declarations] of suspensions) {
  const where = declarations.includes("bar.sync") ? `${suspend} with a barrier in it` : suspend;
  test(`registers of every type keep their bits across ${where}`, () => {
    const count = kept.length;
    const transfer = (register: (index: number) => string, direction: "in" | "out") =>
      kept.map(({ type, by }, index) =>
        direction === "in"
          ? `ld.global.${by ?? type} ${register(index)}, [%rd1+${8 * index}];`
          : `st.global.${by ?? type} [%rd0+${8 * index}], ${register(index)};`
      ).join("\n");
    const body = `
  ${kept.map(({ type }, index) => `.reg .${type} kept${index};`).join("\n")}
  setp.ne.u32 %p4, %r0, 0;
  @%p4 exit;
  mov.u32 %r8, 5;
  ${transfer((index) => `kept${index}`, "in")}
  setp.eq.u32 %p1, %r0, 0;
  setp.ne.u32 %p2, %r0, 0;
  ${suspend}
  @%p1 ${suspend}
  @%p2 ${suspend}
  mov.u32 %r7, 0;
LOOP:
  ${suspend}
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p3, %r7, 3;
  @%p3 bra LOOP;
  ${transfer((index) => `kept${index}`, "out")}
  selp.u32 %r6, 1, 0, %p1; @%p2 add.u32 %r6, %r6, 2; @%p3 add.u32 %r6, %r6, 4;
  st.global.u32 [%rd0+${8 * count}], %r6;
  st.global.u32 [%rd0+${8 * count + 4}], %r8;`;
    const module = load(threadsModule(body, { declarations }));
    const [source, out] = [allocate(8 * count), allocate(8 * count + 8)];
    for (let round = 0; round < 7; round++) {
      kept.forEach(({ bits }, index) => source.view.setBigUint64(8 * index, bits[round % bits.length]!, true));
      out.bytes.fill(0);
      module.run("test", {
        block: [2, 1, 1],
        parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
      });
      kept.forEach(({ type, bits }, index) => {
        assertEquals(out.view.getBigUint64(8 * index, true), bits[round % bits.length], type);
      });
      assertEquals(out.view.getUint32(8 * count, true), 1, "predicates");
      assertEquals(out.view.getUint32(8 * count + 4, true), 5);
    }
  });
}

test("the carry is kept across a barrier", () => {
  const written = runThreads(
    `
  mov.u32 %r3, -1;
  and.b32 %r4, %r0, 1;
  add.cc.u32 %r5, %r3, %r4;
  bar.sync 0;
  addc.u32 %r6, 100, 0;
  st.global.u32 [%rd2], %r6;`,
    { block: [40, 1, 1] },
  );
  assertEquals(written, upTo(40, (thread) => 100 + thread % 2));
});

test("registers that are not live are not saved", () => {
  const savedBytes = (body: string) => compilePtx(threadsModule(body)).kernels.get("test")!.savedBytes;
  const values = (count: number, behind: string) => `
  .reg .b32 %q<${count}>;
  ${upTo(count, (index) => `ld.global.u32 %q${index}, [%rd1];`).join("\n")}
  ${upTo(count, (index) => `st.global.u32 [%rd2], %q${index};`).join("\n")}
  bar.sync 0;
  ${behind}`;
  const none = savedBytes(values(100, ""));
  assertEquals(none, savedBytes("bar.sync 0;"));
  const three = savedBytes(values(100, "st.global.u32 [%rd2], %q7; st.global.u32 [%rd2], %q8;"));
  assert(three > none && three <= none + 32, `${none}, then ${three}`);
});

test("brx.idx branches to barriers, and from one to another", () => {
  const written = runThreads(
    `
  mov.u32 %r3, %r0;
  mov.u32 %r4, 0;
  mov.u32 %r5, 0;
LOOP:
  and.b32 %r6, %r3, 3;
  TARGETS: .branchtargets ZERO, ONE, TWO, NEXT;
  brx.idx %r6, TARGETS;
ZERO:
  bar.sync 1;
  add.u32 %r5, %r5, 1;
  bra NEXT;
ONE:
  bar.sync 1;
  add.u32 %r5, %r5, 10;
TWO:
  add.u32 %r5, %r5, 100;
  @%p2 bra ZERO;
  bar.sync 1;
NEXT:
  add.u32 %r3, %r3, 1;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, 4;
  @%p1 bra LOOP;
  st.global.u32 [%rd2], %r5;`,
    { block: [1, 1, 1] },
  );
  assertEquals(written, [211]);
});

/** What may end a block of a random graph: nothing, or a way to leave the kernel and resume later. */
const pauses = [
  "",
  "",
  "nanosleep.u32 1;",
  "barrier.sync %r20, 32;",
  "bar.warp.sync %r21;",
  "call mix, ();",
  "@%p1 nanosleep.u32 1;",
  "@!%p1 call mix, ();",
  "match.any.sync.b32 %r22, %r1, %r21;",
];
const mix = `
.func deeper() { .reg .b32 %r<3>; mov.u32 %r1, 4; nanosleep.u32 %r1; ret; }
.func mix() { .reg .b32 %r<3>; mov.u32 %r1, 3; nanosleep.u32 %r1; call deeper; ret; }`;

/** A graph of blocks. Each changes a number in its own way, may wait, and branches on one of the number's bits. */
function randomGraph(below: (limit: number) => number): { ptx: string; run(seed: number): number[] } {
  const count = 2 + below(9);
  const targets = upTo(count, () => [below(count + 1), below(count + 1)] as const);
  const blocks = targets.map(([taken, otherwise], index) => `
B${index}:
  add.u32 %r3, %r3, 1;
  setp.gt.u32 %p2, %r3, 40;
  @%p2 bra B${count};
  mad.lo.u32 %r1, %r1, ${1664525 + 2 * index}, ${1013904223 + index};
  shr.u32 %r2, %r1, ${16 + index % 8};
  and.b32 %r2, %r2, 1;
  setp.eq.u32 %p1, %r2, 1;
  ${pauses[below(pauses.length)]}
  @%p1 bra B${taken};
  bra B${otherwise};`);
  // Each warp has a single thread and a barrier of its own, so that every wait ends.
  const ptx = threadsModule(
    `
  shr.u32 %r20, %r0, 5;
  mov.u32 %r21, 1;
  and.b32 %r4, %r0, 31;
  setp.ne.u32 %p3, %r4, 0;
  @%p3 exit;
  ld.global.u32 %r1, [%rd1];
  mad.lo.u32 %r1, %r0, 7, %r1;
  mov.u32 %r3, 0;
  ${blocks.join("")}
B${count}:
  st.global.u32 [%rd2], %r1;
  st.global.u32 [%rd2+4], %r3;`,
    { declarations: mix, words: 2 },
  );
  const run = (seed: number) => {
    let value = seed, steps = 0, block = 0;
    while (block < targets.length) {
      if (++steps > 40) break;
      value = Math.imul(value, 1664525 + 2 * block) + 1013904223 + block >>> 0;
      block = targets[block]![(value >>> 16 + block % 8 & 1) === 1 ? 0 : 1];
    }
    return [value, steps];
  };
  return { ptx, run };
}

test("random graphs of blocks that wait, most of them irreducible, match an interpreter", () => {
  const random = randomNumbers(0x5851_f42d_4c95_7f2dn);
  const below = (limit: number) => Number(random() % BigInt(limit));
  const [out, source] = [allocate(96 * 8), allocate(4)];
  for (let round = 0; round < (isLong ? 150 : 30); round++) {
    const { ptx, run } = randomGraph(below);
    const modules = [load(ptx), load(ptx, { partBytes: 300 })];
    for (const [seed, module] of [1, 0xdeadbeef].flatMap((seed) => modules.map((module) => [seed, module] as const))) {
      source.view.setUint32(0, seed, true);
      module.run("test", {
        block: [96, 1, 1],
        parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
      });
      for (const thread of [0, 32, 64]) {
        assertEquals(
          [out.view.getUint32(thread * 8, true), out.view.getUint32(thread * 8 + 4, true)],
          run(seed + 7 * thread >>> 0),
          `round ${round}, seed ${seed}, thread ${thread}\n${ptx}`,
        );
      }
    }
  }
});

/** Ways to wait until `[turn]`, at `%rd4`, equals `%r5`. The loop begins with `WAIT`. */
const waits: Readonly<Record<string, string>> = {
  "ld.volatile": "ld.volatile.shared.u32 %r6, [turn]; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "ld.volatile of a generic address": "ld.volatile.u32 %r6, [%rd4]; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "ld.acquire": "ld.acquire.cta.shared.u32 %r6, [turn]; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "ld.relaxed": "ld.relaxed.gpu.u32 %r6, [%rd4]; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "a volatile vector": "ld.volatile.shared.v2.u32 {%r7, %r6}, [other]; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "atom.add": "atom.shared.add.u32 %r6, [turn], 0; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "atom.cas": "atom.cas.b32 %r6, [%rd4], %r5, %r5; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "a load and nanosleep": "nanosleep.u32 40; ld.shared.u32 %r6, [turn]; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "a load in a function":
    "call (got), look, (where); ld.param.b32 %r6, [got]; setp.ne.u32 %p2, %r6, %r5; @%p2 bra WAIT;",
  "a loop in a function": "call attend, (where, wanted);",
  "a value that goes through local memory":
    "ld.volatile.shared.u32 %r6, [turn]; st.local.u32 [kept], %r6; ld.local.u32 %r7, [kept]; " +
    "sub.u32 %r7, %r7, %r5; setp.ne.u32 %p2, %r7, 0; @%p2 bra WAIT;",
  "a branch over the assignment": "ld.volatile.shared.u32 %r6, [turn]; setp.ne.u32 %p2, %r6, %r5; " +
    "mov.u32 %r7, 0; @%p2 bra OVER; mov.u32 %r7, 1; OVER: setp.eq.u32 %p3, %r7, 0; @%p3 bra WAIT;",
  "a loop whose test is at its start": "ld.volatile.shared.u32 %r6, [turn]; setp.eq.u32 %p2, %r6, %r5; " +
    "@%p2 bra DONE; bra.uni WAIT; DONE:",
  "brx.idx": "ld.volatile.shared.u32 %r6, [turn]; setp.eq.u32 %p2, %r6, %r5; selp.u32 %r7, 1, 0, %p2; " +
    "T: .branchtargets WAIT, DONE; brx.idx %r7, T; DONE:",
};
const waitFunctions = `
.func (.param .b32 seen) look(.param .b64 where) {
  .reg .b64 %rd; .reg .b32 %r;
  ld.param.u64 %rd, [where];
  ld.volatile.u32 %r, [%rd];
  st.param.b32 [seen], %r;
  ret;
}
.func attend(.param .b64 where, .param .b32 wanted) {
  .reg .b64 %rd; .reg .b32 %r<3>; .reg .pred %p;
  ld.param.u64 %rd, [where];
  ld.param.u32 %r1, [wanted];
WAIT:
  ld.volatile.u32 %r2, [%rd];
  setp.ne.u32 %p, %r1, %r2;
  @%p bra WAIT;
  ret;
}`;

for (const [how, wait] of Object.entries(waits)) {
  test(`threads that spin on what others store yield: ${how}`, () => {
    // In the same warp and in different warps. The thread that begins comes before the other or after it.
    for (const [first, second] of [[0, 1], [1, 0], [3, 40], [40, 3], [33, 69]] as const) {
      const written = runThreads(
        `
  .shared .align 8 .b32 both[2];
  .local .b32 kept;
  .param .b64 where; .param .b32 wanted; .param .b32 got;
  mov.u64 %rd3, both;
  cvta.shared.u64 %rd4, %rd3;
  add.u64 %rd4, %rd4, 4;
  setp.eq.u32 %p1, %r0, ${first};
  setp.eq.u32 %p2, %r0, ${second};
  or.pred %p3, %p1, %p2;
  st.shared.u32 [both+4], 0;
  bar.sync 0;
  @!%p3 exit;
  selp.u32 %r5, 0, 1, %p1;
LOOP:
  st.param.b64 [where], %rd4;
  st.param.b32 [wanted], %r5;
WAIT:
  ${wait.replaceAll("[turn]", "[both+4]").replaceAll("[other]", "[both]")}
  add.u32 %r8, %r5, 1;
  st.volatile.shared.u32 [both+4], %r8;
  add.u32 %r5, %r5, 2;
  setp.lt.u32 %p4, %r5, 10;
  @%p4 bra LOOP;
  st.global.u32 [%rd2], %r8;`,
        { block: [70, 1, 1], declarations: waitFunctions },
      );
      assertEquals(
        written,
        upTo(70, (thread) => thread === first ? 9 : thread === second ? 10 : 0),
        `${first}, ${second}`,
      );
    }
  });
}

test("threads of a block acquire a lock one after another", () => {
  const written = runThreads(
    `
  .shared .b32 lock;
  .shared .b32 count;
  st.shared.u32 [lock], 0;
  st.shared.u32 [count], 0;
  bar.sync 0;
SPIN:
  atom.shared.cas.b32 %r3, [lock], 0, 1;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra SPIN;
  ld.volatile.shared.u32 %r4, [count];
  nanosleep.u32 1;
  add.u32 %r4, %r4, 1;
  st.volatile.shared.u32 [count], %r4;
  atom.shared.exch.b32 %r5, [lock], 0;
  bar.sync 0;
  ld.shared.u32 %r6, [count];
  st.global.u32 [%rd2], %r6;`,
    { block: [80, 1, 1] },
  );
  assertEquals(written, upTo(80, () => 80));
});
