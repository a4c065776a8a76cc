import { test } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { closeDescriptor } from "../ffi/shim/descriptors.ts";
import { receiveFrom } from "../ffi/shim/sockets.ts";
import { decodeHeader, decodeMessage, headerByteLength } from "../src/sharing/decode_message.ts";
import { encodeMessage } from "../src/sharing/encode_message.ts";
import { MessageStream } from "../src/sharing/message_stream.ts";
import type { Message, OfferMessage } from "../src/sharing/messages.ts";
import { isReadable } from "../src/sharing/poller.ts";
import { UnixListener } from "../src/sharing/unix_listener.ts";
import { takeConnection, UnixSocket } from "../src/sharing/unix_socket.ts";
import { leakTest } from "./resources.ts";
import { warmUpSockets } from "./warm_up.ts";

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

test("text of any length and with any character goes as it is", () => {
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

leakTest("messages of all lengths arrive whole and in order, more of them than the socket holds", async () => {
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

leakTest("what makes a write of its own is written at once, and what does not when the run is over", async () => {
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

leakTest("what is sent by one microtask after another arrives whole and in order", async () => {
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
