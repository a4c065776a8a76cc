/** Tests of what a capture allows and refuses, and that nothing that the library does by itself harms a capture. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { ptx } from "../../../kernels/fill.ts";
import type {
  CachingAllocator,
  Cuda,
  CudaDevice,
  CudaError,
  CudaEvent,
  CudaKernel,
  CudaStream,
  DeviceArray,
  GraphCapture,
  HostBuffer,
  MemoryPool,
} from "../../../mod.ts";
import { streamCaptureMode } from "../../../src/driver.ts";
import { Cuda as CudaObject } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { Capture } from "../../support/capture.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

const length = 64;
const patience = 60_000;

/** Objects to call during a capture of `stream`. */
interface Place {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly stream: CudaStream;
  readonly other: CudaStream;
  readonly pool: MemoryPool;
  /** An allocator in which memory was freed on `stream`. */
  readonly allocator: CachingAllocator;
  readonly numbers: DeviceArray<Int32Array>;
  readonly target: DeviceArray<Int32Array>;
  readonly host: HostBuffer;
  readonly fill: CudaKernel;
  /** An event that was recorded before the capture, and one that is recorded in it. */
  readonly before: CudaEvent;
  readonly inside: CudaEvent;
}

/** Calls that CUDA refuses in a capture of `stream`, and the code of the error. */
const refused: Readonly<Record<string, readonly [code: string, call: (place: Place) => unknown]>> = {
  "the stream queried": ["cudaErrorStreamCaptureUnsupported", ({ stream }) => stream.query()],
  "the stream synchronized": ["cudaErrorStreamCaptureUnsupported", ({ stream }) => stream.synchronize()],
  "the stream awaited": ["cudaErrorStreamCaptureUnsupported", ({ stream }) => stream.finished()],
  "the stream measured": ["cudaErrorStreamCaptureUnsupported", ({ stream }) => stream.benchmark(() => {})],
  "the device synchronized": ["cudaErrorStreamCaptureUnsupported", ({ gpu }) => gpu.synchronize()],
  "an event of the capture queried": ["cudaErrorCapturedEvent", ({ inside }) => inside.query()],
  "an event of the capture synchronized": ["cudaErrorCapturedEvent", ({ inside }) => inside.synchronize()],
  "an event of the capture awaited": ["cudaErrorCapturedEvent", ({ inside }) => inside.finished()],
  "an event from before waited for": ["cudaErrorStreamCaptureIsolation", ({ stream, before }) => stream.wait(before)],
  "memory read": ["cudaErrorStreamCaptureUnsupported", ({ numbers, stream }) => numbers.read(Int32Array, { stream })],
  "memory read at once": [
    "cudaErrorStreamCaptureUnsupported",
    ({ numbers, stream }) => numbers.readSync(Int32Array, { stream }),
  ],
  "an array read": ["cudaErrorStreamCaptureUnsupported", ({ numbers, stream }) => numbers.toTypedArray({ stream })],
  "memory from before freed": ["cudaErrorStreamCaptureUnsupported", ({ numbers, stream }) => numbers.free(stream)],
  "memory allocated with patience": [
    "cudaErrorStreamCaptureUnsupported",
    ({ pool, stream }) => pool.allocateAsync(64, { stream }),
  ],
  "memory of an allocator allocated": ["cudaErrorStreamCaptureUnsupported", ({ pool, stream }) => {
    using allocator = pool.createCachingAllocator();
    allocator.allocate(64, stream);
  }],
  "an event for other processes recorded": ["cudaErrorStreamCaptureUnsupported", ({ gpu, stream }) => {
    using event = gpu.createEvent({ interprocess: true });
    stream.record(event);
  }],
  "a capture begun once more": ["cudaErrorStreamCaptureUnsupported", ({ stream }) => stream.beginCapture()],
};

