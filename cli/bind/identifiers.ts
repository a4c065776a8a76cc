/**
 * Names for what a generated module declares.
 *
 * @module
 */

/** Words that TypeScript reserves. */
const keywords = new Set(
  ("await break case catch class const continue debugger default delete do else enum export extends false finally for " +
    "function if implements import in instanceof interface let new null package private protected public return " +
    "static super switch this throw true try typeof var void while with yield ")
    .split(" "),
);
/** Names that mean something in the generated code. */
const usedNames = new Set(
  ("arguments eval undefined any unknown never number bigint string boolean symbol object Record " +
    "ArrayBufferView Pointer Ptx Struct StructArgument struct ptx names Kernels " +
    "Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Float16Array Int32Array Uint32Array Float32Array " +
    "Float64Array BigInt64Array BigUint64Array").split(" "),
);

/** The names that are taken in a module. */
export class Identifiers {
  readonly #taken = new Set<string>();

  /** Takes a name that is near to a name of C++: `Pair_int` for `Pair<int>`. */
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

/** A property's name, in quotation marks where it needs them. */
export function propertyName(name: string): string {
  return isIdentifier(name) ? name : JSON.stringify(name);
}

/** Whether a name needs no quotation marks. */
export function isIdentifier(name: string): boolean {
  return /^[A-Za-z_$][\w$]*$/.test(name);
}

/** Whether TypeScript does not take a name for one. */
export function isReserved(name: string): boolean {
  return keywords.has(name);
}
