/**
 * Collectives by NCCL.
 *
 * NCCL creates nonblocking communicators in a thread of its own, but then it also starts a thread for each collective,
 * which takes ten times as long as the collective itself. So each communicator here is two of NCCL's: a nonblocking
 * manager with a single channel, which others are split and shrunk from, and a blocking worker, split from the manager,
 * for the collectives. The worker connects all its ranks while it is created, so that no collective has to wait for other
 * ranks before it is enqueued.
 *
 * @module
 */
import type {
  CollectiveCall,
  CollectiveLibrary,
  CommunicatorState,
  RankOptions,
  ReducingCall,
  Revocation,
  RootedCall,
  ValidPrefix,
} from "../../src/collective_library.ts";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { stringAt } from "../native/shim/shim.ts";
import type { NativeFunctions } from "../native/host.ts";
import type { libnccl } from "./libnccl.ts";
import { configOf, handleOutBytes, type Link, NcclCommunicator, receiveFlag, sendFlag } from "./nccl_communicator.ts";

/** The functions of the loaded NCCL library. */
export type NcclFunctions = NativeFunctions<typeof libnccl>;

/** The size of an `ncclUniqueId` in bytes. */
export const idByteLength = 128;
const none: readonly Link[] = [];

/** The names of the `ncclResult_t` codes, by number. */
const resultNames = [
  "ncclSuccess",
  "ncclUnhandledCudaError",
  "ncclSystemError",
  "ncclInternalError",
  "ncclInvalidArgument",
  "ncclInvalidUsage",
  "ncclRemoteError",
  "ncclInProgress",
  "ncclTimeout",
];
const inProgress = 7;

/** A call inside a group: it is queued, and passed to NCCL when the group ends. */
interface GroupedCall {
  readonly communicator: NcclCommunicator;
  readonly links: readonly Link[];
  run(): void;
}

/** The collective library that calls NCCL, for the devices of one driver. */
export class Nccl implements CollectiveLibrary {
  readonly name: string;
  readonly shrinkRefusal: string | undefined;
  readonly #functions: NcclFunctions;
  readonly #makeCurrent: (device: number) => void;
  readonly #communicators = new Map<bigint, NcclCommunicator>();
  /** The communicator of the last call. Cached, because looking it up by bigint takes longer than most of a call. */
  #last: { readonly handle: bigint; readonly communicator: NcclCommunicator } | undefined;
  #lastHandle = 0n;
  /** The number of open nested groups. */
  #depth = 0;
  /** The queued calls of the outermost group. */
  #group: GroupedCall[] = [];
  readonly #intOut = new Int32Array(2);
  readonly #out = new Uint8Array(this.#intOut.buffer);

  constructor(functions: NcclFunctions, makeCurrent: (device: number) => void) {
    this.#functions = functions;
    this.#makeCurrent = makeCurrent;
    this.#check(functions.ncclGetVersion(this.#out), "ncclGetVersion");
    const version = this.#intOut[0]!;
    this.name = `NCCL ${Math.floor(version / 10_000)}.${Math.floor(version / 100) % 100}.${version % 100}`;
    if (functions.ncclCommShrink === undefined) {
      this.shrinkRefusal = `${this.name} has no ncclCommShrink: NCCL 2.27 and newer have it`;
    }
  }

  getUniqueId(): Uint8Array<ArrayBuffer> {
    const id = new Uint8Array(idByteLength);
    this.#check(this.#functions.ncclGetUniqueId(id), "ncclGetUniqueId");
    return id;
  }

  commInitRank(device: number, { id, rank, size, timeout = Infinity }: RankOptions): bigint {
    this.#makeCurrent(device);
    // Copy the id: NCCL reads it from another thread, and the caller may change it before that.
    const ownId = new Uint8Array(handleOutBytes);
    ownId.set(id);
    const communicator = new NcclCommunicator(device, ownId.subarray(0, idByteLength), { timeout });
    communicator.join(rank, size);
    const { ncclCommInitRankScalable } = this.#functions;
    const config = configOf({ isBlocking: false });
    try {
      const result = ncclCommInitRankScalable(bytesOf(communicator.out), size, rank, 1, ownId, config);
      this.#check(result, "ncclCommInitRankScalable");
    } catch (error) {
      communicator.leave({ isAborted: true });
      throw error;
    }
    communicator.manager = communicator.out[0]!;
    return this.#add(communicator);
  }

