/**
 * The straight-line code within which `ptxas` contracts: its own basic blocks, after it has removed jumps that it does
 * not need, and before it unrolls loops or predicates branches.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { liveRegisters, registerUseOf } from "../../../ptx/analysis/liveness.ts";
import { type BasicBlock, postorder, successors, type Terminator } from "../../../ptx/analysis/control_flow_graph.ts";
import type { LabelName, Register } from "../../../ptx/instructions/resolved_instruction.ts";
import type { ResolvedFunction } from "../typing/resolver.ts";

/** Instructions that execute one after another, and the registers that are read after them. */
export interface StraightLineCode {
  readonly instructions: readonly CompiledInstruction[];
  readonly liveAtEnd: ReadonlySet<Register>;
}

type Block = BasicBlock<CompiledInstruction>;

/** The straight-line code of a function, without what no path reaches. */
export function straightLineCode(resolved: ResolvedFunction): StraightLineCode[] {
  const { entry, divided } = blocksOf(resolved);
  const next = new Map<Block, readonly Block[]>();
  const nextOf = (block: Block) => [...new Set(successors(block).map((target) => pastEmptyBlocks(target, divided)))];
  for (const block of postorder([entry], nextOf)) next.set(block, nextOf(block));
  const entries = new Map<Block, number>([[entry, 1]]);
  for (const targets of next.values()) {
    for (const target of targets) entries.set(target, (entries.get(target) ?? 0) + 1);
  }
  const following = (block: Block): Block | undefined => {
    const [only, ...others] = next.get(block)!;
    return only !== undefined && others.length === 0 && entries.get(only) === 1 && !divided.has(only)
      ? only
      : undefined;
  };
  // From the entry on, so that most chains are complete when they are found.
  const order = [...next.keys()].reverse();
  const chains = new Map(order.map((block) => [block, [block]]));
  for (const first of order) {
    const chain = chains.get(first);
    if (chain === undefined) continue;
    for (let block = following(first); block !== undefined; block = following(chain.at(-1)!)) {
      for (const joined of chains.get(block)!) chain.push(joined);
      chains.delete(block);
    }
  }
  const ends = [...chains.values()].map((chain) => ({ chain, after: successors(chain.at(-1)!) }));
  const liveAt = liveRegisters({
    entry,
    next: successors,
    use: ({ instructions }) => registerUseOf(instructions),
    at: new Set(ends.flatMap(({ after }) => after)),
  });
  return ends.map(({ chain, after }) => ({
    instructions: chain.flatMap(({ instructions }) => instructions),
    liveAtEnd: new Set(after.flatMap(liveAt)),
  }));
}

/** Basic blocks, and those that stay apart from the one in front of them. */
function blocksOf({ items }: ResolvedFunction): { readonly entry: Block; readonly divided: ReadonlySet<Block> } {
  const labelled = new Map<LabelName, Block>();
  for (const item of items) if (item.kind === "label") labelled.set(item, newBlock());
  const divided = new Set<Block>();
  const entry = newBlock();
  let block = entry;
  for (const item of items) {
    if (item.kind === "label") {
      const next = labelled.get(item)!;
      block.terminator = { kind: "jump", target: next };
      block = next;
      continue;
    }
    if (item.form.flow !== "branch" || item.predicate !== undefined) block.instructions.push(item);
    const targets = targetsOf(item);
    if (targets === undefined && !dividesBlock(item)) continue;
    const next = newBlock();
    block.terminator = terminatorOf(item, [...targets ?? [], undefined].map((name) => labelled.get(name!) ?? next));
    // What follows an exit under a predicate is divided from it, too.
    if (targets === undefined || targets.length === 0) divided.add(next);
    block = next;
  }
  return { entry, divided };
}

function newBlock(): Block {
  return { instructions: [], terminator: { kind: "exit" } };
}

/** Where an instruction jumps to. Undefined if the next one follows. */
function targetsOf({ form: { flow }, operands }: CompiledInstruction): readonly LabelName[] | undefined {
  if (flow === "return" || flow === "exit") return [];
  const target = operands[flow === "switch" ? 1 : 0];
  if (flow === "branch" && target?.kind === "label") return [target];
  return flow === "switch" && target?.kind === "labels" ? target.labels : undefined;
}

/** @param targets where the instruction may lead, and where it leads if its predicate does not hold */
function terminatorOf(
  instruction: CompiledInstruction,
  targets: readonly Block[],
): Terminator<CompiledInstruction> {
  const { predicate, form: { flow } } = instruction;
  const always = predicate === undefined && flow !== undefined && flow !== "call" && flow !== "suspend";
  const reached = always ? targets.slice(0, -1) : targets;
  if (reached.length === 0) return { kind: "exit" };
  return { kind: "switch", on: instruction, targets: reached };
}

/**
 * Whether `ptxas` divides a block at an instruction: because it replaces the instruction with several blocks, or
 * because it branches around it where its predicate does not hold.
 */
function dividesBlock(instruction: CompiledInstruction): boolean {
  const { form: { flow, traits }, predicate } = instruction;
  if (flow === "call" || traits.dividesBlock?.(instruction) === true) return true;
  const isComputation = traits.effects?.length === 0 && traits.isUniform === true && traits.hasNoEffect !== true;
  return predicate !== undefined && (!isComputation || flow !== undefined);
}

/** The first block at or behind a block that does something, or that stays apart from the one in front of it. */
function pastEmptyBlocks(block: Block, divided: ReadonlySet<Block>): Block {
  const passed = new Set<Block>();
  let at = block;
  while (at.instructions.length === 0 && !divided.has(at) && !passed.has(at)) {
    const [only, other] = successors(at);
    if (only === undefined || other !== undefined) break;
    passed.add(at);
    at = only;
  }
  return at;
}
