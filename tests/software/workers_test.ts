/** Worker threads run blocks of kernels: with the results, faults and prints of one thread, and while this one is free. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { performance } from "node:perf_hooks";
import { ptx as matrixMultiplyPtx } from "../../kernels/matrix_multiply.ts";
import {
  fieldsOfBefore,
  Job,
  JobBoard,
  jobCount,
  type JobFields,
} from "../../src/software/execution/workers/job_board.ts";
import { processWorkers, sharingPolicy } from "../../src/software/execution/workers/workers.ts";
import { type Delegated, Event, Scheduler, Stream } from "../../src/software/execution/streams.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { Session } from "../../src/session.ts";
import { remainingLines, startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

const threads = 3;

/** Calls `body` with a software device that gives all blocks to worker threads if it has several threads. */
async function withThreads<Result>(count: number, body: (cuda: Cuda) => Result | Promise<Result>): Promise<Result> {
  const usual = { ...sharingPolicy };
  try {
    sharingPolicy.firstSliceMilliseconds = -1;
    processWorkers(new LinearMemory()).startAll(threads);
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, threads: count })));
    return await body(cuda);
  } finally {
    Object.assign(sharingPolicy, usual);
  }
}

/** A kernel with the parameters `p`, an address, and `n`, a number. `%r0` is the thread, `%r1` its block. */
const kernelOf = (body: string, declarations = "") =>
  `.version 7.0
.target sm_70
.address_size 64
${declarations}
.visible .entry kernel(.param .u64 p, .param .u32 n) {
.reg .pred %p<4>;
.reg .u32 %r<20>;
.reg .u64 %rd<10>;
ld.param.u64 %rd0, [p];
ld.param.u32 %r9, [n];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.u32 %r0, %r1, %r2, %r3;
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd1, %rd0, %rd1;
${body}
}`;

/** Steps of a pseudorandom generator, `n` of them, from the number of the thread. */
const calculate = `mov.u32 %r4, 0;
add.u32 %r5, %r0, 1;
LOOP: shl.b32 %r6, %r5, 13; xor.b32 %r5, %r5, %r6;
shr.u32 %r6, %r5, 17; xor.b32 %r5, %r5, %r6;
shl.b32 %r6, %r5, 5; xor.b32 %r5, %r5, %r6;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p0, %r4, %r9;
@%p0 bra LOOP;`;

/** Each thread adds the value of its neighbour in the block, after a barrier. */
const exchange = `mul.lo.u32 %r7, %r3, 4;
mov.u32 %r8, shared;
add.u32 %r10, %r8, %r7;
st.shared.u32 [%r10], %r5;
bar.sync 0;
xor.b32 %r7, %r7, 4;
add.u32 %r10, %r8, %r7;
ld.shared.u32 %r6, [%r10];
add.u32 %r5, %r5, %r6;`;

const programs: Readonly<Record<string, string>> = {
  "in loops": kernelOf(`${calculate}\nst.global.u32 [%rd1], %r5;`),
  "with barriers": kernelOf(
    `${calculate}\n${exchange}\nst.global.u32 [%rd1], %r5;`,
    ".shared .align 4 .b8 shared[1024];",
  ),
  "with malloc": kernelOf(
    `{ .param .b64 size; .param .b64 found;
mov.u64 %rd2, 64; st.param.b64 [size], %rd2;
call.uni (found), malloc, (size);
ld.param.b64 %rd3, [found]; }
${calculate}
st.u32 [%rd3], %r5;
ld.u32 %r5, [%rd3];
{ .param .b64 freed; st.param.b64 [freed], %rd3; call.uni free, (freed); }
st.global.u32 [%rd1], %r5;`,
    ".extern .func (.param .b64 found) malloc(.param .b64 size);\n.extern .func free(.param .b64 freed);",
  ),
  "atomically": kernelOf(`${calculate}
and.b32 %r6, %r0, 63;
mul.wide.u32 %rd2, %r6, 4;
add.u64 %rd2, %rd0, %rd2;
red.global.add.u32 [%rd2], %r5;`),
};

const blocks = 200, blockSize = 64;

