/**
 * Workloads that copy between the host and the device, and kernels that move memory.
 *
 * @module
 */
import type { DeviceBuffer, HostBuffer, MemoryPool } from "../../mod.ts";
import { numberOf, type Request } from "../sharing/contract.ts";
import type { Fixture, Workloads } from "./fixture.ts";
import { timeBatches } from "./timing.ts";

const vectorByteLength = 16;
const block = 256;

/** Returns the workloads. */
export function copyWorkloads({ cuda, device, pool, stream }: Fixture): Workloads {
  const module = device.loadModule(Deno.readTextFileSync(new URL("./kernels.ptx", import.meta.url)));
  const fill = module.kernel("fill_vectors");
  const copy = module.kernel("copy_vectors");
  // Host memory is kept from round to round, because allocating it takes long.
  const pinnedMemory = new Map<number, HostBuffer>();
  const pageableMemory = new Map<number, Uint8Array<ArrayBuffer>>();
  let existingPeerPool: MemoryPool | undefined;

  function pinned(byteLength: number): HostBuffer {
    let memory = pinnedMemory.get(byteLength);
    if (memory === undefined) {
      memory = cuda.allocateHost(byteLength);
      new Uint8Array(memory.buffer).fill(1);
      pinnedMemory.set(byteLength, memory);
    }
    return memory;
  }

  function pageable(byteLength: number): Uint8Array<ArrayBuffer> {
    let memory = pageableMemory.get(byteLength);
    if (memory === undefined) {
      memory = new Uint8Array(byteLength).fill(1);
      pageableMemory.set(byteLength, memory);
    }
    return memory;
  }

  /** Returns a pool of the second device, whose memory the first device may write. */
  function peerPool(): MemoryPool {
    if (existingPeerPool === undefined) {
      existingPeerPool = cuda.device(1).createPool({ releaseThreshold: Infinity });
      existingPeerPool.setAccess(device, "read-write");
    }
    return existingPeerPool;
  }

  /** Times operations that each wait until they are done. */
  function timeEach(request: Request, operation: () => void): number[] {
    const run = (operations: number) => {
      for (let i = 0; i < operations; i++) operation();
    };
    return timeBatches(request, { run });
  }

  /** Times operations that are all enqueued on the stream before one wait at the end. */
  function timeUntilDone(request: Request, enqueue: () => void): number[] {
    const run = (operations: number) => {
      for (let i = 0; i < operations; i++) enqueue();
      stream.synchronize();
    };
    return timeBatches(request, { run });
  }

  /** Times what calls cost the host, which waits for the GPU between batches, untimed. */
  function timeCalls(request: Request, call: () => void): number[] {
    const run = (operations: number) => {
      for (let i = 0; i < operations; i++) call();
    };
    return timeBatches(request, { run, settle: () => stream.synchronize() });
  }

  /** Calls a function with copies of ranges of one buffer to another one. */
  function withRanges(
    request: Request,
    time: (copies: readonly { source: DeviceBuffer; target: DeviceBuffer }[]) => number[],
  ): number[] {
    const copies = numberOf(request, "copies", 1), byteLength = numberOf(request, "byteLength", 1);
    using from = pool.allocate(copies * byteLength, stream);
    using to = pool.allocate(copies * byteLength, stream);
    return time(Array.from({ length: copies }, (_, index) => {
      const [begin, end] = [index * byteLength, (index + 1) * byteLength];
      return { source: from.subarray(begin, end), target: to.subarray(begin, end) };
    }));
  }

  function timeFill(request: Request, to: DeviceBuffer): number[] {
    const count = to.byteLength / vectorByteLength;
    const grid = Math.ceil(count / block);
    return timeUntilDone(request, () => fill.launch({ grid, block, stream }, to, count, 7));
  }

  const workloads: Workloads = {
    "copy-to-device": (request) => {
      const byteLength = numberOf(request, "byteLength", 1);
      const from = request.memory === "pinned" ? pinned(byteLength) : pageable(byteLength);
      using to = pool.allocate(byteLength, stream);
      return timeEach(request, () => {
        to.copyFrom(from, stream);
        stream.synchronize();
      });
    },
    "copy-to-host": (request) => {
      const byteLength = numberOf(request, "byteLength", 1);
      using from = pool.allocate(byteLength, stream);
      if (request.memory !== "pinned") return timeEach(request, () => void from.readSync(Uint8Array, { stream }));
      const to = pinned(byteLength);
      return timeEach(request, () => {
        from.copyTo(to, stream);
        stream.synchronize();
      });
    },
    "copy-on-device": (request) => {
      const byteLength = numberOf(request, "byteLength", 1);
      using from = pool.allocate(byteLength, stream);
      using to = pool.allocate(byteLength, stream);
      return timeUntilDone(request, () => to.copyFrom(from, stream));
    },
    "copy-rows": (request) => {
      using from = pool.allocatePitched(Uint8Array, [1024, 64], stream);
      using to = pool.allocatePitched(Uint8Array, [1024, 64], stream);
      const source = from.region([256, 0], [256, 64]), target = to.region([512, 0], [256, 64]);
      return timeCalls(request, () => target.copyFrom(source, stream));
    },
    "copy-batch": (request) => withRanges(request, (copies) => timeCalls(request, () => stream.copyBatch(copies))),
    "copy-each": (request) =>
      withRanges(request, (copies) =>
        timeCalls(request, () => {
          for (const { source, target } of copies) target.copyFrom(source, stream);
        })),
    "fill-kernel": (request) => {
      using to = pool.allocate(numberOf(request, "byteLength", vectorByteLength), stream);
      return timeFill(request, to);
    },
    "copy-kernel": (request) => {
      const byteLength = numberOf(request, "byteLength", vectorByteLength);
      using from = pool.allocate(byteLength, stream);
      using to = pool.allocate(byteLength, stream);
      const count = byteLength / vectorByteLength;
      const grid = Math.ceil(count / block);
      return timeUntilDone(request, () => copy.launch({ grid, block, stream }, to, from, count));
    },
  };
  const [, peer] = cuda.devices;
  if (peer === undefined || !device.canAccessPeer(peer)) return workloads;
  return {
    ...workloads,
    "peer-copy": (request) => {
      const byteLength = numberOf(request, "byteLength", 1);
      using from = pool.allocate(byteLength, stream);
      using to = peerPool().allocate(byteLength, peer.defaultStream);
      peer.synchronize();
      return timeUntilDone(request, () => to.copyFrom(from, stream));
    },
    "peer-write": (request) => {
      using to = peerPool().allocate(numberOf(request, "byteLength", vectorByteLength), peer.defaultStream);
      peer.synchronize();
      return timeFill(request, to);
    },
  };
}
