/**
 * The trials that are recorded: random programs, by seed, and single operations, by their index in the table.
 *
 * @module
 */
import type { Cuda } from "../../src/objects/cuda.ts";
import { operations } from "./operations.ts";
import { randomProgram } from "./program.ts";
import { singleOperation } from "./single_operation.ts";
import { type Outcome, runTrials, type Trial } from "./trial.ts";

/** The number of programs is arbitrary; there are as many operations as the table has. */
export type Subject = "programs" | "operations";

/** The number of kernels that are loaded as one module. */
export const batchSize = 16;

/** Returns the trial of an index. */
export function trialOf(subject: Subject, index: number): Trial {
  return subject === "programs" ? randomProgram(index) : singleOperation(operations[index]!, `operation${index}`);
}

/** Runs trials in this process and reports each outcome. */
export function forEachOutcome(
  cuda: Cuda,
  { subject, indices }: { subject: Subject; indices: readonly number[] },
  onOutcome: (index: number, trial: Trial, outcome: Outcome) => void,
): void {
  for (let begin = 0; begin < indices.length; begin += batchSize) {
    const batch = indices.slice(begin, begin + batchSize);
    const trials = batch.map((index) => trialOf(subject, index));
    outcomesOf(cuda, trials).forEach((outcome, offset) => onOutcome(batch[offset]!, trials[offset]!, outcome));
  }
}

/** A failing kernel leaves its whole batch without outcomes. In that case each trial runs alone. */
function outcomesOf(cuda: Cuda, trials: readonly Trial[]): Outcome[] {
  try {
    return runTrials(cuda, trials);
  } catch (error) {
    return trials.length === 1 ? [error as Error] : trials.flatMap((trial) => outcomesOf(cuda, [trial]));
  }
}
