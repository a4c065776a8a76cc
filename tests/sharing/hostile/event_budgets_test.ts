import { assert, assertEquals } from "@std/assert";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { countCalls } from "../channel/channel_peers.ts";
import { sharingTest, soon } from "../sharing_peers.ts";
import { countResources } from "../../support/resources.ts";
import { test } from "../../support/test.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

/** Milliseconds in which queries are counted. */
const moment = 500;
/** The maximum numbers of events that one importer announces, and that a process has open and an exporter keeps. */
const [maximumOfPeer, maximumOfProcess] = [1024, 4096];
/** The maximum number of an importer's events that are kept when its connection has ended. */
const maximumAfterEnd = 64;

for (const connections of [1, 8]) {
  const name = `${connections} connections that lend ${maximumOfPeer} events each that never fire cost few queries ` +
    "and mappings, and others' releases count";
  if (noPython !== undefined) test(name, { skip: noPython }, () => {});
  else {
    sharingTest(name, async ({ driver, gpu, path, pool, start, stream }) => {
      const honest = await start();
      await using exporter = Exporter.listen(path, { closeTimeout: 0 });
      using buffer = pool.allocate(64, stream);
      await stream.finished();
      exporter.offer("bait", buffer);
      using other = pool.allocate(64, stream);
      exporter.offer("other", other);
      const mappings = () => countResources().get("mapping") ?? 0;
      const before = mappings();
      const uuid = gpu.uuid.replace("GPU-", "").replaceAll("-", "");
      await using hoarder = startHostile("event_hoarders.py", [path, "bait", uuid, connections, maximumOfPeer]);
      assertEquals(await hoarder.nextLine(), `lent ${connections * maximumOfPeer}`);
      const lent = Math.min(connections * maximumOfPeer, maximumOfProcess);
      await soon(() => mappings() >= before + lent / 2, "the events are open");
      assert(mappings() <= before + lent + 8, `${mappings() - before} mappings`);

      // Its release counts although others have used up what is kept.
      await honest.call("connect", "one", path);
      await honest.call("map", "one", "other");
      await honest.call("hold");
      await honest.call("free", "other");
      await soon(
        () => exporter.leases.some(({ name, state }) => name === "other" && state === "releasing"),
        "released",
      );
      await honest.call("release");
      const isReleased = () => exporter.leases.every(({ name }) => name !== "other");
      await soon(isReleased, "an honest importer's release counts");
      await honest.call("close", "one");

      /** Counts the queries of a moment. */
      const counted = async () => {
        using counter = countCalls(driver);
        await new Promise((resolve) => setTimeout(resolve, moment));
        return counter.calls.eventQuery ?? 0;
      };
      // If each were queried once in a millisecond, there would be half a million.
      const queries = await counted();
      assert(queries < 2000 * connections, `${queries} queries`);
      hoarder.kill("SIGUSR1");
      // Of the others, only the numbers were kept.
      assertEquals(await hoarder.nextLine(), `closed ${connections * maximumOfPeer - lent}`);
      await soon(() => exporter.importers.length === 0, "the connections have ended");
      await soon(() => mappings() <= before + connections * maximumAfterEnd, "most events are closed");
      const after = await counted();
      assert(after < 500 * connections, `${after} queries after the end`);

      hoarder.kill("SIGKILL");
      await soon(() => exporter.leases.length === 0 && mappings() <= before, "all is back");
    }, { softwareOnly: true, long: connections === 1 });
  }
}
