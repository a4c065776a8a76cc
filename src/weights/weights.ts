/**
 * Model weights that processes share through a store: published from a file, and mapped by name.
 *
 * @module
 */
import {
  type CudaDevice,
  type CudaStream,
  type DeviceArray,
  type DeviceBuffer,
  type MapEntryOptions,
  type MappedEntry,
  SharingError,
  type StoreClient,
  type TypedArray,
  type WaitOptions,
} from "../../mod.ts";
import { type FileProgress, type FileSource, openSafetensors } from "../../safetensors.ts";
import { arrayOf } from "../files/safetensors_files.ts";
import { optionsOf, type OrStream } from "../objects/streams/stream_option.ts";
import { isDigest, minimumDigits } from "../support/sha256.ts";
import { checkBoolean, checkOptions, type KnownOptions } from "../support/validation.ts";
import { fileDigests } from "./file_digests.ts";
import { bringBack } from "./moved_weights.ts";
import { checkRevision, revisionOfDigests, revisionOfTensors, sharingOf } from "./revision.ts";
import {
  checkCapability,
  differenceOf,
  encodeTensors,
  isListInMemory,
  readDescription,
  type WeightsDescription,
} from "./weights_metadata.ts";

/** Options of `publishWeights`. */
export interface PublishWeightsOptions extends WaitOptions {
  /** The device to load the weights on. Defaults to the first device. */
  device?: CudaDevice;
  /** Whether the store never evicts the weights to make room. False by default. */
  keep?: boolean;
  /**
   * Whether the CPU computes the revision, too, from the bytes of the file: weights whose revision on the device differs
   * are not published. False by default: this takes longer than loading them.
   */
  verify?: boolean;
  /**
   * Whether to share the memory of the same weights, at the same places, that this user has published on the device
   * under any name, instead of keeping a second copy. They are verified first. True by default. Weights that several
   * names share cannot be mapped for writing.
   */
  share?: boolean;
  /**
   * The rank of this process, and the number of ranks that publish their parts of a model under the same name. All parts
   * become visible together, with one generation. `[0, 1]` by default.
   */
  rank?: readonly [rank: number, count: number];
  /** The same string in all ranks, which tells them from others that publish the name at the same time. */
  set?: string;
  /** Called repeatedly with the number of bytes read so far. */
  onProgress?: (progress: FileProgress) => void;
}

/** Options of `mapWeights`. */
export interface MapWeightsOptions extends WaitOptions {
  /** The stream of the returned buffer. Defaults to the default stream of the device that holds the weights. */
  stream?: CudaStream;
  /** Whether to map the memory for writing. False by default: a kernel that then writes to the memory fails. */
  write?: boolean;
  /** The rank whose part of a model to map, and the number of ranks that have published it. `[0, 1]` by default. */
  rank?: readonly [rank: number, count: number];
}

const publishOptions: KnownOptions<PublishWeightsOptions> = {
  action: "publish weights",
  names: { device: true, keep: true, verify: true, share: true, rank: true, set: true, onProgress: true, signal: true },
};
const mapOptions: KnownOptions<MapWeightsOptions> = {
  action: "map weights",
  names: { stream: true, write: true, rank: true, signal: true },
};
const wakeOptions: KnownOptions<WaitOptions> = { action: "wake weights", names: { signal: true } };
const updateOptions: KnownOptions<WaitOptions> = { action: "update weights", names: { signal: true } };
/** The alignment, in bytes, of the tensors and of the list of tensors. */
const alignment = 256;

/** The state of a `Weights` object. */
interface WeightsParts {
  readonly client: StoreClient;
  readonly name: string;
  readonly entry: MappedEntry;
  readonly description: WeightsDescription;
  readonly options: MapWeightsOptions;
  dispose(): Promise<void>;
}

/**
 * The weights of a model in the memory of a store: a `Map` from names to arrays, which are views of a single buffer.
 * Created by `publishWeights` or `mapWeights`. Disposing of this object does not remove the weights from the store.
 *
 * The buffer and the arrays keep their addresses through `sleep`, `wake` and `update`: a captured graph that uses them
 * stays valid.
 */
