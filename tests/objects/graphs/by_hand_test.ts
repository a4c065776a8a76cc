/** Tests of graphs to which a program adds nodes by hand. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertThrows } from "@std/assert";
import { ptx } from "../../../kernels/saxpy.ts";
import type {
  Cuda,
  CudaDevice,
  CudaError,
  CudaGraph,
  CudaKernel,
  CudaStream,
  DeviceArray,
  MemoryPool,
} from "../../../mod.ts";
import { Cuda as CudaObject } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

const length = 64;

interface Place extends Disposable {
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly pool: MemoryPool;
  readonly saxpy: CudaKernel;
  readonly x: DeviceArray<Float32Array>;
  readonly y: DeviceArray<Float32Array>;
  readonly graph: CudaGraph;
  /** Launches a graph, and resolves with the first element of an array. */
  first(graph: CudaGraph, array?: DeviceArray<Float32Array>): Promise<number>;
}

function placeIn(cuda: Cuda): Place {
  const gpu = cuda.device(0);
  const stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const pool = stack.use(gpu.createPool());
  const x = stack.use(pool.allocateArray(Float32Array, length, stream));
  const y = stack.use(pool.allocateArray(Float32Array, length, stream));
  const saxpy = stack.use(gpu.loadModule(ptx)).kernel("saxpy");
  const graph = stack.use(gpu.createGraph());
  return {
    ...{ gpu, stream, pool, saxpy, x, y, graph },
    async first(launched, array = y) {
      using exec = launched.instantiate();
      exec.launch(stream);
      return (await array.toTypedArray({ stream }))[0]!;
    },
    [Symbol.dispose]: () => stack.dispose(),
  };
}

const shape = { grid: 1, block: length };

testOnEachDriver("nodes of each type run in the order of their dependencies", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool, saxpy, x, y, graph } = place;
  using host = cuda.allocateHost(4 * length);
  using wide = pool.allocateArray(Float64Array, 5000, stream);
  using begin = gpu.createEvent({ timing: true });
  using end = gpu.createEvent({ timing: true });
  const data = new Float32Array(length).fill(2);
  const started = graph.addRecord(begin);
  const copied = graph.addCopy(data, x, { dependencies: [started], name: "input" });
  data.fill(100); // the bytes were taken
  const filled = graph.addFill(y, 1, { dependencies: [started] });
  const kernel = graph.addKernel(saxpy, { ...shape, dependencies: [copied, filled] }, length, 3, x, y);
  const inner = gpu.createGraph();
  inner.addKernel(saxpy, shape, length, 10, x, y);
  const child = graph.addGraph(inner, { dependencies: [kernel] });
  inner.addFill(y, 0); // the graph was copied
  inner[Symbol.dispose]();
  const both = graph.addEmpty({ dependencies: [child, graph.addFill(wide, Math.PI, { name: "wide" })] });
  const back = graph.addCopy(y, host, { dependencies: [both] });
  graph.addRecord(end, { dependencies: [back] });
  assertEquals(graph.nodes.map(({ type }) => type), [
    ...["record", "copy", "fill", "kernel", "graph", "graph", "empty", "copy", "record"],
  ]);
  assertEquals(new Set(kernel.dependencies), new Set([copied, filled]));
  assertEquals(filled.dependents, [kernel]);
  assertStrictEquals(kernel.kernel, saxpy);
  using exec = graph.instantiate();
  exec.launch(stream);
  await stream.finished();
  assertEquals(new Float32Array(host.buffer)[length - 1], 27);
  assert((await wide.toTypedArray({ stream })).every((value) => value === Math.PI));
  assert(end.query() && end.elapsedTime(begin) >= 0);
});

testOnEachDriver("a wait in a graph is for the event's latest record at each launch", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, x, y, graph, first } = place;
  using other = gpu.createStream({ nonBlocking: true });
  using event = gpu.createEvent();
  const waited = graph.addWait(event);
  graph.addCopy(x, y, { dependencies: [waited] });
  using exec = graph.instantiate();
  for (const value of [3, 4]) {
    other.wait(stream);
    x.fill(value, other);
    other.record(event);
    exec.launch(stream);
    assertEquals((await y.toTypedArray({ stream }))[0], value);
  }
  event[Symbol.dispose](); // the graph keeps it
  other.wait(stream);
  x.fill(5, other);
  await other.finished();
  assertEquals(await first(graph), 5);
});

