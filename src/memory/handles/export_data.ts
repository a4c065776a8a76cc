/**
 * What the 64 bytes of `cudaMemPoolExportPointer` state. CUDA calls them opaque, but its driver believes them: a size or
 * an offset that is too large ends the importing process (driver 580, measured). They are therefore read before the
 * driver sees them, where they have the layout that is known.
 *
 * @module
 */
import {
  type Driver,
  exportDataByteLength,
  memHandleType,
  type MemLocation,
  memLocationType,
  streamFlags,
} from "../../driver.ts";
import { shim } from "../../../ffi/native/shim/shim.ts";
import { keyFieldAt } from "./export_data_map.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";
import { refusedExport, refusedImport } from "../../support/refusals.ts";
import { ShareableHandle } from "./shareable_handle.ts";

/** The places of the fields that are known, as indices of u64. */
const processField = 0;
const offsetField = 3;
const sizeField = 4;
/** From here on, the driver writes what its stack holds: addresses of the exporter's code. Imports do not read it. */
const uninitializedBegin = 48;

/** Pools consist of pieces of this many bytes. */
const pieceByteLength = 32 * 2 ** 20;
/** The driver's import has room for this many pieces of an allocation, and writes beyond it for more. */
const maximumPieces = 128;
/** The size in bytes up to which an allocation can be imported, wherever it begins in its pool. */
export const maximumImportableByteLength: number = (maximumPieces - 1) * pieceByteLength;
/** How memory of any size is allocated for other processes. */
export const shareableAdvice = 'for other processes by CudaDevice.allocate(byteLength, { handleType: "posix-fd" })';
/** The size in bytes beyond which no allocation can be imported. */
const limitByteLength = maximumPieces * pieceByteLength;
/**
 * No pool has so much memory: a larger offset was written by no driver, and ends the importer like a size that is too
 * large. Driver 580 crashed from 1 TiB on (H100), and did not below 2 TiB (H200).
 */
const maximumOffset = 2 ** 39;
/** The errors that say nothing of the layout: there was no memory or descriptor, or another library was capturing. */
const passingErrors = /^cudaError(MemoryAllocation|OperatingSystem|StreamCapture.*)$/;

/** Export data that is being read, as words, because numbers cost less than bigints. */
const words = new Uint32Array(exportDataByteLength / Uint32Array.BYTES_PER_ELEMENT);
const bytes = new Uint8Array(words.buffer);

/** Whether the driver's export data has the layout that is known. Decided at the first use. */
export class ExportDataLayout {
  readonly #session: Session;
  #isKnown: boolean | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Whether the layout is known. Tries it on a device, unless that was done.
   *
   * @throws {CudaError} If it cannot be tried now, as nothing may be imported unchecked
   */
  isKnownOn(device: number): boolean {
    return this.#isKnown ?? this.#decide(device);
  }

  /** Tries host memory if there is no memory on the device: a peer may have filled it. */
  #decide(device: number): boolean {
    const { driver } = this.#session;
    const places = [{ type: memLocationType.device, id: device }, { type: memLocationType.hostNuma, id: 0 }];
    let passing: CudaError | undefined;
    for (const place of places) {
      try {
        return this.#isKnown = this.#session.withoutCollectiveErrors(() => isExportDataKnown(driver, device, place));
      } catch (error) {
        if (!(error instanceof CudaError)) throw error;
        // Devices that cannot export, such as those of WSL, fail for good.
        if (passing === undefined && !mayPass(error)) return this.#isKnown = false;
        passing ??= error;
      }
    }
    throw cannot("tell whether what pools export can be checked", passing, "free memory of the device, and try again");
  }

  /**
   * Checks the export data of the last lookup in an `ExportDataMap` before the driver imports them on a device. Returns the
   * size in bytes that the driver will map, or undefined if the layout is not known.
   *
   * @param least the minimum size in bytes of the allocation
   * @param most the maximum
   * @throws {SharingError} `too-large`, `size-mismatch`, or `bad-message` if no driver has written them
   */
  checkImported(device: number, least: number, most: number): number | undefined {
    if (!this.isKnownOn(device)) {
      if (least > limitByteLength) throw tooLargeToImport(least);
      return undefined;
    }
    const byteOffset = keyFieldAt(offsetField);
    const byteLength = keyFieldAt(sizeField);
    if (byteLength === 0 || byteOffset + byteLength > maximumOffset) throw forged(byteOffset, byteLength);
    if (byteLength < least || byteLength > most) throw sizeMismatch(least, byteLength);
    const mayBeTooLarge = byteLength > maximumImportableByteLength;
    if (mayBeTooLarge && piecesOf(byteOffset, byteLength) > maximumPieces) throw tooLargeToImport(byteLength);
    return byteLength;
  }
}

