import { assert, assertEquals, assertThrows } from "@std/assert";
import { dataType, reductionOperation } from "../../../src/collective_library.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { CudaError, SharingError } from "../../../src/support/errors.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { createRanks, errorsOf, type Rank, revoke, testCollectives, whenIdle } from "./ranks.ts";

const { float32, int8 } = dataType;
const { sum, maximum } = reductionOperation;

function callOf({ comm, stream }: Rank, at: bigint) {
  return { comm, stream, source: at, target: at, count: 2, type: float32, operation: sum };
}

function messagesOf(errors: readonly Error[]): string[] {
  return [...new Set(errors.map(({ message }) => message))];
}

testCollectives("ranks that call different collectives all get the error that names both", async (driver) => {
  const cases: [(rank: Rank, at: bigint) => void, string][] = [
    [(rank, at) => rank.collectives.broadcast({ ...callOf(rank, at), root: 0 }), "broadcast of 2 float32 from rank 0"],
    [
      (rank, at) => rank.collectives.allReduce({ ...callOf(rank, at), count: 1 }),
      "allReduce of 1 float32 with sum",
    ],
    [(rank, at) => rank.collectives.allReduce({ ...callOf(rank, at), type: int8 }), "allReduce of 2 int8 with sum"],
    [
      (rank, at) => rank.collectives.allReduce({ ...callOf(rank, at), operation: maximum }),
      "allReduce of 2 float32 with maximum",
    ],
  ];
  for (const [call, described] of cases) {
    const ranks = await createRanks(driver, 3);
    const buffers = ranks.map((rank) => rank.put(new Uint8Array(8)));
    for (const [index, rank] of ranks.entries()) {
      if (index === 2) call(rank, buffers[index]!);
      else rank.collectives.allReduce(callOf(rank, buffers[index]!));
    }
    assertEquals(messagesOf(await errorsOf(ranks)), [
      `Cannot do collective 1 of the communicator: rank 0 calls allReduce of 2 float32 with sum, and rank 2 ` +
      `${described}; all ranks must make the same calls in the same order`,
    ]);
    await whenIdle(ranks);
    // Further calls throw the same error.
    assertThrows(() => ranks[0]!.collectives.allReduce(callOf(ranks[0]!, buffers[0]!)), Error, "rank 2");
  }
});

testCollectives("a message of another count or type than expected is an error of both ranks", async (driver) => {
  for (const count of [1, 3]) {
    const ranks = await createRanks(driver, 2);
    const [one, other] = ranks as [Rank, Rank];
    one.collectives.send({ ...callOf(one, one.put(new Uint8Array(8))), root: 1 });
    other.collectives.recv({ ...callOf(other, other.put(new Uint8Array(12))), count, root: 0 });
    assertEquals(messagesOf(await errorsOf(ranks)), [
      `Cannot pass a message: rank 0 sends 2 float32 to rank 1, which receives ${count} float32 from it; both must ` +
      `give the same count and type`,
    ]);
    await whenIdle(ranks);
  }
});

testCollectives("an id of NCCL, or of another length, is refused", (driver) => {
  const { collectives } = driver;
  const init = (id: Uint8Array) => () => collectives.commInitRank(0, { id, rank: 0, size: 1 });
  assertThrows(init(crypto.getRandomValues(new Uint8Array(128))), RangeError, "the id is not one of the software");
  assertThrows(init(new Uint8Array(64)), RangeError, "an id has 128 bytes, and this one 64");
  assert(collectives.getUniqueId().toHex() !== collectives.getUniqueId().toHex());
});

testCollectives("ranks that are taken, do not exist or expect another size are refused", async (driver) => {
  const { collectives } = driver;
  const id = collectives.getUniqueId();
  const one = collectives.commInitRank(0, { id, rank: 0, size: 2 });
  assertThrows(() => collectives.commInitRank(0, { id, rank: 0, size: 2 }), Error, "rank 0 of 2 is taken");
  assertThrows(() => collectives.commInitRank(0, { id, rank: 2, size: 2 }), RangeError, "there is no rank 2 of 2");
  assertThrows(() => collectives.commInitRank(7, { id, rank: 1, size: 2 }), CudaError);
  const other = collectives.commInitRank(0, { id, rank: 1, size: 3 });
  await waitUntil(() => {
    collectives.commGetAsyncError(one);
    return collectives.commGetAsyncError(other) instanceof Error;
  });
  const { message } = collectives.commGetAsyncError(other) as Error;
  assert(message.includes("rank 0 says that there are 2 ranks, and rank 1 that there are 3"), message);
});

testCollectives("calls that cannot be done are refused when they are made", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 2);
  const [rank] = ranks as [Rank, Rank];
  const at = rank.put(new Uint8Array(8));
  const call = callOf(rank, at);
  const refused: [() => void, string][] = [
    [() => collectives.allReduce({ ...call, count: 3 }), "cudaErrorInvalidValue"],
    [() => collectives.allGather(call), "cudaErrorInvalidValue"],
    [() => collectives.allReduce({ ...call, count: -1 }), "a count of -1"],
    [() => collectives.allReduce({ ...call, type: 12 }), "elements of type 12"],
    [() => collectives.allReduce({ ...call, operation: 9 }), "reduction 9"],
    [() => collectives.broadcast({ ...call, root: 2 }), "there are 2 ranks, counted from 0"],
    [() => collectives.send({ ...call, root: -1 }), "with rank -1"],
    [() => collectives.allReduce({ ...call, stream: 1n }), "cudaErrorInvalidResourceHandle"],
    [() => collectives.allReduce({ ...call, comm: 99n }), "it does not exist"],
    [() => collectives.groupEnd(), "none has begun"],
  ];
  for (const [make, expected] of refused) assertThrows(make, Error, expected);
  const young = collectives.commInitRank(0, { id: collectives.getUniqueId(), rank: 0, size: 2 });
  assertThrows(() => collectives.allReduce({ ...call, comm: young }), Error, "is not ready yet");
  assertThrows(() => collectives.commSplit(young, { color: 0, key: 0 }), Error, "is not ready yet");
  assertThrows(() => collectives.commShrink(young, [1]), Error, "is not ready yet");
  assertEquals(ranks.map(({ state }) => state), ["ready", "ready"]);
});

