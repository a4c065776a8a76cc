/**
 * Enqueues collectives on their streams, one at a time or as a group.
 *
 * @module
 */
import type { CollectiveLibrary, ReducingCall, RootedCall } from "../collective_library.ts";
import type { Allocation } from "../memory/allocation.ts";
import type { CudaStream } from "../objects/streams/cuda_stream.ts";
import type { CallStack } from "../sanitizer/reporting/call_stacks.ts";
import type { CommunicatorRank } from "../sanitizer/observer/observed_communicators.ts";
import type { CollectiveOnStream } from "../sanitizer/observer/observer.ts";
import type { Sanitizer } from "../sanitizer/sanitizer.ts";
import { cannot, isLoss } from "../support/driver_errors.ts";
import { CudaError } from "../support/errors.ts";
import { whatIs } from "../support/validation.ts";
import type { CollectiveWatchdog } from "./collective_watchdog.ts";
import { RangeError, ReferenceError, TypeError } from "../support/program_errors.ts";

/** All parameters of a collective library's calls. Each collective uses some of them. */
export type AnyCall = ReducingCall & RootedCall;

/** For each public method of a communicator, the name of the collective library's method that it calls. */
const libraryMethods = {
  allReduce: "allReduce",
  reduce: "reduce",
  broadcast: "broadcast",
  allGather: "allGather",
  reduceScatter: "reduceScatter",
  allToAll: "allToAll",
  send: "send",
  receive: "recv",
} as const;

/** The name of a public method that calls a collective. */
export type CollectiveName = keyof typeof libraryMethods;

/** The parts of a communicator that its collectives use. */
export interface Issuer {
  readonly library: CollectiveLibrary;
  readonly sanitizer: Sanitizer | undefined;
  /** The sanitizer's state for this rank. Undefined if the sanitizer is not active. */
  readonly rank: CommunicatorRank | undefined;
  /** The communicator's name in messages. */
  readonly name: string;
  readonly watchdog: CollectiveWatchdog;
}

/** The allocations that a collective reads (`source`) and writes (`target`), and the number of bytes of each access. */
export interface UsedMemory {
  readonly source: Allocation | undefined;
  readonly readByteLength: number;
  readonly target: Allocation | undefined;
  readonly writtenByteLength: number;
}

/** A collective whose arguments were checked. */
export interface Collective {
  readonly issuer: Issuer;
  readonly name: CollectiveName;
  readonly call: AnyCall;
  readonly stream: CudaStream;
  readonly used: UsedMemory;
  /** The call site in the program, for the sanitizer's reports. */
  readonly site: CallStack | undefined;
}

/** The codes of NCCL errors that concern arguments: NCCL detects these errors before it launches anything. */
const argumentErrors: ReadonlySet<string> = new Set(["ncclInvalidArgument", "ncclInvalidUsage"]);

/** The collectives of the open group. Undefined if no group is open. */
let group: Collective[] | undefined;

/** Returns whether a group is open. Collectives are then added to the group instead of being enqueued. */
export function isGrouping(): boolean {
  return group !== undefined;
}

/** Enqueues a collective on its stream, or adds it to the current group. */
export function issue(collective: Collective): void {
  if (group !== undefined) return void group.push(collective);
  beforeEnqueue(collective);
  try {
    enqueue(collective);
  } catch (error) {
    throw afterFailure([collective], error);
  }
  afterEnqueue(collective);
  if (collective.issuer.sanitizer !== undefined) reportToSanitizer([collective]);
}

/** Calls `body`, and enqueues the collectives that it has called as one group. If `body` throws, none is enqueued. */
export function issueGroup(body: () => void): void {
  if (typeof body !== "function") {
    throw new TypeError(`Cannot group ${whatIs(body)}: give a function that calls the collectives`);
  }
  // A nested group is part of the outer one, as in NCCL.
  const outer = group;
  const own: Collective[] = group = [];
  let result: unknown;
  try {
    result = body();
  } finally {
    group = outer;
  }
  if (typeof (result as PromiseLike<unknown> | undefined)?.then === "function") {
    throw new TypeError(
      "Cannot group the calls of an asynchronous function: they would come too late; await nothing in it",
    );
  }
  if (outer !== undefined) return void outer.push(...own);
  for (const collective of own) checkStillUsable(collective);
  checkNoConflicts(own);
  for (const { issuer, stream } of own) issuer.watchdog.beforeEnqueue(stream);
  // While `beforeEnqueue` of one communicator waited, another communicator may have failed.
  for (const { issuer } of own) if (issuer.watchdog.failure !== undefined) throw issuer.watchdog.failure;
  for (const [library, collectives] of Map.groupBy(own, ({ issuer }) => issuer.library)) {
    enqueueGroup(library, collectives);
  }
}

function enqueueGroup(library: CollectiveLibrary, collectives: readonly Collective[]): void {
  library.groupStart();
  try {
    for (const collective of collectives) enqueue(collective);
  } catch (error) {
    try {
      library.groupEnd();
    } catch {
      // Ignore the error of `groupEnd`: it repeats the error of `enqueue`, but does not name the call.
    }
    throw error;
  }
  try {
    library.groupEnd();
  } catch (error) {
    throw afterFailure(collectives, cannot("call a group of collectives", error));
  }
  for (const collective of collectives) afterEnqueue(collective);
  for (const { issuer } of collectives) issuer.watchdog.afterGroup();
  reportToSanitizer(collectives);
}

/**
 * Throws if, since a collective was added to its group, the communicator has failed, the stream was disposed, or a
 * buffer was freed.
 */
