/**
 * The revision of weights: a digest of what they are, wherever they come from.
 *
 * @module
 */

/** What a revision depends on of a tensor. */
export interface DigestedTensor {
  readonly name: string;
  /** The dtype as safetensors files name it, such as `"BF16"`. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The digest of its bytes; see `treeDigests`. */
  readonly digest: Uint8Array;
}

const encoder = new TextEncoder();

/**
 * Returns the revision of tensors as 64 hexadecimal digits: the SHA-256 digest of a line for each of them, sorted by the
 * bytes of the names in UTF-8. A line is the name, the dtype, the sizes of the shape joined by commas, and the digest of
 * the bytes in hexadecimal, with a zero byte between them and a line feed at the end. The same tensors have the same
 * revision in any file, in any order and with any padding.
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
