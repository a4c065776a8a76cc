/**
 * The tests of a corpus of compiled PTX.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { withoutPtxas } from "../compiler/instructions/ptxas/ask_ptxas.ts";
import { driverNamed, type DriverUnderTest } from "../support/drivers.ts";
import { checkPtx, type Corpus, programNames, readPtx } from "./nvcc/build.ts";
import { differences, hasDefinedBits, loadProgram, runProgram } from "./corpus.ts";
import type { Buffers, CorpusProgram } from "./corpus_program.ts";
import { ptxNames } from "./stored_ptx.ts";
import { test } from "../support/test.ts";

const software = driverNamed("software");
const gpu = driverNamed("cuda");

/**
 * Tests each program on the software device, and on a GPU if there is one: every variant in the long run, else one
 * variant of every tenth program, in turn, on the software device.
 */
export function testCorpus(label: string, corpus: Corpus): void {
  test(`every program of ${label} has its launches and its PTX`, () => {
    const stored = new Set(ptxNames(corpus.folder));
    const missing = programNames(corpus).flatMap((name) =>
      [".ts", ...corpus.variants.map(({ extension }) => extension)].map((extension) => name + extension)
    ).filter((file) => file.endsWith(".ts") ? !existsSync(new URL(file, corpus.folder)) : !stored.has(file));
    assertEquals(missing, []);
  });

  test(`ptxas takes every program of ${label}`, { long: true, skip: withoutPtxas }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "poolpass_corpus_"));
    try {
      for (const name of programNames(corpus)) {
        for (const variant of corpus.variants) await checkPtx(readPtx(corpus, name, variant), folder);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  for (const [index, name] of programNames(corpus).entries()) {
    for (const [place, variant] of corpus.variants.entries()) {
      const long = index % 10 > 0 || place !== index / 10 % corpus.variants.length;
      test(`${label}: ${name} (${variant.name}) [software]`, { long }, async () => {
        const program = await loadProgram(corpus, name);
        assertExpected(program, await runOn(software, program, readPtx(corpus, name, variant)));
      });

      test(`${label}: ${name} (${variant.name}) [cuda]`, { skip: gpu.skip }, async () => {
        const program = await loadProgram(corpus, name);
        const ptx = readPtx(corpus, name, variant);
        const actual = await runOn(gpu, program, ptx);
        assertExpected(program, actual);
        // Bits that PTX does not define may differ between devices. The bounds have been checked above.
        if (!hasDefinedBits(ptx)) return;
        const emulated = await runOn(software, program, ptx);
        const looked = Object.keys(program.expected(program.buffers()));
        assertNoDifferences(differences(only(looked, emulated), actual), "Not what the software device gives");
      });
    }
  }
}

async function runOn(driver: DriverUnderTest, program: CorpusProgram, ptx: string): Promise<Buffers> {
  using cuda = new Cuda(new Session(driver.open()));
  return await runProgram(cuda, program, ptx);
}

function assertExpected(program: CorpusProgram, actual: Buffers): void {
  const expected = program.expected(program.buffers());
  assertNoDifferences(differences(expected, actual, program.bounds), "Not what is expected");
}

function assertNoDifferences(found: readonly string[], what: string): void {
  if (found.length > 0) throw new Error(`${what}:\n${found.join("\n")}`);
}

function only(names: readonly string[], buffers: Buffers): Buffers {
  return Object.fromEntries(names.map((name) => [name, buffers[name]!]));
}
