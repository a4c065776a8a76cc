import { clusterForms } from "../cluster_instructions.ts";
import type { InstructionForm, LoweringTraits } from "../instruction_form.ts";
import { loadMatrices, storeMatrices, transposeMatrix } from "../memory/matrix_instructions.ts";
import { memoryBarrierForms } from "../memory/memory_barriers.ts";
import { fence } from "../memory/memory_instructions.ts";
import {
  activeMask,
  aligned,
  barrierArrive,
  barrierReduction,
  barrierSync,
  elect,
  match,
  reduction,
  shuffle,
  sleep,
  vote,
  warpBarrier,
} from "../synchronization_instructions.ts";
import { form, orderingFence } from "./row.ts";

const matrices = "<matrices:x1|x2|x4>.trans?.<space:shared|shared::cta>?";

/**
 * Suspends the thread until others have come as far, so no loop has to spin for it. A gang diverges here, and
 * reconverges only if uniform registers are still uniform.
 */
const exchange: LoweringTraits = { effects: [], isUniform: true, runsInGangs: true };

/** A lane may read from one that does not take part. */
const fromLanes: LoweringTraits = { ...exchange, mayBeUndefined: true };

/** Exchanges of matrices, whose results differ between threads with the same operands. */
const matrixExchange: LoweringTraits = { effects: [], runsInGangs: true };
const matrixLoad: LoweringTraits = { effects: ["reads", "observes"], runsInGangs: true };
const matrixStore: LoweringTraits = { effects: ["writes"], runsInGangs: true };

/** Barriers and exchanges among threads. */
export const synchronizationForms: readonly InstructionForm[] = [
  form("barrier.cta?.sync.aligned? a [, b]", "9.7.13.1", barrierSync, exchange),
  form("barrier.cta?.arrive.aligned? a, b", "9.7.13.1", barrierArrive, exchange),
  form("barrier.cta?.red.<operation:popc>.aligned?.u32 d, a, p [, q]", "9.7.13.1", barrierReduction, exchange),
  form("barrier.cta?.red.<operation:and|or>.aligned?.pred d, a, p [, q]", "9.7.13.1", barrierReduction, exchange),
  form("bar.cta?.sync a [, b]", "9.7.13.1", aligned(barrierSync), exchange),
  form("bar.cta?.arrive a, b", "9.7.13.1", aligned(barrierArrive), exchange),
  form("bar.cta?.red.<operation:popc>.u32 d, a, p [, q]", "9.7.13.1", aligned(barrierReduction), exchange),
  form("bar.cta?.red.<operation:and|or>.pred d, a, p [, q]", "9.7.13.1", aligned(barrierReduction), exchange),
  form("bar.warp.sync membermask", "9.7.13.2", warpBarrier, exchange),
  form("shfl.sync.<mode:up|down|bfly|idx>.b32 d, a, b, c, membermask", "9.7.9.6", shuffle, fromLanes),
  form(`ldmatrix.sync.aligned.m8n8.${matrices}.b16 d, [a]`, "9.7.14.5.15", loadMatrices, matrixLoad),
  form(`stmatrix.sync.aligned.m8n8.${matrices}.b16 [a], b`, "9.7.14.5.16", storeMatrices, matrixStore),
  form("movmatrix.sync.aligned.m8n8.trans.b16 d, a", "9.7.14.5.17", transposeMatrix, matrixExchange),
  form("vote.sync.<mode:all|any|uni>.pred d, a, membermask", "9.7.13.9", vote, exchange),
  form("vote.sync.<mode:ballot>.b32 d, a, membermask", "9.7.13.9", vote, exchange),
  form("match.<mode:any|all>.sync.<type:b32|b64> d, a, membermask", "9.7.13.10", match, exchange),
  form("activemask.b32 d", "9.7.13.11", activeMask, exchange),
  form("redux.sync.<operation:add|min|max>.<type:u32|s32> d, a, membermask", "9.7.13.12", reduction, exchange),
  form("redux.sync.<operation:and|or|xor>.<type:b32> d, a, membermask", "9.7.13.12", reduction, exchange),
  // A kernel starts when the work in front of it is done, which a program cannot tell from a GPU that is never early.
  form("griddepcontrol.<action:launch_dependents|wait>", "9.7.13.13", fence, {
    ...orderingFence,
    dividesBlock: ({ choices }) => choices.get("action") !== "wait",
  }),
  form("elect.sync d, membermask", "9.7.13.14", elect, { effects: [], runsInGangs: true }),
  ...clusterForms,
  ...memoryBarrierForms,
  form("nanosleep.u32 t", "9.7.19.2", sleep, exchange),
];
