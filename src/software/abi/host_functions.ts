/**
 * The functions that a compiled module imports: what only its caller can do, and what is too rare or too intricate to
 * write in WebAssembly. Here are their types, and what the numbers stand for that they take.
 *
 * @module
 */

/** The types of WebAssembly's numbers, and what a JavaScript function gets for each. */
interface HostNumber {
  readonly i32: number;
  readonly i64: bigint;
  readonly f64: number;
}

/**
 * The types of these functions by name, in the order of their indices. "The memory that may be read" are the offsets and
 * the bytes of shared memory, of local memory and of the parameters, and the offset of the bounds table.
 */
export const hostFunctionTypes = {
  reduceAngle: { parameters: ["f64"], results: ["f64"] },
  encodeEightBits: { parameters: ["f64", "i32"], results: ["i32"] },
  /**
   * Takes the kind, the address, the place and the thread, in the terms of `FaultPlace`. Must throw.
   */
  fault: { parameters: ["i32", "i64", "i32", "i32"], results: [] },
  /**
   * Takes the place and the thread. Returns how many loop iterations may run until it is called again. Throws to stop
   * the kernel.
   */
  refuel: { parameters: ["i32", "i32"], results: ["i32"] },
  /**
   * Called after an access was checked. Takes its offset in linear memory, the place, whose operation is `atomic` for
   * strong accesses too, and the thread.
   */
  access: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * For the check of races. Called after an access was checked, with its offset in linear memory, the place, the thread,
   * and the bits of its order.
   */
  orderedAccess: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
  /** For the check of races: a fence, or what orders copies. Takes the place, the thread, and the bits of its order. */
  order: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * Called if an access lies outside of what its address was computed from, in other memory. Takes its offset in linear
   * memory, the place, the thread, the state space of the origin as an index of `originSpaces`, the origin's offset in
   * it, and the offset in linear memory and the bytes of the origin.
   */
  stray: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: [] },
  /** Called where an uninitialized value decides something. Takes the index of a decision, the place and the thread. */
  decideByUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /** Called when uninitialized bits are loaded or have been stored. Takes the offset, the place and the thread. */
  loadUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  storeUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /** Called where a thread may pass by a barrier. Takes the mark, as `barrierMarks` has it, and the thread. */
  mark: { parameters: ["i32", "i32"], results: [] },
  /** A time in nanoseconds, from an arbitrary start. */
  clock: { parameters: [], results: ["i64"] },
  /**
   * Prints. Takes the generic addresses of the format and of the arguments, the place, the thread, and the memory that
   * may be read. Returns how many arguments it has printed, or a negative number. Must throw if it would have to read
   * other memory.
   */
  print: {
    parameters: ["i64", "i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32"],
    results: ["i32"],
  },
  /**
   * Takes the generic addresses of the message, the file and the function, the line in that file, the block, the
   * thread, the line in the PTX, and the memory that may be read. Must throw.
   */
  failAssertion: {
    parameters: [
      "i64",
      "i64",
      "i32",
      "i64",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
    ],
    results: [],
  },
  /**
   * Allocates memory in the device's heap. Takes the size, the alignment, the place, the thread, and the offset of the
   * bounds table. Returns the address, or 0.
   */
  allocate: { parameters: ["i64", "i64", "i32", "i32", "i32"], results: ["i64"] },
  /** Frees it. Takes the address, the place, the thread, and the offset of the bounds table. */
  free: { parameters: ["i64", "i32", "i32", "i32"], results: [] },
} as const;

/** The name of one of these functions. */
export type HostFunctionName = keyof typeof hostFunctionTypes;

/** The functions that the caller supplies, by name. */
export type HostFunctions = {
  readonly [Name in HostFunctionName]: (
    ...operands: NumbersOf<typeof hostFunctionTypes[Name]["parameters"]>
  ) => ResultOf<typeof hostFunctionTypes[Name]["results"]>;
};

type NumbersOf<Types extends readonly (keyof HostNumber)[]> = {
  -readonly [Index in keyof Types]: HostNumber[Types[Index]];
};

type ResultOf<Types extends readonly (keyof HostNumber)[]> = Types extends
  readonly [infer Type extends keyof HostNumber] ? HostNumber[Type]
  : void;

/** The origins of addresses for `stray`: a parameter, or a state space. */
export const originSpaces = ["param", "shared", "local", "global", "const"] as const;

/** The uses of uninitialized values, in the order of their numbers for `decideByUninitialized`. */
export const decisions = [
  "branch",
  "predicate",
  "address",
  "call target",
  "atomic operand",
  "atomic memory",
  "lane mask",
  "barrier",
  "size",
] as const;

/** A use of an uninitialized value that affects what a kernel does. */
export type Decision = typeof decisions[number];

const names = Object.keys(hostFunctionTypes) as HostFunctionName[];

/** The number of these functions. */
export const hostFunctionCount: number = names.length;

/** The index of a function in the module. */
export function hostIndex(name: HostFunctionName): number {
  return names.indexOf(name);
}
