import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { dirname } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { ChannelFrames } from "../../../src/sharing/channel/channel_frames.ts";
import type { ChannelOptions, ChannelProducer } from "../../../src/sharing/channel/channel_producer.ts";
import type { ConnectedImporter } from "../../../src/sharing/exporter/connected_importer.ts";
import type { JsonValue } from "../../../src/sharing/protocol/metadata.ts";
import type { Slot } from "../../../src/sharing/channel/slot.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { type ChannelPeer, countCalls, joinAndWait, startChannelPeer } from "./channel_peers.ts";
import { FrameKernels } from "../../children/sharing/channel_kernels.ts";
import { type Fixture, sharingTest, type SharingTestOptions, soon, unusableStreams } from "../sharing_peers.ts";
import { indexOfOther } from "../../support/bytes.ts";
import { isLong } from "../../support/test.ts";

const slotByteLength = 16_384;
/** More bytes than a read gives to its stream at once. */
const longByteLength = 40 * 2 ** 20;
/** Milliseconds to wait before asserting that something has not happened. */
const moment = 50;

interface ChannelFixture extends Fixture {
  readonly exporter: Exporter;
  readonly channel: ChannelProducer;
  readonly kernels: FrameKernels;
  startPeer(): Promise<ChannelPeer>;
  /** Starts a process and makes it join the channel. */
  startConsumer(): Promise<ChannelPeer>;
  /** Writes and sends `count` frames. */
  produce(count: number): Promise<void>;
}

/** Declares a test of a channel "frames", with 3 slots unless the options say otherwise. */
function channelTest(
  name: string,
  options: Partial<ChannelOptions>,
  body: (fixture: ChannelFixture) => Promise<void>,
  needs: SharingTestOptions = {},
): void {
  sharingTest(name, async (fixture) => {
    const { cuda, path, pool, stream } = fixture;
    await using peers = new AsyncDisposableStack();
    using kernels = new FrameKernels(cuda);
    await using exporter = Exporter.listen(path, { closeTimeout: 1000 });
    await using channel = exporter.createChannel("frames", { pool, slots: 3, slotByteLength, stream, ...options });
    const startPeer = async () => peers.use(await startChannelPeer(cuda, dirname(path)));
    await body({
      ...fixture,
      exporter,
      channel,
      kernels,
      startPeer,
      async startConsumer() {
        const peer = await startPeer();
        await joinAndWait(peer, path, channel);
        return peer;
      },
      async produce(count) {
        for (let index = 0; index < count; index++) {
          const slot = await channel.reserve();
          kernels.write(stream, slot.buffer, channel.sent + 1);
          channel.send(slot, { stream });
        }
      },
    });
    fixture.gate.open();
    await peers.disposeAsync();
  }, needs);
}

/** Asserts that no slot can be reserved, now or within a moment. */
async function assertFull(channel: ChannelProducer): Promise<void> {
  const error = await assertRejects(() => channel.reserve({ signal: AbortSignal.timeout(moment) }), DOMException);
  assertEquals(error.name, "TimeoutError");
}

/** Returns the integers from first to last, inclusive. */
function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

channelTest(
  "a consumer's kernels read what the producer's kernels wrote, with no driver calls except launches, records and queries",
  {},
  async ({ channel, driver, kernels, produce, startConsumer, stream }) => {
    const peer = await startConsumer();
    const [warm, count] = [10, 60];
    const draining = peer.call("drain", "frames", { count: warm, delays: true });
    await produce(warm);
    await draining;
    // The peer's calls are frames of another channel, with four slots.
    for (let count = 0; count < 4; count++) await peer.call("driverCalls");
    const counted = peer.call("drain", "frames", { count });
    await peer.call("used");
    {
      using counter = countCalls(driver);
      await produce(count);
      await counted;
      await waitUntil(() => channel.freeSlots === 3);
      const { eventRecord, launchKernel, eventQuery, createKernelLaunch: _, ...others } = counter.calls;
      assertEquals({ eventRecord, launchKernel, others }, { eventRecord: count, launchKernel: count, others: {} });
      assert(eventQuery! >= count);
    }
    const { eventRecord, launchKernel, ...others } = await peer.call("driverCalls");
    // The peer makes two more records, on the streams that it uses to read its counts and to wait for them.
    for (const name of ["mallocFromPoolAsync", "malloc", "eventCreateWithFlags", "ipcOpenEventHandle"]) {
      assertEquals(others[name], undefined, name);
    }
    assertEquals(launchKernel, count);
    assert(eventRecord! >= count && eventRecord! < count + 10, `${eventRecord} records`);

    const delayed = peer.call("drain", "frames", { delays: true });
    for (let index = 0; index < 20; index++) {
      const slot = await channel.reserve();
      if (index % 2 === 0) kernels.delay(stream);
      kernels.write(stream, slot.buffer, channel.sent + 1);
      channel.send(slot, { stream });
    }
    channel.end();
    const { sequences, words, error } = await delayed;
    assertEquals(sequences, range(warm + count + 1, warm + count + 20));
    assertEquals(words, [channel.sent * slotByteLength / 4, 0]);
    assertEquals(error, null);
    assertEquals(await peer.call("next", "frames"), null);
  },
  { long: true },
);

