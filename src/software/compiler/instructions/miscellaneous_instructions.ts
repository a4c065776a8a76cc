/**
 * Instructions that compute no result: traps, profiling events and register hints. PTX ISA, section 9.7.19.
 *
 * @module
 */
import { faultKind } from "../../abi/addresses.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { constantOf } from "./integers/integer_instructions.ts";

/** Emits code for `brkpt`. There is never a debugger, and without one a breakpoint stops the kernel as a trap does. */
export const breakpoint: Emit = (e) => stop(e, faultKind.breakpoint);

/** Emits code for `trap`. */
export const trap: Emit = (e) => stop(e, faultKind.trap);

function stop(e: FunctionEmitter, kind: number): void {
  e.code.i32(kind).i64(0n);
  e.pushPlace();
  e.callHelper("fault").ops("unreachable");
}

/** Emits code for `pmevent`, which has no effect, because there are no performance counters to trigger. */
export const performanceEvent: Emit = (e, i) => {
  const event = constantOf(i.operands[0]);
  const last = i.choices.has("mask") ? 0xffffn : 15n;
  if (event === undefined || event < 0n || event > last) e.fail(`its operand must be a literal from 0 to ${last}`);
};

/** Emits code for `setmaxnreg`, which has no effect, because the number of a warp's registers only affects speed. */
export const redistributeRegisters: Emit = (e, i) => {
  const count = constantOf(i.operands[0]);
  if (count === undefined || count < 24n || count > 256n || count % 8n !== 0n) {
    e.fail("the number of registers must be a literal from 24 to 256, and a multiple of 8");
  }
};
