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
  type JsonValue,
  SharingError,
  type StoreClient,
  type StoreEntry,
  type TypedArray,
  type WaitOptions,
} from "../../mod.ts";
import { type FileProgress, type FileSource, openSafetensors } from "../../safetensors.ts";
import { arrayOf } from "../files/safetensors_files.ts";
import { formatName, type SafetensorsTensor } from "../files/safetensors_header.ts";
import { checkOptions, type KnownOptions } from "../support/validation.ts";
import { revisionOf } from "./revision.ts";
import { treeDigests } from "./tree_digest.ts";
import { encodeTensors, readDescription } from "./weights_metadata.ts";

/** Options of `publishWeights`. */
export interface PublishWeightsOptions extends WaitOptions {
  /** The device to load the weights on. Defaults to the first device. */
  device?: CudaDevice;
  /** Called repeatedly with the number of bytes read so far. */
  onProgress?: (progress: FileProgress) => void;
}

/** Options of `mapWeights`. */
export interface MapWeightsOptions extends WaitOptions {
  /** The stream of the returned buffer. Defaults to the default stream of the device that holds the weights. */
  stream?: CudaStream;
  /** Whether to map the memory for writing. False by default: a kernel that then writes to the memory fails. */
  write?: boolean;
}

const publishOptions: KnownOptions<PublishWeightsOptions> = {
  action: "publish weights",
  names: { device: true, onProgress: true, signal: true },
};
const mapOptions: KnownOptions<MapWeightsOptions> = {
  action: "map weights",
  names: { stream: true, write: true, signal: true },
};
/** The alignment, in bytes, of the tensors and of the list of tensors. */
const alignment = 256;
/** The minimum number of hexadecimal digits that identify a revision. */
const minimumDigits = 8;

/** The state of a `Weights` object. */
interface WeightsParts {
  readonly name: string;
  readonly digest: string | undefined;
  readonly tensors: readonly SafetensorsTensor[];
  readonly buffer: DeviceBuffer;
  dispose(): Promise<void>;
}

/**
 * The weights of a model in the memory of a store: a `Map` from names to arrays, which are views of a single buffer.
 * Created by `publishWeights` or `mapWeights`. Disposing of this object does not remove the weights from the store.
 */
export class Weights extends Map<string, DeviceArray<TypedArray>> implements AsyncDisposable {
  /** The name that the weights are published under, without a revision. */
  readonly name: string;
  /**
   * The revision of the weights, as 64 hexadecimal digits: a digest of the names, dtypes, shapes and bytes of all
   * tensors. Undefined if the publisher did not compute it.
   */
  readonly digest: string | undefined;
  /** The buffer that contains all tensors. */
  readonly buffer: DeviceBuffer;
  readonly #parts: WeightsParts;

  /**
   * Use `publishWeights` or `mapWeights` instead.
   *
   * @ignore
   */
  constructor(parts: WeightsParts) {
    super();
    this.name = parts.name;
    this.digest = parts.digest;
    this.buffer = parts.buffer;
    this.#parts = parts;
    for (const tensor of parts.tensors) this.set(tensor.name, arrayOf(tensor, parts.buffer));
  }

