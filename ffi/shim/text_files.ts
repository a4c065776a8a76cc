/**
 * Text files that the environment names, read and written with no permission but the one for FFI.
 *
 * @module
 */
import { dlopen, ffiRefusal, foreignBuffer, type NativeFunctions, platform } from "../host.ts";
import { cString } from "./shim.ts";
import { errno, errnoName } from "./system_error.ts";

const symbols = {
  open: {
    parameters: ["buffer", /* const char *path */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
  read: { parameters: ["i32", /* int fd */ "buffer", /* void *buf */ "u64" /* size_t n */], result: "i64" },
  write: { parameters: ["i32", /* int fd */ "buffer", /* const void *buf */ "u64" /* size_t n */], result: "i64" },
  close: { parameters: ["i32" /* int fd */], result: "i32" },
  __errno_location: { parameters: [], result: "u64" },
} as const;

/** `O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC`, the same on x86-64 and aarch64. */
const appending = 0o2006501;
/** `O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC`. */
const reading = 0o2004400;
const newFileMode = 0o666;
const maximumByteLength = 2 ** 20;

const reasons: Readonly<Record<number, string>> = {
  [errno.ENOENT]: "there is no such file or folder",
  [errno.ENOTDIR]: "a part of the path is no folder",
  [errno.EISDIR]: "it is a folder",
  [errno.EACCES]: "this user may not open it",
  [errno.EPERM]: "this user may not open it",
  [errno.EROFS]: "its file system is read-only",
  [errno.ENOSPC]: "there is no space left on its file system",
  [errno.ENXIO]: "it is a pipe or a socket that nobody reads",
  [errno.EAGAIN]: "it is a pipe whose reader is too slow",
};

interface RuntimeFiles {
  append(path: string, text: string): void;
  read(path: string): string;
}

interface Globals {
  Deno?: {
    permissions: { querySync(descriptor: { name: "read" | "write"; path: string }): { state: string } };
    writeTextFileSync(path: string, text: string, options: object): void;
    readTextFileSync(path: string): string;
  };
  process?: {
    getBuiltinModule(name: "node:fs"): {
      appendFileSync(path: string, text: string): void;
      readFileSync(path: string, encoding: "utf8"): string;
    };
  };
}

/** Null if libc cannot be used. */
let libc: NativeFunctions<typeof symbols> | null | undefined;

/**
 * Appends text to a file, which is created if it does not exist. What several processes append to the same file does
 * not mix.
 *
 * @throws {Error} If that fails. Its message is the reason alone
 */
export function appendToFile(path: string, text: string): void {
  const native = libcFiles();
  if (native === null) return runtimeFiles("write", path).append(path, text);
  withFile(native, { path, flags: appending }, (fd) => {
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) {
      const count = Number(native.write(fd, bytes, BigInt(bytes.length)));
      if (count < 0) throw failure(native);
      bytes = bytes.subarray(count);
    }
  });
}

/**
 * Reads a file of at most 1 MiB.
 *
 * @throws {Error} If that fails. Its message is the reason alone
 */
export function readTextFile(path: string): string {
  const native = libcFiles();
  if (native === null) return runtimeFiles("read", path).read(path);
  return withFile(native, { path, flags: reading }, (fd) => {
    const bytes = new Uint8Array(maximumByteLength + 1);
    let length = 0;
    while (length < bytes.length) {
      const count = Number(native.read(fd, bytes.subarray(length), BigInt(bytes.length - length)));
      if (count < 0) throw failure(native);
      if (count === 0) return new TextDecoder().decode(bytes.subarray(0, length));
      length += count;
    }
    throw new Error(`it has more than ${maximumByteLength} bytes`);
  });
}

function withFile<R>(
  native: NativeFunctions<typeof symbols>,
  { path, flags }: { path: string; flags: number },
  use: (fd: number) => R,
): R {
  const fd = native.open(cString(path), flags, newFileMode);
  if (fd < 0) throw failure(native);
  try {
    return use(fd);
  } finally {
    native.close(fd);
  }
}

/** The error of the call that has just failed. */
function failure(native: NativeFunctions<typeof symbols>): Error {
  const [number] = new Int32Array(foreignBuffer(native.__errno_location(), Int32Array.BYTES_PER_ELEMENT));
  return new Error(reasons[number!] ?? `the system says ${errnoName(number!)}`);
}

function libcFiles(): NativeFunctions<typeof symbols> | null {
  if (libc === undefined) libc = openLibc();
  return libc;
}

function openLibc(): NativeFunctions<typeof symbols> | null {
  if (platform().os !== "linux" || ffiRefusal() !== undefined) return null;
  try {
    return dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  } catch {
    return null;
  }
}

/** The runtime's own files, for other systems than Linux and without FFI. Never asks the user. */
function runtimeFiles(name: "read" | "write", path: string): RuntimeFiles {
  const { Deno: deno, process } = globalThis as unknown as Globals;
  // A stand-in for Deno in another runtime lacks permissions.
  if (deno?.permissions !== undefined) {
    if (deno.permissions.querySync({ name, path }).state !== "granted") {
      throw new Error(`it needs --allow-ffi on Linux, or --allow-${name}=${path}`);
    }
    return {
      append: (path, text) => deno.writeTextFileSync(path, text, { append: true }),
      read: (path) => deno.readTextFileSync(path),
    };
  }
  const files = process!.getBuiltinModule("node:fs");
  return {
    append: (path, text) => files.appendFileSync(path, text),
    read: (path) => files.readFileSync(path, "utf8"),
  };
}
