import { area, mistake } from "../mistake.ts";

area("Graphs by hand", import.meta.url);

mistake("a kernel node with a stream", ({ gpu, stream, saxpy, x, y }) => {
  const graph = gpu.createGraph();
  graph.addKernel(saxpy, { grid: 4, block: 256, stream }, 1024, 2.5, x, y);
});

mistake("the arguments of a kernel node before its options", ({ gpu, saxpy, x, y }) => {
  const graph = gpu.createGraph();
  graph.addKernel(saxpy, 1024, 2.5, x, y);
});

mistake("a dependency that is not in a list", ({ gpu, x }) => {
  const graph = gpu.createGraph();
  const first = graph.addFill(x, 1);
  graph.addFill(x, 2, { dependencies: first });
});

mistake("a dependency on a node of another graph", ({ gpu, x }) => {
  const first = gpu.createGraph().addFill(x, 1, { name: "first" });
  gpu.createGraph().addFill(x, 2, { dependencies: [first] });
});

mistake("a dependency on what addAllocation returns", ({ gpu, pool }) => {
  const graph = gpu.createGraph();
  const scratch = graph.addAllocation(pool, 1024);
  graph.addFill(scratch.buffer, 1, { dependencies: [scratch] });
});

mistake("the target of a copy before its source", ({ gpu, x }) => {
  const graph = gpu.createGraph();
  graph.addCopy(x, new Float32Array(1024));
});

mistake("nodes that wait for each other", ({ gpu, x }) => {
  const graph = gpu.createGraph();
  const first = graph.addFill(x, 1, { name: "first" });
  const second = graph.addFill(x, 2, { dependencies: [first] });
  graph.addDependency(second, first);
  graph.instantiate();
});

mistake("memory of a graph read before a launch", ({ gpu, pool }) => {
  const graph = gpu.createGraph();
  const { buffer } = graph.addAllocation(pool, 1024);
  buffer.readSync(Float32Array);
});

mistake("the program's memory freed by a graph", ({ gpu, x }) => {
  const graph = gpu.createGraph();
  graph.addFree(x);
});

mistake("a graph added to itself", ({ gpu, x }) => {
  const graph = gpu.createGraph();
  graph.addFill(x, 1);
  graph.addGraph(graph);
});

mistake("a node removed twice", ({ gpu, x }) => {
  const node = gpu.createGraph().addFill(x, 1);
  node.remove();
  node.remove();
});

mistake("a condition that nothing tests", ({ gpu }) => {
  const graph = gpu.createGraph();
  graph.createCondition({ defaultValue: 1 });
  graph.instantiate();
});

mistake("a condition in the place of a graph", ({ gpu }) => {
  const graph = gpu.createGraph();
  graph.addConditional({ type: "while" });
});

mistake("a condition passed to a launch on a stream", ({ gpu, stream, saxpy, y }) => {
  const condition = gpu.createGraph().createCondition();
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, condition, y);
});

mistake("a body instantiated by itself", ({ gpu }) => {
  const graph = gpu.createGraph();
  const loop = graph.addConditional(graph.createCondition(), { type: "while" });
  loop.bodies[0].instantiate();
});

mistake("an allocation in a body", ({ gpu, pool }) => {
  const graph = gpu.createGraph();
  const loop = graph.addConditional(graph.createCondition(), { type: "while" });
  loop.bodies[0].addAllocation(pool, 1024);
});

mistake("a name in the place of the graph of a capture", ({ stream, x }) => {
  stream.capture(() => x.fill(1, stream), { into: "body" });
});
