/**
 * A loop on the device: a conditional node of a graph repeats a step until a kernel finds that nothing changes any more.
 * Like NVIDIA's sample graphConditionalNodes. The host launches once, and is not asked between the steps.
 *
 *     deno run --allow-ffi examples/conditional_graph.ts [--elements 16] [--tolerance 0.0001]
 *
 * A rod has a temperature of 0 at one end and of 1 at the other. In each step, every place between gets the mean of its
 * neighbors, until no place changes by more than the tolerance: the temperatures then rise evenly. The body of the loop
 * is captured from a stream; nodes by hand would do as well. Needs CUDA 12.3.
 *
 * @module
 */
import { open } from "../mod.ts";
import { ptx } from "./kernels/relax.ts";
import { parseCount, readArguments, refuseSurplus, runProgram, UsageError } from "./command_line.ts";

const usage = "conditional_graph [--elements 16] [--tolerance 0.0001]";
const about = `
Relaxes the temperatures of a rod in a loop of a graph, and checks the result.

--elements <n>   how many places the rod has
--tolerance <x>  the change at which the loop ends
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["elements", "tolerance"]);
  refuseSurplus(positional);
  const elements = parseCount(named.elements ?? "16", { what: "the number of elements", least: 3 });
  const tolerance = Number(named.tolerance ?? "0.0001");
  if (!(tolerance > 0)) throw new UsageError(`the tolerance must be a number above 0, not ${named.tolerance}`);
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const relax = module.kernel("relax"), decide = module.kernel("decide");
  using now = pool.allocateArray(Float32Array, elements, stream);
  using next = pool.allocateArray(Float32Array, elements, stream);
  using change = pool.allocateArray(Uint32Array, 1, stream);
  using steps = pool.allocateArray(Uint32Array, 1, stream);

  using graph = gpu.createGraph();
  const start = new Float32Array(elements);
  start[elements - 1] = 1;
  const dependencies = [graph.addCopy(start, now), graph.addFill(steps, 0)];
  const condition = graph.createCondition({ defaultValue: 1 });
  const loop = graph.addConditional(condition, { type: "while", dependencies, name: "until it stops" });
  stream.capture(() => {
    change.fill(0, stream);
    relax.launch({ grid: Math.ceil(elements / 256), block: 256, stream }, next, now, elements, change);
    now.copyFrom(next, stream);
    decide.launch({ grid: 1, block: 1, stream }, condition, change, tolerance, steps);
  }, { into: loop.bodies[0]! });
  console.log(`${graph.nodes.length} nodes, one of which repeats ${loop.bodies[0]!.nodes.length}`);

  using exec = graph.instantiate();
  for (let launch = 1; launch <= 2; launch++) {
    exec.launch(stream);
    const temperatures = await now.toTypedArray({ stream, signal });
    const [count] = await steps.toTypedArray({ stream, signal });
    const error = Math.max(...temperatures.map((value, index) => Math.abs(value - index / (elements - 1))));
    console.log(`launch ${launch}: ${count} steps, then an error of ${error.toPrecision(3)}`);
    // The error is at most the change, times the square of the length.
    if (!(error <= tolerance * elements ** 2)) throw new Error("The temperatures do not rise evenly");
  }
  console.log("The temperatures rise evenly");
}

await runProgram("conditional_graph", main, { usage, about });
