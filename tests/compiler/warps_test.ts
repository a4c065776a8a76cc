import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { randomNumbers } from "./instructions/references.ts";
import { runThreads, upTo } from "./threads.ts";

const next = randomNumbers(0x1d87_2b41_9e3a_55c7n);
const random32 = (): number => Number(next() & 0xffff_ffffn);

/** The lanes in a mask. */
function lanesOf(mask: number): number[] {
  return upTo(32, (lane) => lane).filter((lane) => (mask >>> lane & 1) === 1);
}

/** Partitions a warp's first lanes: for each lane, the mask of the lanes that execute an operation with it. */
function masksOf(lanes: number, groups: number): number[] {
  const groupOf = upTo(lanes, () => random32() % groups);
  return groupOf.map((group) =>
    groupOf.reduce((mask, other, lane) => other === group ? mask | 1 << lane : mask, 0) >>> 0
  );
}

/** Loads `words` words of input for each thread into `%r10`, `%r11` and so on. */
function loadWords(words: number): string {
  return `
  mul.wide.u32 %rd3, %r0, ${4 * words};
  add.u64 %rd3, %rd1, %rd3;
  ${upTo(words, (index) => `ld.global.u32 %r${10 + index}, [%rd3+${4 * index}];`).join("\n")}`;
}

/** The manual's pseudocode, section 9.7.9.6. */
function shuffled(
  mode: string,
  { lane, b, c }: { lane: number; b: number; c: number },
): { source: number; predicate: boolean } {
  const bval = b & 31, cval = c & 31, segmask = c >>> 8 & 31;
  const maxLane = (lane & segmask) | (cval & (~segmask & 31));
  const minLane = lane & segmask;
  let j: number, pval: boolean;
  if (mode === "up") [j, pval] = [lane - bval, lane - bval >= maxLane];
  else if (mode === "down") [j, pval] = [lane + bval, lane + bval <= maxLane];
  else if (mode === "bfly") [j, pval] = [lane ^ bval, (lane ^ bval) <= maxLane];
  else {
    j = minLane | (bval & (~segmask & 31));
    pval = j <= maxLane;
  }
  return { source: pval ? j : lane, predicate: pval };
}

for (const mode of ["up", "down", "bfly", "idx"]) {
  test(`shfl.sync.${mode} reads the lane that the manual specifies`, () => {
    for (let round = 0; round < 60; round++) {
      const lanes = round % 4 === 3 ? 1 + random32() % 32 : 32;
      const masks = masksOf(lanes, 1 + round % 3);
      const operands = masks.map((mask) => {
        // Widths as CUDA's functions pass them, and arbitrary ones.
        const width = 1 << random32() % 6;
        const clamp = 32 - width << 8 | (mode === "up" ? 0 : 31);
        return { value: random32(), b: random32() % (round % 2 ? 32 : 256), c: round % 3 ? clamp : random32(), mask };
      });
      const written = runThreads(
        `${loadWords(4)}
  shfl.sync.${mode}.b32 %r3|%p1, %r10, %r11, %r12, %r13;
  selp.u32 %r4, 1, 0, %p1;
  st.global.u32 [%rd2], %r3;
  st.global.u32 [%rd2+4], %r4;`,
        { block: [lanes, 1, 1], words: 2, input: operands.flatMap(({ value, b, c, mask }) => [value, b, c, mask]) },
      );
      operands.forEach(({ b, c, mask }, lane) => {
        const { source, predicate } = shuffled(mode, { lane, b, c });
        const what = `lane ${lane} of ${lanes}, b ${b}, c 0x${c.toString(16)}, mask 0x${mask.toString(16)}`;
        assertEquals(written[lane * 2 + 1], Number(predicate), what);
        // The value of a lane that does not take part is undefined.
        if ((mask >>> source & 1) === 1) assertEquals(written[lane * 2], operands[source]!.value, what);
      });
    }
  });
}

