/**
 * Rows about creating pools with valid and invalid properties, and about maximum sizes.
 *
 * @module
 */
import { defaultStream, type MemLocation } from "../../../src/driver.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { allocate, attributesOf, createPool, free, mebibyte, onDevice, type PoolProperties } from "../pools.ts";
import type { Fixture, Situation } from "../situation.ts";

const handleTypes = {
  "none": 0,
  "posix-fd": 1,
  "win32": 2,
  "kmt": 4,
  "fabric": 8,
  "posix-fd and fabric": 9,
  "an unknown bit": 0x80,
} as const;

const badLocations: Readonly<Record<string, MemLocation>> = {
  "device -1": onDevice(-1),
  "device 99": onDevice(99),
  "an invalid kind of place": { type: 0, id: 0 },
  "an unknown kind of place": { type: 99, id: 0 },
};

const maxSizes = [1, 2 * mebibyte, 3 * mebibyte, 33 * mebibyte, 64 * mebibyte] as const;
const sizesToFit = [1, 2 * mebibyte, 4 * mebibyte, 32 * mebibyte, 34 * mebibyte, 64 * mebibyte, 66 * mebibyte] as const;

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(handleTypes).map(([name, handleTypes]): Situation => ({
    name: `a pool created with handle type ${name}`,
    run: (fixture) => createAndUse(fixture, { handleTypes }),
  })),
  ...Object.entries(badLocations).map(([name, location]): Situation => ({
    name: `a pool created on ${name}`,
    run: (fixture) => createAndUse(fixture, { location }),
  })),
  ...[2n ** 40n, 2n ** 62n].map((maxSize): Situation => ({
    name: `a pool created with a maxSize of ${maxSize} bytes`,
    run: (fixture) => createAndUse(fixture, { maxSize }),
  })),
  ...maxSizes.map((maxSize): Situation => ({
    name: `what fits into a pool with a maxSize of ${maxSize} bytes`,
    run: ({ driver }) =>
      attemptEach(Object.fromEntries(sizesToFit.map((byteLength) => [
        `${byteLength} bytes`,
        () => void allocate(driver, createPool(driver, { maxSize: BigInt(maxSize) }), byteLength),
      ]))),
  })),
  {
    name: "a second allocation that a pool's maxSize has no room for, and again after the first was freed",
    run({ driver }) {
      const pool = createPool(driver, { maxSize: BigInt(4 * mebibyte) });
      const first = allocate(driver, pool, 3 * mebibyte);
      return attemptEach({
        before: () => allocate(driver, pool, 2 * mebibyte),
        free: () => free(driver, first),
        wait: () => driver.streamSynchronize(0, defaultStream),
        after: () => allocate(driver, pool, 2 * mebibyte),
      });
    },
  },
  {
    name: "a second allocation that a pool's maxSize of 64 MiB has no room for, and again after the first was freed",
    run({ driver }) {
      const pool = createPool(driver, { maxSize: BigInt(64 * mebibyte) });
      const first = allocate(driver, pool, 48 * mebibyte);
      return attemptEach({
        before: () => allocate(driver, pool, 32 * mebibyte),
        free: () => free(driver, first),
        wait: () => driver.streamSynchronize(0, defaultStream),
        after: () => allocate(driver, pool, 32 * mebibyte),
      });
    },
  },
  {
    name: "two pools created alike have two handles",
    run: ({ driver }) => createPool(driver) !== createPool(driver),
  },
  {
    name: "the attributes of a new pool",
    run: ({ driver }) => attributesOf(driver, createPool(driver)),
  },
  {
    name: "a pool destroyed that was never used",
    run: ({ driver }) => driver.memPoolDestroy(createPool(driver)),
  },
];

function createAndUse({ driver }: Fixture, properties: PoolProperties): Attempts {
  const pool = createPool(driver, properties);
  return attemptEach({ allocate: () => allocate(driver, pool, 1) });
}
