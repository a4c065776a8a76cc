import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { nvccCorpus } from "./nvcc/build.ts";
import { hasDefinedBits } from "./corpus.ts";
import { testCorpus } from "./corpus_tests.ts";

testCorpus("corpus", nvccCorpus);

test("PTX has defined bits if nothing may be fused and nothing is approximate", () => {
  const withBody = (body: string) => `.version 7.0\n.target sm_60\n.address_size 64\n.entry test() {\n${body}\nret;\n}`;
  for (const body of ["add.rn.f32 %f1, %f2, %f3;", "add.s32 %r1, %r2, %r3;", "div.rn.f32 %f1, %f2, %f3;"]) {
    assertEquals(hasDefinedBits(withBody(body)), true, body);
  }
  for (const body of ["mul.f64 %d1, %d2, %d3;", "sin.approx.f32 %f1, %f2;", "{ div.full.f32 %f1, %f2, %f3; }"]) {
    assertEquals(hasDefinedBits(withBody(body)), false, body);
  }
});
