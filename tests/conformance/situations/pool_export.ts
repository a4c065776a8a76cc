/**
 * Rows about exporting pools and pointers, with valid and invalid arguments.
 *
 * @module
 */
import { defaultStream, type Driver, memHandleType } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import {
  allocate,
  createPool,
  createShareablePool,
  exportPool,
  free,
  importPool,
  mebibyte,
  onFirstNode,
  shareWithSelf,
} from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const { posixFileDescriptor, fabric } = memHandleType;

const pools: Readonly<Record<string, (driver: Driver) => bigint>> = {
  "that is not to be shared": (driver) => createPool(driver),
  "to be shared by descriptor": (driver) => createShareablePool(driver),
  "to be shared by fabric handle": (driver) => createPool(driver, { handleTypes: fabric }),
  "in host memory, to be shared by descriptor": (driver) => createShareablePool(driver, { location: onFirstNode }),
};

const typesToAsk = { "none": 0, "posix-fd": 1, "win32": 2, "fabric": 8, "either": 9, "99": 99 } as const;

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(pools).map(([name, create]): Situation => ({
    name: `the handle of a pool ${name} exported as each type`,
    run({ driver }) {
      const pool = create(driver);
      return attemptEach(Object.fromEntries(
        Object.entries(typesToAsk).map(([name, type]) => [
          name,
          () => void driver.memPoolExportToShareableHandle(pool, type),
        ]),
      ));
    },
  })),
  // Leaves out both types at once: no single handle could hold the result.
  ...Object.entries(typesToAsk).filter(([, type]) => type !== (posixFileDescriptor | fabric)).map(
    ([name, type]): Situation => ({
      name: `the handle of a pool to be shared by either exported as type ${name}`,
      run({ driver }) {
        const pool = createPool(driver, { handleTypes: posixFileDescriptor | fabric });
        return attemptEach({ export: () => void driver.memPoolExportToShareableHandle(pool, type) });
      },
    }),
  ),
  {
    name: "the handle of a pool exported twice",
    run({ driver }) {
      const pool = createShareablePool(driver);
      const [first, second] = [exportPool(driver, pool), exportPool(driver, pool)];
      return {
        descriptorsDiffer: first !== second,
        importsAreSame: importPool(driver, first) === importPool(driver, second),
      };
    },
  },
  {
    name: "the handle of an imported pool exported",
    run: ({ driver }) => void exportPool(driver, shareWithSelf(driver).imported),
  },
  {
    name: "a pointer exported before the handle of its pool, and after",
    run({ driver }) {
      const pool = createShareablePool(driver);
      const early = allocate(driver, pool, 1024);
      return attemptEach({
        before: () => driver.memPoolExportPointer(early),
        handle: () => void exportPool(driver, pool),
        after: () => driver.memPoolExportPointer(early),
        "of memory allocated since": () => driver.memPoolExportPointer(allocate(driver, pool, 1024)),
      });
    },
  },
  {
    name: "a pointer into an allocation exported",
    run: ({ driver }) =>
      attemptEach({
        "1 byte in": () => driver.memPoolExportPointer(allocateFromExportedPool(driver) + 1n),
        "512 bytes in": () => driver.memPoolExportPointer(allocateFromExportedPool(driver) + 512n),
        "at its end": () => driver.memPoolExportPointer(allocateFromExportedPool(driver) + BigInt(mebibyte)),
      }),
  },
  {
    name: "a pointer exported after it was freed",
    run({ driver }) {
      const address = allocateFromExportedPool(driver);
      return attemptEach({
        free: () => free(driver, address),
        "before a synchronization": () => driver.memPoolExportPointer(address),
        wait: () => driver.streamSynchronize(0, defaultStream),
        "after a synchronization": () => driver.memPoolExportPointer(address),
      });
    },
  },
  {
    name: "a pointer exported that is of no shareable pool",
    run: ({ driver }) =>
      attemptEach({
        "of a pool that is not to be shared": () =>
          driver.memPoolExportPointer(allocate(driver, createPool(driver), 1)),
        "of malloc": () => driver.memPoolExportPointer(driver.malloc(0, 1024)),
        "of page-locked host memory": () => driver.memPoolExportPointer(driver.hostAlloc(1024).address),
        "of nobody": () => driver.memPoolExportPointer(0xdead_0000n),
        "0": () => driver.memPoolExportPointer(0n),
      }),
  },
  {
    name: "an imported pointer exported",
    run: ({ driver }) => void driver.memPoolExportPointer(shareWithSelf(driver).mapping),
  },
  {
    name: "a pointer exported twice, and another",
    run({ driver }) {
      const { address, pool, exportData } = shareWithSelf(driver);
      const again = driver.memPoolExportPointer(address);
      const other = driver.memPoolExportPointer(allocate(driver, pool, mebibyte));
      return { isSame: isEqual(again, exportData), isSameOfOther: isEqual(other, exportData) };
    },
  },
];

/** Allocates memory from a pool whose handle was exported. */
function allocateFromExportedPool(driver: Driver): bigint {
  const pool = createShareablePool(driver);
  exportPool(driver, pool);
  return allocate(driver, pool, mebibyte);
}

function isEqual(first: Uint8Array, second: Uint8Array): Answer {
  return first.every((byte, index) => byte === second[index]);
}
