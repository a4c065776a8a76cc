import { assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  immediateDominators,
  immediatePostDominators,
  loopsOf,
  predecessors,
} from "../../src/ptx/analysis/control_flow_graph.ts";
import { liveRegisters } from "../../src/ptx/analysis/definitions_and_uses.ts";

/** A loop (1, 2, 3) with a branch (2 or 3) in its body, which node 4 follows; from node 5 on, the end is not reached. */
const edges: readonly (readonly number[])[] = [[1], [2, 3, 4], [1], [1, 5], [], [5]];
const next = (node: number) => edges[node]!;

test("the immediate dominator of a node is the last one that all ways to it go through", () => {
  assertEquals([...immediateDominators(edges)], [0, 0, 1, 1, 1, 3]);
});

test("the immediate post-dominator of a node is the first one that its ways to the end go through, if there are any", () => {
  const end = edges.length;
  assertEquals(immediatePostDominators(edges), [1, 4, 1, 1, end, undefined]);
  assertEquals(immediatePostDominators([[1, 2], [], []]), [3, 3, 3]);
});

test("a natural loop has its header, its latches and the nodes between them", () => {
  const loops = loopsOf(0, next).map(({ header, latches, body }) => ({
    header,
    latches: [...latches].sort(),
    body: [...body].sort(),
  }));
  assertEquals(loops.sort((a, b) => a.header - b.header), [
    { header: 1, latches: [2, 3], body: [1, 2, 3] },
    { header: 5, latches: [5], body: [5] },
  ]);
  assertEquals(loopsOf(0, (node: number) => node < 2 ? [node + 1] : []), []);
});

test("a register is live from where it is set to where it is last read, around loops too", () => {
  const uses = new Map([[2, ["sum", "limit"]], [4, ["sum"]]]),
    definitions = new Map([[0, ["sum", "limit"]], [3, ["sum"]]]);
  const use = (node: number) => ({ uses: new Set(uses.get(node)), definitions: new Set(definitions.get(node)) });
  const live = liveRegisters({ entry: 0, next, use, at: [0, 1, 2, 3, 4, 5] });
  assertEquals([0, 1, 2, 3, 4, 5].map((node) => [...live(node)].sort()), [
    [],
    ["limit", "sum"],
    ["limit", "sum"],
    ["limit"],
    ["sum"],
    [],
  ]);
});

test("the predecessors of nodes are those among the given ones", () => {
  const before = predecessors([0, 1, 2], next);
  assertEquals([...before].map(([node, from]) => [node, [...from]]), [[0, []], [1, [0, 2]], [2, [1]]]);
});
