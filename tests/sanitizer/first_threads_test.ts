/** The block and thread that reports of unordered accesses name. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { open, type SanitizerReport } from "../../mod.ts";
import { test } from "../support/test.ts";
import { kernelOf } from "./memory/programs.ts";

/** A kernel in which each thread from a certain one on stores to a word of its own. */
function storing(barrier: string): string {
  return kernelOf(
    ".param .u64 x, .param .u32 from",
    `  ld.param.u64 %rd1, [x]; ld.param.u32 %r7, [from];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %nctaid.x; mad.lo.u32 %r4, %r5, %r6, %r4;
  mad.lo.u32 %r1, %r4, 8, %r1; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; ${barrier}
  setp.lt.u32 %p1, %r1, %r7; @%p1 bra END; st.global.u32 [%rd1], %r1;
END:`,
  );
}

/** The report of a kernel on one stream and a fill on another, of the same memory from an element on. */
function reportOf(ptx: string, from: number, filledFrom: number): SanitizerReport {
  const reports: SanitizerReport[] = [];
  const onReport = (report: SanitizerReport) => void reports.push(report);
  using cuda = open({ driver: "software", sanitize: ["stream-order"], onReport });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const [a, b] = [gpu.createStream({ nonBlocking: true }), gpu.createStream({ nonBlocking: true })];
  using x = pool.allocateArray(Uint32Array, 48, a);
  gpu.synchronize();
  using module = gpu.loadModule(ptx);
  // 6 blocks of 8 threads.
  module.kernel("kernel").launch({ grid: [3, 2], block: [4, 2], stream: a }, x, from);
  x.subarray(filledFrom).fill(1, b);
  gpu.synchronize();
  assertEquals(reports.length, 1);
  return reports[0]!;
}

for (const [name, barrier] of [["never wait", ""], ["may wait", "bar.sync 0;"]] as const) {
  const ptx = storing(barrier);

  test(`of threads that ${name}, the one that accesses the first byte is named`, () => {
    for (
      const [from, block, thread] of [
        [0, [0, 0, 0], [0, 0, 0]],
        [21, [2, 0, 0], [1, 1, 0]],
        [47, [2, 1, 0], [3, 1, 0]],
      ] as const
    ) {
      const { accesses, message } = reportOf(ptx, from, from);
      const { block: ofBlock, thread: ofThread } = accesses[1]!;
      assertEquals([ofBlock, ofThread], [block, thread]);
      assertStringIncludes(message, `Kernel kernel, block (${block}), thread (${thread}) writes at PTX line`);
    }
  });

  test(`of threads that ${name}, none is named if it is not known`, () => {
    const { accesses, message } = reportOf(ptx, 3, 21);
    assertEquals([accesses[1]!.block, accesses[1]!.thread], [undefined, undefined]);
    assertStringIncludes(message, "Kernel kernel writes at PTX line");
  });
}