/** Calls about the default stream, which a capture of a stream that is not nonBlocking refuses. */
const refusedBesideBlocking: Readonly<Record<string, (place: Place) => unknown>> = {
  "the default stream queried": ({ gpu }) => gpu.defaultStream.query(),
  "the default stream synchronized": ({ gpu }) => gpu.defaultStream.synchronize(),
  "a kernel launched on the default stream": ({ fill, target }) =>
    fill.launch({ grid: 1, block: 32 }, target, 4 * length, 5),
  "memory filled on the default stream": ({ target, gpu }) => target.fill(5, gpu.defaultStream),
  "an event recorded on the default stream": ({ gpu, before }) => gpu.defaultStream.record(before),
  "the default stream made to wait": ({ gpu, before }) => gpu.defaultStream.wait(before),
};

/** Calls that have nothing to do with what the capture records, and what the library does for itself meanwhile. */
const harmless: Readonly<Record<string, (place: Place) => unknown>> = {
  "everything printed": ({ cuda, gpu, stream, other, pool, allocator, numbers, before, inside }) =>
    inspect([cuda, gpu, gpu.defaultStream, stream, other, pool, allocator, numbers, before, inside]),
  "the stream's properties read": ({ stream }) => [stream.priority, stream.nonBlocking, stream.isCapturing],
  "the default stream's properties read": ({ gpu: { defaultStream } }) => [
    defaultStream.priority,
    defaultStream.isCapturing,
  ],
  "an event from before queried": ({ before }) => before.query(),
  "a pool's usage read": ({ pool }) => pool.usage(),
  "a pool trimmed": ({ pool }) => pool.trimTo(0),
  "a pool created and disposed": ({ gpu }) => gpu.createPool()[Symbol.dispose](),
  "memory allocated and freed on another stream": ({ pool, other }) => pool.allocate(64, other).free(),
  "memory that the stream has used freed on another stream": ({ pool, stream, other }) => {
    const buffer = pool.allocate(64, other);
    buffer.usedOn(stream);
    buffer.free();
  },
  "small pageable memory copied on another stream": ({ target, other }) =>
    target.copyFrom(new Int32Array(length), other),
  "large pageable memory copied on another stream": ({ pool, other }) => {
    using large = pool.allocate(2 ** 20, other);
    large.copyFrom(new Uint8Array(2 ** 20), other);
  },
  "memory read on another stream": ({ target, other }) => target.readSync(Int32Array, { stream: other }),
  "memory read on another stream, awaited": ({ target, other }) => target.toTypedArray({ stream: other }),
  "another stream awaited": ({ other }) => other.finished(),
  "the device awaited": ({ gpu }) => gpu.finished({ signal: AbortSignal.timeout(patience) }),
  "page-locked memory allocated and freed": ({ cuda }) => cuda.allocateHost(64)[Symbol.dispose](),
  "a module loaded, and disposed after a launch": ({ gpu, target, other }) => {
    using module = gpu.loadModule(ptx);
    module.kernel("fill").launch({ grid: 1, block: 32, stream: other }, target, 4 * length, 6);
  },
  "an event created, recorded elsewhere and disposed": ({ gpu, other }) => {
    using event = gpu.createEvent();
    other.record(event);
  },
  "a stream created and disposed": ({ gpu }) => gpu.createStream()[Symbol.dispose](),
  "a busy stream disposed": ({ gpu, pool }) => {
    using busy = gpu.createStream({ nonBlocking: true });
    using buffer = pool.allocate(64, busy);
    buffer.fill(7);
  },
  "an allocator created and disposed": ({ pool, other }) => {
    using allocator = pool.createCachingAllocator();
    allocator.allocate(64, other).free();
  },
  "physical memory created and disposed": ({ gpu }) => gpu.createMemory(1)[Symbol.dispose](),
  "memory allocated from an allocator in which the stream has freed memory": ({ allocator, other }) => {
    using small = allocator.allocate(64, other);
    using large = allocator.allocate(2 ** 21, other);
    small.fill(1);
    large.fill(1);
  },
  "an allocator trimmed in which the stream has freed memory": ({ allocator }) => allocator.trimTo(0),
  "the size of memory read": ({ gpu }) => gpu.memoryInfo(),
};

