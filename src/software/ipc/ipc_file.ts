/**
 * The 64-byte handles by which a process shares one of its memory files with another process: `cudaIpcMemHandle_t` and
 * `cudaIpcEventHandle_t`. The other process opens the file through `/proc/PID/fd/N`. The file therefore ends with the
 * process that owns it, and leaves no name in the file system.
 *
 * A handle consists of, little-endian: 8 bytes of magic, different for each kind; the owner's process number (u32);
 * descriptor (u32); the inode of the owner's pidfd, or the owner's start time (u64); a hash of the machine's boot ID
 * (u32); the inode of the owner's PID namespace (u32); 8 random bytes; the device's UUID (16 bytes); length in bytes
 * (u64). These fields distinguish an owner that has ended from one in another namespace or on another machine. The file
 * starts with the same magic, random bytes, UUID and length, so that no other file is mistaken for it.
 *
 * @module
 */
import { ipcHandleByteLength } from "../../driver.ts";
import { isSameProcess, ownIdentity, type ProcessIdentity, stateOfProcess } from "./process_identity.ts";
import {
  closeDescriptor,
  judgeDescriptor,
  openDescriptor,
  openPath,
  readLink,
} from "../../../ffi/native/shim/descriptors.ts";
import { isGone } from "../../../ffi/native/shim/processes.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { CudaError, cudaErrorName, cudaErrorNumbers } from "../../support/errors.ts";
import { checkSharing, fail, translateSystemErrors } from "../failure.ts";
import { SharedFile } from "../memory/shared_file.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";
import { linearMemoryByteLength, pageByteLength, wholePages } from "../memory/memory_layout.ts";

/** The magic numbers that identify the kinds of handles. */
export const ipcKind = {
  memory: 0x31304d454d504c50n,
  event: 0x3130544e56504c50n,
  /** The mailbox of a rank in a communicator, in which the rank posts data for the other ranks. */
  mailbox: 0x3130584f4d504c50n,
} as const;

/** The size of the header of a file, in bytes. */
const ipcHeaderByteLength = 40;

/** The fields that are stored both in a handle and at the start of the file to which the handle refers. */
interface IpcHeader {
  /** The magic number of the handle's kind, one of `ipcKind`. */
  readonly kind: bigint;
  /** A random 64-bit number that identifies the file. */
  readonly id: bigint;
  /** The UUID, 16 bytes, of the device that owns the shared bytes. */
  readonly deviceUuid: Uint8Array;
  /** The number of bytes that the file shares, not counting the header. */
  readonly byteLength: number;
}

/** Where other processes find a file: the process that owns the file, and the number of the owner's file descriptor. */
interface FileLocation extends ProcessIdentity {
  readonly fd: number;
}

const locationByteLength = ipcHandleByteLength - ipcHeaderByteLength;

function encodeIpcHeader({ kind, id, deviceUuid, byteLength }: IpcHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ipcHeaderByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, kind, true);
  view.setBigUint64(8, id, true);
  bytes.set(deviceUuid, 16);
  view.setBigUint64(32, BigInt(byteLength), true);
  return bytes;
}

function encodeIpcHandle(header: IpcHeader, location: FileLocation): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ipcHandleByteLength);
  const encoded = encodeIpcHeader(header);
  bytes.set(encoded.subarray(0, 8));
  bytes.set(encoded.subarray(8), 8 + locationByteLength);
  const view = new DataView(bytes.buffer, 8, locationByteLength);
  view.setUint32(0, location.pid, true);
  view.setUint32(4, location.fd, true);
  view.setBigUint64(8, location.unique, true);
  view.setUint32(16, location.scope, true);
  view.setUint32(20, location.pidNamespace, true);
  return bytes;
}

