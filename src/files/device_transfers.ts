/**
 * Transfers between files and device memory, staged through page-locked memory. Several pieces are in flight at once:
 * while some are read from or written to the file, others are copied.
 *
 * @module
 */
import type { CudaDevice, CudaStream, DeviceBuffer, HostBuffer } from "../../mod.ts";
import { type RangeReader, readsRanges } from "../support/file_copies.ts";
import { moveInLanes, throwIfAborted } from "../support/waiting/waiting.ts";
import { type ByteSource, cutError } from "./byte_source.ts";
import { type FileOptions, ProgressCount } from "./file_options.ts";
import { type FileHandle, writeFully } from "./runtime_files.ts";

/**
 * The maximum size of a piece, in bytes. Larger pieces do not stay in the processor's caches between the read and the
 * copy, which halves the speed of both.
 */
const pieceByteLength = 4 * 2 ** 20;
/**
 * The maximum gap between two ranges of a file, in bytes, up to which both are fetched with a single read. The bytes in
 * the gap are discarded, which is faster than a second read.
 */
const maximumGap = 64 * 2 ** 10;
/** The maximum number of parts in a piece, which limits the number of copies in flight. */
const maximumParts = 256;
/** The minimum of the ranges' mean size in bytes for reading them in threads. */
const meanOfThreads = 2 ** 20;
/** The maximum number of concurrent writes to a file. */
const maximumWriters = 8;

/** A contiguous range of a file, and its location in device memory. */
export interface TransferRange {
  /** The offset of the range in the file. */
  readonly fileOffset: number;
  readonly byteLength: number;
  readonly buffer: DeviceBuffer;
  /** The offset of the range in the buffer. */
  readonly byteOffset: number;
}

/** A range of one of several sources. */
export interface SourceRange extends TransferRange {
  readonly source: ByteSource;
}

/** A piece of a file that is read or written with a single call. Each of its parts is copied to or from a buffer. */
interface Piece {
  /** The source to read from; undefined when writing. */
  readonly source: ByteSource | undefined;
  readonly fileOffset: number;
  byteLength: number;
  /** The device that all of the buffers are on. */
  readonly device: CudaDevice;
  readonly parts: { readonly begin: number; readonly view: DeviceBuffer }[];
}

