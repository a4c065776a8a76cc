import type { FunctionAnalysis } from "../../../ptx/analysis/function_analysis.ts";
import { predecessors, successors } from "../../../ptx/analysis/control_flow_graph.ts";
import type { FlowBlock, Step } from "../control_flow/function_flow.ts";

/** The blocks of all regions, for each block of the graph, after which no more large regions are looked at. */
const blocksPerBlock = 32;
/** The size of a large region. */
const manyBlocks = 64;

/**
 * For each block where lanes meet again that have taken different ways: the blocks that others may still be in when a
 * lane has come there. Lanes meet behind branches and behind loops. None passes a barrier that others do not.
 */
export function divergentRegions(
  { blocks, dominators, loops }: FunctionAnalysis<Step>,
  isBarrier: (block: FlowBlock) => boolean,
): ReadonlyMap<FlowBlock, readonly (ReadonlySet<FlowBlock> | undefined)[]> {
  const regions = new Map<FlowBlock, (ReadonlySet<FlowBlock> | undefined)[]>();
  const add = (block: FlowBlock, region: ReadonlySet<FlowBlock> | undefined) => {
    const known = regions.get(block);
    if (known === undefined) regions.set(block, [region]);
    else known.push(region);
  };
  const before = predecessors(blocks, successors);
  let left = blocks.length * blocksPerBlock;
  /** The blocks before some blocks, as far as a barrier. */
  const blocksBefore = (from: readonly FlowBlock[], isOutside: (block: FlowBlock) => boolean) => {
    const region = new Set<FlowBlock>();
    const waiting = [...from];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (region.has(next) || isOutside(next) || isBarrier(next)) continue;
      region.add(next);
      if (--left < 0 && region.size > manyBlocks) return undefined;
      waiting.push(...before.get(next)!);
    }
    return region;
  };
  const { number, children } = dominators;
  for (const dominator of blocks) {
    for (const block of children(dominator)) {
      const forward = [...before.get(block)!].filter((from) => number.get(from)! < number.get(block)!);
      if (forward.length > 1) add(block, blocksBefore(forward, (other) => other === dominator || other === block));
    }
  }
  for (const { body } of loops) {
    const inside = new Set(body);
    const exits = new Map<FlowBlock, FlowBlock[]>();
    for (const from of body) {
      for (const block of successors(from)) {
        if (!inside.has(block)) exits.set(block, [...exits.get(block) ?? [], from]);
      }
    }
    for (const [block, from] of exits) add(block, blocksBefore(from, (other) => !inside.has(other)));
  }
  return regions;
}
