/**
 * Finds the products in straight-line code and their readers, which determine the sums that `ptxas` may contract them
 * with.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { mayBeContracted } from "../../../ptx/instructions/instruction_traits.ts";
import type { Register, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import { registersRead, resultsOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { StraightLineCode } from "./contract.ts";

/** A multiplication without a rounding modifier. */
export interface Product {
  readonly instruction: CompiledInstruction;
  readonly factors: readonly [TrackedValue, TrackedValue];
  /** The sums that read the product, except those that have been contracted with it. */
  readonly sums: Set<Sum>;
  /** The number of additions and subtractions that use the product as an operand, before any contraction. */
  count: number;
  /** Whether the product has a reader that cannot be contracted with it. Such a product is not contracted at all. */
  isPinned: boolean;
  /**
   * Whether the product must be computed even if it is contracted, because it is packed into a register with other
   * values.
   */
  isPacked: boolean;
}

/** An addition or a subtraction without a rounding modifier. */
export interface Sum {
  readonly instruction: CompiledInstruction;
  readonly terms: readonly [SumTerm, SumTerm];
  /** The term that is contracted with the sum, if any. Its value is a product. */
  contracted: SumTerm | undefined;
}

/** A term of a sum. */
export interface SumTerm {
  readonly operand: ResolvedOperand;
  readonly value: TrackedValue;
  /**
   * If the value is a product: whether the product enters the sum with a negative sign, because it is subtracted or
   * negated.
   */
  readonly isNegated: boolean;
  /** For each factor of the product, whether the factor's register still has the same value at the sum. */
  readonly isIntact: readonly boolean[];
}

/** The value of a register. Compared by identity: registers known to have the same value share one object. */
export interface TrackedValue {
  /** If the value is a product, the product. If `isNegated` is set, the value is the product's negation. */
  readonly product?: Product;
  readonly isNegated?: boolean;
  /** If the value is packed, the values that it was packed from. */
  readonly parts?: readonly TrackedValue[];
}

/** The sums in straight-line code, with the products that they read. */
export interface Products {
  readonly sums: readonly Sum[];
  /** Maps instructions that only copy or negate a product to the product. */
  readonly copies: ReadonlyMap<CompiledInstruction, Product>;
}

/** Finds the products and sums in straight-line code. */
export function productsIn({ instructions, liveAtEnd }: StraightLineCode): Products {
  const walk = new ProductWalk();
  const needed = neededInstructions({ instructions, liveAtEnd });
  for (const instruction of instructions) {
    if (needed.has(instruction)) walk.visit(instruction);
    else walk.forgetResults(instruction);
  }
  for (const register of liveAtEnd) pin(walk.valueOf(register));
  return walk;
}

/** Returns the instructions that are not dead: their results are read, or they have side effects. */
function neededInstructions({ instructions, liveAtEnd }: StraightLineCode): Set<CompiledInstruction> {
  const live = new Set(liveAtEnd);
  const needed = new Set<CompiledInstruction>();
  for (const instruction of instructions.toReversed()) {
    const { form: { traits, flow, hasResult }, predicate } = instruction;
    const set = resultsOf(instruction);
    const onlyComputes = hasResult && flow === undefined && traits.effects?.length === 0;
    if (onlyComputes === true && !set.some((register) => live.has(register))) continue;
    needed.add(instruction);
    if (predicate === undefined) { for (const register of set) live.delete(register); }
    else live.add(predicate.register);
    for (const register of registersRead(instruction)) live.add(register);
  }
  return needed;
}

function pin({ product, parts }: TrackedValue): void {
  if (product !== undefined) product.isPinned = true;
  parts?.forEach(pin);
}

/** Tracks the values of registers through straight-line code. */
class ProductWalk implements Products {
  readonly sums: Sum[] = [];
  readonly copies = new Map<CompiledInstruction, Product>();
  readonly #values = new Map<Register, TrackedValue>();

  valueOf(operand: ResolvedOperand): TrackedValue {
    if (operand.kind !== "register") return {};
    const known = this.#values.get(operand);
    if (known !== undefined) return known;
    const value: TrackedValue = {};
    this.#values.set(operand, value);
    return value;
  }

