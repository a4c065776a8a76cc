import {
  type BasicBlock,
  type DominatorTree,
  dominatorTree,
  type FlowStep,
  type Loop,
  loopsOf,
  reversePostorder,
  successors,
} from "./control_flow_graph.ts";
import { type Definitions, definitionsOf } from "./definitions_and_uses.ts";

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
  #loops: readonly Loop<BasicBlock<Step>>[] | undefined;

  constructor(entry: BasicBlock<Step>, instructions: readonly NonNullable<Step["instruction"]>[]) {
    this.entry = entry;
    this.instructions = instructions;
  }

  /** The instructions that set each register. */
  get definitions(): Definitions {
    return this.#definitions ??= definitionsOf(this.instructions);
  }

  /** The reachable blocks, in reverse postorder. */
  get blocks(): readonly BasicBlock<Step>[] {
    return this.#blocks ??= reversePostorder(this.entry);
  }

  get dominators(): DominatorTree<Step> {
    return this.#dominators ??= dominatorTree(this.entry);
  }

  /** The function's natural loops. */
  get loops(): readonly Loop<BasicBlock<Step>>[] {
    return this.#loops ??= loopsOf(this.entry, successors);
  }
}
