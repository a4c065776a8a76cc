import { closeDescriptor, describeDescriptor, openDescriptor } from "../../../ffi/shim/descriptors.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { checkSharing, fail, outOfSystem } from "../failure.ts";
import {
  decodeIpcHandle,
  encodeIpcHandle,
  encodeIpcHeader,
  type FilePlace,
  type IpcHeader,
  ipcHeaderByteLength,
} from "./ipc_handle.ts";
import { exists, isGone, ownIdentity } from "./process_identity.ts";
import { SharedFile } from "../memory/shared_file.ts";
import { type LinearMemory, linearMemoryByteLength, pageByteLength, wholePages } from "../memory/linear_memory.ts";

/** Why a handle opens no file: it is none, its process is gone, or that has no such file any more. */
export type IpcFailure = "no handle" | "no process" | "no file";

/** A memory file that a handle names: a page for its header, and then what is shared. It owns a descriptor. */
export class IpcFile {
  readonly header: IpcHeader;
  readonly #file: SharedFile;

  private constructor(file: SharedFile, header: IpcHeader) {
    this.#file = file;
    this.header = header;
  }

  /**
   * A new file, of zeros.
   *
   * @throws {SystemError} where the system gives none
   */
  static create(name: string, fields: Omit<IpcHeader, "id">): IpcFile {
    const header = { ...fields, id: crypto.getRandomValues(new BigUint64Array(1))[0]! };
    const byteLength = pageByteLength + header.byteLength;
    return new IpcFile(SharedFile.create(name, { header: encodeIpcHeader(header), byteLength }), header);
  }

  /**
   * The file that a handle of another process names; "own" where it is this process's.
   *
   * @throws {SystemError} where the system does not let the process or its file be looked at
   */
  static open(kind: bigint, handle: Uint8Array): IpcFile | "own" | IpcFailure {
    const decoded = decodeIpcHandle(kind, handle);
    if (decoded === undefined) return "no handle";
    const { header, place } = decoded;
    const own = ownIdentity();
    if (place.pid === own.pid && place.startTime === own.startTime) return "own";
    if (!exists(place)) return "no process";
    const fd = tryOpen(place);
    if (fd === undefined) return "no file";
    let opened: IpcFile | undefined;
    try {
      const file = isNamed(fd, place.inode) ? SharedFile.adopt(fd) : undefined;
      if (file !== undefined && isDescribed(file, header)) opened = new IpcFile(file, header);
      return opened ?? "no file";
    } finally {
      if (opened === undefined) closeDescriptor(fd);
    }
  }

  /** Names the file to other processes, for as long as it is not closed. */
  handle(): Uint8Array<ArrayBuffer> {
    const { fd } = this.#file;
    return encodeIpcHandle(this.header, { ...ownIdentity(), fd, inode: describeDescriptor(fd).inode });
  }

  /**
   * Overwrites what is shared.
   *
   * @throws {SystemError} where the system has no memory for it
   */
  write(bytes: Uint8Array): void {
    this.#file.write(bytes, pageByteLength);
  }

  /** Reads as much of what is shared as there are bytes to fill. */
  readInto(bytes: Uint8Array): void {
    this.#file.readInto(bytes, pageByteLength);
  }

  /**
   * Maps what is shared to whole pages of linear memory.
   *
   * @throws {SystemError} where the system has no memory for that
   */
  map(linearMemory: LinearMemory, begin: number): void {
    const byteLength = wholePages(this.header.byteLength);
    this.#file.map(linearMemory, { begin, byteLength, fileOffset: pageByteLength });
  }

  /** What is mapped stays. */
  close(): void {
    this.#file.close();
  }
}

/** The file that a handle names for a call that was given it; what is this process's is the call's error. */
export function openIpcFile(kind: bigint, handle: Uint8Array, call: string): IpcFile | IpcFailure {
  checkSharing(call);
  const file = outOfSystem(call, () => IpcFile.open(kind, handle));
  // CUDA, too, opens a handle only in other processes than its own.
  return file === "own" ? fail(cudaErrorNumbers.cudaErrorDeviceUninitialized, call) : file;
}

/** Undefined where the process has no such file any more. */
function tryOpen({ pid, fd }: FilePlace): number | undefined {
  const folder = `/proc/${pid}/fd`;
  try {
    return openDescriptor(`${folder}/${fd}`, { writable: true });
  } catch (error) {
    if (isGone(error) || isOfAnother(error)) return undefined;
    // The file that a handle names can be opened by whoever may look at its process's descriptors.
    if (isDenied(error) && mayOpen(folder)) return undefined;
    throw error;
  }
}

/** Whether what was thrown is what files give that are of another kind. */
function isOfAnother(error: unknown): boolean {
  const { ENXIO, ENODEV, EISDIR, ETXTBSY, EROFS } = errno;
  return error instanceof SystemError && [ENXIO, ENODEV, EISDIR, ETXTBSY, EROFS].some((other) => other === error.errno);
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

/** A process that closes a file gives its number to the next. */
function isNamed(fd: number, inode: bigint): boolean {
  return describeDescriptor(fd).inode === inode;
}

/** Whether the file says of itself what the handle says of it, and has all that it says. */
function isDescribed(file: SharedFile, header: IpcHeader): boolean {
  const { byteLength } = header;
  if (byteLength < 1 || byteLength > linearMemoryByteLength) return false;
  if (pageByteLength + wholePages(byteLength) > file.currentByteLength()) return false;
  return file.read(ipcHeaderByteLength).toHex() === encodeIpcHeader(header).toHex();
}
