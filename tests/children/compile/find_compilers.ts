/**
 * Prints for nvcc and clang what was found: "nvcc 13.0: _Z1fPi", with the name that it gives a kernel, or the reason why
 * there is none.
 *
 * @module
 */
import { findClang } from "../../../ffi/compilers/clang.ts";
import { findNvcc } from "../../../ffi/compilers/nvcc.ts";
import { checkProgram } from "../../../src/compile/compile_options.ts";

for (const find of [findNvcc, findClang]) {
  const found = find();
  if ("reason" in found) {
    console.log(found.reason);
    continue;
  }
  const program = checkProgram('#include "h.h"\n', {
    headers: { "h.h": "__global__ void f(int* x) { *x = 1; }\n" },
    nameExpressions: ["f"],
  });
  const { loweredNames } = found.compile({ ...program, architecture: "compute_75" });
  console.log(`${found.name}: ${loweredNames.get("f")}`);
}
