import type { VariableDeclaration } from "../../../ptx/syntax.ts";
import { elementLayout, SpaceLayout } from "../../../ptx/instructions/names.ts";
import type { Variable } from "../../../ptx/instructions/resolved_instruction.ts";

/** The minimum alignment of dynamic shared memory, in bytes, as measured on an H100. */
const dynamicSharedAlignment = 16;

/** Lays out the shared memory of a kernel and the functions that it may call. */
export class SharedLayout {
  readonly #layout = new SpaceLayout("shared");
  /** The module's variables that already have an offset, by name. */
  readonly #placed = new Map<string, Variable>();
  /** Variables in dynamic shared memory, which all have the same offset. */
  readonly #dynamic: { variable: Variable & { offset: number }; alignment: number }[] = [];

  get byteLength(): number {
    return this.#layout.byteLength;
  }

  /** Assigns an offset in shared memory to a variable that a function declares. */
  place(declaration: VariableDeclaration): Variable {
    return this.#layout.place(declaration);
  }

  /**
   * Assigns an offset in shared memory to a variable that the module declares. Further calls for the same variable
   * return the same result.
   */
  placeOfModule(declaration: VariableDeclaration): Variable {
    const { name } = declaration;
    const variable = this.#placed.get(name) ?? this.#placeNew(declaration);
    this.#placed.set(name, variable);
    return variable;
  }

  #placeNew(declaration: VariableDeclaration): Variable {
    const { name, space, linkage, elementCount } = declaration;
    if (linkage !== "extern" || elementCount !== 0) return this.#layout.place(declaration);
    const variable: Variable & { offset: number } = { kind: "variable", name, space, offset: 0, byteLength: 0 };
    this.#dynamic.push({ variable, alignment: elementLayout(declaration).alignment });
    return variable;
  }

  /**
   * Assigns dynamic shared memory an offset after all static variables. Returns whether the kernel uses dynamic shared
   * memory.
   */
  placeDynamic(): boolean {
    if (this.#dynamic.length === 0) return false;
    const begin = this.#layout.align(
      Math.max(dynamicSharedAlignment, ...this.#dynamic.map(({ alignment }) => alignment)),
    );
    for (const { variable } of this.#dynamic) variable.offset = begin;
    return true;
  }
}
