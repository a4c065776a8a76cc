/**
 * Reads safetensors files into device memory, and writes device memory to safetensors files.
 *
 * @module
 */
import type { CudaStream, DeviceArray, DeviceBuffer, TypedArray } from "../../mod.ts";
import { optionsOf, type OrStream } from "../objects/streams/stream_option.ts";
import { elementTypeOf } from "../memory/dtypes.ts";
import { checkOptions, type KnownOptions, shown, suggestName, whatIs } from "../support/validation.ts";
import { throwIfAborted } from "../support/waiting/waiting.ts";
import { type ByteSource, cutError, type FileSource, openSource } from "./byte_source.ts";
import { openWriters, readRanges, type SourceRange, type TransferRange, writeRanges } from "./device_transfers.ts";
import {
  fileOptionNames,
  type FileOptions,
  fileReadOptionNames,
  type FileReadOptions,
  memoryFor,
  namesOf,
} from "./file_options.ts";
import { writeNewFile } from "./new_file.ts";
import { checkIsArray, type FileWriteOptions, filled, finishedBefore, reading } from "./npy_arrays.ts";
import { pathBeside, writeFully } from "./runtime_files.ts";
import { encodeSafetensorsHeader, readSafetensorsHeader, type SafetensorsTensor } from "./safetensors_header.ts";
import { readSafetensorsIndex } from "./safetensors_index.ts";
import { layOutTensors, type TensorRun } from "./tensor_layout.ts";
import { addEntries, RangeError, ReferenceError, TypeError } from "../support/program_errors.ts";

/** Options of `openSafetensors`. */
export interface OpenSafetensorsOptions {
  /** The names of the tensors to read. Defaults to all. */
  names?: Iterable<string>;
}

/** Options of `readSafetensors`. */
export interface ReadSafetensorsOptions extends FileReadOptions, OpenSafetensorsOptions {}

/** Options of `writeSafetensors`. */
export interface WriteSafetensorsOptions extends FileWriteOptions {
  /** The metadata to store in the file, such as `{ format: "pt" }`. */
  metadata?: Readonly<Record<string, string>> | ReadonlyMap<string, string>;
}

/** Options of `SafetensorsFile.load`. */
export interface LoadSafetensorsOptions extends FileOptions {
  /** The stream whose current work must complete before the memory is filled. Defaults to the buffer's own stream. */
  stream?: CudaStream;
}

const openOptions: KnownOptions<OpenSafetensorsOptions> = { action: "open a safetensors file", names: { names: true } };
const readOptions: KnownOptions<ReadSafetensorsOptions> = {
  action: "read a safetensors file",
  names: { ...fileReadOptionNames, names: true },
};
const loadOptions: KnownOptions<LoadSafetensorsOptions> = {
  action: "load a safetensors file",
  names: { ...fileOptionNames, stream: true },
};
const writeOptions: KnownOptions<WriteSafetensorsOptions> = {
  action: "write a safetensors file",
  names: { ...fileOptionNames, stream: true, metadata: true },
};

/** One of the files that contain the tensors, and the ranges to read from it. */
interface Shard {
  readonly source: ByteSource;
  readonly dataOffset: number;
  readonly runs: readonly TensorRun[];
}

/** Reads bytes of a tensor, from an offset in the tensor on, until `target` is full. */
export let readTensor: (
  file: SafetensorsFile,
  tensor: SafetensorsTensor,
  target: Uint8Array,
  offset: number,
) => Promise<void>;

/**
 * An open safetensors file, or a model in several files. Contains the metadata, and the layout of the tensors in
 * memory. Created by `openSafetensors`.
 */
export class SafetensorsFile implements AsyncDisposable {
  /**
   * The tensors, in file order. `load` places each tensor at its `byteOffset` in the memory, which is a multiple of 256
   * bytes.
   */
  readonly tensors: readonly SafetensorsTensor[];
  /** The metadata stored in the file. */
  readonly metadata: ReadonlyMap<string, string>;
  /** The size in bytes of the memory that `load` requires. */
  readonly byteLength: number;
  readonly #shards: readonly Shard[];
  readonly #name: string;
  #isClosed = false;

