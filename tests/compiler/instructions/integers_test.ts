import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { allocate, loadKernel, runBody, testModule } from "../compiler_device.ts";
import { integerOperations } from "./integer_references.ts";
import { outcomes } from "./operation_outcomes.ts";

const byOpcode = Map.groupBy(
  integerOperations(),
  ({ text }) => /([a-z][a-z0-9]*)\.[^;]*$/.exec(text.replace(/; }$/, ""))![1]!,
);

for (const [opcode, operations] of byOpcode) {
  test(`${opcode} gives the reference's bits, with operands of every kind (${operations.length} forms)`, () => {
    for (const operation of operations) {
      const { wrong, compared } = outcomes(operation);
      assert(compared > 100, `${operation.text}: only ${compared} cases are defined`);
      assertEquals(wrong.slice(0, 5), [], operation.text);
    }
  });
}

test("lop3 computes every function of three bits", () => {
  const each = (table: number) => `lop3.b32 %r4, %r1, %r2, %r3, ${table}; st.global.u8 [%rd0+${table}], %r4;`;
  const body = Array.from({ length: 256 }, (_, table) => each(table)).join("\n");
  // Bit n of the inputs selects bit n of the truth table.
  const inputs = "mov.b32 %r1, 0xf0; mov.b32 %r2, 0xcc; mov.b32 %r3, 0xaa;\n";
  const out = runBody(inputs + body, undefined, 256);
  const tables = Array.from({ length: 256 }, (_, table) => table);
  assertEquals(tables.map((table) => out.getUint8(table)), tables);
});

test("each thread has its own carry, and an instruction that is not executed keeps it", () => {
  const out = runBody(
    `
    mov.u32 %r1, -1;
    add.cc.u32 %r2, %r1, 1;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 add.cc.u32 %r2, %r2, 0;
    addc.u32 %r3, 5, 0;
    @!%p1 add.cc.u32 %r2, %r2, 0;
    addc.u32 %r4, 5, 0;
    st.global.v2.u32 [%rd0], {%r3, %r4};
    `,
    undefined,
    8,
  );
  assertEquals([out.getUint32(0, true), out.getUint32(4, true)], [6, 5]);
});

test("each thread's carry outlasts a barrier", () => {
  const threads = 64;
  const out = allocate(threads * 4);
  loadKernel(
    testModule(`
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 1;
    add.cc.u32 %r3, %r2, -1;
    bar.sync 0;
    addc.u32 %r4, %r1, 0;
    mad.wide.u32 %rd2, %r1, 4, %rd0;
    st.global.u32 [%rd2], %r4;`),
    "test",
  )({ block: [threads, 1, 1], parameters: [{ type: "u64", value: out.address }, { type: "u64", value: 0n }] });
  const results = Array.from({ length: threads }, (_, thread) => out.view.getUint32(thread * 4, true));
  assertEquals(results, results.map((_, thread) => thread + thread % 2));
});

test("modifiers may come in any order, as in the CUDA headers", () => {
  const out = runBody(
    `
    mov.u32 %r1, 7;
    st.u32.global [%rd0], %r1;
    atom.add.relaxed.gpu.u32.global %r2, [%rd0], %r1;
    atom.global.add.release.sys.u32 %r2, [%rd0], %r1;
    ld.global.relaxed.gpu.u32 %r3, [%rd0];
    max.s32.relu %r3, %r3, %r3;
    st.global.v2.u32 [%rd0], {%r2, %r3};
    `,
    undefined,
    8,
  );
  assertEquals([out.getUint32(0, true), out.getUint32(4, true)], [14, 21]);
});
