/** Random programs of several streams do on several threads what they do on one. `deno task stress` runs more of them. */
import { processWorkers } from "../../src/software/execution/workers/workers.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { assertNothingLeft, countResources } from "../support/resources.ts";
import { isLong, test } from "../support/test.ts";
import { check } from "./random_threads/check.ts";

const programs = isLong ? 1000 : 10;

for (const threads of [2, 3]) {
  test(`random programs do on ${threads} threads what they do on one`, async () => {
    processWorkers(new LinearMemory()).startAll(3);
    const first = threads * 10_000;
    await check(first, { threads });
    const before = countResources();
    for (let seed = first + 1; seed < first + programs; seed++) await check(seed, { threads });
    await assertNothingLeft(before);
  });
}
