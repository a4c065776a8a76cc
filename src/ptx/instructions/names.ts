import type { FunctionName, LabelList, LabelName, Prototype, Register, Variable } from "./resolved_instruction.ts";
import { PtxError, type RegisterDeclaration, type VariableDeclaration } from "../syntax.ts";
import { type ScalarType, scalarTypes } from "./scalar_types.ts";
import { UnsupportedPtxError } from "../instruction_support.ts";

/** A register of vector type. As an operand, it is the vector of its components. */
export interface VectorRegister {
  readonly kind: "vectorRegister";
  readonly name: string;
  readonly components: readonly Register[];
}

/** A 128-bit register, represented by the two 64-bit registers that hold its halves. */
export interface WideRegister {
  readonly kind: "vector";
  readonly name: string;
  readonly elements: readonly [low: Register, high: Register];
  readonly isWide: true;
}

/** A declaration that a name can refer to. */
export type Named =
  | Register
  | VectorRegister
  | WideRegister
  | Variable
  | LabelName
  | LabelList
  | FunctionName
  | Prototype;

/** A scope of names: those declared in a `{ }` block, and those of the enclosing scopes. */
export class Scope {
  readonly #parent: Scope | undefined;
  readonly #names = new Map<string, Named>();
  readonly #members = new Map<string, Register | VectorRegister | WideRegister>();
  readonly #families = new Map<string, { readonly count: number } & RegisterType>();

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  declare(named: Named, line: number): void {
    if (this.#names.has(named.name) || this.#memberOfFamily(named.name) !== undefined) {
      throw new PtxError(line, `cannot declare "${named.name}" twice`);
    }
    this.#names.set(named.name, named);
  }

  declareRegisters({ type: typeName, vectorLength, names, line }: RegisterDeclaration): void {
    const type = typeName === "b128" ? typeName : scalarTypes.get(typeName);
    if (type === undefined) {
      throw new UnsupportedPtxError(
        line,
        `cannot declare registers of type ".${typeName}": only variables of this type are known`,
      );
    }
    checkVector(type, { vectorLength, line });
    for (const { name, count } of names) {
      if (count === undefined) this.declare(registerNamed(name, { type, vectorLength }), line);
      else if (this.#families.has(name)) throw new PtxError(line, `cannot declare "${name}<${count}>" twice`);
      else this.#families.set(name, { count, type, vectorLength });
    }
  }

  /**
   * Returns the registers that this scope declares. Registers declared as part of a range (`%r<10>`) are included only
   * if they are referenced by name.
   */
  registers(): readonly Register[] {
    return [...this.#names.values(), ...this.#members.values()].flatMap((named) => {
      if (named.kind === "register") return [named];
      return named.kind === "vectorRegister" ? named.components : named.kind === "vector" ? named.elements : [];
    });
  }

  /** Looks a name up in this scope and the enclosing ones. Returns undefined if the name is not declared. */
  find(name: string): Named | undefined {
    return this.#names.get(name) ?? this.#members.get(name) ?? this.#memberOfFamily(name) ?? this.#parent?.find(name);
  }

  /**
   * Returns a register of a range such as `%r<100000>`. Creates the register on first use, so that a large range costs
   * nothing. As in `ptxas`, all digits at the end of a name are the register's number, and leading zeros do not matter.
   */
  #memberOfFamily(name: string): Register | VectorRegister | WideRegister | undefined {
    if (this.#families.size === 0) return undefined;
    let end = name.length;
    while (end > 0 && isDigit(name.charCodeAt(end - 1))) end--;
    if (end === name.length) return undefined;
    const prefix = name.slice(0, end);
    const index = Number(name.slice(end));
    const family = this.#families.get(prefix);
    if (family === undefined || index >= family.count) return undefined;
    const canonical = `${prefix}${index}`;
    const register = this.#members.get(canonical) ?? registerNamed(canonical, family);
    this.#members.set(canonical, register);
    return register;
  }
}

/** The declared type of a register. */
export interface RegisterType {
  readonly type: ScalarType | "b128";
  readonly vectorLength: number;
}

