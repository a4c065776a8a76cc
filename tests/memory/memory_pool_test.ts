import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import type { Driver } from "../../src/driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaEvent } from "../../src/objects/streams/cuda_event.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { adaptedDriver, withoutContextEvents } from "../support/adapted_driver.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";

testOnEachDriver("a pool allocates in stream order and counts its allocations", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  assertEquals(pool.usage().used, 0);
  using first = pool.allocate(1000, stream);
  using second = pool.allocateArray(Float64Array, 100, stream);
  assertEquals(first.byteLength, 1000);
  assertEquals(second.length, 100);
  assertEquals(second.byteLength, 800);
  assert(first.device === gpu && first.pool === pool && first.stream === stream);
  assert(first.address !== second.address);
  assert(pool.usage().used >= 1800);
  first.free();
  second.free();
  stream.synchronize();
  assertEquals(pool.usage().used, 0);
  assert(pool.usage().usedHigh >= 1800);
  pool.resetHigh();
  assertEquals(pool.usage().usedHigh, 0);
});

testOnEachDriver("memory freed on a stream is reused on that stream without waiting", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using first = pool.allocate(2 ** 20, stream);
  const { address } = first;
  first.free();
  using second = pool.allocate(2 ** 20, stream);
  assertEquals(second.address, address);
});

testOnEachDriver("a pool keeps as much as its release threshold, and trimTo releases the rest", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  assertEquals(pool.releaseThreshold, Infinity);
  pool.allocate(2 ** 20, stream).free();
  stream.synchronize();
  assert(pool.usage().reserved > 0);
  pool.trimTo(0);
  assertEquals(pool.usage().reserved, 0);
  pool.releaseThreshold = 0;
  assertEquals(pool.releaseThreshold, 0);
  pool.allocate(2 ** 20, stream).free();
  stream.synchronize();
  assertEquals(pool.usage().reserved, 0);
});

testOnEachDriver("the error for an allocation larger than the device names the size and the pool", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const error = assertThrows(() => pool.allocate(2 ** 46), CudaError);
  assertEquals(error.code, "cudaErrorMemoryAllocation");
  assertEquals(error.number, 2);
  assertEquals(error.call, "cudaMallocFromPoolAsync");
  assertMatch(error.message, /Cannot allocate 70368744177664 bytes from the pool on device 0/);
});

testOnEachDriver("invalid sizes are refused before the driver is called", (cuda) => {
  using pool = cuda.device(0).createPool();
  for (const size of [0, -1, 1.5, NaN, Infinity, 2 ** 60]) {
    assertThrows(() => pool.allocate(size), RangeError, String(size));
  }
  assertThrows(() => pool.allocate("4" as unknown as number), TypeError, "it must be a number of bytes");
  assertEquals(pool.usage().used, 0);
});

testOnEachDriver("invalid streams and devices, and those of another Cuda object, are refused", (cuda, { open }) => {
  using other = new Cuda(new Session(open()));
  const [gpu, foreign] = [cuda.device(0), other.device(0)];
  using stream = gpu.createStream();
  using foreignStream = foreign.createStream();
  using pool = gpu.createPool();
  for (const wrong of [pool, 5, "0", foreign] as never[]) {
    assertThrows(
      () => pool.allocate(16, wrong),
      TypeError,
      " as a stream: give a CudaStream from CudaDevice.createStream",
    );
    assertThrows(() => pool.allocateArray(Uint8Array, 16, wrong), TypeError, " as a stream: ");
  }
  for (const wrong of [foreignStream, foreign.defaultStream]) {
    assertThrows(() => pool.allocate(16, wrong), TypeError, "Cannot use a stream of another Cuda object");
    assertThrows(() => pool.allocateArray(Uint8Array, 16, wrong), TypeError, "a stream of another Cuda object");
  }
  assertEquals(pool.usage().used, 0);
  const uses: ((device: CudaDevice) => unknown)[] = [
    (device) => pool.getAccess(device),
    (device) => pool.setAccess(device, "read-write"),
    (device) => pool.setAccess([gpu, device], "none"),
    (device) => gpu.canAccessPeer(device),
    (device) => gpu.enablePeerAccess(device),
    (device) => gpu.disablePeerAccess(device),
  ];
  for (const use of uses) {
    assertThrows(
      () => use(1 as never),
      TypeError,
      "Cannot use 1 as a device: give a CudaDevice from Cuda.device or Cuda.devices",
    );
    assertThrows(() => use(undefined as never), TypeError, "Cannot use undefined as a device");
    assertThrows(() => use(stream as never), TypeError, "Cannot use a CudaStream as a device");
    assertThrows(() => use(foreign), TypeError, "Cannot use a device of another Cuda object");
  }
});

