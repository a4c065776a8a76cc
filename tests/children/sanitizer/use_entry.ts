/**
 * With the sanitizer, maps what another process has published in a store, and fills or reads it. Arguments: the driver,
 * the store's path, "read" or "write", and the name of the processes' board. Prints "done" when the work is enqueued, waits
 * for the entry "over", and prints the reports.
 *
 * @module
 */
import process from "node:process";
import { open, type SanitizerReport, StoreClient } from "../../../mod.ts";
import { useBoard } from "../../support/own_board.ts";

const [driver, path, access, board] = process.argv.slice(2) as [
  "software" | "cuda",
  string,
  "read" | "write",
  string,
];
useBoard(board);
const reports: SanitizerReport[] = [];
{
  using cuda = open({ driver, sanitize: ["stream-order"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  await using client = await StoreClient.connect(cuda, path);
  using entry = await client.map("entry", { stream, write: access === "write" });
  using copy = gpu.allocate(entry.byteLength);
  if (access === "write") entry.fill(2);
  else copy.copyFrom(entry, stream);
  console.log("done");
  using _over = await client.map("over");
  gpu.synchronize();
}
console.log(JSON.stringify(reports));
