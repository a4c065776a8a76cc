/**
 * Pairs of programs: in each, one operation on one stream comes before another on a second one. Where the program orders
 * the two, the sanitizer is silent, and where it does not, or not enough, it reports the two.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import {
  type Cuda,
  type CudaDevice,
  CudaError,
  type CudaStream,
  type DeviceBuffer,
  type MemoryPool,
  open,
  type OpenOptions,
  SanitizerError,
  type SanitizerReport,
} from "../../mod.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { isLong, test } from "../support/test.ts";
import { openUnobserved } from "./kernel_accesses/unobserved_cuda.ts";

const elements = 256;
const byteLength = 4 * elements;

/** The fixture of a program. */
interface Context {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly pool: MemoryPool;
  /** The streams of the first and of the second operation, and another one. */
  readonly a: CudaStream;
  readonly b: CudaStream;
  readonly other: CudaStream;
  /** Buffers that all streams may use. */
  readonly x: DeviceBuffer;
  readonly y: DeviceBuffer;
  fill(stream: CudaStream, buffer: DeviceBuffer): void;
  /** y = 2x + y */
  saxpy(stream: CudaStream, x: DeviceBuffer, y: DeviceBuffer): void;
}

/** An operation on `x`, and its name in reports. */
interface Action {
  readonly name: string;
  readonly access: "read" | "write" | "free";
  /** Whether a kernel does it, by address. */
  readonly isKernel?: boolean;
  run(context: Context, stream: CudaStream): void;
}

const actions: readonly Action[] = [
  { name: "copyFrom", access: "write", run: ({ x }, stream) => x.copyFrom(new Uint8Array(byteLength), stream) },
  { name: "fill", access: "write", run: ({ x }, stream) => x.fill(1, stream) },
  { name: "copy", access: "write", run: ({ x, y }, stream) => x.copyFrom(y, stream) },
  { name: "copy", access: "read", run: ({ x, y }, stream) => y.copyFrom(x, stream) },
  { name: "kernel fill", access: "write", isKernel: true, run: ({ fill, x }, stream) => fill(stream, x) },
  { name: "kernel saxpy", access: "read", isKernel: true, run: ({ saxpy, x, y }, stream) => saxpy(stream, x, y) },
  { name: "free", access: "free", run: ({ x }, stream) => x.free(stream) },
];

/** The pair with a free that runs where not all cases do. */
const shortFree = "the write of kernel fill and the free of free";

/** A way to order the two operations, or none. */
interface Link {
  readonly name: string;
  /** Whether it orders them. */
  readonly orders: boolean;
  /** Runs before the first operation. */
  before?(context: Context): void;
  /** Runs between them. */
  between(context: Context): void | Promise<void>;
}

function recorded(gpu: CudaDevice, stream: CudaStream) {
  const event = gpu.createEvent();
  stream.record(event);
  return event;
}

const links: readonly Link[] = [
  { name: "nothing", orders: false, between: () => {} },
  { name: "an event", orders: true, between: ({ gpu, a, b }) => b.wait(recorded(gpu, a)) },
  {
    name: "an event that another stream waits for, and one of that stream",
    orders: true,
    between({ gpu, a, b, other }) {
      other.wait(recorded(gpu, a));
      b.wait(recorded(gpu, other));
    },
  },
  { name: "a synchronization of the first stream", orders: true, between: ({ a }) => a.synchronize() },
  { name: "a synchronization of the device", orders: true, between: ({ gpu }) => gpu.synchronize() },
  { name: "an awaited stream", orders: true, between: ({ a }) => a.finished() },
  { name: "an awaited event", orders: true, between: ({ gpu, a }) => recorded(gpu, a).finished() },
  { name: "a synchronized event", orders: true, between: ({ gpu, a }) => recorded(gpu, a).synchronize() },
  {
    name: "a query that says that all is done",
    orders: true,
    between: async ({ a }) => {
      while (!a.query()) await new Promise((resolve) => setTimeout(resolve));
    },
  },
  {
    name: "an event of the device's default stream, which waits for blocking streams alone",
    orders: false,
    between: ({ gpu, b }) => b.wait(recorded(gpu, gpu.defaultStream)),
  },
  {
    name: "an event that was recorded before",
    orders: false,
    between: ({ b }) => b.wait(early!),
    before: ({ gpu, a }) => void (early = recorded(gpu, a)),
  },
  { name: "an event of another stream", orders: false, between: ({ gpu, b, other }) => b.wait(recorded(gpu, other)) },
  {
    name: "an event that only another stream waits for",
    orders: false,
    between: ({ gpu, a, other }) => other.wait(recorded(gpu, a)),
  },
  { name: "a synchronization of the second stream", orders: false, between: ({ b }) => b.synchronize() },
  {
    name: "an event that nobody waits for",
    orders: false,
    between: ({ gpu, a }) => void recorded(gpu, a),
  },
];
let early: ReturnType<typeof recorded> | undefined;

