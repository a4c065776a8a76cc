import { assertEquals } from "@std/assert";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { sharingTest, soon } from "../sharing_peers.ts";

sharingTest(
  "work that ends after its importer's connection releases the memory before the process ends",
  async (fixture) => {
    const { path, pool, start, stream } = fixture;
    const peer = await start();
    await using exporter = Exporter.listen(path);
    using buffer = pool.allocate(64, stream);
    await stream.finished();
    const offer = exporter.offer("buffer", buffer);
    await peer.call("connect", "one", path, { closeTimeout: 0 });
    await peer.call("map", "one", "buffer");
    await peer.call("hold");
    await peer.call("free", "buffer");
    const closing = peer.call("close", "one");
    await soon(() => exporter.importers.length === 0, "the connection has ended");
    assertEquals(exporter.leases.map(({ state }) => state), ["quarantined"]);
    await peer.call("release");
    await soon(() => exporter.leases.length === 0, "the lease ends with the work");
    await closing;
    await offer.released();
  },
  { long: true },
);

// A stream of a GPU takes about a thousand operations before it blocks whoever gives it more.
sharingTest(
  "an importer that has lent all its events waits for its work itself",
  async ({ path, pool, start, stream }) => {
    const count = 1100;
    const peer = await start();
    await using exporter = Exporter.listen(path);
    using buffer = pool.allocate(64 * count, stream);
    await stream.finished();
    for (let index = 0; index < count; index++) {
      exporter.offer(`part${index}`, buffer.subarray(64 * index, 64 * (index + 1)));
    }
    await peer.call("connect", "one", path);
    await peer.call("mapMany", "one", "part", count);
    await peer.call("hold");
    await peer.call("freeMany", "part", count);
    const inState = (state: string) => exporter.leases.filter((lease) => lease.state === state).length;
    await soon(() => inState("releasing") === 1024, "its events are lent");
    assertEquals(inState("held"), count - 1024);
    await peer.call("release");
    await soon(() => exporter.leases.length === 0, "all leases end");
    await peer.call("close", "one");
  },
  { softwareOnly: true, long: true },
);
