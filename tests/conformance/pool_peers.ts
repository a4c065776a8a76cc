/**
 * The roles of second processes in rows about pools.
 *
 * @module
 */
import { defaultStream, memAccessFlags } from "../../src/driver.ts";
import { readBytes } from "./launch.ts";
import {
  allocate,
  allocateFilled,
  createShareablePool,
  exportPool,
  firstByte,
  free,
  importPool,
  mebibyte,
  onDevice,
  onFirstNode,
} from "./pools.ts";
import type { Role } from "./situation.ts";

/** The tasks of an exporter, as the first byte of a request. */
export const exporterTask = { share: 0, shareAnother: 1, read: 2, free: 3, destroy: 4, setAccess: 5 } as const;
/** The tasks of an importer, as the first byte of a request. */
export const importerTask = { import: 0, read: 1, write: 2, free: 3 } as const;
/** The byte that exporters fill their first allocation with, and the byte for their second one. */
export const exportedBytes = { first: 0x21, second: 0x43 } as const;
/** The byte that an importer writes. */
export const importedByte = 0x65;

/** The roles, by name. */
export const roles: Readonly<Record<string, Role>> = {
  "exporter of a pool": (driver) => {
    const pool = createShareablePool(driver);
    let address = 0n;
    return ({ bytes }) => {
      switch (bytes[0]) {
        case exporterTask.share: {
          const descriptor = exportPool(driver, pool);
          address = allocateFilled(driver, pool, mebibyte, exportedBytes.first);
          return { bytes: driver.memPoolExportPointer(address), descriptors: [descriptor] };
        }
        case exporterTask.shareAnother:
          return { bytes: driver.memPoolExportPointer(allocateFilled(driver, pool, mebibyte, exportedBytes.second)) };
        case exporterTask.read:
          return { bytes: Uint8Array.of(firstByte(driver, address)) };
        case exporterTask.free:
          free(driver, address);
          driver.streamSynchronize(0, defaultStream);
          return {};
        case exporterTask.destroy:
          driver.memPoolDestroy(pool);
          return {};
        case exporterTask.setAccess:
          driver.memPoolSetAccess(pool, [{ location: onDevice(1), flags: memAccessFlags.readWrite }]);
          return {};
        default:
          throw new RangeError(`An exporter has no task ${bytes[0]}`);
      }
    };
  },
  "exporter of a host pool": (driver) => {
    const pool = createShareablePool(driver, { location: onFirstNode });
    const address = allocate(driver, pool, mebibyte);
    driver.streamSynchronize(0, defaultStream);
    const view = new Uint8Array(driver.hostView(address, mebibyte));
    view.fill(exportedBytes.first);
    return ({ bytes }) => {
      if (bytes[0] === exporterTask.read) return { bytes: view.slice(0, 1) };
      const descriptor = exportPool(driver, pool);
      return { bytes: driver.memPoolExportPointer(address), descriptors: [descriptor] };
    };
  },
  "importer of a pool": (driver) => {
    let mapping = 0n;
    return ({ bytes, descriptors }) => {
      switch (bytes[0]) {
        case importerTask.import: {
          const imported = importPool(driver, descriptors[0]!);
          mapping = driver.memPoolImportPointer(0, imported, bytes.subarray(1));
          return {};
        }
        case importerTask.read:
          return { bytes: Uint8Array.from(readBytes(driver, 0, mapping, 1)) };
        case importerTask.write:
          driver.memsetAsync(0, mapping, importedByte, mebibyte, defaultStream);
          driver.streamSynchronize(0, defaultStream);
          return {};
        case importerTask.free:
          free(driver, mapping);
          driver.streamSynchronize(0, defaultStream);
          return {};
        default:
          throw new RangeError(`An importer has no task ${bytes[0]}`);
      }
    };
  },
};
