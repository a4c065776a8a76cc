/**
 * Programs with graphs: right ones, about which nothing is reported, and wrong ones, whose mistake is named. Each wrong
 * one has a right one beside it that differs in the line that matters.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  type CudaDevice,
  type CudaGraph,
  type CudaKernel,
  type CudaStream,
  type DeviceArray,
  type HostBuffer,
  type MemoryPool,
  open,
  type SanitizerReport,
} from "../../../mod.ts";
import { ptx } from "../../../kernels/saxpy.ts";
import { test } from "../../support/test.ts";

const count = 1024;
const shape = { grid: count / 256, block: 256 };

/** What the programs use. */
interface Program {
  readonly gpu: CudaDevice;
  readonly pool: MemoryPool;
  readonly a: CudaStream;
  readonly b: CudaStream;
  readonly x: DeviceArray<Float32Array>;
  readonly y: DeviceArray<Float32Array>;
  readonly z: DeviceArray<Float32Array>;
  readonly host: HostBuffer;
  readonly saxpy: CudaKernel;
  /** Launches y += 2 x. */
  add(x: DeviceArray<Float32Array>, y: DeviceArray<Float32Array>, stream: CudaStream): void;
}

interface Case {
  readonly name: string;
  /** The kind of the report. Undefined if the program is right. */
  readonly kind?: string;
  /** The operations of the report, the later one first. */
  readonly between?: readonly string[];
  run(program: Program): void | Promise<void>;
}

/** Captures, instantiates, and launches a number of times on the first stream. */
function launch({ a }: Program, body: () => void, times = 1): void {
  using graph = a.capture(body);
  using exec = graph.instantiate();
  for (let time = 0; time < times; time++) exec.launch(a);
}

/** Instantiates a graph, and launches it on the first stream. */
function runGraph({ a }: Program, graph: CudaGraph): void {
  using exec = graph.instantiate();
  exec.launch(a);
}

