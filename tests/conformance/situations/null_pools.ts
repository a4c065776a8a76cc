/**
 * The handle 0 where a pool's belongs.
 *
 * @module
 */
import { type Driver, memAccessFlags, memPoolAttribute } from "../../../src/driver.ts";
import { allocate, exportPool, onDevice, shareWithSelf } from "../pools.ts";
import type { Situation } from "../situation.ts";

const none = 0n;

const uses: Readonly<Record<string, (driver: Driver) => void>> = {
  "destroyed": (driver) => driver.memPoolDestroy(none),
  "allocated from": (driver) => allocate(driver, none, 1024),
  "asked for an attribute": (driver) => driver.memPoolGetAttribute(none, memPoolAttribute.usedMemCurrent),
  "given an attribute": (driver) => driver.memPoolSetAttribute(none, memPoolAttribute.releaseThreshold, 0n),
  "trimmed": (driver) => driver.memPoolTrimTo(none, 0n),
  "asked for access": (driver) => driver.memPoolGetAccess(none, onDevice(0)),
  "given access": (driver) =>
    driver.memPoolSetAccess(none, [{ location: onDevice(0), flags: memAccessFlags.readWrite }]),
  "exported": (driver) => exportPool(driver, none),
  "made current": (driver) => driver.deviceSetMemPool(0, none),
  "imported into": (driver) => driver.memPoolImportPointer(0, none, shareWithSelf(driver).exportData),
};

/** See the module's own documentation. */
export const situations: readonly Situation[] = Object.entries(uses).map(([name, use]): Situation => ({
  name: `the pool handle 0 ${name}`,
  run: ({ driver }) => use(driver),
}));
