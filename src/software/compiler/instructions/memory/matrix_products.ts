/**
 * `mma`: the threads of a warp together compute a product of matrices. PTX ISA, section 9.7.14.5.14.
 *
 * Each thread leaves its fragments in memory, and waits until all threads of the warp have arrived. The first thread
 * that resumes computes the product for the warp. Then each thread takes its fragment of the result.
 *
 * @module
 */
import {
  batchFunction,
  fragmentsBegin,
  fragmentWords,
  type MatrixProduct,
  type PlacedProduct,
} from "../../tensor_cores/product_batches.ts";
import type { FloatFormat } from "../../tensor_cores/formats.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { SuspendingInstruction } from "../instruction_form.ts";
import { shadowOffset } from "../../../abi/addresses.ts";
import { threadRecord } from "../../../abi/launch_record.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const b32 = typeNamed("b32");
const f32 = typeNamed("f32");

/** The lowering of `mma`. */
export const matrixProduct: SuspendingInstruction = {
  describe: () => ({ kind: "matrixProduct" }),
  fragmentBytes: (i) => {
    const { a, b, c, d } = fragmentWords(productOf(i));
    return 4 * (a + b + Math.max(c, d));
  },
  request: (e, i) => {
    const { product, places } = placed(i);
    const words = fragmentWords(product);
    for (const [index, part] of (["a", "b", "c"] as const).entries()) {
      leaveFragment(e, registersOf(e, i.operands[index + 1], words[part]), {
        type: part === "c" ? typeOf(product.c) : b32,
        at: places[part],
      });
    }
    e.getFixed("record").i32(-1).memory("i32Store", threadRecord.mask);
    e.getFixed("record").i32(1).memory("i32Store", threadRecord.result);
  },
  resume: (e, i) => {
    const { product, places } = placed(i);
    e.getFixed("record").memory("i32Load", threadRecord.result).if();
    e.getLaunchRecord();
    e.getFixed("record");
    e.getFixed("thread").call(
      batchFunction(e.warpFunctions, [{ product, places }], { hasShadows: e.shadows !== undefined }),
    ).end();
    registersOf(e, i.operands[0], fragmentWords(product).d).forEach((register, index) => {
      const type = typeOf(product.d);
      e.assign(register, type, () => {
        e.getFixed("saved").memory(type === f32 ? "f32Load" : "i32Load", fragmentsBegin + places.d + 4 * index);
      });
      e.shadows?.assign(register, b32, () => {
        e.getFixed("saved").memory("i32Load", fragmentsBegin + places.d + 4 * index + shadowOffset);
      });
    });
  },
};

/** The type of the registers that hold elements of C or D. */
function typeOf(format: "f16" | "f32"): ScalarType {
  return format === "f32" ? f32 : b32;
}

/** The product that an instruction computes. */
function productOf({ choices }: Pick<ResolvedInstruction, "choices">): MatrixProduct {
  const [, m, n, k] = /^m(\d+)n(\d+)k(\d+)$/.exec(choices.get("shape")!)!.map(Number);
  const format = <Format extends FloatFormat | "f32">(name: string) => choices.get(name) as Format;
  return { kind: "float", m: m!, n: n!, k: k!, a: format("a"), b: format("b"), c: format("c"), d: format("d") };
}

/** The places of an instruction's fragments. D takes the place of C. */
function placed(i: ResolvedInstruction): PlacedProduct {
  const product = productOf(i);
  const { a, b } = fragmentWords(product);
  return { product, places: { a: 0, b: 4 * a, c: 4 * (a + b), d: 4 * (a + b) } };
}

/** Returns the registers of a fragment. Reports a compilation error if their number is wrong. */
function registersOf(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
  count: number,
): readonly ResolvedOperand[] {
  if (operand?.kind === "vector" && operand.elements.length === count) return operand.elements;
  if (operand?.kind === "register" && count === 1) return [operand];
  return e.fail(`it needs a vector of ${count} ${count === 1 ? "register" : "registers"}`);
}

/** Emits code that stores a fragment in the thread's memory for fragments. */
function leaveFragment(
  e: FunctionEmitter,
  registers: readonly ResolvedOperand[],
  { type, at }: { type: ScalarType; at: number },
): void {
  registers.forEach((register, index) => {
    e.getFixed("saved");
    e.push(register, type);
    e.code.memory(type === f32 ? "f32Store" : "i32Store", fragmentsBegin + at + 4 * index);
    if (e.shadows === undefined) return;
    e.getFixed("saved");
    e.shadows.push(register, b32);
    e.code.memory("i32Store", fragmentsBegin + at + 4 * index + shadowOffset);
  });
}
