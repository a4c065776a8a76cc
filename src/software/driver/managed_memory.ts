/**
 * The driver calls about managed memory, which the host and the kernels of all devices access at the same address.
 *
 * @module
 */
import {
  type Driver,
  memAdvice,
  type MemLocation,
  memLocationType,
  type MemoryRange,
  memRangeAttribute,
  noDevice,
} from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import type { Stream } from "../execution/streams.ts";
import { fail } from "../failure.ts";
import { addressOfOffset, freshByte, offsetOfAddress } from "../memory/linear_memory.ts";
import { ManagedMemory, type PageAdvice } from "../memory/managed_memory.ts";
import type { DriverCore } from "./core.ts";
import { onlyNumaNode } from "./pools.ts";
import { isManagedMemory, type ProgramMemory } from "./program_memory.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";

/** The parts of the driver that the calls in this file use. */
interface ManagedMemoryParts {
  readonly core: DriverCore;
  readonly streams: StreamsAndEvents;
  readonly memory: ProgramMemory;
}

/** The driver calls about managed memory. */
type ManagedMemoryCalls = Pick<
  Driver,
  | "mallocManaged"
  | "memPrefetchAsync"
  | "memDiscardBatchAsync"
  | "memDiscardAndPrefetchBatchAsync"
  | "memAdvise"
  | "memRangeGetAttribute"
>;

const { none, device: onDevice, host, hostNuma, hostNumaCurrent } = memLocationType;

