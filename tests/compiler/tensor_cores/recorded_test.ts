/** The software device beside an H200: hashes of results that `record.ts` has recorded. */
import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { open } from "../../../mod.ts";
import { allocate, load } from "../compiler_device.ts";
import { isLong } from "../../support/test.ts";
import { multiplyKernel, type ProductType, productTypes, randomElements } from "./kernels.ts";
import {
  chunkHashesOf,
  chunks,
  decodedHashes,
  hashesOf,
  hashOf,
  productsOn,
  type RecordedChunks,
  type Recording,
  type RunProducts,
} from "./recording.ts";
import { Random } from "./inputs.ts";
import { formOf } from "./problems.ts";
import { programOf } from "./program.ts";

/** Two million elements of a few forms, fewer of all forms, and those of warpgroups. */
const [recording, ofAllForms, ofWarpgroups] = ["products", "forms", "warpgroup"].map((name) =>
  JSON.parse(readFileSync(new URL(`recorded_${name}.json`, import.meta.url), "utf8"))
) as [Recording, Recording, Recording];

const run: RunProducts = (kernel, { input, problems, outputs, threads }) => {
  const source = allocate(input.byteLength), out = allocate(4 * outputs * problems);
  source.bytes.set(new Uint8Array(input.buffer));
  load(kernel).run("product", {
    grid: [problems, 1, 1],
    block: [threads, 1, 1],
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
  });
  return Promise.resolve(new Uint32Array(out.bytes.buffer, out.bytes.byteOffset, outputs * problems).slice());
};

test("products have the bits that an H200 has given", async () => {
  for (const { hashes, elements } of [recording, ofAllForms]) {
    for (const [index, [text, { first, all }]] of Object.entries(hashes).entries()) {
      if (!isLong && index % 12 !== 0) continue;
      const found = await hashesOf(text, run, isLong ? { elements } : {});
      assertEquals(found.first, first, text);
      if (isLong) assertEquals(found.all, all, text);
    }
  }
});

/** The hashes of a million elements of every form. */
const ofChunks = JSON.parse(
  readFileSync(new URL("recorded_chunks.json", import.meta.url), "utf8"),
) as RecordedChunks;
/** How many forms a test has. The long run computes all chunks, the others one of the first form. */
const formsOfTest = isLong ? 16 : 64;

for (let first = 0; first < Object.keys(ofChunks.hashes).length; first += formsOfTest) {
  test(`a million elements of each form from number ${first} on have the bits that an H200 has given`, async () => {
    // All chunks need more memory than there is without freeing some.
    using cuda = open({ driver: "software", softwareThreads: 1 });
    using products = productsOn(cuda.device(0));
    const forms = Object.entries(ofChunks.hashes).slice(first, first + (isLong ? formsOfTest : 1));
    for (const [text, encoded] of forms) {
      const expected = decodedHashes(encoded);
      const which = isLong ? chunks : [chunks[(first + 5) * 7 % chunks.length]!];
      const found = await chunkHashesOf(text, products.run, which);
      for (const [at, chunk] of which.entries()) {
        assertEquals(found[at], expected[chunks.indexOf(chunk)], `${text}: ${chunk.kind} ${chunk.index}`);
      }
    }
  });
}

test("products of warpgroups have the bits that an H200 has given", async () => {
  for (const [index, [text, { first, all }]] of Object.entries(ofWarpgroups.hashes).entries()) {
    if (!isLong && (index % 24 !== 0 || text.includes("n256"))) continue;
    const found = await hashesOf(text, run, isLong ? { elements: ofWarpgroups.elements } : {});
    assertEquals(found.first, first, text);
    if (isLong) assertEquals(found.all, all, text);
  }
});

test("all elements of the first products have the bits that an H200 has given", async () => {
  for (const [text, outputs] of Object.entries(recording.outputs)) {
    const found: number[] = [];
    const { outputs: count } = programOf(formOf(text));
    await hashesOf(text, run, { onResults: (words) => found.push(...words.subarray(0, count)) });
    const { buffer, byteOffset, byteLength } = Buffer.from(outputs, "base64");
    assertEquals(new Uint32Array(found), new Uint32Array(buffer.slice(byteOffset, byteOffset + byteLength)), text);
  }
});

test("large products have the bits that an H200 has given", () => {
  for (const [type, hash] of Object.entries(recording.large) as [ProductType, string][]) {
    if (!isLong && type !== "bf16") continue;
    const rows = 256, rowBytes = 1024;
    const random = Random.of("large", "small");
    const matrix = () => {
      const elements = randomElements(random, type, rows * rowBytes / productTypes[type].bytes);
      const allocation = allocate(elements.byteLength);
      allocation.bytes.set(new Uint8Array(elements.buffer));
      return allocation;
    };
    const [a, b, out] = [matrix(), matrix(), allocate(4 * rows * rows)];
    load(multiplyKernel(type)).run("multiply", {
      grid: [rows / 64, rows / 64, 1],
      block: [128, 1, 1],
      parameters: [
        ...[out, a, b].map(({ address: value }) => ({ type: "u64", value }) as const),
        { type: "u32", value: rows },
        { type: "u32", value: rowBytes },
      ],
    });
    assertEquals(hashOf(new Uint32Array(out.bytes.buffer, out.bytes.byteOffset, rows * rows)), hash, type);
  }
});
