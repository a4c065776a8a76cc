import { assertEquals, assertMatch, assertNotMatch, assertRejects, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { Cuda, sessionOf } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaKernel } from "../../src/objects/kernels/cuda_kernel.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import { messageForPeers } from "../../src/support/driver_errors.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { startScript } from "../support/child_process.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";
import { type LosableDriver, losableDriver } from "../support/losable_driver.ts";
import { test } from "../support/test.ts";

const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry saxpy() { ret; }
.visible .entry scale() { ret; }
`;

const writesPastEnd = `.version 7.0
.target sm_60
.address_size 64
.visible .entry private_kernel(.param .u64 p)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  st.global.u64 [%rd1+1024], %rd1;
  ret;
}
`;

interface Fixture {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly saxpy: CudaKernel;
  readonly scale: CudaKernel;
  readonly lose: LosableDriver["lose"];
  createStream(): CudaStream;
}

/** Runs a function with a device that can be lost. */
function withDevice<R>(use: (fixture: Fixture) => R, options: { debug?: boolean } = {}): R {
  const { driver, lose } = losableDriver(new SoftwareDriver({ devices: 2, peers: true }));
  const cuda = new Cuda(new Session(driver, options));
  const gpu = cuda.device(0);
  const module = gpu.loadModule(ptx);
  const [saxpy, scale] = [module.kernel("saxpy"), module.kernel("scale")];
  const createStream = () => gpu.createStream({ nonBlocking: true });
  const result = use({ cuda, gpu, saxpy, scale, lose, createStream });
  if (result instanceof Promise) return result.finally(() => cuda[Symbol.dispose]()) as R;
  cuda[Symbol.dispose]();
  return result;
}

function messageOf(fail: () => unknown): string {
  return assertThrows(fail, CudaError).message;
}

/** The lines of the message that list launches. */
function listOf(fail: () => unknown): string[] {
  return messageOf(fail).split("\n").slice(1, -1);
}

const noneUnderWay = "No launch of this thread was under way: a copy, a Worker or another library may have caused it";
const underWay = "Launches under way, the oldest of each stream first:";

test("the first error of a lost device names the launch, and says how to find the line", () =>
  withDevice(({ saxpy, lose, createStream }) => {
    const stream = createStream();
    saxpy.launch({ grid: [4, 2], block: 256, stream });
    lose();
    assertEquals(messageOf(() => stream.synchronize()).split("\n"), [
      "Cannot wait for a stream of device 0: streamSynchronize failed: cudaErrorIllegalAddress (700); the device's " +
      "context is lost: this process can no longer use CUDA and must be restarted",
      "The only launch known to be under way was saxpy (4 x 2 blocks of 256 threads) on a stream of device 0",
      "To find the line, run the script with POOLPASS_DRIVER=software, or under compute-sanitizer; POOLPASS_DEBUG=1 " +
      "adds where each kernel was launched",
    ]);
    assertEquals(
      messageOf(() => stream.query()),
      "Cannot query a stream of device 0: streamQuery failed: cudaErrorIllegalAddress (700); the device's context is " +
        'lost, first seen in "Cannot wait for a stream of device 0"',
    );
  }));

test("whatever reports the loss first lists the launches, and what follows does not", async () => {
  const ways: Record<string, (fixture: Fixture & { stream: CudaStream }) => () => unknown> = {
    "stream.synchronize": ({ stream }) => () => stream.synchronize(),
    "stream.query": ({ stream }) => () => stream.query(),
    "stream.finished": ({ stream }) => () => stream.finished(),
    "stream.record": ({ stream, gpu }) => {
      const event = gpu.createEvent();
      return () => stream.record(event);
    },
    "device.synchronize": ({ gpu }) => () => gpu.synchronize(),
    "device.finished": ({ gpu }) => () => gpu.finished(),
    "event.finished": ({ gpu, stream }) => {
      const event = gpu.createEvent();
      stream.record(event);
      return () => event.finished();
    },
    "pool.allocate": ({ gpu, stream }) => {
      const pool = gpu.createPool();
      return () => pool.allocate(4, stream);
    },
    "pool.allocateAsync": ({ gpu, stream }) => {
      const pool = gpu.createPool();
      return () => pool.allocateAsync(4, { stream });
    },
    "allocator.allocate": ({ gpu, stream }) => {
      const allocator = gpu.createPool().createCachingAllocator();
      return () => allocator.allocate(4, stream);
    },
    "kernel.launch": ({ scale, stream }) => () => scale.launch({ grid: 1, block: 1, stream }),
    "buffer.read": ({ gpu, stream }) => {
      const buffer = gpu.defaultPool.allocate(4);
      return () => buffer.read(Uint8Array, { stream });
    },
    "buffer.copyFrom": ({ gpu }) => {
      const buffer = gpu.defaultPool.allocate(4);
      return () => buffer.copyFrom(new Uint8Array(4));
    },
    "device.createStream": ({ gpu }) => () => gpu.createStream(),
    "device.loadModule": ({ gpu }) => () => gpu.loadModule(ptx),
  };
  const { warn } = console;
  console.warn = () => {};
  try {
    for (const [name, way] of Object.entries(ways)) {
      await withDevice(async (fixture) => {
        const stream = fixture.createStream();
        const fail = way({ ...fixture, stream });
        fixture.saxpy.launch({ grid: 1, block: 1, stream });
        fixture.lose();
        for (const isFirst of [true, false]) {
          const { message } = await assertRejects(async () => await fail(), CudaError);
          const listed = message.match(/saxpy \(1 block of 1 thread\) on a stream of device 0/g) ?? [];
          assertEquals(listed.length, isFirst ? 1 : 0, `${name}: ${message}`);
          assertEquals(message.match(/the device's context is lost/g)?.length, 1, message);
          assertEquals(/first seen in "Cannot .*"$/.test(message), !isFirst, message);
        }
      });
    }
  } finally {
    console.warn = warn;
  }
});

test("launches are listed by stream, those that are known to be complete are not", async () => {
  await withDevice(async ({ gpu, saxpy, scale, lose, createStream }) => {
    const [first, second, done] = [createStream(), createStream(), createStream()];
    const shape = { grid: 4, block: 256 };
    scale.launch({ ...shape, stream: first });
    await first.finished();
    scale.launch({ ...shape, stream: done });
    done.synchronize();
    for (let count = 0; count < 12; count++) {
      saxpy.launch({ ...shape, stream: first });
      if (count === 5) scale.launch({ grid: [1, 2, 3], block: [8, 8], stream: first });
    }
    scale.launch({ grid: 1, block: 32, stream: second });
    saxpy.launch({ grid: 2, block: 1 });
    lose();
    assertEquals(listOf(() => gpu.synchronize()), [
      underWay,
      "  on a stream of device 0: saxpy x 12 (4 blocks of 256 threads), scale (1 x 2 x 3 blocks of 8 x 8 threads)",
      "  on a stream of device 0: scale (1 block of 32 threads)",
      "  on the default stream of device 0: saxpy (2 blocks of 1 thread)",
    ]);
  });
});

test("launches before anything that the program has waited for are known to be complete", async () => {
  const waits: Record<string, (fixture: Fixture, stream: CudaStream) => unknown> = {
    "a stream's synchronize": (_, stream) => stream.synchronize(),
    "a stream's finished": (_, stream) => stream.finished(),
    "a device's synchronize": ({ gpu }) => gpu.synchronize(),
    "a device's finished": ({ gpu }) => gpu.finished(),
    "an event's finished": ({ gpu }, stream) => {
      const event = gpu.createEvent();
      stream.record(event);
      return event.finished();
    },
    "the time between events": async ({ gpu }, stream) => {
      const [start, end] = [gpu.createEvent({ timing: true }), gpu.createEvent({ timing: true })];
      for (const event of [start, end]) stream.record(event);
      await waitUntil(() => {
        try {
          return end.elapsedTime(start) >= 0;
        } catch {
          return false;
        }
      });
    },
    "a read": ({ gpu }, stream) => {
      const buffer = gpu.defaultPool.allocate(4, stream);
      return buffer.read(Uint8Array, { stream });
    },
  };
  for (const [name, wait] of Object.entries(waits)) {
    await withDevice(async (fixture) => {
      const stream = fixture.createStream();
      fixture.saxpy.launch({ grid: 1, block: 1, stream });
      await wait(fixture, stream);
      fixture.lose();
      assertEquals(listOf(() => stream.query()), [noneUnderWay], name);
    });
  }
});

test("of many launches the last ones are listed, and that there were earlier ones", () =>
  withDevice(({ saxpy, scale, lose, createStream }) => {
    const [stream, other] = [createStream(), createStream()];
    const launch = (kernel: CudaKernel, count: number, on: CudaStream) => {
      for (; count > 0; count--) kernel.launch({ grid: 1, block: 1, stream: on });
    };
    launch(scale, 1, stream);
    launch(saxpy, 1000, stream);
    // A full ring, before which all launches are known to be complete.
    launch(scale, 50, other);
    other.synchronize();
    launch(saxpy, 127, other);
    lose();
    assertEquals(listOf(() => stream.query()), [
      underWay,
      "  on a stream of device 0: saxpy x 127 (1 block of 1 thread), and earlier ones",
      "  on a stream of device 0: saxpy x 127 (1 block of 1 thread)",
    ]);
  }));

test("a list of many streams and shapes ends with their number", () =>
  withDevice(({ saxpy, lose, createStream }) => {
    const streams = Array.from({ length: 20 }, createStream);
    for (const stream of streams) {
      for (let block = 1; block <= 20; block++) saxpy.launch({ grid: 1, block, stream });
    }
    lose();
    const lines = listOf(() => streams[0]!.query());
    assertEquals(lines.length, 10);
    assertMatch(lines[1]!, /^ +on a stream of device 0: .*\(1 block of 8 threads\), and 12 more kernels or shapes$/);
    assertEquals(lines[9], "  and 12 more streams");
  }));

test("launches on a stream that was disposed are listed while they may be under way", async () => {
  await withDevice(async ({ cuda, gpu, saxpy, scale, lose, createStream }) => {
    const launchAndDispose = (kernel: CudaKernel) => {
      using stream = createStream();
      kernel.launch({ grid: 1, block: 1, stream });
    };
    launchAndDispose(scale);
    await gpu.finished();
    sessionOf(cuda).releaseCompleted();
    launchAndDispose(saxpy);
    const stream = createStream();
    saxpy.launch({ grid: 2, block: 1, stream });
    lose();
    stream[Symbol.dispose]();
    // The work of the other one counts as complete for releases.
    sessionOf(cuda).releaseCompleted();
    assertEquals(listOf(() => gpu.synchronize()), [
      underWay,
      "  on a stream of device 0: saxpy (1 block of 1 thread)",
      "  on a stream of device 0: saxpy (2 blocks of 1 thread)",
    ]);
  });
});

test("with POOLPASS_DEBUG=1, the list says where each kernel was launched", () =>
  withDevice(({ saxpy, lose, createStream }) => {
    const stream = createStream();
    function launchHere(): void {
      saxpy.launch({ grid: 1, block: 1, stream });
    }
    for (let count = 0; count < 3; count++) launchHere();
    saxpy.launch({ grid: 1, block: 1, stream });
    lose();
    const [, , launches, advice] = messageOf(() => stream.query()).split("\n");
    const site = /lost_device_test\.ts:\d+:\d+\)?/.source;
    assertMatch(
      launches!,
      new RegExp(`saxpy x 3 \\(.*, launched at launchHere \\(.*${site}\\), saxpy \\(.*, launched at .*${site}\\)$`),
    );
    assertEquals(advice, "To find the line, run the script with POOLPASS_DRIVER=software, or under compute-sanitizer");
  }, { debug: true }));

test("a loss that no kernel has caused lists no launches and gives no advice about kernels", () => {
  for (
    const code of ["cudaErrorECCUncorrectable", "cudaErrorNvlinkUncorrectable", "cudaErrorMpsClientTerminated"] as const
  ) {
    withDevice(({ saxpy, lose, createStream }) => {
      const stream = createStream();
      saxpy.launch({ grid: 1, block: 1, stream });
      lose(code);
      assertMatch(
        messageOf(() => stream.query()),
        new RegExp(
          `${code} \\(\\d+\\); the device's context is lost: this process can no longer use CUDA and must be restarted$`,
        ),
      );
    });
  }
});