/** Decodes a handle. Returns undefined if the bytes are not a handle of the given kind. */
export function decodeIpcHandle(
  kind: bigint,
  bytes: Uint8Array,
): { header: IpcHeader; location: FileLocation } | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength !== ipcHandleByteLength || view.getBigUint64(0, true) !== kind) return undefined;
  const location = {
    pid: view.getUint32(8, true),
    fd: view.getUint32(12, true),
    unique: view.getBigUint64(16, true),
    scope: view.getUint32(24, true),
    pidNamespace: view.getUint32(28, true),
  };
  const header = {
    kind,
    id: view.getBigUint64(32, true),
    deviceUuid: bytes.slice(40, 56),
    byteLength: Number(view.getBigUint64(56, true)),
  };
  return { header, location };
}

/**
 * The reason why a handle cannot be opened, in this order: the bytes are not a handle; the owner process has exited;
 * the owner has closed the file; the owner is not visible from this process, so it is unknown whether the owner still
 * has the file open.
 */
export type IpcFailure = "not a handle" | "no process" | "no file" | "unseen";

/**
 * A memory file to which a handle refers: a page with the header, followed by the shared bytes. The object owns a
 * descriptor of the file.
 */
export class IpcFile {
  readonly header: IpcHeader;
  readonly #file: SharedFile;

  private constructor(file: SharedFile, header: IpcHeader) {
    this.#file = file;
    this.header = header;
  }

  /**
   * Creates a file whose shared bytes are all 0.
   *
   * @throws {SystemError} If the system cannot create the file
   */
  static create(name: string, fields: Omit<IpcHeader, "id">): IpcFile {
    const header = { ...fields, id: crypto.getRandomValues(new BigUint64Array(1))[0]! };
    const byteLength = pageByteLength + header.byteLength;
    return new IpcFile(SharedFile.create(name, { header: encodeIpcHeader(header), byteLength }), header);
  }

  /**
   * Opens the file of another process's handle. Returns "own" if the handle is from this process.
   *
   * @throws {SystemError} If the system denies access to the process or the file
   */
  static open(kind: bigint, handle: Uint8Array): IpcFile | "own" | IpcFailure {
    const decoded = decodeIpcHandle(kind, handle);
    if (decoded !== undefined && isSameProcess(decoded.location, ownIdentity())) return "own";
    return IpcFile.openAnywhere(kind, handle);
  }

  /** Opens the file of a handle from any process, including this one. */
  static openAnywhere(kind: bigint, handle: Uint8Array): IpcFile | IpcFailure {
    const decoded = decodeIpcHandle(kind, handle);
    if (decoded === undefined) return "not a handle";
    const { header, location } = decoded;
    const state = stateOfProcess(location);
    if (state !== "exists") return state === "gone" ? "no process" : "unseen";
    const fd = tryOpen(location);
    // The owner has closed the file, unless `/proc` hides the owner from this process, as with the mount option
    // `hidepid`.
    if (fd === undefined && mayOpen(folderOf(location))) return "no file";
    if (fd === undefined) return stateOfProcess(location) === "gone" ? "no process" : "unseen";
    let opened: IpcFile | undefined;
    try {
      const file = SharedFile.adopt(fd);
      if (file !== undefined && matchesHeader(file, header)) opened = new IpcFile(file, header);
      return opened ?? "no file";
    } finally {
      if (opened === undefined) closeDescriptor(fd);
    }
  }

  /** Returns the handle with which other processes can open the file. The handle is valid until the file is closed. */
  handle(): Uint8Array<ArrayBuffer> {
    const { fd } = this.#file;
    return encodeIpcHandle(this.header, { ...ownIdentity(), fd });
  }

  /**
   * Overwrites shared bytes, starting at `offset`. The range may extend beyond the length in the header.
   *
   * @throws {SystemError} If the system is out of memory
   */
  write(bytes: Uint8Array, offset = 0): void {
    this.#file.write(bytes, pageByteLength + offset);
  }

  /** Reads shared bytes into `bytes`, starting at `offset`. Returns the number of bytes read. */
  readInto(bytes: Uint8Array, offset = 0): number {
    return this.#file.readInto(bytes, pageByteLength + offset);
  }

  /** Returns the memory of a range of shared bytes to the system. */
  punchHole(offset: number, byteLength: number): void {
    this.#file.punchHole(pageByteLength + offset, byteLength);
  }

