import { assert, assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaModule } from "../../src/objects/modules/cuda_module.ts";
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
      if (cuda.driverVersion >= 12040) checkUntyped(module);
      else {
        assertEquals(module.kernelNames, []);
        assertThrows(() => module.kernel("saxpy"), RangeError, 'give the "parameters" of this one');
      }
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

/** The image has the sizes of the parameters, and not their types. */
function checkUntyped(module: CudaModule): void {
  assertEquals(module.kernelNames, ["saxpy"]);
  assertThrows(() => module.kernel("saxpi"), CudaError, 'did you mean "saxpy"?');
  const saxpy = module.kernel("saxpy");
  const sizes = saxpy.parameters.map((type) => typeof type === "object" ? type.byteLength : type);
  assertEquals(sizes, [4, 4, 8, 8]);
  const shape = { grid: 1, block: 1 };
  const [n, a] = [new Uint32Array(1), new Float32Array(1)];
  saxpy.launch(shape, n, a, 0n, { address: 0n });
  for (const number of [0, 1.5]) {
    assertThrows(() => saxpy.launch(shape, number, a, 0n, 0n), TypeError, 'give the kernel\'s "parameters"');
  }
  assertThrows(() => saxpy.launch(shape, n, a, 0, 0n), TypeError, "its image says only that it has 8 bytes");
  assertThrows(
    () => saxpy.launch(shape, n, a, new Float32Array(1), 0n),
    RangeError,
    "it takes 8 bytes, the view has 4",
  );
  assertThrows(() => saxpy.launch(shape, true, a, 0n, 0n), TypeError, "a typed array or a DataView of 4 bytes");
  assertThrows(() => module.kernel("saxpy", { parameters: ["u32"] }), TypeError, "its image has 4");
  const misplaced = ["u32", "f64", "u64", "u64"] as const;
  const message = "Cannot take parameter 1 of saxpy as f64, at offset 8: its image has 4 bytes at offset 4";
  assertThrows(() => module.kernel("saxpy", { parameters: misplaced }), TypeError, message);
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
