/** Repeated calls with the same objects, whose properties may have changed in between. */
import { assertEquals, assertThrows } from "@std/assert";
import {
  type CollectiveOptions,
  Communicator,
  type Cuda,
  type CudaDevice,
  type CudaStream,
  type DeviceArray,
  type MemoryPool,
  open,
} from "../../mod.ts";
import { driverNamed } from "../support/drivers.ts";
import { Gate } from "../support/gate.ts";
import { test } from "../support/test.ts";

interface Repeated {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly pool: MemoryPool;
  readonly communicator: Communicator;
  readonly stream: CudaStream;
  readonly source: DeviceArray<Float32Array>;
  readonly target: DeviceArray<Float32Array>;
  /** The options of the repeated call, which tests change. */
  readonly options: CollectiveOptions;
  /** Repeats the call. */
  again(): void;
}

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);

  /** Defines a test with a communicator of one rank that has called the same all-reduce three times. */
  const repeatedTest = (name: string, body: (repeated: Repeated) => Promise<void> | void): void => {
    test(`${name} [${driver}]`, { skip }, async () => {
      using cuda = open({ driver });
      const gpu = cuda.device(0);
      const own = { id: Communicator.createId(cuda), rank: 0, size: 1 };
      await using communicator = await Communicator.create(gpu, own);
      using stream = gpu.createStream({ nonBlocking: true });
      using pool = gpu.createPool();
      using source = pool.allocateArray(Float32Array, 4, stream);
      using target = pool.allocateArray(Float32Array, 4, stream);
      source.fill(1, stream);
      const options: CollectiveOptions = { stream };
      const again = () => communicator.allReduce(source, target, "sum", options);
      for (let time = 0; time < 3; time++) again();
      await body({ cuda, gpu, pool, communicator, stream, source, target, options, again });
    });
  };

  repeatedTest("a repeated call reduces again", async ({ stream, source, target, again }) => {
    for (const value of [2, 3]) {
      source.fill(value, stream);
      again();
      assertEquals(await target.toTypedArray({ stream }), new Float32Array(4).fill(value));
    }
  });

  repeatedTest("a repeated call with a freed source is refused", ({ source, again }) => {
    source.free();
    assertThrows(again, ReferenceError, "freed");
  });

  repeatedTest("a repeated call with a freed target is refused", ({ target, again }) => {
    target.free();
    assertThrows(again, ReferenceError, "freed");
  });

  repeatedTest("a repeated call with a disposed stream is refused", ({ gpu, options, source, again }) => {
    const other = gpu.createStream();
    source.stream = other;
    delete options.stream;
    for (let time = 0; time < 3; time++) again();
    other[Symbol.dispose]();
    assertThrows(again, ReferenceError, "it was disposed");
  });

  repeatedTest("memory whose stream was changed is not reused before a repeated call has completed", async (parts) => {
    const { cuda, gpu, pool, source, target, stream, again } = parts;
    using other = gpu.createStream({ nonBlocking: true });
    using gate = new Gate(cuda);
    gate.hold(stream);
    again();
    source.stream = other;
    again();
    source.free();
    using next = pool.allocateArray(Float32Array, 4, other);
    next.fill(7, other);
    other.query();
    gate.open();
    assertEquals(await target.toTypedArray({ stream }), new Float32Array(4).fill(1));
  });

  repeatedTest("a repeated call with changed options is checked", ({ options, again }) => {
    options.type = "f32" as never;
    assertThrows(again, TypeError, 'Cannot use "f32" as the type of elements');
    delete options.type;
    again();
    options.stream = {} as never;
    assertThrows(again, TypeError, "as a stream");
  });

  repeatedTest(
    "a repeated call on another stream is enqueued there",
    async ({ gpu, stream, source, target, options, again }) => {
      using other = gpu.createStream({ nonBlocking: true });
      using event = gpu.createEvent();
      options.stream = other;
      source.fill(5, stream);
      stream.record(event);
      other.wait(event);
      again();
      assertEquals(await target.toTypedArray({ stream: other }), new Float32Array(4).fill(5));
    },
  );

  repeatedTest("a repeated call of a disposed communicator is refused", async ({ communicator, again }) => {
    await communicator[Symbol.asyncDispose]();
    assertThrows(again, ReferenceError, "it was disposed");
  });

  repeatedTest("a repeated call is refused if a group has it twice", ({ again }) => {
    Communicator.group(() => again());
    assertThrows(
      () =>
        Communicator.group(() => {
          again();
          again();
        }),
      RangeError,
      "no order",
    );
  });
}

test("memory is freed after a repeated call, also after a wait", async () => {
  // The default stream is the oldest: its work comes first where nothing orders it.
  using cuda = open({ driver: "software", softwareSchedule: "oldest" });
  const gpu = cuda.device(0);
  const own = { id: Communicator.createId(cuda), rank: 0, size: 1 };
  await using communicator = await Communicator.create(gpu, own);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  const source = pool.allocateArray(Float32Array, 4);
  using target = pool.allocateArray(Float32Array, 4);
  source.fill(7);
  gpu.synchronize();
  const options = { stream };
  const again = () => communicator.allReduce(source, target, "sum", options);
  for (let time = 0; time < 3; time++) again();
  stream.synchronize();
  target.fill(0);
  gpu.synchronize();
  again();
  source.free();
  using other = pool.allocateArray(Float32Array, 4);
  other.fill(9);
  stream.synchronize();
  assertEquals(await target.toTypedArray({ stream }), new Float32Array(4).fill(7));
});
