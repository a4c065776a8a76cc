/**
 * Numbers for what is known of addresses, so that accesses are compared by numbers.
 *
 * @module
 */
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import type { RootedAccess } from "./access_conflicts.ts";
import type { LinearForm } from "../../../ptx/analysis/address_forms.ts";
import type { Roots } from "../../../ptx/analysis/address_roots.ts";

/** The numbers of the accesses of each space. */
type NumbersOfSpaces = Readonly<Record<RootedAccess["space"], Pick<RootedAccess, "group" | "variable">>>;

/** Numbers the roots and the terms of addresses. The same ones, which many accesses have, are looked at once. */
export class AccessNumbers {
  readonly #numbers = new Numbers<string>();
  readonly #registers = new Numbers<Register>();
  readonly #roots = new Map<Roots, NumbersOfSpaces>();
  readonly #terms = new Map<LinearForm["terms"], number>();

  /** Equal for equal roots. */
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

  /** Equal for equal terms with equal factors. */
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

/** Numbers things. */
class Numbers<T> {
  readonly #numbers = new Map<T, number>();

  of(thing: T): number {
    let number = this.#numbers.get(thing);
    if (number === undefined) this.#numbers.set(thing, number = this.#numbers.size);
    return number;
  }
}
