/**
 * The kernels of random programs. What they write does not depend on the order of blocks and threads.
 *
 * @module
 */

/** How a kernel may be launched. */
export interface KernelTraits {
  /** Whether blocks must have a multiple of 32 threads. */
  readonly hasWarps?: boolean;
  /** Whether the grid and the blocks must have one dimension. */
  readonly isFlat?: boolean;
  /** The size of the dynamic shared memory for each thread of a block, in bytes. */
  readonly sharedPerThread?: number;
  /** The maximum number of blocks. Default: no limit. */
  readonly mostBlocks?: number;
  /** Whether the kernel counts in the first words of its output, which must be 0 before. */
  readonly counts?: boolean;
  /** Whether the kernel writes words of its output that other threads than those of their numbers read. */
  readonly isWide?: boolean;
}

/**
 * Kernels have the parameters `out` and `in`, arrays of `length` words; `n`, the length of their loops; and `k`, a number.
 * `%r0` is the thread's number in the grid, `%r1` in its block, `%r2` the number of threads of the block, `%r3` the
 * number of the block; `%rd1` the address of the thread's word of `out`; `%r5` its word of `in`, then its result.
 */
function kernelOf(name: string, { body, stores = true, traits: { isFlat = false } = {} }: TestKernel): string {
  const place = isFlat
    ? `mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x;`
    : `mov.u32 %r4, %ntid.x; mov.u32 %r6, %ntid.y; mov.u32 %r7, %tid.z; mov.u32 %r8, %tid.y;
mad.lo.u32 %r7, %r7, %r6, %r8; mov.u32 %r8, %tid.x; mad.lo.u32 %r1, %r7, %r4, %r8;
mov.u32 %r7, %ntid.z; mul.lo.u32 %r2, %r4, %r6; mul.lo.u32 %r2, %r2, %r7;
mov.u32 %r4, %nctaid.x; mov.u32 %r6, %nctaid.y; mov.u32 %r7, %ctaid.z; mov.u32 %r8, %ctaid.y;
mad.lo.u32 %r7, %r7, %r6, %r8; mov.u32 %r8, %ctaid.x; mad.lo.u32 %r3, %r7, %r4, %r8;`;
  return `.visible .entry ${name}(.param .u64 out, .param .u64 in, .param .u32 length, .param .u32 n, .param .u32 k) {
.reg .pred %p<8>; .reg .u32 %r<32>; .reg .u64 %rd<16>; .reg .f64 %fd<8>;
.local .align 4 .b8 own[64];
ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [in]; ld.param.u32 %r9, [length];
ld.param.u32 %r10, [n]; ld.param.u32 %r11, [k];
${place}
mad.lo.u32 %r0, %r3, %r2, %r1;
mul.wide.u32 %rd3, %r0, 4; add.u64 %rd1, %rd0, %rd3; add.u64 %rd2, %rd2, %rd3;
add.u32 %r5, %r0, %r11;
setp.lt.u32 %p0, %r0, %r9;
@%p0 ld.global.u32 %r6, [%rd2];
@%p0 add.u32 %r5, %r5, %r6;
${body}
${stores ? "@%p0 st.global.u32 [%rd1], %r5;" : ""}
ret;
}`;
}

/** Steps of a pseudorandom generator, from `%r5`. Their number is in a register, and may be 0. */
const calculate = (count = "%r10") =>
  `mov.u32 %r12, 0;
or.b32 %r5, %r5, 1;
LOOP: setp.ge.u32 %p1, %r12, ${count}; @%p1 bra DONE;
shl.b32 %r13, %r5, 13; xor.b32 %r5, %r5, %r13;
shr.u32 %r13, %r5, 17; xor.b32 %r5, %r5, %r13;
shl.b32 %r13, %r5, 5; xor.b32 %r5, %r5, %r13;
add.u32 %r12, %r12, 1; bra LOOP;
DONE:`;

/** Each thread adds the number of the next thread in the block, through memory at the address of `memory`. */
const exchange = (memory: string) =>
  `mov.u32 %r14, ${memory}; mad.lo.u32 %r15, %r1, 4, %r14; st.shared.u32 [%r15], %r5;
bar.sync 0;
add.u32 %r16, %r1, 1; setp.ge.u32 %p2, %r16, %r2; selp.u32 %r16, 0, %r16, %p2;
mad.lo.u32 %r15, %r16, 4, %r14; ld.shared.u32 %r16, [%r15]; add.u32 %r5, %r5, %r16;
bar.sync 0;`;

