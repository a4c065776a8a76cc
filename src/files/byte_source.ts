/**
 * Bytes that are read from any place: a file, a Blob or memory.
 *
 * @module
 */
import { shown, whatIs } from "../support/validation.ts";
import { type FileHandle, fileSystem, pathOf, readFully } from "./runtime_files.ts";
import { TypeError } from "../support/program_errors.ts";

/** What a file is read from: the path or `file:` URL of a file, or its bytes, also as a `Blob`. */
export type FileSource = string | URL | Uint8Array | ArrayBuffer | Blob;

/** The maximum number of reads of a file at once. Each has an open file: Deno does one read of an open file at a time. */
const fileReaders = 8;

/** Bytes of which several ranges can be read at once. */
export interface ByteSource extends AsyncDisposable {
  /** What error messages call it, such as `"weights.npy"`. */
  readonly name: string;
  /** The path, if it is a file. */
  readonly path: string | undefined;
  readonly byteLength: number;
  /** The maximum number of reads at once. */
  readonly readers: number;
  /**
   * Reads into `target` until it is full or the bytes end, and returns the number of bytes.
   *
   * @param reader which of the reads at once it is, from 0
   */
  read(target: Uint8Array, position: number, reader?: number): Promise<number>;
  /** Called when no more is read for now: of the open files, one stays. */
  rest?(): Promise<void>;
}

/**
 * Opens what a file is read from.
 *
 * @throws {TypeError} If it is none of the kinds of sources
 * @throws {Error} If the file cannot be opened, with the runtime's reason
 */
export async function openSource(source: FileSource): Promise<ByteSource> {
  if (typeof source === "string" || source instanceof URL) {
    if (source instanceof URL && source.protocol !== "file:") {
      const fetched = `await (await fetch(url)).bytes()`;
      throw new TypeError(`Cannot read ${source.href}: only files can be opened; give its bytes, such as ${fetched}`);
    }
    return await OpenFile.open(pathOf(source));
  }
  if (source instanceof Blob) return new BlobBytes(source);
  if (source instanceof Uint8Array) return new Bytes(source);
  if (Object.prototype.toString.call(source) === "[object ArrayBuffer]") {
    return new Bytes(new Uint8Array(source as ArrayBuffer));
  }
  throw new TypeError(
    `Cannot read ${whatIs(source)}: give a path, a file: URL, a Uint8Array, an ArrayBuffer or a Blob`,
  );
}

/**
 * Reads some bytes.
 *
 * @throws {Error} If the source ends before
 */
export async function bytesAt(source: ByteSource, position: number, byteLength: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(byteLength);
  const length = await source.read(bytes, position);
  if (length < byteLength) throw cutError(source, position + length);
  return bytes;
}

/** Returns the error for a file that ends before the bytes that it had when it was opened. */
export function cutError({ name, byteLength }: ByteSource, end: number): Error {
  return new Error(`Cannot read ${name}: it had ${byteLength} bytes, and was cut to ${end} while it was read`);
}

class OpenFile implements ByteSource {
  readonly name: string;
  readonly path: string;
  readonly byteLength: number;
  readonly readers = fileReaders;
  readonly #identity: string;
  /** One for each read at once. All but the first are opened when they are needed. */
  readonly #handles: FileHandle[];

  private constructor(path: string, handle: FileHandle, { byteLength, identity }: {
    byteLength: number;
    identity: string;
  }) {
    this.path = path;
    this.name = shown(path);
    this.#handles = [handle];
    this.byteLength = byteLength;
    this.#identity = identity;
  }

  static async open(path: string): Promise<OpenFile> {
    const handle = await fileSystem().open(path, "r");
    try {
      const status = await handle.stat();
      if (!status.isFile()) throw new TypeError(`Cannot read ${shown(path)}: it is not a regular file`);
      return new OpenFile(path, handle, { byteLength: status.size, identity: `${status.dev} ${status.ino}` });
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async read(target: Uint8Array, position: number, reader = 0): Promise<number> {
    return await readFully(this.#handles[reader] ?? await this.#open(reader), target, position);
  }

  async #open(reader: number): Promise<FileHandle> {
    const handle = await fileSystem().open(this.path, "r");
    this.#handles[reader] = handle;
    const { dev, ino } = await handle.stat();
    if (`${dev} ${ino}` === this.#identity) return handle;
    throw new Error(`Cannot read ${this.name}: another file took its place while it was read`);
  }

  async rest(): Promise<void> {
    for (const handle of this.#handles.splice(1)) await handle?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const handle of this.#handles.splice(0)) await handle?.close();
  }
}

class Bytes implements ByteSource {
  readonly name = "the bytes";
  readonly path = undefined;
  readonly readers = 2;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get byteLength(): number {
    return this.#bytes.length;
  }

  read(target: Uint8Array, position: number): Promise<number> {
    const found = this.#bytes.subarray(position, position + target.length);
    target.set(found);
    return Promise.resolve(found.length);
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

class BlobBytes implements ByteSource {
  readonly name = "the Blob";
  readonly path = undefined;
  readonly readers = 4;
  readonly #blob: Blob;

  constructor(blob: Blob) {
    this.#blob = blob;
  }

  get byteLength(): number {
    return this.#blob.size;
  }

  async read(target: Uint8Array, position: number): Promise<number> {
    const found = new Uint8Array(await this.#blob.slice(position, position + target.length).arrayBuffer());
    target.set(found);
    return found.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
