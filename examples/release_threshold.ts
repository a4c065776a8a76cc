/**
 * Shows how much memory a pool keeps while a program allocates, frees and synchronizes.
 *
 *     deno run --allow-ffi examples/release_threshold.ts [--bytes 64MiB]
 *
 * Prints a table for a plain pool and one for a pool that can be shared: for each step the bytes that the pool has
 * reserved and the bytes in use, and a bar with `#` for memory in use and `-` for memory that is reserved but free.
 * With a threshold of 0, each synchronization returns all free memory to the system, and the next allocation takes it
 * again. With a threshold of Infinity, the pool keeps it until `trimTo(0)`.
 *
 * @module
 */
import { type CudaStream, type MemoryPool, open, type PoolHandleType, type PoolUsage } from "../mod.ts";
import { parseBytes, readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { formatTable } from "./table.ts";

const usage = "release_threshold [--bytes 64MiB]";
const about = `
Shows how much memory a pool keeps while a program allocates, frees and synchronizes.

--bytes <n>  the size of each allocation: 67108864, 65536KiB or 64MiB
`;
const barColumns = 32;

interface Step extends Pick<PoolUsage, "reserved" | "used"> {
  readonly what: string;
  readonly threshold: number;
}

function main(): void {
  const { positional, named } = readArguments(["bytes"]);
  refuseSurplus(positional);
  const byteLength = parseBytes(named.bytes ?? "64MiB");
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  const handleTypes: readonly PoolHandleType[] = ["none", "posix-fd"];
  for (const handleType of handleTypes) {
    console.log(`A pool with handleType "${handleType}"`);
    using pool = gpu.createPool({ handleType });
    console.log(`${formatSteps(watchPool(pool, stream, byteLength))}\n`);
  }
}

function watchPool(pool: MemoryPool, stream: CudaStream, byteLength: number): Step[] {
  const steps: Step[] = [];
  const record = (what: string) => steps.push({ what, threshold: pool.releaseThreshold, ...pool.usage() });
  for (const threshold of [0, Infinity]) {
    pool.releaseThreshold = threshold;
    for (const again of ["", " again"]) {
      const buffer = pool.allocate(byteLength, stream);
      record(`allocate${again}`);
      buffer.free();
      record("free");
      // finished() waits too, but the pool releases memory only at a blocking synchronization.
      stream.synchronize();
      record("synchronize");
    }
  }
  pool.trimTo(0);
  record("trimTo(0)");
  return steps;
}

function formatSteps(steps: readonly Step[]): string {
  const most = Math.max(...steps.map(({ reserved }) => reserved));
  const columns = (byteLength: number) => Math.round(byteLength / most * barColumns);
  const rows = steps.map(({ what, threshold, reserved, used }) => [
    String(threshold),
    what,
    formatMebibytes(reserved),
    formatMebibytes(used),
    "#".repeat(columns(used)).padEnd(columns(reserved), "-"),
  ]);
  return formatTable([["threshold", "step", "reserved", "used"], ...rows]);
}

function formatMebibytes(byteLength: number): string {
  return `${(byteLength / 2 ** 20).toFixed(1)} MiB`;
}

await runProgram("release_threshold", () => Promise.resolve(main()), { usage, about });
