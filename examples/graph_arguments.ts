/**
 * One graph for many buffers and step sizes: what changes between launches has a name, and is changed by it.
 *
 *     deno run --allow-ffi examples/graph_arguments.ts [--steps 20] [--elements 1048576]
 *
 * The graph adds `a` times the numbers of `x` to those of `y`, as often as there are steps. Launches that were enqueued
 * keep the arguments that they had, so the program waits only at the end.
 *
 * @module
 */
import { open } from "../mod.ts";
import { ptx } from "../kernels/saxpy.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "graph_arguments [--steps 20] [--elements 1048576]";
const about = `
Captures a graph with arguments, changes them between its launches, and checks the results.

--steps <n>     how many kernels the graph launches
--elements <n>  how many numbers each kernel computes
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["steps", "elements"]);
  refuseSurplus(positional);
  const steps = parseCount(named.steps ?? "20", { what: "the number of steps", least: 1 });
  const elements = parseCount(named.elements ?? String(2 ** 20), { what: "the number of elements", least: 1 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  const saxpy = module.kernel("saxpy");
  using x = pool.allocateArray(Float32Array, elements, { stream });
  using another = pool.allocateArray(Float32Array, elements, { stream });
  using y = pool.allocateArray(Float32Array, elements, { stream });
  x.fill(1);
  another.fill(10);
  y.fill(0);

  using graph = stream.capture(({ arguments: { a } }) => {
    for (let step = 0; step < steps; step++) {
      saxpy.launch({ grid: Math.ceil(elements / 256), block: 256, stream }, elements, a, x, y);
    }
  }, { arguments: { a: 2.5, x, y } });
  using exec = graph.instantiate({ upload: stream });

  exec.launch(stream);
  exec.update({ a: 0.5 }); // for the launches from here on
  exec.launch(stream);
  exec.update({ x: another });
  exec.launch(stream);
  console.log(`${graph.nodes.length} kernels, launched 3 times`);

  const numbers = await y.toTypedArray({ stream, signal });
  const expected = steps * (2.5 * 1 + 0.5 * 1 + 0.5 * 10);
  const wrong = numbers.findIndex((number) => number !== expected);
  if (wrong >= 0) throw new Error(`Element ${wrong} is ${numbers[wrong]}, and not ${expected}`);
  console.log(`All ${elements} numbers are ${expected}`);
}

await runProgram("graph_arguments", main, { usage, about });
