/**
 * Logic and shifts. PTX ISA, section 9.7.8. `lop3` specifies any function of three bits by its truth table, which is
 * compiled to the shortest expression.
 *
 * @module
 */
import type { Emit } from "../instruction_form.ts";
import { constant, extendAmount, inType } from "../../webassembly/opcodes.ts";
import { constantOf, fromOperands, isSameOperand, repeatable, u32 } from "./integer_instructions.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const predicate = typeNamed("pred");

/** Emits code for `not`, also of predicates. */
export const not: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    if (i.type.kind === "predicate") e.code.ops("i32Eqz");
    else constant(e.code, i.type, -1).ops(inType(i.type, "Xor"));
  });
};

/** Emits code for `cnot`: the result is 1 if the operand is 0, else 0. */
export const logicalNot: Emit = fromOperands((e, i) => {
  e.code.ops(inType(i.type, "Eqz"));
  if (i.type.value === "i64") e.code.ops("i64ExtendI32U");
});

/**
 * Returns the lowering of `shl` or `shr`. If the amount is at least the width, all bits are shifted out, while
 * WebAssembly's shifts reduce the amount modulo the width.
 */
export function shift(direction: "left" | "right"): Emit {
  return (e, i) => {
    const { code } = e;
    const { type } = i;
    const keepsSign = direction === "right" && type.kind === "signed";
    const operation = inType(type, direction === "left" ? "Shl" : keepsSign ? "ShrS" : "ShrU");
    const known = constantOf(i.operands[2]);
    e.assign(i.operands[0], type, () => {
      if (known !== undefined) {
        const amount = BigInt.asUintN(32, known);
        const isPast = amount >= BigInt(type.bits);
        if (isPast && !keepsSign) {
          constant(code, type, 0);
        } else {
          e.push(i.operands[1], type);
          constant(code, type, isPast ? type.bits - 1 : amount).ops(operation);
        }
        return;
      }
      const amount = repeatable(e, i.operands[2], u32);
      e.push(i.operands[1], type);
      if (keepsSign) {
        amount().i32(type.bits - 1);
        amount().i32(type.bits).ops("i32LtU", "select");
        extendAmount(code, type).ops(operation);
      } else {
        amount();
        constant(extendAmount(code, type).ops(operation), type, 0);
        amount().i32(type.bits).ops("i32LtU", "select");
      }
    });
  };
}

/**
 * Returns the number of bits by which `shf` shifts the high word left. The low word is shifted right by 32 minus that
 * number.
 */
export function knownDistance(choices: ReadonlyMap<string, string>, amount: bigint): number {
  const unsigned = BigInt.asUintN(32, amount);
  const bits = Number(choices.get("mode") === "wrap" ? unsigned & 31n : unsigned > 32n ? 32n : unsigned);
  return choices.get("direction") === "l" ? bits : 32 - bits;
}

/**
 * Emits code for `shf`, which shifts the concatenation of two words and returns the upper or the lower word of the
 * result.
 */
export const funnelShift: Emit = (e, i) => {
  const { code } = e;
  const [, low, high, amount] = i.operands;
  const left = i.choices.get("direction") === "l";
  const wraps = i.choices.get("mode") === "wrap";
  const known = constantOf(amount);
  e.assign(i.operands[0], u32, () => {
    if (known !== undefined) {
      const distance = knownDistance(i.choices, known);
      if (distance === 0) {
        e.push(high, u32);
      } else if (distance === 32) {
        e.push(low, u32);
      } else if (isSameOperand(low, high)) {
        e.push(low, u32);
        code.i32(distance).ops("i32Rotl");
      } else {
        e.push(high, u32);
        code.i32(distance).ops("i32Shl");
        e.push(low, u32);
        code.i32(32 - distance).ops("i32ShrU", "i32Or");
      }
    } else if (wraps && isSameOperand(low, high)) {
      e.push(low, u32);
      e.push(amount, u32);
      code.ops(left ? "i32Rotl" : "i32Rotr");
    } else {
      const distance = repeatable(e, amount, u32);
      e.push(high, u32);
      code.ops("i64ExtendI32U").i64(32n).ops("i64Shl");
      e.push(low, u32);
      code.ops("i64ExtendI32U", "i64Or");
      distance();
      if (wraps) {
        code.i32(31).ops("i32And");
      } else {
        code.i32(32);
        distance().i32(32).ops("i32LtU", "select");
      }
      code.ops("i64ExtendI32U");
      if (left) code.ops("i64Shl").i64(32n).ops("i64ShrU", "i32WrapI64");
      else code.ops("i64ShrU", "i32WrapI64");
    }
  });
};

