import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SharingError } from "../../../src/support/errors.ts";
import type { ChannelOptions, ChannelProducer } from "../../../src/sharing/channel/channel_producer.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import type { ChildProcess } from "../../support/child_process.ts";
import { type Fixture, sharingTest, soon, withinASecond } from "../sharing_peers.ts";
import { noPython, startHostile } from "./hostile_peers.ts";
import { test } from "../../support/test.ts";

/** Milliseconds within which an honest consumer must be served. */
const served = 2000;

interface HoarderFixture extends Fixture {
  readonly exporter: Exporter;
  readonly channel: ChannelProducer;
  /** Sends frames until it is aborted. */
  produce(signal: AbortSignal): Promise<void>;
  /** Starts a process that joins the channel with a number of connections, and releases no frame. */
  startHoarders(count: number): Promise<ChildProcess>;
}

/** Declares a test of a channel with hostile consumers. */
function hoarderTest(
  name: string,
  options: Partial<ChannelOptions>,
  body: (fixture: HoarderFixture) => Promise<void>,
  { long = false }: { long?: boolean } = {},
): void {
  if (noPython !== undefined) return test(name, { skip: noPython }, () => {});
  sharingTest(name, async (fixture) => {
    const { path, pool, stream } = fixture;
    await using children = new AsyncDisposableStack();
    await using exporter = Exporter.listen(path, { closeTimeout: 0 });
    await using channel = exporter.createChannel("frames", { pool, slots: 4, slotByteLength: 64, stream, ...options });
    await body({
      ...fixture,
      exporter,
      channel,
      async produce(signal) {
        try {
          for (;;) {
            channel.send(await channel.reserve({ signal }));
            await new Promise((resolve) => setTimeout(resolve, 2));
          }
        } catch (error) {
          if (!signal.aborted) throw error;
        }
      },
      async startHoarders(count) {
        const child = children.use(startHostile("frame_hoarders.py", [path, "frames", count]));
        assertEquals(await child.nextLine(), "hoarding");
        return child;
      },
    });
    await children.disposeAsync();
    await soon(() => exporter.leases.length === 0, "the leases of ended processes end");
    assertEquals([channel.freeSlots, channel.quarantinedSlots], [options.slots ?? 4, 0]);
  }, { softwareOnly: true, long });
}

const cases = [{ slots: 2, hoarders: 1 }, { slots: 3, hoarders: 2 }, { slots: 4, hoarders: 3 }, {
  slots: 8,
  hoarders: 12,
}];
for (const { slots, hoarders } of cases) {
  hoarderTest(
    `a consumer that releases its frames is served beside ${hoarders} that release none, in a ring of ${slots}`,
    { overflow: "drop-oldest", slots, holdTimeout: 2500 },
    async ({ channel, cuda, exporter, path, produce, startHoarders }) => {
      const producing = new AbortController();
      const produced = produce(producing.signal);
      produced.catch(() => {});
      const child = await startHoarders(hoarders);
      await using importer = await Importer.connect(cuda, path);
      await using consumer = await importer.channel("frames");
      const { sent } = channel;
      const signal = AbortSignal.timeout(served);
      for (let frames = 0; frames < 20;) {
        using slot = await consumer.next({ signal });
        if (slot!.sequence > sent) frames++;
      }
      // After the timeout, they are cut off; what they may still read is not written again.
      const draining = (async () => {
        for await (using _slot of consumer);
      })();
      draining.catch(() => {});
      const line = (await child.nextLine())!;
      assertStringIncludes(line, "goodbye 5 It was cut off: process");
      assertStringIncludes(line, 'has held a frame of "frames" for more than 2500 ms');
      await soon(() => exporter.importers.length === 1, "all are cut off");
      const quarantined = channel.quarantinedSlots;
      assert(quarantined >= 1 && quarantined < slots, `${quarantined} slots are quarantined`);
      const { sent: before } = channel;
      await soon(() => channel.sent > before + 10, "the producer goes on with the other slots");
      child.kill("SIGKILL");
      await soon(() => channel.quarantinedSlots === 0, "the slots are back");
      producing.abort();
      await produced;
      channel.end();
      await draining;
    },
    { long: slots !== 4 },
  );
}

hoarderTest(
  "a recall frees a waiting producer from a consumer that holds all slots: it is told, and goes on after that process",
  { slots: 2 },
  async ({ channel, exporter, produce, startHoarders }) => {
    const produced = produce(new AbortController().signal);
    const outcome = assertRejects(() => produced, SharingError);
    const child = await startHoarders(1);
    await soon(() => channel.freeSlots === 0, "all slots are held");
    const [lease] = exporter.leases;
    await assertRejects(() => lease!.recall({ deadline: 0 }), SharingError, "did not release");
    const error = await outcome;
    assertEquals(error.code, "cut-off");
    assertStringIncludes(
      error.message,
      `all 2 may still be used by processes that are not connected any more: ${child.pid}`,
    );
    assertEquals(channel.quarantinedSlots, 2);
    await assertRejects(() => channel.reserve(), SharingError, "Cannot reserve a slot");
    child.kill("SIGKILL");
    await child.ended;
    await soon(() => channel.freeSlots === 2, "the slots are back");
    // It waits for a consumer again.
    await assertRejects(() => withinASecond(channel.reserve({ signal: AbortSignal.timeout(10) })), DOMException);
  },
  { long: true },
);
