import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import { faultKind } from "../../src/software/abi/addresses.ts";
import { Fault, refusalOf, runBody, testModule } from "./compiler_device.ts";
import { randomNumbers } from "./instructions/references.ts";
import { runThreads, upTo } from "./threads.ts";

const next = randomNumbers(0xba44_1e4n);
const below = (limit: number): number => Number(next() % BigInt(limit));

/** An mbarrier object, as section 9.7.13.15 of the manual describes it. */
class Barrier {
  phase = 0;
  pending: number;
  expected: number;
  transactions = 0;

  constructor(count: number) {
    this.pending = this.expected = count;
  }

  update(arrivals: number, dropped: number, bytes: number): void {
    this.transactions += bytes;
    this.pending -= arrivals;
    this.expected -= dropped;
    if (this.pending > 0 || this.transactions !== 0) return;
    this.phase++;
    this.pending = this.expected;
  }
}

test("mbarrier counts arrivals, drops and bytes as the manual describes", () => {
  for (let round = 0; round < 20; round++) {
    const count = 1 + below(12);
    const barrier = new Barrier(count);
    const lines = [
      ".shared .b64 bar; mov.u32 %r1, bar; cvt.u64.u32 %rd5, %r1; cvta.shared.u64 %rd5, %rd5;",
      `mbarrier.init.shared.b64 [bar], ${count}; mbarrier.arrive.b64 %rd3, [%rd5], 0x${count.toString(16)};`,
    ];
    barrier.update(count, 0, 0);
    const expected: number[] = [];
    const write = (value: number) => {
      lines.push(`st.global.u32 [%rd0+${4 * expected.length}], %r9;`);
      expected.push(value);
    };
    for (let step = 0; step < 30; step++) {
      const arrivals = 1 + below(barrier.pending);
      const before = { phase: barrier.phase, pending: barrier.pending };
      const kind = below(6);
      const address = below(2) === 0 ? ".shared.b64 %rd4, [%r1]" : ".b64 %rd4, [%rd5]";
      // On a GPU, the asynchronous arrivals come later: a phase ends with them, and is waited for.
      let isLater = false;
      if (kind === 0) {
        lines.push(`mbarrier.arrive${address}, ${arrivals};`);
        barrier.update(arrivals, 0, 0);
      } else if (kind === 1 && barrier.expected > arrivals) {
        lines.push(`mbarrier.arrive_drop.release.cta${address}, ${arrivals};`);
        barrier.update(arrivals, arrivals, 0);
      } else if (kind === 2) {
        lines.push(`mbarrier.arrive.expect_tx${address}, 64;`);
        barrier.update(1, 0, 64);
        if (barrier.pending === 0) {
          // Then the phase ends with the bytes.
          lines.push(
            "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 24; mbarrier.complete_tx.shared.b64 [bar], 40;",
          );
          barrier.update(0, 0, -24);
          barrier.update(0, 0, -40);
        } else {
          lines.push("mbarrier.complete_tx.b64 [%rd5], 64;");
          barrier.update(0, 0, -64);
        }
      } else if (kind === 3 && barrier.pending > 1) {
        lines.push(`mbarrier.arrive.noComplete${address}, 1; mbarrier.expect_tx.relaxed.cta.b64 [%rd5], 0;`);
        barrier.update(1, 0, 0);
      } else {
        isLater = true;
        const others = barrier.pending - Number(kind === 4);
        lines.push(
          kind === 4 ? "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];" : "cp.async.mbarrier.arrive.b64 [%rd5];",
          others > 0 ? `mbarrier.arrive.shared.b64 _, [%r1], ${others};` : "",
          `LATER${step}: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], ${barrier.phase % 2}; @!%p1 bra LATER${step};`,
        );
        barrier.update(barrier.pending, 0, 0);
      }
      if (!isLater) {
        lines.push("mbarrier.pending_count.b64 %r9, %rd4;");
        write(before.pending);
        lines.push("mbarrier.test_wait.shared.b64 %p1, [bar], %rd4; selp.u32 %r9, 1, 0, %p1;");
        write(Number(barrier.phase !== before.phase));
      }
      const parity = below(2);
      lines.push(`mbarrier.try_wait.parity.acquire.cta.b64 %p1, [%rd5], ${parity}, 1000; selp.u32 %r9, 1, 0, %p1;`);
      write(Number(barrier.phase % 2 !== parity));
    }
    lines.push("mbarrier.inval.shared.b64 [bar];");
    const out = runBody(lines.join("\n"), undefined, 4 * expected.length);
    assertEquals(upTo(expected.length, (index) => out.getUint32(4 * index, true)), expected, lines.join("\n"));
  }
});

