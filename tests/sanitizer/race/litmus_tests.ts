/**
 * Litmus tests: programs of two or three threads, and whether they have a race.
 *
 * The threads run in the order in which they are listed, so that the later ones see what the earlier ones have stored.
 *
 * @module
 */

/** A litmus test. */
export interface LitmusTest {
  /** As `docs/sanitizer/race.md` names it. */
  readonly name: string;
  /** Where the threads are: in blocks, in warps of one block, or in one warp. */
  readonly threads: "blocks" | "warps" | "lanes";
  /**
   * What each thread does, in PTX. `%rd1` and `%rd2` are the addresses of two words of global memory, which are 0 at first
   * and a cache line apart; `%r0` is a register for results, as are `%r1` and `%rd0`. `shared` is a word of shared memory.
   */
  readonly programs: readonly string[];
  /** The kind of race. Undefined for none. */
  readonly race?: "shared-race" | "global-race" | "insufficient-scope" | "unfinished-copy" | "non-coherent-read";
}

const set = "st.global.u32 [%rd1], 5;";
const get = "ld.global.u32 %r0, [%rd1];";

/** A loop that loads from an address until the value is not 0. */
function poll(space: "shared" | "global", address: string): string {
  return `again: ld.volatile.${space}.u32 %r1, [${address}]; setp.eq.u32 %p0, %r1, 0; @%p0 bra again;`;
}

