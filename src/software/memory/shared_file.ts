/**
 * Memory files (memfds) that several processes map, and the formats by which processes share a software pool: a sealed
 * memory file whose first page describes the pool, and export data that identifies an allocation in the file.
 *
 * All fields are little-endian.
 *
 * - Header of the file: 8 bytes of magic, the pool's id (16 random bytes), the device's UUID (16 bytes, zeros for host
 *   memory), the pool's handle types (u32), the type of its location (u32), the ID of the process that created it
 * (u64).
 * - Export data: the same process ID (u64), the pool's id, the allocation's offset in the file and length in bytes
 *   (u64 each), 8 bytes of another magic, zeros up to 64 bytes. The process ID, offset and length are at the same
 * offsets
 *   as in CUDA's export data.
 *
 * @module
 */
import { exportDataByteLength, memLocationType } from "../../driver.ts";
import {
  closeDescriptor,
  describeDescriptor,
  duplicateDescriptor,
  judgeDescriptor,
  readAt,
  sealShrink,
  writeAt,
} from "../../../ffi/native/shim/descriptors.ts";
import {
  createMemoryFile,
  growMemoryFile,
  isRangeLocked,
  lockRange,
  mapShared,
  punchHole,
  reopenMemoryFile,
  unlockRange,
} from "../../../ffi/native/shim/memory_files.ts";
import { errno, shimRefusal, SystemError } from "../../../ffi/native/shim/shim.ts";
import type { LinearMemory } from "./linear_memory.ts";
import { wholePages } from "./memory_layout.ts";

/** The size of the first page of a pool's file, in bytes. Allocations are never located in this page. */
export const poolFileHeaderByteLength = 65536;
/**
 * The size of a unit, in bytes: the same as the size of the pages that a GPU maps. Pools reserve and release memory in
 * whole units. The first unit follows the file's first page.
 */
export const unitByteLength: number = 2 * 2 ** 20;
/** The total size of the fields of a pool file's header, in bytes. */
export const poolFileHeaderUsedByteLength = 56;

const headerMagic = 0x32304c4f4f504c50n;
const exportMagic = 0x3230525450504c50n;
const uuidByteLength = 16;
const exportDataUsedByteLength = 48;

/** The description of a pool, which is stored at the start of the pool's file. */
export interface PoolFileHeader {
  /** The pool's id: 16 random bytes, as hexadecimal digits. */
  readonly id: string;
  /** The UUID of the pool's device. Undefined for host memory. */
  readonly deviceUuid: Uint8Array | undefined;
  readonly handleTypes: number;
  /** The process that created the pool. */
  readonly processId: number;
}

/** The information that export data encodes: the position of an allocation in a pool's file. */
export interface ExportedPointer {
  readonly processId: number;
  readonly poolId: string;
  readonly fileOffset: number;
  readonly byteLength: number;
}

/** Returns a random id for a new pool. */
export function createPoolId(): string {
  return crypto.getRandomValues(new Uint8Array(16)).toHex();
}

export function encodePoolFileHeader(
  { id, deviceUuid, handleTypes, processId }: PoolFileHeader,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(poolFileHeaderUsedByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, headerMagic, true);
  bytes.set(Uint8Array.fromHex(id), 8);
  if (deviceUuid !== undefined) bytes.set(deviceUuid, 24);
  view.setUint32(40, handleTypes, true);
  view.setUint32(44, deviceUuid === undefined ? memLocationType.hostNuma : memLocationType.device, true);
  view.setBigUint64(48, BigInt(processId), true);
  return bytes;
}

/** Decodes the header of a pool's file. Returns undefined if the bytes are not a valid header. */
export function decodePoolFileHeader(bytes: Uint8Array): PoolFileHeader | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength < poolFileHeaderUsedByteLength || view.getBigUint64(0, true) !== headerMagic) return undefined;
  const location = view.getUint32(44, true);
  const isHost = location === memLocationType.hostNuma;
  if (!isHost && location !== memLocationType.device) return undefined;
  return {
    id: bytes.slice(8, 24).toHex(),
    deviceUuid: isHost ? undefined : bytes.slice(24, 24 + uuidByteLength),
    handleTypes: view.getUint32(40, true),
    processId: Number(view.getBigUint64(48, true)),
  };
}

