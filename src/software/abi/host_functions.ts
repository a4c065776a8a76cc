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
 * The types of the imported functions by name, in the order of their indices. In the descriptions, a "code location" is
 * an encoded `FaultPlace`, and "the readable memory" stands for seven arguments: the offsets and sizes of shared
 * memory, of local memory and of the parameters, and the offset of the bounds table.
 */
export const hostFunctionTypes = {
  reduceAngle: { parameters: ["f64"], results: ["f64"] },
  encodeEightBits: { parameters: ["f64", "i32"], results: ["i32"] },
  /** Reports a fault, given the fault's kind, the address, the code location and the thread. Must throw. */
  fault: { parameters: ["i32", "i64", "i32", "i32"], results: [] },
  /**
   * Called when a kernel has used up its fuel, the number of loop iterations that may run before this call. The
   * arguments are the code location and the thread. Returns the new fuel. Throws to stop the kernel.
   */
  refuel: { parameters: ["i32", "i32"], results: ["i32"] },
  /**
   * Called after the bounds check of an access, with the access's offset in linear memory, the code location (whose
   * operation is `atomic` for all strong accesses), and the thread.
   */
  access: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * Called for the check `race` after the bounds check of an access, with the access's offset in linear memory, the
   * code location, the thread, and the `orderBits`.
   */
  orderedAccess: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
  /**
   * Called for the check `race` at a fence or an operation that orders asynchronous copies, with the code location, the
   * thread, and the `orderBits`.
   */
  order: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * Called if an access lies outside of the memory from which its address was computed, called its origin. The
   * arguments are the access's offset in linear memory, the code location, the thread, the state space of the origin as
   * an index of `originSpaces`, the origin's offset in that state space, and the origin's offset in linear memory and
   * size in bytes.
   */
  stray: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: [] },
  /**
   * Called where an uninitialized value affects execution, with an index of `decisions`, the code location and the
   * thread.
   */
  decideByUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /** Called when uninitialized bits are loaded, with the offset in linear memory, the code location and the thread. */
  loadUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * Called after uninitialized bits were stored, with the offset in linear memory, the code location and the thread.
   */
  storeUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
  /**
   * Called for the check `synchronization` where a thread may skip a barrier, with the encoded event (see
   * `barrierMarks`) and the thread; and where a thread uses registers of products of matrices wrongly, with the encoded
   * mistake (see `encodeProductMark`) and the thread.
   */
  mark: { parameters: ["i32", "i32"], results: [] },
  /** Sets the value of a conditional node, given the value's handle, as kernels know it. */
  setCondition: { parameters: ["i64", "i32"], results: [] },
  /**
   * Reads a texture, given the offset of the exchange in linear memory (`exchangeWords`), the encoded
   * `TextureOperation`, the code location and the thread. The results are in the exchange afterwards.
   */
  readTexture: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
  /**
   * Loads from a surface, stores to it or reduces an element of it, with arguments like those of `readTexture`; the
   * operation is an encoded `SurfaceOperation`.
   */
  useSurface: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
  /**
   * Returns an attribute of a texture or surface, given the offset of the exchange, an index of `textureQueries`, the
   * level, the code location and the thread.
   */
  queryTexture: { parameters: ["i32", "i32", "i32", "i32", "i32"], results: ["i32"] },
  /** Returns the time in nanoseconds since an arbitrary starting point. */
  clock: { parameters: [], results: ["i64"] },
  /**
   * Prints like `vprintf`, given the generic addresses of the format string and of the arguments, the code location,
   * the thread, and the readable memory. Returns the number of printed arguments, or a negative number on failure. Must
   * throw if the kernel may not read the memory to print.
   */
  print: {
    parameters: ["i64", "i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32"],
    results: ["i32"],
  },
  /**
   * Reports a failed assertion, given the generic addresses of the message and the file name, the line in that file,
   * the generic address of the function name, the block, the thread, the line in the PTX, and the readable memory. Must
   * throw.
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
   * Copies a part of a tensor, given the generic address of the tensor map, the address in shared memory, an index of
   * `tensorOperations`, the number of coordinates, five coordinates, the three 16-bit offsets of the mode im2col or -1,
   * the code location, the thread, the readable memory, and the cluster: the first address of the block's shared memory, and
   * the offset of the table of the cluster's shared memory. Returns the number of bytes that were written to shared
   * memory. Throws if the kernel may not access the memory.
   */
  copyTensor: {
    parameters: [
      "i64",
      "i64",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
      "i32",
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
    ],
    results: ["i32"],
  },
  /**
   * Allocates memory in the device's heap, given the size, the alignment, the code location, the thread, and the offset
   * of the bounds table. Returns the address, or 0 if the allocation fails.
   */
  allocate: { parameters: ["i64", "i64", "i32", "i32", "i32"], results: ["i64"] },
  /**
   * Frees memory of the device's heap, given the address, the code location, the thread, and the offset of the bounds
   * table.
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

/**
 * The kinds of memory from which an address may have been computed, for `stray`: the memory that a kernel parameter
 * points into, or a variable of a state space.
 */
export const originSpaces = ["param", "shared", "local", "global", "const"] as const;

/**
 * The ways in which an uninitialized value can affect execution, indexed by the first argument of
 * `decideByUninitialized`.
 */
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

/** A way in which an uninitialized value can affect the execution of a kernel. */
export type Decision = typeof decisions[number];

const names = Object.keys(hostFunctionTypes) as HostFunctionName[];

/** The number of imported functions. */
export const hostFunctionCount: number = names.length;

/** Returns the index of an imported function in the module. */
export function hostIndex(name: HostFunctionName): number {
  return names.indexOf(name);
}