  commSplit(comm: bigint, { color, key }: { readonly color: number | undefined; readonly key: number }): bigint {
    const parent = this.#communicatorOf(comm);
    const id = parent.idOfSplit(color);
    const child = new NcclCommunicator(parent.device, id, { timeout: parent.timeout, parent });
    const config = configOf({ isBlocking: false });
    const result = this.#functions.ncclCommSplit(parent.manager, color ?? -1, key, bytesOf(child.out), config);
    this.#check(result, "ncclCommSplit", parent);
    parent.dividing.add(child);
    return color === undefined ? 0n : this.#add(child);
  }

  commShrink(comm: bigint, excluded: readonly number[]): bigint {
    const parent = this.#communicatorOf(comm);
    if (parent.dividing.size > 0) {
      // While a split or shrink of the parent is pending, NCCL returns an internal error, even with NCCL_SHRINK_ABORT.
      throw new SharingError(
        "not-supported",
        "NCCL does not shrink a communicator whose division did not end; create another one",
      );
    }
    const id = parent.idOfShrink(excluded);
    const child = new NcclCommunicator(parent.device, id, { timeout: parent.timeout, parent });
    // NCCL may read the list from another thread: make the buffer so large that the JavaScript engine never moves it.
    const list = new Int32Array(Math.max(excluded.length, handleOutBytes / 4));
    list.set(excluded);
    child.excluded = list;
    child.excludedCount = excluded.length;
    const config = configOf({ isBlocking: false });
    const result = this.#functions.ncclCommShrink(
      parent.manager,
      new Uint8Array(list.buffer),
      excluded.length,
      bytesOf(child.out),
      config,
      0,
    );
    this.#check(result, "ncclCommShrink", parent);
    parent.dividing.add(child);
    return this.#add(child);
  }

  commUserRank(comm: bigint): number {
    return this.#rankOf(this.#communicatorOf(comm).manager);
  }

  commCount(comm: bigint): number {
    return this.#countOf(this.#communicatorOf(comm).manager);
  }

  commGetAsyncError(comm: bigint, { onlyOfWork = false }: { readonly onlyOfWork?: boolean } = {}): CommunicatorState {
    const communicator = this.#communicatorOf(comm);
    if (communicator.failure !== undefined) return communicator.failure;
    try {
      if (onlyOfWork) return this.#isDone(communicator.worker, "NCCL", communicator) ? "ready" : "in-progress";
      const ended = communicator.pollForEnded() ??
        (communicator.phase === "ready" ? undefined : communicator.pollForEndedInParent());
      if (ended !== undefined) return communicator.failure = ended;
      return this.#progress(communicator) ? "ready" : "in-progress";
    } catch (error) {
      const failure = isLostConnection(error) ? communicator.causeOf(error) : error as Error;
      return failure === undefined ? "in-progress" : communicator.failure = failure;
    }
  }

  /** Returns an empty list, because NCCL does not report which ranks are late. */
  lateRanks(): readonly number[] {
    return [];
  }

  commValidPrefix(comm: bigint): ValidPrefix | undefined {
    return this.#communicatorOf(comm).validPrefix();
  }

  async commRevoke(comm: bigint, { completed, why }: Revocation): Promise<void> {
    const communicator = this.#communicatorOf(comm);
    try {
      if (completed !== undefined) communicator.publishExtent(completed, why);
    } finally {
      await this.#end(communicator, "worker", "ncclCommAbort");
    }
  }

  async commDestroy(comm: bigint): Promise<void> {
    const communicator = this.#communicatorOf(comm);
    this.#communicators.delete(comm);
    this.#last = undefined;
    try {
      await this.#endBoth(communicator, "ncclCommDestroy");
    } finally {
      communicator.leave();
    }
  }

  async commAbort(comm: bigint): Promise<void> {
    const communicator = this.#communicatorOf(comm);
    this.#communicators.delete(comm);
    this.#last = undefined;
    communicator.leave({ isAborted: true });
    await this.#endBoth(communicator, "ncclCommAbort");
  }

  groupStart(): void {
    if (this.#depth++ === 0) this.#group = [];
  }

  groupEnd(): void {
    if (--this.#depth > 0) return;
    const group = this.#group;
    this.#group = [];
    this.#prepare(group);
    this.#check(this.#functions.ncclGroupStart(), "ncclGroupStart");
    let ended: number | undefined;
    try {
      for (const { run } of group) run();
      ended = this.#functions.ncclGroupEnd();
    } finally {
      // If a call in the group has failed, ignore the result of ncclGroupEnd: it repeats the error with fewer details.
      if (ended === undefined) this.#functions.ncclGroupEnd();
    }
    this.#check(ended, "ncclGroupEnd", group[0]?.communicator);
  }

  allReduce(call: ReducingCall): void {
    if (this.#depth > 0) return this.#keep(call, none, () => this.allReduce(call));
    this.repeatedAllReduce(call)();
  }

  repeatedAllReduce({ comm, source, target, count, type, operation, stream }: ReducingCall): () => void {
    const { ncclAllReduce } = this.#functions;
    const communicator = this.#communicatorOf(comm);
    const elements = BigInt(count);
    return () => {
      const result = ncclAllReduce(source, target, elements, type, operation, communicator.worker, stream);
      if (result !== 0) this.#check(result, "ncclAllReduce", communicator);
    };
  }

  reduce(call: ReducingCall & RootedCall): void {
    if (this.#depth > 0) return this.#keep(call, none, () => this.reduce(call));
    const { comm, source, target, count, type, operation, root, stream } = call;
    const communicator = this.#communicatorOf(comm);
    const { worker } = communicator;
    const result = this.#functions.ncclReduce(source, target, BigInt(count), type, operation, root, worker, stream);
    if (result !== 0) this.#check(result, "ncclReduce", communicator);
  }

  broadcast(call: RootedCall): void {
    if (this.#depth > 0) return this.#keep(call, none, () => this.broadcast(call));
    const { comm, source, target, count, type, root, stream } = call;
    const communicator = this.#communicatorOf(comm);
    const { worker } = communicator;
    const result = this.#functions.ncclBroadcast(source, target, BigInt(count), type, root, worker, stream);
    if (result !== 0) this.#check(result, "ncclBroadcast", communicator);
  }

  allGather(call: CollectiveCall): void {
    if (this.#depth > 0) return this.#keep(call, none, () => this.allGather(call));
    const { comm, source, target, count, type, stream } = call;
    const communicator = this.#communicatorOf(comm);
    const result = this.#functions.ncclAllGather(source, target, BigInt(count), type, communicator.worker, stream);
    if (result !== 0) this.#check(result, "ncclAllGather", communicator);
  }

  reduceScatter(call: ReducingCall): void {
    if (this.#depth > 0) return this.#keep(call, none, () => this.reduceScatter(call));
    const { comm, source, target, count, type, operation, stream } = call;
    const communicator = this.#communicatorOf(comm);
    const { worker } = communicator;
    const result = this.#functions.ncclReduceScatter(source, target, BigInt(count), type, operation, worker, stream);
    if (result !== 0) this.#check(result, "ncclReduceScatter", communicator);
  }

  allToAll(call: CollectiveCall): void {
    const { comm, source, target, count, type, stream } = call;
    const { ncclAlltoAll } = this.#functions;
    if (ncclAlltoAll === undefined) return this.#allToAllByPairs(call);
    const communicator = this.#communicatorOf(comm);
    if (this.#depth > 0) return this.#keep(call, communicator.linksOfAll, () => this.allToAll(call));
    this.#prepare([{ communicator, links: communicator.linksOfAll }]);
    const result = ncclAlltoAll(source, target, BigInt(count), type, communicator.worker, stream);
    if (result !== 0) this.#check(result, "ncclAlltoAll", communicator);
  }

  send(call: RootedCall): void {
    const { comm, source, count, type, root, stream } = call;
    const links = [{ peer: root, direction: sendFlag }] as const;
    if (this.#depth > 0) return this.#keep(call, links, () => this.send(call));
    const communicator = this.#communicatorOf(comm);
    this.#prepare([{ communicator, links }]);
    const result = this.#functions.ncclSend(source, BigInt(count), type, root, communicator.worker, stream);
    if (result !== 0) this.#check(result, "ncclSend", communicator);
  }

  recv(call: RootedCall): void {
    const { comm, target, count, type, root, stream } = call;
    const links = [{ peer: root, direction: receiveFlag }] as const;
    if (this.#depth > 0) return this.#keep(call, links, () => this.recv(call));
    const communicator = this.#communicatorOf(comm);
    this.#prepare([{ communicator, links }]);
    const result = this.#functions.ncclRecv(target, BigInt(count), type, root, communicator.worker, stream);
    if (result !== 0) this.#check(result, "ncclRecv", communicator);
  }

  /** Adds a call to the current group. `run` makes the call when the outermost group ends. */
  #keep({ comm }: CollectiveCall, links: readonly Link[], run: () => void): void {
    this.#group.push({ communicator: this.#communicatorOf(comm), links, run });
  }

  /**
   * Publishes the sends and receives of the calls, and waits until the peers have published the matching ones.
   * Otherwise, NCCL would block this thread until the peers make their calls.
   */
  #prepare(calls: readonly Pick<GroupedCall, "communicator" | "links">[]): void {
    for (const { communicator, links } of calls) for (const link of links) communicator.offerLink(link);
    for (const { communicator, links } of calls) for (const link of links) communicator.awaitLink(link);
  }

  /** Implements an all-to-all with sends and receives, for NCCL before 2.28. */
  #allToAllByPairs(call: CollectiveCall): void {
    const { source, target, count, type } = call;
    const bytes = BigInt(count * byteLengths[type]!);
    this.groupStart();
    try {
      for (let root = 0; root < this.commCount(call.comm); root++) {
        this.send({ ...call, root, source: source + BigInt(root) * bytes });
        this.recv({ ...call, root, target: target + BigInt(root) * bytes });
      }
    } finally {
      this.groupEnd();
    }
  }

  #communicatorOf(handle: bigint): NcclCommunicator {
    if (this.#last?.handle === handle) return this.#last.communicator;
    const communicator = this.#communicators.get(handle)!;
    this.#last = { handle, communicator };
    return communicator;
  }

  #add(communicator: NcclCommunicator): bigint {
    const handle = ++this.#lastHandle;
    this.#communicators.set(handle, communicator);
    return handle;
  }

  /** Performs the next step of creating a communicator. Returns whether the creation is complete. */
  #progress(communicator: NcclCommunicator): boolean {
    const { phase, parent, out } = communicator;
    switch (phase) {
      case "dividing":
        if (parent!.manager === 0n) {
          throw new Error("Cannot divide the communicator: it was destroyed before it was divided");
        }
        if (!this.#isDone(parent!.manager, "ncclCommSplit", parent!)) return false;
        communicator.manager = out[0]!;
        parent!.dividing.delete(communicator);
        if (communicator.manager === 0n) throw new Error("Cannot divide the communicator: NCCL has made none");
        communicator.join(this.#rankOf(communicator.manager), this.#countOf(communicator.manager));
        communicator.phase = "initializing";
        return false;
      case "initializing":
        if (!this.#isDone(communicator.manager, "ncclCommInitRankScalable", communicator)) return false;
        out[0] = 0n;
        this.#makeCurrent(communicator.device);
        this.#check(
          this.#functions.ncclCommSplit(
            communicator.manager,
            0,
            this.#rankOf(communicator.manager),
            bytesOf(out),
            configOf({ isBlocking: true }),
          ),
          "ncclCommSplit",
          communicator,
        );
        communicator.phase = "connecting";
        return false;
      case "connecting":
        if (!this.#isDone(communicator.manager, "ncclCommSplit", communicator)) return false;
        communicator.worker = out[0]!;
        communicator.phase = "ready";
        communicator.roster?.close();
        return true;
      case "ready":
        if (!this.#isDone(communicator.manager, "ncclCommSplit", communicator)) return false;
        // Drop splits without a color: NCCL creates no communicator in this process for them.
        for (const child of communicator.dividing) if (child.out[0] === 0n) communicator.dividing.delete(child);
        return (communicator.worker === 0n || this.#isDone(communicator.worker, "NCCL", communicator));
    }
  }

  #isDone(comm: bigint, call: string, communicator: NcclCommunicator): boolean {
    const called = this.#functions.ncclCommGetAsyncError(comm, this.#out);
    this.#check(called, "ncclCommGetAsyncError", communicator);
    const state = this.#intOut[0]!;
    if (state === inProgress) return false;
    this.#check(state, call, communicator);
    return true;
  }

  async #endBoth(communicator: NcclCommunicator, call: "ncclCommDestroy" | "ncclCommAbort"): Promise<void> {
    try {
      await this.#end(communicator, "worker", call);
    } finally {
      await this.#end(communicator, "manager", call);
    }
  }

  async #end(
    communicator: NcclCommunicator,
    which: "manager" | "worker",
    call: "ncclCommDestroy" | "ncclCommAbort",
  ): Promise<void> {
    const comm = communicator[which];
    if (comm === 0n) return;
    communicator[which] = 0n;
    this.#makeCurrent(communicator.device);
    // ncclCommDestroy fails while a split of this communicator is pending, for example because not all ranks have
    // called the split.
    const ending = this.#isIdle(comm) ? call : "ncclCommAbort";
    try {
      this.#check(await this.#functions[ending](comm), ending);
    } finally {
      if (which === "manager") await this.#abortUnclaimed(communicator);
    }
  }

  /**
   * Aborts the communicators that NCCL has split from a communicator but whose handles were never returned to the
   * program.
   */
  async #abortUnclaimed(communicator: NcclCommunicator): Promise<void> {
    const divided = communicator.phase === "connecting"
      ? [communicator, ...communicator.dividing]
      : [...communicator.dividing];
    communicator.dividing.clear();
    for (const { out } of divided) {
      const comm = out[0]!;
      out[0] = 0n;
      if (comm !== 0n) this.#check(await this.#functions.ncclCommAbort(comm), "ncclCommAbort");
    }
  }

  #isIdle(comm: bigint): boolean {
    return this.#functions.ncclCommGetAsyncError(comm, this.#out) === 0 && this.#intOut[0] === 0;
  }

  #rankOf(comm: bigint): number {
    this.#check(this.#functions.ncclCommUserRank(comm, this.#out), "ncclCommUserRank");
    return this.#intOut[0]!;
  }

  #countOf(comm: bigint): number {
    this.#check(this.#functions.ncclCommCount(comm, this.#out), "ncclCommCount");
    return this.#intOut[0]!;
  }

  #check(result: number, call: string, communicator?: NcclCommunicator): void {
    if (result === 0 || result === inProgress) return;
    const name = resultNames[result] ?? "ncclUnknown";
    const { ncclGetErrorString, ncclGetLastError } = this.#functions;
    const why = [stringAt(ncclGetErrorString(result))];
    const last = stringAt(ncclGetLastError(communicator?.worker || communicator?.manager || 0n)).trim();
    if (last !== "") why.push(last);
    throw new CudaError(result, call, `${call} failed: ${name} (${result}): ${why.join(": ")}`, { code: name });
  }
}

/** Returns whether NCCL has failed because a connection to another rank was closed. */
function isLostConnection(error: unknown): error is CudaError {
  return error instanceof CudaError && (error.code === "ncclRemoteError" || error.code === "ncclSystemError");
}

/** The size of an element in bytes, indexed by the type's number in `dataType`. */
const byteLengths: readonly number[] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

function bytesOf(words: BigUint64Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(words.buffer);
}
