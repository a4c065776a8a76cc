/** Tests of what can be changed in an executable graph: named arguments, and the parameters of single nodes. */
import { assertEquals, assertMatch, assertStrictEquals, assertThrows } from "@std/assert";
import { ptx } from "../../../kernels/saxpy.ts";
import {
  type Cuda,
  type CudaDevice,
  CudaError,
  type CudaGraphExec,
  type CudaKernel,
  type CudaStream,
  type DeviceArray,
  type GraphArgument,
  type MemoryPool,
  struct,
} from "../../../mod.ts";
import { intercept } from "../../../src/driver_layers.ts";
import { cudaErrorNumbers } from "../../../src/support/errors.ts";
import { Cuda as CudaObject } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

const length = 64;

interface Place {
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly pool: MemoryPool;
  readonly saxpy: CudaKernel;
  /** Allocates an array whose elements are all `value`. */
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
    array: (value) => stack.use(pool.allocateArray(new Float32Array(length).fill(value), stream)),
    first: async (array, index = 0) => (await array.toTypedArray({ stream }))[index]!,
    [Symbol.dispose]: () => stack.dispose(),
  };
}

testOnEachDriver("a number and buffers are changed in all nodes that use them", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, saxpy, array, first } = place;
  const [x, y, another, target] = [array(1), array(0), array(10), array(100)];
  using graph = stream.capture(({ arguments: { a } }) => {
    for (let step = 0; step < 20; step++) saxpy.launch({ grid: 1, block: length, stream }, length, a, x, y);
  }, { arguments: { a: 2.5, x, y } });
  using exec = graph.instantiate();
  exec.launch(stream);
  assertEquals(await first(y), 50);
  exec.update({ a: 0.5 });
  exec.launch(stream);
  assertEquals(await first(y), 60);
  exec.update({ x: another });
  exec.launch(stream);
  assertEquals(await first(y), 160);
  exec.update({ y: target, a: 1 });
  exec.launch(stream);
  assertEquals([await first(y), await first(target)], [160, 300]);
  exec.update({});
  exec.update({ a: undefined! });
  exec.update({ x, y, a: 2.5 });
  exec.launch(stream);
  assertEquals([await first(y), await first(target)], [210, 300]);
});

testOnEachDriver("parts of buffers, copies, fills and page-locked memory follow their argument", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, saxpy, array } = place;
  const [x, y, other, another] = [array(1), array(2), array(3), array(4)];
  using host = cuda.allocateHost(4 * length);
  using second = cuda.allocateHost(4 * length);
  const views = [host, second].map(({ buffer }) => new Float32Array(buffer).fill(5));
  views[1]!.fill(7);
  const half = length / 2;
  using graph = stream.capture(() => {
    x.copyFrom(host, stream);
    x.subarray(half).fill(9, stream);
    y.subarray(half).copyFrom(x.subarray(half), stream);
    saxpy.launch({ grid: 1, block: half, stream }, half, 1, x.subarray(half), y.subarray(half));
    y.copyTo(host, stream);
  }, { arguments: { x, y, host } });
  using exec = graph.instantiate();
  exec.launch(stream);
  await stream.finished();
  assertEquals([views[0]![0], views[0]![half]], [2, 18]);
  exec.update({ x: other });
  views[0]!.fill(6);
  exec.launch(stream);
  await stream.finished();
  assertEquals([views[0]![0], views[0]![half]], [2, 18]);
  assertEquals(await Promise.all([x, other].map((array) => place.first(array))), [5, 6]);
  exec.update({ host: second, y: another });
  exec.launch(stream);
  await stream.finished();
  assertEquals([views[0]![0], views[1]![0], views[1]![half]], [2, 4, 18]);
  assertEquals([await place.first(other), await place.first(other, half)], [7, 9]);
});

