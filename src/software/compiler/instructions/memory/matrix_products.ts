/**
 * `mma` and `wmma.mma`: the threads of a warp together compute products of matrices. PTX ISA, sections 9.7.14.4.5,
 * 9.7.14.5.14 and 9.7.14.6.3.
 *
 * Each thread leaves its fragments in memory, and waits until all threads of the warp have arrived. The first thread
 * that resumes computes the products for the warp. Then each thread takes its fragments of the results. Products that
 * follow one another are computed together.
 *
 * @module
 */
import { batchFunction, fragmentsBegin } from "../../tensor_cores/product_batches.ts";
import type { CompiledInstruction, InstructionForm, SuspendingInstruction } from "../instruction_form.ts";
import { instructionForm } from "../instruction_form.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import { fragmentWords, type MatrixProduct, mostSelector } from "../../tensor_cores/matrix_products.ts";
import type { MemoryOpName } from "../../webassembly/opcodes.ts";
import { type BatchedProduct, type PlannedBatch, ProductPlan } from "./product_plan.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
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
    // D takes the place of C if it has the same size.
    return 4 * (a + b + c + (d === c ? 0 : d) + metadata);
  },
  request: (e, i) => request(e, planOf(e, i)),
  resume: (e, i) => resume(e, planOf(e, i)),
};

/** The plan for a single instruction. */
function planOf(e: FunctionEmitter, i: ResolvedInstruction): PlannedBatch {
  const { selector } = productOf(i);
  if (selector !== undefined) checkSelector(e, selector, productOf(i));
  const plan = new ProductPlan();
  plan.add(batchedProduct(i) ?? e.fail(mistakeIn(i)));
  return plan.finish();
}

/** Returns the instruction that stands for several products. */
export function productBatch(members: readonly CompiledInstruction[], plan: PlannedBatch): CompiledInstruction {
  const lowering: SuspendingInstruction = {
    describe: () => ({ kind: "matrixProduct" }),
    fragmentBytes: () => plan.byteLength,
    request: (e) => request(e, plan),
    resume: (e) => resume(e, plan),
  };
  const first = members[0]!;
  const { syntax, section, traits } = first.form;
  const form: InstructionForm = instructionForm(syntax, section, {
    lowering,
    traits: { ...traits, validity: "emitted" },
  });
  const vector = (elements: readonly ResolvedOperand[]) => ({ kind: "vector", elements } as const);
  const operands = [
    vector(plan.results.map(({ operand }) => operand)),
    vector(plan.sources.map(({ operand }) => operand)),
  ];
  return { ...first, form, operands };
}

function request(e: FunctionEmitter, { sources }: PlannedBatch): void {
  for (const { operand, type, at } of sources) {
    e.getFixed("saved");
    e.push(operand, type);
    e.code.memory(`${type.value}Store`, fragmentsBegin + at);
    if (e.shadows === undefined) continue;
    e.getFixed("saved");
    e.shadows.push(operand, type);
    e.code.memory(type.bits === 64 ? "i64Store" : "i32Store", fragmentsBegin + at + shadowOffset);
  }
  e.getFixed("record").i32(-1).memory("i32Store", threadRecord.mask);
  e.getFixed("record").i32(1).memory("i32Store", threadRecord.result);
}

function resume(e: FunctionEmitter, { products, results }: PlannedBatch): void {
  e.getFixed("record").memory("i32Load", threadRecord.result).if();
  e.getLaunchRecord();
  e.getFixed("record");
  e.getFixed("thread");
  e.code.call(batchFunction(e.warpFunctions, products, { hasShadows: e.shadows !== undefined })).end();
  for (const { operand, type, at } of results) {
    const place = fragmentsBegin + at;
    e.assign(operand, type, () => e.getFixed("saved").memory(load(type), place));
    const shadow = shadowType(type);
    e.shadows?.assign(operand, shadow, () => e.getFixed("saved").memory(load(shadow), place + shadowOffset));
  }
}

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

const parts = ["d", "a", "b", "c"] as const;

/** The number of registers of a fragment, and how many of them are needed. */
function registerCounts(
  i: ResolvedInstruction,
  part: typeof parts[number],
): { readonly written: number; readonly needed: number } {
  const product = productOf(i);
  const needed = fragmentWords(product)[part] / (typeOf(product, part).bits / 32);
  // Fragments of f16 in wmma have eight registers. Those that are not needed have copies.
  const isHalf = usesFragments(i) && (part === "a" || part === "b") && product.a === "f16";
  return { written: isHalf ? 8 : needed, needed };
}

/** The product that an instruction computes, with its fragments. Undefined if a fragment has too many or few registers. */
export function batchedProduct(i: ResolvedInstruction): BatchedProduct | undefined {
  const product = productOf(i);
  const fragments = parts.map((part, index) => {
    const operand = i.operands[index];
    const { written, needed } = registerCounts(i, part);
    const operands = operand?.kind === "vector" ? operand.elements : operand?.kind === "register" ? [operand] : [];
    return operands.length === written
      ? { operands: operands.slice(0, needed), type: typeOf(product, part) }
      : undefined;
  });
  const [d, a, b, c] = fragments;
  if (a === undefined || b === undefined || c === undefined || d === undefined) return undefined;
  const { selector = 0 } = product;
  if (selector < 0 || selector > 0 && selector > mostSelector(product)) return undefined;
  const metadata = product.selector === undefined ? undefined : { operands: [i.operands[4]!], type: b32 };
  return { product, a, b, c, d, metadata };
}

/** What is wrong with an instruction for which `batchedProduct` returns undefined. */
function mistakeIn(i: ResolvedInstruction): string {
  for (const [index, part] of parts.entries()) {
    const operand = i.operands[index];
    const { written } = registerCounts(i, part);
    if (
      operand?.kind === "vector" ? operand.elements.length === written : operand?.kind === "register" && written === 1
    ) {
      continue;
    }
    return `it needs a vector of ${written} ${written === 1 ? "register" : "registers"}`;
  }
  return "it has an operand of the wrong kind";
}
