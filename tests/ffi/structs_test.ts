import { assertEquals } from "@std/assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  array3DDescriptorLayout,
  childGraphNodeParamsLayout,
  conditionalNodeParamsLayout,
  graphExecUpdateResultInfoLayout,
  graphInstantiateParamsLayout,
  kernelNodeParamsLayout,
  launchAttributeId,
  launchAttributeLayout,
  launchConfigLayout,
  memAccessDescLayout,
  memAllocNodeParamsLayout,
  memcpy3DLayout,
  memcpy3DPeerLayout,
  memcpyAttributesLayout,
  memLocationLayout,
  memPoolPropsLayout,
  memsetNodeParamsLayout,
  type NativeLayout,
  opaqueStructSizes,
  resourceDescLayout,
  resourceViewDescLayout,
  textureDescLayout,
} from "../../ffi/structs.ts";
import { cudaHeaders } from "../support/cuda_headers.ts";
import { test } from "../support/test.ts";

const layouts: readonly NativeLayout[] = [
  memPoolPropsLayout,
  memLocationLayout,
  memAccessDescLayout,
  launchConfigLayout,
  launchAttributeLayout,
  graphInstantiateParamsLayout,
  graphExecUpdateResultInfoLayout,
  kernelNodeParamsLayout,
  memsetNodeParamsLayout,
  memcpy3DLayout,
  memcpy3DPeerLayout,
  memcpyAttributesLayout,
  memAllocNodeParamsLayout,
  conditionalNodeParamsLayout,
  childGraphNodeParamsLayout,
  array3DDescriptorLayout,
  resourceDescLayout,
  resourceViewDescLayout,
  textureDescLayout,
];
/** The driver API's names of the runtime's structs. */
const driverNames: Readonly<Record<string, string>> = {
  cudaMemPoolProps: "CUmemPoolProps",
  cudaMemLocation: "CUmemLocation",
  cudaMemAccessDesc: "CUmemAccessDesc",
};

test("the structs have the sizes and offsets of CUDA's headers", { skip: reasonToSkip() }, () => {
  const expected: Record<string, number> = {};
  const lines: string[] = [];
  const expect = (expression: string, value: number) => {
    expected[expression] = value;
    lines.push(`printf("%s=%zu\\n", "${expression}", (size_t)${expression});`);
  };
  for (const { name, byteLength, fields } of layouts) {
    for (const type of name in driverNames ? [`struct ${name}`, driverNames[name]!] : [name]) {
      expect(`sizeof(${type})`, byteLength);
      for (const [field, { offset, type: fieldType }] of Object.entries(fields)) {
        expect(`offsetof(${type}, ${field})`, offset);
        expect(
          `sizeof(((${type} *)0)->${field})`,
          { "int": 4, "float": 4, "unsigned int": 4, "unsigned short": 2, "size_t": 8, "void *": 8 }[fieldType],
        );
      }
    }
  }
  for (const [name, byteLength] of Object.entries(opaqueStructSizes)) {
    const isTypedef = name.endsWith("_t");
    expect(`sizeof(${isTypedef ? name : `struct ${name}`})`, byteLength);
  }
  for (const [name, id] of Object.entries(launchAttributeId)) {
    expect(`CU_LAUNCH_ATTRIBUTE_${name.replace(/[A-Z]/g, "_$&").toUpperCase()}`, id);
  }
  assertEquals(valuesInC(lines), expected);
});

function valuesInC(lines: readonly string[]): Record<string, number> {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-structs-"));
  try {
    const source = join(folder, "structs.c");
    const headers = ["stddef.h", "stdio.h", "cuda.h", "cuda_runtime_api.h"].map((header) => `#include <${header}>`);
    writeFileSync(source, `${headers.join("\n")}\nint main(void) {\n${lines.join("\n")}\nreturn 0; }\n`);
    const program = join(folder, "structs");
    execFileSync("gcc", ["-I", cudaHeaders!, "-o", program, source]);
    const printed = execFileSync(program, { encoding: "utf8" }).trim().split("\n");
    return Object.fromEntries(printed.map((line) => {
      const [expression, value] = line.split("=");
      return [expression!, Number(value)];
    }));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function reasonToSkip(): string | false {
  if (cudaHeaders === undefined) return "CUDA's headers are not installed";
  try {
    execFileSync("gcc", ["--version"]);
    return false;
  } catch {
    return "gcc is not installed";
  }
}
