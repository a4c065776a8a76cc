import {
  type BasicBlock,
  type DominatorTree,
  dominatorTree,
  type FlowStep,
  immediatePostDominators,
  type Loop,
  loopsOf,
  reversePostorder,
  successors,
  type Terminator,
} from "./control_flow_graph.ts";
import { type Definitions, definitionsOf, liveRegisters, registerUseOf } from "./definitions_and_uses.ts";
import type { Register, ResolvedInstruction } from "../instructions/resolved_instruction.ts";

/**
 * The analyses of a function, shared by all passes. Each is computed once, on first use. The control-flow graph must
 * not change; a pass that changes it works on a copy.
 */
export class FunctionAnalysis<Step extends FlowStep = FlowStep> {
  readonly entry: BasicBlock<Step>;
  /** The function's instructions, in program order. */
  readonly instructions: readonly NonNullable<Step["instruction"]>[];
  #definitions: Definitions | undefined;
  #blocks: readonly BasicBlock<Step>[] | undefined;
  #dominators: DominatorTree<Step> | undefined;
  #postDominators: ReadonlyMap<BasicBlock<Step>, BasicBlock<Step> | undefined> | undefined;
  #loops: readonly Loop<BasicBlock<Step>>[] | undefined;
  #innermostLoops: ReadonlyMap<BasicBlock<Step>, Loop<BasicBlock<Step>>> | undefined;
  #liveRegisters: ReadonlyMap<BasicBlock<Step>, readonly Register[]> | undefined;

  constructor(entry: BasicBlock<Step>, instructions: readonly NonNullable<Step["instruction"]>[]) {
    this.entry = entry;
    this.instructions = instructions;
  }

  /** The instructions that set each register. */
  get definitions(): Definitions {
    return this.#definitions ??= definitionsOf(this.instructions);
  }

  /** The reachable basic blocks, in reverse postorder. */
  get blocks(): readonly BasicBlock<Step>[] {
    return this.#blocks ??= reversePostorder(this.entry);
  }

  get dominators(): DominatorTree<Step> {
    return this.#dominators ??= dominatorTree(this.entry);
  }

  /**
   * The immediate post-dominator of each reachable block: the first other block on all paths from it to the end of the
   * function. Undefined for a block at the end, and for a block that does not reach the end.
   */
  get postDominators(): ReadonlyMap<BasicBlock<Step>, BasicBlock<Step> | undefined> {
    return this.#postDominators ??= this.#findPostDominators();
  }

  #findPostDominators(): ReadonlyMap<BasicBlock<Step>, BasicBlock<Step> | undefined> {
    const { blocks } = this;
    const indices = new Map(blocks.map((block, index) => [block, index]));
    const edges = blocks.map((block) => successors(block).map((successor) => indices.get(successor)!));
    return new Map(immediatePostDominators(edges).map((found, index) => [blocks[index]!, blocks[found ?? -1]]));
  }

  /** The function's natural loops. */
  get loops(): readonly Loop<BasicBlock<Step>>[] {
    return this.#loops ??= loopsOf(this.entry, successors);
  }

  /** The innermost natural loop that contains each basic block, for the blocks in loops. */
  get innermostLoops(): ReadonlyMap<BasicBlock<Step>, Loop<BasicBlock<Step>>> {
    return this.#innermostLoops ??= this.#findInnermostLoops();
  }

  #findInnermostLoops(): ReadonlyMap<BasicBlock<Step>, Loop<BasicBlock<Step>>> {
    const found = new Map<BasicBlock<Step>, Loop<BasicBlock<Step>>>();
    for (const loop of this.loops) {
      for (const block of loop.body) {
        const other = found.get(block);
        if (other === undefined || loop.body.length < other.body.length) found.set(block, loop);
      }
    }
    return found;
  }

  /** The registers that are live at the start of each reachable basic block. */
  get liveRegisters(): ReadonlyMap<BasicBlock<Step>, readonly Register[]> {
    return this.#liveRegisters ??= this.#findLiveRegisters();
  }

  #findLiveRegisters(): ReadonlyMap<BasicBlock<Step>, readonly Register[]> {
    const liveAt = liveRegisters({
      entry: this.entry,
      next: successors,
      use: ({ instructions, terminator }: BasicBlock<Step>) => registerUseOf(instructionsIn(instructions, terminator)),
      at: this.blocks,
    });
    return new Map(this.blocks.map((block) => [block, liveAt(block)]));
  }
}

/** Returns the instructions of a basic block, including the one on whose operands the terminator branches. */
function instructionsIn<Step extends FlowStep>(
  steps: readonly Step[],
  terminator: Terminator<Step>,
): ResolvedInstruction[] {
  const on = "on" in terminator && "instruction" in terminator.on ? [terminator.on] : [];
  return [...steps, ...on].map(({ instruction }) => instruction).filter((each) => each !== undefined);
}
