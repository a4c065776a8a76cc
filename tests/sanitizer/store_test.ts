/** Pairs of programs of two processes that share memory by a store in a third one: one ordered, one not. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type CudaStream, open, type SanitizerReport, StoreClient } from "../../mod.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { boardOfTest, withOwnBoard } from "../support/own_board.ts";
import { test } from "../support/test.ts";

/** The fixture of a program. */
interface Context {
  readonly client: StoreClient;
  readonly streams: readonly [CudaStream, CudaStream];
  /** Makes the other process map the entry, and read or write it. */
  other(access: "read" | "write"): Promise<void>;
}

/** Runs a program beside another process. Returns the reports of both. */
async function reportsOf(
  driver: "software" | "cuda",
  program: (context: Context) => Promise<void>,
): Promise<SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  await withOwnBoard(() =>
    inFolder(async (folder) => {
      const path = `${folder}/store`;
      await using store = startScript("children/sharing/store_process.ts", [driver, path]);
      assertStringIncludes((await store.nextLine())!, "serves");
      using cuda = open({ driver, sanitize: ["stream-order"], onReport: (report) => reports.push(report) });
      const gpu = cuda.device(0);
      const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
      await using client = await StoreClient.connect(cuda, path);
      await using children = new AsyncDisposableStack();
      let child: ChildProcess;
      await program({
        client,
        streams,
        async other(access) {
          child = children.use(startScript("children/sanitizer/use_entry.ts", [driver, path, access, boardOfTest]));
          assertEquals(await child.nextLine(), "done");
        },
      });
      await using over = await client.create("over", 1);
      await over.publish();
      reports.push(...JSON.parse((await child!.nextLine())!) as SanitizerReport[]);
      gpu.synchronize();
    })
  );
  return reports;
}

/** Creates and publishes an entry, which the first stream has written. */
async function publish({ client, streams: [stream] }: Context): Promise<void> {
  const memory = await client.create("entry", 1024, { stream });
  memory.buffer.fill(1);
  await memory.publish();
}

interface Program {
  readonly name: string;
  readonly kinds: readonly string[];
  run(context: Context, isRight: boolean): Promise<void>;
}

const programs: readonly Program[] = [
  {
    name: "an entry is published when all streams have written it",
    kinds: ["unordered-write-read", "unordered-read-write"],
    async run({ client, streams: [first, second], other }, isRight) {
      const memory = await client.create("entry", 1024, { stream: first });
      // By address, so that the library does not notice the use.
      first.device.wrap(memory.buffer.address, 1024, { stream: second }).fill(1);
      await memory.publish(isRight ? second : first);
      await other("read");
    },
  },
  {
    name: "the next generation is written beside those who read the last one",
    kinds: ["unordered-write-read", "unordered-read-write"],
    async run(context, isRight) {
      await publish(context);
      const { client, streams: [stream], other } = context;
      const buffer = isRight
        ? (await client.create("entry", 1024, { stream })).buffer
        : await client.map("entry", { stream, write: true });
      buffer.fill(2);
      await other("read");
      buffer.free();
    },
  },
  {
    name: "an entry is written by one process after the other",
    kinds: ["unordered-write-write"],
    async run(context, isRight) {
      await publish(context);
      const { client, streams: [stream], other } = context;
      using entry = await client.map("entry", { stream, write: true });
      entry.fill(2);
      if (isRight) await stream.finished();
      await other("write");
    },
  },
];

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);
  for (const { name, kinds, run } of programs) {
    test(`${name}, or that is reported [${driver}]`, { skip, long: kinds.length > 1 }, async () => {
      for (const isRight of [true, false]) {
        const reports = await reportsOf(driver, (context) => run(context, isRight));
        const what = JSON.stringify(reports, null, 1);
        assertEquals(reports.length === 0, isRight, what);
        for (const { kind, accesses } of reports) {
          assert(kinds.includes(kind), what);
          assertEquals(accesses.filter(({ pid }) => pid !== undefined).length, 1);
          for (const { stack } of accesses) assertStringIncludes(stack, ".ts:");
        }
      }
    });
  }
}
