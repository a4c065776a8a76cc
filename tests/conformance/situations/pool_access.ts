/**
 * Rows about which devices may use a pool's memory, and about the errors of devices that may not.
 *
 * @module
 */
import { type Driver, memAccessFlags, type MemLocation } from "../../../src/driver.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { launchFill } from "../launch.ts";
import { allocate, allocateFilled, createPool, firstByte, mebibyte, onDevice } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const flagsToSet = { "none": 0, "read": 1, "2": 2, "read-write": 3, "7": 7, "-1": -1 } as const;

const places: Readonly<Record<string, MemLocation>> = {
  "device -1": onDevice(-1),
  "device 99": onDevice(99),
  "an invalid kind of place": { type: 0, id: 0 },
  "the host": { type: 2, id: 0 },
  "the first NUMA node": { type: 3, id: 0 },
  "the current NUMA node": { type: 4, id: 0 },
  "an unknown kind of place": { type: 99, id: 0 },
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(flagsToSet).map(([name, flags]): Situation => ({
    name: `the access of a pool's own device set to ${name}`,
    run({ driver }) {
      const pool = createPool(driver);
      return attemptEach({
        set: () => setAccess(driver, pool, 0, flags),
        get: () => driver.memPoolGetAccess(pool, onDevice(0)),
      });
    },
  })),
  {
    name: "a kernel of a pool's own device after its access was set to none",
    run: ({ driver }) => writeAfter(driver, memAccessFlags.none),
  },
  {
    name: "a kernel that writes on a pool's own device after its access was set to read",
    run: ({ driver }) => writeAfter(driver, memAccessFlags.read),
  },
  ...Object.entries(places).map(([name, location]): Situation => ({
    name: `the access of ${name} to a pool of device 0`,
    run({ driver }) {
      const pool = createPool(driver);
      const set = (flags: number) => () => driver.memPoolSetAccess(pool, [{ location, flags }]);
      return attemptEach({
        get: () => driver.memPoolGetAccess(pool, location),
        "set to read-write": set(memAccessFlags.readWrite),
        "set to none": set(memAccessFlags.none),
        "get again": () => driver.memPoolGetAccess(pool, location),
      });
    },
  })),
  {
    name: "access set for no location at all",
    run: ({ driver }) => driver.memPoolSetAccess(createPool(driver), []),
  },
  {
    name: "access set for the same device twice in one call",
    devices: 2,
    run({ driver }) {
      const pool = createPool(driver);
      const { readWrite, none } = memAccessFlags;
      const location = onDevice(1);
      return attemptEach({
        set: () => driver.memPoolSetAccess(pool, [{ location, flags: readWrite }, { location, flags: none }]),
        get: () => driver.memPoolGetAccess(pool, location),
      });
    },
  },
  {
    name: "access set for a device that there is and one that there is not in one call",
    devices: 2,
    run({ driver }) {
      const pool = createPool(driver);
      const flags = memAccessFlags.readWrite;
      return attemptEach({
        set: () => driver.memPoolSetAccess(pool, [{ location: onDevice(1), flags }, { location: onDevice(99), flags }]),
        get: () => driver.memPoolGetAccess(pool, onDevice(1)),
      });
    },
  },
  ...Object.entries(flagsToSet).map(([name, flags]): Situation => ({
    name: `the access of a peer device set to ${name}, and then to none`,
    devices: 2,
    run({ driver }) {
      const pool = createPool(driver);
      const get = () => driver.memPoolGetAccess(pool, onDevice(1));
      return attemptEach({
        before: get,
        set: () => setAccess(driver, pool, 1, flags),
        after: get,
        revoke: () => setAccess(driver, pool, 1, memAccessFlags.none),
        "in the end": get,
      });
    },
  })),
  {
    name: "a kernel of a peer device without access",
    devices: 2,
    run: ({ driver }) => writeFromPeer(driver, () => {}),
  },
  {
    name: "a kernel of a peer device with access set before the memory was allocated",
    devices: 2,
    run({ driver }) {
      const pool = createPool(driver);
      setAccess(driver, pool, 1, memAccessFlags.readWrite);
      return fillFromPeer(driver, allocateFilled(driver, pool, mebibyte, 1));
    },
  },
  {
    name: "a kernel of a peer device with access set after the memory was allocated",
    devices: 2,
    run: ({ driver }) => writeFromPeer(driver, (pool) => setAccess(driver, pool, 1, memAccessFlags.readWrite)),
  },
  {
    name: "a kernel that writes on a peer device with access to read",
    devices: 2,
    run: ({ driver }) => writeFromPeer(driver, (pool) => setAccess(driver, pool, 1, memAccessFlags.read)),
  },
  {
    name: "a kernel of a peer device whose access was taken back",
    devices: 2,
    run: ({ driver }) =>
      writeFromPeer(driver, (pool) => {
        setAccess(driver, pool, 1, memAccessFlags.readWrite);
        setAccess(driver, pool, 1, memAccessFlags.none);
      }),
  },
  {
    name: "peer access enabled between devices is no access to a pool",
    devices: 2,
    run: ({ driver }) =>
      writeFromPeer(driver, (pool) => {
        driver.deviceEnablePeerAccess(1, 0);
        if (driver.memPoolGetAccess(pool, onDevice(1)) !== 0) throw new Error("The pool has access already");
      }),
  },
  {
    name: "what is still answered after a kernel wrote where it may not",
    devices: 2,
    run({ driver }) {
      const pool = createPool(driver);
      const address = allocateFilled(driver, pool, mebibyte, 1);
      launchFill(driver, 1, { address, byteLength: 4 });
      return attemptEach({
        "wait for the device": () => driver.deviceSynchronize(1),
        "wait for it again": () => driver.deviceSynchronize(1),
        "allocate on the device": () =>
          driver.mallocFromPoolAsync(1, 1, createPool(driver, { location: onDevice(1) }), 0n),
        "wait for the other device": () => driver.deviceSynchronize(0),
        "allocate on the other device": () => allocate(driver, createPool(driver), 1),
        "count the devices": () => driver.getDeviceCount() >= 2,
      });
    },
  },
];

function setAccess(driver: Driver, pool: bigint, device: number, flags: number): void {
  driver.memPoolSetAccess(pool, [{ location: onDevice(device), flags }]);
}

/** Sets the access of the pool's own device and returns the result of a kernel that writes. */
function writeAfter(driver: Driver, flags: number): Attempts {
  const pool = createPool(driver);
  const address = allocateFilled(driver, pool, mebibyte, 1);
  return attemptEach({
    set: () => setAccess(driver, pool, 0, flags),
    launch: () => launchFill(driver, 0, { address, byteLength: 4, pattern: 0x05050505 }),
    wait: () => driver.deviceSynchronize(0),
    read: () => firstByte(driver, address),
  });
}

/** Prepares a pool of device 0 and returns the result of a kernel of device 1 that writes to its memory. */
function writeFromPeer(driver: Driver, prepare: (pool: bigint) => void): Answer {
  const pool = createPool(driver);
  const address = allocateFilled(driver, pool, mebibyte, 1);
  prepare(pool);
  return fillFromPeer(driver, address);
}

function fillFromPeer(driver: Driver, address: bigint): Answer {
  return attemptEach({
    launch: () => launchFill(driver, 1, { address, byteLength: 4, pattern: 0x05050505 }),
    wait: () => driver.deviceSynchronize(1),
    read: () => firstByte(driver, address),
  });
}
