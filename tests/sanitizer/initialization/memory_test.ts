/** Which memory counts as initialized: that of allocators, of the host and of other processes, and what the host reads. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import {
  type Cuda,
  type CudaDevice,
  CudaError,
  type CudaStream,
  type KernelArgument,
  open,
  type SanitizerReport,
} from "../../../mod.ts";
import { remainingLines, startScript } from "../../support/child_process.ts";
import { test } from "../../support/test.ts";

const ptx = readFileSync(new URL("kernels.ptx", import.meta.url), "utf8");

interface Context {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  run(kernel: string, ...args: KernelArgument[]): void;
}

async function reportsOf(program: (context: Context) => void | Promise<void>): Promise<SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  {
    using cuda = open({
      driver: "software",
      sanitize: ["initialization"],
      onReport: (report) => void reports.push(report),
    });
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using module = gpu.loadModule(ptx);
    const run: Context["run"] = (kernel, ...args) => {
      module.kernel(kernel).launch({ grid: 1, block: 32, stream }, ...args);
    };
    await program({ cuda, gpu, stream, run });
    stream.synchronize();
  }
  return reports;
}

test("memoryInfo and errors say what the check takes of the memory", async () => {
  const program = ({ gpu, stream }: Context) => {
    const { free, total } = gpu.memoryInfo();
    assert(total < 2 ** 31 && free <= total, `${free} of ${total}`);
    using pool = gpu.createPool({ maxSize: 2 ** 31 });
    using buffer = pool.allocate(2 ** 30, stream);
    const why = /\(\d+ of the device's \d+ bytes are free; the sanitizer's check "initialization" uses the other \d+\)/;
    for (const source of [pool, pool.createCachingAllocator()]) {
      const { message } = assertThrows(() => source.allocate(2 ** 30, stream), CudaError);
      assertMatch(message, why);
    }
    assertMatch(assertThrows(() => gpu.allocate(2 ** 30), CudaError).message, why);
    using small = gpu.createPool({ maxSize: 32 * 2 ** 20 });
    const { message } = assertThrows(() => small.allocate(2 ** 26, stream), CudaError);
    assertEquals(message.includes("sanitizer"), false, message);
    buffer.free();
  };
  assertEquals(await reportsOf(program), []);
});

test("a part of a caching allocator that is used again is uninitialized again", async () => {
  const program = (fills: boolean) => ({ gpu, stream, run }: Context) => {
    using pool = gpu.createPool();
    using allocator = pool.createCachingAllocator();
    const before = allocator.allocate(4096, stream);
    before.fill(0, stream);
    run("branches", before, before);
    before.free(stream);
    using after = allocator.allocate(4096, stream);
    if (fills) after.fill(0, stream);
    run("branches", after, after);
  };
  assertEquals(await reportsOf(program(true)), []);
  assertEquals((await reportsOf(program(false))).map(({ kind }) => kind), ["uninitialized-branch"]);
});

test("page-locked memory, host pools and exported memory count as initialized", async () => {
  const reports = await reportsOf(({ cuda, gpu, stream, run }) => {
    using locked = cuda.allocateHost(4096);
    using plain = gpu.createPool();
    using out = plain.allocate(4096, stream);
    run("copies", out, locked);
    run("branches", locked, locked);
    using pool = gpu.createPool({ handleType: "posix-fd" });
    pool.exportHandle();
    using exported = pool.allocate(4096, stream);
    exported.exportPointer();
    run("branches", exported, exported);
    using allocator = pool.createCachingAllocator();
    using part = allocator.allocate(4096, stream);
    allocator.slabOf(part).slab.exportPointer();
    run("branches", part, part);
  });
  assertEquals(reports.map(({ message }) => message), []);
});

test("work that waits still reads what a part held before it was freed", async () => {
  const reports = await reportsOf(({ gpu, stream, run }) => {
    using pool = gpu.createPool();
    using allocator = pool.createCachingAllocator();
    const before = allocator.allocate(4096, stream);
    before.fill(0, stream);
    for (let round = 0; round < 3; round++) run("branches", before, before);
    before.free(stream);
    using after = allocator.allocate(4096, stream);
    after.fill(0, stream);
    run("branches", after, after);
  });
  assertEquals(reports, []);
});

test("what the host reads although nothing has written it is reported where that is asked for", async () => {
  const linesOf = async (env: Record<string, string>) => {
    await using child = startScript("children/sanitizer/read_unwritten.ts", [], { env });
    return await remainingLines(child);
  };
  assertEquals(await linesOf({ POOLPASS_SANITIZE_HOST_READS: "" }), ["done"]);
  const lines = await linesOf({ POOLPASS_SANITIZE_HOST_READS: "1" });
  const reports = lines.filter((line) => line.includes("uninitialized-host-read"));
  assertEquals(reports, [
    "poolpass sanitizer: uninitialized-host-read: bytes 20 to 20 of a buffer of 64 bytes",
    "poolpass sanitizer: uninitialized-host-read: bytes 518 to 518 of a buffer of 2048 bytes",
  ]);
  assert(lines.includes("  From byte 20 on, the host reads what nothing has written."), lines.join("\n"));
});
