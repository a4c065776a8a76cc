import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { effectsOf } from "../../src/call_effects.ts";
import type { Driver } from "../../src/driver.ts";
import { DeviceArray } from "../../src/memory/device_array.ts";
import { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { MemoryPool } from "../../src/memory/pools/memory_pool.ts";
import { addDisplays, addDisplayToReport } from "../../src/notebook/displays.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaDevice } from "../../src/objects/cuda_device.ts";
import { CudaKernel } from "../../src/objects/kernels/cuda_kernel.ts";
import { open } from "../../src/open.ts";
import { ptx } from "../../kernels/saxpy.ts";
import type { SanitizerReport } from "../../src/sanitizer/reporting/sanitizer_report.ts";
import { Session } from "../../src/session.ts";
import { replaceProperty, watchedDriver } from "../support/adapted_driver.ts";
import { driverNamed, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

addDisplays();

/** What a notebook shows of an object. */
async function display(object: object): Promise<{ text: string; html: string }> {
  const method = Symbol.for("Jupyter.display");
  const bundle = await (object as { [name: symbol]: () => Promise<Record<string, string>> })[method]!();
  const { "text/plain": text, "text/html": html, ...others } = bundle;
  assertEquals(others, {});
  assertWellFormed(html!);
  return { text: text!, html: html! };
}

/** Fails unless each tag is closed by the one that it was opened by, and no other `<` or `&` is left. */
function assertWellFormed(html: string): void {
  const opened: string[] = [];
  const rest = html.replace(/<(\/?)(\w+)((?: [\w:-]+="[^"<>]*")*)(\/?)>/g, (_, isEnd, name, __, isEmpty) => {
    if (isEnd) assertEquals(opened.pop(), name, html);
    else if (!isEmpty) opened.push(name);
    return "";
  }).replace(/&#\d+;/g, "");
  assertEquals([opened, /[<>&]/.exec(rest)], [[], null], html);
}

/** The text of the cell beside a name. */
function cell(html: string, name: string): string | undefined {
  return new RegExp(`<th [^>]*>${name}</th><td [^>]*>([^<]*)</td>`).exec(html)?.[1];
}

/** Opens the software device, and records the calls of its driver. */
function openWatched(methods: Partial<Driver> = {}): { cuda: Cuda; calls: [name: string, ...unknown[]][] } {
  const calls: [string, ...unknown[]][] = [];
  const driver = watchedDriver(driverNamed("software").open(), (name, parameters) => {
    calls.push([name, ...parameters]);
  }, methods);
  return { cuda: new Cuda(new Session(driver)), calls };
}

testOnEachDriver("a notebook shows an array's type, shape, values and range", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using stream = cuda.device(0).createStream();
  using small = pool.allocateArray(Int32Array.of(3, -1, 4, 1, -5), stream);
  const { text, html } = await display(small);
  assertEquals(text, `${small}\n[3, -1, 4, 1, -5]`);
  assertEquals(["dtype", "shape", "byteLength", "device"].map((name) => cell(html, name)), [
    "int32",
    "[5]",
    "20 bytes",
    "0",
  ]);
  assertStringIncludes(html, "5 of 5 elements read, 5 finite: minimum -5, mean 0.4, maximum 4");
  // The line goes through the greatest element in the middle, and the least at the right end.
  assertMatch(
    html,
    /<svg [^>]*viewBox="0 0 360 60"[^>]*><path [^>]*d="M0\.0 [\d.]+h\.1L[^"]*L180\.0 1\.0L[^"]*L360\.0 59\.0"/,
  );

  using long = pool.allocateArray(Float64Array.from({ length: 5000 }, (_, index) => index / 4), stream);
  const shown = await display(long);
  assertStringIncludes(shown.text, "[0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, ..., 1248, 1248.25, ");
  assertMatch(shown.html, /512 of 5000 elements read, .* maximum 1249\.75/);
  using bigints = pool.allocateArray(BigUint64Array.of(2n ** 64n - 1n, 0n), stream);
  assertStringIncludes((await display(bigints)).text, "\n[18446744073709551615, 0]");
  using one = pool.allocateArray(Float32Array.of(NaN), stream);
  const { html: ofNaN } = await display(one);
  assertStringIncludes(ofNaN, "[NaN]");
  assert(!ofNaN.includes("<svg"), "There is nothing to draw");
  assertStringIncludes((await display(long.subarray(7, 7))).text, "\n[]");
});

testOnEachDriver("a notebook shows a matrix as a heat map, and leaves out what is not finite", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using stream = cuda.device(0).createStream();
  using flat = pool.allocateArray(Float32Array.of(0, 1, 2, 3, NaN, 15), stream);
  const { text, html } = await display(flat.as(flat.type, { shape: [2, 3] }));
  assertStringIncludes(text, "\n[[0, 1, 2],\n [3, NaN, 15]]");
  assertEquals(cell(html, "shape"), "[2, 3]");
  const paths = [...html.matchAll(/<path fill="([^"]+)" d="([^"]+)"/g)].map(([, color, path]) => [color, path]);
  assertEquals(paths.map(([, path]) => path), [
    "M0 0h1v1h-1z",
    "M1 0h1v1h-1z",
    "M2 0h1v1h-1z",
    "M0 1h1v1h-1z",
    "M2 1h1v1h-1z",
  ]);
  assertEquals(new Set(paths.map(([color]) => color)).size, 5);
  assertStringIncludes(html, "6 of 6 elements read, 5 finite");

  using volume = pool.allocateArray(Uint8Array.from({ length: 2 * 300 * 200 }, (_, index) => index % 200), stream);
  const large = await display(volume.as(volume.type, { shape: [2, 300, 200] }));
  assertMatch(large.html, /<svg [^>]*width="160" height="240" viewBox="0 0 32 32"/);
  assertStringIncludes(large.text, "\n[[0, 1, 2, ..., 197, 198, 199],\n [0, 1, 2, ");
  assertStringIncludes(large.html, "1024 of 120000 elements read");
  using column = pool.allocateArray(Int16Array.of(1, 2, 3), stream);
  assertStringIncludes((await display(column.as(column.type, { shape: [3, 1] }))).text, "\n[[1],\n [2],\n [3]]");
});

testOnEachDriver("a notebook shows elements that JavaScript has no typed array for", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using stream = cuda.device(0).createStream();
  using halves = pool.allocateArray(Uint16Array.of(0x3f80, 0xc020, 0x7f80, 0), stream);
  const { text, html } = await display(halves.as(Uint16Array, { dtype: "bfloat16", shape: [2, 2] }));
  assertStringIncludes(text, "\n[[1, -2.5],\n [Infinity, 0]]");
  assertEquals(["dtype", "type", "shape"].map((name) => cell(html, name)), ["bfloat16", "Uint16Array", "[2, 2]"]);
  using parts = pool.allocateArray(Float32Array.of(1, 2, 3, 4, 5, 6), stream);
  const complex = await display(parts.as(Float32Array, { dtype: "complex64", shape: [3, 1] }));
  assertStringIncludes(complex.text, "\n[1, 2, 3, 4, 5, 6]");
  assertEquals(["dtype", "shape"].map((name) => cell(complex.html, name)), ["complex64", "[3, 1]"]);
});

