/**
 * Instructions with which threads wait for each other and exchange values: barriers, shuffles, votes, and clusters of
 * blocks. PTX ISA, sections 9.7.13, 9.7.9.23 and 9.7.9.24.
 *
 * A thread stores its request in its record and is suspended. When it resumes, the record holds the results.
 *
 * @module
 */
import { orderBits } from "../../abi/check_state.ts";
import { faultKind, shadowOffset, sharedSpan } from "../../abi/addresses.ts";
import { shadowStore } from "../checks/memory_shadows.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Emit, SuspendingInstruction } from "./instruction_form.ts";
import { mostClusterBlocks, type SuspensionRequest, threadRecord } from "../../abi/launch_record.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { u32 } from "./integers/integer_instructions.ts";

const predicate = typeNamed("pred");
const b32 = typeNamed("b32");
const b64 = typeNamed("b64");

type Field = keyof typeof threadRecord;

/** Emits code that stores an operand in a field of the thread's record, or a constant if the operand is missing. */
function leave(
  e: FunctionEmitter,
  field: Field,
  { operand, type = b32 }: { operand: ResolvedOperand | number | undefined; type?: ScalarType },
): void {
  e.getFixed("record");
  if (typeof operand === "number") e.code.i32(operand);
  else e.push(operand, type);
  e.code.memory(type.bits === 64 ? "i64Store" : "i32Store", threadRecord[field]);
  if (e.shadows === undefined || typeof operand === "number") return;
  if (field === "mask") e.shadows.require(operand, "lane mask");
  if (field === "value") leaveShadow(e, field, () => e.shadows!.push(operand, type), type);
}

/**
 * Emits code that stores the shadow of an operand in the shadow of the thread's record. The scheduler reads the shadow
 * there.
 */
function leaveShadow(e: FunctionEmitter, field: Field, push: () => void, type: ScalarType = b32): void {
  e.getFixed("record");
  push();
  e.code.memory(shadowStore({ ...type, bits: Math.max(32, type.bits) }), threadRecord[field] + shadowOffset);
}

/** Emits code that loads the shadow of a result from the shadow of the thread's record. */
function takeShadow(
  e: FunctionEmitter,
  destination: ResolvedOperand | undefined,
  field: Field,
  type: ScalarType,
): void {
  e.shadows?.assign(destination, type, () => {
    e.getFixed("record").memory("i32Load", threadRecord[field] + shadowOffset);
  });
}

/** Emits code that loads a result from the thread's record, unless the destination is unused. */
function take(e: FunctionEmitter, destination: ResolvedOperand | undefined, field: Field, type: ScalarType): void {
  e.assign(destination, type, () => e.getFixed("record").memory("i32Load", threadRecord[field]));
}

const nothing: Emit = () => {};

/** Whether an instruction's last operand is a literal mask that includes all lanes of the warp. */
function namesWholeWarp({ operands }: ResolvedInstruction): boolean {
  const mask = operands.at(-1);
  return mask?.kind === "integer" && BigInt.asUintN(32, mask.value) === 0xffff_ffffn;
}

/**
 * The lowering of `bar.sync` and `barrier.sync`, at which all threads of the block wait, or a given number of threads.
 */
export const barrierSync: SuspendingInstruction = {
  describe: (i) => ({ kind: "barrier", operation: "sync", isAligned: i.choices.has("aligned") }),
  request: (e, i) => leaveBarrier(e, i.operands),
  resume: nothing,
  gathersWarp: () => true,
  barrierOfAll({ operands: [barrier, count] }) {
    return barrier?.kind === "integer" && count === undefined ? Number(barrier.value) : undefined;
  },
};

/** The lowering of `bar.arrive` and `barrier.arrive`. */
export const barrierArrive: SuspendingInstruction = {
  describe: (i) => ({ kind: "barrier", operation: "arrive", isAligned: i.choices.has("aligned") }),
  request: (e, i) => leaveBarrier(e, i.operands),
  resume: nothing,
};

/**
 * The lowering of `bar.red` and `barrier.red`, which count the threads whose predicate is true, or return whether the
 * predicate is true for all threads or for any.
 */
export const barrierReduction: SuspendingInstruction = {
  describe: (i) => ({
    kind: "barrier",
    operation: i.choices.get("operation") as "popc" | "and" | "or",
    isAligned: i.choices.has("aligned"),
  }),
  gathersWarp: () => true,
  request: (e, i) => {
    e.shadows?.require(i.operands.at(-1), "barrier");
    leaveBarrier(e, i.operands.slice(1, -1));
    leave(e, "value", { operand: i.operands.at(-1), type: predicate });
  },
  resume: (e, i) => {
    take(e, i.operands[0], "result", i.choices.get("operation") === "popc" ? b32 : predicate);
    e.shadows?.clear(i.operands[0]);
  },
};

