/**
 * Reads .npz files, which contain several arrays, into device memory, and writes device memory to .npz files.
 *
 * @module
 */
import type { DeviceArray, TypedArray } from "../../mod.ts";
import { optionsOf, type OrStream } from "../objects/streams/stream_option.ts";
import { checkOptions, type KnownOptions, shown, suggestName, whatIs } from "../support/validation.ts";
import { throwIfAborted } from "../support/waiting/waiting.ts";
import { type ByteSource, type FileSource, openSource } from "./byte_source.ts";
import { bytesOfBuffer } from "./device_transfers.ts";
import {
  fileOptionNames,
  fileReadOptionNames,
  type FileReadOptions,
  memoryFor,
  namesOf,
  ProgressCount,
} from "./file_options.ts";
import { writeNewFile } from "./new_file.ts";
import {
  arrayAllocator,
  checkDataByteLength,
  checkIsArray,
  type FileWriteOptions,
  filled,
  fillInOrder,
  finishedBefore,
  reading,
} from "./npy_arrays.ts";
import { encodeNpyHeader, npyHeaderRange, npyPrefixByteLength, parseNpyHeader } from "./npy_header.ts";
import { SequentialBytes, sequentialPieceByteLength } from "./sequential_bytes.ts";
import { bytesOfMember, readZipDirectory, type ZipMember, ZipWriter } from "./zip_archive.ts";
import { addEntries, RangeError, TypeError } from "../support/program_errors.ts";

/** Options of `readNpz`. */
export interface ReadNpzOptions extends FileReadOptions {
  /** The names of the arrays to read. Defaults to all. */
  names?: Iterable<string>;
  /** The dtype of arrays whose one-byte type has no name in NumPy; see `readNpy`. */
  dtype?: string;
}

/** Options of `writeNpz`. */
export interface WriteNpzOptions extends FileWriteOptions {
  /** Whether to compress the arrays, like `numpy.savez_compressed`. Defaults to false. */
  compressed?: boolean;
}

/** The arrays of a file, by name. Disposing of this object frees all of them; they can also be freed individually. */
export type NpzArrays = { readonly [name: string]: DeviceArray<TypedArray> } & Disposable;

const extension = ".npy";
const npzReadOptions: KnownOptions<ReadNpzOptions> = {
  action: "read a .npz file",
  names: { ...fileReadOptionNames, names: true, dtype: true },
};
const npzWriteOptions: KnownOptions<WriteNpzOptions> = {
  action: "write a .npz file",
  names: { ...fileOptionNames, stream: true, compressed: true },
};

/**
 * Reads the arrays of a .npz file into device memory, each like `readNpy`. Verifies the checksum of each array. The
 * file is read sequentially on a single thread; safetensors files load faster.
 *
 * @param source The path or URL of the file, or its bytes.
 * @param options Where to allocate the memory: `pool` or `device`.
 * @returns The arrays, by name. `numpy.savez` names positional arguments `arr_0`, `arr_1` and so on.
 * @throws {TypeError} If neither `pool` nor `device` is given, or an option is invalid
 * @throws {Error} If the file cannot be read, is not a valid .npz file, or contains an unsupported array or a member
 * that is not an array; the message names it. No memory stays allocated
 * @throws {RangeError} If the file has no array with one of the `names`
 * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
 *
 * @example
 * ```ts
 * // deno run --allow-ffi --allow-read=/tmp --allow-write=/tmp x.ts
 * import { open } from "./mod.ts";
 * import { readNpz, writeNpz } from "./npy.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using x = pool.allocateArray(new Int32Array([1, 2, 3]));
 * await writeNpz({ x }, "/tmp/x.npz", { compressed: true });
 *
 * using arrays = await readNpz("/tmp/x.npz", { pool });
 * console.log(await arrays.x!.toTypedArray());
 * ```
 */
export async function readNpz(source: FileSource, options: OrStream<ReadNpzOptions>): Promise<NpzArrays> {
  const named = optionsOf(options);
  checkOptions(named, npzReadOptions);
  const memory = memoryFor(named, npzReadOptions.action);
  throwIfAborted(named.signal, "the read of a .npz file");
  await using bytes = await openSource(source);
  return await reading(bytes.name, async () => {
    const members = chosenMembers(await readZipDirectory(bytes), bytes.name, named.names);
    const progress = new ProgressCount(members.reduce((sum, { byteLength }) => sum + byteLength, 0), named);
    const arrays: Record<string, DeviceArray<TypedArray>> = Object.create(null);
    const free = () => Object.values(arrays).forEach((array) => array[Symbol.dispose]());
    Object.defineProperty(arrays, Symbol.dispose, { value: free });
    return await filled(arrays as NpzArrays, async () => {
      for (const member of members) {
        const name = member.name.slice(0, -extension.length);
        const what = `${shown(name)} of ${bytes.name}`;
        arrays[name] = await reading(what, () => readMember(bytes, member, { ...named, ...memory, progress }));
      }
    });
  });
}

