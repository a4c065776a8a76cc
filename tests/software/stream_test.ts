import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { fillLaunch } from "../conformance/launch.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { warningsOf } from "../support/warnings.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Event, Scheduler, Stream } from "../../src/software/execution/streams.ts";
import { testSoftware } from "../support/software_devices.ts";
import { haveSameBytes, indexOfOther } from "../support/bytes.ts";

const megabytes = 2 ** 20;

testSoftware("synchronizing a device waits for the work of destroyed streams", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using buffer = pool.allocate(64 * megabytes);
  using host = cuda.allocateHost(1);
  gpu.synchronize();
  {
    using stream = gpu.createStream({ nonBlocking: true });
    buffer.fill(9, stream);
    buffer.subarray(64 * megabytes - 1).copyTo(host, stream);
  }
  gpu.synchronize();
  assertEquals(new Uint8Array(host.buffer), Uint8Array.of(9));
});

test("launches that are dropped with the Cuda object are named", async () => {
  const cudaWith = (): Cuda => new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false })));
  const launch = (cuda: Cuda, launches: number): CudaStream => {
    const gpu = cuda.device(0);
    const stream = gpu.createStream();
    const buffer = gpu.defaultPool.allocate(16, stream);
    const fill = gpu.loadModule(fillPtx).kernel("fill");
    for (let count = 0; count < launches; count++) {
      fill.launch({ grid: 1, block: 4, stream }, buffer, 16, 0);
    }
    buffer.free();
    return stream;
  };
  const dropped = await warningsOf(() => {
    for (const launches of [1, 3]) {
      using cuda = cudaWith();
      launch(cuda, launches);
    }
  });
  const [rest, advice] = ["dropped, because the Cuda object was disposed before anything had waited for", "first"];
  assertEquals(dropped, [
    `poolpass: 1 launch was ${rest} it: fill; await stream.finished() ${advice}`,
    `poolpass: 3 launches were ${rest} them: fill x 3; await stream.finished() ${advice}`,
  ]);
  const awaited = await warningsOf(async () => {
    using cuda = cudaWith();
    await launch(cuda, 2).finished();
  });
  assertEquals(awaited, []);
});

testSoftware("freeing page-locked memory waits for all work of the devices", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using source = pool.allocate(32 * megabytes, stream);
  using target = pool.allocate(32 * megabytes, other);
  const host = cuda.allocateHost(32 * megabytes);
  new Uint8Array(host.buffer).fill(4);
  source.fill(1);
  source.copyTo(host, stream);
  stream.synchronize();
  new Uint8Array(host.buffer).fill(4);
  target.copyFrom(host, other);
  host[Symbol.dispose]();
  assertEquals(indexOfOther(await target.read(Uint8Array), 4), -1);
  const unused = cuda.allocateHost(4);
  // So many that other threads do not do them all before the stream is asked.
  for (let value = 0; value < 40; value++) source.fill(value);
  assertEquals(stream.query(), false);
  unused[Symbol.dispose]();
  assertEquals(stream.query(), true);
});

testSoftware("a kernel runs only on streams of its own device, but copies and waits on any", (cuda, driver) => {
  const [gpu, peer] = [cuda.device(0), cuda.device(1)];
  using stream = gpu.createStream();
  using peerStream = peer.createStream();
  using pool = gpu.createPool();
  using buffer = pool.allocate(64, stream);
  const module = driver.moduleLoadData(0, fillPtx);
  const fill = driver.moduleGetFunction(module, "fill");
  const launch = (device: number, handle: bigint) => {
    const { address } = buffer;
    driver.launchKernel(
      fillLaunch(driver, { device, kernel: fill }, { address, byteLength: 64, pattern: 0x03030303, stream: handle }),
    );
  };
  for (const [device, handle] of [[0, peerStream.unsafeHandle], [1, peerStream.unsafeHandle], [1, 0n]] as const) {
    assertEquals(assertThrows(() => launch(device, handle), CudaError).code, "cudaErrorInvalidResourceHandle");
  }
  launch(1, stream.unsafeHandle);
  const event = driver.eventCreateWithFlags(0, 0);
  driver.eventRecord(0, event, stream.unsafeHandle);
  driver.streamWaitEvent(0, peerStream.unsafeHandle, event);
  const bytes = new Uint8Array(64);
  driver.memcpyDtoHAsync(0, bytes, buffer.address, peerStream.unsafeHandle);
  assertEquals(bytes, new Uint8Array(64).fill(3));
  const error = assertThrows(() => driver.eventRecord(0, event, peerStream.unsafeHandle), CudaError);
  assertEquals(error.code, "cudaErrorInvalidResourceHandle");
});

