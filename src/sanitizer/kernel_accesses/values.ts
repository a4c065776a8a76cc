/**
 * What the instructions of a kernel compute, where that is affine or a condition.
 *
 * @module
 */
import type { Arithmetic } from "../../ptx/instructions/instruction_traits.ts";
import { type AffineForm, constantForm, elsewhere, noBase, productOf, sumOf } from "./affine_form.ts";
import { type Condition, decide, type Domain, rangeOf, simplified } from "./domain.ts";
import { type IntegerType, type OperandTools, operations, type Undecided } from "./integer_operations.ts";
import { bitsOf, type Step } from "./kernel_code.ts";

/** What a register has: a number by the thread's place, or a condition on it. Undefined if that is not known. */
export type Value = AffineForm | Condition | undefined;

/** What an instruction is executed with. */
export interface Surroundings {
  readonly domain: Domain;
  /** The value of a 64-bit parameter at an offset. */
  parameter(offset: number): number;
}

const integerType = /^[bus](8|16|32|64)$/;

/** The value that an instruction gives to its first operand. Takes those of the others. */
export function evaluate(step: Step, values: readonly Value[], surroundings: Surroundings): Value | Undecided {
  return new Evaluation(step, values, surroundings).run();
}

class Evaluation {
  readonly #step: Step;
  readonly #values: readonly Value[];
  readonly #domain: Domain;
  readonly #surroundings: Surroundings;
  readonly #type: IntegerType | undefined;

  constructor(step: Step, values: readonly Value[], surroundings: Surroundings) {
    this.#step = step;
    this.#values = values;
    this.#surroundings = surroundings;
    this.#domain = surroundings.domain;
    this.#type = typeOf(step.modifiers.at(-1));
  }

  run(): Value | Undecided {
    const { row, modifiers } = this.#step;
    if (row?.traits.pointer === "converted") return this.#values[0];
    const arithmetic = row?.traits.arithmetic;
    if (arithmetic === undefined || modifiers.includes("sat")) return undefined;
    if (modifiers.at(-1) === "pred") return this.#logic(arithmetic);
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
    const operation = operations[arithmetic];
    const forms = this.#values.map((value) => value?.kind === "affine" ? simplified(value, this.#domain) : undefined);
    if (operation === undefined || forms.includes(undefined)) return undefined;
    return operation(forms as AffineForm[], this.#operands());
  }

  #operands(): OperandTools {
    const type = this.#type!;
    return {
      type,
      modifiers: this.#step.modifiers,
      domain: this.#domain,
      plain: (form) => this.#plain(form),
      numeric: (form, as = type) => this.#numeric(form, as),
    };
  }

  /** The same without a base. */
  #plain(form: AffineForm): AffineForm | undefined {
    if (form.base === noBase) return form;
    if (form.base <= elsewhere) return undefined;
    return sumOf({ ...form, base: noBase }, constantForm(this.#surroundings.parameter(form.base)));
  }

  /** The form whose values are the numbers that an instruction takes a register's bits for. */
  #numeric(form: AffineForm, { bits, isSigned }: IntegerType): AffineForm | undefined {
    const plain = this.#plain(form);
    if (plain === undefined) return undefined;
    const { low, high } = rangeOf(plain, this.#domain);
    // Larger numbers may be rounded, and those of 64 bits wrap around somewhere there.
    if (!(low >= Number.MIN_SAFE_INTEGER && high <= Number.MAX_SAFE_INTEGER)) return undefined;
    if (bits === 64) return isSigned || low >= 0 ? plain : undefined;
    const modulus = 2 ** bits, half = isSigned ? modulus / 2 : 0;
    const turns = Math.floor((low + half) / modulus);
    if (Math.floor((high + half) / modulus) !== turns) return undefined;
    return turns === 0 ? plain : sumOf(plain, constantForm(-turns * modulus));
  }

  #logic(arithmetic: Arithmetic): Value {
    const [a, b] = this.#values;
    if (a === undefined || a.kind === "affine") return undefined;
    if (arithmetic === "move") return a;
    if (arithmetic === "not") return { kind: "not", of: a };
    if (b === undefined || b.kind === "affine") return undefined;
    if (arithmetic === "and") return { kind: "and", of: [a, b] };
    return arithmetic === "or" ? either(a, b) : undefined;
  }

  #compare(): Value {
    const [first, second, third] = this.#values;
    const { modifiers } = this.#step;
    if (this.#type === undefined || first?.kind !== "affine" || second?.kind !== "affine") return undefined;
    const test = this.#comparison(modifiers[0]!, first, second);
    if (modifiers.length === 2 || test === undefined) return test;
    if (modifiers.length !== 3 || third === undefined || third.kind === "affine") return undefined;
    return modifiers[1] === "and"
      ? { kind: "and", of: [test, third] }
      : modifiers[1] === "or"
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

  #select(): Value | Undecided {
    const [a, b, condition] = this.#values;
    if (condition === undefined || condition.kind === "affine" || a === undefined && b === undefined) return undefined;
    const isFirst = decide(this.#domain, condition);
    return isFirst === undefined ? { kind: "undecided", condition } : isFirst ? a : b;
  }

  #convert(): Value {
    const [to, from] = this.#step.modifiers.slice(-2).map(typeOf);
    const [value] = this.#values;
    if (to === undefined || from === undefined || value?.kind !== "affine") return undefined;
    if (to.bits === 64 && from.bits === 64) return value;
    // Addresses of variables have 32 bits.
    if (value.base <= elsewhere) return Math.min(to.bits, from.bits) >= 32 ? value : undefined;
    return to.bits > from.bits
      ? this.#numeric(value, from)
      : to.bits < 32
      ? this.#numeric(value, to)
      : this.#plain(value);
  }
}

function typeOf(modifier: string | undefined): IntegerType | undefined {
  if (modifier === undefined || !integerType.test(modifier)) return undefined;
  return { bits: bitsOf(modifier), isSigned: modifier.startsWith("s") };
}

function either(a: Condition, b: Condition): Condition {
  return { kind: "not", of: { kind: "and", of: [{ kind: "not", of: a }, { kind: "not", of: b }] } };
}
