import { assert, assertEquals } from "@std/assert";
import { dataType, reductionOperation } from "../../../src/collective_library.ts";
import { keyOfId, Membership, phases } from "../../../src/software/collectives/membership.ts";
import { commonRings, type MailboxEntry, operationNumbers } from "../../../src/software/collectives/mailbox.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { errorsOf, Rank, testCollectives, whenIdle } from "./ranks.ts";
import type { SoftwareDriver } from "../../../src/software/software_driver.ts";

const count = 4;
const honest: MailboxEntry = {
  operation: operationNumbers.allReduce,
  type: dataType.float32,
  reduction: reductionOperation.sum,
  root: 0,
  count,
  offset: 2 ** 20,
  byteLength: 4 * count,
};

/** A rank, and a membership in the same communicator that posts arbitrary entries. */
async function createPair(driver: SoftwareDriver): Promise<{ rank: Rank; hostile: Membership }> {
  const { collectives } = driver;
  const id = collectives.getUniqueId();
  const rank = new Rank(driver, 0, collectives.commInitRank(0, { id, rank: 0, size: 2 }));
  const hostile = Membership.join({ key: keyOfId(id), rank: 1, size: 2, deviceUuid: new Uint8Array(16) });
  await waitUntil(() => [rank.state, hostile.progress()].includes(true) && rank.state === "ready");
  return { rank, hostile };
}

testCollectives("what another rank posts is checked before it is used", async (driver) => {
  const entries: Partial<MailboxEntry>[] = [
    { offset: -1 },
    { offset: NaN },
    { offset: 0.5 },
    { offset: 2 ** 52 },
    { offset: 2 ** 40 },
    { byteLength: 0 },
    { byteLength: 2 ** 40 },
    { byteLength: NaN },
    { count: -1 },
    { count: NaN },
    { operation: 2 ** 32 - 1, type: 77 },
    { reduction: 99 },
  ];
  for (const wrong of entries) {
    const { rank, hostile } = await createPair(driver);
    const at = rank.put(new Uint8Array(4 * count));
    const { collectives, comm, stream } = rank;
    hostile.own.post(commonRings.collectives, 1, { ...honest, ...wrong });
    const call = { comm, stream, source: at, target: at, count, type: dataType.float32 };
    collectives.allReduce({ ...call, operation: reductionOperation.sum });
    await whenIdle([rank]);
    const [error] = await errorsOf([rank]);
    assert(
      /^Cannot (do collective 1|use what rank 1 gives|read what rank 1 gives)/.test(error!.message),
      error!.message,
    );
    // The device is still usable.
    driver.deviceSynchronize(0);
    hostile.leave(phases.finished);
  }
});

testCollectives("a color that is not a number ends the division", async (driver) => {
  const { rank, hostile } = await createPair(driver);
  hostile.own.post(commonRings.divisions, 1, { ...honest, count: NaN });
  const comm = rank.collectives.commSplit(rank.comm, { color: 1, key: 0 });
  await waitUntil(() => rank.collectives.commGetAsyncError(comm) !== "in-progress");
  const state = rank.collectives.commGetAsyncError(comm);
  assert(state instanceof SharingError && state.code === "bad-message", String(state));
  hostile.leave(phases.finished);
});

testCollectives("ranks that lose their devices tell the others, and can do no more", async (driver) => {
  const { rank, hostile } = await createPair(driver);
  const { collectives, comm, stream } = rank;
  const at = rank.put(new Uint8Array(4));
  const call = { comm, stream, source: at, target: at, count: 1, type: dataType.float32 };
  collectives.allReduce({ ...call, operation: reductionOperation.sum });
  const module = driver.moduleLoadData(0, ".version 8.0\n.target sm_80\n.address_size 64\n.entry fail() { trap; }\n");
  const kernel = driver.moduleGetFunction(module, "fail");
  const other = driver.streamCreateWithPriority(0, 1, 0);
  driver.launchKernel(
    {
      kernel,
      device: 0,
      stream: other,
      gridX: 1,
      gridY: 1,
      gridZ: 1,
      blockX: 1,
      blockY: 1,
      blockZ: 1,
      sharedMemoryBytes: 0,
      parameters: [],
    } as unknown as Parameters<SoftwareDriver["launchKernel"]>[0],
  );
  const [error] = await errorsOf([rank]) as [SharingError];
  assertEquals([error.name, error.code], ["SharingError", "device-lost"]);
  await waitUntil(() => hostile.findGone() !== undefined);
  const gone = hostile.findGone()!;
  assertEquals(gone.code, "device-lost");
  assert(gone.message.startsWith("Rank 0 of 2 has lost its device (process "), gone.message);
  await collectives.commAbort(comm);
  hostile.leave(phases.finished);
});