/** Combines `%r5` with a word at `%rd4` by the operation that `k` names. */
const combine = ["add.u32", "min.u32", "max.u32", "xor.b32"].map((operation, index) => {
  const use = index % 2 === 0 ? "red.global" : "atom.global";
  return `setp.eq.u32 %p3, %r17, ${index};
@%p3 ${use}.${operation} ${index % 2 === 0 ? "" : "%r18, "}[%rd4], %r5;`;
}).join("\n");

const allocate = `{ .param .b64 size; .param .b64 found;
mov.u64 %rd4, 64; st.param.b64 [size], %rd4; call.uni (found), malloc, (size); ld.param.b64 %rd5, [found]; }
setp.eq.u64 %p3, %rd5, 0; @%p3 trap;
st.u32 [%rd5+60], %r5;`;

const free = `ld.u32 %r5, [%rd5+60];
{ .param .b64 freed; st.param.b64 [freed], %rd5; call.uni free, (freed); }`;

/** Leaves the kernel early in all threads but one of the blocks from the one with the number `k` on. */
const faulty = (fault: string) =>
  `${calculate()}
sub.u32 %r14, %r3, %r11; rem.u32 %r15, %r14, 3; setp.eq.u32 %p2, %r15, 0; setp.ge.and.u32 %p2, %r3, %r11, %p2;
shr.u32 %r14, %r2, 1; setp.eq.and.u32 %p2, %r1, %r14, %p2;
@!%p2 bra RIGHT;
${fault}
RIGHT:`;

interface TestKernel {
  readonly body: string;
  /** Whether each thread stores `%r5` in its word of `out` at the end. Default: true. */
  readonly stores?: boolean;
  readonly traits?: KernelTraits;
}

