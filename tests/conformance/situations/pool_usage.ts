/**
 * Rows about how much memory a pool reserves and uses, and when it releases memory.
 *
 * @module
 */
import { defaultStream, type Driver, eventFlags } from "../../../src/driver.ts";
import { prepareLongWork } from "../long_work.ts";
import {
  allocate,
  attributeOf,
  createPool,
  createShareablePool,
  createStream,
  free,
  infinite,
  mebibyte,
  setAttribute,
} from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

const sizes = [1, 512, 513, 2 * mebibyte, 32 * mebibyte, 33 * mebibyte, 64 * mebibyte, 64 * mebibyte + 1] as const;

const waits: Readonly<Record<string, (driver: Driver, stream: bigint) => void>> = {
  "its stream is synchronized": (driver, stream) => driver.streamSynchronize(0, stream),
  "its device is synchronized": (driver) => driver.deviceSynchronize(0),
  "an event behind it is synchronized": (driver, stream) => {
    const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
    driver.eventRecord(0, event, stream);
    driver.eventSynchronize(event);
  },
  "its stream is queried until it is done": (driver, stream) => {
    while (!driver.streamQuery(0, stream));
  },
};

type Wait = (driver: Driver, event: bigint, stream: bigint) => void;

const untilEvent: Wait = (driver, event) => {
  while (!driver.eventQuery(event));
};
const untilStream: Wait = (driver, _event, stream) => {
  while (!driver.streamQuery(0, stream));
};
const recordLater: Wait = (driver, event, stream) => {
  driver.eventRecord(0, event, stream);
  untilEvent(driver, event, stream);
};
const recordForDevice: Wait = (driver, event, stream) => {
  driver.ctxRecordEvent(0, event);
  untilEvent(driver, event, stream);
};
const synchronizeEvent: Wait = (driver, event) => driver.eventSynchronize(event);

