/**
 * What is known of a kernel's code without a launch.
 *
 * @module
 */
import { type KernelCode, type Place, type Step, written } from "./kernel_code.ts";

/** The loops of a kernel, by the index of the block that they begin with: the blocks of each. */
export function loopsOf({ blocks, end }: KernelCode): Map<number, ReadonlySet<number>> {
  const state = new Uint8Array(end + 1);
  const loops = new Map<number, Set<number>>();
  const previous: number[][] = Array.from({ length: end + 1 }, () => []);
  for (const [index, { next }] of blocks.entries()) for (const other of next) previous[other]!.push(index);
  const waiting = [{ block: 0, at: 0 }];
  state[0] = 1;
  while (waiting.length > 0) {
    const top = waiting.at(-1)!;
    const next = blocks[top.block]?.next[top.at++];
    if (next === undefined) {
      state[top.block] = 2;
      waiting.pop();
    } else if (state[next] === 0) {
      state[next] = 1;
      waiting.push({ block: next, at: 0 });
    } else if (state[next] === 1) {
      const body = loops.get(next) ?? new Set([next]);
      loops.set(next, body);
      const found = [top.block];
      for (let block = found.pop(); block !== undefined; block = found.pop()) {
        if (body.has(block)) continue;
        body.add(block);
        found.push(...previous[block]!);
      }
    }
  }
  return loops;
}

/** For each block, the registers that may be read before they are written. */
export function liveRegisters({ blocks, end }: KernelCode): ReadonlySet<number>[] {
  const live: Set<number>[] = Array.from({ length: end + 1 }, () => new Set());
  for (let changes = true; changes;) {
    changes = false;
    for (let index = end - 1; index >= 0; index--) {
      const { steps, next, guard } = blocks[index]!;
      const found = new Set(next.flatMap((other) => [...live[other]!]));
      if (guard !== undefined) found.add(guard.register);
      for (const step of steps.toReversed()) {
        // A guarded instruction may leave the register as it was.
        if (step.guard === undefined && overwrites(step)) {
          for (const register of written(step)) found.delete(register);
        }
        for (const register of readBy(step)) found.add(register);
      }
      if (found.size === live[index]!.size) continue;
      live[index] = found;
      changes = true;
    }
  }
  return live;
}

/** Whether an instruction writes its first operand for sure. Those with another meaning are taken to read it. */
function overwrites({ opcode }: Step): boolean {
  return !/^(bar|barrier|brx|call|nanosleep|st|red|membar|fence)$/.test(opcode);
}

function readBy(step: Step): number[] {
  const { operands, guard } = step;
  const sources = overwrites(step) ? operands.slice(1) : operands;
  const first = operands[0];
  const found = [...sources, ...first?.kind === "address" ? [first] : []].flatMap(registersIn);
  return guard === undefined ? found : [...found, guard.register];
}

/** All registers in an operand. */
export function registersIn(place: Place): number[] {
  switch (place.kind) {
    case "register":
    case "not":
      return [place.register];
    case "address":
      return registersIn(place.base);
    case "list":
      return place.elements.flatMap(registersIn);
    default:
      return [];
  }
}

/** The blocks that are reached from a block before another one. */
export function blocksBetween({ blocks, end }: KernelCode, from: number, to: number): Set<number> {
  const found = new Set<number>();
  const waiting = [...blocks[from]!.next];
  for (let block = waiting.pop(); block !== undefined; block = waiting.pop()) {
    if (block === to || block === end || found.has(block)) continue;
    found.add(block);
    waiting.push(...blocks[block]!.next);
  }
  return found;
}

/** The parameters that each register may be computed from, by their offsets. */
export function rootsOf({ blocks, registerBits }: KernelCode): ReadonlySet<number>[] {
  const roots: Set<number>[] = registerBits.map(() => new Set());
  const rootsIn = (place: Place): Iterable<number> =>
    place.kind === "parameter"
      ? [place.offset]
      : place.kind === "address" && place.base.kind === "parameter"
      ? [place.base.offset + place.offset]
      : registersIn(place).flatMap((register) => [...roots[register] ?? []]);
  for (let changes = true; changes;) {
    changes = false;
    for (const { steps } of blocks) {
      for (const step of steps) {
        // What memory has is unknown.
        if (step.opcode === "ld" && !step.modifiers.includes("param")) continue;
        const found = step.operands.slice(1).flatMap((place) => [...rootsIn(place)]);
        for (const register of written(step)) {
          const known = roots[register];
          for (const root of found) {
            if (known === undefined || known.has(root)) continue;
            known.add(root);
            changes = true;
          }
        }
      }
    }
  }
  return roots;
}
