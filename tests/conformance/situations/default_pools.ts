/**
 * Rows about the default pool and the current pool of a device.
 *
 * @module
 */
import { type Driver, memAccessFlags, memHandleType } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import {
  allocate,
  attributesOf,
  createPool,
  createShareablePool,
  exportPool,
  importPool,
  infinite,
  onDevice,
  onFirstNode,
  setAttribute,
} from "../pools.ts";
import type { Situation } from "../situation.ts";

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "the default pool asked for twice",
    run: ({ driver }) => driver.deviceGetDefaultMemPool(0) === driver.deviceGetDefaultMemPool(0),
  },
  {
    name: "the default and the current pool of devices that there are not",
    run: ({ driver }) =>
      attemptEach({
        "default of -1": () => driver.deviceGetDefaultMemPool(-1),
        "default of 99": () => driver.deviceGetDefaultMemPool(99),
        "current of -1": () => driver.deviceGetMemPool(-1),
        "current of 99": () => driver.deviceGetMemPool(99),
      }),
  },
  {
    name: "the default pools of two devices",
    devices: 2,
    run: ({ driver }) => ({
      differ: driver.deviceGetDefaultMemPool(0) !== driver.deviceGetDefaultMemPool(1),
      accessOfOwner: driver.memPoolGetAccess(driver.deviceGetDefaultMemPool(1), onDevice(1)),
      accessOfOther: driver.memPoolGetAccess(driver.deviceGetDefaultMemPool(1), onDevice(0)),
    }),
  },
  {
    name: "the attributes of the default pool",
    run: ({ driver }) => attributesOf(driver, driver.deviceGetDefaultMemPool(0)),
  },
  {
    name: "the release threshold of the default pool set",
    run({ driver }) {
      const pool = driver.deviceGetDefaultMemPool(0);
      setAttribute(driver, pool, "releaseThreshold", infinite);
      return attributesOf(driver, pool);
    },
  },
  {
    name: "the default pool destroyed",
    run: ({ driver }) => driver.memPoolDestroy(driver.deviceGetDefaultMemPool(0)),
  },
  {
    name: "the default pool exported",
    run: ({ driver }) =>
      attemptEach({
        "as a descriptor": () => exportPool(driver, driver.deviceGetDefaultMemPool(0)),
        "as a fabric handle": () =>
          driver.memPoolExportToShareableHandle(driver.deviceGetDefaultMemPool(0), memHandleType.fabric),
      }),
  },
  {
    name: "a pointer of the default pool exported",
    run: ({ driver }) => void driver.memPoolExportPointer(allocate(driver, driver.deviceGetDefaultMemPool(0), 1024)),
  },
  {
    name: "the owner's access to the default pool",
    run({ driver }) {
      const pool = driver.deviceGetDefaultMemPool(0);
      const set = (flags: number) => driver.memPoolSetAccess(pool, [{ location: onDevice(0), flags }]);
      return attemptEach({
        before: () => driver.memPoolGetAccess(pool, onDevice(0)),
        "set to read-write": () => set(memAccessFlags.readWrite),
        "set to read": () => set(memAccessFlags.read),
        "set to none": () => set(memAccessFlags.none),
        after: () => driver.memPoolGetAccess(pool, onDevice(0)),
      });
    },
  },
  {
    name: "the default pool trimmed",
    run: ({ driver }) => driver.memPoolTrimTo(driver.deviceGetDefaultMemPool(0), 0n),
  },
  {
    name: "the current pool of a device is its default pool at first",
    run: ({ driver }) => isDefaultCurrent(driver),
  },
  {
    name: "a pool made current, and then the default pool again",
    run({ driver }) {
      const pool = createPool(driver);
      driver.deviceSetMemPool(0, pool);
      const isCurrent = driver.deviceGetMemPool(0) === pool;
      driver.deviceSetMemPool(0, driver.deviceGetDefaultMemPool(0));
      return { isCurrent, isDefaultAgain: isDefaultCurrent(driver) };
    },
  },
  {
    name: "a pool made current on devices that there are not",
    run: ({ driver }) =>
      attemptEach({
        "device -1": () => driver.deviceSetMemPool(-1, createPool(driver)),
        "device 99": () => driver.deviceSetMemPool(99, createPool(driver)),
      }),
  },
  {
    name: "a pool of another device made current",
    devices: 2,
    run: ({ driver }) => driver.deviceSetMemPool(0, createPool(driver, { location: onDevice(1) })),
  },
  {
    name: "a pool in host memory made current",
    run: ({ driver }) => driver.deviceSetMemPool(0, createPool(driver, { location: onFirstNode })),
  },
  {
    name: "an imported pool made current",
    run({ driver }) {
      const imported = importPool(driver, exportPool(driver, createShareablePool(driver)));
      return attemptEach({
        set: () => driver.deviceSetMemPool(0, imported),
        "the default is current": () => isDefaultCurrent(driver),
      });
    },
  },
  {
    name: "the current pool destroyed",
    run({ driver }) {
      const pool = createPool(driver);
      driver.deviceSetMemPool(0, pool);
      return attemptEach({
        destroy: () => driver.memPoolDestroy(pool),
        "the default is current": () => isDefaultCurrent(driver),
      });
    },
  },
];

function isDefaultCurrent(driver: Driver): boolean {
  return driver.deviceGetMemPool(0) === driver.deviceGetDefaultMemPool(0);
}
