/**
 * Which rows can run where.
 *
 * @module
 */
import type { Driver } from "../../src/driver.ts";
import type { Situation } from "./situation.ts";

/** What a driver has for rows to run on. */
export interface Equipment {
  readonly devices: number;
  /** Whether two of its devices are no peers, or can be made so. */
  readonly hasStrangers: boolean;
}

/** What a driver has. */
export function equipmentOf(driver: Driver): Equipment {
  const devices = driver.getDeviceCount();
  const hasStrangers = devices > 1 && (driver.kind === "software" || !driver.deviceCanAccessPeer(0, 1));
  return { devices, hasStrangers };
}

/** Why a row cannot run; false where it can. */
export function reasonNotToRun(situation: Situation, { devices, hasStrangers }: Equipment): string | false {
  const { devices: needed = 1, peers = true } = situation;
  if (devices < needed) return `needs ${needed} devices, and there is ${devices}`;
  return !peers && !hasStrangers && "needs devices that are no peers of each other";
}
