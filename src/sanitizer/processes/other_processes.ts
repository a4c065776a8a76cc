/**
 * Order between processes: this one tells others what it does with shared memory, and compares what they do.
 *
 * Two processes may know of each other by any means, such as a pipe. So whatever a process knows to be done is taken to
 * come before all that another one asks for afterwards. What is left are accesses that neither an event between the
 * processes nor the knowledge of either orders: those are reported. What another process says of its order can therefore
 * only make a report go away.
 *
 * @module
 */
import { connectedProcesses, hasManyConnections } from "../notifications.ts";
import { type Clock, lastPoint, type Operation, type Point, type Timeline } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { RangeAccess, StreamOrder } from "../order/stream_order.ts";
import { Publisher } from "./publisher.ts";
import { Board, type BoardReader, Bystander, type Peer } from "./board.ts";
import { Peers, type PeerState, type PeerTimeline } from "./peers.ts";
import { decodeRecord, nameOf, type SentAccess } from "./records.ts";
import { SharedAccesses } from "./shared_accesses.ts";
import type { PeerAccess, SharedMemory } from "./shared_memory.ts";

/** What it works with. */
interface Parts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  readonly host: Timeline;
  /** Lets all streams forget a stream that is retired. */
  readonly forget: (timeline: Timeline) => void;
}

