/** Kernels that use tensor cores as libraries do: large products of each type, and attention in one pass. */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { open } from "../../mod.ts";
import {
  attentionKernel,
  multiplyKernel,
  type ProductType,
  productTypes,
  randomElements,
} from "../compiler/tensor_cores/kernels.ts";
import { element, Random } from "../compiler/tensor_cores/inputs.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { isLong } from "../support/test.ts";
import { hashOf } from "../compiler/tensor_cores/recording.ts";
import { formats } from "../compiler/tensor_cores/reference.ts";

/** The number that the bits of an element represent. */
function numberOf(bits: number, type: ProductType): number {
  if (type === "s8") return bits << 24 >> 24;
  const { exponent, mantissa, dropped = 0 } = formats[type];
  const kept = bits >>> dropped;
  const field = kept >>> mantissa & (2 ** exponent - 1), fraction = kept & (2 ** mantissa - 1);
  const sign = kept >>> (mantissa + exponent) & 1 ? -1 : 1;
  const bias = 2 ** (exponent - 1) - 1;
  return sign * (field === 0 ? fraction : fraction + 2 ** mantissa) * 2 ** (Math.max(field, 1) - bias - mantissa);
}

for (const type of Object.keys(productTypes) as ProductType[]) {
  if (!isLong && type !== "f16") continue;
  test(`a product of large matrices of ${type} is within its bound`, async () => {
    const { bytes, result } = productTypes[type];
    const [m, n, rowBytes] = [128, 64, 256];
    const k = rowBytes / bytes;
    const random = new Random(11);
    const a = randomElements(random, type, m * k), b = randomElements(random, type, n * k);
    using cuda = open({ driver: "software" });
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using module = gpu.loadModule(multiplyKernel(type));
    using left = pool.allocate(a.byteLength, stream);
    using right = pool.allocate(b.byteLength, stream);
    using out = pool.allocate(4 * m * n, stream);
    left.copyFrom(a, stream);
    right.copyFrom(b, stream);
    module.kernel("multiply").launch({ grid: [n / 64, m / 64], block: 128, stream }, out, left, right, n, rowBytes);
    const found = result === "f32" ? await out.read(Float32Array) : await out.read(Int32Array);
    const [x, y] = [a, b].map((array) => Float64Array.from(array, (bits) => numberOf(bits, type))) as [
      Float64Array,
      Float64Array,
    ];
    let worst = 0;
    for (let row = 0; row < m; row++) {
      for (let column = 0; column < n; column++) {
        let sum = 0, magnitude = 0;
        for (let along = 0; along < k; along++) {
          const product = x[row * k + along]! * y[column * k + along]!;
          sum += product;
          magnitude += Math.abs(product);
        }
        const error = Math.abs(found[row * n + column]! - sum);
        if (type === "s8") assertEquals(error, 0);
        else worst = Math.max(worst, error / magnitude);
      }
    }
    // Each of the sums of a row is truncated to 24 bits, and each product to 25 bits below the largest.
    assert(worst <= 2 ** -22, `${worst}`);
  });
}

for (const approximates of [true, false]) {
  testOnEachDriver(
    `attention in one pass is within its bound${approximates ? "" : ", with the bits that an H200 has given"}`,
    async (cuda) => {
      const [queries, keys, width] = [64, 96, 64];
      const random = new Random(12);
      const halves = (count: number) => Uint16Array.from({ length: count }, () => element(random, "small", "f16"));
      const q = halves(queries * width), k = halves(keys * width), v = halves(keys * width);
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      using module = gpu.loadModule(attentionKernel({ approximates }));
      const upload = (array: Uint16Array) => {
        const buffer = pool.allocate(array.byteLength, stream);
        buffer.copyFrom(array, stream);
        return buffer;
      };
      using queryBuffer = upload(q);
      using keyBuffer = upload(k);
      using valueBuffer = upload(v);
      using out = pool.allocate(4 * queries * width, stream);
      module.kernel("attend").launch(
        { grid: queries / 64, block: 128, stream },
        out,
        queryBuffer,
        keyBuffer,
        valueBuffer,
        keys,
      );
      const found = await out.read(Float32Array);
      if (!approximates) assertEquals(hashOf(new Uint32Array(found.buffer)), "8d668d75875674d1");
      const numbers = (array: Uint16Array) => Float64Array.from(array, (bits) => numberOf(bits, "f16"));
      const [x, y, z] = [numbers(q), numbers(k), numbers(v)];
      let worst = 0;
      for (let query = 0; query < queries; query++) {
        const scores = Array.from({ length: keys }, (_, key) => {
          let sum = 0;
          for (let index = 0; index < width; index++) sum += x[query * width + index]! * y[key * width + index]!;
          return sum / 8;
        });
        const most = Math.max(...scores);
        const weights = scores.map((score) => Math.exp(score - most));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        for (let index = 0; index < width; index++) {
          const expected = weights.reduce((sum, weight, key) => sum + weight * z[key * width + index]!, 0) / total;
          worst = Math.max(worst, Math.abs(found[query * width + index]! - expected));
        }
      }
      // The weights are rounded to f16, and the values are at most 4.
      assert(worst <= 4 * 2 ** -10, `${worst}`);
    },
  );
}
