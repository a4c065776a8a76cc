/** Tests of conditional nodes, and of captures into graphs and into the bodies of such nodes. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertThrows } from "@std/assert";
import type {
  Cuda,
  CudaDevice,
  CudaError,
  CudaGraph,
  CudaModule,
  CudaStream,
  DeviceArray,
  GraphCapture,
  GraphCondition,
  GraphNode,
  MemoryPool,
} from "../../../mod.ts";
import { Cuda as CudaObject } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { type Kernels, ptx } from "./graph_kernels.ts";

const one = { grid: 1, block: 1 };

interface Place extends Disposable {
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly pool: MemoryPool;
  readonly kernel: CudaModule<Kernels>["kernel"];
  readonly cells: DeviceArray<Uint32Array>;
  readonly graph: CudaGraph;
  cell(index: number): DeviceArray<Uint32Array>;
  /** Adds a fill of a cell. */
  set(graph: CudaGraph, index: number, value: number, dependencies?: GraphNode[]): GraphNode;
  /** Instantiates the graph, and resolves with the cells after a launch for each list of first cells. */
  results(...starts: number[][]): Promise<number[][]>;
}

function placeIn(cuda: Cuda): Place {
  const gpu = cuda.device(0);
  const stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const pool = stack.use(gpu.createPool());
  const cells = stack.use(pool.allocateArray(Uint32Array, 8, stream));
  const module = stack.use(gpu.loadModule(ptx));
  const graph = stack.use(gpu.createGraph());
  const cell = (index: number) => cells.subarray(index, index + 1);
  return {
    ...{ gpu, stream, pool, cells, graph, cell },
    kernel: (name) => module.kernel(name),
    set: (graph, index, value, dependencies = []) => graph.addFill(cell(index), value, { dependencies }),
    async results(...starts) {
      using exec = graph.instantiate();
      const results: number[][] = [];
      for (const start of starts) {
        cells.copyFrom(Uint32Array.from([...start, ...Array(8 - start.length).fill(0)]), stream);
        exec.launch(stream);
        results.push([...await cells.toTypedArray({ stream })]);
      }
      return results;
    },
    [Symbol.dispose]: () => stack.dispose(),
  };
}

testOnEachDriver("kernels decide which bodies run, and how often", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, cells, graph, kernel, cell, set, results } = place;
  // Cell 0 chooses one of two bodies, cell 1 one of three or none, and cell 2 is how often a third one runs.
  const [choice, selection] = [graph.createCondition(), graph.createCondition()];
  const repeated = graph.createCondition({ defaultValue: 1 });
  const decided = [choice, selection].map((condition, index) =>
    graph.addKernel(kernel("decide"), one, condition, cell(index))
  );
  const either = graph.addConditional(choice, { type: "if", bodies: 2, dependencies: [decided[0]!] });
  either.bodies.forEach((body, index) => set(body, 3, 10 + index));
  const selected = graph.addConditional(selection, { type: "switch", bodies: 3, dependencies: [decided[1]!] });
  selected.bodies.forEach((body, index) => set(body, 4, 20 + index));
  const loop = graph.addConditional(repeated, { type: "while", name: "loop" });
  const [body] = loop.bodies;
  const counted = body!.addKernel(kernel("countDown"), one, repeated, cell(2));
  // Within the loop, what runs only at its end.
  const last = body!.createCondition();
  const atEnd = body!.addConditional(last, {
    type: "if",
    dependencies: [body!.addKernel(kernel("decide"), { ...one, dependencies: [counted] }, last, cell(2))],
    bodies: 2,
  });
  set(atEnd.bodies[1]!, 6, 9);
  atEnd.bodies[0]!.addKernel(kernel("mix"), one, cell(5), cell(7), 1);
  assertEquals([either, selected, loop].map(({ type, bodies }) => [type, bodies.length]), [
    ["conditional", 2],
    ["conditional", 3],
    ["conditional", 1],
  ]);
  assertEquals(await results([1, 0, 1], [0, 2, 3], [5, 7, 4]), [
    [1, 0, 0, 10, 20, 0, 9, 0],
    [0, 2, 0, 11, 22, 4, 9, 0],
    [5, 7, 0, 10, 0, 13, 9, 0],
  ]);
  using exec = graph.instantiate();
  const filled = selected.bodies[1]!.nodes[0]!;
  exec.setEnabled(filled, false);
  assert(!exec.isEnabled(filled));
  // Nodes of bodies are changed like those around them.
  exec.setParameters(selected.bodies[0]!.nodes[0]!, { target: cell(4), value: 77 });
  exec.setParameters(atEnd.bodies[0]!.nodes[0]!, { args: [cell(5), cell(7), 2] });
  for (const [selector, expected] of [[0, 77], [1, 0]] as const) {
    cells.copyFrom(Uint32Array.of(1, selector, 2, 0, 0, 0, 0, 0), stream);
    exec.launch(stream);
    const result = await cells.toTypedArray({ stream });
    assertEquals([...result.subarray(3, 6)], [10, expected, 2]);
  }
  assertThrows(() => graph.instantiate(), Error, "a graph with conditions has one executable graph");
});

