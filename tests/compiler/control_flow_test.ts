import { assertEquals } from "@std/assert";
import { allocate, loadKernel, runBody, testModule } from "./compiler_device.ts";
import { randomNumbers } from "./instructions/references.ts";
import { isLong, test } from "../support/test.ts";

function words(...values: number[]): DataView {
  return new DataView(Uint32Array.from(values).buffer);
}

test("a loop runs while its condition holds", () => {
  const body = `
  mov.u32 %r1, 0;
  mov.u32 %r2, 0;
  ld.global.u32 %r3, [%rd1];
loop:
  setp.ge.u32 %p1, %r1, %r3;
  @%p1 bra done;
  add.u32 %r1, %r1, 1;
  add.u32 %r2, %r2, %r1;
  bra loop;
done:
  st.global.u32 [%rd0], %r2;`;
  for (const count of [0, 1, 2, 1000]) {
    assertEquals(runBody(body, words(count), 4).getUint32(0, true), count * (count + 1) / 2);
  }
});

test("loops nest, break and continue", () => {
  // Counts pairs i < 20, j < i where j is not a multiple of 3, until i * j exceeds 200.
  const body = `
  mov.u32 %r1, 0;
  mov.u32 %r9, 0;
outer:
  add.u32 %r1, %r1, 1;
  setp.ge.u32 %p1, %r1, 20;
  @%p1 bra done;
  mov.u32 %r2, 0;
inner:
  add.u32 %r2, %r2, 1;
  setp.ge.u32 %p2, %r2, %r1;
  @%p2 bra outer;
  rem.u32 %r3, %r2, 3;
  setp.eq.u32 %p3, %r3, 0;
  @%p3 bra inner;
  mul.lo.u32 %r4, %r1, %r2;
  setp.gt.u32 %p4, %r4, 200;
  @!%p4 bra counted;
  bra done;
counted:
  add.u32 %r9, %r9, 1;
  bra.uni inner;
done:
  st.global.u32 [%rd0], %r9;`;
  let expected = 0;
  count: for (let i = 1; i < 20; i++) {
    for (let j = 1; j < i; j++) {
      if (j % 3 === 0) continue;
      if (i * j > 200) break count;
      expected++;
    }
  }
  assertEquals(runBody(body, undefined, 4).getUint32(0, true), expected);
});

test("a loop with two entries runs as written", () => {
  const body = `
  ld.global.u32 %r1, [%rd1];
  mov.u32 %r2, 1;
  mov.u32 %r3, 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra second;
first:
  mad.lo.u32 %r2, %r2, 3, 1;
second:
  mad.lo.u32 %r2, %r2, 5, 2;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 4;
  @%p2 bra first;
  st.global.u32 [%rd0], %r2;`;
  for (const enterFirst of [0, 1]) {
    let expected = 1;
    for (let turn = 0; turn < 4; turn++) {
      if (turn > 0 || enterFirst === 1) expected = expected * 3 + 1;
      expected = expected * 5 + 2;
    }
    assertEquals(runBody(body, words(enterFirst), 4).getUint32(0, true), expected);
  }
});

const followingSteps = 3000;

test("thousands of conditions, loops and exits can follow each other", { long: true }, () => {
  const steps = {
    condition: (index: number) => `
  setp.eq.u32 %p1, %r1, ${index};
  @%p1 bra L${index};
  add.u32 %r2, %r2, 1;
L${index}:`,
    loop: (index: number) => `
  mov.u32 %r3, 0;
L${index}:
  add.u32 %r2, %r2, 1;
  add.u32 %r3, %r3, 1;
  setp.le.u32 %p1, %r3, ${index % 3};
  @%p1 bra L${index};`,
    exit: (index: number) => `
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd0], %r2;
  setp.eq.u32 %p1, %r1, ${index};
  @%p1 exit;`,
  };
  const expected = { condition: followingSteps - 1, loop: 2 * followingSteps, exit: followingSteps / 2 + 1 };
  for (const [kind, step] of Object.entries(steps)) {
    const body = `
  mov.u32 %r2, 0;
  ld.global.u32 %r1, [%rd1];
${Array.from({ length: followingSteps }, (_, index) => step(index)).join("")}
  st.global.u32 [%rd0], %r2;`;
    assertEquals(
      runBody(body, words(followingSteps / 2), 4).getUint32(0, true),
      expected[kind as keyof typeof expected],
      kind,
    );
  }
});

test("brx.idx branches to the target with its index", () => {
  const body = `
  ld.global.u32 %r1, [%rd1];
targets: .branchtargets zero, one, loop, one;
  mov.u32 %r2, 100;
  brx.idx %r1, targets;
zero:
  mov.u32 %r2, 7;
  bra done;
one:
  add.u32 %r2, %r2, 1;
  bra done;
loop:
  sub.u32 %r2, %r2, 9;
  setp.gt.u32 %p1, %r2, 9;
  @%p1 bra loop;
done:
  st.global.u32 [%rd0], %r2;`;
  const results = [0, 1, 2, 3].map((index) => runBody(body, words(index), 4).getUint32(0, true));
  assertEquals(results, [7, 101, 1, 101]);
});