testOnEachDriver("properties that every object inherits are not options", (cuda) => {
  const gpu = cuda.device(0);
  for (const name of ["toString", "constructor", "__proto__"] as never[]) {
    assertThrows(() => gpu.createPool({ handleType: name }), TypeError, `with handleType "${name}": it must be "none"`);
    using pool = gpu.createPool();
    assertThrows(() => pool.setAccess(gpu, name), TypeError, `Cannot set the access "${name}": it must be "none"`);
  }
});

testOnEachDriver("a pool that was created without a handle type cannot be exported", (cuda) => {
  using pool = cuda.device(0).createPool();
  assertEquals(pool.handleType, "none");
  assertThrows(() => pool.exportHandle(), TypeError, 'created with handleType "none"; create it with "posix-fd"');
  using buffer = pool.allocate(64);
  const error = assertThrows(() => buffer.exportPointer(), CudaError);
  assertEquals(error.code, "cudaErrorInvalidValue");
});

testOnEachDriver("using a disposed object throws, and disposing it again does nothing", (cuda) => {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const buffer = pool.allocate(64);
  buffer.free();
  assertThrows(() => buffer.address, ReferenceError, "freed");
  assertThrows(() => buffer.free(), ReferenceError, "freed");
  buffer[Symbol.dispose]();
  pool[Symbol.dispose]();
  pool[Symbol.dispose]();
  assertThrows(() => pool.allocate(64), ReferenceError, "the pool on device 0: it was disposed");
  const stream = gpu.createStream();
  stream[Symbol.dispose]();
  stream[Symbol.dispose]();
  assertThrows(() => stream.synchronize(), ReferenceError, "disposed");
});

testOnEachDriver("a pool reports leaked buffers", (cuda) => {
  const gpu = cuda.device(0);
  const reported: string[] = [];
  const { warn } = console;
  console.warn = (message: string) => reported.push(message);
  try {
    const pool = gpu.createPool();
    const leaked = [pool.allocate(1000), pool.allocate(24)];
    pool[Symbol.dispose]();
    assertEquals(reported.length, 1);
    assertMatch(reported[0]!, /2 buffers were not freed before the pool on device 0 was disposed, 1024 bytes/);
    for (const buffer of leaked) buffer.free();
    gpu.synchronize();
  } finally {
    console.warn = warn;
  }
}, { makesMistakes: true });

testOnEachDriver("buffers outlive their pool until they are freed", async (cuda) => {
  const gpu = cuda.device(0);
  const { warn } = console;
  console.warn = () => {};
  using stack = new DisposableStack();
  stack.defer(() => {
    console.warn = warn;
  });
  const pool = gpu.createPool();
  using buffer = pool.allocate(256);
  buffer.fill(9);
  pool[Symbol.dispose]();
  assertEquals(await buffer.read(Uint8Array), new Uint8Array(256).fill(9));
});

testOnEachDriver("peer access is granted and revoked", (cuda) => {
  const [first, second] = [cuda.device(0), cuda.device(1)];
  using pool = first.createPool();
  assertEquals(pool.getAccess(first), "read-write");
  assertEquals(pool.getAccess(second), "none");
  pool.setAccess(second, "read-write");
  assertEquals(pool.getAccess(second), "read-write");
  pool.setAccess([second], "none");
  assertEquals(pool.getAccess(second), "none");
  assertThrows(() => pool.setAccess(second, "write" as "read"), TypeError, '"write"');
}, { devices: 2 });

testOnEachDriver("nothing can be used after the Cuda object is disposed", async (cuda) => {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const buffer = pool.allocate(64);
  buffer.free();
  pool[Symbol.dispose]();
  cuda[Symbol.dispose]();
  assertThrows(() => cuda.device(0), ReferenceError, "Cuda object was disposed");
  for (const use of [() => gpu.createStream(), () => gpu.name, () => gpu.createPool()]) {
    const error = assertThrows(use, ReferenceError, "Cannot use this object: the Cuda object was disposed");
    assertEquals([error.name, error.constructor.name], ["ReferenceError", "ReferenceError"]);
  }
  await assertRejects(() => gpu.finished(), ReferenceError, "Cuda object was disposed");
});

