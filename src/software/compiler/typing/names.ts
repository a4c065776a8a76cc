import {
  type CallPrototype,
  type CallTargets,
  type FunctionDeclaration,
  PtxError,
  type RegisterDeclaration,
  type VariableDeclaration,
} from "../../../ptx/syntax.ts";
import { type ScalarType, scalarTypes } from "./scalar_types.ts";

/** A register. Compared by identity: names repeat in nested scopes. */
export interface Register {
  readonly kind: "register";
  readonly name: string;
  readonly type: ScalarType;
}

/** A variable with its place in its state space. */
export interface Variable {
  readonly kind: "variable";
  readonly name: string;
  /** `param`, `shared`, `local`, `global` or `const`. */
  readonly space: string;
  /** Bytes from the start of the space; of the module's image in `.global` and `.const`; of the frame for what is in it. */
  readonly offset: number;
  readonly byteLength: number;
  /** Whether it lies in the frame of the function that declares it: `.local`, and `.param` but for a kernel's own. */
  readonly isInFrame?: boolean;
}

/** A function of the module, or one that it declares and does not define. */
export interface FunctionName {
  readonly kind: "function";
  readonly name: string;
  readonly declaration: FunctionDeclaration;
  /** Its place among the module's functions, from which its address follows. */
  readonly index: number;
}

/** How an indirect call passes its parameters, or which functions it may call. */
export interface Prototype {
  readonly kind: "prototype";
  readonly name: string;
  readonly declaration: CallPrototype | CallTargets;
}

/** A place in the code. Compared by identity. */
export interface LabelName {
  readonly kind: "label";
  readonly name: string;
}

/** Labels under one name, for `brx.idx`. */
export interface LabelList {
  readonly kind: "labels";
  readonly name: string;
  readonly labels: readonly LabelName[];
}

/** What a name can stand for. */
export type Named = Register | Variable | LabelName | LabelList | FunctionName | Prototype;

/** The names that a `{ }` declares, over those around it. */
export class Scope {
  readonly #parent: Scope | undefined;
  readonly #names = new Map<string, Named>();
  readonly #families = new Map<string, { readonly count: number; readonly type: ScalarType }>();

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  declare(named: Named, line: number): void {
    if (this.#names.has(named.name)) throw new PtxError(line, `cannot declare "${named.name}" twice`);
    this.#names.set(named.name, named);
  }

  declareRegisters({ type: typeName, vectorLength, names, line }: RegisterDeclaration): void {
    const type = scalarTypes.get(typeName);
    if (type === undefined || vectorLength !== 1) {
      throw new PtxError(
        line,
        `cannot declare registers of type ".${typeName}": vectors and 128 bits are not supported`,
      );
    }
    for (const { name, count } of names) {
      if (count === undefined) this.declare({ kind: "register", name, type }, line);
      else if (this.#families.has(name)) throw new PtxError(line, `cannot declare "${name}<${count}>" twice`);
      else this.#families.set(name, { count, type });
    }
  }

  /** What a name stands for here; undefined where nothing declares it. */
  find(name: string): Named | undefined {
    return this.#names.get(name) ?? this.#memberOfFamily(name) ?? this.#parent?.find(name);
  }

  /** Registers declared by number come into being when they are first named: `%r<100000>` costs nothing. */
  #memberOfFamily(name: string): Register | undefined {
    if (this.#families.size === 0) return undefined;
    for (let end = name.length - 1; end > 0 && isDigit(name.charCodeAt(end)); end--) {
      const family = this.#families.get(name.slice(0, end));
      const digits = name.slice(end);
      if (family === undefined || Number(digits) >= family.count || (digits.length > 1 && digits[0] === "0")) continue;
      const register: Register = { kind: "register", name, type: family.type };
      this.#names.set(name, register);
      return register;
    }
    return undefined;
  }
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** What a variable's elements are and how they lie in memory. */
export interface ElementLayout {
  readonly type: ScalarType;
  /** Of a whole vector, where the elements are vectors. */
  readonly byteLength: number;
  readonly alignment: number;
}

/** The layout of one element of a variable. Throws `PtxError` for types that variables cannot have. */
export function elementLayout(
  { name, line, type: typeName, vectorLength, alignment }: VariableDeclaration,
): ElementLayout {
  const type = scalarTypes.get(typeName);
  if (type === undefined || type.kind === "predicate") {
    throw new PtxError(line, `cannot declare "${name}": variables of type ".${typeName}" are not supported`);
  }
  const byteLength = (type.bits / 8) * vectorLength;
  return { type, byteLength, alignment: alignment ?? byteLength };
}

/** Bytes of a variable. Throws `PtxError` for an array without a length. */
export function byteLengthOf(declaration: VariableDeclaration): number {
  const { name, line, elementCount } = declaration;
  if (elementCount === 0) {
    throw new PtxError(line, `cannot declare "${name}" without a length: its size would be unknown`);
  }
  return elementLayout(declaration).byteLength * (elementCount ?? 1);
}

/** Lays variables out in a state space, each at the next multiple of its alignment. */
export class SpaceLayout {
  readonly #space: string;
  readonly #isInFrame: boolean;
  #end = 0;

  /** @param begin bytes that are taken from the start */
  constructor(space: string, { isInFrame = false, begin = 0 }: { isInFrame?: boolean; begin?: number } = {}) {
    this.#space = space;
    this.#isInFrame = isInFrame;
    this.#end = begin;
  }

  /** Bytes taken so far. */
  get byteLength(): number {
    return this.#end;
  }

  /** Moves the end to the next multiple of an alignment, and returns it. */
  align(alignment: number): number {
    return this.#end = Math.ceil(this.#end / alignment) * alignment;
  }

  place(declaration: VariableDeclaration): Variable {
    const { name, line, initializer } = declaration;
    if (initializer !== undefined) {
      throw new PtxError(line, `cannot initialize "${name}": it lies in ".${this.#space}"`);
    }
    const byteLength = byteLengthOf(declaration);
    const offset = this.align(elementLayout(declaration).alignment);
    this.#end = offset + byteLength;
    return { kind: "variable", name, space: declaration.space, offset, byteLength, isInFrame: this.#isInFrame };
  }
}
