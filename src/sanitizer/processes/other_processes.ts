/**
 * Order between processes: this one publishes its accesses to shared memory, and compares them with those of others.
 *
 * Two processes can synchronize by means that are not observed, such as a pipe. So whatever a process knows to be complete
 * counts as before everything that another one enqueues afterwards. Reported are only accesses that neither an event
 * between the processes nor the knowledge of either orders. Records of other processes can therefore only remove reports.
 *
 * @module
 */
import { connectedProcesses, hasManyConnections } from "../notifications.ts";
import { type Clock, lastPoint, type Operation, type Point, type Timeline } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { RangeAccess, StreamOrder } from "../order/stream_order.ts";
import { Publisher } from "./publisher.ts";
import { Board, type BoardPeer, type BoardReader, Bystander } from "./board.ts";
import { Peers, type PeerState, type PeerTimeline } from "./peers.ts";
import { decodeRecord, type SentAccess, shareNameOf } from "./records.ts";
import { type RemoteAccess, SharedAccesses, type SharedMemory } from "./shared_accesses.ts";

/** The parts of the sanitizer that it uses. */
interface Parts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  readonly host: Timeline;
  /** Removes a retired stream from all clocks. */
  readonly forget: (timeline: Timeline) => void;
}

/** The processes that share memory with this one. */
export class OtherProcesses implements BoardReader {
  readonly #parts: Parts;
  readonly #publisher: Publisher;
  /** Undefined until this process has a slot on the board. */
  #peers: Peers | undefined;
  #hasTriedToJoin = false;
  readonly #accesses: SharedAccesses;
  /** The memory that this process shares, with its handles, by address. */
  readonly #shares = new Map<number, { readonly memory: SharedMemory; readonly handles: Set<string> }>();
  #shareCount = 0;
  /** Whether this process has enqueued collectives with ranks of others that it does not know to be complete. */
  #hasCollectives = false;
  /** Operations of this process up to this sequence number count as ordered with everything that others do. */
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

  /** Whether this process has a slot on the board. */
  get hasJoined(): boolean {
    return this.#publisher.board !== undefined;
  }

  /** The number of operations that were enqueued so far. */
  get sequence(): number {
    return this.#publisher.sequence;
  }

  /** Reads the records of others, then counts an operation that is enqueued. */
  beginOperation(): void {
    this.read();
    this.#publisher.sequence++;
  }

  /** Call when memory of this process was exported: others may map it from now on. */
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

