import { assert, assertEquals, assertThrows } from "@std/assert";
import { CudaError } from "../../../src/support/errors.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { countCalls } from "../../sharing/channel/channel_peers.ts";
import { exportFirst, sharingTest, soon } from "../../sharing/sharing_peers.ts";

const mebibytes = 2 ** 20;
const slabByteLength = 2 * mebibytes;

function uniform(byte: number, length: number): Uint8Array {
  return new Uint8Array(length).fill(byte);
}

sharingTest("a thousand buffers of one slab cost one export and one import", async ({
  cuda,
  driver,
  pool,
  stream,
  path,
  start,
}) => {
  exportFirst(cuda);
  const count = 1000;
  const size = 1000;
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using allocator = pool.createCachingAllocator();
  using buffers = new DisposableStack();
  {
    using counted = countCalls(driver);
    for (let index = 0; index < count; index++) {
      const buffer = buffers.use(allocator.allocate(size, stream));
      buffer.fill(index & 255);
      exporter.offer(`buffer ${index}`, buffer);
    }
    const { mallocFromPoolAsync, memPoolExportToShareableHandle, memPoolExportPointer } = counted.calls;
    assertEquals([mallocFromPoolAsync, memPoolExportToShareableHandle, memPoolExportPointer], [1, 1, 1]);
  }
  await peer.call("connect", "one", path);
  assert(await peer.call("mapMany", "one", "buffer ", count));
  assertEquals(await peer.call("imports"), [1, 1]);
  for (const index of [0, 1, 500, 999]) {
    assertEquals(await peer.call("read", `buffer ${index}`, 0, size), uniform(index & 255, size));
  }
  await soon(() => exporter.leases.length === count, "all are held");
  assertEquals(new Set(exporter.leases.map(({ byteLength }) => byteLength)), new Set([size]));

  // Imitates a program without an exporter, which sends the slab's pointer and the buffer's offset.
  using buffer = allocator.allocate(size, stream);
  buffer.fill(77);
  await stream.finished();
  const { slab, byteOffset } = allocator.slabOf(buffer);
  exporter.offer("pool", pool);
  await peer.call("importPool", "one", "pool", "slab", slab.exportPointer().toHex(), slab.byteLength);
  assertEquals(await peer.call("read", "slab", byteOffset, size), uniform(77, size));
  await peer.call("free", "slab");
  await peer.call("disposePool", "pool");
  buffer.free();

  buffers.dispose();
  assertEquals([allocator.usage().buffers, exporter.offers.length], [count, 1]);
  await peer.call("freeMany", "buffer ", count);
  await soon(() => exporter.leases.length === 0, "all are released");
  assertEquals([allocator.usage().buffers, allocator.usage().used, allocator.usage().slabs], [0, 0, 1]);
  allocator.trimTo(0);
  await stream.finished();
  assertEquals(pool.usage().used, 0);
  await peer.call("close", "one");
}, { long: true });

