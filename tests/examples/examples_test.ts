import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { ShareableHandle } from "../../src/memory/handles/shareable_handle.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { assertNothingLeft, countResources } from "../support/resources.ts";
import { warmUpSockets } from "../support/warm_up.ts";
import { test } from "../support/test.ts";

/** The drivers that a program's environment can select. */
const programDrivers = driversUnderTest.filter(({ name }) => name === "software" || name === "cuda");
const exporterPath = "../examples/pool_exporter.ts";
const importerPath = "../examples/pool_importer.ts";

interface Place {
  readonly folder: string;
  readonly socketPath: string;
  start(path: string, args: readonly string[]): ChildProcess;
}

/** Declares a test of the programs in a temporary folder. Fails if a resource of this process or a file is left. */
function testPrograms(
  name: string,
  body: (place: Place) => Promise<void>,
  { only, env = {}, long = false }: { only?: "software"; env?: Record<string, string>; long?: boolean } = {},
): void {
  for (const driver of programDrivers) {
    if (only !== undefined && driver.name !== only) continue;
    test(`${name} [${driver.name}]`, { skip: driver.skip, long }, async () => {
      await warmUp();
      const before = countResources();
      const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
      try {
        await using children = new AsyncDisposableStack();
        const start = (path: string, args: readonly string[]) =>
          children.use(startScript(path, args, { env: { POOLPASS_DRIVER: driver.name, ...env } }));
        const socketPath = join(folder, "pool.sock");
        await body({ folder, socketPath, start });
        assert(!existsSync(socketPath), "The socket's file was left behind");
      } finally {
        rmSync(folder, { recursive: true });
      }
      await assertNothingLeft(before);
    });
  }
}

let warm = false;