const kernels: Readonly<Record<string, TestKernel>> = {
  loop: { body: calculate() },
  loopInRows: { body: calculate(), traits: { isFlat: true } },
  diverge: {
    body: `and.b32 %r14, %r5, 7; mul.lo.u32 %r14, %r14, %r10; shr.u32 %r14, %r14, 2;\n${calculate("%r14")}`,
    traits: { isFlat: true },
  },
  exchange: { body: `${calculate()}\n${exchange("fixed")}`, traits: { isFlat: true } },
  exchangeOften: {
    body: `shr.u32 %r10, %r10, 3; mov.u32 %r20, 0;
AGAIN: ${exchange("fixed")}
xor.b32 %r5, %r5, %r20; add.u32 %r20, %r20, 1; setp.lt.u32 %p4, %r20, %r10; @%p4 bra AGAIN;`,
  },
  exchangeDynamic: { body: `${calculate()}\n${exchange("dynamic")}`, traits: { sharedPerThread: 4 } },
  combine: {
    body: `${calculate()}
and.b32 %r17, %r0, 63; mul.wide.u32 %rd4, %r17, 4; add.u64 %rd4, %rd0, %rd4; and.b32 %r17, %r11, 3;
${combine}`,
    stores: false,
    traits: { isWide: true, isFlat: true },
  },
  countShared: {
    body: `${calculate()}
setp.lt.u32 %p2, %r1, 32; mov.u32 %r14, fixed; mad.lo.u32 %r15, %r1, 4, %r14; mov.u32 %r16, 0;
@%p2 st.shared.u32 [%r15], %r16;
bar.sync 0;
and.b32 %r17, %r5, 31; mad.lo.u32 %r17, %r17, 4, %r14; atom.shared.add.u32 %r18, [%r17], %r1;
bar.sync 0;
mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd0, %rd4;
@!%p2 bra LAST; ld.shared.u32 %r18, [%r15]; red.global.add.u32 [%rd4], %r18;
LAST:`,
    stores: false,
    traits: { isWide: true, hasWarps: true },
  },
  allocate: { body: `${allocate}\n${calculate()}\nadd.u32 %r6, %r5, 0;\n${free}\nxor.b32 %r5, %r5, %r6;` },
  shuffle: {
    body: `${calculate()}
shfl.sync.bfly.b32 %r14, %r5, 3, 31, -1; add.u32 %r5, %r5, %r14;
and.b32 %r14, %r5, 1; setp.eq.u32 %p3, %r14, 1; vote.sync.ballot.b32 %r15, %p3, -1; xor.b32 %r5, %r5, %r15;`,
    traits: { hasWarps: true },
  },
  local: {
    body: `mov.u64 %rd4, own; mov.u32 %r14, 0;
FILL: mul.wide.u32 %rd5, %r14, 4; add.u64 %rd5, %rd4, %rd5; st.local.u32 [%rd5], %r5; add.u32 %r5, %r5, 77;
add.u32 %r14, %r14, 1; setp.lt.u32 %p2, %r14, 16; @%p2 bra FILL;
${calculate()}
and.b32 %r14, %r5, 15; mul.wide.u32 %rd5, %r14, 4; add.u64 %rd5, %rd4, %rd5; ld.local.u32 %r14, [%rd5];
add.u32 %r5, %r5, %r14;`,
  },
  meet: {
    body: `${calculate()}
{ .param .b32 given; .param .b32 got; st.param.b32 [given], %r5; call.uni (got), wait, (given);
ld.param.b32 %r5, [got]; }`,
  },
  double: {
    body: `${calculate()}
cvt.rn.f64.u32 %fd0, %r5; sqrt.rn.f64 %fd1, %fd0; fma.rn.f64 %fd0, %fd0, %fd1, 0d3FF8000000000000;
div.rn.f64 %fd0, %fd0, 0d40091EB851EB851F; mov.b64 %rd4, %fd0; cvt.u32.u64 %r5, %rd4;`,
  },
  // The last block to count itself adds what all blocks have left.
  lastBlock: {
    body: `${calculate()}
setp.ne.u32 %p2, %r1, 0; @%p2 bra END;
add.u32 %r14, %r3, 16; setp.ge.u32 %p3, %r14, %r9; @%p3 bra COUNT;
mul.wide.u32 %rd4, %r14, 4; add.u64 %rd4, %rd0, %rd4; st.global.u32 [%rd4], %r5;
COUNT: membar.gl; atom.global.add.u32 %r15, [%rd0], 1;
mov.u32 %r4, %nctaid.x; mov.u32 %r6, %nctaid.y; mov.u32 %r7, %nctaid.z;
mul.lo.u32 %r4, %r4, %r6; mul.lo.u32 %r4, %r4, %r7; sub.u32 %r6, %r4, 1;
setp.ne.u32 %p3, %r15, %r6; @%p3 bra END;
membar.gl; mov.u32 %r16, 16; mov.u32 %r5, 0; add.u32 %r4, %r4, 16; min.u32 %r4, %r4, %r9;
SUM: setp.ge.u32 %p3, %r16, %r4; @%p3 bra SUMMED;
mul.wide.u32 %rd4, %r16, 4; add.u64 %rd4, %rd0, %rd4; ld.global.u32 %r17, [%rd4]; add.u32 %r5, %r5, %r17;
add.u32 %r16, %r16, 1; bra SUM;
SUMMED: st.global.u32 [%rd0+4], %r5;
END:`,
    stores: false,
    traits: { counts: true, isWide: true },
  },
  // Blocks spin until a lock is free.
  lock: {
    body: `${calculate()}
setp.ne.u32 %p2, %r1, 0; @%p2 bra END;
SPIN: atom.global.cas.b32 %r14, [%rd0], 0, 1; setp.ne.u32 %p3, %r14, 0; @%p3 bra SPIN;
membar.gl; ld.volatile.global.u32 %r15, [%rd0+4]; add.u32 %r15, %r15, %r5; st.volatile.global.u32 [%rd0+4], %r15;
membar.gl; atom.global.exch.b32 %r14, [%rd0], 0;
END:`,
    stores: false,
    traits: { counts: true, isWide: true },
  },
  // Each block waits for the one before it.
  chain: {
    body: `${calculate()}
setp.ne.u32 %p2, %r1, 0; @%p2 bra END;
WAIT: ld.acquire.gpu.global.u32 %r14, [%rd0]; setp.ne.u32 %p3, %r14, %r3; @%p3 bra WAIT;
ld.global.u32 %r15, [%rd0+4]; mul.lo.u32 %r15, %r15, 3; xor.b32 %r15, %r15, %r5; st.global.u32 [%rd0+4], %r15;
add.u32 %r14, %r14, 1; st.release.gpu.global.u32 [%rd0], %r14;
END:`,
    stores: false,
    traits: { counts: true, isWide: true },
  },
  // All blocks wait for each other, and then read what others have left.
  meetAll: {
    body: `${calculate()}
mov.u32 %r4, %nctaid.x; mov.u32 %r6, %nctaid.y; mov.u32 %r7, %nctaid.z;
mul.lo.u32 %r4, %r4, %r6; mul.lo.u32 %r4, %r4, %r7;
setp.ne.u32 %p2, %r1, 0; @%p2 bra TOGETHER;
add.u32 %r14, %r3, 16; mul.wide.u32 %rd4, %r14, 4; add.u64 %rd4, %rd0, %rd4; st.global.u32 [%rd4], %r5;
membar.gl; red.global.add.u32 [%rd0], 1;
WAIT: ld.volatile.global.u32 %r14, [%rd0]; setp.lt.u32 %p3, %r14, %r4; @%p3 bra WAIT;
membar.gl;
TOGETHER: bar.sync 0;
add.u32 %r14, %r3, 1; rem.u32 %r14, %r14, %r4; add.u32 %r14, %r14, 16; mul.wide.u32 %rd4, %r14, 4;
add.u64 %rd4, %rd0, %rd4; ld.volatile.global.u32 %r15, [%rd4]; red.global.add.u32 [%rd0+4], %r15;`,
    stores: false,
    traits: { counts: true, isWide: true, mostBlocks: 6 },
  },
};

