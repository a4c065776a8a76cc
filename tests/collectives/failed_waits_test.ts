/** Exactly the waits that depend on a collective that cannot complete throw its error, and none of them hangs. */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { Communicator, type CudaDevice, type CudaStream, type DeviceArray, open, SharingError } from "../../mod.ts";
import { streamFlags } from "../../src/driver.ts";
import { sessionOf } from "../../src/objects/cuda.ts";
import { handleOf } from "../../src/objects/streams/cuda_event.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { leakTest } from "../support/resources.ts";
import { someOf, test } from "../support/test.ts";
import { createRanks, long, testRanks } from "./idle_ranks.ts";
import { environmentOf } from "./rank_processes.ts";

const late = "did not take part";
/** Milliseconds between two collectives: less than the timeout of one, but more than it all together. */
const pace = 400;

/** Waits for a little more than the timeout, while timers run. */
async function untilFailed(communicator: Communicator): Promise<void> {
  while (!String(communicator).includes("failed")) await new Promise((resolve) => setTimeout(resolve, 10));
}

for (const isDisposed of [false, true]) {
  const name = `a wait for all of a device gets the error${isDisposed ? " of a stream that was disposed of" : ""}`;
  testRanks(name, async ({ gpu, ranks }) => {
    using array = gpu.createPool().allocateArray(Float32Array, 4);
    gpu.synchronize();
    const stream = gpu.createStream({ nonBlocking: true });
    ranks[0]!.allReduce(array, array, "sum", { stream });
    if (isDisposed) stream[Symbol.dispose]();
    await assertRejects(() => gpu.finished(), SharingError, late);
    await gpu.finished();
    if (!isDisposed) stream[Symbol.dispose]();
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  });
}