test("threads wait at an mbarrier for each other, phase after phase", () => {
  const body = `
  .shared .b64 bar;
  .shared .b32 sm[96];
  setp.ne.u32 %p1, %r0, 0;
  @!%p1 mbarrier.init.shared.b64 [bar], 96;
  bar.sync 0;
  mov.u32 %r9, sm; shl.b32 %r3, %r0, 2; add.u32 %r3, %r9, %r3;
  mul.lo.u32 %r4, %r0, 7; add.u32 %r4, %r4, 1; rem.u32 %r4, %r4, 96; shl.b32 %r4, %r4, 2; add.u32 %r4, %r9, %r4;
  mov.u32 %r5, %r0; mov.u32 %r6, 0;
ROUND:
  st.shared.u32 [%r3], %r5;
  mbarrier.arrive.shared.b64 %rd3, [bar];
WAIT:
  mbarrier.try_wait.shared.b64 %p2, [bar], %rd3;
  @!%p2 bra WAIT;
  ld.shared.u32 %r5, [%r4]; add.u32 %r5, %r5, %r6;
  mbarrier.arrive.shared.b64 _, [bar];
AGAIN:
  mbarrier.test_wait.parity.shared.b64 %p2, [bar], 1;
  @!%p2 bra AGAIN;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, 4;
  @%p1 bra ROUND;
  st.global.u32 [%rd2], %r5;`;
  let values = upTo(96, (index) => index);
  for (let round = 0; round < 4; round++) {
    const before = values;
    values = before.map((_, index) => before[(7 * index + 1) % 96]! + round);
  }
  assertEquals(runThreads(body, { block: [96, 1, 1] }), values);
});

test("more arrivals than are pending and more bytes than a barrier counts are faults", () => {
  const most = 2 ** 20;
  const run = (body: string) =>
    runBody(`.shared .b64 bar; mbarrier.init.shared.b64 [bar], 4; mov.u32 %r1, ${most}; ${body}`, undefined, 4);
  const expect = "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar],";
  run(
    `mbarrier.arrive.shared.b64 _, [bar], 4; ${expect} ${
      most - 1
    }; ${expect} 1; mbarrier.arrive.shared.b64 _, [bar], 4;`,
  );
  run(`mbarrier.complete_tx.shared.b64 [bar], ${most - 1};`);
  for (
    const [body, kind, number] of [
      ["mbarrier.arrive.shared.b64 _, [bar], 5;", faultKind.arrivals, 5n],
      ["mbarrier.arrive.shared.b64 _, [bar], 3; mbarrier.arrive.shared.b64 _, [bar], 2;", faultKind.arrivals, 2n],
      ["mbarrier.arrive_drop.shared.b64 _, [bar], 4; mbarrier.arrive.shared.b64 _, [bar];", faultKind.arrivals, 1n],
      [`${expect} %r1;`, faultKind.pendingBytes, BigInt(most)],
      ["mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r1;", faultKind.pendingBytes, BigInt(most)],
      [`${expect} ${most - 1}; ${expect} 2;`, faultKind.pendingBytes, BigInt(most + 1)],
      ["mbarrier.complete_tx.shared.b64 [bar], %r1;", faultKind.pendingBytes, BigInt.asUintN(64, -BigInt(most))],
      [
        `${expect} 1048575; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;`,
        faultKind.pendingBytes,
        BigInt(most + 15),
      ],
    ] as const
  ) {
    const error = assertThrows(() => run(body), Fault) as Fault;
    assertEquals([error.kind, error.address], [kind, number], body);
  }
});

test("what is wrong with an mbarrier instruction is said", () => {
  for (
    const [body, reason] of [
      ["mbarrier.init.shared.b64 [%r1], 0;", "its count must be 1 to 1048575"],
      ["mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1];", "operands"],
      ["mbarrier.test_wait.shared.b64 %r1, [%r1], %rd2;", '%r1 is ".b32"'],
      ["mbarrier.arrive.shared.b64 %r1, [%r1];", '%r1 is ".b32"'],
    ] as const
  ) assertStringIncludes(refusalOf(testModule(body)).error.message, reason);
});
