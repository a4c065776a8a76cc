/**
 * The software device's own collectives, among processes of one machine and among ranks of one process: a test double for
 * NCCL, with its semantics. Each rank posts its input in a mailbox that the other ranks read.
 *
 * Where NCCL leaves a choice, this one is strict: every collective waits until all ranks have called it, a send completes
 * when the receiver has the message, and ranks that call different collectives get an error instead of hanging.
 *
 * An operation has two phases on its stream: it posts its input, and completes when the other ranks have posted theirs. Joins
 * and splits progress, in UCX's sense of the word: each poll of the communicator's state does what is possible by then.
 *
 * @module
 */
import {
  type CollectiveCall,
  type CollectiveLibrary,
  type CommunicatorState,
  type RankOptions,
  type ReducingCall,
  reductionOperation,
  type Revocation,
  type RootedCall,
  type ValidPrefix,
} from "../../collective_library.ts";
import { memAccessFlags } from "../../driver.ts";
import {
  CollectiveOperation,
  groupLimit,
  ReceiveOperation,
  SendOperation,
  sharesOf,
  type StreamOperation,
} from "./stream_operation.ts";
import { type CollectiveServices, SoftwareCommunicator } from "./software_communicator.ts";
import { createId, derivedKey, keyOfId, Membership } from "./membership.ts";
import { type ElementType, elementType } from "./reduction.ts";
import { type OperationName, operationNumbers } from "./mailbox.ts";

/** The collective library of the software driver. */
export class SoftwareCollectives implements CollectiveLibrary {
  readonly name = "the software device's collectives";
  readonly shrinkRefusal: string | undefined = undefined;
  readonly #services: CollectiveServices;
  readonly #communicators = new Map<bigint, SoftwareCommunicator>();
  #lastHandle = 0n;
  /** The number of open nested groups. */
  #depth = 0;
  /** The operations added to the outermost open group so far. */
  #group: StreamOperation[] = [];
  /** The first error thrown by a call of the open group. */
  #groupFailure: { readonly error: unknown } | undefined;

  constructor(services: CollectiveServices) {
    this.#services = services;
  }

  getUniqueId(): Uint8Array<ArrayBuffer> {
    return createId();
  }

  commInitRank(device: number, { id, rank, size }: RankOptions): bigint {
    this.#services.checkDevice(device, "commInitRank");
    const key = keyOfId(id);
    if (!Number.isSafeInteger(size) || size < 1 || !Number.isSafeInteger(rank) || rank < 0 || rank >= size) {
      throw new RangeError(`Cannot create a communicator: there is no rank ${rank} of ${size}; count the ranks from 0`);
    }
    return this.#add(device, Membership.join({ key, rank, size, deviceUuid: this.#services.deviceUuid(device) }));
  }

