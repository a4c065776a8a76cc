/**
 * NCCL as what moves the bytes of collectives.
 *
 * NCCL creates communicators off this thread if they are not blocking, but then it also starts a thread for each
 * collective, which takes ten times as long as the collective itself. So there are two for each communicator: one that
 * is not blocking, with a single channel, from which others are divided and that shrinks; and one divided from it that
 * is blocking and makes the collectives. The second connects all its ranks while it is created, so that a collective
 * does not wait for other ranks before it is on its stream.
 *
 * @module
 */
import type {
  CollectiveCall,
  CollectiveLibrary,
  CommunicatorState,
  RankOptions,
  ReducingCall,
  RootedCall,
} from "../src/collective_library.ts";
import { CudaError, SharingError } from "../src/support/errors.ts";
import { sha256 } from "../src/support/sha256.ts";
import { stringAt } from "./c_strings.ts";
import { dlopen, ffiRefusal, keepLoaded, type NativeFunctions, type NativeLibrary } from "./host.ts";
import { libnccl } from "./libnccl.ts";
import { cString } from "./shim/shim.ts";
import { Roster } from "./shim/roster.ts";
import { toolkitCandidates } from "./toolkit_libraries.ts";

type Functions = NativeFunctions<typeof libnccl>;

const ncclLibrary = { names: ["libnccl.so.2", "libnccl.so"], packageFolder: "nccl" };
const idByteLength = 128;

/** `ncclResult_t`. */
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

/** `ncclConfig_t` as it was in NCCL 2.18: newer ones read what it has. */
const configVersion = 2_18_00;
const configByteLength = 48;
const configMagic = 0xcafebeef;
/** `NCCL_CONFIG_UNDEF_INT`. */
const undefinedInt = -(2 ** 31);
/** The functions without which a library is not used: those of NCCL 2.23. */
const optionalFunctions: readonly string[] = [
  "ncclCommShrink",
  "ncclCommRegister",
  "ncclCommDeregister",
  "ncclAlltoAll",
];

/** What a rank leaves in the roster when it ends its work by force: the others cannot go on. */
const aborted = Uint32Array.of(1);
/** Milliseconds between two looks at who of this machine has ended. */
const rosterInterval = 10;
/** NCCL writes a handle here when it has created a communicator, in a thread of its own. Too large to be moved. */
const handleOutBytes = 256;

let found: Functions | undefined;

/** Finds NCCL for the devices of a driver. `makeCurrent` makes a device the one that NCCL's calls are for. */
export function openNccl(path: string | undefined, makeCurrent: (device: number) => void): CollectiveLibrary {
  if (path !== undefined) {
    const opened = tryNccl(path);
    if ("reason" in opened) throw new Error(`Cannot use "${path}" as libnccl: ${opened.reason}`);
    return new Nccl(opened.functions, makeCurrent);
  }
  found ??= search();
  return new Nccl(found, makeCurrent);
}

function search(): Functions {
  const refusal = ffiRefusal();
  if (refusal !== undefined) throw new Error(`Cannot use NCCL: ${refusal}`);
  let unusable: string | undefined;
  for (const candidate of toolkitCandidates(ncclLibrary)) {
    const opened = tryNccl(candidate);
    if (!("reason" in opened)) return opened.functions;
    if (!/No such file|cannot open shared object|not found/i.test(opened.reason)) unusable ??= opened.reason;
  }
  throw new Error(
    unusable !== undefined
      ? `Cannot use NCCL: ${unusable}`
      : `Cannot use NCCL: no ${ncclLibrary.names[0]} was found by the loader, in CUDA_HOME, /usr/local/cuda, ` +
        "VIRTUAL_ENV, CONDA_PREFIX or ~/.local; install the package libnccl2, or nvidia-nccl-cu13 by pip, or give its " +
        "path in POOLPASS_NCCL",
  );
}

function tryNccl(path: string): { readonly functions: Functions } | { readonly reason: string } {
  prepareEnvironment();
  let library: NativeLibrary<typeof libnccl>;
  try {
    library = dlopen(path, libnccl);
  } catch (error) {
    const { cause = error } = error as Error;
    return { reason: cause instanceof Error ? cause.message : String(cause) };
  }
  const lacking = Object.keys(libnccl).find((name) =>
    library.symbols[name as keyof typeof libnccl] === undefined && !optionalFunctions.includes(name)
  );
  if (lacking !== undefined) {
    library.close();
    return { reason: `${path} has no ${lacking}: it is not NCCL, or older than NCCL 2.23` };
  }
  // It runs threads.
  keepLoaded(path);
  return { functions: library.symbols as Functions };
}

