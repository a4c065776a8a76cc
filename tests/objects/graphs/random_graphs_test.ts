/** Random graphs, built by hand, against the same work in plain JavaScript, one step after the other. */
import { assertEquals } from "@std/assert";
import type {
  Cuda,
  CudaGraph,
  CudaModule,
  CudaStream,
  DeviceArray,
  DeviceBuffer,
  GraphNode,
  MemoryPool,
} from "../../../mod.ts";
import { Cuda as CudaObject } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import type { Schedule } from "../../../src/software/schedule.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { isLong, test } from "../../support/test.ts";
import { type Kernels, ptx } from "./graph_kernels.ts";

/** Cells of the program's memory. Those after them are of memory that a graph allocates. */
const cellCount = 8;
const memoryCells = 4;
const mostDepth = 2;
/**
 * A cell that stands for all loops, and that choices read. The driver 580 of CUDA 13.0 fails with
 * `cudaErrorLaunchFailure` for some graphs of three conditional nodes that nothing orders, if one is a loop, in a C++
 * program as well.
 */
const loops = -1;
const one = { grid: 1, block: 1 };

/** A piece of work: one node, or two. */
interface Step {
  readonly reads: readonly number[];
  readonly writes: readonly number[];
  /** Does the work in plain JavaScript. */
  run(values: Uint32Array): void;
  /** Adds the work to a graph. Returns the last node. */
  add(graph: CudaGraph, dependencies: readonly GraphNode[]): GraphNode;
}

