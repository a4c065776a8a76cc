/**
 * The same kernels must give the same bits on the software device as on a GPU, whose results are stored: see
 * `differential/record.ts`.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { compareOperation } from "./comparison.ts";
import { staleExclusions, untriedForms } from "./coverage.ts";
import { operations } from "./operations.ts";
import { readOperationResults, readOperations, readPrograms } from "./recording.ts";
import { excludedSeeds, regressions } from "./regressions.ts";
import { forEachOutcome } from "./subjects.ts";
import { operationAnswer, programAnswer, questionOf } from "./trial.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { isLong, someOf, test } from "../support/test.ts";

/**
 * Number of programs to run, from seed 0 on, besides those that once differed. On the software device, the long run
 * runs all.
 */
const programs = { software: isLong ? Infinity : 3, cuda: 200 } as const;
/** Runs every nth of the programs that once differed. */
const regressionsStep = { software: 10, cuda: 1 } as const;
/** Runs every nth operation. On a GPU, whose compiler is slow, even the long run does so. */
const operationsStep = { software: isLong ? 1 : 40, cuda: 10 } as const;
/** The most differences that a failure prints. */
const mostShown = 40;
const howToRecord = "run tests/differential/record.ts where there is a GPU";

test("every known instruction is tested or excluded for a reason", () => {
  assertEquals(
    untriedForms(),
    [],
    "Add each form to tests/differential/operations.ts and record it on a GPU, or give a reason in " +
      "tests/differential/exclusions.ts",
  );
});

test("every exclusion names a known instruction", () => {
  assertEquals(staleExclusions(), [], "Remove them from tests/differential/exclusions.ts");
});

for (const { name, skip, open } of driversUnderTest) {
  if (name !== "software" && name !== "cuda") continue;

  test(`single operations give the results of a GPU [${name}]`, { skip }, () => {
    using cuda = new Cuda(new Session(open()));
    const recorded = readOperations();
    if (recorded === undefined) throw new Error(`No answers are stored: ${howToRecord}`);
    const results = readOperationResults(recorded);
    const problems: string[] = [];
    const indices = [...operations.keys()].filter((index) => index % operationsStep[name] === 0);
    forEachOutcome(cuda, { subject: "operations", indices }, (index, trial, outcome) => {
      const operation = operations[index]!;
      const answer = recorded.answers[operation.name];
      if (answer === undefined || !answer.startsWith(questionOf(trial))) {
        problems.push(`${operation.name}: no answer to it is stored: ${howToRecord}`);
      } else if (outcome instanceof Error) {
        problems.push(`${operation.name}: ${outcome.message}`);
      } else if (operationAnswer(trial, outcome) !== answer) {
        const stored = results.get(operation.name)!;
        const { count, examples } = compareOperation(operation, { software: outcome, recorded: stored, examples: 1 });
        const [{ operands, software: given, recorded: expected }] = examples as [typeof examples[0]];
        problems.push(`${operation.name}: ${count} differ, as (${operands.join(", ")}): ${given}, not ${expected}`);
      }
    });
    assertNone(problems);
  });

  test(`random programs give the results of a GPU [${name}]`, { skip }, () => {
    using cuda = new Cuda(new Session(open()));
    const recorded = readPrograms();
    if (recorded === undefined) throw new Error(`No answers are stored: ${howToRecord}`);
    const problems: string[] = [];
    const first = Array.from({ length: Math.min(programs[name], recorded.answers.length) }, (_, seed) => seed);
    const indices = [...new Set([...first, ...someOf(regressions, regressionsStep[name])])].filter((seed) =>
      !excludedSeeds.has(seed)
    );
    forEachOutcome(cuda, { subject: "programs", indices }, (seed, trial, outcome) => {
      const answer = recorded.answers[seed];
      if (answer === undefined || !answer.startsWith(questionOf(trial))) {
        problems.push(`seed ${seed}: no answer to it is stored: ${howToRecord}`);
      } else if (outcome instanceof Error) {
        problems.push(`seed ${seed}: ${outcome.message}`);
      } else if (programAnswer(trial, outcome) !== answer) {
        problems.push(`seed ${seed}: another output; record.ts --compare says from which operation on`);
      }
    });
    assertNone(problems);
  });
}

function assertNone(problems: readonly string[]): void {
  const more = problems.length > mostShown ? [`and ${problems.length - mostShown} more`] : [];
  assert(problems.length === 0, [...problems.slice(0, mostShown), ...more].join("\n"));
}