test("a shuffle accepts literal operands, and its predicate is optional", () => {
  const written = runThreads(
    `
  shfl.sync.down.b32 %r3, %r0, 16, 0x1f, 0xffffffff;
  shfl.sync.idx.b32 %r4|%p1, 77, 3, 0x101f, -1;
  shfl.sync.bfly.b32 _|%p2, %r0, 1, 0x1f, -1;
  mad.lo.u32 %r3, %r3, 100, %r4;
  st.global.u32 [%rd2], %r3;`,
    { block: [40, 1, 1] },
  );
  assertEquals(written.slice(0, 32), upTo(32, (lane) => (lane < 16 ? lane + 16 : lane) * 100 + 77));
});

test("vote combines the predicates of the lanes in its mask", () => {
  for (let round = 0; round < 40; round++) {
    const lanes = round % 4 === 3 ? 1 + random32() % 32 : 32;
    const masks = masksOf(lanes, 1 + round % 4);
    const share = round % 3;
    const values = masks.map(() => share === 0 ? random32() & 1 : Number(random32() % 40 === 0) ^ (share - 1));
    const written = runThreads(
      `${loadWords(2)}
  setp.ne.u32 %p1, %r10, 0;
  vote.sync.ballot.b32 %r3, %p1, %r11;
  vote.sync.all.pred %p2, %p1, %r11;
  vote.sync.any.pred %p3, %p1, %r11;
  vote.sync.uni.pred %p4, %p1, %r11;
  vote.sync.all.pred %p5, !%p1, %r11;
  vote.sync.ballot.b32 %r5, !%p1, %r11;
  selp.u32 %r4, 1, 0, %p2; @%p3 add.u32 %r4, %r4, 2; @%p4 add.u32 %r4, %r4, 4; @%p5 add.u32 %r4, %r4, 8;
  st.global.u32 [%rd2], %r3;
  st.global.u32 [%rd2+4], %r4;
  st.global.u32 [%rd2+8], %r5;`,
      { block: [lanes, 1, 1], words: 3, input: masks.flatMap((mask, lane) => [values[lane]!, mask]) },
    );
    masks.forEach((mask, lane) => {
      const group = lanesOf(mask);
      const held = group.filter((other) => values[other] === 1);
      const ballot = held.reduce((ballot, other) => (ballot | 1 << other) >>> 0, 0);
      const all = held.length === group.length, any = held.length > 0;
      const flags = Number(all) + 2 * Number(any) + 4 * Number(all || !any) + 8 * Number(!any);
      assertEquals(written.slice(lane * 3, lane * 3 + 3), [ballot, flags, (mask & ~ballot) >>> 0]);
    });
  }
});

test("match finds the lanes in its mask that have the same value", () => {
  for (let round = 0; round < 40; round++) {
    const lanes = round % 4 === 3 ? 1 + random32() % 32 : 32;
    const masks = masksOf(lanes, 1 + round % 4);
    const kinds = round % 2 === 0 ? 1 : 3;
    const low = [random32(), random32(), random32()];
    // Equal halves in values that differ.
    const values = masks.map(() => [low[random32() % kinds]!, round % 3 === 0 ? low[random32() % 2]! : 5] as const);
    const written = runThreads(
      `${loadWords(3)}
  mov.b64 %rd4, {%r10, %r11};
  match.any.sync.b32 %r3, %r10, %r12;
  match.any.sync.b64 %r4, %rd4, %r12;
  match.all.sync.b32 %r5|%p1, %r10, %r12;
  match.all.sync.b64 %r6|%p2, %rd4, %r12;
  match.all.sync.b32 %r8, %r10, %r12;
  selp.u32 %r7, 1, 0, %p1; @%p2 add.u32 %r7, %r7, 2;
  st.global.u32 [%rd2], %r3; st.global.u32 [%rd2+4], %r4; st.global.u32 [%rd2+8], %r5;
  st.global.u32 [%rd2+12], %r6; st.global.u32 [%rd2+16], %r7; st.global.u32 [%rd2+20], %r8;`,
      { block: [lanes, 1, 1], words: 6, input: masks.flatMap((mask, lane) => [...values[lane]!, mask]) },
    );
    masks.forEach((mask, lane) => {
      const group = lanesOf(mask);
      const own = values[lane]!;
      const like = (isSame: (other: readonly [number, number]) => boolean) =>
        group.filter((other) => isSame(values[other]!)).reduce((found, other) => (found | 1 << other) >>> 0, 0);
      const narrow = like((other) => other[0] === own[0]);
      const wide = like((other) => other[0] === own[0] && other[1] === own[1]);
      const [allNarrow, allWide] = [narrow === mask, wide === mask];
      assertEquals(
        written.slice(lane * 6, lane * 6 + 6),
        [
          narrow,
          wide,
          allNarrow ? mask : 0,
          allWide ? mask : 0,
          Number(allNarrow) + 2 * Number(allWide),
          allNarrow ? mask : 0,
        ],
        `lane ${lane}, mask 0x${mask.toString(16)}`,
      );
    });
  }
});