test("an error that says where the fault is lists no launches", async () => {
  using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true })));
  const stream = cuda.device(0).createStream({ nonBlocking: true });
  using gate = new Gate(cuda);
  gate.fail(stream);
  for (let count = 0; count < 2; count++) {
    const { message } = await assertRejects(() => stream.finished(), CudaError);
    assertMatch(
      message,
      /line \d+ of the PTX.*; the device's context is lost: dispose of this Cuda object, and call open\(\) for another one$/,
    );
  }
});

test("an error that nobody sees is not the first one", () =>
  withDevice(({ gpu, saxpy, lose, createStream }) => {
    const stream = createStream();
    const event = gpu.createEvent();
    const pool = gpu.createPool();
    saxpy.launch({ grid: 1, block: 1, stream });
    lose();
    for (const object of [gpu, stream, event, pool]) assertMatch(inspect(object), /cudaErrorIllegalAddress/);
    event[Symbol.dispose]();
    pool[Symbol.dispose]();
    assertMatch(listOf(() => gpu.synchronize())[0]!, /saxpy/);
  }));

test("the launches of a stream that is gone are not taken for those of a later stream", () =>
  withDevice(({ saxpy, scale, lose, createStream }) => {
    for (let count = 0; count < 3; count++) {
      using gone = createStream();
      for (let launches = 0; launches < 200; launches++) saxpy.launch({ grid: 1, block: 1, stream: gone });
      gone.synchronize();
    }
    const stream = createStream();
    for (let launches = 0; launches < 2; launches++) scale.launch({ grid: 1, block: 1, stream });
    lose();
    assertEquals(listOf(() => stream.synchronize()), [
      underWay,
      "  on a stream of device 0: scale x 2 (1 block of 1 thread)",
    ]);
  }));

