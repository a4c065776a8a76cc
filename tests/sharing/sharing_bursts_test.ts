import { test } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { closeDescriptor, isReadable } from "../../ffi/native/shim/descriptors.ts";
import { receiveFrom } from "../../ffi/native/shim/sockets.ts";
import { decodeHeader, decodeMessage, headerByteLength } from "../../src/sharing/protocol/decode_message.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { MessageStream } from "../../src/sharing/protocol/message_stream.ts";
import type { Message, OfferMessage } from "../../src/sharing/protocol/messages.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { takeConnection, UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { nextTurn } from "../../src/support/waiting/waiting.ts";
import { countCalls } from "./channel/channel_peers.ts";
import { leakTest } from "../support/resources.ts";
import { sharingTest, soon } from "./sharing_peers.ts";
import { warmUpSockets } from "../support/warm_up.ts";

function offerOf(fields: Partial<OfferMessage>): OfferMessage {
  return {
    type: "offer",
    offer: 1,
    kind: "buffer",
    allocation: 1,
    pool: 1,
    byteOffset: 0,
    byteLength: 1,
    readyEvent: 0,
    name: "x",
    metadata: "",
    ...fields,
  };
}

function joined(messages: readonly Message[]): Uint8Array {
  return new Uint8Array(messages.flatMap((message) => [...encodeMessage(message)]));
}

