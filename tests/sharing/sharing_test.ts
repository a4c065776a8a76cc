import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Cuda } from "../../src/objects/cuda.ts";
import { SharingError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { assertFailsSoon, exportFirst, PeerError, sharingTest, soon, unusableStreams } from "./sharing_peers.ts";

/** In bytes. */
const size = 4096;

function uniform(byte: number, length: number = size): Uint8Array {
  return new Uint8Array(length).fill(byte);
}

sharingTest("offers are found by name and by iteration, with their metadata", async ({
  gpu,
  pool,
  stream,
  path,
  start,
}) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using first = pool.allocate(size, stream);
  using second = pool.allocate(size, stream);
  const metadata = { dtype: "float32", shape: [32, 32], "größe": null };
  const offer = exporter.offer("first", first, { metadata });
  await peer.call("connect", "one", path);
  const seen = peer.call("offers", "one", 3);
  const waiting = peer.call("offer", "one", "later");
  assertEquals(await peer.call("offer", "one", "first"), { kind: "buffer", byteLength: size, metadata });
  exporter.offer("other", second);
  exporter.offer("later", second.subarray(64, 96), { metadata: "a part" });
  assertEquals(await waiting, { kind: "buffer", byteLength: 32, metadata: "a part" });
  assertEquals(await seen, [["first", metadata], ["other", null], ["later", "a part"]]);
  assertEquals([offer.name, offer.byteLength, offer.isWithdrawn], ["first", size, false]);
  assertEquals(exporter.offers.map(({ name }) => name), ["first", "other", "later"]);
  assertEquals(exporter.importers.map(({ pid }) => pid), [peer.pid]);
  assertEquals(exporter.leases, []);

  using unshared = gpu.createPool();
  using unshareable = unshared.allocate(size);
  assertThrows(() => exporter.offer("first", second), RangeError, "there is an offer of this name");
  assertThrows(() => exporter.offer("", second), RangeError, "1 to 255 bytes");
  assertThrows(() => exporter.offer(3 as never, second), TypeError, "Cannot use 3 as the name of an offer");
  assertThrows(() => exporter.offer("x", new Float32Array(1) as never), TypeError, "Cannot offer a Float32Array");
  assertThrows(() => exporter.offer("x", unshareable), TypeError, 'create it with "posix-fd"');
  assertThrows(
    () => exporter.offer("x", second, { metadata: "x".repeat(32_768) }),
    RangeError,
    "send them in a buffer",
  );
  assertEquals(exporter.offers.length, 3);
  await peer.call("close", "one");
}, { long: true });

sharingTest("a thousand parts of an allocation cost one export and one import", async ({
  cuda,
  driver,
  pool,
  stream,
  path,
  start,
}) => {
  exportFirst(cuda);
  const count = 1000;
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using whole = pool.allocate(count * 256, stream);
  for (let index = 0; index < count; index++) {
    whole.fill(index & 255, stream, { byteOffset: index * 256, byteLength: 1 });
  }
  let exports = 0;
  const { memPoolExportPointer } = driver;
  driver.memPoolExportPointer = (address) => {
    exports++;
    return memPoolExportPointer.call(driver, address);
  };
  for (let index = 0; index < count; index++) {
    exporter.offer(`part ${index}`, whole.subarray(index * 256, (index + 1) * 256));
  }
  exporter.offer("whole", whole);
  exporter.offer("again", whole);
  assertEquals(exports, 1);
  await peer.call("connect", "one", path);
  assert(await peer.call("mapMany", "one", "part ", count));
  await peer.call("map", "one", "whole");
  await peer.call("map", "one", "again");
  await peer.call("map", "one", "again", "and again");
  assertEquals(await peer.call("imports"), [1, 1]);
  assertEquals((await peer.call("read", "and again", 999 * 256, 1))[0], 999 & 255);
  await soon(() => exporter.leases.length === count + 2, "all are held");
  await peer.call("freeMany", "part ", count);
  await peer.call("free", "whole", "again");
  // The last mapping keeps the allocation mapped.
  assertEquals((await peer.call("read", "and again", 7 * 256, 1))[0], 7);
  await soon(() => exporter.leases.length === 1, "the others are released");
  await peer.call("free", "and again");
  await soon(() => exporter.leases.length === 0, "all is released");
  await peer.call("map", "one", "whole");
  assertEquals(await peer.call("imports"), [1, 2]);
  await peer.call("close", "one");
}, { long: true });

