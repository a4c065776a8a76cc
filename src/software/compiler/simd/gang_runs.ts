/**
 * Emits the steps of a basic block for gangs, so that each run of 64-bit arithmetic on vectors checks for NaNs only
 * once.
 *
 * As in `codegen/nan_checks.ts` for single threads: if the final results of a run are not NaN for any thread that
 * executes it, its intermediate results were not NaN either. Otherwise the threads execute the run again, one by one.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { propagates, readFirst, type RegisterReaders, stepRunsOf } from "../codegen/nan_checks.ts";
import type { CompiledStep } from "../control_flow/function_flow.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import type { GangEmitter } from "./gang_emitter.ts";
import { resultsOf } from "../../../ptx/analysis/definitions_and_uses.ts";

/** Emits the steps of a basic block for all threads of the gang, or for the threads in the current mask. */
export function emitGangSteps(
  gang: GangEmitter,
  steps: readonly CompiledStep[],
  readers: RegisterReaders | undefined,
): void {
  gang.beginBlock();
  for (const { run, checked } of stepRunsOf(steps, readers)) {
    const isOnVectors = run.some(({ instruction }) => {
      return instruction !== undefined && propagates(instruction) && isInVectors(gang, instruction) &&
        !gang.takesLoop(instruction);
    });
    if (!isOnVectors || checked.length === 0) emitOnce(gang, run);
    else if (restoredBy(gang, run).some((register) => gang.kindOf(register) === "memory")) emitExactly(gang, run);
    else emitRun(gang, run, checked);
  }
}

/** Emits each step once, without checks for NaNs. */
function emitOnce(gang: GangEmitter, steps: readonly CompiledStep[]): void {
  for (const { instruction, initializes, emit } of steps) {
    if (initializes !== undefined) gang.initialize(initializes);
    else if (instruction === undefined) emit(gang.emitter);
    else gang.emit(instruction, instruction.form.emit!);
  }
}

/** Emits steps in which 64-bit arithmetic is executed for one thread of the gang at a time. */
function emitExactly(gang: GangEmitter, run: readonly CompiledStep[]): void {
  gang.propagatesNaNs = true;
  emitOnce(gang, run);
  gang.propagatesNaNs = false;
}

/** Whether an instruction sets a register that is stored in vector locals. */
function isInVectors(gang: GangEmitter, instruction: CompiledInstruction): boolean {
  return resultsOf(instruction).some((register) => gang.kindOf(register) === "vectors");
}

/** Returns the registers whose values from before a run must be restored if the run is executed again. */
function restoredBy(gang: GangEmitter, run: readonly CompiledStep[]): Register[] {
  // Registers may share a local or a slot in memory. Identify each register by the register that owns its storage.
  const holderOf = (register: Register) => gang.emitter.holderOf(register);
  const set = new Set(run.flatMap(({ instruction }) => resultsOf(instruction!)).map(holderOf));
  return readFirst(run).filter((register) => set.has(holderOf(register)));
}

/**
 * Emits a run on vectors and a check of its results. If any result is NaN, the emitted code executes the run again, for
 * one thread at a time.
 */
function emitRun(gang: GangEmitter, run: readonly CompiledStep[], checked: readonly CompiledInstruction[]): void {
  const { code, emitter: e } = gang;
  const restored = restoredBy(gang, run).flatMap((register) => {
    const { kind } = gang.storageOf(register);
    const type = kind === "vectors" ? "v128" : kind === "mask" ? "i32" : e.valueType(register);
    e.noteUse(register);
    return gang.locals(register).map((local) => ({ local, before: e.newLocal(type) }));
  });
  for (const { local, before } of restored) code.get(local).set(before);
  const results: (readonly number[])[] = [];
  for (const step of run) {
    emitOnce(gang, [step]);
    if (!checked.includes(step.instruction!) || !isInVectors(gang, step.instruction!)) continue;
    const [register] = resultsOf(step.instruction!);
    results.push(
      gang.locals(register!).map((local) => {
        const result = e.newLocal("v128");
        code.get(local).set(result);
        return result;
      }),
    );
  }
  const isNaN = (part: number) => {
    results.forEach((result, index) => {
      code.get(result[part]!).get(result[part]!).simd("f64x2Ne");
      if (index > 0) code.simd("v128Or");
    });
    return code;
  };
  const found = Array.from({ length: gang.vectors }, (_, part) => {
    const vector = e.newLocal("v128");
    gang.narrow(isNaN, part).set(vector);
    return vector;
  });
  gang.pushGathered(found);
  if (gang.mask !== undefined) code.get(gang.mask).ops("i32And");
  code.ifUnlikely();
  for (const { local, before } of restored) code.get(before).set(local);
  e.emitConditionally(() => emitExactly(gang, run));
  code.end();
  // The recorded mask vectors are stale if the run was executed again for one thread at a time.
  gang.beginBlock();
}
