import {
  type BasicBlock,
  cyclesIn,
  type DominatorTree,
  dominatorTree,
  isReducible,
  type Jump,
  type LoopForest,
  loopForest,
  postorder,
  predecessors,
  redirect,
  type Selector,
  successors,
} from "../../../ptx/analysis/control_flow_graph.ts";
import type { CodeWriter } from "../webassembly/code_writer.ts";

/** Callbacks of {@linkcode emitStructured} that emit the contents of basic blocks. */
export interface BlockEmitter<I> {
  readonly code: CodeWriter;
  /** Emits the code of a basic block, without its branch. */
  emitBody(block: BasicBlock<I>): void;
  /** Emits code that pushes the condition of a basic block's branch, as an i32. */
  pushCondition(block: BasicBlock<I>): void;
  /** Emits code that pushes the index of the target of a basic block's switch, as an i32. */
  pushIndex(block: BasicBlock<I>): void;
  setSelector(selector: Selector, value: number): void;
  /** Emits code at the start of each iteration of the loop with the given header. */
  emitLoopStart(block: BasicBlock<I>): void;
}

/** The maximum nesting of loops and conditions. Deeper nesting makes engines slow, or overflows their stacks. */
const maximumDepth = 5000;

/** Thrown if a graph cannot be emitted as structured code, because it nests too deeply. */
export class StructureError extends Error {
  override readonly name = "StructureError";
}

/**
 * Emits a reducible graph, given by its dominator tree, as structured WebAssembly: loops as `loop`, joins as the end of
 * a `block`.
 *
 * Follows Ramsey, "Beyond Relooper: Recursive Translation of Unstructured Control Flow to Structured Control Flow"
 * (2022). The code of a basic block is followed by the joins that the basic block dominates. Each join follows the end
 * of a `block`, and a jump to the join is a branch out of this `block`. Other dominated basic blocks are emitted at the
 * branch that leads to them. Basic blocks outside of a loop are an exception: they are emitted after the loop, so that
 * successive loops do not nest.
 *
 * To exit, the code branches out of the outermost construct, which the caller opens and closes.
 */
export function emitStructured<I>(tree: DominatorTree<I>, emitter: BlockEmitter<I>): void {
  new StructuredEmitter(tree, emitter).emit(tree.blocks[0]!);
}

/** An enclosing construct, represented by the block that a branch to the construct reaches. Undefined for an `if`. */
type Frame<I> = BasicBlock<I> | undefined;

class StructuredEmitter<I> {
  readonly #emitter: BlockEmitter<I>;
  readonly #tree: DominatorTree<I>;
  readonly #joins = new Set<BasicBlock<I>>();
  readonly #loops: LoopForest<I>;
  /**
   * Maps the header of each loop to the basic blocks outside of the loop whose immediate dominator is inside. These
   * blocks are emitted after the loop.
   */
  readonly #behind = new Map<BasicBlock<I>, BasicBlock<I>[]>();
  readonly #isBehind = new Set<BasicBlock<I>>();
  readonly #frames: Frame<I>[] = [];
  /** The index in `#frames` of the construct through which branches reach each basic block. */
  readonly #frameOf = new Map<BasicBlock<I>, number>();
  /**
   * The parts of the code that remain to be emitted. This explicit stack replaces recursion, which could overflow the
   * call stack: the dominator tree of a long body can be very deep.
   */
  readonly #rest: (() => void)[] = [];
  /** The current number of open loops and conditions. */
  #depthOfNest = 0;

