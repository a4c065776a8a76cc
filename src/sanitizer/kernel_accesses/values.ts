/**
 * Evaluates instructions whose results are affine forms of the thread's coordinates, or conditions on such forms.
 *
 * @module
 */
import type { Arithmetic } from "../../ptx/instructions/instruction_traits.ts";
import {
  type AffineForm,
  type Condition,
  constantForm,
  decide,
  type Domain,
  formOf,
  isUniform,
  noBase,
  productOf,
  rangeOf,
  simplified,
  sumOf,
  untrackedBase,
} from "./domain.ts";

import type { ResolvedInstruction } from "../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../ptx/instructions/scalar_types.ts";

/**
 * The value of a register: an affine form of the thread's coordinates, or for a predicate, a condition on them.
 * Undefined if the value is unknown.
 */
export type AbstractValue = AffineForm | Condition | undefined;

/** The context in which an instruction is evaluated: the threads, and the launch's parameters. */
export interface EvaluationContext {
  readonly domain: Domain;
  /** Returns the value of the 64-bit parameter at an offset. */
  parameter(offset: number): number;
}

/** Returns the value that an instruction writes to its first operand. `values` are the values of the other operands. */
export function evaluate(
  instruction: ResolvedInstruction,
  values: readonly AbstractValue[],
  context: EvaluationContext,
): AbstractValue | Undecided {
  return new Evaluation(instruction, values, context).run();
}

class Evaluation {
  readonly #instruction: ResolvedInstruction;
  readonly #values: readonly AbstractValue[];
  readonly #domain: Domain;
  readonly #context: EvaluationContext;
  readonly #type: IntegerType | undefined;

  constructor(instruction: ResolvedInstruction, values: readonly AbstractValue[], context: EvaluationContext) {
    this.#instruction = instruction;
    this.#values = values;
    this.#context = context;
    this.#domain = context.domain;
    this.#type = instruction.choices.has("type") ? integerTypeOf(instruction.type) : undefined;
  }

  run(): AbstractValue | Undecided {
    const { form: { traits: { arithmetic, pointer } }, choices, type } = this.#instruction;
    if (pointer === "converted") return this.#values[0];
    if (arithmetic === undefined || choices.has("sat")) return undefined;
    if (type.kind === "predicate") return this.#logic(arithmetic);
    switch (arithmetic) {
      case "move":
        return this.#values[0];
      case "comparison":
        return this.#compare();
      case "selection":
        return this.#select();
      case "conversion":
        return this.#convert();
    }
    if (this.#type === undefined) return undefined;
    const operation = integerOperations[arithmetic];
    const forms = this.#values.map((value) => value?.kind === "affine" ? simplified(value, this.#domain) : undefined);
    if (operation === undefined || forms.includes(undefined)) return undefined;
    return operation(forms as AffineForm[], this.#operands());
  }

  #operands(): OperandTools {
    const type = this.#type!;
    return {
      type,
      choices: this.#instruction.choices,
      domain: this.#domain,
      plain: (form) => this.#plain(form),
      numeric: (form, as = type) => this.#numeric(form, as),
    };
  }

  /**
   * Replaces the base of an affine form with the value of the parameter that the base stands for. Undefined if the base
   * is the address of a variable.
   */
  #plain(form: AffineForm): AffineForm | undefined {
    if (form.base === noBase) return form;
    if (form.base <= untrackedBase) return undefined;
    return sumOf({ ...form, base: noBase }, constantForm(this.#context.parameter(form.base)));
  }

  /**
   * Returns the affine form of a register's value, interpreted as an integer of the given type. Undefined if the value
   * may wrap around in some threads but not in others.
   */
  #numeric(form: AffineForm, { bits, isSigned }: IntegerType): AffineForm | undefined {
    const plain = this.#plain(form);
    if (plain === undefined) return undefined;
    const { low, high } = rangeOf(plain, this.#domain);
    // Reject larger values, which may be inexact, and may have wrapped around in 64 bits.
    if (!(low >= Number.MIN_SAFE_INTEGER && high <= Number.MAX_SAFE_INTEGER)) return undefined;
    if (bits === 64) return isSigned || low >= 0 ? plain : undefined;
    const modulus = 2 ** bits, half = isSigned ? modulus / 2 : 0;
    const turns = Math.floor((low + half) / modulus);
    if (Math.floor((high + half) / modulus) !== turns) return undefined;
    return turns === 0 ? plain : sumOf(plain, constantForm(-turns * modulus));
  }

  #logic(arithmetic: Arithmetic): AbstractValue {
    const [a, b] = this.#values;
    if (a === undefined || a.kind === "affine") return undefined;
    if (arithmetic === "move") return a;
    if (arithmetic === "not") return { kind: "not", of: a };
    if (b === undefined || b.kind === "affine") return undefined;
    if (arithmetic === "and") return { kind: "and", of: [a, b] };
    return arithmetic === "or" ? either(a, b) : undefined;
  }

  #compare(): AbstractValue {
    const [first, second, third] = this.#values;
    const { choices } = this.#instruction;
    const relation = choices.get("compare"), combination = choices.get("combine");
    if (relation === undefined || this.#type === undefined || first?.kind !== "affine" || second?.kind !== "affine") {
      return undefined;
    }
    const test = this.#comparison(relation, first, second);
    if (combination === undefined || test === undefined) return test;
    if (third === undefined || third.kind === "affine") return undefined;
    return combination === "and"
      ? { kind: "and", of: [test, third] }
      : combination === "or"
      ? either(test, third)
      : undefined;
  }

