/**
 * Launches that say what they access.
 *
 * @module
 */
import type { LaunchAccess } from "../../../driver.ts";
import type { LineInfo } from "../../../ptx/line_info.ts";
import { type AccessObserver, LaunchAccesses } from "../accesses/access_observer.ts";
import type { LaunchWork } from "./kernel_launch.ts";

/** What an observed launch takes. */
export interface ObservedLaunch {
  readonly lineInfo: LineInfo;
  readonly accesses: AccessObserver;
  /** The bounds table of its device, by granules. */
  readonly allocations: Uint32Array;
  onAccesses(accesses: readonly LaunchAccess[]): void;
}

/** A launch that says what it has accessed when it is done, has failed, or is dropped. */
export function observedLaunch(
  { run, release }: LaunchWork,
  { lineInfo, accesses, allocations, onAccesses }: ObservedLaunch,
): LaunchWork {
  const found = new LaunchAccesses();
  return {
    run: () => accesses.during(found, allocations, run),
    release() {
      release?.();
      onAccesses(found.toArray(({ line }) => lineInfo.sourceOf(line) ?? `PTX line ${line}`));
    },
  };
}
