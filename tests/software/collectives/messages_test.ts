import { assertEquals } from "@std/assert";
import { dataType } from "../../../src/collective_library.ts";
import type { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { createRanks, type Rank, testCollectives, whenIdle } from "./ranks.ts";

const type = dataType.float32;

function putFloats(rank: Rank, ...values: number[]): bigint {
  return rank.put(new Uint8Array(Float32Array.from(values).buffer));
}

function floatsOf(rank: Rank, address: bigint, count = 1): number[] {
  return [...new Float32Array(rank.get(address, 4 * count).buffer)];
}

function send({ collectives, comm, stream }: Rank, to: number, source: bigint, count = 1): void {
  collectives.send({ comm, source, target: 0n, count, type, root: to, stream });
}

function receive({ collectives, comm, stream }: Rank, from: number, target: bigint, count = 1): void {
  collectives.recv({ comm, source: 0n, target, count, type, root: from, stream });
}

/** Calls `body` in a group of each rank. */
function inGroups(ranks: readonly Rank[], body: (rank: Rank, index: number) => void): void {
  for (const [index, rank] of ranks.entries()) {
    rank.collectives.groupStart();
    body(rank, index);
    rank.collectives.groupEnd();
  }
}

testCollectives("ranks send around a ring in groups, whichever call comes first", async (driver) => {
  const ranks = await createRanks(driver, 4);
  const sources = ranks.map((rank, index) => putFloats(rank, index + 1));
  const targets = ranks.map((rank) => putFloats(rank, 0));
  for (const isSentFirst of [true, false]) {
    inGroups(ranks, (rank, index) => {
      if (isSentFirst) send(rank, (index + 1) % 4, sources[index]!);
      receive(rank, (index + 3) % 4, targets[index]!);
      if (!isSentFirst) send(rank, (index + 1) % 4, sources[index]!);
    });
    await whenIdle(ranks);
    assertEquals(ranks.map((rank, index) => floatsOf(rank, targets[index]!)), [[4], [1], [2], [3]]);
  }
});

testCollectives(
  "messages between two ranks arrive in order, also many of a group in both directions",
  async (driver) => {
    const ranks = await createRanks(driver, 2);
    const count = 1000;
    const sources = ranks.map((rank, index) =>
      putFloats(rank, ...Array.from({ length: count }, (_, at) => at + 1000 * index))
    );
    const targets = ranks.map((rank) => putFloats(rank, ...new Array(count).fill(0)));
    inGroups(ranks, (rank, index) => {
      for (let at = 0; at < count; at++) send(rank, 1 - index, sources[index]! + BigInt(4 * at));
      for (let at = 0; at < count; at++) receive(rank, 1 - index, targets[index]! + BigInt(4 * at));
    });
    await whenIdle(ranks);
    for (const [index, rank] of ranks.entries()) {
      const expected = Array.from({ length: count }, (_, at) => at + 1000 * (1 - index));
      assertEquals(floatsOf(rank, targets[index]!, count), expected);
    }
  },
);

testCollectives("a rank sends to itself in a group, and messages may be empty or of several slices", async (driver) => {
  const ranks = await createRanks(driver, 2);
  const count = 2 ** 19 + 3;
  const bytes = new Uint8Array(new Float32Array(count).fill(2.5).buffer);
  const sources = ranks.map((rank) => rank.put(bytes));
  const targets = ranks.map((rank) => rank.put(new Uint8Array(4 * count)));
  inGroups(ranks, (rank, index) => {
    send(rank, index, sources[index]!, count);
    send(rank, 1 - index, 0n, 0);
    receive(rank, 1 - index, 0n, 0);
    receive(rank, index, targets[index]!, count);
  });
  await whenIdle(ranks);
  for (const [index, rank] of ranks.entries()) {
    assertEquals(rank.state, "ready");
    assertEquals(floatsOf(rank, targets[index]! + BigInt(4 * (count - 1))), [2.5]);
  }
});

testCollectives("a sender's work is done when the receiver has the message", async (driver) => {
  const ranks = await createRanks(driver, 2);
  const [one, other] = ranks as [Rank, Rank];
  const source = putFloats(one, 3), target = putFloats(other, 0), unrelated = putFloats(other, 0);
  send(one, 1, source);
  // Other work that takes as long as the message would.
  driver.memsetD32Async(1, unrelated, 1, 1, other.stream);
  await whenIdle([other]);
  assertEquals(one.isIdle, false);
  receive(other, 0, target);
  await whenIdle(ranks);
  assertEquals(floatsOf(other, target), [3]);
});

testCollectives("a group of several communicators' calls on one stream is done", async (driver) => {
  // Two ranks of this process share a stream: without a group, the first would hang.
  const [one, other] = await createRanks(driver, 2) as [Rank, Rank];
  const pairs = await createRanks(driver, 2);
  const common = { count: 1, type, operation: 0 };
  const buffers = [putFloats(one, 1), putFloats(one, 2)];
  const { collectives } = driver;
  const sameDevice = await onDevice(driver, 0, 2);
  collectives.groupStart();
  for (const [index, comm] of sameDevice.entries()) {
    const at = buffers[index]!;
    collectives.allReduce({ ...common, comm, source: at, target: at, stream: one.stream });
  }
  collectives.groupEnd();
  await whenIdle([one]);
  assertEquals(buffers.map((buffer) => floatsOf(one, buffer)), [[3], [3]]);
  // Each rank uses the communicators in another order.
  const targets = [one, other].map((rank) => [putFloats(rank, 1), putFloats(rank, 5)]);
  for (const [index, calls] of [[one, pairs[0]!], [pairs[1]!, other]].entries()) {
    collectives.groupStart();
    for (const { comm } of calls) {
      const at = targets[index]![comm === one.comm || comm === other.comm ? 0 : 1]!;
      const { stream } = [one, other][index]!;
      collectives.allReduce({ ...common, comm, source: at, target: at, stream });
    }
    collectives.groupEnd();
  }
  await whenIdle([one, other]);
  assertEquals(floatsOf(one, targets[0]![0]!), [2]);
  assertEquals(floatsOf(other, targets[1]![1]!), [10]);
});

/** Communicators whose ranks are all on one device. */
async function onDevice(driver: SoftwareDriver, device: number, size: number): Promise<bigint[]> {
  const { collectives } = driver;
  const id = collectives.getUniqueId();
  const comms = Array.from({ length: size }, (_, rank) => collectives.commInitRank(device, { id, rank, size }));
  await waitUntil(() => comms.map((comm) => collectives.commGetAsyncError(comm)).every((state) => state === "ready"));
  return comms;
}
