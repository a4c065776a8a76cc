/**
 * The rows of control flow, barriers and exchanges among threads, clusters, the stack and hints.
 *
 * @module
 */
import { type InstructionRow, type InstructionTraits, pure } from "../instruction_traits.ts";
import { onFirstUse, orderingFence, performanceHint, row, type Rows } from "./row.ts";

type Barriers = `${"bar" | "barrier"}.${"sync" | "arrive" | "red"}` | "bar.warp.sync";
type Exchanges = "shfl" | "vote" | "match" | "activemask" | "redux" | "elect";
type Matrices = "ldmatrix" | "stmatrix" | "movmatrix";
type Clusters = "mapa" | "getctarank" | "barrier.cluster.arrive" | "barrier.cluster.wait";
type Updates = "init" | "inval" | "expect_tx" | "complete_tx" | "arrive" | "arrive_drop";
type MemoryBarriers = `mbarrier.${Updates | "test_wait" | "pending_count"}` | "cp.async.mbarrier";

/** The names of the instruction table's rows for control flow. */
export type ControlFlowName = "bra" | "brx" | "call" | "ret" | "exit";

/** The names of the instruction table's rows for barriers, and for exchanges of values among threads. */
export type SynchronizationName =
  | Barriers
  | Exchanges
  | Matrices
  | Clusters
  | MemoryBarriers
  | "griddepcontrol"
  | "nanosleep";

/** The names of the instruction table's rows for stack and miscellaneous instructions. */
export type MiscellaneousName = "stacksave" | "stackrestore" | "alloca" | "brkpt" | "pmevent" | "trap" | "setmaxnreg";

/**
 * The traits of control-flow instructions. The property `flow` of a row states how the instruction affects control
 * flow.
 */
const control: InstructionTraits = { effects: [], runsInGangs: true };

/** Returns the instruction table's rows for control flow. */
export const controlFlowRows: () => Rows<ControlFlowName> = onFirstUse((): Rows<ControlFlowName> => ({
  bra: row("bra.uni? target", "9.7.12.3", control, "branch"),
  brx: row("brx.idx.uni? index, targets", "9.7.12.4", { effects: [] }, "switch"),
  call: row(
    "call.uni? [x, y, z, w]",
    "9.7.12.5",
    { effects: ["reads", "observes", "writes"], synchronization: "lanes" },
    "call",
  ),
  ret: row("ret.uni?", "9.7.12.6", control, "return"),
  exit: row("exit", "9.7.12.7", control, "exit"),
}));

const matrices = "<matrices:x1|x2|x4>.trans?.<space:shared|shared::cta>?";

/**
 * The traits of instructions that suspend a thread until other threads reach the same barrier or exchange. A suspended
 * thread does not spin. A gang diverges at these instructions, and reconverges only if its uniform registers still have
 * the same values in all threads.
 */
const waiting: InstructionTraits = { effects: [], isUniform: true, runsInGangs: true };
const barrier: InstructionTraits = { ...waiting, synchronization: "threads" };
const blockBarrier: InstructionTraits = { ...waiting, synchronization: "block" };
/** The traits of an exchange among the lanes of a warp. */
const exchange: InstructionTraits = { ...waiting, synchronization: "lanes" };
/** The traits of an exchange in which a lane may read from a lane that does not participate. */
const fromLanes: InstructionTraits = { ...exchange, mayBeUndefined: true };

/** The traits of exchanges of matrices, whose results differ between threads with the same operands. */
const ofMatrices: InstructionTraits = { effects: [], access: "shared", synchronization: "lanes", runsInGangs: true };

const sharedSpace = "<space:shared|shared::cta>?";
const clusterSpace = "<space:shared|shared::cta|shared::cluster>?";
/** Returns the alternatives for the memory order in a syntax: none, or one of `semantics` with a scope. */
const ordered = (semantics: string) => ["", `.<semantics:${semantics}>.<scope:cta|cluster>`];
/** The traits of all `mbarrier` instructions: the barrier object is in shared memory. */
const memoryBarrier: InstructionTraits = { access: "shared", synchronization: "lanes" };
/** The traits of `mbarrier` instructions that each thread must execute. */
const updates: InstructionTraits = {
  ...memoryBarrier,
  effects: ["reads", "observes", "writes"],
  runsInGangs: true,
};
const initializes: InstructionTraits = { ...pure, ...memoryBarrier, effects: ["writes"] };
const tests: InstructionTraits = { ...pure, ...memoryBarrier, effects: ["reads", "observes"] };