  /** Call when memory of another process was mapped. */
  imported(handle: Uint8Array, address: bigint, byteLength: number): void {
    const board = this.#join();
    if (board === undefined) return;
    this.read();
    const found = [...this.#peers ?? []].flatMap((peer) => peer.memoryOf(handle.toHex()))
      .filter(({ peer }) => board.holdsSlot(peer));
    // If several processes claim the handle, its owner is unknown.
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

  /** The address of the memory of this process that has a handle. Undefined if it is not this process's. */
  ownAddressOf(handle: Uint8Array): number | undefined {
    const hexadecimal = handle.toHex();
    for (const [address, { handles }] of this.#shares) if (handles.has(hexadecimal)) return address;
    return undefined;
  }

  /**
   * Call when memory was mapped that belongs to no process.
   *
   * @param identity the same in all processes that map it
   */
  mapped(identity: string, address: number, byteLength: number): void {
    if (this.#join() === undefined) return;
    this.read();
    this.#share({ name: shareNameOf(identity), address, byteLength, isOwn: false });
  }

  /** Call when memory is freed or unmapped. */
  freed(operation: Operation, address: number): void {
    if (!this.hasJoined) return;
    const share = this.#shares.get(address)?.memory.name[2];
    this.#shares.delete(address);
    if (share !== undefined) this.#publisher.publish({ type: "free", share });
    this.#inOrder(() => this.#accesses.remove(address, operation));
  }

  /** Call when an event is shared by a handle. Returns the handle in hexadecimal; undefined without a board. */
  shared(handle: Uint8Array): string | undefined {
    return this.#join() && handle.toHex();
  }

  /** Publishes what comes before the record of an event. Call before it is recorded. */
  recorded(handle: string, points: readonly Point[], clock: Clock): void {
    this.#publisher.publishEventRecord(handle, points, clock);
  }

  /** The clocks of the last records of an event by other processes. Call after a wait for it. */
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

  /** Compares an access of this process with those of others, and publishes it. */
  onAccess(operation: Operation, access: RangeAccess): void {
    if (!this.hasJoined || operation.timeline.isForeign) return;
    this.#accesses.addOwn(operation, access);
  }

  /** Call when a collective with ranks of other processes was enqueued. */
  onCollectiveEnqueued(): void {
    this.#hasCollectives = true;
    // Published each time: the board's entry then has the sequence number before it.
    this.#publisher.publish({ type: "collective", isPending: true });
  }

  /** Call when the host knows all collectives with ranks of other processes to be complete. */
  onCollectivesCompleted(): void {
    this.#hasCollectives = false;
    if (!this.hasJoined) return;
    this.onBystander();
    this.#publisher.publish({ type: "collective", isPending: false });
  }

  /** Publishes what the host knows to be complete. */
  publishKnown(): void {
    this.#publisher.publishKnown();
  }

  /** Publishes that a stream was destroyed and its work is complete. */
  retired(timeline: Timeline): void {
    this.#publisher.retire(timeline);
  }

  /** Reads the records of others. */
  read(): void {
    if (!this.hasJoined) return;
    // A process that has ended may have ordered everything before its end, and nothing since.
    if (this.#publisher.publishConnections()) this.onBystander();
    try {
      this.#publisher.board?.read(this);
    } catch {
      this.#publisher.becomeBystander();
    }
  }

  /** Leaves the board: from now on, others assume that this process orders everything. */
  leave(): void {
    this.#publisher.stop();
  }

  onPeer(peer: BoardPeer): void {
    this.#peers!.of(peer);
    if (connectedProcesses().has(peer.pid)) this.#publisher.publish({ type: "publishes", pid: peer.pid });
  }

  onRecord(peer: BoardPeer, text: string): void {
    const state = this.#peers!.of(peer);
    const record = decodeRecord(text);
    switch (record?.type) {
      case undefined:
        // The record of another version, or a damaged one, may have ordered anything.
        return this.onRecordsLost();
      case "share":
        return state.addMemory(record);
      case "free":
        state.deleteMemory(record.share);
        // In order: kernels of this process that are still queued are compared with the earlier accesses of others.
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

  /** Lost records may have ordered anything. */
  onRecordsLost(): void {
    // Records of this process may lack that order, too, from now on.
    this.#publisher.board?.warn();
    this.onBystander();
  }

  /** A bystander may have ordered anything. */
  onBystander(): void {
    this.#orderAll();
    this.#ownHorizon = this.sequence;
  }

  onPeerGone(peer: BoardPeer): void {
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

  /** Calls a function once all earlier operations were checked. */
  #inOrder(then: () => void): void {
    this.#parts.order.add({ then, accesses: [] });
  }

  /** Compares an access of another process, in the order in which it becomes known here. */
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
    const made: RemoteAccess = { operation, kind: access, begin, end, source, peer };
    // Only operations that are enqueued from now on come after what the host knows now.
    const known = lastPoint(this.#parts.host);
    this.#inOrder(() => this.#accesses.addOfPeer(sent.share, made, known));
  }

  /**
   * Whether a conflict with an access of another process may be reported: the order of processes that have ended is
   * unknown, and a process that does not publish may have waited for any event and synchronized with others.
   */
  #isReportable(own: Operation, { peer, operation }: RemoteAccess): boolean {
    const { board } = this.#publisher;
    if (this.#hasCollectives || peer.hasCollectives) return false;
    return operation.sequence > peer.horizon && own.sequence > this.#ownHorizon && !hasManyConnections() &&
      board?.holdsSlot(peer) === true && !board.hasBystander() &&
      this.#peers!.include([...connectedProcesses(), ...peer.connected]);
  }

  /** Counts everything that others have enqueued so far as ordered. */
  #orderAll(): void {
    const { board } = this.#publisher;
    for (const peer of this.#peers!) peer.horizon = Math.max(peer.horizon, board?.sequenceOf(peer) ?? Infinity);
  }

  #retire(timeline: PeerTimeline | undefined): void {
    if (timeline === undefined) return;
    timeline.peer.timelines.delete(timeline.number);
    // In order: operations that were enqueued earlier must not count as after it.
    this.#inOrder(() => {
      timeline.isRetired = true;
      this.#publisher.retire(timeline);
      this.#parts.forget(timeline);
    });
  }
}
