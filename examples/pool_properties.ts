/**
 * Tries the pool properties that go beyond the defaults.
 *
 *     deno run --allow-ffi examples/pool_properties.ts
 *
 * Prints each attempt and its outcome: host memory that a kernel writes and the CPU reads in place; a pool that reaches
 * its maxSize; a pool for other machines, which needs an IMEX channel; and the export of a pool that was not created
 * for sharing. If this machine refuses an attempt, the outcome is the error that a program would get. The exit code is
 * 0 then too.
 *
 * @module
 */
import { type Cuda, type CudaDevice, CudaError, open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const about = `
Tries the pool properties that go beyond the defaults, and prints each attempt and its outcome.
`;

const mebibyte = 2 ** 20;

async function main(): Promise<void> {
  refuseSurplus(readArguments([]).positional);
  using cuda = open();
  const gpu = cuda.device(0);
  await show(
    "Reading on the CPU, without a copy, what a kernel wrote to a pool on NUMA node 0",
    () => readInPlace(cuda),
  );
  await show("Allocating 48 MiB twice from a pool with a maxSize of 64 MiB", () => reachMaxSize(gpu));
  await show('Exporting a pool with handleType "fabric", for another machine', () => exportToFabric(cuda));
  await show('Exporting a pool with handleType "none"', () => exportPrivatePool(gpu));
}

/** Prints an attempt and its outcome, which may be a refusal. */
async function show(what: string, attempt: () => string | Promise<string>): Promise<void> {
  console.log(what);
  let outcome: string;
  try {
    outcome = await attempt();
  } catch (error) {
    if (!isRefusal(error)) throw error;
    outcome = `${error.name}: ${error.message}`;
  }
  console.log(`  ${outcome}\n`);
}

const refusals = [
  "cudaErrorMemoryAllocation",
  "cudaErrorInvalidValue",
  "cudaErrorNotPermitted",
  "cudaErrorNotSupported",
];

/** Whether an error is an expected refusal by the driver or the library. */
function isRefusal(error: unknown): error is Error {
  if (error instanceof CudaError) return refusals.includes(error.code);
  return error instanceof TypeError && /^Cannot (create|export|see) /.test(error.message);
}

async function readInPlace(cuda: Cuda): Promise<string> {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = cuda.createHostPool({ numaNode: 0 });
  // A host pool is initially accessible only to the CPU.
  pool.setAccess(gpu, "read-write");
  using buffer = pool.allocateArray(Int32Array, 1024, stream);
  using module = gpu.loadModule(ptx);
  module.kernel("fill").launch({ grid: 4, block: 256, stream }, buffer, buffer.byteLength, 7);
  await stream.finished();
  const numbers = new Int32Array(buffer.hostView());
  const right = numbers.filter((number) => number === 7).length;
  if (right < buffer.length) throw new Error(`Only ${right} of ${buffer.length} numbers are 7`);
  return `All ${right} numbers are 7`;
}

function reachMaxSize(gpu: CudaDevice): string {
  using stream = gpu.createStream();
  using pool = gpu.createPool({ maxSize: 64 * mebibyte });
  using _first = pool.allocate(48 * mebibyte, stream);
  using _second = pool.allocate(48 * mebibyte, stream);
  return `Both succeeded: the pool has reserved ${pool.usage().reserved / mebibyte} MiB`;
}

function exportToFabric(cuda: Cuda): string {
  using pool = cuda.device(0).createPool({ handleType: "fabric" });
  try {
    using handle = pool.exportHandle();
    return `The handle has ${handle.bytes.length} bytes, for processes with the same IMEX channel`;
  } catch (error) {
    if (!(error instanceof CudaError && error.code === "cudaErrorNotPermitted")) throw error;
    // The message says what an IMEX channel is, and how to get one.
    return `${error.name}: ${error.message}`;
  }
}

function exportPrivatePool(gpu: CudaDevice): string {
  using pool = gpu.createPool({ handleType: "none" });
  using handle = pool.exportHandle();
  return `It was exported, as the descriptor ${handle.fd}`;
}

await runProgram("pool_properties", main, { usage: "pool_properties", about });