testOnEachDriver("a notebook shows the bytes of a buffer without a type", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using stream = cuda.device(0).createStream();
  using buffer = pool.allocate(300, stream);
  buffer.copyFrom(Uint8Array.from({ length: 300 }, (_, index) => index));
  const { text } = await display(buffer);
  const [title, first, ...others] = text.split("\n");
  assertEquals([title, first!.trimEnd()], [`${buffer}`, "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"]);
  assertEquals(others.length, 15);
});

for (const type of [Uint8Array, Float16Array, Float32Array, Float64Array, BigInt64Array]) {
  test(`a preview reads at most 4 KiB of a large ${type.name}, and blocks on nothing`, async () => {
    const { cuda, calls } = openWatched();
    using _ = cuda;
    using pool = cuda.device(0).createPool();
    using stream = cuda.device(0).createStream();
    using array = pool.allocateArray(type as typeof Float32Array, 1 << 20, stream);
    array.fill((type as unknown) === BigInt64Array ? 7n : 7);
    for (
      const object of [
        array,
        array.as(array.type, { shape: [1024, 1024] }),
        array.subarray(0, 3).as(array.type, { shape: [3, 1] }),
      ]
    ) {
      calls.length = 0;
      const { text } = await display(object);
      assertMatch(text, /\n\[+7(?:, 7|\])/);
      const read = calls.filter(([name]) => name === "memcpyDtoHAsync");
      const byteLength = read.reduce((sum, [, , target]) => sum + (target as Uint8Array).byteLength, 0);
      assert(byteLength > 0 && byteLength <= 4096, `${byteLength} bytes`);
      // Copies to page-locked memory do not block, and only their stream waits for them.
      const others = calls.map(([name]) => name).filter((name) => name !== "memcpyDtoHAsync");
      assertEquals(others.filter((name) => effectsOf(name).blocksOn ?? effectsOf(name).mayBlockOn), []);
    }
  });
}