/**
 * Converts the lowering of a `barrier` instruction to the lowering of the corresponding `bar` instruction, which has
 * the meaning of `barrier` with `.aligned`.
 */
export function aligned(barrier: SuspendingInstruction): SuspendingInstruction {
  return { ...barrier, describe: (i) => ({ ...barrier.describe(i), isAligned: true } as SuspensionRequest) };
}

/** Emits code that stores the operands of a barrier in the thread's record, and faults if they are out of range. */
function leaveBarrier(e: FunctionEmitter, [barrier, count]: readonly ResolvedOperand[]): void {
  if (barrier?.kind === "integer" && (barrier.value < 0n || barrier.value > 15n)) {
    e.fail("the barriers of a block are 0 to 15");
  }
  if (count?.kind === "integer" && (count.value <= 0n || count.value % 32n !== 0n)) {
    e.fail("a barrier counts whole warps: the number of threads must be a multiple of 32");
  }
  for (const operand of [barrier, count]) e.shadows?.require(operand, "barrier");
  leave(e, "first", { operand: barrier });
  leave(e, "second", { operand: count ?? 0 });
  if (barrier?.kind !== "integer") {
    faultWhere(e, { field: "first", kind: faultKind.noBarrier, isWrong: () => e.code.i32(15).ops("i32GtU") });
  }
  // Negative numbers are invalid too, so the sign bit is also tested.
  if (count !== undefined && count.kind !== "integer") {
    faultWhere(e, {
      field: "second",
      kind: faultKind.noBarrierCount,
      isWrong: () => e.code.i32(1 << 31 | 31).ops("i32And"),
    });
  }
}

/**
 * Emits code that faults if a field of the thread's record has an invalid value. `isWrong` emits code that pops the
 * value and pushes whether the value is invalid.
 */
function faultWhere(
  e: FunctionEmitter,
  { field, kind, isWrong }: { field: Field; kind: number; isWrong: () => unknown },
): void {
  const value = e.temporary("i32");
  e.getFixed("record").memory("i32Load", threadRecord[field]).tee(value);
  isWrong();
  e.code.if().i32(kind).get(value).ops("i64ExtendI32U");
  e.pushPlace();
  e.callHelper("fault").ops("unreachable").end();
}

/** The lowering of `bar.warp.sync`. */
export const warpBarrier: SuspendingInstruction = {
  gathersWarp: namesWholeWarp,
  describe: () => ({ kind: "warpBarrier" }),
  request: (e, i) => leave(e, "mask", { operand: i.operands[0] }),
  resume: nothing,
};

/**
 * The lowering of `shfl.sync`. The second result is optional: a predicate that is true if the source lane was in range.
 */
export const shuffle: SuspendingInstruction = {
  gathersWarp: namesWholeWarp,
  describe: (i) => ({ kind: "shuffle", mode: i.choices.get("mode") as "up" | "down" | "bfly" | "idx" }),
  request: (e, i) => {
    const [, value, lane, clamp, mask] = i.operands;
    leave(e, "value", { operand: value });
    leave(e, "first", { operand: lane });
    leave(e, "second", { operand: clamp });
    if (e.shadows !== undefined) leaveShadow(e, "first", () => e.shadows!.pushAny([lane, clamp]));
    leave(e, "mask", { operand: mask });
  },
  resume: (e, i) => takeWithPredicate(e, i),
};

/** Emits code that loads a result from the thread's record and, if the destination is a pair, a predicate. */
function takeWithPredicate(e: FunctionEmitter, { operands: [destination] }: ResolvedInstruction): void {
  const [result, isInRange] = destination?.kind === "pair" ? [destination.first, destination.second] : [destination];
  take(e, result, "result", b32);
  takeShadow(e, result, "result", b32);
  if (isInRange === undefined) return;
  take(e, isInRange, "predicate", predicate);
  takeShadow(e, isInRange, "predicate", predicate);
}

/** The lowering of `vote.sync`. */
export const vote: SuspendingInstruction = {
  gathersWarp: namesWholeWarp,
  describe: (i) => ({ kind: "vote", mode: i.choices.get("mode") as "all" | "any" | "uni" | "ballot" }),
  request: (e, i) => {
    leave(e, "value", { operand: i.operands[1], type: predicate });
    leave(e, "mask", { operand: i.operands[2] });
  },
  resume: (e, i) => {
    const type = i.choices.get("mode") === "ballot" ? b32 : predicate;
    take(e, i.operands[0], "result", type);
    takeShadow(e, i.operands[0], "result", type);
  },
};

