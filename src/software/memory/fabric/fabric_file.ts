import { closeDescriptor, describeDescriptor } from "../../../../ffi/native/shim/descriptors.ts";
import {
  isRangeLocked,
  lockRange,
  receiveMemoryFile,
  ServedFile,
  type ServedPlace,
} from "../../../../ffi/native/shim/memory_files.ts";
import { fabricHandleByteLength } from "../../../driver.ts";
import { SharedFile } from "../shared_file.ts";

/** The offset of the handle in the file: behind the header of a pool or of memory, in the first page. */
const handleOffset = 1024;
/**
 * The range that the exporter locks as long as it has the memory: a part of the first page, in which there are no
 * leases.
 */
const ownedRange = { offset: 0, byteLength: 4096 } as const;

/** The contents of a new file. */
export interface FabricFileContent {
  readonly header: Uint8Array;
  readonly handle: Uint8Array<ArrayBuffer>;
  readonly byteLength: number;
}

/**
 * The memory file of a pool or of `cuMemCreate` in a fabric, which importers get by a socket in the fabric's folder. A
 * file in the folder itself could not be sealed: a process that truncates it ends all processes that have mapped it.
 * The exporter has locked the file, so that everybody sees if that one has ended.
 */
export class FabricFile extends SharedFile {
  /** The 64 bytes that name the file. */
  readonly handle: Uint8Array<ArrayBuffer>;
  /** Undefined unless this is the exporter. */
  readonly #served: ServedFile | undefined;

  private constructor(
    fd: number,
    { handle, byteLength, served }: {
      handle: Uint8Array<ArrayBuffer>;
      byteLength: number;
      served: ServedFile | undefined;
    },
  ) {
    super(fd, byteLength);
    this.handle = handle;
    this.#served = served;
  }

  /**
   * Creates a file that importers can get until it is closed.
   *
   * @throws {SystemError} If the system cannot create it
   */
  static createAt(place: ServedPlace, { header, handle, byteLength }: FabricFileContent): FabricFile {
    const file = SharedFile.create("poolpass-fabric", { header, byteLength });
    try {
      file.write(handle, handleOffset);
      lockRange(file.fd, ownedRange);
      const served = new ServedFile(place, file.fd);
      return new FabricFile(file.fd, { handle, byteLength: file.currentByteLength(), served });
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /**
   * Opens the file that a handle names. Returns undefined if there is none, or its exporter has ended.
   *
   * @throws {SystemError} If the system cannot open it
   */
  static openAt(place: ServedPlace, handle: Uint8Array<ArrayBuffer>): FabricFile | undefined {
    const fd = receiveMemoryFile(place);
    if (fd === undefined) return undefined;
    let opened: FabricFile | undefined;
    try {
      const { byteLength } = describeDescriptor(fd);
      const file = new FabricFile(fd, { handle, byteLength, served: undefined });
      const isNamed = file.read(fabricHandleByteLength, handleOffset).toHex() === handle.toHex();
      if (isNamed && !file.isAbandoned) opened = file;
      return opened;
    } finally {
      if (opened === undefined) closeDescriptor(fd);
    }
  }

  /** Whether the exporter has ended, or has given up the memory. */
  override get isAbandoned(): boolean {
    return this.#served === undefined && !isRangeLocked(this.fd, ownedRange);
  }

  /** Closes the file. If this is the exporter, no process can open it any longer. Mappings of importers stay valid. */
  override close(): void {
    this.#served?.close();
    super.close();
  }
}
