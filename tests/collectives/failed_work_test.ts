/** Every wait behind a collective that cannot complete throws its error, and ending a communicator ends its work. */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import process from "node:process";
import { Communicator, open, SharingError } from "../../mod.ts";
import { test } from "../support/test.ts";
import { long, testRanks, timeout } from "./idle_ranks.ts";

testRanks("the end of the Cuda object ends communicators without another error", async ({ cuda, gpu, ranks }) => {
  using pool = gpu.createPool();
  {
    using array = pool.allocateArray(Float32Array, 4);
    ranks[0]!.allReduce(array, array);
  }
  const disposed = ranks[0]![Symbol.asyncDispose]();
  cuda[Symbol.dispose]();
  await disposed;
  assertThrows(() => ranks[1]!.shrink([0]), ReferenceError, "of rank 1 of 3: the Cuda object was disposed");
  // An unhandled rejection would fail the test now.
  await new Promise((resolve) => setTimeout(resolve, 20));
  for (const rank of ranks) {
    await rank.abort();
    await rank[Symbol.asyncDispose]();
  }
}, long);

testRanks("the end of the Cuda object ends waits for other ranks", async ({ cuda, gpu, ranks }) => {
  const id = Communicator.createId(cuda);
  const errors = Promise.all(
    [Communicator.create(gpu, { id, rank: 0, size: 2 }), ranks[0]!.split(0), ranks[1]!.split(undefined)].map((wait) =>
      assertRejects(() => wait, ReferenceError, "the Cuda object was disposed")
    ),
  );
  await new Promise((resolve) => setTimeout(resolve, 5));
  cuda[Symbol.dispose]();
  await errors;
}, long);

testRanks("a communicator that is disposed of while its work hangs can be aborted", async ({ gpu, ranks }) => {
  using array = gpu.createPool().allocateArray(Float32Array, 4);
  ranks[0]!.allReduce(array, array);
  const disposed = ranks[0]![Symbol.asyncDispose]();
  const again = ranks[0]![Symbol.asyncDispose]();
  await ranks[0]!.abort();
  await Promise.all([disposed, again]);
  const error = await assertRejects(() => array.toTypedArray(), SharingError, "it was aborted");
  assertEquals(error.code, "cut-off");
}, long);

testRanks("shrinking ends work that hangs with an error", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, 4);
  ranks[0]!.allReduce(array, array);
  const rest = await Promise.all(ranks.slice(0, 2).map((rank) => rank.shrink([2])));
  const error = await assertRejects(() => array.toTypedArray(), SharingError, "it was shrunk");
  assertEquals(error.code, "cut-off");
  using other = pool.allocateArray(Float32Array, 4);
  const arrays = [array, other];
  arrays.forEach((array) => array.fill(1));
  Communicator.group(() => rest.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
  await gpu.defaultStream.finished();
  for (const rank of [...rest, ...ranks]) await rank[Symbol.asyncDispose]();
}, long);

