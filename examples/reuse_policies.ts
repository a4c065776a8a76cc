/**
 * Shows when a pool gives memory that one stream has freed to another stream: each reuse policy on and off.
 *
 *     deno run --allow-ffi examples/reuse_policies.ts
 *
 * Stream A allocates, works for some milliseconds and frees; then an allocation follows, on stream B but for one case.
 * Prints a table: the policy that is on, alone, or off with the others; what happens between the two allocations; where
 * the second one lies, and where it was expected. The exit code is 1 where the two differ. The last rows show what no
 * policy changes: A itself, and any stream once the host has synchronised with A, have the memory again.
 *
 * @module
 */
import { CudaError, open } from "../mod.ts";
import type { CudaDevice, CudaEvent, CudaKernel, CudaStream, MemoryPool, ReusePolicies } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { formatTable } from "./table.ts";

type Policy = keyof ReusePolicies;
type Outcome = "same address" | "another address" | "no memory" | "A was done too early";

/** What happens between the free and the second allocation. */
interface Situation {
  readonly what: string;
  /** Whether A must be working still when the second allocation is made. */
  readonly isBusy?: boolean;
  /** Whether the pool has room for one of the allocations only. */
  readonly isLimited?: boolean;
  /** Whether the second allocation is on A, too. */
  readonly isSameStream?: boolean;
  arrange?(given: { a: CudaStream; b: CudaStream; freed: CudaEvent }): void | Promise<void>;
}

interface Case {
  readonly situation: Situation;
  /** The policy that is on; undefined where all are off. */
  readonly policy?: Policy;
  readonly expected: Outcome;
}

const byteLength = 64 * 2 ** 20;
/** What one thread takes some milliseconds to write. */
const busyByteLength = 16 * 2 ** 20;

const waitsForEvent: Situation = {
  what: "B waits for an event behind the free, A is busy",
  isBusy: true,
  arrange: ({ b, freed }) => b.wait(freed),
};
const freeIsDone: Situation = {
  what: "the free is done, and B does not know",
  // This asks the driver again and again, which is no synchronisation.
  arrange: ({ freed }) => freed.finished(),
};
// As long as a pool can grow, it does so rather than let a stream wait.
const poolIsFull: Situation = { what: "the pool cannot grow, A is busy", isBusy: true, isLimited: true };
const sameStream: Situation = { what: "A allocates itself, and is busy", isBusy: true, isSameStream: true };
const hostSynchronises: Situation = { what: "the host synchronises with A", arrange: ({ a }) => a.synchronize() };

const cases: readonly Case[] = [
  { policy: "followEventDependencies", situation: waitsForEvent, expected: "same address" },
  { situation: waitsForEvent, expected: "another address" },
  { policy: "allowOpportunistic", situation: freeIsDone, expected: "same address" },
  { situation: freeIsDone, expected: "another address" },
  { policy: "allowInternalDependencies", situation: poolIsFull, expected: "same address" },
  { situation: poolIsFull, expected: "no memory" },
  { situation: sameStream, expected: "same address" },
  { situation: hostSynchronises, expected: "same address" },
];

async function main(): Promise<void> {
  refuseSurplus(readArguments([]).positional);
  using cuda = open();
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  const fill = module.kernel("fill");
  const rows = [["policy", "between the allocations", "the second has", "expected"]];
  for (const { policy, situation, expected } of cases) {
    const outcome = await allocateTwice(gpu, fill, { policy, situation });
    rows.push([policy === undefined ? "all off" : `${policy} on`, situation.what, outcome, expected]);
  }
  console.log(formatTable(rows));
  const surprises = rows.slice(1).filter(([, , outcome, expected]) => outcome !== expected);
  if (surprises.length > 0) throw new Error(`${surprises.length} of ${cases.length} cases did not end as expected`);
}

async function allocateTwice(
  gpu: CudaDevice,
  fill: CudaKernel,
  { policy, situation }: Omit<Case, "expected">,
): Promise<Outcome> {
  using a = gpu.createStream({ nonBlocking: true });
  using b = gpu.createStream({ nonBlocking: true });
  using freed = gpu.createEvent();
  // With a threshold of 0, what is free goes back to the system when the host synchronises.
  using pool = gpu.createPool({ releaseThreshold: Infinity, maxSize: situation.isLimited ? byteLength : 0 });
  pool.reuse.followEventDependencies = policy === "followEventDependencies";
  pool.reuse.allowOpportunistic = policy === "allowOpportunistic";
  pool.reuse.allowInternalDependencies = policy === "allowInternalDependencies";

  const first = pool.allocate(byteLength, a);
  const { address } = first;
  fill.launch({ grid: 1, block: 1, stream: a }, first, busyByteLength, 1);
  first.free();
  a.record(freed);
  await situation.arrange?.({ a, b, freed });
  const outcome = allocateAgain(pool, situation.isSameStream ? a : b, address);
  return situation.isBusy && freed.query() ? "A was done too early" : outcome;
}

function allocateAgain(pool: MemoryPool, stream: CudaStream, address: bigint): Outcome {
  try {
    using second = pool.allocate(byteLength, stream);
    return second.address === address ? "same address" : "another address";
  } catch (error) {
    if (error instanceof CudaError && error.code === "cudaErrorMemoryAllocation") return "no memory";
    throw error;
  }
}

await runProgram("reuse_policies", main, { usage: "reuse_policies" });
