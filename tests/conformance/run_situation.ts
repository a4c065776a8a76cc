// Runs rows, one after the other, in a process of their own: run_situation.ts DRIVER NAME... [--file FILE]. It prints a
// line of JSON for each second process that it starts, and one with what came of each row, and ends without giving
// anything back: a lost context cannot be. Its second processes end when they find it gone. Rows are looked for in FILE.ts
// alone where that is given: most of a row's time is that of loading code.
import { writeSync } from "node:fs";
import module from "node:module";
import process from "node:process";
import { parseArgs } from "node:util";
import { loadDriver } from "./load_driver.ts";
import { outcomeOfAnswer, type Result, resultOfError } from "./outcome.ts";
import type { Situation, Stage } from "./situation.ts";

const { values: { file }, positionals: [driverName, ...names] } = parseArgs({
  args: process.argv.slice(2),
  options: { file: { type: "string", default: "table" } },
  allowPositionals: true,
});
if (driverName === undefined || names.length === 0) {
  throw new TypeError("Cannot run: usage: run_situation.ts DRIVER NAME... [--file FILE]");
}
const { situations } = await import(`./${file}.ts`) as { situations: readonly Situation[] };
for (const [index, name] of names.entries()) {
  const situation = situations.find((situation) => situation.name === name);
  if (situation === undefined) throw new RangeError(`Cannot run "${name}": there is no such row`);
  const result = await run(situation, driverName);
  // What has the last result may end this process at once.
  if (index === names.length - 1) (module as { flushCompileCache?: () => void }).flushCompileCache?.();
  print(result);
}
process.exit(0);

async function run(situation: Situation, driverName: string): Promise<Result> {
  const openDriver = await loadDriver(driverName, { peers: situation.peers ?? true });
  const stage: Stage = {
    driver: openDriver(),
    driverName,
    openDriver,
    async startPeer(role) {
      const { startPeer } = await import("./start_peer.ts");
      const peer = await startPeer(driverName, role);
      print({ peer: peer.pid });
      return peer;
    },
  };
  try {
    return outcomeOfAnswer(await situation.run(stage));
  } catch (error) {
    return resultOfError(error);
  }
}

function print(line: Result | { readonly peer: number }): void {
  writeSync(1, JSON.stringify(line) + "\n");
}
