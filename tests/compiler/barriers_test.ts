import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { DeadlockError } from "../../src/software/execution/scheduling/block_barriers.ts";
import { firstThreadsLine, runThreads, threadsModule, upTo } from "./threads.ts";
import { allocate, load } from "./compiler_device.ts";

const shared = ".shared .align 4 .b32 cells[1024];";
/** Computes the offsets of a thread's own cell, in `%r3`, and of the next thread's, in `%r4`. */
function cellsOf(threads: number): string {
  return `
  ${shared}
  mov.u32 %r5, cells;
  mad.lo.u32 %r3, %r0, 4, %r5;
  add.u32 %r4, %r0, 1;
  rem.u32 %r4, %r4, ${threads};
  mad.lo.u32 %r4, %r4, 4, %r5;`;
}

for (const block of [[1, 1, 1], [33, 1, 1], [64, 1, 1], [4, 3, 5], [7, 2, 9], [1024, 1, 1], [16, 8, 8]] as const) {
  test(`threads of a ${block.join(" x ")} block read behind a barrier what others stored before it`, () => {
    const count = block[0] * block[1] * block[2];
    const rounds = 5;
    const written = runThreads(
      `${cellsOf(count)}
  mov.u32 %r6, %r0;
  mov.u32 %r7, 0;
LOOP:
  st.shared.u32 [%r3], %r6;
  bar.sync 0;
  ld.shared.u32 %r6, [%r4];
  mad.lo.u32 %r6, %r6, 3, %r7;
  barrier.sync.aligned 0;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p1, %r7, ${rounds};
  @%p1 bra LOOP;
  st.global.u32 [%rd2], %r6;`,
      { block },
    );
    let cells = upTo(count, (thread) => thread);
    for (let round = 0; round < rounds; round++) {
      cells = cells.map((_, thread) => Math.imul(cells[(thread + 1) % count]!, 3) + round >>> 0);
    }
    assertEquals(written, cells);
  });
}

test("threads that have exited no longer count, whether they exit before or while others wait", () => {
  const before = "setp.lt.u32 %p1, %r0, 10;\n@%p1 exit;\nbar.sync 0;\nst.global.u32 [%rd2], 7;";
  assertEquals(runThreads(before, { block: [64, 1, 1] }), upTo(64, (thread) => thread < 10 ? 0 : 7));
  // The threads of the last warp resume at the barrier where the others wait, then exit in a loop, one after another.
  const meanwhile = `
  setp.lt.u32 %p1, %r0, 32;
  @%p1 bra WAIT;
  barrier.sync 1, 32;
  mov.u32 %r1, %r0;
LOOP:
  bar.warp.sync -1;
  setp.eq.u32 %p2, %r1, 63;
  @%p2 ret;
  add.u32 %r1, %r1, 1;
  bra LOOP;
WAIT:
  bar.sync 0;
  st.global.u32 [%rd2], 7;`;
  assertEquals(runThreads(meanwhile, { block: [64, 1, 1] }), upTo(64, (thread) => thread < 32 ? 7 : 0));
});

test("barriers are matched by their numbers, wherever they are in the code", () => {
  const written = runThreads(
    `${cellsOf(96)}
  and.b32 %r6, %r0, 3;
  st.shared.u32 [%r3], %r0;
  setp.eq.u32 %p1, %r6, 0;
  @%p1 bra ZERO;
  setp.eq.u32 %p1, %r6, 1;
  @%p1 bra ONE;
  mov.u32 %r8, 5;
  barrier.sync %r8;
  ld.shared.u32 %r7, [%r4];
  bra DONE;
ZERO:
  bar.sync 5, 96;
  ld.shared.u32 %r7, [%r4];
  add.u32 %r7, %r7, 1000;
  bra DONE;
ONE:
  @!%p1 bar.sync 6;
  barrier.cta.sync 5;
  ld.shared.u32 %r7, [%r4];
  add.u32 %r7, %r7, 2000;
DONE:
  st.global.u32 [%rd2], %r7;`,
    { block: [96, 1, 1] },
  );
  const added = [1000, 2000, 0, 0];
  assertEquals(written, upTo(96, (thread) => (thread + 1) % 96 + added[thread % 4]!));
});

test("a barrier with a count releases that many threads, and does not affect others", () => {
  // Each pair of warps has a barrier of its own. The last warp has none.
  const written = runThreads(
    `${cellsOf(160)}
  shr.u32 %r6, %r0, 6;
  st.shared.u32 [%r3], %r0;
  setp.eq.u32 %p1, %r6, 2;
  @%p1 bra DONE;
  add.u32 %r7, %r6, 3;
  barrier.sync %r7, 64;
  xor.b32 %r8, %r0, 32;
  mad.lo.u32 %r8, %r8, 4, %r5;
  ld.shared.u32 %r6, [%r8];
DONE:
  st.global.u32 [%rd2], %r6;`,
    { block: [160, 1, 1] },
  );
  assertEquals(written, upTo(160, (thread) => thread < 128 ? thread ^ 32 : 2));
});

