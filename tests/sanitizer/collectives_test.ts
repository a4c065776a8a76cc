/** Pairs of programs that order collectives with other work, and that fail to. */
import { assert, assertEquals, assertMatch } from "@std/assert";
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

/** The fixture of a program. */
interface Context {
  readonly gpu: CudaDevice;
  readonly communicator: Communicator;
  readonly pool: MemoryPool;
  readonly streams: readonly [CudaStream, CudaStream];
  readonly source: DeviceArray<Float32Array>;
  readonly target: DeviceArray<Float32Array>;
}

/** A program that can leave out the order of two of its operations. */
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
      // By address, so that the library does not notice the use.
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
    Communicator.group(function callInGroup() {
      communicator.broadcast(source, 0, { stream: second });
    });
    gpu.synchronize();
  }
  const [report] = reports;
  assertEquals(report?.kind, "unordered-write-read");
  const broadcast = report!.accesses.find(({ operation }) => operation === "broadcast")!;
  assertMatch(broadcast.stack, /^at callInGroup\b.*collectives_test\.ts:/);
});

/** The fixture of two ranks of one process, each on a device of its own. */
interface Ranks {
  readonly ranks: readonly [Communicator, Communicator];
  readonly streams: readonly [CudaStream, CudaStream];
  readonly sources: readonly [DeviceArray<Float32Array>, DeviceArray<Float32Array>];
  readonly targets: readonly [DeviceArray<Float32Array>, DeviceArray<Float32Array>];
  /** Memory of the second device, written by its stream before its collective. */
  readonly written: DeviceArray<Float32Array>;
  /** Memory of the first device, which the first rank copies to. */
  readonly reader: CudaStream;
  reduce(index: 0 | 1): void;
}

/** The reports of a program of two ranks, of which the second writes and the first reads. */
async function reportsOfRanks(run: (ranks: Ranks) => Promise<void> | void): Promise<SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  {
    using cuda = open({
      driver: "software",
      softwareDevices: 2,
      sanitize: ["stream-order"],
      onReport: (report) => reports.push(report),
    });
    const gpus = cuda.devices as [CudaDevice, CudaDevice];
    const id = Communicator.createId(cuda);
    const ranks = await Promise.all(gpus.map((gpu, rank) => Communicator.create(gpu, { id, rank, size: 2 }))) as [
      Communicator,
      Communicator,
    ];
    using owned = new DisposableStack();
    const pairOf = <T extends Disposable>(make: (gpu: CudaDevice) => T) =>
      gpus.map((gpu) => owned.use(make(gpu))) as [T, T];
    const array = (gpu: CudaDevice) => owned.use(gpu.allocate(16)).as(Float32Array);
    const streams = pairOf((gpu) => gpu.createStream({ nonBlocking: true }));
    const reader = owned.use(gpus[0].createStream({ nonBlocking: true }));
    const [sources, targets] = [0, 1].map(() => [array(gpus[0]), array(gpus[1])] as const) as [
      Ranks["sources"],
      Ranks["targets"],
    ];
    const written = array(gpus[1]);
    sources.forEach((source, index) => source.fill(1, streams[index]));
    for (const gpu of gpus) gpu.synchronize();
    const reduce = (index: 0 | 1) =>
      ranks[index].allReduce(sources[index], targets[index], "sum", { stream: streams[index]! });
    await run({ ranks, streams, sources, targets, written, reader, reduce });
    for (const gpu of gpus) gpu.synchronize();
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
  }
  return reports;
}

/** The operations of the first rank that read, behind its collective, what the second one wrote before its own. */
const reads: Readonly<Record<string, (ranks: Ranks) => Promise<void> | void>> = {
  "on the same stream": ({ streams: [stream], targets: [target], written }) => target.copyFrom(written, stream),
  "behind an event": ({ streams: [stream], reader, targets: [target], written, ranks: [{ device }] }) => {
    using event = device.createEvent();
    stream.record(event);
    reader.wait(event);
    target.copyFrom(written, reader);
  },
  "when the host has waited": async ({ streams: [stream], reader, targets: [target], written }) => {
    await stream.finished();
    target.copyFrom(written, reader);
  },
};

