import { assert, assertEquals, assertMatch } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { Communicator, open } from "../../mod.ts";
import { readTrace, type Trace } from "../../src/trace/read_trace.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { type DecodedEvent, decodePerfetto } from "./decode_perfetto.ts";

const size = 4;
const lost = size - 1;
/** The number of the all-reduce in which the ranks wait for the one that makes no more. */
const awaited = 6;

/** Joins the traces of all ranks, and decodes the result. */
async function join(files: readonly string[], output: string): Promise<DecodedEvent[]> {
  const { code, errors } = await poolpass("trace", ...files, "-o", output);
  assertEquals([code, errors], [0, ""]);
  return decodePerfetto(readFileSync(output));
}

/** Returns whether a rank has called the awaited all-reduce, and waits for its stream since then. */
function isWaiting({ events }: Trace): boolean {
  const call = events.findIndex(({ name, values }) => name === "allReduce" && values.collective === awaited);
  return call >= 0 && events.slice(call).some(({ name, hasEnded }) => name === "wait for stream" && !hasEnded);
}

test(
  "the trace of four ranks shows which one was killed, and what the others were waiting for",
  { skip: shimRefusal() },
  () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      const id = Communicator.createId(cuda).toHex();
      await using stack = new AsyncDisposableStack();
      const ranks = Array.from({ length: size }, (_, rank): ChildProcess => {
        const args = ["software", rank, size, id, lost, 60_000, "idle"].map(String);
        const env = { POOLPASS_TRACE: `${folder}/%p.trace`, POOLPASS_TRACE_EVENTS: "2000", NODE_NO_WARNINGS: "1" };
        return stack.use(startScript("children/collectives/lose_rank.ts", args, { env }));
      });
      const files = ranks.map(({ pid }) => `${folder}/${pid}.trace`);
      const read = (rank: number): Trace => readTrace("t", new Uint8Array(readFileSync(files[rank]!)));
      const [victim, others] = [ranks[lost]!, ranks.slice(0, lost)];
      for (let line = await victim.nextLine(); line !== "working"; line = await victim.nextLine()) {
        if (line === undefined) throw new Error(await victim.errors());
      }
      const areWaiting = () => others.every((_, rank) => existsSync(files[rank]!) && isWaiting(read(rank)));
      while (!areWaiting()) await new Promise((resolve) => setImmediate(resolve));

      // While all are running, the waits reach to the end of the trace.
      const during = await join(files, `${folder}/during.pftrace`);
      const waits = during.filter(({ name }) => name === "wait for stream (not ended)");
      assertEquals(waits.length, lost);
      const last = during.at(-1)!.time;
      const ends = during.filter(({ type, time, track }) => type === "end" && time === last && track[1] === "waits");
      assertEquals(ends.length, lost);
      const running = "last event: the process still runs, or has ended without closing CUDA";
      assertEquals(during.filter(({ name }) => name === running).length, size);

      victim.kill("SIGKILL");
      for (const child of others) {
        await remainingLines(child);
        assertEquals(await child.ended, 0, await child.errors());
      }
      const events = await join(files, `${folder}/after.pftrace`);
      const rankOf = ({ track }: DecodedEvent) => /, rank (\d) of 4 /.exec(track[0]!)?.[1];
      const [end, ...more] = events.filter(({ name }) => name?.startsWith("last event:"));
      assertEquals([end?.name, rankOf(end!), more], ["last event: the process has ended", `${lost}`, []]);
      assert(
        !events.some((event) => rankOf(event) === `${lost}` && event.type !== "counter" && event.time > end!.time),
      );
      for (let rank = 0; rank < lost; rank++) {
        const own = events.filter((event) => rankOf(event) === `${rank}`);
        const names = own.map(({ name }) => name);
        const failed = own.find(({ name }) => name === "wait for stream (failed)");
        assert(failed !== undefined && names.includes("allReduce (failed)"), names.join(", "));
        const [notice] = own.filter(({ name }) => name?.startsWith("commRevoke"));
        assertMatch(notice!.name!, new RegExp(`^commRevoke: Rank 3 of 4 has ended \\(process ${victim.pid}\\)$`));
        // An arrow leads from the last event of the killed rank to the moment when this one noticed.
        assert(notice!.time > failed!.time && notice!.flows.some((flow) => end!.flows.includes(flow)));
        assert(notice!.time > end!.time);
        // The communicator without that rank works.
        const shrink = names.indexOf("commShrink");
        assert(names.indexOf("allReduce", shrink) > shrink, names.slice(shrink).join(", "));
      }
    }),
);
