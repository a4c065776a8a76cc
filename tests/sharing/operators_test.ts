/**
 * What an operator sees of an exporter: callbacks, statistics and the log.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import process from "node:process";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { sharingTest, soon } from "./sharing_peers.ts";

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

sharingTest("an error that onConnect throws is uncaught, and the importer stays connected", async ({ path, start }) => {
  const peer = await start();
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
    await peer.call("connect", "one", path);
    assertEquals(await thrown.promise, wrong);
    assertEquals(exporter.importers.length, 1);
    await peer.call("close", "one");
  } finally {
    globalThis.queueMicrotask = queueMicrotask;
  }
}, { softwareOnly: true });
