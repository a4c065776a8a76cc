/**
 * Writes the text of kernels of any length.
 *
 * @module
 */

/** A way to grow a module. */
export interface KernelShape {
  readonly name: string;
  /** The lines of the kernel's body, or of the whole module. About `lines`. */
  write(lines: number): KernelText;
}

/** A module's text, and the kernel to launch. It takes a pointer and a count, and does nothing if the count is 0. */
export interface KernelText {
  readonly ptx: string;
  readonly kernel: string;
}

export const header = ".version 9.0\n.target sm_75\n.address_size 64\n";
const registers = `.reg .pred %p<100000>;
.reg .b32 %r<200000>;
.reg .f32 %f<200000>;
.reg .f64 %fd<200000>;
.reg .b64 %rd<100000>;`;

/** The kernel `shape`, with the thread's index in %r1, the count in %r2, and the pointer to the thread's number in %rd1. */
export function kernelOf(
  body: readonly string[],
  { functions = [], name = "shape", last = "%r1" }: {
    functions?: readonly string[];
    name?: string;
    last?: string;
  } = {},
): string {
  return [
    ...functions,
    `.visible .entry ${name}(.param .u64 a, .param .u32 n) {`,
    registers,
    "mov.u32 %r3, %ctaid.x;",
    "mov.u32 %r4, %ntid.x;",
    "mov.u32 %r5, %tid.x;",
    "mad.lo.s32 %r1, %r3, %r4, %r5;",
    "ld.param.u32 %r2, [n];",
    "setp.eq.s32 %p1, %r2, 0;",
    "@%p1 bra DONE;",
    "ld.param.u64 %rd2, [a];",
    "mul.wide.u32 %rd3, %r1, 4;",
    "add.s64 %rd1, %rd2, %rd3;",
    "ld.global.u32 %r6, [%rd1];",
    ...body,
    `st.global.u32 [%rd1], ${last};`,
    "DONE: ret;",
    "}",
  ].join("\n");
}

/** A kernel of repeated parts of `each` lines. `%r6` and the 40 numbers before `first` may be read by the first part. */
export function repeated(
  lines: number,
  { each, write, ...options }: {
    each: number;
    write: (part: number, parts: number) => readonly string[];
    functions?: readonly string[];
    last?: (parts: number) => string;
  },
): KernelText {
  const parts = Math.max(1, Math.round(lines / each));
  const body: string[] = [];
  for (let part = 0; part < parts; part++) for (const line of write(part, parts)) body.push(line);
  const { functions, last } = options;
  return {
    ptx: header + kernelOf(body, { ...functions && { functions }, ...last && { last: last(parts) } }),
    kernel: "shape",
  };
}

/** A module of one kernel. */
export function module(text: string): KernelText {
  return { ptx: header + text, kernel: "shape" };
}
