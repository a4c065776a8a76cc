/**
 * The fabric of software devices: a folder. Processes that use the same folder import each other's pools and memory by
 * fabric handles, as processes of one NVLink domain do. For each pool or memory, the folder has a socket, named by the
 * handle's id, through which importers receive a descriptor of the memory file. The exporter removes the socket when it
 * destroys the pool or memory; sockets of killed processes are removed by the next process that uses the folder.
 *
 * A fabric handle, `cudaMemFabricHandle_t`, has 64 bytes. The fields are, little-endian: 8 bytes of magic; the id (16
 * random bytes, also part of the socket's name); the device's UUID (16 bytes); the inode of the folder (u64); the size
 * of the memory in bytes (u64, 0 for a pool); the kind (u32, an index of `kinds`); a checksum of the other fields
 * (u32). The memory file contains the same bytes.
 *
 * @module
 */
import { fabricHandleByteLength } from "../../driver.ts";
import { closeDescriptor, describeDescriptor, openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import {
  isRangeLocked,
  lockRange,
  receiveMemoryFile,
  removeUnserved,
  ServedFile,
  type ServedPlace,
} from "../../../ffi/native/shim/memory_files.ts";
import { encodePoolFileHeader, type PoolFileHeader, poolFileHeaderByteLength, SharedFile } from "./shared_file.ts";
import { namesIn } from "../../../ffi/native/shim/folder_files.ts";
import { errno, shimRefusal, SystemError } from "../../../ffi/native/shim/shim.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { failBecause, translateSystemErrors } from "../failure.ts";

/** The kind of object that a handle identifies. */
type FabricKind = "pool" | "memory";

/** The fields that a fabric handle encodes. */
interface FabricHandle {
  readonly kind: FabricKind;
  /** The id of the pool or memory: 16 random bytes, formatted as hexadecimal digits. */
  readonly id: string;
  /** The UUID of the device that owns the memory, 16 bytes. All zeros for host memory. */
  readonly deviceUuid: Uint8Array;
  /** The inode of the fabric's folder, which is the same in every container that mounts the folder. */
  readonly folder: bigint;
  /** The size of the memory in bytes; 0 for a pool. */
  readonly byteLength: number;
}

const magic = 0x3130425246504c50n;
const kinds: readonly (FabricKind | undefined)[] = [undefined, "pool", "memory"];
const checkedByteLength = 60;

export function encodeFabricHandle(handle: FabricHandle): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(fabricHandleByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, magic, true);
  bytes.set(Uint8Array.fromHex(handle.id), 8);
  bytes.set(handle.deviceUuid, 24);
  view.setBigUint64(40, handle.folder, true);
  view.setBigUint64(48, BigInt(handle.byteLength), true);
  view.setUint32(56, kinds.indexOf(handle.kind), true);
  view.setUint32(checkedByteLength, checksumOf(bytes), true);
  return bytes;
}

/** Decodes a handle. Returns undefined if the bytes are not a handle of a software device, or are corrupted. */
export function decodeFabricHandle(bytes: Uint8Array): FabricHandle | undefined {
  if (bytes.byteLength !== fabricHandleByteLength) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getBigUint64(0, true) !== magic || view.getUint32(checkedByteLength, true) !== checksumOf(bytes)) {
    return undefined;
  }
  const kind = kinds[view.getUint32(56, true)];
  const byteLength = Number(view.getBigUint64(48, true));
  if (kind === undefined || !Number.isSafeInteger(byteLength)) return undefined;
  return {
    kind,
    id: bytes.slice(8, 24).toHex(),
    deviceUuid: bytes.slice(24, 40),
    folder: view.getBigUint64(40, true),
    byteLength,
  };
}

/**
 * Returns the FNV-1a hash of a handle. The hash only detects accidental corruption. Forged handles are detected by
 * comparing them with the handle in the memory file.
 */