type Program = (context: Context) => void | Promise<void>;

/** "unobserved" is the software device without observation of kernels' accesses, like a GPU. */
type TestedDriver = "software" | "unobserved" | "cuda";

function openSanitized(
  driver: TestedDriver,
  softwareSchedule: OpenOptions["softwareSchedule"],
  onReport: (report: SanitizerReport) => void,
): Cuda {
  if (driver === "unobserved") return openUnobserved(onReport, { softwareSchedule });
  return open({ driver, sanitize: true, onReport, ...softwareSchedule === undefined ? {} : { softwareSchedule } });
}

/** Runs a program, on the software device in every order. Returns the reports. */
async function reportsOf(driver: TestedDriver, program: Program): Promise<SanitizerReport[]> {
  const reports = await reportsOfOne(driver, undefined, program);
  if (driver === "cuda") return reports;
  // A kernel that meets freed memory stops there: the bytes may differ.
  const inWords = (reports: readonly SanitizerReport[]) =>
    reports.map(({ kind, accesses }) => [kind, ...accesses.map(({ operation, source }) => `${operation} ${source}`)]);
  const schedules = isLong
    ? ["random:1", "oldest", "newest", "random:2"] as const
    : driver === "software"
    ? ["random:1", "newest"] as const
    : [];
  for (const schedule of schedules) {
    assertEquals(inWords(await reportsOfOne(driver, schedule, program)), inWords(reports), schedule);
  }
  return reports;
}

async function reportsOfOne(
  driver: TestedDriver,
  softwareSchedule: OpenOptions["softwareSchedule"],
  program: Program,
): Promise<SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  {
    using cuda = openSanitized(driver, softwareSchedule, (report) => reports.push(report));
    const gpu = cuda.device(0);
    const [a, b, other] = [0, 1, 2].map(() => gpu.createStream({ nonBlocking: true })) as [
      CudaStream,
      CudaStream,
      CudaStream,
    ];
    const pool = gpu.createPool();
    const [x, y] = [0, 1].map(() => pool.allocate(byteLength, a)) as [DeviceBuffer, DeviceBuffer];
    x.fill(0);
    y.fill(0);
    const fillKernel = gpu.loadModule(fillPtx).kernel("fill");
    const saxpyKernel = gpu.loadModule(saxpyPtx).kernel("saxpy");
    gpu.synchronize();
    const launch = { grid: 1, block: elements };
    await program({
      cuda,
      gpu,
      pool,
      a,
      b,
      other,
      x,
      y,
      // By address, so that the library does not notice the use.
      fill: (stream, buffer) => fillKernel.launch({ ...launch, stream }, buffer.address, elements, 7),
      saxpy: (stream, x, y) => saxpyKernel.launch({ ...launch, stream }, elements, 2, x.address, y.address),
    });
    try {
      gpu.synchronize();
    } catch (error) {
      // In some orders, the memory is freed before the kernel runs.
      if (!(error instanceof CudaError) || error.code !== "cudaErrorIllegalAddress") throw error;
    }
    for (const buffer of [x, y]) buffer[Symbol.dispose]();
    pool[Symbol.dispose]();
  }
  return reports;
}

