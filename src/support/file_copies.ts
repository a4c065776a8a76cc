/**
 * How modules that know the library as its users do ask its buffers to read files in threads.
 *
 * @module
 */

/** A range of a file, and its place in a buffer. */
export interface ReadRange<Buffer> {
  readonly path: string;
  /** The device and the inode of the file, in decimal, with a space between them. */
  readonly identity: string;
  readonly fileOffset: number;
  readonly byteLength: number;
  readonly buffer: Buffer;
  readonly byteOffset: number;
}

/** Options of reading ranges in threads. */
export interface RangeReadOptions {
  readonly signal: AbortSignal | undefined;
  /** What is read, for error messages. */
  readonly what: string;
  /** Called repeatedly with the number of bytes read so far. */
  readonly onProgress: (byteLength: number) => void;
}

/** The end of a file that turned out to be too short. */
export interface EarlyEnd {
  readonly path: string;
  readonly offset: number;
}

/** A buffer that may be able to read ranges of files. The ranges' buffers are on the same device. */
export interface RangeReader<Buffer> {
  /** Returns false if nothing was read, because the driver has no such copies or a file cannot be read so. */
  [readsRanges]?(
    ranges: readonly ReadRange<Buffer>[],
    options: RangeReadOptions,
  ): Promise<EarlyEnd | boolean>;
}

/** The name of the method. The number changes with its parameters: the modules may be of different versions. */
export const readsRanges: unique symbol = Symbol.for("poolpass.readsRanges.1");