/** Sets what NCCL reads once, unless it is set already. */
function prepareEnvironment(): void {
  const symbols = {
    setenv: {
      parameters: ["buffer", /* const char *name */ "buffer", /* const char *value */ "i32" /* int overwrite */],
      result: "i32",
    },
  } as const;
  const { setenv } = dlopen("libc.so.6", symbols).symbols;
  // NVLink multicast that fails can put the GPUs of a shared machine out of service.
  setenv?.(cString("NCCL_NVLS_ENABLE"), cString("0"), 0);
  // Otherwise the first collective connects the ranks, and blocks this thread until all have called it.
  setenv?.(cString("NCCL_RUNTIME_CONNECT"), cString("0"), 0);
}

/** What is being created, in order: the one that is not blocking, and the one that makes collectives. */
type Phase = "dividing" | "initializing" | "connecting" | "ready";

/** A communicator. */
class NcclCommunicator {
  phase: Phase;
  /** The one that is not blocking, once its address is known. */
  manager = 0n;
  /** The one that makes collectives. */
  worker = 0n;
  /** Whose state says whether `manager` is there: another communicator's while this one is divided from it. */
  readonly parent: NcclCommunicator | undefined;
  readonly device: number;
  readonly id: Uint8Array;
  /** Who has taken part, by places: undefined where that is not known. */
  roster: Roster | undefined;
  failure: Error | undefined;
  #nextLook = 0;
  readonly out: BigUint64Array<ArrayBuffer> = new BigUint64Array(handleOutBytes / 8);
  /** The ranks that it has no more, while it shrinks. */
  excluded: Int32Array<ArrayBuffer> | undefined;
  /** How many others were divided from it. */
  divisions = 0;

  constructor(device: number, id: Uint8Array, phase: Phase, parent?: NcclCommunicator) {
    this.device = device;
    this.id = id;
    this.phase = phase;
    this.parent = parent;
  }

  /** Takes a place among those of this machine. */
  join(rank: number, size: number): void {
    const roster = Roster.join(rosterName(this.id), rank, { places: size, recordByteLength: aborted.byteLength });
    if (roster === "taken") {
      throw new RangeError(`Cannot create a communicator of rank ${rank}: another one has that rank already`);
    }
    this.roster = roster;
  }

  /** The error of a rank of this machine that has ended, or has aborted. */
  lookForEnded(): Error | undefined {
    const { roster } = this;
    if (roster === undefined || roster.hasLeft || performance.now() < this.#nextLook) return undefined;
    this.#nextLook = performance.now() + rosterInterval;
    for (let place = 0; place < roster.places; place++) {
      const what = goneBy(roster, place);
      if (what !== undefined) {
        return new SharingError("peer-gone", `Rank ${place} ${what}: ${processOf(roster, place)}`);
      }
    }
    return undefined;
  }

  /** Gives up the place. */
  leave({ isAborted = false } = {}): void {
    if (this.roster === undefined || this.roster.hasLeft) return;
    if (isAborted) this.roster.write(new Uint8Array(aborted.buffer));
    this.roster.close();
    this.roster.leave();
  }
}

function goneBy(roster: Roster, place: number): string | undefined {
  if (place === roster.place) return undefined;
  const state = roster.stateOf(place);
  if (state === "ended") return "has ended";
  if (state !== "left") return undefined;
  const record = new Uint32Array(1);
  roster.readInto(new Uint8Array(record.buffer), place);
  return record[0] === aborted[0] ? "has aborted" : undefined;
}

function processOf(roster: Roster, place: number): string {
  return `process ${roster.pidOf(place)}`;
}

function rosterName(id: Uint8Array): string {
  return `poolpass-ranks-${sha256(id).subarray(0, 16).toHex()}`;
}

/** The id of a communicator that is made of another one. All its ranks derive the same. */
function derivedId(id: Uint8Array, how: string): Uint8Array {
  return sha256(new Uint8Array([...id, ...new TextEncoder().encode(how)]));
}

/** NCCL, for the devices of one driver. */
class Nccl implements CollectiveLibrary {
  readonly name: string;
  readonly shrinkRefusal: string | undefined;
  readonly registers: boolean;
  readonly #functions: Functions;
  readonly #makeCurrent: (device: number) => void;
  readonly #communicators = new Map<bigint, NcclCommunicator>();
  #lastHandle = 0n;
  readonly #intOut = new Int32Array(2);
  readonly #out = new Uint8Array(this.#intOut.buffer);

