/** What reports of uninitialized memory say: one for each cause, with what to write. */
import { assertEquals } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";

/** Runs a kernel with memory that nothing has written, and returns its reports without the accesses. */
function said(
  body: string,
  block = 2,
): (readonly [kind: string, problem: string, advice: string, count: number])[] {
  const reports: SanitizerReport[] = [];
  {
    using cuda = open({ driver: "software", sanitize: ["initialization"], onReport: (report) => reports.push(report) });
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using best = pool.allocate(4, stream);
    using module = gpu.loadModule(`.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b64 p) malloc(.param .b64 n);
.visible .entry kernel(.param .u64 best) {
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %at;
  .shared .align 16 .b32 part[32];
  ld.param.u64 %at, [best];
  ${body}
END:
  ret;
}`);
    module.kernel("kernel").launch({ grid: 1, block, stream }, best);
    stream.synchronize();
  }
  return reports.map(({ kind, message, count }) => {
    const lines = message.split("\n");
    return [kind, lines[1]!.replace(/^ *At PTX line \d+, /, ""), lines.at(-1)!.trim(), count];
  });
}

test("a value that is read once and decides twice is reported once", () => {
  assertEquals(
    said("ld.global.u32 %r0, [%at]; setp.eq.u32 %p, %r0, 1; @%p bra END; atom.global.max.u32 %r1, [%at], 7;"),
    [
      [
        "uninitialized-branch",
        "a branch depends on a value read from memory that nothing has written.",
        "Write the memory before the launch, by a fill, a copy or another kernel, or read less of it.",
        3,
      ],
    ],
  );
});

test("an atomic operation is told to start from a value", () => {
  assertEquals(said("atom.global.max.u32 %r1, [%at], 7;"), [[
    "uninitialized-atomic",
    "an atomic operation changes memory that nothing has written.",
    "Fill the memory before the launch, with the value that the operation starts from.",
    1,
  ]]);
});

test("shared memory is told to be written by threads, and variables where they are declared", () => {
  assertEquals(said("ld.shared.u32 %r0, [part]; setp.eq.u32 %p, %r0, 1; @%p bra END; st.global.u32 [%at], 1;"), [[
    "uninitialized-branch",
    "a branch depends on a value read from memory that nothing has written.",
    "Let threads write the memory, and meet at a barrier if others read it, before it is read.",
    2,
  ]]);
  const allocates = "{ .param .b64 n; .param .b64 p; st.param.b64 [n], 8; call.uni (p), malloc, (n); " +
    "ld.param.b64 %at, [p]; } ld.u32 %r0, [%at]; setp.eq.u32 %p, %r0, 1; @%p bra END; st.u32 [%at], 1;";
  assertEquals(said(allocates), [[
    "uninitialized-branch",
    "a branch depends on a value read from memory that nothing has written.",
    "Write the memory that malloc or new has returned before it is read.",
    2,
  ]]);
  assertEquals(said("setp.eq.u32 %p, %r2, 1; @%p bra END; st.global.u32 [%at], 1;"), [[
    "uninitialized-branch",
    "a branch depends on a variable that was never set.",
    "Give the variable a value where it is declared, and on each way to where it is read.",
    2,
  ]]);
});

test("rows of matrices are reported as the memory that nothing has written, whichever lane uses them", () => {
  const decides = "setp.eq.u32 %p, %r0, 1; @%p bra END; st.global.u32 [%at], 1;";
  assertEquals(said(`ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [part]; ${decides}`, 32), [[
    "uninitialized-branch",
    "a branch depends on a value read from memory that nothing has written.",
    "Let threads write the memory, and meet at a barrier if others read it, before it is read.",
    32,
  ]]);
});
