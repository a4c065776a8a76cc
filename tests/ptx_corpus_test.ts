import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { Cuda } from "../src/cuda.ts";
import { Session } from "../src/session.ts";
import { driversUnderTest, type DriverUnderTest } from "./drivers.ts";
import { programNames, readPtx, variants } from "./ptx/build.ts";
import { differences, hasDefinedBits, loadProgram, runProgram } from "./ptx/corpus.ts";
import type { Buffers, CorpusProgram } from "./ptx/corpus_program.ts";

const software = driverNamed("software");
const gpu = driverNamed("cuda");

test("every program of the corpus has its launches and its PTX", () => {
  const missing = programNames().flatMap((name) =>
    [".ts", ...variants.map(({ extension }) => extension)].map((extension) => name + extension)
  ).filter((file) => !existsSync(new URL(`ptx/${file}`, import.meta.url)));
  assertEquals(missing, []);
});

test("PTX has defined bits where nothing in it may be fused and nothing is approximate", () => {
  const withBody = (body: string) => `.version 7.0\n.target sm_60\n.address_size 64\n.entry test() {\n${body}\nret;\n}`;
  for (const body of ["add.rn.f32 %f1, %f2, %f3;", "add.s32 %r1, %r2, %r3;", "div.rn.f32 %f1, %f2, %f3;"]) {
    assertEquals(hasDefinedBits(withBody(body)), true, body);
  }
  for (const body of ["mul.f64 %d1, %d2, %d3;", "sin.approx.f32 %f1, %f2;", "{ div.full.f32 %f1, %f2, %f3; }"]) {
    assertEquals(hasDefinedBits(withBody(body)), false, body);
  }
});

for (const name of programNames()) {
  for (const variant of variants) {
    test(`corpus: ${name} (${variant.name}) [software]`, async () => {
      const program = await loadProgram(name);
      assertExpected(program, await runOn(software, program, readPtx(name, variant)));
    });

    test(`corpus: ${name} (${variant.name}) [cuda]`, { skip: gpu.skip }, async () => {
      const program = await loadProgram(name);
      const ptx = readPtx(name, variant);
      const actual = await runOn(gpu, program, ptx);
      assertExpected(program, actual);
      // What PTX leaves to the device may be off to either side, and was held against the bounds above.
      if (!hasDefinedBits(ptx)) return;
      const emulated = await runOn(software, program, ptx);
      const looked = Object.keys(program.expected(program.buffers()));
      assertNoDifferences(differences(only(looked, emulated), actual), "Not what the software device gives");
    });
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

function driverNamed(name: string): DriverUnderTest {
  return driversUnderTest.find((driver) => driver.name === name)!;
}
