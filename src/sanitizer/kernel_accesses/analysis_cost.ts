/**
 * For which launches it takes less time to find out what they access than to observe it.
 *
 * @module
 */
import type { KernelLaunch } from "../../driver.ts";
import type { LaunchShape } from "./launch_run.ts";

/** Observing fewer threads takes less time. */
const fewThreads = 4096;
/** So many launches are analyzed in any case. */
const trials = 8;

/** Whether a launch has so many threads that observing them takes longer than an analysis. */
export function isLarge({ gridX, gridY, gridZ, blockX, blockY, blockZ }: KernelLaunch): boolean {
  return gridX * gridY * gridZ * blockX * blockY * blockZ >= fewThreads;
}

/** What analyzing the launches of a kernel has been good for. */
export class AnalysisCost {
  /** Analyses, those of them that found nothing out, and how often they were used again. */
  #made = 0;
  #failed = 0;
  #used = 0;
  /** The last launch that was not analyzed. */
  #declined: LaunchShape | undefined;

  /** Whether to analyze a launch. Programs that launch the same again and again soon get a result. */
  pays(launch: KernelLaunch, isLike: (launch: KernelLaunch, other: LaunchShape) => boolean): boolean {
    const { gridX, gridY, gridZ, blockX, blockY, blockZ, parameters } = launch;
    if (this.#made < trials + this.#used) return true;
    if (isLarge(launch) && this.#failed < this.#made / 2) return true;
    if (this.#declined !== undefined && isLike(launch, this.#declined)) return true;
    const { buffer, byteOffset, byteLength } = parameters;
    this.#declined = {
      grid: [gridX, gridY, gridZ],
      block: [blockX, blockY, blockZ],
      parameters: new DataView(buffer.slice(byteOffset, byteOffset + byteLength)),
    };
    return false;
  }

  /** Records an analysis. */
  made(hasFound: boolean): void {
    this.#made++;
    if (!hasFound) this.#failed++;
  }

  /** Records that a result is used again. */
  used(): void {
    this.#used++;
  }
}
