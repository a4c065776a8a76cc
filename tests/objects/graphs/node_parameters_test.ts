/** Tests of the parameters of single nodes of an executable graph, and their changes. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../../kernels/fill.ts";
import { ptx } from "../../../kernels/saxpy.ts";
import type { Cuda, CudaDevice, CudaKernel, CudaStream, DeviceArray, GraphNode, MemoryPool } from "../../../mod.ts";
import { Cuda as CudaObject } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

const length = 64;

/** Stores the number of blocks, and of threads in a block. */
const shapePtx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry shape(.param .u64 out) {
  .reg .u32 %r<3>;
  .reg .u64 %a;
  ld.param.u64 %a, [out];
  mov.u32 %r0, %nctaid.x;
  mov.u32 %r1, %ntid.x;
  st.global.u32 [%a], %r0;
  st.global.u32 [%a+4], %r1;
  ret;
}`;

interface Place {
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly pool: MemoryPool;
  readonly saxpy: CudaKernel;
  array(value: number): DeviceArray<Float32Array>;
  first(array: DeviceArray<Float32Array>, index?: number): Promise<number>;
}

function placeIn(cuda: Cuda): Place & Disposable {
  const gpu = cuda.device(0);
  const stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const pool = stack.use(gpu.createPool());
  const saxpy = stack.use(gpu.loadModule(ptx)).kernel("saxpy");
  return {
    ...{ gpu, stream, pool, saxpy },
    array: (value) => stack.use(pool.allocateArray(Float32Array.from({ length }, () => value), stream)),
    first: async (array, index = 0) => (await array.toTypedArray({ stream }))[index]!,
    [Symbol.dispose]: () => stack.dispose(),
  };
}

testOnEachDriver("a kernel gets other arguments, another size and another kernel", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool, saxpy, array, first } = place;
  const [x, y] = [array(1), array(0)];
  const another = pool.allocateArray(new Float32Array(length).fill(10), stream);
  using graph = stream.capture(({ arguments: { a } }) => {
    saxpy.launch({ grid: 1, block: 32, stream }, length, a, x, y);
    saxpy.launch({ grid: 1, block: 32, stream }, length, a, x, y);
  }, { arguments: { a: 1, x } });
  const [node] = graph.nodes as [GraphNode];
  assertStrictEquals(node.kernel, saxpy);
  using exec = graph.instantiate();
  exec.update({ a: 2 });
  exec.launch(stream);
  assertEquals(await first(y), 4);
  exec.setParameters(node, { args: [length, 3, another, y], block: 8 });
  exec.launch(stream);
  assertEquals(await first(y), 36);
  // The node no longer follows the arguments.
  exec.update({ a: 1, x: array(100) });
  exec.launch(stream);
  assertEquals(await first(y), 166);
  const module = gpu.loadModule(fillPtx);
  assertThrows(
    () => exec.setParameters(node, { kernel: module.kernel("fill") }),
    TypeError,
    "Cannot change the kernel saxpy of a graph to fill without arguments: give its args",
  );
  exec.setParameters(node, { kernel: module.kernel("fill"), grid: 1, block: 1, args: [another, 4, 0] });
  module[Symbol.dispose]();
  exec.launch(stream);
  await stream.finished();
  assertEquals([await first(another), await first(y)], [0, 266]);
  another.free();
  assertThrows(() => exec.launch(stream), ReferenceError, "that was freed");
  exec.setParameters(node, { kernel: saxpy, args: [length, 0, x, y], block: 32 });
  exec.launch(stream);
  assertEquals(await first(y), 366);
});

testOnEachDriver("a kernel keeps of its size what a change leaves out", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool } = place;
  using shape = pool.allocateArray(Uint32Array, 2, stream);
  using module = gpu.loadModule(shapePtx);
  using graph = stream.capture(() => module.kernel("shape").launch({ grid: 3, block: 32, stream }, shape));
  using exec = graph.instantiate();
  const sizes = async () => {
    exec.launch(stream);
    return [...await shape.toTypedArray({ stream })];
  };
  const [node] = graph.nodes as [GraphNode];
  exec.setParameters(node, { grid: 5 });
  assertEquals(await sizes(), [5, 32]);
  exec.setParameters(node, { block: [4, 2], sharedMemoryBytes: 64 });
  assertEquals(await sizes(), [5, 4]);
  assertThrows(() => exec.setParameters(node, { grid: 7, block: 4096 }), "cudaErrorInvalidValue");
  exec.setParameters(node, {});
  assertEquals(await sizes(), [5, 4]);
});

testOnEachDriver("copies, fills, records and waits get other memory, values and events", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, array, first } = place;
  const [x, y, other] = [array(1), array(2), array(3)];
  using host = cuda.allocateHost(4 * length);
  using second = cuda.allocateHost(4 * length);
  using event = gpu.createEvent();
  using another = gpu.createEvent();
  using graph = stream.capture(() => {
    stream.wait(event, { external: true });
    x.fill(5, stream);
    y.copyFrom(x, stream);
    y.copyTo(host, stream);
    stream.record(event, { external: true });
  }, { arguments: { x, y } });
  const [wait, fill, copy, read, record] = graph.nodes as [GraphNode, GraphNode, GraphNode, GraphNode, GraphNode];
  using exec = graph.instantiate();
  exec.setParameters(fill, { target: other, value: 7 });
  exec.setParameters(copy, { source: other });
  exec.setParameters(read, { target: second });
  exec.setParameters(record, { event: another });
  exec.setParameters(wait, { event: another });
  exec.launch(stream);
  stream.wait(another);
  await another.finished();
  await stream.finished();
  assertEquals([await first(x), await first(y), await first(other)], [1, 7, 7]);
  assertEquals([host, second].map(({ buffer }) => new Float32Array(buffer)[0]), [0, 7]);
  // What was set follows its argument no more; what was not does.
  const target = array(0);
  exec.update({ x: array(50), y: target });
  exec.launch(stream);
  await stream.finished();
  assertEquals([await first(target), new Float32Array(second.buffer)[0]], [7, 7]);
  exec.setParameters(fill, { target: other.subarray(0), value: 9 });
  exec.setParameters(copy, {});
  exec.launch(stream);
  await stream.finished();
  assertEquals(new Float32Array(second.buffer)[0], 9);
});

testOnEachDriver("parameters that do not fit a node change nothing", async (cuda, { open }) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool, saxpy, array, first } = place;
  const [x, y] = [array(1), array(2)];
  using short = pool.allocateArray(Float32Array, length - 1, stream);
  using bytes = pool.allocate(4 * length, stream);
  using words = pool.allocateArray(BigInt64Array, length, stream);
  using shared = gpu.createEvent({ interprocess: true });
  using event = gpu.createEvent();
  using other = gpu.createStream({ nonBlocking: true });
  using graph = stream.capture(() => {
    saxpy.launch({ grid: 1, block: length, stream }, length, 1, x, y);
    bytes.fill(1, stream);
    x.fill(1, stream);
    y.copyFrom(y.subarray(0, 1), { stream, byteOffset: 4 });
    stream.record(event, { external: true });
    other.wait(stream);
    bytes.fill(2, other);
    stream.wait(other);
  });
  const [kernel, byteFill, fill, copy, record] = graph.nodes as [GraphNode, GraphNode, GraphNode, GraphNode, GraphNode];
  using exec = graph.instantiate();
  using foreign = new CudaObject(new Session(open()));
  using foreignStream = foreign.device(0).createStream();
  using foreignArray = foreign.device(0).defaultPool.allocateArray(Float32Array, length, foreignStream);
  using foreignModule = foreign.device(0).loadModule(ptx);
  const foreignKernel = foreignModule.kernel("saxpy");
  const freed = pool.allocate(4 * length, stream);
  freed.free();
  type Kind = typeof TypeError | typeof RangeError | typeof ReferenceError;
  const refused: [node: GraphNode, parameters: unknown, kind: Kind, message: RegExp][] = [
    [kernel, { args: [length, 1, x] }, TypeError, /^Cannot launch saxpy with 3 arguments/],
    [kernel, { args: [length, "1", x, y] }, TypeError, /^Cannot pass a string as parameter 1/],
    [kernel, { args: 5 }, TypeError, /^Cannot use 5 as the args of a kernel: give an array/],
    [kernel, { args: [length, 1, foreignArray, y] }, TypeError, /another Cuda object/],
    [kernel, { args: [length, 1, freed, y] }, ReferenceError, /was freed/],
    [kernel, { kernel: foreignKernel, args: [length, 1, x, y] }, TypeError, /another Cuda object/],
    [kernel, { kernel: "saxpy" }, TypeError, /^Cannot change a kernel of a graph to a string: give a CudaKernel/],
    [kernel, { grid: 0 }, RangeError, /grid/],
    [kernel, { stream }, TypeError, /a node has no stream/],
    [kernel, { source: x }, TypeError, /with the option "source": there is no such option/],
    [kernel, undefined, TypeError, /Cannot change a kernel of a graph/],
    [byteFill, { value: 256 }, RangeError, /a byte is a whole number from 0 to 255/],
    [byteFill, { target: x, value: 2 }, TypeError, /to an element of 4 bytes: its elements have 1 byte, which stays/],
    [
      byteFill,
      { target: short },
      RangeError,
      /^Cannot use 252 bytes as the target of the fill of 256 bytes of a graph: it needs 256/,
    ],
    [byteFill, { target: cuda }, TypeError, /^Cannot fill a Cuda in a graph/],
    [fill, { value: 2 }, TypeError, /whose elements have 4 bytes, without its target/],
    [fill, { target: words, value: 1n << 40n }, TypeError, /to an element of 8 bytes: its elements have 4 bytes/],
    [fill, { target: freed }, ReferenceError, /was freed/],
    [copy, { source: new Float32Array(4) }, TypeError, /^Cannot use a Float32Array as the source of a copy/],
    [copy, { source: foreignArray }, TypeError, /another Cuda object/],
    [
      copy,
      { target: y },
      RangeError,
      /^Cannot change the copy of 4 bytes of a graph: its source and its target overlap/,
    ],
    [record, { event: shared }, TypeError, /that other processes can open/],
    [record, { event: stream }, TypeError, /Cannot use a CudaStream as an event/],
    [record, {}, TypeError, /as an event/],
  ];
  for (const [node, parameters, kind, message] of refused) {
    assertMatch(assertThrows(() => exec.setParameters(node, parameters as never), kind).message, message);
  }
  using clone = graph.clone();
  assertThrows(() => exec.setParameters(clone.nodes[0]!, {}), TypeError, "give one of graph.nodes");
  using byHand = gpu.createGraph();
  const empty = byHand.addEmpty({ name: "nothing" });
  using ofEmpty = byHand.instantiate();
  assertThrows(() => ofEmpty.setParameters(empty, {}), TypeError, "only kernels, copies, fills, records and waits");
  exec.launch(stream);
  await stream.finished();
  assertEquals([await first(y), await first(x)], [3, 1]);
  exec[Symbol.dispose]();
  assertThrows(() => exec.setParameters(kernel, { grid: 1 }), ReferenceError, "it was disposed");
});

testOnEachDriver("nodes that were added by hand, and nodes of a clone, are changed, too", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, saxpy, array, first } = place;
  const [x, y, ten] = [array(1), array(0), array(10)];
  using graph = gpu.createGraph();
  const fill = graph.addFill(y, 1);
  const kernel = graph.addKernel(saxpy, { grid: 1, block: length, dependencies: [fill] }, length, 1, x, y);
  using exec = graph.instantiate();
  exec.setParameters(kernel, { args: [length, 2, ten, y] });
  exec.setParameters(fill, { target: y, value: 3 });
  exec.launch(stream);
  assertEquals(await first(y), 23);
  using clone = graph.clone();
  using ofClone = clone.instantiate();
  const [, cloned] = clone.nodes;
  assertStrictEquals(cloned!.kernel, saxpy);
  ofClone.setParameters(cloned!, { args: [length, 5, ten, y] });
  ofClone.launch(stream);
  assertEquals(await first(y), 51);
  assert(exec.isEnabled(kernel));
});
