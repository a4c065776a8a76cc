/**
 * The other processes: the exporter, and those that attack it or its importers.
 *
 *     roles.ts ROLE PATH
 *
 * Prints "ready" when the exporter listens, or when the attack has begun.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { type Cuda, Exporter, Importer, open, type ReceivedSlot, UnixListener, UnixSocket } from "../../mod.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { Gate } from "../../tests/support/gate.ts";

/** The roles that attack, and the one that is attacked. */
export type Role = "exporter" | "silent connections" | "event hoarder" | "frame hoarder" | "flood of offers";

const byteLength = 65_536;
/** Milliseconds between two frames of the exporter, and before an attacker that was refused tries again. */
const [framePause, retryPause] = [10, 20];
/** Milliseconds in which an exporter has sent its offers. */
const settlePause = 100;
/** The header and the body of WELCOME. */
const welcomeByteLength = 24;
const silentConnections = 1024;
/** As many as an exporter lets an importer announce. */
const lentEvents = 1024;
/** The number of offers of the flood, and the bytes of metadata of each. */
const [offers, metadataByteLength] = [65_536, 32_768];

const roles: Readonly<Record<Role, (path: string) => Promise<void>>> = {
  async "exporter"(path) {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using weights = pool.allocate(byteLength);
    weights.fill(7);
    await using exporter = Exporter.listen(path);
    exporter.offer("weights", weights);
    await using channel = exporter.createChannel("frames", {
      pool,
      slots: 4,
      slotByteLength: 1024,
      overflow: "drop-oldest",
    });
    ready();
    for (;;) {
      channel.send(await channel.reserve());
      await sleep(framePause);
    }
  },

  async "silent connections"(path) {
    await Promise.all(Array.from({ length: silentConnections }, () =>
      forever(async () => {
        await using socket = await UnixSocket.connect(path);
        ready();
        for (;;) await socket.receive(1);
      })));
  },

  async "event hoarder"(path) {
    using cuda = open({ driver: "software" });
    using gate = new Gate(cuda);
    using stream = cuda.device(0).createStream({ nonBlocking: true });
    gate.hold(stream);
    using event = cuda.device(0).createEvent({ interprocess: true });
    stream.record(event);
    const handle = event.exportHandle();
    const deviceUuid = uuidBytes(cuda);
    await forever(async () => {
      await using socket = await UnixSocket.connect(path);
      await socket.send(encodeMessage({ type: "hello", lowestVersion: 1, highestVersion: 1 }));
      await socket.receive(welcomeByteLength);
      await sleep(settlePause);
      const held = encodeMessage({ type: "held", offer: 1 });
      for (let event = 1; event <= lentEvents; event++) {
        await socket.send(encodeMessage({ type: "event", event, deviceUuid, handle }));
        await socket.send(held);
        await socket.send(encodeMessage({ type: "released", offer: 1, event }));
      }
      ready();
      const released = encodeMessage({ type: "released", offer: 1, event: 0 });
      // Sending fails once the exporter has ended the connection.
      for (;; await sleep(settlePause)) for (const message of [held, released]) await socket.send(message);
    });
  },

  async "frame hoarder"(path) {
    using cuda = open({ driver: "software" });
    await forever(async () => {
      await using importer = await Importer.connect(cuda, path, { closeTimeout: 0 });
      await using frames = await importer.channel("frames");
      ready();
      const hoard: ReceivedSlot[] = [];
      for await (const slot of frames) hoard.push(slot);
    });
  },

  async "flood of offers"(path) {
    await using listener = UnixListener.listen(path);
    ready();
    for (;;) {
      const socket = await listener.accept();
      void flood(socket).catch(() => {}).finally(() => socket[Symbol.asyncDispose]());
    }
  },
};

/** Offers whole pools under as many names as the protocol allows, with as much metadata. */
async function flood(socket: UnixSocket): Promise<void> {
  using cuda = open({ driver: "software" });
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  const deviceUuid = uuidBytes(cuda);
  await socket.send(encodeMessage({ type: "welcome", version: 1 }));
  await socket.send(encodeMessage({ type: "pool", pool: 1, kind: "device", deviceUuid, handle }), {
    handles: [handle],
  });
  const metadata = JSON.stringify("x".repeat(metadataByteLength - 2));
  for (let offer = 1; offer <= offers; offer++) {
    await socket.send(encodeMessage({
      type: "offer",
      offer,
      kind: "pool",
      allocation: 0,
      pool: 1,
      byteOffset: 0,
      byteLength: 0,
      readyEvent: 0,
      name: `flood ${offer}`,
      metadata,
    }));
  }
  for (;;) await socket.receive(1);
}

/** Attacks again whenever the attack is ended. */
async function forever(attack: () => Promise<void>): Promise<void> {
  for (;;) {
    await attack().catch(() => {});
    await sleep(retryPause);
  }
}

function uuidBytes(cuda: Cuda): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(cuda.device(0).uuid.replace(/^GPU-|-/g, ""));
}

let isReady = false;
function ready(): void {
  if (!isReady) console.log("ready");
  isReady = true;
}

const [role, path] = process.argv.slice(2) as [Role, string];
await roles[role](path);