/** Runs a kernel, and returns the words that it leaves in a buffer. */
async function run(cuda: Cuda, ptx: string, n: number): Promise<Uint32Array> {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using buffer = pool.allocate(blocks * blockSize * 4, stream);
  buffer.fill(0, stream);
  gpu.loadModule(ptx).kernel("kernel").launch({ grid: blocks, block: blockSize, stream }, buffer, n);
  return await buffer.read(Uint32Array, { stream });
}

for (const [what, ptx] of Object.entries(programs)) {
  test(`the results of several threads are those of one: ${what}`, async () => {
    const expected = await withThreads(1, (cuda) => run(cuda, ptx, 50));
    for (let round = 0; round < 3; round++) {
      assertEquals(await withThreads(threads, (cuda) => run(cuda, ptx, 50)), expected);
    }
  });
}

test("the results of several threads are those of one: a matrix product", async () => {
  const size = 96;
  const product = (count: number) =>
    withThreads(count, async (cuda) => {
      const gpu = cuda.device(0);
      using pool = gpu.createPool();
      const numbers = Float32Array.from({ length: size * size }, (_, index) => Math.sin(index));
      const [a, b, c] = [numbers, numbers.toReversed(), numbers].map((values) => {
        const buffer = pool.allocate(values.byteLength);
        buffer.copyFrom(values);
        return buffer;
      }) as [DeviceBuffer, DeviceBuffer, DeviceBuffer];
      const kernel = gpu.loadModule(matrixMultiplyPtx).kernel("matrix_multiply");
      kernel.launch({ grid: [size / 16, size / 16], block: [16, 16] }, c, a, b, size, size, size);
      const product = await c.read(Float32Array);
      for (const buffer of [a, b, c]) buffer.free();
      return product;
    });
  assertEquals(await product(threads), await product(1));
});

test("blocks on several threads wait for each other, the first for the last", async () => {
  // Each block waits until the block after it has stored its number.
  const ptx = kernelOf(`setp.ne.u32 %p1, %r3, 0;
@%p1 bra END;
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd2, %rd0, %rd2;
add.u32 %r4, %r1, 1;
setp.eq.u32 %p0, %r4, %r9;
@%p0 bra STORE;
WAIT: ld.acquire.gpu.global.u32 %r5, [%rd2+4];
setp.ne.u32 %p0, %r5, %r4;
@%p0 bra WAIT;
STORE: st.release.gpu.global.u32 [%rd2], %r1;
END: bar.sync 0;`);
  const grid = 100;
  const expected = Uint32Array.from({ length: grid }, (_, block) => block);
  for (const count of [1, threads, threads]) {
    const found = await withThreads(count, async (cuda) => {
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      using buffer = pool.allocate(grid * 4, stream);
      buffer.fill(0xff, stream);
      gpu.loadModule(ptx).kernel("kernel").launch({ grid, block: 32, stream }, buffer, grid);
      return await buffer.read(Uint32Array, { stream });
    });
    assertEquals(found, expected);
  }
});

test("the work of a stream goes on while this thread is busy: launches, fills, copies and records, in order", async () => {
  await withThreads(threads, async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    const count = blocks * blockSize;
    using buffer = pool.allocateArray(Uint32Array, count, stream);
    using copy = pool.allocateArray(Uint32Array, count, stream);
    using host = cuda.allocateHost(4 * count);
    using before = gpu.createEvent({ timing: true });
    using after = gpu.createEvent({ timing: true });
    const kernel = gpu.loadModule(programs["in loops"]!).kernel("kernel");
    using laterHost = cuda.allocateHost(4 * count);
    const [words, later] = [host, laterHost].map(({ buffer }) => new Uint32Array(buffer)) as [Uint32Array, Uint32Array];
    const expected = await run(cuda, programs["in loops"]!, 300);
    const expectedLater = await run(cuda, programs["in loops"]!, 500);
    stream.synchronize();
    stream.record(before);
    stream.synchronize();
    kernel.launch({ grid: blocks, block: blockSize, stream }, buffer, 3000);
    buffer.fill(7, stream);
    kernel.launch({ grid: blocks, block: blockSize, stream }, buffer, 300);
    stream.record(after);
    buffer.copyTo(copy, stream);
    // Another stream waits for this one, and this one for that.
    using other = gpu.createStream({ nonBlocking: true });
    using copied = gpu.createEvent();
    using added = gpu.createEvent();
    stream.record(copied);
    other.wait(copied);
    kernel.launch({ grid: blocks, block: blockSize, stream: other }, buffer, 500);
    other.record(added);
    copy.copyTo(host, stream);
    stream.wait(added);
    buffer.copyTo(laterHost, stream);
    // Nothing but other threads can do the work meanwhile.
    const start = performance.now();
    while (Atomics.load(later, count - 1) !== expectedLater[count - 1] && performance.now() - start < 30_000);
    assertEquals(words, expected);
    assertEquals(later, expectedLater);
    stream.synchronize();
    other.synchronize();
    assert(after.elapsedTime(before) > 0);
  });
});

