/**
 * Finds the origins of addresses.
 *
 * The origin of an address is the single variable or kernel parameter that the address is known to be computed from. An
 * access through such an address must be within that variable, or within the allocation that the parameter points into,
 * even if adjacent memory is also allocated.
 *
 * In most kernels, the address of an access is a parameter plus an offset in a register: `add.s64 %rd4, %rd1, %rd3`
 * before an access to `[%rd4]`, where `%rd1` is the parameter. A parameter never changes, so the number of bytes from
 * its address to the end of the allocation is computed once, and the check of each access compares the offset with that
 * number.
 *
 * @module
 */
import { parameterOf } from "./address_roots.ts";
import { type Definitions, resultsOf } from "./definitions_and_uses.ts";
import {
  type Register,
  type ResolvedAddress,
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
  type Variable,
} from "../instructions/resolved_instruction.ts";
import { type BasicBlock, type FlowStep, postorder, successors } from "./control_flow_graph.ts";

/** A 64-bit parameter that an address was computed from. */
export interface ParameterOrigin {
  readonly kind: "parameter";
  /** The parameter's offset from the start of the kernel's parameters, in bytes. */
  readonly offset: number;
}

/** The variable or parameter that an address was computed from. */
export type PointerOrigin = Variable | ParameterOrigin;

/** Returns the origin of an address. Undefined if the origin is not certain, or its bounds are not known. */
export type PointerOrigins = (base: ResolvedAddress["base"]) => PointerOrigin | undefined;

/**
 * The abstract value of a register that is not known to be computed from a parameter or a variable. Includes pointers
 * loaded from memory.
 */
const integer = { kind: "integer" } as const;
/** The abstract value of a register that may have several origins, or whose computation is not tracked. */
const mixed = { kind: "mixed" } as const;
type Value = PointerOrigin | typeof integer | typeof mixed;

/** Finds the origin of each address in a function. */
export function pointerOrigins(instructions: readonly ResolvedInstruction[]): PointerOrigins {
  const values = findValues(instructions);
  return (base) => {
    const value = base === undefined ? undefined : base.kind === "variable" ? originOf(base) : values.get(base);
    return value === undefined || value.kind === "integer" || value.kind === "mixed" ? undefined : value;
  };
}

/**
 * Finds the abstract value of each register: joins the values of all instructions that set the register, until no value
 * changes. A value changes at most twice.
 */
function findValues(instructions: readonly ResolvedInstruction[]): ReadonlyMap<Register, Value> {
  const values = new Map<Register, Value>();
  const parameters = new Map<number, ParameterOrigin>();
  const parameterAt = (offset: number): ParameterOrigin => {
    let found = parameters.get(offset);
    if (found === undefined) parameters.set(offset, found = { kind: "parameter", offset });
    return found;
  };
  const valueOf = (operand: ResolvedOperand | undefined): Value | undefined => {
    switch (operand?.kind) {
      case "register":
        return values.get(operand);
      case "variable":
        return originOf(operand);
      case "sum":
        return originOf(operand.variable);
      case "integer":
      case "special":
      case "float":
        return integer;
      default:
        return mixed;
    }
  };
  for (let changes = true; changes;) {
    changes = false;
    for (const instruction of instructions) {
      const results = resultsOf(instruction);
      if (results.length === 0) continue;
      const parameter = parameterOf(instruction);
      const value = parameter === undefined ? resultOf(instruction, valueOf) : parameterAt(parameter);
      if (value === undefined) continue;
      for (const result of results) {
        const before = values.get(result);
        const joined = before === undefined || before === value ? value : mixed;
        if (joined === before) continue;
        values.set(result, joined);
        changes = true;
      }
    }
  }
  return values;
}