sharingTest("a whole pool is offered, and its memory is mapped by export data sent separately", async ({
  pool,
  stream,
  path,
  start,
}) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(size, stream);
  buffer.fill(9);
  await stream.finished();
  const offer = exporter.offer("pool", pool, { metadata: "all" });
  const exportData = buffer.exportPointer().toHex();
  await peer.call("connect", "one", path);
  assertEquals(await peer.call("offer", "one", "pool"), { kind: "pool", byteLength: 0, metadata: "all" });
  await assertRejects(() => peer.call("map", "one", "pool"), PeerError, "use importPool");
  await peer.call("importPool", "one", "pool", "buffer", exportData, size);
  assertEquals(await peer.call("read", "buffer", 0, size), uniform(9));
  await soon(() => exporter.leases.length === 1, "the pool is held");
  offer.withdraw();
  await peer.call("free", "buffer");
  await peer.call("disposePool", "pool");
  await offer.ended();
  assertEquals(exporter.leases, []);
  await peer.call("close", "one");
});

sharingTest("sixteen concurrent importers hold an exporter's memory until each releases it", async ({
  pool,
  stream,
  path,
  start,
}) => {
  const peers = await Promise.all([start(), start()]);
  await using exporter = Exporter.listen(path);
  const buffer = pool.allocate(size, stream);
  buffer.fill(3);
  const offer = exporter.offer("buffer", buffer);
  const importers = peers.flatMap((peer) => Array.from({ length: 8 }, (_, index) => ({ peer, name: `${index}` })));
  await Promise.all(importers.map(({ peer, name }) => peer.call("connect", name, path)));
  await Promise.all(importers.map(({ peer, name }) => peer.call("map", name, "buffer", name)));
  await soon(() => exporter.leases.length === 16, "each holds it");
  assertEquals(exporter.importers.length, 16);
  assertEquals(await Promise.all(peers.map((peer) => peer.call("imports"))), [[8, 1], [8, 1]]);
  buffer.free();
  for (const { peer, name } of importers) {
    assertEquals(await peer.call("read", name, 0, size), uniform(3));
    assertEquals([pool.usage().used > 0, offer.leases.length > 0], [true, true]);
    await peer.call("free", name);
  }
  await offer.ended();
  await stream.finished();
  assertEquals([pool.usage().used, exporter.leases.length], [0, 0]);
  await Promise.all(importers.map(({ peer, name }) => peer.call("close", name)));
  await soon(() => exporter.importers.length === 0, "all have left");
}, { long: true });

sharingTest("memory freed while it is held stays allocated, and its holders are listed", async ({
  pool,
  stream,
  path,
  start,
}) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  const buffer = pool.allocate(size, stream);
  buffer.fill(5);
  const offer = exporter.offer("buffer", buffer);
  await peer.call("connect", "one", path);
  const before = Date.now();
  await peer.call("map", "one", "buffer");
  await soon(() => exporter.leases.length === 1, "it is held");
  const [lease] = exporter.leases;
  assertEquals([lease!.name, lease!.state, lease!.peer.pid, lease!.byteLength], ["buffer", "held", peer.pid, size]);
  assert(lease!.since.getTime() >= before && lease!.since.getTime() <= Date.now());
  buffer.free();
  assert(offer.isWithdrawn);
  assertEquals(exporter.offers, []);
  using next = pool.allocate(size, stream);
  next.fill(6);
  await stream.finished();
  assertEquals(exporter.leases.map(({ state }) => state), ["held"]);
  assert(pool.usage().used > size);
  assertEquals(await peer.call("read", "buffer", 0, size), uniform(5));
  // The name is free, and can be used for another buffer.
  exporter.offer("buffer", next);
  await peer.call("map", "one", "buffer", "new");
  assertEquals(await peer.call("read", "new", 0, size), uniform(6));
  await peer.call("free", "buffer");
  await offer.ended();
  assertEquals([lease!.state, exporter.leases.length], ["ended", 1]);
  await stream.finished();
  assert(pool.usage().used <= size);
  await peer.call("close", "one");
});

