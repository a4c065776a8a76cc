import type { MemoryShadow } from "../memory/memory_shadow.ts";
import type { Scheduler, Stream } from "../execution/streams/streams.ts";

/** What collectives need of the driver whose devices they are on. */
export interface CollectiveServices {
  readonly scheduler: Scheduler;
  /** What knows which memory is initialized, if anything does. */
  readonly shadow: MemoryShadow | undefined;
  /** Throws if there is no such device, or if the devices were lost. */
  checkDevice(device: number, call: string): void;
  /** Whether the devices were lost. */
  areLost(): boolean;
  deviceUuid(device: number): Uint8Array;
  /** A device's stream. Throws if it has none with the handle. */
  stream(device: number, handle: bigint, call: string): Stream;
  /** The bytes of a range that a device may access. Throws if it may not. */
  range(address: bigint, byteLength: number, access: RangeAccess): Uint8Array;
}

/** Who accesses a range of memory, and how. */
export interface RangeAccess {
  readonly device: number;
  /** One of `memAccessFlags`. */
  readonly flags: number;
  readonly call: string;
}
