import { open } from "../../mod.ts";

let found: string | undefined;
let isKnown = false;

/** The compiler of CUDA C++ that this machine has, such as `nvrtc 13.0`. Undefined if there is none. */
export function compilerHere(): string | undefined {
  if (isKnown) return found;
  isKnown = true;
  try {
    using cuda = open({ driver: "software" });
    found = cuda.compile("__device__ int here;", { architecture: "compute_75" }).compiler;
  } catch {
    found = undefined;
  }
  return found;
}
