import { type BasicBlock, postorder } from "./control_flow_graph.ts";
import type { RegisterUse } from "../codegen/function_emitter.ts";
import type { Register } from "../typing/names.ts";

/**
 * A graph of blocks, its edges, and the registers that each block uses. The edges include those to where control
 * resumes later.
 */
export interface LivenessGraph<I> {
  readonly entry: BasicBlock<I>;
  next(block: BasicBlock<I>): readonly BasicBlock<I>[];
  use(block: BasicBlock<I>): RegisterUse;
}

/** The blocks that use a register before they set it, and those that set it, by their indices. */
interface Occurrences {
  readonly uses: number[];
  readonly definitions: number[];
}

/** The registers that are live at the start of some blocks. Only those of the blocks in `at` are kept. */
export function liveRegisters<I>(
  { at, ...graph }: LivenessGraph<I> & { readonly at: Iterable<BasicBlock<I>> },
): (block: BasicBlock<I>) => readonly Register[] {
  const live = new Map<BasicBlock<I>, Register[]>();
  for (const block of at) live.set(block, []);
  walkLiveRanges(graph, (register, block) => live.get(block)?.push(register));
  return (block) => live.get(block)!;
}

/**
 * Calls `visit` for each register with each block at whose start it is live.
 *
 * Follows each register backward from its uses to its definitions. The time is proportional to the sum of the lengths
 * of all live ranges, in blocks.
 */
export function walkLiveRanges<I>(
  { entry, next, use }: LivenessGraph<I>,
  visit: (register: Register, block: BasicBlock<I>) => void,
): void {
  const blocks = postorder([entry], next);
  const indices = new Map(blocks.map((block, index) => [block, index]));
  const occurrences = occurrencesOf(blocks.map(use));
  const before = blocks.map((): number[] => []);
  blocks.forEach((block, index) => {
    for (const successor of next(block)) before[indices.get(successor)!]!.push(index);
  });
  const definedIn = new Uint32Array(blocks.length);
  const visitedFor = new Uint32Array(blocks.length);
  let number = 0;
  for (const [register, { uses, definitions }] of occurrences) {
    number++;
    for (const index of definitions) definedIn[index] = number;
    const rest: number[] = [];
    const reach = (index: number): void => {
      if (visitedFor[index] === number) return;
      visitedFor[index] = number;
      visit(register, blocks[index]!);
      rest.push(index);
    };
    for (const index of uses) reach(index);
    for (let index = rest.pop(); index !== undefined; index = rest.pop()) {
      for (const predecessor of before[index]!) if (definedIn[predecessor] !== number) reach(predecessor);
    }
  }
}

/** Where registers occur, without those that no block uses before it sets them. */
function occurrencesOf(blocks: readonly RegisterUse[]): Map<Register, Occurrences> {
  const occurrences = new Map<Register, Occurrences>();
  blocks.forEach(({ uses }, index) => {
    for (const register of uses) {
      const found = occurrences.get(register);
      if (found === undefined) occurrences.set(register, { uses: [index], definitions: [] });
      else found.uses.push(index);
    }
  });
  blocks.forEach(({ definitions }, index) => {
    for (const register of definitions) occurrences.get(register)?.definitions.push(index);
  });
  return occurrences;
}