function checkStillUsable({ issuer, name, stream, used: { source, target } }: Collective): void {
  if (issuer.watchdog.failure !== undefined) throw issuer.watchdog.failure;
  if (stream.disposed) throw goneInGroup(issuer, name, "its stream was disposed");
  if (source?.isFreed === true || target?.isFreed === true) throw goneInGroup(issuer, name, "a buffer was freed");
}

function goneInGroup(issuer: Issuer, name: CollectiveName, what: string): ReferenceError {
  return new ReferenceError(`Cannot call ${name} of ${issuer.name}: ${what} before the end of the group`);
}

/** Prepares the watchdog for a collective. Throws if the communicator has failed. */
function beforeEnqueue({ issuer: { watchdog }, stream }: Collective): void {
  watchdog.beforeEnqueue(stream);
  if (watchdog.failure !== undefined) throw watchdog.failure;
}

function enqueue({ issuer: { library, name: communicator }, name, call }: Collective): void {
  try {
    library[libraryMethods[name]](call);
  } catch (error) {
    throw cannot(`call ${name} of ${communicator}`, error);
  }
}

function afterEnqueue({ issuer: { watchdog }, name, stream, used: { source, target } }: Collective): void {
  source?.noteUse(stream);
  target?.noteUse(stream);
  watchdog.afterEnqueue(stream, isMessage(name));
}

/**
 * Handles an error that the library has thrown for `collectives`, and returns it. Unless the error concerns only
 * arguments, the communicators fail, because some of the calls may have been enqueued, on this rank or on others.
 */
export function afterFailure(collectives: readonly Collective[], error: unknown): unknown {
  if (!(error instanceof CudaError) || argumentErrors.has(error.code) || isLoss(error)) return error;
  for (const collective of collectives) afterEnqueue(collective);
  for (const { issuer: { watchdog } } of collectives) {
    watchdog.afterGroup();
    watchdog.failUnfinished(error);
  }
  return error;
}

/** Returns whether a call is a send or receive, in which only two ranks take part. */
function isMessage(name: CollectiveName): boolean {
  return name === "send" || name === "receive";
}

function reportToSanitizer(collectives: readonly Collective[]): void {
  for (const [sanitizer, those] of Map.groupBy(collectives, ({ issuer }) => issuer.sanitizer)) {
    sanitizer?.onCollectives(those.flatMap(observedCollectiveOf));
  }
}

function observedCollectiveOf(
  { issuer: { rank }, name, call, stream: { device }, used, site }: Collective,
): CollectiveOnStream[] {
  if (rank === undefined || site === undefined) return [];
  const { source, readByteLength, target, writtenByteLength } = used;
  return [{
    name,
    site,
    rank,
    peer: isMessage(name) ? { rank: call.root, isReceiver: name === "send" } : undefined,
    device: device.ordinal,
    stream: call.stream,
    accesses: [
      ...source === undefined ? [] : [{ access: "read", address: call.source, byteLength: readByteLength } as const],
      ...target === undefined
        ? []
        : [{ access: "write", address: call.target, byteLength: writtenByteLength } as const],
    ],
  }];
}

/**
 * A range of device addresses that a collective of a group reads or writes. Numbers represent the addresses exactly.
 */
interface UsedRange {
  readonly collective: Collective;
  readonly begin: number;
  readonly end: number;
  readonly isWritten: boolean;
}

/**
 * Throws if a collective of a group writes memory that another one reads or writes: collectives of a group are
 * unordered.
 *
 * @throws {RangeError} If two collectives conflict; the message names both
 */
function checkNoConflicts(collectives: readonly Collective[]): void {
  const used = collectives.flatMap(rangesOf).sort((one, other) => one.begin - other.begin);
  // Of the ranges checked so far, the range with the highest end: `last` of all ranges, `lastWritten` of those that are
  // written.
  let last: UsedRange | undefined, lastWritten: UsedRange | undefined;
  for (const range of used) {
    const earlier = range.isWritten ? last : lastWritten;
    if (earlier !== undefined && range.begin < earlier.end) throw conflict(earlier, range);
    if (range.end > (last?.end ?? 0)) last = range;
    if (range.isWritten && range.end > (lastWritten?.end ?? 0)) lastWritten = range;
  }
}

function rangesOf(collective: Collective): UsedRange[] {
  const { call, used: { source, readByteLength, target, writtenByteLength } } = collective;
  const rangeOf = (address: bigint, byteLength: number, isWritten: boolean): UsedRange => {
    const begin = Number(address);
    return { collective, begin, end: begin + byteLength, isWritten };
  };
  const read = source === undefined ? undefined : rangeOf(call.source, readByteLength, false);
  const written = target === undefined ? undefined : rangeOf(call.target, writtenByteLength, true);
  const isInPlace = read !== undefined && written !== undefined && read.begin < written.end && written.begin < read.end;
  // In a collective that is in place, one of the two ranges contains the other, so check them as one written range.
  const ranges = isInPlace
    ? [{ ...written, begin: Math.min(read.begin, written.begin), end: Math.max(read.end, written.end) }]
    : [read, written];
  return ranges.filter((range) => range !== undefined && range.begin < range.end) as UsedRange[];
}

function conflict(earlier: UsedRange, later: UsedRange): RangeError {
  const [writer, other] = later.isWritten ? [later, earlier] : [earlier, later];
  const nameOf = ({ collective: { name, issuer } }: UsedRange) => `${name} of ${issuer.name}`;
  return new RangeError(
    `Cannot group ${nameOf(writer)} with ${nameOf(other)}: it writes what the other one ` +
      `${
        other.isWritten ? "writes, too" : "reads"
      }, and the calls of a group have no order; give each its own buffer, or ` +
      "make two groups",
  );
}
