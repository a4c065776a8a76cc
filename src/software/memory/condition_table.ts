/**
 * The values that kernels set by `cudaGraphSetConditional`. They lie in linear memory, where kernels cannot access them,
 * so that all threads that run a kernel's blocks can set them.
 *
 * @module
 */

/** The size in bytes of the table in linear memory. */
export const conditionTableBytes: number = 2 ** 20;

/** The layout of an entry, as indices of 32-bit words. The handle is 0 if the entry is unused. */
const entryWords = { lowHandle: 0, highHandle: 1, value: 2, count: 4 } as const;
const entryCount = conditionTableBytes / 4 / entryWords.count;
/** The position in a handle of the index of its entry. */
const indexShift = 48n;

/**
 * The values of all conditions of a driver, by the handles with which kernels name them. Any number of threads can have
 * a table at the same offset; only the thread that has opened the driver adds and deletes values.
 */
export class ConditionTable {
  readonly #words: Int32Array;
  /** The indices of the unused entries before `#end`. */
  readonly #unused: number[] = [];
  /** The index of the first entry that was never used. */
  #end = 0;

  /** @param begin the offset of the table, where `conditionTableBytes` bytes were 0 at first */
  constructor(memory: WebAssembly.Memory, begin: number) {
    this.#words = new Int32Array(memory.buffer, begin, conditionTableBytes / 4);
  }

  /**
   * Adds a value. Returns its handle, or undefined if the table is full.
   *
   * @param serial a positive number below 2^48 that no other value of the table has had
   */
  add(serial: bigint, value: number): bigint | undefined {
    const index = this.#unused.pop() ?? (this.#end < entryCount ? this.#end++ : undefined);
    if (index === undefined) return undefined;
    const handle = BigInt(index) << indexShift | serial;
    const entry = index * entryWords.count;
    Atomics.store(this.#words, entry + entryWords.value, value | 0);
    this.#words[entry + entryWords.highHandle] = highWord(handle);
    Atomics.store(this.#words, entry + entryWords.lowHandle, lowWord(handle));
    return handle;
  }

  /** Returns the value that a handle names, an unsigned 32-bit number. Undefined if there is none. */
  get(handle: bigint): number | undefined {
    const entry = this.#entryOf(handle);
    return entry === undefined ? undefined : Atomics.load(this.#words, entry + entryWords.value) >>> 0;
  }

  /** Sets the value that a handle names, if there is one. */
  set(handle: bigint, value: number): void {
    const entry = this.#entryOf(handle);
    if (entry !== undefined) Atomics.store(this.#words, entry + entryWords.value, value | 0);
  }

  /** Deletes the value that a handle names. */
  delete(handle: bigint): void {
    const entry = this.#entryOf(handle);
    if (entry === undefined) return;
    Atomics.store(this.#words, entry + entryWords.lowHandle, 0);
    this.#words[entry + entryWords.highHandle] = 0;
    this.#unused.push(entry / entryWords.count);
  }

  /** Returns the word index of the entry of a handle. Undefined if there is none: kernels may pass any number. */
  #entryOf(handle: bigint): number | undefined {
    const entry = Number(BigInt.asUintN(64, handle) >> indexShift) * entryWords.count;
    const [low, high] = [lowWord(handle), highWord(handle)];
    if (low === 0 && high === 0 || entry >= this.#words.length) return undefined;
    const isSame = Atomics.load(this.#words, entry + entryWords.lowHandle) === low &&
      this.#words[entry + entryWords.highHandle] === high;
    return isSame ? entry : undefined;
  }
}

function lowWord(handle: bigint): number {
  return Number(BigInt.asIntN(32, handle));
}

function highWord(handle: bigint): number {
  return Number(BigInt.asIntN(32, handle >> 32n));
}