/**
 * Emits code for `lop3`, which computes any function of three bits, given by its truth table. With `.or` or `.and`, a
 * second result is the predicate "any bit is set", combined with another predicate.
 */
export const logicOfThree: Emit = (e, i) => {
  const { code } = e;
  const table = constantOf(i.operands[4]);
  if (table === undefined || table < 0n || table > 0xffn) {
    return e.fail("its truth table must be a literal from 0 to 255");
  }
  const combine = i.choices.get("combine");
  const [destination] = i.operands;
  if (combine === undefined) {
    e.assign(destination, u32, () => emitLogic(Number(table)));
    return;
  }
  if (destination?.kind !== "pair") return e.fail('it needs two results, as "d|p"');
  const result = e.temporary("i32");
  emitLogic(Number(table));
  code.set(result);
  e.assign(destination.second, predicate, () => {
    code.get(result).i32(0).ops("i32Ne");
    e.push(i.operands[5], predicate);
    code.ops(combine === "or" ? "i32Or" : "i32And");
  });
  e.assign(destination.first, u32, () => code.get(result));

  function emitLogic(truth: number): void {
    const inputs = i.operands.slice(1, 4).map((operand) => repeatable(e, operand, u32));
    const emit = (term: LogicTerm): void => {
      if (term.kind === "input") {
        inputs[term.index]!();
      } else if (term.kind === "constant") {
        code.i32(term.value);
      } else {
        emit(term.left);
        emit(term.right);
        code.ops(term.operation);
      }
    };
    emit(shortestLogic(truth));
  }
};

/** An expression of bitwise operations on three inputs. */
export type LogicTerm =
  | { readonly kind: "input"; readonly index: 0 | 1 | 2 }
  /** A constant: 0, or -1 for all ones. */
  | { readonly kind: "constant"; readonly value: 0 | -1 }
  | {
    readonly kind: "operation";
    readonly operation: "i32And" | "i32Or" | "i32Xor";
    readonly left: LogicTerm;
    readonly right: LogicTerm;
  };

const operations = [
  ["i32And", (a: number, b: number) => a & b],
  ["i32Or", (a: number, b: number) => a | b],
  ["i32Xor", (a: number, b: number) => a ^ b],
] as const;
let terms: ReadonlyMap<number, LogicTerm> | undefined;

/**
 * Returns the expression with the fewest operations for a truth table. Bit 4a + 2b + c of the table is the result for
 * a, b and c.
 */
export function shortestLogic(truthTable: number): LogicTerm {
  return (terms ??= findTerms()).get(truthTable)!;
}

/**
 * Finds the shortest expression for every truth table, by increasing number of operations n: each candidate combines
 * two expressions that have n - 1 operations in total.
 */
function findTerms(): ReadonlyMap<number, LogicTerm> {
  const found = new Map<number, LogicTerm>([
    [0xf0, { kind: "input", index: 0 }],
    [0xcc, { kind: "input", index: 1 }],
    [0xaa, { kind: "input", index: 2 }],
    [0x00, { kind: "constant", value: 0 }],
    [0xff, { kind: "constant", value: -1 }],
  ]);
  const byLength = [[...found.keys()]];
  while (found.size < 256) {
    const longer: number[] = [];
    for (let leftLength = 0; leftLength < byLength.length; leftLength++) {
      for (const left of byLength[leftLength]!) {
        for (const right of byLength[byLength.length - 1 - leftLength]!) {
          for (const [operation, apply] of operations) {
            const table = apply(left, right);
            if (found.has(table)) continue;
            found.set(table, { kind: "operation", operation, left: found.get(left)!, right: found.get(right)! });
            longer.push(table);
          }
        }
      }
    }
    byLength.push(longer);
  }
  return found;
}
