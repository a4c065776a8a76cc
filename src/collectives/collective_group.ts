/**
 * Collectives that are given to their streams, alone or together.
 *
 * @module
 */
import type { CollectiveLibrary, ReducingCall, RootedCall } from "../collective_library.ts";
import type { Allocation } from "../memory/allocation.ts";
import type { CudaStream } from "../objects/streams/cuda_stream.ts";
import type { CallSite } from "../sanitizer/reporting/call_sites.ts";
import type { CommunicatorRank } from "../sanitizer/observer/observed_communicators.ts";
import type { CollectiveOnStream } from "../sanitizer/observer/observer.ts";
import type { Sanitizer } from "../sanitizer/sanitizer.ts";
import { cannot } from "../support/driver_errors.ts";
import { whatIs } from "../support/validation.ts";
import { checkGroupApart } from "./group_conflicts.ts";
import type { PendingCollectives } from "./pending_collectives.ts";

/** A call of NCCL, whichever it is. */
export type AnyCall = ReducingCall & RootedCall;

/** The calls of NCCL that are collectives, by what the public methods are called. */
const methods = {
  allReduce: "allReduce",
  reduce: "reduce",
  broadcast: "broadcast",
  allGather: "allGather",
  reduceScatter: "reduceScatter",
  allToAll: "allToAll",
  send: "send",
  receive: "recv",
} as const;

/** The name of a collective. */
export type CollectiveName = keyof typeof methods;

/** A communicator, as its collectives need it. */
export interface Issuer {
  readonly library: CollectiveLibrary;
  readonly sanitizer: Sanitizer | undefined;
  /** What the sanitizer knows it by. */
  readonly rank: CommunicatorRank | undefined;
  /** As messages name it. */
  readonly name: string;
  readonly pending: PendingCollectives;
}

/** The allocations of a collective, and how many bytes it reads and writes. */
export interface UsedMemory {
  readonly source: Allocation | undefined;
  readonly readByteLength: number;
  readonly target: Allocation | undefined;
  readonly writtenByteLength: number;
}

/** A collective that was checked. */
export interface Collective {
  readonly issuer: Issuer;
  readonly name: CollectiveName;
  readonly call: AnyCall;
  readonly stream: CudaStream;
  readonly used: UsedMemory;
  /** Where the program called it, for the sanitizer. */
  readonly site: CallSite | undefined;
}

/** Those of the group that is being made. */
let group: Collective[] | undefined;

/** Whether calls belong to a group. */
export function isGrouping(): boolean {
  return group !== undefined;
}

/** Gives a collective to its stream, or to the group that is being made. */
export function issue(collective: Collective): void {
  if (group !== undefined) return void group.push(collective);
  prepare(collective);
  run(collective);
  note(collective);
  if (collective.issuer.sanitizer !== undefined) tell([collective]);
}

/** Gives what a function asks for to the streams together, when it returns. If it throws, nothing is given to them. */
export function issueTogether(body: () => void): void {
  if (typeof body !== "function") {
    throw new TypeError(`Cannot group ${whatIs(body)}: give a function that calls the collectives`);
  }
  // A group within a group is a part of it.
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
  for (const collective of own) checkAgain(collective);
  checkGroupApart(own);
  for (const { issuer, stream } of own) issuer.pending.prepare(stream);
  // One of them may have failed while another one waited.
  for (const { issuer } of own) if (issuer.pending.failure !== undefined) throw issuer.pending.failure;
  for (const [library, collectives] of Map.groupBy(own, ({ issuer }) => issuer.library)) {
    issueAll(library, collectives);
  }
}

function issueAll(library: CollectiveLibrary, collectives: readonly Collective[]): void {
  library.groupStart();
  try {
    for (const collective of collectives) run(collective);
  } catch (error) {
    try {
      library.groupEnd();
    } catch {
      // It is the same error, and does not say of which call.
    }
    throw error;
  }
  try {
    library.groupEnd();
  } catch (error) {
    throw cannot("call a group of collectives", error);
  }
  for (const collective of collectives) note(collective);
  for (const { issuer } of collectives) issuer.pending.endGroup();
  tell(collectives);
}

/** Throws if what a collective needs has gone before the end of its group. */
function checkAgain({ issuer, name, stream, used: { source, target } }: Collective): void {
  if (issuer.pending.failure !== undefined) throw issuer.pending.failure;
  if (stream.disposed) throw goneInGroup(issuer, name, "its stream was disposed");
  if (source?.isFreed === true || target?.isFreed === true) throw goneInGroup(issuer, name, "a buffer was freed");
}

function goneInGroup(issuer: Issuer, name: CollectiveName, what: string): ReferenceError {
  return new ReferenceError(`Cannot call ${name} of ${issuer.name}: ${what} before the end of the group`);
}

/** Prepares a stream for a collective. Throws if the communicator can do no more. */
function prepare({ issuer: { pending }, stream }: Collective): void {
  pending.prepare(stream);
  if (pending.failure !== undefined) throw pending.failure;
}

function run({ issuer: { library, name: communicator }, name, call }: Collective): void {
  try {
    library[methods[name]](call);
  } catch (error) {
    throw cannot(`call ${name} of ${communicator}`, error);
  }
}

/** Notes that a stream has a collective. */
function note({ issuer: { pending }, name, stream, used: { source, target } }: Collective): void {
  source?.noteUse(stream);
  target?.noteUse(stream);
  pending.add(stream, isMessage(name));
}

/** Whether one rank calls it and not all. */
function isMessage(name: CollectiveName): boolean {
  return name === "send" || name === "receive";
}

/** Tells the sanitizer of collectives that are done together. */
function tell(collectives: readonly Collective[]): void {
  for (const [sanitizer, those] of Map.groupBy(collectives, ({ issuer }) => issuer.sanitizer)) {
    sanitizer?.worksTogether(those.flatMap(workOf));
  }
}

/** A collective as the sanitizer looks at it. */
function workOf({ issuer: { rank }, name, call, stream: { device }, used, site }: Collective): CollectiveOnStream[] {
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
