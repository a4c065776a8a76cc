import type { CudaDevice } from "../cuda_device.ts";
import { whatIs } from "../../support/validation.ts";

/**
 * The size of a C int. Priorities are checked, because the runtimes differ in how they treat numbers that do not fit.
 */
const priorityBits = 32;

/**
 * Throws unless a priority is one of the device's. CUDA itself clamps others, which hides a wrong sign.
 *
 * @param what What has the priority: "a stream".
 */
export function checkPriority(priority: number, device: CudaDevice, what: string): void {
  // A bigint and a symbol cannot be converted by the operator.
  if (typeof priority !== "number" || (priority | 0) !== priority) refusePriority(priority, device, what);
  if (priority === 0) return;
  const { least, greatest } = device.streamPriorityRange();
  if (least === greatest || (priority >= greatest && priority <= least)) return;
  throw new RangeError(
    `Cannot use ${priority} as ${what}'s priority: it must be from ${greatest}, the greatest priority, to ${least}, ` +
      "the least",
  );
}

function refusePriority(priority: unknown, device: CudaDevice, what: string): never {
  if (typeof priority === "number") {
    throw new RangeError(
      `Cannot use ${priority} as ${what}'s priority: it must be a ${priorityBits}-bit integer; ` +
        "CudaDevice.streamPriorityRange returns the valid range",
    );
  }
  const { least, greatest } = device.streamPriorityRange();
  const range = least === greatest ? "" : ` from ${greatest}, the greatest priority, to ${least}, the least`;
  throw new TypeError(`Cannot use ${whatIs(priority)} as ${what}'s priority: it must be a number${range}`);
}
