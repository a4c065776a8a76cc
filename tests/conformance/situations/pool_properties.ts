/**
 * Rows about what pools are created for, and about the attributes of pools that CUDA has since 13.2.
 *
 * @module
 */
import { type Driver, memAllocationType, memHandleType, memPoolPropertyAttribute } from "../../../src/driver.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { allocate, createPool, mebibyte, onDevice, onFirstNode } from "../pools.ts";
import type { Situation } from "../situation.ts";

/** Returns each attribute that CUDA has since 13.2. */
function propertiesOf(driver: Driver, pool: bigint): Attempts {
  return attemptEach(
    Object.fromEntries(
      Object.entries(memPoolPropertyAttribute).map(([name, attribute]) => [
        name,
        () => String(driver.memPoolGetAttribute(pool, attribute)),
      ]),
    ),
  );
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "pools created for each usage: none, an unknown one, decompression, and unknown ones",
    run({ driver }) {
      return attemptEach(Object.fromEntries([0, 1, 2, 3, 4, 0x8000].map((usage) => [`usage ${usage}`, () => {
        const pool = driver.memPoolCreate({
          handleTypes: memHandleType.none,
          location: onDevice(0),
          maxSize: 0n,
          usage,
        });
        return void allocate(driver, pool, mebibyte);
      }])));
    },
  },
  {
    name: "pools for decompression: in host memory, managed, to be shared, and with a maxSize",
    run({ driver }) {
      const create = (properties: Partial<Parameters<Driver["memPoolCreate"]>[0]>) => () =>
        driver.memPoolCreate({
          handleTypes: memHandleType.none,
          location: onDevice(0),
          maxSize: 0n,
          usage: 2,
          ...properties,
        });
      return attemptEach({
        "in host memory": create({ location: onFirstNode }),
        "managed": create({ allocationType: memAllocationType.managed }),
        "to be shared": create({ handleTypes: memHandleType.posixFileDescriptor }),
        "with a maxSize": create({ maxSize: BigInt(64 * mebibyte) }),
      });
    },
  },
  {
    name: "the attributes that CUDA has since 13.2: of a new pool, of a default pool, and set",
    run({ driver }) {
      const pool = createPool(driver, { maxSize: BigInt(64 * mebibyte) });
      return {
        "a new pool": propertiesOf(driver, pool),
        "a default pool": propertiesOf(driver, driver.deviceGetDefaultMemPool(0)),
        "set": attemptEach(
          Object.fromEntries(
            Object.entries(memPoolPropertyAttribute).map(([name, attribute]) => [
              name,
              () => driver.memPoolSetAttribute(pool, attribute, 0n),
            ]),
          ),
        ),
      };
    },
  },
];