/** The resources that move one piece at a time: page-locked memory and a stream. */
interface Lane {
  /** The index of the lane, from 0. */
  readonly index: number;
  readonly memory: HostBuffer;
  /** The part of the memory that the piece occupies. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly stream: CudaStream;
}

/** Options of a transfer. */
export interface TransferOptions extends FileOptions {
  /** The name of the transfer for error messages, such as `the read of "a.npy"`. */
  readonly what: string;
  /** Converts a piece, in place, from the file's representation to the one in device memory. */
  readonly convert?: ((bytes: Uint8Array) => void) | undefined;
}

/**
 * Reads ranges of one or more sources into device memory. Resolves when all of them have been copied. All earlier work
 * on the buffers' streams must already be complete.
 *
 * @param ranges the ranges; those of the same source in ascending order of their file offsets
 */
export async function readRanges(ranges: readonly SourceRange[], options: TransferOptions): Promise<void> {
  if (await readInThreads(ranges, options)) return;
  const pieces = piecesOf(ranges, maximumGap);
  const wait = options.signal === undefined ? {} : { signal: options.signal };
  const lanes = Math.max(0, ...ranges.map(({ source }) => source.readers));
  const left = Map.groupBy(pieces, ({ source }) => source!);
  await movePieces(pieces, { ...options, lanes }, async (piece, { index, bytes, stream }) => {
    const source = piece.source!;
    const length = await source.read(bytes, piece.fileOffset, index);
    if (length < bytes.length) throw cutError(source, piece.fileOffset + length);
    options.convert?.(bytes);
    for (const { begin, view } of piece.parts) {
      view.copyFrom(bytes.subarray(begin, begin + view.byteLength), stream);
    }
    await stream.finished(wait);
    const others = left.get(source)!;
    if (others.pop() !== undefined && others.length === 0) await source.rest?.();
  });
}

/** Reads ranges by threads of the buffers' driver. Returns false if nothing was read, because that is not possible. */
async function readInThreads(
  ranges: readonly SourceRange[],
  { convert, signal, what, ...options }: TransferOptions,
): Promise<boolean> {
  const reader: DeviceBuffer & RangeReader<DeviceBuffer> | undefined = ranges[0]?.buffer;
  const total = ranges.reduce((sum, { byteLength }) => sum + byteLength, 0);
  // Small ranges that are close to each other are read at once by other means.
  if (reader?.[readsRanges] === undefined || convert !== undefined || total < ranges.length * meanOfThreads) {
    return false;
  }
  const device = ranges[0]!.buffer.device;
  const places = ranges.flatMap(({ source: { path, identity }, ...range }) => (
    path === undefined || identity === undefined || range.buffer.device !== device ? [] : [{ ...range, path, identity }]
  ));
  if (places.length < ranges.length) return false;
  const progress = new ProgressCount(total, options);
  let loaded = 0;
  const onProgress = (byteLength: number): void => {
    if (byteLength > loaded) progress.add(byteLength - loaded);
    loaded = byteLength;
  };
  const end = await reader[readsRanges](places, { signal, what, onProgress });
  if (typeof end === "boolean") return end;
  throw cutError(ranges.find(({ source }) => source.path === end.path)!.source, end.offset);
}

/**
 * Writes device memory to ranges of a file. All earlier work on the buffers' streams must already be complete.
 *
 * @param files one handle for each concurrent write
 * @param ranges the ranges in file order, without gaps
 */
export async function writeRanges(
  files: readonly FileHandle[],
  ranges: readonly TransferRange[],
  options: TransferOptions,
): Promise<void> {
  const wait = options.signal === undefined ? {} : { signal: options.signal };
  await movePieces(piecesOf(ranges, 0), { ...options, lanes: files.length }, async (piece, lane) => {
    const { bytes, stream } = lane;
    if (piece.parts.length === 1) {
      piece.parts[0]!.view.copyTo(lane.memory, stream);
      await stream.finished(wait);
    } else {
      await Promise.all(piece.parts.map(async ({ begin, view }) => {
        bytes.set(await view.read(Uint8Array, { stream, ...wait }), begin);
      }));
    }
    await writeFully(files[lane.index]!, bytes, piece.fileOffset);
  });
}

/** Returns the handles of a file by which `byteLength` bytes are written: one for each piece, up to a limit. */
export async function openWriters(
  file: FileHandle,
  openAgain: () => Promise<FileHandle>,
  byteLength: number,
): Promise<readonly FileHandle[]> {
  const files = [file];
  while (files.length < maximumWriters && byteLength >= files.length * pieceByteLength) files.push(await openAgain());
  return files;
}

/**
 * Moves all pieces; each lane moves one piece at a time. If a piece fails, rejects with the first error, but only after
 * all lanes have stopped using their memory.
 */
async function movePieces(
  pieces: readonly Piece[],
  { lanes, ...options }: TransferOptions & { readonly lanes: number },
  move: (piece: Piece, lane: Lane) => Promise<void>,
): Promise<void> {
  const { signal, what } = options;
  throwIfAborted(signal, what);
  const largest = Math.max(0, ...pieces.map(({ byteLength }) => byteLength));
  const progress = new ProgressCount(pieces.reduce((sum, piece) => sum + transferred(piece), 0), options);
  using resources = new DisposableStack();
  // Start only after all memory has been allocated. If an allocation fails, there is then no work to wait for.
  const running = Array.from({ length: Math.min(lanes, pieces.length) }, (_, index) => {
    const memory = resources.use(pieces[0]!.device.cuda.allocateHost(largest));
    return { index, memory, streams: new Map<CudaDevice, CudaStream>() };
  });
  await moveInLanes(pieces, {
    lanes: running,
    signal,
    what,
    move: async (piece, { index, memory, streams }) => {
      const { device, byteLength } = piece;
      if (!streams.has(device)) streams.set(device, resources.use(device.createStream({ nonBlocking: true })));
      const bytes = new Uint8Array(memory.buffer, 0, byteLength);
      await move(piece, { index, memory, bytes, stream: streams.get(device)! });
      progress.add(transferred(piece));
    },
    // The memory is freed next, so no copy may still be using it.
    settle: async ({ streams }) => {
      for (const stream of streams.values()) await stream.finished().catch(() => {});
    },
  });
}

function transferred({ parts }: Piece): number {
  return parts.reduce((sum, { view }) => sum + view.byteLength, 0);
}

/** Splits large ranges into pieces, and combines small ranges that are close to each other in the file. */
function piecesOf(ranges: readonly (TransferRange | SourceRange)[], gap: number): readonly Piece[] {
  const pieces: Piece[] = [];
  for (const range of ranges) {
    const { fileOffset, byteLength, buffer, byteOffset } = range;
    const { device } = buffer;
    const source = "source" in range ? range.source : undefined;
    for (let begin = 0; begin < byteLength; begin += pieceByteLength) {
      const length = Math.min(pieceByteLength, byteLength - begin);
      const view = bytesOfBuffer(buffer, byteOffset + begin, length);
      const last = pieces.at(-1);
      const isNear = last !== undefined && last.device === device && last.source === source &&
        last.parts.length < maximumParts &&
        fileOffset + begin - (last.fileOffset + last.byteLength) <= gap &&
        fileOffset + begin + length - last.fileOffset <= pieceByteLength;
      if (isNear) {
        last.parts.push({ begin: fileOffset + begin - last.fileOffset, view });
        last.byteLength = fileOffset + begin + length - last.fileOffset;
      } else {pieces.push({
          source,
          fileOffset: fileOffset + begin,
          byteLength: length,
          device,
          parts: [{ begin: 0, view }],
        });}
    }
  }
  return pieces;
}

/** Returns a view of some of a buffer's bytes, regardless of its element type. */
export function bytesOfBuffer(buffer: DeviceBuffer, byteOffset: number, byteLength: number): DeviceBuffer {
  const bytes: DeviceBuffer = "type" in buffer ? buffer.as(Uint8Array) : buffer;
  return bytes.subarray(byteOffset, byteOffset + byteLength);
}
