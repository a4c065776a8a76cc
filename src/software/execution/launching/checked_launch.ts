/**
 * Launches that are checked.
 *
 * @module
 */
import type { LaunchAccess, LaunchObservation } from "../../../kernel_checker.ts";
import type { LaunchChecks, RunningChecks } from "../checks/launch_checks.ts";
import type { LaunchWork } from "./kernel_launch.ts";

/** The work of a launch, and its checks. */
export interface CheckedWork {
  readonly work: LaunchWork;
  readonly checks: LaunchChecks;
}

/** Parameters of a checked launch other than its work. */
export interface CheckedLaunch extends Pick<LaunchObservation, "onAccesses" | "onFindings"> {
  readonly running: RunningChecks;
  /** Its accesses, if all of them are known. */
  readonly known?: KnownAccesses | undefined;
}

/** The accesses of a launch that runs to its end. */
export interface KnownAccesses {
  readonly accesses: readonly LaunchAccess[];
  /** Whether the kernel may make these accesses, asked when the launch starts. */
  isAllowed(): boolean;
  /** The same launch, with its accesses observed. */
  observed(): CheckedWork;
}

/** A launch that reports its accesses and its findings when it is complete, has failed, or is dropped. */
export function checkedLaunch(
  launch: CheckedWork,
  { running, onAccesses, onFindings, known }: CheckedLaunch,
): LaunchWork {
  let current = launch, hasBegun = false, isKnown = false;
  const begin = () => {
    hasBegun = true;
    isKnown = known?.isAllowed() ?? false;
    if (known === undefined || isKnown) return;
    current = known.observed();
    launch.work.release?.();
    launch.checks.close();
  };
  return {
    run() {
      if (!hasBegun) begin();
      return running.during(current.checks, current.work.run);
    },
    release() {
      const { work, checks } = current;
      try {
        work.release?.();
        onFindings?.(checks.mistakes());
        onAccesses?.(isKnown ? known!.accesses : checks.accesses());
      } finally {
        checks.close();
      }
    },
  };
}