for (const [how, read] of Object.entries(reads)) {
  for (
    const [calls, call] of Object.entries<(ranks: Ranks) => void>({
      "in a group": ({ written, streams, reduce }) => {
        written.fill(1, streams[1]);
        Communicator.group(() => [0, 1].forEach((index) => reduce(index as 0 | 1)));
      },
      "one after another": ({ written, streams, reduce }) => {
        reduce(0);
        written.fill(1, streams[1]);
        reduce(1);
      },
      "many times": ({ written, streams, reduce }) => {
        for (let time = 0; time < 100; time++) {
          reduce(0);
          written.fill(1, streams[1]);
          reduce(1);
        }
      },
    })
  ) {
    test(`what a rank writes before its collective is read by another ${how}, ${calls}`, async () => {
      assertEquals(
        await reportsOfRanks(async (ranks) => {
          call(ranks);
          await read(ranks);
        }),
        [],
      );
    });
  }

  test(`what a rank writes behind its collective is not read by another in order ${how}`, async () => {
    for (const isGroup of [true, false]) {
      const reports = await reportsOfRanks(async (ranks) => {
        const reduceBoth = () => [0, 1].forEach((index) => ranks.reduce(index as 0 | 1));
        if (isGroup) Communicator.group(reduceBoth);
        else reduceBoth();
        ranks.written.fill(1, ranks.streams[1]);
        await read(ranks);
      });
      assertEquals(reports.map(({ kind }) => kind), ["unordered-write-read"]);
    }
  });
}

test("a message orders its two ranks, and nothing that they do behind it", async () => {
  for (const isRight of [true, false]) {
    const reports = await reportsOfRanks(({ ranks, streams, sources, targets, written }) => {
      const send = () => {
        ranks[0].receive(targets[0], 1, { stream: streams[0] });
        ranks[1].send(sources[1], 0, { stream: streams[1] });
      };
      Communicator.group(send);
      written.fill(1, streams[1]);
      if (isRight) Communicator.group(send);
      targets[0].copyFrom(written, streams[0]);
    });
    assertEquals(reports.map(({ kind }) => kind), isRight ? [] : ["unordered-write-read"]);
  }
});

test("the collectives of one communicator do not order those of another", async () => {
  const reports = await reportsOfRanks(async ({ ranks, streams, targets, written }) => {
    // Each rank has a communicator of its own, so no rank waits for another one.
    const [first, second] = await Promise.all(ranks.map((rank, index) => rank.split(index))) as [
      Communicator,
      Communicator,
    ];
    written.fill(1, streams[1]);
    second.allReduce(written, written, "sum", { stream: streams[1] });
    first.allReduce(targets[0], targets[0], "sum", { stream: streams[0] });
    targets[0].copyFrom(written, streams[0]);
    for (const part of [first, second]) await part[Symbol.asyncDispose]();
  });
  assertEquals(reports.map(({ kind }) => kind), ["unordered-write-read"]);
});

test("the collectives of a communicator are in order on all streams of a rank", async () => {
  assertEquals(
    await reportsOfRanks(({ ranks, streams, reader, sources, targets, written, reduce }) => {
      written.fill(1, streams[1]);
      Communicator.group(() => [0, 1].forEach((index) => reduce(index as 0 | 1)));
      Communicator.group(() => {
        ranks[0].allReduce(sources[0], targets[0], "sum", { stream: reader });
        ranks[1].allReduce(sources[1], targets[1], "sum", { stream: streams[1] });
      });
      sources[0].copyFrom(written, reader);
    }),
    [],
  );
});

test("who has the result of a collective does not know that another rank has it, but that its source was read", async () => {
  for (const isSource of [true, false]) {
    const reports = await reportsOfRanks(({ streams, sources, targets, reduce }) => {
      Communicator.group(() => [0, 1].forEach((index) => reduce(index as 0 | 1)));
      // Memory of the second rank, read by the first one's stream.
      if (isSource) sources[1].copyFrom(targets[0], streams[0]);
      else targets[1].copyFrom(targets[0], streams[0]);
    });
    assertEquals(reports.map(({ kind }) => kind), isSource ? [] : ["unordered-write-write"]);
  }
});
