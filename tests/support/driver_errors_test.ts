import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { cudaErrorNumbers } from "../../src/support/cuda_error_codes.ts";
import { CudaError } from "../../src/support/errors.ts";
import { cannot, driverErrorOf, isLoss } from "../../src/support/driver_errors.ts";
import { cudaHeaders } from "./cuda_headers.ts";
import { test } from "./test.ts";

const withoutHeaders = cudaHeaders === undefined && "there are no CUDA headers";

function messageOf(code: keyof typeof cudaErrorNumbers, hint?: string): string {
  return (cannot("do it", new CudaError(cudaErrorNumbers[code], "cudaCall"), hint) as CudaError).message;
}

test("errors after which CUDA's header says that the process must end are losses", { skip: withoutHeaders }, () => {
  const header = readFileSync(join(cudaHeaders!, "driver_types.h"), "utf8");
  const described = [...header.matchAll(/\/\*\*((?:(?!\*\/)[^])*)\*\/\s*(cudaError\w+)\s*=\s*(\d+)/g)];
  const final = described.filter(([, comment]) => /must be\s+\*?\s*terminated/.test(comment!));
  assert(final.length >= 12, `${final.length} were found`);
  for (const [, , name, number] of final) assert(isLoss(new CudaError(Number(number), "cudaCall")), name);
});

test("the caller's advice is appended unless the error has its own", () => {
  const hint = "try that";
  const failed = "Cannot do it: cudaCall failed: cudaError";
  assertEquals(messageOf("cudaErrorInvalidValue"), `${failed}InvalidValue (1)`);
  assertEquals(messageOf("cudaErrorInvalidValue", hint), `${failed}InvalidValue (1); try that`);
  assertEquals(messageOf("cudaErrorMemoryAllocation"), `${failed}MemoryAllocation (2); free memory or ask for less`);
  assertEquals(messageOf("cudaErrorMemoryAllocation", hint), `${failed}MemoryAllocation (2); try that`);
  assertEquals(messageOf("cudaErrorCallRequiresNewerDriver", hint), `${failed}CallRequiresNewerDriver (36)`);
  for (const code of ["cudaErrorOperatingSystem", "cudaErrorContained"] as const) {
    assertEquals(messageOf(code, hint), messageOf(code));
    assert(messageOf(code).includes("; "), `${code} says what to try`);
  }
});

test("details added to an error follow the driver's message", () => {
  const given = new CudaError(1, "cudaCall");
  assert(driverErrorOf(cannot("do a part of it", given, "try that")) === given);
  assert(driverErrorOf(given) === given);
  const other = new TypeError("no");
  assert(driverErrorOf(other) === other && cannot("do it", other) === other);
});
