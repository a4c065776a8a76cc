/** What becomes of NCCL's communicators that are not ready, with a library that stands in for NCCL. */
import { assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { dlopen } from "../../ffi/native/host.ts";
import { openNccl } from "../../ffi/nccl/load_nccl.ts";
import { compilerVersion } from "../../ffi/native/shim/build.ts";
import type { CollectiveLibrary } from "../../src/collective_library.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { type CudaError, SharingError } from "../../src/support/errors.ts";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

const skip = compilerVersion("gcc") === undefined ? "gcc is not installed" : false;

const stubFunctions = {
  stub_live: { parameters: [], result: "i32" },
  stub_refused: { parameters: [], result: "i32" },
  stub_hold: { parameters: ["i32" /* int hold */], result: "void" },
  stub_divide: { parameters: [], result: "void" },
  stub_lose: { parameters: [], result: "void" },
} as const;

interface Stub {
  /** The path of the library. */
  readonly path: string;
  readonly nccl: CollectiveLibrary;
  /** A communicator that is ready. */
  readonly comm: bigint;
  /** Makes what is divided stay in progress until `divide`. */
  hold(): void;
  divide(): void;
  /** Makes NCCL report that a connection was closed. */
  lose(): void;
  /** How many communicators of NCCL there are. */
  live(): number;
}

function testStub(name: string, body: (stub: Stub) => Promise<void>): void {
  test(name, { skip }, async () => {
    const folder = mkdtempSync("/tmp/poolpass-test-");
    try {
      const path = `${folder}/libnccl.so`;
      const source = fileURLToPath(new URL("./nccl/divided_nccl.c", import.meta.url));
      const built = spawnSync("gcc", ["-shared", "-fPIC", "-w", "-o", path, source]);
      assertEquals(built.status, 0, String(built.stderr));
      const { symbols } = dlopen(path, stubFunctions);
      const nccl = openNccl(path, () => {});
      const id = crypto.getRandomValues(new Uint8Array(128));
      const comm = nccl.commInitRank(0, { id, rank: 0, size: 1, timeout: 1000 });
      await waitUntil(() => nccl.commGetAsyncError(comm) === "ready");
      await body({
        path,
        nccl,
        comm,
        hold: () => symbols.stub_hold!(1),
        divide: () => symbols.stub_divide!(),
        lose: () => symbols.stub_lose!(),
        live: () => symbols.stub_live!(),
      });
      assertEquals(symbols.stub_live!(), 0, "all are freed");
      assertEquals(symbols.stub_refused!(), 0, "none is destroyed in progress");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

testStub("a communicator is freed with what is divided from it", async ({ nccl, comm, live }) => {
  assertEquals(live(), 2);
  const child = nccl.commSplit(comm, { color: 0, key: 0 });
  await waitUntil(() => nccl.commGetAsyncError(child) === "ready");
  assertEquals(live(), 4);
  assertEquals(nccl.commSplit(comm, { color: undefined, key: 0 }), 0n);
  assertEquals(nccl.commGetAsyncError(comm), "ready");
  await nccl.commDestroy(child);
  await nccl.commDestroy(comm);
});

testStub("a communicator can be freed while others have not come to its division", async (stub) => {
  const { nccl, comm } = stub;
  stub.hold();
  const child = nccl.commSplit(comm, { color: 0, key: 0 });
  assertEquals(nccl.commGetAsyncError(child), "in-progress");
  await nccl.commAbort(child);
  await nccl.commDestroy(comm);
});

testStub("what is divided when nobody waits for it any more is freed", async (stub) => {
  const { nccl, comm } = stub;
  stub.hold();
  await nccl.commAbort(nccl.commSplit(comm, { color: 0, key: 0 }));
  stub.divide();
  assertEquals(nccl.commGetAsyncError(comm), "ready");
  await nccl.commDestroy(comm);
});

testStub("a communicator whose division did not end is not shrunk", async ({ nccl, comm, hold }) => {
  hold();
  nccl.commSplit(comm, { color: 0, key: 0 });
  assertThrows(() => nccl.commShrink(comm, []), SharingError, "whose division did not end");
  await nccl.commAbort(comm);
});

testStub("a division ends when its communicator is aborted", async (stub) => {
  const { nccl, comm } = stub;
  stub.hold();
  const child = nccl.commSplit(comm, { color: 0, key: 0 });
  await nccl.commAbort(comm);
  const error = nccl.commGetAsyncError(child) as Error;
  assertEquals(error.message, "Cannot divide the communicator: it was destroyed before it was divided");
  await nccl.commAbort(child);
});

testStub("a rank that shrinks again takes a new place", async ({ nccl, comm }) => {
  const id = crypto.getRandomValues(new Uint8Array(128));
  const ranks = [0, 1].map((rank) => nccl.commInitRank(0, { id, rank, size: 2, timeout: 1000 }));
  const isReady = (comm: bigint) => {
    const state = nccl.commGetAsyncError(comm);
    if (state instanceof Error) throw state;
    return state === "ready";
  };
  for (const rank of ranks) await waitUntil(() => isReady(rank));
  const first = ranks.map((rank) => nccl.commShrink(rank, []));
  // Both take their places.
  for (const child of first) assertEquals(isReady(child), false);
  await nccl.commAbort(first[0]!);
  const second = nccl.commShrink(ranks[0]!, []);
  await waitUntil(() => isReady(second));
  for (const each of [second, first[1]!, ...ranks, comm]) await nccl.commAbort(each);
});

testStub("a division ends when a rank dies that it waits for", async ({ path, nccl, comm, hold }) => {
  const id = crypto.getRandomValues(new Uint8Array(128));
  const ranks = await Promise.all([1, 2].map(async (rank) => {
    const child = startScript("children/collectives/join_and_wait.ts", [path, id.toHex(), `${rank}`, "3"]);
    assertEquals(await child.nextLine(), "joined");
    return child;
  }));
  const parent = nccl.commInitRank(0, { id, rank: 0, size: 3, timeout: 1000 });
  await waitUntil(() => nccl.commGetAsyncError(parent) === "ready");
  ranks[1]!.kill("SIGKILL");
  await ranks[1]!.ended;
  hold();
  const child = nccl.commShrink(parent, [2]);
  assertEquals(nccl.commGetAsyncError(child), "in-progress");
  ranks[0]!.kill("SIGKILL");
  await ranks[0]!.ended;
  await waitUntil(() => nccl.commGetAsyncError(child) !== "in-progress");
  const error = nccl.commGetAsyncError(child) as SharingError;
  assertEquals([error.code, error.message], ["peer-gone", `Rank 1 has ended: process ${ranks[0]!.pid}`]);
  for (const each of [child, parent, comm]) await nccl.commAbort(each);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testStub(
  "a closed connection is explained by the rank of this machine that exits",
  async ({ path, nccl, comm, lose }) => {
    const id = crypto.getRandomValues(new Uint8Array(128));
    await using rank = startScript("children/collectives/join_and_wait.ts", [path, id.toHex(), "1", "2"]);
    assertEquals(await rank.nextLine(), "joined");
    const both = nccl.commInitRank(0, { id, rank: 0, size: 2, timeout: 1000 });
    await waitUntil(() => nccl.commGetAsyncError(both) === "ready");
    lose();
    // A process that exits closes its sockets first.
    assertEquals(nccl.commGetAsyncError(both), "in-progress");
    rank.kill("SIGKILL");
    await rank.ended;
    await waitUntil(() => nccl.commGetAsyncError(both) !== "in-progress");
    const error = nccl.commGetAsyncError(both) as SharingError;
    assertEquals([error.code, error.message], ["peer-gone", `Rank 1 has ended: process ${rank.pid}`]);
    for (const each of [both, comm]) await nccl.commAbort(each);
  },
);

testStub("a closed connection that no rank of this machine explains is NCCL's error", async (stub) => {
  const { path, nccl, comm, lose } = stub;
  const id = crypto.getRandomValues(new Uint8Array(128));
  await using rank = startScript("children/collectives/join_and_wait.ts", [path, id.toHex(), "1", "2"]);
  assertEquals(await rank.nextLine(), "joined");
  const both = nccl.commInitRank(0, { id, rank: 0, size: 2, timeout: 1000 });
  await waitUntil(() => nccl.commGetAsyncError(both) === "ready");
  lose();
  await waitUntil(() => nccl.commGetAsyncError(both) !== "in-progress");
  assertEquals((nccl.commGetAsyncError(both) as CudaError).code, "ncclRemoteError");
  // Without other ranks on this machine, there is nothing to wait for.
  assertEquals((nccl.commGetAsyncError(comm) as CudaError).code, "ncclRemoteError");
  for (const each of [both, comm]) await nccl.commAbort(each);
});
