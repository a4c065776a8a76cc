/**
 * Functions that a compiled module imports: what only its caller can do, and what is too rare or too intricate to be
 * written in WebAssembly.
 *
 * @module
 */
import type { FunctionType } from "./wasm_encoder.ts";

/** A function that every compiled module imports. */
export interface HostFunction {
  readonly type: FunctionType;
  /** Computes its result from its arguments alone; undefined where who instantiates the module supplies it. */
  readonly run: ((...operands: never[]) => number | bigint) | undefined;
}

/** What they are called. */
export type HostFunctionName = "fault";

/** By name, in the order of their indices. */
export const hostFunctions: Readonly<Record<HostFunctionName, HostFunction>> = {
  /** Takes the kind, the address and the line. It must throw. */
  fault: { type: { parameters: ["i32", "i64", "i32"], results: [] }, run: undefined },
};

const names = Object.keys(hostFunctions) as HostFunctionName[];

/** How many there are. */
export const hostFunctionCount: number = names.length;

/** The index of a function among all of a module. */
export function hostIndex(name: HostFunctionName): number {
  return names.indexOf(name);
}

/** What a module is given for its imports from `device` beside memory and globals. */
export function hostFunctionImports(
  supplied: Readonly<Record<string, (...operands: never[]) => unknown>>,
): Record<string, WebAssembly.ImportValue> {
  const imports: Record<string, WebAssembly.ImportValue> = {};
  for (const name of names) imports[name] = (supplied[name] ?? hostFunctions[name].run) as () => unknown;
  return imports;
}
