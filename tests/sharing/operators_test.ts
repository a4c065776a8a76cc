/**
 * What an operator sees of an exporter: callbacks, statistics and the log.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { dirname } from "node:path";
import process from "node:process";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import { Operator } from "../../src/sharing/operator/operator.ts";
import { prometheusText } from "../../src/sharing/operator/prometheus_text.ts";
import type { ExporterStatus } from "../../src/sharing/operator/status.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { startScript } from "../support/child_process.ts";
import { someOf } from "../support/test.ts";
import { startChannelPeer } from "./channel/channel_peers.ts";
import { assertFailsSoon, sharingTest, soon } from "./sharing_peers.ts";

sharingTest("onConnect is called for each importer once its handshake is complete", async ({ path, start }) => {
  const peer = await start();
  const events: string[] = [];
  await using exporter = Exporter.listen(path, {
    onConnect: ({ pid }) => events.push(`connect ${pid} of ${exporter.importers.map(({ pid }) => pid)}`),
    onDisconnect: ({ pid }, error) => events.push(`disconnect ${pid} ${error?.code ?? "done"}`),
  });
  {
    // It says nothing, and then something else than HELLO.
    await using silent = await UnixSocket.connect(path);
    await peer.call("connect", "one", path);
    assertEquals(events, [`connect ${peer.pid} of ${peer.pid}`]);
    await silent.send(new Uint8Array(64));
    await soon(() => events.length === 2, "the end of the connection");
  }
  await peer.call("close", "one");
  await soon(() => events.length === 3, "the end of the other connection");
  assertEquals(events.map((event) => event.replace(/ of .*/, "")), [
    `connect ${peer.pid}`,
    `disconnect ${process.pid} bad-message`,
    `disconnect ${peer.pid} done`,
  ]);
  assertThrows(() => Exporter.listen(`${path}.wrong`, { onConnect: 5 as never }), TypeError, "onConnect");
});

sharingTest("an error that onConnect throws is uncaught, and the importer stays connected", async ({ cuda, path }) => {
  const thrown = Promise.withResolvers<unknown>();
  const { queueMicrotask } = globalThis;
  globalThis.queueMicrotask = (callback) =>
    queueMicrotask(() => {
      try {
        callback();
      } catch (error) {
        thrown.resolve(error);
      }
    });
  try {
    const wrong = new Error("The application's callback fails");
    await using exporter = Exporter.listen(path, {
      onConnect() {
        throw wrong;
      },
    });
    await using importer = await Importer.connect(cuda, path);
    assertEquals(await thrown.promise, wrong);
    assertEquals([exporter.importers.length, importer.isConnected], [1, true]);
  } finally {
    globalThis.queueMicrotask = queueMicrotask;
  }
}, { softwareOnly: true });

sharingTest("statistics count connections and what they transfer", async ({ cuda, path }) => {
  await using exporter = Exporter.listen(path, { maximumImporters: 1 });
  const nothing = { connected: 0, handshakes: 0, lingering: 0, accepted: 0, refused: {}, ended: {} };
  assertEquals(exporter.statistics().importers, nothing);
  assert(Math.abs(exporter.statistics().since - Date.now()) < 60_000, "milliseconds since 1970");
  {
    await using silent = await UnixSocket.connect(path);
    await soon(() => exporter.statistics().importers.handshakes === 1, "a connection without a handshake");
    await silent.send(new Uint8Array(64));
    await soon(() => "bad-message" in exporter.statistics().importers.refused, "it is refused");
  }
  const before = exporter.statistics().traffic;
  assertEquals([before.messagesReceived, before.bytesReceived], [0, 64]);
  const importer = await Importer.connect(cuda, path);
  const { traffic } = exporter.statistics();
  const hello = encodeMessage({ type: "hello", lowestVersion: 1, highestVersion: 1 });
  const welcome = encodeMessage({ type: "welcome", version: 1 });
  assertEquals(traffic, {
    messagesSent: before.messagesSent + 1,
    messagesReceived: 1,
    bytesSent: before.bytesSent + welcome.length,
    bytesReceived: 64 + hello.length,
  });
  for (let more = 0; more < 2; more++) await assertFailsSoon(Importer.connect(cuda, path), "limit-exceeded");
  assertEquals(exporter.statistics().importers, {
    ...nothing,
    connected: 1,
    accepted: 1,
    refused: { "bad-message": 1, "limit-exceeded": 2 },
  });
  await importer[Symbol.asyncDispose]();
  await soon(() => exporter.importers.length === 0, "the end of the connection");
  assertEquals(exporter.statistics().importers.ended, { done: 1 });
}, { softwareOnly: true });