/** Each process has two consumers. */
const consumerProcesses = isLong ? 8 : 3;

channelTest(
  `${2 * consumerProcesses} consumers in ${consumerProcesses} processes receive every frame`,
  { minimumConsumers: 2 * consumerProcesses, slots: 4 },
  async ({ channel, path, produce, startPeer }) => {
    const count = 30;
    const peers = await Promise.all(Array.from({ length: consumerProcesses }, startPeer));
    const producing = produce(count);
    const draining: ReturnType<typeof drain>[] = [];
    for (const peer of peers) {
      assertEquals(channel.sent, 0);
      for (const as of ["first", "second"]) {
        await peer.call("join", path, "frames", as);
        draining.push(drain(peer, as));
      }
    }
    await producing;
    assertEquals(channel.consumers.length, 2 * consumerProcesses);
    channel.end();
    for (const { sequences, words, error } of await Promise.all(draining)) {
      assertEquals(sequences, range(1, count));
      assertEquals([words[1], error], [0, null]);
    }

    function drain(peer: ChannelPeer, as: string) {
      return peer.call("drain", as, { delays: peer === peers[0] });
    }
  },
);

channelTest(
  "a slot is not reused before the last consumer's work with it is done",
  {},
  async ({ channel, produce, startConsumer }) => {
    const [fast, slow] = [await startConsumer(), await startConsumer()];
    await slow.call("hold");
    const draining = [fast.call("drain", "frames", { count: 6 }), slow.call("drain", "frames", { count: 6 })];
    // The slots cannot be free: the slow consumer's kernels have not started.
    await produce(3);
    await assertFull(channel);
    assertEquals(channel.freeSlots, 0);
    await slow.call("open");
    await produce(3);
    for (const { sequences, words } of await Promise.all(draining)) {
      assertEquals(sequences, range(1, 6));
      assertEquals(words, [6 * slotByteLength / 4, 0]);
    }
  },
);

channelTest(
  "frames arrive in order, even if a later one was written earlier",
  {},
  async ({ channel, gate, gpu, kernels, startConsumer, stream }) => {
    const peer = await startConsumer();
    using other = gpu.createStream({ nonBlocking: true });
    const [early, late] = [await channel.reserve(), await channel.reserve()];
    gate.hold(stream);
    kernels.write(stream, early.buffer, 1);
    channel.send(early);
    kernels.write(other, late.buffer, 2);
    channel.send(late, { stream: other });
    await other.finished();
    assert(await peer.call("aborts", "frames"));
    const draining = peer.call("drain", "frames", { count: 2 });
    gate.open();
    const { sequences, words } = await draining;
    assertEquals([sequences, words], [[1, 2], [2 * slotByteLength / 4, 0]]);
  },
  { long: true },
);

channelTest(
  "a stopped consumer blocks a producer that waits, until it is continued or killed",
  { minimumConsumers: 0 },
  async ({ channel, produce, startConsumer }) => {
    const peer = await startConsumer();
    const draining = peer.call("drain", "frames");
    await produce(5);
    await peer.kill("SIGSTOP");
    // Slots that it released before come first.
    const producing = produce(100);
    let sent = 0;
    do {
      ({ sent } = channel);
      await new Promise((resolve) => setTimeout(resolve, moment));
    } while (channel.sent > sent);
    assert(sent < 100 && channel.freeSlots === 0, `${sent} frames`);
    await peer.kill("SIGCONT");
    await producing;
    channel.end();
    const { sequences, words } = await draining;
    assertEquals(sequences, range(1, 105));
    assertEquals(words[1], 0);
  },
);

channelTest(
  "a consumer that is killed while stopped releases its slots",
  { minimumConsumers: 0 },
  async ({ channel, exporter, produce, startConsumer }) => {
    const [peer, other] = [await startConsumer(), await startConsumer()];
    const draining = other.call("drain", "frames");
    await peer.kill("SIGSTOP");
    await produce(3);
    await assertFull(channel);
    await peer.kill("SIGKILL");
    const begin = performance.now();
    await produce(3);
    assert(performance.now() - begin < 1000);
    channel.end();
    assertEquals((await draining).sequences, range(1, 6));
    await soon(
      () => exporter.leases.length === 0 || exporter.leases.every(({ peer: { pid } }) => pid === other.pid),
      "",
    );
  },
  { long: true },
);

