/**
 * Tasks whose memory the host prepares in place, as NVIDIA's sample UnifiedMemoryStreams: small tasks are computed on the
 * host, large ones on the device, in the same memory.
 *
 *     deno run --allow-ffi examples/managed_memory.ts [--tasks 8] [--largest 256]
 *
 * Each task multiplies a matrix by a vector. The host writes both into managed memory, without a copy; a task for the
 * device moves the matrix there before the kernel starts, and the result back to the host afterwards.
 *
 * @module
 */
import { type DeviceBuffer, open } from "../mod.ts";
import { ptx } from "../kernels/matrix_multiply.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "managed_memory [--tasks 8] [--largest 256]";
const about = `
Computes tasks of several sizes in managed memory, and checks their results.

--tasks <n>    how many tasks
--largest <n>  rows and columns of the largest task
`;

/** Tasks with at most so many rows are quicker on the host: for them, to start a kernel takes longer than to compute. */
const mostRowsOnHost = 64;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["tasks", "largest"]);
  refuseSurplus(positional);
  const tasks = parseCount(named.tasks ?? "8", { what: "the number of tasks", least: 1 });
  const largest = parseCount(named.largest ?? "256", { what: "the rows of the largest task", least: 8 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = cuda.createManagedPool({ preferredLocation: gpu });
  using module = gpu.loadModule(ptx);
  const multiply = module.kernel("matrix_multiply");

  for (let task = 0; task < tasks; task++) {
    const rows = Math.max(1, largest >> (tasks - 1 - task) % 4);
    using matrix = pool.allocateArray(Float32Array, rows * rows, { stream });
    using vector = pool.allocateArray(Float32Array, rows, { stream });
    using result = pool.allocateArray(Float32Array, rows, { stream });
    await stream.finished({ signal }); // the memory is allocated: the host may write it
    numbers(matrix).fill(1);
    numbers(vector).fill(task);
    if (rows <= mostRowsOnHost) {
      multiplyOnHost(numbers(matrix), numbers(vector), numbers(result));
    } else {
      matrix.prefetch(gpu, stream);
      const grid = [1, Math.ceil(rows / 16)] as const;
      multiply.launch({ grid, block: [16, 16], stream }, matrix, vector, result, rows, 1, rows);
      matrix.discard(stream); // nothing reads it again: it need not be copied back
      result.prefetch("host", stream);
      await stream.finished({ signal });
    }
    const wrong = numbers(result).findIndex((sum) => sum !== rows * task);
    if (wrong >= 0) throw new Error(`Row ${wrong} of task ${task} is ${numbers(result)[wrong]}, not ${rows * task}`);
    console.log(`task ${task}: ${rows} rows, on the ${rows <= mostRowsOnHost ? "host" : "device"}`);
  }
  const { reserved, usedHigh } = pool.usage();
  console.log(`The pool has reserved ${reserved} bytes, and used at most ${usedHigh}`);
  console.log(`All results of ${tasks} tasks are right`);
}

/** Returns the numbers of managed memory, in place. */
function numbers(buffer: DeviceBuffer): Float32Array {
  return new Float32Array(buffer.hostView());
}

function multiplyOnHost(matrix: Float32Array, vector: Float32Array, result: Float32Array): void {
  const columns = vector.length;
  for (let row = 0; row < result.length; row++) {
    let sum = 0;
    for (let column = 0; column < columns; column++) sum += matrix[row * columns + column]! * vector[column]!;
    result[row] = sum;
  }
}

await runProgram("managed_memory", main, { usage, about });
