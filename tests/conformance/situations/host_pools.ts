/**
 * Rows about pools in host memory, which the processor reads in place.
 *
 * @module
 */
import {
  defaultStream,
  type Driver,
  memAccessFlags,
  memHandleType,
  type MemLocation,
  memLocationType,
} from "../../../src/driver.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { launchFill, readBytes } from "../launch.ts";
import {
  allocate,
  attributesOf,
  createPool,
  createShareablePool,
  exportPool,
  free,
  importPool,
  mebibyte,
  onDevice,
  onFirstNode,
} from "../pools.ts";
import type { Situation } from "../situation.ts";

const hostNumaCurrent = 4;
const onHost: MemLocation = { type: memLocationType.host, id: 0 };

const places: Readonly<Record<string, MemLocation>> = {
  "the host": onHost,
  "the host with an id": { type: memLocationType.host, id: 1 },
  "NUMA node 0": onFirstNode,
  "NUMA node -1": { type: memLocationType.hostNuma, id: -1 },
  "NUMA node 99": { type: memLocationType.hostNuma, id: 99 },
  "the current NUMA node": { type: hostNumaCurrent, id: 0 },
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(places).map(([name, location]): Situation => ({
    name: `pools created on ${name}`,
    run: ({ driver }) =>
      attemptEach({
        "not to be shared": () => allocate(driver, createPool(driver, { location }), 1),
        "posix-fd": () => allocate(driver, createShareablePool(driver, { location }), 1),
        "fabric": () => allocate(driver, createPool(driver, { location, handleTypes: memHandleType.fabric }), 1),
      }),
  })),
  ...Object.entries({ "the host": onHost, "NUMA node 0": onFirstNode }).flatMap(([name, location]): Situation[] => [
    {
      name: `who has access to a new pool on ${name}`,
      run({ driver }) {
        const pool = createPool(driver, { location });
        return attemptEach({
          "device 0": () => driver.memPoolGetAccess(pool, onDevice(0)),
          "the host": () => driver.memPoolGetAccess(pool, onHost),
          "NUMA node 0": () => driver.memPoolGetAccess(pool, onFirstNode),
        });
      },
    },
    {
      name: `memory of a pool on ${name} written and read by the processor`,
      run({ driver }) {
        const pool = createPool(driver, { location });
        const address = allocate(driver, pool, mebibyte);
        driver.streamSynchronize(0, defaultStream);
        const view = new Uint8Array(driver.hostView(address, mebibyte));
        view[mebibyte - 1] = 42;
        const again = new Uint8Array(driver.hostView(address + BigInt(mebibyte) - 1n, 1));
        return [view.length, again[0]!];
      },
    },
    {
      name: `a kernel on memory of a pool on ${name} before its device has access`,
      run: ({ driver }) => fillHostMemory(driver, createPool(driver, { location })),
    },
    {
      name: `a kernel on memory of a pool on ${name} whose device has access`,
      run({ driver }) {
        const pool = createPool(driver, { location });
        setAccess(driver, pool, memAccessFlags.readWrite);
        return fillHostMemory(driver, pool);
      },
    },
  ]),
  {
    name: "a kernel on memory of a host pool allocated before its device was given access",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode });
      const address = allocate(driver, pool, mebibyte);
      driver.streamSynchronize(0, defaultStream);
      setAccess(driver, pool, memAccessFlags.readWrite);
      return fillAt(driver, address);
    },
  },
  {
    name: "a kernel that writes to memory of a host pool with access to read",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode });
      return {
        ...attemptEach({ set: () => setAccess(driver, pool, memAccessFlags.read) }),
        ...fillHostMemory(driver, pool),
      };
    },
  },
  {
    name: "a device's access to a host pool set and taken back",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode });
      const get = () => driver.memPoolGetAccess(pool, onDevice(0));
      return {
        ...attemptEach({
          set: () => setAccess(driver, pool, memAccessFlags.readWrite),
          get,
          "take back": () => setAccess(driver, pool, memAccessFlags.none),
          "get again": get,
        }),
        ...fillHostMemory(driver, pool),
      };
    },
  },
  {
    name: "the host's own access to a host pool set",
    run({ driver }) {
      const set = (location: MemLocation, flags: number) => () =>
        driver.memPoolSetAccess(createPool(driver, { location: onFirstNode }), [{ location, flags }]);
      return attemptEach({
        "node to read-write": set(onFirstNode, memAccessFlags.readWrite),
        "node to none": set(onFirstNode, memAccessFlags.none),
        "host to read-write": set(onHost, memAccessFlags.readWrite),
        "host to none": set(onHost, memAccessFlags.none),
      });
    },
  },
  {
    name: "memory of a host pool whose device has access filled by the device, and copied from it",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode });
      setAccess(driver, pool, memAccessFlags.readWrite);
      const address = allocate(driver, pool, mebibyte);
      return attemptEach({
        fill: () => driver.memsetAsync(0, address, 5, mebibyte, defaultStream),
        wait: () => driver.streamSynchronize(0, defaultStream),
        see: () => seen(driver, address),
        copy: () => readBytes(driver, 0, address, 1)[0],
      });
    },
  },
  {
    name: "the attributes of a host pool with one byte allocated",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode });
      allocate(driver, pool, 1);
      return attributesOf(driver, pool);
    },
  },
  {
    name: "the attributes of a host pool after 64 MiB were freed and synchronized",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode });
      free(driver, allocate(driver, pool, 64 * mebibyte));
      driver.streamSynchronize(0, defaultStream);
      return attributesOf(driver, pool);
    },
  },
  {
    name: "more memory than a host pool's maxSize",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode, maxSize: BigInt(2 * mebibyte) });
      return attemptEach({
        "2 MiB": () => allocate(driver, pool, 2 * mebibyte),
        "1 byte more": () => allocate(driver, pool, 1),
      });
    },
  },
  {
    name: "memory of a host pool freed twice",
    run({ driver }) {
      const address = allocate(driver, createPool(driver, { location: onFirstNode }), mebibyte);
      return attemptEach({ first: () => free(driver, address), second: () => free(driver, address) });
    },
  },
  {
    name: "the address range of memory of a host pool",
    run({ driver }) {
      const address = allocate(driver, createPool(driver, { location: onFirstNode }), 1000);
      const { base, byteLength } = driver.memGetAddressRange(0, address);
      return { isBase: base === address, byteLength };
    },
  },
  {
    name: "a host pool that is not to be shared exported",
    run: ({ driver }) => void exportPool(driver, createPool(driver, { location: onFirstNode })),
  },
  {
    name: "a host pool imported in the process that exported it",
    run({ driver }) {
      const pool = createShareablePool(driver, { location: onFirstNode });
      const address = allocate(driver, pool, mebibyte);
      driver.streamSynchronize(0, defaultStream);
      new Uint8Array(driver.hostView(address, mebibyte)).fill(9);
      const imported = importPool(driver, exportPool(driver, pool));
      const mapping = driver.memPoolImportPointer(0, imported, driver.memPoolExportPointer(address));
      return {
        ...attemptEach({
          "access of the device": () => driver.memPoolGetAccess(imported, onDevice(0)),
          "access of the host": () => driver.memPoolGetAccess(imported, onHost),
          "access of the node": () => driver.memPoolGetAccess(imported, onFirstNode),
        }),
        seen: seen(driver, mapping),
        ...attemptEach({
          "give the device access": () => setAccess(driver, imported, memAccessFlags.readWrite),
          "access of the device now": () => driver.memPoolGetAccess(imported, onDevice(0)),
        }),
        ...fillAt(driver, mapping),
        seenByExporter: seen(driver, address),
      };
    },
  },
  {
    name: "one pointer of a host pool imported twice",
    run({ driver }) {
      const pool = createShareablePool(driver, { location: onFirstNode });
      const address = allocate(driver, pool, mebibyte);
      const imported = importPool(driver, exportPool(driver, pool));
      const exportData = driver.memPoolExportPointer(address);
      const mapping = driver.memPoolImportPointer(0, imported, exportData);
      return attemptEach({
        second: () => driver.memPoolImportPointer(0, imported, exportData) === mapping,
        free: () => free(driver, mapping),
        wait: () => driver.streamSynchronize(0, defaultStream),
        "after the free": () => driver.memPoolImportPointer(0, imported, exportData) !== 0n,
      });
    },
  },
];

function setAccess(driver: Driver, pool: bigint, flags: number): void {
  driver.memPoolSetAccess(pool, [{ location: onDevice(0), flags }]);
}

function fillHostMemory(driver: Driver, pool: bigint): Attempts {
  const address = allocate(driver, pool, mebibyte);
  driver.streamSynchronize(0, defaultStream);
  return fillAt(driver, address);
}

/** Runs a kernel on device 0 and returns the result, with the first byte that the processor sees afterwards. */
function fillAt(driver: Driver, address: bigint): Attempts {
  return attemptEach({
    launch: () => launchFill(driver, 0, { address, byteLength: mebibyte, pattern: 0x07070707 }),
    wait: () => driver.streamSynchronize(0, defaultStream),
    see: () => seen(driver, address),
  });
}

/** Returns the first byte of memory, as the processor sees it. */
function seen(driver: Driver, address: bigint): number {
  return new Uint8Array(driver.hostView(address, 1))[0]!;
}
