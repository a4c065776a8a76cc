/**
 * The programs of the benchmark of stores.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { type Program, scriptProgram } from "../harness/contender.ts";
import { outputOf } from "../harness/programs.ts";

/** How to start a program in TypeScript, by its path in this folder. */
export function script(file: string, args: readonly string[]): Program {
  return scriptProgram("poolpass", new URL(file, import.meta.url), args);
}

/**
 * Builds `bench/cuda/stored_memory.cpp` by nvcc or by g++. Resolves to the path of the program.
 *
 * @throws {Error} If neither can build it
 */
export async function buildNative(folder: string): Promise<string> {
  const program = `${folder}/stored_memory`;
  const source = fileURLToPath(new URL("../cuda/stored_memory.cpp", import.meta.url));
  const args = ["-O2", "-std=c++17", "-o", program, source, "-ldl", "-lpthread"];
  for (const compiler of [["nvcc"], ["g++", "-I/usr/local/cuda/include"]] as const) {
    try {
      await outputOf([...compiler, ...args]);
      return program;
    } catch {
      // The other one may build it.
    }
  }
  throw new Error("neither nvcc nor g++ with cuda.h could build it");
}
