/**
 * Launches that are looked at.
 *
 * @module
 */
import type { KernelLaunch } from "../../../driver.ts";
import type { LaunchChecks, RunningChecks } from "../checks/launch_checks.ts";
import type { LaunchWork } from "./kernel_launch.ts";

/** What a checked launch takes, beside its work. */
export interface CheckedLaunch extends Pick<KernelLaunch, "onAccesses" | "onFindings"> {
  readonly running: RunningChecks;
  readonly checks: LaunchChecks;
}

/** A launch that says what it has accessed, and which mistakes it made, when it is done, has failed, or is dropped. */
export function checkedLaunch(
  { run, release }: LaunchWork,
  { running, checks, onAccesses, onFindings }: CheckedLaunch,
): LaunchWork {
  return {
    run: () => running.during(checks, run),
    release() {
      try {
        release?.();
        onFindings?.(checks.mistakes());
        onAccesses?.(checks.accesses());
      } finally {
        checks.close();
      }
    },
  };
}
