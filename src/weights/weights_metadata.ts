/**
 * The metadata that describes the weights in the memory of a store.
 *
 * @module
 */
import { type CudaDevice, type DeviceBuffer, type JsonValue, SharingError } from "../../mod.ts";
import {
  byteLengthOfTensor,
  dtypesOfFormat,
  formatName,
  isListOfCounts,
  isObject,
  type SafetensorsTensor,
} from "../files/safetensors_header.ts";
import { isDigest } from "../support/sha256.ts";
import { version as libraryVersion } from "../support/version.ts";

/**
 * The maximum length, in characters, of a list of tensors in the metadata. A longer list is stored in the memory
 * itself.
 */
const maximumListed = 2 ** 20;
/** The maximum length, in bytes, of a list that is stored in the memory: enough for about two million tensors. */
const maximumManifestByteLength = 2 ** 28;
/** The name and the version of the metadata's format. */
const format = "weights", version = 1;

/** The decoded description of an entry's weights. */
export interface WeightsDescription {
  /** The revision of the weights, as 64 hexadecimal digits. Undefined if the publisher did not compute it. */
  readonly digest: string | undefined;
  readonly tensors: readonly SafetensorsTensor[];
  /**
   * The compute capability of the device for which a module was loaded before it was published, such as `"9.0"`.
   * Undefined for the tensors of files, which are the same on every device, and if the publisher did not state it.
   */
  readonly capability: string | undefined;
  /** The list of tensors as it was published, which has been checked. Undefined if it was not read. */
  readonly list?: readonly unknown[];
}

/** The properties of weights that their metadata state besides the tensors. */
export interface StatedWeights {
  /** The revision; null until it has been computed. */
  readonly digest: string | null;
  readonly rank: readonly [rank: number, count: number];
  /** What the ranks of a model have in common; undefined if there are none, or if they were not told. */
  readonly set: string | undefined;
  /** The device that the weights are on; undefined as long as they are on none. */
  readonly device: CudaDevice | undefined;
}

