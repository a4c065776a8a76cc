/**
 * An operator that asks an exporter for its status each 100 ms, as `poolpass top` does. Answers requests, as
 * `bench/sharing/contract.ts` says, with a number in place of the times.
 *
 *     watcher.ts SOCKET
 *
 * - `watch`: begins; the answer is when the first status has come
 * - `stop`: ends; the number of statuses
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

import { Operator } from "../../mod.ts";
import { answerRequests } from "../sharing/contract.ts";

const [path] = process.argv.slice(2) as [string];
const interval = 100;
const waitTimeout = 20_000;
let statuses = 0;
let stopping = new AbortController();
let watching = Promise.resolve();

async function watch(operator: Operator, signal: AbortSignal): Promise<void> {
  await using _closed = operator;
  while (!signal.aborted) {
    await sleep(interval);
    await operator.status({ signal: AbortSignal.timeout(waitTimeout) });
    statuses++;
  }
}

await answerRequests({ name: "poolpass", device: "", uuid: "", isSoftware: false, versions: "" }, {
  async watch() {
    const operator = await Operator.connect(path, { signal: AbortSignal.timeout(waitTimeout) });
    await operator.status({ signal: AbortSignal.timeout(waitTimeout) });
    stopping = new AbortController();
    statuses = 1;
    watching = watch(operator, stopping.signal);
    return [];
  },
  async stop() {
    stopping.abort();
    await watching;
    return [statuses];
  },
});