testRanks("the default stream gets the error of a blocking stream, and the other way", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using blocking = gpu.createStream();
  using other = gpu.createStream();
  using apart = gpu.createStream({ nonBlocking: true });
  for (const [used, waiting] of [[blocking, gpu.defaultStream], [gpu.defaultStream, other]] as const) {
    const rest = await Promise.all(ranks.slice(0, 2).map((rank) => rank.split(0)).concat(ranks[2]!.split(0)));
    const array = pool.allocateArray(Float32Array, 4);
    array.fill(1);
    gpu.synchronize();
    rest[0]!.allReduce(array, array, "sum", { stream: used });
    await assertRejects(() => array.toTypedArray({ stream: waiting }), SharingError, "did not take part");
    apart.synchronize();
    assertThrows(() => used.synchronize(), SharingError, "did not take part");
    gpu.defaultStream.synchronize();
    array.free();
    for (const rank of rest) await rank!.abort();
  }
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

for (const wait of ["event", "device"] as const) {
  testRanks(`a wait for the ${wait} gets the error of a stream that was disposed of`, async ({ gpu, ranks }) => {
    using array = gpu.createPool().allocateArray(Float32Array, 4);
    gpu.synchronize();
    using event = gpu.createEvent();
    {
      using stream = gpu.createStream({ nonBlocking: true });
      ranks[0]!.allReduce(array, array, "sum", { stream });
      stream.record(event);
    }
    const waits = { event: () => event.synchronize(), device: () => gpu.synchronize() };
    assertThrows(waits[wait], SharingError, "did not take part");
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  });
}

testRanks("a wait for the device throws an error of several streams once", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using one = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using array = pool.allocateArray(Float32Array, 4);
  gpu.synchronize();
  for (const stream of [one, other]) ranks[0]!.allReduce(array, array, "sum", { stream });
  assertThrows(() => gpu.synchronize(), SharingError, "did not take part");
  gpu.synchronize();
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

testRanks("a stream that once waited for another one does not get its later error", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using used = gpu.createStream({ nonBlocking: true });
  using waiting = gpu.createStream({ nonBlocking: true });
  using array = pool.allocateArray(Float32Array, 12, used);
  using event = gpu.createEvent();
  Communicator.group(() =>
    ranks.forEach((rank, index) => {
      const own = array.subarray(4 * index, 4 * index + 4);
      rank.allReduce(own, own, "sum", { stream: used });
    })
  );
  used.record(event);
  waiting.wait(event);
  await waiting.finished();
  await used.finished();
  ranks[0]!.allReduce(array, array, "sum", { stream: used });
  await assertRejects(() => used.finished(), SharingError, "did not take part");
  await waiting.finished();
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
});

for (const who of ["this rank", "another rank"]) {
  testRanks(`completed work has not failed when ${who} aborts`, async ({ gpu, ranks }) => {
    using pool = gpu.createPool();
    using waiting = gpu.createStream({ nonBlocking: true });
    using event = gpu.createEvent();
    using stack = new DisposableStack();
    const streams = ranks.map(() => stack.use(gpu.createStream({ nonBlocking: true })));
    const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
    for (const array of arrays) array.fill(1);
    gpu.synchronize();
    Communicator.group(() => ranks.forEach((rank, index) => rank.allReduce(arrays[index]!, arrays[index]!)));
    streams[0]!.record(event);
    waiting.wait(event);
    // No wait was for the stream itself.
    waiting.synchronize();
    for (const stream of streams.slice(1)) stream.synchronize();
    await ranks[who === "this rank" ? 0 : 2]!.abort();
    streams[0]!.synchronize();
    waiting.synchronize();
    assertEquals(await arrays[0]!.toTypedArray(), new Float32Array(4).fill(3));
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  }, long);
}

for (const isKnown of [false, true]) {
  const name = `waits for another stream find what hangs${isKnown ? ", if that has had collectives, too" : ""}`;
  testRanks(name, async ({ cuda, gpu, ranks }) => {
    using pool = gpu.createPool();
    using hanging = gpu.createStream({ nonBlocking: true });
    using other = gpu.createStream({ nonBlocking: true });
    using array = pool.allocateArray(Float32Array, 4, hanging);
    using bytes = pool.allocateArray(Uint8Array, 16, other);
    await using alone = await Communicator.create(gpu, { id: Communicator.createId(cuda), rank: 0, size: 1 });
    if (isKnown) {
      alone.allReduce(bytes, bytes, "sum", { stream: other });
      other.synchronize();
    }
    ranks[0]!.allReduce(array, array);
    // The loop blocks timers, so the wait itself must poll.
    for (const begin = performance.now(); performance.now() - begin < 2 * timeout;) {
      bytes.fill(1, other);
      other.synchronize();
    }
    assertThrows(() => hanging.query(), SharingError, "ranks 1 and 2 did not take part");
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  });
}

testRanks("conflicting calls of a group are refused, and none is enqueued", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using x = pool.allocateArray(Float32Array, 8);
  using y = pool.allocateArray(Float32Array, 24);
  const [a, b] = ranks as [Communicator, Communicator];
  const groups: readonly (readonly [call: () => void, message: string])[] = [
    [() => (a.send(x, 1), a.receive(x, 1)), "Cannot group receive of the communicator of rank 0 of 3 with send of"],
    [() => (a.receive(x.subarray(0, 5), 1), a.receive(x.subarray(4), 2)), "it writes what the other one writes, too"],
    [() => (a.allReduce(x, x), b.allReduce(x, x)), "allReduce of the communicator of rank 1 of 3 with allReduce of"],
    [() => (a.allGather(x, y), a.send(y.subarray(20), 1)), "it writes what the other one reads"],
    [() => (a.broadcast(x, 0), a.broadcast(y.subarray(0, 8), 1), a.receive(x.subarray(7), 1)), "with broadcast of"],
  ];
  for (const [call, message] of groups) {
    const error = assertThrows(() => Communicator.group(call), RangeError, message);
    assertStringIncludes(error.message, "the calls of a group have no order; give each its own buffer");
  }
  // Calls may read the same memory, and use adjacent ranges.
  Communicator.group(() => {
    for (const [rank, communicator] of ranks.entries()) {
      if (rank > 0) communicator.receive(y.subarray(8 * rank, 8 * rank + 8), 0);
      else for (const peer of [1, 2]) communicator.send(x, peer);
    }
  });
  await gpu.defaultStream.finished();
  for (const rank of ranks) await rank[Symbol.asyncDispose]();
}, long);