/** Creates what a process creates once and keeps: the shim, the poller, pipes to a child. */
async function warmUp(): Promise<void> {
  if (warm) return;
  warm = true;
  await warmUpSockets();
  const before = countResources();
  {
    await using child = startScript(exporterPath, []);
    await child.ended;
  }
  // The runtime closes its ends of the child's output a little later.
  const isClosing = (kind: string) => (countResources().get(kind) ?? 0) > (before.get(kind) ?? 0);
  while (["socket", "pipe", "child process"].some(isClosing)) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function untilFile(path: string, child: ChildProcess): Promise<void> {
  let isEnded = false;
  child.ended.then(() => isEnded = true);
  while (!existsSync(path)) {
    if (isEnded) throw new Error(`The exporter ended before it listened: ${await child.errors()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function assertFails(child: ChildProcess, message: string | RegExp): Promise<void> {
  const [code, errors] = await Promise.all([child.ended, child.errors(), remainingLines(child)]);
  assertMatch(
    errors,
    typeof message === "string" ? new RegExp(message.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")) : message,
  );
  assertEquals(code, 1, errors);
  assert(!errors.includes("    at "), `A stack trace is no message: ${errors}`);
}

for (const [byteLength, writers] of [[2 ** 22, 1], [1_000_003, 3], [3, 5]] as const) {
  testPrograms(`${writers} writers write ${byteLength} bytes, and the exporter finds all of them`, async (place) => {
    const exporter = place.start(exporterPath, [
      "0",
      String(byteLength),
      place.socketPath,
      "--verify",
      String(writers),
    ]);
    const printed = remainingLines(exporter);
    await untilFile(place.socketPath, exporter);
    assertEquals(statSync(place.socketPath).mode & 0o777, 0o600);
    const importer = place.start(importerPath, ["0", ..."0".repeat(writers), place.socketPath]);
    assertEquals(await importer.ended, 0, await importer.errors());
    assertEquals(await exporter.ended, 0, await exporter.errors());
    const lines = await printed;
    assertEquals(lines.length, writers);
    const slice = Math.floor(byteLength / writers);
    for (const [writer, line] of lines.entries()) {
      const length = writer === writers - 1 ? byteLength - writer * slice : slice;
      const pattern = `0x${String(writer % 4 + 1).repeat(8)}`;
      assertEquals(line, `writer ${writer}: offset ${writer * slice}, ${length} bytes, pattern ${pattern}, verified`);
    }
  }, { long: writers !== 3 });
}

testPrograms("the exporter detects a region that was not written", async ({ socketPath, start }) => {
  const exporter = start(exporterPath, ["0", "4096", socketPath, "--verify", "3"]);
  await untilFile(socketPath, exporter);
  const importer = start(importerPath, ["0", "0", "0", socketPath]);
  assertEquals(await importer.ended, 0, await importer.errors());
  await assertFails(exporter, "2 of 3 regions do not hold what was written");
}, { long: true });

for (
  const [what, args, message] of [
    ["no arguments", [], "Two or three arguments are needed"],
    ["a missing device", ["99", "64"], "Cannot find device 99"],
    ["0 bytes", ["0", "0"], 'Cannot use "0" as a number of bytes'],
    ["negative bytes", ["0", "-5"], "Cannot use -5: it must not be negative"],
    ["bytes that are not a number", ["0", "many"], 'Cannot use "many" as a number of bytes'],
    ["more bytes than the device has", ["0", String(2 ** 50)], "Cannot allocate 1125899906842624 bytes: device 0 has"],
    ["a path too long", ["0", "64", `/tmp/${"x".repeat(200)}`], /it has 205 bytes, and a socket's path at most 107/],
    ["a folder that does not exist", ["0", "64", "/nonexistent/pool.sock"], "there is no folder /nonexistent"],
    ["an unknown option", ["0", "64", "--colour", "red"], "There is no option --colour"],
  ] as const
) {
  testPrograms(`the exporter refuses ${what}`, ({ start }) => assertFails(start(exporterPath, args), message), {
    long: !["a device that is not there", "an unknown option"].includes(what),
  });
}

for (
  const [what, args, message] of [
    ["no writers", ["0"], "At least one writer GPU must be specified"],
    ["a target that is not a number", ["x", "0"], 'Cannot use "x" as a device\'s number'],
    ["a missing writer", ["0", "77"], "Cannot find device 77"],
    ["a path without a socket", ["0", "0", "/nonexistent/pool.sock"], "Cannot connect to /nonexistent/pool.sock"],
    ["a path too long", ["0", "0", `/tmp/${"x".repeat(200)}`], /it has 205 bytes, and a socket's path at most 107/],
  ] as const
) {
  testPrograms(`the importer refuses ${what}`, ({ start }) => assertFails(start(importerPath, args), message), {
    long: what !== "a path without a socket",
  });
}

testPrograms(
  "a live socket is not replaced, a stale one is, and a regular file is left alone",
  async ({ socketPath, start }) => {
    const first = start(exporterPath, ["0", "64", socketPath]);
    await untilFile(socketPath, first);
    await assertFails(start(exporterPath, ["0", "64", socketPath]), "another process listens there");
    first.kill("SIGKILL");
    await first.ended;
    assert(existsSync(socketPath), "A killed exporter leaves its socket");
    const second = start(exporterPath, ["0", "64", socketPath]);
    const importer = await connectedImporter({ socketPath, start }, second);
    assertEquals(await importer.ended, 0, await importer.errors());
    assertEquals(await second.ended, 0, await second.errors());
    writeFileSync(socketPath, "precious");
    await assertFails(start(exporterPath, ["0", "64", socketPath]), "is not a socket");
    rmSync(socketPath);
  },
  { long: true },
);

/** Starts importers until one finds the exporter listening: the socket's path exists before the exporter listens. */
async function connectedImporter(
  { socketPath, start }: Pick<Place, "socketPath" | "start">,
  exporter: ChildProcess,
): Promise<ChildProcess> {
  let isEnded = false;
  exporter.ended.then(() => isEnded = true);
  for (;;) {
    const importer = start(importerPath, ["0", "0", socketPath]);
    if (await importer.ended === 0 || isEnded) return importer;
  }
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  testPrograms(`${signal} removes the socket's file`, async ({ socketPath, start }) => {
    const exporter = start(exporterPath, ["0", "64", socketPath]);
    await untilFile(socketPath, exporter);
    exporter.kill(signal);
    assertEquals(await exporter.ended, 130);
    assertStringIncludes(await exporter.errors(), "Interrupted");
  }, { long: signal === "SIGINT" });
}

testPrograms("if an importer disappears, the exporter fails within a second", async ({ socketPath, start }) => {
  const exporter = start(exporterPath, ["0", "64", socketPath]);
  await untilFile(socketPath, exporter);
  const socket = await UnixSocket.connect(socketPath);
  await socket.receive(12);
  const { handles } = await socket.receive(1, { handles: 1 });
  handles[0]![Symbol.dispose]();
  const gone = performance.now();
  await socket[Symbol.asyncDispose]();
  await assertFails(exporter, /it (closed|reset) the connection/);
  assert(performance.now() - gone < 1000, "It took the exporter more than a second");
}, { long: true });

testPrograms("if an exporter disappears, the importer fails within a second", async ({ socketPath, start }) => {
  await using listener = UnixListener.listen(socketPath);
  const importer = start(importerPath, ["0", "0", socketPath]);
  const socket = await listener.accept();
  await socket.send(new Uint8Array(5));
  const gone = performance.now();
  await socket[Symbol.asyncDispose]();
  await assertFails(importer, /5 of/);
  assert(performance.now() - gone < 1000, "It took the importer more than a second");
}, { long: true });

testPrograms("if an importer answers anything but D, the exporter fails", async ({ socketPath, start }) => {
  const exporter = start(exporterPath, ["0", "64", socketPath]);
  await untilFile(socketPath, exporter);
  await using socket = await UnixSocket.connect(socketPath);
  await socket.send(new TextEncoder().encode("X"));
  await assertFails(exporter, /it sent the byte 88, not "D"/);
}, { long: true });

testPrograms("if an importer sends nothing, the exporter fails after its time limit", async ({ socketPath, start }) => {
  const exporter = start(exporterPath, ["0", "64", socketPath, "--timeout", "1"]);
  await untilFile(socketPath, exporter);
  await using _socket = await UnixSocket.connect(socketPath);
  await assertFails(exporter, "waited 1 s for the importer");
}, { long: true });

interface Forgery {
  readonly what: string;
  readonly message: string | RegExp;
  /** Sends the importer what no exporter sends. `pool` is a descriptor of a file that is not a pool. */
  speak(socket: UnixSocket, numbers: Uint8Array, pool: ShareableHandle): Promise<void>;
}

const forgeries: readonly Forgery[] = [
  {
    what: "garbage",
    message: /these numbers are invalid/,
    speak: (socket) => socket.send(new Uint8Array(77).fill(0xff)),
  },
  {
    what: "a message without its descriptor",
    message: /0 descriptors/,
    async speak(socket, numbers) {
      await socket.send(numbers);
      await socket.send(new TextEncoder().encode("F"));
    },
  },
  {
    what: "two descriptors instead of one",
    message: /2 descriptors/,
    async speak(socket, numbers, pool) {
      await socket.send(numbers);
      await socket.send(new TextEncoder().encode("F"), { handles: [pool, pool] });
    },
  },
  {
    what: "an unexpected descriptor",
    message: /1 descriptor/,
    speak: (socket, numbers, pool) => socket.send(numbers, { handles: [pool] }),
  },
  {
    what: "another byte beside the descriptor",
    message: /is 71, not "F"/,
    async speak(socket, numbers, pool) {
      await socket.send(numbers);
      await socket.send(new TextEncoder().encode("G"), { handles: [pool] });
    },
  },
  {
    what: "a descriptor of a file that is not a pool",
    message: /Cannot import a pool from the descriptor \d+/,
    async speak(socket, numbers, pool) {
      await socket.send(numbers);
      await socket.send(new TextEncoder().encode("F"), { handles: [pool] });
      await socket.send(new Uint8Array(64));
    },
  },
  {
    what: "another device than the importer's",
    message: "Target GPU mismatch: the exporter's is 1, ours is 0",
    async speak(socket, numbers, pool) {
      await socket.send(Uint8Array.from(numbers, (byte, index) => index === 0 ? 1 : byte));
      await socket.send(new TextEncoder().encode("F"), { handles: [pool] });
      await socket.send(new Uint8Array(64));
    },
  },
];

for (const { what, message, speak } of forgeries) {
  testPrograms(`the importer refuses ${what}`, async ({ folder, socketPath, start }) => {
    await using listener = UnixListener.listen(socketPath);
    const importer = start(importerPath, ["0", "0", socketPath]);
    await using socket = await listener.accept();
    const file = join(folder, "file");
    writeFileSync(file, "no pool");
    using pool = ShareableHandle.fromFd(openDescriptor(file));
    const numbers = Uint8Array.of(0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0);
    await speak(socket, numbers, pool);
    await assertFails(importer, message);
  }, { long: !["garbage", "a descriptor that is no pool"].includes(what) });
}

testPrograms(
  "the importer refuses a size that the exporter has not allocated",
  async ({ folder, socketPath, start }) => {
    const behind = join(folder, "behind.sock");
    const exporter = start(exporterPath, ["0", "4096", behind]);
    await untilFile(behind, exporter);
    await using source = await UnixSocket.connect(behind);
    const { bytes: numbers } = await source.receive(12);
    const { bytes: mark, handles } = await source.receive(1, { handles: 1 });
    const { bytes: exportData } = await source.receive(64);
    using pool = handles[0]!;
    await using listener = UnixListener.listen(socketPath);
    const importer = start(importerPath, ["0", "0", socketPath]);
    await using socket = await listener.accept();
    new DataView(numbers.buffer).setBigUint64(4, 2n ** 26n, true);
    await socket.send(numbers);
    await socket.send(mark, { handles: [pool] });
    await socket.send(exportData);
    await assertFails(importer, "Cannot import a buffer of 67108864 bytes: the exporter has allocated");
    await source.send(new TextEncoder().encode("D"));
    assertEquals(await exporter.ended, 0, await exporter.errors());
  },
  { long: true },
);