test("if more threads wait than a barrier counts, the first resume and the others wait for as many again", () => {
  // Warp 3 arrives only when two of the other three have resumed.
  const written = runThreads(
    `
  .shared .b32 gone;
  st.shared.u32 [gone], 0;
  bar.sync 0;
  setp.lt.u32 %p1, %r0, 96;
  @%p1 bra WAIT;
LOOP:
  ld.volatile.shared.u32 %r1, [gone];
  setp.lt.u32 %p2, %r1, 64;
  @%p2 bra LOOP;
WAIT:
  bar.sync 1, 64;
  atom.shared.add.u32 %r2, [gone], 1;
  st.global.u32 [%rd2], 7;`,
    { block: [128, 1, 1] },
  );
  assertEquals(written, upTo(128, () => 7));
});

test("threads arrive at a barrier without waiting", () => {
  const rounds = 4;
  // Warp 0 produces and warp 1 consumes. Barrier 1 signals that there is a value, barrier 2 that it was consumed.
  const written = runThreads(
    `
  .shared .b32 made[32];
  mov.u32 %r3, %laneid;
  mov.u32 %r4, made;
  mad.lo.u32 %r3, %r3, 4, %r4;
  mov.u32 %r5, 0;
  mov.u32 %r6, 0;
  setp.lt.u32 %p1, %r0, 32;
LOOP:
  @%p1 bra MAKE;
  bar.sync 1, 64;
  ld.shared.u32 %r7, [%r3];
  mad.lo.u32 %r6, %r6, 10, %r7;
  bar.arrive 2, 64;
  bra NEXT;
MAKE:
  add.u32 %r7, %r5, 1;
  st.shared.u32 [%r3], %r7;
  barrier.arrive.aligned 1, 64;
  barrier.cta.sync.aligned 2, 64;
NEXT:
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, ${rounds};
  @%p2 bra LOOP;
  st.global.u32 [%rd2], %r6;`,
    { block: [64, 1, 1] },
  );
  assertEquals(written, upTo(64, (thread) => thread < 32 ? 0 : 1234));
});

test("partial warps count as full at barriers that count threads", () => {
  for (const [first, second] of [["bar.sync", "bar.sync"], ["bar.arrive", "bar.sync"], ["bar.sync", "bar.arrive"]]) {
    const written = runThreads(
      `
  setp.lt.u32 %p1, %r0, 32;
  @%p1 ${first} 1, 64;
  @!%p1 ${second} 1, 64;
  st.global.u32 [%rd2], 7;`,
      { block: [33, 1, 1] },
    );
    assertEquals(written, upTo(33, () => 7), `${first}, ${second}`);
  }
  // Threads that arrive and then exit must not count twice.
  const twice = `
  setp.lt.u32 %p1, %r0, 32;
  @%p1 bar.arrive 1, 96;
  @%p1 exit;
  setp.lt.u32 %p1, %r0, 64;
  @%p1 bra WAIT;
  bar.sync 2, 32;
  st.global.u32 [%rd0], 9;
WAIT:
  bar.sync 1, 96;
  ld.global.u32 %r1, [%rd0];
  st.global.u32 [%rd2], %r1;`;
  assertEquals(runThreads(twice, { block: [96, 1, 1] }), upTo(96, (thread) => thread === 0 || thread >= 32 ? 9 : 0));
});

test("barriers count predicates, and test whether all or any are true", () => {
  const reduce = (barrier: string) => `
  setp.ge.u32 %p3, %r0, 90;
  @%p3 exit;
  and.b32 %r1, %r0, 3;
  setp.eq.u32 %p1, %r1, 1;
  setp.lt.u32 %p2, %r0, 1000;
  bar.red.popc.u32 %r3, ${barrier}, %p1;
  barrier.cta.red.popc.aligned.u32 %r4, ${barrier}, !%p1;
  bar.red.and.pred %p4, ${barrier}, %p1;
  bar.red.and.pred %p5, ${barrier}, %p2;
  barrier.red.or.pred %p6, ${barrier}, %p1;
  bar.red.or.pred %p7, ${barrier}, !%p2;
  mad.lo.u32 %r5, %r3, 100, %r4;
  selp.u32 %r6, 1000000, 0, %p4;
  add.u32 %r5, %r5, %r6;
  selp.u32 %r6, 2000000, 0, %p5;
  add.u32 %r5, %r5, %r6;
  selp.u32 %r6, 4000000, 0, %p6;
  add.u32 %r5, %r5, %r6;
  selp.u32 %r6, 8000000, 0, %p7;
  add.u32 %r5, %r5, %r6;
  st.global.u32 [%rd2], %r5;`;
  const held = upTo(90, (thread) => thread).filter((thread) => thread % 4 === 1).length;
  const expected = 6000000 + held * 100 + 90 - held;
  const block = [100, 1, 1] as const;
  assertEquals(runThreads(reduce("3"), { block }), upTo(100, (thread) => thread < 90 ? expected : 0));
  assertEquals(runThreads(reduce("3, 96"), { block }), upTo(100, (thread) => thread < 90 ? expected : 0));
  // Two groups at the same barrier each get their own count. A thread that only arrives has no predicate.
  const groups = `
  shr.u32 %r1, %r0, 5;
  and.b32 %r2, %r0, %r1;
  setp.ne.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r1, 2;
  @%p2 bar.arrive 4, 96;
  @%p2 exit;
  bar.red.popc.u32 %r3, 4, 96, %p1;
  bar.red.popc.u32 %r4, 5, 64, %p1;
  mad.lo.u32 %r3, %r3, 100, %r4;
  st.global.u32 [%rd2], %r3;`;
  assertEquals(runThreads(groups, { block: [96, 1, 1] }), upTo(96, (thread) => thread < 64 ? 1616 : 0));
});

