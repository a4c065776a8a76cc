import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { sessionOf } from "../../src/objects/cuda.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { MessageStream } from "../../src/sharing/protocol/message_stream.ts";
import type { Message } from "../../src/sharing/protocol/messages.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { SharedMapping } from "../../src/memory/virtual/whole_memory.ts";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { assertFailsSoon, sharingTest, soon } from "./sharing_peers.ts";

const mebibyte = 2 ** 20;
/** No multiple of any granularity. */
const size = 5 * mebibyte + 1000;
const uniform = (byte: number) => new Uint8Array(8).fill(byte);

sharingTest("virtual memory is offered, mapped, held and released like memory of a pool", async (fixture) => {
  const { gpu, stream, gate, path, start } = fixture;
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using buffer = gpu.allocate(size, { handleType: "posix-fd" });
  assertEquals([buffer.byteLength, buffer.pool, buffer.stream], [size, undefined, gpu.defaultStream]);
  buffer.fill(1, stream);
  gate.hold(stream);
  buffer.fill(2, stream);
  const whole = exporter.offer("whole", buffer, { stream, metadata: [size] });
  exporter.offer("part", buffer.subarray(4 * mebibyte, 4 * mebibyte + 8), { stream });
  await peer.call("connect", "one", path);
  assertEquals(await peer.call("offer", "one", "whole"), { kind: "buffer", byteLength: size, metadata: [size] });
  const mapped = peer.call("map", "one", "whole");
  gate.open();
  await mapped;
  await peer.call("map", "one", "part");
  assertEquals(await peer.call("read", "whole", size - 8, 8), uniform(2));
  assertEquals(await peer.call("read", "part", 0, 8), uniform(2));
  assertEquals(await peer.call("imports"), [0, 0]);
  await soon(() => exporter.leases.length === 2, "both are held");
  buffer.fill(3, stream);
  await stream.finished();
  assertEquals(await peer.call("read", "part", 0, 8), uniform(3));
  await peer.call("free", "whole");
  await whole.released();
  // The mapping lasts until its last buffer is freed.
  assertEquals(await peer.call("read", "part", 0, 8), uniform(3));
  await peer.call("free", "part");
  await soon(() => exporter.leases.length === 0, "both are released");
  await peer.call("map", "one", "whole", "again");
  assertEquals(await peer.call("read", "again", 0, 8), uniform(3));
  await peer.call("close", "one");
  await soon(() => exporter.leases.length === 0, "all is released");
});

sharingTest("virtual memory that is freed while it is held stays until it is released", async (fixture) => {
  const { openDriver, path, start } = fixture;
  const released: bigint[] = [];
  const driver = openDriver();
  using cuda = adaptedCuda(driver, {
    memUnmap(address, byteLength) {
      released.push(address);
      driver.memUnmap(address, byteLength);
    },
  });
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  const peer = await start();
  await using exporter = Exporter.listen(path);
  const buffer = gpu.allocate(size, { handleType: "posix-fd" });
  const { address } = buffer;
  buffer.fill(4, stream);
  const offer = exporter.offer("buffer", buffer, { stream });
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "buffer");
  buffer.free(stream);
  await soon(() => exporter.leases.length === 1 && exporter.offers.length === 0, "it is withdrawn and held");
  assertEquals(released, []);
  assertEquals(await peer.call("read", "buffer", size - 8, 8), uniform(4));
  await peer.call("free", "buffer");
  await offer.ended();
  assertEquals(released, [address]);
  await peer.call("close", "one");
});

sharingTest("virtual memory is released when a process that holds it is killed", async ({ gpu, path, start }) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  const buffer = gpu.allocate(size, { handleType: "posix-fd" });
  const offer = exporter.offer("buffer", buffer);
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "buffer");
  buffer.free();
  await peer.kill();
  await offer.ended();
  assertEquals(exporter.leases, []);
});

sharingTest("virtual memory of an exporter that is killed can be read until it is freed", async (fixture) => {
  const { cuda, path, start } = fixture;
  const peer = await start();
  await peer.call("listen", path);
  await peer.call("export", "buffer", size, 5, "virtual memory");
  await using importer = await Importer.connect(cuda, path);
  const offer = await importer.offer("buffer");
  using buffer = await offer.map();
  await peer.kill();
  assertEquals(await buffer.read(Uint8Array, { byteOffset: size - 8 }), uniform(5));
});

