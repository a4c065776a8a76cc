/** Tests of `CudaDevice.finished`, with drivers that can record an event for all streams of a device, and with others. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Driver } from "../../src/driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import { Session } from "../../src/session.ts";
import { nextTurn } from "../../src/support/waiting/waiting.ts";
import { withoutContextEvents } from "../support/adapted_driver.ts";
import { Capture } from "../support/capture.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";

/** Far longer than any wait of these tests, which would otherwise not end if they fail. */
const patience = 60_000;
/** Turns of the event loop in which a wait would end that has nothing to wait for. */
const turns = 8;

interface Place {
  readonly driver: Driver;
  readonly gpu: CudaDevice;
  readonly gate: Gate;
  /** `gpu.finished()`, which rejects after a while. */
  finished(): Promise<void>;
}

/** Declares a test with and without `cuCtxRecordEvent`. */
function testFinished(name: string, body: (place: Place) => Promise<void>): void {
  for (
    const [suffix, adapt] of Object.entries({
      "": (driver: Driver) => driver,
      ", before CUDA 12.5": withoutContextEvents,
    })
  ) {
    testOnEachDriver(`${name}${suffix}`, async (_, { open }) => {
      const driver = adapt(open());
      using cuda = new Cuda(new Session(driver));
      const gpu = cuda.device(0);
      using gate = new Gate(cuda);
      await body({ driver, gpu, gate, finished: () => gpu.finished({ signal: AbortSignal.timeout(patience) }) });
      gate.open();
      gpu.synchronize();
    });
  }
}

async function isPending(promise: Promise<void>): Promise<boolean> {
  let settled = false;
  promise.then(() => settled = true, () => settled = true);
  for (let turn = 0; turn < turns; turn++) await nextTurn();
  return !settled;
}

testFinished("a pending gpu.finished() makes no stream wait for another", async ({ gpu, gate, finished }) => {
  using long = gpu.createStream();
  using short = gpu.createStream();
  using pool = gpu.createPool();
  using buffer = pool.allocate(64, short);
  buffer.fill(1);
  gpu.synchronize();
  gate.hold(long);
  const all = finished();
  buffer.fill(2);
  await short.finished({ signal: AbortSignal.timeout(patience) });
  assert(await isPending(all));
  assertEquals(long.query(), false);
  gate.open();
  await all;
  assertEquals(long.query(), true);
});

const kinds: Readonly<Record<string, (place: Place) => Disposable | undefined>> = {
  "a blocking stream"({ gpu, gate }) {
    const stream = gpu.createStream();
    gate.hold(stream);
    return stream;
  },
  "a nonblocking stream"({ gpu, gate }) {
    const stream = gpu.createStream({ nonBlocking: true });
    gate.hold(stream);
    return stream;
  },
  "the default stream"({ gpu, gate }) {
    gate.hold(gpu.defaultStream);
    return undefined;
  },
  "a blocking stream that was disposed"({ gpu, gate }) {
    using stream = gpu.createStream();
    gate.hold(stream);
    return undefined;
  },
  "a nonblocking stream that was disposed"({ gpu, gate }) {
    using stream = gpu.createStream({ nonBlocking: true });
    gate.hold(stream);
    return undefined;
  },
};

for (const [kind, hold] of Object.entries(kinds)) {
  testFinished(`gpu.finished() waits for ${kind}, and not for its later work`, async (place) => {
    const { gpu, gate, finished } = place;
    await finished();
    using _held = hold(place);
    const all = finished();
    assert(await isPending(all));
    gate.open();
    await all;
    using later = gpu.createStream({ nonBlocking: true });
    const before = finished();
    gate.hold(later);
    gate.hold(gpu.defaultStream);
    await before;
    assertEquals(later.query(), false);
  });
}

testOnEachDriver("gpu.finished() waits for streams that the Cuda object does not know", async (_, { open }) => {
  const driver = open();
  using cuda = new Cuda(new Session(driver));
  // Stands in for another library. It is not disposed, because that would close the driver.
  const other = new Cuda(new Session(driver));
  using gate = new Gate(other);
  using unknown = other.device(0).createStream({ nonBlocking: true });
  gate.hold(unknown);
  const all = cuda.device(0).finished({ signal: AbortSignal.timeout(patience) });
  assert(await isPending(all));
  gate.open();
  await all;
  assertEquals(unknown.query(), true);
});

testFinished("a signal ends gpu.finished() with the signal's reason", async ({ gpu, gate }) => {
  gate.hold(gpu.defaultStream);
  const reason = new Error("enough");
  const controller = new AbortController();
  const waiting = gpu.finished({ signal: controller.signal });
  controller.abort(reason);
  assertEquals(await assertRejects(() => waiting), reason);
  assertEquals(await assertRejects(() => gpu.finished({ signal: AbortSignal.abort(reason) })), reason);
  await assertRejects(() => gpu.finished({ signal: 5 as never }), TypeError, "as a signal: give an AbortSignal");
  gate.open();
  await gpu.finished();
});

for (const nonBlocking of [false, true]) {
  const kind = nonBlocking ? "nonblocking" : "blocking";
  testFinished(`gpu.finished() leaves the capture of a ${kind} stream valid`, async (place) => {
    const { driver, gpu, gate, finished } = place;
    using captured = gpu.createStream({ nonBlocking });
    using other = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    using buffer = pool.allocate(64, captured);
    gpu.synchronize();
    gate.hold(other);
    const capture = new Capture(driver, captured);
    let isValid: boolean;
    try {
      buffer.fill(1, captured);
      const all = finished();
      assert(await isPending(all));
      gate.open();
      await all;
    } finally {
      isValid = capture.end();
    }
    assert(isValid);
    assertEquals(other.query(), true);
    await finished();
  });
}
