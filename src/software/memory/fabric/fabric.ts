/**
 * The fabric of software devices: a folder. Processes that have the same folder import each other's pools and memory by
 * fabric handles, as processes of one NVLink domain do. A socket there, named by the pool's handle, gives the memory of
 * each pool. It is removed when the pool goes; that of a process which was killed is removed by the next one that uses the
 * folder.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, openDescriptor } from "../../../../ffi/native/shim/descriptors.ts";
import { namesIn } from "../../../../ffi/native/shim/folder_files.ts";
import { removeUnserved } from "../../../../ffi/native/shim/memory_files.ts";
import { errno, shimRefusal, SystemError } from "../../../../ffi/native/shim/shim.ts";
import { cudaErrorNumbers } from "../../../support/errors.ts";
import { failBecause, translateSystemErrors } from "../../failure.ts";
import { encodePoolFileHeader, type PoolFileHeader, poolFileHeaderByteLength } from "../pool_file.ts";
import { FabricFile } from "./fabric_file.ts";
import { decodeFabricHandle, encodeFabricHandle, type FabricHandle, type FabricKind } from "./fabric_handle.ts";

const {
  cudaErrorInvalidResourceHandle,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorNotPermitted,
  cudaErrorNotSupported,
} = cudaErrorNumbers;

const prefix = "poolpass-fabric-";
/** Names of sockets: the second kind does not listen yet. */
const socketName = /^(?:poolpass-fabric-[0-9a-f]{32}|\.poolpass-[0-9a-f]{16})$/;
const writableByOthers = 0o022;

const variable = "POOLPASS_SOFTWARE_FABRIC";
const noFabric = "software devices have no IMEX channel; processes that have the same folder in " + variable +
  " share memory by fabric handles";

/** The reason why memory in a fabric has no descriptor. */
export const noDescriptor = "what can be exported as a fabric handle has no descriptor on a software device";

/** Why a folder cannot be a fabric, by the system's error. Any other error concerns one file. */
const folderReasons: Readonly<Record<number, string>> = {
  [errno.ENOENT]: "there is no such folder",
  [errno.ENOTDIR]: "it is no folder",
  [errno.EACCES]: "this user may not create files there",
  [errno.EPERM]: "this user may not create files there",
  [errno.EROFS]: "its file system is read-only",
  [errno.EOPNOTSUPP]: "its file system has no sockets",
};

/** The purpose of a new file. */
export interface FabricMemory {
  readonly kind: FabricKind;
  readonly deviceUuid: Uint8Array;
  /** The size of the memory in bytes, 0 for a pool. */
  readonly byteLength: number;
  /** The header of the file. */
  readonly header: Uint8Array;
  readonly fileByteLength: number;
}

/** The fabric that a driver's devices are connected to, if any. */
export class Fabric {
  readonly #folder: string | undefined;
  #isSwept = false;

  /** @param folder the absolute path of the folder; undefined if there is no fabric */
  constructor(folder: string | undefined) {
    this.#folder = folder;
  }

  /** The reason why there is no fabric, as far as that is known without examining the folder. */
  get refusal(): string | undefined {
    return this.#folder === undefined ? noFabric : undefined;
  }

  /**
   * Creates the file of a pool or of memory. Returns why there is no fabric, if that is so.
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

  /** Opens the file that a handle names, or throws the error of a CUDA call. */
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

  /** Examines the folder, and returns its inode. */
  #open(folder: string): bigint {
    const refusal = shimRefusal();
    if (refusal !== undefined) throw new TypeError(refusal);
    const fd = openDescriptor(folder);
    try {
      const { type, inode, permissions } = describeDescriptor(fd);
      if (type !== "folder") throw new SystemError(errno.ENOTDIR, `open of ${folder}`);
      // Others may have put any number of files into a folder that they can write to.
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

/** The contents of a pool's file in a fabric. */
export function fabricMemoryOf(header: PoolFileHeader): FabricMemory {
  // A pool in host memory has no device, and a header without a UUID.
  const deviceUuid = header.deviceUuid ?? new Uint8Array(16);
  const fileByteLength = poolFileHeaderByteLength;
  return { kind: "pool", deviceUuid, byteLength: 0, header: encodePoolFileHeader(header), fileByteLength };
}

/** Why a folder cannot be used. Throws errors that do not concern the folder. */
function refusalOf(folder: string, error: unknown): string {
  const reason = error instanceof SystemError ? folderReasons[error.errno] : undefined;
  if (reason === undefined) throw error;
  return `${variable} names ${folder}, which cannot be used: ${reason}`;
}

function isFull(error: unknown): boolean {
  return error instanceof SystemError && [errno.ENOSPC, errno.EFBIG, errno.ENOMEM].some((full) => full === error.errno);
}