function placeIn(cuda: Cuda, nonBlocking: boolean): Place & Disposable {
  const gpu = cuda.device(0);
  const stack = new DisposableStack();
  const stream = stack.use(gpu.createStream({ nonBlocking }));
  const other = stack.use(gpu.createStream({ nonBlocking: true }));
  const pool = stack.use(gpu.createPool());
  const allocator = stack.use(pool.createCachingAllocator());
  const numbers = stack.use(pool.allocateArray(Int32Array, length, other));
  const target = stack.use(pool.allocateArray(Int32Array, length, other));
  const host = stack.use(cuda.allocateHost(4 * length));
  const module = stack.use(gpu.loadModule(ptx));
  const before = stack.use(gpu.createEvent());
  const inside = stack.use(gpu.createEvent());
  numbers.fill(1);
  target.fill(1);
  // Work on the stream that nobody has waited for yet.
  const freed = pool.allocate(64, stream);
  freed.fill(1);
  freed.free();
  const part = allocator.allocate(2 ** 21, stream);
  part.fill(1);
  part.free();
  stream.record(before);
  other.synchronize();
  const fill = module.kernel("fill");
  return {
    ...{ cuda, gpu, stream, other, pool, allocator, numbers, target, host, fill, before, inside },
    [Symbol.dispose]: () => stack.dispose(),
  };
}

const kinds = { "a blocking stream": false, "a nonBlocking stream": true } as const;

for (const [kind, nonBlocking] of Object.entries(kinds)) {
  testOnEachDriver(`calls that a capture of ${kind} forbids are refused, and leave it valid`, async (cuda) => {
    using place = placeIn(cuda, nonBlocking);
    const { stream, numbers, inside, gpu } = place;
    using capture = stream.beginCapture();
    numbers.fill(2, stream);
    stream.record(inside);
    const calls = Object.entries(refused).map(([name, [code, call]]) => [name, code, call] as const);
    for (const [name, call] of Object.entries(refusedBesideBlocking)) {
      if (!nonBlocking) calls.push([name, "cudaErrorStreamCaptureImplicit", call]);
    }
    for (const [name, code, call] of calls) {
      const error = await assertRejects(async () => void await call(place), Error, "", name) as CudaError;
      assertEquals([name, error.code], [name, code]);
      assertMatch(error.message, /^Cannot .*: .*captur/, name);
    }
    using graph = capture.end();
    assertEquals(graph.nodes.map(({ type }) => type), ["fill"]);
    using exec = graph.instantiate();
    exec.launch({ stream });
    assertEquals((await numbers.toTypedArray({ stream }))[0], 2);
    gpu.synchronize();
  });

  testOnEachDriver(`what is done beside a capture of ${kind} leaves it valid`, async (cuda) => {
    using place = placeIn(cuda, nonBlocking);
    const { stream, numbers, inside } = place;
    for (const [name, call] of Object.entries(harmless)) {
      using capture = stream.beginCapture();
      numbers.fill(2, stream);
      stream.record(inside);
      await call(place);
      using graph = capture.end();
      assertEquals([name, ...graph.nodes.map(({ type }) => type)], [name, "fill"]);
    }
  });

  for (const [mode, value] of Object.entries(streamCaptureMode)) {
    testOnEachDriver(`another library's capture of ${kind} in the mode ${mode} is not harmed`, async (_, { open }) => {
      const driver = open();
      using cuda = new CudaObject(new Session(driver));
      using place = placeIn(cuda, nonBlocking);
      for (const [name, call] of Object.entries(harmless)) {
        // Waiting for a device asks CUDA for all its streams, which no other library may capture meanwhile.
        const capture = new Capture(driver, place.stream, value);
        await call(place);
        assert(capture.end(), name);
      }
    });
  }
}

testOnEachDriver("a capture enqueues nothing, and each launch executes its work", async (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, numbers, target, fill } = place;
  using graph = stream.capture(() => {
    fill.launch({ grid: 1, block: 32, stream }, target, 4 * length, 9);
    numbers.copyFrom(target, stream);
    target.fill(0, stream);
  });
  assertEquals((await numbers.toTypedArray({ stream }))[0], 1);
  assertEquals(graph.nodes.map(({ type }) => type).sort(), ["copy", "fill", "kernel"]);
  const [kernel] = graph.nodes.filter(({ type }) => type === "kernel");
  assertEquals([kernel!.dependencies.length, kernel!.dependents.map(({ type }) => type)], [0, ["copy"]]);
  using exec = graph.instantiate({ upload: stream });
  exec.launch(stream);
  assertEquals((await numbers.toTypedArray({ stream }))[0], 9);
  numbers.fill(3, stream);
  exec.launch({ stream });
  assertEquals([(await numbers.toTypedArray({ stream }))[0], (await target.toTypedArray({ stream }))[0]], [9, 0]);
});