  #comparison(relation: string, first: AffineForm, second: AffineForm): Condition | undefined {
    const { bits } = this.#type!;
    const isUnsigned = ["lo", "ls", "hi", "hs"].includes(relation);
    const type = isUnsigned ? { bits, isSigned: false } : this.#type!;
    const [a, b] = [this.#numeric(first, type), this.#numeric(second, type)];
    const difference = a && b && sumOf(a, b, -1);
    if (difference === undefined) return undefined;
    const negative = productOf(difference, -1);
    switch (relation) {
      case "eq":
        return { kind: "test", form: difference, relation: "zero" };
      case "ne":
        return { kind: "not", of: { kind: "test", form: difference, relation: "zero" } };
      case "ge":
      case "hs":
        return { kind: "test", form: difference, relation: "notNegative" };
      case "lt":
      case "lo":
        return { kind: "not", of: { kind: "test", form: difference, relation: "notNegative" } };
      case "le":
      case "ls":
        return negative && { kind: "test", form: negative, relation: "notNegative" };
      case "gt":
      case "hi":
        return negative && { kind: "not", of: { kind: "test", form: negative, relation: "notNegative" } };
      default:
        return undefined;
    }
  }

  #select(): AbstractValue | Undecided {
    const [a, b, condition] = this.#values;
    if (condition === undefined || condition.kind === "affine" || a === undefined && b === undefined) return undefined;
    const isFirst = decide(this.#domain, condition);
    return isFirst === undefined ? { kind: "undecided", condition } : isFirst ? a : b;
  }

  #convert(): AbstractValue {
    const to = this.#type, from = integerTypeOf(this.#instruction.sourceType);
    const [value] = this.#values;
    if (to === undefined || from === undefined || value?.kind !== "affine") return undefined;
    if (to.bits === 64 && from.bits === 64) return value;
    // The address of a variable fits in 32 bits, so a conversion between types of at least 32 bits preserves it.
    if (value.base <= untrackedBase) return Math.min(to.bits, from.bits) >= 32 ? value : undefined;
    return to.bits > from.bits
      ? this.#numeric(value, from)
      : to.bits < 32
      ? this.#numeric(value, to)
      : this.#plain(value);
  }
}

function integerTypeOf({ kind, bits }: ScalarType): IntegerType | undefined {
  return kind === "float" || kind === "predicate" ? undefined : { bits, isSigned: kind === "signed" };
}

function either(a: Condition, b: Condition): Condition {
  return { kind: "not", of: { kind: "and", of: [{ kind: "not", of: a }, { kind: "not", of: b }] } };
}

/** The width and signedness of a PTX integer type. */
export interface IntegerType {
  readonly bits: number;
  readonly isSigned: boolean;
}

/** Returned instead of a value if the value depends on a condition that is true in only a part of the domain. */
export interface Undecided {
  readonly kind: "undecided";
  readonly condition: Condition;
}

/**
 * Thrown if a value becomes affine when a dimension is split into two. The coordinate in the old dimension is the first
 * new coordinate plus `size` times the second.
 */
export class SplitDimension extends Error {
  readonly dimension: number;
  readonly size: number;

  constructor(dimension: number, size: number) {
    super();
    this.dimension = dimension;
    this.size = size;
  }
}