sharingTest("memory whose unmapping failed stays mapped, and no other buffer loses it", async (
  { openDriver, gpu },
) => {
  using memory = gpu.createMemory(2 * mebibyte, { handleType: "posix-fd" });
  using handle = memory.exportHandle();
  let failures = 0;
  let mapped = 0;
  const driver = openDriver();
  using cuda = adaptedCuda(driver, {
    memMap(...args) {
      mapped++;
      driver.memMap(...args);
    },
    memUnmap(...args) {
      if (failures-- > 0) throw new CudaError(1, "cuMemUnmap");
      mapped--;
      driver.memUnmap(...args);
    },
  });
  const shared = new SharedMapping();
  const map = () => shared.map(sessionOf(cuda), cuda.device(0), { handle, byteLength: memory.byteLength });
  const first = map();
  failures = 1;
  assertThrows(() => first.free(), CudaError);
  const [second, third] = [map(), map()];
  second.free();
  third.fill(1);
  assertEquals([mapped, (await third.read(Uint8Array, { length: 1 }))[0]], [1, 1]);
  third.free();
  assertEquals(mapped, 1);
}, { softwareOnly: true });

sharingTest("an importer of version 1 is told that virtual memory needs version 2, and no other is disturbed", async (
  { gpu, pool, stream, path, start },
) => {
  const peer = await start();
  const ends: (string | undefined)[] = [];
  await using exporter = Exporter.listen(path, { onDisconnect: (_, error) => void ends.push(error?.code) });
  using small = pool.allocate(64, stream);
  using large = gpu.allocate(size, { handleType: "posix-fd" });
  await peer.call("connect", "one", path);
  const old = new MessageStream(await UnixSocket.connect(path), { messageTimeout: 5000 });
  using _process = old.process;
  const messages: Message[] = [];
  const ended = new Promise<SharingError | undefined>((resolve) =>
    old.start({
      onMessage(message) {
        if (message.type === "pool") message.handle[Symbol.dispose]();
        messages.push(message);
      },
      onDrain() {},
      onEnd: resolve,
    })
  );
  old.send({ type: "hello", lowestVersion: 1, highestVersion: 1 });
  await soon(() => messages.length > 0, "it is welcome");
  assertEquals(messages, [{ type: "welcome", version: 1 }]);
  // An offer of a pool would be held by this process, which lives.
  exporter.offer("large", large);
  const error = await ended;
  exporter.offer("small", small);
  assertEquals(error?.code, "version-mismatch");
  assertMatch(error!.message, /"large\\" needs version 2/);
  for (const name of ["large", "small"]) {
    await peer.call("map", "one", name);
    await peer.call("free", name);
  }
  await peer.call("close", "one");
  assertEquals(ends, ["version-mismatch", undefined]);
});

sharingTest("an importer that maps only virtual memory maps no pool, and opens no event", async (fixture) => {
  const { openDriver, gpu, pool, stream, gate, path } = fixture;
  await using exporter = Exporter.listen(path);
  using pooled = pool.allocate(64, stream);
  using large = gpu.allocate(size, { handleType: "posix-fd" });
  gate.hold(stream);
  large.fill(6, stream);
  exporter.offer("large", large, { stream });
  const given: string[] = [];
  const driver = openDriver();
  using cuda = adaptedCuda(driver, {
    memPoolImportFromShareableHandle: () => void given.push("pool") as never,
    ipcOpenEventHandle: () => void given.push("event") as never,
  });
  await using importer = await Importer.connect(cuda, path, { memory: "virtual" });
  // The exporter is in this process: it offers what is ready.
  gate.open();
  {
    using mapped = await (await importer.offer("large")).map();
    assertEquals(await mapped.read(Uint8Array, { byteOffset: size - 8 }), uniform(6));
  }
  exporter.offer("pooled", pooled, { stream });
  exporter.offer("pool", pool);
  const expected = "maps only virtual memory; the exporter must allocate it for other processes by CudaDevice.allocate";
  await assertFailsSoon((await importer.offer("pooled")).map(), "not-permitted", expected);
  const offer = await importer.offer("pool");
  assertThrows(() => offer.importPool(), SharingError, expected);
  assertEquals(given, []);
  await assertRejects(
    () => Importer.connect(cuda, path, { memory: "pools" as "any" }),
    TypeError,
    'Cannot use "pools" as memory: it must be "any" or "virtual"',
  );
});