channelTest(
  "a stopped consumer does not block a producer that drops, and receives new frames when continued",
  { overflow: "drop-oldest", slots: 8, minimumConsumers: 2 },
  async ({ channel, produce, startConsumer }) => {
    const [peer, other] = [await startConsumer(), await startConsumer()];
    const first = peer.call("drain", "frames", { count: 2 });
    const others = other.call("drain", "frames");
    await produce(1);
    await peer.kill("SIGSTOP");
    await produce(1);
    await produce(200);
    assert(channel.dropped > 0);
    await peer.kill("SIGCONT");
    const rest = first.then(({ sequences }) =>
      peer.call("drain", "frames").then((report) => ({ ...report, sequences: [...sequences, ...report.sequences] }))
    );
    await produce(1);
    channel.end();
    const [seen, seenByOther] = [await rest, await others];
    for (const { sequences, words, error } of [seen, seenByOther]) {
      assertEquals(sequences, [...new Set(sequences)].sort((left, right) => left - right));
      assertEquals(words, [sequences.length * slotByteLength / 4, 0]);
      assertEquals([sequences.at(-1), error], [203, null]);
    }
    // The frames it had taken or been sent before it was stopped, and those in the ring when it continued.
    assert(seen.sequences.length <= 3 + 8 + 1, `${seen.sequences}`);
    assert(seen.sequences.filter((sequence) => sequence > 150).length >= 3, `${seen.sequences}`);
  },
  { long: true },
);

channelTest(
  "a consumer is sent no more frames than its window until it releases some, and these are not dropped",
  { overflow: "drop-oldest", slots: 6, window: 2, minimumConsumers: 1 },
  async ({ channel, produce, startConsumer }) => {
    const peer = await startConsumer();
    await produce(2);
    for (const sequence of [1, 2]) assertEquals((await peer.call("next", "frames"))!.sequence, sequence);
    await peer.call("release");
    await waitUntil(() => channel.freeSlots === 5);
    await produce(100);
    // One frame is kept, one was sent, and four wait.
    assertEquals([channel.dropped, channel.freeSlots], [101 - 6, 0]);
    const following = [(await peer.call("next", "frames"))!.sequence];
    assert(await peer.call("aborts", "frames"));
    for (let count = 0; count < 4; count++) {
      await peer.call("release");
      following.push((await peer.call("next", "frames"))!.sequence);
    }
    assertEquals(following, [3, 99, 100, 101, 102]);
    for (let count = 0; count < 2; count++) await peer.call("release");
    await waitUntil(() => channel.freeSlots === 6);
  },
);

channelTest(
  "each frame has its own length and metadata",
  { metadata: { dtype: "uint32", shape: [64, 64] } },
  async (fixture) => {
    const { channel, kernels, startConsumer, stream } = fixture;
    const peer = await startConsumer();
    const sent: { byteLength?: number; metadata?: JsonValue }[] = [
      {},
      { byteLength: 0 },
      { byteLength: 8, metadata: "text \u00e4\u{1f600}" },
      { metadata: { nested: [1, null, { deep: true }] } },
      { byteLength: 4, metadata: 0 },
      { metadata: false },
      { metadata: "x".repeat(32_000) },
    ];
    for (const [index, options] of sent.entries()) {
      const slot = await channel.reserve();
      kernels.write(stream, slot.buffer, channel.sent + 1);
      channel.send(slot, options);
      const { byteLength = slotByteLength, metadata = null } = options;
      const report = await peer.call("next", "frames");
      assertEquals(report, { sequence: index + 1, index: slot.index, byteLength, metadata });
      await peer.call("release");
    }
    const slot = await channel.reserve();
    for (const byteLength of [-1, 1.5, slotByteLength + 1, NaN]) {
      assertThrows(() => channel.send(slot, { byteLength }), RangeError, "of a slot");
    }
    assertThrows(() => channel.send(slot, { metadata: "x".repeat(32_768) }), RangeError, "metadata of 32770 bytes");
    assertThrows(() => channel.send(slot, { metadata: undefined, stream: undefined, byteLength: 2 ** 40 }), RangeError);
    channel.send(slot, { byteLength: 4 });
    assertThrows(() => channel.send(slot), ReferenceError, `Cannot send slot ${slot.index} in "frames": it was sent`);
    assertThrows(() => slot.buffer.address, ReferenceError, "its slot was sent");
    assertEquals((await peer.call("next", "frames"))!.sequence, sent.length + 1);
    assertEquals(await peer.call("misuse"), ["ReferenceError", "ReferenceError", "ReferenceError"]);
  },
  { long: true },
);