  commSplit(comm: bigint, { color, key }: { readonly color: number | undefined; readonly key: number }): bigint {
    const parent = this.#communicator(comm);
    const division = parent.divide(color, key);
    if (color === undefined) return 0n;
    const deviceUuid = this.#services.deviceUuid(parent.device);
    return this.#add(parent.device, () => {
      const part = division.part();
      return part && Membership.join({ ...part, deviceUuid });
    });
  }

  commShrink(comm: bigint, excluded: readonly number[]): bigint {
    const parent = this.#communicator(comm);
    const membership = parent.membershipFor("shrink the communicator");
    const { key, rank, size } = membership;
    const ranks = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !excluded.includes(rank));
    if (!ranks.includes(rank)) {
      throw new RangeError(`Cannot shrink the communicator: rank ${rank} is this one; the others shrink it without it`);
    }
    if (parent.hasWork) parent.giveUp();
    const names = [...new Set(excluded)].sort((one, other) => one - other).join(" ");
    const joined = Membership.join({
      key: derivedKey(key, `shrink ${parent.nextShrink(names)} without ${names}`),
      rank: ranks.indexOf(rank),
      size: ranks.length,
      deviceUuid: this.#services.deviceUuid(parent.device),
      origin: { membership, ranks },
    });
    return this.#add(parent.device, joined);
  }

  commUserRank(comm: bigint): number {
    return this.#communicator(comm).membershipFor("ask for the rank").rank;
  }

  commCount(comm: bigint): number {
    return this.#communicator(comm).membershipFor("ask for the number of ranks").size;
  }

  commGetAsyncError(comm: bigint, { onlyOfWork = false }: { readonly onlyOfWork?: boolean } = {}): CommunicatorState {
    const communicator = this.#communicator(comm);
    return onlyOfWork ? communicator.stateOfWork : communicator.state;
  }

  lateRanks(comm: bigint): readonly number[] {
    return this.#communicator(comm).lateRanks;
  }

  commValidPrefix(comm: bigint): ValidPrefix | undefined {
    return this.#communicator(comm).validPrefix;
  }

  async commRevoke(comm: bigint, { willAbort }: Pick<Revocation, "willAbort">): Promise<void> {
    const communicator = this.#communicator(comm);
    if (willAbort) communicator.stop();
    else communicator.giveUp();
    await communicator.whenWorkIsGone();
  }

  async commDestroy(comm: bigint): Promise<void> {
    const communicator = this.#communicator(comm);
    communicator.finalize();
    await communicator.whenWorkIsGone();
    communicator.destroy();
    this.#communicators.delete(comm);
  }

  async commAbort(comm: bigint): Promise<void> {
    const communicator = this.#communicator(comm);
    communicator.destroy({ isAborted: true });
    this.#communicators.delete(comm);
    await communicator.whenWorkIsGone();
  }

  groupStart(): void {
    this.#depth++;
  }

  /**
   * Ends a group. If it is the outermost one, enqueues the operations. If a call of the group has thrown an error,
   * throws it again and enqueues nothing.
   */
  groupEnd(): void {
    if (this.#depth === 0) throw new Error("Cannot end a group: none has begun");
    if (--this.#depth > 0) return;
    const group = this.#group, failure = this.#groupFailure;
    this.#group = [];
    this.#groupFailure = undefined;
    if (failure !== undefined) throw failure.error;
    checkGroup(group);
    const communicators = new Set(group.map(({ communicator }) => communicator));
    // A communicator runs its groups one after another, even if they are on different streams.
    const earlier = new Map([...communicators].map((communicator) => [communicator, communicator.earlierWork]));
    for (const operation of group) operation.enqueuePost(earlier.get(operation.communicator)!);
    // Enqueue the completion of sends last: a send completes after the peer's receive, which the peer may have enqueued
    // after its own sends.
    const isLast = (operation: StreamOperation): boolean => operation instanceof SendOperation;
    for (const operation of group) if (!isLast(operation)) operation.enqueueCompletion();
    for (const operation of group) if (isLast(operation)) operation.enqueueCompletion();
  }

  allReduce(call: ReducingCall): void {
    this.#addCollective("allReduce", call);
  }

  repeatedAllReduce(call: ReducingCall): () => void {
    return () => this.allReduce(call);
  }

  reduce(call: ReducingCall & RootedCall): void {
    this.#addCollective("reduce", call);
  }

  broadcast(call: RootedCall): void {
    this.#addCollective("broadcast", call);
  }

  allGather(call: CollectiveCall): void {
    this.#addCollective("allGather", call);
  }

  reduceScatter(call: ReducingCall): void {
    this.#addCollective("reduceScatter", call);
  }

  allToAll(call: CollectiveCall): void {
    this.#addCollective("allToAll", call);
  }

  send(call: RootedCall): void {
    this.#addMessage("send", call);
  }

  recv(call: RootedCall): void {
    this.#addMessage("recv", call);
  }

  /** Revokes the work of all communicators, and leaves their rosters. Called when the driver closes. */
  close(): void {
    for (const communicator of this.#communicators.values()) communicator.destroy();
    this.#communicators.clear();
  }

  #add(device: number, joined: Membership | (() => Membership | undefined)): bigint {
    const handle = ++this.#lastHandle;
    this.#communicators.set(handle, new SoftwareCommunicator(this.#services, device, joined));
    return handle;
  }

  #communicator(comm: bigint): SoftwareCommunicator {
    const found = this.#communicators.get(comm);
    if (found === undefined) throw new Error(`Cannot use communicator ${comm}: it does not exist, or was destroyed`);
    return found;
  }

  #addCollective(name: OperationName, call: CollectiveCall & Partial<ReducingCall & RootedCall>): void {
    this.#addToGroup(name, call, (communicator, type) => {
      const { rank, size } = communicator.usableFor(`call ${name}`);
      const { count, operation: reduction = 0, root = 0 } = call;
      checkReduction(name, reduction);
      checkRank(name, root, size);
      const operation = operationNumbers[name];
      const { gives, gets } = sharesOf({ operation, root }, { rank, size });
      const stream = this.#services.stream(communicator.device, call.stream, name);
      const { source, target } = this.#rangesOf(name, call, {
        device: communicator.device,
        given: gives * count * type.byteLength,
        got: call.target === 0n && name === "broadcast" ? 0 : gets * count * type.byteLength,
      });
      const entry = { operation, type: call.type, reduction, root, count };
      return new CollectiveOperation(communicator, { call: entry, type, stream, source, target });
    });
  }

  #addMessage(name: "send" | "recv", call: RootedCall): void {
    this.#addToGroup(name, call, (communicator, type) => {
      const { size } = communicator.usableFor(`call ${name}`);
      const { count, root: peer, type: typeNumber } = call;
      checkRank(name, peer, size);
      const byteLength = count * type.byteLength;
      const [given, got] = name === "send" ? [byteLength, 0] : [0, byteLength];
      const { device } = communicator;
      const stream = this.#services.stream(device, call.stream, name);
      const { source, target } = this.#rangesOf(name, call, { device, given, got });
      return name === "send"
        ? new SendOperation(communicator, { peer, count, typeNumber, type, stream, bytes: source })
        : new ReceiveOperation(communicator, { peer, count, typeNumber, type, stream, bytes: target });
    });
  }

  /** Adds a call to the open group, or enqueues it as a group of its own if no group is open. */
  #addToGroup(
    name: OperationName,
    { comm, type, count }: CollectiveCall,
    create: (communicator: SoftwareCommunicator, type: ElementType) => StreamOperation,
  ): void {
    this.groupStart();
    try {
      this.#group.push(create(this.#communicator(comm), typeOf(name, type, count)));
    } catch (error) {
      this.#groupFailure ??= { error };
      if (this.#depth > 1) {
        this.#depth--;
        throw error;
      }
    }
    this.groupEnd();
  }

  #rangesOf(
    call: OperationName,
    { source, target }: CollectiveCall,
    { device, given, got }: { device: number; given: number; got: number },
  ): { source: Uint8Array; target: Uint8Array } {
    return {
      source: this.#services.range(source, given, { device, flags: memAccessFlags.read, call }),
      target: this.#services.range(target, got, { device, flags: memAccessFlags.readWrite, call }),
    };
  }
}

