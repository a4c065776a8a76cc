/**
 * What a device supports of stream-ordered memory, as data. A driver is asked only for what it is new enough to know: an
 * older one answers `cudaErrorInvalidValue`.
 *
 * @module
 */

/** What is asked: a driver and one of its devices. */
export interface SupportSource {
  /** 13000 for CUDA 13.0. */
  readonly driverVersion: number;
  /** The value of a device attribute, as `CudaDevice.attribute` gives it. */
  attribute(name: string): number;
  /** Creates a pool that can be shared by descriptor, and gives it up: throws where that cannot be. */
  createSharedPool(): void;
}

/** One thing that a device supports or does not. */
export interface Support {
  readonly property: string;
  readonly value: "yes" | "no" | "not asked";
  /** Why not; undefined for "yes". */
  readonly reason: string | undefined;
}

interface Question {
  readonly property: string;
  readonly attribute: string;
  /** The driver version from which on the attribute is known. */
  readonly since: number;
  /** The bit of the value that says so, where the value is a set of bits. */
  readonly bit?: number;
  /** What "no" means. */
  readonly reason: string;
  /** Tries it, where a device may say that it can what it cannot. */
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
    // Under WSL 2 the attribute may say that it can.
    attempt: (source) => source.createSharedPool(),
  },
  {
    property: "pools shared as fabric",
    attribute: "memoryPoolSupportedHandleTypes",
    since: 11030,
    bit: 8,
    reason: "it is not connected so",
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
    reason: "not in the memory of a NUMA node",
  },
  {
    property: "host pools",
    attribute: "hostMemoryPoolsSupported",
    since: 13000,
    reason: "not in the host's memory at large",
  },
];

/** Asks a device for all there is to ask. */
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

/** `yes`, or `no: ` and why. */
export function formatSupport({ value, reason }: Support): string {
  return reason === undefined ? value : `${value}: ${reason}`;
}

/** 13.0 for 13000. */
export function formatVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${version % 1000 / 10}`;
}
