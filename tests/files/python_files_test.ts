/** Files are read as Python's libraries write them, and Python's libraries read those that are written. */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { type DeviceArray, type MemoryPool, open, type TypedArray } from "../../mod.ts";
import { readNpy, readNpz, writeNpy, writeNpz } from "../../npy.ts";
import { readSafetensors, writeSafetensors } from "../../safetensors.ts";
import { elementTypeOf } from "../../src/memory/dtypes.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

const program = fileURLToPath(new URL("../children/files/python_files.py", import.meta.url));
const environment = process.env.VIRTUAL_ENV;
const python = environment !== undefined && existsSync(`${environment}/bin/python3`)
  ? `${environment}/bin/python3`
  : "python3";
const modules: readonly string[] = JSON.parse(runPython("modules") ?? "[]");
const noNumpy = !modules.includes("numpy") && "there is no python3 with numpy";
const noMlDtypes = !modules.includes("ml_dtypes") && "there is no python3 with ml_dtypes";
const noSafetensors = noNumpy || !modules.includes("safetensors") && "there is no python3 with safetensors";

/** Runs the program. Returns what it printed; undefined if it failed. */
function runPython(...args: string[]): string | undefined {
  const { status, stdout } = spawnSync(python, [program, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return status === 0 ? stdout : undefined;
}

/** The bytes of an array of shape [2, 3, 4]: the same as in the program. */
function bytesOf(dtype: string): Uint8Array {
  return Uint8Array.from({ length: 24 * elementTypeOf(dtype)!.bits / 8 }, (_, index) => index * 7 % 251);
}

async function assertBytes(array: DeviceArray<TypedArray>, dtype: string, file: string): Promise<void> {
  assertEquals([array.dtype, [...array.shape]], [dtype, [2, 3, 4]], file);
  assertEquals(await array.read(Uint8Array), bytesOf(dtype), file);
}

const ofMlDtypes = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"];
const ofNumpy = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
  .concat("float64", "complex64", "complex128");

type Options = { readonly pool: MemoryPool };

/** Calls the body with a folder in which Python has written its files. */
async function withFiles(body: (folder: string, options: Options) => Promise<void>): Promise<void> {
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    assert(runPython("write", folder) !== undefined, "Python has written its files");
    await body(folder, { pool });
    assertEquals(pool.usage().used, 0);
  });
}

test("NumPy's files are read", { skip: noNumpy }, async () => {
  await withFiles(async (folder, options) => {
    for (const dtype of ofNumpy) {
      for (const file of [`${dtype}.npy`, `${dtype}_fortran.npy`, `${dtype}_big.npy`]) {
        // Python converts numbers, which may change the bits of a NaN.
        if (file.includes("_big") && /float|complex/.test(dtype)) continue;
        using array = await readNpy(`${folder}/${file}`, options);
        await assertBytes(array, dtype, file);
      }
    }
    for (const file of ["stored.npz", "compressed.npz"]) {
      using arrays = await readNpz(`${folder}/${file}`, options);
      assertEquals(Object.keys(arrays), ofNumpy);
      for (const [dtype, array] of Object.entries(arrays)) await assertBytes(array, dtype, file);
    }
  });
});

test("bfloat16 and types of 8 bits are read as ml_dtypes writes them", { skip: noNumpy || noMlDtypes }, async () => {
  await withFiles(async (folder, options) => {
    for (const dtype of ofMlDtypes) {
      using array = await readNpy(`${folder}/${dtype}.npy`, { ...options, dtype });
      await assertBytes(array, dtype, dtype);
    }
  });
});

test("safetensors files of Python are read", { skip: noSafetensors }, async () => {
  await withFiles(async (folder, options) => {
    using tensors = await readSafetensors(`${folder}/python.safetensors`, options);
    assertEquals([...tensors.metadata], [["format", "np"]]);
    assertEquals([...tensors.keys()].sort(), ofNumpy.filter((dtype) => dtype !== "complex128").sort());
    for (const [dtype, array] of tensors) await assertBytes(array, dtype, dtype);
  });
});

test("Python's libraries, as far as they are here, read all files that are written", { skip: noNumpy }, async () => {
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    const arrays: Record<string, DeviceArray<TypedArray>> = {};
    using owned = new DisposableStack();
    for (const dtype of ofNumpy.concat(ofMlDtypes)) {
      const array = owned.use(pool.allocateArray(elementTypeOf(dtype)!.type, { shape: [2, 3, 4], dtype }));
      array.as(Uint8Array).copyFrom(bytesOf(dtype));
      await writeNpy(array, `${folder}/${dtype}.npy`);
      arrays[dtype] = array;
    }
    await writeNpz(arrays, `${folder}/stored.npz`);
    await writeNpz(arrays, `${folder}/compressed.npz`, { compressed: true });
    const { complex128: _, ...others } = arrays;
    await writeSafetensors(others, `${folder}/poolpass.safetensors`, { metadata: { by: "poolpass" } });
    assertEquals(runPython("check", folder), "checked\n");
  });
});