testOnEachDriver("a stream is captured into a body, and into a graph behind nodes of it", async (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, cells, graph, kernel, cell, set, results } = place;
  const condition = graph.createCondition({ defaultValue: 1 });
  const loop = graph.addConditional(condition, { type: "while" });
  const [body] = loop.bodies;
  const captured = stream.capture((capture) => {
    kernel("mix").launch({ ...one, stream }, cell(1), cell(7), 2);
    kernel("countDown").launch({ ...one, stream }, condition, cell(0));
    assertEquals(capture.dependencies().map(({ type, graph }) => [type, graph]), [["kernel", body]]);
    assertMatch(String(body), /being captured/);
  }, { into: body! });
  assertStrictEquals(captured, body);
  assertEquals(body!.nodes.map((node) => node.kernel?.name), ["mix", "countDown"]);
  const after = gpu.createGraph();
  set(after, 3, 7);
  const returned = stream.capture((capture) => {
    assertEquals(capture.dependencies(), [loop]);
    cell(2).copyFrom(cell(1), stream);
    const child = capture.add((graph, dependencies) => {
      assertEquals(dependencies.map(({ type }) => type), ["copy"]);
      return graph.addGraph(after, { dependencies });
    });
    assertEquals(capture.dependencies({ stream }), [child]);
    kernel("mix").launch({ ...one, stream }, cell(3), cell(7), 1);
  }, { into: graph, dependencies: [loop] });
  assertStrictEquals(returned, graph);
  after[Symbol.dispose]();
  assertEquals(await results([3]), [[0, 26, 26, 22, 0, 0, 0, 0]]);
  void cells;
});

testOnEachDriver(
  "a graph that is captured takes conditional nodes, and belongs to nobody before the end",
  async (cuda) => {
    using place = placeIn(cuda);
    const { stream, cells, kernel, cell, set } = place;
    let seen: CudaGraph | undefined;
    let node: GraphNode | undefined;
    using graph = stream.capture((capture) => {
      node = capture.add((graph, dependencies) => {
        seen = graph;
        const condition = graph.createCondition();
        const decided = graph.addKernel(kernel("decide"), { ...one, dependencies }, condition, cell(0));
        return graph.addConditional(condition, { type: "if", dependencies: [decided] });
      });
      kernel("mix").launch({ ...one, stream }, cell(2), cell(7), 4);
      for (const call of [() => seen!.instantiate(), () => seen!.clone(), () => seen!.nodes[0]!.remove()]) {
        assertEquals((assertThrows(call) as CudaError).code, "cudaErrorStreamCaptureUnsupported");
      }
    });
    assertStrictEquals(graph, seen);
    set(node!.bodies[0]!, 1, 5);
    using exec = graph.instantiate();
    cells.copyFrom(Uint32Array.of(1, 0, 0, 0, 0, 0, 0, 0), stream);
    exec.launch(stream);
    assertEquals([...await cells.toTypedArray({ stream })].slice(0, 3), [1, 5, 4]);
    const dropped = stream.beginCapture();
    dropped.add((graph, dependencies) => (seen = graph).addEmpty({ dependencies }));
    dropped[Symbol.dispose]();
    assertThrows(() => seen!.nodes, ReferenceError, "its capture was dropped");
    assertThrows(() => dropped.dependencies(), ReferenceError, "it has ended");
    dropped[Symbol.dispose]();
  },
);

