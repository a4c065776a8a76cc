/** Memory of the program that is page-locked, under the sanitizer: it is ordered as other page-locked memory is. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { ptx } from "../../kernels/fill.ts";
import {
  type Cuda,
  type CudaDevice,
  type CudaStream,
  type DeviceBuffer,
  open,
  type SanitizerReport,
} from "../../mod.ts";
import { test } from "../support/test.ts";

const byteLength = 4096;

interface Context {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly a: CudaStream;
  readonly b: CudaStream;
  readonly x: DeviceBuffer;
  /** A part of a larger buffer. */
  readonly memory: Uint8Array;
}

/** Returns what the sanitizer reports of a program. */
async function reportsOf(program: (context: Context) => void | Promise<void>): Promise<readonly SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  const onReport = (report: SanitizerReport) => void reports.push(report);
  using cuda = open({ driver: "software", sanitize: ["stream-order", "memory"], onReport });
  const gpu = cuda.device(0);
  using a = gpu.createStream({ nonBlocking: true });
  using b = gpu.createStream({ nonBlocking: true });
  using x = gpu.allocate(byteLength);
  const memory = new Uint8Array(new SharedArrayBuffer(3 * byteLength), 100, byteLength);
  await program({ cuda, gpu, a, b, x, memory });
  // Some programs lose the device.
  await gpu.finished().catch(() => {});
  return reports;
}

test("registered memory that is changed before a copy has read it is reported", async () => {
  for (const waits of [true, false]) {
    const reports = await reportsOf(({ cuda, gpu, x, a, memory }) => {
      using host = cuda.registerHost(memory);
      x.copyFrom(waits ? host : memory, a);
      if (waits) a.synchronize();
      memory.fill(1, 16, 20);
      gpu.synchronize();
    });
    assertEquals(reports.map(({ kind }) => kind), waits ? [] : ["source-overwritten"]);
    if (!waits) assertStringIncludes(reports[0]!.message, "bytes 16 to 19 of a buffer of 4096 bytes");
  }
});

test("a kernel and a copy that use registered memory without an order are reported", async () => {
  for (const isOrdered of [true, false]) {
    const reports = await reportsOf(({ cuda, gpu, x, a, b, memory }) => {
      using host = cuda.registerHost(memory);
      using module = gpu.loadModule(ptx);
      module.kernel("fill").launch({ grid: 1, block: 64, stream: a }, host, byteLength, 5);
      if (isOrdered) b.wait(a);
      x.copyFrom(host, b);
      gpu.synchronize();
    });
    assertEquals(reports.map(({ kind }) => kind), isOrdered ? [] : ["unordered-write-read"]);
  }
});

test("a kernel that writes behind registered memory, or after it was unregistered, is reported", async () => {
  const behind = await reportsOf(async ({ cuda, gpu, a, memory }) => {
    using host = cuda.registerHost(memory);
    using module = gpu.loadModule(ptx);
    module.kernel("fill").launch({ grid: 1, block: 1, stream: a }, host.address + BigInt(byteLength), 4n, 5);
    await a.finished().catch(() => {});
  });
  assertEquals(behind.map(({ kind }) => kind), ["out-of-bounds"]);
  const after = await reportsOf(async ({ cuda, gpu, a, memory }) => {
    const host = cuda.registerHost(memory);
    const { address } = host;
    host[Symbol.dispose]();
    using module = gpu.loadModule(ptx);
    module.kernel("fill").launch({ grid: 1, block: 1, stream: a }, address, 4n, 5);
    await a.finished().catch(() => {});
  });
  assertEquals(after.map(({ kind }) => kind), ["use-after-free"]);
});
