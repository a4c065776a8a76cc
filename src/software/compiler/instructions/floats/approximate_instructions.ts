/**
 * Instructions whose results PTX only specifies with an error bound. PTX ISA, sections 9.7.3.8 and 9.7.3.13 to
 * 9.7.3.22.
 *
 * Here, the result is nearly always the nearest number. Special operands give the results that the manual specifies. A
 * 64-bit NaN has the same bits as one from arithmetic.
 *
 * @module
 */
import { assignFloat, canonicalizeNaN, pushFloat } from "./float_instructions.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Helper } from "../../helpers/helper_functions.ts";
import type { Emit } from "../instruction_form.ts";

/** Emits code that replaces the number on the stack with the result of a function, computed in 64 bits. */
export type Approximation = (e: FunctionEmitter) => void;

/** Returns the lowering of an instruction that computes a function of one 32-bit operand in 64 bits. */
function approximate(compute: Approximation): Emit {
  return (e, i) =>
    assignFloat(e, i, () => {
      pushFloat(e, i, i.operands[1]);
      e.code.ops("f64PromoteF32");
      compute(e);
      e.code.ops("f32DemoteF64");
      return [];
    });
}

function byHelper(name: Helper): Approximation {
  return (e) => {
    e.callHelper(name);
  };
}

function byQuadrant(quadrant: number): Approximation {
  return (e) => {
    e.code.i32(quadrant);
    e.callHelper("sine");
  };
}

/** The approximation that `ex2` uses: replaces the number x on the stack with 2^x, computed in 64 bits. */
export const exponentialApproximation: Approximation = byHelper("exponential2");
/**
 * The approximation that `tanh` uses: replaces the number on the stack with its hyperbolic tangent, computed in 64
 * bits.
 */
export const tangentApproximation: Approximation = byHelper("hyperbolicTangent");

/** Emits code for `ex2`. */
export const exponential: Emit = approximate(exponentialApproximation);
/** Emits code for `tanh`. */
export const hyperbolicTangent: Emit = approximate(tangentApproximation);
/** Emits code for `lg2`. */
export const logarithm: Emit = approximate(byHelper("logarithm2"));
/** Emits code for `sin`. */
export const sine: Emit = approximate(byQuadrant(0));
/** Emits code for `cos`. */
export const cosine: Emit = approximate(byQuadrant(1));

/** Emits code for `rsqrt.approx.f32`. */
export const reciprocalRoot: Emit = approximate((e) => {
  const root = e.temporary("f64");
  e.code.ops("f64Sqrt").set(root).f64(1).get(root).ops("f64Div");
});

/** Emits code for `div.approx`, which computes a * (1 / b). If |b| is greater than 2^126, 1 / b is taken to be 0. */
export const divideApproximately: Emit = (e, i) => {
  const { code } = e;
  const a = e.temporary("f32"), b = e.temporary("f32");
  assignFloat(e, i, () => {
    pushFloat(e, i, i.operands[1]);
    code.set(a);
    pushFloat(e, i, i.operands[2]);
    code.tee(b).ops("f32Abs").f32(2 ** 126).ops("f32Gt").get(b).ops("f32Abs").f32(Infinity).ops("f32Lt", "i32And");
    code.if("f32").get(a).f32(0).get(b).ops("f32Copysign", "f32Mul").else().get(a).get(b).ops("f32Div").end();
    return [];
  });
};

/** Emits code for `rsqrt.approx.f64`. */
export const reciprocalRoot64: Emit = (e, i) => {
  const { code } = e;
  const operand = e.temporary("f64");
  assignFloat(e, i, () => {
    e.push(i.operands[1], i.type);
    code.set(operand).f64(1).get(operand).ops("f64Sqrt", "f64Div");
    return [operand];
  });
};

/**
 * Returns the lowering of `rcp.approx.ftz.f64` or `rsqrt.approx.ftz.f64`, which read and set only the upper 32 bits of
 * a 64-bit float.
 */
export function upperHalf(operation: "reciprocal" | "reciprocalRoot"): Emit {
  return (e, i) => {
    const { code } = e;
    const operand = e.temporary("f64");
    const keepUpperHalf = () => code.i64(0xffff_ffff_0000_0000n).ops("i64And", "f64ReinterpretI64");
    e.assign(i.operands[0], i.type, () => {
      e.push(i.operands[1], i.type);
      code.ops("i64ReinterpretF64");
      keepUpperHalf();
      flushSubnormal64(e);
      code.set(operand).f64(1).get(operand);
      if (operation === "reciprocalRoot") code.ops("f64Sqrt");
      code.ops("f64Div", "i64ReinterpretF64").i64(0x8000_0000n).ops("i64Add");
      keepUpperHalf();
      flushSubnormal64(e);
      canonicalizeNaN(e, i.type, [operand]);
    });
  };
}

/** Emits code that replaces a subnormal 64-bit number on the stack with a zero of the same sign. */
function flushSubnormal64(e: FunctionEmitter): void {
  const value = e.temporary("f64");
  e.code.set(value).f64(0).get(value).ops("f64Copysign").get(value);
  e.code.get(value).ops("f64Abs").f64(2 ** -1022).ops("f64Lt", "select");
}
