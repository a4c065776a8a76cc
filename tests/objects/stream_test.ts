import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaEvent } from "../../src/objects/streams/cuda_event.ts";
import type { CudaKernel } from "../../src/objects/kernels/cuda_kernel.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { Gate } from "../support/gate.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { haveSameBytes, indexOfOther } from "../support/bytes.ts";
import { warningsOf } from "../support/warnings.ts";
import type { WaitOptions } from "../../mod.ts";

const megabytes = 2 ** 20;

/** Keeps a stream busy for a while on any device: one thread writes the whole buffer. */
function occupy(stream: CudaStream, buffer: DeviceBuffer, fill: CudaKernel): void {
  fill.launch({ grid: 1, block: 1, stream }, buffer, buffer.byteLength, 1);
}

testOnEachDriver("a stream is busy until its work is done, and its events fire then", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  using buffer = pool.allocate(16 * megabytes, stream);
  using event = gpu.createEvent();
  assert(event.query(), "An event that was never recorded has nothing to wait for");
  occupy(stream, buffer, module.kernel("fill"));
  stream.record(event);
  assertEquals([stream.query(), event.query()], [false, false]);
  await event.finished();
  await stream.finished();
  assertEquals([stream.query(), event.query()], [true, true]);
});

testOnEachDriver("a stream that waits for an event sees the earlier work of another stream", async (cuda) => {
  const gpu = cuda.device(0);
  using producer = gpu.createStream({ nonBlocking: true });
  using consumer = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  using source = pool.allocate(64 * megabytes, producer);
  using target = pool.allocate(64 * megabytes, consumer);
  using event = gpu.createEvent();
  module.kernel("fill").launch({ grid: 64, block: 256, stream: producer }, source, source.byteLength, 0x01020304);
  producer.record(event);
  consumer.wait(event);
  source.copyTo(target, consumer);
  const words = await target.read(Uint32Array);
  assert(haveSameBytes(words, new Uint32Array(words.length).fill(0x01020304)));
});

testOnEachDriver(
  "the default stream's work is ordered after earlier and before later work of blocking streams",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(64 * megabytes, stream);
    using copy = pool.allocate(64 * megabytes, stream);
    buffer.fill(1, stream);
    buffer.copyTo(copy, gpu.defaultStream);
    buffer.fill(2, stream);
    const bytes = await copy.read(Uint8Array);
    assertEquals(indexOfOther(bytes, 1), -1);
  },
);

testOnEachDriver("events measure the time between them", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using buffer = pool.allocate(64 * megabytes, stream);
  using start = gpu.createEvent({ timing: true });
  using end = gpu.createEvent({ timing: true });
  using untimed = gpu.createEvent();
  stream.record(start);
  buffer.fill(1);
  stream.record(end);
  stream.record(untimed);
  await stream.finished();
  const milliseconds = end.elapsedTime(start);
  assert(milliseconds > 0 && milliseconds < 10_000, `${milliseconds}`);
  const error = assertThrows(() => end.elapsedTime(untimed), CudaError);
  assertEquals(error.code, "cudaErrorInvalidResourceHandle");
  assertThrows(() => gpu.createEvent({ timing: true, interprocess: true }), TypeError, "interprocess");
});

testOnEachDriver("a signal ends a wait with the signal's reason", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  using buffer = pool.allocate(16 * megabytes, stream);
  occupy(stream, buffer, module.kernel("fill"));
  const reason = new Error("enough");
  const controller = new AbortController();
  const waiting = stream.finished({ signal: controller.signal });
  controller.abort(reason);
  assertEquals(await assertRejects(() => waiting), reason);
  await gpu.finished();
});

