/**
 * The index of a model that is split into several safetensors files: a JSON file that maps each tensor to its file.
 *
 * @module
 */
import { shown } from "../support/validation.ts";
import { bytesAt, type ByteSource } from "./byte_source.ts";
import { isObject } from "./safetensors_header.ts";

/** The maximum size of an index in bytes: enough for a million tensors. */
const maximumByteLength = 200_000_000;

/**
 * Reads an index. Returns the names of the tensors in each file.
 *
 * @throws {Error} If the file is not a valid index, or refers to files in other folders
 */
export async function readSafetensorsIndex(source: ByteSource): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const { byteLength } = source;
  if (byteLength > maximumByteLength) {
    refuse(`it has ${byteLength} bytes, and an index may have ${maximumByteLength}`);
  }
  let index: unknown;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await bytesAt(source, 0, byteLength));
    index = JSON.parse(text);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("Cannot")) throw error;
    refuse(`it is not JSON (${(error as Error).message})`);
  }
  const map = isObject(index) && Object.hasOwn(index, "weight_map") ? index.weight_map : undefined;
  if (!isObject(map)) return refuse("it has no object weight_map");
  const files = new Map<string, Set<string>>();
  for (const [tensor, file] of Object.entries(map)) {
    if (typeof file !== "string") refuse(`its weight_map has ${shown(file)} as the file of ${shown(tensor)}`);
    // The model's files are all in the index's own folder. Reject any other path.
    if (!/^[^/\\\0]+\.safetensors$/.test(file)) {
      refuse(`its weight_map has ${shown(file)} as the file of ${shown(tensor)}, which is not one beside the index`);
    }
    const tensors = files.get(file);
    if (tensors === undefined) files.set(file, new Set([tensor]));
    else tensors.add(tensor);
  }
  return files;
}

function refuse(reason: string): never {
  throw new Error(`it is not the index of a model: ${reason}`);
}