testOnEachDriver("an update that is refused changes nothing", async (cuda, { open }) => {
  using place = placeIn(cuda);
  const { stream, pool, saxpy, array, first } = place;
  const [x, y, another] = [array(1), array(0), array(10)];
  using graph = stream.capture(({ arguments: { n, a } }) => {
    x.subarray(0, 2).fill(3, stream);
    saxpy.launch({ grid: 1, block: length, stream }, n, a, x, y);
    y.copyFrom(x, stream);
    saxpy.launch({ grid: 1, block: length, stream }, n, a, x, y);
  }, { arguments: { n: length, a: 2, x, y, unused: 5, rest: array(1) } });
  using exec = graph.instantiate();
  using short = pool.allocateArray(Float32Array, length - 1, stream);
  using integers = pool.allocateArray(Int32Array, length, stream);
  using host = cuda.allocateHost(4 * length);
  const freed = pool.allocateArray(Float32Array, length, stream);
  freed.free();
  using foreign = new CudaObject(new Session(open()));
  using foreignStream = foreign.device(0).createStream();
  using foreignArray = foreign.device(0).defaultPool.allocateArray(Float32Array, length, foreignStream);
  const refused: [values: Record<string, unknown>, kind: typeof TypeError | typeof RangeError, message: RegExp][] = [
    [
      { a: 1, b: 2 },
      TypeError,
      /^Cannot update the argument "b" of a graph: its arguments are n, a, x, y, unused, rest$/,
    ],
    [{ x: another, a: "1" }, TypeError, /^Cannot update the argument "a" to "1": give a number$/],
    [{ a: 1n }, TypeError, /to 1n: give a number$/],
    [{ a: null }, TypeError, /to null: give a number$/],
    [
      { x: another, n: -0.5 },
      RangeError,
      /^Cannot update the argument "n" to -0.5: it is parameter 0 \(.32\) of saxpy, and it takes a whole number$/,
    ],
    [{ x: another, n: 2 ** 32 }, RangeError, /it takes a whole number from/],
    [
      { a: 1, x: short },
      RangeError,
      /^Cannot update the argument "x" to 252 bytes: the graph was captured with 256, and may use all of them$/,
    ],
    [
      { x: integers },
      TypeError,
      /^Cannot update the argument "x" to an array of Int32Array elements: give an array of Float32Array elements$/,
    ],
    [{ x: pool }, TypeError, /to a MemoryPool: give an array of Float32Array elements$/],
    [{ x: host }, TypeError, /to a HostBuffer: give an array of Float32Array elements$/],
    [
      { x: new Float32Array(length) },
      TypeError,
      /give an array of Float32Array elements; copy it to a buffer, and give that$/,
    ],
    [{ x: foreignArray }, TypeError, /another Cuda object/],
    [
      { unused: 6 },
      TypeError,
      /^Cannot update the argument "unused" of a graph: no launch of the capture was given arguments.unused, which/,
    ],
    [
      { rest: another },
      TypeError,
      /: no kernel, copy or fill of the capture was given the buffer or a part of it; in a struct/,
    ],
  ];
  for (const [values, kind, message] of refused) {
    assertMatch(assertThrows(() => exec.update(values), kind).message, message);
  }
  assertThrows(() => exec.update({ a: 1, x: freed }), ReferenceError, "it was freed");
  // What was refused is not a part of a later update.
  exec.update({ y });
  for (const wrong of [undefined, null, 5, [1], exec, x]) {
    assertThrows(
      () => exec.update(wrong as never),
      TypeError,
      "give its new arguments, as in { a: 0.5, x }, or a CudaGraph",
    );
  }
  exec.launch(stream);
  assertEquals([await first(y), await first(y, 2)], [9, 3]);
  // What the update would have added is not the graph's.
  another.free();
  exec.launch(stream);
  await stream.finished();
});

testOnEachDriver("if CUDA refuses one node of an update, the others are set back", async (_, { open }) => {
  const driver = open();
  let refusedCall = Infinity;
  const refusing = intercept(driver, {
    graphExecKernelNodeSetParams(...parameters) {
      refusedCall--;
      if (refusedCall === 0) {
        throw new CudaError(cudaErrorNumbers.cudaErrorInvalidValue, "cudaGraphExecKernelNodeSetParams");
      }
      driver.graphExecKernelNodeSetParams(...parameters);
    },
    graphExecMemcpyNodeSetParams() {
      throw new CudaError(cudaErrorNumbers.cudaErrorInvalidValue, "cudaGraphExecMemcpyNodeSetParams");
    },
  });
  using cuda = new CudaObject(new Session(refusing));
  using place = placeIn(cuda);
  const { stream, saxpy, array, first } = place;
  const [x, y, another, target] = [array(1), array(0), array(10), array(0)];
  using graph = stream.capture(({ arguments: { a } }) => {
    x.subarray(0, 2).fill(3, stream);
    for (let step = 0; step < 4; step++) saxpy.launch({ grid: 1, block: length, stream }, length, a, x, y);
    target.copyFrom(y, stream);
  }, { arguments: { a: 2, x, y } });
  using exec = graph.instantiate();
  exec.update({ a: 1 });
  refusedCall = 3;
  assertMatch(
    assertThrows(() => exec.update({ a: 7, x: another }), CudaError).message,
    /^Cannot change the kernel saxpy in a graph of device 0: cudaGraphExecKernelNodeSetParams failed: cudaErrorInvalidValue/,
  );
  refusedCall = Infinity;
  exec.launch(stream);
  assertEquals([await first(y), await first(y, 2)], [12, 4]);
  assertMatch(
    assertThrows(() => exec.update({ a: 7, y: another }), CudaError).message,
    /^Cannot change the copy of 256 bytes in a graph of device 0: .*such as from pool to pool/,
  );
  exec.launch(stream);
  assertEquals([await first(y), await first(another)], [24, 10]);
  another.free();
  exec.launch(stream);
  await stream.finished();
});