testOnEachDriver("bodies are captured while the graph around them is", async (cuda, { open }) => {
  using place = placeIn(cuda);
  const { gpu, stream, cells, kernel, cell } = place;
  using inner = gpu.createStream({ nonBlocking: true });
  using innermost = gpu.createStream({ nonBlocking: true });
  let body: CudaGraph | undefined;
  /** Captures a loop that counts a cell down, and in it what `work` enqueues on the stream. */
  const loop = (on: CudaStream, capture: GraphCapture, counter: number, work: (into: GraphCapture) => void) => {
    const next = on === stream ? inner : innermost;
    let condition: GraphCondition | undefined;
    const node = capture.add((graph, dependencies) => {
      condition = graph.createCondition();
      const before = graph.addKernel(kernel("decide"), { ...one, dependencies }, condition, cell(counter));
      return graph.addConditional(condition, { type: "while", dependencies: [before] });
    });
    body = node.bodies[0]!;
    next.capture((into) => {
      work(into);
      kernel("countDown").launch({ ...one, stream: next }, condition!, cell(counter));
    }, { into: body });
  };
  using graph = stream.capture((capture) => {
    cell(0).fill(2, stream);
    loop(stream, capture, 0, (into) => {
      cell(1).fill(3, inner);
      loop(inner, into, 1, () => kernel("mix").launch({ ...one, stream: innermost }, cell(3), cell(7), 1));
    });
    cell(2).fill(9, stream);
  });
  using exec = graph.instantiate();
  cells.fill(0, stream);
  exec.launch(stream);
  assertEquals([...await cells.toTypedArray({ stream })].slice(0, 4), [0, 0, 9, 364]);
  // The one that began first ends last, and nothing is left of either if it is dropped.
  const outer = stream.beginCapture();
  loop(stream, outer, 0, () => {});
  const later = inner.beginCapture({ into: body! });
  assertEquals((assertThrows(() => outer.end()) as CudaError).code, "cudaErrorStreamCaptureUnsupported");
  assertThrows(() => innermost.capture(() => {}, { into: body! }), Error, "is being captured into the graph");
  outer[Symbol.dispose]();
  assertThrows(() => later.end(), ReferenceError, "it has ended");
  // A body that is lost takes the graph around it along.
  const driver = open();
  using another = new CudaObject(new Session(driver));
  using other = placeIn(another);
  using disturbed = other.gpu.createStream({ nonBlocking: true });
  const lost = assertThrows(() =>
    other.stream.capture((capture) => {
      const node = capture.add((graph, dependencies) => {
        return graph.addConditional(graph.createCondition(), { type: "if", dependencies });
      });
      assertThrows(() =>
        disturbed.capture(() => {
          assertThrows(() => driver.streamQuery(0, disturbed.unsafeHandle));
        }, { into: node.bodies[0]! })
      );
    })
  ) as CudaError;
  assertMatch(lost.message, /cudaErrorStreamCaptureInvalidated: the graph is incomplete: a capture into it has failed/);
});

testOnEachDriver("a capture into a graph that is dropped leaves the graph as it was", async (cuda) => {
  using place = placeIn(cuda);
  const { stream, pool, graph, cell, set, results } = place;
  const first = set(graph, 1, 3);
  const fail = (work: () => void) => {
    assertThrows(
      () =>
        stream.capture(() => {
          work();
          throw new Error("no");
        }, { into: graph, dependencies: [first] }),
      Error,
      "no",
    );
  };
  fail(() => {
    cell(1).fill(4, stream);
    cell(2).fill(5, stream);
  });
  assertEquals(graph.nodes, [first]);
  assertEquals(await results([0]), [[0, 3, 0, 0, 0, 0, 0, 0]]);
  // CUDA removes no node of a graph with memory.
  fail(() => {
    using scratch = pool.allocate(64, stream);
    scratch.fill(1, stream);
  });
  assertThrows(() => graph.instantiate(), ReferenceError, "a capture into it was dropped");
});

testOnEachDriver("a graph into which a capture was invalidated is used no more", (_, { open }) => {
  const driver = open();
  using cuda = new CudaObject(new Session(driver));
  using place = placeIn(cuda);
  const { gpu, stream, kernel, cell, graph } = place;
  const condition = graph.createCondition();
  const decided = graph.addKernel(kernel("decide"), one, condition, cell(0));
  const [body] = graph.addConditional(condition, { type: "if", dependencies: [decided] }).bodies;
  const error = assertThrows(() =>
    stream.capture(() => {
      cell(1).fill(1, stream);
      // What another library might do.
      assertThrows(() => driver.streamQuery(0, stream.unsafeHandle));
    }, { into: body! })
  ) as CudaError;
  assertEquals(error.code, "cudaErrorStreamCaptureInvalidated");
  for (const call of [() => graph.nodes, () => body!.nodes, () => graph.instantiate(), () => decided.remove()]) {
    assertThrows(call, ReferenceError, "a capture into it has failed; build another one");
  }
  graph[Symbol.dispose]();
  using other = gpu.createStream({ nonBlocking: true });
  using another = gpu.createGraph();
  const unjoined = assertThrows(() =>
    stream.capture(() => {
      other.wait(stream);
      cell(1).fill(1, other);
    }, { into: another })
  ) as CudaError;
  assertEquals(unjoined.code, "cudaErrorStreamCaptureUnjoined");
  assertThrows(() => another.nodes, ReferenceError, "a capture into it has failed");
  stream.synchronize();
});

