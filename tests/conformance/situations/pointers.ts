/**
 * Rows about addresses and streams that somebody else may own, and about the profiler.
 *
 * @module
 */
import { defaultStream, type Driver, memAccessFlags, memoryType, streamFlags } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { fillLaunch, loadFill } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { allocate, createPool, onDevice, onFirstNode } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

/** What the driver says of an address in an allocation that starts at `base`. */
function attributesOf(driver: Driver, address: bigint, base: bigint): Answer {
  const { type, device, isManaged, byteLength, ...found } = driver.pointerGetAttributes(0, address);
  const name = type === memoryType.host ? "host" : type === memoryType.device ? "device" : type;
  return { type: name, device: device ?? null, isManaged, base: found.base === base, byteLength };
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "the attributes of addresses: unpooled, inside it, of another device's memory, pooled, page-locked",
    devices: 2,
    run({ driver }) {
      const unpooled = driver.malloc(0, 1000);
      const peer = driver.malloc(1, 1000);
      const pooled = allocate(driver, createPool(driver), 1000);
      driver.deviceSynchronize(0);
      const { address: locked } = driver.hostAlloc(1000);
      return {
        unpooled: attributesOf(driver, unpooled, unpooled),
        inside: attributesOf(driver, unpooled + 999n, unpooled),
        peer: attributesOf(driver, peer + 1n, peer),
        pooled: attributesOf(driver, pooled + 500n, pooled),
        locked: attributesOf(driver, locked + 500n, locked),
      };
    },
  },
  {
    name: "the attributes of addresses: in a host pool, with access and without, at the start of an allocation",
    run({ driver }) {
      const pool = createPool(driver, { location: onFirstNode });
      const address = allocate(driver, pool, 1000);
      driver.deviceSynchronize(0);
      const without = attributesOf(driver, address, address);
      driver.memPoolSetAccess(pool, [{ location: onDevice(0), flags: memAccessFlags.readWrite }]);
      return { without, with: attributesOf(driver, address, address) };
    },
  },
  {
    name: "the attributes of addresses that are freed, 0 or nowhere",
    run({ driver }) {
      const freed = driver.malloc(0, 1000);
      driver.free(0, freed);
      const host = driver.hostAlloc(1000);
      driver.freeHost(host);
      return attemptEach({
        freed: () => driver.pointerGetAttributes(0, freed),
        "freed host memory": () => driver.pointerGetAttributes(0, host.address),
        0: () => driver.pointerGetAttributes(0, 0n),
        nowhere: () => driver.pointerGetAttributes(0, 0x0060_0000_0000n),
      });
    },
  },
  {
    name: "the flags and the devices of streams",
    run({ driver }) {
      const ask = (stream: bigint) => [driver.streamGetFlags(0, stream), driver.streamGetDevice(0, stream)];
      return {
        blocking: ask(driver.streamCreateWithPriority(0, streamFlags.default, 0)),
        nonBlocking: ask(driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0)),
        default: ask(defaultStream),
      };
    },
  },
  {
    name: "the device of a stream of another device",
    devices: 2,
    run: ({ driver }) => driver.streamGetDevice(0, driver.streamCreateWithPriority(1, streamFlags.default, 0)),
  },
  {
    name: "page-locked memory freed while a kernel that writes to it waits: whether the stream is done then",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const kernel = { device: 0, kernel: loadFill(driver, 0) };
      const host = driver.hostAlloc(1024);
      keepBusy(stream);
      driver.launchKernel(fillLaunch(driver, kernel, { address: host.address, byteLength: 1024, stream }));
      driver.freeHost(host);
      return driver.streamQuery(0, stream);
    },
  },
  {
    name: "the profiler started and stopped twice",
    run: ({ driver }) =>
      attemptEach({
        start: () => driver.profilerStart(),
        "start again": () => driver.profilerStart(),
        stop: () => driver.profilerStop(),
        "stop again": () => driver.profilerStop(),
      }),
  },
];
