/**
 * Builds the kernels of the benchmark of channels with nvcc: `frames.ptx` from `frames.cu`.
 *
 *     deno run --allow-read --allow-run=nvcc bench/channel/build.ts
 *
 * @module
 */
import { fileURLToPath } from "node:url";

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));
// The oldest architecture that nvcc 13 compiles for.
const args = ["-ptx", "-arch=compute_75", "-o", path("frames.ptx"), path("frames.cu")];
const { success } = new Deno.Command("nvcc", { args, stderr: "inherit" }).outputSync();
if (!success) throw new Error("Cannot build frames.cu: nvcc failed");
