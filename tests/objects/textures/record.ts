/**
 * Makes the reads of all cases on a device, and compares them with the reference:
 *
 *     deno run -A --import-map import_map.json tests/objects/textures/record.ts FOLDER [--driver cuda] [--count 512] [--only sRGB]
 *
 * Writes to FOLDER: `reads.json`, which has for each case a digest of all results and those that the reference does not
 * give, and `levels.json`, which has the levels of detail that the device takes for random gradients. With --only, makes
 * the reads of the cases whose names contain a text, and records no levels.
 *
 * @module
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import process from "node:process";
import { parseArgs } from "node:util";
import { type CudaDevice, open } from "../../../mod.ts";
import { Random } from "../../differential/random.ts";
import { answerHelp } from "../../support/program_help.ts";
import { readLevels } from "./gradient_levels.ts";
import { differencesOf, expectedOf, makeCase, readCases, readerOn } from "./texture_cases.ts";

answerHelp(import.meta.url, ["driver", "count", "only"]);

const { positionals: [folder = "."], values } = parseArgs({
  args: process.argv.slice(2),
  options: {
    driver: { type: "string", default: "auto" },
    count: { type: "string", default: "512" },
    only: { type: "string", default: "" },
  },
  allowPositionals: true,
});
const count = Number(values.count);
mkdirSync(folder, { recursive: true });

/** The results of a case. */
interface RecordedCase {
  readonly name: string;
  readonly count: number;
  readonly digest: string;
  /** How many results are not the reference's, and the first of them. */
  readonly different: number;
  readonly examples: readonly string[];
}

async function recordReads(gpu: CudaDevice): Promise<void> {
  const cases = readCases().filter(({ name }) => name.includes(values.only));
  using reader = readerOn(gpu, cases);
  const recorded: RecordedCase[] = [];
  for (const read of cases) {
    const made = makeCase(read, count);
    try {
      const found = await reader.run(read, made);
      const { count: different, differences } = differencesOf(read, made, found, expectedOf(read, made));
      const digest = createHash("sha256").update(new Uint8Array(found.buffer)).digest("hex").slice(0, 16);
      recorded.push({ name: read.name, count, digest, different, examples: differences });
      if (different > 0) console.log(`${different} of ${count} differ: ${differences[0]}`);
    } catch (error) {
      console.log(`${read.name}: ${error}`);
      if (String(error).includes("lost")) throw error;
    }
  }
  writeFileSync(`${folder}/reads.json`, `[\n${recorded.map((each) => JSON.stringify(each)).join(",\n")}\n]\n`);
  const same = recorded.filter(({ different }) => different === 0).length;
  console.log(`${same} of ${cases.length} cases are the same in all of ${count} reads`);
}

async function recordLevels(gpu: CudaDevice): Promise<void> {
  const recorded: Record<string, unknown> = {};
  const random = new Random(1);
  for (const geometry of ["1d", "2d", "3d"] as const) {
    const part = () => {
      const magnitude = 2 ** (random.below(700) / 100 - 7) / 4;
      return random.percent(10) ? 0 : random.percent(50) ? magnitude : -magnitude;
    };
    const gradients = Array.from({ length: 1024 }, () => Array.from({ length: 2 * Number(geometry[0]) }, part));
    for (const maxAnisotropy of [1, 16]) {
      const levels = await readLevels(gpu, geometry, gradients, maxAnisotropy);
      recorded[`${geometry} anisotropy ${maxAnisotropy}`] = gradients.map((each, index) => [...each, levels[index]]);
    }
  }
  writeFileSync(`${folder}/levels.json`, JSON.stringify(recorded));
}

using cuda = open({ driver: values.driver as "auto" });
const gpu = cuda.device(0);
console.log(gpu.name);
await recordReads(gpu);
if (values.only === "") await recordLevels(gpu);
