import { assert, assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaModule } from "../../src/objects/modules/cuda_module.ts";
import { CudaError } from "../../src/support/errors.ts";
import { testOnEachDriver } from "../support/drivers.ts";

const folder = new URL("linking/", import.meta.url);
const [run, table] = ["run.ptx", "table.ptx"].map((name) => {
  return { name, image: readFileSync(new URL(name, folder), "utf8") };
}) as [{ name: string; image: string }, { name: string; image: string }];
const header = ".version 7.0\n.target sm_60\n.address_size 64\n";
const scale = "_Z5scaleIfEvPT_i";

/** Runs the kernels of both sources. */
async function check(gpu: CudaDevice, module: CudaModule): Promise<void> {
  using pool = gpu.createPool();
  using out = pool.allocateArray(Float32Array, 8);
  using counts = pool.allocateArray(Int32Array, 8);
  module.kernel("run", { parameters: ["pointer", "pointer"] })
    .launch({ grid: 1, block: 8, sharedMemoryBytes: 32 }, out, counts);
  assertEquals(await out.toTypedArray(), Float32Array.from({ length: 8 }, (_, i) => 6 * i + (i + 1) % 8));
  // "hidden" of its own source, and "table" of the other.
  assertEquals(await counts.toTypedArray(), Int32Array.from({ length: 8 }, (_, i) => i + 7 + 20));
  module.kernel("other", { parameters: ["pointer"] }).launch({ grid: 1, block: 8, sharedMemoryBytes: 32 }, counts);
  assertEquals(await counts.toTypedArray(), Int32Array.from({ length: 8 }, (_, i) => 100 * i));
  // A template that both sources instantiate.
  module.kernel(scale, { parameters: ["pointer", "s32"] }).launch({ grid: 1, block: 8 }, out, 2);
  assertEquals((await out.toTypedArray())[3], 44);
  assertEquals(module.getGlobal("counter").readSync(Int32Array), new Int32Array([13]));
  assertEquals(module.getGlobal("table").readSync(Int32Array), new Int32Array([10, 20, 30, 40]));
}

testOnEachDriver("images that nvcc has compiled with -rdc=true are linked, in any order", async (cuda) => {
  const gpu = cuda.device(0);
  for (const images of [[run, table], [table.image, new TextEncoder().encode(run.image)]]) {
    using module = gpu.link(images, { maxRegisters: 64 });
    assertEquals([...module.kernelNames].sort(), [scale, "other", "run"]);
    assertEquals(module.kernel("run").parameters, ["u64", "u64"]);
    await check(gpu, module);
  }
});

testOnEachDriver("an error of the linker names the image and what is wrong", (cuda, { name }) => {
  const gpu = cuda.device(0);
  const kernel = (name: string, body = "") => `.visible .entry ${name}() { ${body} ret; }\n`;
  const broken = header + kernel("broken", "frobnicate;");
  for (
    const [images, code, ...messages] of [
      [[run], "cudaErrorInvalidSource", "Cannot link 1 image on device 0", "'_Z5twicef' in 'run.ptx'", "'table'"],
      [
        [table, header + kernel("other")],
        "cudaErrorInvalidSource",
        "Multiple definition of 'other' in 'image 1', first defined in 'table.ptx'",
      ],
      [[run, { name: "b.ptx", image: broken }], "cudaErrorInvalidPtx", "b.ptx", "ine 4"],
      [[header.replace("7.0", "99.0") + kernel("k")], "cudaErrorUnsupportedPtxVersion", "image 0", "ine 1"],
    ] as const
  ) {
    const error = assertThrows(() => gpu.link(images), CudaError);
    for (const message of messages) assert(error.message.includes(message), `${error.message} lacks ${message}`);
    if (name === "software") assertEquals(error.code, code);
  }
});

