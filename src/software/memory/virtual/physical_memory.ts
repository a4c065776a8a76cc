/**
 * Memory without an address, as `cuMemCreate` creates it: a sealed memory file whose first page has a header.
 *
 * The header's fields are little-endian: 8 bytes of magic, the device's UUID (16 bytes), the handle types (u32), four
 * zeros, and the size of the memory in bytes (u64). The memory follows the page.
 *
 * @module
 */
import type { OsHandle } from "../../../driver.ts";
import { type Fabric, FabricFile } from "../fabric.ts";
import type { LinearMemory } from "../linear_memory.ts";
import { pageByteLength } from "../memory_layout.ts";
import { SharedFile } from "../shared_file.ts";

const magic = 0x31304d454d504c50n;
const headerByteLength = 40;

/** The fields in the header of the memory's file. */
interface Header {
  readonly deviceUuid: Uint8Array;
  readonly handleTypes: number;
  /** The size of the memory in bytes. */
  readonly byteLength: number;
}

/**
 * Physical memory that can be mapped to addresses. Exists as long as this process has handles or mappings of the
 * memory, or any process has a descriptor of the file.
 */
export class SoftwareMemory implements Header {
  readonly device: number;
  readonly deviceUuid: Uint8Array;
  readonly handleTypes: number;
  readonly byteLength: number;
  readonly #file: SharedFile;
  /** The number of handles and mappings of the memory in this process. */
  #users = 1;

  private constructor(file: SharedFile, device: number, { deviceUuid, handleTypes, byteLength }: Header) {
    this.#file = file;
    this.device = device;
    this.deviceUuid = deviceUuid;
    this.handleTypes = handleTypes;
    this.byteLength = byteLength;
  }

  /**
   * Creates memory on a device. The system allocates each page when it is first accessed.
   *
   * @throws {SystemError} If the system cannot create the memory file
   */
  static create(device: number, header: Header): SoftwareMemory {
    const byteLength = pageByteLength + header.byteLength;
    const file = SharedFile.create("poolpass-memory", { header: encodeHeader(header), byteLength });
    return new SoftwareMemory(file, device, header);
  }

  /** Creates memory that is shared in a fabric. If fabric sharing is unavailable, returns the reason instead. */
  static createIn(
    { fabric, call }: { fabric: Fabric; call: string },
    device: number,
    header: Header,
  ): SoftwareMemory | string {
    const { deviceUuid, byteLength } = header;
    const fileByteLength = pageByteLength + byteLength;
    const memory = { kind: "memory", deviceUuid, byteLength, header: encodeHeader(header), fileByteLength } as const;
    const file = fabric.create(memory, call);
    return typeof file === "string" ? file : new SoftwareMemory(file, device, header);
  }

  /**
   * Opens the memory that a descriptor refers to. The descriptor still belongs to the caller. Returns "no memory" if
   * the descriptor does not refer to such memory, and "no device" if the memory's device is not visible.
   *
   * @param findDevice returns the ordinal of the device with a UUID
   * @throws {SystemError} If the file cannot be opened
   */
  static open(
    fd: number,
    findDevice: (uuid: Uint8Array) => number | undefined,
  ): SoftwareMemory | "no memory" | "no device" {
    return SoftwareMemory.#of(openFile(fd), findDevice);
  }

  /** Opens the memory whose file was received through a fabric, and takes ownership of `file`. */
  static openIn(
    file: FabricFile,
    findDevice: (uuid: Uint8Array) => number | undefined,
  ): SoftwareMemory | "no memory" | "no device" {
    const header = decodeHeader(file.read(headerByteLength));
    if (header !== undefined) return SoftwareMemory.#of({ file, header }, findDevice);
    file.close();
    return "no memory";
  }

  static #of(
    opened: OpenedFile | undefined,
    findDevice: (uuid: Uint8Array) => number | undefined,
  ): SoftwareMemory | "no memory" | "no device" {
    if (opened === undefined) return "no memory";
    const { file, header } = opened;
    const device = findDevice(header.deviceUuid);
    const isWhole = pageByteLength + header.byteLength <= file.currentByteLength();
    // As on a GPU, imported memory cannot be exported again, so it has no handle types.
    if (device !== undefined && isWhole) return new SoftwareMemory(file, device, { ...header, handleTypes: 0 });
    file.close();
    return isWhole ? "no device" : "no memory";
  }

  /** Adds a handle or mapping to the count. */
  retain(): void {
    this.#users++;
  }

  /** Subtracts a handle or mapping from the count. Closes the file when the count becomes 0. */
  release(): void {
    if (--this.#users === 0) this.#file.close();
  }

  /**
   * Returns a handle for other processes: a descriptor, which the caller must close, or the fabric handle of memory in
   * a fabric.
   *
   * @throws {SystemError} If the process has no descriptor left
   */
  export(): OsHandle {
    return this.#file instanceof FabricFile ? this.#file.handle.slice() : this.#file.duplicate();
  }

  /** Maps all of the memory at an offset in linear memory. Returns false if the system is out of memory. */
  tryMap(linearMemory: LinearMemory, begin: number): boolean {
    return this.#file.tryMap(linearMemory, { begin, byteLength: this.byteLength, fileOffset: pageByteLength });
  }
}

/** Returns whether a descriptor refers to the file of a {@linkcode SoftwareMemory}. */
export function isPhysicalMemory(fd: number): boolean {
  const opened = openFile(fd);
  opened?.file.close();
  return opened !== undefined;
}

interface OpenedFile {
  readonly file: SharedFile;
  readonly header: Header;
}

function openFile(fd: number): OpenedFile | undefined {
  return SharedFile.openWithHeader(fd, { headerByteLength, minimum: pageByteLength, decode: decodeHeader });
}

function encodeHeader({ deviceUuid, handleTypes, byteLength }: Header): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(headerByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, magic, true);
  bytes.set(deviceUuid, 8);
  view.setUint32(24, handleTypes, true);
  view.setBigUint64(32, BigInt(byteLength), true);
  return bytes;
}

/** Decodes a header. Returns undefined if the header is not valid. */
function decodeHeader(bytes: Uint8Array): Header | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength < headerByteLength || view.getBigUint64(0, true) !== magic) return undefined;
  const byteLength = Number(view.getBigUint64(32, true));
  if (!Number.isSafeInteger(byteLength) || byteLength <= 0 || byteLength % pageByteLength !== 0) return undefined;
  return { deviceUuid: bytes.slice(8, 24), handleTypes: view.getUint32(24, true), byteLength };
}
