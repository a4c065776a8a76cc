// Is one rank of a communicator, on its own software device, and does what WHAT says:
// deno run --allow-ffi tests/children/software/collective_rank.ts ID RANK SIZE WHAT [COUNT].
import process from "node:process";
import { dataType, reductionOperation } from "../../../src/collective_library.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";

const [id, rank, size, what, count = "4"] = process.argv.slice(2) as [string, string, string, string, string?];
const elements = Number(count);
const driver = new SoftwareDriver({ devices: 1, peers: true });
const { collectives } = driver;

function describe(state: unknown): string {
  return state instanceof SharingError ? `${state.code}: ${state.message}` : String(state);
}

/** Waits until a communicator is ready or has an error. */
async function settled(comm: bigint): Promise<string> {
  let state: unknown;
  await waitUntil(() => (state = collectives.commGetAsyncError(comm)) !== "in-progress");
  return describe(state);
}

/** Sums the ranks' numbers, which are their ranks and 1. Returns the first and the last element. */
async function sum(comm: bigint, byteLength = 4 * elements): Promise<string> {
  const at = driver.malloc(0, byteLength);
  const values = new Float32Array(elements).fill(Number(rank) + 1);
  driver.memcpyHtoDAsync(0, at, new Uint8Array(values.buffer), 0n);
  const call = { comm, stream: 0n, source: at, target: at, count: elements, type: dataType.float32 };
  collectives.allReduce({ ...call, operation: reductionOperation.sum });
  await waitUntil(() => driver.streamQuery(0, 0n));
  driver.memcpyDtoHAsync(0, new Uint8Array(values.buffer), at, 0n);
  driver.free(0, at);
  const state = collectives.commGetAsyncError(comm);
  return state === "ready" ? `${values[0]} ${values.at(-1)}` : describe(state);
}

const steps: Readonly<Record<string, (comm: bigint) => Promise<void>>> = {
  /** Sums, and leaves at once. */
  async sum(comm) {
    console.log(await sum(comm));
    await collectives.commDestroy(comm);
  },
  /** Waits until it is killed. */
  wait: () => new Promise<void>(() => setInterval(() => {}, 1000)),
  /** Sums until that fails, and then without the last rank. */
  async survive(comm) {
    let result: string;
    do result = await sum(comm); while (!result.startsWith("peer-gone"));
    console.log(result);
    const shrunk = collectives.commShrink(comm, [Number(size) - 1]);
    console.log(await settled(shrunk));
    console.log(await sum(shrunk));
    console.log(describe(collectives.commGetAsyncError(comm)));
  },
  /** Sums again and again until it is killed. */
  async repeat(comm) {
    console.log(await sum(comm));
    for (;;) await sum(comm);
  },
};

const comm = collectives.commInitRank(0, { id: Uint8Array.fromHex(id), rank: Number(rank), size: Number(size) });
console.log("joined");
const state = await settled(comm);
console.log(state);
if (state === "ready") await steps[what]!(comm);
driver.close();
