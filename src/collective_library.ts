/**
 * The interface between communicators and the library that does their work: NCCL, or the software device's own.
 *
 * One method for each call of NCCL that the library makes, named as in NCCL's header without the prefix. Communicators
 * are handles. All calls return at once unless they say otherwise, and collectives once they are enqueued.
 *
 * @module
 */

/** The values of `ncclDataType_t`. */
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

/** The values of `ncclRedOp_t`. */
export const reductionOperation = { sum: 0, product: 1, maximum: 2, minimum: 3, average: 4 } as const;

/**
 * The state of a communicator: ready for calls, in progress (still being created, split or finalized), or the error
 * that it has failed with.
 */
export type CommunicatorState = "ready" | "in-progress" | Error;

/** The parameters with which a rank joins a new communicator. */
export interface RankOptions {
  /** The communicator's ID of 128 bytes, from `getUniqueId`; the same in all ranks. */
  readonly id: Uint8Array;
  readonly rank: number;
  readonly size: number;
  /** Maximum time in milliseconds for which a call blocks until the other ranks take part. Defaults to Infinity. */
  readonly timeout?: number;
}

/** A collective's buffers, and the stream that it is enqueued on. */
export interface CollectiveCall {
  /** The handle of the communicator. */
  readonly comm: bigint;
  /** The address of the buffer that is read; 0 if this rank reads none. */
  readonly source: bigint;
  /** The address of the buffer that is written; 0 if this rank writes none. */
  readonly target: bigint;
  /** The number of elements that each rank contributes; for `reduceScatter`, the number that each rank receives. */
  readonly count: number;
  /** The type of the elements, one of `dataType`. */
  readonly type: number;
  /** The handle of a stream on the communicator's device. */
  readonly stream: bigint;
}

/** A collective that reduces: `operation` is one of `reductionOperation`. */
export interface ReducingCall extends CollectiveCall {
  readonly operation: number;
}

/** A call that names one rank in `root`: the root of a collective, or the peer of a send or a receive. */
export interface RootedCall extends CollectiveCall {
  readonly root: number;
}

/** The part of a communicator's work that is complete. */
export interface CommunicatorExtent {
  /** The number n such that the first n collectives, over all streams, are complete. */
  readonly collectives: number;
  /** Whether all sends and receives are complete. */
  readonly messages: boolean;
}

/**
 * The prefix of a communicator's completed work whose results are valid. Later results are invalid, because they were
 * computed from incomplete data of a rank that has exited or aborted.
 */
export interface ValidPrefix extends CommunicatorExtent {
  /** The reason why later results are invalid. */
  readonly error: Error;
}

/** The parameters for revoking a communicator's unfinished work. */
export interface Revocation {
  /** Whether the caller aborts the communicator right afterwards. */
  readonly willAbort: boolean;
  /** The part of the work that is complete, to be published to the other ranks; undefined if all work is complete. */
  readonly completed: CommunicatorExtent | undefined;
  readonly why: Error;
}

/** A library that creates communicators and executes collectives. Every method throws if the library's call fails. */
export interface CollectiveLibrary {
  /** The library's name and version for messages, such as `"NCCL 2.27.3"`. */
  readonly name: string;
  /** The reason why `commShrink` cannot be called; undefined if it can. */
  readonly shrinkRefusal: string | undefined;

  /** Returns an ID of 128 bytes for a new communicator. */
  getUniqueId(): Uint8Array<ArrayBuffer>;
  /**
   * Begins to create a communicator, and returns its handle. `commGetAsyncError` reports when the communicator is
   * ready.
   */
  commInitRank(device: number, options: RankOptions): bigint;
  /**
   * Begins to create a communicator of the ranks that pass the same color, ordered by key, and by old rank if keys are
   * equal. Without a color, this rank joins no new communicator: the call returns 0, and `commGetAsyncError` of the old
   * communicator reports when the other ranks have been informed.
   */
  commSplit(comm: bigint, options: { readonly color: number | undefined; readonly key: number }): bigint;
  /**
   * Begins to create a communicator of all ranks except `excluded`. Revokes the work that hangs because of the excluded
   * ranks.
   */
  commShrink(comm: bigint, excluded: readonly number[]): bigint;
  commUserRank(comm: bigint): number;
  commCount(comm: bigint): number;
  /**
   * Returns the state of a communicator. Once a rank on this machine has exited or the library has detected a failure,
   * this call and all later calls return an error.
   *
   * @param options.onlyOfWork whether to report only errors of the communicator's work. If so, the exit of a rank is
   * not reported, because the work may be complete nevertheless
   */
  commGetAsyncError(comm: bigint, options?: { readonly onlyOfWork?: boolean }): CommunicatorState;
  /**
   * Returns the ranks that a communicator is known to wait for: those that have not joined it yet, or have not begun
   * its current collective.
   */
  lateRanks(comm: bigint): readonly number[];
  /**
   * After another rank has aborted, or after an error, returns the prefix of the completed work whose results are
   * valid. Returns undefined if all results are valid, or if the prefix is not known. Must be called only when the work
   * is complete.
   */
  commValidPrefix(comm: bigint): ValidPrefix | undefined;
  /**
   * Stops this rank's hanging work. The communicator then accepts no further collectives, but can still be shrunk. The
   * other ranks on this machine are informed; unlike in MPI's ULFM, their work is not revoked.
   */
  commRevoke(comm: bigint, revocation: Revocation): Promise<void>;
  /** Frees a communicator whose work is complete. Resolves when all of its resources have been released. */
  commDestroy(comm: bigint): Promise<void>;
  /**
   * Aborts the work of a communicator, and frees the communicator. The other ranks on this machine detect the abort.
   */
  commAbort(comm: bigint): Promise<void>;

  /** Begins a group of calls, none of which waits for another before `groupEnd`. */
  groupStart(): void;
  groupEnd(): void;
  allReduce(call: ReducingCall): void;
  /**
   * Binds the parameters of an all-reduce. Returns a function that enqueues the all-reduce with little overhead, and
   * must not be called within a group.
   */
  repeatedAllReduce(call: ReducingCall): () => void;
  /** Reduces to the root: only the root's `target` is written. */
  reduce(call: ReducingCall & RootedCall): void;
  /** Broadcasts from the root: only the root's `source` is read. */
  broadcast(call: RootedCall): void;
  allGather(call: CollectiveCall): void;
  reduceScatter(call: ReducingCall): void;
  allToAll(call: CollectiveCall): void;
  send(call: RootedCall): void;
  recv(call: RootedCall): void;
}
