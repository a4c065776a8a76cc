import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { dirname } from "node:path";
import process from "node:process";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import type { ExporterStatus } from "../../../src/sharing/operator/status.ts";
import type { JsonValue } from "../../../src/sharing/protocol/metadata.ts";
import { startChannelPeer } from "../channel/channel_peers.ts";
import { assertFailsSoon, sharingTest, soon } from "../sharing_peers.ts";

async function statusOf(operator: Operator): Promise<ExporterStatus> {
  const status = await operator.status();
  if (status.kind !== "exporter") throw new Error(`It is a ${status.kind}`);
  return status;
}

sharingTest("an operator sees offers, and who holds them since when", async ({ gpu, pool, stream, path, start }) => {
  const peer = await start();
  const begin = Date.now();
  await using exporter = Exporter.listen(path);
  using first = pool.allocate(1000, stream);
  using second = pool.allocate(500, stream);
  exporter.offer("first", first, { metadata: { shape: [10, 100] } });
  exporter.offer("second", second);
  exporter.offer("pool", pool);
  await using operator = await Operator.connect(path);
  const before = await statusOf(operator);
  assertEquals([before.pid, before.leftOut], [process.pid, { rows: 0, holders: 0, metadata: 0 }]);
  assertEquals(before.statistics.operators, 1);
  assertEquals(
    before.offers.map(({ since, ...offer }) => {
      assert(since >= begin && since <= Date.now());
      return offer;
    }),
    [
      { name: "first", kind: "buffer", byteLength: 1000, metadata: { shape: [10, 100] } },
      { name: "second", kind: "buffer", byteLength: 500 },
      { name: "pool", kind: "pool", byteLength: 0 },
    ].map((offer) => ({ ...offer, device: gpu.uuid, pool: 1, isWithdrawn: false, holders: [] }) as never),
  );
  await peer.call("connect", "one", path);
  await peer.call("map", "one", "first");
  await peer.call("map", "one", "first", "again");
  await soon(() => exporter.statistics().leases.held.count === 1, "it is held");
  const { uid } = exporter.importers[0]!;
  const holder = { pid: peer.pid, uid, since: exporter.leases[0]!.since.getTime() };
  exporter.offers[0]!.withdraw();
  const held = (await statusOf(operator)).offers;
  assertEquals(held.map(({ name, isWithdrawn }) => [name, isWithdrawn]), [["first", true], ["second", false], [
    "pool",
    false,
  ]]);
  assertEquals(held.map(({ holders }) => holders), [[{ ...holder, state: "held", count: 2 }], [], []]);
  await assertRejects(() => exporter.leases[0]!.recall({ deadline: 1 }));
  const [cut, other] = (await statusOf(operator)).offers;
  assertEquals(cut!.holders, [{ ...holder, state: "quarantined", count: 2 }]);
  assertEquals(other!.holders.map(({ state, count }) => [state, count]), [["quarantined", 0]]);
  await peer.kill();
  await soon(() => exporter.leases.length === 0, "the process has ended");
  assertEquals((await statusOf(operator)).offers.map(({ name }) => name), ["second", "pool"]);
});

sharingTest("an operator sees the frames of channels and how consumers lag", async ({ cuda, pool, path }) => {
  await using peer = await startChannelPeer(cuda, dirname(path));
  await using exporter = Exporter.listen(path);
  await using channel = exporter.createChannel("frames", { pool, slots: 4, slotByteLength: 1024 });
  await using operator = await Operator.connect(path);
  await peer.call("join", path, "frames");
  await soon(() => channel.consumers.length === 1, "the consumer has joined");
  for (let frame = 1; frame <= 3; frame++) channel.send(await channel.reserve(), { byteLength: 100 });
  const { statistics, offers } = await statusOf(operator);
  const { traffic: _traffic, ...counts } = exporter.statistics();
  assertEquals({ ...statistics, traffic: undefined }, { ...counts, traffic: undefined as never });
  const [{ consumers, ...frames } = { consumers: [] }] = statistics.channels;
  assertEquals(frames, {
    name: "frames",
    slots: 4,
    slotByteLength: 1024,
    freeSlots: 1,
    quarantinedSlots: 0,
    sent: 3,
    bytesSent: 300,
    dropped: 0,
  });
  assertEquals(consumers, [{ peer: { ...channel.consumers[0]! }, sent: 3, dropped: 0, held: 3, lag: 3 }]);
  assertEquals(offers.map(({ name, kind, byteLength }) => [name, kind, byteLength]), [["frames", "channel", 4096]]);
  await peer.kill();
});

