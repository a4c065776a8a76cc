/**
 * Memory that a program never frees: one report for each place that has allocated it, and no warning beside it.
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  type Cuda,
  type CudaDevice,
  type CudaStream,
  type DeviceBuffer,
  type MemoryPool,
  open,
  type OpenOptions,
  SanitizerError,
  type SanitizerReport,
} from "../../mod.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { someOf, test } from "../support/test.ts";

interface Context {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
}

/** The reports and the warnings of a program. */
function run(program: (context: Context) => void, options: OpenOptions) {
  const reports: SanitizerReport[] = [];
  const warnings: string[] = [];
  const { warn } = console;
  console.warn = (text: string) => void warnings.push(text);
  try {
    using cuda = open({ sanitize: true, ...options, onReport: (report) => reports.push(report) });
    const gpu = cuda.device(0);
    program({ cuda, gpu, stream: gpu.createStream() });
    gpu.synchronize();
  } finally {
    console.warn = warn;
  }
  return { reports, warnings };
}

/** The ways to allocate memory, with its name in reports, and what has ended when it is too late to free it. */
const ways: readonly {
  readonly name: string;
  readonly isHost?: boolean;
  allocate(context: Context, pool: MemoryPool, byteLength: number): Disposable;
}[] = [
  { name: "buffer", allocate: ({ stream }, pool, byteLength) => pool.allocate(byteLength, stream) },
  { name: "unpooled buffer", allocate: ({ gpu }, _, byteLength) => gpu.allocate(byteLength) },
  { name: "host buffer", allocate: ({ cuda }, _, byteLength) => cuda.allocateHost(byteLength) },
];

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);

  test(`memory that is not freed before the Cuda object is disposed is reported [${driver}]`, { skip }, () => {
    for (const { name, allocate } of ways) {
      for (const frees of [true, false]) {
        const { reports, warnings } = run((context) => {
          const pool = context.gpu.createPool();
          const allocations = [100, 200, 300].map((byteLength) => allocate(context, pool, byteLength));
          allocations[1]![Symbol.dispose]();
          if (frees) { for (const each of allocations) each[Symbol.dispose](); }
        }, { driver });
        assertEquals(warnings, []);
        assertEquals(reports.map(({ check, kind, count }) => [check, kind, count]), frees ? [] : [["leak", "leak", 2]]);
        for (const { message, accesses } of reports) {
          assertStringIncludes(message, `poolpass sanitizer: leak: 2 ${name}s, 400 bytes`);
          assertStringIncludes(message, "  They were not freed before the Cuda object was disposed.");
          assertEquals(accesses.map(({ operation }) => operation), ["allocate"]);
          assertStringIncludes(accesses[0]!.stack.split("\n")[0]!, "leak_test.ts:");
        }
      }
    }
  });

  test(`memory that is freed after its pool or its allocator was disposed is no leak [${driver}]`, { skip }, () => {
    const { reports, warnings } = run(({ gpu, stream }) => {
      const pool = gpu.createPool();
      const allocator = pool.createCachingAllocator();
      const buffers = [pool.allocate(100, stream), allocator.allocate(100, stream)];
      pool[Symbol.dispose]();
      for (const buffer of buffers) buffer.free();
    }, { driver });
    assertEquals([reports, warnings], [[], []]);
  });

  test(`memory of a pool that was disposed is reported once [${driver}]`, { skip }, () => {
    const { reports, warnings } = run(({ gpu, stream }) => {
      using pool = gpu.createPool();
      const allocate = () => pool.allocate(1000, stream);
      allocate();
      for (let time = 0; time < 3; time++) pool.allocate(24, stream);
      allocate().free();
    }, { driver });
    assertEquals([reports.map(({ count }) => count), warnings], [[1, 3], []]);
    assertStringIncludes(reports[1]!.message, "leak: 3 buffers, 72 bytes");
    assertStringIncludes(reports[1]!.message, "They were not freed before the Cuda object was disposed.");
    assertStringIncludes(reports[1]!.message, "Declare each with using, or free it when nothing uses it any more.");
  });

  test(`parts of an allocator's slabs are reported, and slabs are not [${driver}]`, { skip }, () => {
    for (const disposes of [true, false]) {
      const { reports, warnings } = run(({ gpu, stream }) => {
        const pool = gpu.createPool();
        const allocator = pool.createCachingAllocator();
        allocator.allocate(100, stream).free();
        const buffers: DeviceBuffer[] = [];
        for (let time = 0; time < 3; time++) buffers.push(allocator.allocate(100, stream));
        buffers[0]!.free();
        if (disposes) allocator[Symbol.dispose]();
      }, { driver });
      assertEquals([reports.length, warnings], [1, []]);
      assertStringIncludes(reports[0]!.message, "leak: 2 buffers, 200 bytes");
      assertStringIncludes(reports[0]!.message, "They were not freed before the Cuda object was disposed.");
    }
  });

  test(`what the library owns, what modules have and what was freed late are no leaks [${driver}]`, { skip }, () => {
    const { reports, warnings } = run(({ cuda, gpu, stream }) => {
      using pool = gpu.createPool();
      using buffer = pool.allocate(4096, stream);
      buffer.copyFrom(new Uint8Array(4096));
      buffer.readSync(Uint8Array);
      gpu.defaultPool.allocate(16, stream).free();
      using host = cuda.allocateHost(16);
      gpu.wrap(buffer.address, 16, { stream });
      void host.address;
      void buffer.read(Uint8Array).catch(() => {});
    }, { driver });
    assertEquals([reports, warnings], [[], []]);
  });
}