testOnEachDriver("streams fork and join by waiting for each other", async (cuda) => {
  using place = placeIn(cuda, true);
  const { gpu, stream, other, numbers, target } = place;
  using third = gpu.createStream();
  using graph = stream.capture(() => {
    other.wait(stream);
    third.wait(stream);
    assert(other.isCapturing && third.isCapturing);
    numbers.fill(4, other);
    target.fill(5, third);
    stream.wait(other);
    stream.wait(third);
    numbers.subarray(0, 1).copyFrom(target.subarray(0, 1), stream);
  });
  assert(!other.isCapturing && !third.isCapturing);
  assertEquals(graph.edges.map(([from, to]) => `${from.type} ${to.type}`), ["fill copy", "fill copy"]);
  using exec = graph.instantiate();
  exec.launch(stream);
  assertEquals([...(await numbers.toTypedArray({ stream })).slice(0, 2)], [5, 4]);
});

testOnEachDriver("a typed array's bytes are those of the capture at each launch", async (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, numbers } = place;
  const bytes = new Int32Array(length).fill(6);
  using graph = stream.capture(() => numbers.copyFrom(bytes, stream));
  bytes.fill(7);
  using exec = graph.instantiate();
  for (const before of [0, 1]) {
    numbers.fill(before, stream);
    exec.launch(stream);
    assertEquals((await numbers.toTypedArray({ stream }))[length - 1], 6);
  }
});

testOnEachDriver("memory that a graph allocates and frees lives within a launch", async (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, pool, numbers } = place;
  const { used } = pool.usage();
  using graph = stream.capture(() => {
    using scratch = pool.allocateArray(Int32Array, length, stream);
    scratch.fill(8, stream);
    numbers.copyFrom(scratch, stream);
  });
  assertEquals(graph.nodes.map(({ type }) => type), ["allocate", "fill", "copy", "free"]);
  assertEquals([graph.allocations.length, pool.usage().used], [0, used]);
  using exec = graph.instantiate();
  for (let launch = 0; launch < 3; launch++) exec.launch(stream);
  assertEquals((await numbers.toTypedArray({ stream }))[0], 8);
});

testOnEachDriver("memory that a graph does not free exists after a launch", async (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, pool } = place;
  using graph = stream.capture(() => pool.allocateArray(Int32Array, length, stream).fill(8, stream));
  const [result] = graph.allocations;
  assertThrows(() => result!.readSync(Int32Array, { stream }), ReferenceError, "has not been launched");
  using exec = graph.instantiate();
  exec.launch(stream);
  assertEquals((await result!.read(Int32Array, { stream }))[0], 8);
  const error = assertThrows(() => exec.launch(stream)) as CudaError;
  assertEquals(error.code, "cudaErrorInvalidValue");
  assertMatch(error.message, /was not freed: free it, or instantiate with autoFreeOnLaunch/);
  result!.free(stream);
  assertThrows(() => result!.readSync(Int32Array, { stream }), ReferenceError, "it was freed");
  exec.launch(stream);
  assertEquals((await result!.read(Int32Array, { stream }))[0], 8);
  result!.free(stream);
  stream.synchronize();
});

testOnEachDriver("memory that can be shared cannot be a graph's", (cuda) => {
  using place = placeIn(cuda, true);
  const { gpu, stream } = place;
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using capture = stream.beginCapture();
  const error = assertThrows(() => pool.allocate(64, stream)) as CudaError;
  assertEquals(error.code, "cudaErrorNotSupported");
  assertMatch(error.message, /a graph's memory cannot be shared: allocate it before the capture/);
  assertEquals(capture.end().nodes.length, 0);
});

testOnEachDriver("a graph that uses freed memory is neither launched nor instantiated", async (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, other, pool, target } = place;
  const buffer = pool.allocateArray(Int32Array, length, other);
  using graph = stream.capture(() => {
    buffer.fill(3, stream);
    target.copyFrom(buffer, stream);
  });
  using exec = graph.instantiate();
  other.synchronize();
  exec.launch(stream);
  // The free waits for the launch, although it is on another stream.
  buffer.free();
  assertThrows(() => exec.launch(stream), ReferenceError, "it uses a buffer of 256 bytes that was freed");
  assertThrows(() => exec.upload(stream), ReferenceError, "that was freed");
  assertThrows(() => graph.instantiate(), ReferenceError, "that was freed");
  assertEquals((await target.toTypedArray({ stream }))[0], 3);
});

