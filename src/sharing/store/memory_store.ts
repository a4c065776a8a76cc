import type { Cuda } from "../../objects/cuda.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import { whatIs } from "../../support/validation.ts";
import { delay } from "../../support/waiting/timer.ts";
import { probe } from "../../../ffi/native/shim/sockets.ts";
import type { ExporterOptions } from "../exporter/exporter.ts";
import { connectToExporter } from "../importer/connect_to_exporter.ts";
import type { StoreStatus } from "../operator/status.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { takerOf, type UnixListener } from "../transport/unix_listener.ts";
import { listenFor } from "../transport/users.ts";
import { descriptorsOfSystemd, type KeptDescriptor, SystemdBackup } from "./descriptor_backups.ts";
import { Standby } from "./standby.ts";
import { type CompleteStoreOptions, completeStoreOptions, markerOf } from "./store_options.ts";
import type { SavedEntry } from "./memories/saved_entry.ts";
import { StoreService } from "./store_service.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of `MemoryStore.listen`. */
export interface MemoryStoreOptions extends ExporterOptions {
  /** The devices on which memory can be created: all by default. */
  devices?: readonly CudaDevice[];
  /** The maximum number of bytes on each device. By default, all memory of the device. */
  maxSize?: number;
  /**
   * The maximum number of bytes that may be charged to one user. Memory is charged to the user whose process has
   * created it. Memory that was replaced or removed, and that only processes of other users still map, is charged to
   * those users instead.
   */
  maxSizeOfUser?: number;
  /**
   * The maximum number of bytes of host memory that moved entries may occupy. By default, there is no limit. If several
   * users may connect, each of them gets at most as much as it leaves for another one.
   */
  maxHostSize?: number;
  /**
   * Whether entries that no process has mapped are removed, least recently used first, if not enough memory is left.
   * With `"host"`, they are moved to host memory instead, also if processes hold them asleep: the client that needs room
   * moves entries of its own user, as long as host memory is left, and brings them back when they are mapped. False by
   * default.
   */
  evict?: boolean | "host";
  /**
   * Entries that lie in files, which the store publishes when it begins to serve, unless it takes over what another
   * store had. None by default. The store opens no file: the first process that maps an entry moves it to its device,
   * as `mapWeights` does with those that `saveWeights` has written.
   */
  saved?: readonly SavedEntry[];
  /**
   * The path at which a second store connects to back up this one. Start both with the same paths: the first one
   * serves, and the second one, its standby, holds duplicates of the descriptors and the table, and takes over when the
   * first one is gone. Descriptors that systemd has stored are restored even without this option.
   */
  standby?: string;
  /**
   * Milliseconds, after this store has taken over, within which the clients of the previous store must reconnect:
   * 10,000 by default. After that, memory that no client has claimed is freed unless it is published.
   */
  reclaimTimeout?: number;
  /** Called when a standby has a complete backup and can take over. */
  onStandby?: () => void;
  /** Called when this store begins to serve: immediately, or when it has taken over from another store. */
  onServe?: () => void;
}

/** Milliseconds between two attempts of a standby to connect to the store that it backs up. */
const standbyPause = 100;
/** The number of failed attempts to connect after which a standby reports that another process listens at its path. */
const patientAttempts = 5;

/**
 * Holds memory that outlives the processes that created it. A process creates memory in the store, writes it, and
 * publishes it under a name; other processes map the published memory. The store holds descriptors and a table. It maps
 * no memory and creates no CUDA context, so that no faulting kernel can crash it.
 *
 * With systemd's file descriptor store, or with a standby, published memory also outlives the store.
 *
 * Read-only mappings do not protect the memory: a process that has mapped memory for reading can also map it for
 * writing. Allow only trusted users to connect.
 *
 * @example
 * ```ts ignore
 * using cuda = open();
 * await using store = MemoryStore.listen(cuda, "/run/user/1000/poolpass.sock", { maxSize: 64 * 2 ** 30 });
 * ```
 */
export class MemoryStore implements AsyncDisposable {
  /** The path at which the store listens, or will listen after it has taken over. */
  readonly path: string;
  readonly #cuda: Cuda;
  readonly #options: CompleteStoreOptions;
  readonly #closing = new AbortController();
  #service: StoreService | undefined;
  #standby: Standby | undefined;
  #standingBy: Promise<void> | undefined;
  #systemd: SystemdBackup | undefined;
  /**
   * The message of the error that this standby has reported last, so that the same error is not reported repeatedly.
   */
  #reported: string | undefined;
  #closed: Promise<void> | undefined;