/** The location of the list of tensors, if it is stored in the memory. */
export interface ManifestPlace {
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** The encoded list of tensors. */
export interface EncodedTensors {
  /** The list in UTF-8, to be stored in the memory after the tensors. Undefined if the list is part of the metadata. */
  readonly manifest: Uint8Array<ArrayBuffer> | undefined;
  /** Returns the metadata to publish the entry with. */
  metadata(stated: StatedWeights): JsonValue;
}

/** A summary of the weights of an entry, read from metadata that have not been checked. */
export interface WeightsSummary {
  readonly digest: string | undefined;
  /** The number of tensors; undefined if they are listed in the memory. */
  readonly tensors: number | undefined;
  /** The dtypes of the tensors, as safetensors files name them. */
  readonly dtypes: readonly string[];
}

/** Returns a summary of an entry's weights. Undefined if it has none. */
export function summaryOfWeights(metadata: JsonValue | undefined): WeightsSummary | undefined {
  if (!isObject(metadata) || metadata.format !== format) return undefined;
  const { digest, tensors } = metadata;
  const listed = Array.isArray(tensors) ? tensors.filter(isObject) : undefined;
  const dtypes = new Set(listed?.map(({ dtype }) => dtype).filter((dtype) => typeof dtype === "string"));
  return { digest: typeof digest === "string" ? digest : undefined, tensors: listed?.length, dtypes: [...dtypes] };
}

/** Returns whether the list of an entry's tensors lies in its memory, not in its metadata. */
export function isListInMemory(metadata: JsonValue | undefined): boolean {
  return isObject(metadata) && metadata.manifest !== undefined;
}

/**
 * Encodes a list of tensors.
 *
 * @param end the offset in memory after the last tensor, at which the list may be stored
 */
export function encodeTensors(tensors: readonly SafetensorsTensor[], end: number): EncodedTensors {
  const listed = tensors.map(({ name, dtype, shape, byteOffset, byteLength }) => (
    { name, dtype: formatName(name, dtype), shape: [...shape], byteOffset, byteLength, kind: "tensor" }
  ));
  const json = JSON.stringify(listed);
  if (json.length <= maximumListed) {
    return { manifest: undefined, metadata: (stated) => ({ ...membersOf(stated), tensors: listed }) };
  }
  const manifest = new TextEncoder().encode(json);
  const place = { byteOffset: end, byteLength: manifest.length };
  return { manifest, metadata: (stated) => ({ ...membersOf(stated), manifest: place }) };
}

function membersOf({ digest, rank, set, device }: StatedWeights): Record<string, JsonValue> {
  const made: Record<string, JsonValue> = { poolpass: libraryVersion };
  if (device !== undefined) made.capability = capabilityOf(device);
  return { format, version, digest, rank: [...rank], set: rank[1] === 1 ? null : set ?? null, made };
}

function capabilityOf(device: CudaDevice): string {
  return device.computeCapability.join(".");
}

/**
 * Decodes the description of the weights in an entry's memory. Any client may publish metadata, so every field is
 * validated.
 *
 * @param known a description of memory of the same size, whose list of tensors may be the same
 * @throws {SharingError} `bad-message` if the metadata does not describe weights, or is invalid
 */
export async function readDescription(
  name: string,
  metadata: JsonValue | undefined,
  buffer: DeviceBuffer,
  known?: WeightsDescription,
): Promise<WeightsDescription> {
  const refuse = (why: string): never => {
    throw new SharingError("bad-message", `Cannot use the weights ${JSON.stringify(name)}: ${why}`);
  };
  if (!isObject(metadata) || metadata.format !== format) return refuse("the entry's metadata describe none");
  if (metadata.version !== version) return refuse(`their metadata are of version ${JSON.stringify(metadata.version)}`);
  const { digest, made } = metadata;
  if (digest !== null && !(typeof digest === "string" && isDigest(digest))) {
    return refuse("their digest is not 64 hexadecimal digits");
  }
  let list: unknown = metadata.tensors;
  if (metadata.manifest !== undefined) {
    const { byteOffset, byteLength } = placeOf(metadata.manifest, buffer) ?? refuse("their list is not in the memory");
    if (byteLength > maximumManifestByteLength) return refuse(`the list of their tensors has ${byteLength} bytes`);
    const bytes = await buffer.subarray(byteOffset, byteOffset + byteLength).read(Uint8Array);
    try {
      list = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    } catch {
      return refuse("the list of their tensors is not JSON");
    }
  }
  if (!Array.isArray(list)) return refuse("there is no list of their tensors");
  const isOfFiles = list.every((tensor: unknown) => !isObject(tensor) || (tensor.kind ?? "tensor") === "tensor");
  const capability = !isOfFiles && isObject(made) && typeof made.capability === "string" ? made.capability : undefined;
  const stated = { digest: digest ?? undefined, capability, list };
  // The next generation mostly has the same list: to compare two takes a fraction of the time of checking one.
  if (JSON.stringify(list) === JSON.stringify(known?.list)) return { ...stated, tensors: known!.tensors };
  const names = new Set<string>();
  const tensors = list.map((tensor: unknown): SafetensorsTensor => {
    if (!isObject(tensor)) return refuse("a tensor is not an object");
    const { name, dtype, shape, byteOffset, byteLength } = tensor;
    if (typeof name !== "string") return refuse("a tensor has no name");
    const what = `tensor ${JSON.stringify(name.slice(0, 200))}`;
    if (names.size === names.add(name).size) return refuse(`${what} is there twice`);
    // Publishers in other languages may state strides for a transposed tensor, but arrays support only the default
    // order of dimensions.
    if (tensor.strides !== undefined) return refuse(`${what} is transposed in memory`);
    if (typeof dtype !== "string" || !isListOfCounts(shape)) return refuse(`${what} has no dtype or shape`);
    let expected: number;
    try {
      expected = byteLengthOfTensor(dtype, shape);
    } catch (error) {
      return refuse(`${what} cannot be: ${(error as Error).message}`);
    }
    const place = placeOf({ byteOffset, byteLength } as JsonValue, buffer);
    if (place?.byteLength !== expected) return refuse(`${what} has not the ${expected} bytes of its shape`);
    return { name, dtype: dtypesOfFormat[dtype]!, shape, ...place };
  });
  return { ...stated, tensors };
}

/**
 * Throws if weights are those of a module that was loaded for another kind of device: libraries may convert its tensors
 * for the device.
 *
 * @throws {SharingError} `incompatible`
 */
export function checkCapability(name: string, { capability }: WeightsDescription, device: CudaDevice): void {
  const own = capabilityOf(device);
  if (capability === undefined || capability === own) return;
  throw new SharingError(
    "incompatible",
    `Cannot use the weights ${JSON.stringify(name)}: they were published with capability ${capability}, and this ` +
      `process has ${own}; publish them anew, or from files`,
  );
}

/** Returns the list of the tensors in an entry's memory, in UTF-8. Its digest is that of the layout. */
export async function listOfTensors(metadata: JsonValue, buffer: DeviceBuffer): Promise<Uint8Array> {
  const place = manifestOf(metadata, buffer);
  if (place !== undefined) {
    return await buffer.subarray(place.byteOffset, place.byteOffset + place.byteLength).read(Uint8Array);
  }
  return new TextEncoder().encode(JSON.stringify(isObject(metadata) ? metadata.tensors : null));
}

/** Returns where the list of tensors lies in an entry's memory; undefined if it is part of the metadata. */
export function manifestOf(metadata: JsonValue | undefined, buffer: DeviceBuffer): ManifestPlace | undefined {
  if (!isObject(metadata) || metadata.manifest === undefined) return undefined;
  return placeOf(metadata.manifest, buffer);
}

/**
 * Returns how weights differ from others in their tensors' names, dtypes, shapes or places, for an error message.
 * Undefined if they do not differ.
 */
export function differenceOf(one: WeightsDescription, other: WeightsDescription): string | undefined {
  if (one.tensors === other.tensors) return undefined;
  const known = new Map(one.tensors.map((tensor) => [tensor.name, tensor]));
  for (const { name, dtype, shape, byteOffset } of other.tensors) {
    const tensor = known.get(name);
    if (tensor === undefined) return `has a tensor ${JSON.stringify(name)}, which is new`;
    const shapes = [tensor.shape, shape].map((shape) => shape.join(" x "));
    if (tensor.dtype !== dtype || shapes[0] !== shapes[1]) {
      return `has ${JSON.stringify(name)} as ${dtype} of ${shapes[1]} instead of ${tensor.dtype} of ${shapes[0]}`;
    }
    if (tensor.byteOffset !== byteOffset) return `has ${JSON.stringify(name)} at another place`;
    known.delete(name);
  }
  const [missing] = known.keys();
  return missing === undefined ? undefined : `has no tensor ${JSON.stringify(missing)}`;
}

/** Returns a range if it is valid and lies within the buffer, or else undefined. */
function placeOf(place: JsonValue, { byteLength: size }: DeviceBuffer): ManifestPlace | undefined {
  if (!isObject(place)) return undefined;
  const { byteOffset, byteLength } = place;
  if (!isListOfCounts([byteOffset, byteLength])) return undefined;
  const range = { byteOffset: byteOffset as number, byteLength: byteLength as number };
  return range.byteOffset + range.byteLength <= size ? range : undefined;
}