const reductions: readonly [instruction: string, combine: (a: number, b: number) => number][] = [
  ["add.u32", (a, b) => a + b],
  ["add.s32", (a, b) => a + b],
  ["min.u32", (a, b) => Math.min(a >>> 0, b >>> 0)],
  ["max.u32", (a, b) => Math.max(a >>> 0, b >>> 0)],
  ["min.s32", (a, b) => Math.min(a | 0, b | 0)],
  ["max.s32", (a, b) => Math.max(a | 0, b | 0)],
  ["and.b32", (a, b) => a & b],
  ["or.b32", (a, b) => a | b],
  ["xor.b32", (a, b) => a ^ b],
];

test("redux combines the values of the lanes in its mask", () => {
  for (let round = 0; round < 24; round++) {
    const lanes = round % 4 === 3 ? 1 + random32() % 32 : 32;
    const masks = masksOf(lanes, 1 + round % 4);
    const values = masks.map(() => round % 3 === 0 ? (random32() % 7) - 3 >>> 0 : random32());
    const written = runThreads(
      loadWords(2) + reductions.map(([instruction], index) => `
  redux.sync.${instruction} %r3, %r10, %r11;
  st.global.u32 [%rd2+${4 * index}], %r3;`).join(""),
      {
        block: [lanes, 1, 1],
        words: reductions.length,
        input: masks.flatMap((mask, lane) => [values[lane]!, mask]),
      },
    );
    masks.forEach((mask, lane) => {
      const group = lanesOf(mask).map((other) => values[other]!);
      const expected = reductions.map(([, combine]) => group.reduce((a, b) => combine(a, b) >>> 0) >>> 0);
      assertEquals(written.slice(lane * reductions.length, (lane + 1) * reductions.length), expected);
    });
  }
});

test("lanes that have exited do not take part", () => {
  const written = runThreads(
    `
  setp.ge.u32 %p1, %r0, 20;
  @%p1 exit;
  redux.sync.add.u32 %r3, %r0, -1;
  setp.lt.u32 %p2, %r0, 100;
  vote.sync.ballot.b32 %r4, %p2, -1;
  match.all.sync.b32 %r5, 7, -1;
  bar.warp.sync -1;
  activemask.b32 %r6;
  st.global.u32 [%rd2], %r3; st.global.u32 [%rd2+4], %r4; st.global.u32 [%rd2+8], %r5; st.global.u32 [%rd2+12], %r6;`,
    { block: [32, 1, 1], words: 4 },
  );
  const mask = 0xfffff;
  assertEquals(written, upTo(32, (lane) => lane < 20 ? [190, mask, mask, mask] : [0, 0, 0, 0]).flat());
});

