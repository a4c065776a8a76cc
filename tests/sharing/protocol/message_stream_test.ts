import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { closeDescriptor, describeDescriptor, openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { errno } from "../../../ffi/native/shim/shim.ts";
import { SharingError, type SharingErrorCode } from "../../../src/support/errors.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { decodeHeader, decodeMessage, headerByteLength } from "../../../src/sharing/protocol/decode_message.ts";
import { encodeMessage } from "../../../src/sharing/protocol/encode_message.ts";
import { answerGreeting, greet } from "../../../src/sharing/protocol/handshake.ts";
import { MessageStream, type MessageStreamHandlers } from "../../../src/sharing/protocol/message_stream.ts";
import {
  codeOfGoodbye,
  type GoodbyeReason,
  goodbyeReasons,
  type Message,
  type PoolMessage,
} from "../../../src/sharing/protocol/messages.ts";
import { PeerProcess } from "../../../src/sharing/transport/peer_process.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { nextTurn } from "../../../src/support/waiting/waiting.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { leakTest } from "../../support/resources.ts";
import type { TestOptions } from "../../support/test.ts";
import { warmUpSockets } from "../../support/warm_up.ts";

/** Milliseconds in which a dead peer must be noticed. */
const promptly = 1000;
const messageTimeout = 5000;
const handshakeTimeout = 10_000;

/** Records the callbacks of a stream. */
class Calls implements MessageStreamHandlers {
  readonly messages: Message[] = [];
  readonly ends: (SharingError | undefined)[] = [];
  drains = 0;
  #wake: () => void = () => {};

  onMessage(message: Message): void {
    this.messages.push(message);
    this.#wake();
  }

  onDrain(): void {
    this.drains++;
    this.#wake();
  }

  onEnd(error: SharingError | undefined): void {
    this.ends.push(error);
    this.#wake();
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      await new Promise<void>((resolve, reject) => {
        this.#wake = resolve;
        timer = setTimeout(() => reject(new Error("Nothing was called back for 20 seconds")), 20_000);
      }).finally(() => clearTimeout(timer));
    }
  }

  async next(): Promise<Message> {
    await this.until(() => this.messages.length > 0 || this.ends.length > 0);
    const message = this.messages.shift();
    if (message === undefined) throw new Error("The stream has ended", { cause: this.ends[0] });
    return message;
  }

  async end(): Promise<SharingError | undefined> {
    await this.until(() => this.ends.length > 0);
    return this.ends[0];
  }

  async endsWith(code: SharingErrorCode, text = ""): Promise<SharingError> {
    const error = (await this.end())!;
    assertInstanceOf(error, SharingError);
    assertEquals(error.code, code, error.message);
    assertStringIncludes(error.message, text);
    return error;
  }
}

interface Started extends AsyncDisposable {
  readonly stream: MessageStream;
  readonly calls: Calls;
}

function streamOf(socket: UnixSocket, timeout = messageTimeout): Started {
  const stream = new MessageStream(socket, { messageTimeout: timeout });
  return {
    stream,
    calls: new Calls(),
    async [Symbol.asyncDispose]() {
      stream.end("done");
      stream.process[Symbol.dispose]();
      await socket[Symbol.asyncDispose]();
    },
  };
}

function started(socket: UnixSocket, timeout = messageTimeout): Started {
  const end = streamOf(socket, timeout);
  end.stream.start(end.calls);
  return end;
}

