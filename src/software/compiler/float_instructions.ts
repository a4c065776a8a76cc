/**
 * Floating-point arithmetic, comparison and selection. PTX ISA, sections 9.7.3 and 9.7.6.
 *
 * WebAssembly rounds to nearest even, as `.rn` does, and never fuses. It leaves the bits of a NaN open. Here they are
 * those that an H200 gives: in 32 bits always 0x7fffffff; in 64 bits the operand that is a NaN, made quiet, the second
 * where both are (in a division the first), and 0xfff8000000000000 where none is.
 *
 * @module
 */
import type { FunctionEmitter } from "./function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { type ScalarType, typeNamed } from "./scalar_types.ts";
import type { ResolvedOperand, TypedInstruction } from "./typed_instruction.ts";
import type { OpName } from "./wasm_encoder.ts";

const predicate = typeNamed("pred");

type FloatOperation<Name = OpName> = Name extends `f32${infer Rest}` ? `f64${Rest}` extends OpName ? Rest : never
  : never;

function inType({ value }: ScalarType, operation: FloatOperation): OpName {
  return value === "f64" ? `f64${operation}` : `f32${operation}`;
}

function constant(e: FunctionEmitter, { value }: ScalarType, number: number): void {
  const view = new DataView(new ArrayBuffer(8));
  if (value === "f64") {
    view.setFloat64(0, number);
    e.code.f64Bits(view.getBigUint64(0));
  } else {
    view.setFloat32(0, number);
    e.code.f32Bits(BigInt(view.getUint32(0)));
  }
}

/** Gives a NaN of 32 bits on the stack the bits that arithmetic gives. */
function canonicalizeNaN32(e: FunctionEmitter): void {
  const value = e.temporary("f32");
  e.code.tee(value).f32Bits(0x7fff_ffffn).get(value).get(value).ops("f32Eq", "select");
}

/**
 * Gives a NaN on the stack the bits that arithmetic gives.
 *
 * @param operands the locals of the one or two operands that it was computed from; the last wins where both are NaNs
 */
export function canonicalizeNaN(e: FunctionEmitter, type: ScalarType, operands: readonly number[]): void {
  if (type.value !== "f64") return canonicalizeNaN32(e);
  const value = e.temporary("f64");
  e.code.tee(value).get(value).ops("f64Ne").if("f64").get(operands[0]!).get(operands.at(-1)!);
  e.callHelper("propagateNaN64").else().get(value).end();
}

/** `.ftz`: puts a zero of the same sign for a subnormal number of 32 bits on the stack. */
export function flushSubnormal(e: FunctionEmitter): void {
  const value = e.temporary("f32");
  e.code.set(value).f32Bits(0n).get(value).ops("f32Copysign").get(value);
  e.code.get(value).ops("f32Abs").f32Bits(0x0080_0000n).ops("f32Lt", "select");
}

/** `.sat`: clamps to 0 and 1, and makes a NaN +0. */
export function saturate(e: FunctionEmitter, type: ScalarType): void {
  const value = e.temporary(type.value);
  e.code.set(value);
  // Both comparisons are false for NaN, and the first for -0.
  e.code.get(value);
  constant(e, type, 0);
  e.code.get(value);
  constant(e, type, 0);
  e.code.ops(inType(type, "Gt"), "select");
  constant(e, type, 1);
  e.code.ops(inType(type, "Min"));
}

/** Pushes an operand, flushed where the instruction says `.ftz`. */
export function pushFloat(e: FunctionEmitter, i: TypedInstruction, operand: ResolvedOperand | undefined): void {
  e.push(operand, i.type);
  if (i.choices.has("ftz")) flushSubnormal(e);
}

/** Pushes operands as {@linkcode pushFloat} does, and returns the locals that hold them too. */
function pushFloats(e: FunctionEmitter, i: TypedInstruction, operands: readonly ResolvedOperand[]): number[] {
  return operands.map((operand) => {
    const local = e.temporary(i.type.value);
    pushFloat(e, i, operand);
    e.code.tee(local);
    return local;
  });
}

/** Finishes a result on the stack: `.ftz`, `.sat`, and the NaN's bits. */
function finish(e: FunctionEmitter, i: TypedInstruction, operands: readonly number[]): void {
  if (i.choices.has("ftz")) flushSubnormal(e);
  if (i.choices.has("sat")) saturate(e, i.type);
  else canonicalizeNaN(e, i.type, operands);
}

/** Arithmetic that is one instruction of WebAssembly. */
export function float(operation: FloatOperation): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      const operands = pushFloats(e, i, i.operands.slice(1));
      e.code.ops(inType(i.type, operation));
      finish(e, i, operation === "Div" ? operands.toReversed() : operands);
    });
}