channelTest(
  "errors say why there is no free slot, and what has ended the use of a slot",
  { slots: 2 },
  async ({ cuda, pool, stream, path, exporter, channel }) => {
    const whyNone = async (): Promise<string> => {
      const error = await assertRejects(() => channel.reserve({ signal: AbortSignal.abort() }), DOMException);
      return error.message.replace('Waiting for a free slot of "frames" was aborted: ', "");
    };
    assertEquals(await whyNone(), "no consumer has joined yet, and reserve waits for 1 (minimumConsumers)");
    await using importer = await Importer.connect(cuda, path);
    await using frames = await importer.channel("frames");
    const first = await channel.reserve();
    const second = await channel.reserve();
    assertEquals(await whyNone(), "2 of 2 slots are reserved here, neither sent nor disposed of");
    channel.send(first);
    const { pid } = importer.peer;
    assertEquals(
      await whyNone(),
      `1 of 2 slots is reserved here, neither sent nor disposed of; process ${pid} has not released frame 1`,
    );
    const sendAgain = `Cannot send slot ${first.index} in "frames": it was sent; reserve another slot`;
    assertThrows(() => channel.send(first), ReferenceError, sendAgain);
    assertThrows(() => first.buffer.fill(1), ReferenceError, "bytes: its slot was sent; write");
    second[Symbol.dispose]();
    assertThrows(() => channel.send(second), ReferenceError, "it was returned to the channel; reserve another slot");
    assertThrows(() => second.buffer.fill(1), ReferenceError, "bytes: its slot was returned to the channel");

    const options = { pool, slots: 1, slotByteLength, stream };
    await using other = exporter.createChannel("other", { ...options, minimumConsumers: 0 });
    using slotOfOther = await other.reserve();
    assertThrows(() => channel.send(slotOfOther), TypeError, 'it is a slot of another channel, "other"; send it there');
    for (const overflow of [undefined, "wait"] as const) {
      const windowed = { ...options, window: 1, ...overflow === undefined ? {} : { overflow } };
      assertThrows(
        () => exporter.createChannel("windowed", windowed),
        TypeError,
        "window has no effect without overflow",
      );
    }

    const frame = await frames.next();
    frame!.release();
    assertThrows(() => frame!.buffer.fill(1), ReferenceError, "bytes: its frame was released");
    assertThrows(() => frame!.release(), ReferenceError, "Cannot release frame 1: it was released");
    channel.send(await channel.reserve());
    const last = await frames.next();
    await frames[Symbol.asyncDispose]();
    assertThrows(() => last!.buffer.fill(1), ReferenceError, "bytes: its ChannelConsumer was disposed");
  },
);

channelTest(
  "a slot without consumers is reserved again only after its write, on any stream",
  { slots: 2, minimumConsumers: 0 },
  async ({ channel, gate, gpu, stream }) => {
    using other = gpu.createStream({ nonBlocking: true });
    gate.hold(stream);
    channel.send(await channel.reserve(), { stream });
    assertEquals(channel.freeSlots, 1);
    // A slot that is released unsent may have been written, too.
    (await channel.reserve())[Symbol.dispose]();
    assertEquals(channel.freeSlots, 0);
    await assertFull(channel);
    const reserving = [channel.reserve(), channel.reserve()];
    gate.open();
    const [first, second] = await Promise.all(reserving) as [Slot, Slot];
    first.buffer.stream = second.buffer.stream = other;
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    channel.send(second);
    await other.finished();
    await waitUntil(() => channel.freeSlots === 2);
    assertEquals(channel.sent, 2);
  },
);

channelTest(
  "a frame whose write is unfinished is dropped only for a waiting reservation, which gets its slot after the write",
  { slots: 2, overflow: "drop-oldest" },
  async ({ channel, gate, produce, startConsumer, stream }) => {
    const peer = await startConsumer();
    await produce(1);
    await peer.call("next", "frames");
    gate.hold(stream);
    // The first is sent ahead. The others share one slot, which the consumer does not release.
    await produce(1);
    await assertFull(channel);
    await peer.call("release");
    const reserving = channel.reserve();
    gate.open();
    (await reserving)[Symbol.dispose]();
  },
  { long: true },
);

