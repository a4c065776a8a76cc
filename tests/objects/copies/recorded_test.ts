/** The software device copies, updates and fails as an H200 did when its outcomes were recorded. */
import { assertEquals, assertNotEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { type Cuda, open } from "../../../mod.ts";
import { someOf, test } from "../../support/test.ts";
import { cases, outcomeOf } from "./cases.ts";
import { condensed } from "./recorded.ts";

const recorded = JSON.parse(
  readFileSync(new URL("recorded.json", import.meta.url), "utf8"),
) as Readonly<Record<string, string>>;

/** Why some outcomes differ. */
const differences: readonly {
  readonly names: RegExp;
  readonly reason: string;
  /** Whether the outcome on a GPU is not always the same. */
  readonly varies?: true;
}[] = [
  { names: /, (0|64|80|96) bytes awaited$/, reason: "a GPU may not have copied more than is awaited", varies: true },
  {
    names: /^fault: (a size of 24|outside of shared)/,
    reason: "on a GPU, such a copy is never complete",
  },
  {
    names: /^fault: (a copy|a reduction|st\.async) of the block itself, cluster undefined/,
    reason: "a GPU needs a launch in clusters",
  },
  { names: /^addresses of a cluster|_smem_offset_(begin|end|0|1)\b/, reason: "shared memory begins elsewhere" },
  {
    names: /^atomic (min|max|and|or|xor)\.[usb]64|^atomic add\.noftz/,
    reason: "ptxas makes these of a load and a store in another block's shared memory",
    varies: true,
  },
  { names: /whole phase after an asynchronous/, reason: "an asynchronous arrival is immediate here" },
  { names: /arrival after inval/, reason: "mbarrier.inval leaves the barrier as it is on a GPU" },
  { names: /%envreg0|%nsmid/, reason: "values of the device" },
];

test("asynchronous copies, clusters and barriers have the outcomes of an H200", () => {
  const names = Object.keys(cases);
  assertEquals(names.filter((name) => recorded[name] === undefined), []);
  let cuda: Cuda | undefined;
  for (const name of someOf(names, 31)) {
    cuda ??= open({ driver: "software", sanitize: false });
    const { outcome, isLost } = outcomeOf(cuda.device(0), name);
    const difference = differences.find(({ names }) => names.test(name));
    if (difference === undefined) assertEquals(condensed(outcome), recorded[name], name);
    if (isLost) {
      cuda[Symbol.dispose]();
      cuda = undefined;
    }
  }
  cuda?.[Symbol.dispose]();
});

test("the outcomes that differ from an H200's are known", { long: true }, () => {
  for (const name of Object.keys(cases)) {
    const difference = differences.find(({ names }) => names.test(name));
    if (difference === undefined || difference.varies) continue;
    using cuda = open({ driver: "software", sanitize: false });
    const { outcome } = outcomeOf(cuda.device(0), name);
    assertNotEquals(condensed(outcome), recorded[name], `${name}: ${difference.reason}`);
  }
});
