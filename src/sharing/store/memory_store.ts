import type { Cuda } from "../../objects/cuda.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import { whatIs } from "../../support/validation.ts";
import { probe } from "../../../ffi/native/shim/sockets.ts";
import { abortable } from "../transport/abortable.ts";
import type { ExporterOptions } from "../exporter/exporter.ts";
import { connectToExporter } from "../importer/connect_to_exporter.ts";
import type { StoreStatus } from "../operator/status.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { takerOf, type UnixListener } from "../transport/unix_listener.ts";
import { listenFor } from "../transport/users.ts";
import { descriptorsOfSystemd, type KeptDescriptor, SystemdKeeper } from "./keepers.ts";
import { Standby } from "./standby.ts";
import { type CompleteStoreOptions, completeStoreOptions, markerOf } from "./store_options.ts";
import { StoreService } from "./store_service.ts";

/** Options of `MemoryStore.listen`. */
export interface MemoryStoreOptions extends ExporterOptions {
  /** The devices on which memory can be created: all by default. */
  devices?: readonly CudaDevice[];
  /** The maximum number of bytes of each device. By default, what the device has. */
  maxSize?: number;
  /**
   * The maximum number of bytes that the processes of one user have created and that are still there. What was replaced or
   * removed, and only processes of other users have mapped, counts for those.
   */
  maxSizeOfUser?: number;
  /** Whether entries that nobody maps are removed if there is no room, that used longest ago first. False by default. */
  evict?: boolean;
  /**
   * The path at which a second store keeps what this one has. Start both with the same paths: the first one serves, and
   * the second one keeps its descriptors and its table, and takes over when the first one is gone. Descriptors that
   * systemd has kept are taken up without it.
   */
  standby?: string;
  /**
   * Milliseconds in which processes that were connected to the store before this one took over must have connected
   * again: 10,000 by default. What none of them holds, and what was not published, goes then.
   */
  reclaimTimeout?: number;
  /** Called when a standby has everything that this store has, and can take over. */
  onStandby?: () => void;
  /** Called when this store begins to serve: at once, or when it has taken over from another one. */
  onServe?: () => void;
}

/** Milliseconds until a standby that has not reached its store tries again. */
const standbyPause = 100;
/** How often it must have found the path taken by no store that it can stand by for, before it says so. */
const patientAttempts = 5;

/**
 * Memory that outlives the processes that made it: others create it here, write it, publish it under a name, and map what
 * was published. The store keeps descriptors and a table. It maps nothing and makes no context, so that no fault of a
 * kernel can end it.
 *
 * Under systemd with a store of descriptors, or with a standby, what was published also outlives the store.
 *
 * The boundary is the memory: who has mapped it once can map it anew for writing. Only users who are trusted may connect.
 *
 * @example
 * ```ts ignore
 * using cuda = open();
 * await using store = MemoryStore.listen(cuda, "/run/user/1000/poolpass.sock", { maxSize: 64 * 2 ** 30 });
 * ```
 */
export class MemoryStore implements AsyncDisposable {
  /** The path at which it listens, or will listen when it has taken over. */
  readonly path: string;
  readonly #cuda: Cuda;
  readonly #options: CompleteStoreOptions;
  readonly #closing = new AbortController();
  #service: StoreService | undefined;
  #standby: Standby | undefined;
  #standingBy: Promise<void> | undefined;
  #systemd: SystemdKeeper | undefined;
  /** What was reported last while it stands by: the same is not reported again and again. */
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
   * Listens at a path. If another store listens there and `standby` is given, keeps what that one has, and takes over when
   * it is gone.
   *
   * @param path at most 107 bytes in UTF-8, in a folder that no other user can change
   * @throws {TypeError} If the path or an option has the wrong type
   * @throws {RangeError} If an option is out of range
   * @throws {SharingError} as `Exporter.listen` does; `address-in-use` if another process listens there and no standby
   * was asked for; `bad-message` if what was kept for it is no store's
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

  /** Whether it serves clients, and is not the standby of a store that does. */
  get isServing(): boolean {
    return this.#service !== undefined;
  }

  /**
   * What it has, who holds that and since when, as operators are told. Undefined while it is a standby. The object is plain
   * data; `prometheusText` writes it in Prometheus' text format.
   */
  status(): StoreStatus | undefined {
    return this.#service?.status();
  }

  /** Stops listening. What no standby and no service manager keeps goes when its last reader has let go. */
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
      this.#systemd = SystemdKeeper.find(kept, (error) => this.#report(error));
      this.#serve(listener, kept);
    } catch (error) {
      this.#systemd?.close();
      void listener?.[Symbol.asyncDispose]();
      for (const { handle } of kept) handle[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Undefined if another store listens, whose standby this is.
   *
   * @param hasMemory whether this one has what another store had
   */
  #tryListen(hasMemory: boolean): UnixListener | undefined {
    const { standby } = this.#options;
    // A store that is started again at once must not take the path before the standby, which has everything.
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
      void service.memories.addKeeper(systemd).then(() => systemd.notifyReady());
    }
    queueMicrotask(() => this.#options.onServe?.());
  }

  /** What was kept is served in any case. */
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

  /** Keeps what the store has that listens at the path, and takes over when that one is gone. */
  async #standBy(standbyPath: string): Promise<void> {
    const { signal } = this.#closing;
    for (let attempts = 1; !signal.aborted; attempts++) {
      try {
        const stream = await this.#connect(standbyPath);
        if (stream === undefined) {
          // The store may be gone before it was reached.
          const listener = this.#tryListen(false);
          if (listener !== undefined) return this.#serve(listener, []);
          // A store that has just begun listens here in a moment.
          if (attempts >= patientAttempts) this.#reportOnce(this.#takenError(standbyPath));
        } else {
          attempts = 0;
          if (await this.#keep(stream, standbyPath)) return;
          this.#reported = undefined;
        }
      } catch (error) {
        if (!signal.aborted) this.#reportOnce(error as Error);
      }
      await abortable((resolve) => {
        const timer = setTimeout(resolve, standbyPause);
        return () => clearTimeout(timer);
      }, { signal }).catch(() => {});
    }
  }

  /** A connection to the store; undefined if none listens. */
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

  /** Keeps what the store has. Resolves to whether it has taken over; if not, the store lives on, or another one does. */
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

  /** Why it neither serves nor has a store that it can stand by for. */
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

/** What connecting says if no store is there. */
const absenceCodes: readonly string[] = ["not-found", "not-listening", "peer-gone"];

function isListening(path: string): boolean {
  return probe(path).live === 1;
}

/** Listens for as long as a stream keeps what a store has. Undefined if another standby listens there. */
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
