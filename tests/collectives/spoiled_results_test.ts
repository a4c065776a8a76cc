/**
 * NCCL's kernels end when their communicator is aborted, and give the other ranks what they happen to have then: their
 * collectives are done. A rank that does so says before what was done, and the others believe no more than that.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Communicator, open, SharingError } from "../../mod.ts";
import type { CollectiveLibrary, Extent, Revocation, ValidPrefix } from "../../src/collective_library.ts";
import { Cuda, sessionOf } from "../../src/objects/cuda.ts";
import { handleOf } from "../../src/objects/streams/cuda_event.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { test } from "../support/test.ts";
import { createRanks, long } from "./idle_ranks.ts";

/** The software device's collectives, with what another rank has said, and what was said to others. */
class SpoiledLibrary {
  validPrefix: ValidPrefix | undefined;
  /** Whether work cannot be ended. */
  isBroken = false;
  readonly said: (Extent | undefined)[] = [];
  readonly library: CollectiveLibrary;

  constructor(collectives: CollectiveLibrary) {
    const calls: Pick<CollectiveLibrary, "commValidPrefix" | "commRevoke"> = {
      commValidPrefix: (comm: bigint) => this.validPrefix ?? collectives.commValidPrefix(comm),
      commRevoke: (comm: bigint, revocation: Revocation) => {
        this.said.push(revocation.done);
        if (this.isBroken) return Promise.reject(new Error("No space left on device"));
        // As with NCCL, the other ranks do not hear of it at once.
        return collectives.commRevoke(comm, { ...revocation, isAborted: true });
      },
    };
    this.library = new Proxy(collectives, {
      get(_, name) {
        const value = calls[name as keyof typeof calls] ?? Reflect.get(collectives, name, collectives);
        return typeof value === "function" ? value.bind(collectives) : value;
      },
    });
  }
}

function openSpoiled(): { cuda: Cuda; spoiled: SpoiledLibrary } {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const spoiled = new SpoiledLibrary(driver.collectives);
  return { cuda: new Cuda(new Session(driver, { collectives: () => spoiled.library })), spoiled };
}

/** Milliseconds in which a collective must be done, of a program that takes longer. */
const pace = 1500;
const error = new SharingError("peer-gone", "Rank 1 has ended the collectives");

test("a result that came after another rank had aborted is an error", async () => {
  const { cuda, spoiled } = openSpoiled();
  using _cuda = cuda;
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [long, long]);
  const streams = ranks.map(() => gpu.createStream({ nonBlocking: true }));
  using pool = gpu.createPool();
  using stack = new DisposableStack();
  const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  const events = Array.from({ length: 4 }, () => gpu.createEvent());
  for (const event of events) {
    Communicator.group(() => {
      for (const [index, rank] of ranks.entries()) {
        rank.allReduce(arrays[index]!, arrays[index]!, "sum", { stream: streams[index]! });
      }
    });
    streams[0]!.record(event);
  }
  const { driver } = sessionOf(cuda);
  while (!streams.every((stream) => driver.streamQuery(0, stream.unsafeHandle, { forLibrary: true })));
  spoiled.validPrefix = { collectives: 2, messages: true, error };
  events[0]!.synchronize();
  events[1]!.synchronize();
  assertThrows(() => events[2]!.synchronize(), SharingError, "Rank 1 has ended the collectives");
  events[1]!.synchronize();
  assertThrows(() => events[3]!.synchronize(), SharingError, "Rank 1 has ended the collectives");
  // It tells others what it knows to be right.
  assertEquals(spoiled.said[0], { collectives: 2, messages: true });
  for (const rank of ranks) await rank.abort();
});

for (const messages of [true, false]) {
  const name = messages
    ? "a message is right whatever became of collectives"
    : "a message that was cut off is an error";
  test(name, async () => {
    const { cuda, spoiled } = openSpoiled();
    using _cuda = cuda;
    const gpu = cuda.device(0);
    const ranks = await createRanks({ cuda, gpu }, [long, long]);
    using stream = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    using array = pool.allocateArray(Float32Array, 4, stream);
    using other = pool.allocateArray(Float32Array, 4, stream);
    Communicator.group(() => {
      ranks[0]!.send(array, 1, { stream });
      ranks[1]!.receive(other, 0, { stream });
    });
    const { driver } = sessionOf(cuda);
    while (!driver.streamQuery(0, stream.unsafeHandle, { forLibrary: true }));
    spoiled.validPrefix = { collectives: 0, messages, error };
    if (messages) stream.synchronize();
    else assertThrows(() => stream.synchronize(), SharingError, "Rank 1 has ended the collectives");
    for (const rank of ranks) await rank.abort();
  });
}

/**
 * Two ranks of which the first has done some collectives, an event that is complete behind them, and one collective more,
 * which the other rank does not call.
 */