channelTest(
  "reservations are served in order",
  { minimumConsumers: 0 },
  async ({ channel }) => {
    const held = [await channel.reserve(), await channel.reserve(), await channel.reserve()];
    const order: string[] = [];
    const controller = new AbortController();
    const waiting = ["first", "aborted", "second", "third"].map((name) =>
      channel.reserve(name === "aborted" ? { signal: controller.signal } : {}).then((slot) => {
        order.push(name);
        return slot;
      })
    );
    const reason = { enough: true };
    controller.abort(reason);
    assertEquals(await waiting[1]!.catch((error) => error === reason), true);
    for (const slot of held) slot[Symbol.dispose]();
    for (const index of [0, 2, 3]) (await waiting[index]!)[Symbol.dispose]();
    assertEquals(order, ["first", "second", "third"]);
    await assertRejects(
      () => channel.reserve({ signal: AbortSignal.abort("before") }).catch((error) => Promise.reject(new Error(error))),
      Error,
      "before",
    );
    await soon(() => channel.freeSlots === 3, "released slots are free");
  },
);

channelTest(
  "nothing is sent after the end, but frames sent before it are read",
  { minimumConsumers: 1 },
  async ({ channel, produce, startConsumer }) => {
    const peer = await startConsumer();
    await produce(2);
    const reserved = await channel.reserve();
    const reserving = assertRejects(() => channel.reserve(), ReferenceError, "has ended");
    channel.end();
    channel.end();
    await reserving;
    await assertRejects(() => channel.reserve(), ReferenceError, "has ended");
    assertThrows(() => channel.send(reserved), ReferenceError, "has ended");
    const late = await startConsumer();
    assertEquals((await late.call("drain", "frames")).sequences, []);
    assertEquals((await peer.call("drain", "frames")).sequences, [1, 2]);
  },
  { long: true },
);

channelTest(
  "disposing a producer with slots reserved, written and unread frees the ring once they are released",
  {},
  async ({ channel, exporter, gate, kernels, pool, produce, startConsumer, stream }) => {
    const peer = await startConsumer();
    await produce(1);
    assertEquals((await peer.call("next", "frames"))!.sequence, 1);
    const reserved = await channel.reserve();
    gate.hold(stream);
    kernels.write(stream, reserved.buffer, 1);
    const begin = performance.now();
    const disposing = [channel[Symbol.asyncDispose](), channel[Symbol.asyncDispose]()];
    assertThrows(() => reserved.buffer.address, ReferenceError);
    reserved[Symbol.dispose]();
    await Promise.all(disposing);
    // Disposal waits the full timeout for the slots that the consumer keeps.
    assert(performance.now() - begin > 900);
    assert(pool.usage().used > 0);
    assertEquals(exporter.leases.map(({ name, state }) => [name, state]), [["frames", "held"]]);
    assertEquals(await peer.call("next", "frames"), null);
    await peer.call("release");
    await peer.call("leave", "frames");
    await soon(() => exporter.leases.length === 0, "the lease ends");
    gate.open();
    await stream.finished();
    assertEquals(pool.usage().used, 0);
  },
  { long: true },
);

channelTest(
  "a consumer leaves with frames in flight, kept, and in use by its kernels",
  { slots: 4, minimumConsumers: 0 },
  async ({ channel, exporter, gate, produce, startConsumer, stream }) => {
    const peer = await startConsumer();
    await produce(2);
    await peer.call("next", "frames");
    await peer.call("next", "frames");
    await peer.call("hold");
    await peer.call("release");
    gate.hold(stream);
    await produce(2);
    const leaving = peer.call("leave", "frames");
    await assertFull(channel);
    await peer.call("open");
    await leaving;
    await soon(() => channel.consumers.length === 0, "it has left");
    await waitUntil(() => channel.freeSlots === 2);
    // Two slots can be reserved. The third is still in use by the kernels of the consumer that left.
    await channel.reserve();
    await channel.reserve();
    await assertFull(channel);
    gate.open();
    await waitUntil(() => channel.freeSlots === 2);
    await soon(() => exporter.leases.length === 0, "the lease ends");
  },
  { long: true },
);

channelTest(
  "a consumer that breaks out of its loop continues in another, and a late consumer receives later frames only",
  {},
  async ({ channel, path, produce, startConsumer, startPeer }) => {
    const peer = await startConsumer();
    await produce(3);
    assertEquals(await peer.call("readOne", "frames"), 1);
    assertEquals(await peer.call("readOne", "frames"), 2);
    const late = await startPeer();
    assertMatch(await late.call("joinTwice", path, "frames"), /Cannot join "frames": this importer has joined it/);
    await waitUntil(() => channel.consumers.length === 2);
    await produce(1);
    channel.end();
    assertEquals((await peer.call("drain", "frames")).sequences, [3, 4]);
    assertEquals((await late.call("drain", "frames")).sequences, [4]);
  },
  { long: true },
);

