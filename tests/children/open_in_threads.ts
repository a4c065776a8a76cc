// Opens a driver twice in each of the named threads, "main" and others, one after another: open_in_threads.ts NAMES...
import process from "node:process";
import { isMainThread, Worker } from "node:worker_threads";
import { open, type OpenOptions } from "../../mod.ts";

const options: OpenOptions = process.env.REQUESTED === undefined ? {} : { driver: "software" };

function openTwice(): void {
  for (let count = 0; count < 2; count++) open(options)[Symbol.dispose]();
}

if (isMainThread) {
  for (const name of process.argv.slice(2)) {
    if (name === "main") openTwice();
    else await new Promise((resolve) => new Worker(new URL(import.meta.url)).once("exit", resolve));
  }
} else {
  openTwice();
}
