/**
 * The accesses of instructions to memory shared between threads, and the analysis of which accesses of two lanes of a
 * warp may touch the same memory.
 *
 * @module
 */
import { type Register, type ResolvedAddress, spaceOf } from "../../../ptx/instructions/resolved_instruction.ts";
import type { AddressForms, LaunchRules, LinearForm, LinearTerm } from "../../../ptx/analysis/address_forms.ts";
import type { Roots } from "../../../ptx/analysis/address_roots.ts";
import { imageMemory, type LaneDifference } from "./warp_rules.ts";
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { mayHave } from "../../../ptx/instructions/instruction_traits.ts";

/** An element of a set of changed terms, which means that any term of the access's address may have changed. */
export const anyChange = "any";

/**
 * A memory access together with the roots of its address, which are the variables or parameters that the address may be
 * based on.
 */
export interface RootedAccess extends MemoryAccess {
  readonly roots: Roots;
  /** A number that is equal for accesses with the same space and roots. */
  readonly group: number;
  /**
   * A number that identifies the accessed module variable within its space. Undefined if the variable is unknown or not
   * unique.
   */
  readonly variable: number | undefined;
}

/** A memory access whose address is expressed as a linear form: a constant plus multiples of terms. */
export interface LinearAccess extends RootedAccess {
  readonly form: LinearForm;
  /** A number that is equal for accesses whose linear forms have the same terms. */
  readonly terms: number;
  /** Whether the access is in a loop. */
  readonly isRepeated: boolean;
}

/** Decides which accesses of a function conflict. */
export class AccessConflicts {
  readonly #addresses: AddressForms;
  readonly #rules: LaunchRules;
  readonly #differences: readonly LaneDifference[];
  readonly #strides = new Map<number, readonly (number | undefined)[]>();
  readonly #meetings = new Map<number, boolean>();

  constructor(addresses: AddressForms, rules: LaunchRules, differences: readonly LaneDifference[]) {
    this.#addresses = addresses;
    this.#rules = rules;
    this.#differences = differences;
  }

  /**
   * Whether the program may observe the order of an access by one lane and a later access by another lane: they may
   * touch the same memory, and at least one of them writes.
   *
   * @param changed the terms whose registers may have been set between the two accesses
   */
  conflict(first: LinearAccess, second: LinearAccess, changed: ReadonlySet<LinearTerm>): boolean {
    if (!first.writes && !second.writes) return false;
    if (first.unordered !== undefined && first.unordered === second.unordered) return false;
    if (!this.#meet(first, second)) return false;
    // If both stores of a lane write the same bytes, the order of the lanes at the first store does not affect the
    // final values.
    if (first.isPlainStore && second.isPlainStore && changed.size === 0 && isSame(first, second)) return false;
    const isKnown = this.#mayTouch(first, second, changed);
    // If the addresses of two plain stores in loops cannot be compared, assume that the stores do not conflict: the
    // loops most likely store to distinct array elements.
    const isOfLoop = first.isPlainStore && second.isPlainStore && first.isRepeated && second.isRepeated &&
      (first.instruction === second.instruction || first.space !== "shared");
    return isKnown ?? !isOfLoop;
  }

  /** Returns the cached result of {@linkcode mayMeet}. */
  #meet(first: LinearAccess, second: LinearAccess): boolean {
    if (first.variable !== undefined && second.variable !== undefined && first.space === second.space) {
      return first.variable === second.variable;
    }
    const key = first.group * 2 ** 20 + second.group;
    let meet = this.#meetings.get(key);
    if (meet === undefined) this.#meetings.set(key, meet = this.mayMeet(first, second));
    return meet;
  }

  /** Whether two accesses may touch the same variable or allocation. */
  mayMeet(a: Pick<RootedAccess, "space" | "roots">, b: Pick<RootedAccess, "space" | "roots">): boolean {
    if (a.space !== b.space && a.space !== "generic" && b.space !== "generic") return false;
    if (a.roots.isUnknown || b.roots.isUnknown) return mayLieIn(a.roots, b.space) && mayLieIn(b.roots, a.space);
    for (const one of a.roots.names) {
      for (const other of b.roots.names) if (this.#areSame(one, other)) return true;
    }
    return false;
  }

  /** Whether two roots may refer to the same variable or allocation. */
  #areSame(one: string, other: string): boolean {
    if (one === other) return one !== "local";
    const [space, offset] = one.split(" ");
    const [otherSpace, otherOffset] = other.split(" ");
    if (space === "param" && otherSpace === "param") {
      const memory = this.#rules.shared.get(Number(offset))?.memory;
      return memory !== undefined && memory === this.#rules.shared.get(Number(otherOffset))?.memory;
    }
    if (space === otherSpace) return offset === otherOffset;
    const parameter = space === "param" ? offset : otherSpace === "param" ? otherOffset : undefined;
    // A parameter may point to a variable of the module.
    const isImage = space === "global" || otherSpace === "global";
    return isImage && parameter !== undefined && this.#rules.shared.get(Number(parameter))?.memory === imageMemory;
  }

