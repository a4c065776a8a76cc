import { assert, assertEquals, assertMatch } from "@std/assert";
import { kernelSignatures } from "../../src/ptx/kernel_signature.ts";
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

const installed = "Deno" in globalThis ? await nvccVersion() : undefined;

test("the kernels are those of the documentation", () => {
  const described = [...readKernelFile("README.md").matchAll(/^\| \[`(\w+)`\]/gm)].map((match) => match[1]!);
  assertEquals(described.toSorted(), kernelNames());
});

for (const name of kernelNames()) {
  const { ptx } = await import(`../../kernels/${name}.ts`) as { ptx: string };
  const module = readKernelFile(`${name}.ts`);
  const recorded = recordedNvccVersion(module)!;

  test(`${name}.ts has the PTX of ${name}.ptx, after the signatures of its kernels`, () => {
    assertEquals(ptx, readKernelFile(`${name}.ptx`));
    const signatures = cSignatures(readKernelFile(`${name}.cu`));
    assertEquals(module, moduleSource(name, { ptx, signatures, nvcc: recorded }));
    const names = signatures.map((signature) => /^void (\w+)\(/.exec(signature)![1]!);
    assert(names.length > 0 && names.every((kernel) => kernel.startsWith(name)), names.join());
    assertEquals(kernelSignatures(ptx).map((kernel) => kernel.name).toSorted(), names.toSorted());
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
