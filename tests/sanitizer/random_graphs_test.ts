/**
 * Random graphs of fills, copies and kernels, beside an oracle that knows which nodes a path of edges orders. Something is
 * reported if and only if two nodes that no path orders access the same bytes, and one of them writes.
 */
import { assertEquals } from "@std/assert";
import { type CudaGraph, type DeviceBuffer, type GraphNode, open } from "../../mod.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { Random } from "../differential/random.ts";
import { isLong, test } from "../support/test.ts";

const bufferBytes = 64, mostNodes = 9;
const graphs = isLong ? 5000 : 40;

interface Range {
  readonly buffer: number;
  readonly begin: number;
  readonly end: number;
}

/** A node of the graph, as the oracle knows it. */
interface Added {
  readonly node: GraphNode;
  readonly after: readonly Added[];
  readonly reads?: Range;
  readonly writes: Range;
}

function comesBefore(first: Added, second: Added): boolean {
  return second.after.some((before) => before === first || comesBefore(first, before));
}

function overlap(one: Range | undefined, other: Range | undefined): boolean {
  return one !== undefined && one.buffer === other?.buffer && one.begin < other.end && other.begin < one.end;
}

function conflict(one: Added, other: Added): boolean {
  if (comesBefore(one, other) || comesBefore(other, one)) return false;
  return overlap(one.writes, other.writes) || overlap(one.writes, other.reads) || overlap(one.reads, other.writes);
}

test("random graphs are reported if and only if they lack an edge", () => {
  for (let seed = 1; seed <= graphs; seed++) {
    const random = new Random(seed);
    const kinds: string[] = [];
    const added: Added[] = [];
    {
      using cuda = open({ driver: "software", sanitize: true, onReport: ({ kind }) => kinds.push(kind) });
      const gpu = cuda.device(0);
      using module = gpu.loadModule(fillPtx);
      const fill = module.kernel("fill");
      const buffers: DeviceBuffer[] = [0, 1, 2].map(() => gpu.allocate(bufferBytes));
      for (const buffer of buffers) buffer.fill(0);
      gpu.synchronize();
      const pick = (length = 8 * (1 + random.below(4))): Range => {
        const begin = 8 * random.below((bufferBytes - length) / 8 + 1);
        return { buffer: random.below(buffers.length), begin, end: begin + length };
      };
      const partOf = ({ buffer, begin, end }: Range) => buffers[buffer]!.subarray(begin, end);
      const add = (graph: CudaGraph): void => {
        const after = added.filter(() => random.below(3) === 0);
        const options = { dependencies: after.map(({ node }) => node) };
        const writes = pick(), length = writes.end - writes.begin;
        const kind = random.below(3);
        if (kind === 0) added.push({ node: graph.addFill(partOf(writes), seed % 256, options), after, writes });
        else if (kind === 1) {
          const node = graph.addKernel(fill, { grid: 1, block: 32, ...options }, partOf(writes), length, seed % 256);
          added.push({ node, after, writes });
        } else {
          const reads = pick(length);
          if (overlap(reads, writes)) return;
          added.push({ node: graph.addCopy(partOf(reads), partOf(writes), options), after, reads, writes });
        }
      };
      using graph = gpu.createGraph();
      for (let step = 2 + random.below(mostNodes - 1); step > 0; step--) add(graph);
      using exec = graph.instantiate();
      for (const _ of [1, 2]) exec.launch();
      gpu.synchronize();
      for (const buffer of buffers) buffer.free();
    }
    const isWrong = added.some((later, index) => added.slice(0, index).some((earlier) => conflict(earlier, later)));
    assertEquals(kinds.length > 0, isWrong, `seed ${seed}: ${kinds}`);
  }
});