/** Returns the instruction table's rows for barriers, and for exchanges of values among threads. */
export const synchronizationRows: () => Rows<SynchronizationName> = onFirstUse((): Rows<SynchronizationName> => ({
  "barrier.sync": row("barrier.cta?.sync.aligned? a [, b]", "9.7.13.1", blockBarrier),
  "barrier.arrive": row("barrier.cta?.arrive.aligned? a, b", "9.7.13.1", barrier),
  "barrier.red": [
    row("barrier.cta?.red.<operation:popc>.aligned?.u32 d, a, p [, q]", "9.7.13.1", barrier),
    row("barrier.cta?.red.<operation:and|or>.aligned?.pred d, a, p [, q]", "9.7.13.1", barrier),
  ],
  "bar.sync": row("bar.cta?.sync a [, b]", "9.7.13.1", blockBarrier),
  "bar.arrive": row("bar.cta?.arrive a, b", "9.7.13.1", barrier),
  "bar.red": [
    row("bar.cta?.red.<operation:popc>.u32 d, a, p [, q]", "9.7.13.1", barrier),
    row("bar.cta?.red.<operation:and|or>.pred d, a, p [, q]", "9.7.13.1", barrier),
  ],
  "bar.warp.sync": row("bar.warp.sync membermask", "9.7.13.2", exchange),
  shfl: [
    row("shfl.sync.<mode:up|down|bfly|idx>.b32 d, a, b, c, membermask", "9.7.9.6", fromLanes),
    row("shfl.<mode:up|down|bfly|idx>.b32 d, a, b, c", "9.7.9.5", { ...fromLanes, ofActiveLanes: true }),
  ],
  ldmatrix: row(`ldmatrix.sync.aligned.m8n8.${matrices}.b16 d, [a]`, "9.7.14.5.15", {
    ...ofMatrices,
    effects: ["reads", "observes"],
    runsInGangs: false,
  }),
  stmatrix: row(`stmatrix.sync.aligned.m8n8.${matrices}.b16 [a], b`, "9.7.14.5.16", {
    ...ofMatrices,
    effects: ["writes"],
  }),
  movmatrix: row("movmatrix.sync.aligned.m8n8.trans.b16 d, a", "9.7.14.5.17", ofMatrices),
  vote: [
    row("vote.sync.<mode:all|any|uni>.pred d, a, membermask", "9.7.13.9", exchange),
    row("vote.sync.<mode:ballot>.b32 d, a, membermask", "9.7.13.9", exchange),
    row("vote.<mode:all|any|uni>.pred d, a", "9.7.13.8", { ...exchange, ofActiveLanes: true }),
    row("vote.<mode:ballot>.b32 d, a", "9.7.13.8", { ...exchange, ofActiveLanes: true }),
  ],
  match: row("match.<mode:any|all>.sync.<type:b32|b64> d, a, membermask", "9.7.13.10", exchange),
  activemask: row("activemask.b32 d", "9.7.13.11", exchange),
  redux: [
    row("redux.sync.<operation:add|min|max>.<type:u32|s32> d, a, membermask", "9.7.13.12", exchange),
    row("redux.sync.<operation:and|or|xor>.<type:b32> d, a, membermask", "9.7.13.12", exchange),
  ],
  // The software device starts a kernel only after all earlier work has finished, which is also allowed on a GPU, so
  // `wait` never blocks.
  griddepcontrol: row("griddepcontrol.<action:launch_dependents|wait>", "9.7.13.13", {
    ...orderingFence,
    dividesBlock: ({ choices }) => choices.get("action") !== "wait",
  }),
  elect: row("elect.sync d, membermask", "9.7.13.14", { effects: [], synchronization: "lanes", runsInGangs: true }),

  // Instructions for clusters of thread blocks.
  mapa: row("mapa.<space:shared::cluster>?.<type:u32|s32|u64> d, a, b", "9.7.9.23", {
    ...pure,
    mapsClusterMemory: true,
  }),
  getctarank: row("getctarank.<space:shared::cluster>?.<type:u32|s32|u64> d, a", "9.7.9.24", {
    ...pure,
    mapsClusterMemory: true,
  }),
  "barrier.cluster.arrive": row("barrier.cluster.arrive.<semantics:release|relaxed>?.aligned?", "9.7.13.3", barrier),
  "barrier.cluster.wait": row("barrier.cluster.wait.<semantics:acquire>?.aligned?", "9.7.13.3", barrier),

  // Barriers in shared memory.
  "mbarrier.init": row(`mbarrier.init.${sharedSpace}.b64 [a], b`, "9.7.13.15", initializes),
  "mbarrier.inval": row(`mbarrier.inval.${sharedSpace}.b64 [a]`, "9.7.13.15", initializes),
  "mbarrier.expect_tx": ordered("relaxed").map((order) =>
    row(`mbarrier.expect_tx${order}.${clusterSpace}.b64 [a], b`, "9.7.13.15", updates)
  ),
  "mbarrier.complete_tx": ordered("relaxed").map((order) =>
    row(`mbarrier.complete_tx${order}.${clusterSpace}.b64 [a], b`, "9.7.13.15", updates)
  ),
  "mbarrier.arrive": arrivals("arrive"),
  "mbarrier.arrive_drop": arrivals("arrive_drop"),
  "mbarrier.test_wait": ordered("acquire|relaxed").flatMap((order) => [
    row(`mbarrier.test_wait.parity?${order}.${sharedSpace}.b64 p, [a], b`, "9.7.13.15", tests),
    row(`mbarrier.try_wait.parity?${order}.${sharedSpace}.b64 p, [a], b [, c]`, "9.7.13.15", tests),
  ]),
  "mbarrier.pending_count": row("mbarrier.pending_count.b64 d, a", "9.7.13.15", { ...pure, ...memoryBarrier }),
  "cp.async.mbarrier": row(`cp.async.mbarrier.arrive.noinc?.${sharedSpace}.b64 [a]`, "9.7.13.15.15", {
    effects: ["reads", "observes", "writes"],
    runsInGangs: true,
  }),
  nanosleep: row("nanosleep.u32 t", "9.7.19.2", waiting),
}));