testOnEachDriver("conditions, bodies and captures into graphs are refused where they do not belong", (cuda) => {
  using place = placeIn(cuda);
  const { gpu, stream, pool, kernel, cell, graph } = place;
  using other = gpu.createGraph();
  using plain = gpu.createGraph();
  using event = gpu.createEvent();
  using another = gpu.createStream({ nonBlocking: true });
  const condition = graph.createCondition();
  const used = graph.createCondition();
  const foreign = other.createCondition();
  const node = graph.addConditional(used, { type: "while" });
  const body = node.bodies[0]!;
  const inner = body.createCondition();
  const refused: readonly (readonly [call: () => unknown, message: RegExp])[] = [
    [
      () => kernel("decide").launch({ ...one, stream }, condition, cell(0)),
      /^Cannot pass a condition to a kernel out/,
    ],
    [
      () => stream.capture(() => kernel("decide").launch({ ...one, stream }, condition, cell(0))),
      /outside its graph/,
    ],
    [() => graph.addKernel(kernel("decide"), one, foreign, cell(0)), /outside its graph/],
    [() => graph.addKernel(kernel("mix"), one, cell(0), cell(1), condition as never), /parameter 2 \(u32\) of mix/],
    [() => graph.addConditional(foreign, { type: "if" }), /a condition of another graph/],
    [() => graph.addConditional(inner, { type: "if" }), /a condition of another graph/],
    [() => graph.addConditional(used, { type: "if" }), /cudaErrorInvalidValue: another node tests the condition/],
    [() => graph.addConditional(5n as never, { type: "if" }), /give a GraphCondition from createCondition/],
    [() => graph.addConditional(condition, { type: "for" as never }), /give "if", "while" or "switch"/],
    [() => graph.addConditional(condition, { type: "while", bodies: 2 }), /with 2 bodies: it has 1$/],
    [() => graph.createCondition({ defaultValue: -1 }), /whole number from 0 to/],
    [() => graph.instantiate(), /cudaErrorInvalidValue .*a condition that no node uses/],
    [() => graph.clone(), /cudaErrorNotSupported .*CUDA copies no graph with conditions/],
    [() => plain.addGraph(graph), /cudaErrorNotSupported: it has conditions/],
    [() => plain.addGraph(body), /Cannot add the body of a conditional node/],
    [() => body.addGraph(graph), /cudaErrorInvalidValue: a graph cannot be a part of itself/],
    [() => body.instantiate(), /Cannot instantiate the body of a conditional node by itself/],
    [() => body.clone(), /Cannot copy the body/],
    [() => body[Symbol.dispose](), /Cannot dispose of the body/],
    [() => body.addRecord(event), /cudaErrorInvalidValue: a body has kernels, copies, fills/],
    [() => body.addWait(event), /cudaErrorInvalidValue: a body has/],
    [() => body.addAllocation(pool, 4), /cudaErrorInvalidValue: a body has/],
    [
      () => stream.capture(() => pool.allocate(4, stream), { into: body }),
      /cudaErrorInvalidValue: .*allocates nothing/,
    ],
    [() => node.remove(), /cudaErrorNotSupported: a conditional node stays/],
    [() => stream.capture(() => {}, { into: 5 as never }), /give a CudaGraph/],
    [() => stream.capture(() => {}, { dependencies: [] }), /behind nodes of no graph/],
    [() => stream.capture(() => {}, { into: plain, dependencies: [node] }), /node of another graph/],
    [
      () => stream.capture(() => another.capture(() => {}, { into: graph }), { into: graph }),
      /cudaErrorStreamCaptureUnsupported: a stream is being captured into the graph/,
    ],
    [() => stream.capture((capture) => capture.dependencies(another)), /on a stream that is not a part of it/],
    [() => stream.capture((capture) => capture.add(() => node)), /node of another graph/],
    [() => stream.capture((capture) => capture.add(() => 5 as never)), /the function returned/],
  ];
  for (const [call, message] of refused) {
    const error = assertThrows(call, String(message)) as Error;
    assertMatch(error.message, message, error.stack);
  }
  assertEquals([graph.nodes, body.nodes, plain.nodes], [[node], [], []]);
  graph[Symbol.dispose]();
  assertThrows(() => body.addEmpty(), ReferenceError, "it was disposed");
  assert(String(body).includes("disposed"));
});
