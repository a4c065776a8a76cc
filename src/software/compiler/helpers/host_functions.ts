/**
 * Functions that a compiled module imports: what only its caller can do, and what is too rare or too intricate to be
 * written in WebAssembly.
 *
 * @module
 */
import { reduceAngle } from "./approximate_helpers.ts";
import { encodeEightBits } from "../instructions/eight_bit_floats.ts";
import type { FunctionType } from "../webassembly/module_encoder.ts";

/** A function that every compiled module imports. */
export interface HostFunction {
  readonly type: FunctionType;
  /** Computes its result from its arguments alone; undefined where who instantiates the module supplies it. */
  readonly run: ((...operands: never[]) => number | bigint) | undefined;
}

/** What they are called. */
export type HostFunctionName =
  | "reduceAngle"
  | "encodeEightBits"
  | "fault"
  | "refuel"
  | "clock"
  | "print"
  | "failAssertion";

/**
 * What may be read: where the shared memory begins and its bytes, the same of the local memory and of the parameters, and
 * where the limits begin.
 */
const spaces = ["i32", "i32", "i32", "i32", "i32", "i32", "i32"] as const;

/** By name, in the order of their indices. */
export const hostFunctions: Readonly<Record<HostFunctionName, HostFunction>> = {
  reduceAngle: { type: { parameters: ["f64"], results: ["f64"] }, run: reduceAngle },
  encodeEightBits: { type: { parameters: ["f64", "i32"], results: ["i32"] }, run: encodeEightBits },
  /** Takes the kind, the address and the line. It must throw. */
  fault: { type: { parameters: ["i32", "i64", "i32"], results: [] }, run: undefined },
  /** Says how often threads may go around loops before it is asked again; throws where they may not go on. */
  refuel: { type: { parameters: [], results: ["i32"] }, run: undefined },
  /** Nanoseconds since some time. */
  clock: { type: { parameters: [], results: ["i64"] }, run: undefined },
  /**
   * Prints. Takes the generic addresses of the format and of the arguments, the line in the PTX, and what may be read;
   * returns how many arguments it has printed, or a number below 0. It must throw where what it is to read may not be.
   */
  print: { type: { parameters: ["i64", "i64", "i32", ...spaces], results: ["i32"] }, run: undefined },
  /**
   * Takes the generic addresses of the message, the file and the function, the line in that, the block, the thread, the
   * line in the PTX, and what may be read. It must throw.
   */
  failAssertion: {
    type: {
      parameters: ["i64", "i64", "i32", "i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32", ...spaces],
      results: [],
    },
    run: undefined,
  },
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
  for (const name of names) {
    imports[name] = (supplied[name] ?? hostFunctions[name].run ?? absent(name)) as () => unknown;
  }
  return imports;
}

function absent(name: string): () => never {
  return () => {
    throw new TypeError(`Cannot call "${name}": it is not supplied`);
  };
}
