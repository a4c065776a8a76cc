import type { Driver } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { mebibyte } from "../pools.ts";
import type { Situation } from "../situation.ts";

const noDevice = 99;
const uuidByteLength = 16;
/** Numbers of `cudaDeviceAttr`. */
const attributes = { maxThreadsPerBlock: 1, warpSize: 10, ipcEventSupport: 125, memoryPoolsSupported: 115 } as const;

/** Queries about a device that need no context. */
function queryDevice(driver: Driver, device: number) {
  return attemptEach({
    deviceGetName: () => driver.deviceGetName(device).length > 0,
    deviceGetUuid: () => driver.deviceGetUuid(device).length === uuidByteLength,
    deviceGetAttribute: () => driver.deviceGetAttribute(device, attributes.warpSize),
    deviceCanAccessPeer: () => driver.deviceCanAccessPeer(device, device),
  });
}

/** Rows about devices, and about access between them. */
export const situations: readonly Situation[] = [
  {
    name: "how many devices there are, and the versions",
    run: ({ driver }) => ({
      devices: driver.getDeviceCount() >= 1,
      driver: driver.driverGetVersion() >= 11020,
      runtime: driver.runtimeVersion === undefined || driver.runtimeVersion <= driver.driverGetVersion(),
    }),
  },
  { name: "questions about a device", run: ({ driver }) => queryDevice(driver, 0) },
  { name: "questions about a device that there is not", run: ({ driver }) => queryDevice(driver, noDevice) },
  {
    name: "the UUIDs of two devices, and of one asked for twice: whether they are the same",
    devices: 2,
    run({ driver }) {
      const [first, again, other] = [0, 0, 1].map((device) => String(driver.deviceGetUuid(device)));
      return { twice: first === again, other: first === other };
    },
  },
  {
    name: "attributes that every device of today has",
    run: ({ driver }) => ({
      maxThreadsPerBlock: driver.deviceGetAttribute(0, attributes.maxThreadsPerBlock),
      warpSize: driver.deviceGetAttribute(0, attributes.warpSize),
      memoryPoolsSupported: driver.deviceGetAttribute(0, attributes.memoryPoolsSupported),
      ipcEventSupport: driver.deviceGetAttribute(0, attributes.ipcEventSupport),
    }),
  },
  {
    name: "attributes that there are not",
    run: ({ driver }) =>
      attemptEach({
        "0": () => driver.deviceGetAttribute(0, 0),
        "9999": () => driver.deviceGetAttribute(0, 9999),
        "-1": () => driver.deviceGetAttribute(0, -1),
      }),
  },
  {
    name: "the memory of a device before and after an allocation: whether free is within all, and all stays",
    run({ driver }) {
      // Not an exact difference, because other processes change the free memory too.
      const before = driver.memGetInfo(0);
      driver.malloc(0, 256 * mebibyte);
      const after = driver.memGetInfo(0);
      return {
        isFreeWithin: before.free <= before.total && after.free <= after.total,
        isTotalKept: before.total === after.total,
      };
    },
  },
  {
    name: "all the memory of a device, without a context: whether it is as much as with one, more or less",
    run({ driver }) {
      const all = driver.deviceTotalMem(0);
      return { isAbout: Math.abs(all - driver.memGetInfo(0).total) <= all / 20 };
    },
  },
  {
    name: "all the memory of a device that there is not",
    run: ({ driver }) => void driver.deviceTotalMem(noDevice),
  },
  {
    name: "the memory of a device that there is not",
    run: ({ driver }) => void driver.memGetInfo(noDevice),
  },
  {
    name: "a device that there is not synchronized",
    run: ({ driver }) => driver.deviceSynchronize(noDevice),
  },
  {
    name: "whether a device can access itself, another and one that there is not",
    devices: 2,
    run: ({ driver }) =>
      attemptEach({
        itself: () => driver.deviceCanAccessPeer(0, 0),
        another: () => driver.deviceCanAccessPeer(0, 1),
        none: () => driver.deviceCanAccessPeer(0, noDevice),
      }),
  },
  {
    name: "peer access enabled and disabled, each twice",
    devices: 2,
    run: ({ driver }) =>
      attemptEach({
        "disable before": () => driver.deviceDisablePeerAccess(0, 1),
        enable: () => driver.deviceEnablePeerAccess(0, 1),
        "enable again": () => driver.deviceEnablePeerAccess(0, 1),
        "enable the other way": () => driver.deviceEnablePeerAccess(1, 0),
        disable: () => driver.deviceDisablePeerAccess(0, 1),
        "disable again": () => driver.deviceDisablePeerAccess(0, 1),
        "disable the other way": () => driver.deviceDisablePeerAccess(1, 0),
      }),
  },
  {
    name: "peer access to the device itself and to one that there is not",
    run: ({ driver }) =>
      attemptEach({
        "enable to itself": () => driver.deviceEnablePeerAccess(0, 0),
        "disable to itself": () => driver.deviceDisablePeerAccess(0, 0),
        "enable to none": () => driver.deviceEnablePeerAccess(0, noDevice),
        "disable to none": () => driver.deviceDisablePeerAccess(0, noDevice),
      }),
  },
];
