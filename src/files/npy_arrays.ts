/**
 * Reads .npy files into device memory, and writes device memory to .npy files.
 *
 * @module
 */
import {
  type CudaStream,
  DeviceArray,
  type MemoryPool,
  type TypedArray,
  type TypedArrayConstructor,
} from "../../mod.ts";
import { type ArrayElement, elementTypeOf } from "../memory/dtypes.ts";
import { optionsOf, type OrStream } from "../objects/streams/stream_option.ts";
import { checkOptions, type KnownOptions, shown, whatIs } from "../support/validation.ts";
import { throwIfAborted } from "../support/waiting/waiting.ts";
import { bytesAt, type ByteSource, type FileSource, openSource } from "./byte_source.ts";
import { bytesOfBuffer, openWriters, readRanges, writeRanges } from "./device_transfers.ts";
import {
  fileOptionNames,
  type FileOptions,
  fileReadOptionNames,
  type FileReadOptions,
  memoryFor,
  ProgressCount,
} from "./file_options.ts";
import { writeNewFile } from "./new_file.ts";
import {
  encodeNpyHeader,
  type NpyHeader,
  npyHeaderRange,
  npyPrefixByteLength,
  oneByteDtypes,
  parseNpyHeader,
  swapBytes,
} from "./npy_header.ts";
import { writeFully } from "./runtime_files.ts";
import { piecesOfRange, SequentialBytes, sequentialPieceByteLength } from "./sequential_bytes.ts";
import { addEntries, TypeError } from "../support/program_errors.ts";

/** Options of `readNpy`. */
export interface ReadNpyOptions<T extends TypedArray = TypedArray> extends FileReadOptions {
  /** The element type that the file must have, as the constructor of a typed array. Defaults to the file's own type. */
  type?: TypedArrayConstructor<T>;
  /**
   * The dtype that the file must have. Defaults to the file's own dtype. Required for one-byte types that the file does
   * not identify because NumPy has no name for them, such as `"float8_e4m3fn"`.
   */
  dtype?: string;
}

/** Options for writing an array. */
export interface FileWriteOptions extends FileOptions {
  /**
   * The stream that writes the data. The call first waits for the work enqueued on it so far. Defaults to each array's
   * own stream.
   */
  stream?: CudaStream;
}

/** Smaller files are read sequentially, through the staging memory of ordinary copies. */
const smallByteLength = 2 ** 20;

const npyReadOptions: KnownOptions<ReadNpyOptions> = {
  action: "read a .npy file",
  names: { ...fileReadOptionNames, type: true, dtype: true },
};
export const npyWriteOptions: KnownOptions<FileWriteOptions> = {
  action: "write a .npy file",
  names: { ...fileOptionNames, stream: true },
};

/**
 * Reads an array from a .npy file into device memory. The array has the file's shape and dtype, and must be freed like
 * any other array. Big-endian numbers are converted to little-endian. An array in Fortran order is converted to C order
 * with the same shape; the conversion needs host memory for two copies of the data.
 *
 * An array of `bfloat16`, as written by `ml_dtypes`, is returned as an array with the dtype `"bfloat16"` and the typed
 * array `Uint16Array`, which holds the bits. For the other types of `ml_dtypes`, pass `dtype`, because the file does
 * not identify them.
 *
 * @param source The path or URL of the file, or its bytes.
 * @param options Where to allocate the memory: `pool` or `device`. `type` selects the static element type of the
 * result.
 * @throws {TypeError} If neither `pool` nor `device` is given, an option is invalid, or the file's element type differs
 * from the requested type
 * @throws {Error} If the file cannot be read or is not a valid .npy file of numbers, with the reason.
 * No memory stays allocated
 * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
 *
 * @example
 * ```ts
 * // deno run --allow-ffi --allow-read=/tmp --allow-write=/tmp x.ts
 * import { open } from "./mod.ts";
 * import { readNpy, writeNpy } from "./npy.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using x = pool.allocateArray(Float32Array, { shape: [2, 3] });
 * x.copyFrom(new Float32Array([1, 2, 3, 4, 5, 6]));
 * await writeNpy(x, "/tmp/x.npy");
 *
 * using y = await readNpy("/tmp/x.npy", { pool });
 * console.log(y.shape, await y.toTypedArray());
 * ```
 */
