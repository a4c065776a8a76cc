import { assert, assertEquals, assertThrows } from "@std/assert";
import { dataType, reductionOperation } from "../../../src/collective_library.ts";
import type { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { createRanks, errorsOf, Rank, revoke, testCollectives, whenIdle, whenReady } from "./ranks.ts";

const type = dataType.float32;
const operation = reductionOperation.sum;

/** Sums the ranks' numbers: 1, 10, 100 and so on, by rank in the original communicator. */
async function sumsOf(ranks: readonly Rank[], numbers: readonly number[]): Promise<number[]> {
  const targets = ranks.map((rank, index) => rank.put(new Uint8Array(Float32Array.of(numbers[index]!).buffer)));
  for (const [index, { collectives, comm, stream }] of ranks.entries()) {
    const at = targets[index]!;
    collectives.allReduce({ comm, stream, source: at, target: at, count: 1, type, operation });
  }
  await whenIdle(ranks);
  return ranks.map((rank, index) => new Float32Array(rank.get(targets[index]!, 4).buffer)[0]!);
}

/** The ranks of divided communicators, on the devices of the ranks that they were divided from. */
function ranksOf(driver: SoftwareDriver, comms: readonly bigint[], devices: readonly number[]): Rank[] {
  return comms.map((comm, index) => new Rank(driver, devices[index]!, comm));
}

testCollectives("a communicator is divided by colors, and ordered by keys", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 4);
  const colors = [7, 3, 7, 3], keys = [5, 0, 1, 0];
  const comms = ranks.map(({ comm }, index) =>
    collectives.commSplit(comm, { color: colors[index]!, key: keys[index]! })
  );
  const parts = ranksOf(driver, comms, [0, 1, 0, 1]);
  await whenReady(parts);
  assertEquals(comms.map((comm) => collectives.commUserRank(comm)), [1, 0, 0, 1]);
  assertEquals(comms.map((comm) => collectives.commCount(comm)), [2, 2, 2, 2]);
  assertEquals(await sumsOf(parts, [1, 10, 100, 1000]), [101, 1010, 101, 1010]);
  assertEquals(await sumsOf(ranks, [1, 10, 100, 1000]), [1111, 1111, 1111, 1111]);
});

testCollectives("a rank without a color is in no part, and knows when the others know", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 3);
  assertEquals(collectives.commSplit(ranks[1]!.comm, { color: undefined, key: 0 }), 0n);
  assertEquals(ranks[1]!.state, "in-progress");
  const comms = [0, 2].map((rank) => collectives.commSplit(ranks[rank]!.comm, { color: 0, key: -rank }));
  await waitUntil(() => ranks[1]!.state === "ready");
  const parts = ranksOf(driver, comms, [0, 0]);
  await whenReady(parts);
  assertEquals(comms.map((comm) => collectives.commUserRank(comm)), [1, 0]);
  assertEquals(await sumsOf(parts, [1, 100]), [101, 101]);
});

testCollectives("a communicator is divided again before it was divided, and its parts are", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 2);
  const twice = [0, 1].map(() => ranks.map(({ comm }) => collectives.commSplit(comm, { color: 1, key: 0 })));
  const parts = twice.map((comms) => ranksOf(driver, comms, [0, 1]));
  await whenReady(parts.flat());
  const nested = ranksOf(driver, parts[0]!.map(({ comm }) => collectives.commSplit(comm, { color: 0, key: 0 })), [
    0,
    1,
  ]);
  await whenReady(nested);
  for (const each of [...parts, nested]) assertEquals(await sumsOf(each, [1, 10]), [11, 11]);
});

testCollectives("a communicator whose parent is destroyed before it is divided cannot be created", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 2);
  const comm = collectives.commSplit(ranks[0]!.comm, { color: 1, key: 0 });
  assertEquals(collectives.commGetAsyncError(comm), "in-progress");
  await collectives.commDestroy(ranks[0]!.comm);
  const state = collectives.commGetAsyncError(comm);
  assert(state instanceof Error && state.message.includes("was destroyed before it was divided"), String(state));
  // The other rank's communicator cannot be created either.
  const other = collectives.commSplit(ranks[1]!.comm, { color: 1, key: 0 });
  await waitUntil(() => collectives.commGetAsyncError(other) instanceof Error);
});

testCollectives("the ranks that are left shrink a communicator again and again", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 4);
  const shrink = async (from: readonly Rank[], excluded: readonly number[], devices: readonly number[]) => {
    const kept = from.filter((_, index) => !excluded.includes(index));
    const shrunk = ranksOf(driver, kept.map(({ comm }) => collectives.commShrink(comm, excluded)), devices);
    await whenReady(shrunk);
    return shrunk;
  };
  const three = await shrink(ranks, [1], [0, 0, 1]);
  assertEquals(await sumsOf(three, [1, 100, 1000]), [1101, 1101, 1101]);
  const same = await shrink(ranks, [1], [0, 0, 1]);
  assertEquals(await sumsOf(same, [1, 2, 3]), [6, 6, 6]);
  const two = await shrink(three, [0], [0, 1]);
  assertEquals(two.map(({ comm }) => collectives.commUserRank(comm)), [0, 1]);
  assertEquals(await sumsOf(two, [1, 2]), [3, 3]);
  assertEquals(await sumsOf(ranks, [1, 2, 3, 4]), [10, 10, 10, 10]);
  assertThrows(() => collectives.commShrink(ranks[2]!.comm, [2]), RangeError, "rank 2 is this one");
});

testCollectives("a communicator shrinks after a rank has aborted, and after it was revoked", async (driver) => {
  const { collectives } = driver;
  for (const isRevoked of [false, true]) {
    const ranks = await createRanks(driver, 3);
    const kept = [ranks[0]!, ranks[2]!];
    for (const rank of kept) {
      const { comm, stream } = rank, at = rank.put(new Uint8Array(4));
      collectives.allReduce({ comm, stream, source: at, target: at, count: 1, type, operation });
    }
    if (isRevoked) {
      for (const rank of kept) await revoke(rank);
    } else {
      await collectives.commAbort(ranks[1]!.comm);
      await errorsOf(kept);
    }
    const shrunk = ranksOf(driver, kept.map(({ comm }) => collectives.commShrink(comm, [1])), [0, 0]);
    await whenReady(shrunk);
    assertEquals(await sumsOf(shrunk, [1, 2]), [3, 3]);
  }
});

testCollectives("shrinking ends work that hangs", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 3);
  const kept = ranks.slice(0, 2);
  const { comm, stream } = kept[0]!, at = kept[0]!.put(new Uint8Array(4));
  collectives.allReduce({ comm, stream, source: at, target: at, count: 1, type, operation });
  const shrunk = ranksOf(driver, kept.map(({ comm }) => collectives.commShrink(comm, [2])), [0, 1]);
  await whenIdle(kept);
  await whenReady(shrunk);
});
