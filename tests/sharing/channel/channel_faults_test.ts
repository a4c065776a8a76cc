import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { dirname } from "node:path";
import type { ChannelConsumer } from "../../../src/sharing/channel/channel_consumer.ts";
import type { ChannelProducer } from "../../../src/sharing/channel/channel_producer.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { type ChannelPeer, joinAndWait, startChannelPeer } from "./channel_peers.ts";
import { FrameKernels } from "../../children/sharing/channel_kernels.ts";
import { type Fixture, sharingTest, type SharingTestOptions, soon, withinASecond } from "../sharing_peers.ts";
import { isLong } from "../../support/test.ts";

const slotByteLength = 4096;
const slots = 4;
/** Milliseconds to wait before asserting that something has not happened. */
const moment = 50;
/** Number of processes that are killed in turn. */
const ends = isLong ? 200 : 4;
/** Number of processes that are started before they are needed. */
const startedAhead = 3;

interface FaultFixture extends Fixture {
  readonly kernels: FrameKernels;
  readonly folder: string;
  startPeer(): Promise<ChannelPeer>;
}

function faultTest(
  name: string,
  body: (fixture: FaultFixture) => Promise<void>,
  options: SharingTestOptions = {},
): void {
  sharingTest(name, async (fixture) => {
    const folder = dirname(fixture.path);
    await using peers = new AsyncDisposableStack();
    using kernels = new FrameKernels(fixture.cuda);
    const startPeer = async () => peers.use(await startChannelPeer(fixture.cuda, folder));
    await body({ ...fixture, kernels, folder, startPeer });
  }, options);
}

/** Writes and sends `count` frames. */
async function produce(channel: ChannelProducer, { kernels, stream }: FaultFixture, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const slot = await channel.reserve();
    kernels.write(stream, slot.buffer, channel.sent + 1);
    channel.send(slot);
  }
}

/** Reads, checks and releases up to `count` frames, and returns the error that ended the loop. */
async function consume(
  consumer: ChannelConsumer,
  { kernels, stream }: FaultFixture,
  count: number = Infinity,
): Promise<{ sequences: number[]; error: string | undefined }> {
  const sequences: number[] = [];
  try {
    while (sequences.length < count) {
      using slot = await consumer.next();
      if (slot === undefined) break;
      kernels.check(stream, slot.buffer, slot.sequence);
      sequences.push(slot.sequence);
    }
  } catch (error) {
    return { sequences, error: (error as { code?: string }).code ?? String(error) };
  }
  return { sequences, error: undefined };
}

/** Joins a channel of a producer in another process, with a consumer in this process. */
async function joinPeer(
  fixture: FaultFixture,
  peer: ChannelPeer,
): Promise<AsyncDisposable & { consumer: ChannelConsumer }> {
  const path = `${fixture.folder}/producer-${peer.pid}`;
  await peer.call("create", path, "frames", { slots, slotByteLength });
  const importer = await Importer.connect(fixture.cuda, path);
  const consumer = await importer.channel("frames", { stream: fixture.stream });
  return { consumer, [Symbol.asyncDispose]: () => importer[Symbol.asyncDispose]() };
}

/** Resolves when there are no leases and all slots are free. */
function soonBack(exporter: Exporter, channel: ChannelProducer): Promise<void> {
  return soon(() => exporter.leases.length === 0 && channel.freeSlots === slots, "the slots are back");
}

faultTest(`${ends} producers and consumers are killed in turn, and the other side continues`, async (fixture) => {
  const { cuda, folder, kernels, path, pool, stream } = fixture;
  await using exporter = Exporter.listen(path);
  await using channel = exporter.createChannel("frames", {
    pool,
    slots,
    slotByteLength,
    stream,
    minimumConsumers: 0,
  });
  const { used } = pool.usage();
  const ahead: Promise<ChannelPeer>[] = [];
  await using unused = new AsyncDisposableStack();
  unused.defer(async () => {
    for (const peer of ahead) await (await peer)[Symbol.asyncDispose]();
  });
  let started = 0;
  const start = () => {
    if (started++ < ends) ahead.push(startChannelPeer(cuda, folder));
  };
  for (let count = 0; count < startedAhead; count++) start();
  let words = 0;
  for (let end = 0; end < ends; end++) {
    await using peer = await ahead.shift()!;
    start();
    // Kills each process at a different moment.
    const frames = end % 7;
    if (end % 2 === 0) {
      await joinAndWait(peer, path, channel);
      const draining = peer.call("drain", "frames", { delays: end % 3 === 0 });
      const producing = produce(channel, fixture, 20);
      if (end % 4 === 0) void peer.call("next", "frames");
      for (let count = 0; count < frames; count++) await new Promise((resolve) => setTimeout(resolve));
      await peer.kill();
      await withinASecond(producing);
      await assertRejects(() => draining);
      await soonBack(exporter, channel);
      assertEquals(channel.consumers, []);
    } else {
      await using joined = await joinPeer(fixture, peer);
      void peer.call("produce", 1_000_000);
      const before = await consume(joined.consumer, fixture, frames);
      await peer.kill();
      const after = await withinASecond(consume(joined.consumer, fixture));
      const { sequences } = { sequences: [...before.sequences, ...after.sequences] };
      assertEquals(sequences, sequences.map((_, index) => index + 1));
      assertEquals(after.error, "peer-gone");
      words += sequences.length * slotByteLength / 4;
    }
    assertEquals(pool.usage().used, used);
  }
  assertEquals(await kernels.counts(stream), [words, 0]);
}, { long: true });