testSoftware(
  "a copy between overlapping ranges behaves like one through a temporary copy, in both directions",
  async (cuda, driver) => {
    using pool = cuda.device(0).createPool();
    using buffer = pool.allocate(20 * megabytes);
    const { address, stream } = buffer;
    const length = 19 * megabytes;
    const start = new Uint32Array(5 * megabytes).map((_, index) => index);
    for (const [from, to] of [[0, megabytes], [megabytes, 0]] as const) {
      buffer.copyFrom(start);
      // DeviceBuffer refuses such a copy.
      driver.memcpyAsync(0, address + BigInt(to), address + BigInt(from), length, stream.unsafeHandle);
      const expected = start.slice();
      expected.copyWithin(to / 4, from / 4, (from + length) / 4);
      const words = await buffer.read(Uint32Array);
      assert(haveSameBytes(words, expected), `from ${from} to ${to}`);
    }
  },
);

test("whatever a piece of work throws, cleanups run and the event loop continues", async () => {
  const failures: unknown[] = [];
  const scheduler = new Scheduler((device, cause) => failures.push([device, cause]));
  const [failing, other] = [new Stream(3, { isBlocking: false }), new Stream(4, { isBlocking: false })];
  scheduler.addStream(failing);
  scheduler.addStream(other);
  const cause = new WebAssembly.RuntimeError("unreachable");
  const done: string[] = [];
  scheduler.enqueue(failing, () => {
    throw cause;
  });
  const dropped = scheduler.enqueue(failing, () => done.push("dropped"));
  scheduler.enqueue(failing, () => done.push("kept"), { outlivesDevice: true });
  const droppedToo = scheduler.enqueue(other, () => done.push("other"), { after: [dropped] });
  scheduler.enqueue(other, () => done.push("kept too"), { after: [droppedToo], outlivesDevice: true });
  while (!failing.isIdle || !other.isIdle) await new Promise((resolve) => setTimeout(resolve, 1));
  assertEquals(failures, [[3, cause]]);
  assertEquals([dropped.done, droppedToo.done, done.toSorted()], [true, true, ["kept", "kept too"]]);
  scheduler.enqueue(failing, () => {
    throw cause;
  }, { outlivesDevice: true });
  scheduler.runUntil(() => scheduler.isIdle(3));
});

test("work that other threads run is stopped everywhere before any of it is waited for", () => {
  const calls: string[] = [];
  // Work of two streams runs elsewhere, until the scheduler ends it.
  const begin = (): { scheduler: Scheduler; failing: Stream } => {
    const scheduler = new Scheduler(() => {});
    const [first, second, failing] = Array.from({ length: 3 }, () => new Stream(0, { isBlocking: false }));
    for (const stream of [first!, second!, failing!]) scheduler.addStream(stream);
    for (const [index, stream] of [first!, second!].entries()) {
      scheduler.enqueue(stream, () => ({
        isDone: false,
        isStarved: false,
        help: () => false,
        stop: () => void calls.push(`stop ${index}`),
        cancel: () => void calls.push(`cancel ${index}`),
      }));
      scheduler.step();
    }
    return { scheduler, failing: failing! };
  };
  const expected = ["stop 0", "stop 1", "cancel 0", "cancel 1"];
  begin().scheduler.close();
  assertEquals(calls.splice(0), expected);
  const { scheduler, failing } = begin();
  scheduler.enqueue(failing, () => {
    throw new Error("fault");
  });
  scheduler.step();
  assertEquals(calls, expected);
  scheduler.close();
});

