/**
 * `mma` and `wmma.mma`: the threads of a warp together compute a product of matrices. PTX ISA, sections 9.7.14.4.5,
 * 9.7.14.5.14 and 9.7.14.6.3.
 *
 * Each thread leaves its fragments in memory, and waits until all threads of the warp have arrived. The first thread
 * that resumes computes the product for the warp. Then each thread takes its fragment of the result.
 *
 * @module
 */
import { batchFunction, fragmentsBegin, type PlacedProduct } from "../../tensor_cores/product_batches.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import { fragmentWords, type MatrixProduct, mostSelector } from "../../tensor_cores/matrix_products.ts";
import type { MemoryOpName } from "../../webassembly/opcodes.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { SuspendingInstruction } from "../instruction_form.ts";
import { shadowType } from "../../checks/register_shadows.ts";
import { shadowOffset } from "../../../abi/addresses.ts";
import { threadRecord } from "../../../abi/launch_record.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const b32 = typeNamed("b32");

/** The lowering of `mma`. */
export const matrixProduct: SuspendingInstruction = {
  describe: () => ({ kind: "matrixProduct" }),
  fragmentBytes: (i) => {
    const { a, b, c, d, metadata } = fragmentWords(productOf(i));
    return 4 * (a + b + Math.max(c, d) + metadata);
  },
  request: (e, i) => {
    const { product, places } = placed(i);
    for (const part of ["a", "b", "c"] as const) {
      leaveFragment(e, registersOf(e, i, { product, part }), {
        type: typeOf(product, part),
        at: places[part],
      });
    }
    if (product.selector !== undefined) checkSelector(e, product.selector, product);
    if (product.selector !== undefined) leaveFragment(e, [i.operands[4]!], { type: b32, at: places.metadata });
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
    const type = typeOf(product, "d");
    registersOf(e, i, { product, part: "d" }).forEach((register, index) => {
      const at = fragmentsBegin + places.d + type.bits / 8 * index;
      e.assign(register, type, () => e.getFixed("saved").memory(load(type), at));
      const shadow = shadowType(type);
      e.shadows?.assign(register, shadow, () => e.getFixed("saved").memory(load(shadow), at + shadowOffset));
    });
  },
};

/** The type of the registers of a fragment. */
function typeOf(product: MatrixProduct, part: "a" | "b" | "c" | "d"): ScalarType {
  const format = product[part];
  return format === "f64" || format === "f32" ? typeNamed(format) : b32;
}

function load({ value }: ScalarType): MemoryOpName {
  return `${value}Load`;
}

/** Whether an instruction is `wmma.mma`. */
function usesFragments({ choices }: ResolvedInstruction): boolean {
  return choices.has("mma");
}

/** The product that an instruction computes. */
function productOf(i: ResolvedInstruction): MatrixProduct {
  const { choices, operands } = i;
  const [, m, n, k] = /^m(\d+)n(\d+)k(\d+)$/.exec(choices.get("shape")!)!.map(Number);
  const chosen = <Value>(name: string) => choices.get(name) as Value;
  const product = {
    ...{ m: m!, n: n!, k: k! },
    ...{ a: chosen<"f16" | undefined>("a") ?? "f16", b: chosen<"f16" | undefined>("b") ?? "f16" },
    ...{ c: chosen<"f32">("c"), d: chosen<"f32">("d") },
    ...choices.has("satfinite") ? { saturates: true } as const : {},
    ...choices.has("operation") ? { operation: chosen<"and">("operation") } : {},
    ...choices.has("rounding") ? { rounding: chosen<"rn">("rounding") } : {},
  };
  // wmma multiplies tf32 in two steps.
  if (usesFragments(i)) return choices.get("a") === "tf32" ? { ...product, blockDepth: 4 } : product;
  const selector = operands[5];
  if (choices.has("metadata")) {
    return { ...product, selector: selector?.kind === "integer" ? Number(selector.value) : -1 };
  }
  if (!choices.has("aLayout")) return product;
  return { ...product, layouts: { a: chosen("aLayout"), b: chosen("bLayout") } };
}

/** Reports a compilation error for a selector that names no lanes. */
function checkSelector(e: FunctionEmitter, selector: number, product: MatrixProduct): void {
  const most = mostSelector(product);
  if (selector >= 0 && selector <= most) return;
  e.fail(`its last operand must be ${most === 0 ? "0" : `a number from 0 to ${most}`}`);
}

/** The places of an instruction's fragments. D takes the place of C. */
function placed(i: ResolvedInstruction): PlacedProduct {
  const product = productOf(i);
  const { a, b, c, d } = fragmentWords(product);
  const accumulator = 4 * (a + b);
  return {
    product,
    places: { a: 0, b: 4 * a, c: accumulator, d: accumulator, metadata: accumulator + 4 * Math.max(c, d) },
  };
}

/** Returns the registers of a fragment. Reports a compilation error if their number is wrong. */
function registersOf(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { product, part }: { product: MatrixProduct; part: "a" | "b" | "c" | "d" },
): readonly ResolvedOperand[] {
  const operand = i.operands[["d", "a", "b", "c"].indexOf(part)];
  const needed = fragmentWords(product)[part] / (typeOf(product, part).bits / 32);
  // Fragments of f16 in wmma have eight registers. Those that are not needed have copies.
  const count = usesFragments(i) && (part === "a" || part === "b") && product.a === "f16" ? 8 : needed;
  if (operand?.kind === "vector" && operand.elements.length === count) return operand.elements.slice(0, needed);
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
    const place = fragmentsBegin + at + type.bits / 8 * index;
    e.getFixed("saved");
    e.push(register, type);
    e.code.memory(`${type.value}Store`, place);
    if (e.shadows === undefined) return;
    e.getFixed("saved");
    e.shadows.push(register, type);
    e.code.memory(type.bits === 64 ? "i64Store" : "i32Store", place + shadowOffset);
  });
}
