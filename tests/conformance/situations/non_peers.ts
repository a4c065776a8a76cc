/**
 * Rows about devices that are not peers of each other.
 *
 * @module
 */
import { memAccessFlags } from "../../../src/driver.ts";
import { allocate, createPool, onDevice } from "../pools.ts";
import type { Situation } from "../situation.ts";

const because = "the devices that were recorded are peers";

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "a device that is no peer asked whether it can access the other",
    devices: 2,
    peers: false,
    documented: { answer: false, because },
    run: ({ driver }) => driver.deviceCanAccessPeer(1, 0),
  },
  {
    name: "peer access enabled for a device that is no peer",
    devices: 2,
    peers: false,
    documented: {
      answer: { error: "cudaErrorPeerAccessUnsupported" },
      because: `${because}; the answer is that of cuCtxEnablePeerAccess`,
    },
    run: ({ driver }) => driver.deviceEnablePeerAccess(1, 0),
  },
  {
    name: "access to a pool's memory set for a device that is no peer",
    devices: 2,
    peers: false,
    documented: {
      answer: { error: "cudaErrorInvalidDevice" },
      because: `${because}; the answer is that of the programming guide for a pool that memory was allocated from`,
    },
    run({ driver }) {
      const pool = createPool(driver);
      allocate(driver, pool, 1);
      driver.memPoolSetAccess(pool, [{ location: onDevice(1), flags: memAccessFlags.readWrite }]);
    },
  },
];