test("a stream that allocates, launches and frees goes on while this thread is busy", async () => {
  await withThreads(threads, async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    const count = blocks * blockSize;
    using host = cuda.allocateHost(4 * count);
    const words = new Uint32Array(host.buffer);
    const kernel = gpu.loadModule(programs["in loops"]!).kernel("kernel");
    const expected = await run(cuda, programs["in loops"]!, 307);
    const addresses = new Set<bigint>();
    for (let round = 0; round < 8; round++) {
      const buffer = pool.allocate(4 * count - 4 * round, stream);
      addresses.add(buffer.address);
      const grid = round === 7 ? blocks - 1 : blocks - 10;
      kernel.launch({ grid, block: blockSize, stream }, buffer, 300 + round);
      buffer.copyTo(host, stream);
      buffer.free(stream);
    }
    const last = (blocks - 1) * blockSize - 1;
    const start = performance.now();
    while (Atomics.load(words, last) !== expected[last] && performance.now() - start < 30_000);
    assertEquals(words.subarray(0, last + 1), expected.subarray(0, last + 1));
    assertEquals(addresses.size, 1);
    stream.synchronize();
  });
});

test("copies and fills of rows in a stream that goes on while this thread is busy are those of one thread", async () => {
  const size = [24, 10, 3] as const;
  const play = (count: number) =>
    withThreads(count, (cuda) => {
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      const kernel = gpu.loadModule(programs["in loops"]!).kernel("kernel");
      using first = pool.allocate(4 * 64 * 64, stream);
      using second = pool.allocate(4 * 64 * 64, stream);
      using host = cuda.allocateHost(4 * 64 * 64);
      for (const buffer of [first, second]) kernel.launch({ grid: 64, block: 64, stream }, buffer, 300);
      const rows = first.pitched(Uint32Array, size, { pitch: 4 * 50, slicePitch: 4 * 50 * 12 });
      rows.region([2, 1, 1], [5, 4, 2]).fill(7, stream);
      rows.copyTo(second.pitched(Uint32Array, size, { pitch: 4 * 30, byteOffset: 40 }), stream);
      const halves = first.pitched(Uint16Array, [100, 10], { pitch: 200 });
      halves.region([0, 0], [40, 10]).copyTo(halves.region([60, 0], [40, 10]), stream);
      first.pitched(Uint8Array, [3, 100], { pitch: 9, byteOffset: 9000 }).fill(200, stream);
      second.subarray(0, 4 * 64 * 32).copyTo(first.subarray(4 * 64 * 32), stream);
      first.copyTo(host, stream);
      const words = new Uint32Array(host.buffer);
      const start = performance.now();
      if (count === 1) stream.synchronize();
      else while (Atomics.load(words, 64 * 64 - 1) === 0 && performance.now() - start < 30_000);
      const found = words.slice();
      stream.synchronize();
      return found;
    });
  assertEquals(await play(threads), await play(1));
});

