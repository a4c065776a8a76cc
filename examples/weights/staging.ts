/**
 * Moves the bytes of a file to the device through page-locked memory. Several pieces of the file are read at once, and
 * while some are read, others are copied.
 *
 * @module
 */
import { type FileHandle, open } from "node:fs/promises";
import type { Cuda, CudaStream, DeviceBuffer, HostBuffer } from "../../mod.ts";
import type { Run } from "./tensor_layout.ts";

/** The size of a piece: reads and copies of so many bytes run at full speed. */
const pieceByteLength = 16 * 2 ** 20;
/** The number of pieces that are read at once, each into page-locked memory of its own. */
const maximumReaders = 8;

/**
 * A file that is read at several places at once. Each reader has a handle of its own: Deno does one read of a handle at a
 * time.
 */
export class ReadableFile implements AsyncDisposable {
  readonly byteLength: number;
  readonly #handles: readonly FileHandle[];

  private constructor(handles: readonly FileHandle[], byteLength: number) {
    this.#handles = handles;
    this.byteLength = byteLength;
  }

  /** Opens a file for reading. */
  static async open(path: string): Promise<ReadableFile> {
    await using handles = new AsyncDisposableStack();
    const opened: FileHandle[] = [];
    for (let reader = 0; reader < maximumReaders; reader++) opened.push(handles.use(await open(path)));
    const [first, ...others] = await Promise.all(opened.map((handle) => handle.stat()));
    if (others.some(({ dev, ino }) => dev !== first!.dev || ino !== first!.ino)) {
      throw new Error(`${path} was replaced while it was opened`);
    }
    handles.move();
    return new ReadableFile(opened, first!.size);
  }

  /** Reads some bytes: fewer at the end of the file. */
  async bytesAt(position: number, byteLength: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(byteLength);
    return bytes.subarray(0, await this.read(bytes, position));
  }

  /** Reads into `bytes` until they are full or the file ends. Returns the number of bytes. */
  async read(bytes: Uint8Array, position: number, reader = 0): Promise<number> {
    const handle = this.#handles[reader]!;
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await handle.read(bytes, length, bytes.length - length, position + length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#handles.map((handle) => handle.close()));
  }
}

/** Bytes of a file, and where they lie on the device. */
export interface Transfer {
  readonly file: ReadableFile;
  /** Where the data begins in the file. */
  readonly dataOffset: number;
  readonly runs: readonly Run[];
  /** The memory on the device. */
  readonly buffer: DeviceBuffer;
  readonly signal: AbortSignal;
  /** Called with each number of bytes that are done. */
  readonly onProgress: (byteLength: number) => void;
}

/** A piece of a file, in page-locked memory. */
interface Piece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where it lies on the device. */
  readonly targetOffset: number;
  /** The stream of whoever has read it. */
  readonly stream: CudaStream;
}

/** Copies the bytes of a file to the device. Resolves when they are there. */
export async function load(cuda: Cuda, transfer: Transfer): Promise<void> {
  const { buffer, signal } = transfer;
  await readPieces(cuda, transfer, async ({ bytes, targetOffset, stream }) => {
    buffer.copyFrom(bytes, stream, { byteOffset: targetOffset });
    // Its memory is used again then. The others read meanwhile.
    await stream.finished({ signal });
  });
}

/** Compares the bytes of a file with those on the device. Returns where on the device the first wrong one lies. */
export async function findDifference(cuda: Cuda, transfer: Transfer): Promise<number | undefined> {
  const { buffer, signal } = transfer;
  const differences: number[] = [];
  await readPieces(cuda, transfer, async ({ bytes, targetOffset, stream }) => {
    const part = buffer.subarray(targetOffset, targetOffset + bytes.length);
    const index = firstDifference(await part.read(Uint8Array, { stream, signal }), bytes);
    if (index !== undefined) differences.push(targetOffset + index);
  });
  return differences.sort((a, b) => a - b)[0];
}

/** Reads all pieces, several at once, and hands each to `use`, which returns when it needs the bytes no more. */
async function readPieces(
  cuda: Cuda,
  { file, dataOffset, runs, buffer: { device }, signal, onProgress }: Transfer,
  use: (piece: Piece) => Promise<void>,
): Promise<void> {
  const pieces = [...piecesOf(runs)];
  const largest = Math.max(...runs.map(({ byteLength }) => Math.min(byteLength, pieceByteLength)));
  const readers = Math.min(maximumReaders, pieces.length);
  const failed = new AbortController();
  let next = 0;
  const runReader = async (reader: number, host: HostBuffer, stream: CudaStream): Promise<void> => {
    try {
      while (next < pieces.length && !failed.signal.aborted) {
        signal.throwIfAborted();
        const { sourceOffset, targetOffset, byteLength } = pieces[next++]!;
        const bytes = new Uint8Array(host.buffer, 0, byteLength);
        if (await file.read(bytes, dataOffset + sourceOffset, reader) < byteLength) {
          throw new Error("The file was cut while it was read");
        }
        await use({ bytes, targetOffset, stream });
        onProgress(byteLength);
      }
    } catch (error) {
      failed.abort();
      // Nothing may write to the memory any more when it is freed.
      await stream.finished().catch(() => {});
      throw error;
    }
  };
  using resources = new DisposableStack();
  const running = Array.from({ length: readers }, (_, reader) => {
    const host = resources.use(cuda.allocateHost(largest));
    return runReader(reader, host, resources.use(device.createStream({ nonBlocking: true })));
  });
  const outcomes = await Promise.allSettled(running);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

function* piecesOf(runs: readonly Run[]): Iterable<Run> {
  for (const { sourceOffset, targetOffset, byteLength } of runs) {
    for (let begin = 0; begin < byteLength; begin += pieceByteLength) {
      yield {
        sourceOffset: sourceOffset + begin,
        targetOffset: targetOffset + begin,
        byteLength: Math.min(pieceByteLength, byteLength - begin),
      };
    }
  }
}

function firstDifference(found: Uint8Array, expected: Uint8Array): number | undefined {
  for (let index = 0; index < expected.length; index++) if (found[index] !== expected[index]) return index;
  return undefined;
}