for (const driver of ["software", "unobserved", "cuda"] as const) {
  const { skip } = driverNamed(driver === "cuda" ? driver : "software");
  const pairs = actions.flatMap((first) => actions.map((second) => [first, second] as const));
  for (const [index, [first, second]] of pairs.entries()) {
    if (first.access === "read" && second.access === "read" || first.access === "free") continue;
    // The library itself orders uses that it knows of before a free.
    if (second.access === "free" && !first.isKernel) continue;
    const kind = second.access === "free" ? "use-after-free" : `unordered-${first.access}-${second.access}`;
    const pair = `the ${first.access} of ${first.name} and the ${second.access} of ${second.name}`;
    test(`${pair} are reported unless something orders them [${driver}]`, {
      skip,
      long: index % 5 !== 0 && pair !== shortFree,
    }, async () => {
      for (const { name, orders, before, between } of links) {
        const reports = await reportsOf(driver, async (context) => {
          before?.(context);
          first.run(context, context.a);
          await between(context);
          second.run(context, context.b);
        });
        const found = reports.filter((report) => report.kind === kind).map(({ check, accesses: [later, earlier] }) => {
          return { check, later: later!.operation, earlier: earlier!.operation };
        });
        const expected = { check: "stream-order", later: second.name, earlier: first.name };
        assert(orders ? reports.length === 0 : found.length > 0, `${name}: ${JSON.stringify(reports, null, 1)}`);
        if (!orders) assertEquals(found[0], expected as typeof found[0], name);
      }
    });
  }

  test(`one stream orders its own work [${driver}]`, { skip }, async () => {
    for (const first of actions) {
      for (const second of actions) {
        if (first.access === "free") continue;
        const reports = await reportsOf(driver, (context) => {
          first.run(context, context.a);
          second.run(context, context.a);
        });
        assertEquals(reports, [], `${first.name} ${second.name}`);
      }
    }
  });

  test(`the default stream orders the work of blocking streams, and of no others [${driver}]`, { skip }, async () => {
    for (const nonBlocking of [false, true]) {
      for (const isDefaultFirst of [false, true]) {
        const reports = await reportsOf(driver, ({ gpu, x }) => {
          const streams = [gpu.createStream({ nonBlocking }), gpu.defaultStream];
          if (isDefaultFirst) streams.reverse();
          for (const stream of streams) x.fill(1, stream);
        });
        assertEquals(reports.map(({ kind }) => kind), nonBlocking ? ["unordered-write-write"] : []);
      }
    }
    const reports = await reportsOf(driver, ({ gpu, x }) => {
      const [first, second] = [gpu.createStream(), gpu.createStream()];
      x.fill(1, first);
      gpu.defaultStream.record(gpu.createEvent());
      x.fill(2, second);
    });
    assertEquals(reports, []);
  });

  test(`a free comes after the work of a stream that was disposed of, and nothing else does [${driver}]`, {
    skip,
  }, async () => {
    // Unmapping blocks until the work is done, and so the program knows that.
    const allocations: readonly { name: string; blocks?: true; of(context: Context): DeviceBuffer }[] = [
      { name: "a pool", of: ({ pool, a }) => pool.allocate(byteLength, a) },
      { name: "an allocator", of: ({ pool, a }) => pool.createCachingAllocator().allocate(byteLength, a) },
      {
        name: "an address range",
        blocks: true,
        of: ({ cuda, gpu }) => {
          const memory = gpu.createMemory(byteLength);
          return cuda.reserveAddresses(memory.byteLength).map(memory);
        },
      },
    ];
    for (const { name, blocks, of } of allocations) {
      for (const isDone of [true, false]) {
        const reports = await reportsOf(driver, (context) => {
          const { gpu, x, y, a, b, other } = context;
          const buffer = of(context);
          gpu.synchronize();
          const stream = gpu.createStream({ nonBlocking: true });
          buffer.fill(1, stream);
          x.fill(2, stream);
          if (isDone) {
            // The stream's work is complete then, too, but the program does not know that.
            y.fill(0, other);
            other.synchronize();
          }
          stream[Symbol.dispose]();
          buffer.free(a);
          x.fill(3, b);
        });
        assertEquals(reports.map(({ kind }) => kind), blocks ? [] : ["unordered-write-write"], `${name}, ${isDone}`);
      }
    }
  });

  test(`parts of a buffer that do not overlap need no order [${driver}]`, { skip }, async () => {
    const fillBoth = (begin: number) => ({ x, a, b }: Context) => {
      x.subarray(0, 512).fill(1, a);
      x.subarray(begin, 1024).fill(2, b);
    };
    assertEquals(await reportsOf(driver, fillBoth(512)), []);
    const [report] = await reportsOf(driver, fillBoth(511));
    assertStringIncludes(report!.message, "bytes 511 to 511 of a buffer of 1024 bytes");
  });

  test(`rows need no order unless they have bytes in common [${driver}]`, { skip }, async () => {
    // Columns of a matrix of 16 rows of 16 floats.
    const column = (buffer: DeviceBuffer, index: number) =>
      buffer.pitched(Float32Array, [1, 16], { pitch: 64, byteOffset: 4 * index });
    type Use = (context: Context, stream: CudaStream, index: number) => void;
    const uses: Readonly<Record<string, Use>> = {
      fill: ({ x }, stream, index) => column(x, index).fill(1, stream),
      copy: ({ x, y }, stream, index) => column(x, index).copyFrom(column(y, index), stream),
      copyFrom: ({ x }, stream, index) => column(x, index).copyFrom(new Float32Array(16), stream),
      copyBatch: ({ x, y }, stream, index) =>
        stream.copyBatch([{
          source: column(y, index).region([0, 3], [1]),
          target: column(x, index).region([0, 3], [1]),
        }]),
    };
    for (const [name, use] of Object.entries(uses)) {
      const others: Readonly<Record<string, Use>> = { fill: uses["fill"]!, [name]: use };
      for (const [other, useOther] of Object.entries(others)) {
        const both = (second: number): Program => (context) => {
          use(context, context.a, 3);
          useOther(context, context.b, second);
        };
        assertEquals(await reportsOf(driver, both(4)), [], `${name}, ${other}`);
        const [report] = await reportsOf(driver, both(3));
        const operations = report!.accesses.map(({ operation }) => operation);
        assertEquals([report!.kind, operations], ["unordered-write-write", [other, name]]);
      }
    }
    const unread = await reportsOf(driver, async ({ x, a, b }) => {
      column(x, 3).fill(1, a);
      await column(x, 3).read(b);
    });
    assertEquals(unread.map(({ kind }) => kind), ["unordered-write-read"]);
    const read = await reportsOf(driver, async ({ x, a, b }) => {
      column(x, 3).fill(1, a);
      await column(x, 4).read(b);
    });
    assertEquals(read, []);
  });

  test(`memory is not used before its allocation [${driver}]`, { skip }, async () => {
    for (const isOrdered of [true, false]) {
      const reports = await reportsOf(driver, ({ gpu, pool, a, b }) => {
        const buffer = pool.allocate(64, a);
        if (isOrdered) b.wait(recorded(gpu, a));
        buffer.fill(0, b);
        buffer.free();
      });
      assertEquals(reports.map(({ kind }) => kind), isOrdered ? [] : ["use-before-allocation"]);
    }
  });

  /** Buffers of the same memory at two addresses. */
  const twoAddresses: Readonly<
    Record<string, (context: Context, owned: DisposableStack) => [DeviceBuffer, DeviceBuffer]>
  > = {
    "two mappings": ({ cuda, gpu }, owned) => {
      const memory = gpu.createMemory(byteLength);
      const range = owned.use(cuda.reserveAddresses(2 * memory.byteLength));
      return [range.map(memory), range.map(memory)];
    },
    "a mapping of a range, and a view of a later one": ({ cuda, gpu }, owned) => {
      const memory = gpu.createMemory(byteLength);
      const [first, second] = [0, 1].map(() => owned.use(cuda.reserveAddresses(2 * memory.byteLength)));
      first!.map(memory).free();
      const mapped = first!.map(memory);
      second!.map(memory);
      second!.map(gpu.createMemory(byteLength));
      return [mapped, second!.buffer()];
    },
    "pool memory, and its import by the same process": ({ gpu, a, x }, owned) => {
      const exporting = gpu.createPool({ handleType: "posix-fd" });
      const buffer = owned.use(exporting.allocate(byteLength, a));
      buffer.copyFrom(x);
      a.synchronize();
      using handle = exporting.exportHandle();
      return [buffer, owned.use(gpu.importPool(handle!).importPointer(buffer.exportPointer(), byteLength))];
    },
    // The descriptors of a GPU's memory do not identify it.
    ...driver === "cuda" ? {} : {
      "a mapping, and one of the same memory's import": ({ cuda, gpu }, owned) => {
        const memory = gpu.createMemory(byteLength, { handleType: "posix-fd" });
        const range = owned.use(cuda.reserveAddresses(2 * memory.byteLength));
        const first = range.map(memory);
        using handle = memory.exportHandle();
        return [first, range.map(gpu.importMemory(handle, memory.byteLength))];
      },
    },
  };
  for (const [what, addressesOf] of Object.entries(twoAddresses)) {
    test(`memory at two addresses needs the order of memory at one: ${what} [${driver}]`, { skip }, async () => {
      for (const isOrdered of [true, false]) {
        const reports = await reportsOf(driver, (context) => {
          const { gpu, a, b, y, fill, saxpy } = context;
          using owned = new DisposableStack();
          const [first, second] = addressesOf(context, owned);
          fill(a, first);
          if (isOrdered) b.wait(recorded(gpu, a));
          saxpy(b, second, y);
          // Parts that do not overlap need no order.
          const half = byteLength / 2;
          if (isOrdered) {
            a.wait(recorded(gpu, b));
            first.subarray(0, half).fill(1, a);
            second.subarray(half, half).fill(1, b);
          }
          gpu.synchronize();
          if (what.startsWith("pool memory")) { for (const buffer of [second, first]) buffer.free(); }
        });
        assertEquals(reports.map(({ kind }) => kind), isOrdered ? [] : ["unordered-write-read"]);
        if (!isOrdered) {
          assertEquals(reports[0]!.accesses.map(({ operation }) => operation), ["kernel saxpy", "kernel fill"]);
        }
      }
    });
  }

  test(`unmapping an address is no end of the work by another one [${driver}]`, { skip }, async () => {
    for (const isOrdered of [true, false]) {
      const reports = await reportsOf(driver, ({ cuda, gpu, a, b, fill }) => {
        const memory = gpu.createMemory(byteLength);
        using range = cuda.reserveAddresses(3 * memory.byteLength);
        const [first, second] = [range.map(memory), range.map(memory)];
        fill(a, first);
        second.free();
        if (isOrdered) b.wait(recorded(gpu, a));
        range.map(memory, { byteOffset: 2 * memory.byteLength }).fill(1, b);
        gpu.synchronize();
      });
      assertEquals(reports.map(({ kind }) => kind), isOrdered ? [] : ["unordered-write-write"]);
    }
  });

  test(
    `reads on several streams need no order, and a write comes after all of them [${driver}]`,
    { skip },
    async () => {
      for (const waits of [2, 1]) {
        const reports = await reportsOf(driver, ({ gpu, pool, x, a, b, other }) => {
          const copies = [a, b].map((stream) => {
            const copy = pool.allocate(byteLength, stream);
            copy.copyFrom(x, stream);
            return copy;
          });
          for (const stream of [a, b].slice(0, waits)) other.wait(recorded(gpu, stream));
          x.fill(1, other);
          for (const copy of copies) copy.free();
        });
        assertEquals(reports.map(({ kind }) => kind), waits === 2 ? [] : ["unordered-read-write"]);
      }
    },
  );
}

