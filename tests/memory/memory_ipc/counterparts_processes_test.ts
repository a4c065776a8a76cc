/**
 * Cases of cuda.core's tests of memory pools between processes, with handles and export data. See `counterparts.md`.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import type { Cuda } from "../../../src/objects/cuda.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { ptx } from "../../../kernels/fill.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import type { DriverUnderTest } from "../../support/drivers.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { ask, type ImporterTask, type MemoryAddress } from "./counterparts_messages.ts";
import { Gate } from "../../support/gate.ts";

const byteLength = 10_000;

/** A process that executes the import tasks that it receives. */
interface ImporterProcess extends AsyncDisposable {
  readonly path: string;
  readonly child: ChildProcess;
  ask<T>(task: ImporterTask, pools?: readonly MemoryPool[]): Promise<T>;
  /** Lets the process exit normally, and fails unless it released everything. */
  end(): Promise<void>;
}

async function startImporters(driver: DriverUnderTest, count: number): Promise<AsyncDisposable & ImporterProcess[]> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  const importers = await Promise.all(Array.from({ length: count }, async (_, index): Promise<ImporterProcess> => {
    const path = `${folder}/${index}`;
    const child = startScript("children/memory/counterpart_importer.ts", [driver.name, path], {
      permissions: ["--allow-all"],
    });
    assertEquals(await child.nextLine(), "listens", await errorsOf(child));
    // The process serves one connection at a time. Connecting on the first request lets another process use it instead.
    let socket: UnixSocket | undefined;
    return {
      path,
      child,
      async ask(task, pools = []) {
        socket ??= await UnixSocket.connect(path);
        const handles = pools.map((pool) => pool.exportHandle());
        try {
          return await ask(socket, task, handles);
        } finally {
          for (const handle of handles) handle[Symbol.dispose]();
        }
      },
      async end() {
        await ask(socket!, { do: "end" });
        assertEquals(await child.ended, 0, await child.errors());
      },
      async [Symbol.asyncDispose]() {
        await socket?.[Symbol.asyncDispose]();
        await child[Symbol.asyncDispose]();
      },
    };
  }));
  return Object.assign(importers, {
    async [Symbol.asyncDispose]() {
      for (const importer of importers) await importer[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    },
  });
}

async function errorsOf(child: ChildProcess): Promise<string> {
  const ended = await Promise.race([child.ended, undefined]);
  return ended === undefined ? "" : await child.errors();
}

function createPools(cuda: Cuda, count: number): AsyncDisposableStack & { pools: MemoryPool[] } {
  const stack = new AsyncDisposableStack();
  const pools = Array.from({ length: count }, () => stack.use(cuda.device(0).createPool({ handleType: "posix-fd" })));
  return Object.assign(stack, { pools });
}

function addressOf(buffer: DeviceBuffer, pool = 0): MemoryAddress {
  return { pool, data: buffer.exportPointer().toHex(), byteLength: buffer.byteLength };
}

for (const poolCount of [1, 3]) {
  testOnEachDriver(
    `20 buffers of ${
      poolCount === 1 ? "one pool" : "3 pools"
    } are sent in turn to 2 processes that have imported the pools, and 7 to one process`,
    async (cuda, driver) => {
      const gpu = cuda.device(0);
      await using importers = await startImporters(driver, 2);
      await using created = createPools(cuda, poolCount);
      const { pools } = created;
      for (const importer of importers) assertEquals(await importer.ask({ do: "import" }, pools), poolCount);
      const counted: unknown[] = [];
      for (let job = 0; job < 20; job++) {
        const pool = job % poolCount;
        const importer = importers[job % importers.length]!;
        using buffer = pools[pool]!.allocate(byteLength);
        buffer.fill(100 + job);
        await gpu.finished();
        const task = { do: "use", memory: addressOf(buffer, pool), expect: 100 + job, write: job } as const;
        assert(await importer.ask(task), `Buffer ${job} arrives as it was`);
        assertEquals(await buffer.read(Uint8Array), new Uint8Array(byteLength).fill(job));
        // By then, each process has mapped memory of each pool.
        if (job % 12 === 6 || job % 12 === 7) counted.push(await importer.ask({ do: "count" }));
      }
      assertEquals(
        counted.slice(2),
        counted.slice(0, 2),
        "Who imports holds no more for more buffers",
      );

      using several = new DisposableStack();
      const buffers = Array.from({ length: 7 }, (_, index) => {
        const buffer = several.use(pools[index % poolCount]!.allocate(byteLength));
        buffer.fill(50 + index);
        return buffer;
      });
      await gpu.finished();
      const addresses = buffers.map((buffer, index) => addressOf(buffer, index % poolCount));
      const answers = addresses.map((
        memory,
        index,
      ) => ({ do: "use", memory, expect: 50 + index, write: index } as const));
      for (const task of answers) assert(await importers[0]!.ask(task));
      for (const [index, buffer] of buffers.entries()) {
        assertEquals(await buffer.read(Uint8Array), new Uint8Array(byteLength).fill(index));
      }
      for (const importer of importers) await importer.end();
    },
    { long: true },
  );
}