test("a stream goes on while this thread is busy with copies from arrays that are not page-locked", async () => {
  await withThreads(threads, (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(4 * 64 * 64, stream);
    using host = cuda.allocateHost(4 * 64 * 64);
    const words = new Uint32Array(host.buffer);
    const kernel = gpu.loadModule(programs["in loops"]!).kernel("kernel");
    const numbers = Uint32Array.from({ length: 64 * 64 }, (_, index) => index);
    const { free } = gpu.memoryInfo();
    kernel.launch({ grid: 64, block: 64, stream }, buffer, 3000);
    buffer.copyFrom(numbers, stream);
    buffer.pitched(Uint32Array, [10, 20], { pitch: 256 }).copyFrom(numbers.subarray(0, 200), stream);
    buffer.copyTo(host, stream);
    const expected = numbers.map((number) =>
      number % 64 < 10 && number < 20 * 64 ? (number >> 6) * 10 + number % 64 : number
    );
    // What is copied is what was there at the call.
    numbers.fill(0);
    const start = performance.now();
    while (Atomics.load(words, 64 * 64 - 1) !== 64 * 64 - 1 && performance.now() - start < 30_000);
    assertEquals(words, expected);
    stream.synchronize();
    assert(free - gpu.memoryInfo().free < 2 ** 20);
    // What does not fit is copied, too.
    using large = pool.allocate(2 ** 26, stream);
    large.copyFrom(new Uint8Array(2 ** 26).fill(3), stream);
    large.subarray(2 ** 26 - 4).copyTo(host, stream);
    stream.synchronize();
    assertEquals(words[0], 0x03030303);
  });
});

test("a stream goes on while this thread is busy if a launch needs more memory than those before", async () => {
  const ptx = (localBytes: number) =>
    kernelOf(
      `.local .align 4 .b8 stack[${localBytes}];
st.local.u32 [stack+${localBytes - 4}], %r9;
${exchange}
ld.local.u32 %r5, [stack+${localBytes - 4}];
st.global.u32 [%rd1], %r5;`,
      ".shared .align 4 .b8 shared[1024];",
    );
  await withThreads(threads, (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(4 * 64, stream);
    using host = cuda.allocateHost(4 * 64);
    const words = new Uint32Array(host.buffer);
    [4, 2 ** 16, 2 ** 17].forEach((localBytes, index) => {
      const kernel = gpu.loadModule(ptx(localBytes)).kernel("kernel");
      kernel.launch({ grid: 1, block: 64, stream }, buffer, index + 1);
    });
    buffer.copyTo(host, stream);
    const start = performance.now();
    while (Atomics.load(words, 63) === 0 && performance.now() - start < 30_000);
    assertEquals(words, new Uint32Array(64).fill(3));
    stream.synchronize();
  });
});

test("a stream goes on while this thread is busy with as much work as was given", async () => {
  await withThreads(threads, (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(4, stream);
    using host = cuda.allocateHost(4);
    const word = new Int32Array(host.buffer);
    const kernel = gpu.loadModule(kernelOf("red.global.add.u32 [%rd0], 1;")).kernel("kernel");
    const count = 300;
    for (const round of [1, 2, 3]) {
      buffer.fill(0, stream);
      for (let launch = 0; launch < count * round; launch++) kernel.launch({ grid: 1, block: 1, stream }, buffer, 0);
      buffer.copyTo(host, stream);
      const start = performance.now();
      const isDone = () => Atomics.load(word, 0) === count * round;
      // If there is no room for all of it at once, what is left is given when the stream is asked.
      while (!isDone() && performance.now() - start < 30_000) if (count * round > jobCount) stream.query();
      assertEquals(Atomics.load(word, 0), count * round);
      stream.synchronize();
    }
  });
});

test("a buffer that was freed in a stream is no memory for what follows there, also while this thread is busy", async () => {
  const messageOf = (count: number) =>
    withThreads(count, (cuda) => {
      const gpu = cuda.device(0);
      const stream = gpu.createStream();
      const pool = gpu.createPool();
      const kernel = gpu.loadModule(programs["in loops"]!).kernel("kernel");
      const launch = { grid: blocks, block: blockSize, stream };
      const buffer = pool.allocate(4 * blocks * blockSize, stream);
      const { address } = buffer;
      kernel.launch(launch, buffer, 3000);
      buffer.free(stream);
      kernel.launch(launch, address, 10);
      pool.allocate(4 * blocks * blockSize - 4, stream).fill(0, stream);
      return assertThrows(() => stream.synchronize(), Error).message.replace(/0x[0-9a-f]+/g, "0x");
    });
  const expected = await messageOf(1);
  assertMatch(expected, /block \(0,0,0\), thread \(0,0,0\), .*allocated only later in the order of the streams/);
  assertEquals(await messageOf(threads), expected);
});

