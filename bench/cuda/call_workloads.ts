/**
 * Workloads that measure only the cost to the host: allocations, launches, events.
 *
 * @module
 */
import type { CudaStream, DeviceBuffer } from "../../mod.ts";
import { numberOf, type Request } from "../sharing/contract.ts";
import { type AllocationTrace, allocationTrace } from "./allocation_trace.ts";
import type { Fixture, Workloads } from "./fixture.ts";
import { timeBatches } from "./timing.ts";

/** A source of memory: a pool, or an allocator on top of a pool. */
interface Allocator {
  allocate(byteLength: number, stream: CudaStream): DeviceBuffer;
}

/** Returns the workloads. */
export function callWorkloads({ device, pool, streams, stream, synchronize }: Fixture): Workloads {
  const x = pool.allocate(1024, stream);
  const module = device.loadModule(Deno.readTextFileSync(new URL("./kernels.ptx", import.meta.url)));
  const event = device.createEvent();

  function timeCalls(request: Request, call: () => void): number[] {
    const run = (operations: number) => {
      for (let i = 0; i < operations; i++) call();
    };
    return timeBatches(request, { run, settle: synchronize });
  }

  function timeAllocations(request: Request, allocator: Allocator): number[] {
    const byteLength = numberOf(request, "byteLength", 1);
    const count = numberOf(request, "streams", 1);
    const run = (operations: number) => {
      for (let i = 0; i < operations; i++) allocator.allocate(byteLength, streams[i % count]!).free();
    };
    return timeBatches(request, { run, settle: synchronize });
  }

  /** Plays a trace again and again. All memory exists after the first time, which is not timed. */
  function timeRandomAllocations(request: Request, allocator: Allocator): number[] {
    const trace = requestedTrace(request);
    const live: (DeviceBuffer | undefined)[] = [];
    let step = 0;
    const run = (operations: number) => {
      for (let i = 0; i < operations; i++) {
        const slot = trace.slots[step]!;
        live[slot]?.free();
        live[slot] = allocator.allocate(trace.byteLengths[step]!, streams[trace.streams[step]!]!);
        step = (step + 1) % trace.slots.length;
      }
    };
    run(trace.slots.length);
    synchronize();
    const times = timeBatches(request, { run, settle: synchronize });
    for (const buffer of live) buffer?.free();
    synchronize();
    return times;
  }

  const empty0 = module.kernel("empty_0");
  const empty3 = module.kernel("empty_3");
  const empty12 = module.kernel("empty_12");
  const allocator = pool.createCachingAllocator();

  return {
    "allocate-free": (request) => timeAllocations(request, pool),
    "allocate-free-cached": (request) => {
      const times = timeAllocations(request, allocator);
      allocator.trimTo(0);
      return times;
    },
    "allocate-free-random": (request) => {
      using ownPool = device.createPool({ releaseThreshold: Infinity });
      return timeRandomAllocations(request, ownPool);
    },
    "allocate-free-random-cached": (request) => {
      using ownPool = device.createPool({ releaseThreshold: Infinity });
      using ownAllocator = ownPool.createCachingAllocator();
      return timeRandomAllocations(request, ownAllocator);
    },
    "launch-0": (request) => timeCalls(request, () => empty0.launch({ grid: 1, block: 1, stream })),
    "launch-3": (request) => timeCalls(request, () => empty3.launch({ grid: 1, block: 1, stream }, x, 2.5, 1024)),
    "launch-12": (request) =>
      timeCalls(request, () => {
        empty12.launch({ grid: 1, block: 1, stream }, x, x, x, x, 2.5, 2.5, 2.5, 2.5, 1024, 1024, 1024, 1024);
      }),
    "event-record": (request) => timeCalls(request, () => stream.record(event)),
    "stream-wait": (request) => {
      streams[1]!.record(event);
      return timeCalls(request, () => stream.wait(event));
    },
  };
}

function requestedTrace(request: Request): AllocationTrace {
  const trace = allocationTrace({
    steps: numberOf(request, "steps", 1),
    slots: numberOf(request, "slots", 1),
    streams: numberOf(request, "streams", 1),
    leastByteLength: numberOf(request, "leastByteLength", 1),
    octaves: numberOf(request, "octaves", 1),
  });
  if (trace.checksum !== request.checksum) throw new Error("The trace is not the requested one");
  return trace;
}