test("what the PTX says of kernels gives the same reports as what the software device sees", async () => {
  for (const first of actions) {
    for (const second of actions) {
      if (first.access === "free" || !first.isKernel && !second.isKernel) continue;
      const program: Program = (context) => {
        first.run(context, context.a);
        second.run(context, context.b);
      };
      const [seen, said] = [await reportsOfOne("software", "oldest", program), await reportsOf("unobserved", program)];
      // Without the lines of call stacks, and without the thread, which only the software device knows.
      const inDetail = (reports: readonly SanitizerReport[]) =>
        reports.map(({ message }) => {
          const lines = message.split("\n").filter((line) => !line.startsWith("      "));
          return lines.map((line) => line.replace(/, block \(.*?\), thread \(.*?\)/, ""));
        });
      assertEquals(inDetail(said), inDetail(seen), `${first.name}, ${second.name}`);
    }
  }
});

test("memory is not used after its free, and the report comes with the device's own error", () => {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: true, onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const stream = gpu.createStream();
  const buffer = pool.allocate(byteLength, stream);
  const { address } = buffer;
  const kernel = gpu.loadModule(fillPtx).kernel("fill");
  buffer.free();
  kernel.launch({ grid: 1, block: 1, stream }, address, 1, 7);
  assertThrows(() => stream.synchronize(), CudaError, "cudaErrorIllegalAddress");
  assertEquals(reports.map(({ kind }) => kind), ["use-after-free"]);
  assertEquals(reports[0]!.accesses.map(({ operation }) => operation), ["kernel fill", "free"]);
  assertStringIncludes(reports[0]!.message, "The write of kernel fill comes after the memory was freed.");
});

