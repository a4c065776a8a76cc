/**
 * The interface between communicators and what moves their bytes: NCCL, or the software device's own collectives.
 *
 * One method for each call of NCCL that the library makes, named as in NCCL's header without the prefix. Communicators
 * are handles. All calls but those that say otherwise return at once, and collectives when their work is on the stream.
 *
 * @module
 */

/** `ncclDataType_t`. */
export const dataType = {
  int8: 0,
  uint8: 1,
  int32: 2,
  uint32: 3,
  int64: 4,
  uint64: 5,
  float16: 6,
  float32: 7,
  float64: 8,
  bfloat16: 9,
  float8e4m3: 10,
  float8e5m2: 11,
} as const;

/** `ncclRedOp_t`. */
export const reductionOperation = { sum: 0, product: 1, maximum: 2, minimum: 3, average: 4 } as const;

/** How far the creation, the division or the end of a communicator is, or why it can do no more. */
export type CommunicatorState = "ready" | "in-progress" | Error;

/** Who takes part in a communicator. */
export interface RankOptions {
  /** 128 bytes, the same in all ranks. */
  readonly id: Uint8Array;
  readonly rank: number;
  readonly size: number;
  /** Milliseconds for which a call may wait for other ranks, if it has to; Infinity unless given. */
  readonly timeout?: number;
}

/** A collective's buffers, and the stream in whose order it is done. */
export interface CollectiveCall {
  /** The communicator. */
  readonly comm: bigint;
  /** The address that is read; 0 if nothing is. */
  readonly source: bigint;
  /** The address that is written; 0 if nothing is. */
  readonly target: bigint;
  /** The elements that one rank gives: of `reduceScatter`, those that one rank gets. */
  readonly count: number;
  /** One of `dataType`. */
  readonly type: number;
  /** The stream's handle. Its device is the communicator's. */
  readonly stream: bigint;
}

/** A collective that reduces: `operation` is one of `reductionOperation`. */
export interface ReducingCall extends CollectiveCall {
  readonly operation: number;
}

/** A collective with a rank that stands out: the root, or the one to send to or receive from. */
export interface RootedCall extends CollectiveCall {
  readonly root: number;
}

/** How much of a communicator's work is done: how many of its collectives, and whether all sends and receives are. */
export interface Extent {
  readonly collectives: number;
  readonly messages: boolean;
}

/** What is right of a communicator's work that is done. The rest may have been given anything by a rank that ended. */
export interface Cut extends Extent {
  /** Why the rest is not right. */
  readonly error: Error;
}

/** How a communicator's work is ended by force. */
export interface Revocation {
  /** Whether it will be aborted then. */
  readonly isAborted: boolean;
  /** What was done before; undefined if nothing is unfinished. */
  readonly done: Extent | undefined;
  readonly why: Error;
}

/** Creates communicators and does their work. Every method throws if its call fails. */
export interface CollectiveLibrary {
  /** Its name and version for messages, such as `"NCCL 2.27.3"`. */
  readonly name: string;
  /** Why `commShrink` cannot be called; undefined if it can. */
  readonly shrinkRefusal: string | undefined;

  /** 128 bytes. */
  getUniqueId(): Uint8Array<ArrayBuffer>;
  /** Begins to create a communicator: `commGetAsyncError` says when it is ready. */
  commInitRank(device: number, options: RankOptions): bigint;
  /**
   * Begins to create a communicator of the ranks that give the same color, in the order of their keys, and of their
   * ranks where those are equal. Without a color, the rank is in none: returns 0, and the old communicator says when the
   * others know.
   */
  commSplit(comm: bigint, options: { readonly color: number | undefined; readonly key: number }): bigint;
  /** Begins to create a communicator of all ranks but some. Work that hangs because of those is ended. */
  commShrink(comm: bigint, excluded: readonly number[]): bigint;
  commUserRank(comm: bigint): number;
  commCount(comm: bigint): number;
  /**
   * How far a communicator is. Once it has returned an error, it always does: a rank of this machine has ended, or the
   * library has found that something failed.
   *
   * @param options.isDone whether its work is known to be done. Only what the work itself has suffered counts then.
   */
  commGetAsyncError(comm: bigint, options?: { readonly isDone?: boolean }): CommunicatorState;
  /**
   * The ranks for which a communicator waits, as far as that is known: they have not come yet, or not begun the collective
   * that it does.
   */
  lateRanks(comm: bigint): readonly number[];
  /**
   * What is right of the work that is done, if another rank has ended its own by force, or if the library knows what was
   * done before its error; undefined otherwise. To be asked once the work is done.
   */
  commCut(comm: bigint): Cut | undefined;
  /** Ends the work that hangs. The communicator can still be shrunk, and makes no more collectives. */
  commRevoke(comm: bigint, revocation: Revocation): Promise<void>;
  /** Frees a communicator whose work is done. Resolves when nothing of it is left. */
  commDestroy(comm: bigint): Promise<void>;
  /** Ends the work of a communicator, and frees it. The other ranks of this machine get to know. */
  commAbort(comm: bigint): Promise<void>;

  /** Begins calls that belong together: none waits for another before `groupEnd`. */
  groupStart(): void;
  groupEnd(): void;
  allReduce(call: ReducingCall): void;
  /** A function that makes an all-reduce again and again, outside of groups, with as little as that takes. */
  repeatedAllReduce(call: ReducingCall): () => void;
  /** The root alone writes. */
  reduce(call: ReducingCall & RootedCall): void;
  /** The root alone reads. */
  broadcast(call: RootedCall): void;
  allGather(call: CollectiveCall): void;
  reduceScatter(call: ReducingCall): void;
  allToAll(call: CollectiveCall): void;
  send(call: RootedCall): void;
  recv(call: RootedCall): void;
}
