/**
 * Imports an allocation of a pool in the process that has exported it, which CUDA allows. Some drivers of NVIDIA crash
 * the process, so `poolpass doctor` runs this in a separate process.
 *
 * @module
 */
import { CudaDriver } from "../../ffi/cuda_driver.ts";
import { closeDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { type Driver, memHandleType, memLocationType, streamFlags } from "../../src/driver.ts";
import { isOutOfMemory } from "../../src/memory/pools/pool_contents.ts";

/**
 * The first argument of `poolpass doctor` in the process that tries an import. The second argument is the size in
 * bytes.
 */
export const tryImportOption = "--try-import-of";

/** The outcome of an import. */
export type ImportResult =
  | { readonly result: "imported"; readonly isRight: boolean }
  | { readonly result: "refused"; readonly why: string }
  | { readonly result: "not-tried"; readonly why: string };

const device = 0;
/** The test value that is written to the last byte of the allocation, and read through the import. */
const pattern = 0xa5;

/** Tries an import in this process, on the first GPU. The driver may crash the process. */
export function tryImportHere(byteLength: number): ImportResult {
  let driver: Driver;
  try {
    driver = new CudaDriver();
  } catch (error) {
    return notTried(error);
  }
  return tryImport(driver, byteLength);
}

/** Exports an allocation of a new pool, imports it, and reads its last byte. */
export function tryImport(driver: Driver, byteLength: number): ImportResult {
  try {
    using undo = new DisposableStack();
    const stream = driver.streamCreateWithPriority(device, streamFlags.nonBlocking, 0);
    undo.defer(() => driver.streamDestroy(device, stream));
    const handleTypes = memHandleType.posixFileDescriptor;
    const location = { type: memLocationType.device, id: device };
    const pool = driver.memPoolCreate({ handleTypes, location, maxSize: 0n });
    undo.defer(() => driver.memPoolDestroy(pool));
    // Deferred before the frees, so that the synchronization runs after them: a pool may be destroyed once its frees
    // are complete.
    undo.defer(() => driver.streamSynchronize(device, stream));
    const exported = driver.mallocFromPoolAsync(device, byteLength, pool, stream);
    undo.defer(() => driver.freeAsync(device, exported, stream));
    driver.memsetAsync(device, exported + BigInt(byteLength - 1), pattern, 1, stream);
    driver.streamSynchronize(device, stream);
    const descriptor = driver.memPoolExportToShareableHandle(pool, handleTypes) as number;
    undo.defer(() => closeDescriptor(descriptor));
    const exportData = driver.memPoolExportPointer(exported);
    const importedPool = driver.memPoolImportFromShareableHandle(device, descriptor, handleTypes);
    undo.defer(() => driver.memPoolDestroy(importedPool));
    let imported: bigint;
    try {
      imported = driver.memPoolImportPointer(device, importedPool, exportData);
    } catch (error) {
      return { result: "refused", why: `the driver refuses it: ${(error as Error).message}` };
    }
    undo.defer(() => driver.streamSynchronize(device, stream));
    undo.defer(() => driver.freeAsync(device, imported, stream));
    const last = new Uint8Array(1);
    driver.memcpyDtoHAsync(device, last, imported + BigInt(byteLength - 1), stream);
    driver.streamSynchronize(device, stream);
    return { result: "imported", isRight: last[0] === pattern };
  } catch (error) {
    return notTried(error);
  }
}

function notTried(error: unknown): ImportResult {
  return { result: "not-tried", why: isOutOfMemory(error) ? "too little memory is free" : (error as Error).message };
}

/** Parses the output of the importing process. Returns undefined if it is not a result. */
export function readResult(printed: string): ImportResult | undefined {
  let value: Partial<Record<string, unknown>> | null;
  try {
    value = JSON.parse(printed);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { result, isRight, why } = value;
  if (result === "imported" && typeof isRight === "boolean") return { result, isRight };
  if ((result === "refused" || result === "not-tried") && typeof why === "string") return { result, why };
  return undefined;
}
