/**
 * Finds the operands and registers that an instruction reads and sets, and where registers are live.
 *
 * A call also sets the registers in its list of results. `resultsOf` does not return them, because the form of a call
 * has no result.
 *
 * @module
 */
import type { InstructionRow } from "../instructions/instruction_traits.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../instructions/resolved_instruction.ts";
import { postorder } from "./control_flow_graph.ts";

/** Returns the registers that an instruction sets. */
export function resultsOf({ form, operands: [destination] }: ResolvedInstruction): Register[] {
  return form.hasResult ? registersOf(destination) : [];
}

/** Returns the registers that an instruction sets, including those in a call's list of results. */
export function registersSet({ form, operands: [first] }: ResolvedInstruction): Register[] {
  return form.hasResult || form.flow === "call" ? registersOf(first) : [];
}

/**
 * Returns the operands that an instruction reads, except its predicate. Vectors, lists, pairs and addresses are split
 * into their elements.
 */
export function sourcesOf({ form, operands }: ResolvedInstruction): ResolvedOperand[] {
  const sources: ResolvedOperand[] = [];
  for (let index = isOnlySet(form) ? 1 : 0; index < operands.length; index++) addParts(operands[index]!, sources);
  return sources;
}

/**
 * Returns the registers that an instruction reads, except its predicate. If the predicate is false, the results keep
 * their old values, so a predicated instruction also reads its results.
 */
export function registersRead({ form, operands, predicate }: ResolvedInstruction): Register[] {
  const read: Register[] = [];
  for (let index = isOnlySet(form) && predicate === undefined ? 1 : 0; index < operands.length; index++) {
    visitRegisters(operands[index]!, (register) => read.push(register));
  }
  return read;
}

/** Whether instructions of a form set their first operand and do not read it. */
export function isOnlySet({ hasResult, traits }: InstructionRow): boolean {
  return hasResult && traits.readsResult !== true;
}

/** Returns the registers in operands, including the base registers of addresses, with repetitions. */
export function registersIn(operands: readonly ResolvedOperand[]): Register[] {
  const found: Register[] = [];
  for (const operand of operands) visitRegisters(operand, (register) => found.push(register));
  return found;
}

/** Returns the registers in all operands of an instruction, and that of its predicate, with repetitions. */
export function registersOfInstruction({ operands, predicate }: ResolvedInstruction): Register[] {
  const found = registersIn(operands);
  if (predicate !== undefined) found.push(predicate.register);
  return found;
}

/** Returns the registers in an operand, except the base register of an address. */
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

/** Calls `visit` with each register in an operand, including the base register of an address. */
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

/** Appends the elements of an operand to `parts`. */
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

/**
 * Maps each value to its readers, in order. An analysis uses this map to re-examine the readers when the value changes.
 */
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

/** The uses and definitions of registers in a piece of code. */
export interface RegisterUse<Name = Register> {
  /** The registers that the code reads before setting them. */
  readonly uses: ReadonlySet<Name>;
  /** The registers that the code sets on every path. */
  readonly definitions: ReadonlySet<Name>;
}

/**
 * Returns the registers that instructions read before setting them, and the registers that they set unconditionally.
 */
export function registerUseOf(instructions: Iterable<ResolvedInstruction>): RegisterUse {
  const uses = new Set<Register>(), definitions = new Set<Register>();
  const read = (operand: ResolvedOperand) => {
    if (operand.kind === "register" && !definitions.has(operand)) uses.add(operand);
  };
  for (const instruction of instructions) {
    const { predicate } = instruction;
    const results = resultsOf(instruction);
    sourcesOf(instruction).forEach(read);
    if (predicate === undefined) { for (const register of results) definitions.add(register); }
    else {
      read(predicate.register);
      // If the predicate is false, the results keep their old values, so the instruction also reads them.
      results.forEach(read);
    }
  }
  return { uses, definitions };
}

/**
 * A graph of basic blocks, and the registers that each block uses. The graph has edges to the blocks where suspended
 * threads resume.
 */
export interface LivenessGraph<Block, Name = Register> {
  readonly entry: Block;
  next(block: Block): readonly Block[];
  use(block: Block): RegisterUse<Name>;
}

