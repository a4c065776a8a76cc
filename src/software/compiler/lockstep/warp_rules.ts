/**
 * What a compiled kernel may assume of the launches that use it.
 *
 * @module
 */

import type { BlockSize, LaunchRules } from "../../../ptx/analysis/address_forms.ts";

/** The number of the memory of the module's variables, among those of {@linkcode LaunchRules}. */
export const imageMemory = 0;

/** The launches that a kernel is compiled for first: rows of whole warps, and pointers into different memory. */
export const usualLaunch: LaunchRules = { block: undefined, shared: new Map() };

/** The threads in a warp. */
const warpSize = 32;

/** Whether the threads of each warp of a block are adjacent along x. */
export function hasRowsOfWarps([x, y, z]: BlockSize): boolean {
  return x % warpSize === 0 || (y === 1 && z === 1);
}

/** The differences between two lanes of a warp: in x, y and z, and in their numbers. */
export type LaneDifference = readonly [x: number, y: number, z: number, lane: number];

let usualDifferences: readonly LaneDifference[] | undefined;

/** All differences between two lanes of a warp. */
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
