/** Errors of failed collectives reach the streams that the default stream orders, and those that were disposed of. */
import { assertRejects, assertThrows } from "@std/assert";
import { type Communicator, open, SharingError } from "../../mod.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { withoutContextEvents } from "../support/adapted_driver.ts";
import { leakTest } from "../support/resources.ts";
import { test } from "../support/test.ts";
import { createRanks, testRanks, timeout, warmUp } from "./idle_ranks.ts";

const late = "did not take part";

/** Waits until a communicator has failed, while timers run. */
async function untilFailed(communicator: Communicator): Promise<void> {
  while (!String(communicator).includes("failed")) await new Promise((resolve) => setTimeout(resolve, 10));
}

testRanks("the default stream gets the error of a blocking stream that waits for the failed one", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using used = gpu.createStream({ nonBlocking: true });
  using blocking = gpu.createStream();
  using array = pool.allocateArray(Float32Array, 4, used);
  using copy = pool.allocateArray(Float32Array, 4);
  using reduced = gpu.createEvent();
  gpu.synchronize();
  ranks[0]!.allReduce(array, array, "sum", { stream: used });
  used.record(reduced);
  blocking.wait(reduced);
  copy.copyFrom(array, blocking);
  await assertRejects(() => copy.toTypedArray(), SharingError, late);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("a blocking stream gets the error of a stream that the default stream waits for", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using used = gpu.createStream({ nonBlocking: true });
  using blocking = gpu.createStream();
  using array = pool.allocateArray(Float32Array, 4, used);
  using copy = pool.allocateArray(Float32Array, 4);
  using before = gpu.createEvent();
  using reduced = gpu.createEvent();
  gpu.synchronize();
  ranks[0]!.allReduce(array, array, "sum", { stream: used });
  used.record(reduced);
  gpu.defaultStream.wait(reduced);
  // The session knows the stream from now on.
  blocking.record(before);
  copy.copyFrom(array);
  await assertRejects(() => copy.toTypedArray({ stream: blocking }), SharingError, late);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks(
  "two blocking streams do not get each other's errors by way of the default stream",
  async ({ gpu, ranks }) => {
    using pool = gpu.createPool();
    using used = gpu.createStream({ nonBlocking: true });
    using waiting = gpu.createStream();
    using blocking = gpu.createStream();
    using array = pool.allocateArray(Float32Array, 4, used);
    using before = gpu.createEvent();
    using reduced = gpu.createEvent();
    gpu.synchronize();
    ranks[0]!.allReduce(array, array, "sum", { stream: used });
    used.record(reduced);
    waiting.wait(reduced);
    blocking.record(before);
    await untilFailed(ranks[0]!);
    blocking.synchronize();
    for (const stream of [waiting, gpu.defaultStream, used]) {
      assertThrows(
        () => stream.synchronize(),
        SharingError,
        late,
      );
    }
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  },
);

for (const isFound of [false, true]) {
  const name = `a wait for a device gets the error of a stream that only waited and was disposed of${
    isFound ? ", once it is found" : ""
  }`;
  leakTest(name, async () => {
    using cuda = open({ driver: "software", softwareDevices: 2 });
    const [gpu, other] = [cuda.device(0), cuda.device(1)];
    const ranks = await createRanks({ cuda, gpu }, [timeout, timeout]);
    using pool = gpu.createPool();
    using used = gpu.createStream({ nonBlocking: true });
    using array = pool.allocateArray(Float32Array, 4, used);
    using reduced = gpu.createEvent();
    gpu.synchronize();
    ranks[0]!.allReduce(array, array, "sum", { stream: used });
    used.record(reduced);
    const waiting = other.createStream({ nonBlocking: true });
    waiting.wait(reduced);
    waiting[Symbol.dispose]();
    if (isFound) await untilFailed(ranks[0]!);
    assertThrows(() => other.synchronize(), SharingError, late);
    other.synchronize();
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  }, { warmUp });
}

testRanks("an event behind the default stream on a stream that was disposed of throws its error", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, 4);
  using event = gpu.createEvent();
  gpu.synchronize();
  ranks[0]!.allReduce(array, array);
  const behind = gpu.createStream();
  behind.record(event);
  behind[Symbol.dispose]();
  await untilFailed(ranks[0]!);
  assertThrows(() => event.synchronize(), SharingError, late);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("an event behind the first of many calls that hang throws their error", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using used = gpu.createStream({ nonBlocking: true });
  using array = pool.allocateArray(Float32Array, 4, used);
  using first = gpu.createEvent();
  gpu.synchronize();
  for (let count = 0; count < 100; count++) {
    ranks[0]!.allReduce(array, array, "sum", { stream: used });
    if (count === 0) used.record(first);
    // A query records an end marker.
    used.query();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await untilFailed(ranks[0]!);
  assertThrows(() => first.synchronize(), SharingError, late);
  for (const rank of ranks) await rank.abort();
}, 1000);

testRanks("a blocking stream that is created behind a failure that no wait has thrown throws it", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, 4);
  gpu.synchronize();
  ranks[0]!.allReduce(array, array);
  await untilFailed(ranks[0]!);
  {
    using created = gpu.createStream();
    await assertRejects(() => array.toTypedArray({ stream: created }), SharingError, late);
    created.synchronize();
  }
  assertThrows(() => gpu.defaultStream.synchronize(), SharingError, late);
  using later = gpu.createStream();
  later.synchronize();
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

for (const isFound of [false, true]) {
  const name = `before CUDA 12.5, a wait for all of a device throws the default stream's error${
    isFound ? " that was found before" : ""
  } once`;
  test(name, async () => {
    const driver = new SoftwareDriver({ devices: 1, peers: true });
    using cuda = new Cuda(new Session(withoutContextEvents(driver), { collectives: () => driver.collectives }));
    const gpu = cuda.device(0);
    const ranks = await createRanks({ cuda, gpu }, [timeout, timeout]);
    using pool = gpu.createPool();
    using array = pool.allocateArray(Float32Array, 4);
    gpu.synchronize();
    ranks[0]!.allReduce(array, array);
    if (isFound) await untilFailed(ranks[0]!);
    await assertRejects(() => gpu.finished(), SharingError, late);
    await gpu.finished();
    gpu.defaultStream.synchronize();
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  });
}
