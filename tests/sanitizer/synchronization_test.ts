/** The check of barriers and of exchanges between lanes, by pairs of a correct and an incorrect kernel. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { remainingLines, startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";
import { type KernelLaunch, reportsOf } from "./kernel_pairs.ts";

const ptx = new URL("synchronization/barriers.ptx", import.meta.url);
const check = "synchronization";

interface Pair extends KernelLaunch {
  /** The kind of the incorrect kernel's report. */
  readonly kind: string;
  /** A part of its message. */
  readonly says: string;
}

const pairs: Readonly<Record<string, Pair>> = {
  branches: { block: 64, kind: "divergent-barrier", says: "hreads of one warp are at different places" },
  unaligned: {
    block: 64,
    kind: "divergent-barrier",
    says: "Move it out of the condition or the loop, to where every thread of the block reaches it",
  },
  loop: { block: 64, kind: "divergent-barrier", says: "barriers.cu" },
  shuffle_mask: { kind: "wrong-mask", says: "the mask 0xff, which does not name it" },
  vote_mask: { kind: "wrong-mask", says: "ane 3 of a warp" },
  warp_barrier_mask: { kind: "wrong-mask", says: "ane 7 of a warp" },
  absent_lanes: { kind: "deadlock", fails: true, says: "threads 0-15 at" },
  masks_disagree: { kind: "deadlock", fails: true, says: "threads 0-31 at" },
  too_few: { kind: "deadlock", fails: true, says: "threads that have exited do not" },
  other_order: { block: 64, kind: "deadlock", fails: true, says: "threads 0-63 at" },
  counts: { block: 64, kind: "barrier-count", says: "96, and 64" },
  mixed: { block: 64, kind: "mixed-barrier", says: "a GPU stops the kernel" },
};

for (const [name, { kind, says, ...launch }] of Object.entries(pairs)) {
  test(name, () => {
    const right = reportsOf(ptx, `${name}_right`, { ...launch, check, fails: false });
    assertEquals(right.map(({ message }) => message), []);
    const wrong = reportsOf(ptx, `${name}_wrong`, { ...launch, check });
    assertEquals([...new Set(wrong.map(({ kind }) => kind))], [kind]);
    for (const report of wrong) {
      assertEquals(report.check, check);
      assertStringIncludes(report.message, says);
      assert(report.accesses.length > 0);
      for (const { source } of report.accesses) assertStringIncludes(report.message, source!);
    }
  });
}

for (const name of ["exits", "specialized", "divided"]) {
  test(`${name}, which is legal`, () => {
    const block = name === "divided" ? 32 : 64;
    assertEquals(reportsOf(ptx, name, { block, check }).map(({ message }) => message), []);
  });
}

test("blocks that only wait for others are a deadlock", async () => {
  const linesOf = async (...args: string[]) => {
    const env = { POOLPASS_SOFTWARE_STEPS: "300000" };
    await using child = startScript("children/sanitizer/wait_for_blocks.ts", args, { env });
    return (await remainingLines(child)).map((line) => line.trim());
  };
  const [never, unfit, fit] = await Promise.all([linesOf("2", "2"), linesOf("64", "63"), linesOf("32", "31")]);
  assertEquals(fit, ["done"]);
  assertEquals(never[0], "poolpass sanitizer: deadlock");
  assertStringIncludes(never[1]!, "All blocks that run only wait, block (0,0,0) and 1 more, threads 0, ");
  assertStringIncludes(never.join(" "), "and what was to store it");
  assertStringIncludes(unfit.join(" "), "Launch at most 32 blocks, which is how many fit on the device at once");
});