sharingTest(
  "memory freed while an importer holds it is not reused until it is released, but its neighbours are",
  async ({
    pool,
    stream,
    path,
    start,
  }) => {
    const peer = await start();
    await using exporter = Exporter.listen(path);
    using allocator = pool.createCachingAllocator({ slabByteLength, maxSize: slabByteLength });
    const allocate = (byte: number) => {
      const buffer = allocator.allocate(mebibytes, stream);
      buffer.fill(byte);
      return buffer;
    };
    const [held, neighbour] = [allocate(5), allocate(6)];
    const addresses = [held.address, neighbour.address];
    const offer = exporter.offer("held", held);
    const unheld = exporter.offer("neighbour", neighbour);
    await peer.call("connect", "one", path);
    await peer.call("map", "one", "held");
    await soon(() => exporter.leases.length === 1, "the buffer is held");
    held.free();
    neighbour.free();
    await unheld.ended();
    assertEquals([exporter.offers, allocator.usage().buffers], [[], 1]);

    const next = allocate(7);
    assertEquals(next.address, addresses[1]);
    assertThrows(() => allocate(0), CudaError, "its maxSize is 2097152 bytes");
    allocator.trimTo(0);
    assertEquals(allocator.usage().slabs, 1);
    exporter.offer("next", next);
    exporter.offer("part", next.subarray(1000, 1100).subarray(50));
    await peer.call("map", "one", "next");
    await peer.call("map", "one", "part");
    assertEquals(await peer.call("imports"), [1, 1]);
    assertEquals(await peer.call("read", "next", mebibytes - 10, 10), uniform(7, 10));
    assertEquals(await peer.call("read", "held", mebibytes - 10, 10), uniform(5, 10));
    next.fill(8, stream, { byteOffset: 1050, byteLength: 50 });
    await stream.finished();
    assertEquals(await peer.call("read", "part", 0, 50), uniform(8, 50));
    assertEquals(await peer.call("read", "next", 1049, 2), Uint8Array.of(7, 8));

    // It is released behind the work of the other process's stream.
    await peer.call("copy", "held", "copy");
    await peer.call("hold");
    await peer.call("free", "held");
    await soon(() => exporter.leases.some(({ state }) => state === "releasing"), "it is being released");
    assertThrows(() => allocate(0), CudaError, "its maxSize");
    await peer.call("release");
    await offer.ended();
    const again = allocate(9);
    assertEquals(again.address, addresses[0]);
    assertEquals(await peer.call("read", "copy", 0, 10), uniform(5, 10));
    assertEquals(await peer.call("read", "next", mebibytes - 10, 10), uniform(7, 10));
    assertEquals((await again.read(Uint8Array, { byteOffset: mebibytes - 1 }))[0], 9);
    again.free();
    await peer.call("free", "next", "part");
    next.free();
    await soon(() => allocator.usage().used === 0, "all memory is released");
    await peer.call("close", "one");
  },
);

sharingTest(
  "a slab that two exporters offer stays until the last importer of a part releases it or ends",
  async ({
    pool,
    stream,
    path,
    start,
  }) => {
    const [peer, killed] = await Promise.all([start(), start()]);
    await using first = Exporter.listen(path);
    await using second = Exporter.listen(`${path} of another`);
    const allocator = pool.createCachingAllocator({ slabByteLength });
    const [shared, other] = [1, 2].map((byte) => {
      const buffer = allocator.allocate(1000, stream);
      buffer.fill(byte);
      return buffer;
    });
    first.offer("shared", shared!);
    second.offer("shared", shared!);
    second.offer("other", other!.subarray(500));
    await Promise.all([
      peer.call("connect", "first", path),
      peer.call("connect", "second", second.path),
      killed.call("connect", "first", path),
      killed.call("connect", "second", second.path),
    ]);
    for (const each of [peer, killed]) {
      await each.call("map", "first", "shared", "of first");
      await each.call("map", "second", "shared", "of second");
      await each.call("map", "second", "other");
    }
    await soon(() => first.leases.length === 2 && second.leases.length === 4, "all is held");
    for (const buffer of [shared!, other!]) buffer.free();
    allocator[Symbol.dispose]();
    await stream.finished();
    assertEquals(pool.usage().used, slabByteLength);

    await peer.call("free", "of first");
    await soon(() => first.leases.length === 1, "one importer has released it");
    // Still mapped through the other exporter's offer.
    assertEquals(await peer.call("read", "of second", 0, 1000), uniform(1, 1000));
    assertEquals(await peer.call("read", "other", 0, 500), uniform(2, 500));
    await killed.kill();
    await soon(() => first.leases.length === 0 && second.leases.length === 2, "the other importer has ended");
    await peer.call("free", "of second");
    await soon(() => second.leases.length === 1, "one part is held");
    await stream.finished();
    assertEquals(pool.usage().used, slabByteLength);
    await peer.call("free", "other");
    await soon(() => second.leases.length === 0, "all is released");
    await stream.finished();
    assertEquals(pool.usage().used, 0);
    for (const name of ["first", "second"]) await peer.call("close", name);
  },
  { long: true },
);
