/**
 * Where the tensors of files lie in device memory.
 *
 * @module
 */
import type { SafetensorsTensor } from "./safetensors_header.ts";

/** Every tensor begins at a multiple of so many bytes: any kernel may read it with its widest loads. */
const alignment = 256;

/** Successive bytes of a file that are successive in memory, too. */
export interface TensorRun {
  /** Where it begins in the data of the file. */
  readonly sourceOffset: number;
  /** Where it begins in memory. */
  readonly targetOffset: number;
  readonly byteLength: number;
}

/** The tensors of a file as they lie in memory. */
export interface TensorLayout {
  readonly tensors: readonly SafetensorsTensor[];
  /** What to copy, in the order of the file: a single run if the file has its tensors aligned. */
  readonly runs: readonly TensorRun[];
  /** Where the last one ends. */
  readonly end: number;
}

/**
 * Lays out tensors in the order of the file.
 *
 * @param begin where they may begin in memory
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