testOnEachDriver("a device has a default pool and a current pool", (cuda) => {
  const gpu = cuda.device(0);
  const { defaultPool } = gpu;
  assert(defaultPool === gpu.defaultPool && gpu.currentPool === defaultPool);
  assert(defaultPool.device === gpu && defaultPool.handleType === "none");
  assertThrows(() => defaultPool.exportHandle(), TypeError, "handleType");
  {
    using buffer = defaultPool.allocate(1000);
    assert(defaultPool.usage().used >= 1000 && buffer.pool === defaultPool);
  }
  defaultPool[Symbol.dispose]();
  defaultPool.allocate(10).free();
  using pool = gpu.createPool();
  gpu.currentPool = pool;
  assert(gpu.currentPool === pool && gpu.defaultPool === defaultPool);
  gpu.currentPool = defaultPool;
  assert(gpu.currentPool === defaultPool);
  gpu.currentPool = pool;
  pool[Symbol.dispose]();
  assert(gpu.currentPool === defaultPool, "A pool that is gone is nobody's current one");
  assertThrows(() => gpu.currentPool = pool, ReferenceError, "it was disposed");
});

testOnEachDriver("a current pool that is disposed before its buffers is no longer allocated from", (cuda) => {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  gpu.currentPool = pool;
  const buffer = pool.allocate(100);
  const { warn } = console;
  console.warn = () => {};
  try {
    pool[Symbol.dispose]();
  } finally {
    console.warn = warn;
  }
  assert(gpu.currentPool === gpu.defaultPool);
  buffer.free();
});

testOnEachDriver("each device has its own current pool", (cuda) => {
  using pool = cuda.device(1).createPool();
  assertThrows(() => cuda.device(0).currentPool = pool, RangeError, "of device 1 the current pool of device 0");
}, { devices: 2 });

testOnEachDriver("a pool of another Cuda object cannot become the current pool", (cuda, { open }) => {
  using other = new Cuda(new Session(open()));
  using pool = other.device(0).createPool();
  assertThrows(() => cuda.device(0).currentPool = pool, RangeError, "a pool of another Cuda object the current pool");
});

testOnEachDriver("a buffer that is freed during a read is not reported as leaked", async (cuda) => {
  const gpu = cuda.device(0);
  const warnings: unknown[] = [];
  const { warn } = console;
  console.warn = (message) => warnings.push(message);
  try {
    const pool = gpu.createPool();
    const buffer = pool.allocate(2 ** 26);
    buffer.fill(3);
    const reading = buffer.read(Uint8Array);
    buffer.free();
    pool[Symbol.dispose]();
    assertEquals((await reading)[2 ** 26 - 1], 3);
  } finally {
    console.warn = warn;
  }
  assertEquals(warnings, []);
});

const unit = 32 * 2 ** 20;

/** Every way in which a program can find out that work is done without blocking. */
const waits: Readonly<Record<string, (place: WaitPlace) => Promise<void>>> = {
  "stream.finished()": ({ stream }) => stream.finished(),
  "stream.finished() twice": async ({ stream }) => {
    await stream.finished();
    await stream.finished();
  },
  "concurrent stream.finished()": async ({ stream }) => {
    await Promise.all([stream.finished(), stream.finished(), stream.finished()]);
  },
  "stream.query()": ({ stream }) => untilTrue(() => stream.query()),
  "event.finished()": ({ event }) => event.finished(),
  "finished() of an event that is disposed then": async ({ stream }) => {
    using event = stream.device.createEvent();
    stream.record(event);
    await event.finished();
  },
  "finished() of many events that are disposed then": async ({ stream }) => {
    for (let count = 0; count < 100; count++) {
      using event = stream.device.createEvent();
      stream.record(event);
      await event.finished();
    }
  },
  "event.query()": ({ event }) => untilTrue(() => event.query()),
  "device.finished()": ({ stream }) => stream.device.finished(),
  "read()": async ({ other }) => void await other.read(Uint8Array),
};