/** Work that other threads run until `isDone`. */
function delegatedUntil(isDone: () => boolean, job: Job): Delegated {
  return {
    get jobs() {
      return isDone() ? [] : [job];
    },
    get isDone() {
      return isDone();
    },
    endTime: undefined,
    hasFailed: false,
    isStarved: false,
    help: () => false,
    stop() {},
    cancel() {},
  };
}

test("work after a record does not wait for what takes the place of the closed job before the record", () => {
  const scheduler = new Scheduler(() => {});
  const stream = new Stream(0, { isBlocking: false });
  scheduler.addStream(stream);
  const job = new Job(new JobBoard(), 0);
  let isDone = false;
  const delegated = delegatedUntil(() => isDone, job);
  const jobsBefore: (readonly Job[] | undefined)[] = [];
  const delegate = (after: Delegated | undefined) => void jobsBefore.push(after?.jobs);
  const first = scheduler.enqueue(stream, () => {}, { delegate: () => delegated, takesLong: () => true });
  const record = scheduler.record(new Event(0, 0), stream);
  scheduler.enqueue(stream, () => {}, { delegate });
  isDone = true;
  scheduler.step();
  assertEquals([first.done, record.done], [true, false]);
  const other = new Stream(0, { isBlocking: false });
  scheduler.addStream(other);
  scheduler.enqueue(other, () => {}, { after: [record], delegate });
  assertEquals(jobsBefore, [[job], [], []]);
  scheduler.close();
});

test("work is run as long as some of it ends in time, also that of other threads", () => {
  const scheduler = new Scheduler(() => {});
  const [stream, other] = [0, 1].map(() => new Stream(0, { isBlocking: false })) as [Stream, Stream];
  for (const each of [stream, other]) scheduler.addStream(each);
  const original = performance.now;
  let now = 0;
  performance.now = () => now;
  try {
    for (let count = 0; count < 5; count++) scheduler.enqueue(stream, () => void (now += 900));
    let polls = 0;
    const delegate = () => delegatedUntil(() => ++polls > 4, new Job(new JobBoard(), 0));
    const elsewhere = scheduler.enqueue(other, () => {}, { delegate, takesLong: () => true });
    scheduler.runWhileWorkEnds(() => elsewhere.done, 1000);
    assertEquals([now, stream.isIdle, elsewhere.done], [4500, true, true]);
    const endless = scheduler.enqueue(stream, () => (now += 900, false));
    scheduler.runWhileWorkEnds(() => endless.done, 1000);
    assertEquals([now, endless.done], [6300, false]);
  } finally {
    performance.now = original;
  }
  scheduler.close();
});

test("a stream names the kernel that threads run, not work before it that they have ended", () => {
  const scheduler = new Scheduler(() => {});
  const stream = new Stream(0, { isBlocking: false });
  scheduler.addStream(stream);
  const job = new Job(new JobBoard(), 0);
  let isDone = false;
  scheduler.enqueue(stream, () => {}, { delegate: () => delegatedUntil(() => isDone, job), takesLong: () => true });
  const kernel = { kernel: "endless", delegate: () => delegatedUntil(() => false, job), takesLong: () => true };
  scheduler.enqueue(stream, () => {}, kernel);
  assertEquals(stream.describeKernel(), undefined);
  isDone = true;
  assertMatch(stream.describeKernel()!, /^kernel endless has run for \d+\.\d s$/);
  scheduler.close();
});

test("of the blocks that fault, the lowest is named, as with one thread", async () => {
  // Of the blocks from 70 on, each third faults; the others take long enough that higher blocks fault first.
  const ptx = kernelOf(`rem.u32 %r7, %r1, 3;
setp.eq.u32 %p1, %r7, 1;
setp.ge.and.u32 %p1, %r1, 70, %p1;
@!%p1 bra LONG;
st.global.u32 [%rd0+-4096], %r0;
LONG: ${calculate}
st.global.u32 [%rd1], %r5;`);
  const messageOf = (count: number) =>
    withThreads(count, (cuda) => {
      const gpu = cuda.device(0);
      const stream = gpu.createStream();
      const buffer = gpu.createPool().allocate(blocks * blockSize * 4, stream);
      gpu.loadModule(ptx).kernel("kernel").launch({ grid: blocks, block: blockSize, stream }, buffer, 2000);
      return assertThrows(() => stream.synchronize(), Error).message.replace(/0x[0-9a-f]+/g, "0x");
    });
  const expected = await messageOf(1);
  assertMatch(expected, /block \(70,0,0\), thread \(0,0,0\), .*4096 bytes? before/);
  for (let round = 0; round < 10; round++) assertEquals(await messageOf(threads), expected);
});

