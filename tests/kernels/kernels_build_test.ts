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

test("every kernel has a module and is tested", () => {
  assertEquals(kernelNames(), [...exported.keys()]);
});

for (const [name, ptx] of exported) {
  const module = readKernelFile(`${name}.ts`);
  const recorded = recordedNvccVersion(module)!;

  test(`${name}.ts has the PTX of ${name}.ptx, after the signatures of its kernels`, () => {
    assertEquals(ptx, readKernelFile(`${name}.ptx`));
    const signatures = cSignatures(readKernelFile(`${name}.cu`));
    assertEquals(module, moduleSource(name, { ptx, signatures, nvcc: recorded }));
    assertEquals(kernelSignatures(ptx).map((kernel) => kernel.name), [name]);
    assert(signatures.length === 1 && signatures[0]!.startsWith(`void ${name}(`), signatures.join());
  });

  test(`${name}.ptx requires only CUDA 11.0 and sm_60, and has nothing to fuse`, () => {
    assertMatch(ptx, /^\.version 7\.0\n\.target sm_60\n\.address_size 64\n/);
    assertEquals(/\b(add|sub|mul)(\.ftz)?\.f(32|64)\b/.exec(ptx), null);
  });

  const skip = installed === recorded
    ? false
    : !("Deno" in globalThis)
    ? "only Deno runs nvcc"
    : `it was built by nvcc ${recorded}, and ${installed ?? "none"} is installed`;
  test(`nvcc builds ${name}.ptx from ${name}.cu`, { skip, long: true }, async () => {
    assertEquals(await buildKernel(name), { ptx, module });
  });
}