interface WaitPlace {
  readonly stream: CudaStream;
  /** Recorded after the free. */
  readonly event: CudaEvent;
  /** Another buffer of the stream. */
  readonly other: DeviceBuffer;
}

async function untilTrue(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 1));
}

for (const [name, wait] of Object.entries(waits)) {
  testOnEachDriver(`after await ${name}, memory freed before counts as free`, async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using event = gpu.createEvent();
    using otherPool = gpu.createPool();
    using other = otherPool.allocate(64, stream);
    using pool = gpu.createPool({ releaseThreshold: Infinity, maxSize: 2 * unit });
    for (let round = 0; round < 2; round++) {
      const buffer = pool.allocate(2 * unit, stream);
      buffer.fill(round);
      buffer.free();
      stream.record(event);
      await wait({ stream, event, other });
      assertEquals(pool.usage(), { reserved: 2 * unit, reservedHigh: 2 * unit, used: 0, usedHigh: 2 * unit });
      pool.trimTo(0);
      assertEquals(pool.usage().reserved, 0);
    }
    // At its limit, on another stream, without any reuse policy.
    Object.assign(pool.reuse, {
      followEventDependencies: false,
      allowOpportunistic: false,
      allowInternalDependencies: false,
    });
    pool.allocate(2 * unit, stream).free();
    stream.record(event);
    await wait({ stream, event, other });
    using elsewhere = gpu.createStream({ nonBlocking: true });
    using again = pool.allocate(2 * unit, elsewhere);
    assertEquals(again.byteLength, 2 * unit);
  });
}

for (
  const [name, adapt] of Object.entries({ "": (driver: Driver) => driver, ", before CUDA 12.5": withoutContextEvents })
) {
  testOnEachDriver(`gpu.finished() counts for streams that were disposed before it${name}`, async (_, { open }) => {
    using cuda = new Cuda(new Session(adapt(open())));
    const gpu = cuda.device(0);
    using gate = new Gate(cuda);
    for (const nonBlocking of [false, true]) {
      using pool = gpu.createPool({ releaseThreshold: Infinity });
      {
        using stream = gpu.createStream({ nonBlocking });
        const buffer = pool.allocate(unit, stream);
        gate.hold(stream);
        buffer.free();
      }
      const all = gpu.finished();
      gate.open();
      await all;
      pool.trimTo(0);
      assertEquals(pool.usage().reserved, 0);
    }
  });
}

testOnEachDriver("a query of a stream that is disposed then counts", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  {
    using stream = gpu.createStream({ nonBlocking: true });
    pool.allocate(unit, stream).free();
    await untilTrue(() => stream.query());
  }
  pool.trimTo(0);
  assertEquals(pool.usage().reserved, 0);
});

testOnEachDriver("of overlapping waits, the latest record counts, whichever is seen first", async (_, { open }) => {
  const driver = open();
  const recorded: bigint[] = [];
  const synchronized: bigint[] = [];
  using cuda = new Cuda(
    new Session(adaptedDriver(driver, {
      eventRecord(device, event, stream) {
        recorded.push(event);
        driver.eventRecord(device, event, stream);
      },
      eventSynchronize(event) {
        synchronized.push(event);
        driver.eventSynchronize(event);
      },
    })),
  );
  const gpu = cuda.device(0);
  using gate = new Gate(cuda);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  gate.hold(stream);
  recorded.length = 0;
  const first = stream.finished();
  gate.open();
  while (!driver.streamQuery(0, stream.unsafeHandle));
  // On the software device, this one is complete when it is polled first, and the other one only later.
  const second = stream.finished();
  await Promise.all([first, second]);
  pool.trimTo(0);
  assertEquals(recorded.length, 2);
  assertEquals(synchronized, [recorded[1]]);
});

testOnEachDriver("without a wait, memory freed behind running work stays reserved, and trimming does not block", async (
  cuda,
) => {
  const gpu = cuda.device(0);
  using gate = new Gate(cuda);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool({ releaseThreshold: Infinity });
  await stream.finished();
  gate.hold(stream);
  pool.allocate(unit, stream).free();
  // The earlier wait says nothing of this work.
  assertEquals(stream.query(), false);
  pool.trimTo(0);
  assertEquals(pool.usage().reserved, unit);
  gate.open();
  await stream.finished();
  pool.trimTo(0);
  assertEquals(pool.usage().reserved, 0);
});