testOnEachDriver("launches that were enqueued keep their arguments", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, saxpy, array, first } = place;
  const [x, another, y] = [array(1), array(100), array(0)];
  using graph = stream.capture(({ arguments: { a } }) => {
    saxpy.launch({ grid: 1, block: length, stream }, length, a, x, y);
  }, { arguments: { a: 1, x } });
  using exec = graph.instantiate();
  using other = gpu.createStream({ nonBlocking: true });
  other.wait(stream);
  let sum = 0;
  for (let step = 1; step <= 50; step++) {
    const isOther = step % 3 === 0;
    exec.update({ a: step, x: isOther ? another : x });
    exec.launch(step % 2 === 0 ? stream : other);
    sum += step * (isOther ? 100 : 1);
  }
  exec.update({ a: 0 });
  stream.wait(other);
  assertEquals(await first(y), sum);
});

testOnEachDriver("new memory becomes the graph's, and memory that was replaced is no longer", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, pool, saxpy, array, first } = place;
  const x = pool.allocateArray(new Float32Array(length).fill(1), stream);
  const another = pool.allocateArray(new Float32Array(length).fill(2), stream);
  const y = array(0);
  using host = cuda.allocateHost(4 * length);
  const replaced = cuda.allocateHost(4 * length);
  using graph = stream.capture(() => {
    saxpy.launch({ grid: 1, block: length, stream }, length, 1, x, y);
    saxpy.launch({ grid: 1, block: length, stream }, length, 1, x.subarray(0), y);
    y.copyTo(replaced, stream);
  }, { arguments: { x, host: replaced } });
  using exec = graph.instantiate();
  exec.launch(stream);
  exec.update({ x: another, host });
  exec.launch(stream);
  x.free();
  replaced[Symbol.dispose]();
  exec.launch(stream);
  assertEquals(await first(y), 10);
  another.free();
  assertThrows(
    () => exec.launch(stream),
    ReferenceError,
    "Cannot launch the graph: it uses a buffer of 256 bytes that was freed",
  );
  assertThrows(() => exec.upload(stream), ReferenceError, "that was freed");
  assertThrows(() => graph.instantiate(), ReferenceError, "that was freed");
  exec.update({ x: array(5) });
  exec.upload(stream);
  exec.launch(stream);
  assertEquals(await first(y), 20);
  assertEquals(new Float32Array(host.buffer)[0], 20);
  exec[Symbol.dispose]();
  assertThrows(() => exec.update({ x: y }), ReferenceError, "it was disposed");
});

testOnEachDriver("a copy whose other end was freed is changed together with it", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, pool, saxpy, array, first } = place;
  const [x, z] = [array(1), array(0)];
  const y = pool.allocateArray(new Float32Array(length), stream);
  using graph = stream.capture(() => {
    saxpy.launch({ grid: 1, block: length, stream }, length, 1, x, x.as(Float32Array));
    y.copyFrom(x, stream);
  }, { arguments: { x, y } });
  using exec = graph.instantiate();
  y.free();
  assertThrows(
    () => exec.update({ x: array(5) }),
    ReferenceError,
    "Cannot change the copy of 256 bytes in a graph: it uses a buffer of 256 bytes that was freed; replace that in the",
  );
  exec.update({ x: array(7), y: z });
  exec.launch(stream);
  assertEquals([await first(z), await first(x)], [14, 1]);
  exec.update({ x });
  exec.launch(stream);
  assertEquals([await first(z), await first(x)], [2, 2]);
});

testOnEachDriver("executable graphs of one graph and of its clone have arguments of their own", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, saxpy, array, first } = place;
  const [x, y, ten] = [array(1), array(0), array(10)];
  const graph = stream.capture(({ arguments: { a } }) => {
    saxpy.launch({ grid: 1, block: length, stream }, length, a, x, y);
  }, { arguments: { a: 1, x } });
  using one = graph.instantiate();
  one.update({ a: 2 });
  using two = graph.instantiate();
  using clone = graph.clone();
  using three = clone.instantiate();
  three.update({ a: 3, x: ten });
  graph[Symbol.dispose]();
  two.update({ a: 4 });
  for (const exec of [one, two, three]) exec.launch(stream);
  assertEquals(await first(y), 36);
});

