/**
 * What reports of races say, and the pair of accesses that they show.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { readFileSync } from "node:fs";
import { SanitizerError } from "../../../mod.ts";
import { test } from "../../support/test.ts";
import { type KernelLaunch, reportsOf } from "../kernel_pairs.ts";

const ptx = new URL("advice.ptx", import.meta.url);
const source = readFileSync(new URL("advice.cu", import.meta.url), "utf8").split("\n");

/** `advice.cu:12`, the line of a kernel that begins so. */
function lineOf(kernel: string, text: string): string {
  const begin = source.findIndex((line) => line.startsWith(`KERNEL ${kernel}(`));
  const index = source.findIndex((line, index) => index > begin && line.trim().startsWith(text));
  return `advice.cu:${index + 1}`;
}

/** Launches a kernel, and returns what is wrong and what to do, without the accesses between the two. */
function said(kernel: string, launch: KernelLaunch): string[][] {
  return reportsOf(ptx, kernel, { ...launch, check: "race" }).map(({ message }) => {
    const lines = message.split("\n");
    return [lines[1]!.replace(/^.*at once: /, ""), lines.at(-1)!.trim()];
  });
}

const inBlock = "the threads are in one block, and no barrier stands between them.";
const inWarp = "the threads are in one warp, whose lanes need not run in step, and no barrier stands between them.";
const inGrid = "the threads are in different blocks, and blocks do not wait for one another.";
const byFlag = "the threads are in different blocks, and reading a flag does not order other data without fences.";

test("a loop without a barrier is told by the threads that are farthest from each other", () => {
  assertEquals(said("no_barrier_in_loop", { block: 256 }), [[
    inBlock,
    "Put __syncthreads() at the end of the loop's body, outside of any condition, if the read and the write are in " +
    "different iterations; if they are in the same, read into a variable first, and put __syncthreads() before the " +
    "write.",
  ]]);
});

test("races are counted by pairs of accesses", () => {
  const reports = reportsOf(ptx, "no_barrier", { block: 256, check: "race" });
  assertStringIncludes(
    new SanitizerError(reports).message,
    `${lineOf("no_barrier", "part[t]")} (in 256 pairs of accesses)`,
  );
});

test("a missing barrier is told with the lines that it must stand between", () => {
  const between = (kernel: string) => `${lineOf(kernel, "part[t]")} and ${lineOf(kernel, "out[t]")}`;
  const inLoop = "or at the end of the loop's body if there is one between them already.";
  assertEquals(said("no_barrier", { block: 256 }), [[
    inBlock,
    `Put __syncthreads() between ${between("no_barrier")}, ${inLoop}`,
  ]]);
  assertEquals(said("no_barrier_in_warp", { block: 256 }), [[
    inWarp,
    `Put __syncwarp() between ${between("no_barrier_in_warp")}, ${inLoop}`,
  ]]);
  assertEquals(said("no_barrier", { block: 32 }), [[
    inWarp,
    `Put __syncwarp() (__syncthreads(), if blocks may be larger) between ${between("no_barrier")}, ${inLoop}`,
  ]]);
});

test("atomic operations are advised for what threads read and write back", () => {
  const updates = `${lineOf("count", "out[in")} reads and writes back the same element in several threads`;
  assertEquals(said("count", { grid: 2, block: 64 }), [[
    inGrid,
    `${updates}: use one atomic operation, such as atomicAdd.`,
  ]]);
  assertEquals(said("count", { block: 64 }), [[
    inBlock,
    `${updates}: use one atomic operation, such as atomicAdd.`,
  ]]);
  const lines = `${lineOf("count_in_block", "int old")} and ${lineOf("count_in_block", "bins[in")}`;
  for (const [, advice] of said("count_in_block", { block: 64 })) {
    assertEquals(
      [
        `Several threads read the same element and write it back, at ${lines}: use one atomic operation, such as ` +
        "atomicAdd.",
        `${lineOf("count_in_block", "bins[in")} reads and writes back the same element in several threads: use one ` +
        "atomic operation, such as atomicAdd.",
      ].includes(advice!),
      true,
      advice,
    );
  }
});

test("a plain read beside an atomic operation in its line is told to be needless", () => {
  assertEquals(said("largest", { grid: 2, block: 64 }), [[
    inGrid,
    "Leave out the plain read: the atomic operation looks at the value by itself; or read by an atomic operation.",
  ]]);
});

test("blocks are told that they do not wait for one another", () => {
  assertEquals(said("last_writer", { grid: 2, block: 32 }), [[
    inGrid,
    "Let each block write elements of its own; to combine what several write, use an atomic operation, such as " +
    "atomicAdd or atomicMax.",
  ]]);
  assertEquals(said("shift", { grid: 2, block: 32 }).at(-1), [
    inGrid,
    "Write to other memory than is read, or let a later kernel write.",
  ]);
  const lines = `${lineOf("two_steps", "out[i]")} and ${lineOf("two_steps", "out[n + i]")}`;
  assertEquals(said("two_steps", { grid: 2, block: 32 }), [[
    inGrid,
    `Let ${lines} be in two kernels, or, in a cooperative launch, put grid.sync() between them.`,
  ]]);
});

test("a flag without fences is told which fences it needs", () => {
  assertEquals(said("flag", { grid: 2, block: 1 }), [[
    byFlag,
    "If a flag tells that the data is there, the writer needs __threadfence() between writing the data " +
    `(${
      lineOf("flag", "out[1]")
    }) and setting the flag, and the reader needs __threadfence() between seeing the flag ` +
    `and reading the data (${lineOf("flag", "out[2]")}): both are needed. Or make the flag a cuda::atomic_ref with ` +
    "store and load.",
  ]]);
  assertEquals(said("lock", { grid: 2, block: 1 }), [[
    byFlag,
    `${lineOf("lock", "out[1]")} reads and writes back the same element in several threads: use one atomic ` +
    "operation, such as atomicAdd. If a lock protects the element, it needs __threadfence() after it is taken, and " +
    "before it is released.",
  ]]);
});
