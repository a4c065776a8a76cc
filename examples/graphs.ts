/**
 * NVIDIA's sample simpleCudaGraphs: the sum of random numbers as a graph, captured from three streams.
 *
 *     deno run --allow-ffi examples/graphs.ts [--elements 16777216] [--launches 3]
 *
 * Two streams fork from the captured one and clear the results, while that one copies the numbers to the device; it
 * waits for each before a kernel needs it. Every launch copies the numbers again and replaces the sum, which the program
 * compares with the host's after each launch. The sample prints the sum in a host function of the graph; this program
 * prints it when it has waited for the launch.
 *
 * @module
 */
import { type CudaStream, type GraphNode, open } from "../mod.ts";
import { ptx } from "../kernels/reduce.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "graphs [--elements 16777216] [--launches 3]";
const about = `
Captures a reduction over three streams into a graph, launches it and checks its sum.

--elements <n>  how many numbers to add
--launches <n>  how often to launch the graph, each time with other numbers
`;
const blocks = 512;
const block = 256;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["elements", "launches"]);
  refuseSurplus(positional);
  const elements = parseCount(named.elements ?? String(2 ** 24), { what: "the number of elements", least: 1 });
  const launches = parseCount(named.launches ?? "3", { what: "the number of launches", least: 1 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stack = new DisposableStack();
  const createStream = (): CudaStream => stack.use(gpu.createStream({ nonBlocking: true }));
  const [stream, second, third] = [createStream(), createStream(), createStream()];
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const reduce = module.kernel("reduce_sum");
  using input = cuda.allocateHost(elements * Float32Array.BYTES_PER_ELEMENT);
  using output = cuda.allocateHost(Float32Array.BYTES_PER_ELEMENT);
  using vector = pool.allocateArray(Float32Array, elements, stream);
  using partial = pool.allocateArray(Float32Array, blocks, stream);
  using sum = pool.allocateArray(Float32Array, 1, stream);

  using graph = stream.capture(() => {
    second.wait(stream); // both streams join the capture
    third.wait(stream);
    vector.copyFrom(input, stream);
    partial.fill(0, second);
    sum.fill(0, third);
    stream.wait(second);
    reduce.launch({ grid: blocks, block, stream }, vector, elements, partial);
    stream.wait(third);
    reduce.launch({ grid: 1, block, stream }, partial, blocks, sum);
    sum.copyTo(output, stream);
  });
  console.log(`${graph.nodes.length} nodes, ${graph.edges.length} edges`);
  for (const [index, node] of graph.nodes.entries()) console.log(`${index}: ${describe(node)}`);

  using exec = graph.instantiate({ upload: stream });
  const numbers = new Float32Array(input.buffer);
  const result = new Float32Array(output.buffer);
  for (let launch = 0; launch < launches; launch++) {
    for (let index = 0; index < elements; index++) numbers[index] = Math.random();
    exec.launch(stream);
    await stream.finished({ signal });
    console.log(`launch ${launch}: sum ${result[0]}`);
    checkSum(result[0]!, numbers);
  }
  console.log("All sums are right");
}

function describe(node: GraphNode): string {
  const before = node.dependencies.map((dependency) => node.graph.nodes.indexOf(dependency));
  return before.length === 0 ? node.type : `${node.type} after ${before.join(" and ")}`;
}

function checkSum(sum: number, numbers: Float32Array): void {
  const expected = numbers.reduce((total, number) => total + number, 0);
  // The kernel adds floats in another order than the host, which adds doubles.
  if (Math.abs(sum - expected) <= 1e-4 * expected) return;
  throw new Error(`The sum is ${sum}, and should be ${expected}`);
}

await runProgram("graphs", main, { usage, about });
