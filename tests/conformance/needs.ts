/**
 * Decides which rows can run on a driver.
 *
 * @module
 */
import type { Driver } from "../../src/driver.ts";
import type { Situation } from "./situation.ts";

/** The devices that a driver has for rows. */
export interface Equipment {
  readonly devices: number;
  /** Whether two of the devices are not peers, or can be opened as such. */
  readonly hasNonPeers: boolean;
}

/** Returns the devices that a driver has for rows. */
export function equipmentOf(driver: Driver): Equipment {
  const devices = driver.getDeviceCount();
  const hasNonPeers = devices > 1 && (driver.kind === "software" || !driver.deviceCanAccessPeer(0, 1));
  return { devices, hasNonPeers };
}

/** Returns why a row cannot run, or false if it can. */
export function reasonNotToRun(situation: Situation, { devices, hasNonPeers }: Equipment): string | false {
  const { devices: needed = 1, peers = true } = situation;
  if (devices < needed) return `needs ${needed} devices, but there ${devices === 1 ? "is" : "are"} ${devices}`;
  return !peers && !hasNonPeers && "needs devices that are not peers of each other";
}
