/**
 * Shows what a caching allocator saves: the same allocations, fills and frees, from a pool and from its allocator.
 *
 *     deno run --allow-ffi examples/caching_allocator.ts [--steps 2000] [--streams 4]
 *
 * Each step allocates buffers of several sizes on one of the streams, fills them and frees them, as the layers of a
 * model do. For both sources the program prints the host's time for an allocation and its free, without the fills. Then
 * it prints what the allocator and the pool hold at the end, and what the allocator holds after `trimTo(0)`.
 *
 * @module
 */
import { type CachingAllocatorUsage, type CudaStream, type DeviceBuffer, open } from "../mod.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { formatTable } from "./table.ts";

const usage = "caching_allocator [--steps 2000] [--streams 4]";
const about = `
Shows what a caching allocator saves: the same allocations, fills and frees, from a pool and from its allocator.

--steps <n>    the number of steps, each of which allocates, fills and frees several buffers
--streams <n>  the number of streams that take turns
`;
const layers = [1000, 4096, 40_000, 2 ** 18, 2 ** 20, 3_000_000];

interface Allocates {
  allocate(byteLength: number, stream: CudaStream): DeviceBuffer;
}

async function main(): Promise<void> {
  const { positional, named } = readArguments(["steps", "streams"]);
  refuseSurplus(positional);
  const steps = parseCount(named.steps ?? "2000", { what: "the number of steps", least: 1 });
  const streamCount = parseCount(named.streams ?? "4", { what: "the number of streams", least: 1 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stack = new DisposableStack();
  const streams = Array.from({ length: streamCount }, () => stack.use(gpu.createStream({ nonBlocking: true })));
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  using allocator = pool.createCachingAllocator();
  const rows = [["", "allocate and free"]];
  for (const [name, source] of [["pool", pool], ["allocator", allocator]] as const) {
    runSteps(source, streams, 100); // warm-up: the first steps take memory from the system
    rows.push([name, `${(runSteps(source, streams, steps) * 1000).toFixed(2)} us`]);
  }
  console.log(formatTable(rows));
  await Promise.all(streams.map((stream) => stream.finished()));
  console.log(
    `The allocator holds ${describe(allocator.usage())}; its pool has reserved ${pool.usage().reserved} bytes`,
  );
  allocator.trimTo(0);
  console.log(`After trimTo(0) it holds ${describe(allocator.usage())}`);
}

/** Returns the mean milliseconds for an allocation and its free. */
function runSteps(source: Allocates, streams: readonly CudaStream[], steps: number): number {
  let milliseconds = 0;
  const buffers: DeviceBuffer[] = [];
  for (let step = 0; step < steps; step++) {
    const stream = streams[step % streams.length]!;
    const begin = performance.now();
    for (const byteLength of layers) buffers.push(source.allocate(byteLength, stream));
    const allocated = performance.now();
    for (const buffer of buffers) buffer.fill(step % 256);
    const filled = performance.now();
    for (const buffer of buffers) buffer.free();
    milliseconds += allocated - begin + performance.now() - filled;
    buffers.length = 0;
  }
  return milliseconds / (steps * layers.length);
}

function describe({ slabs, reserved, used, fragmentation }: CachingAllocatorUsage): string {
  return `${slabs} slabs, ${reserved} bytes, ${used} in use, ${(fragmentation * 100).toFixed(0)} % fragmented`;
}

await runProgram("caching_allocator", main, { usage, about });