sharingTest("memory released in a stream's order is free when the stream reaches the release", async ({
  pool,
  stream,
  path,
  start,
}) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  const buffer = pool.allocate(size, stream);
  buffer.fill(5);
  const offer = exporter.offer("buffer", buffer);
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "buffer");
  await peer.call("copy", "buffer", "copy");
  await peer.call("hold");
  await peer.call("free", "buffer");
  await soon(() => exporter.leases[0]?.state === "releasing", "it is being released");
  buffer.free();
  // New allocations meanwhile must not get the memory that is about to be copied.
  using next = pool.allocate(size, stream);
  next.fill(6);
  await stream.finished();
  assertEquals(exporter.leases.map(({ state }) => state), ["releasing"]);
  assert(pool.usage().used > size);
  await peer.call("release");
  await offer.ended();
  assertEquals(exporter.leases, []);
  assertEquals(await peer.call("read", "copy", 0, size), uniform(5));
  await stream.finished();
  assert(pool.usage().used <= size);
  await peer.call("close", "one");
});

sharingTest(
  "no importer reads memory that an exporter's stream has not yet written",
  async ({ pool, stream, gate, path, start }) => {
    const peer = await start();
    await using exporter = Exporter.listen(path);
    using buffer = pool.allocate(size, stream);
    using other = pool.allocate(size, stream);
    for (const each of [buffer, other]) each.fill(1);
    await stream.finished();
    gate.hold(stream);
    for (const each of [buffer, other]) each.fill(2);
    exporter.offer("buffer", buffer);
    exporter.offer("other", other);
    await peer.call("connect", "one", path);
    let mapped = 0;
    const mapping = ["buffer", "other"].map((name) => peer.call("map", "one", name).then(() => mapped++));
    assert(await peer.call("aborts", "map", "one", "buffer"));
    await soon(() => exporter.leases.length === 2, "both are about to be mapped");
    assertEquals(mapped, 0);
    gate.open();
    await Promise.all(mapping);
    for (const name of ["buffer", "other"]) assertEquals(await peer.call("read", name, 0, size), uniform(2));
    await peer.call("close", "one");
    await soon(() => exporter.leases.length === 0, "all is released");
  },
);

sharingTest("memory written by another device's stream is offered after the write", async ({
  cuda,
  pool,
  path,
  start,
}) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  const other = cuda.device(1);
  using stream = other.createStream({ nonBlocking: true });
  pool.setAccess(other, "read-write");
  using buffer = pool.allocate(size, cuda.device(0).defaultStream);
  await cuda.device(0).finished();
  for (let value = 1; value <= 100; value++) buffer.fill(value, stream);
  exporter.offer("buffer", buffer, { stream });
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "buffer");
  assertEquals(await peer.call("read", "buffer", 0, size), uniform(100));
  await peer.call("close", "one");
}, { devices: 2, long: true });

sharingTest("a pool in host memory is shared like any other pool", async ({ cuda, gpu, stream, path, start }) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using pool = cuda.createHostPool({ numaNode: 0, handleType: "posix-fd" });
  using buffer = pool.allocate(size, gpu.defaultStream);
  buffer.copyFrom(uniform(4), stream);
  const offer = exporter.offer("buffer", buffer, { stream });
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "buffer");
  assertEquals(await peer.call("read", "buffer", 0, size), uniform(4));
  new Uint8Array(buffer.hostView()).fill(8);
  await peer.call("copy", "buffer", "copy");
  await peer.call("hold");
  await peer.call("free", "buffer");
  offer.withdraw();
  assertEquals(exporter.leases.length, 1);
  await peer.call("release");
  await offer.ended();
  assertEquals(await peer.call("read", "copy", 0, size), uniform(8));
  await peer.call("close", "one");
}, { long: true });