testOnEachDriver("a graph that uses a freed HostBuffer is neither launched nor instantiated", async (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, numbers, fill } = place;
  const uses: ((host: HostBuffer) => void)[] = [
    (host) => numbers.copyFrom(host, stream),
    (host) => numbers.copyTo(host, stream),
    (host) => fill.launch({ grid: 1, block: 32, stream }, host, 4 * length, 6),
  ];
  for (const use of uses) {
    const host = cuda.allocateHost(4 * length);
    const words = new Int32Array(host.buffer);
    words.fill(5);
    using graph = stream.capture(() => use(host));
    using exec = graph.instantiate();
    words.fill(6);
    exec.launch(stream);
    await stream.finished();
    assertEquals([words[0], (await numbers.toTypedArray({ stream }))[0]], [6, 6]);
    host[Symbol.dispose]();
    assertThrows(() => exec.launch(stream), ReferenceError, "it uses a HostBuffer that was freed");
    assertThrows(() => graph.instantiate(), ReferenceError, "HostBuffer that was freed");
  }
});

testOnEachDriver("buffers of using blocks in a capture are freed when it has ended", (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, pool } = place;
  const { used } = pool.usage();
  {
    const buffer = pool.allocate(64, stream);
    using capture = stream.beginCapture();
    {
      using disposed = buffer;
      disposed.fill(1, stream);
    }
    assertThrows(() => buffer.fill(1, stream), ReferenceError, "it was freed");
    capture.end()[Symbol.dispose]();
  }
  stream.synchronize();
  assertEquals(pool.usage().used, used);
});

testOnEachDriver("a module stays loaded as long as a graph with one of its kernels", async (cuda) => {
  using place = placeIn(cuda, true);
  const { gpu, stream, target } = place;
  const module = gpu.loadModule(ptx);
  const kernel = module.kernel("fill");
  const graph = stream.capture(() => kernel.launch({ grid: 1, block: 32, stream }, target, 4 * length, 4));
  const exec = graph.instantiate();
  module[Symbol.dispose]();
  graph[Symbol.dispose]();
  exec.launch(stream);
  assertEquals((await target.toTypedArray({ stream }))[0], 4);
  exec[Symbol.dispose]();
  assertThrows(() => exec.launch(stream), ReferenceError, "it was disposed");
  assertThrows(() => graph.instantiate(), ReferenceError, "it was disposed");
});

testOnEachDriver(
  "a capture is dropped when its body throws or returns a promise, and the stream works again",
  (cuda) => {
    using place = placeIn(cuda, true);
    const { stream, numbers } = place;
    const bodies: Record<string, (capture: GraphCapture) => void> = {
      "no luck": () => {
        numbers.fill(2, stream);
        throw new Error("no luck");
      },
      "returned a promise": async () => await numbers.fill(2, stream),
      "give a function": undefined as never,
    };
    for (const [message, body] of Object.entries(bodies)) {
      assertThrows(() => stream.capture(body), Error, message);
      assert(!stream.isCapturing);
      assertEquals(numbers.readSync(Int32Array, { stream })[0], 1);
    }
  },
);

testOnEachDriver("captures end as CUDA's do when a stream was not joined, and can be begun again", (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, other, numbers } = place;
  const error = assertThrows(() =>
    stream.capture(() => {
      other.wait(stream);
      numbers.fill(2, other);
    })
  ) as CudaError;
  assertEquals(error.code, "cudaErrorStreamCaptureUnjoined");
  assertMatch(error.message, /the captured stream does not wait for its work: call wait before the end/);
  assert(!stream.isCapturing && !other.isCapturing);
  stream.capture(() => numbers.fill(3, stream))[Symbol.dispose]();
  assertEquals(numbers.readSync(Int32Array, { stream })[0], 1);
});

