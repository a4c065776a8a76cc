/**
 * The interface between communicators and the library that does their work: NCCL, or the software device's own.
 *
 * One method for each call of NCCL that the library makes, named as in NCCL's header without the prefix. Communicators
 * are handles. All calls return at once unless they say otherwise, and collectives once they are enqueued.
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

/** The progress of a communicator's creation, division or end, or the error that has ended it. */
export type CommunicatorState = "ready" | "in-progress" | Error;

/** A rank of a communicator that is created. */
export interface RankOptions {
  /** 128 bytes, the same in all ranks. */
  readonly id: Uint8Array;
  readonly rank: number;
  readonly size: number;
  /** Milliseconds for which a call may block until other ranks take part; Infinity by default. */
  readonly timeout?: number;
}

/** A collective's buffers, and the stream that it is enqueued on. */
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

/** A collective with one special rank: the root, or the one to send to or receive from. */
export interface RootedCall extends CollectiveCall {
  readonly root: number;
}

/** The part of a communicator's work that is complete. */
export interface Extent {
  /** The number of its first collectives that are complete, on all streams. */
  readonly collectives: number;
  /** Whether all sends and receives are complete. */
  readonly messages: boolean;
}

/**
 * The prefix of a communicator's completed work whose results are valid. Those behind it were computed with what a rank
 * left behind that ended or aborted.
 */
export interface ValidPrefix extends Extent {
  /** Why the rest is invalid. */
  readonly error: Error;
}

/** How to revoke a communicator's unfinished work. */
export interface Revocation {
  /** Whether the communicator will be aborted next. */
  readonly willAbort: boolean;
  /** The work that is complete. Undefined if all is: there is nothing to publish. */
  readonly completed: Extent | undefined;
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
  /** Begins to create a communicator of all ranks but some. Revokes the work that hangs because of those. */
  commShrink(comm: bigint, excluded: readonly number[]): bigint;
  commUserRank(comm: bigint): number;
  commCount(comm: bigint): number;
  /**
   * The state of a communicator. Once this has returned an error, it always does: a rank of this machine has ended, or the
   * library has found that something failed.
   *
   * @param options.onlyOfWork whether only errors of its work count, and not that a rank has ended: the work may be
   * complete
   */
  commGetAsyncError(comm: bigint, options?: { readonly onlyOfWork?: boolean }): CommunicatorState;
  /**
   * The ranks for which a communicator waits, as far as is known: those that have not joined, or not begun its current
   * collective.
   */
  lateRanks(comm: bigint): readonly number[];
  /**
   * The prefix of the completed work whose results are valid, after another rank has aborted, or after an error before
   * which the library knows what was complete. Undefined if all are valid, or nothing is known. Call only after completion.
   */
  commValidPrefix(comm: bigint): ValidPrefix | undefined;
  /**
   * Ends this rank's work that hangs. Its communicator takes no more collectives, and can still be shrunk. The other ranks
   * of this machine learn of it; it is not revoked on all ranks, as by MPI's ULFM.
   */
  commRevoke(comm: bigint, revocation: Revocation): Promise<void>;
  /** Frees a communicator whose work is complete. Resolves when nothing of it is left. */
  commDestroy(comm: bigint): Promise<void>;
  /** Ends the work of a communicator, and frees it. The other ranks of this machine notice. */
  commAbort(comm: bigint): Promise<void>;

  /** Begins a group of calls, none of which waits for another before `groupEnd`. */
  groupStart(): void;
  groupEnd(): void;
  allReduce(call: ReducingCall): void;
  /** Binds the parameters of an all-reduce. Returns a function that enqueues it, cheaply, outside of groups. */
  repeatedAllReduce(call: ReducingCall): () => void;
  /** Only the root writes. */
  reduce(call: ReducingCall & RootedCall): void;
  /** Only the root reads. */
  broadcast(call: RootedCall): void;
  allGather(call: CollectiveCall): void;
  reduceScatter(call: ReducingCall): void;
  allToAll(call: CollectiveCall): void;
  send(call: RootedCall): void;
  recv(call: RootedCall): void;
}
