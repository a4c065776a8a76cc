/**
 * Random programs in which one collective cannot end, beside an oracle that knows what comes behind it: exactly those
 * waits throw its error.
 */
import { assert } from "@std/assert";
import {
  Communicator,
  type CudaDevice,
  type CudaEvent,
  type CudaStream,
  type DeviceArray,
  open,
  SharingError,
} from "../../mod.ts";
import { Random } from "../differential/random.ts";
import { isLong, test } from "../support/test.ts";
import { createRanks, reasonWithoutTwo, warmUp } from "./idle_ranks.ts";

/**
 * Milliseconds after which the collective has failed: other collectives take less, also on a busy machine, and the creation
 * of a communicator.
 */
const timeouts = { software: 800, cuda: 2000 } as const;
type Kind = "software" | "cuda";
const counts = { streams: 4, events: 4, steps: 24 } as const;

/** The oracle: whether a stream's or an event's work comes after the collective that cannot complete. */
class Oracle {
  readonly streams: boolean[] = Array.from({ length: counts.streams }, () => false);
  /** By event, the state at its last record. */
  readonly events: { stream: number; isBehind: boolean }[] = [];
  /** The streams whose waits have thrown the error. */
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

/** Runs a program. Returns its calls, and the waits that disagreed with the oracle. */
async function run(
  kind: Kind,
  seed: number,
): Promise<{ steps: readonly string[]; wrong: readonly string[]; behind: number }> {
  const timeout = timeouts[kind];
  const random = new Random(seed);
  const number = (count: number) => random.below(count);
  const steps: string[] = [], wrong: string[] = [];
  const softwareSchedule = random.pick(["oldest", "newest", `random:${seed}`] as const);
  using cuda = open({ driver: kind, softwareSchedule });
  const gpu = cuda.device(0), peer = cuda.device(kind === "cuda" ? 1 : 0);
  const [hanging, other] = [
    await createRanks({ cuda, gpu: [gpu, peer] }, [timeout, timeout]),
    await createRanks({ cuda, gpu: [gpu, peer] }, [timeout, timeout]),
  ];
  using stack = new DisposableStack();
  const newStream = (device: CudaDevice) => stack.use(device.createStream({ nonBlocking: true }));
  const streams: CudaStream[] = Array.from({ length: counts.streams }, () => newStream(gpu));
  /** The streams of the ranks that always take part. */
  const peers = [newStream(peer), newStream(peer)];
  const events: CudaEvent[] = Array.from({ length: counts.events }, () => stack.use(gpu.createEvent()));
  const pools = new Map([gpu, peer].map((device) => [device, stack.use(device.createPool())]));
  const arrays: DeviceArray<Float32Array>[] = [...streams, ...peers].map((stream) => {
    return stack.use(pools.get(stream.device)!.allocateArray(Float32Array, 4, stream));
  });
  for (const device of [gpu, peer]) device.synchronize();
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
        // Behind the collective that hangs, this one would hang, too.
        if (step > hangsAt) break;
        steps.push(`sum of the same ${stream}`);
        sum(hanging, stream, 0);
        break;
      case 1:
        // The other rank would time out.
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
        // Otherwise it would block until the collective has failed.
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
    if (
      error !== undefined &&
      !(error instanceof SharingError && /did not take part|not all ranks took part/.test(error.message))
    ) {
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

/** The number of programs, and how many run at once: GPUs hang behind a collective of another `Cuda` object, too. */
const programs = isLong ? { software: 400, cuda: 24 } : { software: 20, cuda: 3 };
const together = { software: 20, cuda: 1 } as const;

for (const kind of ["software", "cuda"] as const) {
  const name = "exactly the waits behind a collective that cannot end throw its error, in random programs";
  test(`${name} [${kind}]`, { skip: reasonWithoutTwo(kind) }, async () => {
    if (kind === "software") await warmUp();
    let behind = 0;
    for (let seed = 1; seed <= programs[kind]; seed += together[kind]) {
      const seeds = Array.from({ length: together[kind] }, (_, index) => seed + index);
      for (const [index, outcome] of (await Promise.all(seeds.map((seed) => run(kind, seed)))).entries()) {
        behind += outcome.behind;
        if (outcome.wrong.length === 0) continue;
        throw new Error(`program ${seeds[index]}:\n${outcome.steps.join("\n")}\n${outcome.wrong.join("\n")}`);
      }
    }
    assert(behind > programs[kind] && behind < programs[kind] * counts.streams, `${behind} streams were behind it`);
  });
}
