/**
 * The creation of communicators: its options, and what `create`, `split` and `shrink` have in common.
 *
 * @module
 */
import type { CollectiveLibrary } from "../collective_library.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { Session } from "../session.ts";
import { cannot } from "../support/driver_errors.ts";
import { SharingError } from "../support/errors.ts";
import { countOf } from "../support/printing.ts";
import {
  checkMilliseconds,
  checkNumber,
  checkOptions,
  type KnownOptions,
  maximumInt,
  whatIs,
} from "../support/validation.ts";
import { disposedMeanwhile, type WaitOptions, waitUntil } from "../support/waiting/waiting.ts";
import { checkRank } from "./collective_arguments.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** Options of {@linkcode Communicator.create}. */
export interface CommunicatorOptions extends WaitOptions {
  /** The 128 bytes of {@linkcode Communicator.createId}, the same in all ranks. */
  id: Uint8Array;
  /** The number of this rank, from 0. */
  rank: number;
  /** The number of ranks of the communicator. */
  size: number;
  /**
   * Time in milliseconds within which the other ranks must join, and within which a collective must complete. For a
   * collective, the time starts when it is enqueued, or when the earlier work that it waits for has completed or
   * failed. Infinity is allowed. Default: 10 minutes.
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
/** The default timeout in milliseconds: that of PyTorch's NCCL process groups. */
const defaultTimeout = 600_000;

/** Checks the options of {@linkcode Communicator.create}. Returns them with the default timeout. */
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

/** Throws unless `value` is an integer from `minimum` to the largest C `int`. */
export function checkInt(value: number, what: string, minimum: number): void {
  checkNumber(value, what);
  if (Number.isInteger(value) && value >= minimum && value <= maximumInt) return;
  throw new RangeError(`Cannot use ${value} as ${what}: it must be a whole number from ${minimum} to ${maximumInt}`);
}

const libraries = new WeakMap<Session, CollectiveLibrary>();

/** Returns the collective library of a session, and loads it on the first call. */
export function collectiveLibraryOf(session: Session): CollectiveLibrary {
  let library = libraries.get(session);
  if (library === undefined) libraries.set(session, library = session.openCollectives());
  return library;
}

/** What identifies a communicator: its library and handle, its device, its rank and size, and its timeout. */
export interface CommunicatorParts {
  readonly session: Session;
  readonly library: CollectiveLibrary;
  readonly device: CudaDevice;
  readonly comm: bigint;
  /** A name that all ranks of the communicator share, and that no other communicator has. */
  readonly identity: string;
  readonly rank: number;
  readonly size: number;
  readonly timeout: number;
}

/** The options of a wait until all ranks have joined, and the new communicator's name for error messages. */
export type CreationOptions = WaitOptions & { readonly name: string };

/**
 * Calls `start`, which begins to create a communicator, and returns the communicator's handle. Adds the name to errors.
 */
export function beginCreation({ name }: CreationOptions, start: () => bigint): bigint {
  try {
    return start();
  } catch (error) {
    throw cannot(`create ${name}`, error);
  }
}

/**
 * Resolves when the creation, split or shrink is complete.
 *
 * @param comm the handle of the new communicator or, if this rank joins none, of the communicator that is split
 */
export async function untilReady(
  { session, library, timeout }: Pick<CommunicatorParts, "session" | "library" | "timeout">,
  comm: bigint,
  { name, signal }: CreationOptions,
): Promise<void> {
  const deadline = performance.now() + timeout;
  const isReady = () => {
    if (session.hasEnded) throw disposedMeanwhile(`create ${name}`, "the Cuda object");
    const state = library.commGetAsyncError(comm);
    if (state instanceof Error) throw cannot(`create ${name}`, state);
    if (state === "in-progress" && performance.now() > deadline) {
      const late = library.lateRanks(comm);
      const who = late.length === 0 ? "not all ranks came" : `${namesOfRanks(late)} did not come`;
      throw new SharingError("timed-out", `Cannot create ${name}: ${who} in ${countOf(timeout, "millisecond")}`);
    }
    return state === "ready";
  };
  await waitUntil(isReady, signal === undefined ? {} : { signal }, () => name);
}

/** Returns the names of ranks for messages: `"rank 1"`, `"ranks 1, 2 and 5"`. */
export function namesOfRanks(ranks: readonly number[]): string {
  if (ranks.length < 2) return `rank ${ranks[0]}`;
  return `ranks ${ranks.slice(0, -1).join(", ")} and ${ranks.at(-1)}`;
}