/** The context in which an operation evaluates its operands, with functions to convert them. */
export interface OperandTools {
  readonly type: IntegerType;
  /** The instruction's modifiers, keyed by the name of their slot. */
  readonly choices: ReadonlyMap<string, string>;
  readonly domain: Domain;
  /** Replaces the base of an affine form with the value of the parameter that the base stands for. */
  plain(form: AffineForm): AffineForm | undefined;
  /** Interprets the bits of a value as an integer of the given type; by default, of the instruction's type. */
  numeric(form: AffineForm, as?: IntegerType): AffineForm | undefined;
}

type Operation = (forms: readonly AffineForm[], tools: OperandTools) => AffineForm | Undecided | undefined;

/** The functions that evaluate integer operations. Each returns undefined if the result is not affine. */
export const integerOperations: Readonly<Partial<Record<Arithmetic, Operation>>> = {
  sum: ([a, b], tools) => added(a!, b!, 1, tools),
  difference: ([a, b], tools) => added(a!, b!, -1, tools),
  negation: ([a], { plain }) => times(plain(a!), constantForm(-1)),
  not: ([a], { plain }) => inverted(plain(a!)),
  product: ([a, b], tools) => product(a!, b!, tools),
  "product sum": ([a, b, c], tools) => {
    const result = product(a!, b!, tools);
    return result && added(result, c!, 1, tools);
  },
  shift: ([a, b], { plain, type }) => {
    const by = shiftOf(b!, type);
    return by === undefined ? undefined : times(plain(a!), constantForm(2 ** by));
  },
  "right shift": ([a, b], { numeric, type, domain }) => {
    const by = shiftOf(b!, type), form = numeric(a!);
    return by === undefined || form === undefined ? undefined : quotient(form, 2 ** by, domain);
  },
  quotient: ([a, b], { numeric, domain }) => {
    const form = numeric(a!), by = numeric(b!);
    return isDivision(form, by, domain) ? quotient(form!, by!.constant, domain) : undefined;
  },
  remainder: ([a, b], { numeric, domain }) => {
    const form = numeric(a!), by = numeric(b!);
    return isDivision(form, by, domain) ? remainder(form!, by!.constant, domain) : undefined;
  },
  and: ([a, b], { plain, numeric, type: { bits }, domain }) => {
    // Interpret a constant mask as signed, so that 0xFFFFFFFC is -4.
    const signed = (form: AffineForm) => isUniform(form) ? numeric(form, { bits, isSigned: true }) : plain(form);
    return masked(signed(a!), signed(b!), domain);
  },
  or: ([a, b], { plain, numeric, domain }) =>
    united(numeric(a!), numeric(b!), domain) ?? bitwise(plain(a!), plain(b!), (a, b) => a | b),
  xor: ([a, b], { plain }) => {
    const [first, second] = [plain(a!), plain(b!)];
    if (second !== undefined && isUniform(second) && second.constant === -1) return inverted(first);
    return bitwise(first, second, (a, b) => a ^ b);
  },
  minimum: ([a, b], tools) => extreme(a!, b!, true, tools),
  maximum: ([a, b], tools) => extreme(a!, b!, false, tools),
  "bit field": ([a, b, c], { numeric, type, domain }) => {
    const from = shiftOf(b!, type), length = shiftOf(c!, type), form = numeric(a!);
    if (type.isSigned || from === undefined || length === undefined || form === undefined) return undefined;
    const shifted = quotient(form, 2 ** from, domain);
    return shifted && remainder(shifted, 2 ** length, domain);
  },
};

function added(a: AffineForm, b: AffineForm, factor: 1 | -1, { plain }: OperandTools): AffineForm | undefined {
  const sum = sumOf(a, b, factor) ?? (factor === 1 ? sumOf(b, a) : undefined);
  if (sum !== undefined) return sum;
  const number = plain(b);
  return number && sumOf(a, number, factor);
}

function times(form: AffineForm | undefined, factor: AffineForm | undefined): AffineForm | undefined {
  if (form === undefined || factor === undefined) return undefined;
  if (isUniform(factor)) return productOf(form, factor.constant);
  return isUniform(form) ? productOf(factor, form.constant) : undefined;
}

function product(a: AffineForm, b: AffineForm, { choices, plain, numeric }: OperandTools): AffineForm | undefined {
  if (choices.has("wide")) return times(numeric(a), numeric(b));
  return choices.has("lo") ? times(plain(a), plain(b)) : undefined;
}

