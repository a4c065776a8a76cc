/**
 * What random programs and single operations do not cover, and why.
 *
 * @module
 */

/** Instructions of the software device whose results are not compared here, and why. */
export interface Exclusion {
  /** The instructions. Default: all instructions. */
  readonly opcodes?: readonly string[];
  /** Excludes only these modifiers, and forms that cannot be written without one of them. */
  readonly modifiers?: readonly string[];
  readonly reason: string;
}

/** Every exclusion. */
export const exclusions: readonly Exclusion[] = [
  {
    opcodes: ["tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"],
    reason: "textures: tests/objects/textures has uses of every kind, which are compared on a GPU, too",
  },
  {
    opcodes: ["sin", "cos", "lg2", "ex2", "tanh", "rsqrt"],
    reason: "approximate: PTX bounds the error and leaves the bits open",
  },
  { modifiers: ["approx", "full"], reason: "approximate: PTX bounds the error and leaves the bits open" },
  {
    opcodes: ["ld", "ldu", "st"],
    reason: "memory: a thread's own memory is compared in each space and width; hints, orders and addresses do not " +
      "change the bits",
  },
  {
    opcodes: ["mov"],
    modifiers: ["v2", "v4"],
    reason:
      "the same as several instructions without it, and its results are compared with those in the compiler's tests",
  },
  {
    opcodes: ["atom", "red"],
    modifiers: [
      ...["relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"],
      ...["shared::cta", "shared::cluster", "L2::cache_hint"],
    ],
    reason: "memory: orders, scopes and hints do not change the bits in a thread's own memory",
  },
  {
    opcodes: ["cvt"],
    modifiers: ["satfinite"],
    reason: "with .rn or .rz to .tf32 it needs sm_100; all other types are compared",
  },
  {
    opcodes: [
      ...["prefetch", "prefetchu", "applypriority", "discard", "createpolicy", "membar", "fence", "griddepcontrol"],
      ...["nanosleep", "pmevent", "setmaxnreg"],
    ],
    reason: "they have no result, or none that PTX specifies",
  },
  {
    opcodes: ["set"],
    modifiers: ["gt"],
    reason: "it is compared with every other type of result; for integers with a result of .f16 or .bf16, the other " +
      "comparisons are",
  },
  {
    modifiers: ["b128"],
    reason: "moves and swaps of 16 bytes: tests/compiler/instructions/wide_test.ts compares them",
  },
  {
    opcodes: ["ldmatrix", "stmatrix", "movmatrix"],
    reason:
      "they need whole warps, and rows in shared memory: tests/compiler/matrices_test.ts follows the manual, and " +
      "Triton's kernels in tests/corpus use them",
  },
  {
    opcodes: ["mma", "wmma", "wgmma"],
    reason: "they need whole warps: tests/compiler/tensor_cores has every form, with results that a GPU recorded",
  },
  {
    opcodes: ["fma"],
    modifiers: ["oob"],
    reason: "its operands stand for elements outside of tensors: tests/objects/tensor_map_test.ts compares them",
  },
  { opcodes: ["cp", "tensormap"], reason: "memory: copies and prefetches do not change the bits" },
  {
    opcodes: ["red"],
    modifiers: ["async", "mbarrier::complete_tx::bytes"],
    reason: "they update memory as red does, and tests/compiler/instructions/bulk_copies_test.ts compares them with it",
  },
  {
    opcodes: ["cvta", "isspacep", "alloca", "stacksave", "stackrestore", "mapa", "getctarank"],
    reason: "addresses differ between devices",
  },
  {
    opcodes: ["vshl", "vshr"],
    modifiers: ["max"],
    reason:
      "the second operation of shifts is compared as .add and .min; the code that ptxas writes for .max differs " +
      "from that for .min in its comparisons only",
  },
  { opcodes: ["bra", "brx", "ret"], modifiers: ["uni"], reason: "control: a promise to the compiler" },
  { opcodes: ["call"], reason: "control: the kernels of tests/corpus use it" },
  { opcodes: ["trap", "brkpt"], reason: "control: it ends the kernel with an error" },
  { opcodes: ["activemask"], reason: "the machine decides which threads are converged" },
  { opcodes: ["mbarrier"], reason: "PTX leaves the bits of barriers open" },
  { opcodes: ["elect"], reason: "the machine decides which thread is elected" },
  {
    opcodes: ["bar", "barrier"],
    modifiers: ["arrive", "cta", "cluster", "aligned", "warp"],
    reason: "they have no result, or are another spelling of what is compared",
  },
];

/** What is compared only in part, so that bits that PTX does not specify never show: what, how and why. */
export const masked: readonly string[] = [
  "NaNs in programs: all NaNs are replaced by one, because the driver's compiler exchanges and merges operands; in " +
  "every fourth seed only after abs, neg, min, max and 64-bit arithmetic. Single operations show the bits of every NaN",
  "Immediates in programs: no NaN and no divisor, because the driver's compiler may compute with them itself; no " +
  "amount of a 16-bit shift that needs more than 16 bits, because that compiler uses the lower 16 bits",
  "set and testp in programs: without a guard, because the driver's compiler splits them and executes a part without " +
  "the guard",
  "Loops with two entries: the iteration count is unknown at compile time, because the driver's compiler runs one " +
  "iteration fewer if it is known",
  "Float add, sub and mul: always with a rounding modifier, because they may be fused without one",
  "mul24 and mad24: 24-bit operands, because PTX does not say that higher bits are ignored; an H200 ignores them",
  "fns: from a bit of the register, because other positions are undefined: an H200 and the software device find " +
  "nothing there",
  "cvt to tf32: without the low 13 bits, because PTX does not say that they are zero; on an H200 they are",
  "shfl, vote, match, redux and barriers: executed by all threads that they name, at places that all threads reach",
  "Atomic operations on contended memory: without their results, and only those that do not depend on the order",
  "brx.idx: an index within the table",
];
