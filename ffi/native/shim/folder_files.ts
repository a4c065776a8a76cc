/**
 * Named files in a folder, with no permission other than the one for FFI: unlike memory files, other processes find
 * them by their path. Before use, paths and files are checked for whether a user other than this one or root controls
 * their content.
 *
 * @module
 */
import { dlopen, foreignBuffer, type NativeFunctions } from "../host.ts";
import {
  closeDescriptor,
  describeDescriptor,
  type DescriptorStatus,
  openDescriptor,
  openPath,
  readLink,
} from "./descriptors.ts";
import type { FileRange } from "./memory_files.ts";
import { cString, errno, shim, shimRefusal, SystemError } from "./shim.ts";

const symbols = {
  open: {
    parameters: ["buffer", /* const char *path */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
  rename: { parameters: ["buffer", /* const char *from */ "buffer" /* const char *to */], result: "i32" },
  link: { parameters: ["buffer", /* const char *from */ "buffer" /* const char *to */], result: "i32" },
  unlink: { parameters: ["buffer" /* const char *path */], result: "i32" },
  mkdir: { parameters: ["buffer", /* const char *path */ "u32" /* mode_t mode */], result: "i32" },
  futimens: { parameters: ["i32", /* int fd */ "buffer" /* const struct timespec times[2] */], result: "i32" },
  // getdirentries64 is called because older C libraries lack getdents64.
  getdirentries64: {
    parameters: [
      "i32", // int fd
      "buffer", // char *entries
      "u64", // size_t n
      "buffer", // off64_t *base
    ],
    result: "i64",
  },
  statx: {
    parameters: [
      "i32", // int dirfd
      "buffer", // const char *pathname
      "i32", // int flags
      "u32", // unsigned int mask
      "buffer", // struct statx *statxbuf
    ],
    result: "i32",
  },
  posix_fallocate: {
    parameters: ["i32", /* int fd */ "i64", /* off_t offset */ "i64" /* off_t length */],
    result: "i32",
  },
  __errno_location: { parameters: [], result: "u64" },
} as const;

/** `O_RDWR | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC`, the same on x86-64 and aarch64. */
const creating = 0o2000702;
const ownAlone = 0o600;
const ownFolder = 0o700;
/** The flag `AT_EMPTY_PATH`: statx describes the file of the descriptor itself. */
const emptyPath = 0x1000;
/**
 * For statx: the mask `STATX_NLINK | STATX_MTIME`, the offsets of the link count and of the modification time in
 * `struct statx`, and the size of the struct in bytes.
 */
const statusPlaces = { mask: 0x44, links: 16, modified: 112, byteLength: 256 } as const;
/** The size in bytes of the buffer for the folder entries that one call returns. */
const entriesByteLength = 65_536;
/** The offsets in bytes of an entry's length and name within `struct dirent64`. */
const entryPlaces = { byteLength: 16, name: 19 } as const;

let libc: NativeFunctions<typeof symbols> | undefined;

/**
 * Creates a file that only this user can open, and returns its descriptor.
 *
 * @throws {SystemError} `EEXIST` if the name exists, or any other system error
 */
export function createFile(path: string): number {
  return checked(functions().open(cString(path), creating, ownAlone), `creation of ${path}`);
}

/**
 * Creates a folder that only this user can use. Does nothing if the name exists.
 *
 * @throws {SystemError}
 */
function createFolder(path: string): void {
  try {
    checked(functions().mkdir(cString(path), ownFolder), `creation of ${path}`);
  } catch (error) {
    if (!(error instanceof SystemError && error.errno === errno.EEXIST)) throw error;
  }
}

/**
 * Refuses the path of a folder, a device or the like. The caller would otherwise replace it or create a file beside it.
 *
 * @throws {Error} The message contains only the reason
 */
export function checkFilePath(path: string): void {
  const type = statusAt(path)?.type;
  if (type === undefined || type === "file" || type === "link") return;
  throw new Error(`it is a ${type}; give the path of ${type === "folder" ? "a file in it" : "a file"}`);
}

/** Returns the status of what a path names; undefined if nothing is found. */
export function statusAt(path: string): DescriptorStatus | undefined {
  let fd: number;
  try {
    fd = openPath(path);
  } catch {
    // Creating a file there reports why.
    return undefined;
  }
  try {
    return describeDescriptor(fd);
  } finally {
    closeDescriptor(fd);
  }
}

/**
 * Renames a file atomically, replacing an existing file of the new name.
 *
 * @throws {SystemError} `ENOENT` if there is no such file
 */
export function renameFile(from: string, to: string): void {
  checked(functions().rename(cString(from), cString(to)), `rename of ${from}`);
}

/**
 * Gives a file a second name. Returns false if that name exists, be it that of a symbolic link.
 *
 * @throws {SystemError} Any other system error
 */
export function linkFile(from: string, to: string): boolean {
  try {
    checked(functions().link(cString(from), cString(to)), `link to ${from}`);
    return true;
  } catch (error) {
    if (error instanceof SystemError && error.errno === errno.EEXIST) return false;
    throw error;
  }
}

/**
 * Removes a file's name. Processes that have the file open or mapped can still use it. Returns false if the removal
 * fails.
 */
export function removeFile(path: string): boolean {
  return functions().unlink(cString(path)) === 0;
}

/**
 * Lists the names of a folder's entries.
 *
 * @throws {SystemError} If the folder cannot be read
 */
export function namesIn(folder: string): string[] {
  const fd = openDescriptor(folder);
  try {
    const names: string[] = [];
    const bytes = new Uint8Array(entriesByteLength);
    const view = new DataView(bytes.buffer);
    const base = new Uint8Array(BigInt64Array.BYTES_PER_ELEMENT);
    for (;;) {
      const result = functions().getdirentries64(fd, bytes, BigInt(bytes.length), base);
      const end = checked(Number(result), `read of folder ${folder}`);
      if (end === 0) return names;
      for (let at = 0; at < end; at += view.getUint16(at + entryPlaces.byteLength, true)) {
        const begin = at + entryPlaces.name;
        names.push(new TextDecoder().decode(bytes.subarray(begin, bytes.indexOf(0, begin))));
      }
    }
  } finally {
    closeDescriptor(fd);
  }
}

/**
 * Returns the time of a file's last write or `touchFile`, in milliseconds since 1970; undefined if the system does not
 * report it.
 *
 * @param fd may have been opened with `O_PATH`
 */
export function lastWrite(fd: number): number | undefined {
  const status = statusOf(fd);
  const at = statusPlaces.modified;
  return status && Number(status.getBigInt64(at, true)) * 1000 + status.getUint32(at + 8, true) / 1e6;
}

/** Returns the number of names (hard links) of a file; undefined if the system does not report it. */
export function linkCount(fd: number): number | undefined {
  return statusOf(fd)?.getUint32(statusPlaces.links, true);
}

function statusOf(fd: number): DataView | undefined {
  const status = new Uint8Array(statusPlaces.byteLength);
  const result = functions().statx?.(fd, cString(""), emptyPath, statusPlaces.mask, status);
  return result === 0 ? new DataView(status.buffer) : undefined;
}

/** Sets the time of a file's last write to now, if the file belongs to this user. */
export function touchFile(fd: number): void {
  functions().futimens(fd, null);
}

/**
 * Allocates storage for a range of a file, and extends the file with zeros if necessary. Without allocated storage, an
 * access to the mapped file kills the process if the file system is full at that time.
 *
 * @throws {SystemError} `ENOSPC` if the file system is full
 */
export function reserveRange(fd: number, { offset, byteLength }: FileRange): void {
  for (;;) {
    // posix_fallocate returns the error number instead of setting errno.
    const number = functions().posix_fallocate(fd, BigInt(offset), BigInt(byteLength));
    if (number === 0) return;
    if (number !== errno.EINTR) throw new SystemError(number, `posix_fallocate of descriptor ${fd}`);
  }
}

function checked(result: number, call: string): number {
  if (result >= 0) return result;
  const [number] = new Int32Array(foreignBuffer(functions().__errno_location(), Int32Array.BYTES_PER_ELEMENT));
  throw new SystemError(number!, call);
}

function functions(): NativeFunctions<typeof symbols> {
  if (libc === undefined) {
    const refusal = shimRefusal();
    if (refusal !== undefined) throw new Error(`Cannot use files of a folder: ${refusal}`);
    libc = dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  }
  return libc;
}

const root = 0;
/** The maximum number of symbolic links that the kernel follows when it resolves a path. */
const maximumLinks = 40;
const stickyBit = 0o1000;
const writableByOthers = 0o022;

/** A component of a path: its status, and its target if it is a symbolic link. */
interface PathComponent extends DescriptorStatus {
  readonly target: string | undefined;
}

/** The intended use of a folder. */
export interface FolderUse {
  /** The object that another user could put into the folder, for error messages, such as `"another socket"`. */
  readonly content: string;
  /**
   * Whether other users may write to the folder if it is sticky, as `/tmp` is. The caller must then check the owner of
   * each file in it.
   */
  readonly mayBeSticky: boolean;
}

/** Thrown if a folder must not be used. The message contains only the reason; the caller adds the context. */
export class FolderRefusal extends Error {
  readonly code: "not-found" | "not-permitted";

  constructor(code: FolderRefusal["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Returns whether a file belongs to this user or to root. */
export function isOwnOrRoots({ owner }: Pick<DescriptorStatus, "owner">): boolean {
  return owner === root || owner === shim().poolpass_geteuid();
}

/**
 * Throws if a user other than this one or root could redirect a path to another folder, or change the folder's content.
 * Resolves the path from the root, like the kernel: once a component has passed the check, no other user can change it,
 * so the folder that it refers to stays valid.
 *
 * @returns the folder's absolute path, without symbolic links
 * @throws {FolderRefusal}
 * @throws {SystemError} If the path cannot be examined for another reason
 */
export function checkFolderPath(folder: string, use: FolderUse): string {
  const rest = folder.split("/").reverse();
  if (!folder.startsWith("/")) rest.push(...componentAt("/proc/self/cwd").target!.split("/").reverse());
  // The part of the folder's path that has been resolved so far, without symbolic links; "" is the root.
  let reached = "";
  let status: DescriptorStatus = componentAt("/");
  checkFolder("/", status, use);
  for (let links = 0; rest.length > 0;) {
    const name = rest.pop()!;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      reached = reached.slice(0, Math.max(0, reached.lastIndexOf("/")));
      status = componentAt(reached || "/");
      continue;
    }
    const at = `${reached}/${name}`;
    const component = componentAt(at);
    if (component.target === undefined) {
      checkFolder(at, component, use);
      reached = at;
      status = component;
    } else {
      if (++links > maximumLinks) throw new SystemError(errno.ELOOP, `open of ${folder}`);
      checkOwner(`the link ${at}`, component, use);
      if (component.target.startsWith("/")) reached = "";
      rest.push(...component.target.split("/").reverse());
    }
  }
  if (!use.mayBeSticky && (status.permissions & writableByOthers) !== 0) throw writable(reached || "/", status, use);
  return reached || "/";
}

/**
 * Like `checkFolderPath`, but creates the folder and its parents if they do not exist. Creates nothing in a refused
 * folder.
 */
export function createFolderPath(folder: string, use: FolderUse): string {
  try {
    return checkFolderPath(folder, use);
  } catch (error) {
    const [, above = "."] = /^(.*[^/]|)\/+[^/]+\/*$/.exec(folder) ?? [];
    const isMissing = error instanceof FolderRefusal && error.cause instanceof SystemError &&
      error.code === "not-found";
    if (!isMissing || folder === ".") throw error;
    createFolderPath(above || "/", { ...use, mayBeSticky: true });
    createFolder(folder);
    return checkFolderPath(folder, use);
  }
}

function checkFolder(at: string, status: DescriptorStatus, use: FolderUse): void {
  if (status.type !== "folder") throw new FolderRefusal("not-found", `${at} is not a folder; correct the path`);
  checkOwner(`the folder ${at}`, status, use);
  const { permissions } = status;
  // A sticky folder is accepted: only the owner of a file in it may replace the file, and the owner of each file on the
  // path is checked.
  if ((permissions & writableByOthers) !== 0 && (permissions & stickyBit) === 0) throw writable(at, status, use);
}

function writable(at: string, { owner, permissions }: DescriptorStatus, { content }: FolderUse): FolderRefusal {
  return new FolderRefusal(
    "not-permitted",
    `the folder ${at} of user ${owner} (mode ${octal(permissions)}) lets other users put ${content} there; remove ` +
      "their write permission (chmod go-w), or use another folder",
  );
}

function checkOwner(what: string, status: DescriptorStatus, { content }: FolderUse): void {
  if (isOwnOrRoots(status)) return;
  const { owner, permissions } = status;
  throw new FolderRefusal(
    "not-permitted",
    `${what} (mode ${octal(permissions)}) belongs to user ${owner}, who could put ${content} there; use a folder of ` +
      `this process's user, ${shim().poolpass_geteuid()}`,
  );
}

function componentAt(at: string): PathComponent {
  let fd: number;
  try {
    fd = openPath(at);
  } catch (cause) {
    throw pathError(at, cause);
  }
  try {
    const status = describeDescriptor(fd);
    return { ...status, target: status.type === "link" ? readLink(fd) : undefined };
  } finally {
    closeDescriptor(fd);
  }
}

function pathError(at: string, cause: unknown): unknown {
  switch ((cause as SystemError).errno) {
    case errno.ENOENT:
      return new FolderRefusal("not-found", `there is no folder ${at}; make it first`, { cause });
    case errno.EACCES:
      return new FolderRefusal(
        "not-permitted",
        `the folder above ${at} is not accessible to this user; use another folder`,
        { cause },
      );
    default:
      return cause;
  }
}

function octal(permissions: number): string {
  return `0${permissions.toString(8).padStart(3, "0")}`;
}

/**
 * Opens a file that only this user and root may write to, and returns its size in bytes. Returns undefined if there is
 * no such file. Any other object of that name, such as a pipe, a device, a link or another user's file, is not opened,
 * so neither opening nor reading can wait for another process.
 *
 * @throws {SystemError} If the system cannot open the file
 */
export function openOwnFile(
  path: string,
  options: { readonly writable?: boolean } = {},
): { readonly fd: number; readonly byteLength: number } | undefined {
  let found: number | undefined;
  try {
    found = openPath(path);
    const status = describeDescriptor(found);
    const { type, permissions, byteLength } = status;
    if (type !== "file" || !isOwnOrRoots(status) || (permissions & writableByOthers) !== 0) return undefined;
    // Opens exactly the file that was checked, by its descriptor: the name may refer to another file by now.
    return { fd: openDescriptor(`/proc/self/fd/${found}`, options), byteLength };
  } catch (error) {
    if (error instanceof SystemError && error.errno === errno.ENOENT) return undefined;
    throw error;
  } finally {
    if (found !== undefined) closeDescriptor(found);
  }
}
