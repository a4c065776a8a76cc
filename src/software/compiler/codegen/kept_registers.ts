/**
 * Determines which registers a large kernel saves and restores when its threads are suspended. A saved register stays
 * valid in the thread's memory until an instruction sets the register again. A suspended thread therefore saves only
 * the registers that may have been set since the thread last resumed. A resumed thread restores only the registers that
 * it may need before it is suspended again. Even in a kernel with hundreds of live registers and thousands of shuffles,
 * these are few.
 *
 * @module
 */
import { type Groups, Pairs } from "../../../ptx/analysis/definitions_and_uses.ts";
import { postorder } from "../../../ptx/analysis/control_flow_graph.ts";

/** The registers that a basic block accesses. */
export interface RegisterChanges<Name> {
  /** The registers that the block may read before it sets them. */
  readonly uses: ReadonlySet<Name>;
  /** The registers that the block sets on every path. */
  readonly definitions: ReadonlySet<Name>;
  /** The registers that the block sets on some paths. */
  readonly conditional: ReadonlySet<Name>;
}

/** A graph of basic blocks in which threads are suspended. */
export interface SuspendingGraph<Block, Name> {
  readonly entry: Block;
  next(block: Block): readonly Block[];
  /**
   * Whether threads are suspended at the end of a block. Such a block has a single successor, at which the threads
   * resume. All predecessors of this successor are such blocks, too.
   */
  isSuspending(block: Block): boolean;
  accesses(block: Block): RegisterChanges<Name>;
}

/** The registers to save and restore. */
export interface KeptRegisters<Block, Name> {
  /** Returns the registers to save at the end of a block where threads are suspended. */
  saved(block: Block): readonly Name[];
  /** Returns the registers to restore at the start of a block where threads resume. */
  restored(block: Block): readonly Name[];
}

const none: readonly never[] = [];

/**
 * Determines which registers to save and restore. At the entry, the memory of every register counts as up to date.
 * Registers that may be read before they are set must therefore be initialized at the entry. The running time is
 * proportional to the total length of all live ranges, measured in blocks.
 */
export function keptRegisters<Block, Name>(graph: SuspendingGraph<Block, Name>): KeptRegisters<Block, Name> {
  const { entry, next, isSuspending, accesses } = graph;
  const blocks = postorder([entry], next);
  const indices = new Map(blocks.map((block, index) => [block, index]));
  const suspends = Uint8Array.from(blocks, (block) => Number(isSuspending(block)));
  const [forward, backward] = [new Pairs(), new Pairs()];
  blocks.forEach((block, index) => {
    for (const successor of next(block)) {
      forward.add(index, indices.get(successor)!);
      backward.add(indices.get(successor)!, index);
    }
  });
  const after = forward.group(blocks.length), before = backward.group(blocks.length);
  const { registers, uses, definitions, conditional } = occurrences(blocks.map(accesses));
  const saved = new Map<number, Name[]>(), restored = new Map<number, Name[]>();
  // For each block, the number, plus 1, of the last register that had the property in the block. Never needs clearing.
  const property = () => new Uint32Array(blocks.length);
  const [isDefined, isLive, isChanged, isNeeded] = [property(), property(), property(), property()];
  const rest: number[] = [];
  registers.forEach((register, number) => {
    const mark = number + 1;
    visit(definitions, number, (index) => isDefined[index] = mark);
    // Marks the register as live at the start of a block.
    const live = (index: number): void => {
      if (isLive[index] === mark) return;
      isLive[index] = mark;
      rest.push(index);
    };
    visit(uses, number, live);
    for (let index = rest.pop(); index !== undefined; index = rest.pop()) {
      visit(before, index, (from) => {
        if (isDefined[from] !== mark) live(from);
      });
    }
    // Finds the blocks that must save the register, because it may have been set since the thread last resumed.
    const savedAt: number[] = [];
    const changed = (index: number): void => {
      visit(after, index, (to) => {
        if (isLive[to] !== mark) return;
        if (suspends[index] !== 0) {
          if (savedAt.at(-1) === index) return;
          savedAt.push(index);
          const names = saved.get(index);
          if (names === undefined) saved.set(index, [register]);
          else if (names.at(-1) !== register) names.push(register);
        } else if (isChanged[to] !== mark) {
          isChanged[to] = mark;
          rest.push(to);
        }
      });
    };
    visit(definitions, number, changed);
    visit(conditional, number, changed);
    for (let index = rest.pop(); index !== undefined; index = rest.pop()) changed(index);
    // Finds the blocks that must restore the register, because its value is needed before the thread is suspended
    // again.
    const needed = (index: number): void => {
      if (isNeeded[index] === mark) return;
      isNeeded[index] = mark;
      rest.push(index);
    };
    visit(uses, number, needed);
    // On paths that do not set the register, its previous value is still needed.
    visit(conditional, number, (index) => {
      if (isLive[index] === mark) needed(index);
    });
    for (const index of savedAt) if (isDefined[index] !== mark) needed(index);
    for (let index = rest.pop(); index !== undefined; index = rest.pop()) {
      const to = index;
      let isResumed = false;
      visit(before, to, (from) => {
        if (suspends[from] !== 0) isResumed = true;
        else if (isDefined[from] !== mark) needed(from);
      });
      if (!isResumed) continue;
      const names = restored.get(to);
      if (names === undefined) restored.set(to, [register]);
      else names.push(register);
    }
  });
  return {
    saved: (block) => saved.get(indices.get(block)!) ?? none,
    restored: (block) => restored.get(indices.get(block)!) ?? none,
  };
}

function visit({ begins, values }: Groups, key: number, call: (value: number) => void): void {
  for (let at = begins[key]!; at < begins[key + 1]!; at++) call(values[at]!);
}

interface Occurrences<Name> {
  /** The registers that some block reads before setting them. */
  readonly registers: readonly Name[];
  /** For each register, the indices of the blocks that read it before setting it. */
  readonly uses: Groups;
  /** For each register, the indices of the blocks that set it on every path. */
  readonly definitions: Groups;
  /** For each register, the indices of the blocks that set it on some paths. */
  readonly conditional: Groups;
}

function occurrences<Name>(blocks: readonly RegisterChanges<Name>[]): Occurrences<Name> {
  const numbers = new Map<Name, number>();
  for (const { uses } of blocks) {
    for (const register of uses) if (!numbers.has(register)) numbers.set(register, numbers.size);
  }
  const group = (name: keyof RegisterChanges<Name>): Groups => {
    const pairs = new Pairs();
    blocks.forEach((block, index) => {
      for (const register of block[name]) {
        const number = numbers.get(register);
        if (number !== undefined) pairs.add(number, index);
      }
    });
    return pairs.group(numbers.size);
  };
  return {
    registers: [...numbers.keys()],
    uses: group("uses"),
    definitions: group("definitions"),
    conditional: group("conditional"),
  };
}
