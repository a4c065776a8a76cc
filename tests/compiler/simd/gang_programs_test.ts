/**
 * Runs all kernels of the tests in gangs, wherever that is possible.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { operations } from "../../differential/operations.ts";
import { forEachOutcome, type Subject } from "../../differential/subjects.ts";
import { nvccCorpus, programNames, readPtx } from "../../corpus/nvcc/build.ts";
import { clangCorpus } from "../../corpus/clang/build.ts";
import { differences, loadProgram, runProgram } from "../../corpus/corpus.ts";
import { isLong, test } from "../../support/test.ts";

/** How many random programs to run. */
const programCount = isLong ? 300 : 3;
/** One in this many operations is run. */
const operationStep = isLong ? 1 : 64;

function open(gangs: false | "always"): Cuda {
  return new Cuda(new Session(new SoftwareDriver({ devices: 2, peers: true, gangs })));
}

for (const [label, corpus] of [["nvcc", nvccCorpus], ["clang", clangCorpus]] as const) {
  test(`PTX from ${label} gives the expected results in gangs`, { long: true }, async () => {
    for (const name of programNames(corpus)) {
      const program = await loadProgram(corpus, name);
      for (const variant of corpus.variants) {
        using cuda = open("always");
        const actual = await runProgram(cuda, program, readPtx(corpus, name, variant));
        const found = differences(program.expected(program.buffers()), actual, program.bounds);
        assertEquals(found, [], `${name} (${variant.name})`);
      }
    }
  });
}

const counts = { operations: operations.length, programs: programCount };

for (const subject of ["operations", "programs"] as const) {
  test(`${subject} give the same results in gangs as without`, { long: subject === "operations" }, () => {
    const step = subject === "operations" ? operationStep : 1;
    const indices = Array.from({ length: Math.floor(counts[subject] / step) }, (_, index) => index * step);
    const [single, inGangs] = [outcomes(subject, indices, false), outcomes(subject, indices, "always")];
    for (const [index, outcome] of single.entries()) assertEquals(inGangs[index], outcome, `${subject} ${index}`);
  });
}

function outcomes(subject: Subject, indices: readonly number[], gangs: false | "always"): unknown[] {
  using cuda = open(gangs);
  const found: unknown[] = [];
  forEachOutcome(cuda, { subject, indices }, (_, __, outcome) => {
    found.push(outcome instanceof Error ? outcome.message : structuredClone(outcome));
  });
  return found;
}