export function readNpy<T extends TypedArray = TypedArray>(
  source: FileSource,
  options: OrStream<ReadNpyOptions<T>>,
): Promise<DeviceArray<T>>;
export async function readNpy(
  source: FileSource,
  given: OrStream<ReadNpyOptions> = {},
): Promise<DeviceArray<TypedArray>> {
  const options = optionsOf(given);
  checkOptions(options, npyReadOptions);
  const memory = memoryFor(options, npyReadOptions.action);
  throwIfAborted(options.signal, "the read of a .npy file");
  await using bytes = await openSource(source);
  return await reading(bytes.name, async () => {
    const prefix = await bytesAt(bytes, 0, Math.min(npyPrefixByteLength, bytes.byteLength));
    const { begin, byteLength, isLatin1 } = npyHeaderRange(prefix);
    const dataOffset = begin + byteLength;
    if (dataOffset > bytes.byteLength) {
      throw new Error(`its header would end at byte ${dataOffset}, and it has ${bytes.byteLength} bytes`);
    }
    const header = parseNpyHeader(await bytesAt(bytes, begin, byteLength), { isLatin1 });
    checkDataByteLength(header, bytes.byteLength - dataOffset);
    const allocate = arrayAllocator(header, { ...options, ...memory });
    if (header.byteLength >= smallByteLength && !isRearranged(header)) {
      return await filled(allocate(), async (array) => {
        await readLargeArray(array, { source: bytes, dataOffset, header }, options);
      });
    }
    const range = { begin: dataOffset, end: bytes.byteLength };
    const data = new SequentialBytes(piecesOfRange(bytes, range));
    const progress = new ProgressCount(header.byteLength, options);
    return await filled(allocate(), async (array) => {
      await fillInOrder(array, { data, header, signal: options.signal, onPiece: (length) => progress.add(length) });
    });
  });
}

/**
 * Writes an array to a .npy file that NumPy can load. The file is written atomically: it appears at `path`, and
 * replaces an existing file there, only after all of its data has reached the disk. `bfloat16` and 8-bit floats are
 * written as `ml_dtypes` writes them: in Python, restore the type with `numpy.load(path).view(dtype)`.
 *
 * @param array The array. It must not change until the promise resolves.
 * @param path The path or `file:` URL of the file.
 * @throws {TypeError} If `array` is not a DeviceArray, .npy files cannot represent its dtype, or an option is invalid
 * @throws {ReferenceError} If the array was freed
 * @throws {Error} If the file cannot be written, with the runtime's reason. No partial file is left behind
 */
export async function writeNpy(
  array: DeviceArray<TypedArray>,
  path: string | URL,
  given: OrStream<FileWriteOptions> = {},
): Promise<void> {
  const options = optionsOf(given);
  checkOptions(options, npyWriteOptions);
  checkIsArray(array, "write");
  const { bytes } = encodeNpyHeader(array);
  await finishedBefore([array], options);
  await writeNewFile(path, async (file, openAgain) => {
    await writeFully(file, bytes, 0);
    const { byteLength } = array;
    const files = await openWriters(file, openAgain, byteLength);
    const range = { fileOffset: bytes.length, byteLength, buffer: array, byteOffset: 0 };
    await writeRanges(files, [range], { ...options, what: `the write of ${shown(String(path))}` });
  });
}

/** Waits for all work that may still modify the arrays. */
export async function finishedBefore(
  arrays: Iterable<{ readonly stream: CudaStream }>,
  { stream, signal }: FileWriteOptions,
): Promise<void> {
  const streams = stream === undefined ? new Set([...arrays].map((array) => array.stream)) : [stream];
  for (const each of streams) await each.finished(signal === undefined ? {} : { signal });
}

/** Throws a `TypeError` unless `array` is an array in device memory. */
export function checkIsArray(array: unknown, action: string): asserts array is DeviceArray<TypedArray> {
  if (array instanceof DeviceArray) return void array.address;
  throw new TypeError(
    `Cannot ${action} ${
      whatIs(array, "DeviceBuffer")
    } as an array: give a DeviceArray, such as buffer.as(Float32Array)`,
  );
}

/**
 * Calls `body`. If it throws an error whose message lacks a subject, such as "it ends in its header", prefixes the
 * message with the name of the file or array, such as `Cannot read "a.npy": `.
 */
export async function reading<T>(what: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    if (!(error instanceof Error) || !/^its? /.test(error.message)) throw error;
    throw new (error instanceof TypeError ? TypeError : Error)(`Cannot read ${what}: ${error.message}`);
  }
}

/** Calls `fill`, and frees the array if `fill` fails. */
export async function filled<T extends Disposable>(array: T, fill: (array: T) => Promise<void>): Promise<T> {
  try {
    await fill(array);
    return array;
  } catch (error) {
    array[Symbol.dispose]();
    throw error;
  }
}

/** Throws unless the number of bytes after the header equals the size of the header's array. */
export function checkDataByteLength({ byteLength, shape }: NpyHeader, found: number): void {
  if (found === byteLength) return;
  const array = `an array of shape (${shape.join(", ")}) with ${byteLength} bytes`;
  if (found < byteLength) throw new Error(`it is cut: its header is of ${array}, and ${found} follow`);
  throw new Error(
    `its header is of ${array}, and ${found} follow; several arrays in one file are read from .npz files`,
  );
}

/**
 * Checks the header's element type against the requested type, and returns a function that allocates the array.
 *
 * @throws {TypeError} If the types differ
 */
