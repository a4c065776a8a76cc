import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { fuzz } from "./sharing_fuzz.ts";
import { isLong, test } from "../support/test.ts";

/** With fewer not every code comes. */
const streamsForAllCodes = 2000;
/** More may be asked for, from another seed on. */
const streams = Math.max(isLong ? streamsForAllCodes : 300, Number(process.env.POOLPASS_FUZZ_STREAMS ?? 0));
const seed = Number(process.env.POOLPASS_FUZZ_SEED ?? 1);

test(`${streams} streams that keep no rule, from seed ${seed} on, cost errors of their types and nothing else`, async () => {
  const { exporter, importer, legal, frames } = await fuzz({ streams, seed });
  // Each has ended once; what importers could not use of what was offered comes beside.
  assertEquals(exporter.values().reduce((sum, count) => sum + count, 0), streams / 2);
  assert(importer.values().reduce((sum, count) => sum + count, 0) >= streams / 2);
  for (const [end, outcomes] of [["exporter", exporter], ["importer", importer]] as const) {
    const what = `of the ${end}, in ${streams} streams from seed ${seed} on`;
    const rare = streams < streamsForAllCodes ? [] : ["version-mismatch"];
    for (const code of ["bad-message", "peer-gone", ...rare]) {
      assert(
        outcomes.has(code),
        `No connection ${what}, ended with "${code}", only with ${[...outcomes.keys()].join(", ")}. The streams ` +
          "depend on the golden messages: if these have changed, try another seed or more streams",
      );
    }
    const accepted = outcomes.get("goodbye") ?? 0;
    assert(accepted >= legal[end], `Only ${accepted} of the ${legal[end]} legal sessions ${what}, were accepted`);
  }
  assert(frames > 0);
});
