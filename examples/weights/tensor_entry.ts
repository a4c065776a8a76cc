/**
 * How others are told where the tensors of a file lie in the memory of a store.
 *
 * @module
 */
import type { JsonValue } from "../../mod.ts";
import type { SafetensorsFile, SafetensorsTensor } from "../../safetensors.ts";

/** The metadata of an entry with these tensors. */
export function describeTensors(
  tensors: readonly SafetensorsTensor[],
  metadata: SafetensorsFile["metadata"],
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
): Pick<SafetensorsFile, "tensors" | "metadata"> {
  if (!isObject(metadata) || metadata.format !== "safetensors" || !Array.isArray(metadata.tensors)) {
    throw new Error("The entry has no tensors: its metadata is not of this program");
  }
  const tensors = metadata.tensors.map((description: unknown, index): SafetensorsTensor => {
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
  return isListOfCounts(range) ? { name, dtype, shape, byteOffset: range[0]!, byteLength: range[1]! } : undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isListOfCounts(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((count) => Number.isSafeInteger(count) && count >= 0);
}
