import { assert, assertEquals, assertThrows } from "@std/assert";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { dlopen, platform } from "../../ffi/host.ts";
import { compilerVersion, targets } from "../../ffi/shim/build.ts";
import { shim, shimRefusal } from "../../ffi/shim/shim.ts";
import * as x86_64 from "../../ffi/shim/x86_64.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { CudaError } from "../../src/support/errors.ts";
import { open } from "../../src/open.ts";
import { startScript } from "../support/child_process.ts";
import { driversUnderTest, tooFewDevices } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const target = targets[0]!;
const isForHere = ["x86_64", "x64"].includes(platform().processor);
const skip = shimRefusal() ?? (isForHere ? false : "the library is another processor's");
const withoutCompiler = skip || (compilerVersion(target.compiler) === undefined ? "there is no gcc" : false);

/** A folder that goes at the end. */
class Folder implements Disposable {
  readonly path: string = mkdtempSync("/tmp/poolpass-shim-");

  /** Puts a copy of the library there. */
  copyLibrary(): this {
    for (const part of ["ffi", "src"]) {
      cpSync(new URL(`../../${part}`, import.meta.url), `${this.path}/${part}`, { recursive: true });
    }
    return this;
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

test("the library stays loaded when it is closed: a thread may be in a call of it", { skip }, () => {
  using folder = new Folder();
  const path = `${folder.path}/shim.so`;
  writeFileSync(path, Uint8Array.fromBase64(x86_64.library));
  dlopen(path, { poolpass_getpid: { parameters: [], result: "i32" } }).close();
  assert(readFileSync("/proc/self/maps", "utf8").includes(path));
});

test("Workers that end while they wait leave the other threads as they were, and one library", { skip }, async () => {
  using folder = new Folder();
  await using child = startScript("children/ended_worker.ts", [`${folder.path}/socket`], {
    permissions: ["--allow-all"],
  });
  assertEquals([await child.nextLine(), await child.nextLine()], ["received 7", "libraries 1"]);
  assertEquals(await child.ended, 0);
});

test("another version of poolpass in the same process calls its own library", { skip: withoutCompiler }, async () => {
  using folder = new Folder().copyLibrary();
  const own = `${folder.path}/ffi/shim`;
  const source = readFileSync(`${own}/shim.c`, "utf8");
  writeFileSync(`${own}/shim.c`, source.replace(/(EXPORT int poolpass_getpid\(void\)).*/, "$1 { return 42; }"));
  const { buildModule } = await import(`${own}/build.ts`) as typeof import("../../ffi/shim/build.ts");
  writeFileSync(`${own}/x86_64.ts`, buildModule(target));
  assertEquals(shim().poolpass_getpid(), process.pid);
  const other = await import(`${own}/shim.ts`) as typeof import("../../ffi/shim/shim.ts");
  assertEquals(other.shim().poolpass_getpid(), 42);
  assertEquals(shim().poolpass_getpid(), process.pid);
});

test("memory of another copy's software device is none of this one's", { skip }, async () => {
  using folder = new Folder().copyLibrary();
  const { open: openOther } = await import(`${folder.path}/src/open.ts`) as typeof import("../../src/open.ts");
  using cuda = open({ driver: "software" });
  using other = openOther({ driver: "software" });
  using module = cuda.device(0).loadModule(fillPtx);
  using own = cuda.device(0).allocate(64);
  using foreign = other.device(0).allocate(64);
  module.kernel("fill").launch({ grid: 1, block: 1 }, own, 64, 1);
  cuda.device(0).synchronize();
  module.kernel("fill").launch({ grid: 1, block: 1 }, foreign, 64, 1);
  assertThrows(() => cuda.device(0).synchronize(), CudaError, "cudaErrorIllegalAddress");
});

for (const driver of driversUnderTest.filter(({ name }) => name !== "software")) {
  const skip = driver.skip || tooFewDevices(driver, 2);
  test(`two copies of poolpass on one thread reach the devices that they name [${driver.name}]`, { skip }, async () => {
    using folder = new Folder().copyLibrary();
    const { CudaDriver } = await import(
      `${folder.path}/ffi/cuda_driver.ts`
    ) as typeof import("../../ffi/cuda_driver.ts");
    using drivers = new DisposableStack();
    const one = drivers.adopt(driver.open(), (driver) => driver.close());
    const options = driver.name === "cuda" ? {} : { cudart: null };
    const other = drivers.adopt(new CudaDriver(options), (driver) => driver.close());
    // The devices can be told apart by what they have lost since.
    const free = [one.memGetInfo(0).free, one.memGetInfo(1).free] as const;
    drivers.adopt(one.malloc(0, 2 ** 30), (address) => one.free(0, address));
    for (let round = 0; round < 2; round++) {
      assert(free[0] - one.memGetInfo(0).free > 2 ** 29);
      assert(free[1] - other.memGetInfo(1).free < 2 ** 29);
    }
  });
}
