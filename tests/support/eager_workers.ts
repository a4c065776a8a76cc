/**
 * Preloaded: worker threads run every launch that they can, from its first block on, also those that end in no time.
 * `POOLPASS_SOFTWARE_THREADS` is the number of threads.
 *
 * @module
 */
import process from "node:process";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { processWorkers, sharingPolicy } from "../../src/software/execution/workers/workers.ts";

sharingPolicy.firstSliceMilliseconds = -1;
processWorkers(new LinearMemory()).startAll(Number(process.env.POOLPASS_SOFTWARE_THREADS ?? 2));