test("peers are not sent the list of launches", () =>
  withDevice(({ gpu, saxpy, lose, createStream }) => {
    saxpy.launch({ grid: 1, block: 1, stream: createStream() });
    lose();
    const error = assertThrows(() => gpu.synchronize(), CudaError);
    assertMatch(error.message, /saxpy/);
    assertMatch(messageForPeers(error), /^Cannot wait for device 0: .*cudaErrorIllegalAddress \(700\).* be restarted$/);
  }));

test("peers are not sent where a kernel has faulted, and where its memory was allocated", () => {
  using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true }), { debug: true }));
  const gpu = cuda.device(0);
  const buffer = gpu.allocate(8);
  const module = gpu.loadModule(writesPastEnd);
  module.kernel("private_kernel").launch({ grid: 1, block: 1 }, buffer);
  const error = assertThrows(() => gpu.synchronize(), CudaError);
  assertMatch(error.message, /private_kernel.*allocated.*lost_device_test/);
  for (const each of [error, assertThrows(() => gpu.createStream().query(), CudaError)]) {
    assertMatch(messageForPeers(each), /^\w+ failed: cudaErrorIllegalAddress \(700\)$/);
  }
});

test("the launches of a Cuda object whose devices are not lost are not listed", () => {
  withDevice(({ saxpy, scale, lose, createStream }) => {
    withDevice((other) => {
      other.scale.launch({ grid: 1, block: 1, stream: other.createStream() });
      const stream = createStream();
      saxpy.launch({ grid: 1, block: 1, stream });
      lose();
      assertMatch(listOf(() => stream.query())[0]!, /^The only launch .* was saxpy/);
      other.lose();
      assertMatch(listOf(() => other.gpu.synchronize())[0]!, /^The only launch .* was scale/);
    });
    assertThrows(() => scale.launch({ grid: 1, block: 1 }), CudaError, "first seen in");
  });
});

for (const { name, skip } of driversUnderTest.filter(({ name }) => name !== "cuda without libcudart")) {
  test(
    `the error of a kernel that fails names it, alone among those that were launched [${name}]`,
    { skip },
    async () => {
      await using child = startScript("children/lose_device.ts", [name], {
        permissions: ["--allow-ffi", "--allow-env", "--allow-sys"],
        env: { POOLPASS_DEBUG: "1" },
      });
      const [first, second] = [JSON.parse((await child.nextLine())!), JSON.parse((await child.nextLine())!)];
      assertEquals([await child.ended, await child.errors()], [0, ""]);
      assertMatch(first, /^Cannot wait for a stream of device 0: .*; the device's context is lost/);
      assertNotMatch(first, /\bhold\b/);
      if (/of the PTX/.test(first)) return;
      assertMatch(
        first,
        /The only launch known to be under way was fail \(1 block of 1 thread, launched at .*gate\.ts:/,
      );
      assertMatch(first, /POOLPASS_DRIVER=software, or under compute-sanitizer$/);
      assertMatch(second, /the device's context is lost, first seen in "Cannot wait for a stream of device 0"$/);
    },
  );
}
