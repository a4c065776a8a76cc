import { assert, assertEquals, assertThrows } from "@std/assert";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { dlopen, platform } from "../../ffi/native/host.ts";
import { compilerVersion, targets } from "../../ffi/native/shim/build.ts";
import { shim, shimRefusal } from "../../ffi/native/shim/shim.ts";
import * as x86_64 from "../../ffi/native/shim/x86_64.ts";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { CudaError } from "../../src/support/errors.ts";
import { open } from "../../src/open.ts";
import { startScript } from "../support/child_process.ts";
import { driversUnderTest, tooFewDevices } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const target = targets[0]!;
const isForHere = ["x86_64", "x64"].includes(platform().processor);
const skip = shimRefusal() ?? (isForHere ? false : "the library is for another processor");
const withoutCompiler = skip || (compilerVersion(target.compiler) === undefined ? "gcc is not installed" : false);

/** A temporary folder, which is deleted when it is disposed. */
class TemporaryFolder implements Disposable {
  readonly path: string = mkdtempSync("/tmp/poolpass-shim-");

  /** Copies the sources of the library into the folder. */
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

test("the library stays loaded when it is closed, because a thread may be inside a call", { skip }, () => {
  using folder = new TemporaryFolder();
  const path = `${folder.path}/shim.so`;
  writeFileSync(path, Uint8Array.fromBase64(x86_64.library));
  dlopen(path, { poolpass_getpid: { parameters: [], result: "i32" } }).close();
  assert(readFileSync("/proc/self/maps", "utf8").includes(path));
});

test(
  "Workers that end while they wait do not affect other threads, and one library stays loaded",
  { skip, long: true },
  async () => {
    using folder = new TemporaryFolder();
    await using child = startScript("children/ended_worker.ts", [`${folder.path}/socket`], {
      permissions: ["--allow-all"],
    });
    assertEquals([await child.nextLine(), await child.nextLine()], ["received 7", "libraries 1"]);
    assertEquals(await child.ended, 0);
  },
);

test(
  "another version of poolpass in the same process calls its own library",
  { skip: withoutCompiler, long: true },
  async () => {
    using folder = new TemporaryFolder().copyLibrary();
    const own = `${folder.path}/ffi/native/shim`;
    const source = readFileSync(`${own}/shim.c`, "utf8");
    writeFileSync(`${own}/shim.c`, source.replace(/(EXPORT int poolpass_getpid\(void\)).*/, "$1 { return 42; }"));
    const { buildModule } = await import(`${own}/build.ts`) as typeof import("../../ffi/native/shim/build.ts");
    writeFileSync(`${own}/x86_64.ts`, buildModule(target));
    assertEquals(shim().poolpass_getpid(), process.pid);
    const other = await import(`${own}/shim.ts`) as typeof import("../../ffi/native/shim/shim.ts");
    assertEquals(other.shim().poolpass_getpid(), 42);
    assertEquals(shim().poolpass_getpid(), process.pid);
  },
);

test("a kernel cannot access memory of another copy's software device", { skip, long: true }, async () => {
  using folder = new TemporaryFolder().copyLibrary();
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
  test(`two copies of poolpass on one thread use the devices that they name [${driver.name}]`, { skip }, async () => {
    using folder = new TemporaryFolder().copyLibrary();
    const { CudaDriver } = await import(
      `${folder.path}/ffi/cuda_driver.ts`
    ) as typeof import("../../ffi/cuda_driver.ts");
    using drivers = new DisposableStack();
    const one = drivers.adopt(driver.open(), (driver) => driver.close());
    const options = driver.name === "cuda" ? {} : { cudart: null };
    const other = drivers.adopt(new CudaDriver(options), (driver) => driver.close());
    // Tells the devices apart by the change of their free memory.
    const free = [one.memGetInfo(0).free, one.memGetInfo(1).free] as const;
    drivers.adopt(one.malloc(0, 2 ** 30), (address) => one.free(0, address));
    for (let round = 0; round < 2; round++) {
      assert(free[0] - one.memGetInfo(0).free > 2 ** 29);
      assert(free[1] - other.memGetInfo(1).free < 2 ** 29);
    }
  });
}
