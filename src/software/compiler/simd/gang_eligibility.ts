/**
 * Which kernels can be run in gangs of threads, and at which barriers gangs wait as a whole.
 *
 * @module
 */
import { functionFlow, type SuspendPoint } from "../control_flow/function_flow.ts";
import { spinLoops } from "../control_flow/spin_loops.ts";
import { instructionsOf, type ResolvedKernel } from "../typing/resolver.ts";
import type { ResolvedInstruction } from "../typing/resolved_instruction.ts";

/** Whether a kernel does nothing that needs each of its threads for itself. */
export function canRunInGangs({ kernel, callees }: ResolvedKernel): boolean {
  if (callees.size > 0 || kernel.variableBytes > 0) return false;
  return instructionsOf(kernel).every(({ form }) => form.traits.runsInGangs) &&
    spinLoops(functionFlow(kernel).entry).length === 0;
}

/** Whether gangs wait as a whole where a thread departs: at a barrier of all threads of the block. */
export function isBarrierOfAll({ request, instruction }: SuspendPoint): boolean {
  if (request?.kind !== "barrier" || request.operation !== "sync") return false;
  const { operands: [barrier, count] } = instruction!;
  return barrier?.kind === "integer" && count === undefined;
}

/** The number of a barrier at which gangs wait as a whole. */
export function barrierOf({ operands: [barrier] }: ResolvedInstruction): number {
  return barrier?.kind === "integer" ? Number(barrier.value) : 0;
}
