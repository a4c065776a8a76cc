/**
 * The features of stream-ordered memory that a device supports, as data. Attributes newer than the driver are not
 * queried, because an older driver returns `cudaErrorInvalidValue` for them.
 *
 * @module
 */
import type { DeviceAttributeName } from "../mod.ts";

/** What {@linkcode supportOf} queries: a driver and one of its devices. */
export interface SupportSource {
  /** 13000 for CUDA 13.0. */
  readonly driverVersion: number;
  /** Returns the value of a device attribute, as `CudaDevice.attribute` does. */
  attribute(name: DeviceAttributeName): number;
  /** Creates and disposes of a pool that can be shared by descriptor. Throws if the device cannot create one. */
  createSharedPool(): void;
}

/** A feature, and whether a device supports it. */
export interface Support {
  readonly property: string;
  readonly value: "yes" | "no" | "not asked";
  /** Why the device does not support it, or why it was not queried; undefined for "yes". */
  readonly reason: string | undefined;
}

interface Question {
  readonly property: string;
  readonly attribute: DeviceAttributeName;
  /** The first driver version that knows the attribute. */
  readonly since: number;
  /** The feature's bit, if the value is a set of bits. */
  readonly bit?: number;
  /** What the device lacks if the answer is "no". */
  readonly reason: string;
  /** Tries the feature, for devices that claim features they lack; throws if it does not work. */
  readonly attempt?: (source: SupportSource) => void;
}

const questions: readonly Question[] = [
  {
    property: "memory pools",
    attribute: "memoryPoolsSupported",
    since: 11020,
    reason: "it has no stream-ordered allocator",
  },
  {
    property: "pools shared as posix-fd",
    attribute: "memoryPoolSupportedHandleTypes",
    since: 11030,
    bit: 1,
    reason: "not here, as under WSL 2 or where FFI is not permitted",
    // Under WSL 2 the attribute may be set although no pool can be shared.
    attempt: (source) => source.createSharedPool(),
  },
  {
    property: "pools shared as fabric",
    attribute: "memoryPoolSupportedHandleTypes",
    since: 11030,
    bit: 8,
    reason: "it has no fabric connection",
  },
  {
    property: "IPC events",
    attribute: "ipcEventSupport",
    since: 12000,
    reason: "other processes cannot open its events",
  },
  {
    property: "host NUMA pools",
    attribute: "hostNumaMemoryPoolsSupported",
    since: 12090,
    reason: "no pools in the memory of a NUMA node",
  },
  {
    property: "host pools",
    attribute: "hostMemoryPoolsSupported",
    since: 13000,
    reason: "no pools in host memory in general",
  },
];

/** Queries a device for all features. */
export function supportOf(source: SupportSource): Support[] {
  return questions.map(({ property, attribute, since, bit, reason, attempt }) => {
    if (source.driverVersion < since) {
      return { property, value: "not asked", reason: `needs CUDA ${formatVersion(since)}` };
    }
    const value = source.attribute(attribute);
    const isSupported = bit === undefined ? value !== 0 : (value & bit) !== 0;
    return isSupported && (attempt === undefined || succeeds(() => attempt(source)))
      ? { property, value: "yes", reason: undefined }
      : { property, value: "no", reason };
  });
}

function succeeds(attempt: () => void): boolean {
  try {
    attempt();
    return true;
  } catch {
    return false;
  }
}

/** Formats a cell of the table: `yes`, or `no: ` and the reason. */
export function formatSupport({ value, reason }: Support): string {
  return reason === undefined ? value : `${value}: ${reason}`;
}

/** Formats a CUDA version: 13000 is `13.0`. */
export function formatVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${version % 1000 / 10}`;
}