function arrivals(name: string): InstructionRow[] {
  return [
    ...ordered("release|relaxed").flatMap((order) => [
      row(`mbarrier.${name}${order}.${clusterSpace}.b64 d, [a] [, b]`, "9.7.13.15", updates),
      row(`mbarrier.${name}.expect_tx${order}.${clusterSpace}.b64 d, [a], b`, "9.7.13.15", updates),
    ]),
    ...["", ".release.cta"].map((order) =>
      row(`mbarrier.${name}.noComplete${order}.${sharedSpace}.b64 d, [a], b`, "9.7.13.15", updates)
    ),
  ];
}

const stack: InstructionTraits = { effects: ["allocates"] };
const traps: InstructionTraits = { ...pure, effects: ["traps"], dividesBlock: () => true };
const dividingHint: InstructionTraits = { ...performanceHint, dividesBlock: () => true };

/** Returns the instruction table's rows for stack and miscellaneous instructions. */
export const miscellaneousRows: () => Rows<MiscellaneousName> = onFirstUse((): Rows<MiscellaneousName> => ({
  stacksave: row("stacksave.<type:u32|u64> d", "9.7.17.1", stack),
  stackrestore: row("stackrestore.<type:u32|u64> a", "9.7.17.2", stack),
  alloca: row("alloca.<type:u32|u64> d, size [, alignment]", "9.7.17.3", stack),
  brkpt: row("brkpt", "9.7.19.1", traps),
  pmevent: [
    row("pmevent a", "9.7.19.3", dividingHint),
    row("pmevent.mask a", "9.7.19.3", dividingHint),
  ],
  trap: row("trap", "9.7.19.4", traps),
  setmaxnreg: row("setmaxnreg.<action:inc|dec>.sync.aligned.u32 n", "9.7.19.5", {
    ...performanceHint,
    isOfSm90a: true,
  }),
}));