test("activemask returns the lanes at the same place", () => {
  const written = runThreads(
    `
  activemask.b32 %r3;
  and.b32 %r4, %r0, 3;
  setp.eq.u32 %p1, %r4, 1;
  setp.eq.u32 %p2, %r4, 2;
  @%p1 bra ONE;
  @%p2 exit;
  activemask.b32 %r5;
  bra DONE;
ONE:
  activemask.b32 %r5;
DONE:
  bar.warp.sync -1;
  activemask.b32 %r6;
  st.global.u32 [%rd2], %r3; st.global.u32 [%rd2+4], %r5; st.global.u32 [%rd2+8], %r6;`,
    { block: [40, 1, 1], words: 3 },
  );
  const expected = (thread: number) => {
    const whole = thread < 32 ? 0xffffffff : 0xff;
    const kind = thread % 4;
    const mask = (bits: number) => (bits & whole) >>> 0;
    if (kind === 2) return [0, 0, 0];
    return [whole, mask(kind === 1 ? 0x22222222 : 0x99999999), mask(0xbbbbbbbb)];
  };
  assertEquals(written, upTo(40, expected).flat());
});

test("lanes can meet at different instructions of the same kind", () => {
  const written = runThreads(
    `
  and.b32 %r4, %r0, 1;
  setp.eq.u32 %p1, %r4, 1;
  @%p1 bra ODD;
  shfl.sync.bfly.b32 %r3, %r0, 1, 31, -1;
  bra DONE;
ODD:
  add.u32 %r5, %r0, 100;
  shfl.sync.bfly.b32 %r3, %r5, 1, 31, -1;
DONE:
  st.global.u32 [%rd2], %r3;`,
    { block: [32, 1, 1] },
  );
  assertEquals(written, upTo(32, (lane) => lane % 2 === 0 ? lane + 101 : lane - 1));
});

test("warps reduce values step by step", () => {
  const written = runThreads(
    `${loadWords(1)}
  mov.u32 %r3, 16;
LOOP:
  shfl.sync.down.b32 %r4, %r10, %r3, 31, -1;
  add.u32 %r10, %r10, %r4;
  shr.u32 %r3, %r3, 1;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra LOOP;
  st.global.u32 [%rd2], %r10;`,
    { block: [128, 1, 1], input: upTo(128, (thread) => thread * thread) },
  );
  for (let warp = 0; warp < 4; warp++) {
    const sum = upTo(32, (lane) => (warp * 32 + lane) ** 2).reduce((a, b) => a + b);
    assertEquals(written[warp * 32], sum);
  }
});

test("elect.sync elects the lowest lane of its mask", () => {
  for (let round = 0; round < 40; round++) {
    const masks = masksOf(32, 1 + round % 5);
    const written = runThreads(
      `${loadWords(1)}
  elect.sync %r3|%p1, %r10;
  selp.u32 %r4, 1, 0, %p1;
  elect.sync _|%p2, %r10;
  @%p2 add.u32 %r4, %r4, 2;
  st.global.u32 [%rd2], %r3;
  st.global.u32 [%rd2+4], %r4;`,
      { block: [32, 1, 1], words: 2, input: masks },
    );
    const leaders = masks.map((mask) => 31 - Math.clz32(mask & -mask));
    assertEquals(written, leaders.flatMap((leader, lane) => [leader, leader === lane ? 3 : 0]));
  }
});

test("the sizes of shared memory, counters of performance and the running graph are in registers", () => {
  // The total is in units of 128 bytes.
  const registers = ["%total_smem_size", "%dynamic_smem_size", "%aggr_smem_size", "%pm0", "%nwarpid"];
  const wide = ["%pm0_64", "%pm7_64", "%current_graph_exec"];
  const body = [
    "mov.u32 %r4, sm;",
    ...registers.map((name, index) => `mov.u32 %r3, ${name}; st.global.u32 [%rd2+${4 * index}], %r3;`),
    ...wide.map((name, index) => `mov.u64 %rd3, ${name}; st.global.u64 [%rd2+${24 + 8 * index}], %rd3;`),
  ].join("\n");
  const written = runThreads(body, { block: [1, 1, 1], words: 12, declarations: ".shared .b8 sm[200];" });
  assertEquals(written.slice(0, 5), [256, 0, 200 + 1024, 0, 64]);
  assertEquals(written.slice(6), [0, 0, 0, 0, 0, 0]);
});
