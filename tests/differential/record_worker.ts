// Runs a range of the programs or operations for record.ts: DRIVER SUBJECT FROM TO BATCH OUTPUT
//
// Appends each outcome to OUTPUT and prints the next index after each batch. Exits at the first error that may have
// made the device unusable.
import { closeSync, openSync, writeSync } from "node:fs";
import process from "node:process";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { loadDriver } from "../conformance/load_driver.ts";
import { frameOf } from "./frames.ts";
import { type Subject, trialOf } from "./subjects.ts";
import { runTrials } from "./trial.ts";

const [driverName, subject, from, to, batch, output] = process.argv.slice(2) as [
  string,
  Subject,
  string,
  string,
  string,
  string,
];
const openDriver = await loadDriver(driverName);
using cuda = new Cuda(new Session(openDriver()));
const file = openSync(output, "a");
for (let begin = Number(from); begin < Number(to);) {
  const end = Math.min(begin + Number(batch), Number(to));
  const indices = Array.from({ length: end - begin }, (_, offset) => begin + offset);
  const outcomes = runTrials(cuda, indices.map((index) => trialOf(subject, index)));
  outcomes.forEach((outcome, offset) => {
    const bytes = frameOf(begin + offset, outcome);
    if (writeSync(file, bytes) !== bytes.length) throw new Error(`Cannot write to ${output}`);
  });
  begin = end;
  console.log(begin);
}
closeSync(file);
