/**
 * `mma`, `wmma.mma` and `ldmatrix`: the threads of a warp together compute products of matrices, and load matrices of 8
 * x 8 16-bit elements from shared memory. PTX ISA, sections 9.7.14.4.5, 9.7.14.5.14, 9.7.14.5.15 and 9.7.14.6.3.
 *
 * Each thread leaves its fragments in memory, and waits until all threads of the warp have arrived. The first thread
 * that resumes loads the matrices and computes the products for the warp. Then each thread takes its fragments of the
 * results. Loads and products that follow one another are executed together.
 *
 * @module
 */
import { batchFunction, fragmentsBegin } from "../../tensor_cores/product_batches.ts";
import {
  type CompiledInstruction,
  type InstructionForm,
  instructionForm,
  type SuspendingInstruction,
} from "../instruction_form.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import { fragmentWords, type MatrixProduct, mostSelector } from "../../tensor_cores/matrix_products.ts";
import type { MemoryOpName } from "../../webassembly/opcodes.ts";
import { type BatchedLoad, type BatchedProduct, type PlannedBatch, ProductPlan } from "./product_plan.ts";
import type { InstructionTraits } from "../../../../ptx/instructions/instruction_traits.ts";
import { pushLocation } from "./address_checks.ts";
import {
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { specialRegister } from "../special_registers.ts";
import { reportLoadOfRow } from "../../checks/memory_shadows.ts";
import { shadowType } from "../../checks/register_shadows.ts";
import { shadowOffset } from "../../../abi/addresses.ts";
import { threadRecord } from "../../../abi/launch_record.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const b32 = typeNamed("b32");

/** The lowering of `mma`. */
export const matrixProduct: SuspendingInstruction = loweringOf((i) => batchedProduct(i));

/** The lowering of `ldmatrix`. */
export const loadMatrices: SuspendingInstruction = loweringOf((i) => batchedLoad(i as CompiledInstruction));

/** The lowering of a single instruction. */
function loweringOf(
  operationOf: (i: ResolvedInstruction) => BatchedProduct | BatchedLoad | undefined,
): SuspendingInstruction {
  const planOf = (i: ResolvedInstruction): PlannedBatch | undefined => {
    const plan = new ProductPlan();
    const operation = operationOf(i);
    if (operation !== undefined) plan.add(operation);
    return operation && plan.finish();
  };
  return {
    describe: () => ({ kind: "matrixProduct" }),
    fragmentBytes: (i) => planOf(i)?.byteLength ?? 0,
    request: (e, i) => request(e, planOf(i) ?? e.fail(mistakeIn(i))),
    answer: (e, i) => answer(e, planOf(i)!),
    resume: (e, i) => resume(e, planOf(i)!),
  };
}

/** Returns the loads and the product that an instruction stands for. Undefined if it cannot be in a batch. */
export function batchedOperation(i: CompiledInstruction): BatchedProduct | BatchedLoad | undefined {
  if (i.predicate !== undefined) return undefined;
  const { suspending } = i.form;
  return suspending === matrixProduct ? batchedProduct(i) : suspending === loadMatrices ? batchedLoad(i) : undefined;
}

/** Returns the instruction that stands for several loads and products. */
export function productBatch(members: readonly CompiledInstruction[], plan: PlannedBatch): CompiledInstruction {
  const lowering: SuspendingInstruction = {
    describe: () => ({ kind: "matrixProduct" }),
    fragmentBytes: () => plan.byteLength,
    residents: plan.residents,
    request: (e) => request(e, plan),
    answer: (e) => answer(e, plan),
    resume: (e) => resume(e, plan),
  };
  const first = members[0]!;
  const { syntax, section } = first.form;
  const traits = members.some(({ form }) => form.suspending === loadMatrices) ? loading : computing;
  const form: InstructionForm = instructionForm(syntax, section, {
    lowering,
    traits: { ...traits, validity: "emitted" },
  });
  const vector = (elements: readonly { readonly operand: ResolvedOperand }[]) => {
    const operands = elements.map(({ operand }) => operand);
    return { kind: "vector", elements: [...operands, ...plan.residents.keys()] } as const;
  };
  const addresses = plan.rows.map(({ load }) => load.address);
  return { ...first, form, operands: [vector(plan.results), vector(plan.sources), ...addresses] };
}

const computing: InstructionTraits = { effects: [], synchronization: "lanes" };
const loading: InstructionTraits = { effects: ["reads", "observes"], access: "shared", synchronization: "lanes" };

function request(e: FunctionEmitter, plan: PlannedBatch): void {
  const { sources, rows } = plan;
  // Functions must be created before the code that calls them is emitted.
  functionOf(e, plan);
  for (const { load, at } of rows) {
    e.begin(load.instruction);
    leaveRow(e, load, fragmentsBegin + at);
  }
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

/** Returns the index of the function that computes a batch. */
function functionOf(e: FunctionEmitter, { operations }: PlannedBatch): number {
  return batchFunction(e.kernelFunctions, operations, { hasShadows: e.shadows !== undefined });
}

function answer(e: FunctionEmitter, plan: PlannedBatch): void {
  e.getFixed("record").memory("i32Load", threadRecord.result).if();
  e.getLaunchRecord();
  e.getFixed("record");
  e.getFixed("thread");
  e.code.call(functionOf(e, plan)).end();
}

function resume(e: FunctionEmitter, { results }: PlannedBatch): void {
  for (const { operand, type, at } of results) {
    const place = fragmentsBegin + at;
    e.assign(operand, type, () => e.getFixed("saved").memory(load(type), place));
    const shadow = shadowType(type);
    e.shadows?.assign(operand, shadow, () => e.getFixed("saved").memory(load(shadow), place + shadowOffset));
  }
}

/** The load of an `ldmatrix`. Undefined if its operands are wrong. */
function batchedLoad(instruction: CompiledInstruction): BatchedLoad | undefined {
  const { operands: [results, address], choices } = instruction;
  const count = Number(choices.get("matrices")!.slice(1));
  if (results?.kind !== "vector" || results.elements.length !== count || address?.kind !== "address") return undefined;
  const isTransposed = choices.has("trans");
  return { kind: "load", instruction, address, results: { operands: results.elements, type: b32 }, isTransposed };
}

const rowsOfMatrix = 8;
const rowBytes = 16;

/**
 * Emits code that checks the address that the thread passes, which is the address of a matrix row, and stores the row's
 * offset in linear memory in the thread's memory for fragments. Lanes 0 to 7 pass the rows of the first matrix, lanes 8
 * to 15 the rows of the second, and so on. For lanes beyond the last row, the address is ignored.
 */
function leaveRow(e: FunctionEmitter, { instruction, address, results }: BatchedLoad, at: number): void {
  const count = results.operands.length * rowsOfMatrix;
  const row = e.temporary("i32");
  if (count < 32) {
    specialRegister("%laneid")!.push(e);
    e.code.i32(count).ops("i32LtU").if();
  }
  pushLocation(e, address, { space: spaceOf(instruction), bytes: rowBytes, operation: "read" });
  e.code.set(row);
  e.getFixed("saved").get(row).memory("i32Store", at);
  reportLoadOfRow(e, row);
  if (count < 32) e.code.end();
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
  return { kind: "product", product, a, b, c, d, metadata };
}

/** Returns the reason why an instruction is invalid: why it has no operation. */
function mistakeIn(i: ResolvedInstruction): string {
  const noun = (count: number) => `it needs a vector of ${count} ${count === 1 ? "register" : "registers"}`;
  if (i.choices.has("matrices")) {
    const count = Number(i.choices.get("matrices")!.slice(1));
    const [results] = i.operands;
    const isVector = results?.kind === "vector" && results.elements.length === count;
    return isVector ? "its address must be in brackets" : noun(count);
  }
  for (const [index, part] of parts.entries()) {
    const operand = i.operands[index];
    const { written } = registerCounts(i, part);
    if (
      operand?.kind === "vector" ? operand.elements.length === written : operand?.kind === "register" && written === 1
    ) {
      continue;
    }
    return noun(written);
  }
  const most = mostSelector(productOf(i));
  return `its last operand must be ${most === 0 ? "0" : `a number from 0 to ${most}`}`;
}
