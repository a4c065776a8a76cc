import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { fuzz } from "./sharing_fuzz.ts";
import { isLong, test } from "../support/test.ts";

/** Fewer streams do not cause every error code. */
const streamsForAllCodes = 2000;
/** Environment variables can set more streams and another first seed. */
const streams = Math.max(isLong ? streamsForAllCodes : 20, Number(process.env.POOLPASS_FUZZ_STREAMS ?? 0));
const seed = Number(process.env.POOLPASS_FUZZ_SEED ?? 1);

test(`invalid streams from seed ${seed} on cause only typed errors`, async () => {
  const { exporter, importer, legal, frames } = await fuzz({ streams, seed });
  // Each connection has ended once. Failed uses of offers are counted in addition.
  assertEquals(exporter.values().reduce((sum, count) => sum + count, 0), streams / 2);
  assert(importer.values().reduce((sum, count) => sum + count, 0) >= streams / 2);
  for (const [end, outcomes] of [["exporter", exporter], ["importer", importer]] as const) {
    const what = `of the ${end}, in ${streams} streams from seed ${seed} on`;
    const rare = streams < streamsForAllCodes ? [] : ["version-mismatch", "peer-gone"];
    for (const code of ["bad-message", ...rare]) {
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