const faults: Readonly<Record<string, TestKernel>> = {
  writesNowhere: { body: faulty("mov.u64 %rd4, 24; st.global.u32 [%rd4], %r5;") },
  writesPastEnd: {
    body: faulty("mul.wide.u32 %rd4, %r9, 4; add.u64 %rd4, %rd0, %rd4; st.global.u32 [%rd4], %r5;"),
    traits: { isFlat: true },
  },
  traps: { body: faulty("trap;"), traits: { isFlat: true } },
  trapsAfterBarrier: { body: `${exchange("fixed")}\n${faulty("trap;")}` },
  misaligns: { body: faulty("add.u64 %rd4, %rd0, 2; atom.global.add.u32 %r5, [%rd4], %r5;") },
  // Not twice: another thread may be given the block in between.
  freesWithin: { body: faulty(`${allocate}\nadd.u64 %rd5, %rd5, 16;\n${free.replace(/.*\n/, "")}`) },
  loopsForever: {
    body: faulty(`mov.u32 %r14, 1;
FOREVER: add.u32 %r14, %r14, 2; setp.ne.u32 %p4, %r14, 0; @%p4 bra FOREVER;`),
  },
  missesBarrier: { body: faulty("bar.sync 1, 1024;") },
};

/** All kernels, by their names, with how they may be launched. */
export const kernelTraits: ReadonlyMap<string, KernelTraits> = new Map(
  Object.entries({ ...kernels, ...faults }).map(([name, { traits = {} }]) => [name, traits]),
);

/** The names of the kernels of which no block faults. */
export const rightNames: readonly string[] = Object.keys(kernels);

/** The names of the kernels of which some blocks fault: those with the numbers `k`, `k + 3` and so on. */
export const faultNames: readonly string[] = Object.keys(faults);

const header = `.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 found) malloc(.param .b64 size);
.extern .func free(.param .b64 freed);
.shared .align 4 .b8 fixed[4096];
.extern .shared .align 4 .b8 dynamic[];
.func (.param .b32 got) wait(.param .b32 given) {
.reg .u32 %r<3>;
ld.param.b32 %r0, [given]; bar.sync 0; mul.lo.u32 %r0, %r0, 3; bar.sync 0; st.param.b32 [got], %r0; ret;
}`;

/** A module with all kernels. */
export const ptx: string = [
  header,
  ...Object.entries({ ...kernels, ...faults }).map(([name, kernel]) => kernelOf(name, kernel)),
].join("\n");