  constructor(tree: DominatorTree<I>, emitter: BlockEmitter<I>) {
    this.#emitter = emitter;
    this.#tree = tree;
    const reached = new Set<BasicBlock<I>>();
    for (const block of tree.blocks) {
      for (const successor of successors(block)) {
        if (this.#isBackward(block, successor)) continue;
        if (reached.has(successor) || block.terminator.kind === "switch") this.#joins.add(successor);
        reached.add(successor);
      }
    }
    this.#loops = loopForest(this.#tree);
    for (const block of this.#tree.blocks) {
      const loop = this.#loopLeftFor(block);
      if (loop === undefined) continue;
      this.#joins.add(block);
      const others = this.#behind.get(loop);
      if (others === undefined) this.#behind.set(loop, [block]);
      else others.push(block);
      this.#isBehind.add(block);
    }
  }

  /**
   * Returns the header of the outermost loop that contains a basic block's immediate dominator, but not the basic block
   * itself.
   */
  #loopLeftFor(block: BasicBlock<I>): BasicBlock<I> | undefined {
    const dominator = this.#tree.parent(block);
    if (dominator === block) return undefined;
    const staysIn = this.#loops.around(block);
    let left = this.#loops.isHeader(dominator) ? dominator : this.#loops.around(dominator);
    if (left === staysIn) return undefined;
    for (let next = left; next !== staysIn; next = this.#loops.around(next!)) left = next;
    return left;
  }

  /** Emits the entry and all blocks reachable from it. */
  emit(entry: BasicBlock<I>): void {
    this.#emitTree(entry);
    for (let next = this.#rest.pop(); next !== undefined; next = this.#rest.pop()) next();
  }

  /** Schedules parts to be emitted in the given order, before all parts that are already scheduled. */
  #emitNext(...parts: readonly (() => void)[]): void {
    this.#rest.push(...parts.toReversed());
  }

  #emitTree(block: BasicBlock<I>): void {
    const joins = this.#tree.children(block).filter((child) => this.#joins.has(child) && !this.#isBehind.has(child));
    const { code } = this.#emitter;
    this.#openJoins(this.#behind.get(block) ?? []);
    if (this.#loops.isHeader(block)) {
      code.loop();
      this.#emitter.emitLoopStart(block);
      this.#beginNested(block);
      this.#emitNext(() => this.#endNested());
    }
    this.#openJoins(joins);
    this.#emitter.emitBody(block);
    this.#emitTerminator(block);
  }

  /**
   * Opens a `block` for each join, with the first join innermost, and schedules the joins after the ends of the blocks.
   */
  #openJoins(joins: readonly BasicBlock<I>[]): void {
    for (const join of joins.toReversed()) {
      this.#emitNext(() => this.#emitJoin(join));
      this.#emitter.code.block();
      this.#open(join);
    }
  }

  #open(frame: Frame<I>): void {
    const index = this.#frames.push(frame) - 1;
    if (frame !== undefined) this.#frameOf.set(frame, index);
  }

  #emitJoin(join: BasicBlock<I>): void {
    this.#frames.pop();
    this.#emitter.code.end();
    this.#emitTree(join);
  }

  #beginNested(frame: Frame<I>): void {
    if (++this.#depthOfNest > maximumDepth) {
      throw new StructureError(`its control flow nests more than ${maximumDepth} levels deep`);
    }
    this.#open(frame);
  }

  #endNested(): void {
    this.#frames.pop();
    this.#emitter.code.end();
    this.#depthOfNest--;
  }

  #emitTerminator(block: BasicBlock<I>): void {
    const { code } = this.#emitter;
    const { terminator } = block;
    switch (terminator.kind) {
      case "exit":
        code.br(this.#frames.length);
        break;
      case "jump":
        if (terminator.selection !== undefined) {
          this.#emitter.setSelector(terminator.selection.selector, terminator.selection.value);
        }
        this.#emitBranch(block, terminator.target);
        break;
      case "branch":
        this.#emitConditional(block, terminator);
        break;
      case "switch": {
        const depths = terminator.targets.map((target) => this.#depth(target));
        this.#emitter.pushIndex(block);
        code.brTable(depths.slice(0, -1), depths.at(-1)!);
        break;
      }
    }
  }

  #emitConditional(
    block: BasicBlock<I>,
    { taken, otherwise }: { taken: BasicBlock<I>; otherwise: BasicBlock<I> },
  ): void {
    const { code } = this.#emitter;
    this.#emitter.pushCondition(block);
    if (this.#isEnclosing(block, taken)) {
      code.brIf(this.#depth(taken));
      this.#emitBranch(block, otherwise);
    } else if (this.#isEnclosing(block, otherwise)) {
      code.ops("i32Eqz").brIf(this.#depth(otherwise));
      this.#emitBranch(block, taken);
    } else {
      // The taken code ends with a branch, so the other code can follow the `if` without an `else`. Nesting the smaller
      // part keeps the nesting depth of long chains of conditions logarithmic.
      const isSwapped = this.#tree.size(taken) > this.#tree.size(otherwise);
      if (isSwapped) code.ops("i32Eqz");
      code.if();
      this.#beginNested(undefined);
      this.#emitNext(
        () => this.#emitBranch(block, isSwapped ? otherwise : taken),
        () => this.#endNested(),
        () => this.#emitBranch(block, isSwapped ? taken : otherwise),
      );
    }
  }

  #emitBranch(from: BasicBlock<I>, to: BasicBlock<I>): void {
    if (this.#isEnclosing(from, to)) this.#emitter.code.br(this.#depth(to));
    else this.#emitNext(() => this.#emitTree(to));
  }

  #isBackward(from: BasicBlock<I>, to: BasicBlock<I>): boolean {
    return this.#tree.number.get(to)! <= this.#tree.number.get(from)!;
  }

  #isEnclosing(from: BasicBlock<I>, to: BasicBlock<I>): boolean {
    return this.#joins.has(to) || this.#isBackward(from, to);
  }

  #depth(target: BasicBlock<I>): number {
    return this.#frames.length - 1 - this.#frameOf.get(target)!;
  }
}