testRanks("waits of the library leave the error to the program", async ({ gpu, ranks }) => {
  using array = gpu.createPool().allocateArray(Float32Array, 4);
  using apart = gpu.createPool({ maxSize: 2 ** 25 });
  gpu.synchronize();
  using stack = new DisposableStack();
  // These synchronize again with events that were found complete before.
  const waits: Readonly<Record<string, () => void>> = {
    usage: () => void apart.usage(),
    trim: () => apart.trimTo(0),
    "out of memory": () => void assertThrows(() => apart.allocate(2 ** 30), Error, "cudaErrorMemoryAllocation"),
    "disposed events": () => {
      const stream = stack.use(gpu.createStream({ nonBlocking: true }));
      for (let count = 0; count < 100; count++) {
        using event = gpu.createEvent();
        stream.record(event);
        while (!event.query());
      }
    },
  };
  for (const [name, wait] of Object.entries(waits)) {
    const parts = await Promise.all(ranks.map((rank) => rank.split(0)));
    const stream = stack.use(gpu.createStream({ nonBlocking: true }));
    while (!stream.query());
    parts[0]!.allReduce(array, array, "sum", { stream });
    await untilFailed(parts[0]!);
    wait();
    assertThrows(() => stream.synchronize(), SharingError, late, name);
    for (const part of parts) await part!.abort();
  }
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("the end of page-locked memory does not hang behind a collective", async ({ cuda, gpu, ranks }) => {
  using array = gpu.createPool().allocateArray(Float32Array, 4);
  using stream = gpu.createStream({ nonBlocking: true });
  gpu.synchronize();
  const host = cuda.allocateHost(64);
  ranks[0]!.allReduce(array, array, "sum", { stream });
  host[Symbol.dispose]();
  assertThrows(() => stream.synchronize(), SharingError, late);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("the end of another process's memory does not hang behind a collective", async ({ cuda, gpu, ranks }) => {
  using array = gpu.createPool().allocateArray(Float32Array, 4);
  using stream = gpu.createStream({ nonBlocking: true });
  gpu.synchronize();
  // The collective waits for a rank that does not take part.
  const args = ["software", Communicator.createId(cuda).toHex(), "0"];
  await using child = startScript("children/collectives/reduce_and_die.ts", args);
  const opened = gpu.openMemory(Uint8Array.fromHex((await child.nextLine())!), 64);
  ranks[0]!.allReduce(array, array, "sum", { stream });
  opened.free();
  assertThrows(() => stream.synchronize(), SharingError, late);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("an event throws the errors of the work before it", async ({ cuda, gpu, ranks }) => {
  using pool = gpu.createPool();
  using stack = new DisposableStack();
  const [used, behindFirst, behindSecond, idle, afterwards] = Array.from({ length: 5 }, () => {
    return stack.use(gpu.createStream({ nonBlocking: true }));
  }) as [CudaStream, CudaStream, CudaStream, CudaStream, CudaStream];
  const [before, first, second] = [0, 1, 2].map(() => stack.use(gpu.createEvent()));
  using array = pool.allocateArray(Float32Array, 12, used);
  // All work is complete when this wait begins.
  used.record(before!);
  gpu.synchronize();
  idle.wait(before!);
  idle.synchronize();
  Communicator.group(() =>
    ranks.forEach((rank, index) => {
      const own = array.subarray(4 * index, 4 * index + 4);
      rank.allReduce(own, own, "sum", { stream: used });
    })
  );
  used.record(first!);
  behindFirst.wait(first!);
  // Only the driver is queried: the library does not learn of the completion.
  while (!sessionOf(cuda).driver.eventQuery(handleOf(first!), { forLibrary: true }));
  ranks[0]!.allReduce(array, array, "sum", { stream: used });
  used.record(second!);
  behindSecond.wait(second!);
  await untilFailed(ranks[0]!);
  first!.synchronize();
  afterwards.wait(first!);
  for (const stream of [idle, behindFirst, afterwards]) stream.synchronize();
  assertThrows(() => second!.synchronize(), SharingError, late);
  assertThrows(() => behindSecond.synchronize(), SharingError, late);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("the timeout of work behind another communicator's starts when its turn comes", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using stack = new DisposableStack();
  const [shared, own] = [0, 1].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const [a, b, c] = [shared!, shared!, own!].map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  for (const array of [a!, b!, c!]) array.fill(1);
  gpu.synchronize();
  // The other rank of these has a long timeout.
  const behind = await createRanks(parts, [200, long]);
  ranks[0]!.allReduce(a!, a!, "sum", { stream: shared! });
  Communicator.group(() => {
    behind[0]!.allReduce(b!, b!, "sum", { stream: shared! });
    behind[1]!.allReduce(c!, c!, "sum", { stream: own! });
  });
  const error = assertThrows(() => shared!.synchronize(), SharingError, late);
  assertStringIncludes(error.message, "rank 0 of 3: ranks 1 and 2");
  own!.synchronize();
  shared!.synchronize();
  assertEquals(await b!.toTypedArray({ stream: own! }), new Float32Array(4).fill(2));
  for (const rank of [...ranks, ...behind]) await rank[Symbol.asyncDispose]();
});

testRanks("after a group of two communicators on one stream, a hang is attributed to the right one", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using shared = gpu.createStream({ nonBlocking: true });
  using apart = gpu.createStream({ nonBlocking: true });
  const all = [shared, shared, apart, apart].map((stream) => pool.allocateArray(Float32Array, 4, stream));
  using stack = new DisposableStack();
  const [a, b, ofPeerA, ofPeerB] = all.map((array) => stack.use(array)) as [
    DeviceArray<Float32Array>,
    DeviceArray<Float32Array>,
    DeviceArray<Float32Array>,
    DeviceArray<Float32Array>,
  ];
  // The first communicator takes longer than the timeout of the second, whose turn comes after it.
  const [hanging, behind] = [await createRanks(parts, [600, long]), await createRanks(parts, [200, long])];
  const sum = (rank: Communicator | undefined, array: DeviceArray<Float32Array>) => rank!.allReduce(array, array);
  Communicator.group(() => {
    sum(behind[0], b);
    sum(hanging[0], a);
    sum(behind[1], ofPeerB);
    sum(hanging[1], ofPeerA);
  });
  sum(hanging[0], a);
  Communicator.group(() => {
    sum(behind[0], b);
    sum(behind[1], ofPeerB);
  });
  const error = assertThrows(() => shared.synchronize(), SharingError, late);
  assertStringIncludes(error.message, "in 600 ms");
  shared.synchronize();
  apart.synchronize();
  Communicator.group(() => {
    sum(behind[0], b);
    sum(behind[1], ofPeerB);
  });
  shared.synchronize();
  apart.synchronize();
  for (const rank of [...ranks, ...hanging, ...behind]) await rank.abort();
}, long);

testRanks("a communicator on one stream waits for the work of another one on another stream", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using stack = new DisposableStack();
  const [first, second, apart] = [0, 1, 2].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  using event = gpu.createEvent();
  const [a, b, ofPeerA, ofPeerB] = [first!, second!, apart!, apart!].map((stream) => {
    return stack.use(pool.allocateArray(Float32Array, 4, stream));
  });
  gpu.synchronize();
  const [waiting, slow] = [await createRanks(parts, [200, long]), await createRanks(parts, [long, long])];
  Communicator.group(() => {
    waiting[0]!.allReduce(a!, a!);
    waiting[1]!.allReduce(ofPeerA!, ofPeerA!);
  });
  slow[0]!.allReduce(b!, b!);
  second!.record(event);
  first!.wait(event);
  Communicator.group(() => {
    waiting[0]!.allReduce(a!, a!);
    waiting[1]!.allReduce(ofPeerA!, ofPeerA!);
  });
  // Longer than the timeout of the first one, whose turn has not come.
  await new Promise((resolve) => setTimeout(resolve, 500));
  slow[1]!.allReduce(ofPeerB!, ofPeerB!, "sum", { stream: stack.use(gpu.createStream({ nonBlocking: true })) });
  for (const stream of [first!, second!, apart!]) await stream.finished();
  for (const rank of [...ranks, ...waiting, ...slow]) await rank.abort();
}, long);

testRanks("a collective waits for its communicator's earlier one on another stream", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using stack = new DisposableStack();
  const streams = [0, 1, 2, 3, 4].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const [a, b, ofPeerA, ofPeerB, ofSlow] = streams.map((stream) =>
    stack.use(pool.allocateArray(Float32Array, 4, stream))
  );
  gpu.synchronize();
  const [waiting, slow] = [await createRanks(parts, [300, long]), await createRanks(parts, [long, long])];
  slow[0]!.allReduce(a!, a!);
  // The first one of this communicator waits for the slow one, and the second one for the first one.
  for (const [own, ofPeer] of [[a!, ofPeerA!], [b!, ofPeerB!]] as const) {
    waiting[0]!.allReduce(own, own);
    waiting[1]!.allReduce(ofPeer, ofPeer);
  }
  await new Promise((resolve) => setTimeout(resolve, 800));
  slow[1]!.allReduce(ofSlow!, ofSlow!);
  for (const stream of streams) await stream.finished();
  for (const rank of [...ranks, ...waiting, ...slow]) await rank.abort();
}, long);

testRanks("blocking streams without work do not throw another blocking stream's error", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using used = gpu.createStream();
  using other = gpu.createStream();
  using array = pool.allocateArray(Float32Array, 4, used);
  gpu.synchronize();
  ranks[0]!.allReduce(array, array);
  assertThrows(() => used.synchronize(), SharingError, late);
  other.synchronize();
  using created = gpu.createStream();
  created.synchronize();
  assertThrows(() => gpu.defaultStream.synchronize(), SharingError, late);
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("a wait throws the errors of all ranks of this process once", async ({ cuda, gpu, ranks }) => {
  const buffers = ranks.map(() => gpu.allocate(16));
  const arrays = buffers.map((buffer) => buffer.as(Float32Array));
  await ranks[2]!.abort();
  const left = ranks.slice(0, 2);
  assertThrows(
    () => {
      Communicator.group(() => left.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
      gpu.defaultStream.synchronize();
    },
    SharingError,
    "Rank 2 of 3 has aborted",
  );
  const others = await createRanks({ cuda, gpu }, [long, long]);
  for (const array of arrays) array.fill(1);
  Communicator.group(() => others.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
  assertEquals(await arrays[0]!.toTypedArray(), new Float32Array(4).fill(2));
  for (const rank of [...ranks, ...others]) await rank.abort();
  for (const buffer of buffers) buffer.free();
});

testRanks("the timeout of a collective starts when the work before it has completed", async ({ gpu, ranks }) => {
  using stack = new DisposableStack();
  const streams = ranks.map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const pool = stack.use(gpu.createPool());
  const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  const events = Array.from({ length: 4 }, () => gpu.createEvent());
  for (const array of arrays) array.fill(1);
  for (const event of events) {
    ranks[0]!.allReduce(arrays[0]!, arrays[0]!, "sum", { stream: streams[0]! });
    streams[0]!.record(event);
  }
  const finished = streams[0]!.finished();
  for (const _event of events) {
    await new Promise((resolve) => setTimeout(resolve, pace));
    for (const rank of [1, 2]) {
      ranks[rank]!.allReduce(arrays[rank]!, arrays[rank]!, "sum", { stream: streams[rank]! });
    }
  }
  await finished;
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
}, 1000);

testRanks("each wait for a device throws the error of another communicator", async (parts) => {
  const { gpu, ranks } = parts;
  using pool = gpu.createPool();
  using stack = new DisposableStack();
  const others = await createRanks(parts, [200, 200]);
  for (const rank of [ranks[0]!, others[0]!]) {
    const stream = stack.use(gpu.createStream({ nonBlocking: true }));
    const array = stack.use(pool.allocateArray(Float32Array, 4, stream));
    rank.allReduce(array, array);
  }
  await untilFailed(ranks[0]!);
  await untilFailed(others[0]!);
  const sizes = [0, 1].map(() =>
    /of rank 0 of (\d):/.exec(assertThrows(() => gpu.synchronize(), SharingError).message)?.[1]
  );
  assertEquals(sizes.sort(), ["2", "3"]);
  gpu.synchronize();
  for (const rank of [...ranks, ...others]) await rank[Symbol.asyncDispose]();
});

leakTest("a wrapped stream is released when it is disposed of", async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  // The calls of another library are not observed.
  const { driver } = sessionOf(cuda);
  const handle = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
  const ranks = await createRanks({ cuda, gpu }, [long, long]);
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, 8);
  gpu.synchronize();
  const memory = gpu.allocate(16);
  {
    using stream = gpu.wrapStream(handle);
    Communicator.group(() =>
      ranks.forEach((rank, index) => {
        const own = array.subarray(4 * index, 4 * index + 4);
        rank.allReduce(own, own, "sum", { stream });
      })
    );
  }
  driver.streamDestroy(0, handle);
  gpu.synchronize();
  memory.free();
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("a stream that its owner destroys early does not stop the watchdog", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using other = gpu.createStream({ nonBlocking: true });
  using hanging = gpu.createStream({ nonBlocking: true });
  using array = pool.allocateArray(Float32Array, 8, other);
  gpu.synchronize();
  const owner = gpu.createStream({ nonBlocking: true });
  const wrapped = gpu.wrapStream(owner.unsafeHandle);
  ranks[0]!.allReduce(array.subarray(0, 4), array.subarray(0, 4), "sum", { stream: hanging });
  ranks[0]!.allReduce(array.subarray(4), array.subarray(4), "sum", { stream: wrapped });
  owner[Symbol.dispose]();
  other.synchronize();
  await untilFailed(ranks[0]!);
  assertThrows(() => hanging.synchronize(), SharingError, late);
  try {
    gpu.synchronize();
  } catch (error) {
    assertMatch((error as Error).message, /did not take part/);
  }
  await ranks[0]!.abort();
  wrapped[Symbol.dispose]();
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

/** The results of waits for completed work on the first of some streams. */
interface Done {
  readonly gpu: CudaDevice;
  readonly streams: readonly CudaStream[];
  readonly other: CudaStream;
  readonly follower: CudaStream;
  readonly event: ReturnType<CudaDevice["createEvent"]>;
  readonly communicator: Communicator;
}

const waitsForDone: Readonly<Record<string, (done: Done) => void | Promise<void>>> = {
  "stream.synchronize": ({ streams }) => streams.forEach((stream) => stream.synchronize()),
  "stream.finished": async ({ streams }) => void await Promise.all(streams.map((stream) => stream.finished())),
  "event.synchronize": ({ event }) => event.synchronize(),
  "event.finished": ({ event }) => event.finished(),
  "device.synchronize": ({ gpu }) => gpu.synchronize(),
  "a wait for a stream that waits": ({ follower }) => follower.synchronize(),
  "a wait for another stream": ({ other }) => other.synchronize(),
  "the communicator's end": ({ communicator }) => communicator[Symbol.asyncDispose](),
};

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);
  for (const streamCount of [1, 2]) {
    const name = `what was done before its peer was killed has not failed, on ${streamCount} streams`;
    test(`${name} [${driver}]`, { skip }, async () => {
      for (const [name, wait] of someOf(Object.entries(waitsForDone), 4)) {
        using cuda = open({ driver });
        const gpu = cuda.device(0);
        const id = Communicator.createId(cuda);
        const args = [driver, id.toHex(), `${streamCount}`];
        await using child = startScript("children/collectives/reduce_and_die.ts", args, environmentOf(driver, 1));
        await using communicator = await Communicator.create(gpu, { id, rank: 0, size: 2 });
        using stack = new DisposableStack();
        const pool = stack.use(gpu.createPool());
        const [other, follower] = [0, 1].map(() => stack.use(gpu.createStream({ nonBlocking: true })));
        const event = stack.use(gpu.createEvent());
        const streams = Array.from({ length: streamCount }, () => {
          return stack.use(gpu.createStream({ nonBlocking: true }));
        });
        const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
        for (const array of arrays) {
          array.fill(1);
          communicator.allReduce(array, array);
        }
        streams[0]!.record(event);
        follower!.wait(event);
        // The software device makes progress during queries, a GPU by itself.
        const { driver: calls } = sessionOf(cuda);
        const isIdle = (stream: CudaStream) => calls.streamQuery(0, stream.unsafeHandle, { forLibrary: true });
        while (!streams.every(isIdle)) await new Promise((resolve) => setTimeout(resolve, 1));
        while (await child.nextLine() !== undefined);
        await child.ended;
        await wait({ gpu, streams, other: other!, follower: follower!, event, communicator });
        for (const [index, stream] of streams.entries()) {
          stream.synchronize();
          assertEquals(await arrays[index]!.toTypedArray({ stream }), new Float32Array(4).fill(3), name);
        }
        await communicator.abort();
      }
    });
  }
}
