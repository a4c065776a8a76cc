/**
 * Ranks in processes of their own. On a machine with one GPU they share it: NCCL allows that to ranks of different hosts,
 * and takes the name of a host from `NCCL_HOSTID`. They are connected by TCP then.
 *
 * @module
 */
import { open } from "../../mod.ts";
import { driverNamed } from "../support/drivers.ts";

/** The number of GPUs that a driver has; the software device counts as one for each rank. */
function countOn(driver: "software" | "cuda"): number {
  if (driver === "software" || driverNamed(driver).skip) return Infinity;
  using cuda = open({ driver });
  return cuda.devices.length;
}

const counts = { software: countOn("software"), cuda: countOn("cuda") };

/** The number of ranks of a communicator: at most `maximum`, and one for each GPU if there are several. */
export function ranksOn(driver: "software" | "cuda", maximum: number): number {
  return counts[driver] === 1 ? maximum : Math.min(maximum, counts[driver]);
}

/** Returns the environment of a rank's process. */
export function environmentOf(driver: "software" | "cuda", rank: number): { env: Readonly<Record<string, string>> } {
  return { env: counts[driver] === 1 ? { NCCL_HOSTID: `rank-${rank}` } : {} };
}
