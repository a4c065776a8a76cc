/**
 * Which kernels can run in gangs, and at which barriers whole gangs wait.
 *
 * @module
 */
import type { AnalyzedFlow, SuspendPoint } from "../control_flow/function_flow.ts";
import { spinLoops } from "../control_flow/spin_loops.ts";
import type { ResolvedKernel } from "../typing/resolver.ts";

/** Whether every instruction of a kernel can be executed by gangs. */
export function canRunInGangs({ kernel, callees }: ResolvedKernel, { entry, analysis }: AnalyzedFlow): boolean {
  if (callees.size > 0 || kernel.variableBytes > 0) return false;
  return analysis.instructions.every(({ form }) => form.traits.runsInGangs) &&
    spinLoops(entry).length === 0;
}

/** The number of the barrier at a suspend point if whole gangs wait there: a barrier of all threads of the block. */
export function barrierOfAll({ instruction }: Pick<SuspendPoint, "instruction">): number | undefined {
  return instruction?.form.suspending?.barrierOfAll?.(instruction);
}
