import {
  closeDescriptor,
  describeDescriptor,
  duplicateDescriptor,
  readAt,
  sealShrink,
  writeAt,
} from "../../../ffi/shim/descriptors.ts";
import { createMemoryFile, growMemoryFile, mapShared, punchHole } from "../../../ffi/shim/memory.ts";
import { shimRefusal } from "../../../ffi/shim/shim.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";
import {
  decodePoolFileHeader,
  encodePoolFileHeader,
  type PoolFileHeader,
  poolFileHeaderByteLength,
  poolFileHeaderUsedByteLength,
} from "./pool_file.ts";
import { type LinearMemory, wholePages } from "./linear_memory.ts";

/** Whole pages of linear memory, and where they lie in a file. */
export interface FileMapping {
  readonly begin: number;
  readonly byteLength: number;
  readonly fileOffset: number;
}

/** Why software devices cannot share memory here; undefined where they can. */
export function sharedMemoryRefusal(): string | undefined {
  return shimRefusal();
}

/** A memory file that other processes may map. It owns a descriptor. */
export class SharedFile {
  /** The descriptor, which stays the file's. */
  readonly fd: number;
  #byteLength: number;

  private constructor(fd: number, byteLength: number) {
    this.fd = fd;
    this.#byteLength = byteLength;
  }

  /**
   * A new file of whole pages that begins with a header.
   *
   * @throws {SystemError} where the system gives none
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
   * A new pool's file.
   *
   * @throws {SystemError} where the system gives none
   */
  static createPoolFile(header: PoolFileHeader): SharedFile {
    const byteLength = poolFileHeaderByteLength;
    return SharedFile.create("poolpass-pool", { header: encodePoolFileHeader(header), byteLength });
  }

  /**
   * Takes over the descriptor of another process's file, where that is one that can be mapped: undefined where it is
   * not, and the descriptor stays the caller's.
   *
   * @throws {SystemError} where it is not open
   */
  static adopt(fd: number): SharedFile | undefined {
    const { type, seals, byteLength } = describeDescriptor(fd);
    // Without the seal, the other process could take the memory from under this process's hands.
    const isSealed = seals !== undefined && (seals & sealShrink) !== 0;
    return type === "file" && isSealed ? new SharedFile(fd, byteLength) : undefined;
  }

  /**
   * The file behind a pool's exported descriptor, which stays the caller's; undefined where it is no pool's.
   *
   * @throws {SystemError} where no other descriptor can be opened
   */
  static openPoolFile(fd: number): { file: SharedFile; header: PoolFileHeader } | undefined {
    let borrowed: SharedFile | undefined;
    let header: PoolFileHeader | undefined;
    try {
      borrowed = SharedFile.adopt(fd);
      if (borrowed === undefined || borrowed.#byteLength < poolFileHeaderByteLength) return undefined;
      header = decodePoolFileHeader(borrowed.read(poolFileHeaderUsedByteLength));
    } catch (error) {
      if (error instanceof SystemError) return undefined;
      throw error;
    }
    return header && { file: new SharedFile(duplicateDescriptor(fd), borrowed.#byteLength), header };
  }

  /** Which file it is: the same for every descriptor of it. */
  identity(): string {
    const { device, inode } = describeDescriptor(this.fd);
    return `${device} ${inode}`;
  }

  /** How long the file is now: its pool's process may have made it longer. */
  currentByteLength(): number {
    this.#byteLength = describeDescriptor(this.fd).byteLength;
    return this.#byteLength;
  }

  /** The bytes from an offset on, which is 0 unless given: fewer than asked for where it has no more. */
  read(byteLength: number, offset = 0): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(byteLength);
    return bytes.subarray(0, this.readInto(bytes, offset));
  }

  /** Fills bytes with those from an offset on, and says how many there were. */
  readInto(bytes: Uint8Array, offset: number): number {
    return readAt(this.fd, bytes, { offset });
  }

  /**
   * Overwrites a part.
   *
   * @throws {SystemError} where the system has no memory for it
   */
  write(bytes: Uint8Array, offset: number): void {
    writeAt(this.fd, bytes, { offset });
  }

  /** Another descriptor of it, the caller's. */
  duplicate(): number {
    return duplicateDescriptor(this.fd);
  }

  /**
   * Maps a range of the file, made longer where it has to be.
   *
   * @throws {SystemError} where the system has no memory for that
   */
  map(linearMemory: LinearMemory, { begin, byteLength, fileOffset }: FileMapping): void {
    this.#growTo(fileOffset + byteLength);
    mapShared(linearMemory.bytes, this.fd, { at: begin, offset: fileOffset, byteLength });
  }

  /** Makes the file at least so long. Whoever else has it may do so too, and then it cannot be made shorter. */
  #growTo(byteLength: number): void {
    if (byteLength <= this.#byteLength || byteLength <= this.currentByteLength()) return;
    try {
      growMemoryFile(this.fd, byteLength);
      this.#byteLength = byteLength;
    } catch (error) {
      const isSealed = error instanceof SystemError && error.errno === errno.EPERM;
      if (!isSealed || byteLength > this.currentByteLength()) throw error;
    }
  }

  /** Maps a range likewise; false where the system has no memory for that. */
  tryMap(linearMemory: LinearMemory, mapping: FileMapping): boolean {
    try {
      this.map(linearMemory, mapping);
      return true;
    } catch (error) {
      if (error instanceof SystemError) return false;
      throw error;
    }
  }

  /** Gives the memory of a range of the file back to the system, where it takes it. */
  punchHole(offset: number, byteLength: number): void {
    try {
      punchHole(this.fd, { offset, byteLength });
    } catch (error) {
      // The memory is then given back with the file.
      if (!(error instanceof SystemError)) throw error;
    }
  }

  close(): void {
    closeDescriptor(this.fd);
  }
}
