/**
 * Prints the name of NVRTC as it is found without a path, and of a kernel that it has compiled with CUDA's headers, or
 * the reason why there is none.
 *
 * @module
 */
import { findNvrtc } from "../../../ffi/nvrtc.ts";
import { checkProgram } from "../../../src/compile/compile_options.ts";

const found = findNvrtc(undefined);
if ("reason" in found) console.log(found.reason);
else {
  const program = checkProgram("#include <cuda_fp16.h>\n__global__ void f(__half* x) {}\n", { nameExpressions: ["f"] });
  const { loweredNames } = found.compile({ ...program, architecture: "compute_90" });
  console.log(`${found.name}: ${loweredNames.get("f")}`);
}
