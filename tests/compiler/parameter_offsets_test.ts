/** Accesses whose address is a parameter of the kernel plus an offset. Their checks do not look at the address. */
import { assertEquals } from "@std/assert";
import { faultKind } from "../../src/software/abi/addresses.ts";
import { parameterOffsets } from "../../src/ptx/analysis/pointer_origins.ts";
import { functionFlow } from "../../src/software/compiler/control_flow/function_flow.ts";
import { resolveKernel } from "../../src/software/compiler/typing/resolver.ts";
import { moduleScope } from "../../src/software/compiler/typing/module_scope.ts";
import { instructionSet } from "../../src/software/compiler/instructions/instructions.ts";
import { parsePtx } from "../../src/ptx/parsing/parser.ts";
import { someOf, test } from "../support/test.ts";
import { allocate, Fault, firstBodyLine, loadKernel, runBody, testModule } from "./compiler_device.ts";

/** Runs a body with a pointer and an index, and returns the fault. */
function faultOf(body: string, pointer: bigint, index: bigint): Fault | undefined {
  try {
    loadKernel(testModule(body), "test")({
      parameters: [{ type: "u64", value: pointer }, { type: "u64", value: BigInt.asUintN(64, index) }],
    });
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

const accesses: readonly [instruction: string, bytes: number][] = ["global.", ""].flatMap((space) => [
  [`ld.${space}u8 %h1, [%rd3];`, 1],
  [`st.${space}b16 [%rd3], 7;`, 2],
  [`ld.${space}f32 %f1, [%rd3];`, 4],
  [`st.${space}f64 [%rd3], 0d3FF0000000000000;`, 8],
  [`st.${space}v4.b32 [%rd3], {1, 2, 3, 4};`, 16],
  [`atom.${space}add.u32 %r1, [%rd3], 1;`, 4],
]);

const sum = (shift: number) => `shl.b64 %rd2, %rd1, ${shift};\nadd.s64 %rd3, %rd0, %rd2;\n`;

test("an access at an offset from a parameter faults exactly outside of allocations", () => {
  for (const [instruction, bytes] of someOf(accesses, 3)) {
    const body = sum(Math.log2(bytes)) + instruction;
    for (const byteLength of [64, 512, 1040]) {
      const { address } = allocate(byteLength);
      for (const start of [0, 16, byteLength - 16, byteLength]) {
        for (const target of [-4096, -16, 0, 16, byteLength - 16, byteLength, byteLength + 16, byteLength + 4096]) {
          const fault = faultOf(body, address + BigInt(start), BigInt((target - start) / bytes));
          const isInside = target >= 0 && target < byteLength;
          // Allocations of other tests may lie there.
          if (target < 0 || target > byteLength + 16) {
            assertEquals(fault?.address ?? address + BigInt(target), address + BigInt(target));
            continue;
          }
          const expected = isInside
            ? undefined
            : [faultKind.illegalAddress, address + BigInt(target), firstBodyLine + 2];
          const found = fault === undefined ? undefined : [fault.kind, fault.address, fault.line];
          assertEquals(found, expected, `${instruction} at ${target} of ${byteLength} from ${start}`);
        }
      }
    }
  }
});

test("an access far from a parameter faults with its address", () => {
  const { address } = allocate(64);
  for (const [instruction, bytes] of accesses) {
    for (const index of [2n ** 40n, -(2n ** 40n), 2n ** 58n]) {
      const fault = faultOf(sum(Math.log2(bytes)) + instruction, address, index);
      assertEquals(fault?.kind, faultKind.illegalAddress, `${instruction} ${index}`);
      assertEquals(fault?.address, BigInt.asUintN(64, address + BigInt(bytes) * index));
    }
  }
});

test("a misaligned parameter faults as misaligned, wherever it points", () => {
  const { address } = allocate(64);
  for (const [instruction, bytes] of accesses) {
    for (let misalignment = 1; misalignment < bytes; misalignment *= 2) {
      for (const base of [address, address + 64n, 0n]) {
        const fault = faultOf(sum(Math.log2(bytes)) + instruction, base + BigInt(misalignment), 1n);
        assertEquals(fault?.kind, faultKind.misalignedAddress, `${instruction} ${misalignment}`);
      }
    }
  }
});

test("an offset that may be misaligned is checked", () => {
  const { address } = allocate(64);
  const fault = faultOf(`add.s64 %rd3, %rd0, %rd1;\nld.global.u32 %r1, [%rd3];`, address, 6n);
  assertEquals([fault?.kind, fault?.address], [faultKind.misalignedAddress, address + 6n]);
  assertEquals(faultOf(`add.s64 %rd3, %rd0, %rd1;\nld.global.u32 %r1, [%rd3];`, address, 8n), undefined);
});

test("a parameter outside of allocations is a base like any other", () => {
  const { address, view } = allocate(64);
  view.setUint32(16, 1234, true);
  for (const distance of [4096n, -4096n, 2n ** 45n]) {
    const body = sum(2) + "ld.global.u32 %r1, [%rd3+8];\nst.global.u32 [%rd3+12], %r1;";
    view.setUint32(20, 0, true);
    assertEquals(faultOf(body, address + distance, (8n - distance) / 4n), undefined);
    assertEquals(view.getUint32(20, true), 1234);
  }
});

test("registers that are set again after the sum do not move the access", () => {
  const out = runBody(
    `
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd0, %rd2;
  mov.u64 %rd2, 8;
  st.global.u32 [%rd3], 1;
  add.s64 %rd4, %rd0, %rd2;
  add.s64 %rd2, %rd2, 4;
  st.global.u32 [%rd4], 2;
  add.s64 %rd2, %rd0, %rd2;
  st.global.u32 [%rd2], 3;
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd0, %rd5;
  mov.u64 %rd7, 16;
  st.global.u32 [%rd6+4], 4;
  add.s64 %rd9, %rd0, %rd7;
  st.global.u32 [%rd9], 5;`,
    undefined,
    20,
  );
  assertEquals([0, 4, 8, 12, 16].map((at) => out.getUint32(at, true)), [1, 4, 2, 3, 5]);
});

test("an offset is held until the access although nothing else reads it", () => {
  const out = runBody(
    `
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd0, %rd2;
  mov.u64 %rd4, 16;
  mov.u64 %rd5, 32;
  add.s64 %rd6, %rd4, %rd5;
  cvt.u32.u64 %r2, %rd6;
  st.global.u32 [%rd3], %r2;`,
    undefined,
    4,
  );
  assertEquals(out.getUint32(0, true), 48);
});

test("the accesses are found whose offsets are still held", () => {
  const ptx = testModule(`
  cvta.to.global.u64 %rd2, %rd0;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd3, %rd2;
  ld.global.u32 %r2, [%rd4];
  mul.wide.u32 %rd3, %r2, 4;
  ld.global.u32 %r3, [%rd4];
  add.s64 %rd4, %rd4, 4;
  ld.global.u32 %r4, [%rd4];
  add.s64 %rd5, %rd1, %rd3;
  @%p1 ld.global.u32 %r5, [%rd5+8];
  bra next;
next:
  ld.global.u32 %r6, [%rd5];`);
  const module = parsePtx(ptx);
  const [kernel] = module.functions;
  const resolved = resolveKernel(kernel!, {
    parameters: ["out", "in"].map((name, index) => {
      return { kind: "variable" as const, name, space: "param", offset: 8 * index, byteLength: 8 };
    }),
    module: moduleScope(module, instructionSet),
  });
  const flow = functionFlow(resolved.kernel);
  const found = parameterOffsets(flow.entry, flow.analysis.definitions);
  const lines = [...found].map(([{ line }, { parameter, offset }]) => {
    return [line - firstBodyLine, parameter, offset.name] as const;
  });
  assertEquals(lines.toSorted((a, b) => a[0] - b[0]), [[4, 0, "%rd3"], [10, 8, "%rd3"]]);
});
