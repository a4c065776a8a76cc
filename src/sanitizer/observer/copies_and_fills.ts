/**
 * Copies and fills.
 *
 * @module
 */
import type { Driver } from "../../driver.ts";
import type { Operation } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { RangeAccess } from "../order/stream_order.ts";
import type { ObservedHostMemory } from "./host_memory.ts";
import type { ObservedStreams } from "./observed_streams.ts";
import type { ObservedWork } from "./observed_work.ts";

/** The parts of the sanitizer that it uses. */
interface Parts {
  readonly reports: Reports;
  readonly streams: ObservedStreams;
  readonly work: ObservedWork;
  readonly hostMemory: ObservedHostMemory;
  /** Whether to report uninitialized memory that is copied to the host. */
  readonly reportsHostReads: boolean;
}

/** The calls that copy and fill memory, observed. */
export function copiesAndFills(driver: Driver, parts: Parts): Partial<Driver> {
  return { ...copiesWithHost(driver, parts), ...copies(driver, parts), ...fills(driver, parts) };
}

function copiesWithHost(
  driver: Driver,
  { reports, streams, work, hostMemory, reportsHostReads }: Parts,
): Partial<Driver> {
  return {
    memcpyHtoDAsync: (device, destination, source, stream) => {
      hostMemory.beforeWrite(destination, source.byteLength);
      driver.memcpyHtoDAsync(device, destination, source, stream);
      const accesses = [...hostMemory.rangeOf("read", source), range("write", destination, source.byteLength)];
      hostMemory.addSource(work.add("copyFrom", { device, stream }, accesses), source);
    },
    memcpyDtoHAsync: (device, destination, source, stream) => {
      hostMemory.beforeCopyTo(destination);
      const region = reportsHostReads ? work.order.regionAt(Number(source)) : undefined;
      const read: { found?: bigint; operation?: Operation } = {};
      const report = () => {
        const { found: at, operation } = read;
        if (at !== undefined && operation !== undefined) reports.addUnwritten({ region, operation, at });
      };
      const found = (address: bigint) => {
        read.found = address;
        report();
      };
      // Copies to pageable memory call back within the call, and those to page-locked memory later.
      driver.memcpyDtoHAsync(device, destination, source, stream, region && found);
      const host = hostMemory.rangeOf("write", destination);
      const name = hostMemory.isExposedToProgram(destination.buffer) ? "copyTo" : "read";
      const accesses = [range("read", source, destination.byteLength), ...host];
      read.operation = work.add(name, { device, stream }, accesses);
      report();
      // A copy to pageable memory is complete when the call returns.
      if (host.length === 0) streams.syncHostWith(streams.streamOf(device, stream));
    },
  };
}

function copies(driver: Driver, { work, hostMemory }: Parts): Partial<Driver> {
  return {
    memcpyAsync: (device, destination, source, byteLength, stream) => {
      hostMemory.beforeWrite(destination, byteLength);
      driver.memcpyAsync(device, destination, source, byteLength, stream);
      work.add("copy", { device, stream }, [
        range("read", source, byteLength),
        range("write", destination, byteLength),
      ]);
    },
    memcpyPeerAsync: (device, destination, destinationDevice, source, sourceDevice, byteLength, stream) => {
      hostMemory.beforeWrite(destination, byteLength);
      driver.memcpyPeerAsync(device, destination, destinationDevice, source, sourceDevice, byteLength, stream);
      work.add("copy", { device, stream }, [
        range("read", source, byteLength),
        range("write", destination, byteLength),
      ]);
    },
  };
}

function fills(driver: Driver, { work, hostMemory }: Parts): Partial<Driver> {
  return {
    memsetAsync: (device, address, byte, byteLength, stream) => {
      hostMemory.beforeWrite(address, byteLength);
      driver.memsetAsync(device, address, byte, byteLength, stream);
      work.add("fill", { device, stream }, [range("write", address, byteLength)]);
    },
    memsetD16Async: (device, address, value, count, stream) => {
      hostMemory.beforeWrite(address, 2 * count);
      driver.memsetD16Async(device, address, value, count, stream);
      work.add("fill", { device, stream }, [range("write", address, 2 * count)]);
    },
    memsetD32Async: (device, address, value, count, stream) => {
      hostMemory.beforeWrite(address, 4 * count);
      driver.memsetD32Async(device, address, value, count, stream);
      work.add("fill", { device, stream }, [range("write", address, 4 * count)]);
    },
    memsetD2D32Async: (device, address, pitch, value, width, height, stream) => {
      hostMemory.beforeWrite(address, pitch * height);
      driver.memsetD2D32Async(device, address, pitch, value, width, height, stream);
      const rows = Array.from({ length: height }, (_, row) => {
        return range("write", address + BigInt(row * pitch), 4 * width);
      });
      work.add("fill", { device, stream }, rows);
    },
  };
}

function range(access: RangeAccess["access"], address: bigint, byteLength: number): RangeAccess {
  return { access, address: Number(address), byteLength };
}
