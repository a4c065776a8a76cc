/**
 * Reads safetensors files into device memory, and writes device memory to such files. A model that is split into
 * several files is read through its index.
 *
 * Files are read and written with the runtime's own file system, for which Deno needs `--allow-read` or
 * `--allow-write`. Bytes and Blobs need no permission. The headers of files are validated before they are used.
 *
 * @example
 * ```ts
 * // deno run --allow-ffi --allow-read=/tmp --allow-write=/tmp layer.ts
 * import { open } from "./mod.ts";
 * import { readSafetensors, writeSafetensors } from "./safetensors.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using bias = pool.allocateArray(new Float32Array([1, 2, 3]));
 * await writeSafetensors({ bias }, "/tmp/layer.safetensors");
 *
 * using tensors = await readSafetensors("/tmp/layer.safetensors", { pool });
 * console.log(await tensors.get("bias")!.toTypedArray());
 * ```
 *
 * @module
 */
export {
  DeviceTensors,
  type LoadSafetensorsOptions,
  openSafetensors,
  type OpenSafetensorsOptions,
  readSafetensors,
  type ReadSafetensorsOptions,
  SafetensorsFile,
  writeSafetensors,
  type WriteSafetensorsOptions,
} from "./src/files/safetensors_files.ts";
export type { SafetensorsTensor } from "./src/files/safetensors_header.ts";
export type { FileSource } from "./src/files/byte_source.ts";
export type { FileOptions, FileProgress, FileReadOptions } from "./src/files/file_options.ts";
export type { FileWriteOptions } from "./src/files/npy_arrays.ts";
