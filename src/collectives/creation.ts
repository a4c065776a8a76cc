/**
 * The creation of communicators: what all ways of it have in common.
 *
 * @module
 */
import type { CollectiveLibrary } from "../collective_library.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { Session } from "../session.ts";
import { cannot } from "../support/driver_errors.ts";
import { SharingError } from "../support/errors.ts";
import { countOf } from "../support/printing.ts";
import { disposedMeanwhile, type WaitOptions, waitUntil } from "../support/waiting/waiting.ts";

const libraries = new WeakMap<Session, CollectiveLibrary>();

/** What moves the bytes of a session's collectives. */
export function libraryOf(session: Session): CollectiveLibrary {
  let library = libraries.get(session);
  if (library === undefined) libraries.set(session, library = session.openCollectives());
  return library;
}

/** What a communicator is made of. */
export interface Parts {
  readonly session: Session;
  readonly library: CollectiveLibrary;
  readonly device: CudaDevice;
  readonly comm: bigint;
  /** The same for all its ranks, and for no other communicator. */
  readonly identity: string;
  readonly rank: number;
  readonly size: number;
  readonly timeout: number;
}

/** What is created, as messages name it, and what ends the wait. */
export type CreationOptions = WaitOptions & { readonly name: string };

/** Begins to create a communicator. Returns its handle. */
export function begin({ name }: CreationOptions, start: () => bigint): bigint {
  try {
    return start();
  } catch (error) {
    throw cannot(`create ${name}`, error);
  }
}

/** Resolves when what was begun is done, of the new communicator or of the one that is divided. */
export async function untilReady(
  { session, library, timeout }: Pick<Parts, "session" | "library" | "timeout">,
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

/** Ranks as messages name them: `"rank 1"`, `"ranks 1, 2 and 5"`. */
export function namesOfRanks(ranks: readonly number[]): string {
  if (ranks.length < 2) return `rank ${ranks[0]}`;
  return `ranks ${ranks.slice(0, -1).join(", ")} and ${ranks.at(-1)}`;
}
