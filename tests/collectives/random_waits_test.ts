/**
 * Random programs in which one collective cannot end, beside an oracle that knows what comes behind it: exactly those
 * waits throw its error.
 */
import { assert } from "@std/assert";
import { Communicator, type CudaEvent, type CudaStream, type DeviceArray, open, SharingError } from "../../mod.ts";
import { Random } from "../differential/random.ts";
import { isLong, test } from "../support/test.ts";
import { createRanks, warmUp } from "./idle_ranks.ts";

/** Milliseconds after which the collective has failed: other collectives take less, also on a busy machine. */
const timeout = 800;
const counts = { streams: 4, events: 4, steps: 24 } as const;
/** How many programs wait at once for their collective to fail. */
const together = 20;

/** What the oracle knows: whether a stream's or an event's work comes after the collective that cannot end. */
class Oracle {
  readonly streams: boolean[] = Array.from({ length: counts.streams }, () => false);
  /** The record of each event. */
  readonly events: { stream: number; isBehind: boolean }[] = [];
  /** The streams whose waits have thrown it. */
  readonly #thrown = new Set<number>();

  wait(stream: number, event: number): void {
    if (this.events[event]!.isBehind) this.streams[stream] = true;
  }

  /** Whether a wait for a stream throws. */
  throwsFor(stream: number): boolean {
    const throws = this.streams[stream]! && !this.#thrown.has(stream);
    if (throws) this.#thrown.add(stream);
    return throws;
  }

  /** Whether a wait for an event throws. */
  throwsForEvent(event: number): boolean {
    const { stream, isBehind } = this.events[event]!;
    if (isBehind) this.#thrown.add(stream);
    return isBehind;
  }
}

/** Runs a program. Returns what it did, and where a wait disagreed with the oracle. */
async function run(seed: number): Promise<{ steps: readonly string[]; wrong: readonly string[]; behind: number }> {
  const random = new Random(seed);
  const number = (count: number) => random.below(count);
  const steps: string[] = [], wrong: string[] = [];
  const softwareSchedule = random.pick(["oldest", "newest", `random:${seed}`] as const);
  using cuda = open({ driver: "software", softwareSchedule });
  const gpu = cuda.device(0);
  const [hanging, other] = [
    await createRanks({ cuda, gpu }, [timeout, timeout]),
    await createRanks({ cuda, gpu }, [timeout, timeout]),
  ];
  using stack = new DisposableStack();
  const pool = stack.use(gpu.createPool());
  const newStream = () => stack.use(gpu.createStream({ nonBlocking: true }));
  const streams: CudaStream[] = Array.from({ length: counts.streams }, newStream);
  /** Those of the ranks that come always, apart from all others. */
  const peers = [newStream(), newStream()];
  const events: CudaEvent[] = Array.from({ length: counts.events }, () => stack.use(gpu.createEvent()));
  const arrays: DeviceArray<Float32Array>[] = [...streams, ...peers].map((stream) => {
    return stack.use(pool.allocateArray(Float32Array, 4, stream));
  });
  gpu.synchronize();
  const oracle = new Oracle();
  for (const [event, each] of events.entries()) {
    const stream = number(counts.streams);
    streams[stream]!.record(each);
    oracle.events[event] = { stream, isBehind: false };
  }
  const sum = (ranks: readonly Communicator[], stream: number, peer: number) =>
    Communicator.group(() => {
      ranks[0]!.allReduce(arrays[stream]!, arrays[stream]!, "sum", { stream: streams[stream]! });
      const array = arrays[counts.streams + peer]!;
      ranks[1]!.allReduce(array, array, "sum", { stream: peers[peer]! });
    });
  const hangsAt = number(counts.steps - 6) + 3;
  for (let step = 0; step < counts.steps; step++) {
    const [stream, event] = [number(counts.streams), number(counts.events)];
    if (step === hangsAt) {
      steps.push(`hang ${stream}`);
      hanging[0]!.allReduce(arrays[stream]!, arrays[stream]!, "sum", { stream: streams[stream]! });
      oracle.streams[stream] = true;
      continue;
    }
    switch (number(6)) {
      case 0:
        // Behind the one that hangs, it would hang, too.
        if (step > hangsAt) break;
        steps.push(`sum of the same ${stream}`);
        sum(hanging, stream, 0);
        break;
      case 1:
        // Its other rank would wait too long.
        if (oracle.streams[stream]) break;
        steps.push(`sum ${stream}`);
        sum(other, stream, 1);
        break;
      case 2:
      case 3:
        steps.push(`record ${stream} ${event}`);
        streams[stream]!.record(events[event]!);
        oracle.events[event] = { stream, isBehind: oracle.streams[stream]! };
        break;
      case 4:
        steps.push(`wait ${stream} ${event}`);
        streams[stream]!.wait(events[event]!);
        oracle.wait(stream, event);
        break;
      default:
        // Or else it would wait until the collective has failed.
        if (oracle.streams[stream]) break;
        steps.push(`synchronize ${stream}`);
        streams[stream]!.synchronize();
    }
  }
  const behind = oracle.streams.filter(Boolean).length;
  while (!String(hanging[0]).includes("failed")) await new Promise((resolve) => setTimeout(resolve, 10));
  const check = (what: string, isExpected: boolean, wait: () => void) => {
    steps.push(what);
    let error: unknown;
    try {
      wait();
    } catch (thrown) {
      error = thrown;
    }
    if (error !== undefined && !(error instanceof SharingError && error.message.includes("did not take part"))) {
      throw error;
    }
    if ((error !== undefined) !== isExpected) wrong.push(`${what}: ${isExpected ? "no error" : `${error}`}`);
  };
  for (let round = 0; round < 12; round++) {
    const [stream, event] = [number(counts.streams), number(counts.events)];
    if (random.percent(50)) {
      check(`synchronize ${stream}`, oracle.throwsFor(stream), () => streams[stream]!.synchronize());
    } else check(`synchronize event ${event}`, oracle.throwsForEvent(event), () => events[event]!.synchronize());
  }
  for (const peer of peers) peer.synchronize();
  for (const rank of [...hanging, ...other]) await rank.abort();
  return { steps, wrong, behind };
}

test("exactly the waits behind a collective that cannot end throw its error, in random programs", async () => {
  await warmUp();
  const programs = isLong ? 400 : together;
  let behind = 0;
  for (let seed = 1; seed <= programs; seed += together) {
    const seeds = Array.from({ length: together }, (_, index) => seed + index);
    for (const [index, outcome] of (await Promise.all(seeds.map(run))).entries()) {
      behind += outcome.behind;
      if (outcome.wrong.length === 0) continue;
      throw new Error(`program ${seeds[index]}:\n${outcome.steps.join("\n")}\n${outcome.wrong.join("\n")}`);
    }
  }
  assert(behind > programs && behind < programs * counts.streams, `${behind} streams were behind it`);
});