export function arrayAllocator(
  { dtype: stated, descr, shape }: NpyHeader,
  { type, dtype, pool, stream }: ReadNpyOptions & ReturnType<typeof memoryFor>,
): () => DeviceArray<TypedArray> {
  const found = stated ?? dtype;
  const raw = ["uint8", ...oneByteDtypes];
  if (stated === undefined && (dtype === undefined || !raw.includes(dtype))) {
    const names = raw.slice(1).join(", ");
    throw new TypeError(
      `its elements, ${shown(descr)}, are of a type of one byte that NumPy has no name for; give one of ` +
        `${names}, such as { dtype: "${raw[1]}" }, or "uint8" for the bits`,
    );
  }
  if (dtype !== undefined && dtype !== found && !(found === "bfloat16" && dtype === "uint16")) {
    throw new TypeError(`its elements are of type ${found}, and not ${shown(dtype)}`);
  }
  const element = elementTypeOf(dtype ?? found!)! satisfies ArrayElement;
  if (type !== undefined && type !== element.type as unknown) {
    throw new TypeError(
      `its elements are of type ${found}: give ${element.type.name} instead of ${
        typeof type === "function" ? type.name : whatIs(type)
      }`,
    );
  }
  // Pools and caching allocators have the same method, but the type checker cannot tell.
  return () => (pool as MemoryPool).allocateArray(element.type, { shape, dtype: dtype ?? found! }, stream);
}

function isRearranged({ isFortranOrder, shape }: NpyHeader): boolean {
  return isFortranOrder && shape.filter((size) => size !== 1).length > 1;
}

/** Returns the function that converts big-endian numbers; undefined if no conversion is needed. */
function conversionOf({ isBigEndian, itemByteLength, dtype }: NpyHeader): ((bytes: Uint8Array) => void) | undefined {
  if (!isBigEndian) return undefined;
  const isComplex = dtype!.startsWith("complex");
  return (bytes) => swapBytes(bytes, isComplex ? itemByteLength / 2 : itemByteLength);
}

async function readLargeArray(
  array: DeviceArray<TypedArray>,
  { source, dataOffset, header }: { source: ByteSource; dataOffset: number; header: NpyHeader },
  options: FileReadOptions,
): Promise<void> {
  const { signal } = options;
  // The transfer's own streams are not ordered after the allocation, so wait for it here.
  await array.stream.finished(signal === undefined ? {} : { signal });
  const range = { source, fileOffset: dataOffset, byteLength: header.byteLength, buffer: array, byteOffset: 0 };
  await readRanges([range], { ...options, what: `the read of ${source.name}`, convert: conversionOf(header) });
}

/** Reads an array's elements sequentially, and copies them to the array in stream order. */
export async function fillInOrder(
  array: DeviceArray<TypedArray>,
  { data, header, signal, onPiece }: {
    data: SequentialBytes;
    header: NpyHeader;
    signal: AbortSignal | undefined;
    onPiece: (byteLength: number) => void;
  },
): Promise<void> {
  const { byteLength } = header;
  const convert = conversionOf(header);
  const rearranged = isRearranged(header);
  const pieceByteLength = rearranged ? byteLength : sequentialPieceByteLength;
  for (let begin = 0; begin < byteLength; begin += pieceByteLength) {
    throwIfAborted(signal, "the read of an array");
    const wanted = Math.min(pieceByteLength, byteLength - begin);
    const bytes = await data.read(wanted);
    if (bytes.length < wanted) throw new Error(`it ends after ${begin + bytes.length} of ${byteLength} bytes`);
    convert?.(bytes);
    const copied = rearranged ? toRowMajor(bytes, header) : bytes;
    bytesOfBuffer(array, begin, wanted).copyFrom(copied, array.stream);
    onPiece(wanted);
  }
}

/** Converts the elements of an array from column-major (Fortran) order to row-major (C) order. */
function toRowMajor(bytes: Uint8Array<ArrayBuffer>, { shape, itemByteLength }: NpyHeader): Uint8Array<ArrayBuffer> {
  const unit = Math.min(itemByteLength, 8);
  const units = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array }[unit]!;
  const perItem = itemByteLength / unit;
  const from = new units(bytes.buffer, 0, bytes.length / unit);
  const to = new units(from.length);
  const strides = shape.map((_, dimension) => shape.slice(0, dimension).reduce((a, b) => a * b, perItem));
  const last = shape.length - 1;
  const [columns, columnStride] = [shape[last]!, strides[last]!];
  const index = shape.map(() => 0);
  let base = 0;
  for (let at = 0; at < to.length;) {
    for (let column = 0, source = base; column < columns; column++, source += columnStride) {
      for (let part = 0; part < perItem; part++) to[at++] = from[source + part]!;
    }
    for (let dimension = last - 1; dimension >= 0; dimension--) {
      base += strides[dimension]!;
      if (++index[dimension]! < shape[dimension]!) break;
      base -= strides[dimension]! * shape[dimension]!;
      index[dimension] = 0;
    }
  }
  return new Uint8Array(to.buffer);
}

addEntries(readNpy, writeNpy);