sharingTest(
  "holders of memory are asked to release it, and cut off if they do not",
  async ({ pool, stream, path, start }) => {
    const [kind, stubborn] = await Promise.all([start(), start()]);
    const gone: [number, string | undefined][] = [];
    await using exporter = Exporter.listen(path, { onDisconnect: (peer, error) => gone.push([peer.pid, error?.code]) });
    const buffer = pool.allocate(size, stream);
    buffer.fill(7);
    const offer = exporter.offer("buffer", buffer);
    for (const peer of [kind, stubborn]) {
      await peer.call("connect", "one", path);
      await peer.call("map", "one", "buffer");
    }
    await soon(() => exporter.leases.length === 2, "both hold it");
    const recalled = [kind, stubborn].map((peer) => peer.call("recalled", "buffer"));
    buffer.free();
    const reason = { enough: true };
    const controller = new AbortController();
    const aborted = exporter.leases[0]!.recall({ signal: controller.signal });
    controller.abort(reason);
    assertEquals(await aborted.catch((error) => error), reason);
    const leases = [...exporter.leases];
    const results = leases.map((lease) => lease.recall({ deadline: lease.peer.pid === kind.pid ? 10_000 : 300 }));
    const settled = Promise.allSettled(results);
    assertEquals(await Promise.all(recalled), ["cut-off", "cut-off"]);
    await kind.call("free", "buffer");
    const outcomes = await settled;
    const ofStubborn = outcomes[leases.findIndex((lease) => lease.peer.pid === stubborn.pid)]!;
    assertEquals(outcomes.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    const error = (ofStubborn as PromiseRejectedResult).reason;
    assertInstanceOf(error, SharingError);
    assertEquals(error.code, "cut-off");
    assertStringIncludes(error.message, `process ${stubborn.pid} did not release "buffer" within 300 ms`);
    assertEquals(gone, [[stubborn.pid, "cut-off"]]);
    assertEquals(exporter.leases.map(({ peer, state }) => [peer.pid, state]), [[stubborn.pid, "quarantined"]]);
    await assertFailsSoon(stubborn.call("offer", "one", "never"), "cut-off", "did not release");
    // The holder can still read, and nobody else gets the memory.
    using next = pool.allocate(size, stream);
    next.fill(8);
    await stream.finished();
    assertEquals(await stubborn.call("read", "buffer", 0, size), uniform(7));
    assert(pool.usage().used > size);
    await stubborn.kill();
    await soon(() => offer.leases.length === 0, "the quarantine has ended");
    await offer.ended();
    assertEquals(await kind.call("isConnected", "one"), true);
    await kind.call("close", "one");
  },
  { long: true },
);

sharingTest("a withdrawn offer cannot be mapped, but existing mappings stay", async ({ pool, stream, path, start }) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(size, stream);
  buffer.fill(2);
  const [idle, held] = [exporter.offer("idle", buffer), exporter.offer("held", buffer)];
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "held");
  for (const offer of [idle, held]) offer.withdraw();
  await idle.ended();
  const controller = new AbortController();
  const ended = held.ended({ signal: controller.signal });
  controller.abort("enough");
  assertEquals(await ended.catch((error) => error), "enough");
  assertEquals(await peer.call("read", "held", 0, size), uniform(2));
  exporter.offer("idle", buffer.subarray(0, 1));
  assertEquals((await peer.call("offer", "one", "idle")).byteLength, 1);
  await peer.call("free", "held");
  await held.ended();
  assertEquals(await buffer.read(Uint8Array), uniform(2));
  await peer.call("close", "one");
}, { long: true });

sharingTest("waits end with the reason of the signal that aborts them", async ({ pool, stream, gate, path, start }) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(size, stream);
  gate.hold(stream);
  exporter.offer("buffer", buffer);
  await peer.call("connect", "one", path);
  assert(await peer.call("aborts", "map", "one", "buffer"));
  assert(await peer.call("aborts", "offer", "one", "never"));
  assert(await peer.call("aborts", "drained offers", "one", "never"));
  {
    // It accepts connections, and sends nothing.
    await using silent = UnixListener.listen(`${path} of a silent listener`);
    assert(await peer.call("aborts", "connect", "one", silent.path));
  }
  await soon(() => exporter.leases.length === 0, "the map that was aborted is undone");
  const offer = exporter.offers[0]!;
  offer.withdraw();
  await offer.ended();
  gate.open();
  await peer.call("close", "one");
}, { long: true });