/**
 * Writes arrays to a .npz file that NumPy can load, each like `writeNpy`. The file is written atomically: it appears at
 * `path`, and replaces an existing file there, only after all of its data has reached the disk.
 *
 * @param arrays The arrays, by name. They must not change until the promise resolves.
 * @param path The path or `file:` URL of the file.
 * @throws {TypeError} If a value is not a DeviceArray, .npy files cannot represent its dtype, or an option is invalid
 * @throws {ReferenceError} If an array was freed
 * @throws {Error} If the file cannot be written, with the runtime's reason. No partial file is left behind
 */
export async function writeNpz(
  arrays: Readonly<Record<string, DeviceArray<TypedArray>>> | ReadonlyMap<string, DeviceArray<TypedArray>>,
  path: string | URL,
  given: OrStream<WriteNpzOptions> = {},
): Promise<void> {
  const options = optionsOf(given);
  checkOptions(options, npzWriteOptions);
  const { compressed = false, signal } = options;
  if (typeof compressed !== "boolean") {
    throw new TypeError(`Cannot use ${whatIs(compressed)} as compressed: give true or false`);
  }
  const entries = arrays instanceof Map ? [...arrays] : Object.entries(arrays);
  const headers = entries.map(([name, array]) => {
    checkIsArray(array, `write ${shown(name)}`);
    return encodeNpyHeader(array).bytes;
  });
  await finishedBefore(entries.map(([, array]) => array), options);
  const progress = new ProgressCount(entries.reduce((sum, [, { byteLength }]) => sum + byteLength, 0), options);
  await writeNewFile(path, async (file) => {
    const archive = new ZipWriter(file);
    for (const [index, [name, array]] of entries.entries()) {
      const pieces = bytesToWrite(headers[index]!, array, {
        stream: options.stream ?? array.stream,
        ...signal === undefined ? {} : { signal },
        progress,
      });
      await archive.write(name + extension, pieces, { isDeflated: compressed });
    }
    await archive.finish();
  });
}

async function* bytesToWrite(
  header: Uint8Array<ArrayBuffer>,
  array: DeviceArray<TypedArray>,
  { progress, ...options }: {
    stream: DeviceArray<TypedArray>["stream"];
    signal?: AbortSignal;
    progress: ProgressCount;
  },
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  yield header;
  const { byteLength } = array;
  const read = (begin: number) =>
    bytesOfBuffer(array, begin, Math.min(sequentialPieceByteLength, byteLength - begin)).read(Uint8Array, options);
  for (let begin = 0; begin < byteLength; begin += sequentialPieceByteLength) {
    const bytes = await read(begin);
    yield bytes as Uint8Array<ArrayBuffer>;
    progress.add(bytes.length);
  }
}

/** Returns the members to read. */
function chosenMembers(
  members: readonly ZipMember[],
  file: string,
  names: Iterable<string> | undefined,
): readonly ZipMember[] {
  if (names === undefined) {
    const other = members.find(({ name }) => !name.endsWith(extension));
    if (other === undefined) return members;
    throw new Error(
      `its member ${shown(other.name)} is not an array; give the names of those to read: { names: [...] }`,
    );
  }
  return [...namesOf(names)!].map((name) => {
    const found = members.find((member) => member.name === name + extension);
    if (found !== undefined) return found;
    const known = members.map((member) => member.name.replace(/\.npy$/, ""));
    throw new RangeError(
      `Cannot read ${shown(name)} of ${file}: it has no such array: ${suggestName(name, known, "there are")}`,
    );
  });
}

async function readMember(
  source: ByteSource,
  member: ZipMember,
  { progress, ...options }: FileReadOptions & ReturnType<typeof memoryFor> & {
    dtype?: string;
    progress: ProgressCount;
  },
): Promise<DeviceArray<TypedArray>> {
  const pieces = bytesOfMember(source, member);
  try {
    const data = new SequentialBytes(pieces);
    const prefix = await data.read(npyPrefixByteLength);
    const { begin, byteLength, isLatin1 } = npyHeaderRange(prefix);
    const rest = await data.read(Math.max(0, begin + byteLength - prefix.length));
    const header = new Uint8Array(prefix.length + rest.length);
    header.set(prefix);
    header.set(rest, prefix.length);
    if (header.length < begin + byteLength) throw new Error("it ends in its header");
    const parsed = parseNpyHeader(header.subarray(begin, begin + byteLength), { isLatin1 });
    checkDataByteLength(parsed, member.byteLength - begin - byteLength);
    progress.add(begin + byteLength);
    // The option applies only to arrays whose dtype the file does not identify.
    const { dtype, ...others } = options;
    const allocate = arrayAllocator(parsed, {
      ...others,
      ...parsed.dtype === undefined && dtype !== undefined ? { dtype } : {},
    });
    return await filled(allocate(), async (array) => {
      const { signal } = options;
      await fillInOrder(array, { data, header: parsed, signal, onPiece: (length) => progress.add(length) });
      // Reach the end of the data: the checksum is verified there.
      await data.read(1);
    });
  } finally {
    await pieces.return(undefined);
  }
}

addEntries(readNpz, writeNpz);