sharingTest("virtual memory cannot be exported by hand, and says what can", ({ gpu }) => {
  using buffer = gpu.allocate(64, { handleType: "posix-fd" });
  assertThrows(() => buffer.exportPointer(), TypeError, "offer it with an Exporter, or create it with createMemory");
  assertThrows(() => buffer.exportHandle(), TypeError, "offer it with an Exporter, or create it with createMemory");
  assertThrows(
    () => gpu.allocate(64, { handleType: "fabric" as "none" }),
    TypeError,
    'Cannot allocate memory with handleType "fabric": it must be "none" or "posix-fd"',
  );
  assertThrows(() => gpu.allocate(0, { handleType: "posix-fd" }), RangeError);
  using legacy = gpu.allocate(64, { handleType: "none" });
  assertEquals(legacy.exportHandle().byteLength, 64);
  return Promise.resolve();
});

sharingTest("an exporter that states another size of virtual memory, or a pool as virtual memory, harms nobody", async (
  { cuda, gpu, pool, path },
) => {
  using memory = gpu.createMemory(2 * mebibyte, { handleType: "posix-fd" });
  using buffer = pool.allocate(64);
  using handle = memory.exportHandle();
  using poolHandle = pool.exportHandle();
  const deviceUuid = Uint8Array.fromHex(gpu.uuid.replace(/^GPU-/, "").replaceAll("-", ""));
  const lies = [
    ["true", handle, memory.byteLength, new Uint8Array(64)],
    ["smaller", handle, memory.byteLength / 2, new Uint8Array(64)],
    ["larger", handle, 2 * memory.byteLength, new Uint8Array(64)],
    ["huge", handle, 2 ** 46, new Uint8Array(64)],
    ["odd", handle, memory.byteLength - 1, new Uint8Array(64)],
    ["a pool", poolHandle, memory.byteLength, new Uint8Array(64)],
  ] as const;
  await using listener = UnixListener.listen(path);
  const accepting = listener.accept();
  const connecting = Importer.connect(cuda, path);
  await using socket = await accepting;
  await socket.send(encodeMessage({ type: "welcome", version: 2 }));
  await using importer = await connecting;
  for (const [index, [name, borrowed, byteLength, exportData]] of lies.entries()) {
    const number = index + 1;
    const message: Message = { type: "pool", pool: number, kind: "memory", deviceUuid, handle: borrowed };
    await socket.send(encodeMessage(message), { handles: [borrowed] });
    await socket.send(encodeMessage({ type: "allocation", allocation: number, pool: number, byteLength, exportData }));
    await socket.send(encodeMessage({
      type: "offer",
      offer: number,
      kind: "buffer",
      allocation: number,
      pool: number,
      byteOffset: 0,
      byteLength,
      readyEvent: 0,
      name,
      metadata: "",
    }));
  }
  for (const [name] of lies) {
    const offer = await importer.offer(name);
    if (name === "true") (await offer.map()).free();
    else await assertRejects(() => offer.map(), Error, "Cannot");
  }
  const exportData = buffer.exportPointer();
  await socket.send(encodeMessage({ type: "allocation", allocation: 99, pool: 1, byteLength: 64, exportData }));
  await assertFailsSoon(importer.offer("none"), "bad-message", "is a piece of virtual memory");
  assert(!importer.isConnected);
});

sharingTest("a piece of virtual memory that is announced with two sizes is not mapped", async ({ cuda, gpu, path }) => {
  using memory = gpu.createMemory(2 * mebibyte, { handleType: "posix-fd" });
  using handle = memory.exportHandle();
  const deviceUuid = Uint8Array.fromHex(gpu.uuid.replace(/^GPU-/, "").replaceAll("-", ""));
  await using listener = UnixListener.listen(path);
  const accepting = listener.accept();
  const connecting = Importer.connect(cuda, path);
  await using socket = await accepting;
  await socket.send(encodeMessage({ type: "welcome", version: 2 }));
  await using importer = await connecting;
  const message: Message = { type: "pool", pool: 1, kind: "memory", deviceUuid, handle };
  await socket.send(encodeMessage(message), { handles: [handle] });
  for (const allocation of [1, 2]) {
    const byteLength = allocation * memory.byteLength;
    const exportData = new Uint8Array(64);
    await socket.send(encodeMessage({ type: "allocation", allocation, pool: 1, byteLength, exportData }));
  }
  await assertFailsSoon(importer.offer("none"), "bad-message", "which has another one");
});