test("imported memory that is not released is reported", { skip: shimRefusal() ?? false }, () => {
  for (const frees of [true, false]) {
    const { reports } = run(({ cuda, stream }) => {
      // The software device treats another Cuda object like another process.
      using other = open({ driver: "software", sanitize: false });
      using shared = other.device(0).createPool({ handleType: "posix-fd" });
      using buffer = shared.allocate(4096);
      other.device(0).synchronize();
      using handle = shared.exportHandle();
      const pool = cuda.device(0).importPool(handle);
      const imported = pool.importPointer(buffer.exportPointer(), 4096);
      if (frees) imported.free(stream);
    }, { driver: "software" });
    assertEquals(reports.map(({ kind }) => kind), frees ? [] : ["leak"]);
    for (const { message } of reports) {
      assertStringIncludes(message, "leak: 1 imported buffer, ");
      assertStringIncludes(message, "It was not freed before the Cuda object was disposed.");
    }
  }
});

test("leaks are an error without a listener, and are left to a warning without the check", () => {
  const { error, warn } = console;
  const printed: string[] = [];
  const warned: string[] = [];
  console.error = (text: string) => void printed.push(text);
  console.warn = (text: string) => void warned.push(text);
  try {
    const cuda = open({ driver: "software", sanitize: true });
    cuda.device(0).allocate(64);
    assertThrows(() => cuda[Symbol.dispose](), SanitizerError, "1 mistake: leak at leak_test.ts:");
    assertEquals([printed.filter((text) => !text.startsWith("::")).length, warned], [1, []]);
    const plain = open({ driver: "software", sanitize: ["stream-order"] });
    plain.device(0).allocate(64);
    plain[Symbol.dispose]();
    assertEquals(warned, ["poolpass: 1 unpooled buffer (64 bytes) not freed before the Cuda object was disposed"]);
  } finally {
    Object.assign(console, { error, warn });
  }
});

test("memory that is not freed when the process ends fails it, unless something else has ended it", async () => {
  const cases: readonly (readonly [how: readonly string[], code: number, leak: string | undefined])[] = [
    [["end"], 1, "the process ended"],
    [["exit"], 1, "the process ended"],
    [["fail"], 3, undefined],
    [["throw"], 1, undefined],
    [["end", "free"], 0, undefined],
    [["using", "free"], 0, undefined],
    [["using"], 1, "the Cuda object was disposed"],
  ];
  for (const [how, code, leak] of someOf(cases, 2)) {
    await using child = startScript("children/sanitizer/leave_memory.ts", how, { env: { POOLPASS_SANITIZE: "" } });
    const errors = await child.errors();
    assertEquals(await child.ended, code, `${how}: ${errors}`);
    if (leak === undefined) assert(!errors.includes("leak:"), `${how}: ${errors}`);
    else assertStringIncludes(errors, `  It was not freed before ${leak}.`);
  }
});