const cases: readonly Case[] = [
  {
    name: "a kernel behind a fill of the same stream",
    run(p) {
      launch(p, () => {
        p.x.fill(1, p.a);
        p.add(p.x, p.y, p.a);
      }, 3);
    },
  },
  {
    name: "a branch that is joined before its result is read",
    run(p) {
      launch(p, () => {
        p.b.wait(p.a);
        p.x.fill(1, p.b);
        p.a.wait(p.b);
        p.add(p.x, p.y, p.a);
      }, 3);
    },
  },
  {
    name: "a branch that is joined after its result is read",
    kind: "unordered-write-read",
    between: ["kernel saxpy", "fill"],
    run(p) {
      launch(p, () => {
        p.b.wait(p.a);
        p.x.fill(1, p.b);
        p.add(p.x, p.y, p.a);
        p.a.wait(p.b);
      }, 3);
    },
  },
  {
    name: "branches that write different memory",
    run(p) {
      launch(p, () => {
        p.b.wait(p.a);
        p.x.fill(1, p.b);
        p.y.fill(2, p.a);
        p.a.wait(p.b);
      }, 2);
    },
  },
  {
    name: "branches that write the same memory",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      launch(p, () => {
        p.b.wait(p.a);
        p.x.fill(1, p.b);
        p.x.fill(2, p.a);
        p.a.wait(p.b);
      }, 2);
    },
  },
  {
    name: "branches that write halves of the same memory",
    run(p) {
      launch(p, () => {
        p.b.wait(p.a);
        p.x.subarray(0, count / 2).fill(1, p.b);
        p.x.subarray(count / 2).fill(2, p.a);
        p.a.wait(p.b);
      });
    },
  },
  {
    name: "branches that write halves that share an element",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      launch(p, () => {
        p.b.wait(p.a);
        p.x.subarray(0, count / 2 + 1).fill(1, p.b);
        p.x.subarray(count / 2).fill(2, p.a);
        p.a.wait(p.b);
      });
    },
  },
  {
    name: "branches that read the same memory",
    run(p) {
      launch(p, () => {
        p.b.wait(p.a);
        p.add(p.x, p.y, p.b);
        p.add(p.x, p.z, p.a);
        p.a.wait(p.b);
      }, 2);
    },
  },
  {
    name: "an event between branches",
    run(p) {
      using ready = p.gpu.createEvent();
      launch(p, () => {
        p.b.wait(p.a);
        p.x.fill(1, p.b);
        p.b.record(ready);
        p.y.fill(2, p.b);
        p.a.wait(ready);
        p.add(p.x, p.z, p.a);
        p.a.wait(p.b);
      });
    },
  },
  {
    name: "an event between branches that was recorded too early",
    kind: "unordered-write-read",
    between: ["kernel saxpy", "fill"],
    run(p) {
      using ready = p.gpu.createEvent();
      launch(p, () => {
        p.b.wait(p.a);
        p.b.record(ready);
        p.x.fill(1, p.b);
        p.a.wait(ready);
        p.add(p.x, p.z, p.a);
        p.a.wait(p.b);
      });
    },
  },
  {
    name: "work on another stream that waits for the launch",
    run(p) {
      launch(p, () => p.x.fill(1, p.a));
      p.b.wait(p.a);
      p.add(p.x, p.y, p.b);
    },
  },
  {
    name: "work on another stream that does not wait for the launch",
    kind: "unordered-write-read",
    between: ["kernel saxpy", "fill"],
    run(p) {
      launch(p, () => p.x.fill(1, p.a));
      p.add(p.x, p.y, p.b);
    },
  },
  {
    name: "launches of one graph on two streams, which CUDA orders",
    run(p) {
      using graph = p.a.capture(() => p.add(p.x, p.y, p.a));
      using exec = graph.instantiate();
      exec.launch(p.a);
      exec.launch(p.b);
    },
  },
  {
    name: "launches of two executable graphs on two streams",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      using graph = p.a.capture(() => p.y.fill(1, p.a));
      using first = graph.instantiate();
      using second = graph.instantiate();
      first.launch(p.a);
      second.launch(p.b);
    },
  },
  {
    name: "launches of two executable graphs on two streams, the second of which waits",
    run(p) {
      using graph = p.a.capture(() => p.y.fill(1, p.a));
      using first = graph.instantiate();
      using second = graph.instantiate();
      first.launch(p.a);
      p.b.wait(p.a);
      second.launch(p.b);
    },
  },
  {
    name: "memory of the graph that is freed behind its use on another branch",
    run(p) {
      launch(p, () => {
        using own = p.pool.allocateArray(Float32Array, count, p.a);
        p.b.wait(p.a);
        own.fill(1, p.b);
        p.add(own, p.y, p.b);
        p.a.wait(p.b);
      }, 3);
    },
  },
  {
    name: "memory of the graph that outlives its launch and is used on another stream that waits",
    async run(p) {
      using graph = p.a.capture(() => {
        const own = p.pool.allocateArray(Float32Array, count, p.a);
        own.fill(1, p.a);
      });
      using exec = graph.instantiate();
      exec.launch(p.a);
      const [own] = graph.allocations;
      p.b.wait(p.a);
      await own!.read(Float32Array, { stream: p.b });
      own!.free({ stream: p.b });
    },
  },
  {
    name: "memory of the graph that outlives its launch and is used on another stream that does not wait",
    kind: "use-before-allocation",
    between: ["read", "allocate"],
    async run(p) {
      using graph = p.a.capture(() => void p.pool.allocateArray(Float32Array, count, p.a));
      using exec = graph.instantiate();
      exec.launch(p.a);
      const [own] = graph.allocations;
      await own!.read(Float32Array, { stream: p.b });
      await p.a.finished();
      own!.free({ stream: p.a });
    },
  },
  {
    name: "memory that each launch allocates anew",
    async run(p) {
      using graph = p.a.capture(() => {
        const own = p.pool.allocateArray(Float32Array, count, p.a);
        own.fill(1, p.a);
      });
      using exec = graph.instantiate({ autoFreeOnLaunch: true });
      for (let time = 0; time < 3; time++) exec.launch(p.a);
      await p.a.finished();
      graph.allocations[0]!.free({ stream: p.a });
    },
  },
  {
    name: "a source that changes behind the launch that reads it",
    async run(p) {
      using graph = p.a.capture(() => p.x.copyFrom(p.host, p.a));
      using exec = graph.instantiate();
      for (let time = 0; time < 3; time++) {
        new Float32Array(p.host.buffer).fill(time);
        exec.launch(p.a);
        await p.a.finished();
      }
    },
  },
  {
    name: "a source that changes before the launch that reads it is done",
    kind: "source-overwritten",
    between: ["the program", "copyFrom"],
    async run(p) {
      using graph = p.a.capture(() => p.x.copyFrom(p.host, p.a));
      using exec = graph.instantiate();
      for (let time = 0; time < 3; time++) {
        new Float32Array(p.host.buffer).fill(time);
        exec.launch(p.a);
      }
      await p.a.finished();
    },
  },
  {
    name: "a graph that is updated to other memory",
    run(p) {
      using graph = p.a.capture(() => p.x.fill(1, p.a));
      using other = p.a.capture(() => p.y.fill(1, p.a));
      using exec = graph.instantiate();
      exec.launch(p.a);
      exec.update(other);
      exec.launch(p.a);
      p.z.fill(1, p.b);
    },
  },
  {
    name: "a graph that is updated to memory that another stream writes",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      using graph = p.a.capture(() => p.x.fill(1, p.a));
      using other = p.a.capture(() => p.y.fill(1, p.a));
      using exec = graph.instantiate();
      exec.update(other);
      exec.launch(p.a);
      p.y.fill(2, p.b);
    },
  },
  {
    name: "a node that is disabled",
    run(p) {
      using graph = p.a.capture(() => {
        p.x.fill(1, p.a);
        p.y.fill(1, p.a);
      });
      using exec = graph.instantiate();
      exec.setEnabled(graph.nodes[1]!, false);
      exec.launch(p.a);
      p.y.fill(2, p.b);
    },
  },
  {
    name: "a node that is enabled again",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      using graph = p.a.capture(() => {
        p.x.fill(1, p.a);
        p.y.fill(1, p.a);
      });
      using exec = graph.instantiate();
      exec.setEnabled(graph.nodes[1]!, false);
      exec.setEnabled(graph.nodes[1]!, true);
      exec.launch(p.a);
      p.y.fill(2, p.b);
    },
  },
  {
    name: "a capture that is never launched, of what would conflict",
    run(p) {
      using _graph = p.a.capture(() => p.x.fill(1, p.a));
      p.x.fill(2, p.b);
    },
  },
  {
    name: "a launch of a copy of a graph",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      using graph = p.a.capture(() => p.x.fill(1, p.a));
      using copy = graph.clone();
      using exec = copy.instantiate();
      exec.launch(p.a);
      p.x.fill(2, p.b);
    },
  },
  {
    name: "a launch behind work of another stream that it waits for",
    run(p) {
      using graph = p.a.capture(() => p.x.fill(1, p.a));
      using exec = graph.instantiate();
      p.x.fill(2, p.b);
      p.a.wait(p.b);
      exec.launch(p.a);
    },
  },
  {
    name: "a launch behind work of another stream that it does not wait for",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      using graph = p.a.capture(() => p.x.fill(1, p.a));
      using exec = graph.instantiate();
      p.x.fill(2, p.b);
      exec.launch(p.a);
    },
  },
  {
    name: "nodes that are added with the edge between them",
    run(p) {
      using graph = p.gpu.createGraph();
      const fill = graph.addFill(p.x, 1);
      graph.addKernel(p.saxpy, { ...shape, dependencies: [fill] }, count, 2, p.x, p.y);
      runGraph(p, graph);
    },
  },
  {
    name: "nodes that are added without an edge between them",
    kind: "unordered-write-read",
    between: ["kernel saxpy", "fill"],
    run(p) {
      using graph = p.gpu.createGraph();
      graph.addFill(p.x, 1);
      graph.addKernel(p.saxpy, shape, count, 2, p.x, p.y);
      runGraph(p, graph);
    },
  },
  {
    name: "an edge that was removed",
    kind: "unordered-write-write",
    between: ["fill", "copy"],
    run(p) {
      using graph = p.gpu.createGraph();
      const copy = graph.addCopy(p.x, p.y);
      const fill = graph.addFill(p.y, 1, { dependencies: [copy] });
      graph.removeDependency(copy, fill);
      runGraph(p, graph);
    },
  },
  {
    name: "an edge that was added later",
    run(p) {
      using graph = p.gpu.createGraph();
      const copy = graph.addCopy(p.x, p.y);
      const fill = graph.addFill(p.y, 1);
      graph.addDependency(copy, fill);
      runGraph(p, graph);
    },
  },
  {
    name: "a node that orders others and does nothing",
    run(p) {
      using graph = p.gpu.createGraph();
      const fills = [p.x, p.y].map((array) => graph.addFill(array, 1));
      const both = graph.addEmpty({ dependencies: fills });
      graph.addKernel(p.saxpy, { ...shape, dependencies: [both] }, count, 2, p.x, p.y);
      runGraph(p, graph);
    },
  },
  {
    name: "memory that is freed by a node behind its last use",
    run(p) {
      using graph = p.gpu.createGraph();
      const { node, buffer } = graph.addAllocation(p.pool, 4 * count);
      const fill = graph.addFill(buffer, 1, { dependencies: [node] });
      graph.addFree(buffer, { dependencies: [fill] });
      runGraph(p, graph);
    },
  },
  {
    name: "memory that is freed by a node beside its last use",
    kind: "use-after-free",
    between: ["free", "fill"],
    run(p) {
      using graph = p.gpu.createGraph();
      const { node, buffer } = graph.addAllocation(p.pool, 4 * count);
      graph.addFill(buffer, 1, { dependencies: [node] });
      graph.addFree(buffer, { dependencies: [node] });
      runGraph(p, graph);
    },
  },
  {
    name: "memory that is used by a node behind its free",
    kind: "use-after-free",
    between: ["fill", "free"],
    run(p) {
      using graph = p.gpu.createGraph();
      const { node, buffer } = graph.addAllocation(p.pool, 4 * count);
      const free = graph.addFree(buffer, { dependencies: [node] });
      graph.addFill(buffer, 1, { dependencies: [free] });
      runGraph(p, graph);
    },
  },
  {
    name: "memory that is used by a node beside its allocation",
    kind: "use-before-allocation",
    between: ["fill", "allocate"],
    run(p) {
      using graph = p.gpu.createGraph();
      const { node, buffer } = graph.addAllocation(p.pool, 4 * count);
      const fill = graph.addFill(buffer, 1);
      graph.addFree(buffer, { dependencies: [node, fill] });
      runGraph(p, graph);
    },
  },
  {
    name: "a child graph behind what it reads",
    run(p) {
      using child = p.gpu.createGraph();
      child.addKernel(p.saxpy, shape, count, 2, p.x, p.y);
      using graph = p.gpu.createGraph();
      const fill = graph.addFill(p.x, 1);
      graph.addGraph(child, { dependencies: [fill] });
      runGraph(p, graph);
    },
  },
  {
    name: "a child graph beside what it reads",
    kind: "unordered-write-read",
    between: ["kernel saxpy", "fill"],
    run(p) {
      using child = p.gpu.createGraph();
      child.addKernel(p.saxpy, shape, count, 2, p.x, p.y);
      using graph = p.gpu.createGraph();
      graph.addFill(p.x, 1);
      graph.addGraph(child);
      runGraph(p, graph);
    },
  },
  {
    name: "an event that a launch records, for which another stream waits",
    run(p) {
      using event = p.gpu.createEvent();
      using graph = p.gpu.createGraph();
      const fill = graph.addFill(p.x, 1);
      graph.addRecord(event, { dependencies: [fill] });
      runGraph(p, graph);
      p.b.wait(event);
      p.x.fill(2, p.b);
    },
  },
  {
    name: "an event that a launch records beside what another stream waits for",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      using event = p.gpu.createEvent();
      using graph = p.gpu.createGraph();
      graph.addFill(p.x, 1);
      graph.addRecord(event);
      runGraph(p, graph);
      p.b.wait(event);
      p.x.fill(2, p.b);
    },
  },
  {
    name: "an event for which a node of a launch waits",
    run(p) {
      using event = p.gpu.createEvent();
      using graph = p.gpu.createGraph();
      const wait = graph.addWait(event);
      graph.addFill(p.x, 1, { dependencies: [wait] });
      p.x.fill(2, p.b);
      p.b.record(event);
      runGraph(p, graph);
    },
  },
  {
    name: "an event for which no node before the access waits",
    kind: "unordered-write-write",
    between: ["fill", "fill"],
    run(p) {
      using event = p.gpu.createEvent();
      using graph = p.gpu.createGraph();
      graph.addWait(event);
      graph.addFill(p.x, 1);
      p.x.fill(2, p.b);
      p.b.record(event);
      runGraph(p, graph);
    },
  },
];

