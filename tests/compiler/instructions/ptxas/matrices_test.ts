/** Compares the products of matrices that the table of instructions takes with those that ptxas takes. */
import { assert, assertEquals } from "@std/assert";
import { PtxError } from "../../../../src/ptx/syntax.ts";
import { compilePtx } from "../../../../src/software/compiler/compile.ts";
import { test } from "../../../support/test.ts";
import { refusedByPtxas, withoutPtxas } from "./ask_ptxas.ts";
import { type Combination, moduleOf } from "./combinations.ts";

const bitsOf: Readonly<Record<string, number>> = {
  ...{ b1: 1, s4: 4, u4: 4, s8: 8, u8: 8, e4m3: 8, e5m2: 8, f16: 16, bf16: 16, tf32: 32, f32: 32, s32: 32, f64: 64 },
};
const integers = [["s8", "u8"], ["s4", "u4"]].flatMap((types) => types.flatMap((a) => types.map((b) => [a, b])));
const eightBits = ["e4m3", "e5m2"];
/** The types of A and B, also some that do not go together. */
const factors = [
  ...["f16", "bf16", "tf32", "f64", "b1"].map((type) => [type, type]),
  ...integers,
  ...eightBits.flatMap((a) => eightBits.map((b) => [a, b])),
  ...[["s8", "s4"], ["f16", "bf16"]],
] as [string, string][];

const isInteger = (type: string) => /^[sub]\d/.test(type);
const sumsOf = (type: string) => type === "f64" ? ["f64"] : isInteger(type) ? ["s32"] : ["f16", "f32", "bf16"];

function registers(count: number, type = ""): string {
  const prefix = type === "f64" ? "%d" : "%r";
  return `{${Array.from({ length: Math.max(1, count) }, (_, index) => `${prefix}${index + 1}`).join(", ")}}`;
}

/** The registers of a fragment whose elements are spread over a number of threads. */
function fragment(elements: number, type: string, threads = 32): string {
  return registers(elements / threads * (type === "f64" ? 1 : bitsOf[type]! / 32), type);
}

function combination(name: string, operands: readonly string[]): Combination {
  return { name, text: `${name} ${operands.join(", ")};` };
}

function warpProducts(): Combination[] {
  const found: Combination[] = [];
  for (const [m, k] of [8, 16].flatMap((m) => [4, 8, 16, 32, 64, 128, 256].map((k) => [m, k] as const))) {
    for (const [a, b] of factors) {
      for (const d of sumsOf(a)) {
        const isSmall = m === 8 && k === 4;
        for (const c of a === "f16" ? ["f16", "f32"] : [d]) {
          for (const layouts of isSmall ? ["row.col", "col.row", "row.row", "col.col"] : ["row.col", "col.row"]) {
            for (const sparse of ["", ".sp", ".sp::ordered_metadata"]) {
              const options = isInteger(a) && a !== "b1" ? ["", ".satfinite"] : a === "f64" ? ["", ".rz"] : [""];
              for (const option of options) {
                const name = `mma${sparse}.sync.aligned.m${m}n8k${k}.${layouts}${option}.${d}.${a}.${b}.${c}`;
                const isOfQuads = isSmall && a === "f16";
                const sum = (type: string) => isOfQuads ? registers(type === "f32" ? 8 : 4) : fragment(8 * m, type);
                const factor = (elements: number, type: string) => isOfQuads ? registers(2) : fragment(elements, type);
                found.push(combination(`${name}${a === "b1" ? ".and.popc" : ""}`, [
                  ...[sum(d), factor(m * k / (sparse === "" ? 1 : 2), a), factor(8 * k, b), sum(c)],
                  ...sparse === "" ? [] : ["%r1", "0"],
                ]));
              }
            }
          }
        }
      }
    }
  }
  return found;
}

function warpgroupProducts(): Combination[] {
  const found: Combination[] = [];
  for (const n of [8, 24, 40, 48, 128]) {
    for (const k of [8, 16, 32, 64, 256]) {
      for (const [a, b] of factors.filter(([a]) => a !== "f64")) {
        for (const d of sumsOf(a)) {
          for (const sparse of ["", ".sp"]) {
            const elements = 64 * k / (sparse === "" ? 1 : 2);
            for (const tail of isInteger(a) ? [[]] : [["1", "1"], ["1", "1", "0"], ["1", "1", "0", "0"]]) {
              for (const left of ["%d1", fragment(elements, a, 128)]) {
                const name = `wgmma.mma_async${sparse}.sync.aligned.m64n${n}k${k}.${d}.${a}.${b}`;
                found.push(combination(`${name}${a === "b1" ? ".and.popc" : ""}`, [
                  ...[fragment(64 * n, d, 128), left, "%d2"],
                  ...[...sparse === "" ? [] : ["%r1", "0"], "1", ...tail],
                ]));
              }
            }
          }
        }
      }
    }
  }
  return found;
}

function isTaken(combination: Combination): boolean {
  try {
    return compilePtx(moduleOf([combination]).ptx, { gangs: false }).refusals.size === 0;
  } catch (error) {
    if (error instanceof PtxError) return false;
    throw error;
  }
}

for (const [what, combinations] of [["warps", warpProducts], ["warpgroups", warpgroupProducts]] as const) {
  test(`ptxas takes the products of matrices of ${what} that run, and no others`, {
    long: true,
    skip: withoutPtxas,
  }, () => {
    const all = [...new Map(combinations().map((each) => [each.text, each])).values()];
    const refused = refusedByPtxas(all);
    assert(refused.size < all.length - 100, "ptxas takes many of them");
    const different = all.filter((each) => isTaken(each) === refused.has(each.text));
    assertEquals(different.map(({ text }) => `${text} ${refused.get(text) ?? "is taken"}`), []);
  });
}

const ofSm90a = [
  "wgmma.fence.sync.aligned;",
  "wgmma.commit_group.sync.aligned;",
  "wgmma.wait_group.sync.aligned 0;",
  "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, %d1, %d2, 1, 1, 1, 0, 0;",
  "setmaxnreg.inc.sync.aligned.u32 64;",
  "tensormap.replace.tile.global_address.global.b1024.b64 [%d1], %d2;",
];

test("instructions of sm_90a need this target", () => {
  for (const text of ofSm90a) {
    const { ptx } = moduleOf([{ name: text, text }]);
    assertEquals(compilePtx(ptx).refusals.size, 0, text);
    let message = "";
    try {
      compilePtx(ptx.replace("sm_90a", "sm_90"));
    } catch (error) {
      if (error instanceof PtxError) message = error.message;
    }
    assert(message.includes("it needs .target sm_90a"), `${text} ${message}`);
  }
});

test("ptxas takes instructions of sm_90a for this target only", { long: true, skip: withoutPtxas }, () => {
  const all = ofSm90a.map((text) => ({ name: text, text }));
  assertEquals(refusedByPtxas(all).size, 0);
  assertEquals(refusedByPtxas(all, "sm_90").size, all.length);
});
