import type { FunctionType } from "../webassembly/module_encoder.ts";
import type { ValueType } from "../webassembly/opcodes.ts";

/** A function that compiled kernels call, in WebAssembly. */
export interface HelperFunction {
  readonly type: FunctionType;
  /** Beyond the parameters. */
  readonly locals: readonly ValueType[];
  /** Without the `end` that closes it. */
  readonly code: Uint8Array;
}

/** Finds the index of a helper by its name. */
export type HelperIndex = (name: string) => number;

/** Writes a function. */
export type HelperBuilder = (indexOf: HelperIndex) => HelperFunction;
