/**
 * The functions that compiled modules import.
 *
 * @module
 */
import { type HostFunctionName, type HostFunctions, hostFunctionTypes } from "../../abi/host_functions.ts";
import { reduceAngle } from "./approximate_helpers.ts";
import { encodeEightBits } from "./half_helpers.ts";

/**
 * Returns the functions that a module imports from `device`. Pure functions such as `reduceAngle` need not be in
 * `supplied`; a call of any other missing function throws a TypeError.
 */
export function hostFunctionImports(supplied: Partial<HostFunctions>): Record<string, WebAssembly.ImportValue> {
  const all: Partial<HostFunctions> = { reduceAngle, encodeEightBits, ...supplied };
  const imports: Record<string, WebAssembly.ImportValue> = {};
  for (const name of Object.keys(hostFunctionTypes) as HostFunctionName[]) imports[name] = all[name] ?? absent(name);
  return imports;
}

function absent(name: string): () => never {
  return () => {
    throw new TypeError(`Cannot call "${name}": it is not supplied`);
  };
}