sharingTest("disposing an exporter ends waits for it, and cuts off holders that do not release", async ({
  pool,
  stream,
  path,
  start,
}) => {
  const [idle, kind, stubborn] = await Promise.all([start(), start(), start()]);
  const exporter = Exporter.listen(path, { closeTimeout: 1500 });
  const buffer = pool.allocate(size, stream);
  buffer.fill(1);
  exporter.offer("buffer", buffer);
  for (const peer of [idle, kind, stubborn]) await peer.call("connect", "one", path);
  // Calls are executed in order, so it has the offer before the offer is withdrawn.
  await idle.call("offer", "one", "buffer");
  const drained = idle.call("offers", "one", 2);
  const never = assertRejects(() => idle.call("offer", "one", "never"), PeerError);
  assert(await idle.call("isConnected", "one"));
  for (const peer of [kind, stubborn]) await peer.call("map", "one", "buffer");
  await soon(() => exporter.leases.length === 2, "two hold it");
  const recalled = [kind, stubborn].map((peer) => peer.call("recalled", "buffer"));
  const closing = exporter[Symbol.asyncDispose]();
  assertThrows(() => exporter.offer("late", buffer), ReferenceError, "the exporter was disposed");
  assertEquals(await Promise.all(recalled), ["cut-off", "cut-off"]);
  await kind.call("free", "buffer");
  const late = assertRejects(() => stubborn.call("offer", "one", "never"), PeerError);
  await closing;
  assertEquals(await drained, [["buffer", null]]);
  assertEquals([(await never).code, (await late).code], ["not-found", "cut-off"]);
  assertEquals(exporter.leases.map(({ peer, state }) => [peer.pid, state]), [[stubborn.pid, "quarantined"]]);
  buffer.free();
  assertEquals(await stubborn.call("read", "buffer", 0, size), uniform(1));
  await assertFailsSoon(idle.call("connect", "two", path), "not-found");
  await stubborn.kill();
  await soon(() => exporter.leases.length === 0, "the quarantine has ended");
  await exporter[Symbol.asyncDispose]();
});

sharingTest("disposing an importer releases all its memory, including pending mappings", async ({
  pool,
  stream,
  gate,
  path,
  start,
}) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using ready = pool.allocate(size, stream);
  using pending = pool.allocate(size, stream);
  ready.fill(1);
  await stream.finished();
  exporter.offer("ready", ready);
  gate.hold(stream);
  exporter.offer("pending", pending);
  await peer.call("connect", "one", path);
  await peer.call("connect", "two", path);
  await peer.call("map", "one", "ready");
  await peer.call("map", "one", "ready", "again");
  const waits = [peer.call("map", "one", "pending"), peer.call("offer", "one", "never")];
  const errors = waits.map((wait) => assertRejects(() => wait, PeerError));
  await soon(() => exporter.leases.length === 2, "all is held");
  await peer.call("close", "one");
  for (const error of errors) assertEquals((await error).thrown, "ReferenceError");
  await soon(() => exporter.leases.length === 0, "all is released");
  const late = await assertRejects(() => peer.call("offer", "one", "ready"), PeerError, "the importer was disposed");
  assertEquals(late.thrown, "ReferenceError");
  // The other connection of the same process is unaffected.
  await peer.call("map", "two", "ready", "third");
  assertEquals(await peer.call("read", "third", 0, size), uniform(1));
  gate.open();
  await peer.call("close", "two");
  await soon(() => exporter.importers.length === 0, "both have left");
}, { long: true });

sharingTest("an importer can be disposed after its devices", async ({ pool, stream, path, start }) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  const buffer = pool.allocate(size, stream);
  exporter.offer("buffer", buffer);
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "buffer");
  await peer.call("disposeCuda");
  const leaving = performance.now();
  await peer.call("close", "one");
  assert(performance.now() - leaving < 1000);
  await soon(() => exporter.leases[0]?.state === "quarantined", "the importer has left, but still maps the buffer");
  await peer.kill();
  await soon(() => exporter.leases.length === 0, "the importer has ended");
  buffer.free();
}, { long: true });

// A GPU's driver keeps the pool's memory, and a descriptor, until its process ends.
sharingTest("an exporter can be disposed after its devices", async ({ openDriver, path, start }) => {
  const cuda = new Cuda(new Session(openDriver()));
  const exporter = Exporter.listen(path);
  const pooled = cuda.device(0).createPool({ handleType: "posix-fd" });
  const kept = pooled.allocate(size);
  exporter.offer("kept", kept);
  const other = await start();
  await other.call("connect", "one", path);
  await other.call("map", "one", "kept");
  kept.free();
  pooled[Symbol.dispose]();
  cuda[Symbol.dispose]();
  await other.call("hold");
  await other.call("free", "kept");
  const closing = performance.now();
  await exporter[Symbol.asyncDispose]();
  assert(performance.now() - closing < 1000);
  await other.call("release");
}, { softwareOnly: true, long: true });

