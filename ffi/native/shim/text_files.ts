/**
 * Text files that environment variables name, read and written with no permission other than the one for FFI, and lines
 * on standard error that never block this process: a terminal may be stopped, and the reader of a pipe may not read.
 *
 * @module
 */
import { dlopen, foreignBuffer, type NativeFunctions } from "../host.ts";
import { closeDescriptor, describeDescriptor, openPath } from "./descriptors.ts";
import { isOwnOrRoots, linkCount } from "./folder_files.ts";
import { cString, errno, errnoName, shim, shimRefusal, SystemError } from "./shim.ts";
import { environmentVariable } from "../environment.ts";
import { sendTo } from "./sockets.ts";

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

/** `O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC`, the same on x86-64 and aarch64. */
const appending = 0o2006401;
/** `O_CREAT | O_EXCL`: fails if the name exists, even as a symbolic link. */
const creating = 0o300;
/**
 * Matches the paths of this process's own descriptors. The owner of their files is not checked, because another user's
 * process may have opened a file and passed the descriptor to this process.
 */
const ownDescriptor = /^(?:\/dev\/(?:stdout|stderr|fd\/\d+)|\/proc\/self\/fd\/\d+)$/;
/** `O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC`. */
const reading = 0o2004400;
const newFileMode = 0o666;
const maximumByteLength = 2 ** 20;

/** Returns why a file was not created, for the error of `createFile` and the like. */
export function reasonNotCreated(error: unknown): string {
  if (!(error instanceof SystemError)) return (error as Error).message;
  return error.errno === errno.ENOENT ? "there is no such folder; make it first" : reasonOf(error.errno);
}

/** What an error number of a file operation means, for messages. */
function reasonOf(number: number): string {
  return reasons[number] ?? `the system says ${errnoName(number)}`;
}

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

/** The functions of libc; null if it cannot be used. */
let libc: NativeFunctions<typeof symbols> | null | undefined;

/**
 * Appends text to a file, which is created if it does not exist. Text that several processes append to the same file is
 * not interleaved. Refuses a file, a pipe or a symbolic link that belongs to a user other than this one and root: that
 * user could redirect the text to a file that only this user may write to.
 *
 * @throws {Error} If the text cannot be written. The message contains only the reason
 */
