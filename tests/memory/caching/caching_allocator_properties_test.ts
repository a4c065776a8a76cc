/**
 * Runs random programs with an allocator against a model of the order of streams: on a fake driver, whose streams
 * advance only on request, and on the software device, where the contents of buffers show which work wrote them.
 *
 * A trace that fails is shortened as far as possible, and printed with its seed.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { ptx as fillPtx } from "../../../kernels/fill.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { Driver } from "../../../src/driver.ts";
import { Session } from "../../../src/session.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { FakeDriver } from "./caching_fake_driver.ts";
import { observed, type Observers } from "./caching_observed_driver.ts";
import { StreamOrder } from "./caching_stream_order.ts";
import type { Bench } from "./caching_trace.ts";
import { type BenchMaker, runTrace } from "./caching_trials.ts";
import { Gate } from "../../support/gate.ts";
import { isLong, test } from "../../support/test.ts";

const devices = 2;

/** A number of traces, their first seed, and the maker of their benches. */
interface Batch {
  readonly first: number;
  readonly count: number;
  readonly maker: BenchMaker;
}

async function runTraces({ first, count, maker }: Batch): Promise<void> {
  const begin = performance.now();
  let operations = 0;
  for (let seed = first; seed < first + count; seed++) operations += await runTrace(maker, seed);
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  if (isLong) console.log(`${count} traces, ${operations} operations, ${seconds} s`);
}

function newBench(driver: Driver, fake: FakeDriver | undefined): Bench & { readonly observers: Observers } {
  const observers: Observers = { order: new StreamOrder(), model: undefined, events: new Map() };
  const cuda = new Cuda(new Session(observed(driver, observers)));
  const helper = cuda.device(0).createStream({ nonBlocking: true });
  const scratch = cuda.devices.map((device) => device.createPool().allocate(256));
  return { cuda, observers, fake, scratch, kernels: [], helper, gate: undefined };
}

/** Each trace has a new driver and session, because ending the session is part of the trace. */
const fakeBenches: BenchMaker = {
  isFake: true,
  mayHold: false,
  make() {
    const fake = new FakeDriver(devices);
    return newBench(fake.driver, fake);
  },
  release({ cuda, fake, helper, scratch }, hasFailed) {
    if (hasFailed || fake!.isClosed) return;
    for (const buffer of scratch) {
      buffer[Symbol.dispose]();
      buffer.pool![Symbol.dispose]();
    }
    helper[Symbol.dispose]();
    cuda[Symbol.dispose]();
    assertEquals(fake!.left, { streams: 0, events: 0, pools: 0, hostAllocations: 0 });
  },
};

test("memory is allocated in stream order, whatever the interleaving", async () => {
  await runTraces({ first: 1, count: isLong ? 50_000 : 100, maker: fakeBenches });
});

for (const mayHold of [false, true]) {
  const name = mayHold ? "held streams" : "running streams";
  test(`buffers keep their contents while they are used, on ${name}`, async () => {
    const driver = new SoftwareDriver({ devices, peers: true });
    const bench = newBench(driver, undefined);
    using cuda = bench.cuda;
    const kernels = cuda.devices.map((device) => device.loadModule(fillPtx).kernel("fill"));
    using gate = mayHold ? new Gate(cuda) : undefined;
    const maker = { isFake: false, mayHold, make: () => ({ ...bench, kernels, gate }), release: () => {} };
    const count = mayHold ? 5 : 50;
    await runTraces({ first: 1_000_000, count: isLong ? 80 * count : count, maker });
    for (const buffer of bench.scratch) buffer.free();
  });
}
