import { countOf } from "../support/printing.ts";
import {
  checkMilliseconds,
  checkNumber,
  checkOptions,
  type KnownOptions,
  maximumInt,
  whatIs,
} from "../support/validation.ts";
import type { WaitOptions } from "../support/waiting/waiting.ts";
import { checkRank } from "./collective_arguments.ts";

/** Options of {@linkcode Communicator.create}. */
export interface CommunicatorOptions extends WaitOptions {
  /** The 128 bytes of {@linkcode Communicator.createId}, the same in all ranks. */
  id: Uint8Array;
  /** The number of this rank, from 0. */
  rank: number;
  /** How many ranks there are. */
  size: number;
  /**
   * Milliseconds in which the other ranks must come, and in which a collective must be done after it was asked for, or
   * after those before it on its stream were done: 10 minutes by default, or Infinity.
   */
  timeout?: number;
}

const communicatorOptions: KnownOptions<CommunicatorOptions> = {
  action: "create a communicator",
  names: { id: true, rank: true, size: true, timeout: true, signal: true },
  required: "{ id, rank, size }",
  instead: { nranks: "give size" },
};
const idByteLength = 128;
/** PyTorch's own default. */
const defaultTimeout = 600_000;

/** Checks the options of {@linkcode Communicator.create}. Returns them with the default. */
export function checkedCommunicatorOptions(options: CommunicatorOptions): CommunicatorOptions & { timeout: number } {
  checkOptions(options, communicatorOptions);
  const { id, rank, size, signal, timeout = defaultTimeout } = options;
  checkMilliseconds(timeout, "a timeout");
  checkId(id);
  checkNumber(size, "the size of a communicator");
  if (!(Number.isInteger(size) && size >= 1 && size <= maximumInt)) {
    throw new RangeError(`Cannot create a communicator of ${size} ranks: it must be a whole number of at least 1`);
  }
  checkRank(rank, size, "the rank of a communicator");
  return signal === undefined ? { id, rank, size, timeout } : { id, rank, size, signal, timeout };
}

function checkId(id: Uint8Array): void {
  if (!(id instanceof Uint8Array)) {
    throw new TypeError(
      `Cannot use ${whatIs(id)} as the id of a communicator: give the bytes of Communicator.createId`,
    );
  }
  if (id.length !== idByteLength) {
    throw new RangeError(
      `Cannot use ${countOf(id.length, "byte")} as the id of a communicator: it has ${idByteLength}, from ` +
        "Communicator.createId in one of the ranks",
    );
  }
}

/** Throws unless a value is a whole number that an `int` of C holds, and at least `minimum`. */
export function checkInt(value: number, what: string, minimum: number): void {
  checkNumber(value, what);
  if (Number.isInteger(value) && value >= minimum && value <= maximumInt) return;
  throw new RangeError(`Cannot use ${value} as ${what}: it must be a whole number from ${minimum} to ${maximumInt}`);
}