/**
 * Makes a graph reducible, as structured code requires: every loop is entered only through its header.
 *
 * A loop with several entries gets a new header, which branches to the original entry that a selector specifies; blocks
 * that jump into the loop set the selector first. Other loops do not change. The graph's entry must not be part of a
 * loop. Returns the dominator tree of the result.
 */
export function makeReducible<I>(entry: BasicBlock<I>): DominatorTree<I> {
  const tree = dominatorTree(entry);
  if (isReducible(tree)) return tree;
  const regions: BasicBlock<I>[][] = [postorder([entry], successors)];
  const before = predecessors(regions[0]!, successors);
  for (let region = regions.pop(); region !== undefined; region = regions.pop()) {
    for (const loop of cyclesIn(region)) {
      const entered = [...loop].filter((block) => [...before.get(block)!].some((from) => !loop.has(from)));
      if (entered.length > 1) {
        // Removing the new header from the region breaks its cycles, so only inner loops remain to be examined.
        dispatchTo(entered, before);
        regions.push([...loop]);
      } else {
        regions.push([...loop].filter((block) => block !== entered[0]));
      }
    }
  }
  return dominatorTree(entry);
}

/**
 * Creates the header of a loop with several entries, and redirects all jumps to those entries to the header. Updates
 * `before`, the predecessors of each block.
 */
function dispatchTo<I>(
  targets: readonly BasicBlock<I>[],
  before: Map<BasicBlock<I>, Set<BasicBlock<I>>>,
): void {
  const selector: Selector = { kind: "selector" };
  const header: BasicBlock<I> = { instructions: [], terminator: { kind: "switch", on: selector, targets } };
  const jumps = new Set<BasicBlock<I>>();
  targets.forEach((target, value) => {
    for (const source of before.get(target)!) {
      const terminator: Jump<I> = { kind: "jump", target: header, selection: { selector, value } };
      const replacement = { instructions: [], terminator };
      redirect(source, { target, replacement });
      before.set(replacement, new Set([source]));
      jumps.add(replacement);
    }
    before.set(target, new Set([header]));
  });
  before.set(header, jumps);
}
