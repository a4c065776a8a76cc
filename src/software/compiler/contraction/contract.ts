/**
 * Contracts products and sums to fused multiply-adds, as the compiler in NVIDIA's driver does.
 *
 * The PTX manual allows a compiler to contract a `mul` and an `add` or `sub` without rounding modifiers, so that they
 * round once, and does not specify when. This module follows the rule of `ptxas` 13.0 for `sm_90`, found by experiment
 * and tested by `tests/compiler/contraction/`: within straight-line code, going through the sums in order, a product is
 * contracted if it is read only by sums that can all be contracted with it. A product that several sums read is
 * computed in each of them, and a product with any other reader is not contracted.
 *
 * Straight-line code means the basic blocks of `ptxas` after it has removed unnecessary jumps, and before it unrolls
 * loops or predicates branches.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { type InstructionSet, resolveForm } from "../typing/find_form.ts";
import type { Instruction } from "../../../ptx/syntax.ts";
import { InsertedInstructions } from "../../../ptx/analysis/inserted_instructions.ts";
import type { LabelName, Register, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";
import type { ResolvedFunction, ResolvedKernel } from "../typing/resolver.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { isPacked, type Product, type Products, productsIn, type Sum, type SumTerm } from "./products.ts";
import { liveRegisters, registerUseOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import {
  type BasicBlock,
  newBlock,
  postorder,
  successors,
  type Terminator,
} from "../../../ptx/analysis/control_flow_graph.ts";

/** Maps an instruction to the instructions that replace it, or to an empty array if the instruction is removed. */
type Replacements = Map<CompiledInstruction, readonly CompiledInstruction[]>;

/** Contracts products and sums into multiply-adds, in a kernel and in the functions that it may call. */
export function contractKernel(resolved: ResolvedKernel, instructions: InstructionSet): ResolvedKernel {
  const contracted = (body: ResolvedFunction) => contractFunction(body, instructions);
  return {
    ...resolved,
    kernel: contracted(resolved.kernel),
    callees: new Map([...resolved.callees].map(([name, body]) => [name, contracted(body)])),
  };
}

function contractFunction(resolved: ResolvedFunction, instructions: InstructionSet): ResolvedFunction {
  const has = (role: "product" | "sum" | "difference") =>
    resolved.items.some((item) => item.kind === "instruction" && item.form.traits.contraction === role);
  if (!has("product") || !(has("sum") || has("difference"))) return resolved;
  const replacements: Replacements = new Map();
  for (const code of straightLineCode(resolved)) {
    const products = productsIn(code);
    decide(products.sums);
    new Rewriter(replacements, instructions).rewrite(products);
  }
  if (replacements.size === 0) return resolved;
  const items = resolved.items.flatMap((item): readonly (CompiledInstruction | LabelName)[] => {
    return (item.kind === "instruction" ? replacements.get(item) : undefined) ?? [item];
  });
  return { ...resolved, items };
}

/** Decides for each sum whether it is contracted, and with which of its terms. */
function decide(sums: readonly Sum[]): void {
  // For scalar types, products that are read once are contracted first.
  for (const sum of sums) if (!isPacked(sum.instruction)) contractWith(sum, ({ count }) => count === 1);
  for (const sum of sums) contractWith(sum, () => true);
}

function contractWith(sum: Sum, accepts: (product: Product) => boolean): void {
  if (sum.contracted !== undefined) return;
  let best: SumTerm | undefined;
  for (const term of sum.terms) {
    const { product } = term.value;
    if (product === undefined || product.isPinned || !product.sums.has(sum) || !accepts(product)) continue;
    if (best === undefined || product.count < best.value.product!.count) best = term;
  }
  if (best === undefined) return;
  sum.contracted = best;
  for (const { value: { product } } of sum.terms) {
    if (product === best.value.product) product?.sums.delete(sum);
    // The contracted sum still reads its other term. If the other term is a product, the product cannot be removed.
    else if (product !== undefined) product.isPinned = true;
  }
}

/** Replaces contracted sums with multiply-adds, and removes products that have no readers left. */
class Rewriter {
  readonly #replacements: Replacements;
  readonly #instructions: InstructionSet;
  /**
   * For each product, the new registers that hold copies of its factors. A factor is copied if its original register is
   * overwritten before the sum.
   */
  readonly #kept = new Map<Product, (Register | undefined)[]>();

  constructor(replacements: Replacements, instructions: InstructionSet) {
    this.#replacements = replacements;
    this.#instructions = instructions;
  }

