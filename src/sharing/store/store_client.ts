import { checkStream, CudaStream } from "../../objects/streams/cuda_stream.ts";
import {
  hasStreamAlone,
  type KnownStreamOptions,
  namedOptions,
  optionsOf,
  type OrStream,
  type StreamOption,
} from "../../objects/streams/stream_option.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { WholeMemory } from "../../memory/virtual/whole_memory.ts";
import { SharingError } from "../../support/errors.ts";
import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import {
  checkBoolean,
  checkByteLength,
  checkMaximum,
  checkMilliseconds,
  checkNumber,
  checkOptions,
  type KnownOptions,
  refuseConstruction,
  whatIs,
} from "../../support/validation.ts";
import { type Cuda, sessionOf } from "../../objects/cuda.ts";
import { CudaDevice } from "../../objects/cuda_device.ts";
import { delay } from "../../support/waiting/timer.ts";
import { throwIfAborted, type WaitOptions } from "../../support/waiting/waiting.ts";
import { isSameUuid } from "../../support/uuid.ts";
import { importerOptionNames, type ImporterOptions } from "../importer/importer.ts";
import type { MapOptions } from "../importer/remote_offer.ts";
import {
  flagOf,
  type JsonObject,
  memberOf,
  numberOf,
  numbersOf,
  objectOf,
  objectsOf,
  textOf,
} from "../protocol/documents.ts";
import { badMessage, defaultMaximumMetadata } from "../protocol/messages.ts";
import { checkOfferName, encodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import { digestDigits, isDigest, minimumDigits } from "../../support/sha256.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { type ReceivedAnswer, StoreLink } from "./store_link.ts";
import {
  checkMove,
  type EntryMove,
  type Hold,
  MappedEntry,
  type MappedEntryParts,
  type MoveEntry,
  type NamedHandle,
  type WakeEntryOptions,
  whyAsleep,
} from "./mapped_entry.ts";
import { copyStaged } from "./staged_copy.ts";
import { tracedWait, traceEntry } from "./traced_entries.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";
import { checkRankOfSet } from "./memories/publication_sets.ts";
import { maximumEntryMetadata } from "./memories/store_table.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** The dependencies of a `StoredMemory`, which its client provides. */
interface StoredMemoryParts {
  readonly name: string;
  readonly mapped: WholeMemory;
  /** Publishes the memory, and returns the entry, which has the same buffer. */
  readonly publish: (options: PublishEntryOptions, signal: AbortSignal | undefined) => Promise<MappedEntry>;
  /** Whether the store has lost the memory. */
  readonly isLost: () => boolean;
  readonly onEnd: () => void;
}

/** Memory that this process has created in a store by `StoreClient.create`. */
export class StoredMemory implements AsyncDisposable {
  /** The name under which the memory is or will be published. */
  readonly name: string;
  /** The memory, mapped for writing until it is published and for reading afterwards. */
  readonly buffer: DeviceBuffer;
  readonly #parts: StoredMemoryParts;
  #state: "new" | "publishing" | "published" | "disposed" = "new";

  static {
    printAs(this, "StoredMemory", (memory) => {
      return `StoredMemory { ${memory.name}, ${countOf(memory.buffer.byteLength, "byte")}, ${memory.#state} }`;
    }, ["name", "buffer", ["state", (memory) => memory.#state]]);
    refuseUsing(this, "StoredMemory");
  }

  /**
   * Created by `StoreClient.create`.
   *
   * @ignore
   */
  constructor(parts: StoredMemoryParts) {
    if (parts?.mapped === undefined) refuseConstruction("StoredMemory", "StoreClient.create");
    this.name = parts.name;
    this.buffer = parts.mapped.buffer;
    this.#parts = parts;
  }

  /**
   * Waits until the work enqueued on the stream so far is complete, and then publishes the memory under its name. After
   * that, `map` returns this generation, and this process can only read the memory. Processes that have mapped the
   * previous generation keep it.
   *
   * @returns The entry, with the same buffer: it can sleep, as that of `StoreClient.mapEntry` can
   * @param options the stream that writes the memory, by default the buffer's own, or an object with it and with what
   * else is stated of the memory. Stores of earlier versions ignore all but the stream and the signal
   * @throws {TypeError} If the memory was published already, JSON cannot represent the metadata, or the digest is not 64
   * hexadecimal digits
   * @throws {ReferenceError} If this object was disposed, or the buffer freed
   * @throws {SharingError} `not-permitted` if another user has published the name; `peer-gone` if the store is gone, or
   * was restarted and has lost the memory, or if another rank has exited before all have published
   */
  publish(options?: OrStream<PublishEntryOptions>): Promise<MappedEntry>;
  /** @ignore */
  publish(
    stream: CudaStream | undefined,
    options: Omit<PublishEntryOptions, "stream"> | undefined,
  ): Promise<MappedEntry>;
  async publish(given?: OrStream<PublishEntryOptions>, rest?: PublishEntryOptions): Promise<MappedEntry> {
    const what = `Cannot publish ${JSON.stringify(this.name)}`;
    const options = hasStreamAlone(given, rest) ? {} : namedOptions(given, rest, publishOptions);
    const { stream = given instanceof CudaStream ? given : this.buffer.stream } = options;
    checkStream(stream, allocationOf(this.buffer).session, publishOptions.usage);
    const json = encodeMetadata(options.metadata, maximumEntryMetadata);
    const { digest, keep = false, share, signal } = options;
    throwIfAborted(signal);
    if (digest !== undefined) checkDigest(digest, digestDigits);
    checkBoolean(keep, "keep");
    if (share !== undefined) checkShare(share);
    const publication = {
      ...json === "" ? {} : { metadata: JSON.parse(json) as JsonValue },
      ...digest === undefined ? {} : { digest },
      ...keep ? { keep } : {},
      ...share === undefined ? {} : { share },
    };
    if (this.#state === "disposed") throw new ReferenceError(`${what}: it was disposed`);
    if (this.#state !== "new") throw new TypeError(`${what}: it was published; create another generation`);
    if (allocationOf(this.buffer).isFreed) throw new ReferenceError(`${what}: its buffer was freed`);
    this.#state = "publishing";
    const { mapped, publish, isLost } = this.#parts;
    try {
      await stream.finished();
      if (allocationOf(this.buffer).isFreed) throw new ReferenceError(`${what}: it was disposed meanwhile`);
      // Remove write access first, because other processes may read published memory.
      mapped.setAccess("read");
      const entry = await publish(publication, signal);
      // This object may have been disposed of in the meantime.
      if (this.#state === "publishing") this.#state = "published";
      return entry;
    } catch (error) {
      if (this.#state === "publishing") {
        this.#state = "new";
        if (!allocationOf(this.buffer).isFreed) mapped.setAccess("read-write");
      }
      if (!isLost() || error instanceof ReferenceError) throw error;
      throw new SharingError("peer-gone", `${what}: the store was started again without it`, { cause: error });
    }
  }

  /** Unmaps the memory, which is freed if it was not published. */
  [Symbol.asyncDispose](): Promise<void> {
    if (this.#state === "disposed") return Promise.resolve();
    this.#state = "disposed";
    this.#parts.onEnd();
    const allocation = allocationOf(this.buffer);
    if (!allocation.isGone && !allocation.session.hasEnded) this.buffer.free();
    return Promise.resolve();
  }
}

/** Options of `StoreClient.connect`. */
export interface StoreClientOptions extends Omit<ImporterOptions, "memory"> {
  /**
   * Milliseconds within which a store must be available again if the connected store is gone: 30,000 by default. Until
   * then, requests wait.
   */
  reconnectTimeout?: number;
}

/** Options of `StoreClient.create`. */
export interface CreateEntryOptions extends MapOptions {
  /** The device to allocate the memory on. Defaults to the device of `stream`, or else the first device. */
  device?: CudaDevice;
  /**
   * The rank that writes the memory, and the number of ranks, each of which creates and publishes memory under the same
   * name. They become visible together, with one generation. `[0, 1]` by default: the memory is published alone.
   */
  rank?: readonly [rank: number, count: number];
  /**
   * An ID of at most 255 characters that all ranks pass, such as the ID of a run. It distinguishes them from other
   * processes that publish the same name at the same time. Empty by default.
   */
  set?: string;
  /** Metadata for other processes, such as element types and shapes: any JSON value of at most 4 MiB. */
  metadata?: JsonValue;
}

/** Options of `StoreClient.create` with which one process at a time writes memory of the name. */
export interface CreateOnceOptions extends CreateEntryOptions {
  /**
   * Whether to wait while another process writes memory of the same name, and to create none if it has been published
   * then. If the other process exits without publishing, one of the waiting processes creates the memory.
   */
  once: true;
  /**
   * The generation that is to be replaced: if it is the one that is published, memory is created. 0 by default: memory
   * is created only if nothing is published under the name.
   */
  replaces?: number;
}

/** Options of `StoredMemory.publish`. */
export interface PublishEntryOptions extends StreamOption {
  /** Replaces the metadata that was passed to `StoreClient.create`: any JSON value of at most 4 MiB. */
  metadata?: JsonValue;
  /** A digest of the contents, as 64 hexadecimal digits, by which the memory is found by `StoreClient.map`. */
  digest?: string;
  /** Whether the store never evicts the memory to make room. False by default. */
  keep?: boolean;
  /**
   * Shares the memory of what this user has published on the device with the same digest, layout and size, in place of a
   * second copy of it: the new name, or generation, gets that memory, which is mapped at the addresses of this one, and
   * this memory is freed. Needs `digest`. Memory that several names share cannot be mapped for writing. By default, and
   * with stores of earlier versions, each publication has memory of its own.
   */
  share?: ShareMemoryOptions;
  /** Ends the wait for the other ranks. The memory is then not published, nor that of the other ranks. */
  signal?: AbortSignal | undefined;
}

/** How `StoredMemory.publish` shares memory that was published before. */
export interface ShareMemoryOptions {
  /**
   * A digest of how the contents are laid out, as 64 hexadecimal digits. Memory is shared only with what was published
   * with the same one.
   */
  layout: string;
  /**
   * Returns whether other memory, which was published with the same digest, really has the same contents. Called before
   * the memory is shared, because nobody checks digests otherwise. The buffer is valid during the call only.
   */
  isSame(buffer: DeviceBuffer): Promise<boolean>;
}

/** Options of `StoreClient.map`. */
export interface MapEntryOptions extends MapOptions {
  /** Whether to map the memory for writing. False by default: a kernel that writes to the memory fails. */
  write?: boolean;
  /**
   * The first 8 to 64 digits of the digest that the memory was published with. Finds the newest such generation of the
   * name, also one that was replaced and that processes still hold.
   */
  digest?: string;
  /**
   * Moves the bytes if the entry is not on its device. By default, they are copied from host memory; from a file they
   * cannot be.
   */
  move?(move: EntryMove): Promise<string | void>;
  /** The rank whose memory to map, and the number of ranks, if they were published together. */
  rank?: readonly [rank: number, count: number];
  /**
   * Whether the entry that `mapEntry` returns sleeps until `wake`. False by default. An entry that is only to take the
   * place of another one, by `replaceBy`, need not be mapped before. `map` ignores this.
   */
  asleep?: boolean;
}

/** Options of `StoreClient.entries`. */
export interface EntriesOptions {
  /** Whether to list replaced generations that processes still hold, too. False by default. */
  replaced?: boolean;
}

/** Options of `StoreClient.offload`. */
export interface OffloadOptions extends WaitOptions {
  /**
   * Where the entry goes: to host memory that the store keeps, or to a file that `move` writes. Defaults to `"host"`.
   */
  to?: "host" | "file";
  /** The rank whose memory to move, and the number of ranks, if they were published together. */
  rank?: readonly [rank: number, count: number];
  /**
   * Milliseconds to wait until no process has the entry mapped any more. 0 by default: the entry is not moved then.
   */
  timeout?: number;
  /** Moves the bytes. By default, they are copied to host memory; needed for a file. */
  move?(move: EntryMove): Promise<string | void>;
}

/** The error codes of a move to host memory with which the entry does not make room after all. */
const offloadCodes: ReadonlySet<string> = new Set(["in-use", "not-found", "limit-exceeded"]);

/** Milliseconds between two attempts to move an entry that processes have mapped. */
const inUsePause = 20;

/** Published memory in a store. */
export interface StoreEntry {
  /** The name under which the memory was published. */
  readonly name: string;
  /** The size in bytes. */
  readonly byteLength: number;
  /**
   * The generation number: how many times the name has been published since it was last removed, including this time.
   */
  readonly generation: number;
  /** The metadata given when the memory was created. */
  readonly metadata: JsonValue | undefined;
  /** The processes that have the memory mapped. */
  readonly readers: readonly Peer[];
  /** The processes that hold the memory without having it mapped, since `MappedEntry.sleep`. */
  readonly sleepers: readonly Peer[];
  /** The UUID of the device that the memory is on. */
  readonly device: string;
  /** Where the memory lies: `"device"`; `"host"`, in host memory of the store; or the absolute path of a file. */
  readonly place: string;
  /** When the memory was published, in milliseconds since 1970. */
  readonly since: number;
  /** The digest of the contents that the publisher has stated, as 64 hexadecimal digits. Undefined if there is none. */
  readonly digest: string | undefined;
  /** Whether the store never evicts the memory. */
  readonly keep: boolean;
  /** Whether a newer generation has replaced this one. */
  readonly isReplaced: boolean;
  /** The rank that has written the memory, and the number of ranks; `[0, 1]` if the memory was published alone. */
  readonly rank: readonly [rank: number, count: number];
}

/** A published entry that was mapped, and the answer that described it. */
interface PublishedMapping {
  readonly mapped: WholeMemory;
  readonly hold: Hold;
  readonly document: JsonObject;
}

/** The option `memory` of importers does not apply, because all memory of a store is virtual. */
const { memory: _memory, ...sharedOptionNames } = importerOptionNames;
const clientOptions: KnownOptions<StoreClientOptions> = {
  action: "connect to a store",
  names: { ...sharedOptionNames, reconnectTimeout: true },
};
const createOptions: KnownOptions<CreateOnceOptions> = {
  action: "create memory in a store",
  names: {
    device: true,
    metadata: true,
    once: true,
    replaces: true,
    rank: true,
    set: true,
    stream: true,
    signal: true,
  },
};
const publishOptions: KnownStreamOptions<PublishEntryOptions> = {
  action: "publish memory of a store",
  usage: "publish(stream) or publish({ stream, metadata })",
  names: { stream: true, metadata: true, digest: true, keep: true, share: true, signal: true },
};
const shareOptions: KnownOptions<ShareMemoryOptions> = {
  action: "share memory of a store",
  names: { layout: true, isSame: true },
};
const mapOptions: KnownOptions<MapEntryOptions> = {
  action: "map memory of a store",
  names: { write: true, digest: true, rank: true, stream: true, signal: true, move: true, asleep: true },
};
const offloadOptions: KnownOptions<OffloadOptions> = {
  action: "move an entry of a store",
  names: { to: true, rank: true, timeout: true, move: true, signal: true },
};
const entriesOptions: KnownOptions<EntriesOptions> = { action: "list a store's entries", names: { replaced: true } };

/**
 * A connection to a store, in which processes create memory that other processes map.
 *
 * If the store is gone, the client reconnects to the next store that listens at the path. Until then, mapped memory
 * stays valid and requests wait.
 *
 * @example
 * ```ts ignore
 * await using client = await StoreClient.connect(cuda, "/run/user/1000/poolpass.sock");
 * await using weights = await client.create("weights", 4096, { metadata: { dtype: "float32", shape: [1024] } });
 * weights.buffer.copyFrom(new Float32Array(1024));
 * await weights.publish();
 * // In another process, also when this one has ended:
 * using mapped = await client.map("weights");
 * ```
 */
export class StoreClient implements AsyncDisposable {
  /** The path at which the store listens. */
  readonly path: string;
  readonly #cuda: Cuda;
  /**
   * The number of this client's mappings of each allocation, including pending mappings, keyed by the allocation's
   * number.
   */
  readonly #held = new Map<number, number>();
  /** The number of these mappings that are asleep, keyed by the allocation's number. */
  readonly #asleep = new Map<number, number>();
  readonly #written = new Set<StoredMemory>();
  #link!: StoreLink;
  #isDisposed = false;

  static {
    printAs(this, "StoreClient", (client) => {
      const state = client.#isDisposed ? "disposed" : `holds ${client.#held.size}`;
      return `StoreClient { ${client.path}, ${state} }`;
    }, ["path", ["disposed", (client) => client.#isDisposed]]);
    refuseUsing(this, "StoreClient");
  }

  private constructor(cuda: Cuda, path: string) {
    this.#cuda = cuda;
    this.path = path;
  }

  /**
   * Connects to the store at a path.
   *
   * @param options with `wait: true`, waits until a store listens at the path
   * @throws {TypeError} If an argument has the wrong type
   * @throws {SharingError} In the same cases as `Importer.connect`; `bad-message` if a program other than a store
   * listens at the path
   */
  static async connect(cuda: Cuda, path: string, options: StoreClientOptions = {}): Promise<StoreClient> {
    sessionOf(cuda);
    checkOptions(options, clientOptions);
    const { reconnectTimeout = 30_000, ...rest } = options;
    checkMilliseconds(reconnectTimeout, "reconnectTimeout");
    const { maximumMetadata = defaultMaximumMetadata, closeTimeout = 0 } = rest;
    checkMaximum(maximumMetadata, "maximumMetadata");
    checkMilliseconds(closeTimeout, "closeTimeout");
    const client = new StoreClient(cuda, path);
    client.#link = await StoreLink.connect({
      path,
      options: rest,
      reconnectTimeout,
      // One answer may contain all entries and their readers.
      maximumAnswer: 4 * maximumMetadata,
      claims: () =>
        [...client.#held].map(([id, count]): JsonObject => {
          const sleeping = client.#asleep.get(id);
          return sleeping === undefined ? { id, count } : { id, count, sleeping };
        }),
      onUnknown: (ids) => client.#forget(ids),
      onUnwanted: (answer) => client.#releaseUnwanted(answer),
    });
    return client;
  }

  /**
   * Creates memory in the store, and maps it for writing, unless another process publishes memory under the name first.
   * Of the processes that call this at the same time, one gets memory, and the others wait. Stores of earlier versions
   * give memory to all of them.
   *
   * @returns undefined if memory is published under the name, which `map` returns
   * @throws {TypeError} If an argument has the wrong type, or JSON cannot represent the metadata
   * @throws {RangeError} If the name, the size or the generation is out of range
   * @throws {SharingError} As without `once`; `limit-exceeded` also if too many requests wait
   *
   * @example
   * ```ts ignore
   * await using made = await client.create("weights", 4096, { once: true });
   * if (made !== undefined) {
   *   made.buffer.copyFrom(await load());
   *   await made.publish();
   * }
   * using weights = await client.map("weights");
   * ```
   */
  create(name: string, byteLength: number, options: CreateOnceOptions): Promise<StoredMemory | undefined>;
  /**
   * Creates memory in the store, and maps it for writing. Other processes do not see the memory before it is published.
   * Waits until enough memory is available.
   *
   * @param name the name to publish the memory under, 1 to 255 bytes in UTF-8
   * @param byteLength the size in bytes, at least 1; the memory occupies a multiple of 2 MiB
   * @throws {TypeError} If an argument has the wrong type, or JSON cannot represent the metadata
   * @throws {RangeError} If the name or the size is out of range
   * @throws {SharingError} `limit-exceeded` if the store can never have enough memory, or if the user would exceed its
   * quota, which is checked at the call and during the wait; `in-use` if another process writes the memory of this rank;
   * `not-supported` if `rank` is given and the store is of an earlier version; `device-not-visible`, `peer-gone`
   */
  create(name: string, byteLength: number, options?: OrStream<CreateEntryOptions>): Promise<StoredMemory>;
  async create(
    name: string,
    byteLength: number,
    given: OrStream<CreateEntryOptions & { once?: boolean; replaces?: number }> = {},
  ): Promise<StoredMemory | undefined> {
    this.#check();
    checkOfferName(name);
    checkByteLength(byteLength, "the size of memory in a store", 1);
    const options = optionsOf(given);
    checkOptions(options, createOptions);
    const { device = options.stream?.device ?? this.#cuda.device(0), metadata, once = false, replaces, signal } =
      options;
    const { rank: ofAll = [0, 1], set = "" } = options;
    checkRankOfSet(ofAll);
    const [rank, count] = ofAll;
    if (typeof set !== "string" || set.length > 255) {
      throw new TypeError(`Cannot use ${whatIs(set)} as set: give a string of at most 255 characters`);
    }
    checkBoolean(once, "once");
    if (replaces !== undefined) {
      checkNumber(replaces, "replaces");
      if (!Number.isSafeInteger(replaces) || replaces < 0) {
        throw new RangeError(`Cannot replace generation ${replaces}: give a whole number, or 0 for none`);
      }
      if (!once) throw new TypeError("Cannot replace a certain generation without the option once: give both");
    }
    if (!(device instanceof CudaDevice) || !this.#cuda.devices.includes(device)) {
      throw new TypeError(`Cannot create memory on ${whatIs(device)}: give a device of the same Cuda object`);
    }
    if (options.stream !== undefined) checkStream(options.stream, sessionOf(this.#cuda));
    const { stream = device.defaultStream } = options;
    const json = encodeMetadata(metadata, maximumEntryMetadata);
    const request = {
      do: "create",
      name,
      byteLength,
      device: device.uuid,
      ...json === "" ? {} : { metadata: JSON.parse(json) as JsonValue },
      ...once ? { once, replaces: replaces ?? 0 } : {},
      ...count === 1 ? {} : { set: { id: set, count, rank } },
    };
    const awaited = once ? `"${name}" or room for it in` : `room for ${byteLength} bytes in`;
    const answer = await tracedWait(name, () => this.#askForRoom(request, { signal, awaited }));
    if (once && memberOf(answer.document, "published") === true) {
      answer.handle?.[Symbol.dispose]();
      return undefined;
    }
    const id = numberOf(answer.document, "id", 1);
    const hold = { id, isAsleep: false };
    const mapped = this.#take(answer, id, () => {
      if (count > 1 && memberOf(answer.document, "set") !== true) {
        const why = "the store is of an earlier version, which publishes memory alone";
        throw new SharingError("not-supported", `Cannot create ${JSON.stringify(name)} for ${count} ranks: ${why}`);
      }
      const size = numberOf(answer.document, "size", byteLength);
      return this.#mapAnswer(answer, { hold, device, size, byteLength, stream, access: "read-write" });
    });
    traceEntry("create entry", id, { name, byteLength });
    const memory = new StoredMemory({
      name,
      mapped,
      publish: async ({ share, ...publication }, signal) => {
        const document = await this.#publish(mapped, { do: "publish", id, ...publication as JsonObject }, {
          ...{ name, share, signal, stream },
        });
        const generation = numberOf(document, "generation", 1);
        traceEntry("publish entry", id, { name, generation, byteLength });
        const described = publication.metadata ?? (json === "" ? undefined : JSON.parse(json) as JsonValue);
        const { digest } = publication;
        return this.#entryOf({ name, mapped, hold, generation, digest, metadata: described });
      },
      isLost: () => !this.#held.has(id),
      onEnd: () => this.#written.delete(memory),
    });
    this.#written.add(memory);
    return memory;
  }

  /**
   * Publishes memory, and returns the answer. If the store offers other memory with the same contents, checks that, and
   * maps it at the same addresses.
   */
  async #publish(
    mapped: WholeMemory,
    request: JsonObject,
    { name, share, signal, stream }: {
      readonly name: string;
      readonly share: ShareMemoryOptions | undefined;
      readonly signal: AbortSignal | undefined;
      readonly stream: CudaStream;
    },
  ): Promise<JsonObject> {
    const awaited = `the other ranks to publish "${name}" in`;
    const ask = (more: JsonObject) => this.#link.ask({ ...request, ...more }, { signal, awaited, isDecided: true });
    if (share === undefined) return (await ask({})).document;
    const { layout } = share;
    const answer = await ask({ layout });
    if (memberOf(answer.document, "id") === undefined) return answer.document;
    const id = numberOf(answer.document, "id", 1);
    const hold = { id, isAsleep: false };
    const offered =
      this.#take(answer, id, () => this.#mapPublished(answer, { name, hold, options: { stream } })).mapped;
    try {
      const isSame = await share.isSame(offered.buffer);
      const { document } = await ask({ layout, same: isSame ? id : 0 });
      if (memberOf(document, "same") === true && !allocationOf(mapped.buffer).isFreed) {
        try {
          mapped.replaceBy(offered);
        } catch {
          // The memory is published. If the buffer is being read or lent, the copy stays until the buffer is freed.
        }
      }
      return document;
    } finally {
      offered.buffer[Symbol.dispose]();
    }
  }

  /**
   * Maps the memory most recently published under a name. Waits until memory is published; if the wait is aborted, the
   * error lists the names that are published. Freeing the buffer unmaps the memory, and blocks until the work that uses
   * it is done.
   *
   * @throws {TypeError} If an argument has the wrong type, or the digest is not 8 to 64 hexadecimal digits
   * @throws {RangeError} If the name is out of range
   * @throws {SharingError} `not-found` if something is published under the name, and nothing with the digest;
   * `device-not-visible`, `peer-gone`; `not-permitted` if `write` is true and another user has
   * published the memory; `limit-exceeded` if this user holds too much memory that other users have replaced or
   * removed, or if too many requests wait
   */
  async map(name: string, options: OrStream<MapEntryOptions> = {}): Promise<DeviceBuffer> {
    return (await this.#mapEntry(name, optionsOf(options), { brief: true })).mapped.buffer;
  }

  /**
   * Maps the memory most recently published under a name, as `map` does, and returns it with the metadata and the
   * generation that belong to it. The entry can sleep, and can be replaced by another one at the same addresses.
   *
   * @throws {TypeError} If an argument has the wrong type
   * @throws {SharingError} In the same cases as `map`
   *
   * @example
   * ```ts ignore
   * using entry = await client.mapEntry("weights");
   * console.log(entry.generation, entry.metadata);
   * await entry.sleep(); // unmaps the memory
   * await entry.wake(); // maps it at the same addresses
   * ```
   */
  async mapEntry(name: string, options: OrStream<MapEntryOptions> = {}): Promise<MappedEntry> {
    const { mapped, hold, document } = await this.#mapEntry(name, optionsOf(options), {});
    const generation = numberOf(document, "generation", 1);
    const digest = textOrUndefined(document, "digest");
    return this.#entryOf({ name, mapped, hold, generation, digest, metadata: memberOf(document, "metadata") });
  }

  async #mapEntry(name: string, options: MapEntryOptions, more: JsonObject): Promise<PublishedMapping> {
    this.#check();
    checkOfferName(name);
    checkOptions(options, mapOptions);
    const { write = false, asleep = false, digest, signal } = options;
    checkBoolean(write, "write");
    checkBoolean(asleep, "asleep");
    checkMove(options.move);
    if (digest !== undefined) checkDigest(digest, minimumDigits);
    const { rank = [0, 1] } = options;
    checkRankOfSet(rank);
    if (options.stream !== undefined) checkStream(options.stream, sessionOf(this.#cuda));
    // A buffer alone cannot be woken.
    const mapping = more.brief === true ? { ...options, asleep: false } : options;
    const awaited = `"${name}" to be published in`;
    const wanted: JsonObject = digest === undefined ? {} : { digest };
    const ranked: JsonObject = rank[1] === 1 ? {} : { rank };
    const request: JsonObject = { do: "map", name, write, wait: true, places: true, ...wanted, ...ranked, ...more };
    const ask = () => this.#link.ask(request, { signal, awaited, isExplained: true });
    const answer = await tracedWait(name, ask);
    const { document } = answer;
    const id = numberOf(document, "id", 1);
    const hold = { id, isAsleep: false };
    if (memberOf(document, "place") !== undefined) {
      return await this.#mapMoved(name, hold, { document, options: mapping });
    }
    return this.#take(answer, id, () => {
      if (digest !== undefined && textOrUndefined(document, "digest")?.startsWith(digest) !== true) {
        const why = "the store is of an earlier version, which knows no digests";
        throw new SharingError("not-found", `Cannot map ${JSON.stringify(name)} with the digest ${digest}: ${why}`);
      }
      if (rank[1] > 1 && rankOf(document).some((number, index) => number !== rank[index])) {
        const why = "the store is of an earlier version, which has no ranks";
        throw new SharingError(
          "not-found",
          `Cannot map ${JSON.stringify(name)} for rank ${rank[0]} of ${rank[1]}: ${why}`,
        );
      }
      return this.#mapPublished(answer, { name, hold, options: mapping });
    });
  }

  /** Maps the memory of a published entry, which an answer describes. */
  #mapPublished(
    answer: ReceivedAnswer,
    { name, hold, options: { stream, write, asleep } }: {
      readonly name: string;
      readonly hold: Hold;
      readonly options: MapEntryOptions;
    },
  ): PublishedMapping {
    const { document } = answer;
    const device = this.#deviceOf(document, name);
    const byteLength = numberOf(document, "byteLength", 1);
    const mapped = this.#mapAnswer(answer, {
      hold,
      device,
      size: numberOf(document, "size", byteLength),
      byteLength,
      stream: stream ?? device.defaultStream,
      access: write === true ? "read-write" : "read",
      unmapped: asleep === true ? whyAsleep : undefined,
    });
    const generation = memberOf(document, "generation");
    traceEntry("map entry", hold.id, {
      name,
      byteLength,
      ...typeof generation === "number" && { generation },
    });
    return { mapped, hold, document };
  }

  /** Brings an entry back that is not on its device, and maps it. */
  async #mapMoved(
    name: string,
    hold: Hold,
    { document, options }: { readonly document: JsonObject; readonly options: MapEntryOptions },
  ): Promise<PublishedMapping> {
    this.#hold(hold.id);
    this.#beginSleep(hold);
    try {
      // Refuse what this process could not map before moving it.
      this.#deviceOf(document, name);
      const { handle } = await this.#wake(name, hold, options);
      return this.#mapPublished({ document, handle }, { name, hold, options });
    } catch (error) {
      this.#releaseHold(hold);
      throw error;
    }
  }

  /**
   * Moves an entry from its device to host memory that the store keeps, or to a file, and frees its device memory. The
   * next process that maps the entry moves it back. No process may have the entry mapped. Processes in which it is
   * asleep keep it.
   *
   * If this process dies or this throws, the entry is as before.
   *
   * @throws {TypeError} If an argument has the wrong type, or `move` is missing for a file
   * @throws {RangeError} If the timeout is out of range
   * @throws {SharingError} `in-use` if a process still has the entry mapped after `timeout`, with the processes;
   * `limit-exceeded` if the store may have no more host memory; `not-found` if nothing is published under the name;
   * `not-permitted` if another user has published it; `bad-message` if the store is of an earlier version;
   * `device-not-visible`, `peer-gone`
   *
   * @example
   * ```ts ignore
   * await client.offload("weights"); // to host memory
   * using entry = await client.mapEntry("weights"); // back on the device
   * ```
   */
  async offload(name: string, options: OffloadOptions = {}): Promise<void> {
    this.#check();
    checkOfferName(name);
    checkOptions(options, offloadOptions);
    const { to = "host", rank = [0, 1], timeout = 0, move, signal } = options;
    checkMove(move);
    checkMilliseconds(timeout, "timeout");
    checkRankOfSet(rank);
    if (to !== "host" && to !== "file") {
      throw new TypeError(
        `Cannot move ${JSON.stringify(name)} to ${whatIs(to)}: to is "host" or "file"; offloadWeights of ` +
          "poolpass/weights writes files",
      );
    }
    if (to === "file" && move === undefined) {
      throw new TypeError(`Cannot move ${JSON.stringify(name)} to a file: move writes it; see offloadWeights`);
    }
    const end = performance.now() + timeout;
    for (;;) {
      try {
        return await this.#move(name, rank[1] === 1 ? { name } : { name, rank }, { to, move, signal });
      } catch (error) {
        const left = end - performance.now();
        if (!(error instanceof SharingError) || error.code !== "in-use" || left <= 0) throw error;
        await delay(Math.min(left, inUsePause), signal, `"${name}"`);
      }
    }
  }

  /**
   * Asks the store for memory on a device. As long as the store answers that an entry should make room, moves that entry
   * to host memory and asks again.
   */
  async #askForRoom(
    document: JsonObject,
    options: { readonly signal: AbortSignal | undefined; readonly awaited: string },
  ): Promise<ReceivedAnswer> {
    for (;;) {
      const answer = await this.#link.ask({ ...document, offloads: true }, options);
      if (memberOf(answer.document, "offload") === undefined) return answer;
      const entry = objectOf(answer.document, "offload");
      const name = textOf(entry, "name"), rank = rankOf(entry);
      try {
        const { signal } = options;
        await this.#move(name, rank[1] === 1 ? { name } : { name, rank }, { to: "host", move: undefined, signal });
      } catch (error) {
        // Others may have used or removed the entry meanwhile, or filled the host memory: the store knows what to do then.
        if (!(error instanceof SharingError) || !offloadCodes.has(error.code)) throw error;
      }
    }
  }

  /**
   * Moves an entry to another place, unless it is there already: asks the store for memory there, fills it, and says so.
   */
  async #move(
    name: string,
    which: { readonly id: number } | { readonly name: string; readonly rank?: readonly [rank: number, count: number] },
    { to, move, signal }: {
      readonly to: "device" | "host" | "file";
      readonly move: MoveEntry | undefined;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<void> {
    const awaited = to === "device" ? `room on the device for "${name}" in` : `"${name}" in`;
    const ask: JsonObject = { do: "move", ...which, place: to };
    const { document, handle } = to === "device"
      ? await this.#askForRoom(ask, { signal, awaited })
      : await this.#link.ask(ask, { signal, awaited });
    if (memberOf(document, "done") === true) return;
    const id = numberOf(document, "id", 1);
    const memory = to === "file" ? undefined : numberOf(document, "memory", 1);
    // The memory to be filled is claimed from another store, if one takes over meanwhile.
    if (memory !== undefined) this.#hold(memory);
    try {
      const from = textOf(document, "place");
      const device = this.#deviceOf(document, name);
      const byteLength = numberOf(document, "byteLength", 1);
      const size = numberOf(document, "size", byteLength);
      const hasSource = from === "device" || from === "host";
      using _target = handle;
      using source = hasSource ? await this.#sourceOf(id) : undefined;
      const [onDevice, onHost] = to === "device" ? [handle, source] : [source, handle];
      if (onDevice === undefined) throw badMessage("a store's answer comes without its descriptor");
      const mapped = new WholeMemory(sessionOf(this.#cuda), device, {
        handle: onDevice,
        name: this.#nameOf(to === "device" ? memory! : id),
        byteLength: size,
        used: byteLength,
        access: to === "device" ? "read-write" : "read",
        stream: device.defaultStream,
        onUnmapped() {},
      });
      let file: string | void;
      try {
        const { buffer } = mapped;
        const copy: EntryMove["copy"] = async ({ onProgress } = {}) => {
          if (onHost === undefined) {
            const message = `Cannot bring ${JSON.stringify(name)} back: it lies in the file ${from}; use mapWeights`;
            throw new SharingError("incompatible", message);
          }
          const direction = to === "device" ? "from file" : "to file";
          await copyStaged(buffer, { fd: onHost.fd, direction, signal, onProgress });
        };
        const metadata = memberOf(document, "metadata");
        file = await (move ?? (() => copy()))({ name, metadata, buffer, from, to, signal, copy });
        await mapped.idle();
      } finally {
        mapped.buffer[Symbol.dispose]();
      }
      if (to === "file" && typeof file !== "string") {
        throw new TypeError(`Cannot move ${JSON.stringify(name)} to ${whatIs(file)}: move resolves to the file's path`);
      }
      await this.#link.ask({ do: "moved", id, ...memory === undefined ? { file: file as string } : { memory } });
      if (memory !== undefined) this.#held.delete(memory);
    } catch (error) {
      if (memory !== undefined) this.#held.delete(memory);
      this.#link.notify({ do: "moved", id, abandoned: true });
      throw error;
    }
  }

  async #sourceOf(id: number): Promise<ShareableHandle | undefined> {
    return (await this.#link.ask({ do: "source", id })).handle;
  }

  #deviceOf(document: JsonObject, name: string): CudaDevice {
    const uuid = textOf(document, "device");
    const device = this.#cuda.devices.find((device) => isSameUuid(device.uuid, uuid));
    if (device !== undefined) return device;
    throw new SharingError(
      "device-not-visible",
      `Cannot map ${JSON.stringify(name)}: it is on device ${uuid}, which this process does not see; see ` +
        "CUDA_VISIBLE_DEVICES",
    );
  }

  #entryOf(parts: Omit<MappedEntryParts, "sleep" | "wake">): MappedEntry {
    return new MappedEntry({
      ...parts,
      sleep: (hold) => this.#sleep(parts.name, hold),
      wake: (hold, options) => this.#wake(parts.name, hold, options),
    });
  }

  async #sleep(name: string, hold: Hold): Promise<void> {
    if (hold.isAsleep) return;
    // An allocation that the store has lost is in no table: nobody counts it.
    if (!this.#held.has(hold.id)) throw this.#lost("let sleep", name);
    const { id } = hold;
    await this.#link.ask({ do: "sleep", id });
    traceEntry("sleep entry", id);
    this.#beginSleep(hold);
  }

  async #wake(name: string, hold: Hold, { signal, move }: WakeEntryOptions): Promise<NamedHandle> {
    const { id } = hold;
    while (true) {
      this.#check();
      if (!this.#held.has(id)) throw this.#lost("wake", name);
      const { document, handle } = await this.#link.ask({ do: "map", id, sleeping: true }, { signal });
      if (handle !== undefined) {
        this.#endSleep(hold);
        traceEntry("wake entry", id, { name });
        return { handle, name: this.#nameOf(id) };
      }
      if (memberOf(document, "place") === undefined) {
        throw badMessage("a store's answer comes without its descriptor");
      }
      await this.#move(name, { id }, { to: "device", move, signal });
    }
  }

  /** Counts a mapping as asleep. */
  #beginSleep(hold: Hold): void {
    hold.isAsleep = true;
    this.#asleep.set(hold.id, (this.#asleep.get(hold.id) ?? 0) + 1);
  }

  /** Counts a mapping as awake. */
  #endSleep(hold: Hold): void {
    if (!hold.isAsleep) return;
    hold.isAsleep = false;
    const count = this.#asleep.get(hold.id) ?? 0;
    if (count > 1) this.#asleep.set(hold.id, count - 1);
    else this.#asleep.delete(hold.id);
  }

  #lost(action: string, name: string): SharingError {
    return new SharingError(
      "not-found",
      `Cannot ${action} ${JSON.stringify(name)}: the store was started again without it`,
    );
  }

  /**
   * Returns the published entries of all names.
   *
   * @throws {TypeError} If an option has the wrong type
   * @throws {SharingError} `peer-gone`
   */
  async entries(options: EntriesOptions = {}): Promise<readonly StoreEntry[]> {
    this.#check();
    checkOptions(options, entriesOptions);
    const { replaced = false } = options;
    checkBoolean(replaced, "replaced");
    const { document } = await this.#link.ask(replaced ? { do: "entries", replaced } : { do: "entries" });
    return objectsOf(document, "entries").map(entryOf);
  }

  /**
   * Removes a name. The memory published under it is freed when its last reader releases it. If the store is gone
   * before it has answered, the request is sent again to the next store. In this case, no error is thrown if nothing is
   * published under the name, because the first request may have removed it.
   *
   * @throws {SharingError} `not-found` if nothing is published under the name; `not-permitted`, `peer-gone`
   */
  async remove(name: string): Promise<void> {
    this.#check();
    checkOfferName(name);
    await this.#link.ask({ do: "remove", name }, { doneCode: "not-found" });
  }

  /**
   * Closes the connection. Memory that this client created is unmapped, and freed if it was not published. Memory
   * mapped by `map` stays valid until its buffer is freed, but counts as being read until this process exits or another
   * store takes over.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    // If the `Cuda` object was disposed of, its mappings are gone already.
    const { hasEnded } = sessionOf(this.#cuda);
    try {
      if (!hasEnded) await Promise.all([...this.#written].map((memory) => memory[Symbol.asyncDispose]()));
    } finally {
      this.#link.close(this.#held.size === 0 || hasEnded);
    }
  }

  #check(): void {
    if (this.#isDisposed) {
      throw new ReferenceError(`Cannot use the client of the store at ${this.path}: it was disposed`);
    }
  }

  #hold(id: number): void {
    this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
  }

  /**
   * Counts the allocation in an answer as held and calls `map`. If `map` throws, releases the allocation to the store.
   */
  #take<Result>({ handle }: ReceivedAnswer, id: number, map: () => Result): Result {
    this.#hold(id);
    try {
      return map();
    } catch (error) {
      handle?.[Symbol.dispose]();
      this.#release(id);
      throw error;
    }
  }

  /** Maps the memory whose handle arrived with an answer. */
  #mapAnswer(
    { handle }: ReceivedAnswer,
    { hold, device, size, byteLength, stream, access, unmapped }: {
      hold: Hold;
      device: CudaDevice;
      size: number;
      byteLength: number;
      stream: CudaStream;
      access: "read" | "read-write";
      unmapped?: string | undefined;
    },
  ): WholeMemory {
    if (handle === undefined) throw badMessage("a store's answer comes without its descriptor");
    using _closed = handle;
    return new WholeMemory(sessionOf(this.#cuda), device, {
      handle,
      name: this.#nameOf(hold.id),
      byteLength: size,
      used: byteLength,
      access,
      stream,
      unmapped,
      onUnmapped: () => this.#releaseHold(hold),
    });
  }

  /**
   * Returns a name of an allocation that is the same in all processes. It is unique, because each process of a store
   * numbers its allocations from a random start.
   */
  #nameOf(id: number): string {
    return `memory ${id} of a store`;
  }

  #releaseHold(hold: Hold): void {
    const { id, isAsleep } = hold;
    this.#endSleep(hold);
    if (!isAsleep) traceEntry("unmap entry", id);
    this.#release(id, isAsleep);
  }

  #release(id: number, isAsleep = false): void {
    const count = this.#held.get(id);
    // The count is undefined if the store has lost the allocation.
    if (count === undefined) return;
    if (count === 1) this.#held.delete(id);
    else this.#held.set(id, count - 1);
    this.#link.notify(isAsleep ? { do: "release", id, sleeping: true } : { do: "release", id });
  }

  /**
   * Removes allocations that the store has lost from `#held`. Their memory stays mapped in this process, which may be
   * the last process that has it mapped.
   */
  #forget(ids: readonly number[]): void {
    for (const id of ids) {
      this.#held.delete(id);
      this.#asleep.delete(id);
    }
  }

  /** Releases the allocation in the answer to a request that was canceled. */
  #releaseUnwanted({ document, handle }: ReceivedAnswer): void {
    handle?.[Symbol.dispose]();
    const id = memberOf(document, "id");
    if (typeof id !== "number" || memberOf(document, "done") === true) return;
    if (memberOf(document, "moving") === true) return this.#link.notify({ do: "moved", id, abandoned: true });
    if (memberOf(document, "place") !== undefined) return this.#link.notify({ do: "release", id, sleeping: true });
    // An aborted "wake" ends as it began: the mapping sleeps.
    this.#link.notify({ do: memberOf(document, "woken") === true ? "sleep" : "release", id });
  }
}

