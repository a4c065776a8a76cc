/**
 * All kernels that there are, run in packs of threads wherever that is possible.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { Cuda } from "../src/cuda.ts";
import { Session } from "../src/session.ts";
import { SoftwareDriver } from "../src/software/software_driver.ts";
import { operations } from "./differential/operations.ts";
import { forEachOutcome, type Subject } from "./differential/subjects.ts";
import { nvccCorpus, programNames, readPtx } from "./ptx/build.ts";
import { clangCorpus } from "./ptx/clang/build.ts";
import { differences, loadProgram, runProgram } from "./ptx/corpus.ts";

/** How many of the random programs are run. */
const programCount = 300;

function open(packedThreads: false | "always"): Cuda {
  return new Cuda(new Session(new SoftwareDriver({ devices: 2, peers: true, packedThreads })));
}

for (const [label, corpus] of [["nvcc", nvccCorpus], ["clang", clangCorpus]] as const) {
  test(`what ${label} made gives in packs what is expected`, async () => {
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

for (const [subject, count] of [["operations", operations.length], ["programs", programCount]] as const) {
  test(`${subject} give in packs what they give without`, () => {
    const [single, packed] = [outcomes(subject, count, false), outcomes(subject, count, "always")];
    for (const [index, outcome] of single.entries()) assertEquals(packed[index], outcome, `${subject} ${index}`);
  });
}

function outcomes(subject: Subject, count: number, packedThreads: false | "always"): unknown[] {
  using cuda = open(packedThreads);
  const found: unknown[] = [];
  const indices = Array.from({ length: count }, (_, index) => index);
  forEachOutcome(cuda, { subject, indices }, (_, __, outcome) => {
    found.push(outcome instanceof Error ? outcome.message : structuredClone(outcome));
  });
  return found;
}