testOnEachDriver("an aborted wait for the device names what was awaited", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using event = gpu.createEvent();
  using pool = gpu.createPool();
  using buffer = pool.allocate(64, stream);
  stream.record(event);
  const waits: [awaited: string, wait: (options: WaitOptions) => Promise<unknown>][] = [
    ["a stream of device 0", (options) => stream.finished(options)],
    ["an event of device 0", (options) => event.finished(options)],
    ["device 0", (options) => gpu.finished(options)],
    ["the read of 64 bytes of a buffer on device 0", (options) => buffer.read(Uint8Array, options)],
    [`memory to allocate 64 bytes from the pool on device 0`, (options) => pool.allocateAsync(64, options)],
  ];
  for (const [awaited, wait] of waits) {
    const timeout = new DOMException("The operation timed out", "TimeoutError");
    for (
      const [signal, what] of [[AbortSignal.abort(), "was aborted"], [AbortSignal.abort(timeout), "timed out"]] as const
    ) {
      const { name, message, cause } = await assertRejects(() => wait({ signal }), DOMException) as Error;
      assertEquals([name, message, cause], [signal.reason.name, `Waiting for ${awaited} ${what}`, signal.reason]);
    }
    const own = new TypeError("enough");
    assertEquals(await assertRejects(() => wait({ signal: AbortSignal.abort(own) })), own);
  }
  using module = gpu.loadModule(fillPtx);
  using large = pool.allocate(16 * megabytes, stream);
  // The first read allocates page-locked memory, which can take longer than the kernel.
  await buffer.read(Uint8Array);
  // Every wait polls at its start, and each poll of the software device runs a part of its work.
  for (let launches = 0; launches < 8; launches++) occupy(stream, large, module.kernel("fill"));
  stream.record(event);
  const controller = new AbortController();
  const pending = waits.slice(0, 4).map(([, wait]) => wait({ signal: controller.signal }));
  controller.abort();
  const messages = (await Promise.allSettled(pending)).map((result) =>
    (result as PromiseRejectedResult).reason.message
  );
  // The first kernel may have run for some time, or not have begun.
  messages[0] = messages[0].replace(/: kernel fill has run for 0\.\d s$/, "");
  assertEquals(messages, waits.slice(0, 4).map(([awaited]) => `Waiting for ${awaited} was aborted`));
  await gpu.finished();
});

testOnEachDriver("a wait that nobody awaits says that the Cuda object was disposed meanwhile", async (cuda) => {
  const gpu = cuda.device(0);
  const stream = gpu.createStream();
  const event = gpu.createEvent();
  const buffer = gpu.createPool().allocate(16 * megabytes, stream);
  occupy(stream, buffer, gpu.loadModule(fillPtx).kernel("fill"));
  stream.record(event);
  const waits = [stream.finished(), event.finished(), gpu.finished(), buffer.read(Uint8Array, { length: 64 })];
  const results = Promise.allSettled(waits);
  const warnings = await warningsOf(() => cuda[Symbol.dispose]());
  // Worker threads may still run the kernel, which is then dropped with a warning of its own.
  const others = warnings.filter((warning) => !/1 launch was dropped, .*: fill;/.test(String(warning)));
  assertEquals(others.length, 1, "the buffer and the pool");
  const awaited = [
    "a stream of device 0",
    "an event of device 0",
    "device 0",
    "the read of 64 bytes of a buffer on device 0",
  ];
  const end = "the Cuda object was disposed while it was still waiting; await it before the end of the block";
  for (const [index, result] of (await results).entries()) {
    const { reason } = result as PromiseRejectedResult;
    assert(reason instanceof ReferenceError);
    assertEquals(reason.message, `Cannot complete the wait for ${awaited[index]}: ${end}`);
  }
}, { makesMistakes: true });

testOnEachDriver("an invalid signal is refused before the wait begins", async (cuda) => {
  using stream = cuda.device(0).createStream();
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(1, stream);
  for (const signal of [5, {}, new AbortController()] as unknown as AbortSignal[]) {
    for (const wait of [() => stream.finished({ signal }), () => buffer.read(Uint8Array, { signal })]) {
      await assertRejects(wait, TypeError, "as a signal: give an AbortSignal");
    }
  }
});

