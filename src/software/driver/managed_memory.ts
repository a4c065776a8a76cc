/**
 * The driver calls about managed memory, which the host and the kernels of all devices access at the same address.
 *
 * @module
 */
import {
  type Driver,
  legacyStream,
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
import { addressOfOffset, freshByte, offsetOfAddress } from "../memory/memory_layout.ts";
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
    if (byteLength === 0) fail(cudaErrorInvalidValue, call);
    if (!isManagedMemory(memory.at(address, byteLength, call))) fail(cudaErrorInvalidValue, call);
    return offsetOfAddress(address)!;
  };

  const { cudaErrorInvalidDevice, cudaErrorInvalidValue, cudaErrorNotSupported } = cudaErrorNumbers;

  /** Returns a location to which memory can be moved, as a query returns it. */
  const checkLocation = (
    { type, id }: MemLocation,
    { call, withoutDevice }: { call: string; withoutDevice: number },
  ): MemLocation => {
    if (type === onDevice) {
      if (id < 0 || id >= devices.count) fail(withoutDevice, call);
      return { type, id };
    }
    if (type === host || type === hostNumaCurrent) return { type, id: 0 };
    if (type !== hostNuma || id !== onlyNumaNode) fail(cudaErrorInvalidValue, call);
    return { type, id };
  };

  /** Returns the stream with a handle. Throws, and invalidates the capture, if the stream is being captured. */
  const uncaptured = (device: number, stream: bigint, call: string): Stream => {
    const found = streams.stream(device, stream, call);
    core.captures.checkWait(found, call);
    return found;
  };

  /** Returns the stream of a discard, which must not be the legacy default stream. */
  const ownStream = (device: number, stream: bigint, call: string): Stream => {
    if (stream === legacyStream) fail(cudaErrorInvalidValue, call);
    return uncaptured(device, stream, call);
  };

  const prefetch = (begin: number, byteLength: number, location: MemLocation): void => {
    advice.change(begin, byteLength, (known) => ({ ...known, lastPrefetchLocation: location }));
  };

  /** Fills memory whose contents a program has declared to be useless, so that uses of it become visible. */
  const discard = (target: Stream, ranges: readonly MemoryRange[], call: string): void => {
    // A batch on the legacy default stream is not supported.
    if (ranges.length === 0 || target.isDefault) fail(cudaErrorInvalidValue, call);
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
      if (byteLength === 0) fail(cudaErrorInvalidValue, call);
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
      prefetch(begin, byteLength, checkLocation(location, { call, withoutDevice: cudaErrorInvalidDevice }));
      // Moves nothing, but takes its place in the order of the stream's work.
      scheduler.enqueue(target, () => {});
    },
    memDiscardBatchAsync(device, ranges, stream) {
      const call = "cudaMemDiscardBatchAsync";
      discard(ownStream(device, stream, call), ranges, call);
    },
    memDiscardAndPrefetchBatchAsync(device, ranges, location, stream) {
      const call = "cudaMemDiscardAndPrefetchBatchAsync";
      const target = ownStream(device, stream, call);
      const destination = checkLocation(location, { call, withoutDevice: cudaErrorInvalidValue });
      discard(target, ranges, call);
      for (const { address, byteLength } of ranges) prefetch(offsetOfAddress(address)!, byteLength, destination);
    },
    memAdvise(device, address, byteLength, what, location) {
      const call = "cudaMemAdvise";
      devices.check(device, call);
      const begin = offsetOf({ address, byteLength }, call);
      const change = changeOf(what, {
        preferred: () => checkLocation(location, { call, withoutDevice: cudaErrorInvalidValue }),
        accessing: () => accessingDevice(location, call),
      });
      if (change === undefined) fail(cudaErrorInvalidValue, call);
      // As on machines where the nodes are not places for managed memory: the advice is accepted, and has no effect.
      const isForNode = location.type === hostNuma || location.type === hostNumaCurrent;
      if (what === memAdvice.setPreferredLocation && isForNode) return;
      if (memory.at(address, byteLength, call).kind === "pool") fail(cudaErrorNotSupported, call);
      advice.change(begin, byteLength, change);
    },
    memRangeGetAttribute(device, attribute, address, byteLength, count = 1) {
      const call = "cudaMemRangeGetAttribute";
      devices.check(device, call);
      const advised = advice.of(offsetOf({ address, byteLength }, call), byteLength);
      const found = memory.at(address, byteLength, call);
      const parts = found.kind !== "pool"
        ? advised
        : advised.map((part) => ({ ...part, preferredLocation: found.pool.location }));
      return attributeOf(parts, attribute, count) ?? fail(cudaErrorInvalidValue, call);
    },
  };

  function accessingDevice({ type, id }: MemLocation, call: string): number {
    if (type === host) return noDevice.host;
    if (type !== onDevice || id < 0 || id >= devices.count) fail(cudaErrorInvalidValue, call);
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
        accessedBy: inOrder([...advice.accessedBy, device]),
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

/** Returns the devices in the order of their ordinals, each of them once, and the host last. */
function inOrder(devices: readonly number[]): number[] {
  const place = (device: number) => device === noDevice.host ? Infinity : device;
  return [...new Set(devices)].sort((a, b) => place(a) - place(b));
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
