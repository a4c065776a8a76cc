/**
 * Tree digests of the tensors of a file, which the CPU computes. They do not depend on the device or on what was copied
 * to it.
 *
 * @module
 */
import { readTensor, type SafetensorsFile } from "../files/safetensors_files.ts";
import type { SafetensorsTensor } from "../files/safetensors_header.ts";
import { throwIfAborted, type WaitOptions } from "../support/waiting/waiting.ts";

/** The size of a piece in bytes, which is that of `treeDigests`. */
const pieceByteLength = 16_384;
/** The number of bytes that are read at once: a multiple of the size of a piece. */
const chunkByteLength = 4 * 2 ** 20;
const digestByteLength = 32;

/** Computes the digests that `treeDigests` returns for the tensors of a file, from the bytes in the file. */
export async function fileDigests(
  file: SafetensorsFile,
  { signal }: WaitOptions = {},
): Promise<readonly Uint8Array[]> {
  const digests: Uint8Array[] = [];
  for (const tensor of file.tensors) digests.push(await digestOfTensor(file, tensor, signal));
  return digests;
}

async function digestOfTensor(
  file: SafetensorsFile,
  tensor: SafetensorsTensor,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const { byteLength } = tensor;
  const count = Math.max(1, Math.ceil(byteLength / pieceByteLength));
  const digests = new Uint8Array(digestByteLength * count);
  for (let begin = 0; begin === 0 || begin < byteLength; begin += chunkByteLength) {
    throwIfAborted(signal, "the digests of a file");
    const chunk = new Uint8Array(Math.min(chunkByteLength, byteLength - begin));
    await readTensor(file, tensor, chunk, begin);
    digests.set(await pieceDigests(chunk), digestByteLength * (begin / pieceByteLength));
  }
  return await rootOf(digests);
}

/** Returns the root of a tree whose lowest level consists of the given digests. */
async function rootOf(digests: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return digests.length === digestByteLength ? digests : await rootOf(await pieceDigests(digests));
}

/** Returns the digests of the pieces of bytes, one after another. */
async function pieceDigests(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const count = Math.max(1, Math.ceil(bytes.length / pieceByteLength));
  const digests = await Promise.all(Array.from({ length: count }, (_, index) => (
    crypto.subtle.digest("SHA-256", bytes.subarray(pieceByteLength * index, pieceByteLength * (index + 1)))
  )));
  const joined = new Uint8Array(digestByteLength * count);
  for (const [index, digest] of digests.entries()) joined.set(new Uint8Array(digest), digestByteLength * index);
  return joined;
}
