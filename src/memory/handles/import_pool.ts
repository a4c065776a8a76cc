import { memAccessFlags, memHandleType, memLocationType } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { fabricImportHint } from "./fabric_hint.ts";
import { ImportedMemoryPool } from "./imported_memory_pool.ts";
import { ShareableHandle, whatIsNoHandle } from "./shareable_handle.ts";

/** Imports a pool of another process by `cudaMemPoolImportFromShareableHandle`. */
export function importPool(session: Session, device: CudaDevice, handle: ShareableHandle): ImportedMemoryPool {
  if (!(handle instanceof ShareableHandle)) {
    throw new TypeError(
      `Cannot import a pool from ${whatIsNoHandle(handle)}: give the ShareableHandle of the exporter's ` +
        "exportHandle, or one that ShareableHandle.fromFd made of a descriptor",
    );
  }
  const isFd = handle.type === "posix-fd";
  let imported: bigint;
  try {
    imported = session.driver.memPoolImportFromShareableHandle(
      device.ordinal,
      isFd ? handle.fd : handle.bytes,
      isFd ? memHandleType.posixFileDescriptor : memHandleType.fabric,
    );
  } catch (error) {
    const what = isFd ? `the descriptor ${handle.fd}` : "a fabric handle";
    const hint = "it must come from a pool's exportHandle on the same machine";
    throw cannot(`import a pool from ${what}`, error, isFd ? hint : fabricImportHint(error, "a pool"));
  }
  try {
    checkMemoryDevice(session, device, imported);
    return new ImportedMemoryPool(session, { device, handle: imported });
  } catch (error) {
    const mappings = session.importedMappings(imported);
    // The driver refuses to destroy a pool with mapped pointers: the last importer, if any, destroys this import too.
    if (mappings.importers > 0) mappings.imports++;
    else mappings.discard(() => session.driver.memPoolDestroy(imported));
    throw error;
  }
}

/**
 * Throws if the pool's memory is on another device. When a pool is first imported, only the device that it is on has
 * access to it; no device has access to a pool in host memory.
 */
function checkMemoryDevice(session: Session, { ordinal }: CudaDevice, imported: bigint): void {
  const { driver } = session;
  const mappings = session.importedMappings(imported);
  mappings.memoryDevice ??= Array.from({ length: driver.getDeviceCount() }, (_, id) => id)
    .find((id) => driver.memPoolGetAccess(imported, { type: memLocationType.device, id }) !== memAccessFlags.none) ??
    "host";
  if (mappings.memoryDevice === "host" || mappings.memoryDevice === ordinal) return;
  throw new RangeError(
    `Cannot import the pool on device ${ordinal}: its memory is on device ${mappings.memoryDevice}; import it there`,
  );
}
