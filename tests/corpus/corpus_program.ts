/**
 * The programs of the corpus. Beside `NAME.cu` and the PTX that a compiler made from it, there is a `NAME.ts` that
 * exports a `program`: the launches of its kernels, and their expected results, which are computed by other means.
 */

/** The contents of a buffer, with its type of elements. */
export type BufferContents =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

/** The buffers of a program by name, in the order of allocation. */
export type Buffers = Readonly<Record<string, BufferContents>>;

/** A launch. A string argument is the name of a buffer and passes the buffer's address. */
export interface CorpusLaunch {
  readonly kernel: string;
  readonly grid: number | readonly [x: number, y: number, z?: number];
  /** Default: what the first line of the PTX says, as Triton's does. */
  readonly block?: number | readonly [x: number, y: number, z?: number];
  /** Default: what the first line of the PTX says, or 0. */
  readonly sharedMemoryBytes?: number;
  readonly cooperative?: boolean;
  readonly arguments: readonly (string | number | bigint | ArrayBufferView)[];
}

/** The allowed difference from the expected results. */
export interface ErrorBound {
  /** The source of the bound in one sentence: the errors in the PTX manual that it adds up. */
  readonly derivation: string;
  /** Returns the largest absolute difference of an element. NaN and infinities must be equal. */
  absolute(expected: number, index: number): number;
}

/** A program of the corpus. */
export interface CorpusProgram {
  /** The PTX that the program covers, in a few words. */
  readonly covers: string;
  /** Returns the initial contents of the buffers. They are the same on every call. */
  buffers(): Buffers;
  /** The launches, in order, on one stream. */
  readonly launches: readonly CorpusLaunch[];
  /** Returns the contents of the buffers after the last launch. Buffers that are left out are not compared. */
  expected(initial: Buffers): Buffers;
  /**
   * Error bounds by buffer, if two devices that both conform to PTX may differ, or if the reference is not exact to the
   * bit. Without a bound, every bit must be equal. If the PTX has no approximate instruction and no float `add`, `sub`
   * or `mul` without a rounding modifier, the devices are always compared bit by bit.
   */
  readonly bounds?: Readonly<Record<string, ErrorBound>>;
}
