/**
 * The assumptions about launches under which a kernel is compiled.
 *
 * @module
 */

import type { BlockSize, LaunchRules } from "../../../ptx/analysis/address_forms.ts";
import { warpSize } from "../../abi/launch_record.ts";

/** The number that represents the memory of the module's variables in {@linkcode LaunchRules}. */
export const imageMemory = 0;

/**
 * The kind of launches for which a kernel is compiled first: the threads of each warp are adjacent along x, and all
 * pointer parameters point to separate memory.
 */
export const usualLaunch: LaunchRules = { block: undefined, shared: new Map() };

/** Whether the threads of each warp of a block are adjacent along x. */
export function hasRowsOfWarps([x, y, z]: BlockSize): boolean {
  return x % warpSize === 0 || (y === 1 && z === 1);
}

/** The differences between two lanes of a warp: in the thread indices x, y and z, and in the lane number. */
export type LaneDifference = readonly [x: number, y: number, z: number, lane: number];

let usualDifferences: readonly LaneDifference[] | undefined;

/**
 * Returns the differences between any two lanes of a warp, for blocks of the given size. If `block` is undefined, the
 * lanes of a warp are adjacent along x.
 */
export function laneDifferences(block: BlockSize | undefined): readonly LaneDifference[] {
  return block === undefined ? usualDifferences ??= findDifferences([warpSize, 1, 1]) : findDifferences(block);
}

function findDifferences([x, y, z]: BlockSize): readonly LaneDifference[] {
  const differences = new Map<string, LaneDifference>();
  const places = Array.from({ length: Math.min(x * y * z, 1024) }, (_, thread) => {
    return [thread % x, Math.floor(thread / x) % y, Math.floor(thread / (x * y))] as const;
  });
  places.forEach((a, thread) => {
    const first = thread - thread % warpSize;
    for (let other = first; other < Math.min(first + warpSize, places.length); other++) {
      if (other === thread) continue;
      const b = places[other]!;
      const difference = [b[0] - a[0], b[1] - a[1], b[2] - a[2], other - thread] as const;
      differences.set(difference.join(), difference);
    }
  });
  return [...differences.values()];
}
