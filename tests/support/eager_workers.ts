/**
 * Preloaded: worker threads run every launch that they can, from its first block on, also those that end in no time.
 * `POOLPASS_SOFTWARE_THREADS` is the number of threads, by default 2. `deno task test:threads` loads this module before
 * the tests, and in Deno the scripts that they start as processes load it, too.
 *
 * @module
 */
import process from "node:process";
import { fileURLToPath } from "node:url";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { processWorkers, sharingPolicy } from "../../src/software/execution/workers/workers.ts";
import { preloadInChildren } from "./preload_in_children.ts";

process.env.POOLPASS_SOFTWARE_THREADS ||= "2";
sharingPolicy.firstSliceMilliseconds = -1;
processWorkers(new LinearMemory()).startAll(Number(process.env.POOLPASS_SOFTWARE_THREADS));
if ("Deno" in globalThis) {
  // In a bundle, a script has modules of its own, which this does not change.
  process.env.CHILD_BUNDLES = "";
  preloadInChildren(fileURLToPath(new URL("eager_workers_of_children.ts", import.meta.url)));
}
