/** Memory that kernels allocate with `malloc` and never free. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { open, type SanitizerCheck, type SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";
import { kernelOf } from "./programs.ts";

/** Allocates 100 bytes in each thread, and frees them if it is told to. */
const ptx = kernelOf(
  ".param .u32 frees",
  `  ld.param.u32 %r1, [frees]; setp.eq.u32 %p1, %r1, 0; mov.u64 %rd1, 100;
  { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd1; call.uni (r), malloc, (a); ld.param.b64 %rd2, [r]; }
  @%p1 bra END;
  { .param .b64 a; st.param.b64 [a], %rd2; call.uni free, (a); }
END:`,
  ".extern .func (.param .b64 result) malloc (.param .b64 size);\n.extern .func free (.param .b64 address);",
);

function reportsOf(checks: readonly SanitizerCheck[], frees: readonly number[]): SanitizerReport[] {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: checks, onReport: (report) => void reports.push(report) });
  const gpu = cuda.device(0);
  const kernel = gpu.loadModule(ptx).kernel("kernel");
  for (const free of frees) kernel.launch({ grid: 2, block: 32 }, free);
  gpu.synchronize();
  cuda[Symbol.dispose]();
  return reports;
}

test("blocks that kernels free are no leak", () => {
  assertEquals(reportsOf(["memory", "leak"], [1, 1]), []);
});

test("blocks that no kernel frees are reported, by where they were allocated", () => {
  const [report, ...others] = reportsOf(["memory", "leak"], [1, 0, 0]);
  assertEquals(others, []);
  assertEquals([report!.check, report!.kind, report!.count], ["leak", "leak", 128]);
  assertStringIncludes(report!.message, "128 blocks of a kernel's malloc, 12800 bytes");
  assertStringIncludes(report!.message, "Kernel kernel allocates at PTX line 10\n");
});

test("the check of leaks alone counts the blocks", () => {
  const [report, ...others] = reportsOf(["leak"], [0]);
  assertEquals(others, []);
  assertStringIncludes(report!.message, "64 blocks of a kernel's malloc, 6400 bytes");
});

test("without the check of leaks, blocks may stay", () => {
  assertEquals(reportsOf(["memory"], [0]), []);
});
