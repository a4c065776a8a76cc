/**
 * Which blocks all ways from a block to the end go through.
 *
 * @module
 */

/**
 * For each block, the index of the first other one that all ways from it to the end go through. The end, where there is
 * no way to the end.
 */
export function postDominators(blocks: readonly { readonly next: readonly number[] }[], end: number): number[] {
  const order = backwards(blocks, end);
  const position = new Map(order.map((block, index) => [block, index]));
  const found = new Map<number, number>([[end, end]]);
  // Cooper, Harvey and Kennedy's algorithm, on the edges in reverse.
  const common = (a: number, b: number): number => {
    while (a !== b) {
      while (position.get(a)! > position.get(b)!) a = found.get(a)!;
      while (position.get(b)! > position.get(a)!) b = found.get(b)!;
    }
    return a;
  };
  for (let changes = true; changes;) {
    changes = false;
    for (const block of order) {
      if (block === end) continue;
      const next = blocks[block]!.next.filter((other) => found.has(other));
      const first = next.reduce(common);
      if (found.get(block) === first) continue;
      found.set(block, first);
      changes = true;
    }
  }
  return blocks.map((_, index) => found.get(index) ?? end);
}

/** The blocks from which the end is reached, from the end on, each before those that go on to it alone. */
function backwards(blocks: readonly { readonly next: readonly number[] }[], end: number): number[] {
  const previous: number[][] = Array.from({ length: end + 1 }, () => []);
  for (const [index, { next }] of blocks.entries()) for (const other of next) previous[other]!.push(index);
  const order: number[] = [], seen = new Set([end]);
  const waiting = [{ block: end, at: 0 }];
  while (waiting.length > 0) {
    const top = waiting.at(-1)!;
    const other = previous[top.block]![top.at++];
    if (other === undefined) order.push(waiting.pop()!.block);
    else if (!seen.has(other)) {
      seen.add(other);
      waiting.push({ block: other, at: 0 });
    }
  }
  return order.reverse();
}
