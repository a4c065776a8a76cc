/**
 * How the values of a register differ among the threads of a pack, which stand side by side along x and have come the same
 * way through the kernel.
 *
 * @module
 */
import type { Register } from "../typing/names.ts";
import { typeNamed } from "../typing/scalar_types.ts";
import type { ResolvedOperand, TypedInstruction } from "../typing/typed_instruction.ts";

/**
 * By how much a value is more in each thread than in the one before, modulo 2 to the register's bits: 0 where all have the
 * same. Undefined where that is not known.
 */
export type Shape = bigint | undefined;

/** What is known of a kernel's registers and operands. */
export interface PackShapes {
  shapeOf(operand: ResolvedOperand): Shape;
  /** Whether an instruction does the same in all threads of a pack, so that doing it once is enough. */
  isUniform(instruction: TypedInstruction): boolean;
  /**
   * Of an instruction that extends a number of 32 bits to 64, that number where it must not wrap around within a pack.
   * Undefined for others.
   */
  widened(instruction: TypedInstruction): { readonly operand: ResolvedOperand; readonly isSigned: boolean } | undefined;
}

const uniformSpecials: ReadonlySet<string> = new Set([
  ...["%tid.y", "%tid.z", "%smid", "%nsmid", "%gridid", "%warpid", "%nwarpid", "WARP_SZ"],
  ...["%total_smem_size", "%dynamic_smem_size"],
  ...["%ntid", "%ctaid", "%nctaid"].flatMap((name) => ["x", "y", "z"].map((dimension) => `${name}.${dimension}`)),
]);
/** The number in its warp goes up with x too: a pack does not cross the border of a warp. */
const countingSpecials: ReadonlySet<string> = new Set(["%tid.x", "%laneid"]);
/** What is done for each thread, even if all do the same. */
const oncePerThread: ReadonlySet<string> = new Set(["atom", "red"]);
/** What has no result in its first operand. */
const withoutResult: ReadonlySet<string> = new Set(["st", "red", "cp"]);

/** The registers that an instruction sets. */
export function resultsOf({ form, operands: [destination] }: TypedInstruction): Register[] {
  return withoutResult.has(form.opcode) ? [] : registersOf(destination);
}

/** The operands that an instruction reads, one by one, without its predicate. */
export function sourcesOf({ form, operands }: TypedInstruction): ResolvedOperand[] {
  const [destination, ...sources] = operands;
  const hasResult = !withoutResult.has(form.opcode) && destination?.kind !== "address";
  const read = hasResult ? sources : operands;
  return read.flatMap(partsOf);
}

/** The registers, numbers and so on of which an operand consists. */
function partsOf(operand: ResolvedOperand): ResolvedOperand[] {
  switch (operand.kind) {
    case "vector":
    case "list":
      return operand.elements.flatMap(partsOf);
    case "pair":
      return [operand.first, operand.second].flatMap(partsOf);
    case "not":
      return [operand.register];
    case "address":
      return operand.base === undefined ? [] : [operand.base];
    default:
      return [operand];
  }
}

function registersOf(operand: ResolvedOperand | undefined): Register[] {
  if (operand === undefined || operand.kind === "address") return [];
  return partsOf(operand).filter((part): part is Register => part.kind === "register");
}

/** Finds the shapes of all registers of a function. */
export function packShapes(instructions: readonly TypedInstruction[]): PackShapes {
  // A register that is missing has not been seen to be set yet; a shape that is undefined stands for all.
  const shapes = new Map<Register, Shape>();
  const counting = new Map<Register, boolean>();
  const defined = new Set(instructions.flatMap(resultsOf));
  const isKnown = (operand: ResolvedOperand) =>
    operand.kind !== "register" || shapes.has(operand) || !defined.has(operand);
  const shapeOf = (operand: ResolvedOperand): Shape => {
    if (operand.kind === "register") return shapes.has(operand) ? shapes.get(operand) : 0n;
    if (operand.kind !== "special") return 0n;
    if (uniformSpecials.has(operand.name)) return 0n;
    return countingSpecials.has(operand.name) ? 1n : undefined;
  };
  const isUniform = (instruction: TypedInstruction) => {
    const { predicate, form } = instruction;
    return !oncePerThread.has(form.opcode) && (predicate === undefined || shapeOf(predicate.register) === 0n) &&
      sourcesOf(instruction).every((source) => shapeOf(source) === 0n);
  };
  for (let changed = true; changed;) {
    changed = false;
    for (const instruction of instructions) {
      const results = resultsOf(instruction);
      if (results.length === 0) continue;
      const { predicate } = instruction;
      const read = [...sourcesOf(instruction), ...(predicate === undefined ? [] : [predicate.register])];
      if (!read.every(isKnown)) continue;
      const found = isUniform(instruction) ? 0n : strideOf(instruction, shapeOf);
      for (const result of results) {
        const before = shapes.get(result);
        if (shapes.has(result) && (before === undefined || before === found)) continue;
        shapes.set(result, shapes.has(result) ? undefined : found);
        changed = true;
      }
    }
  }
  for (const { form, operands: [destination, source], predicate } of instructions) {
    if (destination?.kind !== "register") continue;
    const counts = form.opcode === "mov" && source?.kind === "special" && countingSpecials.has(source.name) &&
      predicate === undefined;
    counting.set(destination, counts && counting.get(destination) !== false);
  }
  /** Whether a value is one that counts threads, and is far from wrapping around. */
  const isCounting = (operand: ResolvedOperand) => {
    return operand.kind === "special" ? countingSpecials.has(operand.name) : operand.kind === "register" &&
      counting.get(operand) === true;
  };
  return {
    shapeOf,
    isUniform,
    widened(instruction) {
      if (!extendsTo64(instruction)) return undefined;
      const factors = instruction.operands.slice(1, instruction.form.opcode === "cvt" ? 2 : 3);
      const operand = factors.find((factor) => shapeOf(factor) !== 0n);
      if (operand === undefined || shapeOf(operand) === undefined || isCounting(operand)) return undefined;
      const [result] = resultsOf(instruction);
      if (result === undefined || shapeOf(result) === undefined) return undefined;
      return { operand, isSigned: extendedType(instruction).kind === "signed" };
    },
  };
}