sharingTest(
  "statistics count offers, leases by state and quarantined memory",
  async ({ pool, stream, path, start }) => {
    const peer = await start();
    await using exporter = Exporter.listen(path);
    using first = pool.allocate(1000, stream);
    using second = pool.allocate(500, stream);
    exporter.offer("first", first);
    exporter.offer("second", second);
    const state = () => {
      const { offers, leases, quarantinedByteLength, importers } = exporter.statistics();
      const { announced, held, releasing, quarantined } = leases;
      return [offers, { announced, held, releasing, quarantined }, quarantinedByteLength, importers.lingering];
    };
    const none = { count: 0, byteLength: 0 };
    const leases = { announced: none, held: none, releasing: none, quarantined: none };
    const offers = { count: 2, byteLength: 1500, withdrawn: 0, made: 2 };
    await peer.call("connect", "one", path);
    assertEquals(state(), [offers, leases, 0, 0]);
    for (const name of ["first", "second"]) await peer.call("map", "one", name);
    await soon(() => exporter.leases.length === 2, "both are held");
    assertEquals(state(), [offers, { ...leases, held: { count: 2, byteLength: 1500 } }, 0, 0]);
    await peer.call("free", "second");
    exporter.offers[0]!.withdraw();
    await soon(() => exporter.leases.length === 1, "one is released");
    const left = { count: 1, byteLength: 500, withdrawn: 1, made: 2 };
    assertEquals(state(), [left, { ...leases, held: { count: 1, byteLength: 1000 } }, 0, 0]);
    await assertRejects(() => exporter.leases[0]!.recall({ deadline: 1 }));
    await soon(() => exporter.leases[0]!.state === "quarantined", "it is cut off");
    const [, { quarantined }, quarantinedByteLength, lingering] = state() as [unknown, typeof leases, number, number];
    // It may also map the second offer again, as far as the exporter knows.
    assertEquals([quarantined, quarantinedByteLength, lingering], [{ count: 2, byteLength: 1500 }, 1500, 1]);
    assertEquals(exporter.statistics().importers.ended, { "cut-off": 1 });
    await peer.kill();
    await soon(() => exporter.leases.length === 0, "the process has ended");
    assertEquals(state(), [{ ...left, withdrawn: 0 }, leases, 0, 0]);
    // Plain data: nothing is lost.
    assertEquals(JSON.parse(JSON.stringify(exporter.statistics())), exporter.statistics());
  },
);

sharingTest("statistics count the frames of each channel and consumer", async ({ cuda, pool, path }) => {
  await using peer = await startChannelPeer(cuda, dirname(path));
  await using exporter = Exporter.listen(path);
  await using channel = exporter.createChannel("frames", {
    pool,
    slots: 4,
    slotByteLength: 1024,
    overflow: "drop-oldest",
    window: 1,
  });
  await peer.call("join", path, "frames");
  await soon(() => channel.consumers.length === 1, "the consumer has joined");
  const send = async () => channel.send(await channel.reserve(), { byteLength: 100 });
  for (let frame = 1; frame <= 3; frame++) await send();
  const { consumers, ...counts } = exporter.statistics().channels[0]!;
  assertEquals(counts, {
    name: "frames",
    slots: 4,
    slotByteLength: 1024,
    freeSlots: 1,
    quarantinedSlots: 0,
    sent: 3,
    bytesSent: 300,
    dropped: 0,
  });
  assertEquals(consumers, [{ peer: { ...channel.consumers[0]! }, sent: 1, dropped: 0, held: 1, lag: 3 }]);
  await send();
  await send();
  const [late] = exporter.statistics().channels;
  assertEquals([late!.sent, late!.bytesSent, late!.dropped], [5, 500, 1]);
  assertEquals(late!.consumers[0], { ...consumers[0]!, dropped: 1, lag: 4 });
  assertEquals((await peer.call("next", "frames"))!.sequence, 1);
  await peer.call("release");
  await soon(() => exporter.statistics().channels[0]!.consumers[0]!.sent === 2, "the next frame is sent");
  assertEquals(exporter.statistics().channels[0]!.consumers[0]!.lag, 3);
  await peer.call("leave", "frames");
  await soon(() => channel.consumers.length === 0, "the consumer has left");
  assertEquals(exporter.statistics().channels[0]!.consumers, []);
  await peer.call("disconnect");
}, { long: true });

