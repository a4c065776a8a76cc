/**
 * Reads NumPy's .npy and .npz files into device memory, and writes device memory to such files.
 *
 * Files are read and written with the runtime's own file system, for which Deno needs `--allow-read` or
 * `--allow-write`. Bytes and Blobs need no permission. The headers of files are validated before they are used. Python
 * objects (pickles) are never loaded.
 *
 * @example
 * ```ts
 * // deno run --allow-ffi --allow-read=/tmp --allow-write=/tmp numbers.ts
 * import { open } from "./mod.ts";
 * import { readNpy, writeNpy } from "./npy.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using x = pool.allocateArray(new Float32Array([1, 2, 3]));
 * await writeNpy(x, "/tmp/numbers.npy"); // in Python: numpy.load("/tmp/numbers.npy")
 *
 * using y = await readNpy("/tmp/numbers.npy", { pool, type: Float32Array });
 * console.log(y.dtype, y.shape, await y.toTypedArray());
 * ```
 *
 * @module
 */
export { readNpy, type ReadNpyOptions, writeNpy } from "./src/files/npy_arrays.ts";
export {
  type NpzArrays,
  readNpz,
  type ReadNpzOptions,
  writeNpz,
  type WriteNpzOptions,
} from "./src/files/npz_arrays.ts";
export type { FileSource } from "./src/files/byte_source.ts";
export type { FileOptions, FileProgress, FileReadOptions } from "./src/files/file_options.ts";
export type { FileWriteOptions } from "./src/files/npy_arrays.ts";