faultTest(
  "a consumer is killed with one slot kept, one in use by its kernels, and one sent to it",
  async (fixture) => {
    const { path, pool, startPeer, stream } = fixture;
    await using exporter = Exporter.listen(path);
    await using channel = exporter.createChannel("frames", {
      pool,
      slots,
      slotByteLength,
      stream,
      minimumConsumers: 0,
    });
    const [peer, other] = [await startPeer(), await startPeer()];
    for (const each of [peer, other]) await joinAndWait(each, path, channel);
    const draining = other.call("drain", "frames");
    await produce(channel, fixture, slots);
    await peer.call("next", "frames");
    await peer.call("next", "frames");
    await peer.call("hold");
    await peer.call("release");
    assertEquals(channel.freeSlots, 0);
    await peer.kill();
    await withinASecond(produce(channel, fixture, slots));
    await soon(() => exporter.leases.length === 1, "its lease ends");
    channel.end();
    const { sequences, words } = await draining;
    assertEquals(sequences, [1, 2, 3, 4, 5, 6, 7, 8]);
    assertEquals(words, [2 * slots * slotByteLength / 4, 0]);
    await other.kill();
    await soonBack(exporter, channel);
  },
  { long: true },
);

faultTest("a producer is killed between reserve and send", async (fixture) => {
  const peer = await fixture.startPeer();
  await using joined = await joinPeer(fixture, peer);
  await peer.call("produce", 1);
  assertEquals((await consume(joined.consumer, fixture, 1)).sequences, [1]);
  await peer.call("reserve");
  const consuming = consume(joined.consumer, fixture);
  await peer.kill();
  assertEquals(await withinASecond(consuming), { sequences: [], error: "peer-gone" });
  assertEquals(await withinASecond(consume(joined.consumer, fixture)), { sequences: [], error: "peer-gone" });
}, { long: true });

faultTest("a producer is killed with written frames, and frames that will never be written", async (fixture) => {
  const { kernels, startPeer, stream } = fixture;
  const peer = await startPeer();
  await using joined = await joinPeer(fixture, peer);
  await peer.call("produce", 2);
  await peer.call("finished");
  await peer.call("hold");
  await peer.call("produce", 2);
  await peer.kill();
  assertEquals(await withinASecond(consume(joined.consumer, fixture)), { sequences: [1, 2], error: "peer-gone" });
  assertEquals(await kernels.counts(stream), [2 * slotByteLength / 4, 0]);
}, { long: true });

faultTest(
  "a producer is killed while a consumer reads: kept frames stay readable, and can be released",
  async (fixture) => {
    const { kernels, startPeer, stream } = fixture;
    const peer = await startPeer();
    await using joined = await joinPeer(fixture, peer);
    await peer.call("produce", 1);
    const slot = (await joined.consumer.next())!;
    await peer.kill();
    kernels.check(stream, slot.buffer, 1);
    assertEquals(await withinASecond(consume(joined.consumer, fixture)), { sequences: [], error: "peer-gone" });
    kernels.check(stream, slot.buffer, 1);
    slot.release();
    assertEquals(await kernels.counts(stream), [2 * slotByteLength / 4, 0]);
    assert(joined.consumer.recalled.aborted);
  },
);

faultTest("a producer loses its device: its consumer is notified, and its own waits end", async (fixture) => {
  const peer = await fixture.startPeer();
  await using joined = await joinPeer(fixture, peer);
  const consuming = consume(joined.consumer, fixture);
  for (const code of await peer.call("loseProducer", slots)) assertMatch(code!, /^cudaError/);
  const { sequences, error } = await withinASecond(consuming);
  assertEquals([sequences, error], [[1], "device-lost"]);
}, { long: true });

faultTest("a consumer loses its device: the producer continues", async (fixture) => {
  const { path, pool, startPeer, stream } = fixture;
  await using exporter = Exporter.listen(path);
  await using channel = exporter.createChannel("frames", { pool, slots, slotByteLength, stream, minimumConsumers: 0 });
  const peer = await startPeer();
  await joinAndWait(peer, path, channel);
  await produce(channel, fixture, 1);
  const lost = peer.call("loseDevice");
  const losing = peer.call("useLostDevice", "frames");
  assertMatch((await lost)!, /^cudaError/);
  await withinASecond(produce(channel, fixture, 1));
  const [waiting, releasing, leaving] = await losing;
  for (const code of [waiting, releasing]) assertMatch(code!, /^cudaError/);
  assertEquals(leaving, "nothing");
  // The mappings that it could not unmap are released only by the end of its process.
  await new Promise((resolve) => setTimeout(resolve, moment));
  assertEquals(exporter.leases.map(({ peer: { pid } }) => pid), [peer.pid]);
  await peer.kill();
  await soonBack(exporter, channel);
});