  constructor(functions: Functions, makeCurrent: (device: number) => void) {
    this.#functions = functions;
    this.#makeCurrent = makeCurrent;
    this.#check(functions.ncclGetVersion(this.#out), "ncclGetVersion");
    const version = this.#intOut[0]!;
    this.name = `NCCL ${Math.floor(version / 10_000)}.${Math.floor(version / 100) % 100}.${version % 100}`;
    this.registers = functions.ncclCommRegister !== undefined;
    if (functions.ncclCommShrink === undefined) {
      this.shrinkRefusal = `${this.name} has no ncclCommShrink: NCCL 2.27 and newer have it`;
    }
  }

  getUniqueId(): Uint8Array<ArrayBuffer> {
    const id = new Uint8Array(idByteLength);
    this.#check(this.#functions.ncclGetUniqueId(id), "ncclGetUniqueId");
    return id;
  }

  commInitRank(device: number, { id, rank, size }: RankOptions): bigint {
    this.#makeCurrent(device);
    // NCCL reads it in a thread of its own, and the caller may change it.
    const ownId = new Uint8Array(handleOutBytes);
    ownId.set(id);
    const communicator = new NcclCommunicator(device, ownId.subarray(0, idByteLength), "initializing");
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
    const parent = this.#communicators.get(comm)!;
    const id = derivedId(parent.id, `split ${++parent.divisions} ${color}`);
    const child = new NcclCommunicator(parent.device, id, "dividing", parent);
    const config = configOf({ isBlocking: false });
    this.#check(
      this.#functions.ncclCommSplit(parent.manager, color ?? -1, key, bytesOf(child.out), config),
      "ncclCommSplit",
      parent,
    );
    return color === undefined ? 0n : this.#add(child);
  }

  commShrink(comm: bigint, excluded: readonly number[]): bigint {
    const parent = this.#communicators.get(comm)!;
    const id = derivedId(parent.id, `shrink ${[...excluded].sort((a, b) => a - b)}`);
    const child = new NcclCommunicator(parent.device, id, "dividing", parent);
    // NCCL may read the list in a thread of its own.
    const list = new Int32Array(Math.max(excluded.length, handleOutBytes / 4));
    list.set(excluded);
    child.excluded = list;
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
    return this.#add(child);
  }

  commUserRank(comm: bigint): number {
    return this.#rankOf(this.#communicators.get(comm)!.manager);
  }

  commCount(comm: bigint): number {
    return this.#countOf(this.#communicators.get(comm)!.manager);
  }

  commGetAsyncError(comm: bigint): CommunicatorState {
    const communicator = this.#communicators.get(comm)!;
    if (communicator.failure !== undefined) return communicator.failure;
    try {
      const ended = communicator.lookForEnded();
      if (ended !== undefined) return communicator.failure = ended;
      return this.#advance(communicator) ? "ready" : "in-progress";
    } catch (error) {
      return communicator.failure = error as Error;
    }
  }

  commRevoke(comm: bigint): Promise<void> {
    return this.#end(this.#communicators.get(comm)!, "worker", "ncclCommAbort");
  }

  async commDestroy(comm: bigint): Promise<void> {
    const communicator = this.#communicators.get(comm)!;
    this.#communicators.delete(comm);
    try {
      await this.#end(communicator, "worker", "ncclCommDestroy");
      await this.#end(communicator, "manager", "ncclCommDestroy");
    } finally {
      communicator.leave();
    }
  }

  async commAbort(comm: bigint): Promise<void> {
    const communicator = this.#communicators.get(comm)!;
    this.#communicators.delete(comm);
    communicator.leave({ isAborted: true });
    await this.#end(communicator, "worker", "ncclCommAbort");
    await this.#end(communicator, "manager", "ncclCommAbort");
  }

  commRegister(comm: bigint, address: bigint, byteLength: number): bigint {
    const communicator = this.#communicators.get(comm)!;
    const handle = new BigUint64Array(1);
    const result = this.#functions.ncclCommRegister(communicator.worker, address, BigInt(byteLength), bytesOf(handle));
    this.#check(result, "ncclCommRegister", communicator);
    return handle[0]!;
  }

  commDeregister(comm: bigint, handle: bigint): void {
    const communicator = this.#communicators.get(comm)!;
    this.#check(this.#functions.ncclCommDeregister(communicator.worker, handle), "ncclCommDeregister", communicator);
  }

  groupStart(): void {
    this.#check(this.#functions.ncclGroupStart(), "ncclGroupStart");
  }

  groupEnd(): void {
    this.#check(this.#functions.ncclGroupEnd(), "ncclGroupEnd");
  }

  allReduce({ comm, source, target, count, type, operation, stream }: ReducingCall): void {
    const worker = this.#workerOf(comm);
    const result = this.#functions.ncclAllReduce(source, target, BigInt(count), type, operation, worker, stream);
    if (result !== 0) this.#check(result, "ncclAllReduce", this.#communicators.get(comm));
  }