testOnEachDriver("a device is finished only when its disposed streams are, too", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using buffer = pool.allocate(64 * megabytes);
  using host = cuda.allocateHost(1);
  gpu.synchronize();
  {
    using stream = gpu.createStream({ nonBlocking: true });
    for (let pass = 1; pass < 8; pass++) buffer.fill(pass, stream);
    buffer.subarray(0, 1).copyTo(host, stream);
  }
  await gpu.finished();
  assertEquals(new Uint8Array(host.buffer)[0], 7);
});

testOnEachDriver("an event is recorded on streams of its own device, and waited for on any", (cuda) => {
  const [gpu, other] = [cuda.device(0), cuda.device(1)];
  using stream = gpu.createStream();
  using otherStream = other.createStream();
  using event = gpu.createEvent();
  const error = assertThrows(() => otherStream.record(event), CudaError);
  assertEquals(error.code, "cudaErrorInvalidResourceHandle");
  const advice = "record an event of device 1, for which streams of any device can wait";
  assert(error.message.endsWith(`; ${advice}`), error.message);
  stream.record(event);
  otherStream.wait(event);
  otherStream.synchronize();
}, { devices: 2 });

testOnEachDriver(
  "errors for values that are not streams or events of the same Cuda object name the value",
  (cuda, { open }) => {
    using other = new Cuda(new Session(open()));
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using event = gpu.createEvent({ timing: true });
    using foreign = other.device(0).createEvent({ timing: true });
    const uses: ((event: CudaEvent) => unknown)[] = [
      (event) => stream.record(event),
      (event) => stream.wait(event),
      (start) => event.elapsedTime(start),
    ];
    for (const use of uses) {
      assertThrows(() => use(gpu as never), TypeError, "Cannot use a CudaDevice as an event");
      assertThrows(() => use(undefined as never), TypeError, "Cannot use undefined as an event");
      assertThrows(() => use(foreign), TypeError, "Cannot use an event of another Cuda object");
    }
  },
);

testOnEachDriver("a stream that waits for another one runs behind its work so far", (cuda, { open }) => {
  const gpu = cuda.device(0);
  using first = gpu.createStream({ nonBlocking: true });
  using second = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using buffer = pool.allocate(4, first);
  using gate = new Gate(cuda);
  gate.hold(first);
  buffer.fill(1, first);
  second.wait(first);
  second.wait(second);
  assert(!second.query());
  gate.open();
  second.synchronize();
  assert(first.query());
  using other = new Cuda(new Session(open()));
  assertThrows(() => second.wait(other.device(0).defaultStream), TypeError, "of another Cuda object");
});

testOnEachDriver("streams have the priorities that their device reports", (cuda) => {
  const gpu = cuda.device(0);
  const { least, greatest } = gpu.streamPriorityRange();
  assertEquals(least, 0);
  assert(Number.isInteger(greatest) && greatest <= least, `from ${least} to ${greatest}`);
  for (const priority of [least, greatest]) {
    using stream = gpu.createStream({ nonBlocking: true, priority });
    assert(stream.query());
    assertEquals(stream.priority, priority);
  }
  using plain = gpu.createStream({ priority: -0 });
  using unspecified = gpu.createStream();
  assertEquals([plain, unspecified, gpu.defaultStream].map((stream) => stream.priority), [0, 0, 0]);
  for (const priority of [2 ** 31, 2 ** 40, -(2 ** 31) - 1, -(2 ** 31), greatest - 1, least + 1, 0.5, NaN, Infinity]) {
    assertThrows(() => gpu.createStream({ priority }), RangeError, `Cannot use ${priority} as a stream's priority`);
  }
  assertThrows(() => gpu.createStream({ priority: "0" as never }), TypeError, "a string as a stream's priority");
  assertThrows(() => gpu.createStream({ priority: 0n as never }), TypeError, "a bigint as a stream's priority");
});

testOnEachDriver("a stream's priority can neither be set nor be read once the stream was disposed", (cuda) => {
  const stream = cuda.device(0).createStream();
  assertThrows(() => Object.assign(stream, { priority: -1 }), TypeError, "give it to createStream");
  assertEquals(stream.priority, 0);
  stream[Symbol.dispose]();
  assertThrows(() => stream.priority, ReferenceError, "it was disposed");
});
