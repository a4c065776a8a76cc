/**
 * Runs the blocks that a thread has claimed.
 *
 * @module
 */
import type { BlockRunner } from "../launching/block_runner.ts";
import type { LaunchGeometry } from "../modules/kernel_versions.ts";
import type { Job } from "./job_board.ts";

/** Runs the blocks that the calling thread has claimed of a job, row by row. */
export function runBlocks(
  runner: BlockRunner,
  { first, last }: Pick<Job, "first" | "last">,
  [gridX, gridY]: LaunchGeometry["grid"],
): void {
  for (let block = first; block < last;) {
    const x = block % gridX, row = Math.floor(block / gridX);
    const end = Math.min(x + last - block, gridX);
    runner.run({ x, y: row % gridY, z: Math.floor(row / gridY) }, end);
    block += end - x;
  }
}