const script = "children/sharing/logging_peer.ts";
const env = { POOLPASS_DRIVER: "software", POOLPASS_LOG: "1", NODE_NO_WARNINGS: "1" };

/** The lines of a log, without the time. Fails if a line has another form. */
function linesOf(log: string, pid: number): string[] {
  return log.trimEnd().split("\n").map((line) => {
    const [, time, process, rest] = /^(\S+) poolpass\[(\d+)\] (.*)$/.exec(line) ?? [];
    assertEquals([new Date(time!).toISOString(), Number(process)], [time!, pid], line);
    assertMatch(rest!, /^[a-z-]+( [a-z]+=([\w.:/@%+-]+|"([^"\\]|\\.)*"))*$/);
    return rest!;
  });
}

sharingTest("an exporter's log has a line for each event, whatever other processes call things", async ({
  cuda,
  path,
  start,
}) => {
  await using child = startScript(script, ["export", path], { env });
  assertEquals(await child.nextLine(), "listening");
  {
    await using socket = await UnixSocket.connect(path);
    await socket.send(new Uint8Array(64));
    await assertRejects(() => socket.receive(2 ** 20));
  }
  {
    await using importer = await Importer.connect(cuda, path);
    for await (const offer of importer.offers()) {
      using _mapped = await offer.map();
      break;
    }
    await using frames = await importer.channel("frames");
    for await (using slot of frames) if (slot.sequence === 3) break;
  }
  const other = await start();
  await other.call("connect", "one", path);
  await other.call("map", "one", "stubborn");
  assertEquals(await child.nextLine(), "cut off");
  await other.kill();
  assertEquals([await child.nextLine(), await child.ended], ["done", 0]);
  const name = '"a \\"name\\"\\x0aof \\u202etwo lines \\x1b[31m"';
  const first = `peer=${process.pid}`;
  const second = `peer=${other.pid}`;
  const error = `error="It was cut off: process ${other.pid} did not release \\"stubborn\\" within 1 ms"`;
  const lines = linesOf(await child.errors(), child.pid).map((line) =>
    line.replace(` path=${path}`, "").replace(/ uid=\d+/, "")
  );
  // The two ends of the first connection's channel and offers are not in any order.
  assertEquals(
    lines.toSorted(),
    [
      "listen",
      "open driver=software devices=2",
      `offer name=${name} kind=buffer bytes=64`,
      `refuse ${first} code=bad-message error="Cannot accept a message of type 0: the protocol has no such type"`,
      `connect ${first}`,
      `map ${first} name=${name} bytes=64`,
      `release ${first} name=${name} bytes=64`,
      `lease-end ${first} name=${name} bytes=64`,
      `withdraw name=${name} kind=buffer bytes=64`,
      `offer-end name=${name} kind=buffer bytes=64`,
      "channel name=frames slots=2 bytes=1024",
      "offer name=frames kind=channel bytes=1024",
      `map ${first} name=frames bytes=1024`,
      `join ${first} name=frames`,
      "drop name=frames frame=2",
      `leave ${first} name=frames`,
      `release ${first} name=frames bytes=1024`,
      `lease-end ${first} name=frames bytes=1024`,
      "channel-end name=frames frames=3 dropped=1",
      "withdraw name=frames kind=channel bytes=1024",
      "offer-end name=frames kind=channel bytes=1024",
      `disconnect ${first} code=done`,
      "offer name=stubborn kind=buffer bytes=64",
      `connect ${second}`,
      `map ${second} name=stubborn bytes=64`,
      `recall ${second} name=stubborn deadline=1`,
      `cut-off ${second} code=cut-off ${error}`,
      `disconnect ${second} code=cut-off ${error}`,
      `quarantine ${second} offers=1 bytes=64`,
      "withdraw name=stubborn kind=buffer bytes=64",
      `lease-end ${second} name=stubborn bytes=64`,
      `quarantine-end ${second}`,
      "offer-end name=stubborn kind=buffer bytes=64",
      "close offers=0 importers=0",
    ].toSorted(),
  );
}, { softwareOnly: true, long: true });

sharingTest("an importer's log says what it waits for, and how the connection ends", async ({ path }) => {
  await using child = startScript(script, ["import", path], { env });
  assertEquals(await child.nextLine(), "connecting");
  const connected = Promise.withResolvers<void>();
  {
    await using _exporter = Exporter.listen(path, { onConnect: () => connected.resolve() });
    await connected.promise;
  }
  assertEquals(await child.nextLine(), "done");
  assertEquals(linesOf(await child.errors(), child.pid), [
    "open driver=software devices=2",
    `importer-wait path=${path}`,
    `importer-connect path=${path} peer=${process.pid} uid=${process.getuid!()}`,
    `importer-disconnect peer=${process.pid} code=done`,
  ]);
}, { softwareOnly: true });

sharingTest("refused imports are logged, and operators see how many there were", async ({ path }) => {
  await using child = startScript(script, ["refuse", path], { env });
  assertEquals([await child.nextLine(), await child.nextLine()], ["bad-message", "too-large"]);
  const own = JSON.parse((await child.nextLine())!) as string;
  assertMatch(own, /^poolpass_imports_refused_total\{code="too-large"\} 1$/m);
  {
    await using operator = await Operator.connect(path);
    const { statistics } = await operator.status() as ExporterStatus;
    assertEquals(statistics.refusals, {
      imports: { "bad-message": 1, "size-mismatch": 0, "too-large": 1, cudaErrorInvalidValue: 0 },
      exports: { "too-large": 0 },
      events: { forged: 0, "unknown-layout": 0, "other-user": 0, "other-namespace": 0 },
    });
    for (const [code, count] of Object.entries(statistics.refusals!.imports)) {
      const sample = `\npoolpass_imports_refused_total{path="${path}",code="${code}"} ${count}\n`;
      assertStringIncludes(prometheusText(statistics), sample);
    }
  }
  child.kill("SIGTERM");
  assertEquals([await child.nextLine(), await child.ended], ["done", 0]);
  const refused = linesOf(await child.errors(), child.pid).filter((line) => line.startsWith("refuse-"));
  assertMatch(refused[0]!, /^refuse-import code=bad-message error="Cannot import a pointer: /);
  assertMatch(refused[1]!, /^refuse-import code=too-large error="Cannot import 8589934592 bytes: /);
  assertEquals(refused.length, 2);
}, { softwareOnly: true });

sharingTest("nothing is logged without POOLPASS_LOG", async ({ path }) => {
  await using child = startScript(script, ["many", path], { env: { ...env, POOLPASS_LOG: "0" } });
  assertEquals(await child.nextLine(), "done");
  assertEquals(await child.errors(), "");
}, { softwareOnly: true, long: true });

sharingTest("a log that nobody can read stops nobody", async ({ path }) => {
  // Each one runs a program and passes its standard output on.
  const shells = {
    "a pipe that nobody reads until the program ends":
      'mkfifo "$0"; { "$@" 2>&1 1>&3 5>"$0" | cat "$0" >/dev/null; } 3>&1',
    "a pipe without a reader": '{ "$@" 2>&1 1>&3 | true; } 3>&1',
    "a full device": '"$@" 2>/dev/full',
    "no standard error": '"$@" 2>&-',
  };
  for (const [what, shell] of someOf(Object.entries(shells), 4)) {
    const fifo = `${path}.fifo`;
    await using child = startScript(script, ["many", path], { env, through: ["/bin/sh", "-c", shell, fifo] });
    assertEquals([await child.nextLine(), await child.ended], ["done", 0], what);
  }
}, { softwareOnly: true, long: true });
