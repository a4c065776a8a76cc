/**
 * The measured programs, and how to start them.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { buildForUrl } from "../../packaging/build.ts";
import type { Program } from "../harness/contender.ts";
import { outputOf, python } from "../harness/programs.ts";
import type { ContenderName, Purpose } from "./rows.ts";

/** The source of a program: `.cu` files are built by nvcc, `.ts` and `.py` files run directly. */
export interface ProgramSource {
  readonly contender: ContenderName;
  readonly purpose: Purpose;
  /** The path within `bench/`. */
  readonly file: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The Python packages that the program needs, if the program itself does not report missing ones. */
  readonly packages?: readonly string[];
  /** The names of its workloads, if the program itself does not report them. */
  readonly works?: readonly string[];
  /** Whether the program imports the library as one file. */
  readonly importsOneFile?: true;
}

/** Makes PyTorch allocate from a pool of CUDA instead of its own cache. */
const torchWithPool = { PYTORCH_CUDA_ALLOC_CONF: "backend:cudaMallocAsync" };

/**
 * All programs. A contender may have several for one purpose: their greetings tell which workloads each can measure.
 */
export const programSources: readonly ProgramSource[] = [
  { contender: "C++", purpose: "start", file: "cuda/first_allocation.cu" },
  { contender: "poolpass", purpose: "start", file: "cuda/first_allocation.ts", works: ["first-allocation"] },
  {
    contender: "poolpass",
    purpose: "start",
    file: "cuda/first_allocation.ts",
    works: ["first-allocation-bundled"],
    importsOneFile: true,
  },
  { contender: "cuda.core", purpose: "start", file: "cuda/first_allocation.py", args: ["cuda.core"] },
  { contender: "CuPy", purpose: "start", file: "cuda/first_allocation.py", args: ["cupy"] },
  {
    contender: "PyTorch",
    purpose: "start",
    file: "cuda/first_allocation.py",
    args: ["torch"],
    env: torchWithPool,
    // PyTorch takes seconds to start and is never the fastest, so one workload is enough.
    works: ["first-allocation"],
  },
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
  { contender: "C++", purpose: "frames", file: "channel/native.cu" },
  { contender: "poolpass", purpose: "frames", file: "channel/producer.ts" },
  { contender: "cuda.core", purpose: "frames", file: "channel/cuda_core.py", packages: ["cuda.core", "numpy"] },
  { contender: "PyTorch", purpose: "frames", file: "channel/torch_channel.py", packages: ["torch", "cupy", "numpy"] },
];

const path = (file: string) => fileURLToPath(new URL(`../${file}`, import.meta.url));

/** Builds a C++ program into a folder. Resolves to the path of the executable. */
export async function buildNative(file: string, folder: string): Promise<string> {
  const program = `${folder}/${basename(file, ".cu")}_${basename(new URL(`../${file}/..`, import.meta.url).pathname)}`;
  const args = ["-O2", "-std=c++17", "-arch=native", "-o", program, path(file)];
  await outputOf(["nvcc", ...args]);
  return program;
}

/**
 * Writes a program that imports the library as one file, `dist/url/poolpass.js`, into a folder; builds that file into the
 * folder if it is not there. Resolves to the path of the program. Library and program are not one module: V8 parses a
 * module's whole text again when the module's own code first logs something.
 */
export async function buildOneFile(file: string, folder: string): Promise<string> {
  let library = path("../dist/url/poolpass.js");
  if (!existsSync(library)) {
    await buildForUrl(pathToFileURL(`${folder}/url/`));
    library = `${folder}/url/poolpass.js`;
  }
  const program = `${folder}/${basename(file)}`;
  const text = await Deno.readTextFile(path(file));
  await Deno.writeTextFile(program, text.replace("../../mod.ts", pathToFileURL(library).href));
  return program;
}

/**
 * Returns how to start a program.
 *
 * @param built the result of `buildNative` or `buildOneFile`, for programs that are built
 */
export function programOf(source: ProgramSource, built?: string): Program {
  const { contender, purpose, file, env = {} } = source;
  const [command, ...args] = commandOf(source, built);
  const name = `${contender}, ${file}`;
  if (purpose !== "frames") return { name, command, args, env };
  // The adapter speaks the common protocol and starts the streaming program.
  const streaming = ["run", "--allow-all", path("sharing/frames.ts"), contender, command, ...args];
  return { name, command: Deno.execPath(), args: streaming, env };
}

function commandOf({ purpose, file, args = [] }: ProgramSource, built?: string): [string, ...string[]] {
  if (file.endsWith(".cu")) return [built!, ...args];
  if (file.endsWith(".py")) return [python(), path(file), ...args];
  const permissions = purpose === "start" ? ["--no-prompt", "--allow-ffi"] : ["--allow-all"];
  return [Deno.execPath(), "run", ...permissions, built ?? path(file), ...args];
}
