import { assert, assertEquals, assertMatch } from "@std/assert";
import { kernelSignatures } from "../../src/ptx/kernel_signature.ts";
import { ptx as fill } from "../../kernels/fill.ts";
import { ptx as saxpy } from "../../kernels/saxpy.ts";
import {
  buildKernel,
  cSignatures,
  kernelNames,
  moduleSource,
  nvccVersion,
  readKernelFile,
  recordedNvccVersion,
} from "../../kernels/build.ts";
import { test } from "../support/test.ts";

const exported = new Map([["fill", fill], ["saxpy", saxpy]]);
const installed = "Deno" in globalThis ? await nvccVersion() : undefined;

test("every kernel here has a module and is looked at", () => {
  assertEquals(kernelNames(), [...exported.keys()]);
});

for (const [name, ptx] of exported) {
  const module = readKernelFile(`${name}.ts`);
  const recorded = recordedNvccVersion(module)!;

  test(`${name}.ts holds what ${name}.ptx holds, under its kernels' signatures`, () => {
    assertEquals(ptx, readKernelFile(`${name}.ptx`));
    const signatures = cSignatures(readKernelFile(`${name}.cu`));
    assertEquals(module, moduleSource(name, { ptx, signatures, nvcc: recorded }));
    assertEquals(kernelSignatures(ptx).map((kernel) => kernel.name), [name]);
    assert(signatures.length === 1 && signatures[0]!.startsWith(`void ${name}(`), signatures.join());
  });

  test(`${name}.ptx asks for no more than CUDA 11.0 and an sm_60, and leaves nothing to fuse`, () => {
    assertMatch(ptx, /^\.version 7\.0\n\.target sm_60\n\.address_size 64\n/);
    assertEquals(/\b(add|sub|mul)(\.ftz)?\.f(32|64)\b/.exec(ptx), null);
  });

  const skip = installed === recorded
    ? false
    : !("Deno" in globalThis)
    ? "nvcc is run by Deno alone"
    : `nvcc ${recorded} built it, and here is ${installed === undefined ? "none" : installed}`;
  test(`nvcc makes ${name}.ptx of ${name}.cu`, { skip }, async () => {
    assertEquals(await buildKernel(name), { ptx, module });
  });
}