test("while a stream is captured in a graph, displays call nothing that would invalidate it", async () => {
  let isCapturing = false;
  const { cuda, calls } = openWatched({ streamIsCapturing: () => isCapturing });
  using _ = cuda;
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using stream = gpu.createStream();
  using array = pool.allocateArray(Float32Array.of(1), stream);
  using module = gpu.loadModule(ptx);
  const kernel = module.kernel("saxpy");
  isCapturing = true;
  calls.length = 0;
  const shown = await Promise.all([array, gpu, kernel].map(display));
  for (const { html } of shown) assertStringIncludes(html, "not read: a stream is captured in a graph");
  const harmless = /^(?:streamIsCapturing|usedDevices|deviceGet(?:Name|Uuid|Attribute))$/;
  assertEquals(calls.map(([name]) => name).filter((name) => !harmless.test(name)), []);
  isCapturing = false;
  assertStringIncludes((await display(array)).text, "\n[1]");
  assertStringIncludes((await display(gpu)).html, "<meter ");
  assertEquals(cell((await display(kernel)).html, "maxThreadsPerBlock"), "1024");
});

test("a preview gives up when its stream does not get there, and reads nothing", async () => {
  const { timeout } = AbortSignal;
  using _timeout = replaceProperty(AbortSignal, "timeout", (milliseconds: number) => timeout(milliseconds / 100));
  let isStuck = false;
  const software = driverNamed("software").open();
  const driver = watchedDriver(software, (name) => assert(!isStuck || name !== "memcpyDtoHAsync"), {
    eventQuery: (event, options) => !isStuck && software.eventQuery(event, options),
  });
  using cuda = new Cuda(new Session(driver));
  using pool = cuda.device(0).createPool();
  using stream = cuda.device(0).createStream();
  using array = pool.allocateArray(Float32Array.of(5), stream);
  isStuck = true;
  assertStringIncludes(
    (await display(array)).text,
    "not read: Waiting for the earlier work of its stream timed out",
  );
  isStuck = false;
  assertStringIncludes((await display(array)).text, "\n[5]");
});

test("what was freed or disposed of shows what is known, and why it is not read", async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const stream = gpu.createStream();
  const module = gpu.loadModule(ptx);
  const kernel = module.kernel("saxpy");
  const freed = pool.allocateArray(Float32Array, 4, stream);
  freed.free();
  const { text, html } = await display(freed);
  assertMatch(text, /^DeviceArray \{ .*, freed \}\nnot read: Cannot use the buffer of 16 bytes: it was freed/);
  assertEquals([cell(html, "dtype"), cell(html, "shape"), cell(html, "freed")], ["float32", "[4]", "true"]);
  using left = pool.allocateArray(Float32Array, 4, stream);
  stream[Symbol.dispose]();
  assertStringIncludes((await display(left)).text, "not read: Cannot use the stream of device 0: it was disposed");
  left.stream = gpu.defaultStream;
  module[Symbol.dispose]();
  assertStringIncludes((await display(kernel)).html, "not read: Cannot use");
  left.free();
  pool[Symbol.dispose]();
  assertEquals(cell((await display(pool)).html, "disposed"), "true");
  cuda[Symbol.dispose]();
  for (const object of [gpu, kernel, left]) {
    assertStringIncludes((await display(object)).html, "not read: Cannot use", String(object));
  }
  assertEquals(cell((await display(cuda)).html, "disposed"), "true");
});