function typeOf(name: OperationName, number: number, count: number): ElementType {
  if (!Number.isSafeInteger(count) || count < 0) {
    throw new RangeError(`Cannot call ${name} with a count of ${count}: it must be a whole number of at least 0`);
  }
  const type = elementType(number);
  if (type !== undefined) return type;
  throw new RangeError(`Cannot call ${name} with elements of type ${number}: there is no such type`);
}

function checkReduction(name: OperationName, reduction: number): void {
  if ((Object.values(reductionOperation) as number[]).includes(reduction)) return;
  throw new RangeError(`Cannot call ${name} with reduction ${reduction}: there is no such reduction`);
}

function checkRank(name: OperationName, rank: number, size: number): void {
  if (Number.isSafeInteger(rank) && rank >= 0 && rank < size) return;
  throw new RangeError(`Cannot call ${name} with rank ${rank}: there are ${size} ranks, counted from 0`);
}

/** Throws if a group has more operations for a ring than the ring has entries. */
function checkGroup(group: readonly StreamOperation[]): void {
  if (group.length <= groupLimit) return;
  for (const operations of Map.groupBy(group, ({ communicator }) => communicator).values()) {
    for (const ofRing of Map.groupBy(operations, ({ ring }) => ring).values()) {
      if (ofRing.length <= groupLimit) continue;
      throw new RangeError(
        `Cannot do a group of ${ofRing.length} calls of a kind: the software device's limit is ${groupLimit}; end the ` +
          `group earlier`,
      );
    }
  }
}