channelTest(
  "two channels of one connection are independent",
  {},
  async ({ channel, exporter, kernels, path, pool, produce, startConsumer, stream }) => {
    const peer = await startConsumer();
    await using second = exporter.createChannel("more", { pool, slots: 2, slotByteLength: 64, stream });
    await peer.call("join", path, "more");
    assertEquals(exporter.importers.length, 1);
    const more = peer.call("drain", "more");
    await produce(3);
    await assertFull(channel);
    for (let count = 0; count < 10; count++) {
      const slot = await second.reserve();
      kernels.write(stream, slot.buffer, second.sent + 1);
      second.send(slot);
    }
    second.end();
    assertEquals((await more).sequences, range(1, 10));
    channel.end();
    assertEquals(
      await peer.call("drain", "frames").then(({ sequences, words, error }) => [sequences, words[1], error]),
      [
        [1, 2, 3],
        0,
        null,
      ],
    );
  },
  { long: true },
);

channelTest(
  "when the ring is recalled, a consumer that leaves releases it, and one that does not is cut off and keeps it until it ends",
  { minimumConsumers: 0 },
  async ({ channel, exporter, produce, startConsumer }) => {
    const [willing, deaf] = [await startConsumer(), await startConsumer()];
    await produce(2);
    const recalled = willing.call("recalled", "frames");
    const leaseOf = ({ pid }: ChannelPeer) => exporter.leases.find(({ peer }) => peer.pid === pid)!;
    const givenBack = leaseOf(willing).recall();
    const cutOff = assertRejects(() => leaseOf(deaf).recall({ deadline: 500 }));
    assertMatch(await recalled, /SharingError/);
    await willing.call("leave", "frames");
    await givenBack;
    assertEquals((await cutOff as { code?: string }).code, "cut-off");
    const { sequences, error } = await deaf.call("drain", "frames");
    assertEquals([sequences, error], [[1, 2], "cut-off"]);
    assertEquals(exporter.leases.map(({ state }) => state), ["quarantined"]);
    assertEquals([channel.consumers.length, channel.freeSlots], [0, 1]);
    await deaf.kill();
    await soon(() => exporter.leases.length === 0 && channel.freeSlots === 3, "the ring is back");
  },
  { long: true },
);

channelTest(
  "an importer disconnects early, and the exporter is disposed before its channel",
  { minimumConsumers: 0 },
  async ({ channel, exporter, produce, startConsumer }) => {
    const [first, second] = [await startConsumer(), await startConsumer()];
    await produce(3);
    await first.call("next", "frames");
    await first.call("disconnect");
    await soon(() => channel.consumers.length === 1, "it has left");
    const draining = second.call("drain", "frames");
    await waitUntil(() => channel.freeSlots === 3);
    const reserved = await channel.reserve();
    const closing = exporter[Symbol.asyncDispose]();
    const { sequences, error } = await draining;
    assertEquals([sequences, error], [[1, 2, 3], null]);
    await second.call("leave", "frames");
    await closing;
    assertThrows(() => channel.send(reserved), ReferenceError, "has ended");
    await assertRejects(() => channel.reserve(), ReferenceError, "has ended");
  },
  { long: true },
);

sharingTest(
  "a slot is not reserved before its ring's stream reaches the allocation, whose memory may be in use until then",
  async ({ gate, path, pool, stream }) => {
    await using exporter = Exporter.listen(path);
    const before = pool.allocate(2 * slotByteLength, stream);
    await stream.finished();
    gate.hold(stream);
    before.free();
    await using channel = exporter.createChannel("frames", {
      pool,
      slots: 2,
      slotByteLength,
      stream,
      overflow: "drop-oldest",
    });
    assertEquals(channel.freeSlots, 0);
    await assertFull(channel);
    const reserving = channel.reserve();
    gate.open();
    (await reserving)[Symbol.dispose]();
    await soon(() => channel.freeSlots === 2, "all are allocated");
  },
);