/**
 * Checks export data of this process, and removes what the driver did not initialize from it.
 *
 * @throws {SharingError} `too-large` if no process could import it
 */
export function finishExportedData(
  session: Session,
  exportData: Uint8Array,
  { device, byteLength }: { device: number; byteLength: number },
): void {
  const isKnown = session.exportDataLayout.isKnownOn(device);
  bytes.set(exportData);
  if (!isKnown || fieldAt(sizeField) !== byteLength) {
    if (byteLength > limitByteLength) throw tooLargeToExport(byteLength);
    return;
  }
  if (piecesOf(fieldAt(offsetField), byteLength) > maximumPieces) throw tooLargeToExport(byteLength);
  exportData.fill(0, uninitializedBegin);
}

/** Whether a layout may be found out later, although an attempt has failed. */
export function mayPass(error: CudaError): boolean {
  return passingErrors.test(error.code);
}

/** The error for export data that would end the process that imports them. Counts it. */
function forged(byteOffset: number, byteLength: number): SharingError {
  return refusedImport(
    new SharingError(
      "bad-message",
      `Cannot import a pointer: its export data states ${
        countOf(byteLength, "byte")
      } at byte ${byteOffset} of its pool, ` +
        "which no exporter's driver writes",
    ),
  );
}

/** The error for an exporter that states another size than it has allocated. Counts it. */
export function sizeMismatch(stated: number, allocated: number): SharingError {
  return refusedImport(
    new SharingError(
      "size-mismatch",
      `Cannot import a buffer of ${stated} bytes: the exporter has allocated ${allocated}`,
    ),
  );
}

/** The number of the pool's pieces that a range lies in. */
function piecesOf(byteOffset: number, byteLength: number): number {
  return Math.floor((byteOffset + byteLength - 1) / pieceByteLength) - Math.floor(byteOffset / pieceByteLength) + 1;
}

function fieldAt(index: number): number {
  return words[2 * index]! + words[2 * index + 1]! * 2 ** 32;
}

function tooLargeToImport(byteLength: number): SharingError {
  return refusedImport(tooLarge(`import ${countOf(byteLength, "byte")}`, "the exporter must"));
}

function tooLargeToExport(byteLength: number): SharingError {
  return refusedExport(tooLarge(`export a buffer of ${countOf(byteLength, "byte")}`));
}

/** The error for an allocation that ends the process that imports it. */
function tooLarge(what: string, who = ""): SharingError {
  const subject = who === "" ? "" : `${who} `;
  return new SharingError(
    "too-large",
    `Cannot ${what}: NVIDIA's driver ends a process that imports an allocation of a pool that lies in more than ` +
      `${maximumPieces} pieces of 32 MiB; ${subject}allocate it ${shareableAdvice}, or in parts of at most ` +
      `${maximumImportableByteLength} bytes`,
  );
}

/**
 * Exports two allocations, and checks whether their data have the known layout. Retains nothing.
 *
 * @param location where the memory is: on the device by default
 * @throws {CudaError} If the device cannot export, or there is too little memory
 */
export function isExportDataKnown(
  driver: Driver,
  device: number,
  location: MemLocation = { type: memLocationType.device, id: device },
): boolean {
  if (driver.sharingRefusal !== undefined) return false;
  using undo = new DisposableStack();
  // Not the default stream, behind whose work the frees would have to be awaited.
  const stream = driver.streamCreateWithPriority(device, streamFlags.nonBlocking, 0);
  undo.defer(() => driver.streamDestroy(device, stream));
  const handleTypes = memHandleType.posixFileDescriptor;
  const pool = driver.memPoolCreate({ handleTypes, location, maxSize: 0n });
  undo.defer(() => driver.memPoolDestroy(pool));
  undo.defer(() => driver.streamSynchronize(device, stream));
  const sizes = [2 ** 20 + 512, 2 ** 19 + 1024];
  const addresses = sizes.map((byteLength) => {
    const address = driver.mallocFromPoolAsync(device, byteLength, pool, stream);
    undo.defer(() => driver.freeAsync(device, address, stream));
    return address;
  });
  ShareableHandle.fromFd(driver.memPoolExportToShareableHandle(pool, handleTypes) as number)[Symbol.dispose]();
  const processId = shim().poolpass_getpid();
  const offsets = sizes.map((byteLength, index) => {
    bytes.set(driver.memPoolExportPointer(addresses[index]!));
    return fieldAt(processField) === processId && fieldAt(sizeField) === byteLength ? fieldAt(offsetField) : undefined;
  });
  const [first, second] = offsets;
  if (first === undefined || second === undefined) return false;
  return BigInt(second - first) === addresses[1]! - addresses[0]!;
}
