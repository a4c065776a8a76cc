/**
 * `mbarrier`: barriers in shared memory. PTX ISA, section 9.7.13.15.
 *
 * A thread waits by testing a barrier in a loop, in which it yields to the threads that have yet to arrive. Plain loads
 * and stores are enough, because only one of the block's threads runs at a time and is never interrupted within an
 * instruction.
 *
 * @module
 */
import { addressOperand, pushLocation } from "./address_checks.ts";
import {
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { accessOrderOf, pushOrder } from "./memory_instructions.ts";
import { orderBits } from "../../../abi/check_state.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import { faultKind } from "../../../abi/addresses.ts";
import { memoryBarrierFields, mostPendingBytes } from "../../../abi/launch_record.ts";
import type { Emit } from "../instruction_form.ts";
import { constantOf, u32 } from "../integers/integer_instructions.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const b64 = typeNamed("b64");
const predicate = typeNamed("pred");
const { pending, expected, transactions, phase } = memoryBarrierFields;
const mostArrivals = (1n << expected.bits) - 1n;

/**
 * Emits code that pushes the offset of an `mbarrier` object in linear memory. If `ends` is set, the instruction ends
 * the object's lifetime, and its access is not checked for races. The check would report false races: the last thread
 * to leave a `cuda::pipeline` ends the lifetime of its barriers, but in each warp, only some lanes signal to that
 * thread that they leave.
 */
function pushBarrier(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { operand, operation, ends = false }: {
    operand: ResolvedOperand | undefined;
    operation: "read" | "write" | "atomic";
    ends?: boolean;
  },
): void {
  const semantics = operation === "read" ? "acquire" : "release";
  const isStrong = operation !== "write";
  // The default is the scope of the block. But programs with clusters leave the scope out, and GPUs order their work.
  const order = accessOrderOf(i, { isStrong, defaults: { semantics, scope: "cluster" } }) |
    (isStrong ? orderBits.phased : 0);
  pushLocation(e, addressOperand(e, operand), { space: spaceOf(i), bytes: 8, operation, order: ends ? null : order });
}

/** Emits code that pushes a number of arrivals as an i64. If the operand is missing, the number is 1. */
function pushCount(e: FunctionEmitter, operand: ResolvedOperand | undefined): void {
  if (operand === undefined) {
    e.code.i64(1n);
    return;
  }
  const count = constantOf(operand);
  if (count !== undefined && (count < 1n || count > mostArrivals)) e.fail(`its count must be 1 to ${mostArrivals}`);
  e.push(operand, u32);
  e.code.ops("i64ExtendI32U");
}

/** Emits code for `mbarrier.init`. */
export const initializeBarrier: Emit = (e, i) => {
  const [address, count] = i.operands;
  pushBarrier(e, i, { operand: address, operation: "write" });
  const both = e.temporary("i64");
  pushCount(e, count);
  e.code.tee(both).get(both).i64(expected.first).ops("i64Shl", "i64Or").memory("i64Store");
};

/** Emits code for `mbarrier.inval`. */
export const invalidateBarrier: Emit = (e, i) => {
  pushBarrier(e, i, { operand: i.operands[0], operation: "write", ends: true });
  e.code.i64(0n).memory("i64Store");
};

/**
 * Returns the lowering of `mbarrier.arrive`, or of `mbarrier.arrive_drop` if `drops` is true. With `.expect_tx`, the
 * operand is a number of bytes to expect, and the number of arrivals is 1.
 */
export function arrive(drops: boolean): Emit {
  return (e, i) => {
    const { code } = e;
    const [destination, address, count] = i.operands;
    const expects = i.choices.has("expect_tx");
    pushBarrier(e, i, { operand: address, operation: "atomic" });
    const arrivals = e.temporary("i64"), before = e.temporary("i64");
    pushCount(e, expects ? undefined : count);
    code.tee(arrivals);
    if (drops) code.get(arrivals);
    else code.i64(0n);
    if (expects) pushBytes(e, count);
    else code.i64(0n);
    e.callHelper("arriveInMemory").set(before);
    code.get(before).i64((1n << pending.bits) - 1n).ops("i64And").get(arrivals).ops("i64LtU");
    faultIf(e, faultKind.arrivals, () => code.get(arrivals));
    if (expects) checkPendingBytes(e, before, () => pushBytes(e, count));
    e.assign(destination, b64, () => code.get(before));
  };
}

/** Emits code that pops a condition, and faults if it holds. `pushNumber` pushes what is reported, as an i64. */
function faultIf(e: FunctionEmitter, kind: number, pushNumber: () => void): void {
  const { code } = e;
  code.ifUnlikely().i32(kind);
  pushNumber();
  e.pushPlace();
  e.callHelper("fault").ops("unreachable").end();
}

/**
 * Emits code that checks the pending bytes of a barrier, given its previous value and what is added to them. The most
 * bytes cannot be expected at once.
 */
function checkPendingBytes(e: FunctionEmitter, before: number, pushAdded: () => void): void {
  const { code } = e;
  const sum = e.temporary("i64");
  code.get(before).i64(64n - transactions.first - transactions.bits).ops("i64Shl");
  code.i64(64n - transactions.bits).ops("i64ShrS");
  pushAdded();
  // The sums from 1 - mostPendingBytes on are the ones from 0 on.
  code.ops("i64Add").tee(sum).i64(mostPendingBytes - 1n).ops("i64Add").i64(2n * mostPendingBytes - 1n).ops("i64GtU");
  pushAdded();
  code.i64(mostPendingBytes).ops("i64GeS", "i32Or");
  faultIf(e, faultKind.pendingBytes, () => code.get(sum));
}

/** Emits code that pushes a number of bytes as an i64. */
function pushBytes(e: FunctionEmitter, operand: ResolvedOperand | undefined): void {
  e.push(operand, u32);
  e.code.ops("i64ExtendI32U");
}

/** Returns the lowering of `mbarrier.expect_tx`, or of `mbarrier.complete_tx` if `completes` is true. */
export function transact(completes: boolean): Emit {
  return (e, i) => {
    const { code } = e;
    const [address, bytes] = i.operands;
    const added = e.temporary("i64"), before = e.temporary("i64");
    pushBarrier(e, i, { operand: address, operation: "atomic" });
    code.i64(0n).i64(0n);
    if (completes) code.i64(0n);
    pushBytes(e, bytes);
    if (completes) code.ops("i64Sub");
    code.tee(added);
    e.callHelper("arriveInMemory").set(before);
    checkPendingBytes(e, before, () => code.get(added));
  };
}

/** Emits code that completes bytes of an asynchronous operation at a barrier. `pushBytes` pushes their number. */
export function completeBytes(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
  { space, pushBytes }: { readonly space: string; readonly pushBytes: () => CodeWriter },
): void {
  const { cluster, release, phased, strong } = orderBits;
  pushLocation(e, addressOperand(e, operand), {
    space,
    bytes: 8,
    operation: "atomic",
    order: strong | release | phased | cluster,
  });
  e.code.i64(0n).i64(0n).i64(0n);
  pushBytes().ops("i64ExtendI32U", "i64Sub");
  e.callHelper("arriveInMemory").ops("drop");
}

/**
 * Emits code for `mbarrier.test_wait` and `mbarrier.try_wait`, which return whether a phase has completed. The phase is
 * given by a state or a parity. Only the current phase and the previous one can be tested.
 */
export const testWait: Emit = (e, i) => {
  const { code } = e;
  const [destination, address, awaited, timeout] = i.operands;
  if (timeout !== undefined) {
    e.push(timeout, u32);
    code.ops("drop");
  }
  e.assign(destination, predicate, () => {
    pushBarrier(e, i, { operand: address, operation: "read" });
    code.memory("i64Load").i64(phase.first).ops("i64ShrU", "i32WrapI64");
    if (i.choices.has("parity")) {
      e.push(awaited, u32);
      code.i32(1).ops("i32And");
    } else {
      e.push(awaited, b64);
      code.i64(phase.first).ops("i64ShrU", "i32WrapI64");
    }
    code.ops("i32Ne");
  });
};

/** Emits code for `mbarrier.pending_count`. */
export const pendingCount: Emit = (e, i) => {
  e.assign(i.operands[0], u32, () => {
    e.push(i.operands[1], b64);
    e.code.i64((1n << pending.bits) - 1n).ops("i64And", "i32WrapI64");
  });
};

/**
 * Emits code for `cp.async.mbarrier.arrive`. The arrival is immediate, because the thread's copies are already
 * complete. Without `.noinc`, the instruction also adds one to the arrivals that the phase expects, which cancels the
 * arrival, so that the barrier remains unchanged.
 */
export const arriveAfterCopies: Emit = (e, i) => {
  pushOrder(e, orderBits.wait);
  pushBarrier(e, i, { operand: i.operands[0], operation: "atomic" });
  if (!i.choices.has("noinc")) {
    e.code.ops("drop");
    return;
  }
  e.code.i64(1n).i64(0n).i64(0n);
  e.callHelper("arriveInMemory").ops("drop");
};
