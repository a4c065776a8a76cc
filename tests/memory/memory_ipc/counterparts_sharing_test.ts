/**
 * Cases of cuda.core's tests of memory pools between processes, with an exporter and its importers. See
 * `counterparts.md`.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import type { Cuda } from "../../../src/objects/cuda.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import type { Offer } from "../../../src/sharing/exporter/offer.ts";
import { nextTurn, waitUntil } from "../../../src/support/waiting/waiting.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import type { DriverUnderTest } from "../../support/drivers.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import type { Job } from "./counterparts_messages.ts";
import { Gate } from "../../support/gate.ts";

const byteLength = 10_000;
/** In milliseconds. */
const answerTimeout = 20_000;

/** An exporter, and worker processes that execute jobs on the offers that they receive. */
class Workshop implements AsyncDisposable {
  readonly cuda: Cuda;
  readonly exporter: Exporter;
  readonly #driver: DriverUnderTest;
  readonly #folder: string;
  readonly #children = new Map<string, ChildProcess>();
  readonly #pool: MemoryPool;
  #lastJob = 0;

  constructor(cuda: Cuda, driver: DriverUnderTest) {
    this.cuda = cuda;
    this.#driver = driver;
    this.#folder = mkdtempSync("/tmp/poolpass-test-");
    this.exporter = Exporter.listen(`${this.#folder}/socket`);
    this.#pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  }

  /** Starts a worker process, which connects to the exporter. */
  async start(name: string): Promise<void> {
    const args = [this.#driver.name, this.exporter.path, name];
    this.#children.set(
      name,
      startScript("children/memory/counterpart_worker.ts", args, { permissions: ["--allow-all"] }),
    );
    assertEquals(await this.next(name), { connected: true });
  }

  /** The next message that a worker prints. */
  async next(name: string): Promise<Record<string, unknown>> {
    const child = this.#children.get(name)!;
    const line = await child.nextLine();
    if (line === undefined) throw new Error(await child.errors());
    return JSON.parse(line);
  }

  offer(buffer: DeviceBuffer, job: Job, name = `job ${++this.#lastJob}`): Offer {
    return this.exporter.offer(name, buffer, { metadata: job as never });
  }

  /** Sends a worker a job that needs no memory, and returns its answer. */
  async send(name: string, what: "let go" | "count" | "end"): Promise<Record<string, unknown>> {
    using nothing = this.#pool.allocate(1);
    const offer = this.offer(nothing, { do: what, for: name });
    const answer = await this.next(name);
    offer.withdraw();
    await offer.ended();
    return answer;
  }

  /** Lets a worker exit normally, and fails unless it released everything. */
  async end(name: string): Promise<void> {
    await this.send(name, "end");
    const child = this.#children.get(name)!;
    assertEquals(await child.ended, 0, await child.errors());
  }

  kill(name: string): Promise<unknown> {
    this.#children.get(name)!.kill("SIGKILL");
    return this.#children.get(name)!.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children.values()) await child[Symbol.asyncDispose]();
    await this.exporter[Symbol.asyncDispose]();
    this.#pool[Symbol.dispose]();
    rmSync(this.#folder, { recursive: true });
  }
}

function allocateFilled(pool: MemoryPool, byte: number): DeviceBuffer {
  const buffer = pool.allocate(byteLength);
  buffer.fill(byte);
  return buffer;
}

async function assertFilled(buffer: DeviceBuffer, byte: number): Promise<void> {
  assertEquals(await buffer.read(Uint8Array), new Uint8Array(buffer.byteLength).fill(byte));
}

for (const poolCount of [1, 3]) {
  testOnEachDriver(
    `20 buffers of ${poolCount === 1 ? "one pool" : "3 pools"} are offered to 2 processes in turn`,
    async (cuda, driver) => {
      await using workshop = new Workshop(cuda, driver);
      const workers = ["first", "second"];
      await Promise.all(workers.map((name) => workshop.start(name)));
      using created = new DisposableStack();
      const pools = Array.from(
        { length: poolCount },
        () => created.use(cuda.device(0).createPool({ handleType: "posix-fd" })),
      );
      const counted: number[] = [];
      for (let job = 0; job < 20; job++) {
        const worker = workers[job % workers.length]!;
        using buffer = allocateFilled(pools[job % poolCount]!, 100 + job);
        const offer = workshop.offer(buffer, { do: "use", for: worker, expect: 100 + job, write: job });
        const poolsSeen = Math.min(Math.floor(job / workers.length) + 1, poolCount);
        assertEquals(await workshop.next(worker), { name: offer.name, isRight: true, pools: poolsSeen });
        offer.withdraw();
        await offer.ended();
        await assertFilled(buffer, job);
        if (job % 12 === 6 || job % 12 === 7) {
          counted.push((await workshop.send(worker, "count"))["resources"] as number);
        }
      }
      const [first, second, firstLater, secondLater] = counted as unknown as [number, number, number, number];
      // There are six jobs between the two counts. One or two more events may be in use, but not one resource per job.
      assert(firstLater < first + 6 && secondLater < second + 6, `The importer's resources grow: ${counted}`);
      for (const worker of workers) await workshop.end(worker);
      assertEquals(pools.map((pool) => pool.usage().used), pools.map(() => 0));
    },
    { long: true },
  );
}

testOnEachDriver(
  "two buffers of one pool, offered before any process connects, are held by two processes and freed after both releases",
  async (cuda, driver) => {
    await using workshop = new Workshop(cuda, driver);
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    const [left, right] = [allocateFilled(pool, 1), allocateFilled(pool, 2)];
    const offers = [
      workshop.offer(left, { do: "hold", for: "first", expect: 1, write: 3 }, "left"),
      workshop.offer(right, { do: "hold", for: "first", expect: 2 }, "right"),
    ];
    await workshop.start("first");
    assertEquals(await workshop.next("first"), { name: "left", isRight: true });
    assertEquals(await workshop.next("first"), { name: "right", isRight: true });
    offers.push(
      workshop.offer(left, { do: "hold", for: "second", expect: 3 }, "left again"),
      workshop.offer(right, { do: "hold", for: "second", expect: 2, write: 4 }, "right again"),
    );
    await workshop.start("second");
    assertEquals(await workshop.next("second"), { name: "left again", isRight: true });
    assertEquals(await workshop.next("second"), { name: "right again", isRight: true });
    // A worker may print before its release reaches the exporter.
    await waitUntil(() => workshop.exporter.leases.length === 4, { signal: AbortSignal.timeout(answerTimeout) });
    assertEquals(workshop.exporter.leases.map(({ name, state }) => `${name}: ${state}`).sort(), [
      "left again: held",
      "left: held",
      "right again: held",
      "right: held",
    ]);
    await assertFilled(left, 3);
    await assertFilled(right, 4);
    const { used } = pool.usage();
    left.free();
    right.free();
    await workshop.send("first", "let go");
    await Promise.all(offers.slice(0, 2).map((offer) => offer.ended()));
    cuda.device(0).synchronize();
    assertEquals(pool.usage().used, used, "The second process holds both");
    await workshop.send("second", "let go");
    await Promise.all(offers.map((offer) => offer.ended()));
    cuda.device(0).synchronize();
    assertEquals([pool.usage().used, workshop.exporter.leases], [0, []]);
    for (const worker of ["first", "second"]) await workshop.end(worker);
  },
  { long: true },
);

testOnEachDriver(
  "a buffer that one process maps six times through two connections is mapped once, until the last free",
  async (cuda, driver) => {
    await using workshop = new Workshop(cuda, driver);
    using devicePool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using hostPool = cuda.createHostPool({ numaNode: 0, handleType: "posix-fd" });
    hostPool.setAccess(cuda.device(0), "read-write");
    await workshop.start("first");
    for (const pool of [devicePool, hostPool]) {
      using buffer = pool.allocate(byteLength, cuda.device(0).defaultStream);
      buffer.fill(7);
      const offer = workshop.offer(buffer, { do: "use at once", expect: 7 });
      assertEquals(await workshop.next("first"), { name: offer.name, addresses: 1, areRight: true });
      // A second offer of the memory, or of part of it, makes no second mapping and outlives the first.
      const [whole, part] = [
        workshop.offer(buffer, { do: "hold", expect: 7 }),
        workshop.offer(buffer.subarray(4096), { do: "hold", expect: 7 }),
      ];
      for (const each of [whole, part]) {
        assertEquals(await workshop.next("first"), { name: each.name, isRight: true });
      }
      offer.withdraw();
      whole.withdraw();
      await offer.ended();
      assertEquals(workshop.exporter.leases.length, 2);
      await workshop.send("first", "let go");
      await whole.ended();
      part.withdraw();
      await part.ended();
      assertEquals(workshop.exporter.leases, []);
    }
    await workshop.end("first");
  },
);

testOnEachDriver("memory reallocated at the same address is imported with its new contents", async (cuda, driver) => {
  await using workshop = new Workshop(cuda, driver);
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  await workshop.start("first");
  const addresses = new Set<bigint>();
  for (let round = 1; round <= 6; round++) {
    const buffer = allocateFilled(pool, round);
    addresses.add(buffer.address);
    const offer = workshop.offer(buffer, { do: "use", expect: round, write: 0 });
    assertEquals((await workshop.next("first"))["isRight"], true);
    buffer.free();
    await offer.ended();
    cuda.device(0).synchronize();
  }
  assert(addresses.size < 6, "Addresses come again");
  await workshop.end("first");
}, { long: true });

testOnEachDriver("a buffer offered during a write is read after the write", async (cuda, driver) => {
  await using workshop = new Workshop(cuda, driver);
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(byteLength, stream);
  await workshop.start("first");
  using gate = new Gate(cuda);
  buffer.fill(1);
  gate.hold(stream);
  buffer.fill(2);
  const offer = workshop.offer(buffer, { do: "use", expect: 2, write: 3 });
  await waitUntil(() => offer.leases.length === 1, { signal: AbortSignal.timeout(answerTimeout) });
  assert(!stream.query(), "It is not written when it is mapped");
  gate.open();
  assertEquals(await workshop.next("first"), { name: offer.name, isRight: true, pools: 1 });
  offer.withdraw();
  await offer.ended();
  await assertFilled(buffer, 3);
  await workshop.end("first");
});

testOnEachDriver("a process killed while it holds an offer leaves nothing behind", async (cuda, driver) => {
  await using workshop = new Workshop(cuda, driver);
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  const [held, seen] = [allocateFilled(pool, 1), allocateFilled(pool, 2)];
  const offers = [
    workshop.offer(held, { do: "hold", expect: 1 }),
    workshop.offer(seen, { do: "hold", for: "nobody", expect: 2 }),
  ];
  await workshop.start("first");
  assertEquals((await workshop.next("first"))["isRight"], true);
  await workshop.kill("first");
  held.free();
  seen.free();
  await Promise.all(offers.map((offer) => offer.ended()));
  cuda.device(0).synchronize();
  assertEquals([pool.usage().used, workshop.exporter.leases, workshop.exporter.importers], [0, [], []]);
}, { long: true });

testOnEachDriver(
  "a refused offer leaves nothing: its name stays free, and no importer receives it",
  async (cuda, driver) => {
    await using workshop = new Workshop(cuda, driver);
    const { exporter } = workshop;
    const gpu = cuda.device(0);
    using pool = gpu.createPool({ handleType: "posix-fd" });
    using buffer = allocateFilled(pool, 5);
    using ownPool = gpu.createPool();
    using own = ownPool.allocate(byteLength);
    using unpooled = gpu.allocate(byteLength);
    using handle = pool.exportHandle();
    using imported = gpu.importPool(handle);
    using mapped = imported.importPointer(buffer.exportPointer(), byteLength);
    const freed = pool.allocate(byteLength);
    freed.free();
    const stream = gpu.createStream();
    stream[Symbol.dispose]();
    const refusals: (() => unknown)[] = [
      () => exporter.offer("name", own),
      () => exporter.offer("name", ownPool),
      () => exporter.offer("name", gpu.defaultPool),
      () => exporter.offer("name", unpooled),
      () => exporter.offer("name", mapped),
      () => exporter.offer("name", imported as never),
      () => exporter.offer("name", freed),
      () => exporter.offer("name", buffer.exportPointer() as never),
      () => exporter.offer("name", undefined as never),
      () => exporter.offer("name", buffer, { stream }),
      () => exporter.offer("name", buffer, { metadata: "x".repeat(40_000) }),
      () => exporter.offer("", buffer),
      () => exporter.createChannel("name", { pool: ownPool, slots: 2, slotByteLength: 100 }),
      () => exporter.createChannel("name", { pool: imported as never, slots: 2, slotByteLength: 100 }),
    ];
    for (const [index, refuse] of refusals.entries()) {
      const error = assertThrows(refuse, Error, "Cannot ", String(index));
      assert(
        error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError,
        String(error),
      );
    }
    const { used } = pool.usage();
    assertEquals([exporter.offers, exporter.leases], [[], []]);
    await using importer = await Importer.connect(cuda, exporter.path);
    const offer = exporter.offer("name", buffer);
    assertThrows(() => exporter.offer("name", buffer.subarray(100)), RangeError, "there is an offer of this name");
    const remote = (await importer.offers().next()).value!;
    assertEquals([remote.name, remote.byteLength, offer.byteLength], ["name", byteLength, byteLength]);
    // A refused offer must not affect the next one, which importers of this same process may also use.
    using here = await remote.map();
    await assertFilled(here, 5);
    here.free();
    offer.withdraw();
    await offer.ended();
    exporter.offer("name", buffer).withdraw();
    gpu.synchronize();
    assertEquals(pool.usage().used, used);
  },
);

testOnEachDriver(
  "a process receives the frames of its own channel, even before they are written",
  async (cuda, driver) => {
    await using workshop = new Workshop(cuda, driver);
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using gate = new Gate(cuda);
    using pool = gpu.createPool({ handleType: "posix-fd" });
    await using producer = workshop.exporter.createChannel("frames", { pool, slots: 2, slotByteLength: 100, stream });
    await using importer = await Importer.connect(cuda, workshop.exporter.path);
    await using consumer = await importer.channel("frames");
    gate.hold(stream);
    const values = [1, 2, 3];
    const received: number[] = [];
    const sending = (async () => {
      for (const value of values) {
        const slot = await producer.reserve();
        slot.buffer.fill(value, stream);
        producer.send(slot, { stream });
      }
      producer.end();
    })();
    const receiving = (async () => {
      for await (const slot of consumer) {
        received.push((await slot.buffer.read(Uint8Array, { length: 1 }))[0]!);
        slot.release();
      }
    })();
    await waitUntil(() => producer.sent > 0, { signal: AbortSignal.timeout(answerTimeout) });
    await nextTurn();
    assertEquals([received, stream.query()], [[], false]);
    gate.open();
    await Promise.all([sending, receiving]);
    assertEquals(received, values);
  },
);
