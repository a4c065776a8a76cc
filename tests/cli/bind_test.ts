import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type CudaModule, open } from "../../mod.ts";
import { compilerHere } from "../support/compiler_here.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";

const isDeno = "Deno" in globalThis;
const skip = compilerHere() === undefined && "there is no compiler of CUDA C++";
const mod = fileURLToPath(new URL("../../mod.ts", import.meta.url));
const debugged = fileURLToPath(new URL("debugged/", import.meta.url));

/** Writes sources into a new folder, whose name has a space, and calls the body with the path of the first. */
function withSources(
  sources: Readonly<Record<string, string>>,
  body: (path: string, folder: string) => Promise<void>,
): Promise<void> {
  return inFolder(async (parent) => {
    const folder = join(parent, "my kernels");
    mkdirSync(folder);
    for (const [name, text] of Object.entries(sources)) writeFileSync(join(folder, name), text);
    await body(join(folder, Object.keys(sources)[0]!), folder);
  });
}

const scale = `#include "weight.cuh"
template <typename T>
__global__ void scale(T* x, Weight weight, int n) {
  const int i = threadIdx.x;
  if (i < n) x[i] = FACTOR * weight.value * x[i] + weight.offsets[i % 2];
}
`;
const weight = "struct Weight {\n  float value;\n  short offsets[2];\n};\n";

test("a generated module runs, with its structs and the names of its templates", { skip }, async () => {
  await withSources({ "scale.cu": scale, "weight.cuh": weight }, async (path, folder) => {
    const options = ["--import", mod, "--define", "FACTOR=2", "--name-expression", "scale<float>"];
    assertEquals(await poolpass("bind", path, ...options), {
      code: 0,
      output: `${join(folder, "scale.ts")}: scale<float>\n`,
      errors: "",
    });
    const source = readFileSync(join(folder, "scale.ts"), "utf8");
    const command = `poolpass bind scale.cu --import ${mod} --define FACTOR=2 --name-expression 'scale<float>'`;
    assertStringIncludes(source, `// Generated from scale.cu by \`${command}\`, compiled by ${compilerHere()}. Do not`);
    assertMatch(source, /: \[x: Pointer<Float32Array>, weight: StructArgument<typeof Weight.fields>, n: number\];/);
    assert(!source.includes(folder.slice(0, -1)), "the module does not depend on its folder");

    const { ptx, names, Weight } = await import(pathToFileURL(join(folder, "scale.ts")).href);
    using cuda = open({ driver: "software" });
    const gpu = cuda.device(0);
    using module: CudaModule = gpu.loadModule(ptx as string);
    using x = gpu.defaultPool.allocateArray(Float32Array, 3);
    x.copyFrom(new Float32Array([1, 2, 3]));
    const kernel = module.kernel(names["scale<float>"]);
    kernel.launch({ grid: 1, block: 32 }, x, Weight({ value: 1.5, offsets: [10, 20] }), 3);
    assertEquals(await x.toTypedArray(), new Float32Array([13, 26, 19]));
  });
});

test("a source and the PTX that is compiled for a debugger have the same types", { skip, long: true }, async () => {
  await inFolder(async (folder) => {
    const out = join(folder, "parameters.ts");
    const bound = await poolpass("bind", join(debugged, "parameters.cu"), "--out", out, "--import", "../../../mod.ts");
    assertEquals(bound.code, 0, bound.errors);
    const typesIn = (path: string) =>
      readFileSync(path, "utf8").replace(/^.*\n/, "").replace(/\n\/\*\* PTX of the kernels[^]*/, "")
        .replaceAll("parameters.ptx", "parameters.cu");
    assertEquals(typesIn(out), typesIn(join(debugged, "parameters.ts")));
  });
});

test("compilers' errors and warnings name the file, and nothing is written", { skip, long: true }, async () => {
  await withSources({ "wrong.cu": "__global__ void wrong(float* x) {\n  x[0] = y;\n}\n" }, async (path, folder) => {
    const { code, output, errors } = await poolpass("bind", path);
    assertEquals([code, output], [1, ""]);
    assert(errors.startsWith(`${path}(2): error: identifier "y" is undefined`), errors);
    assert(!existsSync(join(folder, "wrong.ts")));
    writeFileSync(path, "template <typename T> __global__ void t(T* x) {}\n");
    assertMatch((await poolpass("bind", path)).errors, /wrong\.cu: it has no kernels; .* --name-expression "scale<f/);
    const named = await poolpass("bind", path, "--name-expression", "u<float>");
    assertMatch(named.errors, /wrong\.cu: error in the name expression "u<float>": /);
    writeFileSync(path, 'extern "C" __global__ void warns(float* x) {\n  int unused = 1;\n}\n');
    const warned = await poolpass("bind", path);
    assertEquals(warned.code, 0);
    assert(warned.errors.startsWith(`${path}(2): warning`), warned.errors);
  });
});

test("--check compares, and --ptx writes the PTX beside the module", { skip, long: true }, async () => {
  await withSources({ "k.cu": 'extern "C" __global__ void k(int n) {}\n' }, async (path, folder) => {
    assertMatch((await poolpass("bind", path, "--check")).errors, /k\.ts is not what .*k\.cu gives: bind it again\n$/);
    assertEquals((await poolpass("bind", path, "--ptx")).code, 0);
    const { ptx } = await import(pathToFileURL(join(folder, "k.ts")).href);
    assertEquals(readFileSync(join(folder, "k.ptx"), "utf8"), ptx);
    assertEquals(await poolpass("bind", path, "--ptx", "--check"), { code: 0, output: "", errors: "" });
    writeFileSync(path, 'extern "C" __global__ void k(int m) {}\n');
    const { code, errors } = await poolpass("bind", path, "--ptx", "--check");
    assertEquals(code, 1);
    assertEquals(errors.match(/k\.\w+ is not what/g), ["k.ts is not what"]);
  });
});

test("generated modules are checked, formatted and free of lint", {
  skip: skip || !isDeno && "only on Deno",
  long: true,
}, async () => {
  const config = fileURLToPath(new URL("../../deno.json", import.meta.url));
  await withSources({ "scale.cu": scale, "weight.cuh": weight }, async (path, folder) => {
    const options = ["--import", mod, "-D", "FACTOR=2", "--name-expression", "scale<float>", "-I", folder];
    assertEquals((await poolpass("bind", path, ...options)).code, 0);
    const use = `import { open } from "${mod}";
import { names, ptx, Weight } from "./scale.ts";
using cuda = open();
const kernel = cuda.device(0).loadModule(ptx).kernel(names["scale<float>"]);
const x = cuda.device(0).allocate(4);
kernel.launch({ grid: 1, block: 1 }, x, Weight({ value: 1, offsets: [1, 2] }), 3);
// @ts-expect-error: the weight is a struct
kernel.launch({ grid: 1, block: 1 }, x, 1.5, 3);
// @ts-expect-error: there is no such kernel
cuda.device(0).loadModule(ptx).kernel("scale");
`;
    writeFileSync(join(folder, "use.ts"), use);
    const files = [join(folder, "scale.ts"), join(folder, "use.ts")];
    for (
      const command of [["check", "--config", config], ["lint", "--config", config], [
        "fmt",
        "--check",
        "--config",
        config,
      ]]
    ) {
      const { status, stderr } = spawnSync(process.execPath, [...command, ...files], { encoding: "utf8" });
      assertEquals(status, 0, `${command[0]}: ${stderr}`);
    }
  });
});
