/**
 * Chooses the names of declarations in a generated module.
 *
 * @module
 */

/** The reserved words of TypeScript. */
const keywords = new Set(
  ("await break case catch class const continue debugger default delete do else enum export extends false finally for " +
    "function if implements import in instanceof interface let new null package private protected public return " +
    "static super switch this throw true try typeof var void while with yield ")
    .split(" "),
);
/** Names to which generated code refers. Generated code must not declare anything else with these names. */
const usedNames = new Set(
  ("arguments eval undefined any unknown never number bigint string boolean symbol object Record " +
    "ArrayBufferView Pointer Ptx Struct StructArgument struct ptx names Kernels " +
    "Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Float16Array Int32Array Uint32Array Float32Array " +
    "Float64Array BigInt64Array BigUint64Array").split(" "),
);

/** The identifiers that a generated module declares. */
export class Identifiers {
  readonly #taken = new Set<string>();

  /**
   * Returns an unused identifier similar to a C++ name, such as `Pair_int` for `Pair<int>`, and reserves the
   * identifier.
   */
  take(name: string): string {
    const letters = name.replaceAll(/[^A-Za-z0-9_$]+/g, "_").replace(/(?<=.)_+$/, "");
    const near = /^[A-Za-z_$]/.test(letters) && letters !== "_" ? letters : `struct${letters}`;
    let free = near;
    for (let count = 2; isReserved(free) || usedNames.has(free) || this.#taken.has(free); count++) {
      free = `${near}${count}`;
    }
    this.#taken.add(free);
    return free;
  }
}

/** Returns a property name as it is written in source code: in quotation marks if it is not an identifier. */
export function propertyName(name: string): string {
  return isIdentifier(name) ? name : JSON.stringify(name);
}

/** Returns whether a name has the form of an identifier, so that it needs no quotation marks as a property. */
export function isIdentifier(name: string): boolean {
  return /^[A-Za-z_$][\w$]*$/.test(name);
}

/** Returns whether a name is a reserved word of TypeScript. */
export function isReserved(name: string): boolean {
  return keywords.has(name);
}