test("atomic operations of several streams need no order among each other", async () => {
  const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry add(.param .u64 to) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  red.global.add.u32 [%rd1], 1;
  ret;
}
.visible .entry set(.param .u64 to) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  st.global.u32 [%rd1], 1;
  ret;
}`;
  for (const second of ["add", "set"] as const) {
    const reports = await reportsOf("software", ({ gpu, x, a, b }) => {
      const module = gpu.loadModule(ptx);
      module.kernel("add").launch({ grid: 1, block: 32, stream: a }, x);
      module.kernel(second).launch({ grid: 1, block: 1, stream: b }, x);
    });
    assertEquals(reports.map(({ kind }) => kind), second === "add" ? [] : ["unordered-atomic-write"]);
    if (second === "set") assertEquals(reports[0]!.accesses.map(({ source }) => source), ["PTX line 13", "PTX line 7"]);
  }
});

test("a report says where the program called the library, and what would order the operations", async () => {
  const [report] = await reportsOf("software", ({ x, fill, a, b }) => {
    x.copyFrom(new Uint8Array(byteLength), a);
    fill(b, x);
  });
  const { message, accesses: [later, earlier] } = report!;
  assertEquals([later!.stream, earlier!.stream], ["stream 2 of device 0", "stream 1 of device 0"]);
  for (const access of [later!, earlier!]) assertStringIncludes(access.stack.split("\n")[0]!, "stream_order_test.ts:");
  assertStringIncludes(later!.source!, "fill.cu:");
  assertStringIncludes(message, `${later!.source}, on stream 2 of device 0`);
  assertStringIncludes(
    message,
    "Record an event on stream 1 of device 0 after copyFrom, and let stream 2 of device 0 wait for it.",
  );
  for (const stream of [1, 2]) {
    const created = message.split("\n").filter((line) =>
      line.startsWith(`  Stream ${stream} of device 0 was created at `)
    );
    assertEquals(created.map((line) => /stream_order_test\.ts:\d+$/.test(line)), [true]);
  }
});

test("a report of an early free says which stream may free", async () => {
  const [report] = await reportsOf("software", ({ gpu, fill, a, b }) => {
    const pool = gpu.createPool();
    const x = pool.allocateArray(Int32Array, elements, a);
    a.synchronize();
    fill(b, x);
    x.free(a);
  });
  assertStringIncludes(
    report!.message,
    "Free it on stream 2 of device 0, or record an event on stream 2 of device 0 after kernel fill, and let stream 1 " +
      "of device 0 wait for it before the free.",
  );
});

test("a report says where the event was recorded whose wait orders nothing", async () => {
  const [report] = await reportsOf("software", ({ gpu, x, fill, a, b }) => {
    const event = recorded(gpu, a);
    fill(a, x);
    b.wait(event);
    x.copyFrom(new Uint8Array(byteLength), b);
    // A wait after the access does not order it.
    b.wait(recorded(gpu, a));
  });
  assertMatch(
    report!.message,
    /and let stream 2 of device 0 wait for it: the one that it waits for was recorded before kernel fill, at stream_order_test\.ts:\d+\./,
  );
});

test("the same mistake is reported once", async () => {
  const reports = await reportsOf("software", ({ x, a, b }) => {
    for (let time = 0; time < 10; time++) {
      for (const stream of [a, b]) x.fill(time, stream);
    }
  });
  assert(reports.length <= 2, `${reports.length} reports`);
});

test("disposing of a Cuda object with reports throws, unless there is a listener", () => {
  const printed: string[] = [];
  const original = console.error;
  // In GitHub Actions, annotations are printed, too.
  console.error = (text: string) => void (text.startsWith("::") || printed.push(text));
  try {
    const cuda = open({ driver: "software", sanitize: ["stream-order"] });
    const gpu = cuda.device(0);
    const buffer = gpu.allocate(64);
    for (const nonBlocking of [true, true]) buffer.fill(1, gpu.createStream({ nonBlocking }));
    buffer.free();
    const error = assertThrows(() => cuda[Symbol.dispose](), SanitizerError, "1 mistake");
    assertEquals(error.reports.map(({ message }: SanitizerReport) => message), printed);
    // The program was notified before.
    cuda[Symbol.dispose]();
  } finally {
    console.error = original;
  }
});

test("the option and the environment variable take checks by name", () => {
  assertThrows(() => open({ driver: "software", sanitize: 1 as unknown as boolean }), TypeError, "give true");
  assertThrows(
    () => open({ driver: "software", sanitize: ["racing" as "race"] }),
    RangeError,
    'Cannot make the check "racing" of sanitize: the checks are "stream-order"',
  );
  open({ driver: "software", sanitize: [] })[Symbol.dispose]();
});

test("parts of an allocator's slab are memory of their own", async () => {
  for (const isOrdered of [true, false]) {
    const reports = await reportsOf("software", ({ gpu, pool, fill, a, b }) => {
      using allocator = pool.createCachingAllocator();
      const neighbours = [0, 1].map(() => allocator.allocate(512, a)) as [DeviceBuffer, DeviceBuffer];
      b.wait(recorded(gpu, a));
      neighbours[0].fill(1, a);
      neighbours[1].fill(2, b);
      // By address, so that the allocator does not notice that the memory is still in use.
      const part = allocator.allocate(byteLength, a);
      b.wait(recorded(gpu, a));
      fill(b, part);
      if (isOrdered) a.wait(recorded(gpu, b));
      part.free();
      for (const neighbour of neighbours) neighbour.free();
      const next = allocator.allocate(byteLength, a);
      next.fill(3, a);
      next.free();
    });
    assertEquals(reports.map(({ kind }) => kind), isOrdered ? [] : ["use-after-free"]);
  }
});

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);

  test(`page-locked memory is not changed before a copy has read it [${driver}]`, { skip }, async () => {
    const waits: readonly (readonly [wait: (context: Context) => void | Promise<void>, isEnough: boolean])[] = [
      [({ a }) => a.synchronize(), true],
      [({ a }) => a.finished(), true],
      [({ gpu }) => gpu.synchronize(), true],
      [({ b }) => b.synchronize(), false],
      [() => {}, false],
    ];
    for (const [wait, isEnough] of waits) {
      const reports = await reportsOf(driver, async (context) => {
        const { cuda, gpu, x, a } = context;
        using host = cuda.allocateHost(byteLength);
        x.copyFrom(host.buffer, a);
        await wait(context);
        new Uint8Array(host.buffer, 16, 4).fill(1);
        gpu.synchronize();
      });
      assertEquals(reports.map(({ kind }) => kind), isEnough ? [] : ["source-overwritten"]);
      if (isEnough) continue;
      const { message } = reports[0]!;
      assertStringIncludes(message, "bytes 16 to 19 of a buffer of 1024 bytes");
      assertStringIncludes(message, "may still be reading it (the first byte that differs is 16).");
      assertStringIncludes(message, "The buffer was allocated\n      at ");
      assertStringIncludes(message, "Wait for stream 1 of device 0 between copyFrom and the next change");
    }
  });

  test(`a copy to page-locked memory that another one has read is no change by the program [${driver}]`, {
    skip,
  }, async () => {
    const reports = await reportsOf(driver, ({ cuda, gpu, x, y, a }) => {
      y.fill(5, a);
      const host = cuda.allocateHost(byteLength);
      x.copyFrom(host.buffer, a);
      y.copyTo(host, a);
      gpu.synchronize();
      assertEquals(new Uint8Array(host.buffer)[100], 5);
      // The same with a fill of the memory at its address.
      x.copyFrom(host.buffer, a);
      gpu.wrap(host.address, byteLength, { stream: a }).fill(6);
      gpu.synchronize();
      assertEquals(new Uint8Array(host.buffer)[100], 6);
      host[Symbol.dispose]();
    });
    assertEquals(reports, []);
  });

  test(`a wait for an event that was never recorded is reported [${driver}]`, { skip }, async () => {
    for (const isRecorded of [true, false]) {
      const reports = await reportsOf(driver, async ({ gpu, a, b }) => {
        const events = [0, 1, 2].map(() => gpu.createEvent());
        if (isRecorded) { for (const event of events) a.record(event); }
        b.wait(events[0]!);
        events[1]!.synchronize();
        await events[2]!.finished();
      });
      assertEquals(reports.map(({ kind }) => kind), isRecorded ? [] : Array(3).fill("unrecorded-event"));
      for (const { accesses } of reports) {
        for (const { stack } of accesses) assertStringIncludes(stack.split("\n")[0]!, "stream_order_test.ts:");
      }
    }
  });
}

test("a kernel that leaves very many pieces of memory is looked at like any other", { long: true }, async () => {
  const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .entry strided(.param .u64 to) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r1, 8;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], 1;
  ret;
}`;
  const reports = await reportsOfOne("software", undefined, ({ gpu, pool, a, b }) => {
    const count = 2 ** 16;
    const [from, to] = [0, 1].map(() => pool.allocate(8 * count, a)) as [DeviceBuffer, DeviceBuffer];
    gpu.loadModule(ptx).kernel("strided").launch({ grid: count / 256, block: 256, stream: a }, from);
    to.copyFrom(from, a);
    b.wait(recorded(gpu, a));
    from.fill(0, b);
    for (const buffer of [from, to]) buffer.free(b);
  });
  assertEquals(reports, []);
});

