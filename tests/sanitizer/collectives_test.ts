/** Programs that order collectives with other work, right and wrong. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  Communicator,
  type CudaDevice,
  type CudaStream,
  type DeviceArray,
  type MemoryPool,
  open,
  type SanitizerReport,
} from "../../mod.ts";
import { driverNamed } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** What a program works with. */
interface Context {
  readonly gpu: CudaDevice;
  readonly communicator: Communicator;
  readonly pool: MemoryPool;
  readonly streams: readonly [CudaStream, CudaStream];
  readonly source: DeviceArray<Float32Array>;
  readonly target: DeviceArray<Float32Array>;
}

/** A program that may lack what orders two of its operations. */
interface Program {
  readonly name: string;
  readonly kind: string;
  run(context: Context, isRight: boolean): void;
}

function order({ gpu, streams: [first, second] }: Context): void {
  using event = gpu.createEvent();
  first.record(event);
  second.wait(event);
}

const programs: readonly Program[] = [
  {
    name: "a collective reads what another stream has written",
    kind: "unordered-write-read",
    run(context, isRight) {
      const { communicator, streams: [first, second], source, target } = context;
      source.fill(1, first);
      if (isRight) order(context);
      communicator.allReduce(source, target, "sum", { stream: second });
    },
  },
  {
    name: "another stream reads what a collective has written",
    kind: "unordered-write-read",
    run(context, isRight) {
      const { communicator, streams: [first, second], source, target } = context;
      source.fill(1, first);
      communicator.allGather(source, target, { stream: first });
      if (isRight) order(context);
      source.copyFrom(target, second);
    },
  },
  {
    name: "another stream writes what a collective still reads",
    kind: "unordered-read-write",
    run(context, isRight) {
      const { communicator, streams: [first, second], source, target } = context;
      source.fill(1, first);
      communicator.reduceScatter(source, target, "sum", { stream: first });
      if (isRight) order(context);
      source.fill(2, second);
    },
  },
  {
    name: "a group sends and receives",
    kind: "unordered-write-read",
    run(context, isRight) {
      const { communicator, streams: [first, second], source, target } = context;
      source.fill(1, first);
      if (isRight) order(context);
      Communicator.group(() => {
        communicator.send(source, 0, { stream: second });
        communicator.receive(target, 0, { stream: second });
      });
    },
  },
  {
    name: "a collective writes what is freed on another stream",
    kind: "use-after-free",
    run(context, isRight) {
      const { communicator, streams: [first, second], source, pool, gpu } = context;
      const freed = pool.allocateArray(Float32Array, 4, first);
      source.fill(1, second);
      first.synchronize();
      // By its address, so that the library does not know of the use.
      const alias = gpu.wrap(freed.address, freed.byteLength, { stream: second }).as(Float32Array);
      communicator.allReduce(source, alias, "sum", { stream: second });
      if (isRight) second.synchronize();
      freed.free(first);
    },
  },
];

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);
  for (const { name, kind, run } of programs) {
    test(`${name}: reported where nothing orders it [${driver}]`, { skip }, async () => {
      for (const isRight of [true, false]) {
        const reports: SanitizerReport[] = [];
        {
          using cuda = open({ driver, sanitize: ["stream-order"], onReport: (report) => reports.push(report) });
          const gpu = cuda.device(0);
          const id = Communicator.createId(cuda);
          await using communicator = await Communicator.create(gpu, { id, rank: 0, size: 1 });
          using first = gpu.createStream({ nonBlocking: true });
          using second = gpu.createStream({ nonBlocking: true });
          using pool = gpu.createPool();
          using source = pool.allocateArray(Float32Array, 4, first);
          using target = pool.allocateArray(Float32Array, 4, first);
          first.synchronize();
          run({ gpu, communicator, pool, streams: [first, second], source, target }, isRight);
          gpu.synchronize();
        }
        const what = JSON.stringify(reports, null, 1);
        if (isRight) assertEquals(reports, [], what);
        else assert(reports.some((report) => report.kind === kind), what);
      }
    });
  }
}

test("a report names the collective, and where the program has called it", async () => {
  const reports: SanitizerReport[] = [];
  {
    using cuda = open({ driver: "software", sanitize: ["stream-order"], onReport: (report) => reports.push(report) });
    const gpu = cuda.device(0);
    await using communicator = await Communicator.create(gpu, { id: Communicator.createId(cuda), rank: 0, size: 1 });
    using first = gpu.createStream({ nonBlocking: true });
    using second = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    using source = pool.allocateArray(Float32Array, 4, first);
    first.synchronize();
    source.fill(1, first);
    communicator.broadcast(source, 0, { stream: second });
    gpu.synchronize();
  }
  const [report] = reports;
  assertEquals(report?.kind, "unordered-write-read");
  const broadcast = report!.accesses.find(({ operation }) => operation === "broadcast")!;
  assertStringIncludes(broadcast.stack, "collectives_test.ts:");
});
