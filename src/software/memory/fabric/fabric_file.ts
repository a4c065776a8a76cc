import { closeDescriptor, describeDescriptor, openDescriptor, openPath } from "../../../../ffi/shim/descriptors.ts";
import { createFile, removeFile, renameFile, reserveRange } from "../../../../ffi/shim/folder_files.ts";
import { isRangeLocked, lockRange } from "../../../../ffi/shim/memory_files.ts";
import { shim } from "../../../../ffi/shim/shim.ts";
import { errno, SystemError } from "../../../../ffi/shim/system_error.ts";
import { fabricHandleByteLength } from "../../../driver.ts";
import { SharedFile } from "../shared_file.ts";

/** Where the file has its handle: behind the header of a pool or of memory, in the first page. */
const handleOffset = 1024;
/** What the exporter locks as long as it has the memory: a part of the first page, in which there are no leases. */
const ownedRange = { offset: 0, byteLength: 4096 } as const;
/** Only a sweep at the same moment, by another process, makes a creation fail. */
const creationAttempts = 16;

/** Where a file is created. */
export interface FabricFilePlace {
  /** The name under which importers find it. */
  readonly path: string;
  /** The name that it has until then. A file of that name may be removed at any time. */
  readonly newPath: string;
}

/** What a new file has. */
export interface FabricFileContent {
  readonly header: Uint8Array;
  readonly handle: Uint8Array<ArrayBuffer>;
  readonly byteLength: number;
}

/**
 * A file in the folder of a fabric, with the memory of a pool or of `cuMemCreate`. Unlike a memory file, it is not
 * sealed: no process but those of this user can open it. Its exporter has locked it, so that everybody sees if that one
 * has ended.
 */
export class FabricFile extends SharedFile {
  /** The 64 bytes that name the file. */
  readonly handle: Uint8Array<ArrayBuffer>;
  /** Undefined unless this is the exporter. */
  readonly #ownedPath: string | undefined;

  private constructor(
    fd: number,
    { handle, byteLength, ownedPath }: {
      handle: Uint8Array<ArrayBuffer>;
      byteLength: number;
      ownedPath: string | undefined;
    },
  ) {
    super(fd, byteLength);
    this.handle = handle;
    this.#ownedPath = ownedPath;
  }

  /**
   * Creates a file that is removed when it is closed. Under its final name it is always locked: an unlocked file there
   * is one whose exporter has ended.
   *
   * @throws {SystemError} if the system cannot create it
   */
  static createAt({ path, newPath }: FabricFilePlace, content: FabricFileContent): FabricFile {
    const { header, handle, byteLength } = content;
    for (let attempt = 1;; attempt++) {
      const fd = createFile(newPath);
      try {
        lockRange(fd, ownedRange);
        reserveRange(fd, { offset: 0, byteLength });
        const file = new FabricFile(fd, { handle, byteLength, ownedPath: path });
        file.write(header, 0);
        file.write(handle, handleOffset);
        renameFile(newPath, path);
        return file;
      } catch (error) {
        removeFile(newPath);
        closeDescriptor(fd);
        // Another process has seen the file before it was locked, and has taken it for one that was left behind.
        const isSwept = error instanceof SystemError && error.errno === errno.ENOENT && attempt < creationAttempts;
        if (!isSwept) throw error;
      }
    }
  }

  /**
   * Opens the file that a handle names. Returns undefined if there is none, or its exporter has ended: then it is
   * removed.
   *
   * @throws {SystemError} if the system cannot open it
   */
  static openAt(path: string, handle: Uint8Array<ArrayBuffer>): FabricFile | undefined {
    const fd = openOwnFile(path);
    if (fd === undefined) return undefined;
    let opened: FabricFile | undefined;
    try {
      const { byteLength } = describeDescriptor(fd);
      const file = new FabricFile(fd, { handle, byteLength, ownedPath: undefined });
      const isNamed = file.read(fabricHandleByteLength, handleOffset).toHex() === handle.toHex();
      if (file.isAbandoned) removeFile(path);
      else if (isNamed) opened = file;
      return opened;
    } finally {
      if (opened === undefined) closeDescriptor(fd);
    }
  }

  /** Whether the exporter has ended, or has given up the memory. */
  override get isAbandoned(): boolean {
    return this.#ownedPath === undefined && !isRangeLocked(this.fd, ownedRange);
  }

  protected override reserve(offset: number, byteLength: number): void {
    reserveRange(this.fd, { offset, byteLength });
  }

  /** Closes the file, and removes it if this is the exporter. What importers have mapped stays as it is. */
  override close(): void {
    if (this.#ownedPath !== undefined) removeFile(this.#ownedPath);
    super.close();
  }
}

/** Removes a file that its exporter has left behind. */
export function sweepFile(path: string): void {
  try {
    const fd = openOwnFile(path);
    if (fd === undefined) return;
    try {
      if (!isRangeLocked(fd, ownedRange)) removeFile(path);
    } finally {
      closeDescriptor(fd);
    }
  } catch (error) {
    // It belongs to another user, or this process has no descriptor left. The next sweep may have more luck.
    if (!(error instanceof SystemError)) throw error;
  }
}

/** Opens a file of this user's. Returns undefined if there is none. */
function openOwnFile(path: string): number | undefined {
  let found: number | undefined;
  try {
    // What was judged is opened: whoever may write to the folder may put a pipe or a link there meanwhile.
    found = openPath(path);
    const { type, owner } = describeDescriptor(found);
    if (type !== "file" || owner !== shim().poolpass_geteuid()) return undefined;
    return openDescriptor(`/proc/self/fd/${found}`, { writable: true });
  } catch (error) {
    if (error instanceof SystemError && error.errno === errno.ENOENT) return undefined;
    throw error;
  } finally {
    if (found !== undefined) closeDescriptor(found);
  }
}
