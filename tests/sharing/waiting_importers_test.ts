import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";
import { SharingError, type SharingErrorCode } from "../../src/support/errors.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import type { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { assertFailsSoon, PeerError, sharingTest } from "./sharing_peers.ts";

const size = 64;

sharingTest("an importer waits for an exporter that starts later, and for one that is started again", async ({
  pool,
  stream,
  path: base,
  start,
}) => {
  const path = `${base}.folder/exporter`;
  const [importer, exporter] = await Promise.all([start(), start()]);
  // Calls begin in order: once the second one is answered, the first one is waiting.
  const first = importer.call("connect", "first", path, { wait: true });
  await importer.call("imports");
  mkdirSync(dirname(path));
  await exporter.call("listen", path);
  await exporter.call("export", "weights", size, 1);
  await first;
  await importer.call("map", "first", "weights", "old");
  assertEquals(await importer.call("read", "old", 0, 1), Uint8Array.of(1));

  const never = importer.call("offer", "first", "never");
  const [lost] = await Promise.all([assertRejects(() => never, PeerError), exporter.kill()]);
  assertEquals(lost.code, "peer-gone");
  // It has left its socket behind, at which nobody listens.
  await assertFailsSoon(importer.call("connect", "second", path), "not-listening");
  const second = importer.call("connect", "second", path, { wait: true });
  await importer.call("imports");
  {
    await using again = Exporter.listen(path);
    using weights = pool.allocate(size, stream);
    weights.fill(2);
    again.offer("weights", weights);
    await second;
    await importer.call("map", "second", "weights", "new");
    assertEquals(await importer.call("read", "new", 0, 1), Uint8Array.of(2));
    // What the first exporter shared stays readable.
    assertEquals(await importer.call("read", "old", 0, 1), Uint8Array.of(1));
    await importer.call("close", "first");
    await importer.call("close", "second");
  }
}, { long: true });

sharingTest("without wait, connecting fails at once and says how to wait", async ({ cuda, path }) => {
  const notFound = await assertRejects(() => Importer.connect(cuda, path), SharingError, "{ wait: true }");
  assertEquals(notFound.code, "not-found");
  const inFile = `${path}.file/exporter`;
  writeFileSync(dirname(inFile), "");
  const { message } = await assertRejects(() => Importer.connect(cuda, inFile), SharingError, "no such file");
  assert(!message.includes("wait"), message);
}, { softwareOnly: true });

sharingTest("waiting for an exporter ends at once with what waiting cannot fix", async ({ cuda, path }) => {
  async function assertEnds(at: string, code: SharingErrorCode, options = {}): Promise<void> {
    await assertFailsSoon(Importer.connect(cuda, at, { wait: true, ...options }), code);
  }
  writeFileSync(path, "no socket");
  await assertEnds(path, "not-listening");
  await assertEnds(`${path}/exporter`, "not-found");
  await assertEnds(`/tmp/${"x".repeat(107)}`, "path-too-long");
  await assertRejects(() => Importer.connect(cuda, path, { wait: 1 as unknown as boolean }), TypeError, "as wait");

  await using listener = UnixListener.listen(`${path}.other`);
  const goodbye = { type: "goodbye", lowestVersion: 7, highestVersion: 8, text: "" } as const;
  for (const reason of ["version-mismatch", "not-permitted", "limit-exceeded", "device-lost"] as const) {
    const ending = assertEnds(listener.path, reason);
    await using socket = await listener.accept();
    await socket.send(encodeMessage({ ...goodbye, reason }));
    await ending;
  }
  const silence = assertEnds(listener.path, "timed-out", { handshakeTimeout: 20 });
  await using _socket = await listener.accept();
  await silence;
}, { softwareOnly: true });

sharingTest("an exporter that ends during the handshake is waited for again, with growing pauses", async ({
  cuda,
  path,
}) => {
  const attempts = 6;
  let importer: Promise<Importer>;
  {
    await using listener = UnixListener.listen(path);
    importer = Importer.connect(cuda, path, { wait: true });
    await (await listener.accept())[Symbol.asyncDispose]();
    const start = performance.now();
    for (let attempt = 1; attempt < attempts; attempt++) await (await listener.accept())[Symbol.asyncDispose]();
    // 5 + 10 + 20 + 40 + 80, minus what timers round.
    assert(performance.now() - start > 145, "pauses between the attempts");
  }
  await using exporter = Exporter.listen(path);
  await using connected = await importer;
  assertEquals([connected.peer.pid, connected.isConnected], [exporter.importers[0]!.pid, true]);
}, { softwareOnly: true });

sharingTest("what listens at the path and is no exporter is named as such", async ({ cuda, path }) => {
  await using listener = UnixListener.listen(path);
  const connect = async (answer: (socket: UnixSocket) => Promise<void>, code: SharingErrorCode, text: string) => {
    const connecting = assertRejects(() => Importer.connect(cuda, path, { handshakeTimeout: 50 }), SharingError);
    await using socket = await listener.accept();
    await answer(socket);
    const error = await connecting;
    assertEquals(error.code, code);
    assertStringIncludes(error.message, text);
  };
  const it = `Cannot connect to ${path}: process ${process.pid}, which listens there,`;
  const page = new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n");
  await connect((socket) => socket.send(page), "bad-message", `${it} does not speak poolpass's protocol (it sent`);
  await connect((socket) => socket[Symbol.asyncDispose](), "peer-gone", `${it} has ended the connection before`);
  await connect(async () => {}, "timed-out", `check whether it is an exporter that listens at ${path}`);
}, { softwareOnly: true });

sharingTest("a signal ends the wait for an exporter with an error that names it", async ({ cuda, path }) => {
  const ending = new AbortController();
  const waiting = Importer.connect(cuda, path, { wait: true, signal: ending.signal });
  setTimeout(() => ending.abort(), 1);
  const error = await assertRejects(() => waiting);
  assertInstanceOf(error, DOMException);
  assertEquals(error.name, "AbortError");
  assertStringIncludes(error.message, `an exporter at ${path}`);
  const timeout = await assertRejects(() =>
    Importer.connect(cuda, path, { wait: true, signal: AbortSignal.timeout(10) })
  );
  assertEquals((timeout as Error).name, "TimeoutError");
  assertStringIncludes((timeout as Error).message, `an exporter at ${path}`);
}, { softwareOnly: true });
