// Runs rows one after the other in this process: run_situation.ts DRIVER NAME... [--file FILE]. Prints one line of JSON
// for each second process that it starts, and one for the result of each row. Exits without freeing anything on a GPU,
// because a lost context cannot be freed. Exits early, with status 0, after a row that lost a context. The second
// processes exit when this one is gone. With --file, looks for the rows only in situations/FILE.ts: most of a row's
// time is spent loading code.
import { writeSync } from "node:fs";
import module from "node:module";
import process from "node:process";
import { parseArgs } from "node:util";
import type { Driver } from "../../src/driver.ts";
import { loadDriver } from "./load_driver.ts";
import { outcomeOfAnswer, type Result, resultOfError } from "./outcome.ts";
import type { Fixture, Situation } from "./situation.ts";
import type { StartedPeer } from "./start_peer.ts";

/** Second processes of earlier rows, which later rows reuse. */
const idlePeers: StartedPeer[] = [];
const { values: { file }, positionals: [driverName, ...names] } = parseArgs({
  args: process.argv.slice(2),
  options: { file: { type: "string", default: "../table" } },
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
  // All rows of a process share 4 GiB there.
  if (driver.kind === "software") driver.close();
  const isLast = index === names.length - 1 || !leavesDevices(driver);
  // The parent process may kill this one as soon as it has the last result.
  if (isLast) (module as { flushCompileCache?: () => void }).flushCompileCache?.();
  print(result);
  if (isLast) break;
}
process.exit(0);

async function run(situation: Situation, given: Omit<Fixture, "startPeer">): Promise<Result> {
  const onRowEnd: (() => void)[] = [];
  const fixture: Fixture = {
    ...given,
    async startPeer(role) {
      const peer = idlePeers.pop() ?? await startNewPeer(given.driverName);
      await peer.assign(role);
      let isKilled = false;
      // Each software driver creates its own devices, so a process can run another role for a later row.
      if (given.driver.kind === "software") onRowEnd.push(() => isKilled || idlePeers.push(peer));
      return {
        ask: peer.ask,
        kill() {
          isKilled = true;
          return peer.kill();
        },
      };
    },
  };
  try {
    return outcomeOfAnswer(await situation.run(fixture));
  } catch (error) {
    return resultOfError(error);
  } finally {
    for (const callback of onRowEnd) callback();
  }
}

async function startNewPeer(driverName: string): Promise<StartedPeer> {
  const { startPeer } = await import("./start_peer.ts");
  const peer = await startPeer(driverName);
  print({ peer: peer.pid });
  return peer;
}

/** Whether the devices are usable for another row: no context is lost, and the default streams are idle. */
function leavesDevices(driver: Driver): boolean {
  // Each software driver creates its own devices.
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
