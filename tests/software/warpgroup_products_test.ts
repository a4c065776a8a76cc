/** A product of large matrices by `wgmma`, with a pipeline of tiles that tensor maps load. */
import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { open } from "../../mod.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { isLong } from "../support/test.ts";
import { hashOf, type Recording } from "../compiler/tensor_cores/recording.ts";
import { Random } from "../compiler/tensor_cores/inputs.ts";
import { type ProductType, productTypes, randomElements } from "../compiler/tensor_cores/kernels.ts";
import { formOf, type Problem } from "../compiler/tensor_cores/problems.ts";
import { warpgroupElement } from "../compiler/tensor_cores/warpgroup.ts";
import { warpgroupMultiply, warpgroupTypes } from "../compiler/tensor_cores/warpgroup_kernel.ts";

/** The number of elements that are compared with the reference. */
const compared = isLong ? 400 : 30;

for (const type of isLong ? Object.keys(productTypes) as ProductType[] : ["f16", "s8"] as const) {
  test(
    `a pipelined product of large matrices of ${type} is that of tensor cores, to the bit`,
    async () => {
      using cuda = open({ driver: "software" });
      const gpu = cuda.device(0);
      const [m, n, tiles] = [64, 64, 5];
      const { bytes, result } = productTypes[type];
      const k = 128 * tiles / bytes;
      const random = new Random(21);
      const a = randomElements(random, type, m * k), b = randomElements(random, type, n * k);
      const found = await warpgroupMultiply(gpu, type, { a, b, m, n });
      const form = formOf(`wgmma.mma_async.sync.aligned.${warpgroupTypes[type]}`);
      const step = Math.floor(m * n / compared);
      for (let at = random.below(step); at < m * n; at += step) {
        const row = Math.floor(at / n), column = at % n;
        let c = 0;
        for (let along = 0; along < k; along += form.k) {
          const part = (array: typeof a, line: number) =>
            Uint32Array.from(array.subarray(line * k + along).subarray(0, form.k));
          const problem: Problem = {
            a: part(a, row),
            b: part(b, column),
            c: Uint32Array.of(c),
            places: new Uint8Array(),
          };
          c = warpgroupElement({ ...form, m: 1, n: 1 }, problem, 0);
        }
        assertEquals(found[at], c, `element ${at} of ${result}`);
      }
    },
  );
}

testOnEachDriver("pipelined products of large matrices have the bits that an H200 has given", async (cuda) => {
  const gpu = cuda.device(0);
  if (gpu.computeCapability[0] !== 9) return;
  const file = new URL("../compiler/tensor_cores/recorded_warpgroup.json", import.meta.url);
  const { large } = JSON.parse(readFileSync(file, "utf8")) as Recording;
  for (const [type, hash] of Object.entries(large) as [ProductType, string][]) {
    if (!isLong && type !== "bf16") continue;
    const random = Random.of("large", "small");
    const matrix = () => randomElements(random, type, 256 * 1024 / productTypes[type].bytes);
    const [a, b] = [matrix(), matrix()];
    assertEquals(hashOf(await warpgroupMultiply(gpu, type, { a, b, m: 256, n: 256 })), hash, type);
  }
});
