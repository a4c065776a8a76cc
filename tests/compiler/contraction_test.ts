/** The device contracts products and sums where `ptxas` does, and computes what fused multiply-adds give. */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../support/test.ts";
import { allocate, loadKernel } from "./compiler_device.ts";
import { contractedInstructions, storedByDevice } from "./contraction/contracted.ts";
import { machineCodeOf, storedByMachineCode, withoutTools } from "./contraction/machine_code.ts";
import { kernelOf, programs, types } from "./contraction/programs.ts";

type Verdict = Readonly<Record<number, string>> | null;

const verdicts: Readonly<Record<string, readonly Verdict[]>> = JSON.parse(
  readFileSync(new URL("./contraction/verdicts.json", import.meta.url), "utf8"),
);

for (const type of types) {
  test(`random products and sums of ${type} are contracted as ptxas contracts them`, () => {
    const recorded = verdicts[type]!;
    let fused = 0;
    programs(recorded.length).forEach((body, index) => {
      const verdict = recorded[index]!;
      if (verdict === null) return;
      if (JSON.stringify(verdict).includes("fma")) fused++;
      assertEquals({ ...storedByDevice(kernelOf(body, type)) }, { ...verdict }, body);
    });
    assert(fused > recorded.length / 4, `only ${fused} programs have something to contract`);
  });
}

test("ptxas still contracts as was recorded", { long: true, skip: withoutTools() }, () => {
  for (const type of types) {
    const modules = programs(verdicts[type]!.length).map((body) => kernelOf(body, type));
    machineCodeOf(modules).forEach((code, index) => {
      const verdict = verdicts[type]![index]!;
      if (verdict !== null) assertEquals({ ...storedByMachineCode(code, type) }, { ...verdict }, modules[index]);
    });
  }
});

/** How many multiply-adds a kernel with a body has. */
function fusedIn(body: string, type: typeof types[number] = "bf16"): number {
  return contractedInstructions(kernelOf(body, type)).filter(({ text }) => text.startsWith("fma.")).length;
}

const product = "mul.TYPE %x0, %a, %b;";
const sum = "add.TYPE %x1, %x0, %c; st.global.BITS [%out], %x1;";

/** What `ptxas` 13.0 does with an instruction between a product and a sum, found with its machine code. */
const between: readonly (readonly [fused: 0 | 1, instructions: readonly string[]])[] = [
  [1, [
    "",
    "bar.sync 0;",
    "L0:",
    "bra L0; L0:",
    "@%p bra L0; L0:",
    "@%p bra L0; bra L1; L0: bra L1; L1:",
    "bra L0; L1: bra L2; L0: st.global.u32 [%out+200], %n; bra L1; L2:",
    "@%p mov.u32 %n, 5; st.global.u32 [%out+200], %n;",
    "st.global.u32 [%out+200], %n;",
    "div.u32 %n, %n, %m; st.global.u32 [%out+200], %n;",
    "fence.proxy.async;",
    "fence.release.gpu;",
    "atom.global.add.u32 %n, [%out+200], 1;",
    "vote.sync.ballot.b32 %n, %p, -1; st.global.u32 [%out+200], %n;",
    "mov.BITS %x5, %x0;",
    "mul.TYPE %x5, %x0, %d;",
  ]],
  [0, [
    "membar.gl;",
    "fence.acq_rel.gpu;",
    "@%p st.global.u32 [%out+200], %n;",
    "@%p ld.global.u32 %n, [%in+100]; st.global.u32 [%out+200], %n;",
    "@%p bar.sync 0;",
    "@%p bra L0; st.global.u32 [%out+200], %n; L0:",
    "@%p exit;",
    "div.s32 %n, %n, %m; st.global.u32 [%out+200], %n;",
    "bfind.u64 %n, %in; st.global.u32 [%out+200], %n;",
    "pmevent 1;",
    "st.global.BITS [%out+100], %x0;",
    "mul.TYPE %x5, %x0, %d; st.global.BITS [%out+100], %x5;",
    "add.rn.TYPE %x5, %x0, %d; st.global.BITS [%out+100], %x5;",
    "fma.rn.TYPE %x5, %x0, %d, %e; st.global.BITS [%out+100], %x5;",
    "@%p mov.BITS %x0, %d;",
  ]],
];

for (const [fused, instructions] of between) {
  test(`a product and a sum ${fused === 1 ? "are contracted across" : "stay apart if between them is"} what ptxas says`, () => {
    for (const type of ["bf16", "f32"] as const) {
      for (const instruction of instructions) {
        assertEquals(
          fusedIn(`${product} ${instruction} ${sum}`, type),
          fused + Number(/fma/.test(instruction)),
          instruction,
        );
      }
    }
  });
}

test("a product in a loop is contracted, and one in front of it is not", () => {
  const loop = (before: string, within: string) =>
    fusedIn(`mov.BITS %x1, %c; ${before} L0: ${within} add.u32 %n, %n, 1; setp.lt.u32 %p, %n, %m; @%p bra L0;
      st.global.BITS [%out], %x1;`);
  assertEquals(loop("", `${product} add.TYPE %x1, %x1, %x0;`), 1);
  assertEquals(loop(product, "add.TYPE %x1, %x1, %x0;"), 0);
  assertEquals(loop(product, `add.TYPE %x1, %x1, %x0; ${product}`), 0);
});