test("records drop destroyed streams whose work is done", () => {
  const scheduler = new Scheduler(() => {});
  const lasting = new Stream(0, { isBlocking: false });
  scheduler.addStream(lasting);
  const event = new Event(0, 0);
  for (let count = 0; count < 500; count++) {
    const brief = new Stream(0, { isBlocking: false });
    scheduler.addStream(brief);
    scheduler.record(event, brief);
    scheduler.wait(lasting, event);
    scheduler.removeStream(brief);
  }
  scheduler.record(event, lasting);
  assertEquals(event.cameAfter.size, 500);
  scheduler.runUntil(() => scheduler.isIdle(0));
  scheduler.record(event, lasting);
  assertEquals(event.cameAfter.size, 0);
});

test("a record is unaffected by later waits of its stream", () => {
  const scheduler = new Scheduler(() => {});
  const [first, second, third] = Array.from({ length: 3 }, () => new Stream(0, { isBlocking: false })) as [
    Stream,
    Stream,
    Stream,
  ];
  for (const stream of [first, second, third]) scheduler.addStream(stream);
  const [early, late] = [new Event(0, 0), new Event(0, 0)];
  const before = scheduler.enqueue(first, () => true);
  scheduler.record(early, second);
  scheduler.record(late, first);
  scheduler.wait(second, late);
  scheduler.wait(third, early);
  assertEquals([scheduler.comesAfter(second, before), scheduler.comesAfter(third, before)], [true, false]);
  scheduler.record(early, second);
  scheduler.wait(third, early);
  assert(scheduler.comesAfter(third, before));
});

test("of the streams that can run, those of a greater priority run first, and the others not too late", () => {
  const scheduler = new Scheduler((_, cause) => {
    throw cause;
  });
  const [low, high, second] = [0, -2, -1].map((priority) => {
    const stream = new Stream(0, { isBlocking: false, priority });
    scheduler.addStream(stream);
    return stream;
  }) as [Stream, Stream, Stream];
  const order: string[] = [];
  const enqueue = (stream: Stream, name: string) => scheduler.enqueue(stream, () => void order.push(name));
  for (const index of [0, 1]) {
    enqueue(low, `low ${index}`);
    enqueue(second, `second ${index}`);
    enqueue(high, `high ${index}`);
  }
  while (scheduler.step());
  assertEquals(order.join(", "), "high 0, high 1, second 0, second 1, low 0, low 1");
  // A kernel of a greater priority that waits for one of a lesser priority does not wait for ever.
  let isOpen = false, turns = 0;
  scheduler.enqueue(high, () => {
    turns++;
    return isOpen;
  });
  scheduler.enqueue(low, () => {
    isOpen = true;
  });
  while (scheduler.step());
  assert(isOpen && turns > 1 && turns < 100, String(turns));
  // Streams of the same priority take turns.
  const [a, b] = ["a", "b"].map((name) => {
    const stream = new Stream(0, { isBlocking: false, priority: -2 });
    scheduler.addStream(stream);
    for (const _ of [0, 1, 2]) enqueue(stream, name);
    return stream;
  }) as [Stream, Stream];
  order.length = 0;
  while (scheduler.step());
  assertEquals(order.join(""), "ababab");
  assert(a.isIdle && b.isIdle);
  scheduler.close();
});

testSoftware(
  "a kernel on a stream of a greater priority is done before many that were launched earlier",
  async (cuda) => {
    const gpu = cuda.device(0);
    using low = gpu.createStream({ nonBlocking: true });
    using high = gpu.createStream({ nonBlocking: true, priority: gpu.streamPriorityRange().greatest });
    using module = gpu.loadModule(fillPtx);
    const fill = module.kernel("fill");
    using buffer = gpu.allocate(2 * megabytes);
    for (let count = 0; count < 200; count++) {
      fill.launch(
        { grid: 8, block: 32, stream: low },
        buffer,
        megabytes,
        count,
      );
    }
    fill.launch({ grid: 8, block: 32, stream: high }, buffer.subarray(megabytes), megabytes, 1);
    await high.finished();
    assert(!low.query());
    await low.finished();
  },
);
