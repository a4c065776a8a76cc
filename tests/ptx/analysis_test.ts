import { assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  type BasicBlock,
  type FlowStep,
  immediateDominators,
  immediatePostDominators,
  loopsOf,
  newBlock,
  predecessors,
} from "../../src/ptx/analysis/control_flow_graph.ts";
import { liveRegisters } from "../../src/ptx/analysis/definitions_and_uses.ts";
import { FunctionAnalysis } from "../../src/ptx/analysis/function_analysis.ts";
import { resolveNearest } from "../../src/ptx/instructions/find_row.ts";
import type {
  Register,
  ResolvedInstruction,
  ResolvedOperand,
} from "../../src/ptx/instructions/resolved_instruction.ts";
import { typeNamed } from "../../src/ptx/instructions/scalar_types.ts";

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

test("a function's analysis has post-dominators, the innermost loop of each block, and its live registers", () => {
  const register = (name: string, type = "u32"): Register => ({ kind: "register", name, type: typeNamed(type) });
  const [count, sum, again] = [register("count"), register("sum"), register("again", "pred")];
  const instruction = (text: string, operands: ResolvedOperand[], predicate?: Register): ResolvedInstruction => {
    const [opcode = "", ...modifiers] = text.split(".");
    const resolved = resolveNearest({ kind: "instruction", opcode, modifiers, operands: [], line: 1 });
    return { ...resolved, operands, predicate: predicate && { register: predicate, negated: false } };
  };
  const block = (): BasicBlock<FlowStep> => newBlock();
  // The inner loop is block 2, the outer one blocks 1 to 3.
  const [entry, outer, inner, latch, end] = [block(), block(), block(), block(), block()];
  const blocks = [entry, outer, inner, latch, end];
  const branch = { instruction: instruction("bra", [], again) };
  entry.instructions.push({ instruction: instruction("mov.u32", [count, { kind: "integer", value: 0n }]) });
  entry.terminator = { kind: "jump", target: outer };
  outer.instructions.push({ instruction: instruction("mov.u32", [sum, count]) });
  outer.terminator = { kind: "jump", target: inner };
  inner.instructions.push({ instruction: instruction("add.u32", [sum, sum, count]) });
  inner.instructions.push({ instruction: instruction("setp.lt.u32", [again, sum, count]) });
  inner.terminator = { kind: "branch", on: branch, taken: inner, otherwise: latch };
  latch.terminator = { kind: "branch", on: branch, taken: outer, otherwise: end };
  const analysis = new FunctionAnalysis<FlowStep>(entry, []);
  const numberOf = (block: BasicBlock<FlowStep> | undefined) => block && blocks.indexOf(block);
  assertEquals(blocks.map((block) => numberOf(analysis.postDominators.get(block))), [1, 2, 3, 4, undefined]);
  assertEquals(blocks.map((block) => numberOf(analysis.innermostLoops.get(block)?.header)), [
    undefined,
    1,
    2,
    1,
    undefined,
  ]);
  assertEquals(blocks.map((block) => analysis.liveRegisters.get(block)!.map(({ name }) => name).sort()), [
    [],
    ["count"],
    ["count", "sum"],
    ["again", "count"],
    [],
  ]);
});