testOnEachDriver("what is not an image is refused before anything is linked", (cuda) => {
  const gpu = cuda.device(0);
  const link = gpu.link.bind(gpu) as (images: unknown, options?: object) => CudaModule;
  const program = new Uint8Array(64);
  program.set([0x7f, 0x45, 0x4c, 0x46]);
  for (
    const [images, error, message] of [
      [[], RangeError, "Cannot link no images: give at least one"],
      [header, TypeError, "Cannot link a string: give an array of images, such as [ptx, otherPtx]"],
      [[header, 5], TypeError, "Cannot link 5 as image 1: give PTX text, the bytes of an image"],
      [[header, null], TypeError, "Cannot link null as image 1"],
      [Object.assign([header], { 2: header }), TypeError, "Cannot link undefined as image 1"],
      [[[header]], TypeError, "Cannot link an Array as image 0"],
      [[{ name: "a.ptx" }], TypeError, "Cannot link an Object as image 0"],
      [[{ name: "", image: header }], TypeError, 'Cannot use "" as the name of image 0'],
      [[{ image: header }], TypeError, "Cannot use undefined as the name of image 0"],
      [[{ name: "a", image: header, nmae: "b" }], TypeError, 'with the option "nmae"'],
      [[header, "a.cu"], TypeError, 'Cannot link image 1: cannot load "a.cu" as a module: pass its text to compile'],
      [[program], TypeError, "Cannot link image 0: cannot load a program or a library of the host"],
      [[header, Promise.resolve(header)], TypeError, "Cannot link a Promise that was not awaited as image 1"],
    ] as const
  ) assertThrows(() => link(images), error, message);
  assertThrows(() => gpu.link([header], { maxRegisters: 0 }), RangeError, "Cannot use 0 as a module's maxRegisters");
});

testOnEachDriver("a linked module is disposed like any other", (cuda) => {
  const gpu = cuda.device(0);
  const module = gpu.link([run, table]);
  const kernel = module.kernel(scale);
  const variable = module.getGlobal("counter");
  module[Symbol.dispose]();
  module[Symbol.dispose]();
  assertThrows(() => kernel.launch({ grid: 1, block: 1 }, 0n, 1), ReferenceError, "its module was disposed");
  assertThrows(() => variable.readSync(Int32Array), ReferenceError);
  assertThrows(() => module.kernel("run"), ReferenceError);
  assertEquals(module.kernelNames.length, 3);
});

const withoutCompiler = spawnSync("nvcc", ["--version"]).status !== 0;

testOnEachDriver("images that nvcc makes here are linked, whatever their kind", async (cuda, { name }) => {
  if (withoutCompiler) return;
  const gpu = cuda.device(0);
  const target = `-arch=sm_${gpu.computeCapability.join("")}`;
  const compile = (source: string, ...options: string[]) => {
    const output = mkdtempSync(join(tmpdir(), "poolpass-"));
    try {
      const file = join(output, "image");
      const path = fileURLToPath(new URL(source, folder));
      const { status, stderr } = spawnSync("nvcc", ["-rdc=true", target, ...options, "-o", file, path]);
      assertEquals(status, 0, String(stderr));
      return { name: `${source} ${options[0]}`, image: new Uint8Array(readFileSync(file)) };
    } finally {
      rmSync(output, { recursive: true });
    }
  };
  using linked = gpu.link([compile("run.cu", "-ptx", "-lineinfo"), compile("table.cu", "-ptx", "-G")]);
  await check(gpu, linked);
  for (const kind of ["-cubin", "-fatbin", "-c"]) {
    const image = compile("table.cu", kind);
    if (name === "software") {
      const message = assertThrows(() => gpu.link([run, image]), CudaError).message;
      assert(message.includes(`table.cu ${kind}`) && message.includes("the software device runs PTX"), message);
      continue;
    }
    using module = gpu.link([run, image]);
    assertEquals([...module.kernelNames].sort(), [scale, "other", "run"]);
    await check(gpu, module);
    assertThrows(
      () => module.kernel("other").launch({ grid: 1, block: 1 }, 5),
      TypeError,
      'its image says only that it has 8 bytes: give the kernel\'s "parameters"',
    );
    assertThrows(() => module.kernel("other", { parameters: ["f32"] }), TypeError, "its image has 8 bytes at offset 0");
  }
}, { long: true });
