/**
 * Multi-word arithmetic. PTX ISA, section 9.7.2.
 *
 * The carry, 0 or 1, is a register that no instruction names. A subtraction sets it as an adder that adds the
 * complement does: to 1 if there was no borrow. nvcc's 128-bit division relies on that when it reads the carry with
 * `addc`.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { pushHighProduct, u32 } from "./integer_instructions.ts";
import { inType } from "../../webassembly/opcodes.ts";
import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";

/** Returns the lowering of `add.cc`, `addc`, `sub.cc` and `subc`. */
export function addWithCarry(operation: "add" | "sub", { takesCarry }: { takesCarry: boolean }): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      pushSum(e, i, {
        operation,
        takesCarry,
        pushFirst: () => e.push(i.operands[1], i.type),
        pushSecond: () => e.push(i.operands[2], i.type),
      });
    });
}

/** Returns the lowering of `mad.cc` and `madc`, which add a third operand to the low or the high half of a product. */
export function multiplyAddWithCarry({ takesCarry }: { takesCarry: boolean }): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      pushSum(e, i, {
        operation: "add",
        takesCarry,
        pushFirst: () => {
          if (i.choices.has("hi")) return pushHighProduct(e, i.type, i.operands.slice(1, 3));
          e.push(i.operands[1], i.type);
          e.push(i.operands[2], i.type);
          e.code.ops(inType(i.type, "Mul"));
        },
        pushSecond: () => e.push(i.operands[3], i.type),
      });
    });
}

/** The operation of {@linkcode pushSum}, and functions that push its operands. */
interface Sum {
  readonly operation: "add" | "sub";
  readonly takesCarry: boolean;
  pushFirst(): void;
  pushSecond(): void;
}

/** Emits code that pushes a sum or a difference, and sets the carry flag if the instruction has `.cc`. */
function pushSum(e: FunctionEmitter, i: ResolvedInstruction, sum: Sum): void {
  const { code } = e;
  const { operation, takesCarry, pushFirst, pushSecond } = sum;
  const add = operation === "add" ? "Add" : "Sub";
  if (i.choices.has("cc")) {
    if (i.type.value === "i64") pushSum64(e, sum);
    else pushSum32(e, sum);
    return;
  }
  pushFirst();
  pushSecond();
  code.ops(inType(i.type, add));
  if (!takesCarry) return;
  pushCarry(e, operation);
  if (i.type.value === "i64") code.ops("i64ExtendI32U");
  code.ops(inType(i.type, add));
}

/** Emits code that pushes the carry to add, or the borrow to subtract. */
function pushCarry(e: FunctionEmitter, operation: Sum["operation"]): void {
  e.push(e.carry, u32);
  if (operation === "sub") e.code.ops("i32Eqz");
}

/**
 * Emits code that pushes a 32-bit sum or difference, computed in 64 bits, and sets the carry flag. The carry of a sum
 * is its bit 32; a difference has a borrow if its sign bit is set.
 */
function pushSum32(e: FunctionEmitter, { operation, takesCarry, pushFirst, pushSecond }: Sum): void {
  const { code } = e;
  const wide = e.temporary("i64");
  const add = operation === "add" ? "i64Add" : "i64Sub";
  pushFirst();
  code.ops("i64ExtendI32U");
  pushSecond();
  code.ops("i64ExtendI32U", add);
  if (takesCarry) {
    pushCarry(e, operation);
    code.ops("i64ExtendI32U", add);
  }
  code.set(wide);
  e.assign(e.carry, u32, () => {
    code.get(wide).i64(operation === "add" ? 32n : 63n).ops("i64ShrU", "i32WrapI64");
    if (operation === "sub") code.ops("i32Eqz");
  });
  code.get(wide).ops("i32WrapI64");
}

/**
 * Emits code that pushes a 64-bit sum or difference, and sets the carry flag. A sum has a carry if the sum is less than
 * the first operand; a difference has a borrow if the first operand is less than the second.
 */
function pushSum64(e: FunctionEmitter, { operation, takesCarry, pushFirst, pushSecond }: Sum): void {
  const { code } = e;
  const first = e.temporary("i64"), second = e.temporary("i64"), result = e.temporary("i64");
  const step = () => {
    code.get(first).get(second).ops(operation === "add" ? "i64Add" : "i64Sub").set(result);
    if (operation === "add") code.get(result).get(first).ops("i64LtU");
    else code.get(first).get(second).ops("i64LtU");
  };
  pushFirst();
  code.set(first);
  pushSecond();
  code.set(second);
  e.assign(e.carry, u32, () => {
    step();
    if (takesCarry) {
      code.get(result).set(first);
      pushCarry(e, operation);
      code.ops("i64ExtendI32U").set(second);
      // At most one of the two additions produces a carry.
      step();
      code.ops("i32Or");
    }
    if (operation === "sub") code.ops("i32Eqz");
  });
  code.get(result);
}
