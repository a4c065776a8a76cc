import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { SharingError, type SharingErrorCode } from "../../../src/support/errors.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { leakTest } from "../../support/resources.ts";
import { warmUpSockets } from "../../support/warm_up.ts";

/** Runs `body` with two ends of a connection. */
async function connected(body: (near: UnixSocket, far: UnixSocket) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using listener = UnixListener.listen(`${folder}/socket`);
    const accepted = listener.accept();
    await using near = await UnixSocket.connect(listener.path);
    await using far = await accepted;
    await body(near, far);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function messageTest(name: string, body: (near: UnixSocket, far: UnixSocket) => Promise<void>): void {
  leakTest(name, () => connected(body), { warmUp: warmUpSockets });
}

function memoryFile(text = ""): ShareableHandle {
  const fd = createMemoryFile("poolpass-test", 4096);
  writeAt(fd, new TextEncoder().encode(text));
  return ShareableHandle.fromFd(fd);
}

function textOf(handle: ShareableHandle, byteLength: number): string {
  const bytes = new Uint8Array(byteLength);
  readAt(handle.fd, bytes);
  return new TextDecoder().decode(bytes);
}

async function assertFails(promise: Promise<unknown>, code: SharingErrorCode, text = ""): Promise<void> {
  const error = await assertRejects(() => promise);
  assertInstanceOf(error, SharingError);
  assertEquals(error.code, code, error.message);
  assertStringIncludes(error.message, text);
}

messageTest("bytes go both ways, and each end knows the other's process", async (near, far) => {
  assertEquals(near.peer.pid, process.pid);
  assertEquals(far.peer.pid, process.pid);
  await near.send(new TextEncoder().encode("there"));
  await far.send(new TextEncoder().encode("back"));
  assertEquals(new TextDecoder().decode((await far.receive(5)).bytes), "there");
  assertEquals(new TextDecoder().decode((await near.receive(4)).bytes), "back");
});

messageTest("a descriptor arrives as another of the same file, and the sender keeps its own", async (near, far) => {
  using sent = memoryFile("the pool");
  await near.send(Uint8Array.of(1, 2, 3), { handles: [sent] });
  const { bytes, handles } = await far.receive(3, { handles: 1 });
  using received = handles[0]!;
  assertEquals([...bytes], [1, 2, 3]);
  assert(received.fd !== sent.fd);
  assertEquals(describeDescriptor(received.fd).inode, describeDescriptor(sent.fd).inode);
  assertEquals(textOf(received, 8), "the pool");
  assertEquals(textOf(sent, 8), "the pool");
});

messageTest("a message carries up to the maximum number of descriptors, in order", async (near, far) => {
  using first = memoryFile("first");
  using other = memoryFile("other");
  await near.send(Uint8Array.of(0), { handles: [first, ...new Array(251).fill(other), first] });
  const { handles } = await far.receive(1, { handles: 253 });
  const inodes = handles.map((handle) => describeDescriptor(handle.fd).inode);
  for (const handle of handles) handle[Symbol.dispose]();
  const [firstInode, otherInode] = [first, other].map((handle) => describeDescriptor(handle.fd).inode);
  assertEquals(inodes, [firstInode, ...new Array(251).fill(otherInode), firstInode]);
});

messageTest("a receive takes its bytes and descriptors, and none of the next message", async (near, far) => {
  using first = memoryFile("1");
  using second = memoryFile("2");
  await near.send(new Uint8Array(10).fill(1), { handles: [first] });
  await near.send(new Uint8Array(10).fill(2), { handles: [second] });
  await near.send(new Uint8Array(10).fill(3));
  const text: string[] = [];
  for (const [byteLength, count] of [[4, 1], [6, 0], [10, 1], [10, 0]] as const) {
    const { bytes, handles } = await far.receive(byteLength, { handles: count });
    text.push([...bytes].join("") + handles.map((handle) => `/${textOf(handle, 1)}`).join(""));
    for (const handle of handles) handle[Symbol.dispose]();
  }
  assertEquals(text, ["1111/1", "111111", "2222222222/2", "3333333333"]);
});

messageTest("one receive may span several sends, and get a descriptor from any of them", async (near, far) => {
  using handle = memoryFile("x");
  await near.send(new Uint8Array(12));
  await near.send(new Uint8Array(1), { handles: [handle] });
  await near.send(new Uint8Array(64));
  const { bytes, handles } = await far.receive(77, { handles: 1 });
  using received = handles[0]!;
  assertEquals(bytes.length, 77);
  assertEquals(textOf(received, 1), "x");
});

messageTest("more bytes than the socket holds arrive whole", async (near, far) => {
  const sent = Uint8Array.from({ length: 5_000_011 }, (_, i) => i * 7 + (i >> 8));
  const expected = sent.slice();
  const sending = near.send(sent);
  // send() has copied its argument, so these zeros must not arrive.
  sent.fill(0);
  const { bytes } = await far.receive(expected.length);
  await sending;
  assert(bytes.every((byte, i) => byte === expected[i]));
});

messageTest("sends and receives are served in order", async (near, far) => {
  const sizes = [300_000, 1, 200_000, 3];
  const receives = Promise.all(sizes.map((size) => far.receive(size)));
  await Promise.all(sizes.map((size, i) => near.send(new Uint8Array(size).fill(i))));
  for (const [i, { bytes }] of (await receives).entries()) {
    assertEquals(bytes.length, sizes[i]);
    assert(bytes.every((byte) => byte === i));
  }
});

messageTest("a truncated message fails with peer-gone, and the number of bytes received", async (near, far) => {
  using handle = memoryFile();
  await near.send(new Uint8Array(3), { handles: [handle] });
  await near[Symbol.asyncDispose]();
  await assertFails(far.receive(8, { handles: 1 }), "peer-gone", "after 3 of them");
  await assertFails(far.receive(1), "peer-gone");
});

messageTest("the end of the stream fails with peer-gone", async (near, far) => {
  const received = far.receive(8);
  await near[Symbol.asyncDispose]();
  await assertFails(received, "peer-gone", "after 0 of them");
  await assertFails(far.send(Uint8Array.of(1)), "peer-gone");
});

messageTest("a connection closed with unread data fails with peer-gone", async (near, far) => {
  await far.send(Uint8Array.of(1));
  await near[Symbol.asyncDispose]();
  await assertFails(far.receive(1), "peer-gone");
  await assertFails(far.receive(1), "peer-gone");
});

messageTest("a peer that stops reading and closes ends a waiting send", async (near, far) => {
  const sending = near.send(new Uint8Array(10_000_000));
  await far.receive(1_000_000);
  await far[Symbol.asyncDispose]();
  await assertFails(sending, "peer-gone");
  await assertFails(near.send(Uint8Array.of(1)), "peer-gone", "earlier");
});

messageTest("a message without its descriptor is refused", async (near, far) => {
  await near.send(new Uint8Array(8));
  await assertFails(far.receive(8, { handles: 1 }), "bad-message", "expected 1; the sender must send the handles");
  await assertFails(far.receive(8), "bad-message", "connect again");
});

messageTest("two descriptors are refused and closed if one is expected", async (near, far) => {
  using handle = memoryFile();
  await near.send(new Uint8Array(8), { handles: [handle, handle] });
  await assertFails(far.receive(8, { handles: 1 }), "bad-message", "2 descriptors came with them, expected 1");
});

messageTest("a second descriptor in the middle of a message is refused, and the first closed", async (near, far) => {
  using handle = memoryFile();
  await near.send(new Uint8Array(4), { handles: [handle] });
  await near.send(new Uint8Array(4), { handles: [handle] });
  await assertFails(far.receive(8, { handles: 1 }), "bad-message", "2 descriptors");
});

messageTest("an unexpected descriptor is refused and closed", async (near, far) => {
  using handle = memoryFile();
  await near.send(new Uint8Array(8), { handles: [handle] });
  await assertFails(far.receive(8), "bad-message", "1 descriptor came with them, expected 0; ask");
});

messageTest("unread descriptors are closed with the connection", async (near) => {
  using handle = memoryFile();
  for (let i = 0; i < 20; i++) await near.send(Uint8Array.of(1), { handles: [handle, handle, handle] });
});

messageTest("an abort between messages has no effect on later ones", async (near, far) => {
  const controller = new AbortController();
  const received = far.receive(4, { signal: controller.signal });
  const reason = new Error("enough");
  setTimeout(() => controller.abort(reason), 1);
  assertEquals(await assertRejects(() => received), reason);
  await near.send(Uint8Array.of(1, 2, 3, 4));
  assertEquals([...(await far.receive(4)).bytes], [1, 2, 3, 4]);
});

messageTest(
  "an abort in the middle of a message closes its descriptors, and later receives fail with the reason",
  async (near, far) => {
    using handle = memoryFile();
    const controller = new AbortController();
    const received = far.receive(4, { handles: 1, signal: controller.signal });
    await near.send(Uint8Array.of(1, 2), { handles: [handle] });
    setTimeout(() => controller.abort(), 5);
    assertEquals((await assertRejects(() => received) as Error).name, "AbortError");
    await near.send(Uint8Array.of(3, 4));
    await assertFails(far.receive(2), "bad-message", "an earlier call failed in the middle of a message");
    await far.send(Uint8Array.of(5));
    assertEquals([...(await near.receive(1)).bytes], [5]);
  },
);

messageTest("aborting a queued receive does not affect the others", async (near, far) => {
  const controller = new AbortController();
  const first = far.receive(1);
  const second = far.receive(1, { signal: controller.signal });
  const third = far.receive(1);
  controller.abort(new Error("second"));
  assertEquals((await assertRejects(() => second) as Error).message, "second");
  await near.send(Uint8Array.of(1, 3));
  assertEquals([(await first).bytes[0], (await third).bytes[0]], [1, 3]);
});

messageTest("a signal that is already aborted rejects immediately", async (near, far) => {
  const signal = AbortSignal.abort(new Error("before"));
  for (const call of [() => far.receive(1, { signal }), () => near.send(Uint8Array.of(1), { signal })]) {
    assertEquals((await assertRejects(call) as Error).message, "before");
  }
});

messageTest("disposing rejects waiting calls, and later ones", async (near, far) => {
  const received = [far.receive(1), far.receive(1)];
  const sending = far.send(new Uint8Array(10_000_000));
  const disposed = far[Symbol.asyncDispose]();
  for (const promise of [...received, sending, far.receive(1), far.send(Uint8Array.of(1))]) {
    assertInstanceOf(await assertRejects(() => promise), ReferenceError);
  }
  await disposed;
  await far[Symbol.asyncDispose]();
  await assertRejects(() => near.receive(20_000_000), SharingError);
});

messageTest("zero bytes are sent and received immediately", async (near, far) => {
  await near.send(new Uint8Array(0));
  assertEquals((await far.receive(0)).bytes.length, 0);
});

messageTest("invalid arguments are refused before anything is sent", async (near, far) => {
  using handle = memoryFile();
  using fabric = ShareableHandle.fromBytes(new Uint8Array(64));
  const disposed = memoryFile();
  disposed[Symbol.dispose]();
  await assertRejects(() => near.send("text" as unknown as Uint8Array), TypeError, "Uint8Array");
  await assertRejects(() => near.send(new Uint8Array(0), { handles: [handle] }), TypeError, "first byte");
  await assertRejects(() => near.send(Uint8Array.of(1), { handles: [fabric] }), TypeError, "fabric");
  const number = 5 as unknown as ShareableHandle;
  await assertRejects(() => near.send(Uint8Array.of(1), { handles: [number] }), TypeError, "Cannot send 5 as a handle");
  await assertRejects(() => near.send(Uint8Array.of(1), { handles: [disposed] }), ReferenceError, "disposed");
  await assertRejects(() => near.send(Uint8Array.of(1), { handles: new Array(254).fill(handle) }), RangeError, "253");
  for (const byteLength of [-1, 1.5, NaN, 2 ** 32, Infinity]) {
    await assertRejects(() => far.receive(byteLength), RangeError, `Cannot receive ${byteLength} bytes`);
  }
  await assertRejects(() => far.receive(1, { handles: -1 }), RangeError);
  await assertRejects(() => far.receive(0, { handles: 1 }), TypeError);
});

messageTest("a large length uses no memory before its bytes arrive", async (near, far) => {
  const before = process.memoryUsage.rss();
  const received = far.receive(2 ** 30);
  await near.send(Uint8Array.of(1));
  assert(process.memoryUsage.rss() - before < 2 ** 27);
  await near[Symbol.asyncDispose]();
  await assertFails(received, "peer-gone", "after 1 of them");
});

messageTest("a peer that sends constantly does not block the event loop", async (near, far) => {
  await near.send(new Uint8Array(50_000));
  let turned = false;
  setTimeout(() => turned = true, 0);
  for (let i = 0; i < 50_000 && !turned; i++) await far.receive(1);
  assert(turned);
});

messageTest("many connections wait concurrently", async () => {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using listener = UnixListener.listen(`${folder}/socket`);
    const pairs = await Promise.all(Array.from({ length: 50 }, async () => {
      const accepted = listener.accept();
      const near = await UnixSocket.connect(listener.path);
      return { near, far: await accepted };
    }));
    const received = pairs.map(({ far }) => far.receive(1));
    await Promise.all(pairs.map(({ near }, i) => near.send(Uint8Array.of(i))));
    const bytes = (await Promise.all(received)).map(({ bytes }) => bytes[0]!);
    assertEquals(bytes.toSorted((a, b) => a - b), Array.from({ length: 50 }, (_, i) => i));
    await Promise.all(pairs.flatMap(({ near, far }) => [near, far]).map((socket) => socket[Symbol.asyncDispose]()));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

messageTest("a descriptor that is not a socket is not taken over", async () => {
  const fd = createMemoryFile("poolpass-test", 1);
  await assertRejects(async () => await Promise.resolve(UnixSocket.fromFd(fd)), TypeError, "not a connected socket");
  // The runtimes would convert these to valid descriptors.
  assertThrows(() => UnixSocket.fromFd(fd + 0.5), TypeError, "it is not an integer");
  assertThrows(() => UnixSocket.fromFd(BigInt(fd) as never), TypeError, "it is not an integer");
  assertThrows(() => UnixSocket.fromFd(2 ** 32 + fd), RangeError, "it is out of range");
  closeDescriptor(fd);
});
