/**
 * The programs that are measured, and how each is started.
 *
 * @module
 */
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import type { Program } from "../contender.ts";
import type { ContenderName, Purpose } from "./rows.ts";

/** A program by the file that it is made of: `.cu` is built by nvcc, `.ts` and `.py` run as they are. */
export interface ProgramSource {
  readonly contender: ContenderName;
  readonly purpose: Purpose;
  /** In `bench/`. */
  readonly file: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Without it, PyTorch takes memory from its own cache. */
const torchWithPool = { PYTORCH_CUDA_ALLOC_CONF: "backend:cudaMallocAsync" };

/** All of them. A contender may have several for a purpose: which does a work, their greetings say. */
export const programSources: readonly ProgramSource[] = [
  { contender: "C++", purpose: "start", file: "cuda/first_allocation.cu" },
  { contender: "poolpass", purpose: "start", file: "cuda/first_allocation.ts" },
  { contender: "cuda.core", purpose: "start", file: "cuda/first_allocation.py", args: ["cuda.core"] },
  { contender: "CuPy", purpose: "start", file: "cuda/first_allocation.py", args: ["cupy"] },
  { contender: "PyTorch", purpose: "start", file: "cuda/first_allocation.py", args: ["torch"], env: torchWithPool },
  { contender: "C++", purpose: "calls", file: "cuda/native.cu" },
  { contender: "poolpass", purpose: "calls", file: "cuda/poolpass.ts" },
  { contender: "cuda.core", purpose: "calls", file: "cuda/cuda_core.py" },
  { contender: "CuPy", purpose: "calls", file: "cuda/cupy_calls.py" },
  { contender: "PyTorch", purpose: "calls", file: "cuda/torch_calls.py", env: torchWithPool },
  { contender: "PyTorch", purpose: "calls", file: "cuda/torch_calls.py" },
  { contender: "C++", purpose: "sharing", file: "sharing/native.cu" },
  { contender: "poolpass", purpose: "sharing", file: "sharing/poolpass.ts" },
  { contender: "cuda.core", purpose: "sharing", file: "sharing/cuda_core.py" },
  { contender: "PyTorch", purpose: "sharing", file: "sharing/torch_sharing.py" },
];

const path = (file: string) => fileURLToPath(new URL(`../${file}`, import.meta.url));

/** Builds a program of C++ into a folder. Gives the file that it is run by. */
export async function buildNative(file: string, folder: string): Promise<string> {
  const program = `${folder}/${basename(file, ".cu")}_${basename(new URL(`../${file}/..`, import.meta.url).pathname)}`;
  const args = ["-O2", "-std=c++17", "-arch=native", "-o", program, path(file)];
  const { success } = await new Deno.Command("nvcc", { args, stdout: "inherit", stderr: "inherit" }).output()
    .catch(() => {
      throw new Error("nvcc was not found");
    });
  if (!success) throw new Error("nvcc failed");
  return program;
}

/** How a program is started; `built` is what `buildNative` gave, where it is one of C++. */
export function programOf({ contender, purpose, file, args = [], env = {} }: ProgramSource, built?: string): Program {
  const name = `${contender}, ${file}`;
  if (built !== undefined) return { name, command: built, args, env };
  if (file.endsWith(".py")) {
    return { name, command: Deno.env.get("PYTHON") ?? "python3", args: [path(file), ...args], env };
  }
  const permissions = purpose === "start" ? ["--no-prompt", "--allow-ffi"] : ["--allow-all"];
  return { name, command: Deno.execPath(), args: ["run", ...permissions, path(file), ...args], env };
}