sharingTest("disposing an exporter before its work is done ends the waits for it", async ({
  pool,
  stream,
  gate,
  path,
  start,
}) => {
  const peer = await start();
  const exporter = Exporter.listen(path, { closeTimeout: 100 });
  using buffer = pool.allocate(size, stream);
  gate.hold(stream);
  exporter.offer("buffer", buffer);
  await peer.call("connect", "one", path);
  const mapping = assertRejects(() => peer.call("map", "one", "buffer"), PeerError);
  await soon(() => exporter.leases.length === 1, "the mapping is pending");
  await exporter[Symbol.asyncDispose]();
  assertEquals((await mapping).code, "cut-off");
  gate.open();
  await peer.call("close", "one");
  await peer.kill();
  await soon(() => exporter.leases.length === 0, "the quarantine has ended");
}, { long: true });

sharingTest("a process can share with itself", async ({ cuda, pool, stream, gate, path }) => {
  await using exporter = Exporter.listen(path);
  const buffer = pool.allocate(size, stream);
  gate.hold(stream);
  buffer.fill(5);
  const offer = exporter.offer("buffer", buffer);
  await using importer = await Importer.connect(cuda, path);
  const mapping = importer.offer("buffer").then((remote) => remote.map({ stream }));
  await soon(() => exporter.importers.length === 1, "it is connected");
  gate.open();
  const mapped = await mapping;
  buffer.free();
  assertEquals(await mapped.read(Uint8Array), uniform(5));
  gate.hold(stream);
  mapped.free();
  assertEquals(exporter.leases.length, 1);
  gate.open();
  await offer.ended();
});

sharingTest("an offer is mapped as elements of a type, and freeing the array releases it", async (fixture) => {
  const { cuda, pool, stream, path } = fixture;
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(size, stream);
  buffer.as(Float32Array).fill(2.5);
  const offer = exporter.offer("whole", buffer);
  exporter.offer("part", buffer.subarray(4, 34));
  exporter.offer("shifted", buffer.subarray(2, 34));
  exporter.offer("pool", pool);
  await using importer = await Importer.connect(cuda, path);
  {
    using array = await (await importer.offer("whole")).mapArray(Float32Array, { stream });
    const values: Float32Array = await array.toTypedArray();
    assertEquals([array.length, array.type, array.stream], [size / 4, Float32Array, stream]);
    assertEquals(values, new Float32Array(size / 4).fill(2.5));
    await soon(() => exporter.leases.length === 1, "a lease");
  }
  await offer.released();
  const part = await importer.offer("part");
  await assertRejects(() => part.mapArray(Float32Array), RangeError, "Cannot see 30 bytes as a Float32Array");
  await assertRejects(() => part.mapArray(DataView as never), TypeError, "as the type of elements");
  const shifted = await importer.offer("shifted");
  await assertRejects(() => shifted.mapArray(Float32Array), RangeError, "its address must be a multiple of 4");
  const whole = await importer.offer("pool");
  await assertRejects(() => whole.mapArray(Float32Array), TypeError, "use importPool");
  const bytes = await shifted.mapArray(Uint16Array);
  assertEquals(bytes.length, 16);
  bytes.free();
  await soon(() => exporter.leases.length === 0, "all is released");
});

