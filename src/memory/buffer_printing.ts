import { countOf, placeOf } from "../support/printing.ts";
import type { Allocation } from "./allocation.ts";
import type { DeviceBuffer } from "./device_buffer.ts";

/** Returns what a buffer or an array prints as: `"DeviceBuffer { device 0, 1024 bytes, 0x302000000 }"`. */
export function describe(buffer: DeviceBuffer, allocation: Allocation, address: bigint): string {
  const freed = allocation.isReleaseDeferred ? "freed, still kept" : "freed";
  const live = allocation.session.hasEnded ? "Cuda disposed" : `0x${address.toString(16)}`;
  const place = placeOf(allocation.owner.isHostMemory ? undefined : allocation.device);
  // Properties of DeviceArray, a subclass. Another buffer refuses to be asked for its length.
  const { type } = buffer as { readonly type?: { readonly name: string } };
  const elements = type === undefined ? "" : `${type.name}(${(buffer as unknown as ArrayLike<unknown>).length}), `;
  const state = allocation.isFreed ? freed : live;
  // Not the constructor's name: a bundler may have changed it.
  const name = type === undefined ? "DeviceBuffer" : "DeviceArray";
  return `${name} { ${place}, ${elements}${countOf(buffer.byteLength, "byte")}, ${state} }`;
}