  /**
   * Computes the revision of the current contents of the memory, and returns it.
   *
   * @throws {SharingError} `digest-mismatch` if the revision differs from `digest`: the memory was modified after it was
   * published
   */
  async verify(options: WaitOptions = {}): Promise<string> {
    const { name, digest, tensors, buffer } = this.#parts;
    const found = await revisionOfTensors(tensors, buffer, options);
    if (digest === undefined || found === digest) return found;
    throw new SharingError(
      "digest-mismatch",
      `Cannot trust the weights ${JSON.stringify(name)}: their digest is ${found}, and was ${digest} when they were ` +
        "published; publish them anew",
    );
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
 * published the name; `peer-gone`
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
  const { device, signal, onProgress } = options;
  const waiting = signal === undefined ? {} : { signal };
  await using file = await openSafetensors(source);
  const { tensors } = file;
  const end = Math.ceil(file.byteLength / alignment) * alignment;
  const encoded = encodeTensors(tensors, end);
  const byteLength = encoded.manifest === undefined ? Math.max(1, file.byteLength) : end + encoded.manifest.length;
  const memory = await client.create(name, byteLength, {
    ...waiting,
    ...device === undefined ? {} : { device },
    metadata: encoded.metadata(null),
  });
  try {
    const { buffer } = memory;
    await file.load(buffer, { ...waiting, ...onProgress === undefined ? {} : { onProgress } });
    if (encoded.manifest !== undefined) buffer.subarray(end).copyFrom(encoded.manifest);
    const digest = await revisionOfTensors(tensors, buffer, waiting);
    await memory.publish(buffer.stream, { metadata: encoded.metadata(digest) });
    return new Weights({ name, digest, tensors, buffer, dispose: () => memory[Symbol.asyncDispose]() });
  } catch (error) {
    await memory[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Maps the weights that are published under a name. If there are none yet, waits until some are published.
 *
 * @param name The name, or `NAME@DIGEST` to accept only a specific revision, given by at least its first 8 digits.
 * @throws {RangeError} If the digits of the revision are too few, too many, or not hexadecimal
 * @throws {SharingError} `not-found` if another revision is published; `bad-message` if the published memory does not
 * contain weights; `device-not-visible`, `not-permitted`, `peer-gone`
 */
export async function mapWeights(
  client: StoreClient,
  name: string,
  options: MapWeightsOptions = {},
): Promise<Weights> {
  checkOptions(options, mapOptions);
  const [own, digits] = partsOfName(name);
  const { buffer, metadata } = await mapEntry(client, own, options);
  try {
    const { digest, tensors } = await readDescription(own, metadata, buffer);
    if (digits !== undefined && digest?.startsWith(digits) !== true) {
      const message = `Cannot map ${JSON.stringify(name)}: the weights of this name are ${
        digest === undefined ? "of no known revision" : `revision ${digest}`
      }`;
      throw new SharingError("not-found", message);
    }
    return new Weights({ name: own, digest, tensors, buffer, dispose: () => Promise.resolve(buffer.free()) });
  } catch (error) {
    buffer.free();
    throw error;
  }
}

/**
 * Maps the memory that is published under a name, and returns it with the metadata of the same generation: if another
 * one is published in between, maps that.
 */
async function mapEntry(
  client: StoreClient,
  name: string,
  options: MapWeightsOptions,
): Promise<{ buffer: DeviceBuffer; metadata: JsonValue | undefined }> {
  let before = await entryOf(client, name);
  while (true) {
    const buffer = await client.map(name, options);
    const after = await entryOf(client, name).catch((error) => {
      buffer.free();
      throw error;
    });
    const isSame = after !== undefined && before !== undefined && after.generation === before.generation &&
      after.since === before.since;
    if (isSame) return { buffer, metadata: after.metadata };
    buffer.free();
    before = after;
  }
}

async function entryOf(client: StoreClient, name: string): Promise<StoreEntry | undefined> {
  return (await client.entries()).find((entry) => entry.name === name);
}

/** Splits a name such as `NAME@DIGEST` into the name and the digits of the revision, if there are any. */
function partsOfName(name: string): [name: string, digits?: string] {
  const at = name.indexOf("@");
  if (at < 0) return [name];
  const digits = name.slice(at + 1);
  if (!/^[0-9a-f]*$/.test(digits) || digits.length < minimumDigits || digits.length > 64) {
    throw new RangeError(
      `Cannot map ${JSON.stringify(name)}: give ${minimumDigits} to 64 hexadecimal digits of a revision behind the "@"`,
    );
  }
  return [name.slice(0, at), digits];
}

async function revisionOfTensors(
  tensors: readonly SafetensorsTensor[],
  buffer: DeviceBuffer,
  { signal }: WaitOptions,
): Promise<string> {
  const ranges = tensors.map(({ byteOffset, byteLength }) => ({ buffer, byteOffset, byteLength }));
  const waiting = signal === undefined ? {} : { signal };
  const digests = await treeDigests(ranges, { stream: buffer.stream, ...waiting });
  return await revisionOf(tensors.map(({ name, dtype, shape }, index) => (
    { name, dtype: formatName(name, dtype), shape, digest: digests[index]! }
  )));
}