/** `rcp.rn` */
export const reciprocal: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    constant(e, i.type, 1);
    const operands = pushFloats(e, i, i.operands.slice(1));
    e.code.ops(inType(i.type, "Div"));
    finish(e, i, operands);
  });
};

/** `neg` and `abs` */
export function signChange(operation: "Neg" | "Abs"): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      const operands = pushFloats(e, i, i.operands.slice(1));
      e.code.ops(inType(i.type, operation));
      canonicalizeNaN(e, i.type, operands);
    });
}

/**
 * `fma.rn.f32`. The product is exact in 64 bits; the sum is rounded to 64 and then to 32, which is right but where the
 * first rounding lands halfway between two numbers of 32 bits. That is seen in its low bits, and for subnormal results
 * may be: a helper then rounds once.
 */
export const fusedMultiplyAdd: Emit = (e, i) => {
  const { code } = e;
  const [a, b, c] = [e.temporary("f32"), e.temporary("f32"), e.temporary("f32")];
  const sum = e.temporary("f64");
  const inputs = [a, b, c];
  e.assign(i.operands[0], i.type, () => {
    inputs.forEach((local, index) => {
      pushFloat(e, i, i.operands[index + 1]);
      code.set(local);
    });
    code.get(a).ops("f64PromoteF32").get(b).ops("f64PromoteF32", "f64Mul").get(c).ops("f64PromoteF32", "f64Add");
    code.tee(sum).ops("i64ReinterpretF64").i64(0x1fff_ffffn).ops("i64And").i64(0x1000_0000n).ops("i64Eq");
    code.get(sum).ops("f64Abs").f64Bits(0x3810_0000_0000_0000n).ops("f64Lt", "i32Or");
    code.if("f32").get(a).get(b).get(c);
    e.callHelper("fusedMultiplyAdd32").else().get(sum).ops("f32DemoteF64").end();
    finish(e, i, inputs);
  });
};

/** `min` and `max`: a number wins over a NaN, and -0 is less than +0. */
export function extremeFloat(operation: "Min" | "Max"): Emit {
  return (e, i) => {
    const { code } = e;
    const a = e.temporary(i.type.value), b = e.temporary(i.type.value);
    e.assign(i.operands[0], i.type, () => {
      pushFloat(e, i, i.operands[1]);
      code.set(a);
      pushFloat(e, i, i.operands[2]);
      code.set(b);
      if (i.choices.has("NaN")) {
        code.get(a).get(b).ops(inType(i.type, operation));
      } else {
        code.get(b).get(a).get(a).get(b).ops(inType(i.type, operation));
        code.get(b).get(b).ops(inType(i.type, "Ne"), "select");
        code.get(a).get(a).ops(inType(i.type, "Ne"), "select");
      }
      canonicalizeNaN(e, i.type, [a, b]);
    });
  };
}

/** `copysign`: the second operand with the sign of the first. */
export const copySign: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[2], i.type);
    e.push(i.operands[1], i.type);
    e.code.ops(inType(i.type, "Copysign"));
  });
};

/** `testp` */
export const testProperty: Emit = (e, i) => {
  const { code } = e;
  const double = i.type.value === "f64";
  const magnitude = e.temporary("i64");
  const infinity = double ? 0x7ff0_0000_0000_0000n : 0x7f80_0000n;
  const smallestNormal = double ? 0x0010_0000_0000_0000n : 0x0080_0000n;
  e.assign(i.operands[0], predicate, () => {
    e.push(i.operands[1], i.type);
    code.ops(inType(i.type, "Abs"));
    if (double) code.ops("i64ReinterpretF64");
    else code.ops("i32ReinterpretF32", "i64ExtendI32U");
    code.set(magnitude).get(magnitude);
    switch (i.choices.get("property")) {
      case "finite":
        code.i64(infinity).ops("i64LtU");
        break;
      case "infinite":
        code.i64(infinity).ops("i64Eq");
        break;
      case "number":
        code.i64(infinity).ops("i64LeU");
        break;
      case "notanumber":
        code.i64(infinity).ops("i64GtU");
        break;
      case "normal":
        // Zero counts as normal.
        code.i64(smallestNormal).ops("i64Sub").i64(infinity - smallestNormal).ops("i64LtU");
        code.get(magnitude).ops("i64Eqz", "i32Or");
        break;
      case "subnormal":
        code.i64(1n).ops("i64Sub").i64(smallestNormal - 1n).ops("i64LtU");
        break;
    }
  });
};