test("a listener that throws is heard once, and the device goes on", () => {
  let calls = 0;
  const cuda = open({
    driver: "software",
    sanitize: true,
    onReport({ kind }) {
      calls++;
      throw new Error(`heard of ${kind}`);
    },
  });
  const gpu = cuda.device(0);
  const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
  const buffer = gpu.allocate(byteLength);
  const kernel = gpu.loadModule(fillPtx).kernel("fill");
  for (const stream of streams) kernel.launch({ grid: 1, block: 32, stream }, buffer, byteLength, 3);
  assertThrows(() => gpu.synchronize(), Error, "heard of unordered-write-write");
  gpu.synchronize();
  assertEquals(buffer.readSync(Uint8Array, { length: 1 }), new Uint8Array([3]));
  buffer.free();
  cuda[Symbol.dispose]();
  assertEquals(calls, 1);
});

test("disposing of a stream orders nothing", async () => {
  const reports = await reportsOf("software", ({ gpu, x, y, fill, b, other }) => {
    {
      using stream = gpu.createStream({ nonBlocking: true });
      x.fill(1, stream);
      fill(other, y);
      other.synchronize();
    }
    x.fill(2, b);
  });
  assertEquals(reports.map(({ kind }) => kind), ["unordered-write-write"]);
});

test("a module's variable that the program asks for is memory like any other", async () => {
  const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .b8 table[65536];
.visible .entry nothing() { ret; }`;
  for (const isOrdered of [true, false]) {
    const reports = await reportsOf("software", ({ gpu, fill, a, b }) => {
      // Its memory may be reused.
      gpu.allocate(65536).free();
      const table = gpu.loadModule(ptx).getGlobal("table");
      table.fill(0, a);
      if (isOrdered) b.wait(recorded(gpu, a));
      fill(b, table);
    });
    assertEquals(reports.map(({ kind }) => kind), isOrdered ? [] : ["unordered-write-write"]);
  }
});

test("a free lets the program know nothing of the streams that it looks at", async () => {
  const reports = await reportsOf("software", ({ pool, x, y, a, b, other }) => {
    const part = pool.allocate(byteLength, b);
    b.synchronize();
    part.fill(0, other);
    x.fill(0, other);
    // The device happens to run the work of `other`, too.
    y.fill(0, a);
    a.synchronize();
    part.free(b);
    x.fill(1, b);
  });
  assertEquals(reports.map(({ kind }) => kind), ["unordered-write-write"]);
});

test("a process that ends with reports fails, unless an error has told them", async () => {
  for (const [how, code] of [["exit", 1], ["end", 1], ["caught", 0]] as const) {
    await using child = startScript("children/sanitizer/leave_with_reports.ts", [how]);
    assertEquals(await child.ended, code, how);
    assertStringIncludes(await child.errors(), "poolpass sanitizer: unordered-write-write");
  }
});
