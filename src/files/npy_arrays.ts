/**
 * Arrays in .npy files, read into device memory and written from there.
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
import { checkOptions, type KnownOptions, shown, whatIs } from "../support/validation.ts";
import { throwIfAborted } from "../support/waiting/waiting.ts";
import { bytesAt, type ByteSource, type FileSource, openSource } from "./byte_source.ts";
import { bytesOfBuffer, maximumWriters, readRanges, writeRanges } from "./device_transfers.ts";
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
  /** The type that the elements must have, as the constructor of a typed array. Defaults to that of the file. */
  type?: TypedArrayConstructor<T>;
  /**
   * The dtype that the elements must have. Needed for the types of one byte that NumPy has no name for, such as
   * `"float8_e4m3fn"`. Defaults to that of the file.
   */
  dtype?: string;
}

/** Options of writing an array. */
export interface FileWriteOptions extends FileOptions {
  /** The stream whose work so far is waited for before the memory is read. Defaults to that of each array. */
  stream?: CudaStream;
}

/** Files of less than this many bytes are read in order, through the memory that copies of typed arrays go through. */
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
 * Reads an array from a .npy file into device memory. The array is allocated from the pool and freed like any other; it
 * has the shape and the dtype of the file. Numbers of big-endian files are converted, and arrays in Fortran order become
 * arrays in C order of the same shape, for which the file is held in host memory, twice.
 *
 * An array of `bfloat16`, as `ml_dtypes` writes it, is a `Uint16Array` of the bits with that dtype. The other types of
 * `ml_dtypes` have no name in the file: give the `dtype`.
 *
 * @param source The path or URL of the file, or its bytes.
 * @param options Where the memory comes from: `pool` or `device`. With `type`, the result has that type.
 * @throws {TypeError} If neither `pool` nor `device` is given, or an option has a wrong value, or the file's elements
 * are of another type than the one that was given
 * @throws {Error} If the file cannot be read, or is not a .npy file of numbers; the message says which of its values is
 * wrong. Nothing stays allocated
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
  options: ReadNpyOptions<T>,
): Promise<DeviceArray<T>>;
export async function readNpy(source: FileSource, options: ReadNpyOptions = {}): Promise<DeviceArray<TypedArray>> {
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
 * Writes an array to a .npy file, which NumPy reads. The file appears at its path when all of it is on the disk; a file
 * that was there is replaced then. `bfloat16` and types of 8 bits are written as `ml_dtypes` does: in Python, view the
 * array that `numpy.load` returns as the type.
 *
 * @param array The array. It must not change until the promise resolves.
 * @param path The path or `file:` URL of the file.
 * @throws {TypeError} If it is not a DeviceArray, NumPy has no form for its dtype, or an option has a wrong value
 * @throws {ReferenceError} If the array was freed
 * @throws {Error} If the file cannot be written, with the runtime's reason. Nothing stays at the path
 */
export async function writeNpy(
  array: DeviceArray<TypedArray>,
  path: string | URL,
  options: FileWriteOptions = {},
): Promise<void> {
  checkOptions(options, npyWriteOptions);
  checkIsArray(array, "write");
  const { bytes } = encodeNpyHeader(array);
  await finishedBefore([array], options);
  await writeNewFile(path, async (file, openAgain) => {
    await writeFully(file, bytes, 0);
    const files = [file];
    const { byteLength } = array;
    while (files.length < maximumWriters && byteLength >= files.length * 16 * 2 ** 20) files.push(await openAgain());
    const range = { fileOffset: bytes.length, byteLength, buffer: array, byteOffset: 0 };
    await writeRanges(files, [range], { ...options, what: `the write of ${shown(String(path))}` });
  });
}

/** Waits until the work that may still change arrays is done. */
export async function finishedBefore(
  arrays: Iterable<{ readonly stream: CudaStream }>,
  { stream, signal }: FileWriteOptions,
): Promise<void> {
  const streams = stream === undefined ? new Set([...arrays].map((array) => array.stream)) : [stream];
  for (const each of streams) await each.finished(signal === undefined ? {} : { signal });
}

/** Throws a `TypeError` unless it is an array in device memory. */
export function checkIsArray(array: unknown, action: string): asserts array is DeviceArray<TypedArray> {
  if (array instanceof DeviceArray) return void array.address;
  throw new TypeError(
    `Cannot ${action} ${
      whatIs(array, "DeviceBuffer")
    } as an array: give a DeviceArray, such as buffer.as(Float32Array)`,
  );
}

/**
 * Calls a body, and says in its error what it reads, such as `"a.npy"`, if the error says only what is wrong with it:
 * "it ends in its header".
 */
export async function reading<T>(what: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    if (!(error instanceof Error) || !/^its? /.test(error.message)) throw error;
    throw new (error instanceof TypeError ? TypeError : Error)(`Cannot read ${what}: ${error.message}`);
  }
}

/** Calls `fill`, and frees the array if that fails. */
export async function filled<T extends Disposable>(array: T, fill: (array: T) => Promise<void>): Promise<T> {
  try {
    await fill(array);
    return array;
  } catch (error) {
    array[Symbol.dispose]();
    throw error;
  }
}

/** Throws unless the header is followed by the bytes of its array. */
export function checkDataByteLength({ byteLength, shape }: NpyHeader, found: number): void {
  if (found === byteLength) return;
  const array = `an array of shape (${shape.join(", ")}) with ${byteLength} bytes`;
  if (found < byteLength) throw new Error(`it is cut: its header is of ${array}, and ${found} follow`);
  throw new Error(
    `its header is of ${array}, and ${found} follow; several arrays in one file are read from .npz files`,
  );
}

/**
 * Checks that the elements are of the type that was asked for. Returns a function that allocates the array.
 *
 * @throws {TypeError} If they are not
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
  // The methods of both kinds of pools are the same, which the type checker does not see.
  return () => (pool as MemoryPool).allocateArray(element.type, { shape, dtype: dtype ?? found! }, stream);
}

function isRearranged({ isFortranOrder, shape }: NpyHeader): boolean {
  return isFortranOrder && shape.filter((size) => size !== 1).length > 1;
}

/** Returns the conversion of big-endian numbers; undefined if there is nothing to convert. */
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
  const { signal, onProgress } = options;
  // The other streams that copy do not wait for the allocation.
  await array.stream.finished(signal === undefined ? {} : { signal });
  const range = { source, fileOffset: dataOffset, byteLength: header.byteLength, buffer: array, byteOffset: 0 };
  await readRanges([range], {
    ...signal === undefined ? {} : { signal },
    ...onProgress === undefined ? {} : { onProgress },
    what: `the read of ${source.name}`,
    convert: conversionOf(header),
  });
}

/** Fills an array, in stream order, with elements that are read in order. */
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

/** Returns the elements with the last dimension as the fastest, of which the first is the fastest. */
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
