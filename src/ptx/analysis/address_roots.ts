/**
 * The variables and parameters that addresses are derived from.
 *
 * @module
 */
import type { Definitions } from "./definitions_and_uses.ts";
import type { Register, ResolvedInstruction, ResolvedOperand, Variable } from "../instructions/resolved_instruction.ts";

/** The variables and parameters that an address may be derived from. */
export interface Roots {
  /** Whether the address may also be derived from variables and parameters that are not in `names`. */
  readonly isUnknown: boolean;
  readonly names: ReadonlySet<string>;
}

const unknownRoots: Roots = { isUnknown: true, names: new Set() };

/** Finds the variables and parameters that the addresses in a function may be derived from. */
export class AddressRoots {
  readonly #definitions: Definitions;
  readonly #nameOfParameter: (offset: number) => string;
  readonly #roots = new Map<Register | Variable, Roots>();

  constructor(
    definitions: Definitions,
    nameOfParameter: (offset: number) => string,
  ) {
    this.#definitions = definitions;
    this.#nameOfParameter = nameOfParameter;
  }

  /** Returns the variables and parameters that an address may be derived from. */
  of(base: Register | Variable | undefined): Roots {
    if (base === undefined) return unknownRoots;
    const roots = this.#rootsOf(base);
    return roots.isUnknown || roots.names.size > 0 ? roots : unknownRoots;
  }

  #rootsOf(operand: ResolvedOperand): Roots {
    switch (operand.kind) {
      case "variable": {
        let roots = this.#roots.get(operand);
        if (roots === undefined) {
          this.#roots.set(operand, roots = { isUnknown: false, names: new Set([nameOf(operand)]) });
        }
        return roots;
      }
      case "sum":
        return this.#rootsOf(operand.variable);
      case "register":
        return this.#roots.get(operand) ?? this.#findRoots(operand);
      default:
        return { isUnknown: false, names: new Set() };
    }
  }

  /**
   * Follows a register's definitions to variables and parameters. Registers that depend on each other have the same
   * roots: Tarjan's algorithm finds such strongly connected components, so that each definition is followed once.
   */
  #findRoots(register: Register): Roots {
    const places = new Map<Register, number>();
    const open: { readonly register: Register; lowest: number; roots: Roots; readonly rest: Register[] }[] = [];
    const component: Register[] = [];
    const enter = (next: Register) => {
      const place = places.size;
      places.set(next, place);
      component.push(next);
      open.push({ register: next, lowest: place, ...this.#ownRoots(next) });
    };
    enter(register);
    for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
      const next = top.rest.pop();
      if (next !== undefined) {
        const known = this.#roots.get(next);
        if (known !== undefined) top.roots = union(top.roots, known);
        else if (places.has(next)) top.lowest = Math.min(top.lowest, places.get(next)!);
        else enter(next);
        continue;
      }
      open.pop();
      const around = open.at(-1);
      if (top.lowest === places.get(top.register)) {
        let member: Register;
        do this.#roots.set(member = component.pop()!, top.roots); while (member !== top.register);
      } else around!.lowest = Math.min(around!.lowest, top.lowest);
      if (around !== undefined) around.roots = union(around.roots, top.roots);
    }
    return this.#roots.get(register)!;
  }

  /** Returns the operands of a register's definitions: variables and parameters in `roots`, and registers in `rest`. */
  #ownRoots(register: Register): { readonly roots: Roots; readonly rest: Register[] } {
    const names = new Set<string>();
    const rest: Register[] = [];
    const definitions = this.#definitions.get(register);
    let isUnknown = definitions === undefined;
    for (const definition of definitions ?? []) {
      const parameter = parameterOf(definition);
      if (parameter !== undefined) names.add(this.#nameOfParameter(parameter));
      else if (mayBringPointer(definition)) isUnknown = true;
      for (const source of parameter === undefined ? pointersIn(definition) : []) {
        if (source.kind === "variable") names.add(nameOf(source));
        else if (source.kind === "sum") names.add(nameOf(source.variable));
        else if (source.kind === "vector") isUnknown = true;
        else if (source.kind === "register") rest.push(source);
      }
    }
    return { roots: { isUnknown, names }, rest };
  }
}

/**
 * Returns the byte offset of the 64-bit kernel parameter that an instruction loads. Undefined for all other
 * instructions.
 */
export function parameterOf({ operands: [destination, address], form, type }: ResolvedInstruction): number | undefined {
  if (!form.hasResult || destination?.kind !== "register" || address?.kind !== "address") return undefined;
  const { base, offset } = address;
  if (base?.kind !== "variable" || base.space !== "param" || base.isInFrame === true) return undefined;
  return type.bits === 64 ? base.offset + Number(offset) : undefined;
}

/**
 * Whether an instruction's result may be a pointer that does not derive from the operands, such as a pointer loaded
 * from memory. False for results of less than 64 bits, which cannot be pointers.
 */
function mayBringPointer({ form, operands: [destination] }: ResolvedInstruction): boolean {
  if (destination?.kind === "register" && destination.type.bits < 64) return false;
  const { effects } = form.traits;
  return form.flow !== undefined || effects === undefined || effects.includes("reads");
}

/** Returns the operands of an instruction that may point into the same memory as its result. */
function pointersIn({ form, operands: [, ...sources] }: ResolvedInstruction): readonly ResolvedOperand[] {
  const { pointer, arithmetic } = form.traits;
  if (arithmetic === "product sum") return sources.slice(2);
  if (pointer === "derived" || pointer === "converted" || arithmetic === "conversion") return sources;
  return [];
}

/**
 * Returns a name for a variable, made from its state space, offset and size. All variables in stack frames have the
 * same name.
 */
export function nameOf({ space, offset, byteLength, isInFrame }: Variable): string {
  return isInFrame === true ? "local" : `${space} ${offset} ${byteLength}`;
}

function union(a: Roots, b: Roots): Roots {
  const isIn = (a: Roots, b: Roots) => (b.isUnknown || !a.isUnknown) && a.names.isSubsetOf(b.names);
  if (isIn(b, a)) return a;
  return isIn(a, b) ? b : { isUnknown: a.isUnknown || b.isUnknown, names: a.names.union(b.names) };
}