sharingTest("an array is mapped with the element type and the shape that its offer states", async (fixture) => {
  const { cuda, pool, stream, path } = fixture;
  await using exporter = Exporter.listen(path);
  await using importer = await Importer.connect(cuda, path);
  using array = pool.allocateArray(new Int16Array([1, -2, 3, -4, 5, -6]), stream);
  using buffer = pool.allocate(12, stream);
  exporter.offer("plain", array);
  exporter.offer("shaped", array, { metadata: { shape: [2, 3], of: "x" } });
  exporter.offer("wrong", array, { metadata: { shape: [2, 2] } });
  exporter.offer("text", array, { metadata: "text" });
  exporter.offer("bytes", buffer);
  exporter.offer("bfloat16", buffer, { metadata: { dtype: "bfloat16", shape: [6] } });
  exporter.offer("inherited", buffer, { metadata: { dtype: "toString" } });
  const metadata = async (name: string) => (await importer.offer(name)).metadata;
  assertEquals(await metadata("plain"), { dtype: "int16", shape: [6] });
  assertEquals(await metadata("shaped"), { dtype: "int16", shape: [2, 3], of: "x" });
  assertEquals(await metadata("text"), "text");
  assertEquals(await metadata("bytes"), undefined);
  for (const [name, shape] of [["plain", [6]], ["shaped", [2, 3]], ["wrong", [6]]] as const) {
    using mapped = await (await importer.offer(name)).mapArray({ stream });
    assertEquals([mapped.type, mapped.shape, mapped.stream], [Int16Array as never, shape, stream]);
    assertEquals(await mapped.toTypedArray(), new Int16Array([1, -2, 3, -4, 5, -6]));
  }
  {
    using mapped = await (await importer.offer("shaped")).mapArray(Uint16Array);
    assertEquals([mapped.type, mapped.shape, mapped.subarray(1).shape], [Uint16Array as never, [2, 3], [5]]);
    using bytes = await (await importer.offer("shaped")).mapArray(Uint8Array);
    assertEquals(bytes.shape, [12]);
  }
  const refused = async (name: string, why: string): Promise<void> => {
    const offer = await importer.offer(name);
    const message = `Cannot map offer "${name}" as an array: ${why}; give the type, such as mapArray(Float32Array)`;
    assertEquals((await assertRejects(() => offer.mapArray(), TypeError)).message, message);
  };
  await refused("text", "its metadata states no dtype");
  await refused("bytes", "its metadata states no dtype");
  await refused("bfloat16", 'no typed array has elements of its dtype, "bfloat16"');
  await refused("inherited", 'no typed array has elements of its dtype, "toString"');
  await soon(() => exporter.leases.length === 0, "all is released");
});

sharingTest("invalid arguments for mapping or finding an offer are refused immediately", async (fixture) => {
  const { cuda, driver, pool, stream, path } = fixture;
  using made = new DisposableStack();
  const refusals = unusableStreams(fixture, made);
  let imports = 0;
  const { memPoolImportPointer } = driver;
  driver.memPoolImportPointer = (...given) => {
    imports++;
    return memPoolImportPointer.apply(driver, given);
  };
  assertThrows(
    () => Exporter.listen(cuda as never, path as never),
    TypeError,
    "Cannot listen at a Cuda: give the socket",
  );
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(size, stream);
  for (const [wrong, type, message] of refusals) {
    assertThrows(() => exporter.offer("buffer", buffer, { stream: wrong }), type, message);
  }
  assertEquals(exporter.offers, []);
  const offer = exporter.offer("buffer", buffer);
  await assertRejects(
    () => Importer.connect({} as Cuda, path),
    TypeError,
    "Cannot connect with an Object: give what open() returned",
  );
  await using importer = await Importer.connect(cuda, path);
  const remote = await importer.offer("buffer");
  for (const [wrong, type, message] of refusals) {
    await assertRejects(() => remote.map({ stream: wrong }), type, message);
  }
  const signal = new AbortController() as unknown as AbortSignal;
  await assertRejects(() => remote.map({ signal }), TypeError, "Cannot use an AbortController as a signal");
  await assertRejects(() => offer.released({ signal }), TypeError, "Cannot use an AbortController as a signal");
  for (const [name, type] of [[3, TypeError], ["", RangeError], ["x".repeat(256), RangeError]] as const) {
    await assertRejects(() => importer.offer(name as string), type, "as the name of an offer");
    await assertRejects(() => importer.channel(name as string), type, "as the name of an offer");
  }
  await assertRejects(() => offer.released({ importers: -1 }), RangeError, "Cannot wait for -1 importers");
  await assertRejects(() => offer.released({ importers: "2" as never }), TypeError, "as the number of importers");
  assertEquals([imports, exporter.leases], [0, []]);
  (await remote.map({ stream })).free();
  await offer.released();
  const mapped = await remote.map({ stream });
  await importer[Symbol.asyncDispose]();
  assertThrows(() => mapped.fill(1), ReferenceError, `the buffer of ${size} bytes: its importer was disposed`);
  assertThrows(() => mapped.free(), ReferenceError, `the buffer of ${size} bytes: its importer was disposed`);
});
