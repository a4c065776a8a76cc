// Records what tensor cores compute: deno run -A tests/compiler/tensor_cores/record.ts FOLDER [--driver cuda]
// [--elements 1000000] [--only TEXT] [--compare FILE] [--warpgroup]
//
// Writes products.json to FOLDER, with the hashes of all instructions' results; it belongs beside this file. Also writes
// products.bin, which has the results of the first problems of each class and locates differences, and is not kept.
// With --compare, prints the instructions and classes whose hashes differ from those in FILE. With --only, records only
// the instructions that contain TEXT. With --warpgroup, records wgmma instead of mma and wmma.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Buffer } from "node:buffer";
import process from "node:process";
import { parseArgs } from "node:util";
import { open } from "../../../mod.ts";
import { classes, Random } from "./inputs.ts";
import { forms, fragmentForms, warpgroupForms } from "./forms.ts";
import { formOf } from "./problems.ts";
import { programOf } from "./program.ts";
import { multiplyKernel, type ProductType, productTypes, randomElements } from "./kernels.ts";
import { warpgroupMultiply } from "./warpgroup_kernel.ts";
import { formsWithOutputs, hashesOf, hashOf, productsOn, type RecordedHashes, type Recording } from "./recording.ts";

/** The number of problems of each class in products.bin. */
const kept = 4;

const { values: options, positionals: [folder] } = parseArgs({
  args: process.argv.slice(2),
  options: {
    driver: { type: "string", default: "cuda" },
    elements: { type: "string", default: "1000000" },
    only: { type: "string", default: "" },
    compare: { type: "string" },
    warpgroup: { type: "boolean", default: false },
  },
  allowPositionals: true,
});
if (folder === undefined) {
  console.error("Usage: deno run -A tests/compiler/tensor_cores/record.ts FOLDER [--driver cuda] [--elements 1000000]");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const before = options.compare === undefined
  ? undefined
  : JSON.parse(readFileSync(options.compare, "utf8")) as Recording;

using cuda = open({ driver: options.driver as "cuda" | "software" });
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = gpu.createPool();
using products = productsOn(gpu);

const elements = Number(options.elements);
const hashes: Record<string, RecordedHashes> = {};
const results: Uint8Array[] = [];
let differences = 0;
const large: Partial<Record<ProductType, string>> = {};
const fullOutputs: Record<string, string> = {};
const recorded = options.warpgroup ? warpgroupForms : [...forms, ...fragmentForms];
for (const text of recorded.filter((text) => text.includes(options.only))) {
  const { outputs } = programOf(formOf(text));
  // Products of a warpgroup are large.
  const keptWords = options.warpgroup ? 512 : outputs * kept;
  const full: Uint8Array[] = [];
  const onResults = (words: Uint32Array) => {
    const { buffer, byteOffset } = words;
    if (formsWithOutputs.has(text)) full.push(new Uint8Array(buffer.slice(byteOffset, byteOffset + 4 * outputs)));
    results.push(new Uint8Array(buffer.slice(byteOffset, byteOffset + 4 * keptWords)));
  };
  try {
    const found = hashes[text] = await hashesOf(text, products.run, { elements, onResults });
    const expected = before?.hashes[text];
    classes.forEach((kind, index) => {
      if (expected === undefined) return;
      const isSame = before!.elements === elements
        ? expected.all[index] === found.all[index]
        : expected.first[index] === found.first[index];
      if (isSame) return;
      differences++;
      console.log(`${text}: other results of the class ${kind}`);
    });
  } catch (error) {
    console.log(`${text}: ${(error as Error).message.slice(0, 300)}`);
  }
  if (full.length > 0) fullOutputs[text] = Buffer.concat(full).toString("base64");
  save();
}
for (const type of Object.keys(productTypes) as ProductType[]) {
  const found = large[type] = hashOf(await largeProduct(type));
  const expected = before?.large[type];
  if (expected === undefined || expected === found) continue;
  differences++;
  console.log(`Other results of a large product of ${type}`);
}
save();
writeFileSync(`${folder}/products.bin`, Buffer.concat(results));
console.log(`${Object.keys(hashes).length} instructions on ${gpu.name}, ${differences} differences`);

/** Writes what has been recorded so far. */
function save(): void {
  writeFileSync(
    `${folder}/products.json`,
    formatted({ device: gpu.name, elements, hashes, large, outputs: fullOutputs }),
  );
}

/** A product of matrices of 256 rows of 1024 bytes, by a kernel in CUTLASS' style. */
async function largeProduct(type: ProductType): Promise<Uint32Array> {
  const rows = 256, rowBytes = 1024;
  const random = Random.of("large", "small");
  const matrix = () => randomElements(random, type, rows * rowBytes / productTypes[type].bytes);
  const [a, b] = [matrix(), matrix()];
  if (options.warpgroup) return await warpgroupMultiply(gpu, type, { a, b, m: rows, n: rows });
  using module = gpu.loadModule(multiplyKernel(type));
  using left = pool.allocate(a.byteLength, stream);
  using right = pool.allocate(b.byteLength, stream);
  using out = pool.allocate(4 * rows * rows, stream);
  left.copyFrom(a, stream);
  right.copyFrom(b, stream);
  const grid = [rows / 64, rows / 64] as const;
  module.kernel("multiply").launch({ grid, block: 128, stream }, out, left, right, rows, rowBytes);
  return await out.read(Uint32Array);
}

/** JSON with a line for each instruction. */
function formatted({ hashes, ...others }: Recording): string {
  const lines = Object.entries(hashes).map(([text, found]) => `  ${JSON.stringify(text)}: ${JSON.stringify(found)}`);
  return `${JSON.stringify(others).slice(0, -1)},\n"hashes": {\n${lines.join(",\n")}\n}}\n`;
}
