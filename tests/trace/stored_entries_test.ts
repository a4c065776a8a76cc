import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { type DecodedEvent, decodePerfetto } from "./decode_perfetto.ts";

test(
  "a trace shows which generation of an entry each process has mapped, and who has published it",
  { skip: shimRefusal() },
  () =>
    inFolder(async (folder) => {
      const files: string[] = [];
      await using stack = new AsyncDisposableStack();
      const start = async (what: string, line: string) => {
        const env = {
          POOLPASS_TRACE: `${folder}/%p.trace`,
          POOLPASS_TRACE_EVENTS: "2000",
          NODE_NO_WARNINGS: "1",
        };
        const child = stack.use(startScript("children/trace/use_entry.ts", [what, `${folder}/store.sock`], { env }));
        files.push(`${folder}/${child.pid}.trace`);
        assertEquals(await child.nextLine() ?? await child.errors(), line);
        return child;
      };
      const store = await start("serve", "ready");
      const first = await start("publish", "generation 1");
      const keeping = await start("keep", "mapped");
      const second = await start("publish", "generation 2");
      const mapping = await start("map", "mapped");
      for (const child of [first, second, mapping]) assertEquals(await child.ended, 0, await child.errors());
      keeping.kill("SIGKILL");
      await keeping.ended;
      const join = async (): Promise<DecodedEvent[]> => {
        const output = `${folder}/joined.pftrace`;
        const { code, errors } = await poolpass("trace", ...files, "-o", output);
        assertEquals([code, errors], [0, ""]);
        return decodePerfetto(readFileSync(output));
      };
      const isEnd = ({ name, track }: DecodedEvent) =>
        name === "last event: the process has ended" && track[0]!.endsWith(` ${keeping.pid}`);
      // The store runs on: it learns at some time that the process is gone.
      let events = await join();
      while (!events.some(isEnd)) events = await join();
      store.kill("SIGKILL");
      await store.ended;

      const entriesOf = ({ pid }: { readonly pid: number }) =>
        events.filter(({ type, track }) =>
          type === "begin" && track[0]!.endsWith(` ${pid}`) && track[1] === "entries of stores"
        );
      const namesOf = (child: { readonly pid: number }) => entriesOf(child).map(({ name }) => name);
      const written = "weights, being written";
      assertEquals(namesOf(first), [written, "weights, generation 1"]);
      assertEquals(namesOf(second), [written, "weights, generation 2"]);
      assertEquals(namesOf(keeping), ["weights, generation 1 (not released)"]);
      assertEquals(namesOf(mapping), ["weights, generation 2"]);
      // An arrow leads from the publication of each generation to its mapping.
      for (const [publisher, reader] of [[first, keeping], [second, mapping]] as const) {
        const { flows } = entriesOf(publisher)[1]!;
        const [mapped] = entriesOf(reader);
        assert(mapped!.flows.some((flow) => flows.includes(flow)));
        for (const event of entriesOf(publisher === first ? mapping : keeping)) {
          assert(!event.flows.some((flow) => flows.includes(flow)));
        }
      }
      const waits = events.filter(({ name }) => name === "wait for weights");
      assertEquals(waits.length, 4);
      const asks = events.filter(({ name, track }) =>
        name === "receive ask map" && track[0]!.endsWith(` ${store.pid}`)
      );
      assertEquals(asks.length, 2);
      const lost = events.filter(({ name }) => name === "connection lost: peer-gone");
      assertEquals(lost.map(({ track }) => track.slice(1)), [["errors"]]);
    }),
);
