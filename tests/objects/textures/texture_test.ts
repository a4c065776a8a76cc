import { readFileSync } from "node:fs";
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { open } from "../../../mod.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { someOf, test } from "../../support/test.ts";
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
      assertEquals(same > (maxAnisotropy === 1 ? 0.9 : 0.7), true, `${geometry}: ${errors}`);
    }
  });
}

test("anisotropic filtering averages samples along the longer gradient", async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using array = gpu.createArray("f32", [64, 64]);
  array.copyFrom(Float32Array.from({ length: 4096 }, (_, index) => index * 37 % 101));
  using module = gpu.loadModule(readPtx([{ name: "read", geometry: "2d", modifier: ".grad" }]));
  const read = async (places: readonly (readonly number[])[], maxAnisotropy: number, gradients: readonly number[]) => {
    using texture = gpu.createTexture(array, {
      normalizedCoordinates: true,
      addressMode: "mirror",
      filterMode: "linear",
      maxAnisotropy,
    });
    const operands = new Float32Array(12 * places.length);
    const [dx = 0, dy = 0, ex = 0, ey = 0] = gradients;
    places.forEach(([x = 0, y = 0], index) => operands.set([x, y, 0, 0, 0, dx, dy, 0, ex, ey, 0], 12 * index));
    using data = pool.allocateArray(operands);
    using results = pool.allocateArray(Float32Array, 4 * places.length);
    module.kernel("read").launch({ grid: 1, block: places.length }, results, texture, data, places.length);
    return (await results.toTypedArray()).filter((_, index) => index % 4 === 0);
  };
  // The longer gradient has 8 texels along x, and the shorter one 2 along y: four samples, two texels apart.
  const gradients = [8 / 64, 0, 0, 2 / 64];
  const at = [0.3, 0.7];
  const [found] = await read([at], 16, gradients);
  const places = [-3, -1, 1, 3].map((texels) => [at[0]! + texels / 64, at[1]!]);
  const samples = await read(places, 1, gradients);
  assertAlmostEquals(found!, samples.reduce((sum, sample) => sum + sample) / 4, 1e-3);
  // No more samples than the texture allows, and one where both gradients are alike.
  const [two] = await read([at], 2, gradients);
  const pair = await read([-2, 2].map((texels) => [at[0]! + texels / 64, at[1]!]), 1, gradients);
  assertAlmostEquals(two!, (pair[0]! + pair[1]!) / 2, 1e-3);
  const alike = [2 / 64, 0, 0, 2 / 64];
  assertEquals(await read([at], 16, alike), await read([at], 1, alike));
});