test("a predicated sum is contracted, and a predicated product is not", () => {
  assertEquals(fusedIn(`mov.BITS %x1, %d; ${product} @%p ${sum}`), 1);
  assertEquals(fusedIn(`mov.BITS %x0, %d; @%p ${product} ${sum}`), 0);
  assertEquals(fusedIn(`${product} @%p add.TYPE %x0, %x0, %c; st.global.BITS [%out], %x0;`), 0);
});

test("modifiers keep a product and a sum apart", () => {
  const pair = (one: string, other: string, type: "f16" | "f32") =>
    fusedIn(`mul${one}.TYPE %x0, %a, %b; add${other}.TYPE %x1, %x0, %c; st.global.BITS [%out], %x1;`, type);
  for (const type of ["f16", "f32"] as const) {
    assertEquals([pair("", "", type), pair(".ftz", ".ftz", type), pair("", ".sat", type)], [1, 1, 1]);
    assertEquals([pair(".ftz", ".ftz.sat", type)], [1]);
    assertEquals([pair(".rn", "", type), pair("", ".rn", type), pair(".ftz", "", type)], [0, 0, 0]);
    assertEquals([pair("", ".ftz", type), pair(".sat", "", type)], [0, 0]);
  }
});

test("halves that are packed and unpacked again are contracted", () => {
  const packed = (between: string) =>
    fusedIn(
      `mul.f16 %x0, %a, %b; mov.b32 %n, {%x0, %c}; ${between} add.f16 %x3, %x1, %d; st.global.b16 [%out], %x3;`,
      "f16",
    );
  assertEquals(packed("mov.b32 {%x1, %x2}, %n;"), 1);
  assertEquals(packed("mov.b32 {%x1, %x2}, %n; st.global.u32 [%out+200], %n;"), 0);
});

test("what is packed with a product keeps its value", () => {
  const ptx = kernelOf(
    "mul.f16 %x0, %a, %b; mov.b32 %n, {%x0, %c}; mov.b32 {%x1, %x2}, %n; add.f16 %x3, %x1, %d; " +
      "st.global.b16 [%out], %x3; st.global.b16 [%out+2], %x2;",
    "f16",
  );
  assertEquals(contractedInstructions(ptx).filter(({ text }) => text === "fma.rn.f16").length, 1);
  const out = run(ptx, [0x4000, 0x4200, 0x1234, 0x3c00]);
  assertEquals([out.getUint16(0, true), out.getUint16(2, true)], [0x4700, 0x1234]);
});

/** Runs a kernel on halves, and returns its output. */
function run(ptx: string, halves: readonly number[]): DataView {
  const input = allocate(12);
  halves.forEach((bits, index) => input.view.setUint16(2 * index, bits, true));
  const out = allocate(4);
  loadKernel(ptx, "test")({
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: input.address }, { type: "u32", value: 0 }],
  });
  return out.view;
}

test("code for a debugger is not optimized, so nothing is contracted", () => {
  // 255 squared less than one unit is 65025 - 65024: the product rounded to 8 bits is 65024.
  const ptx = kernelOf(`${product} sub.TYPE %x1, %x0, %c; st.global.BITS [%out], %x1;`, "bf16");
  for (const [target, difference] of [["sm_90", 0x3f80], ["sm_90, debug", 0]] as const) {
    const out = run(ptx.replace("sm_90", target), [0x437f, 0x437f, 0x477e]);
    assertEquals(out.getUint16(0, true), difference, target);
  }
});

test("factors that are set between the product and the sum keep their values", () => {
  const ptx = kernelOf(
    "mul.TYPE %x0, %a, %b; mov.BITS %a, %d; add.TYPE %b, %d, %d; sub.TYPE %x1, %c, %x0; add.TYPE %x2, %x0, %b; " +
      "st.global.BITS [%out], %x1; st.global.BITS [%out+1*SIZE], %x2; st.global.BITS [%out+2*SIZE], %a;",
    "f32",
  );
  assertEquals(contractedInstructions(ptx).filter(({ text }) => text === "fma.rn.f32").length, 2);
  const input = allocate(24);
  const small = 2 ** -12;
  [1 + small, 1 - small, 1, 5].forEach((value, index) => input.view.setFloat32(4 * index, value, true));
  const out = allocate(12);
  loadKernel(ptx, "test")({
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: input.address }, { type: "u32", value: 0 }],
  });
  // The product is 1 - 2^-24, which 32 bits hold. Only the second sum rounds.
  assertEquals([0, 4, 8].map((offset) => out.view.getFloat32(offset, true)), [2 ** -24, 11, 5]);
});

test("ptxas still says what contracts across, and what does not", { long: true, skip: withoutTools() }, () => {
  for (const [fused, instructions] of between) {
    const modules = instructions.map((instruction) => kernelOf(`${product} ${instruction} ${sum}`, "f32"));
    machineCodeOf(modules).forEach((code, index) => {
      const stored = storedByMachineCode(code, "f32")?.[0] ?? "";
      assertEquals(stored.startsWith("fma"), fused === 1, instructions[index]);
    });
  }
});
