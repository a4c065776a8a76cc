/**
 * Builds the PTX of the yardsticks' kernels.
 *
 * `deno run -A tests/sanitizer/yardsticks/build.ts [--check]` writes `samples.ptx` and `graph_kernels.ptx`, or compares
 * them with what it would write, and exits with status 1 if one differs. It needs nvcc.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { sourceOf } from "./graph_kernel_source.ts";
import { type GraphKernel, storedGraphKernels } from "./graph_kernels.ts";

/** The PTX that nvcc makes of CUDA C++, with the lines of the source under a name. */
export function compiled(source: string, name: string): string {
  const folder = mkdtempSync(join(tmpdir(), "yardsticks-"));
  try {
    writeFileSync(join(folder, name), source);
    // By relative paths, so that the PTX names no folder.
    const options = ["-ptx", "-lineinfo", "-arch=compute_75", "-diag-suppress=177", "-o", "out.ptx", name];
    execFileSync("nvcc", options, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
    const ptx = readFileSync(join(folder, "out.ptx"), "utf8");
    return ptx.replaceAll(/^(\s*\.file\s+\d+ )".*\/([^/"]*)".*$/gm, '$1"$2"');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The PTX of some kernels on graphs. */
export function compiledGraphKernels(kernels: readonly GraphKernel[]): string {
  return compiled(kernels.map(sourceOf).join("\n"), "graph_kernels.cu");
}

if (import.meta.main) {
  const here = (name: string) => new URL(name, import.meta.url);
  const files = new Map([
    ["samples.ptx", compiled(readFileSync(here("samples.cu"), "utf8"), "samples.cu")],
    ["graph_kernels.ptx", compiledGraphKernels(storedGraphKernels())],
  ]);
  for (const [name, ptx] of files) {
    if (!process.argv.includes("--check")) {
      writeFileSync(here(name), ptx);
    } else if (readFileSync(here(name), "utf8") !== ptx) {
      console.error(`${name} differs from what nvcc makes of its source`);
      process.exitCode = 1;
    }
  }
}
