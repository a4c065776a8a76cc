import { assert, assertEquals } from "@std/assert";
import { ChannelFrames } from "../../src/sharing/channel/channel_frames.ts";
import { RemoteEvents } from "../../src/sharing/events/remote_events.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { SentOffer } from "../../src/sharing/exporter/lease.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import { RemoteOffers } from "../../src/sharing/importer/remote_offers.ts";
import { MessageReader } from "../../src/sharing/protocol/message_reader.ts";
import { MessageWriter } from "../../src/sharing/protocol/message_writer.ts";
import { PeerProcess } from "../../src/sharing/transport/peer_process.ts";
import type { SharingError } from "../../src/support/errors.ts";
import { ConditionVariable } from "../../src/sharing/transport/abortable.ts";
import { someOf } from "../support/test.ts";
import { sharingTest, soon } from "./sharing_peers.ts";

/** A function that is called when a connection ends. */
interface Step {
  readonly of: object;
  readonly name: PropertyKey;
}

const steps: readonly Step[] = [
  { of: MessageReader.prototype, name: "close" },
  { of: MessageWriter.prototype, name: "close" },
  { of: PeerProcess.prototype, name: "whenEnded" },
  { of: PeerProcess.prototype, name: Symbol.dispose },
  { of: RemoteEvents.prototype, name: "close" },
  { of: SentOffer.prototype, name: "countRelease" },
  { of: SentOffer.prototype, name: "notify" },
  { of: RemoteOffers.prototype, name: "onEnd" },
  { of: ChannelFrames.prototype, name: "onLeave" },
  { of: ChannelFrames.prototype, name: "onReleased" },
  { of: ConditionVariable.prototype, name: "notify" },
];

/** Lets a function throw after it has done its work, and records what is reported as uncaught. */
class FailingStep implements Disposable {
  thrown = 0;
  readonly reported: unknown[] = [];
  readonly #undo: () => void;

  constructor({ of, name }: Step) {
    const owner = of as Record<PropertyKey, (...args: unknown[]) => unknown>;
    const { queueMicrotask } = globalThis;
    const original = owner[name]!;
    // deno-lint-ignore no-this-alias
    const step = this;
    owner[name] = function (this: unknown, ...args: unknown[]): never {
      original.apply(this, args);
      step.thrown++;
      throw new Error("This step fails");
    };
    globalThis.queueMicrotask = (callback) =>
      queueMicrotask(() => {
        try {
          callback();
        } catch (error) {
          this.reported.push(error);
        }
      });
    this.#undo = () => {
      owner[name] = original;
      globalThis.queueMicrotask = queueMicrotask;
    };
  }

  [Symbol.dispose](): void {
    this.#undo();
  }
}

function nameOf({ of, name }: Step): string {
  return `${of.constructor.name}.${String(name)}`;
}

sharingTest("a connection ends completely, whichever step of its end fails", async ({ cuda, path, pool, start }) => {
  using buffer = pool.allocate(64);
  for (const [index, step] of someOf(steps, 7).entries()) {
    const name = nameOf(step);
    const ends: (SharingError | undefined)[] = [];
    await using exporter = Exporter.listen(`${path}${index}`, {
      onDisconnect: (_peer, error) => void ends.push(error),
    });
    exporter.offer("weights", buffer);
    await using _channel = exporter.createChannel("ring", { pool, slots: 2, slotByteLength: 64 });
    await using peer = await start();
    await peer.call("connect", "one", exporter.path);
    await peer.call("map", "one", "weights");
    await peer.call("listen", `${path}-peer${index}`);
    await peer.call("export", "steady", 64, 7);
    await using importer = await Importer.connect(cuda, `${path}-peer${index}`);
    using _mapped = await (await importer.offer("steady")).map();
    let rejection: unknown;
    importer.offer("another").catch((error) => rejection = error);
    {
      using failing = new FailingStep(step);
      await peer.kill();
      await soon(() => (rejection as SharingError | undefined)?.code === "peer-gone", `waits end: ${name}`);
      await soon(() => ends.length > 0 && exporter.leases.length === 0, `the connection ends: ${name}`);
      assertEquals([exporter.importers, importer.isConnected], [[], false], name);
      assert(failing.thrown > 0, name);
      await soon(() => failing.reported.length === failing.thrown, `every error is reported: ${name}`);
    }
    assertEquals(ends.map((error) => error?.code), ["peer-gone"], name);
  }
}, { softwareOnly: true, long: true });
