/**
 * The one variable, or the one parameter of the kernel, that an address was certainly computed from. An access by such
 * an address must lie in that variable, or in the memory that the parameter points into, even if there is other memory
 * right beside it.
 *
 * @module
 */

import { parameterOf } from "./address_roots.ts";
import { resultsOf } from "./definitions_and_uses.ts";
import type {
  Register,
  ResolvedAddress,
  ResolvedInstruction,
  ResolvedOperand,
  Variable,
} from "../instructions/resolved_instruction.ts";

/** A parameter of 64 bits from which an address was computed. */
export interface ParameterOrigin {
  readonly kind: "parameter";
  /** Where it begins among the kernel's parameters, in bytes. */
  readonly offset: number;
}

/** The origin from which an address was computed. */
export type PointerOrigin = Variable | ParameterOrigin;

/** Finds the origin of an address. Undefined if it is not certain, or has no bounds. */
export type PointerOrigins = (base: ResolvedAddress["base"]) => PointerOrigin | undefined;

/** An integer that was not computed from a pointer, as far as is known. A pointer loaded from memory counts as one. */
const integer = { kind: "integer" } as const;
/** A value that may have several origins, or was computed in a way that is not tracked. */
const mixed = { kind: "mixed" } as const;
type Value = PointerOrigin | typeof integer | typeof mixed;

/** Finds the origins of a function's addresses. */
export function pointerOrigins(instructions: readonly ResolvedInstruction[]): PointerOrigins {
  const values = findValues(instructions);
  return (base) => {
    const value = base === undefined ? undefined : base.kind === "variable" ? originOf(base) : values.get(base);
    return value === undefined || value.kind === "integer" || value.kind === "mixed" ? undefined : value;
  };
}

/** Joins the values of all instructions that set a register, until none changes. Each changes at most twice. */
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

/** The value of an instruction's results. Undefined if it is not known yet. */
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
  // A product is no pointer, whatever the factors are: sizes in parameters of 64 bits, most likely.
  if (arithmetic === "product" || arithmetic === "shift") return integer;
  if (arithmetic === "product sum") return valueOf(c);
  if (arithmetic === "move" || arithmetic === "conversion" || pointer === "converted") return valueOf(a);
  if (copies === 2) return join(valueOf(a), valueOf(b));
  let value: Value | undefined = integer;
  for (const source of instruction.operands.slice(1)) {
    // A loaded value is not computed from the address.
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
  // A parameter that is added to the address of a variable is no pointer.
  if (a.kind === "variable" && b.kind === "parameter") return a;
  return b.kind === "variable" && a.kind === "parameter" ? b : mixed;
}

function join(a: Value | undefined, b: Value | undefined): Value | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a === b ? a : mixed;
}

/** A variable with bounds. Dynamic shared memory has none, and the kernel's parameters are checked as they are. */
function originOf(variable: Variable): Value {
  return variable.space === "param" || variable.byteLength === 0 ? mixed : variable;
}
