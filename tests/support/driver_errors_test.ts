import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { cudaErrorNumbers } from "../../src/support/errors.ts";
import { CudaError, CudaUnavailableError, open } from "../../mod.ts";
import { cannot, driverErrorOf, isLoss } from "../../src/support/driver_errors.ts";
import { cudaHeaders } from "./cuda_headers.ts";
import { driversUnderTest, testOnEachDriver } from "./drivers.ts";
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

test("an error's cause is what its message does not say: an error of the system", () => {
  const failed = cannot("do it", new CudaError(1, "cudaCall")) as CudaError;
  assert(!("cause" in failed), "runtimes print a cause with its stack");
  const cause = new RangeError("no more files");
  assertEquals((cannot("do it", new CudaError(304, "cudaCall", "no", { cause })) as CudaError).cause, cause);
});

testOnEachDriver("a CUDA error that nobody catches is printed without causes or inner functions", (cuda) => {
  const device = cuda.device(0);
  using stream = device.createStream();
  using pool = device.createPool();
  // What a function calls last has no frame of that function in Bun, so nothing is called last here.
  const failures = [
    () => {
      device.loadModule(".version 7.0\n.target sm_60\n.address_size 64\n.entry f() { foo.u32 %r1; ret; }");
      return 0;
    },
    () => {
      pool.allocate(2 ** 50, stream);
      return 0;
    },
  ];
  for (const fail of failures) {
    const error: Error = assertThrows(fail, CudaError);
    const [top = ""] = error.stack!.split("\n").filter((line) => /^\s+at /.test(line));
    assert(top.includes("driver_errors_test"), error.stack);
    const printed = inspect(error);
    assert(!/cause/i.test(printed) && printed.includes("driver_errors_test"), printed);
  }
});

const hasGpu = driversUnderTest.every(({ skip }) => skip === false) && "there is a GPU";

test("where there is no CUDA, the stack starts at the call of open", { skip: hasGpu }, () => {
  const error = assertThrows(() => open({ driver: "cuda" }), CudaUnavailableError);
  const printed = inspect(error);
  assert(printed.includes("driver_errors_test") && !/cuda_libraries|cuda_driver|cause/.test(printed), printed);
});

test("details added to an error follow the driver's message", () => {
  const given = new CudaError(1, "cudaCall");
  assert(driverErrorOf(cannot("do a part of it", given, "try that")) === given);
  assert(driverErrorOf(given) === given);
  const other = new TypeError("no");
  assert(driverErrorOf(other) === other && cannot("do it", other) === other);
});
