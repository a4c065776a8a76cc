import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** A running program. */
interface Program extends Pick<ChildProcess, "pid" | "kill"> {
  /** Resolves when it has printed a line that begins with `begin`. */
  prints(begin: string): Promise<void>;
  /** Resolves with its output when it has ended with the exit code `code`, by default 0. */
  ends(code?: number): Promise<{ lines: string[]; errors: string }>;
}

interface Place {
  readonly socketPath: string;
  /** Starts a program that listens at the path, and waits until it listens. */
  serve(program: string, ...args: string[]): Promise<Program>;
  run(program: string, ...args: string[]): Program;
}

/**
 * Declares a test of programs on each driver that a program's environment can select. Fails if a socket is left behind.
 */
function testPrograms(
  name: string,
  body: (place: Place) => Promise<void>,
  { only, long = false }: { only?: "software"; long?: boolean } = {},
): void {
  for (const driver of driversUnderTest) {
    if (driver.name !== "software" && (driver.name !== "cuda" || only !== undefined)) continue;
    test(`${name} [${driver.name}]`, { skip: driver.skip, long }, async () => {
      const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
      try {
        await using children = new AsyncDisposableStack();
        const run = (program: string, ...args: string[]): Program => {
          const env = { POOLPASS_DRIVER: driver.name };
          return programOf(children.use(startScript(`../examples/${program}.ts`, args, { env })));
        };
        const socketPath = join(folder, "shared.sock");
        const serve = async (program: string, ...args: string[]): Promise<Program> => {
          const server = run(program, socketPath, ...args);
          await untilSocket(socketPath, server);
          return server;
        };
        await body({ socketPath, serve, run });
        assert(!existsSync(socketPath), "The socket's file was left behind");
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }
}

function programOf(child: ChildProcess): Program {
  const lines: string[] = [];
  let onLine = Promise.withResolvers<void>();
  const ended = (async () => {
    for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) {
      lines.push(line);
      onLine.resolve();
      onLine = Promise.withResolvers();
    }
    return { errors: await child.errors(), code: await child.ended };
  })();
  return {
    pid: child.pid,
    kill: child.kill,
    async prints(begin) {
      while (!lines.some((line) => line.startsWith(begin))) {
        const outcome = await Promise.race([onLine.promise, ended]);
        if (outcome !== undefined) throw new Error(`It has ended, and did not print "${begin}": ${outcome.errors}`);
      }
    },
    async ends(expected = 0) {
      const { errors, code } = await ended;
      assertEquals(code, expected, errors);
      assert(!errors.includes("    at "), `A stack trace is no message: ${errors}`);
      return { lines, errors };
    },
  };
}

async function untilSocket(path: string, server: Program): Promise<void> {
  let failure: unknown;
  server.ends().then(() => failure = new Error("It ended before it listened"), (error) => failure = error);
  while (!existsSync(path)) {
    if (failure !== undefined) throw failure;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

testPrograms("importers compute with the layers that an exporter offers", async ({ socketPath, serve, run }) => {
  const exporter = await serve("weights_exporter", "--layers", "3", "--bytes", "64KiB", "--importers", "2");
  assertEquals(statSync(socketPath).mode & 0o777, 0o600);
  const all = run("weights_importer", socketPath);
  const two = run("weights_importer", socketPath, "layer3", "layer1");
  const metadata = '{"dtype":"float32","shape":[16384]}';
  assertEquals((await two.ends()).lines, [
    `layer3 ${metadata}: times 2.5 is 7.5 to 7.5`,
    `layer1 ${metadata}: times 2.5 is 2.5 to 2.5`,
  ]);
  await all.prints("layer3");
  all.kill("SIGTERM");
  const { errors } = await exporter.ends();
  assertStringIncludes(errors, "[exporter] Offering 3 layers at");
  assertStringIncludes(errors, `Process ${two.pid} disconnected: it is done`);
  assertStringIncludes(errors, `Process ${all.pid} disconnected: it is done`);
  await all.ends(130);
});

testPrograms("an importer without names takes every layer until the exporter closes", async (place) => {
  const { socketPath, serve, run } = place;
  const exporter = await serve("weights_exporter", "--layers", "2", "--bytes", "4", "--importers", "1");
  const importer = run("weights_importer", socketPath);
  await importer.prints("layer2");
  await run("weights_importer", socketPath, "layer1").ends();
  await exporter.ends();
  const { lines } = await importer.ends();
  assertEquals(
    lines,
    [1, 2].map((layer) => {
      const product = layer * 2.5;
      return `layer${layer} {"dtype":"float32","shape":[1]}: times 2.5 is ${product} to ${product}`;
    }),
  );
}, { long: true });

testPrograms("an interrupted exporter waits until its layers are released", async ({ socketPath, serve, run }) => {
  const exporter = await serve("weights_exporter", "--layers", "1", "--bytes", "4KiB");
  const holder = run("weights_importer", socketPath, "layer1", "--hold", "yes");
  await holder.prints("layer1");
  exporter.kill("SIGINT");
  const { errors } = await exporter.ends(130);
  assertMatch(errors, new RegExp(`Process ${holder.pid} has held layer1 since 20\\S+Z; recalling it`));
  assertStringIncludes((await holder.ends()).errors, "[importer] Asked to release layer1");
}, { long: true });

for (const overflow of ["wait", "drop-oldest"] as const) {
  testPrograms(
    `consumers read what a producer sends, with overflow ${overflow}`,
    async ({ socketPath, serve, run }) => {
      const args = ["--frames", "40", "--bytes", "10001", "--slots", "3", "--consumers", "2", "--overflow", overflow];
      const producer = await serve("frame_producer", ...args);
      const consumers = [run("frame_consumer", socketPath), run("frame_consumer", socketPath)];
      const [{ errors }, ...ends] = await Promise.all([
        producer.ends(),
        ...consumers.map((consumer) => consumer.ends()),
      ]);
      assertMatch(errors, /Sent 40 frames, \d+ of them dropped, \d+ a second/);
      const dropped = Number(/(\d+) of them dropped/.exec(errors)![1]);
      if (overflow === "wait") assertEquals(dropped, 0);
      for (const { lines: [line, ...rest] } of ends) {
        assertEquals(rest, []);
        assertMatch(line!, /^\d+ frames are right, the last of them frame 40$/);
        assert(parseInt(line!) >= 40 - dropped, `${line}, and ${dropped} were dropped`);
      }
    },
    { long: overflow === "drop-oldest" },
  );
}

testPrograms("a producer continues when a consumer leaves", async ({ socketPath, serve, run }) => {
  const producer = await serve("frame_producer", "--frames", "30", "--bytes", "4KiB", "--slots", "2");
  const first = await run("frame_consumer", socketPath, "--frames", "5").ends();
  assertEquals(first.lines, ["5 frames are right, the last of them frame 5"]);
  const second = await run("frame_consumer", socketPath).ends();
  assertMatch(second.lines[0]!, /^\d+ frames are right, the last of them frame 30$/);
  assertStringIncludes((await producer.ends()).errors, "Sent 30 frames, 0 of them dropped");
}, { long: true });

for (
  const [program, what, args, message] of [
    ["weights_exporter", "no path", [], "One argument is needed: a socket's path"],
    ["weights_exporter", "0 layers", ["a", "--layers", "0"], 'Cannot use "0" as the number of layers'],
    ["weights_exporter", "bytes that are no floats", ["a", "--bytes", "7"], "must be a multiple of 4"],
    ["weights_importer", "no path", [], "A socket's path is needed"],
    ["weights_importer", "a path where nothing is", ["/nonexistent/a"], "Cannot connect to /nonexistent/a"],
    ["weights_importer", "another way to hold", ["a", "--hold", "no"], 'Cannot use "no" as --hold'],
    ["frame_producer", "no path", [], "One argument is needed: a socket's path"],
    ["frame_producer", "an unknown overflow", ["a", "--overflow", "drop"], 'Cannot use "drop" as the overflow'],
    ["frame_producer", "more slots than there may be", ["/tmp/a.sock", "--slots", "1025"], "slots is 1025"],
    ["frame_consumer", "no path", [], "One argument is needed: a socket's path"],
    ["frame_consumer", "0 frames", ["a", "--frames", "0"], 'Cannot use "0" as the number of frames'],
  ] as const
) {
  testPrograms(`${program} refuses ${what}`, async ({ run }) => {
    const { lines, errors } = await run(program, ...args).ends(1);
    assertEquals(lines, []);
    assertStringIncludes(errors, message);
  }, {
    only: "software",
    // The others' programs parse their arguments alike; each start takes long.
    long: !["bytes that are no floats", "more slots than there may be"].includes(what),
  });
}
