/**
 * Copies between files and device memory in threads of the C library, which the JavaScript thread only starts and
 * awaits: awaiting each piece in JavaScript takes longer than copying it.
 *
 * @module
 */
import { foreignBuffer } from "./host.ts";
import { shim, unwrap } from "./shim/shim.ts";

/** The size of a piece in bytes: larger ones do not stay in the processor's caches. */
const pieceByteLength = 4 * 2 ** 20;
/**
 * The number of threads, each of which has two pieces in flight. Most of the time of a write is the kernel's for
 * providing the file's memory, for which more threads than copy at full speed are of use.
 */
const maximumReaders = 12, maximumWriters = 20;
/** The number of 64-bit words of the C library's `struct transfer` that are shared. */
const stateWords = 3;
/** The words of the state: what the threads report, and the flag that stops them. */
const runningWord = 0, copiedWord = 1, stopWord = 2;

/** The functions of libcuda that the threads call, in the order in which the C library expects their addresses. */
export const threadFunctions = [
  "cuCtxSetCurrent",
  "cuMemHostRegister_v2",
  "cuMemHostUnregister",
  "cuStreamCreate",
  "cuStreamSynchronize",
  "cuStreamDestroy_v2",
  "cuMemcpyHtoDAsync_v2",
  "cuMemcpyDtoHAsync_v2",
] as const;

/** A device's context, and the addresses of `threadFunctions`. */
export interface ThreadCalls {
  readonly context: bigint;
  readonly functions: readonly bigint[];
}

/** A range of a file, and its address in device memory. */
export interface FileRangeOnDevice {
  /** A descriptor of the file, which must stay open. */
  readonly fd: number;
  readonly fileOffset: number;
  readonly byteLength: number;
  readonly address: bigint;
}

/** How a copy has ended. */
export interface EndOfCopy {
  /** 0, or the number of an error: a positive one of CUDA, or a negative one of Linux. */
  readonly error: number;
  /** The descriptor of the file, and the offset there, of the piece that has failed. */
  readonly fd: number;
  readonly offset: number;
}

/** A copy that runs in threads. */
export class ThreadedCopy {
  readonly #address: bigint;
  readonly #state: BigInt64Array;
  /** For each piece, the number of bytes up to its end. */
  readonly #ends: number[] = [];

  /**
   * Starts the threads.
   *
   * @param target A descriptor of the file that is written, if one is: all ranges are ranges of it. It must be at least
   * as long as they say, and sealed against shrinking.
   * @throws {SystemError} If no thread can be started, or the file cannot be mapped
   */
  constructor({ context, functions }: ThreadCalls, ranges: readonly FileRangeOnDevice[], target?: number) {
    const pieces: bigint[][] = [];
    for (const { fd, fileOffset, byteLength, address } of ranges) {
      for (let begin = 0; begin < byteLength; begin += pieceByteLength) {
        const length = Math.min(pieceByteLength, byteLength - begin);
        this.#ends.push((this.#ends.at(-1) ?? 0) + length);
        pieces.push([BigInt(fd), BigInt(fileOffset + begin), BigInt(length), address + BigInt(begin), 0n]);
      }
    }
    const end = Math.max(0, ...ranges.map(({ fileOffset, byteLength }) => fileOffset + byteLength));
    const lanes = Math.min(target === undefined ? maximumReaders : maximumWriters, pieces.length);
    const numbers = [lanes, pieceByteLength, pieces.length, target ?? -1, end].map(BigInt);
    const plan = bytesOf([context, ...functions, ...numbers]);
    const out = new BigUint64Array(1);
    unwrap(shim().poolpass_transfer(plan, bytesOf(pieces.flat()), new Uint8Array(out.buffer)), "start of a copy");
    this.#address = out[0]!;
    this.#state = new BigInt64Array(foreignBuffer(this.#address, stateWords * BigInt64Array.BYTES_PER_ELEMENT));
  }

  /** Whether all threads have ended. */
  get isOver(): boolean {
    return this.#state[runningWord] === 0n;
  }

  /** The number of bytes at the beginning of the ranges that have all been copied. */
  get byteLength(): number {
    return this.#ends[Number(this.#state[copiedWord]) - 1] ?? 0;
  }

  /** Makes the threads end soon. */
  stop(): void {
    this.#state[stopWord] = 1n;
  }

  /** Frees the copy's resources, once, after all threads have ended. Returns the first error. */
  end(): EndOfCopy {
    const failedAt = new BigUint64Array(2);
    const error = shim().poolpass_transfer_end(this.#address, new Uint8Array(failedAt.buffer));
    return { error, fd: Number(failedAt[0]), offset: Number(failedAt[1]) };
  }
}

/** Encodes 64-bit words. */
function bytesOf(words: readonly bigint[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(BigUint64Array.from(words, (word) => BigInt.asUintN(64, word)).buffer);
}
