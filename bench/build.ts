/**
 * Builds the benchmarks' kernels with nvcc: `NAME.ptx` from `NAME.cu`. Kernels for the software device are compiled
 * without fused multiply-adds. Kernels that are also measured with them, which is nvcc's default, get a
 * `NAME_fused.ptx` as well.
 *
 *     deno run --allow-read --allow-run=nvcc bench/build.ts
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The oldest architecture that nvcc 13 supports. */
const architecture = "compute_75";
const measuredFused: ReadonlySet<string> = new Set(["software/matrix_multiply"]);
/** The kernels that run on GPUs. */
const forGpus: readonly string[] = ["channel/frames", "cuda/kernels"];

function build(name: string, { suffix, options }: { suffix: string; options: readonly string[] }): void {
  const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));
  const output = path(`${name}${suffix}.ptx`);
  const args = ["-ptx", `-arch=${architecture}`, ...options, "-o", output, path(`${name}.cu`)];
  const { success } = new Deno.Command("nvcc", { args, stderr: "inherit" }).outputSync();
  if (!success) throw new Error(`Cannot build ${name}.cu: nvcc failed`);
}

for (const file of readdirSync(new URL("software/", import.meta.url)).filter((file) => file.endsWith(".cu"))) {
  const name = `software/${file.slice(0, -".cu".length)}`;
  build(name, { suffix: "", options: ["-fmad=false"] });
  if (measuredFused.has(name)) build(name, { suffix: "_fused", options: [] });
}
build("divergent/kernels", { suffix: "", options: ["-fmad=false"] });
for (const name of forGpus) build(name, { suffix: "", options: [] });
