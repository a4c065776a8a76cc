/**
 * The functions of `node:fs`, `node:path`, `node:url` and `node:zlib` that this folder uses. The modules are loaded on
 * first use, so that importing the library does not load any Node module.
 *
 * @module
 */

/** An open file. */
export interface FileHandle {
  read(target: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
  write(source: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>;
  stat(): Promise<{ readonly dev: number; readonly ino: number; readonly size: number; isFile(): boolean }>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

interface FileSystem {
  open(path: string, flags: "r" | "wx" | "r+"): Promise<FileHandle>;
  rename(from: string, to: string): Promise<void>;
  stat(path: string): Promise<{ isFile(): boolean }>;
  unlink(path: string): Promise<void>;
}

interface Globals {
  process: {
    getBuiltinModule(name: "node:fs"): { readonly promises: FileSystem };
    getBuiltinModule(name: "node:path"): { dirname(path: string): string; join(...parts: string[]): string };
    getBuiltinModule(name: "node:url"): { fileURLToPath(url: URL): string };
    getBuiltinModule(name: "node:zlib"): { crc32(bytes: Uint8Array, previous: number): number };
  };
}

const { process } = globalThis as unknown as Globals;

/** Returns `node:fs/promises`. */
export function fileSystem(): FileSystem {
  return process.getBuiltinModule("node:fs").promises;
}

/** Returns the path of a file that is in the same folder as `path`. */
export function pathBeside(path: string, name: string): string {
  const { dirname, join } = process.getBuiltinModule("node:path");
  return join(dirname(path), name);
}

/** Converts a path or a `file:` URL to a path. */
export function pathOf(path: string | URL): string {
  return typeof path === "string" ? path : process.getBuiltinModule("node:url").fileURLToPath(path);
}

/** Updates a CRC-32 with more bytes. `previous` is the CRC-32 of the preceding bytes, or 0. */
export function crc32(bytes: Uint8Array, previous: number): number {
  return process.getBuiltinModule("node:zlib").crc32(bytes, previous);
}

/** Writes all of `bytes` at a position in the file. */
export async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let length = 0; length < bytes.length;) {
    length += (await file.write(bytes, length, bytes.length - length, position + length)).bytesWritten;
  }
}

/** Reads into `target` until it is full or the file ends. Returns the number of bytes read. */
export async function readFully(file: FileHandle, target: Uint8Array, position: number): Promise<number> {
  let length = 0;
  while (length < target.length) {
    const { bytesRead } = await file.read(target, length, target.length - length, position + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return length;
}