  static {
    printAs(this, "MemoryStore", (store) => `MemoryStore { ${store.path}, ${store.#state} }`, [
      "path",
      "isServing",
      ["disposed", (store) => store.#closing.signal.aborted],
    ]);
    refuseUsing(this, "MemoryStore");
  }

  private constructor(cuda: Cuda, path: string, options: CompleteStoreOptions) {
    this.#cuda = cuda;
    this.path = path;
    this.#options = options;
  }

  /**
   * Listens at a path. If another store listens there and `standby` is given, backs up that store, and takes over when
   * it is gone.
   *
   * @param path the socket's path, at most 107 bytes in UTF-8, in a folder that no other user can change
   * @throws {TypeError} If the path or an option has the wrong type
   * @throws {RangeError} If an option is out of range, or ranks of a saved entry are missing
   * @throws {SharingError} In the same cases as `Exporter.listen`; `address-in-use` if another process listens at the
   * path and `standby` is not given; `bad-message` if a descriptor that systemd has kept does not belong to a store
   */
  static listen(cuda: Cuda, path: string, options: MemoryStoreOptions = {}): MemoryStore {
    if (typeof path !== "string") {
      throw new TypeError(
        `Cannot listen at ${whatIs(path)}: give the Cuda object, the socket's path, and then options`,
      );
    }
    const store = new MemoryStore(cuda, path, completeStoreOptions(cuda, options));
    store.#begin();
    return store;
  }

  /** Whether this store serves clients. False for a standby. */
  get isServing(): boolean {
    return this.#service !== undefined;
  }

  /**
   * Returns the status that operators see: the entries, and the processes that hold them. Undefined for a standby. The
   * object is plain data; `prometheusText` formats it for Prometheus.
   */
  status(): StoreStatus | undefined {
    return this.#service?.status();
  }

  /**
   * Stops listening. Memory that neither a standby nor a service manager backs up is freed when its last reader
   * releases it.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#closing.abort(new ReferenceError(`The store at ${this.path} was disposed`));
    this.#standby?.close();
    await this.#standingBy;
    await this.#service?.close();
    this.#systemd?.close();
  }

  get #state(): string {
    if (this.#closing.signal.aborted) return "disposed";
    if (this.#service === undefined) return "standby";
    const { entryCount, clientCount } = this.#service;
    return `${entryCount === 1 ? "1 entry" : `${entryCount} entries`}, ${countOf(clientCount, "client")}`;
  }

  #begin(): void {
    const kept = descriptorsOfSystemd();
    let listener: UnixListener | undefined;
    try {
      listener = this.#tryListen(false);
      if (listener === undefined) return void (this.#standingBy = this.#standBy(this.#options.standby!));
      this.#systemd = SystemdBackup.find(kept, (error) => this.#report(error));
      this.#serve(listener, kept);
    } catch (error) {
      this.#systemd?.close();
      void listener?.[Symbol.asyncDispose]();
      for (const { handle } of kept) handle[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Listens at the path. Returns undefined if another store listens there, in which case this store must become its
   * standby.
   *
   * @param hasMemory whether this store has taken over the allocations of another store
   */
  #tryListen(hasMemory: boolean): UnixListener | undefined {
    const { standby } = this.#options;
    // If a standby is active, a restarted store must not listen first, because the standby has the allocations.
    if (!hasMemory && standby !== undefined && isListening(markerOf(standby))) return undefined;
    try {
      return listenFor(this.path, this.#options.connections.users);
    } catch (error) {
      const isTaken = error instanceof SharingError && error.code === "address-in-use";
      if (isTaken && standby !== undefined) return undefined;
      throw error;
    }
  }

  #serve(listener: UnixListener, kept: readonly KeptDescriptor[]): void {
    const standbyListener = this.#listenForStandbys(kept.length > 0);
    let service: StoreService;
    try {
      service = new StoreService(this.#cuda, { listener, standbyListener, kept, options: this.#options });
    } catch (error) {
      void standbyListener?.[Symbol.asyncDispose]();
      throw error;
    }
    this.#service = service;
    if (isLogging) logEvent("store-serve", { path: this.path, entries: service.entryCount });
    const systemd = this.#systemd;
    if (systemd !== undefined) {
      for (const name of service.unused) systemd.forget(name);
      void service.memories.addBackup(systemd).then(() => systemd.notifyReady());
    }
    queueMicrotask(() => this.#options.onServe?.());
  }

  /**
   * Listens for standbys at the path in the option `standby`, if that is set. With `mustServe`, reports an error
   * instead of throwing it, so that allocations of another store are served even without a standby.
   */
  #listenForStandbys(mustServe: boolean): UnixListener | undefined {
    const { standby } = this.#options;
    try {
      return standby === undefined ? undefined : listenFor(standby, []);
    } catch (error) {
      if (!mustServe) throw error;
      this.#report(error as Error);
      return undefined;
    }
  }

  /** Backs up the store that listens at the path, and takes over once that store is gone. */
  async #standBy(standbyPath: string): Promise<void> {
    const { signal } = this.#closing;
    for (let attempts = 1; !signal.aborted; attempts++) {
      try {
        const stream = await this.#connect(standbyPath);
        if (stream === undefined) {
          // The other store may have exited before this standby could connect.
          const listener = this.#tryListen(false);
          if (listener !== undefined) return this.#serve(listener, []);
          // A store that has just started may not listen at the standby's path yet.
          if (attempts >= patientAttempts) this.#reportOnce(this.#takenError(standbyPath));
        } else {
          attempts = 0;
          if (await this.#keep(stream, standbyPath)) return;
          this.#reported = undefined;
        }
      } catch (error) {
        if (!signal.aborted) this.#reportOnce(error as Error);
      }
      await delay(standbyPause, signal).catch(() => {});
    }
  }

  /** Connects to the store that this standby backs up. Returns undefined if no store listens. */
  async #connect(standbyPath: string): Promise<MessageStream | undefined> {
    const { handshakeTimeout, messageTimeout } = this.#options.connections;
    const { signal } = this.#closing;
    try {
      const options = { handshakeTimeout, messageTimeout, signal, role: "standby" } as const;
      return await connectToExporter(standbyPath, options, () => signal.aborted);
    } catch (error) {
      if (error instanceof SharingError && absenceCodes.includes(error.code)) return undefined;
      throw error;
    }
  }