/** Returns the abstract value of an instruction's results. Undefined if a source has no value yet. */
function resultOf(
  instruction: ResolvedInstruction,
  valueOf: (operand: ResolvedOperand | undefined) => Value | undefined,
): Value | undefined {
  const { form: { traits, flow }, operands: [, a, b, c] } = instruction;
  const { arithmetic, pointer, copies } = traits;
  if (flow !== undefined) return mixed;
  if (arithmetic === "sum") return sum(valueOf(a), valueOf(b));
  if (arithmetic === "difference") {
    const subtracted = valueOf(b);
    const from = valueOf(a);
    if (subtracted?.kind === "parameter" && from?.kind === "variable") return from;
    return subtracted === undefined || subtracted === integer ? from : mixed;
  }
  // A product or a shifted value is not a pointer, even if an operand is a 64-bit parameter: the parameter is most
  // likely a size.
  if (arithmetic === "product" || arithmetic === "shift") return integer;
  if (arithmetic === "product sum") return valueOf(c);
  if (arithmetic === "move" || arithmetic === "conversion" || pointer === "converted") return valueOf(a);
  if (copies === 2) return join(valueOf(a), valueOf(b));
  let value: Value | undefined = integer;
  for (const source of instruction.operands.slice(1)) {
    // The value that an instruction loads is not computed from the address operand.
    if (source.kind === "address") continue;
    const read = valueOf(source);
    if (read === undefined) value = undefined;
    else if (read !== integer) return mixed;
  }
  return value;
}

function sum(a: Value | undefined, b: Value | undefined): Value | undefined {
  if (a === undefined || b === undefined) return undefined;
  if (a === integer) return b;
  if (b === integer) return a;
  // A parameter that is added to the address of a variable is an offset, not a pointer.
  if (a.kind === "variable" && b.kind === "parameter") return a;
  return b.kind === "variable" && a.kind === "parameter" ? b : mixed;
}

function join(a: Value | undefined, b: Value | undefined): Value | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a === b ? a : mixed;
}

/**
 * Returns the abstract value of a variable's address: the variable, or `mixed` if accesses cannot be checked against
 * the variable's bounds. Dynamic shared memory has no known bounds, and accesses to kernel parameters have checks of
 * their own.
 */
function originOf(variable: Variable): Value {
  return variable.space === "param" || variable.byteLength === 0 ? mixed : variable;
}

/** A register that holds the sum of a parameter and an offset. */
export interface ParameterOffset {
  readonly sum: Register;
  /** The offset of the 64-bit parameter from the start of the kernel's parameters, in bytes. */
  readonly parameter: number;
  readonly offset: Register;
}

/**
 * Maps each access whose address is the sum of a parameter and an offset to this sum. Between the addition and the
 * access, the offset's register is not modified.
 */
export type ParameterOffsets = ReadonlyMap<ResolvedInstruction, ParameterOffset>;

/** The maximum number of conversions and moves followed from a register back to a parameter. */
const mostCopies = 4;

/**
 * Finds the accesses of a kernel whose address is a parameter plus an offset. Must not be called for other functions,
 * whose parameters are in stack frames.
 */
export function parameterOffsets(
  entry: BasicBlock<FlowStep>,
  definitions: Definitions,
): ParameterOffsets {
  const parameterIn = (register: Register, copies = 0): number | undefined => {
    const [definition, ...others] = definitions.get(register) ?? [];
    if (definition === undefined || others.length > 0 || definition.predicate !== undefined) return undefined;
    const parameter = parameterOf(definition);
    if (parameter !== undefined) return parameter;
    const { form: { traits }, operands: [destination, source] } = definition;
    const isCopy = traits.pointer === "converted" ? spaceOf(definition) === "global" : traits.copies === 1;
    if (!isCopy || destination !== register || source?.kind !== "register" || source.type.bits !== 64) return undefined;
    if (copies === mostCopies) return undefined;
    return parameterIn(source, copies + 1);
  };
  const found = new Map<ResolvedInstruction, ParameterOffset>();
  for (const { instructions } of postorder([entry], successors)) {
    const sums = new Map<Register, ParameterOffset>();
    /**
     * `lastSet` maps a register to the index in the block of the instruction that last set the register. `computed`
     * maps a register in `sums` to the index of the addition that computed it.
     */
    const lastSet = new Map<Register, number>(), computed = new Map<Register, number>();
    instructions.forEach(({ instruction }, position) => {
      if (instruction === undefined || instruction.form.flow !== undefined) {
        sums.clear();
        return;
      }
      for (const operand of instruction.operands) {
        if (operand.kind !== "address" || operand.base?.kind !== "register") continue;
        const sum = sums.get(operand.base);
        if (sum === undefined || (lastSet.get(sum.offset) ?? 0) > computed.get(sum.sum)!) continue;
        found.set(instruction, sum);
      }
      for (const result of resultsOf(instruction)) {
        lastSet.set(result, position);
        sums.delete(result);
      }
      const sum = sumOf(instruction, parameterIn);
      if (sum === undefined) return;
      sums.set(sum.sum, sum);
      computed.set(sum.sum, position);
    });
  }
  return found;
}

