/**
 * Workloads that export and import pointers of a shareable pool in one process: the cost of the calls without a socket.
 *
 * @module
 */
import type { DeviceBuffer, ImportedMemoryPool, MemoryPool } from "../../mod.ts";
import { numberOf, type Request } from "../sharing/contract.ts";
import type { Fixture, Workloads } from "./fixture.ts";
import { timeBatches } from "./timing.ts";

interface SharedPool {
  readonly pool: MemoryPool;
  readonly imported: ImportedMemoryPool;
}

/** Returns the workloads. */
export function pointerWorkloads({ device, stream }: Fixture): Workloads {
  let shared: SharedPool | undefined;

  function sharedPool(): SharedPool {
    if (shared === undefined) {
      const pool = device.createPool({ handleType: "posix-fd", releaseThreshold: Infinity });
      using handle = pool.exportHandle();
      shared = { pool, imported: device.importPool(handle) };
    }
    return shared;
  }

  function allocate(count: number, byteLength: number): DeviceBuffer[] {
    const { pool } = sharedPool();
    const buffers = Array.from({ length: count }, () => pool.allocate(byteLength, stream));
    stream.synchronize();
    return buffers;
  }

  function free(buffers: DeviceBuffer[]): void {
    for (const buffer of buffers.splice(0)) buffer.free(stream);
    stream.synchronize();
  }

  /** Imports and frees the same exported pointers repeatedly, and times either the imports or the frees. */
  function timeImports(request: Request, isImportTimed: boolean): number[] {
    const byteLength = numberOf(request, "byteLength", 1);
    const buffers = allocate(numberOf(request, "batch", 1), byteLength);
    const exported = buffers.map((buffer) => buffer.exportPointer());
    const { imported } = sharedPool();
    const mapped: DeviceBuffer[] = [];
    const importAll = () => {
      for (const data of exported) mapped.push(imported.importPointer(data, byteLength));
    };
    const freeAll = () => {
      for (const buffer of mapped) buffer.free(stream);
    };
    const settle = () => {
      if (isImportTimed) freeAll();
      mapped.length = 0;
      stream.synchronize();
    };
    const times = timeBatches(
      request,
      isImportTimed ? { run: importAll, settle } : { prepare: importAll, run: freeAll, settle },
    );
    free(buffers);
    return times;
  }

  return {
    "export-pointer": (request) => {
      const byteLength = numberOf(request, "byteLength", 1);
      let buffers: DeviceBuffer[] = [];
      return timeBatches(request, {
        prepare: (operations) => buffers = allocate(operations, byteLength),
        run: () => {
          for (const buffer of buffers) buffer.exportPointer();
        },
        settle: () => free(buffers),
      });
    },
    "import-pointer": (request) => timeImports(request, true),
    "free-import": (request) => timeImports(request, false),
  };
}