test("blocks wait for the block before them, of more blocks than fit on the device at once", async () => {
  const ptx = kernelOf(`setp.ne.u32 %p1, %r3, 0;
@%p1 bra END;
WAIT: ld.acquire.gpu.global.u32 %r4, [%rd0];
setp.ne.u32 %p2, %r4, %r1;
@%p2 bra WAIT;
add.u32 %r4, %r4, 1;
st.release.gpu.global.u32 [%rd0], %r4;
END:`);
  await withThreads(threads, async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(4, stream);
    const kernel = gpu.loadModule(ptx).kernel("kernel");
    for (let round = 0; round < 20; round++) {
      buffer.fill(0, stream);
      kernel.launch({ grid: 100, block: 1024, stream }, buffer, 0);
      assertEquals(await buffer.read(Uint32Array, { stream }), Uint32Array.of(100));
    }
  });
});

test("blocks that wait for each other get all threads when the main thread waits, because it runs none of them", async () => {
  const ptx = kernelOf(`red.release.gpu.global.add.u32 [%rd0], 1;
WAIT: ld.acquire.gpu.global.u32 %r4, [%rd0];
setp.ne.u32 %p0, %r4, %r9;
@%p0 bra WAIT;`);
  const workers = processWorkers(new LinearMemory());
  const woken: number[] = [];
  const { open } = workers;
  try {
    workers.open = (launch, options) => {
      woken.push(options.workers);
      return open.call(workers, launch, options);
    };
    await withThreads(threads, (cuda) => {
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      using buffer = pool.allocate(4, stream);
      buffer.fill(0, stream);
      gpu.loadModule(ptx).kernel("kernel").launch({ grid: 2, block: 1, stream }, buffer, 2);
      stream.synchronize();
    });
  } finally {
    workers.open = open;
  }
  assertEquals(woken, [threads]);
});

test("a thread that waits leaves the block that it runs when a lower block faults", async () => {
  // The first block faults, after longer than the main thread leaves to workers alone; the others hardly end.
  const ptx = kernelOf(`mov.u32 %r9, -1;
setp.eq.u32 %p1, %r1, 0;
@%p1 mov.u32 %r9, 5000000;
${calculate}
@%p1 trap;
st.global.u32 [%rd1], %r5;`);
  const start = performance.now();
  await withThreads(threads, (cuda) => {
    const gpu = cuda.device(0);
    const stream = gpu.createStream();
    const buffer = gpu.createPool().allocate(blocks * 4, stream);
    gpu.loadModule(ptx).kernel("kernel").launch({ grid: blocks, block: 1, stream }, buffer, 0);
    assertThrows(() => stream.synchronize(), Error, "block (0,0,0), thread (0,0,0)");
  });
  const milliseconds = performance.now() - start;
  assert(milliseconds < 5000, `${milliseconds} ms`);
});

test("the event loop runs while other threads run a kernel", async () => {
  await withThreads(threads, async (cuda) => {
    const gpu = cuda.device(0);
    const stream = gpu.createStream();
    const buffer = gpu.createPool().allocate(blocks * blockSize * 4, stream);
    gpu.loadModule(programs["in loops"]!).kernel("kernel").launch(
      { grid: blocks, block: blockSize, stream },
      buffer,
      20_000,
    );
    let turns = 0;
    const start = performance.now();
    while (!stream.query()) {
      turns++;
      await new Promise((resolve) => setImmediate(resolve));
      assert(performance.now() - start < 60_000);
    }
    assert(turns > 100, `${turns} turns in ${performance.now() - start} ms`);
  });
});

