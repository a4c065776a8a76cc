/**
 * `stmatrix` and `movmatrix`: the threads of a warp together store and transpose matrices of 8 x 8 16-bit elements. PTX
 * ISA, sections 9.7.14.5.16 and 9.7.14.5.17.
 *
 * These instructions only move data, and need no tensor cores. Each thread has a fragment of each matrix: a register
 * with two elements. The scheduler moves the elements when all threads of the warp have arrived, so that the memory
 * accesses of all threads are made at once.
 *
 * @module
 */
import { addressOperand, pushLocation } from "./address_checks.ts";
import {
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { shadowOffset } from "../../../abi/addresses.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { SuspendingInstruction } from "../instruction_form.ts";
import { threadRecord } from "../../../abi/launch_record.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import { specialRegister } from "../special_registers.ts";

const b32 = typeNamed("b32");
const rowsOfMatrix = 8;
const rowBytes = 16;

/** The lowering of `stmatrix`. */
export const storeMatrices: SuspendingInstruction = {
  describe: (i) => ({ kind: "matrixStore", matrices: matricesOf(i), transposed: i.choices.has("trans") }),
  request: (e, i) => {
    leaveRow(e, i, { address: i.operands[0], operation: "write" });
    fragmentsOf(e, i, i.operands[1]).forEach((fragment, index) => {
      e.getFixed("record");
      e.push(fragment, b32);
      e.code.memory("i32Store", threadRecord.result + 4 * index);
      leaveShadow(e, fragment, threadRecord.result + 4 * index);
    });
  },
  resume: () => {},
};

/** The lowering of `movmatrix`. */
export const transposeMatrix: SuspendingInstruction = {
  describe: () => ({ kind: "matrixTranspose" }),
  request: (e, i) => {
    leaveMask(e);
    e.getFixed("record");
    e.push(i.operands[1], b32);
    e.code.memory("i32Store", threadRecord.value);
    leaveShadow(e, i.operands[1], threadRecord.value);
  },
  resume: (e, i) => {
    e.assign(i.operands[0], b32, () => e.getFixed("record").memory("i32Load", threadRecord.result));
    takeShadow(e, i.operands[0], 0);
  },
};

/**
 * Emits code that stores the shadow of a fragment in the shadow of the thread's record. The scheduler reads the shadow
 * there.
 */
function leaveShadow(e: FunctionEmitter, fragment: ResolvedOperand | undefined, field: number): void {
  if (e.shadows === undefined) return;
  e.getFixed("record");
  e.shadows.push(fragment, b32);
  e.code.memory("i32Store", field + shadowOffset);
}

/** Emits code that loads a fragment's shadow, which the scheduler has stored in the shadow of the thread's record. */
function takeShadow(e: FunctionEmitter, fragment: ResolvedOperand | undefined, index: number): void {
  e.shadows?.assign(fragment, b32, () => {
    e.getFixed("record").memory("i32Load", threadRecord.result + 4 * index + shadowOffset);
  });
}

/** Returns the number of matrices that an instruction moves. */
function matricesOf({ choices }: ResolvedInstruction): number {
  return Number(choices.get("matrices")!.slice(1));
}

/**
 * Returns the registers with the thread's fragments. Reports a compilation error unless there is one register for each
 * matrix.
 */
function fragmentsOf(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  operand: ResolvedOperand | undefined,
): readonly ResolvedOperand[] {
  const matrices = matricesOf(i);
  if (operand?.kind === "vector" && operand.elements.length === matrices) return operand.elements;
  return e.fail(`it needs a vector of ${matrices} ${matrices === 1 ? "register" : "registers"}`);
}

/**
 * Emits code that checks the address that the thread passes, which is the address of a matrix row, and stores the row's
 * offset in linear memory in the thread's record. Lanes 0 to 7 pass the rows of the first matrix, lanes 8 to 15 the
 * rows of the second, and so on. For lanes beyond the last row, the address is ignored, and 0 is stored.
 */
function leaveRow(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { address, operation }: { address: ResolvedOperand | undefined; operation: "read" | "write" },
): void {
  leaveMask(e);
  const row = e.temporary("i32");
  const push = () => pushLocation(e, addressOperand(e, address), { space: spaceOf(i), bytes: rowBytes, operation });
  const named = matricesOf(i) * rowsOfMatrix;
  if (named === 32) {
    push();
    e.code.set(row);
  } else {
    e.code.i32(0).set(row);
    specialRegister("%laneid")!.push(e);
    e.code.i32(named).ops("i32LtU").if();
    push();
    e.code.set(row).end();
  }
  e.getFixed("record").get(row).memory("i32Store", threadRecord.value);
}

/**
 * Emits code that stores a mask of all lanes in the thread's record, because `.aligned` requires all threads of the
 * warp to take part.
 */
function leaveMask(e: FunctionEmitter): void {
  e.getFixed("record").i32(-1).memory("i32Store", threadRecord.mask);
}
