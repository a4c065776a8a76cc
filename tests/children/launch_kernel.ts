// Launches the kernel "test" of a module, whose PTX is the argument, in one block of two threads, and prints the
// outcome.
import process from "node:process";
import { CudaError, open } from "../../mod.ts";

try {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  gpu.loadModule(process.argv[2]!).kernel("test").launch({ grid: 1, block: 2 }, 0n, 0n);
  await gpu.finished();
  console.log("finished");
} catch (error) {
  console.log(error instanceof CudaError ? `${error.code}: ${error.message}` : String(error));
}
