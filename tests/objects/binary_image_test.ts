import { assert, assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const withoutCompiler = spawnSync("nvcc", ["--version"]).status !== 0 && "needs nvcc, and there is none";
const parameters = ["u32", "f32", "u64", "u64"] as const;

for (const driver of driversUnderTest) {
  for (const kind of ["cubin", "fatbin"]) {
    test(`a ${kind} is loaded, and its kernels take the declared parameters [${driver.name}]`, {
      skip: withoutCompiler || driver.skip,
      long: kind === "fatbin",
    }, async () => {
      using cuda = new Cuda(new Session(driver.open()));
      const gpu = cuda.device(0);
      const image = compile(kind, gpu.computeCapability.join(""));
      if (driver.name === "software") {
        const error = assertThrows(() => gpu.loadModule(image), CudaError);
        assertEquals(error.code, "cudaErrorNoKernelImageForDevice");
        assert(
          error.message.includes("the software device runs PTX, and this image is machine code of a GPU"),
          error.message,
        );
        return;
      }
      using module = gpu.loadModule(image);
      assertEquals(module.kernelNames, []);
      assertThrows(() => module.kernel("saxpy"), RangeError, 'give the "parameters" of this one');
      const saxpy = module.kernel("saxpy", { parameters });
      using pool = gpu.createPool();
      using x = pool.allocateArray(Float32Array, 100);
      using y = pool.allocateArray(Float32Array, 100);
      x.copyFrom(new Float32Array(100).fill(2));
      y.copyFrom(new Float32Array(100).fill(3));
      saxpy.launch({ grid: 1, block: 32 }, 100, 10, x, y);
      assertEquals(await y.toTypedArray(), new Float32Array(100).fill(23));
    });
  }
}

function compile(kind: string, capability: string): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
  try {
    const output = join(folder, `saxpy.${kind}`);
    const source = fileURLToPath(new URL("../../kernels/saxpy.cu", import.meta.url));
    const { status, stderr } = spawnSync("nvcc", [`-${kind}`, `-arch=sm_${capability}`, "-o", output, source]);
    assertEquals(status, 0, String(stderr));
    return new Uint8Array(readFileSync(output));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