  /** Whether two accesses by different lanes may overlap. Undefined if this is unknown. */
  #mayTouch(first: LinearAccess, second: LinearAccess, changed: ReadonlySet<LinearTerm>): boolean | undefined {
    const distance = second.form.constant - first.form.constant;
    if (changed.size === 0 && first.terms === second.terms) {
      return this.#mayOverlap(this.#stridesOf(first), { first, second, distance, period: 0n });
    }
    if (changed.has(anyChange)) return undefined;
    /** The period, in bytes: the distance between the two addresses may vary by any multiple of this number. */
    let period = 0n;
    for (const term of new Set([...first.form.terms.keys(), ...second.form.terms.keys()])) {
      const factor = first.form.terms.get(term) ?? 0n;
      const other = second.form.terms.get(term) ?? 0n;
      if (factor !== other) {
        if (this.#addresses.laneStrides(term).some((stride) => stride !== 0n)) return undefined;
        const multiple = this.#addresses.multipleOf(term);
        const counts = changed.has(term) ? [factor, other] : [other - factor];
        for (const count of counts) period = greatestCommonDivisor(period, count * multiple);
      } else if (changed.has(term)) {
        const step = this.#addresses.stepOf(term);
        if (step === undefined) return undefined;
        period = greatestCommonDivisor(period, factor * step);
      }
    }
    return this.#mayOverlap(this.#stridesOf(first), { first, second, distance, period });
  }

  /**
   * Returns the strides of an address in bytes: per thread index x, y and z, and per lane number. A stride is undefined
   * if it is unknown.
   */
  #stridesOf(access: LinearAccess): readonly (number | undefined)[] {
    let strides = this.#strides.get(access.terms);
    if (strides === undefined) {
      const sums: (bigint | undefined)[] = [0n, 0n, 0n, 0n];
      for (const [term, factor] of access.form.terms) {
        this.#addresses.laneStrides(term).forEach((stride, axis) => {
          const sum = sums[axis];
          sums[axis] = stride === undefined || sum === undefined ? undefined : sum + factor * stride;
        });
      }
      strides = sums.map((sum) => sum === undefined ? undefined : Number(BigInt.asIntN(53, sum)));
      this.#strides.set(access.terms, strides);
    }
    return strides;
  }

  /**
   * Whether the accesses of two lanes overlap for at least one possible difference between the lanes' indices.
   * Undefined if this depends on unknown strides.
   */
  #mayOverlap(
    strides: readonly (number | undefined)[],
    { first, second, distance, period }: {
      first: LinearAccess;
      second: LinearAccess;
      distance: bigint;
      period: bigint;
    },
  ): boolean | undefined {
    const [from, every] = [Number(distance), Number(period)];
    let isUnknown = false;
    for (const difference of this.#differences) {
      let apart = from;
      for (let axis = 0; axis < 4; axis++) {
        if (difference[axis] === 0) continue;
        const stride = strides[axis];
        if (stride === undefined) isUnknown = true;
        apart += (stride ?? NaN) * difference[axis]!;
      }
      if (every === 0) {
        if (apart < first.bytes && -apart < second.bytes) return true;
      } else {
        const rest = (apart % every + every) % every;
        if (rest < first.bytes || rest > every - second.bytes) return true;
      }
    }
    return isUnknown ? undefined : false;
  }
}

/** Whether two accesses by one lane touch exactly the same bytes. */
function isSame(first: LinearAccess, second: LinearAccess): boolean {
  const [a, b] = [first.form, second.form];
  return first.bytes === second.bytes && a.constant === b.constant && first.terms === second.terms;
}

/** Whether memory with the given roots may be in a given state space. */
function mayLieIn({ isUnknown, names }: Roots, space: MemoryAccess["space"]): boolean {
  if (isUnknown || space === "generic") return isUnknown || [...names].some((name) => name !== "local");
  return [...names].some((name) => name.startsWith("shared") === (space === "shared") && name !== "local");
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  let [x, y] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}

/** For each state space, the `group` and the `variable` of an access with given roots. */
type NumbersOfSpaces = Readonly<Record<RootedAccess["space"], Pick<RootedAccess, "group" | "variable">>>;

/**
 * Assigns numbers to the roots and the terms of addresses, so that comparing two of them is fast. The numbers are
 * cached, because many accesses share roots and terms.
 */