function extendedType({ form, choices, type }: TypedInstruction) {
  return form.opcode === "cvt" ? typeNamed(choices.get("from") ?? "b8") : type;
}

/** Whether an instruction's result of 64 bits is its first operand's number of 32, which may be multiplied too. */
function extendsTo64(instruction: TypedInstruction): boolean {
  const { form, choices, type } = instruction;
  const from = extendedType(instruction);
  if (from.bits !== 32 || from.kind === "float") return false;
  if (form.opcode === "cvt") return type.bits === 64 && type.kind !== "float" && !choices.has("sat");
  return (form.opcode === "mul" || form.opcode === "mad") && choices.has("wide");
}

/** The stride of the result of an instruction that is not the same in all threads. */
function strideOf(instruction: TypedInstruction, shapeOf: (operand: ResolvedOperand) => Shape): Shape {
  const { form, choices, type, operands, predicate } = instruction;
  const [destination, a, b, c] = operands;
  if (destination?.kind !== "register" || a === undefined) return undefined;
  if (predicate !== undefined && shapeOf(predicate.register) !== 0n) return undefined;
  const { bits } = destination.type;
  if (bits < 32 || type.kind === "float") return undefined;
  const modulo = (stride: Shape) => stride === undefined ? undefined : BigInt.asIntN(bits, stride);
  const holds = (operand: ResolvedOperand | undefined, width: number) =>
    operand?.kind !== "register" || operand.type.bits === width;
  const shape = (operand: ResolvedOperand | undefined, width = bits) =>
    operand !== undefined && holds(operand, width) ? shapeOf(operand) : undefined;
  if (!holds(destination, extendsTo64(instruction) ? 64 : type.bits)) return undefined;
  if (choices.has("sat") || choices.has("cc") || form.opcode.endsWith("c")) return undefined;
  switch (form.opcode) {
    case "mov":
      return a.kind === "vector" || (a.kind === "special" && bits !== 32) ? undefined : shape(a);
    case "add":
      return choices.has("packed") ? undefined : modulo(sum(shape(a), shape(b)));
    case "sub":
      return modulo(sum(shape(a), times(shape(b), -1n)));
    case "neg":
      return modulo(times(shape(a), -1n));
    case "cvta":
      return choices.get("space") === "param" ? undefined : shape(a);
    case "shl":
      return b?.kind === "integer" && b.value >= 0n && b.value < bits
        ? modulo(times(shape(a), 1n << b.value))
        : undefined;
    case "mul":
    case "mad": {
      if (choices.has("hi")) return undefined;
      const width = choices.has("wide") ? 32 : bits;
      const factorOf = (operand: ResolvedOperand | undefined) =>
        operand?.kind === "integer" ? integerIn(operand.value, width, type.kind === "signed") : undefined;
      const factor = factorOf(b) ?? factorOf(a);
      const shapes = [shape(a, width), shape(b, width)];
      const multiplied = factorOf(b) === undefined ? shapes[1] : shapes[0];
      const product = shapes[0] === 0n && shapes[1] === 0n
        ? 0n
        : factor === undefined
        ? undefined
        : times(multiplied, factor);
      return form.opcode === "mul" ? modulo(product) : modulo(sum(product, shape(c)));
    }
    case "cvt": {
      const from = typeNamed(choices.get("from") ?? "b8");
      if (from.kind === "float" || from.bits < 32 || type.bits < 32) return undefined;
      return modulo(shape(a, from.bits));
    }
    default:
      return undefined;
  }
}

function integerIn(value: bigint, bits: number, isSigned: boolean): bigint {
  return isSigned ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
}

function sum(a: Shape, b: Shape): Shape {
  return a === undefined || b === undefined ? undefined : a + b;
}

function times(a: Shape, factor: bigint): Shape {
  return a === undefined ? undefined : a * factor;
}

/** Whether an operand can be had as vectors. */
export function hasVectors(shapes: PackShapes, operand: ResolvedOperand | undefined): boolean {
  switch (operand?.kind) {
    case "register":
      return operand.type.bits === 32;
    case "special":
      return shapes.shapeOf(operand) !== undefined;
    case "integer":
    case "float":
    case "variable":
    case "sum":
      return true;
    default:
      return false;
  }
}