  rewrite({ sums, copies }: Products): void {
    const contracted = sums.filter((sum) => sum.contracted !== undefined);
    for (const sum of contracted) this.#replacements.set(sum.instruction, this.#fused(sum, sum.contracted!));
    const products = new Set(contracted.map((sum) => sum.contracted!.value.product!));
    const removed = new Set([...products].filter(({ sums, isPacked }) => sums.size === 0 && !isPacked));
    for (const product of products) {
      const { instruction } = product;
      const copies = this.#kept.get(product)?.flatMap((to, index) => {
        const { type } = instruction;
        const bits = type.kind === "float" && type.value === "i32" ? `b${type.bits}` : type.name;
        return to === undefined
          ? []
          : [this.#create(`mov.${bits}`, [to, instruction.operands[index + 1]!], instruction)];
      });
      this.#replacements.set(instruction, [...copies ?? [], ...removed.has(product) ? [] : [instruction]]);
    }
    for (const [instruction, product] of copies) {
      if (removed.has(product)) this.#replacements.set(instruction, []);
    }
  }

  /** Returns the instructions that replace a sum: a multiply-add, preceded by negations of its operands if needed. */
  #fused(sum: Sum, term: SumTerm): CompiledInstruction[] {
    const { instruction, terms } = sum;
    const { operands: [destination], choices, type } = instruction;
    const [first, second] = this.#factors(term) as [ResolvedOperand, ResolvedOperand];
    const [addend] = terms.filter((other) => other !== term) as [SumTerm];
    const isSubtracted = instruction.form.traits.contraction === "difference" && addend === terms[1];
    const negations: CompiledInstruction[] = [];
    const negatedIf = (condition: boolean, operand: ResolvedOperand): ResolvedOperand => {
      if (!condition) return operand;
      const result = this.#register(instruction);
      negations.push(this.#negation(instruction, { result, operand }));
      return result;
    };
    const operands = [
      destination!,
      negatedIf(term.isNegated, first),
      second,
      negatedIf(isSubtracted, addend.operand),
    ];
    const modifiers = ["rn", ...["ftz", "sat"].filter((modifier) => choices.has(modifier)), type.name];
    const { predicate } = instruction;
    return [...negations, { ...this.#create(`fma.${modifiers.join(".")}`, operands, instruction), predicate }];
  }

  #factors({ value, isIntact }: SumTerm): readonly ResolvedOperand[] {
    const { instruction } = value.product!;
    const kept = this.#kept.get(value.product!) ?? [];
    this.#kept.set(value.product!, kept);
    return instruction.operands.slice(1).map((operand, index) => {
      return isIntact[index] ? operand : kept[index] ??= this.#register(instruction);
    });
  }

  /**
   * Creates the negation of an operand. Flips the sign bits of 16-bit floats with `xor`, which is cheaper than `neg`.
   */
  #negation(
    instruction: CompiledInstruction,
    { result, operand }: { result: Register; operand: ResolvedOperand },
  ): CompiledInstruction {
    const { type } = instruction;
    if (type.value !== "i32") return this.#create(`neg.${type.name}`, [result, operand], instruction);
    const signs = { kind: "integer", value: type.bits === 16 ? 0x8000n : 0x8000_8000n } as const;
    return this.#create(`xor.b${type.bits}`, [result, operand, signs], instruction);
  }

  #register({ type, line }: CompiledInstruction): Register {
    const held = type.value === "i32" ? typeNamed(`b${type.bits}`) : type;
    return { kind: "register", name: `a factor of line ${line}`, type: held };
  }

  #create(
    text: string,
    operands: readonly ResolvedOperand[],
    { line }: CompiledInstruction,
  ): CompiledInstruction {
    const created: CompiledInstruction[] = [];
    const formOf = (instruction: Instruction) => resolveForm(instruction, this.#instructions);
    new InsertedInstructions(created, { resolveForm: formOf, line }).addTo(text, operands);
    return created[0]!;
  }
}

/** Instructions that execute one after another. */
export interface StraightLineCode {
  readonly instructions: readonly CompiledInstruction[];
  /** The registers that are live after the last instruction. */
  readonly liveAtEnd: ReadonlySet<Register>;
}

type Block = BasicBlock<CompiledInstruction>;

/** Returns the reachable straight-line code of a function. */
function straightLineCode(resolved: ResolvedFunction): StraightLineCode[] {
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
  // Reverse postorder visits most blocks after their predecessors, so that most chains are built from their first
  // block.
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

/** Builds the basic blocks of a function. `divided` are the blocks that must not be merged with their predecessor. */
function blocksOf({ items }: ResolvedFunction): { readonly entry: Block; readonly divided: ReadonlySet<Block> } {
  const labelled = new Map<LabelName, Block>();
  for (const item of items) if (item.kind === "label") labelled.set(item, newBlock<CompiledInstruction>());
  const divided = new Set<Block>();
  const entry = newBlock<CompiledInstruction>();
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
    const next = newBlock<CompiledInstruction>();
    block.terminator = terminatorOf(item, [...targets ?? [], undefined].map((name) => labelled.get(name!) ?? next));
    // The block after an exit or return must not be merged with its predecessor.
    if (targets === undefined || targets.length === 0) divided.add(next);
    block = next;
  }
  return { entry, divided };
}

/** Returns the labels that an instruction may jump to. Undefined if it always continues with the next instruction. */
function targetsOf({ form: { flow }, operands }: CompiledInstruction): readonly LabelName[] | undefined {
  if (flow === "return" || flow === "exit") return [];
  const target = operands[flow === "switch" ? 1 : 0];
  if (flow === "branch" && target?.kind === "label") return [target];
  return flow === "switch" && target?.kind === "labels" ? target.labels : undefined;
}

/**
 * @param targets the blocks that the instruction may jump to, followed by the block where control continues otherwise
 */
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
 * Whether `ptxas` ends a basic block at an instruction. It does so if it expands the instruction into several blocks,
 * or if it branches around the instruction when the predicate is false.
 */
function dividesBlock(instruction: CompiledInstruction): boolean {
  const { form: { flow, traits }, predicate } = instruction;
  if (flow === "call" || traits.dividesBlock?.(instruction) === true) return true;
  const isComputation = traits.effects?.length === 0 && traits.isUniform === true && traits.hasNoEffect !== true;
  return predicate !== undefined && (!isComputation || flow !== undefined);
}

/**
 * Skips empty blocks: returns the first block, starting with the given one, that has instructions or must not be
 * merged.
 */
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
