/**
 * Rows that pass handle 0 as a pool.
 *
 * @module
 */
import { type Driver, memAccessFlags, memPoolAttribute } from "../../../src/driver.ts";
import { allocate, exportPool, onDevice, shareWithSelf } from "../pools.ts";
import type { Situation } from "../situation.ts";

const nullPool = 0n;

const uses: Readonly<Record<string, (driver: Driver) => void>> = {
  "destroyed": (driver) => driver.memPoolDestroy(nullPool),
  "allocated from": (driver) => allocate(driver, nullPool, 1024),
  "asked for an attribute": (driver) => driver.memPoolGetAttribute(nullPool, memPoolAttribute.usedMemCurrent),
  "given an attribute": (driver) => driver.memPoolSetAttribute(nullPool, memPoolAttribute.releaseThreshold, 0n),
  "trimmed": (driver) => driver.memPoolTrimTo(nullPool, 0n),
  "asked for access": (driver) => driver.memPoolGetAccess(nullPool, onDevice(0)),
  "given access": (driver) =>
    driver.memPoolSetAccess(nullPool, [{ location: onDevice(0), flags: memAccessFlags.readWrite }]),
  "exported": (driver) => exportPool(driver, nullPool),
  "made current": (driver) => driver.deviceSetMemPool(0, nullPool),
  "imported into": (driver) => driver.memPoolImportPointer(0, nullPool, shareWithSelf(driver).exportData),
};

/** The rows of this file. */
export const situations: readonly Situation[] = Object.entries(uses).map(([name, use]): Situation => ({
  name: `the pool handle 0 ${name}`,
  run: ({ driver }) => use(driver),
}));
