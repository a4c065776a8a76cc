import type { ContextField } from "../launch_context.ts";
import type { FunctionType } from "../webassembly/module_encoder.ts";

/** What a kernel keeps for the thread that it runs: each an i32. */
const threadFields = [
  "threadX",
  "threadY",
  "threadZ",
  /** Its number in the block. */
  "thread",
  /** Where its record begins. */
  "record",
  /** Where its local memory begins, and in that the frame of the function that it is in, and what is above the frame. */
  "local",
  "frame",
  "top",
  /** Where the function's registers are saved. */
  "saved",
  /** Where it is to go on. */
  "resumeIndex",
  /** How often it may still go around loops before it asks whether it may go on, and before it lets others go on. */
  "fuel",
  "spins",
] as const;

/** A local that a kernel has where it is asked for. */
export type FixedLocal = ContextField | typeof threadFields[number];

/** The type of what a kernel is compiled to: it is told where the launch's record begins. */
export const runType: FunctionType = { parameters: ["i32"], results: [] };
/** The local that tells where the launch's record begins. */
export const contextLocal = 0;
