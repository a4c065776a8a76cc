/**
 * Transfers between a file and device memory through page-locked memory. Several pieces are on the way at once: while
 * some are read from the file or written to it, others are copied.
 *
 * @module
 */
import type { CudaDevice, CudaStream, DeviceBuffer, HostBuffer } from "../../mod.ts";
import { throwIfAborted } from "../support/waiting/waiting.ts";
import { type ByteSource, cutError } from "./byte_source.ts";
import { type FileOptions, ProgressCount } from "./file_options.ts";
import { type FileHandle, writeFully } from "./runtime_files.ts";

/** Maximum size of a piece in bytes: files are read and memory is copied at full speed in pieces of this size. */
const pieceByteLength = 16 * 2 ** 20;
/** Bytes between two ranges of a file that are read and dropped, because a second read would take longer. */
const maximumGap = 64 * 2 ** 10;
/** Maximum number of parts of a piece, which bounds what is copied at once. */
const maximumParts = 256;
/** Maximum number of writes of a file at once. */
export const maximumWriters = 4;

/** Successive bytes of a file, and where they lie in device memory. */
export interface TransferRange {
  /** Where they begin in the file. */
  readonly fileOffset: number;
  readonly byteLength: number;
  readonly buffer: DeviceBuffer;
  /** Where they begin in the buffer. */
  readonly byteOffset: number;
}

/** Bytes of one of several sources. */
export interface SourceRange extends TransferRange {
  readonly source: ByteSource;
}

/** A piece of a file that is read or written at once, and the parts of it that are copied. */
interface Piece {
  /** What is read; undefined if a file is written. */
  readonly source: ByteSource | undefined;
  readonly fileOffset: number;
  byteLength: number;
  /** The device of all buffers. */
  readonly device: CudaDevice;
  readonly parts: { readonly begin: number; readonly view: DeviceBuffer }[];
}

/** What a piece is moved through: page-locked memory and a stream. */
interface Lane {
  /** Which of the lanes it is, from 0. */
  readonly index: number;
  readonly memory: HostBuffer;
  /** As much of the memory as the piece has. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly stream: CudaStream;
}

/** Options of a transfer: what it is called in error messages, and what is done to the bytes of each piece. */
export interface TransferOptions extends FileOptions {
  /** What the transfer does, such as `the read of "a.npy"`. */
  readonly what: string;
  /** Changes the bytes of the file to those in device memory. */
  readonly convert?: ((bytes: Uint8Array) => void) | undefined;
}

/**
 * Reads ranges of one or several sources into device memory. Resolves when all are there. Earlier work on the buffers'
 * streams must be complete.
 *
 * @param ranges in the order of each source
 */
export async function readRanges(ranges: readonly SourceRange[], options: TransferOptions): Promise<void> {
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

/**
 * Writes device memory to ranges of a file. Earlier work on the buffers' streams must be complete.
 *
 * @param ranges in the order of the file, without gaps
 * @param files one for each write at once
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

/** Moves all pieces, one on each lane at a time. Rejects with the first error, when no lane uses its memory any more. */
async function movePieces(
  pieces: readonly Piece[],
  { lanes, ...options }: TransferOptions & { readonly lanes: number },
  move: (piece: Piece, lane: Lane) => Promise<void>,
): Promise<void> {
  const { signal, what } = options;
  throwIfAborted(signal, what);
  const largest = Math.max(0, ...pieces.map(({ byteLength }) => byteLength));
  const progress = new ProgressCount(pieces.reduce((sum, piece) => sum + transferred(piece), 0), options);
  let next = 0;
  let isFailed = false;
  const runLane = async (index: number, memory: HostBuffer, streamOn: (device: CudaDevice) => CudaStream) => {
    let stream: CudaStream | undefined;
    try {
      while (next < pieces.length && !isFailed) {
        throwIfAborted(signal, what);
        const piece = pieces[next++]!;
        stream = streamOn(piece.device);
        await move(piece, { index, memory, bytes: new Uint8Array(memory.buffer, 0, piece.byteLength), stream });
        progress.add(transferred(piece));
      }
    } catch (error) {
      isFailed = true;
      // The memory is freed next: no copy may use it any more.
      await stream?.finished().catch(() => {});
      throw error;
    }
  };
  using resources = new DisposableStack();
  const running = Array.from({ length: Math.min(lanes, pieces.length) }, (_, index) => {
    const memory = resources.use(pieces[0]!.device.cuda.allocateHost(largest));
    const streams = new Map<CudaDevice, CudaStream>();
    return [index, memory, (device: CudaDevice) => {
      if (!streams.has(device)) streams.set(device, resources.use(device.createStream({ nonBlocking: true })));
      return streams.get(device)!;
    }] as const;
  });
  // Nothing runs before all of the memory is there: if that fails, there is nothing to wait for.
  const outcomes = await Promise.allSettled(running.map((lane) => runLane(...lane)));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

function transferred({ parts }: Piece): number {
  return parts.reduce((sum, { view }) => sum + view.byteLength, 0);
}

/** Divides large ranges, and joins small ones that are close to each other in the file. */
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

/** Returns a view of bytes of a buffer, whatever the type of its elements is. */
export function bytesOfBuffer(buffer: DeviceBuffer, byteOffset: number, byteLength: number): DeviceBuffer {
  const bytes: DeviceBuffer = "type" in buffer ? buffer.as(Uint8Array) : buffer;
  return bytes.subarray(byteOffset, byteOffset + byteLength);
}
