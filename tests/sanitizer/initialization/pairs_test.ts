/** Pairs of programs: of those that differ in what is initialized, the wrong one is reported and the right one is not. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { readFileSync } from "node:fs";
import { CudaError, open, type SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";
import { type Context, pairs } from "./pairs.ts";

const read = (name: string) => readFileSync(new URL(name, import.meta.url), "utf8");
const ptx = read("kernels.ptx");
const lines = read("kernels.cu").split("\n");

/** Runs a program, and returns what is reported. */
function reportsOf(program: (context: Context) => void): SanitizerReport[] {
  const reports: SanitizerReport[] = [];
  {
    using cuda = open({
      driver: "software",
      sanitize: ["initialization"],
      onReport: (report) => void reports.push(report),
    });
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using module = gpu.loadModule(ptx);
    using x = pool.allocate(4096, stream);
    using out = pool.allocate(4096, stream);
    out.fill(0, stream);
    const runWith: Context["runWith"] = ({ grid = 1, block = 32, ...options }, kernel, ...args) =>
      module.kernel(kernel).launch({ grid, block, stream, ...options }, ...args);
    program({ gpu, pool, stream, x, out, runWith, run: (kernel, ...args) => runWith({}, kernel, ...args) });
    try {
      stream.synchronize();
    } catch (error) {
      // Some addresses that were not written are none.
      if (!(error instanceof CudaError)) throw error;
    }
  }
  return reports;
}

for (const { name, right, wrong, kind, decidesAt } of pairs) {
  test(`initialization: ${name}`, () => {
    assertEquals(reportsOf(right).map(({ message }) => message), []);
    const reports = reportsOf(wrong);
    const line = lines.findIndex((line) => line.includes(decidesAt)) + 1;
    const found = reports.filter((report) => report.message.includes(`kernels.cu:${line},`));
    assertEquals(found.map((report) => report.kind), [kind], reports.map(({ message }) => message).join("\n"));
    assertEquals(reports.length, 1);
    assertStringIncludes(found[0]!.message, "block (0,0,0)");
  });
}
