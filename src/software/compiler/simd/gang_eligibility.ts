/**
 * Which kernels can run in gangs, and at which barriers whole gangs wait.
 *
 * @module
 */
import { functionFlow, type SuspendPoint } from "../control_flow/function_flow.ts";
import { spinLoops } from "../control_flow/spin_loops.ts";
import { instructionsOf, type ResolvedKernel } from "../typing/resolver.ts";
import type { ResolvedInstruction } from "../typing/resolved_instruction.ts";

/** Whether every instruction of a kernel can be executed by gangs. */
export function canRunInGangs({ kernel, callees }: ResolvedKernel): boolean {
  if (callees.size > 0 || kernel.variableBytes > 0) return false;
  return instructionsOf(kernel).every(({ form }) => form.traits.runsInGangs) &&
    spinLoops(functionFlow(kernel).entry).length === 0;
}

/** Whether a whole gang waits at a suspend point: a barrier of all threads of the block. */
export function isBarrierOfAll({ request, instruction }: SuspendPoint): boolean {
  if (request?.kind !== "barrier" || request.operation !== "sync") return false;
  const { operands: [barrier, count] } = instruction!;
  return barrier?.kind === "integer" && count === undefined;
}

/** The number of a barrier at which whole gangs wait. */
export function barrierOf({ operands: [barrier] }: ResolvedInstruction): number {
  return barrier?.kind === "integer" ? Number(barrier.value) : 0;
}