function inverted(form: AffineForm | undefined): AffineForm | undefined {
  const negative = form && productOf(form, -1);
  return negative && sumOf(negative, constantForm(-1));
}

/** Returns the value of a shift count. Undefined if it is not a constant from 0 to the type's width minus 1. */
function shiftOf(form: AffineForm, { bits }: IntegerType): number | undefined {
  const by = form.constant;
  return isUniform(form) && form.base === noBase && by >= 0 && by < bits ? by : undefined;
}

function isDivision(form: AffineForm | undefined, by: AffineForm | undefined, domain: Domain): boolean {
  return form !== undefined && by !== undefined && isUniform(by) && by.constant > 0 && rangeOf(form, domain).low >= 0;
}

/**
 * Returns the remainder of an affine form divided by `modulus`. Undefined if the remainder is not affine.
 *
 * @throws {SplitDimension} If the remainder becomes affine when a dimension is split
 */
function remainder(form: AffineForm, modulus: number, domain: Domain): AffineForm | undefined {
  const constant = (form.constant % modulus + modulus) % modulus;
  const rest = formOf(form.terms.map((term) => term % modulus), constant);
  if (rest === undefined) return undefined;
  const { low, high } = rangeOf(rest, domain);
  if (low >= 0 && high < modulus) return rest;
  for (const [dimension, term] of rest.terms.entries()) {
    const size = modulus / Math.abs(term);
    const extent = domain.high[dimension]! - domain.low[dimension]! + 1;
    if (term !== 0 && Number.isInteger(size) && extent > size) throw new SplitDimension(dimension, size);
  }
  return undefined;
}

/** Returns the quotient of an affine form and `divisor`, rounded down. Undefined if the quotient is not affine. */
function quotient(form: AffineForm, divisor: number, domain: Domain): AffineForm | undefined {
  const rest = remainder(form, divisor, domain);
  const whole = rest && sumOf(form, rest, -1);
  return whole && formOf(whole.terms.map((term) => term / divisor), whole.constant / divisor);
}

function masked(a: AffineForm | undefined, b: AffineForm | undefined, domain: Domain): AffineForm | undefined {
  if (a === undefined || b === undefined) return undefined;
  const [form, mask] = isUniform(b) ? [a, b.constant] : [b, a.constant];
  if (!isUniform(a) && !isUniform(b)) return undefined;
  if (isUniform(form)) return bitwise(a, b, (a, b) => a & b);
  if (isPowerOfTwo(mask + 1)) return remainder(form, mask + 1, domain);
  if (!isPowerOfTwo(-mask)) return undefined;
  const rest = remainder(form, -mask, domain);
  return rest && sumOf(form, rest, -1);
}

function isPowerOfTwo(number: number): boolean {
  return number > 0 && Number.isInteger(Math.log2(number));
}

/** Returns the bitwise OR of two affine forms. Undefined unless it is proven that they have no set bit in common. */
function united(a: AffineForm | undefined, b: AffineForm | undefined, domain: Domain): AffineForm | undefined {
  if (a === undefined || b === undefined) return undefined;
  for (const [lower, upper] of [[a, b], [b, a]] as const) {
    const { low, high } = rangeOf(lower, domain);
    if (low < 0 || high >= 2 ** 31) continue;
    const size = 2 ** Math.ceil(Math.log2(high + 1));
    if ([upper.constant, ...upper.terms].every((number) => number % size === 0)) return sumOf(upper, lower);
  }
  return undefined;
}

function bitwise(
  a: AffineForm | undefined,
  b: AffineForm | undefined,
  operation: (a: bigint, b: bigint) => bigint,
): AffineForm | undefined {
  if (a === undefined || b === undefined || !isUniform(a) || !isUniform(b)) return undefined;
  const result = Number(operation(BigInt(a.constant), BigInt(b.constant)));
  return Number.isSafeInteger(result) ? constantForm(result) : undefined;
}

function extreme(
  a: AffineForm,
  b: AffineForm,
  isLeast: boolean,
  { numeric, domain }: OperandTools,
): AffineForm | Undecided | undefined {
  const [first, second] = [numeric(a), numeric(b)];
  const form = first && second && sumOf(first, second, -1);
  if (form === undefined) return undefined;
  const condition: Condition = { kind: "test", form, relation: "notNegative" };
  const isFirstGreater = decide(domain, condition);
  if (isFirstGreater === undefined) return { kind: "undecided", condition };
  return isFirstGreater === isLeast ? second : first;
}