async function withDone(count: number, stack: DisposableStack) {
  const { cuda, spoiled } = openSpoiled();
  stack.use(cuda);
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [long, long]);
  const streams = ranks.map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const pool = stack.use(gpu.createPool());
  const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  const event = stack.use(gpu.createEvent());
  for (let given = 0; given < count; given++) {
    Communicator.group(() => ranks.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
  }
  streams[0]!.record(event);
  ranks[0]!.allReduce(arrays[0]!, arrays[0]!);
  const { driver } = sessionOf(cuda);
  while (!driver.eventQuery(handleOf(event), { forLibrary: true }));
  return { spoiled, ranks, stream: streams[0]!, event };
}

for (const how of ["abort", "shrink"] as const) {
  test(`what an event shows to be done before ${how}() was done`, async () => {
    using stack = new DisposableStack();
    const { spoiled, ranks, stream, event } = await withDone(2, stack);
    if (how === "abort") await ranks[0]!.abort();
    else await (await ranks[0]!.shrink([1]))[Symbol.asyncDispose]();
    assertEquals(spoiled.said, [{ collectives: 2, messages: true }]);
    event.synchronize();
    assertThrows(() => stream.synchronize(), SharingError, how === "abort" ? "it was aborted" : "it was shrunk");
    for (const rank of ranks) await rank.abort();
  });
}

test("what another rank has not done is an error at once, and what was done is none", async () => {
  using stack = new DisposableStack();
  const { spoiled, ranks, stream, event } = await withDone(1, stack);
  spoiled.validPrefix = { collectives: 1, messages: true, error };
  assertThrows(() => stream.synchronize(), SharingError, "Rank 1 has ended the collectives");
  event.synchronize();
  for (const rank of ranks) await rank.abort();
});

test("work that cannot be aborted is still an error", async () => {
  const { cuda, spoiled } = openSpoiled();
  using _cuda = cuda;
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [100, long]);
  using stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const array = stack.use(stack.use(gpu.createPool()).allocateArray(Float32Array, 4, stream));
  ranks[0]!.allReduce(array, array);
  spoiled.isBroken = true;
  await assertRejects(() => stream.finished(), SharingError, "did not take part");
  spoiled.isBroken = false;
  for (const rank of ranks) await rank.abort();
});

test("a group is not made if one of its communicators fails while another one waits for room", async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  const bad = await createRanks({ cuda, gpu }, [300, 300]), good = await createRanks({ cuda, gpu }, [long, long]);
  using stack = new DisposableStack();
  const [full, ...streams] = [0, 1, 2].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const pool = stack.use(gpu.createPool());
  const [filled, ...arrays] = [full!, ...streams].map((stream) => {
    return stack.use(pool.allocateArray(Float32Array, 4, stream));
  });
  for (const array of [filled!, ...arrays]) array.fill(1);
  gpu.synchronize();
  bad[0]!.allReduce(filled!, filled!);
  // One call more would wait.
  for (let count = 0; count < 752; count++) filled!.fill(2);
  assertThrows(
    () =>
      Communicator.group(() => {
        bad[0]!.allReduce(arrays[0]!, arrays[0]!);
        good[0]!.allReduce(filled!, filled!);
        good[1]!.allReduce(arrays[1]!, arrays[1]!);
      }),
    SharingError,
  );
  for (const stream of streams) stream.synchronize();
  assertEquals(await arrays[1]!.toTypedArray(), new Float32Array(4).fill(1));
  for (const rank of [...bad, ...good]) await rank.abort();
});

test("a stream that has thrown a rank's error throws another rank's of work that it comes to wait for later", async () => {
  const { cuda } = openSpoiled();
  using _cuda = cuda;
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [200, 900, long]);
  using stack = new DisposableStack();
  const [first, second] = [0, 1].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const pool = stack.use(gpu.createPool());
  const [one, other] = [first!, second!].map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  const event = stack.use(gpu.createEvent());
  ranks[0]!.allReduce(one!, one!);
  ranks[1]!.allReduce(other!, other!);
  assertThrows(() => first!.synchronize(), SharingError);
  second!.record(event);
  first!.wait(event);
  assertThrows(() => first!.synchronize(), SharingError);
  for (const rank of ranks) await rank.abort();
});

test("a stream throws no other rank's error of what was asked for before it threw one", async () => {
  const { cuda } = openSpoiled();
  using _cuda = cuda;
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [200, 700, long]);
  using stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const pool = stack.use(gpu.createPool());
  const arrays = [0, 1].map(() => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  for (const [index, array] of arrays.entries()) ranks[index]!.allReduce(array, array);
  await assertRejects(() => stream.finished(), SharingError, "of rank 0 of 3");
  while (!String(ranks[1]).includes("failed")) await new Promise((resolve) => setTimeout(resolve, 10));
  stream.synchronize();
  for (const rank of ranks) await rank.abort();
});

test("a program that runs ahead has its time for every few calls", { long: true }, async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [pace, pace]);
  using stack = new DisposableStack();
  const streams = ranks.map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const pool = stack.use(gpu.createPool());
  const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  for (const array of arrays) array.fill(1);
  const begin = performance.now();
  while (performance.now() - begin < 3 * pace) {
    Communicator.group(() => ranks.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
  }
  for (const stream of streams) stream.synchronize();
  for (const rank of ranks) await rank.abort();
});
