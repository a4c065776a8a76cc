/**
 * Shows when a pool reuses memory that one stream freed for another stream, with each reuse policy on and off.
 *
 *     deno run --allow-ffi examples/reuse_policies.ts
 *
 * Stream A allocates, works for some milliseconds and frees. Then stream B allocates; in one case A does. Prints a
 * table: the only policy that is on, or that all are off; what happens between the two allocations; where the second
 * allocation is, and where it was expected. The exit code is 1 if the two differ. The last rows need no policy: A
 * itself gets the memory again, and so does any stream after the host has synchronized with A.
 *
 * @module
 */
import { CudaError, open } from "../mod.ts";
import type { CudaDevice, CudaEvent, CudaKernel, CudaStream, MemoryPool, ReusePolicies } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { formatTable } from "./table.ts";

const about = `
Shows when a pool reuses memory that one stream freed for another stream, with each reuse policy on and off.
`;

type Policy = keyof ReusePolicies;
type Outcome = "same address" | "another address" | "no memory" | "A was done too early";

/** What happens between the free and the second allocation. */
interface Situation {
  readonly what: string;
  /** Whether A must still be working at the second allocation. */
  readonly isBusy?: boolean;
  /** Whether the pool has room for only one of the allocations. */
  readonly isLimited?: boolean;
  /** Whether the second allocation is on A too. */
  readonly isSameStream?: boolean;
  arrange?(given: { a: CudaStream; b: CudaStream; freed: CudaEvent }): void | Promise<void>;
}

interface Case {
  readonly situation: Situation;
  /** The only policy that is on; undefined if all are off. */
  readonly policy?: Policy;
  readonly expected: Outcome;
}

const byteLength = 64 * 2 ** 20;
/** One thread takes some milliseconds to write this. */
const busyByteLength = 16 * 2 ** 20;

const waitsForEvent: Situation = {
  what: "B waits for an event after the free, A is busy",
  isBusy: true,
  arrange: ({ b, freed }) => b.wait(freed),
};
const freeIsDone: Situation = {
  what: "the free is done, B has not waited for it",
  // This polls the driver, which is not a synchronization.
  arrange: ({ freed }) => freed.finished(),
};
// A pool that can grow does so rather than make a stream wait.
const poolIsFull: Situation = { what: "the pool cannot grow, A is busy", isBusy: true, isLimited: true };
const sameStream: Situation = { what: "A itself allocates, and is busy", isBusy: true, isSameStream: true };
const hostSynchronizes: Situation = { what: "the host synchronizes with A", arrange: ({ a }) => a.synchronize() };

const cases: readonly Case[] = [
  { policy: "followEventDependencies", situation: waitsForEvent, expected: "same address" },
  { situation: waitsForEvent, expected: "another address" },
  { policy: "allowOpportunistic", situation: freeIsDone, expected: "same address" },
  { situation: freeIsDone, expected: "another address" },
  { policy: "allowInternalDependencies", situation: poolIsFull, expected: "same address" },
  { situation: poolIsFull, expected: "no memory" },
  { situation: sameStream, expected: "same address" },
  { situation: hostSynchronizes, expected: "same address" },
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
  // With a threshold of 0, the pool would return free memory to the system when the host synchronizes.
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

await runProgram("reuse_policies", main, { usage: "reuse_policies", about });