/** Returns the driver calls about managed memory. */
export function managedMemoryCalls({ core, streams, memory }: ManagedMemoryParts): ManagedMemoryCalls {
  const { devices, linearMemory, scheduler } = core;
  const { advice } = memory;

  /** Returns the offset of a range of managed memory. Throws `cudaErrorInvalidValue` if the range is not managed. */
  const offsetOf = ({ address, byteLength }: MemoryRange, call: string): number => {
    if (byteLength === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    if (!isManagedMemory(memory.at(address, byteLength, call))) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return offsetOfAddress(address)!;
  };

  /** Returns a location to which memory can be moved, as a query returns it. */
  const checkLocation = ({ type, id }: MemLocation, call: string): MemLocation => {
    if (type === onDevice) {
      devices.checkOrdinal(id, call);
      return { type, id };
    }
    if (type === host) return { type, id: 0 };
    if (type === hostNumaCurrent) return { type: hostNuma, id: onlyNumaNode };
    if (type !== hostNuma || id !== onlyNumaNode) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return { type, id };
  };

  /** Returns the stream with a handle. Throws, and invalidates the capture, if the stream is being captured. */
  const uncaptured = (device: number, stream: bigint, call: string): Stream => {
    const found = streams.stream(device, stream, call);
    core.captures.checkWait(found, call);
    return found;
  };

  const prefetch = (begin: number, byteLength: number, location: MemLocation): void => {
    advice.change(begin, byteLength, (known) => ({ ...known, lastPrefetchLocation: location }));
  };

  /** Fills memory whose contents a program has declared to be useless, so that uses of it become visible. */
  const discard = (target: Stream, ranges: readonly MemoryRange[], call: string): void => {
    // A batch on the legacy default stream is not supported.
    if (ranges.length === 0 || target.isDefault) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const offsets = ranges.map((range) => offsetOf(range, call));
    scheduler.enqueue(target, () => {
      for (const [index, { byteLength }] of ranges.entries()) {
        const begin = offsets[index]!;
        linearMemory.bytes.fill(freshByte, begin, begin + byteLength);
      }
    });
  };

  return {
    mallocManaged(device, byteLength) {
      const call = "cudaMallocManaged";
      devices.check(device, call);
      if (byteLength === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      core.ensureBoundsTable(device, call);
      const allocated = ManagedMemory.allocate(linearMemory, { device, byteLength });
      if (allocated === undefined) return core.failForMemory(call);
      memory.managed.add(allocated);
      memory.allocations.add(allocated);
      return addressOfOffset(allocated.begin);
    },
    memPrefetchAsync(device, address, byteLength, location, stream) {
      const call = "cudaMemPrefetchAsync";
      const target = uncaptured(device, stream, call);
      const begin = offsetOf({ address, byteLength }, call);
      prefetch(begin, byteLength, checkLocation(location, call));
      // Moves nothing, but takes its place in the order of the stream's work.
      scheduler.enqueue(target, () => {});
    },
    memDiscardBatchAsync(device, ranges, stream) {
      const call = "cudaMemDiscardBatchAsync";
      discard(uncaptured(device, stream, call), ranges, call);
    },
    memDiscardAndPrefetchBatchAsync(device, ranges, location, stream) {
      const call = "cudaMemDiscardAndPrefetchBatchAsync";
      const target = uncaptured(device, stream, call);
      const destination = checkLocation(location, call);
      discard(target, ranges, call);
      for (const { address, byteLength } of ranges) prefetch(offsetOfAddress(address)!, byteLength, destination);
    },
    memAdvise(device, address, byteLength, what, location) {
      const call = "cudaMemAdvise";
      devices.check(device, call);
      const begin = offsetOf({ address, byteLength }, call);
      const change = changeOf(what, {
        preferred: () => checkLocation(location, call),
        accessing: () => accessingDevice(location, call),
      });
      if (change === undefined) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      advice.change(begin, byteLength, change);
    },
    memRangeGetAttribute(device, attribute, address, byteLength, count = 1) {
      const call = "cudaMemRangeGetAttribute";
      devices.check(device, call);
      const parts = advice.of(offsetOf({ address, byteLength }, call), byteLength);
      return attributeOf(parts, attribute, count) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    },
  };

  function accessingDevice({ type, id }: MemLocation, call: string): number {
    if (type === host) return noDevice.host;
    if (type !== onDevice) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    devices.checkOrdinal(id, call);
    return id;
  }
}

/** Returns the effect of a call of `memAdvise`; undefined if there is no such advice. */
function changeOf(
  what: number,
  { preferred, accessing }: { preferred(): MemLocation; accessing(): number },
): ((advice: PageAdvice) => PageAdvice) | undefined {
  switch (what) {
    case memAdvice.setReadMostly:
      return (advice) => ({ ...advice, readMostly: true });
    case memAdvice.unsetReadMostly:
      return (advice) => ({ ...advice, readMostly: false });
    case memAdvice.setPreferredLocation: {
      const preferredLocation = preferred();
      return (advice) => ({ ...advice, preferredLocation });
    }
    case memAdvice.unsetPreferredLocation:
      return (advice) => ({ ...advice, preferredLocation: { type: none, id: 0 } });
    case memAdvice.setAccessedBy: {
      const device = accessing();
      return (advice) => ({
        ...advice,
        accessedBy: [...new Set([...advice.accessedBy, device])].sort((a, b) => a - b),
      });
    }
    case memAdvice.unsetAccessedBy: {
      const device = accessing();
      return (advice) => ({ ...advice, accessedBy: advice.accessedBy.filter((one) => one !== device) });
    }
    default:
      return undefined;
  }
}

/** Returns an attribute that all parts of a range have; undefined if there is no such attribute. */
function attributeOf(parts: readonly PageAdvice[], attribute: number, count: number): number[] | undefined {
  const [first, ...others] = parts;
  const common = (locationOf: (advice: PageAdvice) => MemLocation): MemLocation => {
    const { type, id } = locationOf(first!);
    const isCommon = others.every((other) => locationOf(other).type === type && locationOf(other).id === id);
    return isCommon ? { type, id } : { type: none, id: 0 };
  };
  switch (attribute) {
    case memRangeAttribute.readMostly:
      return [Number(parts.every(({ readMostly }) => readMostly))];
    case memRangeAttribute.accessedBy: {
      const devices = first!.accessedBy.filter((device) => others.every((other) => other.accessedBy.includes(device)));
      return Array.from({ length: count }, (_, index) => devices[index] ?? noDevice.invalid);
    }
    case memRangeAttribute.preferredLocationType:
      return [common(({ preferredLocation }) => preferredLocation).type];
    case memRangeAttribute.preferredLocationId:
      return [common(({ preferredLocation }) => preferredLocation).id];
    case memRangeAttribute.lastPrefetchLocationType:
      return [common(({ lastPrefetchLocation }) => lastPrefetchLocation).type];
    case memRangeAttribute.lastPrefetchLocationId:
      return [common(({ lastPrefetchLocation }) => lastPrefetchLocation).id];
    default:
      return undefined;
  }
}
