/**
 * Copies and fills.
 *
 * @module
 */
import { type Driver, memAccessFlags } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { Copies } from "../execution/streams/copies.ts";
import type { Stream } from "../execution/streams/streams.ts";
import { fail } from "../failure.ts";
import type { DriverCore } from "./core.ts";
import { type AnyAllocation, isPoolMemory, type ProgramMemory, type RangeUse } from "./program_memory.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";

const { read, readWrite } = memAccessFlags;

/** The parts of the driver that copies and fills use. */
interface Parts {
  readonly core: DriverCore;
  readonly streams: StreamsAndEvents;
  readonly memory: ProgramMemory;
}

/** The calls that copy and fill memory. */
type CopyAndFillCalls = Pick<
  Driver,
  | "memcpyHtoDAsync"
  | "memcpyDtoHAsync"
  | "memcpyAsync"
  | "memcpyPeerAsync"
  | "memsetAsync"
  | "memsetD16Async"
  | "memsetD32Async"
  | "memsetD2D32Async"
>;

/** Returns the calls that copy and fill memory. */
export function copyAndFillCalls({ core, streams, memory }: Parts): CopyAndFillCalls {
  const { devices } = core;
  const copies = new Copies(core.scheduler, core.hostMemory, memory.shadow);

  /**
   * Returns the bytes of a range that a device copies from or to host memory. If the range lies in a device's pool, the
   * copying device must have access to that pool.
   */
  const rangeForHostCopy = (address: bigint, byteLength: number, use: RangeUse): Uint8Array => {
    const isPermitted = (allocation: AnyAllocation) =>
      !isPoolMemory(allocation) || allocation.pool.device === undefined || memory.isAccessible(allocation, use.device);
    return memory.range(address, byteLength, use, isPermitted);
  };

  /** The stream and the bytes of a fill with values of `alignment` bytes. */
  const rangeToFill = (
    address: bigint,
    byteLength: number,
    { alignment, device, stream, call }: { alignment: number; device: number; stream: bigint; call: string },
  ): { stream: Stream; bytes: Uint8Array } => {
    const target = streams.stream(device, stream, call);
    if (byteLength !== 0 && address % BigInt(alignment) !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const bytes = memory.range(address, byteLength, { call, device: target.device, flags: readWrite });
    return { stream: target, bytes };
  };

  return {
    memcpyHtoDAsync(device, destination, source, stream) {
      const call = "cudaMemcpyAsync";
      const target = streams.stream(device, stream, call);
      const to = rangeForHostCopy(destination, source.byteLength, { device, call, flags: readWrite });
      copies.fromHost(target, to, source);
    },
    memcpyDtoHAsync(device, destination, source, stream, onUninitialized) {
      const call = "cudaMemcpyAsync";
      const target = streams.stream(device, stream, call);
      const from = rangeForHostCopy(source, destination.byteLength, { device, call, flags: read });
      copies.toHost(target, destination, from, onUninitialized && ((at) => onUninitialized(source + BigInt(at))));
      devices.check(target.device, call);
    },
    memcpyAsync(device, destination, source, byteLength, stream) {
      const call = "cudaMemcpyAsync";
      const target = streams.stream(device, stream, call);
      const to = rangeForHostCopy(destination, byteLength, { device, call, flags: readWrite });
      copies.copy(target, to, rangeForHostCopy(source, byteLength, { device, call, flags: read }));
    },
    memcpyPeerAsync(device, destination, destinationDevice, source, sourceDevice, byteLength, stream) {
      const call = "cudaMemcpyPeerAsync";
      const target = streams.stream(device, stream, call);
      devices.check(destinationDevice, call);
      devices.check(sourceDevice, call);
      // Memory of a host pool belongs to no device.
      const isPermitted = (allocation: AnyAllocation) =>
        !isPoolMemory(allocation) || allocation.pool.device !== undefined;
      const to = memory.range(
        destination,
        byteLength,
        { call, device: destinationDevice, flags: readWrite },
        isPermitted,
      );
      const from = memory.range(source, byteLength, { call, device: sourceDevice, flags: read }, isPermitted);
      copies.copy(target, to, from);
    },
    memsetAsync(device, address, byte, byteLength, stream) {
      const call = "cudaMemsetAsync";
      const target = streams.stream(device, stream, call);
      copies.fill(target, memory.range(address, byteLength, { call, device: target.device, flags: readWrite }), byte);
    },
    memsetD16Async(device, address, value, count, stream) {
      const call = "cuMemsetD16Async";
      const to = rangeToFill(address, 2 * count, { alignment: 2, device, stream, call });
      const halves = new Uint16Array(to.bytes.buffer, to.bytes.byteOffset, count);
      copies.fill(to.stream, halves, value);
    },
    memsetD32Async(device, address, value, count, stream) {
      const call = "cuMemsetD32Async";
      const to = rangeToFill(address, 4 * count, { alignment: 4, device, stream, call });
      const words = new Uint32Array(to.bytes.buffer, to.bytes.byteOffset, count);
      copies.fill(to.stream, words, value);
    },
    memsetD2D32Async(device, address, pitch, value, width, height, stream) {
      const call = "cuMemsetD2D32Async";
      const isEmpty = width === 0 || height === 0;
      const byteLength = isEmpty ? 0 : (height - 1) * pitch + 4 * width;
      if (!isEmpty && (pitch % 4 !== 0 || height > 1 && pitch < 4 * width)) {
        fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      }
      const to = rangeToFill(address, byteLength, { alignment: 4, device, stream, call });
      const words = new Uint32Array(to.bytes.buffer, to.bytes.byteOffset, byteLength / 4);
      copies.fillRows(to.stream, words, { value, width, pitch: pitch / 4, height: isEmpty ? 0 : height });
    },
  };
}