/** Creates a register: a scalar, a vector, or the halves of a 128-bit register. */
export function registerNamed(
  name: string,
  { type, vectorLength }: RegisterType,
): Register | VectorRegister | WideRegister {
  if (type === "b128") {
    const half = (): Register => ({ kind: "register", name, type: scalarTypes.get("b64")! });
    return { kind: "vector", name, elements: [half(), half()], isWide: true };
  }
  if (vectorLength === 1) return { kind: "register", name, type };
  const components = [..."xyzw"].slice(0, vectorLength).map((component): Register => {
    return { kind: "register", name: `${name}.${component}`, type };
  });
  return { kind: "vectorRegister", name, components };
}

/** Throws `PtxError` for a vector type that PTX does not have. */
export function checkVector(
  type: ScalarType | "b128",
  { vectorLength, line }: { vectorLength: number; line: number },
): void {
  if (vectorLength === 1) return;
  const { kind, bits } = type === "b128" ? { kind: "bits", bits: 128 } : type;
  if (kind === "predicate") throw new PtxError(line, "cannot declare a vector of predicates: predicates are scalars");
  if (bits * vectorLength > 128) {
    throw new PtxError(line, `cannot declare a vector of ${bits * vectorLength} bits: vectors have at most 128`);
  }
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** The type and the layout of a variable's elements. */
export interface ElementLayout {
  readonly type: ScalarType;
  /** The size of one element, in bytes. If the elements are vectors, the size of the whole vector. */
  readonly byteLength: number;
  readonly alignment: number;
}

/** Returns the layout of one element of a variable. Throws `PtxError` for a type that variables cannot have. */
export function elementLayout(
  { name, line, type: typeName, vectorLength, alignment, initializer }: VariableDeclaration,
): ElementLayout {
  if (typeName === "b128" && initializer === undefined) {
    return { type: scalarTypes.get("b64")!, byteLength: 16, alignment: alignment ?? 16 };
  }
  const type = scalarTypes.get(typeName);
  if (type === undefined) {
    throw new UnsupportedPtxError(line, `cannot declare "${name}": variables of type ".${typeName}" are not supported`);
  }
  if (type.kind === "predicate") {
    throw new PtxError(line, `cannot declare "${name}": predicates are registers, and cannot be variables`);
  }
  checkVector(type, { vectorLength, line });
  const byteLength = (type.bits / 8) * vectorLength;
  return { type, byteLength, alignment: alignment ?? byteLength };
}

/** Returns the size of a variable, in bytes. Throws `PtxError` for an array without a length. */
export function byteLengthOfVariable(declaration: VariableDeclaration): number {
  const { name, line, elementCount } = declaration;
  if (elementCount === 0) {
    throw new PtxError(line, `cannot declare "${name}" without a length: its size would be unknown`);
  }
  return elementLayout(declaration).byteLength * (elementCount ?? 1);
}

/** Lays out the variables of a state space, each at the next multiple of its alignment. */
export class SpaceLayout {
  readonly #space: string;
  readonly #isInFrame: boolean;
  #end = 0;
  #alignment = 1;

  /** @param begin the number of bytes at the start of the state space that are already in use */
  constructor(space: string, { isInFrame = false, begin = 0 }: { isInFrame?: boolean; begin?: number } = {}) {
    this.#space = space;
    this.#isInFrame = isInFrame;
    this.#end = begin;
  }

  /** The number of bytes in use so far, including padding. */
  get byteLength(): number {
    return this.#end;
  }

  /** The largest alignment requested so far, in bytes. */
  get alignment(): number {
    return this.#alignment;
  }

  /** Rounds the number of bytes in use up to a multiple of `alignment`, and returns the result. */
  align(alignment: number): number {
    this.#alignment = Math.max(this.#alignment, alignment);
    return this.#end = Math.ceil(this.#end / alignment) * alignment;
  }

  place(declaration: VariableDeclaration): Variable {
    const { name, line, initializer, elementCount } = declaration;
    if (initializer !== undefined) {
      throw new PtxError(line, `cannot initialize "${name}": it is in ".${this.#space}"`);
    }
    const byteLength = byteLengthOfVariable(declaration);
    const { type, alignment } = elementLayout(declaration);
    const offset = this.align(alignment);
    this.#end = offset + byteLength;
    const elementBytes = elementCount === undefined ? undefined : type.bits / 8;
    const { space } = declaration;
    return { kind: "variable", name, space, offset, byteLength, elementBytes, isInFrame: this.#isInFrame };
  }
}
