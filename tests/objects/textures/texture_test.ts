import { readFileSync } from "node:fs";
import { assertEquals } from "@std/assert";
import { open } from "../../../mod.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { someOf, test } from "../../support/test.ts";
import { Random } from "../../differential/random.ts";
import { type FootprintRead, type FootprintTexture, readFootprints } from "./footprints.ts";
import { readLevels } from "./gradient_levels.ts";
import { readPtx } from "./texture_kernels.ts";
import { differencesOf, expectedOf, makeCase, readCases, readerOn } from "./texture_cases.ts";

testOnEachDriver("textures are read as a GPU reads them, at random coordinates", async (cuda) => {
  const cases = someOf(readCases(), 31);
  using reader = readerOn(cuda.device(0), cases);
  for (const read of cases) {
    const made = makeCase(read, 64);
    const { differences } = differencesOf(read, made, await reader.run(read, made), expectedOf(read, made));
    assertEquals(differences, []);
  }
});

/** Pairs of gradients, and the levels of detail in 256ths that an H200 takes: without anisotropic filtering, and with 16. */
const recordedLevels = (): Record<"1d" | "2d" | "3d", number[][]> =>
  JSON.parse(readFileSync(new URL("recorded_levels.json", import.meta.url), "utf8"));

for (const [index, maxAnisotropy] of [1, 16].entries()) {
  const what = maxAnisotropy === 1 ? "" : " with anisotropic filtering";
  testOnEachDriver(`levels of detail of gradients${what} are those of an H200, within 2/256`, async (cuda) => {
    for (const [geometry, rows] of Object.entries(recordedLevels()) as ["1d" | "2d" | "3d", number[][]][]) {
      const gradients = rows.map((row) => row.slice(0, -2));
      const found = await readLevels(cuda.device(0), geometry, gradients, maxAnisotropy);
      const errors = rows.map((row, number) => found[number]! - row.at(index - 2)!);
      assertEquals(errors.filter((error) => Math.abs(error) > 2), [], geometry);
      const same = errors.filter((error) => error === 0).length / rows.length;
      assertEquals(same > (0.97), true, `${geometry}: ${errors}`);
    }
  });
}

/** What an H200 has read with gradients and anisotropic filtering. */
interface RecordedSamples {
  /** For each texture the reads: the place in 256ths, the gradients, and the texels with weights in 1024ths. */
  readonly footprints: readonly (FootprintTexture & { readonly reads: readonly RecordedFootprint[] })[];
  /** For each format of random textures the reads: the coordinates, the gradients, and the results. */
  readonly sums: Readonly<Record<"f32" | "f16" | "u8", readonly (readonly number[])[]>>;
  /** For `maxAnisotropy` 1 and 16 the reads of cubemaps: the direction, the gradients, and the level in 256ths. */
  readonly cubemaps: Readonly<Record<"1" | "16", readonly (readonly number[])[]>>;
}
type RecordedFootprint = readonly [
  ...place: [number, number],
  ...gradients: [number, number, number, number],
  texels: readonly number[],
];

const recordedSamples = (): RecordedSamples =>
  JSON.parse(readFileSync(new URL("recorded_samples.json", import.meta.url), "utf8"));

testOnEachDriver("anisotropic filtering gives texels the weights that an H200 does, within 2/256", async (cuda) => {
  let same = 0, count = 0;
  for (const { reads, ...texture } of someOf(recordedSamples().footprints, 3)) {
    const expected = reads.flatMap(([, , , , , , texels]) => texels.filter((_, index) => index % 3 === 2));
    const found = await readFootprints(
      cuda.device(0),
      texture,
      reads.map(([x, y, dx0, dx1, dy0, dy1, texels]): FootprintRead => ({
        place: [x / 256, y / 256],
        gradients: [dx0, dx1, dy0, dy1],
        texels: Array.from({ length: texels.length / 3 }, (_, index) => [texels[3 * index]!, texels[3 * index + 1]!]),
      })),
    );
    const errors = expected.map((weight, index) => Math.abs(1024 * found[index]! - weight));
    assertEquals(errors.filter((error) => error > 8.001), [], JSON.stringify(texture));
    count += errors.length;
    same += errors.filter((error) => error < 0.001).length;
  }
  assertEquals(same > 0.98 * count, true, `${same} of ${count}`);
});

testOnEachDriver("anisotropic filtering sums texels as an H200 does", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = gpu.loadModule(readPtx([{ name: "read", geometry: "2d", modifier: ".grad" }]));
  for (const [format, rows] of Object.entries(recordedSamples().sums) as ["f32" | "f16" | "u8", number[][]][]) {
    const random = new Random(3), channels = format === "f32" ? 1 : 4;
    const texelOf = {
      f32: () => random.below(2 ** 24) / 2 ** 23 - 1,
      f16: () => random.below(2) << 15 | 8 + random.below(14) << 10 | random.below(1024),
      u8: () => random.below(256),
    }[format];
    const type = { f32: Float32Array, f16: Uint16Array, u8: Uint8Array }[format];
    using array = gpu.createArray(format, [64, 64], { channels });
    array.copyFrom(new type(Array.from({ length: 64 * 64 * channels }, texelOf)));
    using texture = gpu.createTexture(array, {
      normalizedCoordinates: true,
      addressMode: "wrap",
      filterMode: "linear",
      maxAnisotropy: 16,
      readMode: format === "u8" ? "normalized-float" : "element-type",
    });
    const operands = rows.flatMap(([x, y, dx0, dx1, dy0, dy1]) => [x!, y!, 0, 0, 0, dx0!, dx1!, 0, dy0!, dy1!, 0, 0]);
    using data = pool.allocateArray(Float32Array.from(operands));
    using results = pool.allocateArray(Float32Array, 4 * rows.length);
    module.kernel("read").launch({ grid: 1, block: rows.length }, results, texture, data, rows.length);
    const found = await results.toTypedArray();
    const same = rows.filter((row, index) => row.slice(6).every((value, at) => value === found[4 * index + at])).length;
    assertEquals(same >= 0.96 * rows.length, true, `${format}: ${same} of ${rows.length}`);
  }
});

testOnEachDriver("levels of detail of gradients in cubemaps are those of an H200, within 2/256", async (cuda) => {
  for (const [maxAnisotropy, rows] of Object.entries(recordedSamples().cubemaps)) {
    const gradients = rows.map((row) => row.slice(0, 9));
    const found = await readLevels(cuda.device(0), "cube", gradients, Number(maxAnisotropy));
    const errors = rows.map((row, index) => Math.round(found[index]! - row[9]!));
    assertEquals(errors.filter((error) => Math.abs(error) > 2), []);
    assertEquals(errors.filter((error) => error === 0).length > 0.85 * rows.length, true, errors.join(" "));
  }
});

test("anisotropic filtering takes one sample where both gradients are alike", async () => {
  using cuda = open({ driver: "software" });
  const gradients = [2, 0, 0, 2] as const, place = [0.3, 0.7] as const, texels = [[0, 0], [-1, 0], [0, 1]] as const;
  const read = (maxAnisotropy: number) =>
    readFootprints(cuda.device(0), { maxAnisotropy }, [{ place, gradients, texels }]);
  assertEquals(await read(16), await read(1));
});
