import { type BasicBlock, postorder } from "./control_flow_graph.ts";
import type { RegisterUse } from "../codegen/function_emitter.ts";
import type { Register } from "../typing/names.ts";

/**
 * A graph of blocks, its edges, and the registers that each block uses. The edges include those to where control
 * resumes later.
 */
export interface LivenessGraph<I> {
  readonly entry: BasicBlock<I>;
  /** The blocks at whose start liveness is asked for. */
  readonly at: Iterable<BasicBlock<I>>;
  next(block: BasicBlock<I>): readonly BasicBlock<I>[];
  use(block: BasicBlock<I>): RegisterUse;
}

/** The blocks that use a register before they set it, and those that set it, by their indices. */
interface Occurrences {
  readonly uses: number[];
  readonly definitions: number[];
}

/**
 * The registers that are live at the start of some blocks.
 *
 * Follows each register backward from its uses to its definitions. The time is proportional to the sum of the lengths
 * of all live ranges, in blocks, and only what is asked for is kept.
 */
export function liveRegisters<I>(
  { entry, at, next, use }: LivenessGraph<I>,
): (block: BasicBlock<I>) => readonly Register[] {
  const blocks = postorder([entry], next);
  const indices = new Map(blocks.map((block, index) => [block, index]));
  const live = new Map<number, Register[]>();
  for (const block of at) {
    const index = indices.get(block);
    if (index !== undefined) live.set(index, []);
  }
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
    const visit = (index: number): void => {
      if (visitedFor[index] === number) return;
      visitedFor[index] = number;
      live.get(index)?.push(register);
      rest.push(index);
    };
    for (const index of uses) visit(index);
    for (let index = rest.pop(); index !== undefined; index = rest.pop()) {
      for (const predecessor of before[index]!) if (definedIn[predecessor] !== number) visit(predecessor);
    }
  }
  return (block) => live.get(indices.get(block)!)!;
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
