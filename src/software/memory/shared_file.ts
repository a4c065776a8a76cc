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
import {
  decodePoolFileHeader,
  encodePoolFileHeader,
  type PoolFileHeader,
  poolFileHeaderByteLength,
  poolFileHeaderUsedByteLength,
} from "./pool_file.ts";
import { type LinearMemory, wholePages } from "./linear_memory.ts";

/** Whole pages of linear memory, and their offset in a file. */
export interface FileMapping {
  readonly begin: number;
  readonly byteLength: number;
  readonly fileOffset: number;
}

/** Returns why software devices cannot share memory here, or undefined if they can. */
export function sharedMemoryRefusal(): string | undefined {
  return shimRefusal();
}

/** A memory file that other processes may map. It owns a descriptor. */
export class SharedFile {
  /** The descriptor, which the file owns. */
  readonly fd: number;
  #byteLength: number;

  protected constructor(fd: number, byteLength: number) {
    this.fd = fd;
    this.#byteLength = byteLength;
  }

  /**
   * Creates a file of whole pages that starts with a header.
   *
   * @throws {SystemError} If the system cannot create it
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
   * @throws {SystemError} If the system cannot create it
   */
  static createPoolFile(header: PoolFileHeader): SharedFile {
    const byteLength = poolFileHeaderByteLength;
    return SharedFile.create("poolpass-pool", { header: encodePoolFileHeader(header), byteLength });
  }

  /**
   * Takes ownership of the descriptor of another process's file. Returns undefined if the file cannot be mapped safely:
   * the caller then keeps ownership.
   *
   * @throws {SystemError} If the descriptor is not open
   */
  static adopt(fd: number): SharedFile | undefined {
    // Another file's system would be asked for its length, and may never answer.
    if (!judgeDescriptor(fd).isMemoryFile) return undefined;
    const { seals, byteLength } = describeDescriptor(fd);
    // Without the seal, the other process could shrink the file, and accesses to its mapping would crash this process.
    const isSealed = seals !== undefined && (seals & sealShrink) !== 0;
    return isSealed ? new SharedFile(fd, byteLength) : undefined;
  }

  /**
   * Opens the file of a pool's exported descriptor, which the caller keeps. Returns undefined if the descriptor is not
   * a pool's. The result's locks are its own: the descriptor may share its locks with other processes.
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

  /** Whether a descriptor is a pool's. */
  static isPoolFile(fd: number): boolean {
    const opened = SharedFile.openPoolFile(fd);
    opened?.file.close();
    return opened !== undefined;
  }

  /**
   * Opens the file of a descriptor, which the caller keeps. Returns undefined if it does not start with a header.
   *
   * @param options.minimum the bytes that a file has at least
   * @param options.decode returns undefined if bytes are no header
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

  /** Returns a string that identifies the file. It is the same for every descriptor of the file. */
  identity(): string {
    const { device, inode } = describeDescriptor(this.fd);
    return `${device} ${inode}`;
  }

  /** Returns the current length of the file, which other processes may have grown. */
  currentByteLength(): number {
    this.#byteLength = describeDescriptor(this.fd).byteLength;
    return this.#byteLength;
  }

  /** Reads bytes from an offset. Returns fewer than `byteLength` bytes at the end of the file. */
  read(byteLength: number, offset = 0): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(byteLength);
    return bytes.subarray(0, this.readInto(bytes, offset));
  }

  /** Reads bytes from an offset into `bytes`. Returns how many were read. */
  readInto(bytes: Uint8Array, offset: number): number {
    return readAt(this.fd, bytes, { offset });
  }

  /**
   * Overwrites the bytes from an offset.
   *
   * @throws {SystemError} If the system has no memory for them
   */
  write(bytes: Uint8Array, offset: number): void {
    writeAt(this.fd, bytes, { offset });
  }

  /** Returns a duplicate descriptor, which the caller owns. */
  duplicate(): number {
    return duplicateDescriptor(this.fd);
  }

  /** Whether the memory is gone with its owner, although this process can still use what it has mapped. */
  get isAbandoned(): boolean {
    return false;
  }

  /**
   * Maps a range of the file into linear memory. Grows the file if necessary.
   *
   * @throws {SystemError} If the system has no memory for that
   */
  map(linearMemory: LinearMemory, { begin, byteLength, fileOffset }: FileMapping): void {
    this.reserve(fileOffset, byteLength);
    mapShared(linearMemory.bytes, this.fd, { at: begin, offset: fileOffset, byteLength });
  }

  /**
   * Grows the file to the end of a range. If another process has grown it further meanwhile, the call would shrink the
   * file: the seal forbids that with `EPERM`, and the file is long enough.
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

  /** Calls `map`. Returns false if the system has no memory for that. */
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
   * Locks a range until `unlock`, `close` or the end of this process, whichever comes first.
   *
   * @throws {SystemError} If the system has no memory for that, or if another process forbids it by a write lock
   */
  lock(offset: number, byteLength: number): void {
    lockRange(this.fd, { offset, byteLength });
  }

  unlock(offset: number, byteLength: number): void {
    unlockRange(this.fd, { offset, byteLength });
  }

  /** Whether anybody else who opened the file has locked a part of a range. */
  isLocked(offset: number, byteLength: number): boolean {
    return isRangeLocked(this.fd, { offset, byteLength });
  }

  /** Returns the memory of a range of the file to the system, if the system supports it. */
  punchHole(offset: number, byteLength: number): void {
    try {
      punchHole(this.fd, { offset, byteLength });
    } catch (error) {
      // The memory is then freed together with the file.
      if (!(error instanceof SystemError)) throw error;
    }
  }

  close(): void {
    closeDescriptor(this.fd);
  }
}