/** Builds random graphs, and launches them. */
class Builder implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #random: (below: number) => number;
  readonly #cuda: Cuda;
  readonly #pool: MemoryPool;
  readonly #streams: readonly CudaStream[];
  readonly #module: CudaModule<Kernels>;
  readonly #cells: DeviceArray<Uint32Array>;
  /** The cells that steps of the current graph can use. */
  #arrays: readonly DeviceArray<Uint32Array>[] = [];

  constructor(cuda: Cuda, seed: number) {
    let state = seed;
    this.#random = (below) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor(state / 2 ** 32 * below);
    };
    this.#cuda = cuda;
    const gpu = cuda.device(0);
    this.#streams = [0, 1].map(() => this.#stack.use(gpu.createStream({ nonBlocking: true })));
    this.#pool = this.#stack.use(gpu.createPool());
    this.#cells = this.#stack.use(this.#pool.allocateArray(Uint32Array, cellCount, this.#streams[0]!));
    this.#module = this.#stack.use(gpu.loadModule(ptx));
  }

  #cell(among: readonly number[]): number {
    return among[this.#random(among.length)]!;
  }

  /** Returns a step that uses some of the given cells. `depth` is how deep further steps may lie in it. */
  #step(cells: readonly number[], depth: number): Step {
    const random = this.#random;
    const to = this.#cell(cells), from = this.#cell(cells.filter((cell) => cell !== to));
    const constant = random(2 ** 16);
    const arrays = this.#arrays;
    const [target, source] = [arrays[to]!, arrays[from]!];
    switch (random(depth > 0 ? 8 : 4)) {
      case 0:
        return {
          reads: [from],
          writes: [to],
          run: (values) => void (values[to] = values[from]!),
          add: (graph, dependencies) => graph.addCopy(source, target, { dependencies }),
        };
      case 1:
        return {
          reads: [],
          writes: [to],
          run: (values) => void (values[to] = constant),
          add: (graph, dependencies) =>
            random(2) === 0
              ? graph.addFill(target, constant, { dependencies })
              : graph.addCopy(Uint32Array.of(constant), target, { dependencies }),
        };
      case 4:
        return this.#child(cells, depth);
      case 5:
        return this.#choice(cells, depth);
      case 6:
        return this.#loop(cells, depth);
      default:
        return {
          reads: [to, from],
          writes: [to],
          run: (values) => void (values[to] = Math.imul(values[to]!, 3) + values[from]! + constant),
          add: (graph, dependencies) =>
            graph.addKernel(this.#module.kernel("mix"), { ...one, dependencies }, target, source, constant),
        };
    }
  }

  #steps(count: number, cells: readonly number[], depth: number): Step[] {
    return Array.from({ length: count }, () => this.#step(cells, depth));
  }

  /** A graph within the graph. It has no conditions: CUDA would not copy it. */
  #child(cells: readonly number[], depth: number): Step {
    const steps = Array.from({ length: 1 + this.#random(3) }, () => {
      return this.#random(4) === 0 && depth > 1 ? this.#child(cells, depth - 1) : this.#step(cells, 0);
    });
    return {
      ...usedBy(steps),
      run: (values) => steps.forEach((step) => step.run(values)),
      add: (graph, dependencies) => {
        using child = this.#cuda.device(0).createGraph();
        this.#addAll(child, steps, []);
        return graph.addGraph(child, { dependencies });
      },
    };
  }

  /** One of some bodies, or none, as a cell says. */
  #choice(cells: readonly number[], depth: number): Step {
    const by = this.#cell(cells);
    const isSwitch = this.#random(2) === 0;
    const size = isSwitch ? 1 + this.#random(3) : 1 + this.#random(2);
    const bodies = Array.from({ length: size }, () => this.#steps(this.#random(3), cells, depth - 1));
    const used = usedBy(bodies.flat());
    return {
      reads: [...used.reads, by, loops],
      writes: used.writes,
      run: (values) => {
        const value = values[by]!;
        const chosen = isSwitch ? value : value === 0 ? 1 : 0;
        bodies[chosen]?.forEach((step) => step.run(values));
      },
      add: (graph, dependencies) => {
        const condition = graph.createCondition();
        const decide = this.#module.kernel("decide");
        const decided = graph.addKernel(decide, { ...one, dependencies }, condition, this.#arrays[by]!);
        const type = isSwitch ? "switch" : "if";
        const node = graph.addConditional(condition, { type, bodies: size, dependencies: [decided] });
        bodies.forEach((steps, index) => this.#addAll(node.bodies[index]!, steps, []));
        return node;
      },
    };
  }

  /** A body that runs as often as a cell says, which it sets before. */
  #loop(cells: readonly number[], depth: number): Step {
    const counter = this.#cell(cells);
    const turns = 1 + this.#random(3);
    const others = cells.filter((cell) => cell !== counter);
    const steps = this.#steps(this.#random(3), others, depth - 1);
    const used = usedBy(steps);
    return {
      reads: used.reads,
      writes: [...used.writes, counter, loops],
      run: (values) => {
        for (let turn = 0; turn < turns; turn++) steps.forEach((step) => step.run(values));
        values[counter] = 0;
      },
      add: (graph, dependencies) => {
        const array = this.#arrays[counter]!;
        const set = graph.addFill(array, turns, { dependencies });
        // The default is the value at the beginning of a launch. A loop within a loop begins more often.
        const isOuter = depth === mostDepth;
        const condition = graph.createCondition(isOuter ? { defaultValue: 1 } : {});
        const decide = this.#module.kernel("decide");
        const before = isOuter ? set : graph.addKernel(decide, { ...one, dependencies: [set] }, condition, array);
        const node = graph.addConditional(condition, { type: "while", dependencies: [before] });
        const [body] = node.bodies;
        body!.addKernel(this.#module.kernel("countDown"), one, condition, this.#arrays[counter]!);
        this.#addAll(body!, steps, []);
        return node;
      },
    };
  }

  /** Adds steps with the dependencies that their order asks for, and some more. */
  #addAll(graph: CudaGraph, steps: readonly Step[], roots: readonly GraphNode[]): GraphNode[] {
    const nodes: GraphNode[] = [];
    for (const [index, step] of steps.entries()) {
      const before = steps.slice(0, index).flatMap((other, at) => conflict(step, other) ? [nodes[at]!] : []);
      if (index > 0 && this.#random(4) === 0) before.push(nodes[this.#random(index)]!);
      nodes.push(step.add(graph, [...roots, ...before]));
    }
    return nodes;
  }

  /** Builds a graph, launches it some times, and compares the cells each time. */
  play(what: string): void {
    const random = this.#random;
    using graph = this.#cuda.device(0).createGraph();
    const hasMemory = random(3) === 0;
    const isFreed = random(2) === 0;
    const own = Array.from({ length: cellCount }, (_, index) => this.#cells.subarray(index, index + 1));
    const roots: GraphNode[] = [];
    let memory: { node: GraphNode; buffer: DeviceBuffer } | undefined;
    const steps: Step[] = [];
    this.#arrays = own;
    if (hasMemory) {
      memory = graph.addAllocation(this.#pool, 4 * memoryCells);
      roots.push(memory.node);
      const array = memory.buffer.as(Uint32Array);
      this.#arrays = [
        ...own,
        ...Array.from({ length: memoryCells }, (_, index) => array.subarray(index, index + 1)),
      ];
      // The memory has no contents before something writes it.
      steps.push({
        reads: [],
        writes: Array.from({ length: memoryCells }, (_, index) => cellCount + index),
        run: (values) => void values.fill(7, cellCount),
        add: (graph, dependencies) => graph.addFill(array, 7, { dependencies }),
      });
    }
    const cells = this.#arrays.map((_, index) => index);
    steps.push(...this.#steps(3 + random(8), cells, mostDepth));
    const nodes = this.#addAll(graph, steps, roots);
    if (!hasMemory) this.#change(graph, nodes);
    if (memory !== undefined && isFreed) graph.addFree(memory.buffer, { dependencies: nodes });
    const isCopied = !hasMemory && random(4) === 0 && graph.nodes.every(({ type }) => type !== "conditional");
    using copy = isCopied ? graph.clone() : undefined;
    using exec = (copy ?? graph).instantiate({ autoFreeOnLaunch: hasMemory && !isFreed });
    const values = new Uint32Array(cellCount + memoryCells);
    const start = Uint32Array.from({ length: cellCount }, () => random(4));
    values.set(start);
    this.#cells.copyFrom(start, this.#streams[0]!);
    for (let launch = 0; launch < 2; launch++) {
      const stream = this.#streams[random(2)]!;
      const other = this.#streams.find((each) => each !== stream)!;
      stream.wait(other);
      exec.launch(stream);
      for (const step of steps) step.run(values);
      assertEquals(this.#cells.readSync(Uint32Array, { stream }), values.subarray(0, cellCount), `${what}: ${launch}`);
      if (memory !== undefined && !isFreed) {
        const read = memory.buffer.readSync(Uint32Array, { stream });
        assertEquals(read, values.subarray(cellCount), `${what}: memory, ${launch}`);
      }
      other.wait(stream);
    }
    if (memory !== undefined && !isFreed) memory.buffer.free(this.#streams[0]!);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }

  /** Adds a node and dependencies that would change the results, and removes them again. */
  #change(graph: CudaGraph, nodes: readonly GraphNode[]): void {
    if (this.#random(3) !== 0) return;
    const [first, last] = [nodes[0]!, nodes.at(-1)!];
    const added = graph.addFill(this.#cells, 12345, { dependencies: [last] });
    graph.addDependency(added, first);
    if (this.#random(2) === 0) graph.removeDependency(added, first);
    added.remove();
  }
}

function usedBy(steps: readonly Step[]): { reads: number[]; writes: number[] } {
  return { reads: steps.flatMap(({ reads }) => reads), writes: steps.flatMap(({ writes }) => writes) };
}

/** Whether two steps must keep their order. */
function conflict(a: Step, b: Step): boolean {
  const meets = (cells: readonly number[], others: readonly number[]) => cells.some((cell) => others.includes(cell));
  return meets(a.writes, b.writes) || meets(a.reads, b.writes) || meets(a.writes, b.reads);
}

function playAll(cuda: Cuda, { seed, count }: { seed: number; count: number }): void {
  using builder = new Builder(cuda, seed);
  for (let index = 0; index < count; index++) builder.play(`seed ${seed}, graph ${index}`);
}

const schedules: readonly Schedule[] = ["oldest", "newest", "random:1"];

for (const [index, schedule] of schedules.entries()) {
  test(`random graphs by hand do what plain JavaScript does, schedule ${schedule}`, () => {
    using cuda = new CudaObject(new Session(new SoftwareDriver({ devices: 1, peers: true, schedule })));
    playAll(cuda, { seed: index + 1, count: isLong ? 2500 : 15 });
  });
}

testOnEachDriver("random graphs by hand do what plain JavaScript does", (cuda) => {
  playAll(cuda, { seed: 10, count: isLong ? 2500 : 15 });
});