for (const byteLength of [slotByteLength, longByteLength]) {
  channelTest(
    `a frame of ${byteLength} bytes that is released during a read is read to its end`,
    { slots: 1, slotByteLength: byteLength },
    async ({ channel, startConsumer, stream }) => {
      const peer = await startConsumer();
      const slot = await channel.reserve();
      slot.buffer.fill(3, stream);
      channel.send(slot);
      await peer.call("next", "frames");
      await peer.call("releaseWhileRead");
      await assertFull(channel);
      await peer.call("open");
      const again = await channel.reserve();
      again.buffer.fill(4, stream);
      channel.send(again);
      assertEquals(await peer.call("bytesRead", 3), [byteLength, 0]);
      await peer.call("leaveWhileRead", "frames");
      assertEquals(await peer.call("bytesRead", 4), [byteLength, 0]);
    },
    { long: byteLength === longByteLength },
  );

  channelTest(
    `a slot of ${byteLength} bytes that is sent, released or disposed during a read is read to its end`,
    { slots: 1, slotByteLength: byteLength, minimumConsumers: 0 },
    async ({ channel, gate, gpu, pool, stream }) => {
      using other = gpu.createStream({ nonBlocking: true });
      // A first read locks pages, for which a driver may wait for all streams.
      using first = await channel.reserve();
      await first.buffer.read(Uint8Array);
      release(first);
      for (const [index, end] of [channel.send.bind(channel), release].entries()) {
        const slot = await channel.reserve();
        slot.buffer.fill(index, stream);
        await stream.finished();
        gate.hold(other);
        const reading = slot.buffer.read(Uint8Array, { stream: other });
        end(slot);
        await assertFull(channel);
        gate.open();
        const again = await channel.reserve();
        again.buffer.fill(9, stream);
        release(again);
        assertEquals(indexOfOther(await reading, index), -1);
      }
      const slot = await channel.reserve();
      slot.buffer.fill(5, stream);
      await stream.finished();
      gate.hold(other);
      const reading = slot.buffer.read(Uint8Array, { stream: other });
      const disposing = channel[Symbol.asyncDispose]();
      await new Promise((resolve) => setTimeout(resolve, moment));
      await stream.finished();
      assert(pool.usage().used > 0);
      gate.open();
      await disposing;
      assertEquals(indexOfOther(await reading, 5), -1);
      await stream.finished();
      assertEquals(pool.usage().used, 0);
    },
    { long: byteLength === longByteLength },
  );
}

function release(slot: Slot): void {
  slot[Symbol.dispose]();
}

sharingTest(
  "a slot written by another device's stream is reused after the write, even if the stream is disposed",
  async ({ cuda, gate, gpu, path }) => {
    const device = cuda.device(1);
    using pool = device.createPool({ handleType: "posix-fd" });
    using stream = device.createStream({ nonBlocking: true });
    await using exporter = Exporter.listen(path);
    await using channel = exporter.createChannel("frames", {
      pool,
      slots: 1,
      slotByteLength,
      stream,
      minimumConsumers: 0,
    });
    const giveBackHeld = async () => {
      const foreign = gpu.createStream({ nonBlocking: true });
      const slot = await channel.reserve();
      gate.hold(foreign);
      slot.buffer.stream = foreign;
      slot[Symbol.dispose]();
      foreign[Symbol.dispose]();
    };
    await giveBackHeld();
    await assertFull(channel);
    gate.open();
    await giveBackHeld();
    const disposing = channel[Symbol.asyncDispose]();
    await new Promise((resolve) => setTimeout(resolve, moment));
    await stream.finished();
    assert(pool.usage().used > 0);
    gate.open();
    await disposing;
    await stream.finished();
    assertEquals(pool.usage().used, 0);
  },
  { devices: 2 },
);

sharingTest("a slot whose stream was disposed is reused after the work of that stream", async (fixture) => {
  const { gate, gpu, path, pool, stream } = fixture;
  await using exporter = Exporter.listen(path);
  const options = { pool, slots: 1, slotByteLength, stream, minimumConsumers: 0 };
  await using channel = exporter.createChannel("frames", options);
  const other = gpu.createStream({ nonBlocking: true });
  const slot = await channel.reserve();
  gate.hold(other);
  slot.buffer.stream = other;
  other[Symbol.dispose]();
  slot[Symbol.dispose]();
  await assertFull(channel);
  gate.open();
  release(await channel.reserve());
});

sharingTest("a channel can be disposed after its exporter and its stream", async ({ gpu, path, pool }) => {
  const stream = gpu.createStream({ nonBlocking: true });
  const exporter = Exporter.listen(path);
  const channel = exporter.createChannel("frames", { pool, slots: 1, slotByteLength, stream });
  await exporter[Symbol.asyncDispose]();
  stream[Symbol.dispose]();
  assert(pool.usage().used > 0);
  await channel[Symbol.asyncDispose]();
  await gpu.finished();
  assertEquals(pool.usage().used, 0);
});

test("a frame released by one connection of a process and held by another is done when the process ends", () => {
  const done: number[] = [];
  const fired: (() => void)[] = [];
  const importer = () =>
    ({
      isBacklogged: false,
      send() {},
      whenFired(_, callback) {
        fired.push(callback);
        return () => fired.splice(fired.indexOf(callback), 1);
      },
    }) as Pick<ConnectedImporter, "isBacklogged" | "send" | "whenFired"> as ConnectedImporter;
  const [releasing, holding] = [importer(), importer()];
  const frames = new ChannelFrames({
    name: "frames",
    offer: 1,
    window: 1,
    onDone: (slot) => done.push(slot),
    onJoin() {},
  });
  for (const each of [releasing, holding]) frames.onMessage(each, { type: "join", offer: 1 });
  frames.send({ type: "frame", offer: 1, slot: 7, sequence: 1, byteLength: 0, hasEvent: false, metadata: "" });
  frames.onMessage(releasing, { type: "release-slot", offer: 1, slot: 7, sequence: 1, event: 1 });
  frames.onAbsorb(holding, releasing);
  for (const callback of fired) callback();
  assertEquals(done, []);
  frames.onReleased(releasing);
  assertEquals(done, [7]);
});

