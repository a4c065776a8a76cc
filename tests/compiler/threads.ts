/**
 * Kernels whose threads wait for each other, for the compiler's tests.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { allocate, firstBodyLine, load, testModule } from "./compiler_device.ts";
import { isLong } from "../support/test.ts";

/** The number of threads, and what they read and write. */
export interface ThreadsOptions {
  readonly block: readonly [x: number, y: number, z: number];
  /** Declarations before the kernel. */
  readonly declarations?: string;
  /** 32-bit numbers, at `%rd1`. */
  readonly input?: ArrayLike<number>;
  /** How many 32-bit numbers each thread may write. Default: 1. */
  readonly words?: number;
}

/**
 * The PTX of a kernel around a body. In the body, `%r0` is the thread's number in its block, `%rd2` the address where
 * the thread writes, and `%rd0` and `%rd1` the start of all output and input.
 */
export function threadsModule(body: string, { declarations = "", words = 1 }: Partial<ThreadsOptions> = {}): string {
  return testModule(`
  mov.u32 %r0, %tid.z;
  mov.u32 %r1, %ntid.y;
  mov.u32 %r2, %tid.y;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  mul.wide.u32 %rd2, %r0, ${4 * words};
  add.u64 %rd2, %rd0, %rd2;
${body}`).replace(".visible", `${declarations}\n.visible`);
}

/** The line of a body's first line in {@linkcode threadsModule} without declarations. */
export const firstThreadsLine: number = firstBodyLine + 11;

/** The size of the parts into which kernels are divided: so small that almost every loop and branch spans several. */
const partBytes = 300;

let runs = 0;

/**
 * Runs one block, and returns what its threads wrote, thread after thread. Runs some kernels again, and in the long run
 * all of them, divided into parts as large kernels are, and checks that their threads write the same.
 */
export function runThreads(body: string, options: ThreadsOptions): number[] {
  const written = runOnce(body, options);
  if (!isLong && runs++ % 4 !== 0) return written;
  assertEquals(runOnce(body, options, partBytes), written, "The divided kernel writes something else");
  return written;
}

function runOnce(body: string, options: ThreadsOptions, partBytes?: number): number[] {
  const { block, input = [], words = 1 } = options;
  const source = allocate(Math.max(4, input.length * 4));
  Array.from(input).forEach((value, index) => source.view.setUint32(index * 4, value, true));
  const count = block[0] * block[1] * block[2] * words;
  const out = allocate(count * 4);
  load(threadsModule(body, options), { partBytes }).run("test", {
    block,
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
  });
  return Array.from({ length: count }, (_, index) => out.view.getUint32(index * 4, true));
}

/** The values for the numbers from 0 on. */
export function upTo<T>(count: number, valueOf: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => valueOf(index));
}
