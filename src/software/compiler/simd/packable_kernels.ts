/**
 * Which kernels can be run in packs of threads, and at which barriers packs wait as a whole.
 *
 * @module
 */
import { type Departure, functionFlow } from "../control_flow/kernel_flow.ts";
import { waitingLoops } from "../control_flow/waiting_loops.ts";
import { instructionsOf } from "../codegen/kernel_code.ts";
import type { TypedKernel } from "../typing/typed_body.ts";
import type { TypedInstruction } from "../typing/typed_instruction.ts";

/** Whether a kernel does nothing that needs each of its threads for itself. */
export function canBePacked({ kernel, callees }: TypedKernel): boolean {
  if (callees.size > 0 || kernel.variableBytes > 0) return false;
  return instructionsOf(kernel).every(({ form }) => form.traits.runsInGangs) &&
    waitingLoops(functionFlow(kernel).entry).length === 0;
}

/** Whether packs wait as a whole where a thread departs: at a barrier of all threads of the block. */
export function isBarrierOfAll({ request, instruction }: Departure): boolean {
  if (request?.kind !== "barrier" || request.operation !== "sync") return false;
  const { operands: [barrier, count] } = instruction!;
  return barrier?.kind === "integer" && count === undefined;
}

/** The number of a barrier at which packs wait as a whole. */
export function barrierOf({ operands: [barrier] }: TypedInstruction): number {
  return barrier?.kind === "integer" ? Number(barrier.value) : 0;
}
