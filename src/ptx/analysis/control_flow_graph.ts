/**
 * Control-flow graphs, and their blocks in order.
 *
 * @module
 */

import type { ResolvedInstruction } from "../instructions/resolved_instruction.ts";

/** One thing that a block does. */
export interface FlowStep {
  /** Undefined for what is done between instructions. */
  readonly instruction: ResolvedInstruction | undefined;
}

/** Decides which way a switch goes. Blocks that jump to the switch set it first. Compared by identity. */
export interface Selector {
  readonly kind: "selector";
}

/** Straight-line code and where it goes next. `I` is the type of an instruction. */
export interface BasicBlock<I> {
  readonly instructions: I[];
  terminator: Terminator<I>;
  /** The line of the instruction at its end, for messages. */
  line?: number;
}

/** How a block ends. */
export type Terminator<I> =
  | { readonly kind: "exit" }
  | Jump<I>
  | {
    readonly kind: "branch";
    /** The instruction whose predicate decides. */
    readonly on: I;
    readonly taken: BasicBlock<I>;
    readonly otherwise: BasicBlock<I>;
  }
  | {
    readonly kind: "switch";
    /** The index of the target. An index past the end goes to the last target. */
    readonly on: I | Selector;
    readonly targets: readonly BasicBlock<I>[];
  };

/** A jump to a block. If the block switches on a selector, the jump sets the selector first. */
export interface Jump<I> {
  readonly kind: "jump";
  readonly target: BasicBlock<I>;
  readonly selection?: { readonly selector: Selector; readonly value: number };
}

/** The successors of a block, with repetitions. */
export function successors<I>({ terminator }: BasicBlock<I>): readonly BasicBlock<I>[] {
  switch (terminator.kind) {
    case "exit":
      return [];
    case "jump":
      return [terminator.target];
    case "branch":
      return [terminator.taken, terminator.otherwise];
    case "switch":
      return terminator.targets;
  }
}

/** A copy of a block's end with other successors. */
export function mapTargets<I>(
  terminator: Terminator<I>,
  mapped: (block: BasicBlock<I>) => BasicBlock<I>,
): Terminator<I> {
  switch (terminator.kind) {
    case "exit":
      return terminator;
    case "jump":
      return { ...terminator, target: mapped(terminator.target) };
    case "branch":
      return { ...terminator, taken: mapped(terminator.taken), otherwise: mapped(terminator.otherwise) };
    case "switch":
      return { ...terminator, targets: terminator.targets.map(mapped) };
  }
}

/** Replaces `target` with `replacement` among the successors of a block. */
export function redirect<I>(
  block: BasicBlock<I>,
  { target, replacement }: { target: BasicBlock<I>; replacement: BasicBlock<I> },
): void {
  block.terminator = mapTargets(block.terminator, (successor) => successor === target ? replacement : successor);
}

/** The nodes reachable from `roots`, in postorder. */
export function postorder<N>(roots: Iterable<N>, next: (node: N) => Iterable<N>): N[] {
  const order: N[] = [];
  const seen = new Set<N>();
  for (const root of roots) {
    if (seen.has(root)) continue;
    seen.add(root);
    const path = [{ node: root, rest: next(root)[Symbol.iterator]() }];
    while (path.length > 0) {
      const { node, rest } = path.at(-1)!;
      const { value, done } = rest.next();
      if (done) {
        order.push(node);
        path.pop();
      } else if (!seen.has(value)) {
        seen.add(value);
        path.push({ node: value, rest: next(value)[Symbol.iterator]() });
      }
    }
  }
  return order;
}

/** The blocks that can be reached from an entry, in reverse postorder. */
export function reversePostorder<I>(entry: BasicBlock<I>): BasicBlock<I>[] {
  return postorder([entry], successors).reverse();
}

/** The predecessors of each node, among the given nodes. */
export function predecessors<N>(nodes: Iterable<N>, next: (node: N) => Iterable<N>): Map<N, Set<N>> {
  const result = new Map<N, Set<N>>();
  for (const node of nodes) result.set(node, new Set());
  for (const node of nodes) {
    for (const successor of next(node)) result.get(successor)?.add(node);
  }
  return result;
}