/** What the host does after a free and the record of an event, before a pool is trimmed. */
const observations: Readonly<Record<string, readonly Wait[]>> = {
  "its event is queried until it is done": [untilEvent],
  "its stream is queried until it is done": [untilStream],
  "its event is queried until it is done, and synchronized": [untilEvent, synchronizeEvent],
  "its stream is queried until it is done, and its event is synchronized": [untilStream, synchronizeEvent],
  "its stream is queried until it is done, and synchronized": [
    untilStream,
    (driver, _event, stream) => driver.streamSynchronize(0, stream),
  ],
  "its event is queried until it is done, recorded again, queried and synchronized": [
    untilEvent,
    recordLater,
    synchronizeEvent,
  ],
  "its stream is synchronized": [(driver, _event, stream) => driver.streamSynchronize(0, stream)],
  "its device is synchronized": [(driver) => driver.deviceSynchronize(0)],
  "its event is synchronized": [synchronizeEvent],
  "an event for the device is queried until it is done": [recordForDevice],
  "an event for the device is queried until it is done, and synchronized": [recordForDevice, synchronizeEvent],
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...sizes.map((byteLength): Situation => ({
    name: `reserved and used with ${byteLength} bytes allocated`,
    run({ driver }) {
      const pool = createPool(driver);
      allocate(driver, pool, byteLength);
      return usage(driver, pool);
    },
  })),
  {
    name: "reserved and used with three allocations of one byte",
    run({ driver }) {
      const pool = createPool(driver);
      for (let count = 0; count < 3; count++) allocate(driver, pool, 1);
      return usage(driver, pool);
    },
  },
  {
    name: "reserved and used of a shareable pool with one byte allocated",
    run({ driver }) {
      const pool = createShareablePool(driver);
      allocate(driver, pool, 1);
      return usage(driver, pool);
    },
  },
  {
    name: "used falls when memory is freed, not when its stream gets there",
    run({ driver }) {
      const stream = createStream(driver);
      const work = prepareLongWork(driver, 0);
      const pool = createPool(driver);
      const address = allocate(driver, pool, 2 * mebibyte, stream);
      driver.deviceSynchronize(0);
      work.keepBusy(stream);
      free(driver, address, stream);
      const after = usage(driver, pool);
      return { isBusy: !driver.streamQuery(0, stream), after };
    },
  },
  ...Object.entries(waits).map(([name, wait]): Situation => ({
    name: `reserved with a release threshold of 0 after memory was freed and ${name}`,
    run({ driver }) {
      const stream = createStream(driver);
      const pool = createPool(driver);
      free(driver, allocate(driver, pool, 64 * mebibyte, stream), stream);
      wait(driver, stream);
      return usage(driver, pool);
    },
  })),
  {
    name: "reserved with a release threshold of 0 after memory was freed and another stream is synchronized",
    run({ driver }) {
      const [stream, other] = [createStream(driver), createStream(driver)];
      const work = prepareLongWork(driver, 0);
      const pool = createPool(driver);
      const address = allocate(driver, pool, 64 * mebibyte, stream);
      driver.deviceSynchronize(0);
      work.keepBusy(stream);
      free(driver, address, stream);
      driver.streamSynchronize(0, other);
      const after = usage(driver, pool);
      return { isBusy: !driver.streamQuery(0, stream), after };
    },
  },
  ...[0n, BigInt(64 * mebibyte), BigInt(100 * mebibyte), infinite].map((threshold): Situation => ({
    name: `reserved with a release threshold of ${threshold} after two allocations of 64 MiB were freed`,
    run({ driver }) {
      const pool = createPool(driver);
      setAttribute(driver, pool, "releaseThreshold", threshold);
      const addresses = [allocate(driver, pool, 64 * mebibyte), allocate(driver, pool, 64 * mebibyte)];
      const before = usage(driver, pool);
      for (const address of addresses) free(driver, address);
      driver.streamSynchronize(0, defaultStream);
      return { before, after: usage(driver, pool) };
    },
  })),
  {
    name: "reserved after a release threshold was lowered, and after the next synchronization",
    run({ driver }) {
      const pool = createPool(driver);
      setAttribute(driver, pool, "releaseThreshold", infinite);
      free(driver, allocate(driver, pool, 64 * mebibyte));
      driver.streamSynchronize(0, defaultStream);
      const kept = usage(driver, pool);
      setAttribute(driver, pool, "releaseThreshold", 0n);
      const lowered = usage(driver, pool);
      driver.streamSynchronize(0, defaultStream);
      return { kept, lowered, synchronized: usage(driver, pool) };
    },
  },
  {
    name: "reserved of a shareable pool with a release threshold of 0 after memory was freed and synchronized",
    run({ driver }) {
      const pool = createShareablePool(driver);
      free(driver, allocate(driver, pool, 64 * mebibyte));
      driver.streamSynchronize(0, defaultStream);
      return usage(driver, pool);
    },
  },
  ...[0n, 1n, BigInt(64 * mebibyte), infinite].map((bytesToKeep): Situation => ({
    name: `a pool with 128 MiB free trimmed to ${bytesToKeep}`,
    run({ driver }) {
      const pool = createPool(driver);
      setAttribute(driver, pool, "releaseThreshold", infinite);
      const addresses = [allocate(driver, pool, 64 * mebibyte), allocate(driver, pool, 64 * mebibyte)];
      for (const address of addresses) free(driver, address);
      driver.streamSynchronize(0, defaultStream);
      driver.memPoolTrimTo(pool, bytesToKeep);
      return usage(driver, pool);
    },
  })),
  {
    name: "a pool trimmed to 0 with all of its memory allocated",
    run({ driver }) {
      const pool = createPool(driver);
      allocate(driver, pool, 64 * mebibyte);
      driver.memPoolTrimTo(pool, 0n);
      return usage(driver, pool);
    },
  },
  {
    name: "a pool trimmed to 0 with one of two allocations freed",
    run({ driver }) {
      const pool = createPool(driver);
      setAttribute(driver, pool, "releaseThreshold", infinite);
      allocate(driver, pool, 64 * mebibyte);
      free(driver, allocate(driver, pool, 64 * mebibyte));
      driver.streamSynchronize(0, defaultStream);
      driver.memPoolTrimTo(pool, 0n);
      return usage(driver, pool);
    },
  },
  {
    name: "a pool trimmed to 0 before its stream has got to the free",
    run({ driver }) {
      const stream = createStream(driver);
      const work = prepareLongWork(driver, 0);
      const pool = createPool(driver);
      const address = allocate(driver, pool, 64 * mebibyte, stream);
      driver.deviceSynchronize(0);
      work.keepBusy(stream);
      free(driver, address, stream);
      driver.memPoolTrimTo(pool, 0n);
      const after = usage(driver, pool);
      return { isBusy: !driver.streamQuery(0, stream), after };
    },
  },
  ...Object.entries(observations).map(([name, waits]): Situation => ({
    name: `reserved after memory was freed, ${name}, and the pool is trimmed to 0`,
    run({ driver }) {
      const stream = createStream(driver);
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      const pool = createPool(driver);
      setAttribute(driver, pool, "releaseThreshold", infinite);
      const address = allocate(driver, pool, 64 * mebibyte, stream);
      driver.deviceSynchronize(0);
      free(driver, address, stream);
      driver.eventRecord(0, event, stream);
      for (const wait of waits) wait(driver, event, stream);
      driver.memPoolTrimTo(pool, 0n);
      return attributeOf(driver, pool, "reservedMemCurrent");
    },
  })),
];

/** Returns the reserved and used bytes of a pool, with their high watermarks. */
function usage(driver: Driver, pool: bigint): Answer {
  return {
    reserved: attributeOf(driver, pool, "reservedMemCurrent"),
    reservedHigh: attributeOf(driver, pool, "reservedMemHigh"),
    used: attributeOf(driver, pool, "usedMemCurrent"),
    usedHigh: attributeOf(driver, pool, "usedMemHigh"),
  };
}