testOnEachDriver("two captures do not mix", (cuda) => {
  using place = placeIn(cuda, true);
  const { stream, other, inside, numbers, target } = place;
  using first = stream.beginCapture();
  using second = other.beginCapture();
  numbers.fill(2, stream);
  stream.record(inside);
  const error = assertThrows(() => other.wait(inside)) as CudaError;
  assertEquals(error.code, "cudaErrorStreamCaptureMerge");
  target.fill(3, other);
  assertEquals([first.end(), second.end()].map(({ nodes }) => nodes.length), [1, 1]);
});

testOnEachDriver("only streams that were created are captured, with valid options", (cuda) => {
  using place = placeIn(cuda, true);
  const { gpu, stream } = place;
  assertThrows(() => gpu.defaultStream.capture(() => {}), TypeError, "Cannot capture the default stream of device 0");
  assertThrows(() => stream.beginCapture({ mode: "lenient" as never }), TypeError, 'in the mode "lenient"');
  assertThrows(() => stream.beginCapture({ modes: "relaxed" } as never), TypeError, "modes");
  const graph = stream.capture(() => {}, { mode: "global" });
  assertThrows(() => graph.instantiate({ upload: 3 as never }), TypeError, "as a stream");
  assertThrows(() => graph.instantiate({ autoFreeOnLaunch: 1 as never }), TypeError, "autoFreeOnLaunch");
  using exec = graph.instantiate({ autoFreeOnLaunch: true, useNodePriority: true });
  assertThrows(() => exec.launch({ streams: stream } as never), TypeError, "streams");
  exec.launch();
  using capture = stream.beginCapture();
  const error = assertThrows(() => exec.launch(stream)) as CudaError;
  assertEquals(error.code, "cudaErrorStreamCaptureUnsupported");
  capture.end();
  assertThrows(() => capture.end(), ReferenceError, "it has ended");
  gpu.synchronize();
});

testOnEachDriver("objects can be disposed of in any order, and in a capture", (cuda) => {
  const gpu = cuda.device(0);
  for (const order of ["stream first", "stream last", "stream in the capture"] as const) {
    const stream = gpu.createStream();
    const pool = gpu.createPool();
    const buffer = pool.allocate(64, stream);
    const capture = stream.beginCapture();
    buffer.fill(1, stream);
    if (order === "stream in the capture") {
      stream[Symbol.dispose]();
      assertThrows(() => capture.end(), ReferenceError, "its stream or Cuda object was disposed");
    } else {
      const graph = capture.end();
      const exec = graph.instantiate();
      exec.launch(stream);
      if (order === "stream first") stream[Symbol.dispose]();
      graph[Symbol.dispose]();
      exec[Symbol.dispose]();
    }
    buffer.free(gpu.defaultStream);
    pool[Symbol.dispose]();
    stream[Symbol.dispose]();
  }
});

testOnEachDriver("a Cuda object can be disposed of during a capture", (_, { open }) => {
  const cuda = new CudaObject(new Session(open()));
  const stream = cuda.device(0).createStream();
  const capture = stream.beginCapture();
  cuda[Symbol.dispose]();
  assertThrows(() => capture.end(), ReferenceError, "its stream or Cuda object was disposed");
});

testOnEachDriver("a stream that has joined a capture can be disposed of before the capture ends", async (cuda) => {
  using place = placeIn(cuda, true);
  const { gpu, stream, numbers } = place;
  for (let round = 0; round < 3; round++) {
    const joined = gpu.createStream({ nonBlocking: true });
    using graph = stream.capture(() => {
      joined.wait(stream);
      numbers.fill(10 + round, joined);
      stream.wait(joined);
      joined[Symbol.dispose]();
      using later = gpu.createStream({ nonBlocking: true });
      assert(!later.isCapturing && later.query());
    });
    using exec = graph.instantiate();
    exec.launch(stream);
    assertEquals((await numbers.toTypedArray({ stream }))[0], 10 + round);
  }
});