export class Weights extends Map<string, DeviceArray<TypedArray>> implements AsyncDisposable {
  /** The name that the weights are published under, without a revision. */
  readonly name: string;
  /** The buffer that contains all tensors. */
  readonly buffer: DeviceBuffer;
  readonly #parts: WeightsParts;
  #description: WeightsDescription;

  /**
   * Use `publishWeights` or `mapWeights` instead.
   *
   * @ignore
   */
  constructor(parts: WeightsParts) {
    super();
    const { name, entry, description } = parts;
    this.name = name;
    this.buffer = entry.buffer;
    this.#parts = parts;
    this.#description = description;
    for (const tensor of description.tensors) this.set(tensor.name, arrayOf(tensor, entry.buffer));
  }

  /**
   * The revision of the weights, as 64 hexadecimal digits: a digest of the names, dtypes, shapes and bytes of all
   * tensors. Undefined if the publisher did not compute it. `update` changes it.
   */
  get digest(): string | undefined {
    return this.#description.digest;
  }

  /** The number of the generation that is mapped. `update` changes it. */
  get generation(): number {
    return this.#parts.entry.generation;
  }

  /** Whether the weights sleep: they are not mapped in this process. */
  get isAsleep(): boolean {
    return this.#parts.entry.isAsleep;
  }

  /**
   * Waits for the work that uses the weights, and unmaps them. The addresses stay reserved, and the store keeps these
   * weights for this process, even if others are published under the name. Until `wake`, the buffer and the arrays
   * refuse any use with a `ReferenceError`, and a captured graph that uses them must not run. Does nothing if the
   * weights sleep already.
   *
   * @throws {ReferenceError} If this object was disposed
   * @throws {TypeError} If the memory is being read, or is lent to other processes
   * @throws {SharingError} `bad-message` if the store is of an earlier version, which has no such request; `peer-gone`.
   * The weights then stay mapped
   *
   * @example
   * ```ts ignore
   * await held.sleep(); // this process needs the device's memory no longer
   * await held.wake(); // the same addresses
   * ```
   */
  sleep(): Promise<void> {
    return this.#parts.entry.sleep();
  }

  /**
   * Maps weights that sleep at the addresses where they were. Does nothing if they do not sleep. If they are in host
   * memory or in a file, brings them back to the device and checks their digest, or waits while another process does;
   * this waits until there is room on the device. If this throws, they sleep on.
   *
   * @throws {ReferenceError} If this object was disposed
   * @throws {SharingError} `digest-mismatch` if they came back different; `limit-exceeded` if the store can never have
   * enough memory on the device; `not-found` if the store was started again without the weights; `peer-gone`
   */
  async wake(options: WaitOptions = {}): Promise<void> {
    checkOptions(options, wakeOptions);
    await this.#parts.entry.wake({ ...options, move: bringBack });
  }

