/**
 * The types of the functions that a compiled module imports, and the meaning of their numeric arguments. These
 * functions need the host, or are too rare or too complex to be written in WebAssembly.
 *
 * @module
 */

/** Maps each WebAssembly number type to its JavaScript type. */
interface HostNumber {
  readonly i32: number;
  readonly i64: bigint;
  readonly f64: number;
}

/**
 * The types of the imported functions by name, in the order of their indices. A "code location" is an encoded
 * `FaultPlace`. "The readable memory" stands for seven arguments: the offsets and sizes of shared memory, of local
 * memory and of the parameters, and the offset of the bounds table.
 */
export const hostFunctionTypes = {
  reduceAngle: { parameters: ["f64"], results: ["f64"] },
  encodeEightBits: { parameters: ["f64", "i32"], results: ["i32"] },
  /**
   * Reports a fault. Takes the fault's kind, the address, the code location and the thread. Must throw.
   */
  fault: { parameters: ["i32", "i64", "i32", "i32"], results: [] },
  /**
   * Takes the code location and the thread. Returns the number of loop iterations that may run before the next call.
   * Throws to stop the kernel.
   */
  refuel: { parameters: ["i32", "i32"], results: ["i32"] },
  /**
   * Called after the bounds check of an access. Takes the access's offset in linear memory, the code location (whose
   * operation is `atomic` for all strong accesses), and the thread.
   */
  access: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * For the check `race`. Called after the bounds check of an access. Takes the access's offset in linear memory, the
   * code location, the thread, and the `orderBits`.
   */
  orderedAccess: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
  /**
   * For the check `race`. Called for a fence or an operation that orders asynchronous copies. Takes the code location,
   * the thread, and the `orderBits`.
   */
  order: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * Called if an access lies in other memory than its origin, from which the address was computed. Takes the access's
   * offset in linear memory, the code location, the thread, the state space of the origin as an index of
   * `originSpaces`, the origin's offset in that state space, and the origin's offset in linear memory and size in
   * bytes.
   */
  stray: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: [] },
  /**
   * Called where an uninitialized value affects execution. Takes an index of `decisions`, the code location and the
   * thread.
   */
  decideByUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /** Called when uninitialized bits are loaded. Takes the offset, the code location and the thread. */
  loadUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /** Called after uninitialized bits were stored. Takes the offset, the code location and the thread. */
  storeUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /** Called where a thread may skip a barrier. Takes the mark (see `barrierMarks`) and the thread. */
  mark: { parameters: ["i32", "i32"], results: [] },
  /** Returns the time in nanoseconds since an arbitrary start. */
  clock: { parameters: [], results: ["i64"] },
  /**
   * Prints like `vprintf`. Takes the generic addresses of the format string and of the arguments, the code location,
   * the thread, and the readable memory. Returns the number of printed arguments, or a negative number on failure. Must
   * throw instead of reading any other memory.
   */
  print: {
    parameters: ["i64", "i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32"],
    results: ["i32"],
  },
  /**
   * Reports a failed assertion. Takes the generic addresses of the message and the file, the line in that file, the
   * generic address of the function, the block, the thread, the line in the PTX, and the readable memory. Must throw.
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
   * Allocates memory in the device's heap. Takes the size, the alignment, the code location, the thread, and the offset
   * of the bounds table. Returns the address, or 0 if the allocation fails.
   */
  allocate: { parameters: ["i64", "i64", "i32", "i32", "i32"], results: ["i64"] },
  /**
   * Frees memory of the device's heap. Takes the address, the code location, the thread, and the bounds table's offset.
   */
  free: { parameters: ["i64", "i32", "i32", "i32"], results: [] },
} as const;

/** The name of an imported function. */
export type HostFunctionName = keyof typeof hostFunctionTypes;

/** The imported functions, which the caller of a compiled module supplies, by name. */
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

/** The kinds of origin of an address, for `stray`: a kernel parameter, or a variable of a state space. */
export const originSpaces = ["param", "shared", "local", "global", "const"] as const;

/** The uses of uninitialized values, indexed by the first argument of `decideByUninitialized`. */
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

/** The number of imported functions. */
export const hostFunctionCount: number = names.length;

/** Returns the index of an imported function in the module. */
export function hostIndex(name: HostFunctionName): number {
  return names.indexOf(name);
}