testCollectives("a group whose call is refused does nothing, and says why again", async (driver) => {
  const { collectives } = driver;
  const ranks = await createRanks(driver, 2);
  const [rank] = ranks as [Rank, Rank];
  const at = rank.put(new Uint8Array(8));
  collectives.groupStart();
  collectives.allReduce(callOf(rank, at));
  assertThrows(() => collectives.allReduce({ ...callOf(rank, at), count: 100 }), CudaError);
  assertThrows(() => collectives.groupEnd(), CudaError);
  await whenIdle(ranks);
  // The numbers of the ranks' collectives still agree.
  for (const each of ranks) {
    const address = each.put(new Uint8Array(8));
    collectives.allReduce(callOf(each, address));
  }
  await whenIdle(ranks);
  assertEquals(ranks.map(({ state }) => state), ["ready", "ready"]);
  collectives.groupStart();
  for (let count = 0; count < 1025; count++) collectives.allReduce(callOf(rank, at));
  assertThrows(() => collectives.groupEnd(), RangeError, "the software device's limit is 1024");
});

testCollectives("a revoked communicator's work ends, and it takes no more", async (driver) => {
  const ranks = await createRanks(driver, 2);
  const [rank] = ranks as [Rank, Rank];
  const at = rank.put(new Uint8Array(8));
  rank.collectives.allReduce(callOf(rank, at));
  await revoke(rank);
  await whenIdle([rank]);
  assertThrows(() => rank.collectives.allReduce(callOf(rank, at)), Error, "was revoked");
});

testCollectives("an aborted communicator's work ends, and the others learn of it", async (driver) => {
  const ranks = await createRanks(driver, 3);
  const [one, , other] = ranks as [Rank, Rank, Rank];
  for (const rank of [one, other]) rank.collectives.allReduce(callOf(rank, rank.put(new Uint8Array(8))));
  await driver.collectives.commAbort(other.comm);
  assert(other.isIdle);
  const errors = await errorsOf(ranks.slice(0, 2)) as SharingError[];
  await whenIdle(ranks);
  for (const error of errors) {
    assert(error instanceof SharingError && error.code === "peer-gone");
    assert(error.message.startsWith("Rank 2 of 3 has aborted (process "), error.message);
  }
  // It keeps its error.
  assertEquals(one.state, errors[0]);
});

testCollectives(
  "a rank that is done may destroy its communicator while others still do the same work",
  async (driver) => {
    const { collectives } = driver;
    const ranks = await createRanks(driver, 3);
    const buffers = ranks.map((rank, index) => rank.put(new Uint8Array(new Float32Array(2).fill(index + 1).buffer)));
    for (const [index, rank] of ranks.entries()) rank.collectives.allReduce(callOf(rank, buffers[index]!));
    await whenIdle([ranks[0]!]);
    const destroyed = collectives.commDestroy(ranks[0]!.comm);
    assertThrows(() => collectives.allReduce(callOf(ranks[0]!, buffers[0]!)), Error, "was finalized");
    await destroyed;
    await whenIdle(ranks);
    for (const [index, rank] of ranks.entries()) {
      assertEquals([...new Float32Array(rank.get(buffers[index]!, 8).buffer)], [6, 6]);
      if (index > 0) assertEquals(rank.state, "ready");
    }
    // Only a rank that needs it notices that it has left.
    const at = ranks[1]!.put(new Uint8Array(8));
    collectives.send({ ...callOf(ranks[1]!, at), root: 2 });
    collectives.recv({ ...callOf(ranks[2]!, ranks[2]!.put(new Uint8Array(8))), root: 1 });
    await whenIdle(ranks);
    assertEquals(ranks.slice(1).map(({ state }) => state), ["ready", "ready"]);
    collectives.allReduce(callOf(ranks[1]!, at));
    const [error] = await errorsOf([ranks[1]!]);
    assert(error!.message.startsWith("Rank 0 of 3 has left (process "), error!.message);
    await whenIdle(ranks);
  },
);

testCollectives("a driver that closes leaves its communicators, and others are told", async (driver) => {
  const second = new SoftwareDriver({ devices: 1, peers: true });
  const id = driver.collectives.getUniqueId();
  const one = driver.collectives.commInitRank(0, { id, rank: 0, size: 2 });
  const other = second.collectives.commInitRank(0, { id, rank: 1, size: 2 });
  await waitUntil(() => {
    const states = [driver.collectives.commGetAsyncError(one), second.collectives.commGetAsyncError(other)];
    return states.every((state) => state === "ready");
  });
  assertEquals(driver.collectives.commUserRank(one) + 10 * second.collectives.commUserRank(other), 10);
  assertEquals([driver.collectives.commCount(one), second.collectives.commCount(other)], [2, 2]);
  second.close();
  assertEquals(driver.collectives.commGetAsyncError(one), "ready");
  const at = driver.malloc(0, 8);
  const call = { comm: one, stream: 0n, source: at, target: at, count: 2, type: float32, operation: sum };
  driver.collectives.allReduce(call);
  driver.deviceSynchronize(0);
  const state = driver.collectives.commGetAsyncError(one);
  assert(state instanceof SharingError && state.code === "peer-gone", String(state));
});