for (const place of ["device", "host"] as const) {
  testOnEachDriver(
    `a pool in ${place} memory and a buffer's data are forwarded, and stay valid after the forwarding process ends`,
    async (cuda, driver) => {
      const gpu = cuda.device(0);
      await using importers = await startImporters(driver, 2);
      const [between, last] = importers as unknown as [ImporterProcess, ImporterProcess];
      using pool = place === "device"
        ? gpu.createPool({ handleType: "posix-fd" })
        : cuda.createHostPool({ numaNode: 0, handleType: "posix-fd" });
      if (place === "host") pool.setAccess(gpu, "read-write");
      using buffer = pool.allocate(byteLength, gpu.defaultStream);
      buffer.fill(30);
      await gpu.finished();
      await between.ask({ do: "import" }, [pool]);
      const memory = addressOf(buffer);
      assertEquals(await between.ask({ do: "keep", memory }), 30);
      await between.ask({ do: "increment" });
      assertEquals(await between.ask({ do: "forward", path: last.path, memory }), 31);
      between.child.kill("SIGKILL");
      await between.child.ended;
      await using again = await UnixSocket.connect(last.path);
      await ask(again, { do: "increment" });
      assertEquals(await buffer.read(Uint8Array), new Uint8Array(byteLength).fill(32));
      await ask(again, { do: "end" });
      assertEquals(await last.child.ended, 0, await last.child.errors());
    },
    { long: place === "host" },
  );

  testOnEachDriver(
    `another process writes ${place} memory of a pool behind an event of this process, and its host does not wait`,
    async (cuda, driver) => {
      const gpu = cuda.device(0);
      await using importers = await startImporters(driver, 1);
      const importer = importers[0]!;
      using stream = gpu.createStream({ nonBlocking: true });
      using gate = new Gate(cuda);
      using event = gpu.createEvent({ interprocess: true, blockingSync: place === "device" });
      using pool = place === "device"
        ? gpu.createPool({ handleType: "posix-fd" })
        : cuda.createHostPool({ numaNode: 0, handleType: "posix-fd" });
      using buffer = pool.allocate(byteLength, stream);
      if (place === "host") pool.setAccess(gpu, "read-write");
      buffer.fill(3);
      await stream.finished();
      await importer.ask({ do: "import" }, [pool]);
      gate.hold(stream);
      buffer.fill(1);
      stream.record(event);
      const report = await importer.ask<{ isDone: boolean; isOfDevice: boolean }>({
        do: "write behind",
        memory: addressOf(buffer),
        event: event.exportHandle().toHex(),
        write: 2,
      });
      assertEquals({ ...report, isHeld: !event.query() }, { isDone: false, isOfDevice: true, isHeld: true });
      gate.open();
      await importer.ask({ do: "finish" });
      assert(event.query());
      assertEquals(await buffer.read(Uint8Array, { stream }), new Uint8Array(byteLength).fill(2));
      await importer.end();
    },
    { long: place === "host" },
  );
}

for (const isGivenFirst of [false, true]) {
  testOnEachDriver(
    `another process does not inherit access of a second device, grants it ${
      isGivenFirst ? "before" : "after"
    } mapping and revokes it, and the exporter's access stays`,
    async (cuda, driver) => {
      const [owner, peer] = [cuda.device(1), cuda.device(0)];
      if (!peer.canAccessPeer(owner)) return;
      await using importers = await startImporters(driver, 1);
      using pool = owner.createPool({ handleType: "posix-fd" });
      pool.setAccess(peer, "read-write");
      using buffer = pool.allocate(byteLength);
      buffer.fill(5);
      await owner.finished();
      await importers[0]!.ask({ do: "import", device: 1 }, [pool]);
      const report = await importers[0]!.ask({ do: "use as peer", memory: addressOf(buffer), isGivenFirst });
      assertEquals(report, {
        accesses: ["none", "read-write", "none"],
        withAccess: "fine",
        without: "cudaErrorIllegalAddress",
      });
      assertEquals(await buffer.read(Uint8Array), new Uint8Array(byteLength).fill(9));
      assertEquals(pool.getAccess(peer), "read-write");
      using module = peer.loadModule(ptx);
      using stream = peer.createStream();
      module.kernel("fill").launch({ grid: 1, block: 64, stream }, buffer, byteLength, 0x0b0b0b0b);
      await stream.finished();
      assertEquals(await buffer.read(Uint8Array), new Uint8Array(byteLength).fill(11));
    },
    { devices: 2, long: isGivenFirst },
  );
}