export class AccessNumbers {
  readonly #numbers = new Numbers<string>();
  readonly #registers = new Numbers<Register>();
  readonly #roots = new Map<Roots, NumbersOfSpaces>();
  readonly #terms = new Map<LinearForm["terms"], number>();

  /** Returns the numbers for the given roots. Equal roots have equal numbers. */
  ofRoots(roots: Roots): NumbersOfSpaces {
    let numbers = this.#roots.get(roots);
    if (numbers === undefined) this.#roots.set(roots, numbers = this.#numberRoots(roots));
    return numbers;
  }

  #numberRoots({ isUnknown, names }: Roots): NumbersOfSpaces {
    const all = [...names].join();
    const [name, ...others] = names;
    const isVariable = !isUnknown && name !== undefined && others.length === 0 && /^(shared|global) /.test(name);
    const variable = isVariable ? this.#numbers.of(name.split(" ", 2).join(" ")) : undefined;
    const numbersOf = (space: RootedAccess["space"]) => {
      return { group: this.#numbers.of(`${space} ${isUnknown} ${all}`), variable };
    };
    return { shared: numbersOf("shared"), global: numbersOf("global"), generic: numbersOf("generic") };
  }

  /** Returns the number for the given terms. Equal terms with equal factors have equal numbers. */
  ofTerms(terms: LinearForm["terms"]): number {
    let number = this.#terms.get(terms);
    if (number === undefined) this.#terms.set(terms, number = this.#numberTerms(terms));
    return number;
  }

  #numberTerms(terms: LinearForm["terms"]): number {
    const factors: string[] = [];
    for (const [term, factor] of terms) {
      factors.push(`${typeof term === "string" ? term : this.#registers.of(term)}*${factor}`);
    }
    return this.#numbers.of(factors.sort().join());
  }
}

/** Assigns consecutive numbers to values in the order in which they first occur. */
class Numbers<T> {
  readonly #numbers = new Map<T, number>();

  of(thing: T): number {
    let number = this.#numbers.get(thing);
    if (number === undefined) this.#numbers.set(thing, number = this.#numbers.size);
    return number;
  }
}

/** A memory access of an instruction. */
export interface MemoryAccess {
  readonly instruction: CompiledInstruction;
  readonly address: ResolvedAddress;
  readonly space: "shared" | "global" | "generic";
  readonly bytes: number;
  readonly writes: boolean;
  /** Whether the instruction only writes, without any ordering guarantees. */
  readonly isPlainStore: boolean;
  /**
   * For an atomic instruction whose result is unused: its operation and type. For the stores of an asynchronous copy: a
   * name that all of them share. The order of two accesses is irrelevant if this is equal. Undefined for other accesses.
   */
  readonly unordered: string | undefined;
}

/** The atomic operations whose order does not affect the final value. */
const commutative: ReadonlySet<string | undefined> = new Set(["add", "min", "max", "and", "or", "xor"]);

/**
 * Returns the accesses of an instruction to shared and global memory, except to memory that no thread writes. `isUsed`
 * states whether any instruction reads the result.
 */
export function accessesOf(
  instruction: CompiledInstruction,
  { isUsed }: { isUsed: (instruction: CompiledInstruction) => boolean },
): MemoryAccess[] {
  const { form, operands, choices, type } = instruction;
  if (form.flow !== undefined || form.traits.readsConstants === true) return [];
  const reads = mayHave(instruction, "reads");
  const writes = mayHave(instruction, "writes");
  if (!reads && !writes) return [];
  const addresses = operands.filter((operand) => operand.kind === "address");
  const length = Number(choices.get("vector")?.slice(1) ?? 1);
  const operation = choices.get("operation");
  const reduction = reads && writes && commutative.has(operation) && !isUsed(instruction)
    ? `${operation} ${type.name}`
    : undefined;
  return addresses.flatMap((address, index): MemoryAccess[] => {
    // An asynchronous copy has two addresses: it writes shared memory and reads global memory. PTX does not order the
    // stores of such copies.
    const isCopied = addresses.length === 2 && index === 0;
    const space = addresses.length === 1 ? spaceOf(instruction) : index === 0 ? "shared" : "global";
    if (space !== "shared" && space !== "global" && space !== "generic") return [];
    if (address.base?.kind === "variable" && (address.base.isInFrame === true || address.base.space === "param")) {
      return [];
    }
    return [{
      instruction,
      address,
      space,
      bytes: addresses.length === 1 ? type.bits / 8 * length : 16,
      writes: writes && index === 0,
      isPlainStore: form.traits.isPlainStore === true,
      unordered: isCopied ? "asynchronous copy" : reduction,
    }];
  });
}