/** The processes that share memory with this one. */
export class OtherProcesses implements BoardReader {
  readonly #parts: Parts;
  readonly #publisher: Publisher;
  /** Undefined until something is shared. */
  #peers: Peers | undefined;
  #hasTriedToJoin = false;
  readonly #accesses: SharedAccesses;
  /** The memory that this process shares, and its handles, by addresses. */
  readonly #shares = new Map<number, { readonly memory: SharedMemory; readonly handles: Set<string> }>();
  #shareCount = 0;
  /** Whether this process has made collectives with ranks of others, and does not know them to be done. */
  #hasCollectives = false;
  /** What this process had asked for up to here is taken to come before all that others do. */
  #ownHorizon = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
    const publisher = this.#publisher = new Publisher(parts.host);
    this.#accesses = new SharedAccesses({
      ...parts,
      publisher,
      isReportable: (own, access) => this.#isReportable(own, access),
    });
  }

  /** Whether anything is shared. */
  get hasJoined(): boolean {
    return this.#publisher.board !== undefined;
  }

  /** How much work was asked for. */
  get sequence(): number {
    return this.#publisher.sequence;
  }

  /** Counts work that is asked for, when what others have told was read. */
  beginOperation(): void {
    this.read();
    this.#publisher.sequence++;
  }

  /** Notes that others may map memory of this process. */
  exported(handle: Uint8Array, address: bigint, byteLength: number): void {
    const board = this.#join();
    if (board === undefined) return;
    const at = Number(address), hexadecimal = handle.toHex();
    let share = this.#shares.get(at);
    if (share === undefined) {
      const name = [board.own.slot, board.own.generation, ++this.#shareCount] as const;
      const memory = { name, address: at, byteLength, isOwn: true };
      this.#shares.set(at, share = { memory, handles: new Set() });
      this.#share(memory);
    }
    if (share.handles.has(hexadecimal)) return;
    share.handles.add(hexadecimal);
    this.#publisher.publish({ type: "share", share: share.memory.name[2], handle: hexadecimal, byteLength });
  }

  /** Notes that memory of another process was mapped. */
  imported(handle: Uint8Array, address: bigint, byteLength: number): void {
    const board = this.#join();
    if (board === undefined) return;
    this.read();
    const found = [...this.#peers ?? []].flatMap((peer) => peer.memoryOf(handle.toHex()))
      .filter(({ peer }) => board.holdsSlot(peer));
    // If several processes say that it is theirs, it is not known whose it is.
    if (found.length !== 1) return;
    const [memory] = found as [typeof found[0]];
    this.#inOrder(() => {
      this.#accesses.map({
        name: [memory.peer.slot, memory.peer.generation, memory.share],
        address: Number(address),
        byteLength: Math.min(byteLength, memory.byteLength),
        isOwn: false,
      });
    });
  }

  /** Where memory of this process lies that has such a handle. Undefined if it has none. */
  ownAddressOf(handle: Uint8Array): number | undefined {
    const hexadecimal = handle.toHex();
    for (const [address, { handles }] of this.#shares) if (handles.has(hexadecimal)) return address;
    return undefined;
  }

  /** Notes that memory is mapped that belongs to no process. `identity` is the same in all processes that have it. */
  mapped(identity: string, address: number, byteLength: number): void {
    if (this.#join() === undefined) return;
    this.read();
    this.#share({ name: nameOf(identity), address, byteLength, isOwn: false });
  }

  /** Notes that memory is freed, or unmapped. */
  freed(operation: Operation, address: number): void {
    if (!this.hasJoined) return;
    const share = this.#shares.get(address)?.memory.name[2];
    this.#shares.delete(address);
    if (share !== undefined) this.#publisher.publish({ type: "free", share });
    this.#inOrder(() => this.#accesses.remove(address, operation));
  }

  /** Notes that an event has a handle, for others or from them. Returns it in hexadecimal. */
  shared(handle: Uint8Array): string | undefined {
    return this.#join() && handle.toHex();
  }

  /** Tells others what comes before the record of an event. To be called before it is recorded. */
  recorded(handle: string, points: readonly Point[], clock: Clock): void {
    this.#publisher.publishEventRecord(handle, points, clock);
  }

  /** What comes before the last records of an event by other processes. To be called after a wait for it. */
  clocksOf(handle: string): Clock[] {
    this.read();
    const clocks: Clock[] = [];
    for (const { events } of this.#peers ?? []) {
      if (!events.has(handle)) continue;
      const clock = events.get(handle);
      if (clock === undefined) this.#orderAll();
      else clocks.push(clock);
    }
    return clocks;
  }

  /** Compares an access of this process with those of others, and tells them. */
  onAccess(operation: Operation, access: RangeAccess): void {
    if (!this.hasJoined || operation.timeline.isForeign) return;
    this.#accesses.addOwn(operation, access);
  }

  /** Notes a collective with ranks of other processes. */
  onCollectiveEnqueued(): void {
    this.#hasCollectives = true;
    // Each time: others learn how much was asked for before.
    this.#publisher.publish({ type: "collective", isPending: true });
  }

  /** Notes that the host knows all collectives with ranks of other processes to be done. */
  onCollectivesCompleted(): void {
    this.#hasCollectives = false;
    if (!this.hasJoined) return;
    this.onBystander();
    this.#publisher.publish({ type: "collective", isPending: false });
  }

  /** Tells others what the host knows to be done. */
  publishKnown(): void {
    this.#publisher.publishKnown();
  }

  /** Tells others that the work of a stream is done, and that it gets no more. */
  retired(timeline: Timeline): void {
    this.#publisher.retire(timeline);
  }

  /** Reads what others have told. */
  read(): void {
    if (!this.hasJoined) return;
    // One that has ended may have ordered all that was asked for before, and nothing since.
    if (this.#publisher.publishConnections()) this.onBystander();
    try {
      this.#publisher.board?.read(this);
    } catch {
      this.#publisher.becomeBystander();
    }
  }

  /** Ends it: this process orders everything from now on. */
  leave(): void {
    this.#publisher.stop();
  }

  /** Called with each new peer. */
  onPeer(peer: Peer): void {
    this.#peers!.of(peer);
    if (connectedProcesses().has(peer.pid)) this.#publisher.publish({ type: "publishes", pid: peer.pid });
  }

  /** Called with each record of a peer. */
  onRecord(peer: Peer, text: string): void {
    const state = this.#peers!.of(peer);
    const record = decodeRecord(text);
    switch (record?.type) {
      case undefined:
        // Another version, or damaged: it may have told of any order.
        return this.onRecordsLost();
      case "share":
        return state.addMemory(record);
      case "free":
        state.deleteMemory(record.share);
        // Kernels of this process that still wait are compared with what the others have done before.
        return this.#inOrder(() => this.#accesses.forget([peer.slot, peer.generation, record.share]));
      case "known":
        for (const [timeline, position] of this.#peers!.clockOf(record.clock)) {
          this.#parts.host.joinPoint(timeline, position);
          this.#publisher.addReceived(timeline);
        }
        return;
      case "event":
        return state.addEvent(record.handle, record.clock && this.#peers!.clockOf(record.clock));
      case "connected":
        return state.addConnected(record.pids);
      case "publishes":
        return void state.connected.delete(record.pid);
      case "ended":
        state.connected.delete(record.pid);
        return this.onBystander();
      case "collective":
        state.hasCollectives = record.isPending;
        return this.onBystander();
      case "retired":
        return this.#retire(state.timelines.get(record.stream));
      case "access":
        return this.#onAccess(state, record);
    }
  }

  /** Called when records were lost: they may have told of any order. */
  onRecordsLost(): void {
    // What this process tells from now on may lack the order, too.
    this.#publisher.board?.warn();
    this.onBystander();
  }

  /** Called when a process does not, or did not, tell what it does: it may have ordered anything. */
  onBystander(): void {
    this.#orderAll();
    this.#ownHorizon = this.sequence;
  }

  /** Called when a process has ended. */
  onPeerGone(peer: Peer): void {
    for (const timeline of this.#peers!.of(peer).timelines.values()) this.#retire(timeline);
    this.#peers!.delete(peer);
  }

  #join(): Board | undefined {
    if (!this.#hasTriedToJoin) {
      this.#hasTriedToJoin = true;
      const board = Board.join();
      if (board instanceof Bystander) this.#publisher.setBystander(board);
      else if (board !== undefined) {
        this.#peers = new Peers(board.own, (number) => this.#publisher.timelineOf(number));
        this.#publisher.start(board);
        if (this.#hasCollectives) this.onCollectiveEnqueued();
        this.read();
      }
    }
    return this.#publisher.board;
  }

  #share(memory: SharedMemory): void {
    const known = lastPoint(this.#parts.host);
    this.#inOrder(() => this.#accesses.share(memory, known));
  }

  /** Does something when all operations before it have been looked at. */
  #inOrder(then: () => void): void {
    this.#parts.order.add({ then, accesses: [] });
  }

  /** Handles an access of another process, in the order in which it is known here. */
  #onAccess(peer: PeerState, sent: SentAccess): void {
    const timeline = peer.timeline(sent.stream);
    if (timeline === undefined) return;
    timeline.name = `${sent.streamName} of process ${peer.pid}`;
    const { access, begin, end, asked, position } = sent;
    const operation: Operation = {
      name: sent.operation,
      site: { stack: sent.stack.replaceAll(/^/gm, "    ") },
      sequence: asked,
      timeline,
      position,
      clock: this.#peers!.clockOf(sent.clock),
    };
    const source = sent.source === "" ? undefined : sent.source;
    const made: PeerAccess = { operation, kind: access, begin, end, source, peer };
    // What is asked for from now on comes after this, and only that.
    const known = lastPoint(this.#parts.host);
    this.#inOrder(() => this.#accesses.addOfPeer(sent.share, made, known));
  }

  /**
   * Whether what this and another process do may be reported. Nothing is known of the order of processes that have
   * ended, and one that does not tell may have waited for any event, and let others know.
   */
  #isReportable(own: Operation, { peer, operation }: PeerAccess): boolean {
    const { board } = this.#publisher;
    if (this.#hasCollectives || peer.hasCollectives) return false;
    return operation.sequence > peer.horizon && own.sequence > this.#ownHorizon && !hasManyConnections() &&
      board?.holdsSlot(peer) === true && !board.hasBystander() &&
      this.#peers!.include([...connectedProcesses(), ...peer.connected]);
  }

  /** Takes everything that others have asked for to be ordered. */
  #orderAll(): void {
    const { board } = this.#publisher;
    for (const peer of this.#peers!) peer.horizon = Math.max(peer.horizon, board?.sequenceOf(peer) ?? Infinity);
  }

  #retire(timeline: PeerTimeline | undefined): void {
    if (timeline === undefined) return;
    timeline.peer.timelines.delete(timeline.number);
    // What was asked for before must not be taken to come after it.
    this.#inOrder(() => {
      timeline.isRetired = true;
      this.#publisher.retire(timeline);
      this.#parts.forget(timeline);
    });
  }
}
