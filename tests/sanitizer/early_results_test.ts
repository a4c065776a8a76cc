/**
 * Results in page-locked memory that a program reads before the copy is done.
 */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import {
  type Cuda,
  type CudaDevice,
  CudaError,
  type CudaStream,
  type DeviceBuffer,
  type HostBuffer,
  open,
  type SanitizerReport,
  struct,
} from "../../mod.ts";
import { driverNamed } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const byteLength = 64;
const Point = struct({ x: "u32", y: "u32" });

interface Context {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly x: DeviceBuffer;
  readonly host: HostBuffer;
}

async function reportsOf(
  driver: "software" | "cuda",
  program: (context: Context) => void | Promise<void>,
): Promise<SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver, sanitize: true, onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using x = pool.allocate(byteLength, stream);
  using host = cuda.allocateHost(byteLength);
  x.fill(7);
  await program({ cuda, gpu, stream, x, host });
  gpu.synchronize();
  return reports;
}

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);

  test(`what the library reads of a result is there [${driver}]`, { skip }, async () => {
    const waits: readonly (readonly [wait: (context: Context) => void | Promise<void>, isEnough: boolean])[] = [
      [() => {}, false],
      [({ gpu }) => gpu.defaultStream.synchronize(), false],
      [({ stream }) => stream.synchronize(), true],
      [({ stream }) => stream.finished(), true],
      [async ({ x, stream }) => void await x.read(Uint8Array, { stream }), true],
    ];
    for (const [wait, isEnough] of waits) {
      const reports = await reportsOf(driver, async (context) => {
        context.x.copyTo(context.host);
        await wait(context);
        Point.decode(new Uint8Array(context.host.buffer, 8));
      });
      assertEquals(reports.map(({ kind }) => kind), isEnough ? [] : ["unordered-write-read"]);
      for (const { accesses, message } of reports) {
        assertEquals(accesses.map(({ operation, stream }) => [operation, stream]), [
          ["decode", undefined],
          ["copyTo", "stream 1 of device 0"],
        ]);
        assertStringIncludes(message, "bytes 8 to 63 of a buffer of 64 bytes");
        assertStringIncludes(message, "  Wait for stream 1 of device 0 before the decode.");
      }
    }
  });

  test(`a struct that a launch copies from page-locked memory is there [${driver}]`, { skip }, async () => {
    const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry take(.param .align 4 .b8 point[8]) { ret; }`;
    for (const isOrdered of [true, false]) {
      const reports = await reportsOf(driver, ({ gpu, stream, x, host }) => {
        using module = gpu.loadModule(ptx);
        x.copyTo(host);
        if (isOrdered) stream.synchronize();
        module.kernel("take").launch({ grid: 1, block: 1, stream }, new DataView(host.buffer, 0, 8));
        stream.synchronize();
      });
      assertEquals(reports.map(({ accesses }) => accesses[0]!.operation), isOrdered ? [] : ["launch"]);
    }
  });

  test(`parts of page-locked memory that no copy writes may be read [${driver}]`, { skip }, async () => {
    const reports = await reportsOf(driver, ({ x, host }) => {
      x.subarray(0, 32).copyTo(host);
      Point.decode(new Uint8Array(host.buffer, 32));
      Point.decode(new Uint8Array(byteLength));
    });
    assertEquals(reports, []);
  });

  test(`a copy from what an earlier copy is still to write reads what that has written [${driver}]`, {
    skip,
  }, async () => {
    const reports = await reportsOf(driver, ({ gpu, stream, x, host }) => {
      using y = gpu.allocate(byteLength);
      x.copyTo(host, stream);
      y.copyFrom(host, stream);
      stream.synchronize();
      assertEquals(y.readSync(Uint8Array)[5], 7);
    });
    assertEquals(reports, []);
  });

  test(`copies into page-locked memory write what they would without the sanitizer [${driver}]`, { skip }, async () => {
    const reports = await reportsOf(driver, async ({ gpu, stream, x, host }) => {
      // A pending copy may still read the memory when the next one is about to write it.
      new Uint8Array(host.buffer).fill(3);
      using y = gpu.allocate(byteLength);
      y.copyFrom(host, stream);
      x.copyTo(host, stream);
      stream.synchronize();
      assertEquals([new Uint8Array(host.buffer)[5], y.readSync(Uint8Array)[5]], [7, 3]);
      // The same with a kernel, which has the memory's address.
      using module = gpu.loadModule(fillPtx);
      module.kernel("fill").launch({ grid: 1, block: 16, stream }, host, byteLength / 4, 9);
      y.copyFrom(host, stream);
      x.copyTo(host, stream);
      await stream.finished();
      assertEquals([new Uint8Array(host.buffer)[4], y.readSync(Uint8Array)[4]], [7, 9]);
    });
    assertEquals(reports, []);
  });
}

test("a program that reads a result too early finds a pattern, whatever the memory held", async () => {
  await reportsOf("software", ({ stream, x, host }) => {
    const bytes = new Uint8Array(host.buffer);
    for (const value of [1, 2]) {
      x.fill(value);
      x.subarray(0, 32).copyTo(host);
      assertEquals([bytes[0], bytes[31]], [0xcb, 0xcb]);
      stream.synchronize();
      assertEquals([bytes[0], bytes[31]], [value, value]);
    }
    // Memory that the copy does not write keeps its content.
    bytes.fill(5, 32);
    x.subarray(0, 32).copyTo(host);
    assertEquals(bytes[32], 5);
  });
});

test("memory that is used after a free on the host is reported as used later", () => {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: true, onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  const stream = gpu.createStream({ nonBlocking: true });
  const buffer = gpu.allocate(byteLength);
  const { address } = buffer;
  const kernel = gpu.loadModule(fillPtx).kernel("fill");
  buffer.free();
  kernel.launch({ grid: 1, block: 1, stream }, address, 1, 7);
  assertThrows(() => stream.synchronize(), CudaError, "cudaErrorIllegalAddress");
  assertEquals(reports.map(({ kind }) => kind), ["use-after-free"]);
  assertEquals(reports[0]!.accesses.map(({ operation }) => operation), ["kernel fill", "free"]);
  assertStringIncludes(reports[0]!.message, "The write of kernel fill comes after the memory was freed.");
});
