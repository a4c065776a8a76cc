/**
 * The layout of a file's tensors in device memory.
 *
 * @module
 */
import type { SafetensorsTensor } from "./safetensors_header.ts";

/** The alignment of each tensor in bytes, which is sufficient for the widest loads of any kernel. */
const alignment = 256;

/** A range of bytes that is contiguous both in the file and in memory. */
export interface TensorRun {
  /** The offset of the range in the file's data. */
  readonly sourceOffset: number;
  /** The offset of the range in memory. */
  readonly targetOffset: number;
  readonly byteLength: number;
}

/** The layout of a file's tensors in memory. */
export interface TensorLayout {
  readonly tensors: readonly SafetensorsTensor[];
  /** The ranges to copy, in file order. A single range if the tensors in the file are already aligned. */
  readonly runs: readonly TensorRun[];
  /** The offset in memory at which the last tensor ends. */
  readonly end: number;
}

/**
 * Lays out tensors in file order.
 *
 * @param begin the lowest offset in memory at which a tensor may begin
 */
export function layOutTensors(tensors: readonly SafetensorsTensor[], begin = 0): TensorLayout {
  const runs: TensorRun[] = [];
  const placed: SafetensorsTensor[] = [];
  let end = begin;
  for (const tensor of tensors) {
    const { byteOffset: sourceOffset, byteLength } = tensor;
    const targetOffset = Math.ceil(end / alignment) * alignment;
    end = targetOffset + byteLength;
    placed.push({ ...tensor, byteOffset: targetOffset });
    const last = runs.at(-1);
    const isSuccessive = last !== undefined && last.targetOffset + last.byteLength === targetOffset &&
      last.sourceOffset + last.byteLength === sourceOffset;
    if (isSuccessive) runs[runs.length - 1] = { ...last, byteLength: last.byteLength + byteLength };
    else if (byteLength > 0) runs.push({ sourceOffset, targetOffset, byteLength });
  }
  return { tensors: placed, runs, end };
}
