/** Work is watched even if the call that enqueued it has failed, or its end cannot be marked. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Communicator, CudaError } from "../../mod.ts";
import type { CollectiveLibrary, ReducingCall } from "../../src/collective_library.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { test } from "../support/test.ts";
import { createRanks, long } from "./idle_ranks.ts";

/** Opens a software device whose calls of collectives enqueue them, and throw an error then if `fails` has one. */
function openFailing(): { cuda: Cuda; fails: { with?: string } } {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const fails: { with?: string } = {};
  const throwIfAsked = (call: string) => {
    const { with: code } = fails;
    if (code !== undefined) throw new CudaError(1, call, `${call} failed: ${code}`, { code });
  };
  const { collectives } = driver;
  const calls: Partial<CollectiveLibrary> = {
    groupEnd: () => {
      collectives.groupEnd();
      throwIfAsked("ncclGroupEnd");
    },
    broadcast: (call) => {
      collectives.broadcast(call);
      throwIfAsked("ncclBroadcast");
    },
    repeatedAllReduce: (call: ReducingCall) => {
      const allReduce = collectives.repeatedAllReduce(call);
      return () => {
        allReduce();
        throwIfAsked("ncclAllReduce");
      };
    },
  };
  const library = new Proxy(collectives, {
    get(_, name) {
      const value = calls[name as keyof typeof calls] ?? Reflect.get(collectives, name, collectives);
      return typeof value === "function" ? value.bind(collectives) : value;
    },
  });
  return { cuda: new Cuda(new Session(driver, { collectives: () => library })), fails };
}

for (const kind of ["group", "broadcast", "repeated all-reduce"] as const) {
  test(`the communicator fails if a ${kind} fails after it has enqueued something`, async () => {
    const { cuda, fails } = openFailing();
    using _cuda = cuda;
    const gpu = cuda.device(0);
    const [rank, peer] = await createRanks({ cuda, gpu }, [long, long]) as [Communicator, Communicator];
    using stack = new DisposableStack();
    const [stream, other] = [0, 1].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
    const pool = stack.use(gpu.createPool());
    const array = stack.use(pool.allocateArray(Float32Array, 4, stream));
    const ofPeer = stack.use(pool.allocateArray(Float32Array, 4, other));
    const options = { stream: stream! };
    const call = {
      group: () => Communicator.group(() => rank.reduce(array, array, 0, "sum", options)),
      broadcast: () => rank.broadcast(array, 0, options),
      "repeated all-reduce": () => rank.allReduce(array, array, "sum", options),
    }[kind];
    gpu.synchronize();
    if (kind === "repeated all-reduce") {
      for (let count = 0; count < 3; count++) {
        call();
        peer.allReduce(ofPeer, ofPeer, "sum", { stream: other! });
      }
      gpu.synchronize();
    }
    fails.with = "ncclInvalidUsage";
    if (kind !== "group") assertEquals((assertThrows(call, CudaError) as CudaError).code, "ncclInvalidUsage");
    assertStringIncludes(String(rank), "open");
    fails.with = "ncclUnhandledCudaError";
    const error = assertThrows(call, CudaError);
    delete fails.with;
    assertStringIncludes(String(rank), "failed");
    assertThrows(() => stream!.synchronize(), CudaError, error.message);
    stream!.synchronize();
    assertThrows(call, CudaError, error.message);
    for (const each of [rank, peer]) await each.abort();
  });
}

test("work whose end cannot be marked at once is marked once later", async () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const session = new Session(driver, { collectives: () => driver.collectives });
  using cuda = new Cuda(session);
  const gpu = cuda.device(0);
  const ranks = await createRanks({ cuda, gpu }, [long, long]);
  using stack = new DisposableStack();
  const streams = [0, 1, 2].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const pool = stack.use(gpu.createPool());
  const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  gpu.synchronize();
  for (const index of [0, 1]) ranks[0]!.allReduce(arrays[index]!, arrays[index]!);
  // A poll marks the first stream, and not the second.
  const createMarker = session.createMarker.bind(session);
  let created = 0, failed = 0;
  session.createMarker = (device) => {
    if (created === 1 && failed < 3) {
      failed++;
      throw new CudaError(2, "cudaEventCreate");
    }
    created++;
    return createMarker(device);
  };
  const polled = (condition: () => boolean) =>
    waitUntil(() => {
      try {
        streams[2]!.query();
      } catch (error) {
        if (!(error instanceof CudaError && error.call === "cudaEventCreate")) throw error;
      }
      return condition();
    });
  await polled(() => failed === 3);
  await polled(() => created >= 2);
  assertEquals(created, 2);
  for (let count = 0; count < 2; count++) ranks[1]!.allReduce(arrays[2]!, arrays[2]!);
  for (const stream of streams) await stream.finished();
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});
