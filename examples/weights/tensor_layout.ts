/**
 * Where the tensors of a file lie in the memory of a store, and how others are told of them.
 *
 * @module
 */
import type { JsonValue } from "../../mod.ts";
import { byteLengthOf, isListOfCounts, isObject, type SafetensorsHeader, type Tensor } from "./safetensors.ts";

/** Every tensor begins at a multiple of so many bytes: any kernel may read it with its widest loads. */
const alignment = 256;

/** Successive bytes of a file that are successive in memory, too. */
export interface Run {
  /** Where it begins in the data of the file. */
  readonly sourceOffset: number;
  /** Where it begins in memory. */
  readonly targetOffset: number;
  readonly byteLength: number;
}

/** The tensors of a file as they lie in memory. */
export interface TensorLayout {
  readonly tensors: readonly Tensor[];
  /** What to copy, in the order of the file: a single run if the file has its tensors aligned. */
  readonly runs: readonly Run[];
  /** The size of all of it in memory. */
  readonly byteLength: number;
}

/** Lays out tensors in the order of the file. */
export function layOutTensors(tensors: readonly Tensor[]): TensorLayout {
  const runs: Run[] = [];
  const placed: Tensor[] = [];
  let end = 0;
  for (const tensor of tensors) {
    const { byteOffset: sourceOffset, byteLength } = tensor;
    const targetOffset = Math.ceil(end / alignment) * alignment;
    end = targetOffset + byteLength;
    placed.push({ ...tensor, byteOffset: targetOffset });
    const last = runs.at(-1);
    const isSuccessive = last !== undefined && last.targetOffset + last.byteLength === targetOffset;
    if (isSuccessive) runs[runs.length - 1] = { ...last, byteLength: last.byteLength + byteLength };
    else if (byteLength > 0) runs.push({ sourceOffset, targetOffset, byteLength });
  }
  return { tensors: placed, runs, byteLength: end };
}

/** The metadata of an entry with these tensors. */
export function describeTensors(
  tensors: readonly Tensor[],
  metadata: SafetensorsHeader["metadata"],
): JsonValue {
  return {
    format: "safetensors",
    tensors: tensors.map(({ name, dtype, shape, byteOffset, byteLength }) => (
      { name, dtype, shape: [...shape], byteOffset, byteLength }
    )),
    metadata: Object.fromEntries(metadata),
  };
}

/**
 * The tensors of an entry. What its metadata says comes from another process, and is checked.
 *
 * @throws {Error} If the entry has no tensors, or one of them is not in its memory
 */
export function tensorsOfEntry(
  { metadata, byteLength }: { readonly metadata: JsonValue | undefined; readonly byteLength: number },
): Pick<SafetensorsHeader, "tensors" | "metadata"> {
  if (!isObject(metadata) || metadata.format !== "safetensors" || !Array.isArray(metadata.tensors)) {
    throw new Error("The entry has no tensors: its metadata is not of this program");
  }
  const tensors = metadata.tensors.map((description: unknown, index): Tensor => {
    const tensor = isObject(description) ? readTensor(description) : undefined;
    if (tensor === undefined || tensor.byteOffset + tensor.byteLength > byteLength) {
      throw new Error(`The entry describes no tensor at ${index}, or one that is not in its ${byteLength} bytes`);
    }
    return tensor;
  });
  const strings = Object.entries(isObject(metadata.metadata) ? metadata.metadata : {})
    .filter((member): member is [string, string] => typeof member[1] === "string");
  return { tensors, metadata: new Map(strings) };
}

function readTensor({ name, dtype, shape, byteOffset, byteLength }: Readonly<Record<string, unknown>>) {
  if (typeof name !== "string" || typeof dtype !== "string" || !isListOfCounts(shape)) return undefined;
  const range = [byteOffset, byteLength];
  if (!isListOfCounts(range) || !hasByteLength({ dtype, shape }, range[1]!)) return undefined;
  return { name, dtype, shape, byteOffset: range[0]!, byteLength: range[1]! };
}

function hasByteLength({ dtype, shape }: Pick<Tensor, "dtype" | "shape">, byteLength: number): boolean {
  try {
    return byteLengthOf(dtype, shape) === byteLength;
  } catch {
    return false;
  }
}