for (const { name, kind, between = [], run } of cases) {
  test(`the sanitizer and ${name}: ${kind ?? "nothing"}`, async () => {
    const reports: SanitizerReport[] = [];
    {
      using cuda = open({ driver: "software", sanitize: true, onReport: (report) => reports.push(report) });
      const gpu = cuda.device(0);
      using a = gpu.createStream({ nonBlocking: true });
      using b = gpu.createStream({ nonBlocking: true });
      using pool = gpu.createPool();
      using module = gpu.loadModule(ptx);
      using host = cuda.allocateHost(4 * count);
      using x = pool.allocateArray(Float32Array, count, a);
      using y = pool.allocateArray(Float32Array, count, a);
      using z = pool.allocateArray(Float32Array, count, a);
      for (const array of [x, y, z]) array.fill(1, a);
      await a.finished();
      const saxpy = module.kernel("saxpy");
      const add: Program["add"] = (x, y, stream) => saxpy.launch({ ...shape, stream }, count, 2, x, y);
      await run({ gpu, pool, a, b, x, y, z, host, saxpy, add });
      gpu.synchronize();
    }
    assertEquals(reports.map((report) => report.kind), kind === undefined ? [] : [kind], reports[0]?.message);
    if (kind === undefined) return;
    const [{ accesses, message }] = reports as [SanitizerReport];
    assertEquals(accesses.map(({ operation }) => operation), between);
    for (const { stack, launched, operation } of accesses) {
      if (operation !== "the program") assertStringIncludes(stack, "graph_programs_test.ts");
      if (launched !== undefined) assertStringIncludes(launched, "graph_programs_test.ts");
    }
    assert(message.length < 2000, message);
  });
}
