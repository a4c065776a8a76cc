/**
 * NVIDIA's sample simpleCudaGraphs, the graph that is built by hand: each node is added with the nodes before it, and no
 * stream is captured. `graphs.ts` captures the same work.
 *
 *     deno run --allow-ffi examples/graph_by_hand.ts [--elements 16777216] [--launches 3] [--dot]
 *
 * The numbers come from a page-locked buffer, which each launch copies, so the program changes them between launches.
 *
 * @module
 */
import { open } from "../mod.ts";
import { ptx } from "../kernels/reduce.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "graph_by_hand [--elements 16777216] [--launches 3] [--dot]";
const about = `
Builds a graph of copies, fills and kernels, launches it and checks the sums that it computes.

--elements <n>  how many numbers to add
--launches <n>  how often to launch the graph, each time with other numbers
--dot           print the graph for Graphviz
`;
const blocks = 512;
const block = 256;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["elements", "launches"], ["dot"]);
  refuseSurplus(positional);
  const elements = parseCount(named.elements ?? String(2 ** 24), { what: "the number of elements", least: 1 });
  const launches = parseCount(named.launches ?? "3", { what: "the number of launches", least: 1 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const reduce = module.kernel("reduce_sum");
  using input = cuda.allocateHost(elements * Float32Array.BYTES_PER_ELEMENT);
  using output = cuda.allocateHost(Float32Array.BYTES_PER_ELEMENT);
  using vector = pool.allocateArray(Float32Array, elements, stream);
  using partial = pool.allocateArray(Float32Array, blocks, stream);
  using sum = pool.allocateArray(Float32Array, 1, stream);

  using graph = gpu.createGraph();
  const copied = graph.addCopy(input, vector, { name: "numbers" });
  const cleared = graph.addFill(partial, 0);
  const reduced = graph.addKernel(
    reduce,
    { grid: blocks, block, dependencies: [copied, cleared], name: "partial sums" },
    vector,
    elements,
    partial,
  );
  const added = graph.addKernel(
    reduce,
    { grid: 1, block, dependencies: [reduced, graph.addFill(sum, 0)], name: "sum" },
    partial,
    blocks,
    sum,
  );
  graph.addCopy(sum, output, { dependencies: [added] });
  console.log(`${graph.nodes.length} nodes, ${graph.edges.length} edges`);
  if (named.dot) console.log(graph.toDot());

  using exec = graph.instantiate({ upload: stream });
  const numbers = new Float32Array(input.buffer);
  for (let launch = 1; launch <= launches; launch++) {
    for (let index = 0; index < elements; index++) numbers[index] = index % (launch + 3);
    exec.launch(stream);
    await stream.finished({ signal });
    const [result] = new Float32Array(output.buffer);
    const expected = numbers.reduce((total, number) => total + number, 0);
    console.log(`launch ${launch}: sum ${result}`);
    if (Math.abs(result! - expected) > expected * 1e-5) throw new Error(`The sum should be ${expected}`);
  }
  console.log("All sums are right");
}

await runProgram("graph_by_hand", main, { usage, about });