const exchange = `
.shared .b32 cells[64];
.func (.param .b32 result) exchange(.param .b32 value, .param .b32 lane) {
  .reg .b32 %r<9>;
  ld.param.u32 %r1, [value];
  ld.param.u32 %r2, [lane];
  mov.u32 %r3, cells;
  mad.lo.u32 %r4, %r2, 4, %r3;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  xor.b32 %r5, %r2, 1;
  mad.lo.u32 %r5, %r5, 4, %r3;
  ld.shared.u32 %r6, [%r5];
  bar.sync 0;
  st.param.b32 [result], %r6;
  ret;
}
.func (.param .b32 result) sum(.param .b32 depth, .param .b32 lane) {
  .reg .b32 %r<9>; .reg .pred %p;
  ld.param.u32 %r1, [depth];
  ld.param.u32 %r2, [lane];
  mov.u32 %r5, 0;
  setp.eq.u32 %p, %r1, 0;
  @%p bra DONE;
  mad.lo.u32 %r3, %r1, 100, %r2;
  .param .b32 a; .param .b32 b; .param .b32 c;
  st.param.b32 [a], %r3; st.param.b32 [b], %r2;
  call.uni (c), exchange, (a, b);
  ld.param.b32 %r4, [c];
  sub.u32 %r6, %r1, 1;
  st.param.b32 [a], %r6;
  call.uni (c), sum, (a, b);
  ld.param.b32 %r5, [c];
  add.u32 %r5, %r5, %r4;
DONE:
  bar.sync 2;
  st.param.b32 [result], %r5;
  ret;
}`;

test("threads wait in functions, and in functions that call themselves", () => {
  const written = runThreads(
    `
  .param .b32 a; .param .b32 b; .param .b32 c;
  st.param.b32 [a], 9;
  st.param.b32 [b], %r0;
  call.uni (c), sum, (a, b);
  ld.param.b32 %r3, [c];
  add.u32 %r3, %r3, %r0;
  st.global.u32 [%rd2], %r3;`,
    { block: [64, 1, 1], declarations: exchange },
  );
  assertEquals(written, upTo(64, (thread) => 4500 + 9 * (thread ^ 1) + thread));
});

const deadlocks: readonly [what: string, body: string, threads: number, waiting: string][] = [
  [
    "half of the threads wait at one barrier and half at another",
    "setp.lt.u32 %p1, %r0, 16;\n@%p1 bar.sync 1;\n@!%p1 bar.sync 2;",
    32,
    "threads 0-15 at line +1 (barrier), threads 16-31 at line +2 (barrier)",
  ],
  ["fewer come than a barrier counts", "bar.sync 1, 128;", 64, "threads 0-63 at line +0 (barrier)"],
  [
    "a shuffle waits for lanes that wait at a barrier",
    "setp.eq.u32 %p1, %r0, 5;\n@%p1 bar.sync 1;\nshfl.sync.idx.b32 %r1, %r0, 0, 31, -1;",
    8,
    "threads 0-4, 6-7 at line +2 (shuffle), thread 5 at line +1 (barrier)",
  ],
];

for (const [what, body, threads, waiting] of deadlocks) {
  test(`deadlocks are reported with their lines: ${what}`, () => {
    const error = assertThrows(() => runThreads(body, { block: [threads, 1, 1] }), DeadlockError) as DeadlockError;
    const named = waiting.replace(/\+(\d)/g, (_, line) => `${firstThreadsLine + Number(line)}`);
    assertEquals(
      error.message,
      `all threads of the block that have not exited wait, and none can continue: ${named}`,
    );
    assertEquals(error.line, Number(/line (\d+)/.exec(named)![1]));
  });
}

test("the block after a deadlock begins anew", () => {
  const out = allocate(128);
  const module = load(threadsModule("ld.global.u32 %r1, [%rd1];\nbar.sync 1, %r1;\nst.global.u32 [%rd2], 7;"));
  const counts = [96, 32].map((count) => {
    const source = allocate(4);
    source.view.setUint32(0, count, true);
    return source.address;
  });
  const run = (source: bigint) =>
    module.run("test", {
      block: [32, 1, 1],
      parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source }],
    });
  assertThrows(() => run(counts[0]!), DeadlockError);
  run(counts[1]!);
  assertEquals(new Uint32Array(out.bytes.slice().buffer), new Uint32Array(32).fill(7));
});