export function encodeExportData(
  { processId, poolId, fileOffset, byteLength }: ExportedPointer,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(exportDataByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(processId), true);
  bytes.set(Uint8Array.fromHex(poolId), 8);
  view.setBigUint64(24, BigInt(fileOffset), true);
  view.setBigUint64(32, BigInt(byteLength), true);
  view.setBigUint64(40, exportMagic, true);
  return bytes;
}

/** Decodes export data. Returns undefined if the bytes are not valid export data. */
export function decodeExportData(bytes: Uint8Array): ExportedPointer | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength !== exportDataByteLength || view.getBigUint64(40, true) !== exportMagic) return undefined;
  if (bytes.subarray(exportDataUsedByteLength).some((byte) => byte !== 0)) return undefined;
  return {
    processId: Number(view.getBigUint64(0, true)),
    poolId: bytes.slice(8, 24).toHex(),
    fileOffset: Number(view.getBigUint64(24, true)),
    byteLength: Number(view.getBigUint64(32, true)),
  };
}

/** A mapping of a range of a file to whole pages of linear memory. */
export interface FileMapping {
  readonly begin: number;
  readonly byteLength: number;
  readonly fileOffset: number;
}

/** Returns why software devices cannot share memory on this system, or undefined if they can. */
export function sharedMemoryRefusal(): string | undefined {
  return shimRefusal();
}

/** A memory file that other processes may map. The object owns a descriptor of the file. */
export class SharedFile {
  /** The descriptor of the file, which this object owns and closes. */
  readonly fd: number;
  #byteLength: number;

  protected constructor(fd: number, byteLength: number) {
    this.fd = fd;
    this.#byteLength = byteLength;
  }

  /**
   * Creates a file that consists of whole pages and starts with a header.
   *
   * @throws {SystemError} If the system cannot create the file
   */
  static create(name: string, { header, byteLength }: { header: Uint8Array; byteLength: number }): SharedFile {
    const length = wholePages(byteLength);
    const file = new SharedFile(createMemoryFile(name, length), length);
    try {
      file.write(header, 0);
    } catch (error) {
      file.close();
      throw error;
    }
    return file;
  }

  /**
   * Creates the file of a new pool.
   *
   * @throws {SystemError} If the system cannot create the file
   */
  static createPoolFile(header: PoolFileHeader): SharedFile {
    const byteLength = poolFileHeaderByteLength;
    return SharedFile.create("poolpass-pool", { header: encodePoolFileHeader(header), byteLength });
  }

  /**
   * Takes ownership of a descriptor of another process's file. Returns undefined if the file cannot be mapped safely;
   * the caller then keeps ownership.
   *
   * @throws {SystemError} If the descriptor is not open
   */
  static adopt(fd: number): SharedFile | undefined {
    // Checks the kind of file first: for other kinds, querying the length may block forever, for example on a network
    // file system.
    if (!judgeDescriptor(fd).isMemoryFile) return undefined;
    const { seals, byteLength } = describeDescriptor(fd);
    // Without the seal against shrinking, the other process could shrink the file, and accesses to the mapping would
    // crash this process.
    const isSealed = seals !== undefined && (seals & sealShrink) !== 0;
    return isSealed ? new SharedFile(fd, byteLength) : undefined;
  }

  /**
   * Reopens the file of a pool, given an exported descriptor, which still belongs to the caller. Returns undefined if
   * the descriptor does not refer to the file of a pool. The reopened file has its own locks, whereas locks that are
   * held through the exported descriptor may be shared with other processes.
   *
   * @throws {SystemError} If the file cannot be opened
   */
  static openPoolFile(fd: number): { file: SharedFile; header: PoolFileHeader } | undefined {
    return SharedFile.openWithHeader(fd, {
      headerByteLength: poolFileHeaderUsedByteLength,
      minimum: poolFileHeaderByteLength,
      decode: decodePoolFileHeader,
    });
  }

  /** Returns whether a descriptor refers to the file of a pool. */
  static isPoolFile(fd: number): boolean {
    const opened = SharedFile.openPoolFile(fd);
    opened?.file.close();
    return opened !== undefined;
  }