  reduce({ comm, source, target, count, type, operation, root, stream }: ReducingCall & RootedCall): void {
    const worker = this.#workerOf(comm);
    const result = this.#functions.ncclReduce(source, target, BigInt(count), type, operation, root, worker, stream);
    if (result !== 0) this.#check(result, "ncclReduce", this.#communicators.get(comm));
  }

  broadcast({ comm, source, target, count, type, root, stream }: RootedCall): void {
    const worker = this.#workerOf(comm);
    const result = this.#functions.ncclBroadcast(source, target, BigInt(count), type, root, worker, stream);
    if (result !== 0) this.#check(result, "ncclBroadcast", this.#communicators.get(comm));
  }

  allGather({ comm, source, target, count, type, stream }: CollectiveCall): void {
    const worker = this.#workerOf(comm);
    const result = this.#functions.ncclAllGather(source, target, BigInt(count), type, worker, stream);
    if (result !== 0) this.#check(result, "ncclAllGather", this.#communicators.get(comm));
  }

  reduceScatter({ comm, source, target, count, type, operation, stream }: ReducingCall): void {
    const worker = this.#workerOf(comm);
    const result = this.#functions.ncclReduceScatter(source, target, BigInt(count), type, operation, worker, stream);
    if (result !== 0) this.#check(result, "ncclReduceScatter", this.#communicators.get(comm));
  }

  allToAll(call: CollectiveCall): void {
    const { comm, source, target, count, type, stream } = call;
    const { ncclAlltoAll } = this.#functions;
    if (ncclAlltoAll === undefined) return this.#allToAllByPairs(call);
    const result = ncclAlltoAll(source, target, BigInt(count), type, this.#workerOf(comm), stream);
    if (result !== 0) this.#check(result, "ncclAlltoAll", this.#communicators.get(comm));
  }

  send({ comm, source, count, type, root, stream }: RootedCall): void {
    const result = this.#functions.ncclSend(source, BigInt(count), type, root, this.#workerOf(comm), stream);
    if (result !== 0) this.#check(result, "ncclSend", this.#communicators.get(comm));
  }

  recv({ comm, target, count, type, root, stream }: RootedCall): void {
    const result = this.#functions.ncclRecv(target, BigInt(count), type, root, this.#workerOf(comm), stream);
    if (result !== 0) this.#check(result, "ncclRecv", this.#communicators.get(comm));
  }

  /** Before NCCL 2.28. */
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

  #workerOf(comm: bigint): bigint {
    return this.#communicators.get(comm)!.worker;
  }

  #add(communicator: NcclCommunicator): bigint {
    const handle = ++this.#lastHandle;
    this.#communicators.set(handle, communicator);
    return handle;
  }

  /** Does the next step of a creation. Returns whether nothing is left to do. */
  #advance(communicator: NcclCommunicator): boolean {
    const { phase, parent, out } = communicator;
    switch (phase) {
      case "dividing":
        if (!this.#isDone(parent!.manager, "ncclCommSplit", parent!)) return false;
        communicator.manager = out[0]!;
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
        return this.#isDone(communicator.manager, "ncclCommSplit", communicator) &&
          (communicator.worker === 0n || this.#isDone(communicator.worker, "NCCL", communicator));
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

  async #end(
    communicator: NcclCommunicator,
    which: "manager" | "worker",
    call: "ncclCommDestroy" | "ncclCommAbort",
  ): Promise<void> {
    const comm = communicator[which];
    if (comm === 0n) return;
    communicator[which] = 0n;
    this.#makeCurrent(communicator.device);
    this.#check(await this.#functions[call](comm), call);
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

/** By `dataType`. */
const byteLengths: readonly number[] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

function bytesOf(words: BigUint64Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(words.buffer);
}

/** An `ncclConfig_t`. One that is not blocking makes no collectives: a single channel takes the least memory. */
function configOf({ isBlocking }: { readonly isBlocking: boolean }): Uint8Array {
  const config = new Uint8Array(handleOutBytes);
  const view = new DataView(config.buffer);
  const channels = isBlocking ? undefinedInt : 1;
  view.setBigUint64(0, BigInt(configByteLength), true);
  view.setUint32(8, configMagic, true);
  view.setUint32(12, configVersion, true);
  view.setInt32(16, isBlocking ? 1 : 0, true);
  view.setInt32(20, undefinedInt, true); // cgaClusterSize
  view.setInt32(24, channels, true); // minCTAs
  view.setInt32(28, channels, true); // maxCTAs
  view.setInt32(40, undefinedInt, true); // splitShare
  return config;
}
