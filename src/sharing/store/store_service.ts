/**
 * A store that serves clients, and its status for operators.
 *
 * @module
 */
import type { Cuda } from "../../objects/cuda.ts";
import type { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { Acceptor, logConnection } from "../exporter/acceptor.ts";
import { ExporterTotals } from "../exporter/exporter_statistics.ts";
import { Operators } from "../operator/operators.ts";
import { ListLimits, type StoreEntryState, type StoreStatus } from "../operator/status.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { badMessage, type ConnectionRole } from "../protocol/messages.ts";
import { effectiveUserId } from "../../../ffi/native/shim/sockets.ts";
import { attendRequests } from "../transport/poller.ts";
import type { UnixListener } from "../transport/unix_listener.ts";
import {
  type Holder,
  isCounted,
  type Mappings,
  metadataText,
  readJournal,
  replayTable,
  type Stored,
  type StoredRecord,
} from "./memories/store_table.ts";
import { type KeptDescriptor, type KeptName, StandbyConnection } from "./descriptor_backups.ts";
import { StoreConnection } from "./store_connection.ts";
import type { CompleteStoreOptions } from "./store_options.ts";
import { waitingRequests } from "./memories/pending_request.ts";
import { type BudgetLimits, Shares } from "./memories/store_budget.ts";
import { StoredMemories } from "./memories/stored_memories.ts";
import { version } from "../../support/version.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { Timer } from "../../support/waiting/timer.ts";
import { ownProcessId } from "../transport/peer_process.ts";
import { ReferenceError } from "../../support/program_errors.ts";

/** The maximum number of bytes of requests of all clients together that have not been started. */
const maximumUnbegun = 128 * 2 ** 20;

/** The dependencies of a `StoreService`, which its `MemoryStore` provides. */
interface ServiceParts {
  readonly listener: UnixListener;
  /** The listener for standbys. */
  readonly standbyListener: UnixListener | undefined;
  readonly options: CompleteStoreOptions;
  /** The descriptors kept from the previous store, of which the service takes ownership. */
  readonly kept: readonly KeptDescriptor[];
}

/** Serves the clients of a store, its operators and its standby. */
export class StoreService {
  readonly memories: StoredMemories;
  /** The names of kept descriptors that are not needed, and that backups must close. */
  readonly unused: readonly KeptName[];
  readonly #listener: UnixListener;
  readonly #options: CompleteStoreOptions;
  readonly #closing = new AbortController();
  readonly #totals = new ExporterTotals();
  readonly #waiting: Shares;
  readonly #unbegun: Shares;
  /** The connections to clients, including closed connections whose processes may still hold allocations. */
  readonly #connections = new Set<StoreConnection>();
  readonly #operators: Operators;
  readonly #acceptors: readonly Acceptor[];
  readonly #standbyListener: UnixListener | undefined;
  readonly #standbys = new Set<StandbyConnection>();
  readonly #endAttention: () => void;
  readonly #reclaimTimer = new Timer(() => this.memories.dropUnclaimed(), Infinity);

  constructor(cuda: Cuda, { listener, standbyListener, options, kept }: ServiceParts) {
    this.#listener = listener;
    this.#options = options;
    const { restored, unused } = restore(kept);
    this.unused = unused;
    this.memories = new StoredMemories(cuda, options.limits, restored);
    try {
      if (kept.length === 0) this.memories.addSaved(options.saved, effectiveUserId());
    } catch (error) {
      this.memories[Symbol.dispose]();
      throw error;
    }
    const { isShared } = options.limits;
    this.#waiting = waitingRequests(isShared);
    this.#unbegun = new Shares(maximumUnbegun, { unit: "bytes of requests that are not begun", isShared });
    this.#operators = new Operators({
      path: listener.path,
      answerTimeout: options.connections.messageTimeout,
      status: () => this.status(),
    });
    const acceptor = this.#accept(listener, {
      roles: ["store-client", "operator"],
      adopt: (stream, role) => role === "operator" ? this.#operators.adopt(stream) : this.#adopt(stream),
    });
    if (standbyListener === undefined) {
      this.#acceptors = [acceptor];
    } else {
      this.#standbyListener = standbyListener;
      const adopt = (stream: MessageStream) => this.#adoptStandby(stream);
      this.#acceptors = [acceptor, this.#accept(this.#standbyListener, { roles: ["standby"], adopt })];
    }
    if (restored.length > 0) this.#reclaimTimer.start(options.reclaimTimeout);
    this.#endAttention = attendRequests();
  }

  /** The number of published entries. */
  get entryCount(): number {
    return [...this.memories.published].length;
  }

  /** The number of connected clients. */
  get clientCount(): number {
    return [...this.#connections].filter(({ isConnected }) => isConnected).length;
  }

  /** Stops serving. */
  async close(): Promise<void> {
    this.#closing.abort(new ReferenceError(`The store at ${this.#listener.path} was disposed`));
    this.#reclaimTimer.stop();
    this.#endAttention();
    await Promise.all([this.#listener[Symbol.asyncDispose](), this.#standbyListener?.[Symbol.asyncDispose]()]);
    await Promise.all(this.#acceptors.map(({ finished }) => finished));
    // The path is free for another store now. Close standbys before clients, so that a standby has taken over when
    // clients reconnect.
    for (const standby of [...this.#standbys]) standby.close();
    this.#operators.close("the store was closed");
    for (const connection of [...this.#connections]) {
      connection.close();
      this.#forget(connection);
    }
    this.memories[Symbol.dispose]();
  }

  #accept(
    listener: UnixListener,
    { roles, adopt }: {
      readonly roles: readonly ConnectionRole[];
      readonly adopt: (stream: MessageStream, role: ConnectionRole | undefined) => void;
    },
  ): Acceptor {
    return new Acceptor({
      listener,
      options: this.#options.connections,
      totals: this.#totals,
      closing: this.#closing.signal,
      places: () => [...this.#connections, ...this.#operators],
      failure: () => undefined,
      checkRole: (role) => {
        if (role !== undefined && roles.includes(role)) return;
        const wanted = role ?? "importer";
        throw badMessage(
          roles.includes("standby")
            ? `${listener.path} is where a store and its standby meet, and serves no ${wanted}; connect to the store's own path`
            : `${listener.path} is a store's, and serves no ${wanted}; connect with StoreClient.connect`,
        );
      },
      adopt,
    });
  }

  #adopt(stream: MessageStream): void {
    const connection = new StoreConnection(stream, {
      memories: this.memories,
      waiting: this.#waiting,
      unbegun: this.#unbegun,
      onClaim: (claiming, held) => this.#onClaim(claiming, held),
      onEnd: (ended, error) => this.#onEnd(ended, error),
    });
    this.#connections.add(connection);
    const { peer } = connection;
    if (isLogging) logConnection("connect", { path: this.#listener.path, peer });
    queueMicrotask(() => this.#options.connections.onConnect?.(peer));
  }

  #onEnd(connection: StoreConnection, error: SharingError | undefined): void {
    const { peer, process } = connection;
    this.#totals.countEnded(error);
    if (isLogging) logConnection("disconnect", { path: this.#listener.path, peer, error });
    queueMicrotask(() => this.#options.connections.onDisconnect?.(peer, error));
    if (error === undefined || process.hasEnded) return this.#forget(connection);
    // The client's process may have allocations mapped until the process exits or the client reconnects.
    const other = this.#endedOf(connection);
    if (other !== undefined) {
      this.memories.transfer(connection, other);
      other.clientCount++;
      return this.#forget(connection);
    }
    process.whenEnded(() => this.#forget(connection));
    process.keepAlive(false);
  }

  /**
   * Returns the closed connection of the same process into which `one` can be merged; undefined if there is none.
   * Connections that have sent "leave" are merged only with each other.
   */
  #endedOf(one: StoreConnection): StoreConnection | undefined {
    for (const other of this.#connections) {
      if (other === one || other.isConnected || other.hasLeft !== one.hasLeft) continue;
      if (other.process.isSameAs(one.process)) return other;
    }
    return undefined;
  }

  /**
   * Moves claimed allocations to a reconnected client from the closed connections of its process, which were merged. It
   * is unknown which of these connections belonged to the client. Therefore, the remaining allocations are released
   * only when each of the clients that lost a connection has sent a claim.
   */
  #onClaim(claiming: StoreConnection, held: ReadonlyMap<number, Mappings>): void {
    const ended = this.#endedOf(claiming);
    if (ended === undefined) return;
    if (--ended.clientCount === 0) return this.#forget(ended);
    for (const [id, mappings] of held) this.memories.release(ended, id, mappings);
  }

  #forget(connection: StoreConnection): void {
    if (!this.#connections.delete(connection)) return;
    connection.process[Symbol.dispose]();
    if (!this.#closing.signal.aborted) this.memories.releaseAll(connection);
  }

  #adoptStandby(stream: MessageStream): void {
    const { peer } = stream;
    const backup = new StandbyConnection(stream, this.#options.connections.messageTimeout, () => {
      this.#standbys.delete(backup);
      this.memories.removeBackup(backup);
      if (isLogging) logEvent("standby-disconnect", { path: this.#listener.path, peer: peer.pid });
    });
    this.#standbys.add(backup);
    if (isLogging) logEvent("standby-connect", { path: this.#listener.path, peer: peer.pid });
    void this.memories.addBackup(backup).then(() => {
      if (this.#standbys.has(backup)) this.#options.onStandby?.();
    });
  }

  /** Returns the status for operators. */
  status(): StoreStatus {
    return storeStatusOf({
      path: this.#listener.path,
      totals: this.#totals,
      clients: this.clientCount,
      operators: this.#operators.count,
      limits: this.#options.limits,
      memories: this.memories,
    });
  }
}

/** An allocation of the previous store. One that lies in a file has no handle. */
interface Restored {
  readonly record: StoredRecord;
  readonly handle: ShareableHandle | undefined;
}

/**
 * Restores the allocations of the previous store from the kept descriptors. Closes the descriptors that are not needed.
 */
function restore(kept: readonly KeptDescriptor[]) {
  const handles = new Map(kept.map(({ name, handle }) => [name, handle]));
  const table = handles.get("table");
  try {
    const records = table === undefined ? [] : [...replayTable(readJournal(table.fd)).values()];
    const restored = records.flatMap((record): Restored[] => {
      if (record.place !== "device" && record.place !== "host") return [{ record, handle: undefined }];
      const handle = handles.get(`memory-${record.descriptor}`);
      return handle === undefined ? [] : [{ record, handle }];
    });
    for (const { record } of restored) handles.delete(`memory-${record.descriptor}`);
    return { restored, unused: [...handles.keys()].filter((name) => name !== "table") };
  } finally {
    for (const handle of handles.values()) handle[Symbol.dispose]();
  }
}

/** The parts of a store's state that `storeStatusOf` reports. */
interface StoreState {
  readonly path: string;
  readonly totals: ExporterTotals;
  readonly clients: number;
  readonly operators: number;
  readonly limits: BudgetLimits;
  readonly memories: StoredMemories;
}

/** Returns the status of a store for operators. */
function storeStatusOf({ path, totals, clients, operators, limits, memories }: StoreState): StoreStatus {
  const listed = new ListLimits();
  const entries: StoreStatus["entries"][number][] = [];
  let count = 0, byteLength = 0;
  for (const memory of memories.all) {
    count++;
    if (memory.place === "device" && isCounted(memory)) byteLength += memory.size;
    if (listed.takeRow()) entries.push(entryOf(memory, listed));
  }
  return {
    kind: "store",
    version,
    pid: ownProcessId(),
    statistics: {
      path,
      since: totals.since,
      clients,
      operators,
      entries: count,
      byteLength,
      published: memories.publishedTotal,
    },
    limits: { maxSize: orNull(limits.maxSize), maxSizeOfUser: orNull(limits.maxSizeOfUser) },
    entries,
    leftOut: listed.leftOut,
  };
}

function entryOf(memory: Stored, listed: ListLimits): StoreStatus["entries"][number] {
  const { name, generation, state, byteLength, device, created, published, metadata, readers, writer } = memory;
  return {
    name,
    generation,
    state: stateNames[state],
    byteLength,
    device,
    since: published || created,
    ...listed.takeMetadata(metadata === undefined ? "" : metadataText(metadata)),
    readers: listed.takeHolders([...readers]).map(([reader, { since }]) => processOf(reader, since)),
    ...writer === undefined ? {} : { writer: processOf(writer, created) },
  };
}

const stateNames: Readonly<Record<Stored["state"], StoreEntryState>> = {
  new: "unpublished",
  published: "published",
  replaced: "replaced",
  removed: "removed",
};

function processOf({ peer: { pid, uid } }: Holder, since: number) {
  return { pid, uid, since };
}

/**
 * Returns a limit in bytes for the status: an integer, or null if the limit is not a safe integer, which has the same
 * effect as no limit.
 */
function orNull(size: number): number | null {
  return size > Number.MAX_SAFE_INTEGER ? null : Math.floor(size);
}
