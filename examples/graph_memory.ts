/**
 * A graph that allocates its memory, as NVIDIA's sample graphMemoryNodes: scratch memory that lives within a launch, and
 * a result that outlives it.
 *
 *     deno run --allow-ffi examples/graph_memory.ts [--elements 1048576] [--launches 3]
 *
 * Each launch computes 3 (2 x + 1) + 4. The buffers of `using` blocks in the captured function are freed by the graph.
 * Nothing in the graph frees the result, so the program can read it after the launch. As long as it is not freed, the
 * graph cannot be launched again, unless it was instantiated with `autoFreeOnLaunch`: then each launch frees the last
 * one's result. The program shows both.
 *
 * @module
 */
import { CudaError, type DeviceBuffer, open } from "../mod.ts";
import { ptx } from "../kernels/saxpy.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "graph_memory [--elements 1048576] [--launches 3]";
const about = `
Captures a graph that allocates its memory, launches it and checks its results.

--elements <n>  how many numbers to compute with
--launches <n>  how often to launch the graph, each time with other numbers
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["elements", "launches"]);
  refuseSurplus(positional);
  const elements = parseCount(named.elements ?? String(2 ** 20), { what: "the number of elements", least: 1 });
  const launches = parseCount(named.launches ?? "3", { what: "the number of launches", least: 1 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const saxpy = module.kernel("saxpy");
  const geometry = { grid: 256, block: 256, stream };
  using input = cuda.allocateHost(elements * Float32Array.BYTES_PER_ELEMENT);

  using graph = stream.capture(() => {
    using x = pool.allocateArray(Float32Array, elements, stream);
    using inner = pool.allocateArray(Float32Array, elements, stream);
    x.copyFrom(input, stream);
    inner.fill(1, stream);
    saxpy.launch(geometry, elements, 2, x, inner);
    const result = pool.allocateArray(Float32Array, elements, stream); // without `using`: it outlives the launch
    result.fill(4, stream);
    saxpy.launch(geometry, elements, 3, inner, result);
  });
  console.log(`nodes: ${graph.nodes.map(({ type }) => type).join(", ")}`);
  const result = graph.allocations[0]!;
  console.log(`The result has ${result.byteLength} bytes`);

  const numbers = new Float32Array(input.buffer);
  {
    using exec = graph.instantiate();
    numbers.fill(1);
    exec.launch(stream);
    await check(result, numbers, signal);
    try {
      exec.launch(stream);
    } catch (error) {
      if (!(error instanceof CudaError)) throw error;
      console.log(error.message);
    }
    result.free(stream);
  }
  using exec = graph.instantiate({ autoFreeOnLaunch: true });
  for (let launch = 0; launch < launches; launch++) {
    for (let index = 0; index < elements; index++) numbers[index] = launch + index % 100;
    exec.launch(stream);
    await check(result, numbers, signal);
  }
  result.free(stream);
  await stream.finished({ signal });
  const { reserved, usedHigh } = gpu.graphMemory.usage();
  console.log(`Graphs have reserved ${reserved} bytes, and used at most ${usedHigh}`);
  console.log(`All results of ${launches} launches are right`);
}

async function check(result: DeviceBuffer, numbers: Float32Array, signal: AbortSignal): Promise<void> {
  const values = await result.read(Float32Array, { signal });
  const wrong = values.findIndex((value, index) => value !== 3 * (2 * numbers[index]! + 1) + 4);
  if (wrong >= 0) throw new Error(`Element ${wrong} is ${values[wrong]}, of ${numbers[wrong]}`);
}

await runProgram("graph_memory", main, { usage, about });
