/**
 * Managed memory under the sanitizer: what moves it is ordered with nothing, what discards it with every access, and
 * what is not freed is named.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { open, type SanitizerReport } from "../../mod.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { test } from "../support/test.ts";
import type { Cuda, CudaDevice, CudaStream, DeviceBuffer, MemoryPool } from "../../mod.ts";

interface Context {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly pool: MemoryPool;
  readonly a: CudaStream;
  readonly b: CudaStream;
  readonly x: DeviceBuffer;
}

/** Returns what the sanitizer reports of a program. */
function reportsOf(program: (context: Context) => void): readonly SanitizerReport[] {
  const reports: SanitizerReport[] = [];
  {
    using cuda = open({
      driver: "software",
      sanitize: ["stream-order", "leak"],
      onReport: (report) => reports.push(report),
    });
    const gpu = cuda.device(0);
    using a = gpu.createStream({ nonBlocking: true });
    using b = gpu.createStream({ nonBlocking: true });
    using pool = cuda.createManagedPool({ preferredLocation: gpu });
    using x = pool.allocate(4096, a);
    a.synchronize();
    program({ cuda, gpu, pool, a, b, x });
    gpu.synchronize();
  }
  return reports;
}

const skip = shimRefusal();

test("a discard that is not ordered with an access is reported", { skip }, () => {
  for (const prefetch of [undefined, "host"] as const) {
    const discard = (x: DeviceBuffer, stream: CudaStream) => {
      x.discard(prefetch === undefined ? stream : { stream, prefetch });
    };
    const after = reportsOf(({ a, b, x }) => {
      x.fill(1, a);
      discard(x, b);
    });
    assertEquals(after.length, 1);
    assertMatch(after[0]!.message, /discard/);
    const before = reportsOf(({ a, b, x }) => {
      discard(x, b);
      x.fill(1, a);
    });
    assertEquals(before.length, 1);
    const ordered = reportsOf(({ a, b, x }) => {
      x.fill(1, a);
      b.wait(a);
      discard(x, b);
      a.wait(b);
      x.fill(2, a);
    });
    assertEquals(ordered, []);
  }
});

test("a prefetch on another stream, advice, and accesses of the host in order are not reported", { skip }, () => {
  const reports = reportsOf(({ gpu, a, b, x }) => {
    new Uint8Array(x.hostView()).fill(1);
    using alone = gpu.allocateManaged(4096);
    alone.advice.readMostly = true;
    new Uint8Array(alone.hostView()).fill(5);
    x.copyFrom(alone, a);
    x.prefetch(gpu, b);
    x.prefetch("host", b);
    a.synchronize();
    new Uint8Array(x.hostView()).fill(3);
    x.subarray(0, 8).fill(4, a);
  });
  assertEquals(reports, []);
});

test("managed memory that is not freed is named, with the line that has allocated it", { skip }, () => {
  const reports = reportsOf(({ gpu, pool, a }) => {
    gpu.allocateManaged(1000);
    pool.allocate(2000, a);
  });
  assertEquals(reports.map(({ kind }) => kind), ["leak", "leak"]);
  const message = reports.map(({ message }) => message).join("\n");
  for (const bytes of [1000, 2000]) assertMatch(message, new RegExp(`${bytes} bytes`));
  assertMatch(message, /managed_memory_test\.ts/);
});
