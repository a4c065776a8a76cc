/**
 * The software device without its own word on what kernels access, as a GPU is.
 *
 * @module
 */
import { Cuda } from "../../../src/objects/cuda.ts";
import type { KernelOptions } from "../../../src/sanitizer/kernel_accesses/launch_accesses.ts";
import { Sanitizer } from "../../../src/sanitizer/sanitizer.ts";
import type { SanitizerReport } from "../../../src/sanitizer/reporting/sanitizer_report.ts";
import { Session } from "../../../src/session.ts";
import { instructionSupport, SoftwareDriver } from "../../../src/software/software_driver.ts";
import { scheduleFrom } from "../../../src/software/schedule.ts";

/** What to open. */
export interface UnobservedOptions extends KernelOptions {
  readonly softwareSchedule?: string | undefined;
}

/** Opens it with the stream-order check. */
export function openUnobserved(
  onReport: (report: SanitizerReport) => void,
  { softwareSchedule, ...kernels }: UnobservedOptions = {},
): Cuda {
  const sanitizer = new Sanitizer(new Set(["stream-order"]), onReport, {}, kernels);
  const driver = new SoftwareDriver({ devices: 2, peers: true, schedule: scheduleFrom(softwareSchedule, undefined) });
  return new Cuda(new Session(sanitizer.observe(driver), { instructionSupport, sanitizer }));
}
