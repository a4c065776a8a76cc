import type { FunctionType } from "../webassembly/module_encoder.ts";
import type { ValueType } from "../webassembly/opcodes.ts";

/** A WebAssembly function that compiled kernels call. */
export interface HelperFunction {
  readonly type: FunctionType;
  /** The types of the function's locals, excluding its parameters. */
  readonly locals: readonly ValueType[];
  /** The encoded instructions of the function's body, without the final `end`. */
  readonly code: Uint8Array;
}

/** Finds the index of a helper by name. */
export type HelperIndex = (name: string) => number;

/** Builds a helper function. */
export type HelperBuilder = (indexOf: HelperIndex) => HelperFunction;
