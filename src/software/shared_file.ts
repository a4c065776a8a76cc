import {
  closeDescriptor,
  describeDescriptor,
  duplicateDescriptor,
  readAt,
  sealShrink,
  writeAt,
} from "../../ffi/shim/descriptors.ts";
import { createMemoryFile, growMemoryFile, mapShared, punchHole } from "../../ffi/shim/memory.ts";
import { shimRefusal } from "../../ffi/shim/shim.ts";
import { SystemError } from "../../ffi/shim/system_error.ts";
import {
  decodePoolFileHeader,
  encodePoolFileHeader,
  type PoolFileHeader,
  poolFileHeaderByteLength,
  poolFileHeaderUsedByteLength,
} from "./pool_file.ts";
import type { Window } from "./window.ts";

/** Whole pages of the window, and where they lie in a file. */
export interface FileMapping {
  readonly begin: number;
  readonly byteLength: number;
  readonly fileOffset: number;
}

/** Why software devices cannot share memory here; undefined where they can. */
export function sharedMemoryRefusal(): string | undefined {
  return shimRefusal();
}

/** A pool's memory file: what its exported descriptor leads to. It owns a descriptor. */
export class SharedFile {
  readonly #fd: number;
  #byteLength: number;

  private constructor(fd: number, byteLength: number) {
    this.#fd = fd;
    this.#byteLength = byteLength;
  }

  /**
   * A new pool's file.
   *
   * @throws {SystemError} where the system gives none
   */
  static createPoolFile(header: PoolFileHeader): SharedFile {
    const fd = createMemoryFile("poolpass-pool", poolFileHeaderByteLength);
    try {
      writeAt(fd, encodePoolFileHeader(header));
    } catch (error) {
      closeDescriptor(fd);
      throw error;
    }
    return new SharedFile(fd, poolFileHeaderByteLength);
  }

  /** The file behind a pool's exported descriptor, which stays the caller's; undefined where it is no pool's. */
  static openPoolFile(fd: number): { file: SharedFile; header: PoolFileHeader } | undefined {
    try {
      const { type, seals, byteLength } = describeDescriptor(fd);
      // Without the seal, the exporter could take the memory from under this process's hands.
      const isSealed = seals !== undefined && (seals & sealShrink) !== 0;
      if (type !== "file" || !isSealed || byteLength < poolFileHeaderByteLength) return undefined;
      const bytes = new Uint8Array(poolFileHeaderUsedByteLength);
      if (readAt(fd, bytes) !== bytes.length) return undefined;
      const header = decodePoolFileHeader(bytes);
      return header && { file: new SharedFile(duplicateDescriptor(fd), byteLength), header };
    } catch (error) {
      if (error instanceof SystemError) return undefined;
      throw error;
    }
  }

  /** Which file it is: the same for every descriptor of it. */
  identity(): string {
    const { device, inode } = describeDescriptor(this.#fd);
    return `${device} ${inode}`;
  }

  /** How long the file is now: its pool's process may have made it longer. */
  currentByteLength(): number {
    this.#byteLength = describeDescriptor(this.#fd).byteLength;
    return this.#byteLength;
  }

  /** Another descriptor of it, the caller's. */
  duplicate(): number {
    return duplicateDescriptor(this.#fd);
  }

  /** Maps a range of the file, made longer where it has to be; false where the system has no memory for that. */
  tryMap(window: Window, { begin, byteLength, fileOffset }: FileMapping): boolean {
    try {
      if (fileOffset + byteLength > this.#byteLength) {
        growMemoryFile(this.#fd, fileOffset + byteLength);
        this.#byteLength = fileOffset + byteLength;
      }
      mapShared(window.bytes, this.#fd, { at: begin, offset: fileOffset, byteLength });
      return true;
    } catch (error) {
      if (error instanceof SystemError) return false;
      throw error;
    }
  }

  /** Gives the memory of a range of the file back to the system, where it takes it. */
  punchHole(offset: number, byteLength: number): void {
    try {
      punchHole(this.#fd, { offset, byteLength });
    } catch (error) {
      // The memory is then given back with the file.
      if (!(error instanceof SystemError)) throw error;
    }
  }

  close(): void {
    closeDescriptor(this.#fd);
  }
}