  static {
    readTensor = async (file, { byteOffset }, target, offset) => {
      if (target.length === 0) return;
      const begin = byteOffset + offset;
      const isWithin = ({ targetOffset, byteLength }: TensorRun): boolean =>
        targetOffset <= begin && begin + target.length <= targetOffset + byteLength;
      for (const { source, dataOffset, runs } of file.#shards) {
        const run = runs.find(isWithin);
        if (run === undefined) continue;
        const position = dataOffset + run.sourceOffset + begin - run.targetOffset;
        const length = await source.read(target, position);
        if (length < target.length) throw cutError(source, position + length);
        return;
      }
      throw new RangeError(`Cannot read ${file.#name}: there is no such tensor`);
    };
  }

  /**
   * Use `openSafetensors` instead.
   *
   * @ignore
   */
  constructor(name: string, shards: readonly Shard[], contents: {
    tensors: readonly SafetensorsTensor[];
    metadata: ReadonlyMap<string, string>;
    byteLength: number;
  }) {
    this.#name = name;
    this.#shards = shards;
    this.tensors = contents.tensors;
    this.metadata = contents.metadata;
    this.byteLength = contents.byteLength;
  }

  /**
   * Loads the tensors into memory, each at its `byteOffset`. Once the returned promise resolves, all streams can use
   * them. Bytes between tensors are not modified.
   *
   * @param buffer Memory of at least `byteLength` bytes, such as memory of a store.
   * @throws {RangeError} If the buffer is too small
   * @throws {ReferenceError} If the file was closed, or the buffer was freed
   * @throws {Error} If the file cannot be read or was truncated, with the reason
   */
  async load(buffer: DeviceBuffer, given: OrStream<LoadSafetensorsOptions> = {}): Promise<void> {
    const options = optionsOf(given);
    checkOptions(options, loadOptions);
    if (this.#isClosed) throw new ReferenceError(`Cannot read ${this.#name}: it was closed`);
    if (buffer.byteLength < this.byteLength) {
      throw new RangeError(
        `Cannot read ${this.#name} into ${buffer.byteLength} bytes of memory: its tensors need ${this.byteLength}`,
      );
    }
    await finishedBefore([buffer], options);
    const ranges = this.#shards.flatMap(({ source, dataOffset, runs }) =>
      runs.map(({ sourceOffset, targetOffset, byteLength }): SourceRange => (
        { source, fileOffset: dataOffset + sourceOffset, byteLength, buffer, byteOffset: targetOffset }
      ))
    );
    await readRanges(ranges, { ...options, what: `the read of ${this.#name}` });
  }

  /** Closes the file. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    for (const { source } of this.#shards) await source[Symbol.asyncDispose]();
  }
}

/**
 * The tensors of a safetensors file in device memory: a `Map` from names to arrays, in file order. The arrays are views
 * of a single buffer. Created by `readSafetensors`. Disposing of this object frees the memory of all tensors.
 */
export class DeviceTensors extends Map<string, DeviceArray<TypedArray>> implements Disposable {
  /** The buffer that contains all tensors. An `Exporter` can offer it to other processes. */
  readonly buffer: DeviceBuffer;
  /** The metadata stored in the file. */
  readonly metadata: ReadonlyMap<string, string>;

  /**
   * Use `readSafetensors` instead.
   *
   * @ignore
   */
  constructor(buffer: DeviceBuffer, { tensors, metadata }: Pick<SafetensorsFile, "tensors" | "metadata">) {
    super();
    this.buffer = buffer;
    this.metadata = metadata;
    for (const tensor of tensors) this.set(tensor.name, arrayOf(tensor, buffer));
  }

