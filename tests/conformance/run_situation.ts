// Runs rows, one after the other, in a process of their own: run_situation.ts DRIVER NAME... [--file FILE]. It prints a
// line of JSON for each second process that it starts, and one with what came of each row, and ends without giving
// anything back: a lost context cannot be. It ends early, with 0, after a row that has lost it. Its second processes end
// when they find it gone. Rows are looked for in FILE.ts alone where that is given: most of a row's time is that of loading
// code.
import { writeSync } from "node:fs";
import module from "node:module";
import process from "node:process";
import { parseArgs } from "node:util";
import type { Driver } from "../../src/driver.ts";
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
const { situations } = await import(`./situations/${file}.ts`) as { situations: readonly Situation[] };
for (const [index, name] of names.entries()) {
  const situation = situations.find((situation) => situation.name === name);
  if (situation === undefined) throw new RangeError(`Cannot run "${name}": there is no such row`);
  const openDriver = await loadDriver(driverName, { peers: situation.peers ?? true });
  const driver = openDriver();
  const result = await run(situation, { driver, driverName, openDriver });
  const isLast = index === names.length - 1 || !leavesDevices(driver);
  // What has the last result may end this process at once.
  if (isLast) (module as { flushCompileCache?: () => void }).flushCompileCache?.();
  print(result);
  if (isLast) break;
}
process.exit(0);

async function run(situation: Situation, given: Omit<Stage, "startPeer">): Promise<Result> {
  const stage: Stage = {
    ...given,
    async startPeer(role) {
      const { startPeer } = await import("./start_peer.ts");
      const peer = await startPeer(given.driverName, role);
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

/** Whether the process's devices are left as another row may have them: with no failure, and with nothing to do. */
function leavesDevices(driver: Driver): boolean {
  // Each software driver has devices of its own.
  if (driver.kind === "software") return true;
  try {
    const devices = Array.from({ length: driver.getDeviceCount() }, (_, device) => device);
    return devices.every((device) => driver.streamQuery(device, 0n, { peek: true }));
  } catch {
    return false;
  }
}

function print(line: Result | { readonly peer: number }): void {
  writeSync(1, JSON.stringify(line) + "\n");
}