  /**
   * Reopens the file to which a descriptor refers. The caller still owns the descriptor. Returns undefined if the file
   * does not start with a valid header.
   *
   * @param options.minimum the minimum size of a valid file in bytes
   * @param options.decode decodes a header, and returns undefined if it is not valid
   * @throws {SystemError} If the file cannot be opened
   */
  static openWithHeader<Header>(
    fd: number,
    { headerByteLength, minimum, decode }: {
      headerByteLength: number;
      minimum: number;
      decode: (bytes: Uint8Array) => Header | undefined;
    },
  ): { file: SharedFile; header: Header } | undefined {
    let borrowed: SharedFile | undefined;
    let header: Header | undefined;
    try {
      borrowed = SharedFile.adopt(fd);
      if (borrowed === undefined || borrowed.#byteLength < minimum) return undefined;
      header = decode(borrowed.read(headerByteLength));
    } catch (error) {
      if (error instanceof SystemError) return undefined;
      throw error;
    }
    return header && { file: new SharedFile(reopenMemoryFile(fd), borrowed.#byteLength), header };
  }

  /** Returns a string that identifies the file, the same for every descriptor of the file. */
  identity(): string {
    const { device, inode } = describeDescriptor(this.fd);
    return `${device} ${inode}`;
  }

  /** Returns the current length of the file, which other processes may have grown. */
  currentByteLength(): number {
    this.#byteLength = describeDescriptor(this.fd).byteLength;
    return this.#byteLength;
  }

  /** Reads bytes, starting at `offset`. Returns fewer than `byteLength` bytes if the file ends earlier. */
  read(byteLength: number, offset = 0): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(byteLength);
    return bytes.subarray(0, this.readInto(bytes, offset));
  }

  /** Reads bytes into `bytes`, starting at `offset`. Returns the number of bytes read. */
  readInto(bytes: Uint8Array, offset: number): number {
    return readAt(this.fd, bytes, { offset });
  }

  /**
   * Overwrites bytes, starting at `offset`.
   *
   * @throws {SystemError} If the system is out of memory
   */
  write(bytes: Uint8Array, offset: number): void {
    writeAt(this.fd, bytes, { offset });
  }

  /** Returns a duplicate of the descriptor, which the caller must close. */
  duplicate(): number {
    return duplicateDescriptor(this.fd);
  }

  /**
   * Whether the process that owns the memory no longer provides it. Ranges that this process has already mapped stay
   * usable.
   */
  get isAbandoned(): boolean {
    return false;
  }

  /**
   * Maps a range of the file into linear memory. Grows the file if necessary.
   *
   * @throws {SystemError} If the system is out of memory
   */
  map(linearMemory: LinearMemory, { begin, byteLength, fileOffset }: FileMapping): void {
    this.reserve(fileOffset, byteLength);
    mapShared(linearMemory.bytes, this.fd, { at: begin, offset: fileOffset, byteLength });
  }

  /**
   * Grows the file to the end of a range. If another process has grown the file further in the meantime, the system
   * call would shrink the file. The file's seal makes the call fail with `EPERM` instead. That error is ignored,
   * because the file is already long enough.
   */
  protected reserve(offset: number, rangeByteLength: number): void {
    const byteLength = offset + rangeByteLength;
    if (byteLength <= this.#byteLength || byteLength <= this.currentByteLength()) return;
    try {
      growMemoryFile(this.fd, byteLength);
      this.#byteLength = byteLength;
    } catch (error) {
      const isSealed = error instanceof SystemError && error.errno === errno.EPERM;
      if (!isSealed || byteLength > this.currentByteLength()) throw error;
    }
  }

  /** Calls `map`. Returns false if the system is out of memory. */
  tryMap(linearMemory: LinearMemory, mapping: FileMapping): boolean {
    try {
      this.map(linearMemory, mapping);
      return true;
    } catch (error) {
      if (error instanceof SystemError) return false;
      throw error;
    }
  }

  /**
   * Locks a range until the first of these events: `unlock`, `close`, or the exit of this process.
   *
   * @throws {SystemError} If the system is out of memory, or if another process holds a conflicting write lock
   */
  lock(offset: number, byteLength: number): void {
    lockRange(this.fd, { offset, byteLength });
  }

  unlock(offset: number, byteLength: number): void {
    unlockRange(this.fd, { offset, byteLength });
  }

  /** Returns whether a part of a range is locked through any other open file description of the file. */
  isLocked(offset: number, byteLength: number): boolean {
    return isRangeLocked(this.fd, { offset, byteLength });
  }

  /**
   * Returns the memory of a range of the file to the system. Has no effect if the system does not support holes in
   * files.
   */
  punchHole(offset: number, byteLength: number): void {
    try {
      punchHole(this.fd, { offset, byteLength });
    } catch (error) {
      // If the system does not support holes, the memory is returned when the file is deleted.
      if (!(error instanceof SystemError)) throw error;
    }
  }

  close(): void {
    closeDescriptor(this.fd);
  }
}
