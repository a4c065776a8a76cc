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
interface OtherProcessesParts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  readonly host: Timeline;
  /** Removes a retired timeline from all clocks. */
  readonly forget: (timeline: Timeline) => void;
}

/** Finds conflicts between accesses of this process and accesses of processes that share memory with it. */
export class OtherProcesses implements BoardReader {
  readonly #parts: OtherProcessesParts;
  readonly #publisher: Publisher;
  /** The other processes that hold slots on the board. Undefined until this process holds a slot. */
  #peers: Peers | undefined;
  #hasTriedToJoin = false;
  readonly #accesses: SharedAccesses;
  /** The memory that this process has exported and its handles in hexadecimal, keyed by address. */
  readonly #shares = new Map<number, { readonly memory: SharedMemory; readonly handles: Set<string> }>();
  #shareCount = 0;
  /**
   * Whether this process has enqueued collectives with ranks of other processes, and some of these collectives are not
   * known to be complete.
   */
  #hasCollectives = false;
  /**
   * The sequence number up to which this process's operations are assumed to be ordered with those of other processes.
   */
  #ownHorizon = 0;

  constructor(parts: OtherProcessesParts) {
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

  /** Call when an operation is enqueued. Reads the records of other processes, and then counts the operation. */
  beginOperation(): void {
    this.read();
    this.#publisher.sequence++;
  }

  /** Call when this process has exported memory, which other processes may then map. */
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

  /** Call when this process has imported memory through a handle. */
  imported(handle: Uint8Array, address: bigint, byteLength: number): void {
    const board = this.#join();
    if (board === undefined) return;
    this.read();
    const found = [...this.#peers ?? []].flatMap((peer) => peer.memoryOf(handle.toHex()))
      .filter(({ peer }) => board.holdsSlot(peer));
    // If several processes have published the handle, the memory's owner is unknown.
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

  /** Returns the address of the memory that this process has exported with a handle. Undefined if it exported none. */
  ownAddressOf(handle: Uint8Array): number | undefined {
    const hexadecimal = handle.toHex();
    for (const [address, { handles }] of this.#shares) if (handles.has(hexadecimal)) return address;
    return undefined;
  }

  /**
   * Call when this process has mapped virtual memory that is shared between processes and belongs to none of them.
   *
   * @param identity a name of the memory that is the same in all processes that map the memory
   */
  mapped(identity: string, address: number, byteLength: number): void {
    if (this.#join() === undefined) return;
    this.read();
    this.#share({ name: shareNameOf(identity), address, byteLength, isOwn: false });
  }

  /** Call when this process frees or unmaps memory. */
  freed(operation: Operation, address: number): void {
    if (!this.hasJoined) return;
    const share = this.#shares.get(address)?.memory.name[2];
    this.#shares.delete(address);
    if (share !== undefined) this.#publisher.publish({ type: "free", share });
    this.#inOrder(() => this.#accesses.remove(address, operation));
  }

  /**
   * Call when this process exports or imports an event through a handle. Returns the handle in hexadecimal. Undefined
   * if this process has no slot on the board.
   */
  shared(handle: Uint8Array): string | undefined {
    return this.#join() && handle.toHex();
  }

  /** Publishes which work is ordered before a record of a shared event. Call before the event is recorded. */
  recorded(handle: string, points: readonly Point[], clock: Clock): void {
    this.#publisher.publishEventRecord(handle, points, clock);
  }

  /**
   * Returns the clock at the latest recording of an event, for each other process that has recorded the event. Call after
   * a wait for the event.
   */
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

  /** Compares an access of this process with accesses of other processes, and publishes the access. */
  onAccess(operation: Operation, access: RangeAccess): void {
    if (!this.hasJoined || operation.timeline.isForeign) return;
    this.#accesses.addOwn(operation, access);
  }

  /** Call when a collective with ranks of other processes was enqueued. */
  onCollectiveEnqueued(): void {
    this.#hasCollectives = true;
    // Publish each collective, not only the first one: this also updates the sequence number in this process's board
    // entry.
    this.#publisher.publish({ type: "collective", isPending: true });
  }

  /** Call when a wait has shown that all collectives with ranks of other processes are complete. */
  onCollectivesCompleted(): void {
    this.#hasCollectives = false;
    if (!this.hasJoined) return;
    this.onBystander();
    this.#publisher.publish({ type: "collective", isPending: false });
  }

  /** Publishes, for each stream, the position up to which its work precedes the host's current point. */
  publishKnown(): void {
    this.#publisher.publishKnown();
  }

  /** Publishes that a stream was destroyed and that all of its work is complete. */
  retired(timeline: Timeline): void {
    this.#publisher.retire(timeline);
  }

  /** Reads the new records of other processes. */
  read(): void {
    if (!this.hasJoined) return;
    // A connected process that has exited may have synchronized the work enqueued until now, but not later work.
    if (this.#publisher.publishConnections()) this.onBystander();
    try {
      this.#publisher.board?.read(this);
    } catch {
      this.#publisher.becomeBystander();
    }
  }

  /** Stops publishing. From now on, other processes assume that this process may synchronize any work. */
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
        // The record is damaged or of another version. It may have ordered any operations, so treat it as lost.
        return this.onRecordsLost();
      case "share":
        return state.addMemory(record);
      case "free":
        state.deleteMemory(record.share);
        // Queue this step: kernels of this process that are still in the queue must be compared with the peer's earlier
        // accesses.
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

  /** Assumes that all operations so far are ordered, because lost records may have ordered any of them. */
  onRecordsLost(): void {
    // The lost order may be missing from later records of this process as well, so warn the processes that read them.
    this.#publisher.board?.warn();
    this.onBystander();
  }

  /** Assumes that all operations so far are ordered, because a bystander may have synchronized any processes. */
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

  /** Calls a function after all operations enqueued so far have been checked. */
  #inOrder(then: () => void): void {
    this.#parts.order.add({ then, accesses: [] });
  }

  /**
   * Compares an access of another process with this process's accesses, after all operations that this process has
   * enqueued so far have been checked.
   */
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
    // Capture the host's point now. If the host learns only later that some work is complete, this must not order
    // operations that were enqueued before.
    const known = lastPoint(this.#parts.host);
    this.#inOrder(() => this.#accesses.addOfPeer(sent.share, made, known));
  }

  /**
   * Returns whether a conflict with an access of another process may be reported. False if the order of the two
   * operations may be unknown: the other process has exited, or a process that publishes nothing may have synchronized
   * the two processes.
   */
  #isReportable(own: Operation, { peer, operation }: RemoteAccess): boolean {
    const { board } = this.#publisher;
    if (this.#hasCollectives || peer.hasCollectives) return false;
    return operation.sequence > peer.horizon && own.sequence > this.#ownHorizon && !hasManyConnections() &&
      board?.holdsSlot(peer) === true && !board.hasBystander() &&
      this.#peers!.include([...connectedProcesses(), ...peer.connected]);
  }

  /** Assumes that all operations that other processes have enqueued so far are ordered with those of this process. */
  #orderAll(): void {
    const { board } = this.#publisher;
    for (const peer of this.#peers!) peer.horizon = Math.max(peer.horizon, board?.sequenceOf(peer) ?? Infinity);
  }

  #retire(timeline: PeerTimeline | undefined): void {
    if (timeline === undefined) return;
    timeline.peer.timelines.delete(timeline.number);
    // Queue this step: operations that were enqueued earlier but are not checked yet must not count as ordered after
    // this stream's work.
    this.#inOrder(() => {
      timeline.isRetired = true;
      this.#publisher.retire(timeline);
      this.#parts.forget(timeline);
    });
  }
}
