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

/** Returns the number in the body of each line that is reported. */
function reportedLines(body: readonly string[]): number[] {
  const head = `.version 8.6
.target sm_90a
.address_size 64
.visible .entry test(.param .u64 in, .param .u64 out, .param .u32 n) {
  .reg .f32 %a<4>; .reg .f32 %b<4>; .reg .f32 %c<4>; .reg .b64 %rd<6>; .reg .b32 %r<4>; .reg .pred %p<4>;
  .shared .align 128 .b8 tile[4096];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, tile; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd3, %r1; add.u64 %rd3, %rd3, 0x0000000800080000;
  mov.u32 %r2, 0;
  setp.ne.u32 %p0, 0, 0;
  wgmma.fence.sync.aligned;
`;
  const first = head.split("\n").length;
  const reports = reportsOf(`${head}${body.join("\n")}\nret; }\n`, "test", { block: 128, check: "synchronization" });
  return reports.map(({ kind, message, accesses: [access] }) => {
    assertEquals(kind, "unfinished-product");
    assertStringIncludes(message, "registers of a product of matrices that wgmma may still compute");
    return Number(/PTX line (\d+)/.exec(access!.source!)![1]) - first;
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