test("prototypes and classes' other objects without state are displayed without an error", async () => {
  for (const { prototype } of [DeviceArray, DeviceBuffer, CudaDevice, CudaKernel, Cuda, MemoryPool]) {
    assertMatch((await display(prototype)).text, /a prototype or a Proxy/);
  }
});

test("a device that is not in use is not asked for its memory, which would create a context", async () => {
  const { cuda, calls } = openWatched({ usedDevices: () => [] });
  using _ = cuda;
  const { html } = await display(cuda.device(0));
  assertEquals(cell(html, "computeCapability"), "9.0");
  assertEquals(cell(html, "memory"), "not read: the device is not in use yet");
  assertEquals(calls.filter(([name]) => name === "memGetInfo"), []);
});

test("a kernel is not asked for its attributes while that may wait for work", async () => {
  let isIdle = false;
  const { cuda } = openWatched({ loadingBlocks: true, streamQuery: () => isIdle });
  using _ = cuda;
  using module = cuda.device(0).loadModule(ptx);
  const kernel = module.kernel("saxpy");
  const { html } = await display(kernel);
  assertEquals([cell(html, "kernel"), cell(html, "attributes")], [
    "saxpy(u32, f32, u64, u64)",
    "not read: work is pending",
  ]);
  isIdle = true;
  assertEquals(cell((await display(kernel)).html, "binaryVersion"), "90");
});

test("pools, allocators, modules and the Cuda object show their fields", async () => {
  using cuda = open({ driver: "software", softwareDevices: 2 });
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using _buffer = pool.allocate(1000);
  const { text, html } = await display(pool);
  assertEquals(text, String(pool));
  assertEquals(["handleType", "buffers", "used"].map((name) => cell(html, name)), ["posix-fd", "1", "1000 bytes"]);
  assertStringIncludes(html, "<meter ");
  using allocator = pool.createCachingAllocator();
  assertEquals(cell((await display(allocator)).html, "buffers"), "0");
  using module = cuda.device(0).loadModule(ptx);
  assertEquals(cell((await display(module)).html, "kernelNames"), "saxpy");
  const ofCuda = await display(cuda);
  assertEquals(cell(ofCuda.html, "driver"), "software");
  assertEquals(ofCuda.html.match(/poolpass software device/g)?.length, 2);
});

test("a report of the sanitizer shows its message and its accesses", async () => {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: ["stream-order"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using first = gpu.createStream({ nonBlocking: true });
  using second = gpu.createStream({ nonBlocking: true });
  using array = pool.allocateArray(Float32Array.of(1, 2), first);
  await first.finished();
  array.fill(3, first);
  array.fill(4, second);
  assertEquals(reports.length, 1);
  const { text, html } = await display(reports[0]!);
  assertEquals(text, reports[0]!.message);
  assertEquals([cell(html, "check"), cell(html, "kind"), cell(html, "count")], [
    "stream-order",
    "unordered-write-write",
    "1",
  ]);
  assertEquals(html.match(/<th [^>]*>operation<\/th><td [^>]*>fill</g)?.length, 2);
  assertEquals(Object.keys(reports[0]!).sort(), ["accesses", "check", "count", "kind", "message"]);
  assertEquals(structuredClone(reports[0]), reports[0]);
});

test("names that contain markup are shown as they are, and control characters are escaped", async () => {
  const name = "<img src=x onerror=\"alert('&amp;')\">\x1b[31m";
  const shown = "&#60;img src=x onerror=&#34;alert(&#39;&#38;amp;&#39;)&#34;&#62;\\x1b[31m";
  const { cuda } = openWatched({ deviceGetName: () => name });
  using _ = cuda;
  const { text, html } = await display(cuda.device(0));
  assertStringIncludes(html, shown);
  assertStringIncludes(text, "\\x1b[31m");
  const access = { operation: name, access: "read", stream: name, stack: name, source: name } as const;
  const report = { check: "race", kind: name, message: name, accesses: [access], count: 1 } as const;
  addDisplayToReport(report);
  const ofReport = await display(report);
  assertEquals(ofReport.html.split(shown).length, 7);
  assert(!ofReport.text.includes("\x1b"));
});