  /**
   * Maps the newest generation of the name at the same addresses, if it has the same tensors at the same places. Waits
   * for the work that uses the weights. Weights that sleep are awake afterwards. If this throws, they are as before.
   *
   * The caller ensures that no work which uses the weights is enqueued until this has resolved.
   *
   * @returns Whether another generation was mapped; false if the newest one was mapped already
   * @throws {ReferenceError} If this object was disposed
   * @throws {SharingError} `layout-changed` if the newest generation has other tensors, or at other places: use
   * `mapWeights`. In the same cases as `mapWeights`
   */
  async update(options: WaitOptions = {}): Promise<boolean> {
    checkOptions(options, updateOptions);
    const { client, name, entry, options: { stream, write, rank } } = this.#parts;
    const next = await mapDescribed(client, name, {
      ...options,
      ...stream === undefined ? {} : { stream },
      ...write === undefined ? {} : { write },
      ...rank === undefined ? {} : { rank },
      // Its memory is mapped in place of this one.
      asleep: true,
    }, this.#description);
    try {
      const isSame = next.entry.generation === entry.generation && !entry.isAsleep;
      if (isSame) return false;
      const difference = differenceOf(this.#description, next.description);
      if (difference !== undefined || next.entry.buffer.byteLength !== entry.buffer.byteLength) {
        throw new SharingError(
          "layout-changed",
          `Cannot update the weights ${JSON.stringify(name)}: generation ${next.entry.generation} ${
            difference ?? `has ${next.entry.buffer.byteLength} bytes instead of ${entry.buffer.byteLength}`
          }; map it with mapWeights`,
        );
      }
      await entry.replaceBy(next.entry);
      this.#description = next.description;
      return true;
    } finally {
      next.entry[Symbol.dispose]();
    }
  }

  /**
   * Computes the revision of the current contents of the memory, and returns it.
   *
   * @throws {SharingError} `digest-mismatch` if the revision differs from `digest`: the memory was modified after it was
   * published
   */
  async verify(options: WaitOptions = {}): Promise<string> {
    return await checkRevision(this.#description, this.buffer, {
      signal: options.signal,
      action: `trust the weights ${JSON.stringify(this.name)}`,
      advice: "; publish them anew",
    });
  }

  /** Releases this process's mapping of the memory. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.dispose();
  }
}

/**
 * Loads the tensors of a safetensors file into new memory of a store, computes their revision on the device, and
 * publishes them under a name. Processes that have mapped the weights previously published under the name keep them.
 *
 * If the process exits early or this function throws, nothing is published.
 *
 * @param source The path or URL of a safetensors file or of its index, or the bytes of a file.
 * @returns The weights, mapped read-only
 * @throws {RangeError} If the name contains an "@", which separates a name from a revision
 * @throws {Error} If the file cannot be read or is not a valid safetensors file, with the reason
 * @throws {SharingError} `limit-exceeded` if the store has too little memory left; `not-permitted` if another user has
 * published the name; `digest-mismatch` if `verify` finds a difference; `peer-gone`, also if another rank has exited;
 * `in-use` if another process loads this rank
 *
 * @example
 * ```ts
 * // deno run --allow-ffi --allow-read=/tmp --allow-write=/tmp publish.ts
 * import { MemoryStore, open, StoreClient } from "./mod.ts";
 * import { writeSafetensors } from "./safetensors.ts";
 * import { mapWeights, publishWeights } from "./weights.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using bias = pool.allocateArray(new Float32Array([1, 2, 3]));
 * await writeSafetensors({ bias }, "/tmp/layer.safetensors");
 *
 * await using store = MemoryStore.listen(cuda, "/tmp/weights.sock");
 * await using client = await StoreClient.connect(cuda, "/tmp/weights.sock");
 * await using published = await publishWeights(client, "layer", "/tmp/layer.safetensors");
 * await using held = await mapWeights(client, `layer@${published.digest}`);
 * console.log(await held.get("bias")!.toTypedArray());
 * ```
 */
export async function publishWeights(
  client: StoreClient,
  name: string,
  source: FileSource,
  options: PublishWeightsOptions = {},
): Promise<Weights> {
  checkOptions(options, publishOptions);
  if (name.includes("@")) {
    throw new RangeError(`Cannot publish weights as ${JSON.stringify(name)}: what follows an "@" is a revision`);
  }
  const { device, keep = false, verify = false, share = true, rank = [0, 1], set, signal, onProgress } = options;
  checkBoolean(verify, "verify");
  checkBoolean(share, "share");
  const waiting = signal === undefined ? {} : { signal };
  await using file = await openSafetensors(source);
  const { tensors } = file;
  const end = Math.ceil(file.byteLength / alignment) * alignment;
  const encoded = encodeTensors(tensors, end);
  const byteLength = encoded.manifest === undefined ? Math.max(1, file.byteLength) : end + encoded.manifest.length;
  const memory = await client.create(name, byteLength, {
    ...waiting,
    ...device === undefined ? {} : { device },
    rank,
    ...set === undefined ? {} : { set },
    metadata: encoded.metadata({ digest: null, rank, set, device }),
  });
  try {
    const { buffer } = memory;
    await file.load(buffer, { ...waiting, ...onProgress === undefined ? {} : { onProgress } });
    if (encoded.manifest !== undefined) buffer.subarray(end).copyFrom(encoded.manifest);
    const digest = await revisionOfTensors(tensors, buffer, signal);
    const ofFile = verify ? await revisionOfDigests(tensors, await fileDigests(file, waiting)) : digest;
    if (digest !== ofFile) {
      throw new SharingError(
        "digest-mismatch",
        `Cannot publish ${
          JSON.stringify(name)
        }: the digest on the device is ${digest}, and that of the file ${ofFile}; ` +
          "the file may have been written meanwhile",
      );
    }
    const metadata = encoded.metadata({ digest, rank, set, device: buffer.device });
    const entry = await memory.publish({
      ...waiting,
      metadata,
      digest,
      keep,
      ...share ? { share: await sharingOf({ metadata, buffer, tensors, digest }, signal) } : {},
    });
    const dispose = () => memory[Symbol.asyncDispose]();
    return new Weights({
      client,
      name,
      entry,
      description: { digest, tensors, capability: undefined },
      options: { rank },
      dispose,
    });
  } catch (error) {
    await memory[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Maps the weights that are published under a name. If there are none yet, waits until some are published. If they are
 * in host memory or in a file, brings them back to the device and checks their digest.
 *
 * @param name The name, or `NAME@DIGEST` to map only a specific revision, given by at least its first 8 digits. It may
 * have been replaced, if processes still hold it.
 * @throws {RangeError} If the digits of the revision are too few, too many, or not hexadecimal
 * @throws {SharingError} `not-found`, with what there is, if another revision or another number of ranks is published;
 * `bad-message` if the published memory does not contain weights; `incompatible` if they are those of a module that was
 * loaded for a device of another compute capability; `device-not-visible`, `not-permitted`, `peer-gone`
 */
export async function mapWeights(
  client: StoreClient,
  name: string,
  given: OrStream<MapWeightsOptions> = {},
): Promise<Weights> {
  const options = optionsOf(given);
  checkOptions(options, mapOptions);
  const [own, digits] = partsOfName(name);
  const { entry, description } = digits === undefined
    ? await mapDescribed(client, own, options)
    : await mapRevision(client, { name: own, digits, options });
  const dispose = () => Promise.resolve(entry[Symbol.dispose]());
  return new Weights({ client, name: own, entry, description, options, dispose });
}

/** Weights that are mapped. */
interface DescribedEntry {
  readonly entry: MappedEntry;
  readonly description: WeightsDescription;
}

/** Maps a generation of a name whose revision begins with the given digits. */
async function mapRevision(
  client: StoreClient,
  { name, digits, options }: { readonly name: string; readonly digits: string; readonly options: MapWeightsOptions },
): Promise<DescribedEntry> {
  try {
    return await mapDescribed(client, name, { ...options, digest: digits });
  } catch (error) {
    if (!(error instanceof SharingError) || error.code !== "not-found") throw error;
    // The store, or the publisher, may be of an earlier version: then only the metadata have the revision.
    const newest = await mapDescribed(client, name, options);
    if (newest.description.digest?.startsWith(digits) === true) return newest;
    newest.entry[Symbol.dispose]();
    throw error;
  }
}

/** Maps the memory that is published under a name, and reads what it contains. */
async function mapDescribed(
  client: StoreClient,
  name: string,
  options: MapEntryOptions,
  known?: WeightsDescription,
): Promise<DescribedEntry> {
  const entry = await client.mapEntry(name, { ...options, move: bringBack });
  try {
    if (entry.isAsleep && isListInMemory(entry.metadata)) await entry.wake();
    const description = await readDescription(name, entry.metadata, entry.buffer, known);
    checkCapability(name, description, entry.buffer.device);
    return { entry, description };
  } catch (error) {
    entry[Symbol.dispose]();
    throw error;
  }
}

/** Splits a name such as `NAME@DIGEST` into the name and the digits of the revision, if there are any. */
function partsOfName(name: string): [name: string, digits?: string] {
  const at = name.indexOf("@");
  if (at < 0) return [name];
  const digits = name.slice(at + 1);
  if (!isDigest(digits, minimumDigits)) {
    throw new RangeError(
      `Cannot map ${JSON.stringify(name)}: give ${minimumDigits} to 64 hexadecimal digits of a revision behind the "@"`,
    );
  }
  return [name.slice(0, at), digits];
}