sharingTest("importers get the same with an operator, and it is none of them", async ({ cuda, pool, path }) => {
  const events: string[] = [];
  await using exporter = Exporter.listen(path, {
    onConnect: () => events.push("connect"),
    onDisconnect: (_, error) => events.push(error?.code ?? "done"),
  });
  using buffer = pool.allocateArray(Uint32Array, 4);
  buffer.copyFrom(Uint32Array.of(1, 2, 3, 4));
  exporter.offer("buffer", buffer);
  {
    await using operator = await Operator.connect(path);
    await operator.status();
    assertEquals([exporter.importers, events], [[], []]);
    const { importers, operators, traffic } = exporter.statistics();
    assertEquals([importers.connected, importers.accepted, operators], [0, 0, 1]);
    await using importer = await Importer.connect(cuda, path);
    using mapped = await (await importer.offer("buffer")).map();
    assertEquals(await mapped.read(Uint32Array), Uint32Array.of(1, 2, 3, 4));
    const asked = exporter.statistics().traffic;
    assert(asked.messagesReceived > traffic.messagesReceived);
    const [, two] = await Promise.all([operator.status(), operator.status()]);
    assertEquals(two.kind === "exporter" && two.offers[0]!.holders[0]!.pid, process.pid);
    assertEquals(String(operator), `Operator { ${path}, process ${process.pid}, 0 requests }`);
  }
  await soon(() => exporter.statistics().operators === 0, "the end of the connection");
  assertEquals(events, ["connect", "done"]);
}, { softwareOnly: true });

sharingTest("operators count in the limits on connections", async ({ cuda, path }) => {
  await using exporter = Exporter.listen(path, { maximumImporters: 2 });
  await using one = await Operator.connect(path);
  await using importer = await Importer.connect(cuda, path);
  await assertFailsSoon(Operator.connect(path), "limit-exceeded");
  await assertFailsSoon(Importer.connect(cuda, path), "limit-exceeded");
  await importer[Symbol.asyncDispose]();
  await soon(() => exporter.importers.length === 0, "the end of the connection");
  await using two = await Operator.connect(path);
  assertEquals((await statusOf(two)).statistics.operators, 2);
  await one[Symbol.asyncDispose]();
}, { softwareOnly: true });

sharingTest("an operator's calls end with its connection, and with its exporter", async ({ path }) => {
  await assertFailsSoon(Operator.connect(path), "not-found", "Operator.connect waits for it");
  const waiting = Operator.connect(path, { wait: true });
  const exporter = Exporter.listen(path);
  await using operator = await waiting;
  const other = await Operator.connect(path);
  const unanswered = other.status();
  await other[Symbol.asyncDispose]();
  await assertRejects(() => unanswered, ReferenceError, "was disposed while it was still waiting");
  await assertRejects(() => other.status(), ReferenceError, "the operator was disposed");
  const reason = new Error("No longer wanted");
  const aborted = assertRejects(() => operator.status({ signal: AbortSignal.abort(reason) }), Error, "wanted");
  await aborted;
  assertEquals((await operator.status()).kind, "exporter");
  await exporter[Symbol.asyncDispose]();
  await assertFailsSoon(operator.status(), "peer-gone");
  assertEquals(operator.isConnected, false);
  await using _other = Exporter.listen(path);
  await assertRejects(() => Operator.connect(path, { users: 5 as never }), TypeError);
  assertThrows(() => new (Operator as never as new () => Operator)(), TypeError, "Operator.connect");
}, { softwareOnly: true });

sharingTest("a status has a limited length, and says what it leaves out", async ({ pool, path }) => {
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(64);
  await using operator = await Operator.connect(path);
  let deep: JsonValue = "]]]";
  for (let depth = 0; depth < 200; depth++) deep = depth % 2 === 0 ? [deep] : { '[\\"{': deep };
  exporter.offer("deep", buffer, { metadata: deep });
  exporter.offer("deeper", buffer, { metadata: [deep] });
  const long = "x".repeat(2 ** 15 - 2);
  for (let index = 0; index < 40; index++) exporter.offer(`long ${index}`, buffer, { metadata: long });
  const { offers, leftOut } = await statusOf(operator);
  const listed = offers.filter(({ metadata }) => metadata !== undefined).map(({ name }) => name);
  assertEquals(listed, ["deep", ...Array.from({ length: 31 }, (_, index) => `long ${index}`)]);
  assertEquals([offers.length, leftOut], [42, { rows: 0, holders: 0, metadata: 10 }]);
  for (let index = 0; index < 9_999; index++) exporter.offer(`offer ${index}`, buffer);
  const after = await statusOf(operator);
  assertEquals([after.offers.length, after.leftOut.rows], [10_000, 41]);
}, { softwareOnly: true });
