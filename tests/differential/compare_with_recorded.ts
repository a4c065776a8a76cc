/**
 * Compares the software device with a whole recording and reports all differences.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { compareOperation, compareProgram, type Difference } from "./comparison.ts";
import { exclusions, masked } from "./exclusions.ts";
import { operations } from "./operations.ts";
import { readOperationResults, readOperations, readProgramOutputs, readPrograms } from "./recording.ts";
import { excludedSeeds } from "./regressions.ts";
import { forEachOutcome } from "./subjects.ts";
import { programAnswer, questionOf } from "./trial.ts";

const maxExamples = 5;

/** The differences of one kind of operation. */
interface Group {
  count: number;
  readonly examples: Difference[];
}

/** The operations and programs that could not be compared, by reason. */
type Refusals = Map<string, string[]>;

/** Prints the differences and writes them to `differences.json` in the folder of the recording. */
export function compareWithRecorded(folder: string): void {
  using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false })));
  const refusals: Refusals = new Map();
  const single = compareOperations(cuda, folder, refusals);
  const { groups: inPrograms, seeds } = comparePrograms(cuda, folder, refusals);
  report("Differing single operations", single);
  report("First differing steps of programs", inPrograms);
  console.log(`Seeds that differ: ${seeds.join(", ") || "none"}`);
  for (const [reason, names] of refusals) {
    console.log(`No comparison, ${names.length}: ${reason}\n    ${names.slice(0, maxExamples).join("\n    ")}`);
  }
  console.log("Never compared, or only in part:");
  for (const { opcodes, modifiers, reason } of exclusions) {
    const what = [...opcodes ?? [], ...(modifiers ?? []).map((modifier) => `.${modifier}`)].join(" ");
    console.log(`  ${what}: ${reason}`);
  }
  for (const what of masked) console.log(`  ${what}`);
  for (const [seed, reason] of excludedSeeds) console.log(`  seed ${seed}: ${reason}`);
  const all = {
    operations: Object.fromEntries(single),
    programs: Object.fromEntries(inPrograms),
    seeds,
    refusals: Object.fromEntries(refusals),
  };
  writeFileSync(`${folder}/differences.json`, JSON.stringify(all, null, 2) + "\n");
  console.log(`${folder}/differences.json has all differences`);
}

function compareOperations(cuda: Cuda, folder: string, refusals: Refusals): Map<string, Group> {
  const groups = new Map<string, Group>();
  const recorded = readOperations(folder);
  if (recorded === undefined) return groups;
  const results = readOperationResults(recorded, folder);
  forEachOutcome(cuda, { subject: "operations", indices: [...operations.keys()] }, (index, trial, software) => {
    const operation = operations[index]!;
    const answer = recorded.answers[operation.name];
    if (answer === undefined) return refuse(refusals, "it was not recorded", operation.name);
    if (!answer.startsWith(questionOf(trial))) {
      return refuse(refusals, "it was recorded with other operands", operation.name);
    }
    if (software instanceof Error) return refuse(refusals, reasonOf(software), operation.name);
    const found = compareOperation(operation, {
      software,
      recorded: results.get(operation.name)!,
      examples: maxExamples,
    });
    if (found.count > 0) groups.set(operation.name, found);
  });
  return groups;
}

function comparePrograms(
  cuda: Cuda,
  folder: string,
  refusals: Refusals,
): { groups: Map<string, Group>; seeds: number[] } {
  const groups = new Map<string, Group>();
  const seeds: number[] = [];
  const { answers } = readPrograms(folder) ?? { answers: [] };
  const outputs = readProgramOutputs(folder);
  forEachOutcome(cuda, { subject: "programs", indices: [...answers.keys()] }, (seed, trial, software) => {
    const answer = answers[seed]!;
    const name = `seed ${seed}`;
    if (excludedSeeds.has(seed)) return;
    if (answer === "failed") return refuse(refusals, "it has no recorded answer", name);
    if (!answer.startsWith(questionOf(trial))) return refuse(refusals, "it was recorded as another program", name);
    if (software instanceof Error) return refuse(refusals, reasonOf(software), name);
    if (answer === programAnswer(trial, software)) return;
    seeds.push(seed);
    const output = outputs[seed];
    if (output === undefined) return;
    const difference = compareProgram(seed, { software, recorded: output, cuda });
    if (difference === undefined) return;
    const { operation } = difference;
    const key = /[a-z][\w.:]*\.[\w.:]+(?=[^;]*;$)/.exec(operation)?.[0] ?? operation;
    const group = groups.get(key) ?? { count: 0, examples: [] };
    group.count++;
    if (group.examples.length < maxExamples) group.examples.push(difference);
    groups.set(key, group);
  });
  return { groups, seeds };
}

function refuse(refusals: Refusals, reason: string, name: string): void {
  refusals.set(reason, [...refusals.get(reason) ?? [], name]);
}

/** Returns the message without the parts that differ from kernel to kernel. */
function reasonOf({ message }: Error): string {
  return message.replaceAll(/Line \d+: /g, "").replaceAll(/(program|operation)\d+/g, "$1");
}

function report(title: string, groups: ReadonlyMap<string, Group>): void {
  console.log(`${title}: ${groups.size === 0 ? "none" : groups.size}`);
  for (const [name, { count, examples: [first] }] of groups) {
    const { where, operands, software, recorded } = first!;
    console.log(
      `  ${name}: ${count}, first ${where}: (${operands.join(", ")}) software ${software}, recorded ${recorded}`,
    );
  }
}