function sumOf(
  { form, type, operands: [sum, a, b], predicate }: ResolvedInstruction,
  parameterIn: (register: Register) => number | undefined,
): ParameterOffset | undefined {
  if (form.traits.arithmetic !== "sum" || type.bits !== 64 || predicate !== undefined) return undefined;
  if (sum?.kind !== "register" || a?.kind !== "register" || b?.kind !== "register") return undefined;
  for (const [pointer, offset] of [[a, b], [b, a]] as const) {
    const parameter = parameterIn(pointer);
    if (parameter !== undefined && offset !== sum) return { sum, parameter, offset };
  }
  return undefined;
}

/**
 * Returns the root of a pointer: the pointer at the start of the computation that set the register. Two pointers with
 * the same root most likely point into the same allocation.
 */
export type UnderlyingPointers = (register: Register) => Register;

/** The maximum number of instructions that `rankOf` traces back to rate how likely a register is to hold a pointer. */
const deepest = 8;

/**
 * How likely a register is to hold a pointer, by the `pointer` trait of the instruction that sets the register. Higher
 * is more likely.
 */
const ranks = { converted: 2, loaded: 1, derived: 0 } as const;

/**
 * Finds the root of each pointer's computation in a function. The root of a sum is the root of the operand that is more
 * likely to be a pointer. A wrong guess costs only speed.
 */
export function underlyingPointers(instructions: Iterable<ResolvedInstruction>): UnderlyingPointers {
  const sources = new Map<Register, { pointer: keyof typeof ranks; operands: readonly ResolvedOperand[] }>();
  for (const { form, operands } of instructions) {
    const [destination, ...rest] = operands;
    const { pointer } = form.traits;
    if (pointer === undefined || destination?.kind !== "register" || destination.type.bits !== 64) continue;
    const known = sources.get(destination);
    // Only the first definition is recorded: a pointer that a loop advances has its root before the loop.
    if (known === undefined) sources.set(destination, { pointer, operands: rest });
  }
  const roots = new Map<Register, Register>();
  /**
   * Cached results of `rankOf`: for each register, an array indexed by `deeper`, the number of instructions that
   * `rankOf` may still trace back.
   */
  const known = new Map<Register, (number | undefined)[]>();
  const rankOf = (register: Register, deeper: number): number => {
    const source = sources.get(register);
    if (source === undefined || deeper < 0) return 0;
    if (source.pointer !== "derived") return ranks[source.pointer];
    let found = known.get(register);
    if (found === undefined) known.set(register, found = []);
    return found[deeper] ??= registersOf(source.operands).reduce((most, operand) => {
      return Math.max(most, rankOf(operand, deeper - 1));
    }, 0);
  };
  const underlyingPointerOf = (register: Register): Register => {
    const path = new Set<Register>();
    let root = register;
    while (!roots.has(root) && !path.has(root)) {
      path.add(root);
      const source = sources.get(root);
      if (source === undefined || source.pointer === "loaded") break;
      const next = registersOf(source.operands).reduce<Register | undefined>((best, operand) => {
        return best === undefined || rankOf(operand, deepest) > rankOf(best, deepest) ? operand : best;
      }, undefined);
      if (next === undefined) break;
      root = next;
    }
    root = roots.get(root) ?? root;
    for (const passed of path) roots.set(passed, root);
    return root;
  };
  return underlyingPointerOf;
}

function registersOf(operands: readonly ResolvedOperand[]): Register[] {
  return operands.filter((operand): operand is Register => operand.kind === "register" && operand.type.bits === 64);
}
