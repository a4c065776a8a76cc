/** Channels as offers: withdrawn, joined again, and left while frames are in flight. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { parseUuid } from "../../../src/support/uuid.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { answerGreeting, greet } from "../../../src/sharing/protocol/handshake.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { MessageStream } from "../../../src/sharing/protocol/message_stream.ts";
import type { Message } from "../../../src/sharing/protocol/messages.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { sharingTest, soon } from "../sharing_peers.ts";

const byteLength = 4096;

sharingTest(
  "a withdrawn channel ends, and its events are not reused before it is disposed",
  async ({
    cuda,
    gpu,
    pool,
    stream,
    gate,
    path,
  }) => {
    await using exporter = Exporter.listen(path);
    const options = { pool, slots: 1, slotByteLength: 64, minimumConsumers: 0, stream };
    await using channel = exporter.createChannel("frames", options);
    const slot = await channel.reserve();
    const waiting = assertRejects(() => channel.reserve(), ReferenceError, "the channel has ended");
    for (const offer of exporter.offers) offer.withdraw();
    await waiting;
    assertEquals(exporter.offers.length, 0);
    using slow = gpu.createStream({ nonBlocking: true });
    using buffer = pool.allocate(byteLength, stream);
    gate.hold(slow);
    buffer.fill(9, slow);
    exporter.offer("buffer", buffer, { stream: slow });
    slot[Symbol.dispose]();
    await stream.finished();
    await using importer = await Importer.connect(cuda, path);
    const mapping = importer.offer("buffer").then((offer) => offer.map({ stream }));
    gate.open();
    using mapped = await mapping;
    assert(slow.query(), "the buffer is mapped only after its write");
    assertEquals(await mapped.read(Uint8Array, { length: 1 }), Uint8Array.of(9));
  },
  { long: true },
);

sharingTest(
  "a consumer stays joined when an earlier hold on the channel is released",
  async ({ pool, stream, path }) => {
    await using exporter = Exporter.listen(path);
    await using channel = exporter.createChannel("frames", { pool, slots: 2, slotByteLength: 64, stream });
    await stream.finished();
    const importer = new MessageStream(await UnixSocket.connect(path), { messageTimeout: 1000 });
    await greet(importer, { handshakeTimeout: 1000 });
    const frames: Message[] = [];
    const offered = Promise.withResolvers<number>();
    importer.start({
      onMessage(message) {
        if (message.type === "pool") message.handle[Symbol.dispose]();
        if (message.type === "channel") offered.resolve(message.offer);
        if (message.type === "frame") frames.push(message);
      },
      onDrain() {},
      onEnd() {},
    });
    const offer = await offered.promise;
    for (const type of ["held", "held", "join"] as const) importer.send({ type, offer });
    importer.send({ type: "released", offer, event: 0 });
    await soon(() => channel.consumers.length === 1, "it has joined");
    channel.send(await channel.reserve(), { byteLength: 0 });
    await soon(() => frames.length === 1, "it is sent frames");
    assertEquals(channel.consumers.length, 1);
    importer.send({ type: "released", offer, event: 0 });
    await soon(() => channel.consumers.length === 0 && channel.freeSlots === 2, "it has left");
    importer.end("done");
    importer.process[Symbol.dispose]();
  },
  { long: true },
);

sharingTest("late frames of a channel that was left are ignored", async ({
  cuda,
  gpu,
  pool,
  stream,
  path,
}) => {
  await using listener = UnixListener.listen(path);
  const connecting = Importer.connect(cuda, path);
  const exporter = new MessageStream(await listener.accept(), { messageTimeout: 1000 });
  await answerGreeting(exporter, { handshakeTimeout: 1000 });
  const received: string[] = [];
  exporter.start({ onMessage: ({ type }) => void received.push(type), onDrain() {}, onEnd() {} });
  await using importer = await connecting;

  using buffer = pool.allocate(byteLength, stream);
  using handle = pool.exportHandle();
  using event = gpu.createEvent({ interprocess: true });
  const deviceUuid = parseUuid(gpu.uuid);
  const channel = { offer: 1, pool: 1, allocation: 1, byteOffset: 0, readyEvent: 0, metadata: "" } as const;
  const messages: Message[] = [
    { type: "pool", pool: 1, kind: "device", deviceUuid, handle },
    { type: "allocation", allocation: 1, pool: 1, byteLength, exportData: buffer.exportPointer() },
    { type: "event", event: 1, deviceUuid, handle: event.exportHandle() },
    { ...channel, type: "offer", kind: "channel", name: "frames", byteLength },
    { type: "channel", offer: 1, slotByteLength: 64, slotStride: byteLength, window: 1, readyEvents: [1] },
  ];
  for (const message of messages) exporter.send(message);
  const consumer = await importer.channel("frames", { stream }).catch(() => undefined);
  // A GPU's driver opens no event in the process that created it.
  if (consumer !== undefined) {
    exporter.send({ type: "withdraw", offer: 1 });
    await soon(() => received.includes("withdrawn"), "it acknowledges the withdrawal");
    await consumer[Symbol.asyncDispose]();
    await soon(() => received.includes("released"), "it has left");
    exporter.send({ type: "frame", offer: 1, slot: 0, sequence: 1, byteLength: 0, hasEvent: false, metadata: "" });
    exporter.send({ type: "end", offer: 1 });
  }
  exporter.send({ ...channel, type: "offer", offer: 2, kind: "buffer", name: "later", byteLength });
  assertEquals((await importer.offer("later")).byteLength, byteLength);
  // A channel that was never joined has no frames.
  exporter.send({ type: "end", offer: 2 });
  await assertRejects(() => importer.offer("never"), Error, "offer 2 was not joined");
  exporter.end("done");
  exporter.process[Symbol.dispose]();
});

sharingTest("disposing an importer waits for its own work, even past its exporter's closeTimeout", async ({
  cuda,
  pool,
  stream,
  gate,
  path,
}) => {
  await using exporter = Exporter.listen(path);
  const buffer = pool.allocate(byteLength, stream);
  await stream.finished();
  const offer = exporter.offer("buffer", buffer);
  const importer = await Importer.connect(cuda, path, { closeTimeout: 1 });
  const mapped = await (await importer.offer("buffer")).map({ stream });
  gate.hold(stream);
  mapped.free();
  const closed = importer[Symbol.asyncDispose]();
  // The exporter's time has now passed.
  await new Promise((resolve) => setTimeout(resolve, 20));
  gate.open();
  await closed;
  buffer.free();
  await offer.ended({ signal: AbortSignal.timeout(1000) });
  assertEquals(exporter.leases.length, 0);
});