testOnEachDriver("dependencies are added and removed, nodes are removed, and a circle names a node", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, pool, x, y, graph, first } = place;
  const ones = graph.addFill(y, 1, { name: "ones" });
  const twos = graph.addFill(y, 2, { name: "twos" });
  graph.addDependency(ones, twos);
  assertEquals(await first(graph), 2);
  graph.addDependency(twos, ones);
  const circle = assertThrows(() => graph.instantiate()) as CudaError;
  assertEquals(circle.code, "cudaErrorInvalidValue");
  assertMatch(circle.message, /depend on each other in a circle; look at the fill "(ones|twos)"$/);
  graph.removeDependency(ones, twos);
  assertEquals(await first(graph), 1);
  using temporary = pool.allocateArray(Float32Array, length, stream);
  const copy = graph.addCopy(temporary, x, { dependencies: [ones] });
  using exec = graph.instantiate();
  copy.remove();
  assertEquals(graph.nodes, [ones, twos]);
  assertThrows(() => copy.unsafeHandle, ReferenceError, "it was removed");
  assertThrows(() => copy.remove(), ReferenceError, "it was removed");
  assertThrows(() => graph.addEmpty({ dependencies: [copy] }), ReferenceError, "it was removed");
  exec.launch(stream); // still copies
  temporary.free(stream);
  assertThrows(() => exec.launch(stream), ReferenceError, "it uses a buffer of 256 bytes that was freed");
  assertEquals(await first(graph), 1); // does not use it any more
});

testOnEachDriver(
  "memory that a graph allocates exists for its nodes, and after a launch for the program",
  async (cuda) => {
    using place = placeIn(cuda);
    const { gpu, stream, pool, x, graph } = place;
    const scratch = graph.addAllocation(pool, 4 * length);
    const kept = graph.addAllocation(pool, 4 * length, { name: "kept" });
    const numbers = scratch.buffer.as(Float32Array);
    const filled = graph.addFill(numbers, 7, { dependencies: [scratch.node] });
    const copied = graph.addCopy(numbers, kept.buffer, { dependencies: [filled, kept.node] });
    graph.addFree(scratch.buffer, { dependencies: [copied] });
    assertEquals(graph.allocations, [kept.buffer]);
    for (const buffer of [scratch.buffer, kept.buffer]) {
      assertThrows(() => buffer.fill(1, stream), ReferenceError, "a graph allocates it");
      assertThrows(() => buffer.free(stream), ReferenceError, "a graph allocates it");
    }
    // Another graph can use and free what this one allocates, when it exists.
    using other = gpu.createGraph();
    other.addFree(kept.buffer, { dependencies: [other.addCopy(kept.buffer, x)] });
    using otherExec = other.instantiate();
    assertThrows(() => otherExec.launch(stream), ReferenceError, "that does not exist now: a graph allocates it");
    using exec = graph.instantiate({ autoFreeOnLaunch: true });
    exec.launch(stream);
    exec.launch(stream);
    assertEquals((await kept.buffer.read(Float32Array, { stream }))[0], 7);
    assertThrows(() => scratch.buffer.fill(1, stream), ReferenceError, "exists only within a launch");
    otherExec.launch(stream);
    assertEquals((await x.toTypedArray({ stream }))[0], 7);
    assertThrows(() => otherExec.launch(stream), ReferenceError, "does not exist now: another graph has freed it");
    assertThrows(() => kept.buffer.fill(1, stream), ReferenceError, "another graph has freed it");
    exec.launch(stream);
    kept.buffer.free(stream);
    assertThrows(() => otherExec.launch(stream), ReferenceError, "does not exist now: it was freed");
    for (const change of [() => copied.remove(), () => graph.removeDependency(filled, copied), () => graph.clone()]) {
      assertEquals((assertThrows(change) as CudaError).code, "cudaErrorNotSupported");
    }
  },
);

