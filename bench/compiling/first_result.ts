/**
 * Compiles kernels from source and runs them, and prints the times as a line of JSON.
 *
 *     first_result.ts COUNT [CACHE]
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { open } from "../../mod.ts";

const [count = "1", cache] = argv.slice(2);
const template = readFileSync(new URL("./scale.cu", import.meta.url), "utf8");
using cuda = open(cache === undefined ? {} : { compileCache: cache });
const gpu = cuda.device(0);
using stream = gpu.createStream({ nonBlocking: true });
using pool = gpu.createPool();
using x = pool.allocateArray(Float32Array, 256, stream);
const ones = new Float32Array(256).fill(1);
x.copyFrom(ones);
stream.synchronize();

const milliseconds: number[] = [];
for (let factor = 2; factor < 2 + Number(count); factor++) {
  const source = template.replaceAll("FACTOR", String(factor));
  x.copyFrom(ones);
  stream.synchronize();
  const start = performance.now();
  using module = gpu.compile(source);
  module.kernel("scale").launch({ grid: 1, block: 256, stream }, x, 256);
  const [result] = x.readSync(Float32Array, { length: 1 });
  milliseconds.push(performance.now() - start);
  if (result !== factor) throw new Error(`The kernel computed ${result} instead of ${factor}`);
}
console.log(JSON.stringify({ milliseconds }));
