/**
 * The functions of the runtime's `node:fs` and `node:zlib` that this folder calls. They are loaded when they are called,
 * so that importing the library needs no module of Node.
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

/** Returns the path of a file in the folder of another file. */
export function pathBeside(path: string, name: string): string {
  const { dirname, join } = process.getBuiltinModule("node:path");
  return join(dirname(path), name);
}

/** Returns the path that a string or a URL names. */
export function pathOf(path: string | URL): string {
  return typeof path === "string" ? path : process.getBuiltinModule("node:url").fileURLToPath(path);
}

/** Returns the CRC-32 of bytes that follow others. */
export function crc32(bytes: Uint8Array, previous: number): number {
  return process.getBuiltinModule("node:zlib").crc32(bytes, previous);
}

/** Writes all of `bytes` at a position of a file. */
export async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let length = 0; length < bytes.length;) {
    length += (await file.write(bytes, length, bytes.length - length, position + length)).bytesWritten;
  }
}

/** Reads into `target` until it is full or the file ends. Returns the number of bytes. */
export async function readFully(file: FileHandle, target: Uint8Array, position: number): Promise<number> {
  let length = 0;
  while (length < target.length) {
    const { bytesRead } = await file.read(target, length, target.length - length, position + length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return length;
}
