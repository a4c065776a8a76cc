/**
 * Reads the 64 bytes of export data that `cudaMemPoolExportPointer` writes. CUDA documents them as opaque, but the
 * driver does not validate them: a size or an offset that is too large crashes the importing process (driver 580,
 * measured). If they have the known layout, they are therefore checked before they are passed to the driver.
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
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";
import { refusedExport, refusedImport } from "../../support/refusals.ts";
import { ShareableHandle } from "./shareable_handle.ts";

/** The index of the 64-bit field that contains the exporter's process ID. */
const processField = 0;
/** The index of the 64-bit field that contains the allocation's offset in its pool, in bytes. */
const offsetField = 3;
/** The index of the 64-bit field that contains the allocation's size in bytes. */
const sizeField = 4;
/**
 * The offset in bytes of the part of the export data that the driver does not initialize. It contains remnants of the
 * exporter's stack, such as code addresses. Imports ignore it.
 */
const uninitializedBegin = 48;

/** The driver divides a pool into pieces of this size in bytes. */
const pieceByteLength = 32 * 2 ** 20;
/**
 * The maximum number of pieces in an allocation that the driver can import. For a larger allocation, the driver writes
 * out of bounds.
 */
const maximumPieces = 128;
/**
 * The maximum size in bytes of an allocation that can always be imported, even if it does not begin at the start of a
 * piece.
 */
export const maximumImportableByteLength: number = (maximumPieces - 1) * pieceByteLength;
/** Advice in error messages: how to allocate memory of any size for other processes. */
export const shareableAdvice = 'for other processes by CudaDevice.allocate(byteLength, { handleType: "posix-fd" })';
/** The size in bytes above which an allocation can never be imported, even if it begins at the start of a piece. */
const limitByteLength = maximumPieces * pieceByteLength;
/**
 * The maximum offset in bytes that is accepted. No pool is that large, so a larger offset must be forged. It would
 * crash the importer, like an excessive size: driver 580 crashed for offsets of 1 TiB or more on an H100; on an H200,
 * it did not crash for offsets below 2 TiB.
 */
const maximumOffset = 2 ** 39;
/**
 * Matches the names of temporary errors, which do not depend on the layout: too little memory, no descriptor left, or a
 * stream capture by another library.
 */
const passingErrors = /^cudaError(MemoryAllocation|OperatingSystem|StreamCapture.*)$/;

/** The export data being read, as 32-bit words, because numbers are faster than bigints. */
const words = new Uint32Array(exportDataByteLength / Uint32Array.BYTES_PER_ELEMENT);
const bytes = new Uint8Array(words.buffer);

/** Whether the driver's export data has the known layout. Determined on first use. */
export class ExportDataLayout {
  readonly #session: Session;
  #isKnown: boolean | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Returns whether the layout is known. The first call determines this by exporting memory of the device.
   *
   * @throws {CudaError} If the layout cannot be determined at the moment. Export data must not be imported unchecked in
   * this case.
   */
  isKnownOn(device: number): boolean {
    return this.#isKnown ?? this.#decide(device);
  }

  /**
   * Determines whether the layout is known. Exports host memory if no device memory is free, for example because
   * another process uses all of it.
   */
  #decide(device: number): boolean {
    const { driver } = this.#session;
    const places = [{ type: memLocationType.device, id: device }, { type: memLocationType.hostNuma, id: 0 }];
    let passing: CudaError | undefined;
    for (const place of places) {
      try {
        return this.#isKnown = this.#session.withoutCollectiveErrors(() => isExportDataKnown(driver, device, place));
      } catch (error) {
        if (!(error instanceof CudaError)) throw error;
        // The error is permanent: the device does not support exports, for example under WSL.
        if (passing === undefined && !mayPass(error)) return this.#isKnown = false;
        passing ??= error;
      }
    }
    throw cannot("tell whether what pools export can be checked", passing, "free memory of the device, and try again");
  }

  /**
   * Checks export data before the driver imports it on a device. Returns the size in bytes that the driver will map, or
   * undefined if the layout is not known.
   *
   * @param least the minimum size of the allocation in bytes
   * @param most the maximum size of the allocation in bytes
   * @throws {SharingError} `too-large`, `size-mismatch`, or `bad-message` if the data cannot come from a driver
   */
  checkImported(device: number, exportData: Uint8Array, least: number, most: number): number | undefined {
    if (!this.isKnownOn(device)) {
      if (least > limitByteLength) throw tooLargeToImport(least);
      return undefined;
    }
    bytes.set(exportData);
    const byteOffset = fieldAt(offsetField);
    const byteLength = fieldAt(sizeField);
    if (byteLength === 0 || byteOffset + byteLength > maximumOffset) throw forged(byteOffset, byteLength);
    if (byteLength < least || byteLength > most) throw sizeMismatch(least, byteLength);
    const mayBeTooLarge = byteLength > maximumImportableByteLength;
    if (mayBeTooLarge && piecesOf(byteOffset, byteLength) > maximumPieces) throw tooLargeToImport(byteLength);
    return byteLength;
  }
}

/**
 * Checks export data of this process, and clears the bytes that the driver did not initialize.
 *
 * @throws {SharingError} `too-large` if no process could import the allocation
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

/** Returns whether an attempt to determine the layout that failed with this error may succeed later. */
export function mayPass(error: CudaError): boolean {
  return passingErrors.test(error.code);
}

/** Counts a refused import, and returns the error for export data that would crash the importing process. */
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

/** Counts a refused import, and returns the error for an exporter whose allocation does not have the stated size. */
export function sizeMismatch(stated: number, allocated: number): SharingError {
  return refusedImport(
    new SharingError(
      "size-mismatch",
      `Cannot import a buffer of ${stated} bytes: the exporter has allocated ${allocated}`,
    ),
  );
}

/** Returns the number of pieces of the pool that a range overlaps at least partly. */
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

/** Returns the error for an allocation that would crash a process that imports it. */
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
 * Exports two allocations, and returns whether their export data has the known layout. Frees everything that it
 * allocates.
 *
 * @param location where to allocate: on the device by default
 * @throws {CudaError} If the device cannot export, or there is too little memory
 */
export function isExportDataKnown(
  driver: Driver,
  device: number,
  location: MemLocation = { type: memLocationType.device, id: device },
): boolean {
  if (driver.sharingRefusal !== undefined) return false;
  using undo = new DisposableStack();
  // Uses a separate stream: on the default stream, the frees would have to wait for the application's work.
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
