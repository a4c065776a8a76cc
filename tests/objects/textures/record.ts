/**
 * Makes the reads of all cases on a device, and compares them with the reference:
 *
 *     deno run -A --import-map import_map.json tests/objects/textures/record.ts FOLDER [--driver cuda] [--count 512]
 *
 * Writes to FOLDER: `reads.json`, which has for each case a digest of all results and those that the reference does not
 * give, and `levels.json`, which has the levels of detail that the device takes for random gradients.
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
import { differencesOf, expectedOf, makeCase, readCases, readerOn } from "./texture_cases.ts";
import { readPtx } from "./texture_kernels.ts";

answerHelp(import.meta.url, ["driver", "count"]);

const { positionals: [folder = "."], values } = parseArgs({
  args: process.argv.slice(2),
  options: { driver: { type: "string", default: "auto" }, count: { type: "string", default: "512" } },
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
  const cases = readCases();
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

/** Reads levels that each have one number: what is read is the level of detail, which is linear between levels. */
async function recordLevels(gpu: CudaDevice): Promise<void> {
  const geometries = ["1d", "2d", "3d"] as const;
  const size = 256, levels = 9, reads = 1024;
  using module = gpu.loadModule(
    readPtx(geometries.map((geometry) => ({ name: `read_${geometry}`, geometry, modifier: ".grad" }))),
  );
  const recorded: Record<string, unknown> = {};
  for (const geometry of geometries) {
    for (const maxAnisotropy of [1, 16]) {
      const dimensions = Number(geometry[0]);
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      const extents = Array(dimensions).fill(geometry === "3d" ? 64 : size) as [number, number?, number?];
      const mostLevels = geometry === "3d" ? 7 : levels;
      using array = gpu.createMipmappedArray("f32", extents, { levels: mostLevels });
      for (let index = 0; index < mostLevels; index++) {
        const level = array.level(index);
        level.copyFrom(new Float32Array(level.width * level.height * level.depth).fill(index), stream);
      }
      using texture = gpu.createTexture(array, {
        normalizedCoordinates: true,
        addressMode: "wrap",
        filterMode: "linear",
        mipmapFilterMode: "linear",
        maxAnisotropy,
        disableTrilinearOptimization: true,
      });
      const random = new Random(dimensions);
      const operands = new Float32Array(12 * reads);
      for (let index = 0; index < reads; index++) {
        for (let at = 0; at < 3; at++) operands[12 * index + at] = random.below(1000) / 1000;
        for (let at = 0; at < 6; at++) {
          const magnitude = 2 ** (random.below(700) / 100 - 7) / 4;
          operands[12 * index + 5 + at] = random.percent(10) ? 0 : random.percent(50) ? magnitude : -magnitude;
        }
      }
      using data = pool.allocateArray(operands, { stream });
      using results = pool.allocateArray(Float32Array, 4 * reads, stream);
      const launch = { grid: reads / 64, block: 64, stream };
      module.kernel(`read_${geometry}`).launch(launch, results, texture, data, reads);
      const found = await results.toTypedArray({ stream });
      recorded[`${geometry} anisotropy ${maxAnisotropy}`] = Array.from({ length: reads }, (_, index) => [
        ...Array.from(operands.subarray(12 * index + 5, 12 * index + 11)),
        found[4 * index]! * 256,
      ]);
    }
  }
  writeFileSync(`${folder}/levels.json`, JSON.stringify(recorded));
}

using cuda = open({ driver: values.driver as "auto" });
const gpu = cuda.device(0);
console.log(gpu.name);
await recordReads(gpu);
await recordLevels(gpu);