async function withListener(body: (listener: UnixListener) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using listener = UnixListener.listen(`${folder}/socket`);
    await body(listener);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function pairOf(listener: UnixListener): Promise<[UnixSocket, UnixSocket]> {
  const accepted = listener.accept();
  return [await UnixSocket.connect(listener.path), await accepted];
}

function pairTest(name: string, body: (near: UnixSocket, far: UnixSocket) => Promise<void>): void {
  leakTest(name, () =>
    withListener(async (listener) => {
      const [near, far] = await pairOf(listener);
      await using _near = near;
      await using _far = far;
      await body(near, far);
    }), { warmUp: warmUpSockets });
}

/** Declares a test with another process on a stream after the handshake. */
function peerTest(
  name: string,
  mode: string,
  body: (child: ChildProcess, end: Started) => Promise<void>,
  { long }: TestOptions = {},
): void {
  leakTest(name, () => withPeer(mode, body), { long, warmUp: warmUpPeers });
}

async function withPeer(mode: string, body: (child: ChildProcess, end: Started) => Promise<void>): Promise<void> {
  await withListener(async (listener) => {
    await using child = startScript("children/sharing/message_peer.ts", [mode, listener.path]);
    await using end = streamOf(await listener.accept({ signal: AbortSignal.timeout(20_000) }));
    await answerGreeting(end.stream, { handshakeTimeout });
    await body(child, end);
  });
}

function warmUpPeers(): Promise<void> {
  return withPeer("echo", async (child, { stream, calls }) => {
    stream.start(calls);
    child.kill("SIGKILL");
    await calls.end();
  });
}

/** Starts one of the processes of the socket tests, which make no handshake. */
async function withSocketPeer(mode: string, body: (child: ChildProcess, end: Started) => Promise<void>): Promise<void> {
  await withListener(async (listener) => {
    await using child = startScript("children/sharing/socket_peer.ts", [mode, listener.path]);
    await using end = started(await listener.accept({ signal: AbortSignal.timeout(20_000) }));
    await body(child, end);
  });
}

function memoryFile(): ShareableHandle {
  return ShareableHandle.fromFd(createMemoryFile("poolpass-test", 4096));
}

function poolMessage(handle: ShareableHandle, pool = 1): Message {
  return { type: "pool", pool, kind: "device", deviceUuid: new Uint8Array(16).fill(7), handle };
}

function handleOf(message: Message): ShareableHandle {
  if (message.type !== "pool") throw new Error(message.type);
  return message.handle;
}

function release(sequence: number): Message {
  return { type: "release-slot", offer: 1, slot: 0, sequence, event: 0 };
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

async function receiveMessage(socket: UnixSocket): Promise<Message> {
  const { bytes } = await socket.receive(headerByteLength);
  const header = decodeHeader(bytes, 0);
  return decodeMessage(header, (await socket.receive(header.bodyByteLength)).bytes, undefined);
}

async function assertGoodbye(socket: UnixSocket, reason: GoodbyeReason, text = ""): Promise<void> {
  const message = await receiveMessage(socket);
  if (message.type !== "goodbye") throw new Error(message.type);
  assertEquals(message.reason, reason);
  assertStringIncludes(message.text, text);
  const error = await assertRejects(() => socket.receive(1), SharingError);
  assertEquals(error.code, "peer-gone");
}

function block(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

peerTest(
  "messages go to another process and back, with a descriptor",
  "echo",
  async (child, { stream, calls }) => {
    stream.start(calls);
    assertEquals(stream.peer.pid, child.pid);
    using handle = memoryFile();
    stream.send(release(1));
    stream.send(poolMessage(handle));
    stream.send({ type: "held", offer: 3 });
    assertEquals(await calls.next(), release(1));
    using returned = handleOf(await calls.next());
    assert(returned.fd !== handle.fd);
    assertEquals(describeDescriptor(returned.fd).inode, describeDescriptor(handle.fd).inode);
    assertEquals(await calls.next(), { type: "held", offer: 3 });
  },
  { long: true },
);

pairTest("the messages of one turn are sent in one write, and a descriptor in its own write", async (near, far) => {
  await using end = started(near);
  using handle = memoryFile();
  end.stream.send(release(1));
  end.stream.send(release(2));
  end.stream.send(poolMessage(handle));
  end.stream.send(release(3));
  const before = 2 * encodeMessage(release(1)).length;
  await far.receive(before);
  const { handles } = await far.receive(1, { handles: 1 });
  handles[0]![Symbol.dispose]();
  await far.receive(encodeMessage(poolMessage(handle)).length - 1 + before / 2);
});

pairTest("send borrows a handle, which may be disposed after the call", async (near, far) => {
  await using sender = started(near);
  await using receiver = started(far);
  const handle = memoryFile();
  const { inode } = describeDescriptor(handle.fd);
  sender.stream.send(poolMessage(handle));
  handle[Symbol.dispose]();
  using received = handleOf(await receiver.calls.next());
  assertEquals(describeDescriptor(received.fd).inode, inode);
});

pairTest("messages arrive whole, however they were split", async (near, far) => {
  await using end = started(far);
  using handle = memoryFile();
  const messages = [release(1), poolMessage(handle), { type: "end", offer: 9 } as const, poolMessage(handle, 2)];
  for (const message of messages) {
    const bytes = encodeMessage(message);
    for (let i = 0; i < bytes.length; i++) {
      await near.send(bytes.subarray(i, i + 1), { handles: i === 0 && message.type === "pool" ? [handle] : [] });
      if (i % 5 === 0) await new Promise((resolve) => setTimeout(resolve));
    }
  }
  for (const message of messages) {
    const received = await end.calls.next();
    if (received.type === "pool") received.handle[Symbol.dispose]();
    assertEquals({ ...received, handle: 0 }, { ...message, handle: 0 });
  }
});

pairTest("long and short messages arrive in order", async (near, far) => {
  await using sender = started(near);
  await using receiver = started(far);
  const count = 300;
  const frame = (sequence: number): Message => ({
    type: "frame",
    offer: 1,
    slot: 0,
    sequence,
    byteLength: 0,
    hasEvent: false,
    metadata: JSON.stringify("x".repeat((sequence * 7919) % 30_000)),
  });
  for (let i = 1; i <= count; i++) {
    sender.stream.send(frame(i));
    sender.stream.send(release(i));
  }
  for (let i = 1; i <= count; i++) {
    assertEquals(await receiver.calls.next(), frame(i));
    assertEquals(await receiver.calls.next(), release(i));
  }
});

for (
  const [name, write, text] of [
    ["without its descriptor", (near, handle) => near.send(encodeMessage(poolMessage(handle))), ""],
    [
      "with a descriptor although it has none",
      (near, handle) => near.send(encodeMessage(release(1)), { handles: [handle] }),
      "more descriptors",
    ],
    [
      "with two descriptors instead of one",
      (near, handle) => near.send(encodeMessage(poolMessage(handle)), { handles: [handle, handle] }),
      "more descriptors",
    ],
    [
      "with an unexpected descriptor in its middle",
      async (near, handle) => {
        const bytes = encodeMessage(release(1));
        await near.send(bytes.subarray(0, 9));
        await near.send(bytes.subarray(9, 10), { handles: [handle] });
      },
      "more descriptors",
    ],
    [
      "whose first and second byte have a descriptor each",
      async (near, handle) => {
        const bytes = encodeMessage(poolMessage(handle));
        await near.send(bytes.subarray(0, 1), { handles: [handle] });
        await near.send(bytes.subarray(1, 2), { handles: [handle] });
      },
      "more descriptors",
    ],
    [
      "with its descriptor in the write of the next one",
      async (near, handle) => {
        // Both have been written before this process reads.
        const first = near.send(encodeMessage(poolMessage(handle)));
        await near.send(encodeMessage(release(1)), { handles: [handle] });
        await first;
      },
      "did not come with its first byte",
    ],
    [
      "with another one behind it in its write",
      (near, handle) =>
        near.send(joined(encodeMessage(poolMessage(handle)), encodeMessage(release(1))), { handles: [handle] }),
      "did not come with its first byte",
    ],
    [
      "with its descriptor behind its first byte",
      async (near, handle) => {
        const bytes = encodeMessage(poolMessage(handle));
        await near.send(bytes.subarray(0, 1));
        for (let turn = 0; turn < 10; turn++) await nextTurn();
        await near.send(bytes.subarray(1), { handles: [handle] });
      },
      "more descriptors",
    ],
    [
      "with a descriptor that is no pool's",
      async (near, handle) => {
        using zero = ShareableHandle.fromFd(openDescriptor("/dev/zero"));
        await near.send(encodeMessage(poolMessage(handle)), { handles: [zero] });
      },
      "is no pool's",
    ],
    [
      "with a length of 4 GiB",
      (near) => near.send(Uint8Array.of(255, 255, 255, 255, 25, 0, 0, 0)),
      "4294967295",
    ],
    ["of an unknown type", (near) => near.send(Uint8Array.of(4, 0, 0, 0, 99, 0, 0, 0)), "99"],
    [
      "with an invalid body and a descriptor",
      (near, handle) => near.send(encodeMessage(poolMessage(handle)).fill(0, 8, 12), { handles: [handle] }),
      "pool",
    ],
  ] satisfies [string, (near: UnixSocket, handle: ShareableHandle) => Promise<void>, string][]
) {
  pairTest(`a message ${name} ends the stream, and the peer is notified`, async (near, far) => {
    await using end = started(far);
    using handle = memoryFile();
    await write(near, handle);
    const error = await end.calls.endsWith("bad-message", text);
    await assertGoodbye(near, "bad-message", error.message);
  });
}

pairTest("messages before an invalid one are called back, none after it", async (near, far) => {
  await using end = started(far);
  const bad = Uint8Array.of(4, 0, 0, 0, 99, 0, 0, 0);
  await near.send(joined(encodeMessage(release(1)), bad, encodeMessage(release(2))));
  await end.calls.endsWith("bad-message");
  assertEquals(end.calls.messages, [release(1)]);
});

pairTest("a message that is incomplete after the timeout ends the stream", async (near, far) => {
  await using end = started(far, 30);
  using handle = memoryFile();
  await near.send(encodeMessage(poolMessage(handle)).subarray(0, 20), { handles: [handle] });
  await end.calls.endsWith("timed-out", "within 30 ms");
  await assertGoodbye(near, "timed-out");
});

pairTest("a byte now and then does not extend a message's timeout", async (near, far) => {
  await using end = started(far, 60);
  const bytes = encodeMessage({ type: "event-free", event: 1 });
  const since = performance.now();
  let next = 0;
  const timer = setInterval(() => {
    if (next < bytes.length - 1) near.send(bytes.subarray(next, ++next)).catch(() => {});
  }, 20);
  try {
    await end.calls.endsWith("timed-out");
  } finally {
    clearInterval(timer);
  }
  assert(next < bytes.length - 1 && performance.now() - since >= 55, `${next} bytes`);
});

pairTest("each message has its own timeout, and silence between messages has none", async (near, far) => {
  await using end = started(far, 50);
  for (let i = 1; i <= 5; i++) {
    const bytes = encodeMessage(release(i));
    await near.send(bytes.subarray(0, 5));
    await new Promise((resolve) => setTimeout(resolve, 20));
    // The end of this message, and the beginning of the next one, whose timeout only starts now.
    const following = encodeMessage(release(i + 100)).subarray(0, 5);
    await near.send(joined(bytes.subarray(5), following));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await near.send(encodeMessage(release(i + 100)).subarray(5));
    assertEquals([await end.calls.next(), await end.calls.next()], [release(i), release(i + 100)]);
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  assertEquals(end.calls.ends, []);
});

pairTest("a peer is not considered late because this process was busy", async (near, far) => {
  await using end = started(far, 30);
  const bytes = encodeMessage(release(1));
  await near.send(bytes.subarray(0, 5));
  await new Promise((resolve) => setTimeout(resolve, 10));
  await near.send(bytes.subarray(5));
  block(60);
  assertEquals(await end.calls.next(), release(1));
  assertEquals(end.calls.ends, []);
});

for (const reason of goodbyeReasons) {
  pairTest(`goodbye: ${reason}`, async (near, far) => {
    await using end = started(far);
    const text = `why\u001b[31m "so"`;
    await near.send(joined(
      encodeMessage(release(1)),
      encodeMessage({ type: "goodbye", reason, lowestVersion: 2, highestVersion: 3, text }),
      encodeMessage(release(2)),
    ));
    const error = await end.calls.end();
    assertEquals(end.calls.messages, [release(1)]);
    assertEquals(error?.code, reason === "done" ? undefined : codeOfGoodbye(reason));
    if (error === undefined) return;
    assertStringIncludes(error.message, `why\\u001b[31m \\"so\\"`);
    if (reason === "version-mismatch") assertStringIncludes(error.message, "versions 2 to 3");
  });
}

pairTest("a handler's error is sent to the peer and ends the stream", async (near, far) => {
  await using end = streamOf(far);
  const calls = end.calls;
  const error = new SharingError("cut-off", "Cannot wait any longer");
  const onMessage = () => {
    throw error;
  };
  end.stream.start({ onMessage, onDrain: () => calls.onDrain(), onEnd: (error) => calls.onEnd(error) });
  using handle = memoryFile();
  await near.send(encodeMessage(poolMessage(handle)), { handles: [handle] });
  assertEquals(await calls.end(), error);
  await assertGoodbye(near, "cut-off", error.message);
});

pairTest("a handler's error that is not a SharingError is sent as an internal error", async (near, far) => {
  await using end = streamOf(far);
  const calls = end.calls;
  const cause = new RangeError("too many");
  const onMessage = () => {
    throw cause;
  };
  end.stream.start({ onMessage, onDrain: () => calls.onDrain(), onEnd: (error) => calls.onEnd(error) });
  await near.send(encodeMessage(release(1)));
  assertEquals((await calls.endsWith("internal-error", "too many")).cause, cause);
  await assertGoodbye(near, "internal-error", "too many");
});

pairTest("a peer that does not read causes a backlog, but blocks nothing else", async (near, far) => {
  await using end = started(near);
  const { stream, calls } = end;
  let sent = 0;
  while (!stream.isBacklogged) stream.send(release(++sent));
  stream.flush();
  while (!stream.isBacklogged) {
    stream.send(release(++sent));
    stream.flush();
  }
  // This message waits in the queue, but its handle may be closed.
  const handle = memoryFile();
  const { inode } = describeDescriptor(handle.fd);
  stream.send(poolMessage(handle));
  handle[Symbol.dispose]();
  await far.send(encodeMessage({ type: "held", offer: 5 }));
  assertEquals(await calls.next(), { type: "held", offer: 5 });
  assert(stream.isBacklogged);
  assertEquals(calls.drains, 0);

  await using receiver = started(far);
  for (let i = 1; i <= sent; i++) assertEquals(await receiver.calls.next(), release(i));
  using received = handleOf(await receiver.calls.next());
  assertEquals(describeDescriptor(received.fd).inode, inode);
  await calls.until(() => calls.drains > 0);
  assert(!stream.isBacklogged);
  assertEquals(calls.drains, 1);
});

pairTest("more descriptors than the socket can hold arrive, each with its message", async (near, far) => {
  await using sender = started(near);
  await using receiver = started(far);
  using handle = memoryFile();
  sender.stream.send(release(1));
  assertEquals(await receiver.calls.next(), release(1));
  // A socket holds about 280 such writes.
  for (let pool = 1; pool <= 400; pool++) sender.stream.send(poolMessage(handle, pool));
  for (let pool = 1; pool <= 400; pool++) {
    const message = await receiver.calls.next();
    handleOf(message)[Symbol.dispose]();
    assertEquals((message as PoolMessage).pool, pool);
  }
});

pairTest("queued messages are dropped with the stream", async (near, far) => {
  await using end = started(near);
  const { stream } = end;
  using handle = memoryFile();
  while (!stream.isBacklogged) {
    stream.send(poolMessage(handle));
    stream.send(release(1));
    stream.flush();
  }
  stream.end("done");
  stream.send(poolMessage(handle));
  await far[Symbol.asyncDispose]();
});

pairTest("nothing is called back after the end", async (near, far) => {
  await using end = started(far);
  const { stream, calls } = end;
  calls.onMessage = (message) => {
    Calls.prototype.onMessage.call(calls, message);
    stream.end("limit-exceeded", "Too many");
    stream.end("done");
  };
  await near.send(joined(encodeMessage(release(1)), encodeMessage(release(2))));
  assertEquals(await calls.next(), release(1));
  await assertGoodbye(near, "limit-exceeded", "Too many");
  stream.start(calls);
  stream.send(release(3));
  stream.flush();
  await near[Symbol.asyncDispose]();
  await new Promise((resolve) => setTimeout(resolve, 10));
  assertEquals([calls.messages, calls.ends, calls.drains], [[], [], 0]);
});

pairTest("queued messages are sent before the goodbye", async (near, far) => {
  await using end = started(far);
  end.stream.send(release(1));
  end.stream.end("done", "Enough");
  assertEquals(await receiveMessage(near), release(1));
  await assertGoodbye(near, "done", "Enough");
});

pairTest("the end of a connection is reported as peer-gone, although the peer's process runs", async (near, far) => {
  await using end = started(far);
  await near.send(encodeMessage(release(1)));
  await near[Symbol.asyncDispose]();
  await end.calls.endsWith("peer-gone", "closed the connection");
  assertEquals(end.calls.messages, [release(1)]);
  assert(!end.stream.process.hasEnded);
});

pairTest("a connection that ends within a message is reported as such, and keeps no descriptor", async (near, far) => {
  await using end = started(far);
  using handle = memoryFile();
  await near.send(encodeMessage(poolMessage(handle)).subarray(0, 9), { handles: [handle] });
  await near[Symbol.asyncDispose]();
  await end.calls.endsWith("peer-gone", "in the middle of a message");
});

pairTest(
  "messages sent by a peer before it closed are received, although nothing can be sent to it",
  async (near, far) => {
    await using end = streamOf(far);
    await near.send(
      encodeMessage({
        type: "goodbye",
        reason: "limit-exceeded",
        lowestVersion: 1,
        highestVersion: 1,
        text: "No room",
      }),
    );
    await near[Symbol.asyncDispose]();
    end.stream.send(release(1));
    end.stream.flush();
    end.stream.start(end.calls);
    await end.calls.endsWith("limit-exceeded", "No room");
  },
);

pairTest("sending to a closed peer reports that it is gone", async (near, far) => {
  await using end = started(far);
  await near[Symbol.asyncDispose]();
  for (let i = 0; i < 3; i++) end.stream.send(release(1));
  end.stream.flush();
  await end.calls.endsWith("peer-gone");
  assertEquals(end.calls.ends.length, 1);
});

for (const when of ["at once", "when it is started"]) {
  pairTest(`sending a closed handle is reported ${when}, and later messages are not lost silently`, async (
    near,
    far,
  ) => {
    await using end = streamOf(near);
    const { stream, calls } = end;
    if (when === "at once") stream.start(calls);
    stream.send(release(1));
    await far.send(encodeMessage(release(2)));
    // Earlier messages were written, so only the handle can fail.
    assertEquals(await receiveMessage(far), release(1));
    const closed = memoryFile();
    closeDescriptor(closed.fd);
    stream.send(poolMessage(closed));
    stream.send(release(3));
    assertEquals(calls.ends, []);
    if (when === "when it is started") {
      await nextTurn();
      stream.start(calls);
    }
    await calls.endsWith("peer-gone", "sendmsg failed: EBADF");
    // It is reported once, after the peer's messages.
    stream.send(release(4));
    stream.flush();
    await nextTurn();
    assertEquals([calls.messages, calls.ends.length], [[release(2)], 1]);
    const error = await assertRejects(() => far.receive(1), SharingError);
    assertEquals(error.code, "peer-gone");
  });
}

pairTest("a pause keeps messages, and the end, until the next start", async (near, far) => {
  await using end = started(far);
  const { stream, calls } = end;
  const second = new Calls();
  calls.onMessage = (message) => {
    Calls.prototype.onMessage.call(calls, message);
    stream.pause();
  };
  await near.send(joined(encodeMessage(release(1)), encodeMessage(release(2))));
  assertEquals(await calls.next(), release(1));
  await near.send(encodeMessage(release(3)));
  await near[Symbol.asyncDispose]();
  await new Promise((resolve) => setTimeout(resolve, 10));
  assertEquals([calls.messages, calls.ends], [[], []]);
  stream.start(second);
  assertEquals(second.messages, []);
  await second.endsWith("peer-gone");
  assertEquals(second.messages, [release(2), release(3)]);
  assertEquals(calls.ends, []);
});

pairTest("a socket that a stream has taken over counts as disposed", async (near, far) => {
  const received = far.receive(1);
  await using _end = started(far);
  assertInstanceOf(await assertRejects(() => received), ReferenceError);
  await assertRejects(() => far.send(Uint8Array.of(1)), ReferenceError, "disposed");
  assertThrows(() => new MessageStream(far, { messageTimeout }), ReferenceError, "disposed");
  await near.send(encodeMessage(release(1)));
  assertEquals(await _end.calls.next(), release(1));
});

pairTest("a sender that fills the backlog stops when nothing can be sent any more", async (near, far) => {
  await using end = started(near);
  const flood = (): number => {
    let sent = 0;
    for (; !end.stream.isBacklogged && sent < 100_000; sent++) end.stream.send(release(sent + 1));
    return sent;
  };
  await far[Symbol.asyncDispose]();
  const sent = flood();
  assert(sent < 100_000, `${sent} messages`);
  await end.calls.endsWith("peer-gone");
  assertEquals(flood(), 0);
});

peerTest("a peer that sends endlessly does not block the event loop", "flood", async (child, end) => {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  let count = 0;
  const since = performance.now();
  const handlers = new Calls();
  handlers.onMessage = () => {
    count++;
    if (performance.now() - since > 200) end.stream.end("done");
  };
  end.stream.start(handlers);
  await child.ended;
  clearInterval(timer);
  assert(turns > 3 && count > 1000, `${turns} turns, ${count} messages`);
});

peerTest("a killed peer is reported as gone, and so is its process", "echo", async (child, { stream, calls }) => {
  stream.start(calls);
  stream.send(release(1));
  await calls.next();
  assert(!stream.process.hasEnded);
  const ended = new Promise<void>((resolve) => stream.process.whenEnded(resolve));
  const since = performance.now();
  child.kill("SIGKILL");
  await calls.endsWith("peer-gone");
  await ended;
  assert(stream.process.hasEnded);
  assert(performance.now() - since < promptly);
});

peerTest("the last messages of a dead peer are received first", "last words", async (child, { stream, calls }) => {
  await child.ended;
  assert(stream.process.hasEnded);
  stream.start(calls);
  await calls.endsWith("peer-gone");
  const { length } = calls.messages;
  assert(length > 1000);
  assertEquals(calls.messages.at(-1), release(length));
}, { long: true });

for (const others of [0, 150]) {
  const name = "a killed peer is reported as gone although a grandchild holds its socket open" +
    (others > 0 ? `, with ${others} other connections` : "");
  leakTest(name, () =>
    withListener(async (listener) => {
      await using stack = new AsyncDisposableStack();
      for (let i = 0; i < others; i++) {
        const [near, far] = await pairOf(listener);
        stack.use(near);
        stack.use(started(far));
      }
      await withSocketPeer("grandchild", async (child, { stream, calls }) => {
        const grandchild = Number(await child.nextLine());
        assertEquals(await child.nextLine(), "ready");
        try {
          const ended = new Promise<void>((resolve) => stream.process.whenEnded(resolve));
          const since = performance.now();
          child.kill("SIGKILL");
          await calls.endsWith("peer-gone", "its process has ended");
          await ended;
          assert(performance.now() - since < promptly);
        } finally {
          process.kill(grandchild, "SIGKILL");
        }
      });
    }), {
    long: others > 0,
    warmUp: () =>
      withSocketPeer("connect", async (child, { calls }) => {
        child.kill("SIGKILL");
        await calls.end();
      }),
  });
}

pairTest("many connections are served, in any order of activity", async () => {
  await withListener(async (listener) => {
    await using stack = new AsyncDisposableStack();
    const ends: { near: UnixSocket; far: Started }[] = [];
    for (let i = 0; i < 200; i++) {
      const [near, far] = await pairOf(listener);
      ends.push({ near: stack.use(near), far: stack.use(started(far)) });
    }
    for (let round = 1; round <= 3; round++) {
      // Some peers send several times, then all do, then those that remain.
      for (const i of [199, 3, 120, 199, 64]) await speak(i, round);
      await Promise.all(ends.map((_, i) => speak(i, round)));
      for (const { far } of ends.splice(round * 10, 40)) await far[Symbol.asyncDispose]();
    }
    async function speak(index: number, sequence: number): Promise<void> {
      const { near, far } = ends[index % ends.length]!;
      await near.send(encodeMessage(release(sequence)));
      assertEquals(await far.calls.next(), release(sequence));
    }
  });
});

leakTest(
  "a process without free descriptors fails with the reason and ends the stream",
  () =>
    withListener(async (listener) => {
      const args = ["few descriptors", listener.path];
      await using child = startScript("children/sharing/message_peer.ts", args, { descriptorLimit: 100 });
      await using end = streamOf(await listener.accept({ signal: AbortSignal.timeout(20_000) }));
      await answerGreeting(end.stream, { handshakeTimeout });
      end.stream.start(end.calls);
      assertEquals(await child.nextLine(), "ready");
      using handle = memoryFile();
      end.stream.send(poolMessage(handle));
      assertEquals(await child.nextLine(), "out-of-descriptors");
      await end.calls.endsWith("peer-gone", "cannot open more descriptors");
      assertEquals(await child.ended, 0);
    }),
  { warmUp: warmUpSockets },
);

peerTest("watching a process quietly does not keep this process running", "quiet", async (child, { stream, calls }) => {
  stream.start(calls);
  assertEquals(await calls.end(), undefined);
  assertEquals(await child.nextLine(), "ready");
  const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
  assertEquals(await child.ended, 0, await child.errors());
  clearTimeout(timer);
}, { long: true });

peerTest(
  "watching a process keeps this process running, even without a connection",
  "loud",
  async (child, { stream, calls }) => {
    stream.start(calls);
    assertEquals(await calls.end(), undefined);
    assertEquals(await child.nextLine(), "ready");
    // The child waits for this process.
    const isStaying = await Promise.race([
      child.ended.then(() => false),
      new Promise<true>((resolve) => setTimeout(() => resolve(true), 200)),
    ]);
    assert(isStaying);
  },
);

for (const keepsAlive of [true, false]) {
  const name = `the end of a process is reported once, ${keepsAlive ? "watched" : "watched quietly"}`;
  peerTest(name, "echo", async (child, { stream }) => {
    stream.process.keepAlive(keepsAlive);
    let count = 0;
    const callback = () => void count++;
    stream.process.whenEnded(callback);
    stream.process.whenEnded(callback);
    stream.process.whenEnded(() => count += 100)();
    const ended = new Promise<void>((resolve) => stream.process.whenEnded(resolve));
    child.kill("SIGKILL");
    const timer = setTimeout(() => {}, 10_000);
    await ended;
    clearTimeout(timer);
    assertEquals(count, 2);
    // An end in the past is reported, too, but only after the call has returned.
    let late = false;
    const notified = new Promise<void>((resolve) =>
      stream.process.whenEnded(() => {
        late = true;
        resolve();
      })
    );
    assert(!late);
    await notified;
    stream.process.whenEnded(() => count += 100);
    stream.process[Symbol.dispose]();
    stream.process[Symbol.dispose]();
    await new Promise((resolve) => setTimeout(resolve));
    assertEquals([count, stream.process.hasEnded], [2, true]);
  });
}

leakTest("a process without a descriptor has ended, or cannot be watched", async () => {
  const peer = { pid: 123, uid: 1, gid: 1 };
  using ended = new PeerProcess(peer, -errno.ESRCH);
  assert(ended.hasEnded);
  await new Promise<void>((resolve) => ended.whenEnded(resolve));
  const error = assertThrows(() => new PeerProcess(peer, -errno.ENOSYS), SharingError, "Linux 5.3");
  assertEquals((error as SharingError).code, "not-supported");
});

pairTest("after a handshake both sides continue, and later messages are not lost", async (near, far) => {
  await using importer = streamOf(near);
  await using exporter = streamOf(far);
  const greeted = greet(importer.stream, { handshakeTimeout });
  await answerGreeting(exporter.stream, { handshakeTimeout });
  using handle = memoryFile();
  exporter.stream.send(release(1));
  exporter.stream.send(poolMessage(handle));
  await greeted;
  exporter.stream.start(exporter.calls);
  await new Promise((resolve) => setTimeout(resolve, 5));
  importer.stream.start(importer.calls);
  assertEquals(await importer.calls.next(), release(1));
  handleOf(await importer.calls.next())[Symbol.dispose]();
  importer.stream.end("done");
  assertEquals(await exporter.calls.end(), undefined);
});

async function assertHandshakeFails(handshake: Promise<void>, code: SharingErrorCode, text = ""): Promise<void> {
  const error = await assertRejects(() => handshake, SharingError);
  assertEquals((error as SharingError).code, code, (error as Error).message);
  assertStringIncludes((error as Error).message, text);
}

for (const part of [greet, answerGreeting]) {
  const isImporter = part === greet;
  const hello = (lowestVersion: number, highestVersion: number) =>
    encodeMessage({ type: "hello", lowestVersion, highestVersion });
  const welcomeOf = (version: number): Message => ({ type: "welcome", version });
  const welcome = (version: number) => encodeMessage(welcomeOf(version));

  const handshakeTest = (name: string, body: (near: UnixSocket, end: Started) => Promise<void>): void =>
    pairTest(`${part.name}: ${name}`, async (near, far) => {
      await using end = streamOf(far);
      await body(near, end);
      // The stream has ended and must not call back.
      end.stream.start(end.calls);
      await new Promise((resolve) => setTimeout(resolve, 2));
      assertEquals([end.calls.messages, end.calls.ends], [[], []]);
    });
  const skipHello = async (near: UnixSocket) => {
    if (isImporter) assertEquals((await receiveMessage(near)).type, "hello");
  };

  handshakeTest("a peer with another version is notified", async (near, { stream }) => {
    await near.send(isImporter ? welcome(4) : hello(4, 7));
    await assertHandshakeFails(part(stream, { handshakeTimeout }), "version-mismatch", isImporter ? "4" : "4 to 7");
    await skipHello(near);
    await assertGoodbye(near, "version-mismatch");
  });

  for (const [lowest, highest, chosen] of [[1, 1, 1], [1, 2, 2], [2, 9, 3]] as const) {
    handshakeTest(`versions ${lowest} to ${highest} are spoken as ${chosen}`, async (near, { stream }) => {
      await near.send(isImporter ? welcome(chosen) : hello(lowest, highest));
      await part(stream, { handshakeTimeout });
      const answer = await receiveMessage(near);
      assertEquals(answer, isImporter ? { type: "hello", lowestVersion: 1, highestVersion: 3 } : welcomeOf(chosen));
      assertEquals(stream.version, chosen);
      stream.end("done");
    });
  }

  handshakeTest("another first message is refused", async (near, { stream }) => {
    using handle = memoryFile();
    await near.send(encodeMessage(poolMessage(handle)), { handles: [handle] });
    await assertHandshakeFails(part(stream, { handshakeTimeout }), "bad-message", "its first message is POOL");
    await skipHello(near);
    await assertGoodbye(near, "bad-message", "POOL");
  });

  handshakeTest("other protocols are refused", async (near, { stream }) => {
    await near.send(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    await assertHandshakeFails(part(stream, { handshakeTimeout }), "bad-message");
    await skipHello(near);
    await assertGoodbye(near, "bad-message");
  });

  handshakeTest("a silent peer times out", async (near, { stream }) => {
    await assertHandshakeFails(part(stream, { handshakeTimeout: 20 }), "timed-out", "within 20 ms");
    await skipHello(near);
    await assertGoodbye(near, "timed-out");
  });

  handshakeTest("a closed connection fails with peer-gone", async (near, { stream }) => {
    const failed = assertHandshakeFails(part(stream, { handshakeTimeout }), "peer-gone");
    await near[Symbol.asyncDispose]();
    await failed;
  });

  handshakeTest("a goodbye is reported with its reason", async (near, { stream }) => {
    const failed = assertHandshakeFails(part(stream, { handshakeTimeout }), "limit-exceeded", "No room");
    await near.send(
      encodeMessage({
        type: "goodbye",
        reason: "limit-exceeded",
        lowestVersion: 1,
        highestVersion: 1,
        text: "No room",
      }),
    );
    await failed;
  });

  for (const when of ["before", "meanwhile"]) {
    handshakeTest(`aborted ${when}`, async (near, { stream }) => {
      const controller = new AbortController();
      const reason = new Error("enough");
      if (when === "before") controller.abort(reason);
      else setTimeout(() => controller.abort(reason), 5);
      const error = await assertRejects(() => part(stream, { handshakeTimeout, signal: controller.signal }));
      assertEquals(error, reason);
      await skipHello(near);
      await assertGoodbye(near, "done");
    });
  }

  pairTest(`${part.name}: a peer is not considered late because this process was busy`, async (near, far) => {
    await using end = streamOf(far);
    const handshake = part(end.stream, { handshakeTimeout: 20 });
    await new Promise((resolve) => setTimeout(resolve, 1));
    await near.send(isImporter ? welcome(1) : hello(1, 5));
    block(60);
    await handshake;
  });
}
