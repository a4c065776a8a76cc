import { drawMemory } from "./memory_picture.ts";
import { pickle } from "./pickle.ts";
import { countOf, hexOf, printAs } from "../../support/printing.ts";

/** A piece of the memory of a slab of a caching allocator. */
export interface BlockSnapshot {
  /** The offset in the slab in bytes. */
  byteOffset: number;
  /** The size in bytes. */
  byteLength: number;
  /** `"used"` by a buffer, or `"free"`. */
  state: "used" | "free";
}

/** A process that holds a pool: an importer that has mapped an offer. */
export interface PoolHolder {
  /** The process ID, as this process sees it. */
  pid: number;
  /** The name of the offer. */
  offer: string;
  /** When the process has mapped it, in milliseconds since 1970. */
  since: number;
}

/** A process that holds a part of an allocation. */
export interface AllocationHolder extends PoolHolder {
  /** The offset of the held memory in the allocation, in bytes. */
  byteOffset: number;
  /** The size of the held memory in bytes. */
  byteLength: number;
}

/** An allocation from a pool. */
export interface AllocationSnapshot {
  /** The address of its first byte. */
  address: bigint;
  /** The size in bytes. */
  byteLength: number;
  /**
   * `"buffer"`, or `"slab"` of a caching allocator; `"held"` if the buffer was freed, and other processes or pending
   * reads still use the memory.
   */
  state: "buffer" | "slab" | "held";
  /** The blocks of a slab in the order of their offsets. */
  blocks?: BlockSnapshot[];
  /** The call stack of the allocation, with `POOLPASS_DEBUG=1`. */
  stack?: string;
  /** The processes that hold a part of the memory. */
  holders: AllocationHolder[];
}

/** A pool and its allocations. */
export interface PoolSnapshot {
  /** The pool's name in messages, such as `"the pool on device 0"`. */
  name: string;
  /** The ordinal of the device; undefined for memory of the host, and for managed memory. */
  device: number | undefined;
  /** Bytes that the pool has reserved from the system. */
  reserved: number;
  /** Bytes of the reserved memory that are allocated. */
  used: number;
  /** The processes that hold the whole pool. */
  holders: PoolHolder[];
  /** The allocations in the order of their addresses. */
  allocations: AllocationSnapshot[];
}

/**
 * A snapshot of the memory of pools: their allocations, the blocks of caching allocators, and the processes that hold
 * them. Created by `pool.snapshot()` and `cuda.snapshot()`.
 *
 * @example
 * ```ts
 * import { writeFileSync } from "node:fs";
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * using pool = cuda.device(0).createPool();
 * using buffer = pool.allocate(1024);
 * const snapshot = cuda.snapshot();
 * writeFileSync("memory.svg", snapshot.toSVG());
 * writeFileSync("memory.pickle", snapshot.toPickle()); // for https://pytorch.org/memory_viz
 * ```
 */
export class MemorySnapshot {
  /** When the snapshot was taken, in milliseconds since 1970. */
  readonly time: number = Date.now();
  /** The pools in the order of their creation. */
  readonly pools: readonly PoolSnapshot[];

  static {
    const plain = (pool: PoolSnapshot) => ({
      ...pool,
      allocations: pool.allocations.map((allocation) => ({ ...allocation, address: hexOf(allocation.address) })),
    });
    printAs(this, "MemorySnapshot", ({ pools }) => `MemorySnapshot { ${countOf(pools.length, "pool")} }`, [
      "time",
      ["pools", ({ pools }) => pools.map(plain)],
    ]);
  }

  /**
   * Created by `pool.snapshot()` and `cuda.snapshot()`.
   *
   * @ignore
   */
  constructor(pools: readonly PoolSnapshot[]) {
    this.pools = pools;
  }

  /**
   * Returns the snapshot as PyTorch's memory viewer opens it (https://pytorch.org/memory_viz): the bytes of a pickle
   * file. Memory of the host and managed memory, which the viewer cannot show, are left out. Each allocation is a
   * segment.
   */
  toPickle(): Uint8Array<ArrayBuffer> {
    const devices = this.pools.map(({ device = 0 }) => device);
    return pickle({
      segments: this.pools.flatMap((pool) => pool.allocations.flatMap((each) => segmentOf(pool, each))),
      device_traces: Array.from({ length: Math.max(0, ...devices) + 1 }, () => []),
    });
  }

  /** Returns the snapshot as a picture: the text of an SVG, in light or dark colors as the viewer's page has. */
  toSVG(): string {
    return drawMemory(this);
  }
}

/** Returns a segment in PyTorch's terms: memory from the driver, which is divided into blocks. */
function segmentOf({ device }: PoolSnapshot, { address, byteLength, state, blocks, stack }: AllocationSnapshot) {
  if (device === undefined) return [];
  const frames = framesOf(stack);
  const all = blocks ?? [{ byteOffset: 0, byteLength, state: "used" as const }];
  const used = all.reduce((sum, block) => block.state === "used" ? sum + block.byteLength : sum, 0);
  return [{
    device,
    address: Number(address),
    total_size: byteLength,
    allocated_size: used,
    active_size: used,
    requested_size: used,
    stream: 0,
    segment_type: "large",
    is_expandable: false,
    frames,
    blocks: all.map((block) => ({
      address: Number(address) + block.byteOffset,
      size: block.byteLength,
      requested_size: block.byteLength,
      state: block.state === "free" ? "inactive" : state === "held" ? "active_pending_free" : "active_allocated",
      frames,
    })),
  }];
}

/** Returns the frames of a call stack in PyTorch's form. */
function framesOf(stack = "") {
  return stack.split("\n").flatMap((line) => {
    const [, name = "", filename, row] = /^\s*at (?:(.*?) \()?(.*?):(\d+)(?::\d+)?\)?$/.exec(line) ?? [];
    return filename === undefined ? [] : [{ name, filename, line: Number(row) }];
  });
}
