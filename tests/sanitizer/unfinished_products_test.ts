/** The check of registers of asynchronous products that have not been awaited. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { test } from "../support/test.ts";
import { reportsOf } from "./kernel_pairs.ts";

const mma = (d: string) => {
  const registers = [0, 1, 2, 3].map((index) => `%${d}${index}`).join(", ");
  return `wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {${registers}}, %rd3, %rd3, %p0, 1, 1, 0, 0;`;
};
const commit = "wgmma.commit_group.sync.aligned;";
const wait = (count: number) => `wgmma.wait_group.sync.aligned ${count};`;
const store = (register: string) => `st.global.f32 [%rd2], %${register};`;

/** A report: the number in the body of the line, and the kind. */
type Reported = readonly [line: number, kind: string];

/** Returns the number in the body of each line that is reported. */
function reportedLines(body: readonly string[]): number[] {
  return reportedMistakes(["wgmma.fence.sync.aligned;", ...body]).map(([line, kind]) => {
    assertEquals(kind, "unfinished-product");
    return line - 1;
  });
}

function reportedMistakes(body: readonly string[]): Reported[] {
  const head = `.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 in, .param .u64 out, .param .u32 n) {
  .reg .f32 %a<4>; .reg .f32 %b<4>; .reg .f32 %c<4>; .reg .b64 %rd<6>; .reg .b32 %r<9>; .reg .pred %p<4>;
  .shared .align 128 .b8 tile[4096];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, tile; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd3, %r1; add.u64 %rd3, %rd3, 0x0000000800080000;
  mov.u32 %r2, 0;
  setp.ne.u32 %p0, 0, 0;
`;
  const first = head.split("\n").length;
  const reports = reportsOf(`${head}${body.join("\n")}\nret; }\n`, "test", { block: 128, check: "synchronization" });
  return reports.map(({ kind, message, accesses: [access] }) => {
    assertStringIncludes(message, kind === "unfinished-product" ? "wgmma may still compute" : "wgmma.fence");
    return [Number(/PTX line (\d+)/.exec(access!.source!)![1]) - first, kind];
  });
}

test("registers of a product are used only after it has been awaited", () => {
  assertEquals(reportedLines([mma("a"), commit, wait(0), store("a0")]), []);
  assertEquals(reportedLines([mma("a"), commit, store("a1"), wait(0)]), [2]);
  assertEquals(reportedLines([mma("a"), commit, wait(1), store("a1")]), [3], "the last group may be pending");
  assertEquals(reportedLines([mma("a"), wait(0), store("a1"), commit]), [2], "it has not been committed");
  assertEquals(reportedLines([mma("a"), commit, mma("b"), commit, wait(1), store("a0"), store("b0")]), [6]);
  assertEquals(reportedLines([mma("a"), mma("a"), commit, wait(0), store("a0")]), [], "products add to each other");
});

test("moves of a product's registers are not uses, and what is moved is pending, too", () => {
  const move = "mov.f32 %c0, %a0;";
  assertEquals(reportedLines([mma("a"), move, commit, wait(0), store("c0")]), []);
  assertEquals(reportedLines([mma("a"), move, commit, store("c0"), wait(0)]), [3]);
});

test("a product that is pending on some paths only is not reported", () => {
  const some = "setp.eq.u32 %p1, %r2, 0; @%p1 bra REST;";
  assertEquals(reportedLines([mma("a"), commit, some, wait(0), "REST:", store("a0"), wait(0)]), []);
  const loop = ["LOOP:", mma("a"), commit, wait(1), "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; @%p1 bra LOOP;"];
  assertEquals(reportedLines([...loop, wait(0), store("a0")]), []);
  assertEquals(reportedLines([...loop, store("a0")]), [5]);
});

/** A product that reads A from registers. */
const mmaOfRegisters = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%a0, %a1, %a2, %a3}, " +
  "{%r4, %r5, %r6, %r7}, %rd3, %p0, 1, 1, 0;";

test("registers of a product are written only after it has been awaited", () => {
  const write = "add.f32 %a1, %c0, %c1;", clear = "mov.f32 %a2, 0f00000000;", writeA = "shl.b32 %r5, %r1, 2;";
  for (const wrong of [write, clear]) {
    assertEquals(reportedLines([mma("a"), commit, wait(0), wrong]), []);
    assertEquals(reportedLines([mma("a"), commit, wrong, wait(0)]), [2]);
    assertEquals(reportedLines([mma("a"), commit, mma("b"), commit, wait(1), wrong, wait(0)]), []);
  }
  assertEquals(reportedLines([mmaOfRegisters, commit, wait(0), writeA]), []);
  assertEquals(reportedLines([mmaOfRegisters, commit, writeA, wait(0)]), [2]);
  assertEquals(reportedLines([mmaOfRegisters, commit, "mov.f32 %c0, %a0; mov.f32 %a0, %b0;", wait(0)]), []);
});

test("a product begins behind a fence after its registers were written", () => {
  const fence = "wgmma.fence.sync.aligned;", kind = "missing-product-fence";
  const write = "add.f32 %a1, %b0, %b1;", writeA = "shl.b32 %r5, %r1, 2;";
  const end = [commit, wait(0)];
  assertEquals(reportedMistakes([write, fence, mma("a"), mma("a"), ...end]), []);
  assertEquals(reportedMistakes([mma("a"), ...end]), [[0, kind]], "before the first product");
  assertEquals(reportedMistakes([fence, write, mma("a"), ...end]), [[2, kind]]);
  assertEquals(reportedMistakes([fence, "mov.f32 %a0, 0f00000000;", mma("a"), ...end]), [], "a compiler's move");
  assertEquals(reportedMistakes([fence, writeA, mmaOfRegisters, ...end]), [[2, kind]]);
  assertEquals(reportedMistakes([writeA, fence, mmaOfRegisters, ...end]), []);
  assertEquals(reportedMistakes([fence, mma("a"), ...end, write, mma("a"), ...end]), [[5, kind]]);
  assertEquals(reportedMistakes([fence, "add.u64 %rd3, %rd3, 0;", mma("a"), ...end]), [], "a descriptor");
  assertEquals(reportedMistakes([fence, write, mma("b"), "mov.f32 %b0, %a1;", mma("b"), ...end]), [[4, kind]]);
  const loop = ["LOOP:", fence, mma("a"), ...end, write];
  const next = "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; @%p1 bra LOOP;";
  assertEquals(reportedMistakes([...loop, next]), []);
  assertEquals(reportedMistakes([fence, "LOOP:", write, mma("a"), ...end, next]), [[3, kind]]);
});