testOnEachDriver("after an update by a graph, the arguments are those of that graph", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, saxpy, array, first } = place;
  const [x, ten, y, z] = [array(1), array(10), array(0), array(0)];
  const capture = (a: number, from: DeviceArray<Float32Array>, to: DeviceArray<Float32Array>) =>
    stream.capture(({ arguments: bound }) => {
      to.fill(0, stream);
      saxpy.launch({ grid: 1, block: length, stream }, length, bound.a, from, to);
    }, { arguments: { a, x: from } });
  using graph = capture(1, x, y);
  using exec = graph.instantiate();
  using other = capture(2, ten, z);
  exec.update(other);
  exec.update({ a: 3 });
  exec.launch(stream);
  assertEquals([await first(y), await first(z)], [0, 30]);
  exec.update({ x });
  exec.launch(stream);
  assertEquals(await first(z), 3);
  using plain = stream.capture(() => {
    y.fill(0, stream);
    saxpy.launch({ grid: 1, block: length, stream }, length, 5, x, y);
  });
  exec.update(plain);
  assertThrows(() => exec.update({ a: 1 }), TypeError, "it was captured without arguments; give them as in");
  exec.update(graph);
  exec.update({ a: 8 });
  exec.launch(stream);
  assertEquals(await first(y), 8);
  graph[Symbol.dispose]();
  exec.update(other);
  assertThrows(
    () => exec.update({ a: 1 }),
    TypeError,
    'Cannot update the argument "a" of the graph: it was updated by',
  );
  exec.launch(stream);
});

testOnEachDriver("arguments are given to launches of their own capture only, and as they are", (cuda) => {
  using place = placeIn(cuda);
  const { stream, pool, saxpy, array } = place;
  const [x, y] = [array(1), array(0)];
  let kept: GraphArgument<number>;
  using _graph = stream.capture((capture) => {
    const { a } = capture.arguments;
    kept = a;
    assertStrictEquals(capture.arguments.x, x);
    assertEquals([a.name, a.value], ["a", 2]);
    assertThrows(() => saxpy.launch({ grid: 1, block: 1, stream }, a, 1.5, x, "y" as never), TypeError, "parameter 3");
    assertThrows(() => saxpy.launch({ grid: 1, block: 1 }, 1, a, x, y), TypeError, 'the graph\'s argument "a"');
    assertThrows(() => struct({ scale: "f32" })({ scale: a as never }), TypeError);
    assertThrows(() => y.fill(a as never, stream), TypeError);
    saxpy.launch({ grid: 1, block: length, stream }, length, a, x, y);
  }, { arguments: { a: 2, x } });
  assertThrows(
    () => saxpy.launch({ grid: 1, block: 1, stream }, 1, kept, x, y),
    TypeError,
    'Cannot pass the graph\'s argument "a" as parameter 1 of saxpy',
  );
  assertThrows(
    () => stream.capture(() => saxpy.launch({ grid: 1, block: 1, stream }, 1, kept, x, y)),
    TypeError,
    "it is for launches in the capture that it comes from",
  );
  const capture = (values: unknown) => () => stream.capture(() => {}, { arguments: values as never });
  assertThrows(capture({ x, part: x.subarray(4) }), TypeError, 'the arguments "x" and "part": they overlap');
  using host = cuda.allocateHost(64);
  assertThrows(capture({ host, same: host }), TypeError, "they overlap");
  for (const value of ["text", null, undefined, {}, new Float32Array(4), kept!, pool]) {
    assertThrows(capture({ value }), TypeError, 'as its argument "value": an argument is a buffer');
  }
  for (const values of [5, null, x, [1], kept!]) {
    assertThrows(capture(values), TypeError, "as its arguments: give an object");
  }
  const freed = pool.allocate(64, stream);
  freed.free();
  assertThrows(capture({ freed }), ReferenceError, "it was freed");
  assertEquals(stream.isCapturing, false);
});

