/**
 * Finds unordered accesses of different processes: this process publishes its accesses to shared memory, and compares
 * them with those of others.
 *
 * Two processes can synchronize by means that are not observed, such as a pipe. So all work that one process knows to
 * be complete counts as ordered before all operations that another process enqueues afterwards. Two accesses are
 * reported only if no event orders them and neither process knew the other's access to be complete. Records of other
 * processes can therefore only remove reports.
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

/** The parts of the sanitizer that `OtherProcesses` uses. */
interface Parts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  readonly host: Timeline;
  /** Removes a retired stream from all clocks. */
  readonly forget: (timeline: Timeline) => void;
}

/** Compares the accesses of this process with those of the processes that share memory with it. */
export class OtherProcesses implements BoardReader {
  readonly #parts: Parts;
  readonly #publisher: Publisher;
  /** The other processes on the board. Undefined until this process has a slot. */
  #peers: Peers | undefined;
  #hasTriedToJoin = false;
  readonly #accesses: SharedAccesses;
  /** The memory that this process has exported, with its handles in hexadecimal, by address. */
  readonly #shares = new Map<number, { readonly memory: SharedMemory; readonly handles: Set<string> }>();
  #shareCount = 0;
  /** Whether collectives with ranks of other processes are pending here: enqueued, and not known to be complete. */
  #hasCollectives = false;
  /** The operations of this process up to this sequence number count as ordered with those of other processes. */
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

  /** The number of operations that this process has enqueued so far. */
  get sequence(): number {
    return this.#publisher.sequence;
  }

  /** Call when an operation is enqueued: reads the records of other processes, then counts the operation. */
  beginOperation(): void {
    this.read();
    this.#publisher.sequence++;
  }

  /** Call when memory of this process was exported, so that other processes may map it from now on. */
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

  /** Returns the address of the exported memory with a handle. Undefined if this process did not export it. */
  ownAddressOf(handle: Uint8Array): number | undefined {
    const hexadecimal = handle.toHex();
    for (const [address, { handles }] of this.#shares) if (handles.has(hexadecimal)) return address;
    return undefined;
  }

  /**
   * Call when memory was mapped that belongs to no process.
   *
   * @param identity identifies the memory: the same in all processes that map it
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

  /** Call when an event is shared by a handle. Returns the handle in hexadecimal, or undefined without a board. */
  shared(handle: Uint8Array): string | undefined {
    return this.#join() && handle.toHex();
  }

  /** Publishes the work that is ordered before an event's record. Call before the event is recorded. */
  recorded(handle: string, points: readonly Point[], clock: Clock): void {
    this.#publisher.publishEventRecord(handle, points, clock);
  }

  /** Returns the clocks of the last records of an event by other processes. Call after a wait for the event. */
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

  /** Compares an access of this process with those of other processes, and publishes it. */
  onAccess(operation: Operation, access: RangeAccess): void {
    if (!this.hasJoined || operation.timeline.isForeign) return;
    this.#accesses.addOwn(operation, access);
  }

  /** Call when a collective with ranks of other processes was enqueued. */
  onCollectiveEnqueued(): void {
    this.#hasCollectives = true;
    // Published for each collective, because that also updates the sequence number in the board's entry.
    this.#publisher.publish({ type: "collective", isPending: true });
  }

  /** Call when the host knows that all collectives with ranks of other processes are complete. */
  onCollectivesCompleted(): void {
    this.#hasCollectives = false;
    if (!this.hasJoined) return;
    this.onBystander();
    this.#publisher.publish({ type: "collective", isPending: false });
  }

  /** Publishes the positions up to which the host knows work to be complete. */
  publishKnown(): void {
    this.#publisher.publishKnown();
  }

  /** Publishes that a stream was destroyed and that its work is complete. */
  retired(timeline: Timeline): void {
    this.#publisher.retire(timeline);
  }

  /** Reads the records of other processes. */
  read(): void {
    if (!this.hasJoined) return;
    // If a connected process has ended, it may have ordered all work up to now, but none from now on.
    if (this.#publisher.publishConnections()) this.onBystander();
    try {
      this.#publisher.board?.read(this);
    } catch {
      this.#publisher.becomeBystander();
    }
  }

  /** Leaves the board. Other processes assume from now on that this process may order everything. */
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
        // A record that is damaged or of another version may have stated any order.
        return this.onRecordsLost();
      case "share":
        return state.addMemory(record);
      case "free":
        state.deleteMemory(record.share);
        // Deferred, because queued kernels of this process must still be compared with the peer's earlier accesses.
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

  /** Counts all operations so far as ordered, because the lost records may have stated any order. */
  onRecordsLost(): void {
    // What this process publishes from now on may lack the lost order, too: warn the processes that read it.
    this.#publisher.board?.warn();
    this.onBystander();
  }

  /** Counts all operations so far as ordered, because a bystander may have synchronized any processes. */
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

  /** Calls a function once all earlier operations are checked. */
  #inOrder(then: () => void): void {
    this.#parts.order.add({ then, accesses: [] });
  }

  /** Compares an access of another process, once all operations that this process enqueued earlier are checked. */
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
    // Captured now, because only operations enqueued from now on are ordered after the work that the host knows now.
    const known = lastPoint(this.#parts.host);
    this.#inOrder(() => this.#accesses.addOfPeer(sent.share, made, known));
  }

  /**
   * Returns whether a conflict with an access of another process may be reported. Not if that process has ended, since
   * its order is unknown, and not if a process that does not publish may have synchronized the two.
   */
  #isReportable(own: Operation, { peer, operation }: RemoteAccess): boolean {
    const { board } = this.#publisher;
    if (this.#hasCollectives || peer.hasCollectives) return false;
    return operation.sequence > peer.horizon && own.sequence > this.#ownHorizon && !hasManyConnections() &&
      board?.holdsSlot(peer) === true && !board.hasBystander() &&
      this.#peers!.include([...connectedProcesses(), ...peer.connected]);
  }

  /** Counts all operations that other processes have enqueued so far as ordered. */
  #orderAll(): void {
    const { board } = this.#publisher;
    for (const peer of this.#peers!) peer.horizon = Math.max(peer.horizon, board?.sequenceOf(peer) ?? Infinity);
  }

  #retire(timeline: PeerTimeline | undefined): void {
    if (timeline === undefined) return;
    timeline.peer.timelines.delete(timeline.number);
    // Deferred, because operations that were enqueued earlier must not count as ordered after the stream's work.
    this.#inOrder(() => {
      timeline.isRetired = true;
      this.#publisher.retire(timeline);
      this.#parts.forget(timeline);
    });
  }
}