function checksumOf(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes.subarray(0, checkedByteLength)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** The offset of the handle in the memory file, in bytes: in the first page, after the header. */
const handleOffset = 1024;
/**
 * The range of the file that the exporter keeps locked as long as it provides the memory. The range lies in the first
 * page, in which importers never lock anything.
 */
const ownedRange = { offset: 0, byteLength: 4096 } as const;

/** The contents of a new file. */
interface FabricFileContent {
  readonly header: Uint8Array;
  readonly handle: Uint8Array<ArrayBuffer>;
  readonly byteLength: number;
}

/**
 * The memory file of a pool or of `cuMemCreate` memory in a fabric. Importers receive the file through a socket in the
 * fabric's folder. The memory is not a regular file in the folder, because such a file cannot be sealed: a process that
 * truncated the file would crash all processes that have mapped it. The exporter holds a lock on the memory file. The
 * system releases the lock when the exporter exits, which is how importers detect the exit.
 */
export class FabricFile extends SharedFile {
  /** The fabric handle of the file, 64 bytes. */
  readonly handle: Uint8Array<ArrayBuffer>;
  /**
   * The server of the socket through which importers receive the file. Undefined unless this process is the exporter.
   */
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
   * Creates a file that importers can receive until the file is closed.
   *
   * @throws {SystemError} If the system cannot create the file
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
   * Opens the file of a handle. Returns undefined if there is no such file, or if the file's exporter has exited.
   *
   * @throws {SystemError} If the system cannot open the file
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

  /** Whether the exporter has exited or has closed the file. */
  override get isAbandoned(): boolean {
    return this.#served === undefined && !isRangeLocked(this.fd, ownedRange);
  }

  /** Closes the file. In the exporter, also stops sending the file to importers, whose mappings stay valid. */
  override close(): void {
    this.#served?.close();
    super.close();
  }
}

const {
  cudaErrorInvalidResourceHandle,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorNotPermitted,
  cudaErrorNotSupported,
} = cudaErrorNumbers;

const prefix = "poolpass-fabric-";
/**
 * Matches the names of the sockets in a fabric's folder: `poolpass-fabric-` for listening sockets, and `.poolpass-` for
 * sockets that do not listen yet.
 */
const socketName = /^(?:poolpass-fabric-[0-9a-f]{32}|\.poolpass-[0-9a-f]{16})$/;
const writableByOthers = 0o022;

const variable = "POOLPASS_SOFTWARE_FABRIC";
const noFabric = "software devices have no IMEX channel; processes that have the same folder in " + variable +
  " share memory by fabric handles";

/** The error text if a descriptor of memory in a fabric is requested. */
export const noDescriptor = "memory that can be exported as a fabric handle has no descriptor on a software device";

/** The reasons why a folder cannot be used as a fabric, by `errno`. Other errors do not concern the folder. */
const folderReasons: Readonly<Record<number, string>> = {
  [errno.ENOENT]: "there is no such folder",
  [errno.ENOTDIR]: "it is no folder",
  [errno.EACCES]: "this user may not create files there",
  [errno.EPERM]: "this user may not create files there",
  [errno.EROFS]: "its file system is read-only",
  [errno.EOPNOTSUPP]: "its file system has no sockets",
};

/** The pool or memory for which a file is created. */
interface FabricMemory {
  readonly kind: FabricKind;
  readonly deviceUuid: Uint8Array;
  /** The size of the memory in bytes; 0 for a pool. */
  readonly byteLength: number;
  /** The header at the start of the file. */
  readonly header: Uint8Array;
  readonly fileByteLength: number;
}

/** The fabric through which a driver's devices share memory, if there is one. */
export class Fabric {
  readonly #folder: string | undefined;
  #isSwept = false;

  /** @param folder the absolute path of the fabric's folder; undefined if there is no fabric */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  /**
   * The reason why there is no fabric, or undefined if a folder was specified. Does not check whether the folder is
   * usable.
   */
  get refusal(): string | undefined {
    return this.#folder === undefined ? noFabric : undefined;
  }

  /**
   * Creates the file of a pool or of memory. If the fabric is unavailable, returns the reason instead.
   *
   * @throws {CudaError} `cudaErrorMemoryAllocation` if the folder's file system is full, `cudaErrorOperatingSystem` if
   * the process has no descriptor left
   */
  create(memory: FabricMemory, call: string): FabricFile | string {
    const folder = this.#folder;
    if (folder === undefined) return noFabric;
    const { kind, deviceUuid, byteLength, header, fileByteLength } = memory;
    const id = crypto.getRandomValues(new Uint8Array(16)).toHex();
    return translateSystemErrors(call, () => {
      try {
        const handle = encodeFabricHandle({ kind, deviceUuid, byteLength, id, folder: this.#open(folder) });
        return FabricFile.createAt({ folder, name: `${prefix}${id}` }, { header, handle, byteLength: fileByteLength });
      } catch (error) {
        if (isFull(error)) failBecause(cudaErrorMemoryAllocation, call, `the file system of ${folder} is full`);
        return refusalOf(folder, error);
      }
    });
  }

  /** Opens the file of a handle. If this is impossible, throws the `CudaError` of `call`. */
  open(kind: FabricKind, bytes: Uint8Array, call: string): { file: FabricFile; handle: FabricHandle } {
    const folder = this.#folder;
    if (folder === undefined) failBecause(cudaErrorNotSupported, call, noFabric);
    const handle = decodeFabricHandle(bytes);
    if (handle === undefined) {
      failBecause(
        cudaErrorInvalidValue,
        call,
        "the bytes are no fabric handle of a software device, or not all of one",
      );
    }
    if (handle.kind !== kind) {
      const other = handle.kind === "pool" ? "a pool: import it as a pool" : "memory: import it as memory";
      failBecause(cudaErrorNotSupported, call, `the handle is of ${other}`);
    }
    return translateSystemErrors(call, () => {
      let inode: bigint;
      let file: FabricFile | undefined;
      try {
        inode = this.#open(folder);
        file = FabricFile.openAt({ folder, name: `${prefix}${handle.id}` }, Uint8Array.from(bytes));
      } catch (error) {
        failBecause(cudaErrorNotPermitted, call, refusalOf(folder, error));
      }
      if (file !== undefined) return { file, handle };
      if (inode !== handle.folder) {
        failBecause(
          cudaErrorNotPermitted,
          call,
          `the exporter has another folder in ${variable} than ${folder}: name the same in both processes`,
        );
      }
      const reason = "its exporter has ended, or has given up the memory; a fabric handle does not keep it: let the " +
        "exporter hold it until this process has released it";
      failBecause(cudaErrorInvalidResourceHandle, call, reason);
    });
  }

  /** Checks the folder, removes sockets of killed processes on first use, and returns the folder's inode. */
  #open(folder: string): bigint {
    const refusal = shimRefusal();
    if (refusal !== undefined) throw new TypeError(refusal);
    const fd = openDescriptor(folder);
    try {
      const { type, inode, permissions } = describeDescriptor(fd);
      if (type !== "folder") throw new SystemError(errno.ENOTDIR, `open of ${folder}`);
      // Skips a folder that other users can write to: they may have added so many files that reading the folder takes
      // too long.
      if (!this.#isSwept && (permissions & writableByOthers) === 0) {
        for (const name of namesIn(folder)) if (socketName.test(name)) removeUnserved({ folder, name });
      }
      this.#isSwept = true;
      return inode;
    } finally {
      closeDescriptor(fd);
    }
  }
}

/** Returns the description of a pool's file in a fabric. */
export function fabricMemoryOf(header: PoolFileHeader): FabricMemory {
  // The UUID of a pool in host memory, which belongs to no device, is all zeros.
  const deviceUuid = header.deviceUuid ?? new Uint8Array(16);
  const fileByteLength = poolFileHeaderByteLength;
  return { kind: "pool", deviceUuid, byteLength: 0, header: encodePoolFileHeader(header), fileByteLength };
}

/** Returns the reason why a folder cannot be used as a fabric. Rethrows errors that do not concern the folder. */
function refusalOf(folder: string, error: unknown): string {
  const reason = error instanceof SystemError ? folderReasons[error.errno] : undefined;
  if (reason === undefined) throw error;
  return `${variable} names ${folder}, which cannot be used: ${reason}`;
}

function isFull(error: unknown): boolean {
  return error instanceof SystemError && [errno.ENOSPC, errno.EFBIG, errno.ENOMEM].some((full) => full === error.errno);
}
