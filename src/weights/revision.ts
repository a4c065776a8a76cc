/**
 * The revision of a model's weights: a digest of their content, independent of the files that they come from.
 *
 * @module
 */

import { type DeviceBuffer, type JsonValue, type ShareMemoryOptions, SharingError } from "../../mod.ts";
import { formatName, type SafetensorsTensor } from "../files/safetensors_header.ts";
import { treeDigests } from "./tree_digest.ts";
import { listOfTensors, type WeightsDescription } from "./weights_metadata.ts";

/** The properties of a tensor that its revision depends on. */
export interface DigestedTensor {
  readonly name: string;
  /** The dtype's name in safetensors files, such as `"BF16"`. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The digest of the tensor's bytes, as computed by `treeDigests`. */
  readonly digest: Uint8Array;
}

const encoder = new TextEncoder();

/**
 * Computes the revision of tensors, as 64 hexadecimal digits. The revision is the SHA-256 digest of a string with one
 * line for each tensor, sorted by name in the byte order of UTF-8. A line consists of the name, the dtype, the
 * dimensions joined by commas, and the digest of the tensor's bytes in hexadecimal. These fields are separated by zero
 * bytes; a line feed ends the line. The revision therefore does not depend on the tensors' order, on padding, or on how
 * they are split into files.
 */
export async function revisionOf(tensors: Iterable<DigestedTensor>): Promise<string> {
  const lines = [...tensors].map(({ name, dtype, shape, digest }) => ({
    name: encoder.encode(name),
    rest: encoder.encode(`\0${dtype}\0${shape.join(",")}\0${digest.toHex()}\n`),
  }));
  lines.sort((one, other) => compareBytes(one.name, other.name));
  const bytes = new Uint8Array(lines.reduce((sum, { name, rest }) => sum + name.length + rest.length, 0));
  let position = 0;
  for (const { name, rest } of lines) {
    bytes.set(name, position);
    bytes.set(rest, position + name.length);
    position += name.length + rest.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

function compareBytes(one: Uint8Array, other: Uint8Array): number {
  const length = Math.min(one.length, other.length);
  for (let i = 0; i < length; i++) if (one[i] !== other[i]) return one[i]! - other[i]!;
  return one.length - other.length;
}

/** Computes the revision of tensors that lie in a buffer. */
export async function revisionOfTensors(
  tensors: readonly SafetensorsTensor[],
  buffer: DeviceBuffer,
  signal: AbortSignal | undefined,
): Promise<string> {
  return await new GrowingRevision(tensors, buffer, signal).finish();
}

/** The number of parts in which the digests of tensors are computed while their bytes arrive. */
const mostParts = 8;

/** The revision of tensors whose bytes arrive in a buffer from its beginning on. The GPU hashes what is there already. */
export class GrowingRevision {
  /** The tensors that are not hashed yet, in the order of their offsets. */
  readonly #left: SafetensorsTensor[];
  readonly #hashed: SafetensorsTensor[] = [];
  readonly #digests: Promise<readonly Uint8Array[]>[] = [];
  readonly #buffer: DeviceBuffer;
  readonly #signal: AbortSignal | undefined;

  constructor(tensors: readonly SafetensorsTensor[], buffer: DeviceBuffer, signal: AbortSignal | undefined) {
    this.#left = tensors.toSorted((one, other) => one.byteOffset - other.byteOffset);
    this.#buffer = buffer;
    this.#signal = signal;
  }

  /** Hashes the tensors within the first `byteLength` bytes, which have arrived, if enough of them are new. */
  advance(byteLength: number): void {
    const first = this.#left[0]?.byteOffset ?? Infinity;
    if (byteLength - first < this.#buffer.byteLength / mostParts) return;
    const end = this.#left.findIndex((tensor) => tensor.byteOffset + tensor.byteLength > byteLength);
    if (end > 0) this.#hash(end);
  }

  /** Computes the revision of all tensors. Their bytes must have arrived, or be written by work of the buffer's stream. */
  async finish(): Promise<string> {
    this.#hash(this.#left.length);
    return await revisionOfDigests(this.#hashed, (await Promise.all(this.#digests)).flat());
  }

  /** Resolves when the GPU no longer reads the buffer. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#digests);
  }

  #hash(count: number): void {
    const tensors = this.#left.splice(0, count), buffer = this.#buffer, signal = this.#signal;
    const ranges = tensors.map(({ byteOffset, byteLength }) => ({ buffer, byteOffset, byteLength }));
    const digests = treeDigests(ranges, { stream: buffer.stream, ...signal === undefined ? {} : { signal } });
    // `finish` reports the error.
    digests.catch(() => {});
    this.#hashed.push(...tensors);
    this.#digests.push(digests);
  }
}

/** Computes the revision of tensors from the digests of their bytes. */
export async function revisionOfDigests(
  tensors: readonly SafetensorsTensor[],
  digests: readonly Uint8Array[],
): Promise<string> {
  return await revisionOf(tensors.map(({ name, dtype, shape }, index) => (
    { name, dtype: formatName(name, dtype), shape, digest: digests[index]! }
  )));
}

/**
 * Returns how weights in new memory share the memory of the same weights: if the lists of their tensors are equal, and
 * the revision of the other memory is theirs.
 */
export async function sharingOf(
  { metadata, buffer, tensors, digest }: {
    readonly metadata: JsonValue;
    readonly buffer: DeviceBuffer;
    readonly tensors: readonly SafetensorsTensor[];
    readonly digest: string;
  },
  signal: AbortSignal | undefined,
): Promise<ShareMemoryOptions> {
  const layoutIn = async (buffer: DeviceBuffer): Promise<string> => {
    const list = Uint8Array.from(await listOfTensors(metadata, buffer));
    return new Uint8Array(await crypto.subtle.digest("SHA-256", list)).toHex();
  };
  const layout = await layoutIn(buffer);
  return {
    layout,
    isSame: async (other) =>
      await layoutIn(other) === layout && await revisionOfTensors(tensors, other, signal) === digest,
  };
}

/**
 * Computes the revision of the weights in a buffer, and returns it. Throws unless it is the one with which they were
 * published, if that is known.
 *
 * @param options.action what cannot be done otherwise, such as `trust the weights "llama"`
 * @param options.advice the end of the error's message
 * @param options.begun the revision, if its computation has begun
 * @throws {SharingError} `digest-mismatch`
 */
export async function checkRevision(
  { digest, tensors }: WeightsDescription,
  buffer: DeviceBuffer,
  { signal, action, advice = "", begun }: {
    readonly signal: AbortSignal | undefined;
    readonly action: string;
    readonly advice?: string;
    readonly begun?: GrowingRevision | undefined;
  },
): Promise<string> {
  const found = await (begun ?? new GrowingRevision(tensors, buffer, signal)).finish();
  if (digest === undefined || found === digest) return found;
  throw new SharingError(
    "digest-mismatch",
    `Cannot ${action}: their digest is ${found}, and was ${digest} when they were published${advice}`,
  );
}