test("the last thread that leaves a job wakes others for the next, also if it found nothing to do", () => {
  const board = new JobBoard();
  const [job, next] = [new Job(board, 0), new Job(board, 1)];
  job.open({ number: 1, threads: 2 }, { first: 0, end: 1, workers: 0 });
  next.open({ number: 2, threads: 2, ...fieldsOfBefore([job]) }, { first: 0, end: 1, workers: 0 });
  assertEquals([job.join(), job.claim(1, 2), next.isReady], [true, true, false]);
  const { opened } = board;
  job.leave();
  assertEquals([board.opened, next.isReady], [opened + 1, true]);
  // Until such a thread has left, others find that the next job may not begin.
  assertEquals(new Job(board, 0).join(), false);
  assertEquals(board.opened, opened + 2);
});

test("opening a job wakes few workers, which wake the others, and no more than there are blocks", async () => {
  const board = new JobBoard();
  let woken = 0;
  for (let worker = 0; worker < 6; worker++) {
    Promise.resolve(Atomics.waitAsync(board.words, 0, board.opened).value).then(() => woken++);
  }
  const wokenBy = async (index: number, end: number) => {
    const before = woken;
    new Job(board, index).open({ threads: 6 }, { first: 0, end, workers: 6 });
    for (let turn = 0; turn < 1000 || woken === before; turn++) await new Promise((resolve) => setImmediate(resolve));
    return woken - before;
  };
  assertEquals([await wokenBy(0, 1), await wokenBy(1, 100)], [1, 2]);
});

test("no more threads join a job than may run it", () => {
  const board = new JobBoard();
  const jobs = [0, 1, 2].map(() => new Job(board, 5));
  jobs[0]!.open({ threads: 2 } as JobFields, { first: 0, end: 100, workers: 2 });
  assertEquals(jobs.map((job) => job.join()), [true, true, false]);
  assertEquals([jobs[2]!.isFull, jobs[2]!.running], [true, 2]);
  assertEquals([jobs[0]!.leave(), jobs[2]!.join()], [false, true]);
});

test("other threads run the single block of a kernel's first launch if it has loops, also while this thread is busy", async () => {
  await withThreads(threads, async (cuda) => {
    sharingPolicy.firstSliceMilliseconds = 0.1;
    const gpu = cuda.device(0);
    const stream = gpu.createStream();
    const buffer = gpu.createPool().allocate(blockSize * 4, stream);
    const kernel = gpu.loadModule(programs["in loops"]!).kernel("kernel");
    kernel.launch({ grid: 1, block: blockSize, stream }, buffer, 200_000);
    let turns = 0;
    while (!stream.query()) {
      turns++;
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert(turns > 10, `${turns} turns`);
    using host = cuda.allocateHost(4);
    const other = gpu.loadModule(programs["in loops"]!).kernel("kernel");
    other.launch({ grid: 1, block: 1, stream }, buffer, 1000);
    buffer.subarray(0, 4).copyTo(host, stream);
    const start = performance.now();
    while (Atomics.load(new Int32Array(host.buffer), 0) === 0 && performance.now() - start < 30_000);
    assert(Atomics.load(new Int32Array(host.buffer), 0) !== 0);
    stream.synchronize();
  });
});

test("kernels of several streams run at once, and a disposed Cuda stops them", async () => {
  const start = performance.now();
  await withThreads(threads, async (cuda) => {
    const gpu = cuda.device(0);
    const kernel = gpu.loadModule(programs["in loops"]!).kernel("kernel");
    const pool = gpu.createPool();
    const [long, short] = [gpu.createStream({ nonBlocking: true }), gpu.createStream({ nonBlocking: true })];
    const [first, second] = [pool.allocate(blocks * blockSize * 4, long), pool.allocate(blocks * blockSize * 4, short)];
    kernel.launch({ grid: blocks, block: blockSize, stream: long }, first, 2 ** 30);
    kernel.launch({ grid: blocks, block: blockSize, stream: short }, second, 20);
    assertEquals(long.query(), false);
    await short.finished();
    assertEquals(long.query(), false);
  });
  assert(performance.now() - start < 30_000);
});

test("a process ends while a kernel runs that it does not wait for, and prints of workers are whole", async () => {
  await using child = startScript("children/software/unawaited_kernel.ts", []);
  const lines = await remainingLines(child);
  assertEquals(await child.errors(), "");
  assertEquals(lines.slice(0, -1).sort(), Array.from({ length: 100 }, (_, block) => `block ${100 + block} ran`));
  assertEquals(lines.at(-1), "the end");
  assertEquals(await child.ended, 0);
});
