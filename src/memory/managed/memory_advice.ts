/**
 * Advice for managed memory, and moving it.
 *
 * @module
 */
import {
  memAdvice,
  type MemLocation,
  memLocationType,
  type MemoryRange,
  memRangeAttribute,
  noDevice,
} from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { isDevice } from "../../objects/device_sessions.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { KnownStreamOptions, StreamOption } from "../../objects/streams/stream_option.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError, cudaErrorNumbers } from "../../support/errors.ts";
import { countOf, printObjectAs, stateOf } from "../../support/printing.ts";
import { TypeError } from "../../support/program_errors.ts";
import { checkBoolean, suggestName, whatIs } from "../../support/validation.ts";
import type { Allocation } from "../allocation.ts";
import { driverLocation, locationOf, type MemoryLocation, nameOfLocation } from "./memory_location.ts";

/**
 * How managed memory will be used. Each property but the last can be set. Nothing is remembered here: reading a property
 * asks CUDA, which answers for the whole buffer. Advice holds for whole pages of the host, which are 4096 bytes on most
 * machines. CUDA 13.0 takes no advice about memory of a pool: it has the pool's `preferredLocation`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
 */
export interface MemoryAdvice {
  /** Whether the memory will mostly be read, so that each processor that reads it gets a copy. */
  readMostly: boolean;
  /**
   * Where the memory should be. It is moved there when it is next accessed, unless it can be accessed where it is.
   * Undefined if there is no such place, or if parts of the buffer have others. CUDA ignores a NUMA node on machines where
   * it does not move managed memory between nodes.
   */
  preferredLocation: MemoryLocation | undefined;
  /** The devices, and the host, that will access the memory wherever it is, without faults. */
  accessedBy: readonly (CudaDevice | "host")[];
  /** Where the whole buffer was last prefetched to; undefined if it was not, or if its parts have different places. */
  readonly lastPrefetchLocation: MemoryLocation | undefined;
}

/** The part of an allocation that advice is for. */
export interface AdvisedMemory {
  readonly allocation: Allocation;
  /** The buffer, whose address throws if it was freed. */
  readonly buffer: MemoryRange;
}

/** The location of advice that has none. */
const anywhere: MemLocation = { type: memLocationType.host, id: 0 };
const adviceNames = ["readMostly", "preferredLocation", "accessedBy", "lastPrefetchLocation"] as const;

/** Returns an object whose properties read and set the advice for a buffer. */
export function adviceAbout(memory: AdvisedMemory): MemoryAdvice {
  checkManaged(memory.allocation, "advise about");
  const calls = new AdviceCalls(memory);
  const advice: MemoryAdvice = {
    get readMostly() {
      return calls.readMostly;
    },
    set readMostly(value) {
      calls.readMostly = value;
    },
    get preferredLocation() {
      return calls.preferredLocation;
    },
    set preferredLocation(location) {
      calls.preferredLocation = location;
    },
    get accessedBy() {
      return calls.accessedBy;
    },
    set accessedBy(locations) {
      calls.accessedBy = locations;
    },
    get lastPrefetchLocation() {
      return calls.lastPrefetchLocation;
    },
  };
  printObjectAs(advice, printAdvice, adviceNames);
  return new Proxy(advice, refusingMistypedNames);
}

/** Reads and sets the advice for a buffer. */
class AdviceCalls {
  readonly #memory: AdvisedMemory;

  constructor(memory: AdvisedMemory) {
    this.#memory = memory;
  }

  get readMostly(): boolean {
    return this.#get(memRangeAttribute.readMostly)[0] !== 0;
  }

  set readMostly(value: boolean) {
    checkBoolean(value, "readMostly");
    this.#advise(value ? memAdvice.setReadMostly : memAdvice.unsetReadMostly, anywhere);
  }

  get preferredLocation(): MemoryLocation | undefined {
    return this.#location(memRangeAttribute.preferredLocationType, memRangeAttribute.preferredLocationId);
  }

  set preferredLocation(location: MemoryLocation | undefined) {
    const { session } = this.#memory.allocation;
    if (location === undefined) this.#advise(memAdvice.unsetPreferredLocation, anywhere);
    else this.#advise(memAdvice.setPreferredLocation, driverLocation(location, session, { action: "prefer memory" }));
  }

  get accessedBy(): readonly (CudaDevice | "host")[] {
    return this.#accessing().map((device) => device === noDevice.host ? "host" : this.#devices[device]!);
  }

