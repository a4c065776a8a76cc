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

/** The registers that are live at the start of each block. */
export function liveRegisters<I>(
  { entry, next, use }: LivenessGraph<I>,
): (block: BasicBlock<I>) => readonly Register[] {
  const blocks = postorder([entry], next);
  const registers: Register[] = [];
  const numbers = new Map<Register, number>();
  const number = (register: Register): number => {
    let found = numbers.get(register);
    if (found === undefined) {
      found = registers.push(register) - 1;
      numbers.set(register, found);
    }
    return found;
  };
  const uses = blocks.map((block) => [...use(block).uses].map(number));
  const definitions = blocks.map((block) => [...use(block).definitions].map(number));
  const words = Math.ceil(registers.length / 32);
  const bitSet = (members: readonly number[]): Int32Array => {
    const bits = new Int32Array(words);
    for (const member of members) bits[member >> 5]! |= 1 << (member & 31);
    return bits;
  };
  const live = new Map(blocks.map((block, index) => [block, bitSet(uses[index]!)]));
  const kept = definitions.map((members) => bitSet(members).map((bits) => ~bits));
  for (let changed = true; changed;) {
    changed = false;
    blocks.forEach((block, index) => {
      const before = live.get(block)!;
      for (const successor of next(block)) {
        const after = live.get(successor)!;
        for (let word = 0; word < words; word++) {
          const bits = before[word]! | (after[word]! & kept[index]![word]!);
          if (bits === before[word]) continue;
          before[word] = bits;
          changed = true;
        }
      }
    });
  }
  return (block) => registers.filter((_, index) => (live.get(block)![index >> 5]! >> (index & 31) & 1) === 1);
}
