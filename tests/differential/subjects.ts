/**
 * All that is recorded: random programs by their seeds, and single operations by their places in the table.
 *
 * @module
 */
import type { Cuda } from "../../src/objects/cuda.ts";
import { operations } from "./operations.ts";
import { randomProgram } from "./program.ts";
import { singleOperation } from "./single_operation.ts";
import { type Outcome, runTrials, type Trial } from "./trial.ts";

/** Programs are as many as one asks for, operations as many as there are. */
export type Subject = "programs" | "operations";

/** How many kernels are loaded as one module. */
export const batchSize = 16;

/** One of them. */
export function trialOf(subject: Subject, index: number): Trial {
  return subject === "programs" ? randomProgram(index) : singleOperation(operations[index]!, `operation${index}`);
}

/** Runs some of them in this process, and tells what came of each. */
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

/** A kernel that fails leaves none of its batch with an outcome: then each is run alone. */
function outcomesOf(cuda: Cuda, trials: readonly Trial[]): Outcome[] {
  try {
    return runTrials(cuda, trials);
  } catch (error) {
    return trials.length === 1 ? [error as Error] : trials.flatMap((trial) => outcomesOf(cuda, [trial]));
  }
}