testOnEachDriver("a graph that allocates is moved into another one", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool, y, graph, first } = place;
  using inner = gpu.createGraph();
  const { node, buffer } = inner.addAllocation(pool, 4 * length);
  inner.addCopy(buffer, y, { dependencies: [inner.addFill(buffer.as(Float32Array), 5, { dependencies: [node] })] });
  {
    using _exec = inner.instantiate();
    const error = assertThrows(() => graph.addGraph(inner)) as CudaError;
    assertMatch(error.message, /cudaErrorNotSupported: .*dispose of its executable graphs/);
  }
  graph.addGraph(inner);
  assertThrows(() => inner.nodes, ReferenceError, "it was moved into another graph");
  assertThrows(() => node.unsafeHandle, ReferenceError, "it was moved into another graph");
  assertEquals(graph.allocations, [buffer]);
  assertEquals(await first(graph), 5);
  buffer.free(stream);
});

testOnEachDriver("names are in the description", (cuda) => {
  using place = placeIn(cuda);
  const { x, graph } = place;
  graph.addFill(x, 1);
  assert(!/xlabel/.test(graph.toDot()));
  graph.addFill(x, 2, { name: 'two "and" \\' });
  for (const verbose of [false, true]) {
    assertMatch(graph.toDot({ verbose }), /"\w*node_\d+" \[xlabel="two \\"and\\" \\\\"\];\n}/);
  }
});

testOnEachDriver("what cannot be added is refused, and the graph is as before", (cuda, { open }) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool, saxpy, x, y, graph } = place;
  using other = gpu.createGraph();
  const foreign = other.addEmpty();
  using shared = gpu.createPool({ handleType: "posix-fd" });
  using interprocess = gpu.createEvent({ interprocess: true });
  using another = new CudaObject(new Session(open()));
  using anotherStream = another.device(0).createStream();
  using anotherPool = another.device(0).createPool();
  using anotherBuffer = anotherPool.allocate(256, anotherStream);
  using temporary = pool.allocate(256, stream);
  temporary.free(stream);
  const refused: readonly (readonly [call: () => unknown, message: RegExp])[] = [
    [() => graph.addEmpty({ dependencies: [foreign] }), /^Cannot use the empty, which is a node of another graph/],
    [() => graph.addDependency(foreign, foreign), /node of another graph/],
    [() => graph.addKernel(saxpy, { ...shape, stream } as never, 1, 1, x, y), /a node has no stream/],
    [() => graph.addKernel(saxpy, shape, 1, 1, x), /it has 4 parameters/],
    [() => graph.addKernel(saxpy, { grid: 1, block: 5000 }, 1, 1, x, y), /cudaErrorInvalidValue .*maxThreadsPerBlock/],
    [() => graph.addCopy(new Float64Array(4), x), /array of Float32Array elements/],
    [() => graph.addCopy(new Float32Array(length + 1), x), /it has 256 bytes/],
    [() => graph.addCopy(new Float32Array(0), x), /there is nothing to copy/],
    [() => graph.addCopy(x.subarray(0, 8), x.subarray(4, 12)), /they overlap/],
    [() => graph.addCopy(x, new Float32Array(length) as never), /copy to a HostBuffer, and look into its buffer/],
    [() => graph.addCopy(temporary, x), /it was freed/],
    [() => graph.addCopy(anotherBuffer, x), /another Cuda object/],
    [() => graph.addFill(x, 1n), /give a number/],
    [() => graph.addFill(temporary, 256), /a byte is a whole number/],
    [() => graph.addRecord(interprocess), /that other processes can open/],
    [() => graph.addGraph(graph), /cudaErrorInvalidValue: a graph cannot be a part of itself/],
    [() => graph.addAllocation(shared, 4), /cudaErrorNotSupported: a graph's memory cannot be shared/],
    [() => graph.addAllocation(anotherPool, 4), /another Cuda object/],
    [() => graph.addFree(x), /cudaErrorInvalidValue: the buffer is not a graph's/],
    [() => graph.addEmpty({ name: 5 } as never), /give a string/],
    [() => graph.addEmpty({ after: [] } as never), /the option "after"/],
  ];
  for (const [call, message] of refused) {
    const error = assertThrows(call, String(message)) as Error;
    assertMatch(error.message, message, error.stack);
  }
  assertEquals(graph.nodes, []);
  graph[Symbol.dispose]();
  assertThrows(() => graph.addEmpty(), ReferenceError, "it was disposed");
});
