/**
 * The operands and registers that an instruction reads and sets.
 *
 * A call sets registers, too: those in the list of its results. They are not among its results here, because its form has
 * none.
 *
 * @module
 */
import type { Register, ResolvedInstruction, ResolvedOperand } from "../instructions/resolved_instruction.ts";

/** The registers that an instruction sets. */
export function resultsOf({ form, operands: [destination] }: ResolvedInstruction): Register[] {
  return form.hasResult ? registersOf(destination) : [];
}

/** The operands that an instruction reads, one by one, without its predicate: registers, numbers and so on. */
export function sourcesOf({ form, operands }: ResolvedInstruction): ResolvedOperand[] {
  const sources: ResolvedOperand[] = [];
  for (let index = form.hasResult ? 1 : 0; index < operands.length; index++) addParts(operands[index]!, sources);
  return sources;
}

/**
 * The registers that an instruction reads, apart from its predicate. Without its predicate, an instruction leaves its
 * results as they were: a predicated one reads them.
 */
export function registersRead({ form, operands, predicate }: ResolvedInstruction): Register[] {
  const read: Register[] = [];
  for (let index = form.hasResult && predicate === undefined ? 1 : 0; index < operands.length; index++) {
    visitRegisters(operands[index]!, (register) => read.push(register));
  }
  return read;
}

/** The registers that an operand consists of. The one in an address is none of them. */
export function registersOf(operand: ResolvedOperand | undefined): Register[] {
  switch (operand?.kind) {
    case "register":
      return [operand];
    case "not":
      return [operand.register];
    case "pair":
      return [operand.first, operand.second].flatMap(registersOf);
    case "vector":
    case "list":
      return operand.elements.flatMap(registersOf);
    default:
      return [];
  }
}

/** Calls a function with each register in an operand. The one in an address is among them. */
export function visitRegisters(operand: ResolvedOperand, visit: (register: Register) => void): void {
  switch (operand.kind) {
    case "register":
      visit(operand);
      break;
    case "not":
      visit(operand.register);
      break;
    case "address":
      if (operand.base !== undefined) visitRegisters(operand.base, visit);
      break;
    case "pair":
      visitRegisters(operand.first, visit);
      visitRegisters(operand.second, visit);
      break;
    case "vector":
    case "list":
      for (const element of operand.elements) visitRegisters(element, visit);
  }
}

/** Adds the elements of an operand. */
function addParts(operand: ResolvedOperand, parts: ResolvedOperand[]): void {
  switch (operand.kind) {
    case "vector":
    case "list":
      for (const element of operand.elements) addParts(element, parts);
      break;
    case "pair":
      addParts(operand.first, parts);
      addParts(operand.second, parts);
      break;
    case "not":
      parts.push(operand.register);
      break;
    case "address":
      if (operand.base !== undefined) parts.push(operand.base);
      break;
    default:
      parts.push(operand);
  }
}

/** The instructions that set each register, in program order. */
export type Definitions = ReadonlyMap<Register, readonly ResolvedInstruction[]>;

/** Finds the instructions that set each register. */
export function definitionsOf(instructions: Iterable<ResolvedInstruction>): Definitions {
  return readersOf(instructions, resultsOf);
}

/** Finds who must be examined again when something has changed: for each thing, the readers that read it, in order. */
export function readersOf<Reader, Thing>(
  readers: Iterable<Reader>,
  readBy: (reader: Reader) => Iterable<Thing>,
): ReadonlyMap<Thing, readonly Reader[]> {
  const found = new Map<Thing, Reader[]>();
  for (const reader of readers) {
    for (const thing of readBy(reader)) {
      const others = found.get(thing);
      if (others === undefined) found.set(thing, [reader]);
      else others.push(reader);
    }
  }
  return found;
}
