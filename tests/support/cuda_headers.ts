import { existsSync } from "node:fs";
import { join } from "node:path";

/** The folder of CUDA's headers; undefined if they are not installed. */
export const cudaHeaders: string | undefined = ["/usr/local/cuda/include", "/usr/include"].find((folder) =>
  existsSync(join(folder, "cuda_runtime_api.h"))
);
