/**
 * Which registers a divided kernel saves and restores where its threads are suspended. Random graphs run once with
 * registers that always keep their values, and once with registers that are lost at each suspension.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { keptRegisters } from "../../src/software/compiler/codegen/kept_registers.ts";
import { randomNumbers } from "./instructions/references.ts";
import { upTo } from "./threads.ts";
import { isLong, test } from "../support/test.ts";

/** `target = a + b + constant`. If `isConditional`, only if `a` is odd. */
interface Step {
  readonly target: number;
  readonly a: number;
  readonly b: number;
  readonly isConditional: boolean;
}

/** A block of a graph. If it has a condition, the condition's lowest bit chooses the successor. */
interface Block {
  readonly name: string;
  readonly steps: readonly Step[];
  condition?: number;
  next: Block[];
  isSuspending: boolean;
}

const registerCount = 6;

/** What a block accesses, as the compiler would find it. */
function accessesOf({ steps, condition }: Block) {
  const uses = new Set<number>(), definitions = new Set<number>(), conditional = new Set<number>();
  const read = (register: number) => {
    if (!definitions.has(register)) uses.add(register);
  };
  for (const { target, a, b, isConditional } of steps) {
    read(a);
    read(b);
    (isConditional ? conditional : definitions).add(target);
  }
  if (condition !== undefined) read(condition);
  return { uses, definitions, conditional };
}

/** The entry of a random graph. Some of its edges suspend the thread. */
function randomGraph(below: (limit: number) => number): Block {
  const register = () => below(registerCount);
  const step = (): Step => ({ target: register(), a: register(), b: register(), isConditional: below(3) === 0 });
  const block = (name: string): Block => {
    return { name, steps: upTo(below(3), step), next: [], isSuspending: false };
  };
  const all = upTo(3 + below(6), (index) => block(`${index}`));
  for (const from of all) {
    const count = below(8) === 0 ? 0 : 1 + below(2);
    if (count === 2) from.condition = register();
    from.next = upTo(count, () => {
      const to = all[below(all.length)]!;
      if (below(3) > 0) return to;
      const resuming: Block = { ...block(`before ${to.name}`), next: [to] };
      return { ...block("suspending"), next: [resuming], isSuspending: true };
    });
  }
  const entry: Block = { name: "entry", steps: [], next: [all[0]!], isSuspending: false };
  return entry;
}

/** Runs a graph, and returns the values of the conditions and of the registers that the thread read. */
function run(entry: Block, start: readonly number[], { suspend, resume }: {
  suspend(block: Block, registers: number[]): void;
  resume(block: Block, registers: number[]): void;
}): number[] {
  const registers = [...start];
  const seen: number[] = [];
  let block: Block | undefined = entry;
  for (let steps = 0; block !== undefined && steps < 60; steps++) {
    for (const { target, a, b, isConditional } of block.steps) {
      seen.push(registers[a]!, registers[b]!);
      const value = Math.imul(registers[a]! + 1, 0x9e3779b1) + registers[b]! + steps | 0;
      if (!isConditional || (registers[a]! & 1) === 1) registers[target] = value;
    }
    const choice: number = block.condition === undefined ? 0 : registers[block.condition]! >>> 16 & 1;
    if (block.condition !== undefined) seen.push(registers[block.condition]!);
    const next: Block | undefined = block.next[choice];
    if (block.isSuspending) {
      suspend(block, registers);
      registers.fill(-99);
      resume(next!, registers);
    }
    block = next;
  }
  return seen;
}

test("what a thread saves and restores is what it needs, in random graphs", () => {
  const random = randomNumbers(0x2545_f491_4f6c_dd1dn);
  const below = (limit: number) => Number(random() % BigInt(limit));
  let saves = 0, all = 0;
  for (let round = 0; round < (isLong ? 20_000 : 400); round++) {
    const entry = randomGraph(below);
    const { saved, restored } = keptRegisters<Block, number>({
      entry,
      next: ({ next }) => next,
      isSuspending: ({ isSuspending }) => isSuspending,
      accesses: accessesOf,
    });
    const start = upTo(registerCount, () => below(2 ** 31));
    const whole: number[] = [];
    const expected = run(entry, start, {
      suspend: (_, registers) => whole.splice(0, registerCount, ...registers),
      resume: (_, registers) => registers.splice(0, registerCount, ...whole),
    });
    // At the entry, the memory has the same values as the registers.
    const memory = [...start];
    const got = run(entry, start, {
      suspend(block, registers) {
        for (const register of saved(block)) memory[register] = registers[register]!;
        saves += saved(block).length;
        all += registerCount;
      },
      resume(block, registers) {
        for (const register of restored(block)) registers[register] = memory[register]!;
      },
    });
    assertEquals(got, expected, `round ${round}`);
  }
  assert(saves < all / 2, `${saves} of ${all}`);
});

test("a register that stays the same is saved once, and restored only before it is read", () => {
  const read = (register: number): Step => ({ target: 0, a: register, b: register, isConditional: false });
  const blocks: Block[] = upTo(9, (index) => {
    const steps = index === 0 ? [{ ...read(1), target: 5 }] : index === 8 ? [read(5)] : [];
    return { name: `${index}`, steps, next: [], isSuspending: index % 2 === 0 && index < 8 };
  });
  blocks.forEach((block, index) => block.next = blocks.slice(index + 1, index + 2));
  const { saved, restored } = keptRegisters<Block, number>({
    entry: blocks[0]!,
    next: ({ next }) => next,
    isSuspending: ({ isSuspending }) => isSuspending,
    accesses: accessesOf,
  });
  assertEquals(blocks.filter((block) => saved(block).includes(5)).map(({ name }) => name), ["0"]);
  assertEquals(blocks.filter((block) => restored(block).includes(5)).map(({ name }) => name), ["7"]);
});
