/**
 * Rows about allocating and freeing pool memory, with valid and invalid calls.
 *
 * @module
 */
import { defaultStream, type Driver } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import {
  allocate,
  allocateFilled,
  createPool,
  createStream,
  firstByte,
  free,
  mebibyte,
  onDevice,
  shareWithSelf,
} from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const garbage = 0xdead_0000n;
const tooMuch = 2 ** 50;
const alignment = 512n;

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "0 bytes allocated from a pool",
    run: ({ driver }) => ({ isNull: allocate(driver, createPool(driver), 0) === 0n }),
  },
  {
    name: "more bytes than there are allocated from a pool, and then one",
    run({ driver }) {
      const pool = createPool(driver);
      return attemptEach({
        "2 ** 50 bytes": () => allocate(driver, pool, tooMuch),
        "1 byte": () => allocate(driver, pool, 1),
      });
    },
  },
  {
    name: "where allocations of one byte lie",
    run({ driver }) {
      const pool = createPool(driver);
      const addresses = Array.from({ length: 3 }, () => allocate(driver, pool, 1));
      return {
        aligned: addresses.map((address) => address % alignment === 0n),
        distances: addresses.map((address) => Number(address - addresses[0]!)),
      };
    },
  },
  {
    name: "where allocations of 513 bytes and of 2 MiB lie",
    run({ driver }) {
      const pool = createPool(driver);
      const addresses = [513, 2 * mebibyte, 1].map((byteLength) => allocate(driver, pool, byteLength));
      return { aligned: addresses.map((address) => address % alignment === 0n) };
    },
  },
  {
    name: "memory freed and allocated again on the same stream",
    run({ driver }) {
      const pool = createPool(driver);
      const address = allocate(driver, pool, 64 * mebibyte);
      free(driver, address);
      return { isSame: allocate(driver, pool, 64 * mebibyte) === address };
    },
  },
  {
    name: "memory of one device's pool allocated and freed on a stream of another",
    devices: 2,
    run({ driver }) {
      const pool = createPool(driver);
      const address = driver.mallocFromPoolAsync(1, mebibyte, pool, defaultStream);
      return attemptEach({
        free: () => driver.freeAsync(1, address, defaultStream),
        wait: () => driver.deviceSynchronize(1),
      });
    },
  },
  {
    name: "memory freed on a stream of another device than it was allocated on",
    devices: 2,
    run({ driver }) {
      const address = allocate(driver, createPool(driver), mebibyte);
      driver.deviceSynchronize(0);
      return attemptEach({
        free: () => driver.freeAsync(1, address, defaultStream),
        wait: () => driver.deviceSynchronize(1),
      });
    },
  },
  {
    name: "memory freed on another stream than it was allocated on",
    run({ driver }) {
      const [stream, other] = [createStream(driver), createStream(driver)];
      const address = allocate(driver, createPool(driver), mebibyte, stream);
      driver.streamSynchronize(0, stream);
      free(driver, address, other);
    },
  },
  {
    name: "memory of a pool freed twice",
    run({ driver }) {
      const address = allocate(driver, createPool(driver), mebibyte);
      return attemptEach({ first: () => free(driver, address), second: () => free(driver, address) });
    },
  },
  {
    name: "memory of a pool freed twice with a synchronization between",
    run({ driver }) {
      const address = allocate(driver, createPool(driver), mebibyte);
      free(driver, address);
      driver.streamSynchronize(0, defaultStream);
      free(driver, address);
    },
  },
  ...[1n, 512n, BigInt(mebibyte)].map((offset): Situation => ({
    name: `an address ${offset} bytes into an allocation of 2 MiB freed`,
    run({ driver }) {
      const address = allocate(driver, createPool(driver), 2 * mebibyte);
      return attemptEach({
        part: () => free(driver, address + offset),
        whole: () => free(driver, address),
      });
    },
  })),
  {
    name: "the address 0 freed in stream order",
    run: ({ driver }) => free(driver, 0n),
  },
  {
    name: "an address that is nobody's freed in stream order",
    run: ({ driver }) => free(driver, garbage),
  },
  {
    name: "page-locked host memory freed in stream order",
    run: ({ driver }) => free(driver, driver.hostAlloc(mebibyte).address),
  },
  {
    name: "an imported pointer freed at once",
    run({ driver }) {
      const { mapping } = shareWithSelf(driver);
      return attemptEach({
        "at once": () => driver.free(0, mapping),
        "then in stream order": () => free(driver, mapping),
      });
    },
  },
  {
    name: "the address range of an imported pointer",
    run({ driver }) {
      const { mapping } = shareWithSelf(driver);
      return { whole: rangeOf(driver, mapping, mapping), part: rangeOf(driver, mapping + 100n, mapping) };
    },
  },
  {
    name: "a pool destroyed with memory allocated, which is used and freed afterwards",
    run({ driver }) {
      const pool = createPool(driver);
      const address = allocateFilled(driver, pool, mebibyte, 7);
      driver.memPoolDestroy(pool);
      return attemptEach({
        read: () => firstByte(driver, address),
        free: () => free(driver, address),
        wait: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "a pool on each of two devices",
    devices: 2,
    run({ driver }) {
      const address = driver.mallocFromPoolAsync(
        1,
        mebibyte,
        createPool(driver, { location: onDevice(1) }),
        defaultStream,
      );
      driver.memsetAsync(1, address, 3, mebibyte, defaultStream);
      const bytes = new Uint8Array(1);
      driver.memcpyDtoHAsync(1, bytes, address, defaultStream);
      driver.streamSynchronize(1, defaultStream);
      return bytes[0]!;
    },
  },
];

/** Returns the offset of an allocation's start from where it should be, and the allocation's length. */
function rangeOf(driver: Driver, address: bigint, begin: bigint): Answer {
  const { base, byteLength } = driver.memGetAddressRange(0, address);
  return { offset: Number(base - begin), byteLength };
}