  /** Frees the memory, in stream order. */
  [Symbol.dispose](): void {
    this.buffer[Symbol.dispose]();
  }
}

/**
 * Reads a safetensors file into device memory. All tensors share a single allocation, in which each is aligned to 256
 * bytes. For a model that is split into several files, pass the path of its index, such as
 * `model.safetensors.index.json`.
 *
 * Pieces of the file are read concurrently, through page-locked memory. The whole header is validated before any memory
 * is allocated.
 *
 * @param source The path or `file:` URL of a file or an index, or the bytes of a file.
 * @param options Where to allocate the memory, `pool` or `device`, and optionally the `names` of the tensors to read.
 * @returns A `Map` of arrays with their shapes and dtypes. Elements without a typed array, such as those of
 * `"bfloat16"`, are represented as unsigned integers that hold the bits.
 * @throws {TypeError} If neither `pool` nor `device` is given, or an option is invalid
 * @throws {RangeError} If there is no tensor with one of the `names`
 * @throws {Error} If the file cannot be read or is not a valid safetensors file, with the reason. No
 * memory stays allocated
 * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
 *
 * @example
 * ```ts
 * // deno run --allow-ffi --allow-read=/tmp --allow-write=/tmp model.ts
 * import { open } from "./mod.ts";
 * import { readSafetensors, writeSafetensors } from "./safetensors.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using weight = pool.allocateArray(Uint16Array, { shape: [2, 2], dtype: "bfloat16" });
 * weight.fill(0x3f80);
 * await writeSafetensors({ weight }, "/tmp/model.safetensors", { metadata: { format: "pt" } });
 *
 * using tensors = await readSafetensors("/tmp/model.safetensors", { pool });
 * for (const [name, { dtype, shape }] of tensors) console.log(name, dtype, shape);
 * ```
 */
export async function readSafetensors(
  source: FileSource,
  options: OrStream<ReadSafetensorsOptions>,
): Promise<DeviceTensors> {
  const named = optionsOf(options);
  checkOptions(named, readOptions);
  const { pool, stream } = memoryFor(named, readOptions.action);
  const { names, signal, onProgress } = named;
  throwIfAborted(signal, "the read of a safetensors file");
  await using file = await openSafetensors(source, names === undefined ? {} : { names });
  // Even if all tensors are empty, allocate a byte, so that they have an address.
  return await filled(new DeviceTensors(pool.allocate(Math.max(1, file.byteLength), stream), file), async (tensors) => {
    await file.load(tensors.buffer, {
      ...signal === undefined ? {} : { signal },
      ...onProgress === undefined ? {} : { onProgress },
    });
  });
}

/**
 * Opens a safetensors file and validates its header, without reading the tensors. Use this to inspect a file, or to
 * load it into existing memory, such as memory of a store.
 *
 * @param source The path or `file:` URL of a file or an index, or the bytes of a file.
 * @throws {TypeError} If `source` is not one of these, or an option is invalid
 * @throws {RangeError} If there is no tensor with one of the `names`
 * @throws {Error} If the file cannot be read or is not a valid safetensors file, with the reason
 *
 * @example
 * ```ts
 * // deno run --allow-ffi --allow-read=/tmp --allow-write=/tmp model.ts
 * import { open } from "./mod.ts";
 * import { openSafetensors, writeSafetensors } from "./safetensors.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using bias = pool.allocateArray(new Float32Array([1, 2, 3]));
 * await writeSafetensors({ bias }, "/tmp/bias.safetensors");
 *
 * await using file = await openSafetensors("/tmp/bias.safetensors");
 * using memory = cuda.device(0).allocate(file.byteLength);
 * await file.load(memory, { onProgress: ({ loaded, total }) => console.log(`${loaded} of ${total} bytes`) });
 * ```
 */
export async function openSafetensors(
  source: FileSource,
  options: OpenSafetensorsOptions = {},
): Promise<SafetensorsFile> {
  checkOptions(options, openOptions);
  await using opened = new AsyncDisposableStack();
  const first = opened.use(await openSource(source));
  const files = first.path?.endsWith(".json") === true
    ? await openShards(first, (each) => opened.use(each))
    : [{ source: first, names: undefined }];
  // The index is no longer needed once the files that it lists are open.
  if (files[0]?.source !== first) await first[Symbol.asyncDispose]();
  const wanted = namesOf(options.names);
  const shards: Shard[] = [];
  const all: SafetensorsTensor[] = [];
  const tensors: SafetensorsTensor[] = [];
  const metadata = new Map<string, string>();
  let byteLength = 0;
  for (const { source, names } of files) {
    const header = await reading(source.name, async () => {
      const header = await readSafetensorsHeader(source);
      const found = new Set(header.tensors.map(({ name }) => name));
      const missing = names?.difference(found).values().next().value;
      if (missing !== undefined) {
        throw new Error(`it has no tensor ${shown(missing)}, which the index says is in it; get both anew`);
      }
      return header;
    });
    // Skip tensors that the index omits or assigns to another file: they are not part of the model.
    const own = header.tensors.filter(({ name }) => names?.has(name) ?? true);
    all.push(...own);
    const layout = layOutTensors(own.filter(({ name }) => wanted?.has(name) ?? true), byteLength);
    byteLength = layout.end;
    tensors.push(...layout.tensors);
    shards.push({ source, dataOffset: header.dataOffset, runs: layout.runs });
    for (const [key, value] of header.metadata) metadata.set(key, value);
  }
  const known = all.map(({ name }) => name);
  const unknown = wanted?.difference(new Set(known)).values().next().value;
  if (unknown !== undefined) {
    throw new RangeError(
      `Cannot read ${shown(unknown)} of ${first.name}: it has no such tensor: ${
        suggestName(unknown, known, "there are")
      }`,
    );
  }
  opened.move();
  return new SafetensorsFile(first.name, shards, { tensors, metadata, byteLength });
}

/** Returns the array of a tensor that lies in a buffer. */
export function arrayOf(
  { dtype, shape, byteOffset, byteLength }: SafetensorsTensor,
  buffer: DeviceBuffer,
): DeviceArray<TypedArray> {
  const { type } = elementTypeOf(dtype)!;
  return buffer.subarray(byteOffset, byteOffset + byteLength).as(type, { shape, dtype });
}

/**
 * Writes arrays to a safetensors file. The file is written atomically: it appears at `path`, and replaces an existing
 * file there, only after all of its data has reached the disk. Tensors with the widest elements are stored first, as in
 * other implementations, so that each tensor is aligned to its element size.
 *
 * @param tensors The arrays, by name: an object, a `Map`, or the result of `readSafetensors`. They must not change
 * until the promise resolves.
 * @param path The path or `file:` URL of the file.
 * @throws {TypeError} If a value is not a DeviceArray, safetensors files cannot represent its dtype, or an option is
 * invalid
 * @throws {ReferenceError} If an array was freed
 * @throws {Error} If the file cannot be written, with the runtime's reason. No partial file is left behind
 */
export async function writeSafetensors(
  tensors: Readonly<Record<string, DeviceArray<TypedArray>>> | ReadonlyMap<string, DeviceArray<TypedArray>>,
  path: string | URL,
  given: OrStream<WriteSafetensorsOptions> = {},
): Promise<void> {
  const options = optionsOf(given);
  checkOptions(options, writeOptions);
  const entries = tensors instanceof Map ? [...tensors] : Object.entries(tensors);
  for (const [name, array] of entries) checkIsArray(array, `write ${shown(name)}`);
  const bitsOf = ({ dtype }: DeviceArray<TypedArray>) => elementTypeOf(dtype)!.bits;
  entries.sort(([a, first], [b, second]) => bitsOf(second) - bitsOf(first) || (a < b ? -1 : 1));
  let end = 0;
  const described = entries.map(([name, { dtype, shape, byteLength }]): SafetensorsTensor => {
    end += byteLength;
    return { name, dtype, shape, byteOffset: end - byteLength, byteLength };
  });
  const header = encodeSafetensorsHeader({ metadata: metadataOf(options.metadata), tensors: described });
  await finishedBefore(entries.map(([, array]) => array), options);
  await writeNewFile(path, async (file, openAgain) => {
    await writeFully(file, header, 0);
    const handles = await openWriters(file, openAgain, end);
    const ranges = described.map(({ byteOffset, byteLength }, index): TransferRange => (
      { fileOffset: header.length + byteOffset, byteLength, buffer: entries[index]![1], byteOffset: 0 }
    ));
    const what = `the write of ${shown(String(path))}`;
    await writeRanges(handles, ranges.filter(({ byteLength }) => byteLength > 0), { ...options, what });
  });
}

async function openShards(
  index: ByteSource,
  keep: (source: ByteSource) => ByteSource,
): Promise<{ source: ByteSource; names: ReadonlySet<string> }[]> {
  const files = await reading(index.name, () => readSafetensorsIndex(index));
  const shards = [];
  for (const [file, names] of files) {
    shards.push({ source: keep(await openSource(pathBeside(index.path!, file))), names });
  }
  return shards;
}

function metadataOf(metadata: WriteSafetensorsOptions["metadata"] = {}): ReadonlyMap<string, string> {
  if (typeof metadata !== "object" || metadata === null) {
    throw new TypeError(`Cannot use ${whatIs(metadata)} as metadata: give an object of strings`);
  }
  const members = new Map(metadata instanceof Map ? metadata : Object.entries(metadata));
  for (const [key, value] of members) {
    if (typeof value === "string") continue;
    throw new TypeError(`Cannot write ${shown(key)} of the metadata: it is ${whatIs(value)}, and must be a string`);
  }
  return members;
}

addEntries(openSafetensors, readSafetensors, writeSafetensors);
