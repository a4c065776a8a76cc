/**
 * Kernels whose threads wait for each other, for the compiler's tests.
 *
 * @module
 */
import { allocate, firstBodyLine, load, testModule } from "./compiler_device.ts";

/** How many threads there are, and what they read and write. */
export interface ThreadsOptions {
  readonly block: readonly [x: number, y: number, z: number];
  /** What stands before the kernel. */
  readonly declarations?: string;
  /** Four bytes each, at `%rd1`. */
  readonly input?: ArrayLike<number>;
  /** What each thread may write, in four bytes each: 1 unless given. */
  readonly words?: number;
}

/**
 * The PTX of a kernel around a body, in which `%r0` is the thread's number in its block, `%rd2` where it is to write, and
 * `%rd0` and `%rd1` where what all write and read begins.
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

/** Line of the first line of a body within {@linkcode threadsModule}, where nothing is declared before the kernel. */
export const firstThreadsLine: number = firstBodyLine + 11;

/** Runs one block, and returns what its threads wrote, thread after thread. */
export function runThreads(body: string, options: ThreadsOptions): number[] {
  const { block, input = [], words = 1 } = options;
  const source = allocate(Math.max(4, input.length * 4));
  Array.from(input).forEach((value, index) => source.view.setUint32(index * 4, value, true));
  const count = block[0] * block[1] * block[2] * words;
  const out = allocate(count * 4);
  load(threadsModule(body, options)).run("test", {
    block,
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
  });
  return Array.from({ length: count }, (_, index) => out.view.getUint32(index * 4, true));
}

/** The numbers from 0 on. */
export function upTo<T>(count: number, valueOf: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => valueOf(index));
}
