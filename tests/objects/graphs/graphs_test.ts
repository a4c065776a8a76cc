/** Tests of graphs and executable graphs: updates, copies, descriptions, and the memory that a device keeps for them. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
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

interface Place {
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly pool: MemoryPool;
  readonly saxpy: CudaKernel;
  readonly x: DeviceArray<Float32Array>;
  readonly y: DeviceArray<Float32Array>;
  /** A graph that fills `y` with 1 and adds `a` times the values of `from`. */
  capture(a: number, from: DeviceArray<Float32Array>): CudaGraph;
  /** Launches, and resolves with the first element of `y`. */
  first(launch: () => void): Promise<number>;
}

function placeIn(cuda: Cuda): Place & Disposable {
  const gpu = cuda.device(0);
  const stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const pool = stack.use(gpu.createPool());
  const x = stack.use(pool.allocateArray(Float32Array, length, stream));
  const y = stack.use(pool.allocateArray(Float32Array, length, stream));
  const saxpy = stack.use(gpu.loadModule(ptx)).kernel("saxpy");
  x.fill(1);
  y.fill(0);
  return {
    ...{ gpu, stream, pool, saxpy, x, y },
    capture: (a, from) =>
      stream.capture(() => {
        y.fill(1, stream);
        saxpy.launch({ grid: 1, block: length, stream }, length, a, from, y);
      }),
    async first(launch) {
      launch();
      return (await y.toTypedArray({ stream }))[0]!;
    },
    [Symbol.dispose]: () => stack.dispose(),
  };
}

testOnEachDriver("an update takes all parameters of a graph of the same shape", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, pool, x, capture, first } = place;
  const another = pool.allocateArray(Float32Array, length, stream);
  another.fill(10);
  using graph = capture(2, x);
  using exec = graph.instantiate();
  assertEquals(await first(() => exec.launch(stream)), 3);
  exec.launch(stream);
  {
    using changed = capture(0.5, another);
    exec.update(changed);
  }
  assertEquals(await first(() => exec.launch(stream)), 6);
  // The graph no longer uses what only the update used, and can be launched again after another update.
  another.free();
  assertThrows(() => exec.launch(stream), ReferenceError, "that was freed");
  exec.update(graph);
  assertEquals(await first(() => exec.launch(stream)), 3);
});

testOnEachDriver(
  "an update by a graph of another shape changes nothing, and says what differs",
  async (cuda, { open }) => {
    using place = placeIn(cuda);
    const { stream, y, x, capture, first } = place;
    using graph = capture(2, x);
    using exec = graph.instantiate();
    using larger = stream.capture(() => y.fill(1, stream));
    const error = assertThrows(() => exec.update(larger)) as CudaError;
    assertEquals(error.code, "cudaErrorGraphExecUpdateFailure");
    assertMatch(error.message, /^Cannot update a graph of device 0: .*graphs.*; instantiate the other graph instead$/);
    assertThrows(() => exec.update(exec as never), TypeError, "Cannot update a graph by a CudaGraphExec");
    using other = new CudaObject(new Session(open()));
    using foreignStream = other.device(0).createStream();
    using foreign = foreignStream.capture(() => {});
    assertThrows(() => exec.update(foreign), TypeError, "another Cuda object");
    assertEquals(await first(() => exec.launch(stream)), 3);
  },
);

testOnEachDriver("a node that is disabled is left out, and those behind it run", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, x, capture, first } = place;
  using graph = capture(2, x);
  using exec = graph.instantiate();
  const kernel = graph.nodes.find(({ type }) => type === "kernel")!;
  assert(exec.isEnabled(kernel));
  exec.setEnabled(kernel, false);
  assert(!exec.isEnabled(kernel));
  assertEquals(await first(() => exec.launch(stream)), 1);
  exec.setEnabled(kernel, true);
  assertEquals(await first(() => exec.launch(stream)), 3);
  using other = capture(2, x);
  assertThrows(() => exec.setEnabled(other.nodes[0]!, false), TypeError, "give one of graph.nodes");
  assertThrows(() => exec.setEnabled(kernel, 1 as never), TypeError, "whether a node is enabled");
});

testOnEachDriver("a copy of a graph outlives the graph", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, pool, x, capture, first } = place;
  const graph = capture(2, x);
  using copy = graph.clone();
  graph[Symbol.dispose]();
  assertEquals(copy.nodes.map(({ type }) => type).sort(), ["fill", "kernel"]);
  using exec = copy.instantiate();
  assertEquals(await first(() => exec.launch(stream)), 3);
  using allocating = stream.capture(() => pool.allocate(64, stream).free());
  const error = assertThrows(() => allocating.clone()) as CudaError;
  assertEquals(error.code, "cudaErrorNotSupported");
  assertMatch(error.message, /it allocates memory: only one executable graph can have it/);
});

testOnEachDriver("a graph is described in the language DOT", (cuda) => {
  using place = placeIn(cuda);
  using graph = place.capture(2, place.x);
  for (const verbose of [false, true]) {
    const text = graph.toDot({ verbose });
    assertMatch(text, /^digraph /);
    assertMatch(text, /->/);
  }
  graph[Symbol.dispose]();
  assertThrows(() => graph.toDot(), ReferenceError, "it was disposed");
});

testOnEachDriver("a device says how much memory graphs have reserved, and gives it back", (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool } = place;
  const byteLength = 4 * 2 ** 20;
  {
    using graph = stream.capture(() => {
      using scratch = pool.allocate(byteLength, stream);
      scratch.fill(1, stream);
    });
    using exec = graph.instantiate();
    exec.launch(stream);
    stream.synchronize();
    const { reserved, reservedHigh, usedHigh } = gpu.graphMemory.usage();
    assert(reserved >= byteLength && reservedHigh >= reserved && usedHigh >= byteLength);
  }
  stream.synchronize();
  gpu.graphMemory.trim();
  gpu.graphMemory.resetHigh();
  assertEquals(gpu.graphMemory.usage(), { reserved: 0, reservedHigh: 0, used: 0, usedHigh: 0 });
});

testOnEachDriver("launches of one graph on several streams run one after the other", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, saxpy, x, y } = place;
  using other = gpu.createStream({ nonBlocking: true });
  using graph = stream.capture(() => saxpy.launch({ grid: 1, block: length, stream }, length, 1, x, y));
  using exec = graph.instantiate();
  for (let launch = 0; launch < 50; launch++) exec.launch(launch % 2 === 0 ? stream : other);
  stream.wait(other);
  assertEquals((await y.toTypedArray({ stream }))[0], 50);
});