testOnEachDriver("captures into one graph, and into a body of it, add arguments", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, saxpy, array, first } = place;
  const [x, y, five] = [array(1), array(0), array(5)];
  const launch = { grid: 1, block: length, stream };
  using graph = gpu.createGraph();
  const fill = graph.addFill(y, 1);
  const same = stream.capture(({ arguments: { a } }) => saxpy.launch(launch, length, a, x, y), {
    into: graph,
    dependencies: [fill],
    arguments: { a: 2, x },
  });
  assertStrictEquals<unknown>(same, graph);
  const into = (name: string) => () => {
    stream.capture(() => {
      throw new Error("dropped");
    }, { into: graph, arguments: { [name]: 1 } });
  };
  assertThrows(into("a"), TypeError, 'an argument "a" into a graph that has one already: use another name');
  assertThrows(into("c"), Error, "dropped");
  const condition = graph.createCondition({ defaultValue: 1 });
  const conditional = graph.addConditional(condition, { type: "if", dependencies: [graph.nodes[1]!] });
  stream.capture(({ arguments: { b } }) => saxpy.launch(launch, length, b, x, y), {
    into: conditional.bodies[0]!,
    arguments: { b: 10 },
  });
  using exec = graph.instantiate() as CudaGraphExec<{ a: number; b: number; x: DeviceArray<Float32Array> }>;
  exec.launch(stream);
  assertEquals(await first(y), 13);
  assertThrows(() => exec.update({ c: 1 } as never), TypeError, "its arguments are a, x, b");
  exec.update({ a: 3, b: 100, x: five });
  exec.launch(stream);
  assertEquals(await first(y), 516);
});

testOnEachDriver("an argument that something uses which CUDA does not change is not updated in part", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool, saxpy, array, first } = place;
  const [x, y, another] = [array(1), array(0), array(10)];
  using words = pool.allocateArray(BigInt64Array, length, stream);
  using image = pool.allocatePitched(Float32Array, [8, 8], stream);
  using child = gpu.createGraph();
  child.addFill(y, 3);
  const use = (what: "rows" | "graph" | "wide fill") =>
    stream.capture((capture) => {
      saxpy.launch({ grid: 1, block: length, stream }, length, 1, x, y);
      if (what === "rows") image.copyFrom(y.pitched(Float32Array, [8, 8]), stream);
      if (what === "graph") capture.add((graph, dependencies) => graph.addGraph(child, { dependencies }));
      if (what === "wide fill") {
        capture.add((graph, dependencies) => graph.addFill(words, 1n << 40n, { dependencies }));
      }
    }, { arguments: { x, y, words } });
  const refused = {
    "rows": ["y", "a copy of rows"],
    "graph": ["y", "a graph that"],
    "wide fill": ["words", "a graph"],
  };
  for (const what of ["rows", "graph", "wide fill"] as const) {
    using graph = use(what);
    using exec = graph.instantiate();
    const [name, why] = refused[what] as [string, string];
    const values = { x: another, [name]: name === "y" ? another : words };
    const error = assertThrows(() => exec.update(values as never)) as CudaError;
    assertEquals(error.code, "cudaErrorInvalidValue");
    assertMatch(
      error.message,
      new RegExp(`^Cannot update the argument "${name}" of a graph: .*: ${why}.* uses it, and`),
    );
    y.fill(0, stream);
    exec.launch(stream);
    exec.update({ x: another });
    exec.update({ x });
    assertEquals(await first(y), what === "graph" ? 3 : 1);
  }
  assertThrows(() => stream.capture(() => {}, { arguments: { image: image as never } }), TypeError, "property buffer");
  using rows = stream.capture(() => image.copyFrom(y.pitched(Float32Array, [8, 8]), stream));
  using exec = rows.instantiate();
  const error = assertThrows(() => exec.setParameters(rows.nodes[0]!, { source: another })) as CudaError;
  assertMatch(error.message, /^Cannot change the copy.*cudaErrorInvalidValue.*CUDA changes no copy of rows/);
});

testOnEachDriver("parts of one registered buffer are arguments of their own", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, array, first } = place;
  const shared = new SharedArrayBuffer(8192);
  new Float32Array(shared).fill(1).fill(2, 1024);
  using begin = cuda.registerHost(new Uint8Array(shared, 0, 4096));
  using end = cuda.registerHost(new Uint8Array(shared, 4096));
  const [x, y] = [array(0), array(0)];
  const part = 4 * length;
  using graph = stream.capture(() => {
    x.copyFrom(new Float32Array(shared, 0, length), stream);
    y.copyFrom(new Float32Array(shared, 4096, length), stream);
  }, { arguments: { begin, end } });
  using other = cuda.allocateHost(4096);
  new Float32Array(other.buffer, 0, part / 4).fill(7);
  using exec = graph.instantiate();
  exec.update({ end: other });
  exec.launch(stream);
  assertEquals([await first(x), await first(y)], [1, 7]);
  end[Symbol.dispose]();
  exec.launch(stream);
  begin[Symbol.dispose]();
  assertThrows(() => exec.launch(stream), ReferenceError, "HostBuffer that was freed");
});