  set accessedBy(wanted: readonly (CudaDevice | "host")[]) {
    if (!Array.isArray(wanted)) {
      const isOne = wanted as unknown === "host" || isDevice(wanted);
      throw new TypeError(
        `Cannot set accessedBy to ${whatIs(wanted)}: give an array${
          isOne ? ", also for one" : " of devices"
        }, such as ` +
          '[gpu, "host"]',
      );
    }
    const { session } = this.#memory.allocation;
    const use = { action: "set accessedBy", currentNode: false, numaNode: false };
    const places = (wanted as readonly (CudaDevice | "host")[]).map((one) => driverLocation(one, session, use));
    const isWanted = (device: number) => places.some((place) => deviceOf(place) === device);
    const before = this.#accessing();
    for (const place of places) {
      if (!before.includes(deviceOf(place))) this.#advise(memAdvice.setAccessedBy, place);
    }
    for (const device of before) if (!isWanted(device)) this.#advise(memAdvice.unsetAccessedBy, placeOfDevice(device));
  }

  get lastPrefetchLocation(): MemoryLocation | undefined {
    return this.#location(memRangeAttribute.lastPrefetchLocationType, memRangeAttribute.lastPrefetchLocationId);
  }

  get #devices(): readonly CudaDevice[] {
    return this.#memory.allocation.device.cuda.devices;
  }

  /** Returns the devices that access the memory, with `noDevice.host` for the host. */
  #accessing(): number[] {
    const count = this.#devices.length + 1;
    return this.#get(memRangeAttribute.accessedBy, count).filter((device) => device !== noDevice.invalid);
  }

  #location(typeAttribute: number, idAttribute: number): MemoryLocation | undefined {
    const [type] = this.#get(typeAttribute);
    const hasId = type === memLocationType.device || type === memLocationType.hostNuma;
    return locationOf({ type: type!, id: hasId ? this.#get(idAttribute)[0]! : 0 }, this.#devices);
  }

  #get(attribute: number, count?: number): number[] {
    const { allocation: { session, device }, buffer: { address, byteLength } } = this.#memory;
    try {
      return session.driver.memRangeGetAttribute(device.ordinal, attribute, address, byteLength, count);
    } catch (error) {
      throw cannot(`ask for the advice about ${countOf(byteLength, "byte")} of managed memory`, error);
    }
  }

  #advise(advice: number, location: MemLocation): void {
    const { allocation: { session, device }, buffer: { address, byteLength } } = this.#memory;
    try {
      session.driver.memAdvise(device.ordinal, address, byteLength, advice, location);
    } catch (error) {
      const hint = isOfPool(error, this.#memory.allocation)
        ? "CUDA takes no advice about memory of a pool: create the pool with a preferredLocation, or use allocateManaged"
        : placeHint(error, location, this.#devices);
      throw cannot(`advise about ${countOf(byteLength, "byte")} of managed memory`, error, hint);
    }
  }
}

function deviceOf({ type, id }: MemLocation): number {
  return type === memLocationType.host ? noDevice.host : id;
}

function placeOfDevice(device: number): MemLocation {
  return device === noDevice.host
    ? { type: memLocationType.host, id: 0 }
    : { type: memLocationType.device, id: device };
}

/** Throws for unknown names: an ordinary object would silently accept any property. */
const refusingMistypedNames: ProxyHandler<MemoryAdvice> = {
  set(advice, name, value) {
    if (name === "lastPrefetchLocation") {
      throw new TypeError("Cannot set lastPrefetchLocation: it says where prefetch has moved the memory to");
    }
    if (!adviceNames.some((known) => known === name)) {
      const settable = adviceNames.filter((known) => known !== "lastPrefetchLocation");
      const suggestion = suggestName(String(name), settable, "the properties are");
      throw new TypeError(`Cannot set the advice "${String(name)}": there is no such advice; ${suggestion}`);
    }
    return Reflect.set(advice, name, value);
  },
};

function printAdvice(advice: MemoryAdvice): string {
  const described = (location: MemoryLocation | undefined): string => {
    if (location === undefined) return "none";
    if (typeof location === "string") return location;
    return isDevice(location) ? `device ${location.ordinal}` : `NUMA node ${location.numaNode}`;
  };
  const parts = [
    `readMostly: ${stateOf(() => String(advice.readMostly))}`,
    `preferredLocation: ${stateOf(() => described(advice.preferredLocation))}`,
    `accessedBy: ${stateOf(() => advice.accessedBy.map(described).join(" and ") || "none")}`,
    `lastPrefetchLocation: ${stateOf(() => described(advice.lastPrefetchLocation))}`,
  ];
  return `MemoryAdvice { ${parts.join(", ")} }`;
}