/** The lowering of `match.sync`. */
export const match: SuspendingInstruction = {
  gathersWarp: namesWholeWarp,
  describe: (i) => ({ kind: "match", mode: i.choices.get("mode") as "any" | "all" }),
  request: (e, i) => {
    if (i.operands[0]?.kind === "pair" && i.choices.get("mode") === "any") e.fail("only .all returns a predicate");
    if (i.type.bits === 32) {
      e.getFixed("record").i32(0).memory("i32Store", threadRecord.value + 4);
      if (e.shadows !== undefined) {
        e.getFixed("record").i32(0).memory("i32Store", threadRecord.value + 4 + shadowOffset);
      }
      leave(e, "value", { operand: i.operands[1] });
    } else {
      leave(e, "value", { operand: i.operands[1], type: b64 });
    }
    leave(e, "mask", { operand: i.operands[2] });
  },
  resume: (e, i) => takeWithPredicate(e, i),
};

/** The lowering of `redux.sync`. */
export const reduction: SuspendingInstruction = {
  gathersWarp: namesWholeWarp,
  describe: (i): SuspensionRequest => ({
    kind: "reduction",
    operation: i.choices.get("operation") as "add" | "min" | "max" | "and" | "or" | "xor",
    signed: i.type.kind === "signed",
  }),
  request: (e, i) => {
    leave(e, "value", { operand: i.operands[1], type: i.type });
    leave(e, "mask", { operand: i.operands[2] });
    if (e.shadows === undefined) return;
    e.getFixed("record").i32(0).memory("i32Store", threadRecord.value + 4 + shadowOffset);
  },
  resume: (e, i) => {
    take(e, i.operands[0], "result", i.type);
    takeShadow(e, i.operands[0], "result", i.type);
  },
};

/** The lowering of `elect.sync`, which elects the lowest lane of the mask as the leader. */
export const elect: SuspendingInstruction = {
  describe: () => ({ kind: "reduction", operation: "min", signed: false }),
  request: (e, i) => {
    if (i.operands[0]?.kind !== "pair") e.fail("it needs a predicate after its result, as in d|p");
    leave(e, "value", { operand: { kind: "special", name: "%laneid" } });
    leave(e, "mask", { operand: i.operands[1] });
  },
  resume: (e, { operands: [destination] }) => {
    if (destination?.kind !== "pair") return;
    e.shadows?.clear(destination);
    take(e, destination.first, "result", b32);
    e.assign(destination.second, predicate, () => {
      e.getFixed("record").memory("i32Load", threadRecord.result);
      e.push({ kind: "special", name: "%laneid" }, b32);
      e.code.ops("i32Eq");
    });
  },
};

/** The lowering of `activemask`. */
export const activeMask: SuspendingInstruction = {
  describe: () => ({ kind: "activeMask" }),
  request: nothing,
  resume: (e, i) => {
    take(e, i.operands[0], "result", b32);
    e.shadows?.clear(i.operands[0]);
  },
};

/** The lowering of `nanosleep`, which yields to other threads. */
export const sleep: SuspendingInstruction = {
  describe: () => ({ kind: "yield" }),
  request: nothing,
  resume: nothing,
};

/** The number of bits of an address in the shared memory of a cluster that follow the rank of the block. */
const spanBits = Math.log2(sharedSpan.byteLength);

/**
 * Emits code for `mapa`, which returns the address of the same variable in the shared memory of another block of the
 * cluster. The shared memories of the blocks are adjacent, in the order of ranks.
 */
export const mapAddress: Emit = (e, i) => {
  const [destination, address, rank] = i.operands;
  const ranks = (mostClusterBlocks - 1) << spanBits;
  e.assign(destination, i.type, () => {
    e.push(address, i.type);
    if (i.type.bits === 64) e.code.i64(~BigInt(ranks >>> 0)).ops("i64And");
    else e.code.i32(~ranks).ops("i32And");
    e.push(rank, u32);
    if (i.type.bits === 64) e.code.ops("i64ExtendI32U").i64(BigInt(spanBits)).ops("i64Shl", "i64Add");
    else e.code.i32(spanBits).ops("i32Shl", "i32Add");
  });
};

/** Emits code for `getctarank`. */
export const rankOfAddress: Emit = (e, i) => {
  const [destination, address] = i.operands;
  e.assign(destination, typeNamed("b32"), () => {
    e.push(address, i.type);
    if (i.type.bits === 64) e.code.ops("i32WrapI64");
    e.code.i32(spanBits).ops("i32ShrU").i32(mostClusterBlocks - 1).ops("i32And");
  });
};

/** The lowering of `barrier.cluster.arrive`. */
export const arriveAtCluster: SuspendingInstruction = {
  describe: ({ choices }) => ({
    kind: "clusterBarrier",
    operation: "arrive",
    isAligned: choices.has("aligned"),
    isRelaxed: choices.get("semantics") === "relaxed",
  }),
  request: (e) => e.noteOrder(orderBits.release),
  resume: nothing,
};

/** The lowering of `barrier.cluster.wait`. */
export const waitForCluster: SuspendingInstruction = {
  describe: ({ choices }) => ({
    kind: "clusterBarrier",
    operation: "wait",
    isAligned: choices.has("aligned"),
    isRelaxed: false,
  }),
  request: nothing,
  resume: nothing,
};
