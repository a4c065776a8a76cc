/**
 * Tree digests of ranges of device memory. The leaves of a tree are SHA-256 digests that the GPU computes in parallel.
 *
 * @module
 */
import type { CudaStream, DeviceBuffer } from "../../mod.ts";
import { ptx } from "../../kernels/tree_digest.ts";
import { throwIfAborted } from "../support/waiting/waiting.ts";

/** The size of a piece in bytes. Each piece is hashed by one thread. */
const pieceByteLength = 16_384;
const digestByteLength = 32;
const threadsOfBlock = 128;
/** The number of 64-bit words in the kernel's description of a range. */
const wordsOfRange = 4;

/** A range of a buffer's bytes. */
export interface DigestedRange {
  readonly buffer: DeviceBuffer;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** A range of bytes at one level of a tree. The kernel hashes all of its pieces. */
interface RangeLevel {
  /** The index of the range whose tree this level belongs to. */
  readonly index: number;
  readonly address: bigint;
  readonly byteLength: number;
}

/**
 * Computes a digest of each range: the SHA-256 digest of its bytes if the range fits into 16 KiB. Otherwise, the range
 * is split into pieces of 16 KiB, and its digest is that of the concatenated digests of the pieces, computed in the
 * same way. The bytes may be written by pending work of `stream`.
 */
export async function treeDigests(
  ranges: readonly DigestedRange[],
  { stream, signal }: { readonly stream: CudaStream; readonly signal?: AbortSignal },
): Promise<readonly Uint8Array[]> {
  throwIfAborted(signal, "the digests of memory");
  if (ranges.length === 0) return [];
  const { device } = stream;
  using pool = device.createPool();
  using module = device.loadModule(ptx);
  const kernel = module.kernel("tree_digest");
  using roots = pool.allocate(digestByteLength * ranges.length, stream);
  using stack = new DisposableStack();
  let levels = ranges.map(({ buffer, byteOffset, byteLength }, index): RangeLevel => ({
    index,
    address: buffer.address + BigInt(byteOffset),
    byteLength,
  }));
  while (levels.length > 0) {
    const counts = levels.map(({ byteLength }) => Math.max(1, Math.ceil(byteLength / pieceByteLength)));
    const inner = counts.reduce((sum, count) => count === 1 ? sum : sum + count, 0);
    const digests = inner === 0 ? roots : stack.use(pool.allocate(digestByteLength * inner, stream));
    const words = new BigUint64Array(wordsOfRange * levels.length);
    const next: RangeLevel[] = [];
    let first = 0, innerFirst = 0;
    for (const [position, { index, address, byteLength }] of levels.entries()) {
      const count = counts[position]!;
      let target = roots.address + BigInt(digestByteLength * index);
      if (count > 1) {
        target = digests.address + BigInt(digestByteLength * innerFirst);
        next.push({ index, address: target, byteLength: digestByteLength * count });
        innerFirst += count;
      }
      words.set([address, BigInt(byteLength), target, BigInt(first)], wordsOfRange * position);
      first += count;
    }
    const table = stack.use(pool.allocateArray(words, stream));
    const grid = Math.ceil(first / threadsOfBlock);
    kernel.launch({ grid, block: threadsOfBlock, stream }, table, levels.length, first);
    levels = next;
  }
  const bytes = await roots.read(Uint8Array, { stream, ...signal === undefined ? {} : { signal } });
  return ranges.map((_, index) => bytes.slice(digestByteLength * index, digestByteLength * (index + 1)));
}