function entryOf(entry: JsonObject): StoreEntry {
  return {
    name: textOf(entry, "name"),
    byteLength: numberOf(entry, "byteLength", 1),
    generation: numberOf(entry, "generation", 1),
    metadata: memberOf(entry, "metadata"),
    readers: objectsOf(entry, "readers").map(peerOf),
    sleepers: objectsOf(entry, "sleepers").map(peerOf),
    device: textOf(entry, "device"),
    place: memberOf(entry, "place") === undefined ? "device" : textOf(entry, "place"),
    since: numberOf(entry, "since"),
    digest: textOrUndefined(entry, "digest"),
    keep: flagOf(entry, "keep"),
    isReplaced: flagOf(entry, "replaced"),
    rank: rankOf(entry),
  };
}

function checkShare(share: ShareMemoryOptions): void {
  checkOptions(share, shareOptions);
  checkDigest(share.layout, digestDigits);
  if (typeof share.isSame === "function") return;
  throw new TypeError(`Cannot share memory by ${whatIs(share.isSame)}: isSame is a function`);
}

function rankOf(document: JsonObject): readonly [number, number] {
  const [rank = 0, count = 1] = numbersOf(document, "rank");
  return [rank, count];
}

function textOrUndefined(document: JsonObject, name: string): string | undefined {
  return memberOf(document, name) === undefined ? undefined : textOf(document, name);
}

/** Throws unless `digest` consists of `minimum` to 64 hexadecimal digits. */
function checkDigest(digest: string, minimum: number): void {
  if (typeof digest !== "string") throw new TypeError(`Cannot use ${whatIs(digest)} as a digest: give its digits`);
  if (isDigest(digest, minimum)) return;
  const needed = minimum === digestDigits ? "64" : `${minimum} to 64`;
  throw new TypeError(
    `Cannot use ${JSON.stringify(digest.slice(0, 80))} as a digest: give ${needed} hexadecimal digits`,
  );
}

function peerOf(peer: JsonObject): Peer {
  return { pid: numberOf(peer, "pid"), uid: numberOf(peer, "uid"), gid: numberOf(peer, "gid") };
}
