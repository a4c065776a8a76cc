/**
 * The memory in which a product of matrices is computed: the operands of a whole warp, with one row of a matrix after
 * another.
 *
 * @module
 */
import { productWorkspaceByteLength } from "../../abi/launch_record.ts";

const sizes = {
  /** The offset in linear memory of each lane's fragments. */
  lanes: 128,
  /** The elements of A that are not converted: rows of the product, each with all of its elements. */
  a: 2048,
  b: 2048,
  c: 1024,
  d: 1024,
  /** The result of the first block of a product with several blocks. */
  between: 1024,
  /** The infinities and NaNs among the elements of D. */
  special: 1024,
  /** For a sparse A: for each of its elements, the row of B by which it is multiplied. 16 bits each. */
  sources: 2048,
  /** Which rows of A and columns of B have uninitialized bits, a byte for each. */
  uninitialized: 64,
  /** The fragments of lanes that do not exist or have exited. */
  absent: 2048,
  /** Converted operands of the products of a batch. */
  operands: 24_576,
  /** Matrices C and D of the products of a batch. */
  accumulators: 20_480,
} as const;

/** A part of the workspace. */
export type WorkspacePart = keyof typeof sizes;

const ends: number[] = [];
for (const size of Object.values(sizes)) ends.push((ends.at(-1) ?? 0) + size);

/** The offset of each part from the beginning of the workspace, in bytes. */
export const workspace = Object.fromEntries(
  Object.entries(sizes).map(([part, size], index) => [part, ends[index]! - size]),
) as Readonly<Record<WorkspacePart, number>>;

/** The size of the fragments that the threads of a warp can leave at once, in bytes for each thread. */
export const mostFragmentBytes: number = sizes.absent;
/** The size of the memory for converted operands, in bytes. */
export const mostOperandBytes: number = sizes.operands;
/** The size of the memory for matrices C and D, in bytes. */
export const mostAccumulatorBytes: number = sizes.accumulators;

if (ends.at(-1)! > productWorkspaceByteLength) throw new Error("The workspace of matrix products is too small");
