import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { mkdtempSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { canBePool, judgeDescriptor, openDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { ShareableHandle } from "../../src/memory/handles/shareable_handle.ts";
import { countCalls } from "../sharing/channel/channel_peers.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";

testOnEachDriver("an imported buffer is the same memory at another address", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(5000, stream);
  buffer.fill(1);
  using handle = pool.exportHandle();
  assertEquals(handle.type, "posix-fd");
  using imported = gpu.importPool(handle);
  assertEquals(imported.getAccess(gpu), "read-write");
  await stream.finished();
  {
    using mapped = imported.importPointer(buffer.exportPointer(), 5000);
    assert(mapped.address !== buffer.address);
    assert(mapped.stream === gpu.defaultStream && mapped.pool === imported);
    assertEquals(await mapped.read(Uint8Array), new Uint8Array(5000).fill(1));
    mapped.fill(2, stream, { byteOffset: 1000 });
    await stream.finished();
  }
  const bytes = await buffer.read(Uint8Array);
  assertEquals(bytes, bytes.map((_, index) => index < 1000 ? 1 : 2));
});

testOnEachDriver("an importer sees the growth of a pool after its export", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const megabytes = 2 ** 20;
  using large = pool.allocate(48 * megabytes);
  using larger = pool.allocate(80 * megabytes);
  large.fill(3);
  larger.fill(4);
  await gpu.finished();
  using mappedLarge = imported.importPointer(large.exportPointer(), large.byteLength);
  using mappedLarger = imported.importPointer(larger.exportPointer(), larger.byteLength);
  assertEquals(await mappedLarge.read(Uint8Array, { byteOffset: 48 * megabytes - 2 }), Uint8Array.of(3, 3));
  assertEquals(await mappedLarger.read(Uint8Array, { byteOffset: 80 * megabytes - 2 }), Uint8Array.of(4, 4));
});

testOnEachDriver("export data imported twice are one mapping, which the last free unmaps", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(64);
  buffer.fill(7);
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const exportData = buffer.exportPointer();
  await gpu.finished();
  using importedAgain = gpu.importPool(handle);
  const first = imported.importPointer(exportData, 64);
  const second = importedAgain.importPointer(exportData, 64);
  assertEquals(first.address, second.address);
  first.free();
  gpu.synchronize();
  assertEquals(await second.read(Uint8Array), new Uint8Array(64).fill(7));
  imported[Symbol.dispose]();
  assertThrows(() => importedAgain[Symbol.dispose](), ReferenceError, "1 of its buffers are not freed");
  second.free();
  using again = importedAgain.importPointer(exportData, 64);
  assertEquals(await again.read(Uint8Array), new Uint8Array(64).fill(7));
});

testOnEachDriver("a long-lived mapping keeps events only of destroyed streams with unfinished work", async (
  _,
  underTest,
) => {
  const driver = underTest.open();
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(1024);
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const exportData = buffer.exportPointer();
  using last = gpu.createStream({ nonBlocking: true });
  using staying = imported.importPointer(exportData, 1024);
  using gate = new Gate(cuda);
  // Streams keep the events that made other streams wait for them, and those of their latest two waits.
  await gpu.finished();
  await gpu.finished();
  using counted = countCalls(driver);
  const kept = () => (counted.calls.eventCreateWithFlags ?? 0) - (counted.calls.eventDestroy ?? 0);
  let mostKept = 0;
  const freeOnStreams = (count: number): void => {
    for (let task = 0; task < count; task++) {
      using stream = gpu.createStream();
      imported.importPointer(exportData, 512).free(stream);
      mostKept = Math.max(mostKept, kept());
    }
  };
  freeOnStreams(200);
  {
    using held = gpu.createStream({ nonBlocking: true });
    gate.hold(held);
    imported.importPointer(exportData, 512).free(held);
  }
  freeOnStreams(100);
  assert(mostKept <= 100, `${mostKept} events were kept`);
  // The destroyed stream has not yet reached its free.
  staying.free(last);
  for (let query = 0; query < 3; query++) assertEquals(last.query(), false);
  gate.open();
  await gpu.finished();
  // A timer destroys the events of the streams that were busy when they were disposed. On a GPU, one remains of the held
  // stream, for the memory that the gate's kernel has polled.
  while (kept() > 1) await new Promise((resolve) => setTimeout(resolve, 1));
});