async function withStream(body: (stream: MessageStream, far: UnixSocket) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using listener = UnixListener.listen(`${folder}/stream.sock`);
    const near = await UnixSocket.connect(listener.path);
    await using far = await listener.accept();
    const stream = new MessageStream(near, { messageTimeout: 5000 });
    try {
      await body(stream, far);
    } finally {
      stream.end("done");
      stream.process[Symbol.dispose]();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("metadata of any length and with any characters arrive unchanged", () => {
  for (let length = 1; length <= 85; length++) {
    for (const character of ["n", "\x01", "\x7f", "\x80", "é", "\uffff"]) {
      for (const position of [0, length >> 1, length - 1]) {
        const name = "n".repeat(position) + character + "n".repeat(length - position - 1);
        const message = offerOf({ name, metadata: JSON.stringify(name) });
        const bytes = encodeMessage(message);
        assertEquals(decodeMessage(decodeHeader(bytes, 0), bytes.subarray(headerByteLength), undefined), message);
      }
    }
  }
});

leakTest("messages of all lengths, more than the socket holds, arrive whole and in order", async () => {
  const messages = Array.from({ length: 400 }, (_, index) => {
    const length = index % 50 === 0 ? 32_000 - index : index * 7 % 300;
    return offerOf({ offer: index + 1, name: `offer ${index}`, metadata: JSON.stringify("m".repeat(length)) });
  });
  await withStream(async (stream, far) => {
    const expected = joined(messages);
    for (const message of messages) stream.send(message);
    const { bytes } = await far.receive(expected.length);
    assert(bytes.toHex() === expected.toHex());
  });
}, { warmUp: warmUpSockets });

leakTest("a message that fills a write is written immediately, and others when the run ends", async () => {
  await withStream(async (stream, far) => {
    const { fd, pidfd } = takeConnection(far);
    try {
      stream.send(offerOf({ name: "short" }));
      assert(!isReadable(fd));
      await undefined;
      assert(isReadable(fd));
      const room = new Uint8Array(65_536);
      receiveFrom(fd, room, 0);
      for (let count = 0; count < 100; count++) stream.send(offerOf({ name: `offer ${count}` }));
      assert(isReadable(fd));
    } finally {
      closeDescriptor(fd);
      closeDescriptor(pidfd);
    }
  });
}, { warmUp: warmUpSockets });

leakTest("an occasional sender without answers is not delayed until the next turn", async () => {
  await withStream(async (stream, far) => {
    const { fd, pidfd } = takeConnection(far);
    const order: string[] = [];
    try {
      stream.start({ onMessage() {}, onDrain() {}, onEnd() {} });
      const room = new Uint8Array(4096);
      for (let count = 1; count <= 6; count++) {
        // Only the sender's own timer wakes it.
        await new Promise((resolve) => setTimeout(resolve, 5));
        stream.send(offerOf({ name: `offer ${count}` }));
        const turn = nextTurn().then(() => order.push(`turn ${count}`));
        for (let microtask = 0; microtask < 5; microtask++) await undefined;
        if (isReadable(fd)) order.push(`message ${count}`);
        await turn;
        receiveFrom(fd, room, 0);
      }
    } finally {
      closeDescriptor(fd);
      closeDescriptor(pidfd);
    }
    assertEquals(order, [1, 2, 3, 4, 5, 6].flatMap((count) => [`message ${count}`, `turn ${count}`]));
  });
}, { warmUp: warmUpSockets });

leakTest("messages sent in successive microtasks arrive whole and in order", async () => {
  await withStream(async (stream, far) => {
    const messages = Array.from({ length: 100 }, (_, index) => offerOf({ offer: index + 1, name: `offer ${index}` }));
    const expected = joined(messages);
    for (const message of messages.slice(0, 20)) {
      stream.send(message);
      await undefined;
      await undefined;
    }
    for (const message of messages.slice(20)) stream.send(message);
    assert((await far.receive(expected.length)).bytes.toHex() === expected.toHex());
  });
}, { warmUp: warmUpSockets });

sharingTest("a thousand offers of one run need no more driver calls than forty", async ({
  driver,
  pool,
  stream,
  gate,
  path,
  start,
}) => {
  const count = 1000;
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(count, stream);
  const numbers = Uint8Array.from({ length: count }, (_, index) => index);
  await peer.call("connect", "one", path);
  await soon(() => exporter.importers.length === 1, "it is connected");
  for (const isBusy of [false, true]) {
    buffer.fill(255);
    if (isBusy) gate.hold(stream);
    buffer.copyFrom(numbers);
    if (!isBusy) await stream.finished();
    const name = isBusy ? "busy " : "idle ";
    const offers = [];
    {
      using counted = countCalls(driver);
      for (let index = 0; index < count; index++) offers.push(exporter.offer(name + index, buffer.subarray(index)));
      // The run ends here.
      await undefined;
      await undefined;
      const { streamQuery = 0, eventRecord = 0, eventQuery = 0 } = counted.calls;
      assert(streamQuery <= 40, `${streamQuery} queries of the stream`);
      assert(eventRecord <= (isBusy ? 40 : 0), `${eventRecord} records`);
      assert(eventQuery <= 1, `${eventQuery} queries of an event`);
    }
    if (isBusy) gate.open();
    assert(await peer.call("mapMany", "one", name, count));
    await peer.call("freeMany", name, count);
    for (const offer of offers) offer.withdraw();
    await offers.at(-1)!.ended();
  }
  await soon(() => exporter.leases.length === 0, "all is released");
  await peer.call("close", "one");
}, { long: true });

sharingTest("the first offers of a burst are readable before later work on the stream is done", async ({
  gpu,
  pool,
  stream,
  gate,
  path,
  start,
}) => {
  const peer = await start();
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(64, stream);
  buffer.fill(7);
  await stream.finished();
  await peer.call("connect", "one", path);
  for (let index = 0; index < 20; index++) exporter.offer(`part ${index}`, buffer.subarray(index, index + 1));
  gate.hold(stream);
  await peer.call("map", "one", "part 7");
  const mapping = peer.call("map", "one", "part 19");
  gate.open();
  await mapping;

  // A stream that is disposed within the run does not affect the other offers.
  using other = gpu.createStream({ nonBlocking: true });
  for (let index = 0; index < 20; index++) {
    exporter.offer(`late ${index}`, buffer.subarray(index, index + 1), { stream: other });
  }
  other[Symbol.dispose]();
  assertThrows(() => exporter.offer("later", buffer, { stream: other }), ReferenceError, "it was disposed");
  assertEquals(exporter.offers.length, 40);
  await peer.call("map", "one", "late 19");
  for (const name of ["part 7", "part 19", "late 19"]) {
    assertEquals(await peer.call("read", name, 0, 1), Uint8Array.of(7));
    await peer.call("free", name);
  }
  await peer.call("close", "one");
});

sharingTest("freeing a buffer withdraws all its offers, in whatever order others ended", async ({
  pool,
  stream,
  path,
}) => {
  await using exporter = Exporter.listen(path);
  using neighbour = pool.allocate(64, stream);
  exporter.offer("neighbour", neighbour);
  const buffer = pool.allocate(64, stream);
  const offers = Array.from({ length: 10 }, (_, index) => exporter.offer(`part ${index}`, buffer.subarray(index)));
  for (const index of [0, 9, 4, 8]) offers[index]!.withdraw();
  assertEquals(exporter.offers.length, 7);
  buffer.free();
  assertEquals(exporter.offers.map(({ name }) => name), ["neighbour"]);
  await Promise.all(offers.map((offer) => offer.ended()));
  await stream.finished();
  assertEquals(pool.usage().used, 64);
});