sharingTest("an unusable stream costs neither a slot nor the channel", async (fixture) => {
  const { cuda, path, pool, stream } = fixture;
  using made = new DisposableStack();
  const refusals = unusableStreams(fixture, made);
  await using exporter = Exporter.listen(path);
  const options: ChannelOptions = { pool, slots: 2, slotByteLength: 64 };
  for (const [wrong, type, message] of refusals) {
    const unusable = { ...options, stream: wrong };
    assertThrows(() => exporter.createChannel("frames", unusable), type, message);
  }
  assertEquals([exporter.offers, pool.usage().used], [[], 0]);
  await using channel = exporter.createChannel("frames", { ...options, stream });
  await using importer = await Importer.connect(cuda, path);
  for (const [wrong, type, message] of refusals) {
    await assertRejects(() => importer.channel("frames", { stream: wrong }), type, message);
  }
  await using frames = await importer.channel("frames", { stream });
  const slot = await channel.reserve();
  for (const [wrong, type, message] of refusals) {
    assertThrows(() => channel.send(slot, { stream: wrong }), type, message);
  }
  for (const wrong of [5, slot.buffer, undefined]) {
    assertThrows(() => channel.send(wrong as never), TypeError, "give a slot that its reserve returned");
  }
  assertThrows(() => channel.send(slot, { byteLength: "1" as never }), TypeError, "byteLength");
  channel.send(slot, { stream });
  const frame = (await frames.next())!;
  for (const [wrong, type, message] of refusals) {
    assertThrows(() => frame.release(wrong), type, message);
  }
  await soon(() => channel.freeSlots === 1, "the slot is still held");
  frame.release();
  await soon(() => channel.freeSlots === 2, "the slot is free");
});

sharingTest("invalid channel options are refused, and leave nothing behind", async (fixture) => {
  const { gpu, path, pool } = fixture;
  await using exporter = Exporter.listen(path);
  const good: ChannelOptions = { pool, slots: 2, slotByteLength: 4 };
  for (const slots of [0, 1025, 1.5, NaN]) {
    assertThrows(() => exporter.createChannel("frames", { ...good, slots }), RangeError, "slots");
  }
  for (const window of [0, 3]) {
    assertThrows(() => exporter.createChannel("frames", { ...good, window }), RangeError, "window");
  }
  assertThrows(() => exporter.createChannel("frames", { ...good, holdTimeout: -1 }), RangeError, "holdTimeout");
  assertThrows(
    () => exporter.createChannel("frames", { ...good, holdTimeout: "1" as never }),
    TypeError,
    'holdTimeout of channel "frames"',
  );
  assertThrows(
    () => exporter.createChannel("frames", { ...good, minimumConsumers: -5 }),
    RangeError,
    'Cannot create channel "frames": minimumConsumers is -5, and must be a whole number of at least 0',
  );
  assertThrows(() => exporter.createChannel("frames", { ...good, slotByteLength: 0 }), RangeError, "slotByteLength");
  assertThrows(
    () => exporter.createChannel("frames", { ...good, slots: 1024, slotByteLength: 2 ** 50 }),
    RangeError,
    "the size of the 1024 slots",
  );
  assertThrows(
    () => exporter.createChannel("frames", { ...good, slots: "2" as never }),
    TypeError,
    "slots is a string",
  );
  assertThrows(() => exporter.createChannel("frames", undefined as never), TypeError, "give its pool, slots and");
  using unshared = gpu.createPool();
  assertThrows(
    () => exporter.createChannel("frames", { ...good, pool: unshared }),
    TypeError,
    'Cannot create channel "frames": its pool was created with handleType "none"; create it with "posix-fd"',
  );
  assertThrows(() => exporter.createChannel("frames", { ...good, overflow: "drop" as "wait" }), TypeError, "overflow");
  assertThrows(() => exporter.createChannel("frames", { ...good, metadata: "x".repeat(40_000) }), RangeError);
  assertEquals(pool.usage().used, 0);
  await using channel = exporter.createChannel("frames", good);
  assertThrows(() => exporter.createChannel("frames", good), RangeError, "of this name");
  await soon(() => channel.freeSlots === 2, "all are allocated");
  assertEquals(inspect(channel), "ChannelProducer { frames, 2 of 2 slots free, 0 consumers, 0 frames }");
});