export function appendToFile(path: string, text: string): void {
  const native = libcFiles();
  if (native === null) return runtimeFiles("write", path).append(path, text);
  withOwnFile(native, path, (fd) => {
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
 * @throws {Error} If the file cannot be read. The message contains only the reason
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

function withOwnFile(native: NativeFunctions<typeof symbols>, path: string, use: (fd: number) => void): void {
  if (ownDescriptor.test(path)) return withFile(native, { path, flags: appending }, use);
  for (;;) {
    const found = findOwn(path);
    try {
      if (found === undefined) return withFile(native, { path, flags: appending | creating }, use);
      // Opens exactly the file that was checked, by its descriptor: the name may refer to another file by now.
      return withFile(native, { path: `/proc/self/fd/${found}`, flags: appending }, use);
    } catch (error) {
      // Another process has created the file at the same time.
      if (!(found === undefined && error instanceof FileError && error.errno === errno.EEXIST)) throw error;
    } finally {
      if (found !== undefined) closeDescriptor(found);
    }
  }
}

/**
 * Opens the file at a path with `O_PATH`. Also follows a symbolic link, if this user or root owns it. Returns undefined
 * if the file does not exist.
 */
function findOwn(path: string, follow = false): number | undefined {
  let fd: number;
  try {
    fd = openPath(path, { follow });
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    if (error.errno === errno.ENOENT && !follow) return undefined;
    throw new FileError(error.errno);
  }
  let type: string | undefined;
  try {
    const status = describeDescriptor(fd);
    if (status.type !== "character device" && !isOwnOrRoots(status)) {
      throw new Error(`it is a ${status.type} of another user, ${status.owner}`);
    }
    // Some systems let another user create a hard link to a file of this user in any folder.
    const names = status.type === "file" ? linkCount(fd) : undefined;
    if (names !== undefined && names > 1) throw new Error("it is a file with several names (hard links)");
    type = status.type;
  } finally {
    if (type === undefined || type === "link") closeDescriptor(fd);
  }
  return type === "link" ? findOwn(path, true) : fd;
}

/** The error of a file operation that has failed. */
class FileError extends Error {
  readonly errno: number;

  constructor(errno: number) {
    super(reasonOf(errno));
    this.errno = errno;
  }
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

/** Creates the error for the libc call that has just failed, from errno. */
function failure(native: NativeFunctions<typeof symbols>): Error {
  const [number] = new Int32Array(foreignBuffer(native.__errno_location(), Int32Array.BYTES_PER_ELEMENT));
  return new FileError(number!);
}

function libcFiles(): NativeFunctions<typeof symbols> | null {
  if (libc === undefined) libc = openLibc();
  return libc;
}

function openLibc(): NativeFunctions<typeof symbols> | null {
  if (shimRefusal() !== undefined) return null;
  try {
    return dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  } catch {
    return null;
  }
}

/**
 * Returns the runtime's own file functions, for use on systems other than Linux or without FFI. Never prompts the user.
 */
function runtimeFiles(name: "read" | "write", path: string): RuntimeFiles {
  const { Deno: deno, process } = globalThis as unknown as Globals;
  // A polyfill of Deno in another runtime lacks permissions.
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

const outputSymbols = {
  open: { parameters: ["buffer", /* const char *path */ "i32" /* int flags */], result: "i32" },
  write: { parameters: ["i32", /* int fd */ "buffer", /* const void *buf */ "u64" /* size_t n */], result: "i64" },
} as const;

const standardError = 2;
const noDescriptors: readonly number[] = [];
/** `O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC`, which are the same on x86-64 and aarch64. */
const writeWithoutWaiting = 0o2004401;
/** The event bit `POLLOUT` of `poll`. */
const writable = 4;

/** Standard error of this process. */
export interface StandardError {
  /** The ID of this process. */
  readonly processId: number;
  /**
   * Writes a line of at most 4096 bytes, including its newline, so that lines of several processes are not interleaved.
   * Returns false and drops the line if that fails or would block. Never throws.
   */
  write(line: string): boolean;
}

/** The destination of the log that `POOLPASS_LOG=1` enables; undefined if that variable is not set to 1. */
export function openLog(): StandardError | undefined {
  return environmentVariable("POOLPASS_LOG") === "1" ? openStandardError() : undefined;
}

/** Opens standard error. Where the shim cannot be used, writes through the runtime's console, which may block. */
function openStandardError(): StandardError {
  if (shimRefusal() !== undefined) return { processId: 0, write: writeToConsole };
  try {
    return { processId: shim().poolpass_getpid(), write: writerOfLines(sender()) };
  } catch {
    return { processId: 0, write: writeToConsole };
  }
}

function writerOfLines(send: (bytes: Uint8Array) => number): (line: string) => boolean {
  /** The rest of a line that was only partly written. */
  let rest: Uint8Array = new Uint8Array(0);
  return (line) => {
    try {
      if (rest.length > 0) rest = rest.subarray(Math.max(0, send(rest)));
      if (rest.length > 0) return false;
      const bytes = new TextEncoder().encode(line);
      const count = send(bytes);
      if (count > 0) rest = bytes.subarray(count);
      return count > 0;
    } catch {
      return false;
    }
  };
}

/**
 * Returns a function that writes bytes to standard error, and returns the number of written bytes, or a negative number
 * if the write fails. The returned function depends on the type of the file that standard error refers to.
 */
function sender(): (bytes: Uint8Array) => number {
  let type: string;
  try {
    type = describeDescriptor(standardError).type;
  } catch {
    return () => -errno.EBADF;
  }
  // Child processes of Node and systemd services have a socket as standard error.
  if (type === "socket") return (bytes) => sendTo(standardError, bytes, noDescriptors);
  const libc = dlopen("libc.so.6", outputSymbols).symbols as NativeFunctions<typeof outputSymbols>;
  const writeTo = (fd: number, bytes: Uint8Array): number => Number(libc.write(fd, bytes, BigInt(bytes.length)));
  // Writing to a regular file does not block, so do not open it again: the new descriptor would overwrite the file from
  // its start.
  if (type === "file") return (bytes) => writeTo(standardError, bytes);
  // Open the file again, because setting O_NONBLOCK on the existing descriptor would affect all processes that share
  // it.
  const own = libc.open(cString(`/proc/self/fd/${standardError}`), writeWithoutWaiting);
  if (own >= 0) return (bytes) => writeTo(own, bytes);
  // The file is a pipe of another user, which cannot be opened again. If another process fills the pipe between the two
  // calls, the write blocks.
  return (bytes) => isWritable() ? writeTo(standardError, bytes) : -errno.EAGAIN;
}

function isWritable(): boolean {
  // struct pollfd { int fd; short events; short revents; }
  const interest = new Uint16Array([standardError, 0, writable, 0]);
  return shim().poolpass_poll(new Uint8Array(interest.buffer), 1, 0) > 0;
}

function writeToConsole(line: string): boolean {
  try {
    console.error(line.trimEnd());
    return true;
  } catch {
    return false;
  }
}
