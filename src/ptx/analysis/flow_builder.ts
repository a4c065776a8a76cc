import type { Flow, InstructionRow } from "../instructions/instruction_traits.ts";
import type { LabelName, ResolvedInstruction } from "../instructions/resolved_instruction.ts";
import { PtxError } from "../syntax.ts";
import { type BasicBlock, type FlowStep, newBlock } from "./control_flow_graph.ts";

/**
 * Divides the instructions of a function into basic blocks. Subclasses decide which instructions end a block, and
 * create the steps of the blocks.
 */
export abstract class FlowBuilder<Form extends InstructionRow, Step extends FlowStep> {
  /** The target of `ret`. */
  readonly returning: BasicBlock<Step> = newBlock();
  /** The target of `exit`. */
  readonly exiting: BasicBlock<Step> = newBlock();
  readonly #items: readonly (ResolvedInstruction<Form> | LabelName)[];
  readonly #labelled = new Map<LabelName, BasicBlock<Step>>();
  #block: BasicBlock<Step> = newBlock();

  constructor(items: readonly (ResolvedInstruction<Form> | LabelName)[]) {
    this.#items = items;
    for (const item of items) if (item.kind === "label") this.#labelled.set(item, newBlock());
  }

  /**
   * Returns the step for an instruction that does not end its basic block. Undefined for an instruction that ends its
   * block.
   */
  protected abstract stepOf(instruction: ResolvedInstruction<Form>): Step | undefined;

  /** Returns the effect on control flow of an instruction that ends its basic block. */
  protected abstract flowOf(instruction: ResolvedInstruction<Form>): Flow;

  /** Returns the step that evaluates the predicate of an instruction, to decide whether its branch is taken. */
  protected abstract branchStep(instruction: ResolvedInstruction<Form>): Step;

  /** Returns the step that evaluates the index by which an instruction selects one of several targets. */
  protected abstract switchStep(instruction: ResolvedInstruction<Form>): Step;

  /**
   * Returns the basic block in which a thread leaves the function, by a call or by being suspended. The thread later
   * resumes at `next`.
   */
  protected abstract leave(instruction: ResolvedInstruction<Form>, next: BasicBlock<Step>): BasicBlock<Step>;

  /** Builds the blocks. Returns the entry, which is a separate empty block, so that it is never part of a loop. */
  protected buildBlocks(): BasicBlock<Step> {
    const entry = newBlock<Step>();
    entry.terminator = { kind: "jump", target: this.#block };
    for (const item of this.#items) {
      if (item.kind === "label") this.#continueAt(this.#labelled.get(item)!);
      else {
        const step = this.stepOf(item);
        if (step === undefined) this.#endBlock(item);
        else this.#block.instructions.push(step);
      }
    }
    this.#block.terminator = { kind: "jump", target: this.returning };
    return entry;
  }

  /** Ends the current block with a jump to the next. */
  #continueAt(next: BasicBlock<Step>): void {
    this.#block.terminator = { kind: "jump", target: next };
    this.#block = next;
  }

  #endBlock(instruction: ResolvedInstruction<Form>): void {
    const next = newBlock<Step>();
    const target = this.#target(instruction, next);
    this.#block.line = instruction.line;
    this.#block.terminator = instruction.predicate === undefined
      ? { kind: "jump", target }
      : { kind: "branch", on: this.branchStep(instruction), taken: target, otherwise: next };
    this.#block = next;
  }

  /** Returns the block that an instruction jumps to if its predicate is true. Control otherwise continues at `next`. */
  #target(instruction: ResolvedInstruction<Form>, next: BasicBlock<Step>): BasicBlock<Step> {
    switch (this.flowOf(instruction)) {
      case "return":
        return this.returning;
      case "exit":
        return this.exiting;
      case "branch": {
        const label = instruction.operands[0];
        if (label?.kind === "label") return this.#labelled.get(label)!;
        throw new PtxError(instruction.line, `cannot compile "${instruction.text}": it must name a label`);
      }
      case "switch": {
        const block = newBlock<Step>();
        const targets = switchTargets(instruction).map((label) => this.#labelled.get(label)!);
        block.terminator = { kind: "switch", on: this.switchStep(instruction), targets };
        return block;
      }
      case "call":
      case "suspend":
        return this.leave(instruction, next);
    }
  }
}

function switchTargets({ operands, line, text }: ResolvedInstruction): readonly LabelName[] {
  const list = operands[1];
  if (list?.kind === "labels") return list.labels;
  throw new PtxError(line, `cannot compile "${text}": its second operand must name a .branchtargets list`);
}