testOnEachDriver("a thousand buffers can be mapped at once and freed in a different order", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  using releases = new DisposableStack();
  const buffers = Array.from({ length: 1000 }, () => releases.use(pool.allocate(512)));
  const data = buffers.map((buffer) => buffer.exportPointer());
  const mapped = data.map((each) => imported.importPointer(each, 512));
  assertEquals(new Set(mapped.map(({ address }) => address)).size, mapped.length);
  const again = data.map((each) => imported.importPointer(each, 512));
  assertEquals(again.map(({ address }) => address), mapped.map(({ address }) => address));
  for (const [index, each] of [...mapped, ...again].entries()) if (index % 2 === 0) each.free();
  for (const [index, each] of [...mapped, ...again].entries()) if (index % 2 === 1) each.free();
  assertEquals(inspect(imported), "ImportedMemoryPool { device 0, 0 mapped }");
});

testOnEachDriver("importing a pool on the wrong device is refused and leaves nothing behind", (cuda) => {
  const [first, second] = [cuda.device(0), cuda.device(1)];
  using pool = first.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(64);
  using handle = pool.exportHandle();
  using imported = first.importPool(handle);
  using _mapped = imported.importPointer(buffer.exportPointer(), 64);
  assertThrows(() => second.importPool(handle), RangeError, "its memory is on device 0; import it there");
}, { devices: 2 });

testOnEachDriver("the descriptor of an exported pool is told from others without asking a file system", (cuda) => {
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  const judgement = judgeDescriptor(handle.fd);
  assert(canBePool(handle.fd), `${readlinkSync(`/proc/self/fd/${handle.fd}`)}: ${JSON.stringify(judgement)}`);
  assertEquals(judgement.type, cuda.driver === "cuda" ? "character device" : "file");
  for (const path of ["/dev/null", "/dev/zero", "/dev", "/proc/self/stat", fileURLToPath(import.meta.url)]) {
    using other = ShareableHandle.fromFd(openDescriptor(path));
    assert(!canBePool(other.fd), path);
  }
});

testOnEachDriver("files that are not pools, and export data of another pool, are refused", (cuda) => {
  const gpu = cuda.device(0);
  const folder = mkdtempSync(join(tmpdir(), "poolpass-import-"));
  try {
    writeFileSync(join(folder, "file"), "no pool");
    using file = ShareableHandle.fromFd(openDescriptor(join(folder, "file")));
    const error = assertThrows(() => gpu.importPool(file), CudaError);
    assertEquals(error.code, "cudaErrorUnknown");
    assertMatch(error.message, /Cannot import a pool from the descriptor \d+/);
  } finally {
    rmSync(folder, { recursive: true });
  }
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using other = gpu.createPool({ handleType: "posix-fd" });
  using foreign = other.allocate(64);
  using handle = pool.exportHandle();
  using _otherHandle = other.exportHandle();
  using imported = gpu.importPool(handle);
  for (const exportData of [new Uint8Array(64), new Uint8Array(64).fill(0xa5)]) {
    assertEquals(assertThrows(() => imported.importPointer(exportData, 64), SharingError).code, "bad-message");
  }
  const error = assertThrows(() => imported.importPointer(foreign.exportPointer(), 64), CudaError);
  assertEquals(error.code, "cudaErrorInvalidValue");
  assertThrows(() => imported.importPointer(new Uint8Array(63), 64), RangeError, "63 bytes of export data");
});

testOnEachDriver("a size that was not allocated is refused, and nothing stays mapped", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(4096);
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const exportData = buffer.exportPointer();
  const error = assertThrows(() => imported.importPointer(exportData, 2 ** 30), SharingError);
  assertEquals(error.code, "size-mismatch");
  gpu.synchronize();
});

testOnEachDriver("a part of a buffer cannot be exported, but the whole can", (cuda) => {
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(4096);
  assertThrows(() => buffer.exportPointer(), CudaError, "export its pool first, with exportHandle");
  using _handle = pool.exportHandle();
  assertThrows(() => buffer.subarray(512).exportPointer(), TypeError, "export the whole");
  assertEquals(buffer.exportPointer().length, 64);
});

testOnEachDriver("importPool borrows a handle, which its owner closes", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  const handle = pool.exportHandle();
  using first = gpu.importPool(handle);
  using second = gpu.importPool(handle);
  handle[Symbol.dispose]();
  handle[Symbol.dispose]();
  assertThrows(() => handle.fd, ReferenceError, "disposed");
  using buffer = pool.allocate(64);
  buffer.fill(6);
  gpu.synchronize();
  first[Symbol.dispose]();
  assertThrows(() => first.unsafeHandle, ReferenceError, "disposed");
  using mapped = second.importPointer(buffer.exportPointer(), 64);
  assertEquals(mapped.readSync(Uint8Array), new Uint8Array(64).fill(6));
});