/** Options of `DeviceBuffer.discard`. */
export interface DiscardOptions extends StreamOption {
  /** The location to move the memory to, without its contents. By default, the memory is not moved. */
  prefetch?: MemoryLocation;
}

/** The options of `DeviceBuffer.prefetch`. */
export const prefetchOptions: KnownStreamOptions<StreamOption> = {
  action: "prefetch a buffer",
  names: { stream: true },
  usage: "prefetch(location, stream) or prefetch(location, { stream })",
};

/** The options of `DeviceBuffer.discard`. */
export const discardOptions: KnownStreamOptions<DiscardOptions> = {
  action: "discard a buffer",
  names: { stream: true, prefetch: true },
  usage: "discard(stream) or discard({ stream, prefetch })",
  meantBy: (value) => value === "host" || isDevice(value) ? "{ prefetch: location }" : undefined,
};

/** Moves managed memory, in stream order. */
export function prefetchMemory(
  { allocation, buffer }: AdvisedMemory,
  location: MemoryLocation,
  stream: CudaStream,
): void {
  checkManaged(allocation, "prefetch");
  const { session } = allocation;
  const { address, byteLength } = buffer;
  const place = driverLocation(location, session, { action: "prefetch a buffer" });
  try {
    const { ordinal } = stream.device;
    session.driver.memPrefetchAsync(ordinal, address, byteLength, place, stream.unsafeHandle);
    allocation.noteUse(stream);
  } catch (error) {
    const hint = placeHint(error, place, allocation.device.cuda.devices);
    throw cannot(`prefetch ${countOf(byteLength, "byte")} to ${nameOfLocation(place)}`, error, hint);
  }
}

/** Declares that nobody needs what managed memory holds, in stream order. */
export function discardMemory(
  { allocation, buffer }: AdvisedMemory,
  { prefetch, stream }: { prefetch: MemoryLocation | undefined; stream: CudaStream },
): void {
  checkManaged(allocation, "discard");
  const { session } = allocation;
  const { address, byteLength } = buffer;
  const place = prefetch === undefined
    ? undefined
    : driverLocation(prefetch, session, { action: "prefetch a discarded buffer" });
  const what = `discard ${countOf(byteLength, "byte")}`;
  if (stream === stream.device.defaultStream) {
    const call = place === undefined ? "cudaMemDiscardBatchAsync" : "cudaMemDiscardAndPrefetchBatchAsync";
    const why = "CUDA discards no memory on a default stream; create a stream";
    throw new CudaError(cudaErrorNumbers.cudaErrorInvalidValue, call, `Cannot ${what} on a default stream: ${why}`);
  }
  const { ordinal } = stream.device;
  const ranges = [{ address, byteLength }];
  try {
    if (place === undefined) session.driver.memDiscardBatchAsync(ordinal, ranges, stream.unsafeHandle);
    else session.driver.memDiscardAndPrefetchBatchAsync(ordinal, ranges, place, stream.unsafeHandle);
    allocation.noteUse(stream);
  } catch (error) {
    const hint = place === undefined ? undefined : placeHint(error, place, allocation.device.cuda.devices);
    throw cannot(what, error, hint);
  }
}

/** Throws a `TypeError` unless memory is managed. `action` completes "Cannot ... the buffer". */
export function checkManaged({ owner, byteLength }: Allocation, action: string): void {
  if (owner.isManaged) return;
  throw new TypeError(
    `Cannot ${action} the buffer of ${countOf(byteLength, "byte")}: it is not managed memory, which comes from ` +
      "Cuda.createManagedPool or CudaDevice.allocateManaged",
  );
}

/** Returns whether CUDA has refused advice because the memory is from a pool. */
function isOfPool(error: unknown, { pool }: Allocation): boolean {
  return pool !== undefined && error instanceof CudaError && error.code === "cudaErrorNotSupported";
}

/** Returns advice for a place to which the driver cannot move memory. */
function placeHint(
  error: unknown,
  { type, id }: MemLocation,
  devices: readonly CudaDevice[],
): string | undefined {
  if (!(error instanceof CudaError)) return undefined;
  const isRefused = error.code === "cudaErrorInvalidValue" || error.code === "cudaErrorInvalidDevice";
  if (!isRefused) return undefined;
  if (type === memLocationType.hostNuma) return "the machine may have no such NUMA node: 0 is the first";
  const [device] = type === memLocationType.device ? [devices[id]] : devices;
  if (device === undefined || device.attribute("concurrentManagedAccess") === 1) return undefined;
  return `device ${device.ordinal} moves managed memory only as a whole, when its kernels begin and end`;
}