/** All of them, in the order of the page. */
export const litmusTests: readonly LitmusTest[] = [
  {
    name: "weak stores of different values",
    threads: "blocks",
    programs: [set, "st.global.u32 [%rd1], 6;"],
    race: "global-race",
  },
  { name: "weak stores of the same value", threads: "blocks", programs: [set, set] },
  { name: "a weak store and a weak load", threads: "blocks", programs: [set, get], race: "global-race" },
  {
    name: "a weak load and a store of the value that is there",
    threads: "blocks",
    programs: [get, "st.global.u32 [%rd1], 0;"],
    race: "global-race",
  },
  { name: "neighboring bytes", threads: "lanes", programs: ["st.global.u8 [%rd1], 5;", "st.global.u8 [%rd1+1], 6;"] },
  {
    name: "volatile store and volatile load",
    threads: "blocks",
    programs: ["st.volatile.global.u32 [%rd1], 5;", "ld.volatile.global.u32 %r0, [%rd1];"],
  },
  {
    name: "volatile store and volatile load, of a warp's shared memory",
    threads: "lanes",
    programs: ["st.volatile.shared.u32 [shared], 5;", "ld.volatile.shared.u32 %r0, [shared];"],
  },
  {
    name: "volatile store and volatile load, of shared memory",
    threads: "warps",
    programs: ["st.volatile.shared.u32 [shared], 5;", "ld.volatile.shared.u32 %r0, [shared];"],
    race: "shared-race",
  },
  {
    name: "relaxed store and relaxed load, of shared memory",
    threads: "warps",
    programs: ["st.relaxed.cta.shared.u32 [shared], 5;", "ld.relaxed.cta.shared.u32 %r0, [shared];"],
  },
  {
    name: "volatile store, and volatile loads that poll",
    threads: "warps",
    programs: ["st.volatile.shared.u32 [shared], 5;", poll("shared", "shared")],
  },
  {
    name: "volatile store and weak load",
    threads: "blocks",
    programs: ["st.volatile.global.u32 [%rd1], 5;", get],
    race: "global-race",
  },
  {
    name: "relaxed atomics",
    threads: "blocks",
    programs: ["red.relaxed.gpu.global.add.u32 [%rd1], 1;", "atom.relaxed.gpu.global.add.u32 %r0, [%rd1], 1;"],
  },
  {
    name: "an atomic and the weak load of a first guess",
    threads: "blocks",
    programs: ["red.global.add.u32 [%rd1], 1;", get],
    race: "global-race",
  },
  {
    name: "atomics of 4 and of 8 bytes",
    threads: "blocks",
    programs: ["red.global.add.u32 [%rd1], 1;", "red.global.add.u64 [%rd1], 1;"],
    race: "global-race",
  },
  {
    name: "volatile accesses of 4 and of 2 bytes",
    threads: "blocks",
    programs: ["st.volatile.global.u32 [%rd1], 1;", "ld.volatile.global.u16 %r0, [%rd1];"],
    race: "global-race",
  },
  {
    name: "atomics in the scope of the block, in two blocks",
    threads: "blocks",
    programs: ["red.relaxed.cta.global.add.u32 [%rd1], 1;", "red.relaxed.cta.global.add.u32 [%rd1], 1;"],
    race: "insufficient-scope",
  },
  {
    name: "atomics in the scope of the block, in one block",
    threads: "warps",
    programs: ["red.relaxed.cta.global.add.u32 [%rd1], 1;", "red.relaxed.cta.global.add.u32 [%rd1], 1;"],
  },
  {
    name: "release and acquire",
    threads: "blocks",
    programs: [`${set} st.release.gpu.global.u32 [%rd2], 1;`, `ld.acquire.gpu.global.u32 %r1, [%rd2]; ${get}`],
  },
  {
    name: "release and acquire in the scope of the block, in two blocks",
    threads: "blocks",
    programs: [`${set} st.release.cta.global.u32 [%rd2], 1;`, `ld.acquire.cta.global.u32 %r1, [%rd2]; ${get}`],
    race: "insufficient-scope",
  },
  {
    name: "release and acquire in the scope of the block, in one block",
    threads: "warps",
    programs: [`${set} st.release.cta.global.u32 [%rd2], 1;`, `ld.acquire.cta.global.u32 %r1, [%rd2]; ${get}`],
  },
  {
    name: "release, and a relaxed load",
    threads: "blocks",
    programs: [`${set} st.release.gpu.global.u32 [%rd2], 1;`, `ld.relaxed.gpu.global.u32 %r1, [%rd2]; ${get}`],
    race: "global-race",
  },
  {
    name: "a relaxed store, and acquire",
    threads: "blocks",
    programs: [`${set} st.relaxed.gpu.global.u32 [%rd2], 1;`, `ld.acquire.gpu.global.u32 %r1, [%rd2]; ${get}`],
    race: "global-race",
  },
  {
    name: "release at one place, acquire at another",
    threads: "blocks",
    programs: [`${set} st.release.gpu.global.u32 [%rd2], 1;`, `ld.acquire.gpu.global.u32 %r1, [%rd2+4]; ${get}`],
    race: "global-race",
  },
  {
    name: "fences around a volatile flag",
    threads: "blocks",
    programs: [
      `${set} membar.gl; st.volatile.global.u32 [%rd2], 1;`,
      `ld.volatile.global.u32 %r1, [%rd2]; membar.gl; ${get}`,
    ],
  },
  {
    name: "a volatile flag, polled without a fence behind it",
    threads: "blocks",
    programs: [`${set} membar.gl; st.volatile.global.u32 [%rd2], 1;`, `ld.volatile.global.u32 %r1, [%rd2]; ${get}`],
    race: "global-race",
  },
  {
    name: "fences around a volatile flag, and volatile data in shared memory",
    threads: "warps",
    programs: [
      "st.volatile.shared.u32 [shared], 5; membar.cta; st.volatile.global.u32 [%rd2], 1;",
      `${poll("global", "%rd2")} membar.cta; ld.volatile.shared.u32 %r0, [shared];`,
    ],
  },
  {
    name: "a volatile flag without a fence behind it, and volatile data in shared memory",
    threads: "warps",
    programs: [
      "st.volatile.shared.u32 [shared], 5; membar.cta; st.volatile.global.u32 [%rd2], 1;",
      `${poll("global", "%rd2")} ld.volatile.shared.u32 %r0, [shared];`,
    ],
    race: "shared-race",
  },
  {
    name: "fences around a weak flag",
    threads: "blocks",
    programs: [`${set} membar.gl; st.global.u32 [%rd2], 1;`, `ld.global.u32 %r1, [%rd2]; membar.gl; ${get}`],
    race: "global-race",
  },
  {
    name: "a fence of the block, between blocks",
    threads: "blocks",
    programs: [
      `${set} membar.cta; st.volatile.global.u32 [%rd2], 1;`,
      `ld.volatile.global.u32 %r1, [%rd2]; membar.gl; ${get}`,
    ],
    race: "insufficient-scope",
  },
  {
    name: "an atomic between release and acquire",
    threads: "blocks",
    programs: [
      `${set} st.release.gpu.global.u32 [%rd2], 1;`,
      "red.relaxed.gpu.global.add.u32 [%rd2], 1;",
      `ld.acquire.gpu.global.u32 %r1, [%rd2]; ${get}`,
    ],
  },
  {
    name: "a store between release and acquire",
    threads: "blocks",
    programs: [
      `${set} st.release.gpu.global.u32 [%rd2], 1;`,
      "st.relaxed.gpu.global.u32 [%rd2], 2;",
      `ld.acquire.gpu.global.u32 %r1, [%rd2]; ${get}`,
    ],
    race: "global-race",
  },
  {
    name: "a weak store behind an own atomic, the last of all",
    threads: "blocks",
    programs: [
      "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r0, [%rd1], 1;",
      "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r0, [%rd1], 1; st.global.u32 [%rd1], 0;",
    ],
  },
  {
    name: "a weak store behind an own atomic, and another's atomic",
    threads: "blocks",
    programs: [
      "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r0, [%rd1], 1; st.global.u32 [%rd1], 0;",
      "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r0, [%rd1], 1;",
    ],
    race: "global-race",
  },
  {
    name: "two releases and acquisitions in a row",
    threads: "blocks",
    programs: [
      `${set} st.release.gpu.global.u32 [%rd2], 1;`,
      "ld.acquire.gpu.global.u32 %r1, [%rd2]; st.release.gpu.global.u32 [%rd2+8], 1;",
      `ld.acquire.gpu.global.u32 %r1, [%rd2+8]; ${get}`,
    ],
  },
  { name: "a barrier, in one block", threads: "warps", programs: [`${set} bar.sync 0;`, `bar.sync 0; ${get}`] },
  {
    name: "a barrier, in two blocks",
    threads: "blocks",
    programs: [`${set} bar.sync 0;`, `bar.sync 0; ${get}`],
    race: "global-race",
  },
  {
    name: "lanes of a warp, one after another",
    threads: "lanes",
    programs: ["st.shared.u32 [shared], 5;", "ld.shared.u32 %r0, [shared];"],
    race: "shared-race",
  },
  {
    name: "a warp's barrier",
    threads: "lanes",
    programs: ["st.shared.u32 [shared], 5; bar.warp.sync 3;", "bar.warp.sync 3; ld.shared.u32 %r0, [shared];"],
  },
  {
    name: "a shuffle",
    threads: "lanes",
    programs: [
      "st.shared.u32 [shared], 5; shfl.sync.bfly.b32 %r1, %r0, 1, 31, 3;",
      "shfl.sync.bfly.b32 %r1, %r0, 1, 31, 3; ld.shared.u32 %r0, [shared];",
    ],
    race: "shared-race",
  },
  {
    name: "a copy that is waited for before the barrier",
    threads: "warps",
    programs: [
      "cp.async.ca.shared.global [shared], [%rd1], 4; cp.async.wait_all; bar.sync 0;",
      "bar.sync 0; ld.shared.u32 %r0, [shared];",
    ],
  },
  {
    name: "a copy that is not waited for",
    threads: "warps",
    programs: [
      "cp.async.ca.shared.global [shared], [%rd1], 4; bar.sync 0;",
      "bar.sync 0; ld.shared.u32 %r0, [shared];",
    ],
    race: "unfinished-copy",
  },
  {
    name: "a copy, read by the thread that copies",
    threads: "lanes",
    programs: ["cp.async.ca.shared.global [shared], [%rd1], 4; ld.shared.u32 %r0, [shared];"],
    race: "unfinished-copy",
  },
  {
    name: "a load that is not coherent, behind a barrier",
    threads: "warps",
    programs: [`${set} bar.sync 0;`, "bar.sync 0; ld.global.nc.u32 %r0, [%rd1];"],
    race: "non-coherent-read",
  },
  {
    name: "loads that are not coherent, of what nothing writes",
    threads: "blocks",
    programs: ["ld.global.nc.u32 %r0, [%rd1];", "ld.global.nc.u32 %r0, [%rd1];"],
  },
];

const perBlock = { blocks: 1, warps: 32, lanes: 1 } as const;

/** The PTX of a litmus test, whose kernel `test` takes an array, another one, and a number. */
export function ptxOf({ threads, programs }: LitmusTest): string {
  const index = threads === "blocks" ? "%ctaid.x" : "%tid.x";
  const branches = programs.map((program, thread) => `
  setp.ne.u32 %p0, %r2, ${thread * perBlock[threads]};
  @%p0 bra next${thread};
  ${program.replaceAll("; ", ";\n  ")}
next${thread}:`).join("");
  return `.version 8.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 in, .param .u64 out, .param .u32 count)
{
  .reg .pred %p<1>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  .shared .align 4 .b32 shared;
  ld.param.u64 %rd1, [out];
  add.u64 %rd2, %rd1, 128;
  mov.u32 %r0, 0;
  mov.u32 %r2, ${index};${branches}
  ret;
}
`;
}
