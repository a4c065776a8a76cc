/**
 * NCCL's kernels end when their communicator is aborted, and give the other ranks what they happen to have then: their
 * collectives are done. A rank that does so says before what was done, and the others believe no more than that.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { Communicator, SharingError } from "../../mod.ts";
import type { CollectiveLibrary, Cut, Extent, Revocation } from "../../src/collective_library.ts";
import { Cuda, sessionOf } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { test } from "../support/test.ts";
import { createRanks, long } from "./idle_ranks.ts";

/** The software device's collectives, with what another rank has said, and what was said to others. */
class SpoiledLibrary {
  cut: Cut | undefined;
  readonly said: (Extent | undefined)[] = [];
  readonly library: CollectiveLibrary;

  constructor(collectives: CollectiveLibrary) {
    const calls: Pick<CollectiveLibrary, "commCut" | "commRevoke"> = {
      commCut: () => this.cut,
      commRevoke: (comm: bigint, revocation: Revocation) => {
        this.said.push(revocation.done);
        return collectives.commRevoke(comm, revocation);
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

const error = new SharingError("peer-gone", "Rank 1 has ended the collectives");

test("a result that came when another rank had ended its part by force is an error", async () => {
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
  spoiled.cut = { collectives: 2, messages: true, error };
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
    spoiled.cut = { collectives: 0, messages, error };
    if (messages) stream.synchronize();
    else assertThrows(() => stream.synchronize(), SharingError, "Rank 1 has ended the collectives");
    for (const rank of ranks) await rank.abort();
  });
}