/** Returns a function that maps each of the basic blocks in `at` to the registers that are live at its start. */
export function liveRegisters<Block, Name = Register>(
  { at, ...graph }: LivenessGraph<Block, Name> & { readonly at: Iterable<Block> },
): (block: Block) => readonly Name[] {
  const live = new Map<Block, Name[]>();
  for (const block of at) live.set(block, []);
  walkLiveRanges(graph, (register, block) => live.get(block)?.push(register));
  return (block) => live.get(block)!;
}

/**
 * Calls `visit` for each register and each basic block at whose start the register is live.
 *
 * Follows each register backward from its uses to its definitions. The time is proportional to the sum of the lengths
 * of all live ranges, in blocks.
 */
export function walkLiveRanges<Block, Name = Register>(
  { entry, next, use }: LivenessGraph<Block, Name>,
  visit: (register: Name, block: Block) => void,
): void {
  const blocks = postorder([entry], next);
  const indices = new Map(blocks.map((block, index) => [block, index]));
  const { registers, uses, definitions } = occurrencesOf(blocks.map(use));
  const edges = new Pairs();
  blocks.forEach((block, index) => {
    for (const successor of next(block)) edges.add(indices.get(successor)!, index);
  });
  const before = edges.group(blocks.length);
  const definedIn = new Uint32Array(blocks.length);
  const visitedFor = new Uint32Array(blocks.length);
  const rest: number[] = [];
  registers.forEach((register, number) => {
    const mark = number + 1;
    for (let at = definitions.begins[number]!; at < definitions.begins[number + 1]!; at++) {
      definedIn[definitions.values[at]!] = mark;
    }
    const reach = (index: number): void => {
      if (visitedFor[index] === mark) return;
      visitedFor[index] = mark;
      visit(register, blocks[index]!);
      rest.push(index);
    };
    for (let at = uses.begins[number]!; at < uses.begins[number + 1]!; at++) reach(uses.values[at]!);
    for (let index = rest.pop(); index !== undefined; index = rest.pop()) {
      for (let at = before.begins[index]!; at < before.begins[index + 1]!; at++) {
        const predecessor = before.values[at]!;
        if (definedIn[predecessor] !== mark) reach(predecessor);
      }
    }
  });
}

/**
 * Returns the registers that some basic block reads before setting them, and for each of them the indices of the blocks
 * that use and that define it.
 */
function occurrencesOf<Name>(
  blocks: readonly RegisterUse<Name>[],
): { readonly registers: readonly Name[]; readonly uses: Groups; readonly definitions: Groups } {
  const numbers = new Map<Name, number>();
  const [uses, definitions] = [new Pairs(), new Pairs()];
  blocks.forEach((block, index) => {
    for (const register of block.uses) {
      let number = numbers.get(register);
      if (number === undefined) numbers.set(register, number = numbers.size);
      uses.add(number, index);
    }
  });
  blocks.forEach((block, index) => {
    for (const register of block.definitions) {
      const number = numbers.get(register);
      if (number !== undefined) definitions.add(number, index);
    }
  });
  return {
    registers: [...numbers.keys()],
    uses: uses.group(numbers.size),
    definitions: definitions.group(numbers.size),
  };
}

/**
 * Lists of numbers, one list per key. The numbers of key `k` are the elements of `values` from index `begins[k]` up to,
 * but not including, `begins[k + 1]`, in the order in which they were added.
 */
export interface Groups {
  readonly begins: Uint32Array;
  readonly values: Uint32Array;
}

/** Collects pairs of a key and a number. Faster than one array per key, because there may be many keys. */
export class Pairs {
  readonly #keys: number[] = [];
  readonly #values: number[] = [];

  add(key: number, value: number): void {
    this.#keys.push(key);
    this.#values.push(value);
  }

  /** Sorts the pairs by their keys, which are less than `count`. */
  group(count: number): Groups {
    const begins = new Uint32Array(count + 1);
    for (const key of this.#keys) begins[key + 1]!++;
    for (let key = 0; key < count; key++) begins[key + 1]! += begins[key]!;
    const ends = begins.slice();
    const values = new Uint32Array(this.#values.length);
    this.#keys.forEach((key, index) => values[ends[key]!++] = this.#values[index]!);
    return { begins, values };
  }
}
