import { closeDescriptor, describeDescriptor, openDescriptor, openPath } from "../../../ffi/shim/descriptors.ts";
import { judgeDescriptor } from "../../../ffi/shim/foreign_descriptors.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { checkSharing, fail, translateSystemErrors } from "../failure.ts";
import {
  decodeIpcHandle,
  encodeIpcHandle,
  encodeIpcHeader,
  type FileLocation,
  type IpcHeader,
  ipcHeaderByteLength,
} from "./ipc_handle.ts";
import { isGone, ownIdentity, processExists } from "./process_identity.ts";
import { SharedFile } from "../memory/shared_file.ts";
import { type LinearMemory, linearMemoryByteLength, pageByteLength, wholePages } from "../memory/linear_memory.ts";

/**
 * Why a handle cannot be opened: the bytes are not a handle, its process has ended, or the process has closed the file.
 */
export type IpcFailure = "not a handle" | "no process" | "no file";

/** A memory file that a handle names: a page with its header, followed by the shared bytes. It owns a descriptor. */
export class IpcFile {
  readonly header: IpcHeader;
  readonly #file: SharedFile;

  private constructor(file: SharedFile, header: IpcHeader) {
    this.#file = file;
    this.header = header;
  }

  /**
   * Creates a file whose shared bytes are zero.
   *
   * @throws {SystemError} if the system cannot create it
   */
  static create(name: string, fields: Omit<IpcHeader, "id">): IpcFile {
    const header = { ...fields, id: crypto.getRandomValues(new BigUint64Array(1))[0]! };
    const byteLength = pageByteLength + header.byteLength;
    return new IpcFile(SharedFile.create(name, { header: encodeIpcHeader(header), byteLength }), header);
  }

  /**
   * Opens the file that a handle of another process names. Returns "own" if the handle is from this process.
   *
   * @throws {SystemError} if the system denies access to the process or its file
   */
  static open(kind: bigint, handle: Uint8Array): IpcFile | "own" | IpcFailure {
    const decoded = decodeIpcHandle(kind, handle);
    if (decoded === undefined) return "not a handle";
    const { header, location } = decoded;
    const own = ownIdentity();
    if (location.pid === own.pid && location.startTime === own.startTime) return "own";
    if (!processExists(location)) return "no process";
    const fd = tryOpen(location);
    if (fd === undefined) return "no file";
    let opened: IpcFile | undefined;
    try {
      const file = hasInode(fd, location.inode) ? SharedFile.adopt(fd) : undefined;
      if (file !== undefined && matchesHeader(file, header)) opened = new IpcFile(file, header);
      return opened ?? "no file";
    } finally {
      if (opened === undefined) closeDescriptor(fd);
    }
  }

  /** Returns the handle with which other processes can open the file until it is closed. */
  handle(): Uint8Array<ArrayBuffer> {
    const { fd } = this.#file;
    return encodeIpcHandle(this.header, { ...ownIdentity(), fd, inode: describeDescriptor(fd).inode });
  }

  /**
   * Overwrites the shared bytes.
   *
   * @throws {SystemError} if the system has no memory for them
   */
  write(bytes: Uint8Array): void {
    this.#file.write(bytes, pageByteLength);
  }

  /** Fills `bytes` with the first shared bytes. */
  readInto(bytes: Uint8Array): void {
    this.#file.readInto(bytes, pageByteLength);
  }

  /**
   * Maps the shared bytes to whole pages of linear memory.
   *
   * @throws {SystemError} if the system has no memory for that
   */
  map(linearMemory: LinearMemory, begin: number): void {
    const byteLength = wholePages(this.header.byteLength);
    this.#file.map(linearMemory, { begin, byteLength, fileOffset: pageByteLength });
  }

  /** Closes the file. Its mappings stay. */
  close(): void {
    this.#file.close();
  }
}

/**
 * Opens the file that a handle names, for a CUDA call. Throws the error of that call if the handle is from this
 * process.
 */
export function openIpcFile(kind: bigint, handle: Uint8Array, call: string): IpcFile | IpcFailure {
  checkSharing(call);
  const file = translateSystemErrors(call, () => IpcFile.open(kind, handle));
  // Like CUDA, refuses to open a handle in the process that created it.
  return file === "own" ? fail(cudaErrorNumbers.cudaErrorDeviceUninitialized, call) : file;
}

/**
 * Opens a memory file of another process. Returns undefined if the process no longer has it, if the descriptor is of
 * another file, which opening could have an effect on, or if somebody has a lease on the file.
 */
function tryOpen({ pid, fd }: FileLocation): number | undefined {
  const folder = `/proc/${pid}/fd`;
  let path: number | undefined;
  try {
    path = openPath(`${folder}/${fd}`, { follow: true });
    // The other process may replace its descriptor at any time: what was judged is opened.
    return judgeDescriptor(path).isMemoryFile ? openDescriptor(`/proc/self/fd/${path}`, { writable: true }) : undefined;
  } catch (error) {
    if (isGone(error) || isWrongKind(error)) return undefined;
    // The file that a handle names can be opened by every process that may read the owner's descriptor folder. Access
    // to this file is denied although that folder is readable: the descriptor's number now belongs to another file.
    if (isDenied(error) && mayOpen(folder)) return undefined;
    throw error;
  } finally {
    if (path !== undefined) closeDescriptor(path);
  }
}

/** Whether an open failed because the memory file is being executed or has a lease. */
function isWrongKind(error: unknown): boolean {
  return error instanceof SystemError && (error.errno === errno.ETXTBSY || error.errno === errno.EAGAIN);
}

function isDenied(error: unknown): boolean {
  return error instanceof SystemError && error.errno === errno.EACCES;
}

function mayOpen(path: string): boolean {
  try {
    closeDescriptor(openDescriptor(path));
    return true;
  } catch (error) {
    if (isDenied(error)) return false;
    throw error;
  }
}

/**
 * Whether a descriptor refers to the file with an inode. After a process closes a file, its next one may reuse the
 * number.
 */
function hasInode(fd: number, inode: bigint): boolean {
  return describeDescriptor(fd).inode === inode;
}

/** Whether the file's own header matches the handle's, and the file is long enough. */
function matchesHeader(file: SharedFile, header: IpcHeader): boolean {
  const { byteLength } = header;
  if (byteLength < 1 || byteLength > linearMemoryByteLength) return false;
  if (pageByteLength + wholePages(byteLength) > file.currentByteLength()) return false;
  return file.read(ipcHeaderByteLength).toHex() === encodeIpcHeader(header).toHex();
}