  /**
   * Maps the shared bytes to whole pages of linear memory.
   *
   * @throws {SystemError} If the system is out of memory
   */
  map(linearMemory: LinearMemory, begin: number): void {
    const byteLength = wholePages(this.header.byteLength);
    this.#file.map(linearMemory, { begin, byteLength, fileOffset: pageByteLength });
  }

  /** Closes the file. Existing mappings stay valid. */
  close(): void {
    this.#file.close();
  }
}

/**
 * Opens the file to which a handle refers, for a CUDA call. Throws the error that CUDA specifies for the call if the
 * handle is from this process, or if the owner process is not visible from this process.
 */
export function openIpcFile(
  kind: bigint,
  handle: Uint8Array,
  call: string,
): IpcFile | Exclude<IpcFailure, "unseen"> {
  checkSharing(call);
  const file = translateSystemErrors(call, () => IpcFile.open(kind, handle));
  if (file === "unseen") {
    const number = cudaErrorNumbers.cudaErrorMapBufferObjectFailed;
    const reason = "it was made in another PID namespace, or on another machine, or /proc does not show its process";
    throw new CudaError(number, call, `${call} failed: ${cudaErrorName(number)} (${reason})`);
  }
  // Like CUDA, fails if the handle is opened in the process that created it.
  return file === "own" ? fail(cudaErrorNumbers.cudaErrorDeviceUninitialized, call) : file;
}

/**
 * Opens a memory file of another process. Returns undefined if the process has closed the file, if the descriptor's
 * number now belongs to another kind of file (opening such a file could have side effects), or if a process has a lease
 * on the file.
 */
function tryOpen(location: FileLocation): number | undefined {
  const path = `${folderOf(location)}/${location.fd}`;
  let found: number | undefined;
  try {
    found = openPath(path, { follow: true });
    // Opens the file through the descriptor that was checked, not through the path again, because the other process may
    // replace its descriptor at any time.
    const { isMemoryFile } = judgeDescriptor(found);
    return isMemoryFile ? openDescriptor(`/proc/self/fd/${found}`, { writable: true }) : undefined;
  } catch (error) {
    if (isGone(error) || isWrongKind(error)) return undefined;
    // A process that may read the symbolic links of the owner's descriptors may also open the file of a handle. If
    // opening is denied although the link is readable, the descriptor's number now belongs to another file.
    if (isDenied(error) && maySee(path)) return undefined;
    throw error;
  } finally {
    if (found !== undefined) closeDescriptor(found);
  }
}

/** Returns whether an error shows that a file cannot be opened because it is being executed or has a lease. */
function isWrongKind(error: unknown): boolean {
  return error instanceof SystemError && (error.errno === errno.ETXTBSY || error.errno === errno.EAGAIN);
}

function isDenied(error: unknown): boolean {
  return error instanceof SystemError && error.errno === errno.EACCES;
}

/** Returns whether this process may read the symbolic link of another process's descriptor. */
function maySee(path: string): boolean {
  try {
    const link = openPath(path);
    try {
      readLink(link);
    } finally {
      closeDescriptor(link);
    }
    return true;
  } catch (error) {
    if (isDenied(error)) return false;
    // The process has exited, or has closed the descriptor. Missing permissions are not the reason for the failure.
    if (isGone(error)) return true;
    throw error;
  }
}

function mayOpen(path: string): boolean {
  try {
    closeDescriptor(openDescriptor(path));
    return true;
  } catch (error) {
    if (isDenied(error) || isGone(error)) return false;
    throw error;
  }
}

/** Returns the path of the folder that lists a process's descriptors. */
function folderOf({ pid }: FileLocation): string {
  return `/proc/${pid}/fd`;
}

/** Returns whether the header in the file matches the handle's header, and the file is long enough. */
function matchesHeader(file: SharedFile, header: IpcHeader): boolean {
  const { byteLength } = header;
  if (byteLength < 1 || byteLength > linearMemoryByteLength) return false;
  if (pageByteLength + wholePages(byteLength) > file.currentByteLength()) return false;
  return file.read(ipcHeaderByteLength).toHex() === encodeIpcHeader(header).toHex();
}
