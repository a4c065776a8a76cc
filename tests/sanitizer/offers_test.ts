/** Pairs of programs of two processes that share memory by offers and channels: one ordered, one not. */
import { assert, assertEquals } from "@std/assert";
import { type CudaStream, Exporter, type MemoryPool, open, type SanitizerReport } from "../../mod.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { boardOfTest, withOwnBoard } from "../support/own_board.ts";
import { test } from "../support/test.ts";

/** The fixture of an exporter's program. */
interface Context {
  readonly exporter: Exporter;
  readonly pool: MemoryPool;
  readonly streams: readonly [CudaStream, CudaStream];
  readonly importer: ChildProcess;
}

/** Runs a program of an exporter beside an importer. Returns the reports of both. */
async function reportsOf(
  driver: "software" | "cuda",
  [what, reader]: readonly [what: "buffer" | "slot", reader: 0 | 1],
  program: (context: Context) => Promise<void>,
): Promise<SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  await withOwnBoard(() =>
    inFolder(async (folder) => {
      using cuda = open({ driver, sanitize: ["stream-order"], onReport: (report) => reports.push(report) });
      const gpu = cuda.device(0);
      const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
      using pool = gpu.createPool({ handleType: "posix-fd" });
      let importer: ChildProcess;
      {
        await using exporter = Exporter.listen(`${folder}/socket`);
        importer = startScript("children/sanitizer/import_offer.ts", [
          exporter.path,
          driver,
          what,
          `${reader}`,
          boardOfTest,
        ]);
        await program({ exporter, pool, streams, importer });
        gpu.synchronize();
      }
      await using child = importer;
      const last = await child.nextLine();
      assert(last !== undefined, await child.errors());
      reports.push(...JSON.parse(last!) as SanitizerReport[]);
      gpu.synchronize();
    })
  );
  return reports;
}

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);

  test(`memory is offered behind the work that writes it [${driver}]`, { skip }, async () => {
    for (const offered of [0, 1] as const) {
      const reports = await reportsOf(driver, ["buffer", 0], async ({ exporter, pool, streams, importer }) => {
        const buffer = pool.allocate(1024, streams[0]);
        streams[0].synchronize();
        buffer.fill(1, streams[0]);
        const offer = exporter.offer("memory", buffer, { stream: streams[offered]! });
        assertEquals(await importer.nextLine(), "read");
        await offer.released();
        streams[0].synchronize();
        buffer.free();
      });
      assertEquals(reports.length === 0, offered === 0, JSON.stringify(reports, null, 1));
    }
  });

  test(`an importer releases memory behind the work that reads it [${driver}]`, { skip, long: true }, async () => {
    for (const reader of [0, 1] as const) {
      const reports = await reportsOf(driver, ["buffer", reader], async ({ exporter, pool, streams, importer }) => {
        const buffer = pool.allocate(1024, streams[0]);
        buffer.fill(1);
        const offer = exporter.offer("memory", buffer);
        assertEquals(await importer.nextLine(), "read");
        await offer.released();
        buffer.fill(2);
        buffer.free();
      });
      const isRight = reader === 0;
      assertEquals(reports.length === 0, isRight, JSON.stringify(reports, null, 1));
      if (!isRight) assert(reports.some(({ accesses }) => accesses.some(({ pid }) => pid !== undefined)));
    }
  });

  test(`an exporter does not overwrite what an importer still reads [${driver}]`, { skip, long: true }, async () => {
    for (const waits of [true, false]) {
      const reports = await reportsOf(driver, ["buffer", 0], async ({ exporter, pool, streams, importer }) => {
        const buffer = pool.allocate(1024, streams[0]);
        buffer.fill(1);
        streams[0].synchronize();
        const offer = exporter.offer("memory", buffer);
        assertEquals(await importer.nextLine(), "read");
        if (waits) await offer.released();
        buffer.fill(2);
        await offer.released();
        buffer.free();
      });
      // Either process may be the first to read the other's records.
      assertEquals(reports.length === 0, waits, JSON.stringify(reports, null, 1));
      for (const { accesses } of reports) {
        assertEquals(accesses.map(({ operation }) => operation).sort(), ["copy", "fill"]);
        assertEquals(accesses.filter(({ pid }) => pid !== undefined).length, 1);
      }
    }
  });

  test(`a slot is released behind the work that reads it [${driver}]`, { skip, long: true }, async () => {
    for (const reader of [0, 1] as const) {
      const reports = await reportsOf(driver, ["slot", reader], async ({ exporter, pool, streams, importer }) => {
        await using channel = exporter.createChannel("memory", {
          pool,
          slots: 1,
          slotByteLength: 1024,
          stream: streams[0],
          minimumConsumers: 1,
        });
        assertEquals(await importer.nextLine(), "joined");
        for (let frame = 0; frame < 3; frame++) {
          const slot = await channel.reserve();
          slot.buffer.fill(frame, streams[0]);
          channel.send(slot, { stream: streams[0] });
        }
      });
      assertEquals(reports.length === 0, reader === 0, JSON.stringify(reports, null, 1));
    }
  });
}