testRanks("a late rank gets an error and no result after the others have timed out", async ({ gpu, ranks }) => {
  using pool = gpu.createPool();
  using stack = new DisposableStack();
  const streams = ranks.map(() => stack.use(gpu.createStream({ nonBlocking: true })));
  const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
  const reduce = (rank: number) => ranks[rank]!.allReduce(arrays[rank]!, arrays[rank]!);
  for (const rank of [0, 1]) reduce(rank);
  const [first] = await Promise.all([0, 1].map((rank) => assertRejects(() => streams[rank]!.finished(), SharingError)));
  assertEquals(first!.code, "timed-out");
  assertMatch(first!.message, /of rank 0 of 3: rank 2 did not take part in 200 ms; ranks that one thread works for /);
  const rest = await Promise.all([0, 1].map((rank) => ranks[rank]!.shrink([2])));
  for (const isDisposed of [false, true]) {
    if (isDisposed) { for (const rank of [0, 1]) await ranks[rank]![Symbol.asyncDispose](); }
    const late = async () => {
      reduce(2);
      await streams[2]!.finished();
    };
    const error = await assertRejects(late, SharingError, "Rank 0 of 3 waits for the others no more");
    assertEquals(error.code, "timed-out");
  }
  for (const rank of [...rest, ranks[2]!]) await rank[Symbol.asyncDispose]();
}, [timeout, long, long]);

testRanks(
  "all ranks name the rank that has aborted, even if another one has timed out because of it",
  async (parts) => {
    const { gpu, ranks } = parts;
    using pool = gpu.createPool();
    using stack = new DisposableStack();
    const streams = ranks.map(() => stack.use(gpu.createStream({ nonBlocking: true })));
    const arrays = streams.map((stream) => stack.use(pool.allocateArray(Float32Array, 4, stream)));
    await ranks[2]!.abort();
    for (const rank of [0, 1]) {
      const error = await assertRejects(
        async () => {
          ranks[rank]!.allReduce(arrays[rank]!, arrays[rank]!);
          await streams[rank]!.finished();
        },
        SharingError,
        "Rank 2 of 3 has aborted",
      );
      assertEquals(error.code, "peer-gone");
    }
    for (const rank of [0, 1]) await ranks[rank]![Symbol.asyncDispose]();
  },
  long,
);

testRanks("a wait for the ranks of a split or shrink can be canceled", async ({ ranks: [rank, other, last] }) => {
  const aborted = AbortSignal.abort();
  await assertRejects(() => rank!.split(0, 0, { signal: aborted }), DOMException, "Waiting for a part of");
  await assertRejects(() => rank!.shrink([2], { signal: aborted }), DOMException, "Waiting for the rest of");
  const ending = new AbortController();
  const waiting = [rank!.split(0, 0, { signal: ending.signal }), other!.split(undefined, 0, { signal: ending.signal })];
  ending.abort();
  for (const promise of waiting) await assertRejects(() => promise, DOMException, "was aborted");
  const rest = await Promise.all([rank!, other!].map((rank) => rank.shrink([2])));
  assertEquals(rest.map(({ size }) => size), [2, 2]);
  for (const each of [...rest, rank!, other!, last!]) await each.abort();
}, long);

test("an error names the ranks that have not taken part", async () => {
  using cuda = open({ driver: "software" });
  const id = Communicator.createId(cuda);
  const create = (rank: number) => Communicator.create(cuda.device(0), { id, rank, size: 4, timeout });
  const [error] = await Promise.all([0, 2].map((rank) => assertRejects(() => create(rank), SharingError)));
  assertMatch(error!.message, /rank 0 of 4: ranks 1 and 3 did not come in 200 milliseconds$/);
});

testRanks(
  "a group enqueues nothing if a stream or communicator was disposed of before its end",
  async ({ gpu, ranks }) => {
    using pool = gpu.createPool();
    using array = pool.allocateArray(Float32Array, 4);
    const group = (call: () => void) => () => {
      Communicator.group(() => {
        for (const rank of ranks.slice(1)) rank.allReduce(array, array);
        call();
      });
    };
    const callOnGone = group(() => {
      using stream = gpu.createStream();
      ranks[0]!.allReduce(array, array, "sum", { stream });
    });
    assertThrows(callOnGone, ReferenceError, "its stream was disposed before the end of the group");
    let aborted: Promise<void> | undefined;
    const abort = group(() => {
      ranks[0]!.allReduce(array, array);
      aborted = ranks[0]!.abort();
    });
    assertThrows(abort, SharingError, "it was aborted");
    await aborted;
    // Nothing was enqueued on the stream.
    gpu.synchronize();
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  },
  long,
);

test("communicators that were created and aborted leave no memory", { long: true }, async () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  const resident = async (): Promise<number> => {
    for (let count = 0; count < 400; count++) {
      await using _communicator = await Communicator.create(gpu, { id: Communicator.createId(cuda), rank: 0, size: 1 });
    }
    // JavaScriptCore counts the device's memory as the program's, and collects nothing before that has grown much.
    (globalThis as { Bun?: { gc(isSynchronous: boolean): void } }).Bun?.gc(true);
    return process.memoryUsage().rss;
  };
  await resident();
  const before = await resident();
  await resident();
  const grown = (await resident() - before) / 2 ** 20;
  assert(grown < 12, `${grown} MiB more after 800 of them`);
});
