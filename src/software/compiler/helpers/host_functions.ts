/**
 * The functions that a compiled module imports: what only its caller can do, and what is too rare or too intricate to
 * write in WebAssembly.
 *
 * @module
 */
import { reduceAngle } from "./approximate_helpers.ts";
import { encodeEightBits } from "../instructions/floats/eight_bit_floats.ts";
import type { FunctionType } from "../webassembly/module_encoder.ts";

/** A function that every compiled module imports. */
export interface HostFunction {
  readonly type: FunctionType;
  /** A pure function. Undefined if the caller that instantiates the module has to supply it. */
  readonly run: ((...operands: never[]) => number | bigint) | undefined;
}

/** The names of these functions. */
export type HostFunctionName =
  | "reduceAngle"
  | "encodeEightBits"
  | "fault"
  | "refuel"
  | "access"
  | "mark"
  | "orderedAccess"
  | "order"
  | "stray"
  | "decideByUninitialized"
  | "loadUninitialized"
  | "storeUninitialized"
  | "clock"
  | "print"
  | "failAssertion"
  | "allocate"
  | "free";

/**
 * The memory that a function may read: the offsets and the bytes of shared memory, of local memory and of the
 * parameters, and the offset of the bounds table.
 */
const spaces = ["i32", "i32", "i32", "i32", "i32", "i32", "i32"] as const;

/** These functions by name, in the order of their indices. */
export const hostFunctions: Readonly<Record<HostFunctionName, HostFunction>> = {
  reduceAngle: { type: { parameters: ["f64"], results: ["f64"] }, run: reduceAngle },
  encodeEightBits: { type: { parameters: ["f64", "i32"], results: ["i32"] }, run: encodeEightBits },
  /**
   * Takes the kind, the address, the place and the thread, in the terms of `FaultPlace`. Must throw.
   */
  fault: { type: { parameters: ["i32", "i64", "i32", "i32"], results: [] }, run: undefined },
  /**
   * Takes the place and the thread. Returns how many loop iterations may run until it is called again. Throws to stop
   * the kernel.
   */
  refuel: { type: { parameters: ["i32", "i32"], results: ["i32"] }, run: undefined },
  /**
   * Called after an access was checked. Takes its offset in linear memory, the place, whose operation is `atomic` for
   * strong accesses too, and the thread.
   */
  access: { type: { parameters: ["i32", "i32", "i32"], results: [] }, run: undefined },
  /**
   * For the check of races. Called after an access was checked, with its offset in linear memory, the place, the thread,
   * and the bits of its order.
   */
  orderedAccess: { type: { parameters: ["i32", "i32", "i32", "i32"], results: [] }, run: undefined },
  /** For the check of races: a fence, or what orders copies. Takes the place, the thread, and the bits of its order. */
  order: { type: { parameters: ["i32", "i32", "i32"], results: [] }, run: undefined },
  /**
   * Called if an access lies outside of what its address was computed from, in other memory. Takes its offset in linear
   * memory, the place, the thread, the state space of the origin as an index of `originSpaces`, the origin's offset in
   * it, and the offset in linear memory and the bytes of the origin.
   */
  stray: { type: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: [] }, run: undefined },
  /** Called where an uninitialized value decides something. Takes the index of a decision, the place and the thread. */
  decideByUninitialized: { type: { parameters: ["i32", "i32", "i32"], results: [] }, run: undefined },
  /** Called when uninitialized bits are loaded or have been stored. Takes the offset, the place and the thread. */
  loadUninitialized: { type: { parameters: ["i32", "i32", "i32"], results: [] }, run: undefined },
  storeUninitialized: { type: { parameters: ["i32", "i32", "i32"], results: [] }, run: undefined },
  /** Called where a thread may pass by a barrier. Takes the mark, as `barrierMarks` has it, and the thread. */
  mark: { type: { parameters: ["i32", "i32"], results: [] }, run: undefined },
  /** A time in nanoseconds, from an arbitrary start. */
  clock: { type: { parameters: [], results: ["i64"] }, run: undefined },
  /**
   * Prints. Takes the generic addresses of the format and of the arguments, the place, the thread, and the memory that
   * may be read. Returns how many arguments it has printed, or a negative number. Must throw if it would have to read
   * other memory.
   */
  print: { type: { parameters: ["i64", "i64", "i32", "i32", ...spaces], results: ["i32"] }, run: undefined },
  /**
   * Takes the generic addresses of the message, the file and the function, the line in that file, the block, the
   * thread, the line in the PTX, and the memory that may be read. Must throw.
   */
  failAssertion: {
    type: {
      parameters: ["i64", "i64", "i32", "i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32", ...spaces],
      results: [],
    },
    run: undefined,
  },
  /**
   * Allocates memory in the device's heap. Takes the size, the alignment, the place, the thread, and the offset of the
   * bounds table. Returns the address, or 0.
   */
  allocate: { type: { parameters: ["i64", "i64", "i32", "i32", "i32"], results: ["i64"] }, run: undefined },
  /** Frees it. Takes the address, the place, the thread, and the offset of the bounds table. */
  free: { type: { parameters: ["i64", "i32", "i32", "i32"], results: [] }, run: undefined },
};

const names = Object.keys(hostFunctions) as HostFunctionName[];

/** The number of these functions. */
export const hostFunctionCount: number = names.length;

/** The index of a function in the module. */
export function hostIndex(name: HostFunctionName): number {
  return names.indexOf(name);
}

/** A module's imports from `device`, except memory and globals. */
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
