/**
 * Marks the frames of functions, and the memory with which blocks and threads begin, as uninitialized, for the check
 * `initialization`.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { FunctionFlow } from "../control_flow/function_flow.ts";
import { fillShadow } from "./memory_shadows.ts";
import type { TrackedRegisters } from "./tracked_registers.ts";

/**
 * Emits code, at the entry of a function, that marks the function's registers and frame as uninitialized, except for
 * its parameters.
 */
export function beginUninitialized(flow: FunctionFlow, registers: TrackedRegisters): TrackedRegisters {
  const { entry, function: { call, frameBytes } } = flow;
  const emit = (e: FunctionEmitter) => {
    let begin = 0;
    for (const { offset, byteLength } of call?.parameters ?? []) {
      fillFrame(e, begin, offset);
      begin = offset + byteLength;
    }
    fillFrame(e, begin, frameBytes);
    for (const register of registers.unset) e.shadows!.setUninitialized(register);
  };
  entry.instructions.unshift({ instruction: undefined, emit });
  return registers;
}

/** Emits code that marks the bytes of the function's frame from `begin` to `end` as uninitialized. */
function fillFrame(e: FunctionEmitter, begin: number, end: number): void {
  if (end <= begin) return;
  e.getFrame();
  fillShadow(e.code, begin, () => e.code.i32(end - begin));
}
