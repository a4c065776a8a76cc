/**
 * Sources of bytes: files, Blobs and memory.
 *
 * @module
 */
import { shown, whatIs } from "../support/validation.ts";
import { type FileHandle, fileSystem, pathOf, readFully } from "./runtime_files.ts";
import { TypeError } from "../support/program_errors.ts";

/** The source of a file's bytes: a path or `file:` URL, or the bytes themselves, in memory or as a `Blob`. */
export type FileSource = string | URL | Uint8Array | ArrayBuffer | Blob;

/**
 * The maximum number of concurrent reads of a file. Each uses its own handle, because Deno serializes reads on a
 * handle.
 */
const fileReaders = 16;

/** A source of bytes that supports concurrent reads. */
export interface ByteSource extends AsyncDisposable {
  /** The name of the source in error messages, such as `"weights.npy"`. */
  readonly name: string;
  /** The path of the file; undefined if the source is not a file. */
  readonly path: string | undefined;
  /** The device and the inode of the file, in decimal, with a space between them; undefined if it is not a file. */
  readonly identity?: string;
  readonly byteLength: number;
  /** The maximum number of concurrent reads. */
  readonly readers: number;
  /**
   * Reads into `target` until it is full or the source ends, and returns the number of bytes read.
   *
   * @param reader the index of the concurrent read, from 0 to `readers - 1`
   */
  read(target: Uint8Array, position: number, reader?: number): Promise<number>;
  /** Closes all file handles except the first one. Called when no further reads are expected for now. */
  rest?(): Promise<void>;
}

/**
 * Opens a source.
 *
 * @throws {TypeError} If `source` is not one of the supported types
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
 * Reads exactly `byteLength` bytes.
 *
 * @throws {Error} If the source ends too early
 */
export async function bytesAt(source: ByteSource, position: number, byteLength: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(byteLength);
  const length = await source.read(bytes, position);
  if (length < byteLength) throw cutError(source, position + length);
  return bytes;
}

/** Returns the error for a file that was truncated after it was opened. */
export function cutError({ name, byteLength }: ByteSource, end: number): Error {
  return new Error(`Cannot read ${name}: it had ${byteLength} bytes, and was cut to ${end} while it was read`);
}

class OpenFile implements ByteSource {
  readonly name: string;
  readonly path: string;
  readonly byteLength: number;
  readonly readers = fileReaders;
  readonly identity: string;
  /** A handle for each concurrent read. All but the first are opened on first use. */
  readonly #handles: FileHandle[];

  private constructor(path: string, handle: FileHandle, { byteLength, identity }: {
    byteLength: number;
    identity: string;
  }) {
    this.path = path;
    this.name = shown(path);
    this.#handles = [handle];
    this.byteLength = byteLength;
    this.identity = identity;
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
    if (`${dev} ${ino}` === this.identity) return handle;
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