test("a predicate guards an instruction, and a thread exits where it says", () => {
  const ptx = testModule(`
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd0, %rd0, %rd2;
  setp.gt.u32 %p1, %r1, 5;
  @%p1 exit;
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p2, %r2, 1;
  mov.u32 %r3, 10;
  @%p2 mov.u32 %r3, 20;
  @!%p2 add.u32 %r3, %r3, 3;
  st.global.u32 [%rd0], %r3;
  @%p2 ret;
  st.global.u32 [%rd0], 99;`);
  const out = allocate(32);
  loadKernel(ptx, "test")({ block: [8, 1, 1], parameters: [{ type: "u64", value: out.address }] });
  const results = Array.from({ length: 8 }, (_, index) => out.view.getUint32(index * 4, true));
  assertEquals(results, [99, 20, 99, 20, 99, 20, 0, 0]);
});

test("every thread of every block has its own special registers", () => {
  const ptx = testModule(`
  mov.u32 %r1, %ctaid.z;
  mov.u32 %r2, %nctaid.y;
  mov.u32 %r3, %ctaid.y;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r2, %nctaid.x;
  mov.u32 %r3, %ctaid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r2, %ntid.z;
  mov.u32 %r3, %tid.z;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r2, %ntid.y;
  mov.u32 %r3, %tid.y;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd0, %rd0, %rd2;
  mov.u32 %r4, %laneid;
  mov.u32 %r5, %warpid;
  mad.lo.u32 %r4, %r5, 32, %r4;
  add.u32 %r4, %r4, 1;
  st.global.u32 [%rd0], %r4;`);
  const [grid, block] = [[3, 2, 2], [5, 4, 3]] as const;
  const threads = 5 * 4 * 3;
  const out = allocate(12 * threads * 4);
  loadKernel(ptx, "test")({ grid, block, parameters: [{ type: "u64", value: out.address }] });
  for (let index = 0; index < 12 * threads; index++) {
    assertEquals(out.view.getUint32(index * 4, true), index % threads + 1);
  }
});

/** A graph of blocks. Each changes a number in its own way, and branches on one of the number's bits. */
interface RandomProgram {
  readonly targets: readonly (readonly [number, number])[];
  readonly ptx: string;
}

function randomProgram(random: () => bigint): RandomProgram {
  const below = (limit: number) => Number(random() % BigInt(limit));
  const count = 2 + below(9);
  const targets = Array.from({ length: count }, (): [number, number] => [below(count + 1), below(count + 1)]);
  const blocks = targets.map(([taken, otherwise], index) => `
B${index}:
  add.u32 %r3, %r3, 1;
  setp.gt.u32 %p2, %r3, 100;
  @%p2 bra B${count};
  mad.lo.u32 %r1, %r1, ${1664525 + 2 * index}, ${1013904223 + index};
  shr.u32 %r2, %r1, ${16 + index % 8};
  and.b32 %r2, %r2, 1;
  setp.eq.u32 %p1, %r2, 1;
  @%p1 bra B${taken};
  bra B${otherwise};`);
  const ptx = testModule(`
  ld.global.u32 %r1, [%rd1];
  mov.u32 %r3, 0;
  ${blocks.join("")}
B${count}:
  st.global.u32 [%rd0], %r1;
  st.global.u32 [%rd0+4], %r3;`);
  return { targets, ptx };
}

function interpret({ targets }: RandomProgram, seed: number): [value: number, steps: number] {
  let value = seed, steps = 0, block = 0;
  while (block < targets.length) {
    if (++steps > 100) break;
    value = Math.imul(value, 1664525 + 2 * block) + 1013904223 + block >>> 0;
    block = targets[block]![(value >>> 16 + block % 8 & 1) === 1 ? 0 : 1];
  }
  return [value, steps];
}

test("random graphs of blocks, most of them irreducible, match an interpreter", () => {
  const random = randomNumbers(88172645463325252n);
  const [out, source] = [allocate(8), allocate(4)];
  for (let program = 0; program < (isLong ? 400 : 80); program++) {
    const graph = randomProgram(random);
    const kernel = loadKernel(graph.ptx, "test");
    for (const seed of [0, 1, 0xdeadbeef]) {
      source.view.setUint32(0, seed, true);
      kernel({ parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }] });
      assertEquals(
        [out.view.getUint32(0, true), out.view.getUint32(4, true)],
        interpret(graph, seed),
        `program ${program}, seed ${seed}\n${graph.ptx}`,
      );
    }
  }
});
