/**
 * Launches that are looked at.
 *
 * @module
 */
import type { LaunchAccess, LaunchObservation } from "../../../kernel_checker.ts";
import type { LaunchChecks, RunningChecks } from "../checks/launch_checks.ts";
import type { LaunchWork } from "./kernel_launch.ts";

/** A launch, and what looks at it. */
export interface LookedAt {
  readonly work: LaunchWork;
  readonly checks: LaunchChecks;
}

/** What a checked launch takes, beside its work. */
export interface CheckedLaunch extends Pick<LaunchObservation, "onAccesses" | "onFindings"> {
  readonly running: RunningChecks;
  /** What is known of its accesses, if all is. */
  readonly known?: KnownAccesses | undefined;
}

/** All that a launch accesses, unless something stops it. */
export interface KnownAccesses {
  readonly accesses: readonly LaunchAccess[];
  /** Whether its kernel may access all of that, now that the launch begins. */
  isAllowed(): boolean;
  /** The same launch, with its accesses observed. */
  observed(): LookedAt;
}

/** A launch that says what it has accessed, and which mistakes it made, when it is done, has failed, or is dropped. */
export function checkedLaunch(
  launch: LookedAt,
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
