/**
 * What random programs and single operations do not try, and why.
 *
 * @module
 */

/** Some of the instructions that the software device knows, and why their results are not compared here. */
export interface Exclusion {
  /** The instructions; all, where only modifiers are given. */
  readonly opcodes?: readonly string[];
  /** Only with these modifiers, or in forms that must have one of them. */
  readonly modifiers?: readonly string[];
  readonly reason: string;
}

/** All of them. */
export const exclusions: readonly Exclusion[] = [
  {
    opcodes: ["sin", "cos", "lg2", "ex2", "tanh", "rsqrt"],
    reason: "approximate: PTX bounds the error and leaves the bits open",
  },
  { modifiers: ["approx", "full"], reason: "approximate: PTX bounds the error and leaves the bits open" },
  {
    opcodes: ["ld", "ldu", "st"],
    reason: "memory: the thread's own is tried in each space and width; hints, orders and addresses give no other bits",
  },
  {
    opcodes: ["atom", "red"],
    modifiers: ["relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "shared::cta"],
    reason: "memory: orders and scopes give a thread's own memory no other bits",
  },
  {
    opcodes: ["cvt"],
    modifiers: ["satfinite"],
    reason: "with .rn or .rz to .tf32 it needs sm_100; to all other types it is tried",
  },
  {
    opcodes: ["prefetch", "prefetchu", "applypriority", "discard", "membar", "fence", "nanosleep", "pmevent", "brkpt"],
    reason: "they have no result",
  },
  {
    opcodes: ["set"],
    modifiers: ["gt"],
    reason:
      "it is tried with every other result; of integers with a result of .f16 or .bf16, the other comparisons are",
  },
  { opcodes: ["cp"], reason: "memory: copies have the bits of what they copy" },
  {
    opcodes: ["cvta", "isspacep", "alloca", "stacksave", "stackrestore"],
    reason: "addresses differ from device to device",
  },
  { opcodes: ["bra", "brx", "ret"], modifiers: ["uni"], reason: "control: a promise to the compiler" },
  { opcodes: ["call"], reason: "control: the kernels of tests/corpus call" },
  { opcodes: ["trap"], reason: "control: it ends the kernel with an error" },
  { opcodes: ["activemask"], reason: "which threads are together is up to the machine" },
  {
    opcodes: ["bar", "barrier"],
    modifiers: ["arrive", "cta", "aligned", "warp"],
    reason: "they have no result, or are another way to write what is tried",
  },
];

/** What is tried in a way that keeps out of sight, or out of the operands, what PTX leaves open: what, how and why. */
export const masked: readonly string[] = [
  "The bits of a NaN in programs: one NaN is put for all, because the driver's compiler exchanges and merges operands; " +
  "in every fourth seed after abs, neg, min, max and arithmetic of 64 bits alone. Single operations show them all",
  "Immediates of programs: no NaN, no divisor, because the driver's compiler may compute with them itself, and no " +
  "amount of a shift of 16 bits that needs more bits, because it takes the lower 16",
  "set and testp in programs: without a guard, because the driver's compiler takes them apart and does a part without it",
  "Loops of two entries: how often they go round is not known when they are compiled, because the driver's compiler " +
  "goes round once less where it is",
  "Float add, sub and mul: always with a rounding modifier, without which they may be fused",
  "mul24 and mad24: operands of 24 bits, because what stands above is not said to be ignored; an H200 ignores it",
  "fns: from a bit of the register, because others are not defined; on an H200 as on the software device nothing is found",
  "cvt to tf32: without the low 13 bits, which are not said to be zero; on an H200 they are",
  "shfl, vote, match, redux and barriers: by all threads that they name, and where all threads come by",
  "Atomic operations on common memory: no result, and only such as come to the same in any order",
  "brx.idx: an index within the table",
];
