/**
 * What a program of the corpus consists of. Beside `NAME.cu` and the PTX that nvcc made of it lies `NAME.ts`, which
 * exports such a `program`: what its kernels are launched with, and what must come out, computed by other means.
 */

/** Contents of a buffer, as the type of its elements. */
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

/** The buffers of a program by name, in the order in which they are allocated. */
export type Buffers = Readonly<Record<string, BufferContents>>;

/** One launch: buffers are passed by name, as their address. */
export interface CorpusLaunch {
  readonly kernel: string;
  readonly grid: number | readonly [x: number, y: number, z: number];
  readonly block: number | readonly [x: number, y: number, z: number];
  readonly sharedMemoryBytes?: number;
  readonly arguments: readonly (string | number | bigint | Uint8Array)[];
}

/** How far an element may be from what is expected. */
export interface ErrorBound {
  /** Where the bound comes from, in a sentence: of which instructions' errors in the PTX manual it is the sum. */
  readonly derivation: string;
  /** The largest absolute difference for one element. NaN and infinities must be equal. */
  absolute(expected: number, index: number): number;
}

/** A program of the corpus. */
export interface CorpusProgram {
  /** What of PTX it covers, in a few words. */
  readonly covers: string;
  /** What the buffers hold before the first launch. The same on every call. */
  buffers(): Buffers;
  /** In order, on one stream. */
  readonly launches: readonly CorpusLaunch[];
  /** What the buffers hold after the last launch; those that are left out are not looked at. */
  expected(initial: Buffers): Buffers;
  /**
   * By buffer, where two devices that both follow PTX may differ, or where the reference is not exact to the bit.
   * Without one, every byte must be as expected. Where the PTX has neither unrounded float `add`, `sub` or `mul` nor an
   * approximate instruction, the devices are compared byte for byte in any case.
   */
  readonly bounds?: Readonly<Record<string, ErrorBound>>;
}