  /**
   * Backs up the store until the connection is closed. Returns true if this store has taken over, and false if the
   * backed-up store or another store still serves.
   */
  async #keep(stream: MessageStream, standbyPath: string): Promise<boolean> {
    await using _marker = listenAsMarker(stream, markerOf(standbyPath));
    const kept = await new Promise<readonly KeptDescriptor[]>((resolve) => {
      this.#standby = new Standby(stream, {
        onGone: resolve,
        onLost: (error) => {
          this.#report(error);
          resolve([]);
        },
      });
    });
    this.#standby = undefined;
    const listener = kept.length === 0 ? undefined : this.#tryListen(true);
    if (listener === undefined) {
      if (kept.length > 0) this.#report(this.#takenError(standbyPath));
      for (const { handle } of kept) handle[Symbol.dispose]();
      return false;
    }
    try {
      this.#serve(listener, kept);
    } catch (error) {
      await listener[Symbol.asyncDispose]();
      throw error;
    }
    return true;
  }

  /** Returns the error for a standby that can neither serve nor connect to a store. */
  #takenError(standbyPath: string): SharingError {
    const marker = markerOf(standbyPath);
    const path = isListening(marker) ? marker : this.path;
    return new SharingError(
      "address-in-use",
      `Cannot take over at ${this.path}: ${
        takerOf(path) ?? "another process listens"
      } at ${path}, and no store answers ` +
        `at ${standbyPath}, where a standby gets what the store has; stop that process, or use other paths`,
    );
  }

  #reportOnce(error: Error): void {
    if (this.#reported === error.message) return;
    this.#reported = error.message;
    this.#report(error);
  }

  #report(error: Error): void {
    queueMicrotask(() => this.#options.connections.onError?.(error));
  }
}

/** The error codes of attempts to connect that fail because no store is listening. */
const absenceCodes: readonly string[] = ["not-found", "not-listening", "peer-gone"];

function isListening(path: string): boolean {
  return probe(path).live === 1;
}

/**
 * Listens at `path`, the result of `markerOf`, while this standby backs up a store. Returns undefined if another
 * standby listens there.
 */
function listenAsMarker(stream: MessageStream, path: string): UnixListener | undefined {
  try {
    return listenFor(path, []);
  } catch (error) {
    if (error instanceof SharingError && error.code === "address-in-use") return undefined;
    stream.end("out-of-resources", "the standby cannot listen");
    stream.process[Symbol.dispose]();
    throw error;
  }
}
