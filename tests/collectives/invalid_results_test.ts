/**
 * When a communicator is aborted, NCCL's kernels end and send the other ranks whatever they have: those ranks' collectives
 * complete with invalid results. So a rank publishes how much it has completed before it aborts, and the results behind
 * that prefix are errors.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Communicator, open, SharingError } from "../../mod.ts";
import type { CollectiveLibrary, CommunicatorExtent, Revocation, ValidPrefix } from "../../src/collective_library.ts";
import { Cuda, sessionOf } from "../../src/objects/cuda.ts";
import { handleOf } from "../../src/objects/streams/cuda_event.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { replaceProperty } from "../support/adapted_driver.ts";
import { test } from "../support/test.ts";
import { createRanks, long } from "./idle_ranks.ts";

/** The software device's collectives, with a valid prefix that a test sets, and the extents that were published. */
class PrefixLibrary {
  validPrefix: ValidPrefix | undefined;
  /** Whether revocations fail. */
  failsToRevoke = false;
  /** What revocations wait for. */
  revocation: PromiseWithResolvers<void> | undefined;
  readonly revokedExtents: (CommunicatorExtent | undefined)[] = [];
  readonly library: CollectiveLibrary;

  constructor(collectives: CollectiveLibrary) {
    const calls: Pick<CollectiveLibrary, "commValidPrefix" | "commRevoke"> = {
      commValidPrefix: (comm: bigint) => this.validPrefix ?? collectives.commValidPrefix(comm),
      commRevoke: (comm: bigint, revocation: Revocation) => {
        this.revokedExtents.push(revocation.completed);
        if (this.failsToRevoke) return Promise.reject(new Error("No space left on device"));
        if (this.revocation !== undefined) {
          return this.revocation.promise.then(() => collectives.commRevoke(comm, revocation));
        }
        // As with NCCL, the other ranks do not notice at once.
        return collectives.commRevoke(comm, { ...revocation, willAbort: true });
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

function openWithPrefix(): { cuda: Cuda; controlled: PrefixLibrary } {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const controlled = new PrefixLibrary(driver.collectives);
  return { cuda: new Cuda(new Session(driver, { collectives: () => controlled.library })), controlled };
}

/** The timeout of collectives, in milliseconds; the program takes longer. */
const pace = 1500;
const error = new SharingError("peer-gone", "Rank 1 has ended the collectives");

test("a result that came after another rank had aborted is an error", async () => {
  const { cuda, controlled } = openWithPrefix();
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
  controlled.validPrefix = { collectives: 2, messages: true, error };
  events[0]!.synchronize();
  events[1]!.synchronize();
  assertThrows(() => events[2]!.synchronize(), SharingError, "Rank 1 has ended the collectives");
  events[1]!.synchronize();
  assertThrows(() => events[3]!.synchronize(), SharingError, "Rank 1 has ended the collectives");
  // It publishes the prefix that it knows to be valid.
  assertEquals(controlled.revokedExtents[0], { collectives: 2, messages: true });
  for (const rank of ranks) await rank.abort();
});

for (const messages of [true, false]) {
  const name = messages
    ? "a message that completed is valid even if collectives are not"
    : "a message that was cut off is an error";
  test(name, async () => {
    const { cuda, controlled } = openWithPrefix();
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
    controlled.validPrefix = { collectives: 0, messages, error };
    if (messages) stream.synchronize();
    else assertThrows(() => stream.synchronize(), SharingError, "Rank 1 has ended the collectives");
    for (const rank of ranks) await rank.abort();
  });
}

/**
 * Two ranks with some completed collectives, a complete event behind those, and one more collective of the first rank,
 * which the other one does not call.
 */
async function withCompleted(count: number, stack: DisposableStack) {
  const { cuda, controlled } = openWithPrefix();
  stack.use(cuda);
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [long, long]);
  const streams = ranks.map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const pool = stack.use(gpu.createPool());
  const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  const event = stack.use(gpu.createEvent());
  for (let call = 0; call < count; call++) {
    Communicator.group(() => ranks.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
  }
  streams[0]!.record(event);
  ranks[0]!.allReduce(arrays[0]!, arrays[0]!);
  const { driver } = sessionOf(cuda);
  while (!driver.eventQuery(handleOf(event), { forLibrary: true }));
  return { controlled, ranks, stream: streams[0]!, event };
}

for (const how of ["abort", "shrink"] as const) {
  test(`work that an event shows to be complete before ${how}() has not failed`, async () => {
    using stack = new DisposableStack();
    const { controlled, ranks, stream, event } = await withCompleted(2, stack);
    if (how === "abort") await ranks[0]!.abort();
    else await (await ranks[0]!.shrink([1]))[Symbol.asyncDispose]();
    assertEquals(controlled.revokedExtents, [{ collectives: 2, messages: true }]);
    event.synchronize();
    assertThrows(() => stream.synchronize(), SharingError, how === "abort" ? "it was aborted" : "it was shrunk");
    for (const rank of ranks) await rank.abort();
  });
}

test("a collective behind another rank's prefix fails at once, and those before it have not failed", async () => {
  using stack = new DisposableStack();
  const { controlled, ranks, stream, event } = await withCompleted(1, stack);
  controlled.validPrefix = { collectives: 1, messages: true, error };
  assertThrows(() => stream.synchronize(), SharingError, "Rank 1 has ended the collectives");
  event.synchronize();
  for (const rank of ranks) await rank.abort();
});

test("work fails even if it cannot be revoked", async () => {
  const { cuda, controlled } = openWithPrefix();
  using _cuda = cuda;
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [100, long]);
  using stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const array = stack.use(stack.use(gpu.createPool()).allocateArray(Float32Array, 4, stream));
  ranks[0]!.allReduce(array, array);
  controlled.failsToRevoke = true;
  await assertRejects(() => stream.finished(), SharingError, "did not take part");
  controlled.failsToRevoke = false;
  for (const rank of ranks) await rank.abort();
});

test("waits throw the error of failed work that the library cannot end", async () => {
  const { cuda, controlled } = openWithPrefix();
  using _cuda = cuda;
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [100, long]);
  using stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const array = stack.use(stack.use(gpu.createPool()).allocateArray(Float32Array, 4, stream));
  const event = stack.use(gpu.createEvent());
  ranks[0]!.allReduce(array, array);
  stream.record(event);
  controlled.revocation = Promise.withResolvers();
  while (!String(ranks[0]).includes("failed")) await new Promise((resolve) => setTimeout(resolve, 10));
  {
    // The library has had its time to end the work.
    const now = performance.now.bind(performance);
    using _clock = replaceProperty(performance, "now", () => now() + 20_000);
    for (let count = 0; count < 2; count++) {
      assertThrows(() => stream.synchronize(), SharingError, "did not take part");
      assertThrows(() => event.synchronize(), SharingError, "did not take part");
    }
  }
  controlled.revocation.resolve();
  for (const rank of ranks) await rank.abort();
});

test("a group is not enqueued if one of its communicators fails while another one waits for launch slots", async () => {
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
  // One more call would wait for a launch slot.
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

test("a stream that has thrown one rank's error throws another rank's if it waits for that one's work later", async () => {
  const { cuda } = openWithPrefix();
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

test("a stream throws the error of one rank only for work enqueued before that", async () => {
  const { cuda } = openWithPrefix();
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

test("the timeout of a program that runs ahead counts for every few calls anew", { long: true }, async () => {
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
