/**
 * Places for memory, as programs name them and as the driver does.
 *
 * @module
 */
import { type MemLocation, memLocationType } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkDevice, isDevice } from "../../objects/device_sessions.ts";
import type { Session } from "../../session.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import { checkNumber, didYouMean, maximumInt, shown, whatIs } from "../../support/validation.ts";

/**
 * A place for memory: a device, the host, a NUMA node of the host, or the NUMA node of the calling thread.
 */
export type MemoryLocation = CudaDevice | "host" | "host-numa-current" | {
  /** The number of the node, from 0. */
  readonly numaNode: number;
};

/** What a place is for, and which places are possible. */
export interface LocationUse {
  /** The failed action in error messages: `"prefetch a buffer"`. */
  readonly action: string;
  /** The name of the place in error messages. Defaults to `"location"`. */
  readonly name?: string;
  /** Whether the node of the calling thread is possible. Defaults to true. */
  readonly currentNode?: boolean;
  /** Whether a node is possible. Defaults to true. */
  readonly numaNode?: boolean;
}

/** Checks a place, and returns it as the driver names it. */
export function driverLocation(location: MemoryLocation, session: Session, use: LocationUse): MemLocation {
  if (isDevice(location)) {
    checkDevice(location, session);
    return { type: memLocationType.device, id: location.ordinal };
  }
  const { action, name = "location", currentNode = true, numaNode = true } = use;
  if (location === "host") return { type: memLocationType.host, id: 0 };
  if (location === "host-numa-current" && currentNode) return { type: memLocationType.hostNumaCurrent, id: 0 };
  if (typeof location === "object" && location !== null && "numaNode" in location && numaNode) {
    const { numaNode } = location;
    checkNumber(numaNode, "a NUMA node");
    if (!Number.isInteger(numaNode) || numaNode < 0 || numaNode > maximumInt) {
      throw new RangeError(
        `Cannot ${action} on NUMA node ${numaNode}: nodes are whole numbers from 0 to ${maximumInt}`,
      );
    }
    return { type: memLocationType.hostNuma, id: numaNode };
  }
  const names = ["host", ...currentNode ? ["host-numa-current"] : []];
  const places = ["a CudaDevice", '"host"', ...currentNode ? ['"host-numa-current"'] : []];
  if (numaNode) places.push("{ numaNode: 0 }");
  const isText = typeof location === "string";
  throw new TypeError(
    `Cannot ${action} with the ${name} ${isText ? shown(location) : whatIs(location)}: give ` +
      `${places.slice(0, -1).join(", ")} or ${places.at(-1)}${isText ? didYouMean(location, names) : ""}`,
  );
}

/** Returns a place that the driver names; undefined if it is none. */
export function locationOf({ type, id }: MemLocation, devices: readonly CudaDevice[]): MemoryLocation | undefined {
  switch (type) {
    case memLocationType.device:
      return devices[id];
    case memLocationType.host:
      return "host";
    case memLocationType.hostNuma:
      return { numaNode: id };
    case memLocationType.hostNumaCurrent:
      return "host-numa-current";
    default:
      return undefined;
  }
}

/** Returns a place for a message: `"device 0"`, `"the host"`, `"NUMA node 1"`. */
export function nameOfLocation({ type, id }: MemLocation): string {
  switch (type) {
    case memLocationType.device:
      return `device ${id}`;
    case memLocationType.host:
      return "the host";
    case memLocationType.hostNuma:
      return `NUMA node ${id}`;
    case memLocationType.hostNumaCurrent:
      return "the thread's NUMA node";
    default:
      return "no location";
  }
}