  visit(instruction: CompiledInstruction): void {
    const { form: { traits: { contraction } }, predicate, operands: [destination], choices } = instruction;
    if (predicate === undefined && this.#copies(instruction)) return;
    const result = destination?.kind === "register" && mayBeContracted(instruction) ? destination : undefined;
    if (result !== undefined && contraction === "product" && predicate === undefined && !choices.has("sat")) {
      const [first, second] = this.#operandsOf(instruction);
      const factors = [this.valueOf(first), this.valueOf(second)] as const;
      factors.forEach(pin);
      this.#values.set(result, {
        product: { instruction, factors, sums: new Set(), count: 0, isPinned: false, isPacked: false },
        isNegated: false,
      });
    } else if (result !== undefined && (contraction === "sum" || contraction === "difference")) {
      if (predicate !== undefined) pin(this.valueOf(result));
      this.#addSum(instruction);
      this.#values.set(result, {});
    } else {
      for (const register of registersRead(instruction)) pin(this.valueOf(register));
      this.forgetResults(instruction);
    }
  }

  forgetResults(instruction: CompiledInstruction): void {
    for (const register of resultsOf(instruction)) this.#values.set(register, {});
  }

  #operandsOf({ operands }: CompiledInstruction): readonly [ResolvedOperand, ResolvedOperand] {
    return [operands[1]!, operands[2]!];
  }

  #addSum(instruction: CompiledInstruction): void {
    const isDifference = instruction.form.traits.contraction === "difference";
    const term = (operand: ResolvedOperand, isSubtracted: boolean): SumTerm => {
      const value = this.valueOf(operand);
      return {
        operand,
        value,
        isNegated: isSubtracted !== (value.isNegated === true),
        isIntact: this.#areIntact(value.product),
      };
    };
    const [first, second] = this.#operandsOf(instruction);
    const terms = [term(first, false), term(second, isDifference)] as const;
    const sum: Sum = { instruction, terms, contracted: undefined };
    this.sums.push(sum);
    const cannot = isTwice(terms);
    for (const { value } of terms) {
      const { product } = value;
      if (product === undefined || cannot || !fits(product, instruction)) pin(value);
      else {
        product.count++;
        product.sums.add(sum);
      }
    }
  }

  #areIntact(product: Product | undefined): boolean[] {
    if (product === undefined) return [];
    const { instruction, factors } = product;
    return this.#operandsOf(instruction).map((operand, index) =>
      operand.kind !== "register" || this.#values.get(operand) === factors[index]
    );
  }

  /**
   * If an instruction only copies, packs, unpacks or negates values, records the values of its results and returns
   * true.
   */
  #copies(instruction: CompiledInstruction): boolean {
    const { form: { traits }, operands: [destination, source], choices } = instruction;
    if (destination === undefined || source === undefined) return false;
    const value = this.valueOf(source);
    if (traits.contraction === "negation") {
      if (value.product === undefined || destination.kind !== "register") return false;
      if (!seesThroughNegation(instruction, value.product)) return false;
      this.#copy(instruction, destination, { ...value, isNegated: !value.isNegated });
      return true;
    }
    if (traits.copies !== 1 || choices.has("vector")) return false;
    if (destination.kind === "register" && source.kind === "register") {
      this.#copy(instruction, destination, value);
      return true;
    }
    if (destination.kind === "register" && source.kind === "vector") {
      const parts = source.elements.map((part) => this.valueOf(part));
      for (const { product } of parts) if (product !== undefined) product.isPacked = true;
      this.#values.set(destination, { parts });
      return true;
    }
    const { parts } = value;
    if (destination.kind !== "vector" || destination.elements.length !== parts?.length) return false;
    destination.elements.forEach((part, index) => {
      if (part.kind === "register") this.#values.set(part, parts[index]!);
    });
    return true;
  }

  #copy(instruction: CompiledInstruction, to: Register, value: TrackedValue): void {
    this.#values.set(to, value);
    if (value.product !== undefined) this.copies.set(instruction, value.product);
  }
}

/** Whether a product may be contracted with a sum, according to their types and modifiers. */
function fits({ instruction }: Product, { type, choices }: CompiledInstruction): boolean {
  return instruction.type === type && instruction.choices.has("ftz") === choices.has("ftz");
}

/**
 * Whether both terms are the same product, or products of the same factors. `ptxas` then doubles the product or
 * subtracts it from itself, without contraction.
 */
function isTwice([first, second]: readonly [SumTerm, SumTerm]): boolean {
  const one = first.value.product;
  const other = second.value.product;
  if (one === undefined || other === undefined) return false;
  if (one === other) return true;
  if (isPacked(one.instruction) || first.isNegated !== second.isNegated) return false;
  const [a, b] = one.factors;
  const [c, d] = other.factors;
  return (a === c && b === d) || (a === d && b === c);
}

/** Whether an instruction computes on packed pairs of numbers. */
export function isPacked({ type }: CompiledInstruction): boolean {
  return type.name.endsWith("x2");
}

/** Whether `ptxas` contracts the negation of a product like the product itself. */
function seesThroughNegation({ type, choices }: CompiledInstruction, { instruction }: Product): boolean {
  if (type !== instruction.type || type.name === "bf16x2") return false;
  return !choices.has("ftz") || (type.name === "f32" && instruction.choices.has("ftz"));
}
