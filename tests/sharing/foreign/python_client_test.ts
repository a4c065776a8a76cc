import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ptx as fillPtx } from "../../../kernels/fill.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { SharingError } from "../../../src/support/errors.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import { Session } from "../../../src/session.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { watchSockets } from "../../support/child_process.ts";
import { driversUnderTest, type DriverUnderTest } from "../../support/drivers.ts";
import { assertLeavesNothing } from "../../support/resources.ts";
import { warmUpSockets } from "../../support/warm_up.ts";
import { test } from "../../support/test.ts";

const client = pathOf("../../../examples/python/poolpass_client.py");
/** The client is a use of this package. */
const pythonPackage = pathOf("../../../python");
/** Stands in for cuda-bindings on the client's path: it uses the software device. */
const softwareBindings = pathOf("../../../python/tests/software");
/** The interpreter itself: the python3 on the PATH may be a script, which starts more slowly. */
const python = outputOf("python3", "import sys; print(sys.executable) if sys.version_info >= (3, 10) else sys.exit(1)");
const noPython = python === undefined ? "there is no python3, or it is older than 3.10" : false;
const noBindings = python === undefined || outputOf(python, "import cuda.bindings.runtime") === undefined
  ? "python3 has no cuda-bindings"
  : false;
/** Arguments of `unshare`. */
const pidNamespace = ["-pf", "--mount-proc", "--kill-child"];
const noNamespace = spawnSync("unshare", [...pidNamespace, "true"]).status !== 0 && "unshare -pf is not permitted";
/** The client's patterns repeat after this many bytes. */
const period = 251;
/** Milliseconds in which other processes must finish their work. */
const answerTimeout = 20_000;

/** A driver of this process, and what the client needs to use the same devices. */
interface Setting {
  readonly driver: DriverUnderTest;
  readonly skip: string | false;
  readonly env: Readonly<Record<string, string>>;
}

const settings: readonly Setting[] = driversUnderTest.flatMap((driver): Setting[] => {
  if (driver.name === "software") {
    // The delay is long enough that an unsynchronized use of pending work would fail.
    return [{
      driver,
      skip: noPython,
      env: { PYTHONPATH: `${pythonPackage}:${softwareBindings}`, POOLPASS_TEST_DELAY: "0.02" },
    }];
  }
  return driver.name === "cuda" ? [{ driver, skip: driver.skip || noBindings, env: {} }] : [];
});

/** A running client. */
interface Client extends AsyncDisposable {
  readonly pid: number;
  /** Aborted, with the client's stderr, when the client ends. */
  readonly whileItRuns: AbortSignal;
  /** Resolves with its next line, or undefined at the end. */
  nextLine(): Promise<string | undefined>;
  /** Resolves with all remaining lines, when the client has ended with code 0. */
  succeeds(): Promise<string[]>;
  /** Resolves with its stderr, when the client has ended with code 1. */
  fails(): Promise<string>;
  kill(signal: "SIGKILL" | "SIGTERM"): void;
}

interface Place {
  readonly cuda: Cuda;
  /** A path for a socket. */
  readonly path: string;
  start(...args: string[]): Client;
  /** Starts it in a PID namespace of its own, where neither side can open the other's events. */
  startElsewhere(...args: string[]): Client;
}

const warm = new Set<Setting>();

/** Declares a test with clients in other processes. Fails if a resource is left behind. */
function testClient(
  name: string,
  body: (place: Place) => Promise<void>,
  { only, long = false, skip }: { only?: "software"; long?: boolean; skip?: string | false } = {},
): void {
  for (const setting of settings) {
    if (only !== undefined && setting.driver.name !== only) continue;
    test(`${name} [${setting.driver.name}]`, { skip: setting.skip || skip, long }, async () => {
      if (!warm.has(setting)) {
        // Creates what the process creates once and keeps.
        warm.add(setting);
        await warmUpSockets();
        warmUpKernels(setting);
        await inPlace(setting, body);
      }
      await assertLeavesNothing(() => inPlace(setting, body));
    });
  }
}

function warmUpKernels({ driver }: Setting): void {
  using cuda = new Cuda(new Session(driver.open()));
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using buffer = pool.allocate(64, stream);
  using module = gpu.loadModule(fillPtx);
  module.kernel("fill").launch({ grid: 1, block: 64, stream }, buffer, buffer.byteLength, 1);
  using event = gpu.createEvent({ interprocess: true });
  stream.record(event);
  event.exportHandle();
  stream.synchronize();
}

async function inPlace({ driver, env }: Setting, body: (place: Place) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-"));
  try {
    using cuda = new Cuda(new Session(driver.open()));
    await using clients = new AsyncDisposableStack();
    await body({
      cuda,
      path: join(folder, "shared.sock"),
      start: (...args) => clients.use(startClient(args, env)),
      startElsewhere: (...args) => clients.use(startClient(args, env, ["unshare", ...pidNamespace])),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function startClient(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  prefix: readonly string[] = [],
): Client {
  const [command, ...rest] = [...prefix, python!, client, ...args] as [string, ...string[]];
  const { child, closed } = watchSockets(() =>
    spawn(command, rest, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, PYTHONPATH: pythonPackage, PYTHONDONTWRITEBYTECODE: "1", ...env },
    })
  );
  const ended = new Promise<number | string>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code: number | null, signal: string | null) => resolve(signal ?? code!));
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => errors += text);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string | undefined> => (await lines.next()).value;
  const remaining = async (): Promise<string[]> => {
    const all: string[] = [];
    for (let line = await nextLine(); line !== undefined; line = await nextLine()) all.push(line);
    return all;
  };
  const over = new AbortController();
  void ended.then((how) => over.abort(new Error(`The client has ended with ${how}: ${errors}`)));
  return {
    pid: child.pid!,
    whileItRuns: over.signal,
    nextLine,
    async succeeds() {
      const [all, code] = await Promise.all([remaining(), ended]);
      assertEquals(code, 0, errors);
      return all;
    },
    async fails() {
      const [, code] = await Promise.all([remaining(), ended]);
      assertEquals(code, 1, errors);
      assert(!errors.includes("Traceback"), errors);
      return errors;
    },
    // Deno's child.kill reports the requested signal as the one that ended the process.
    kill: (signal) => void process.kill(child.pid!, signal),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await Promise.all([remaining(), ended]);
      await closed();
    },
  };
}

/** Returns the output of a Python program; undefined if it fails. */
function outputOf(interpreter: string, text: string): string | undefined {
  try {
    return execFileSync(interpreter, ["-c", text], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return undefined;
  }
}

function pathOf(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}

/** The client's pattern: byte i is (seed + i) mod 251. */
function patternOf(seed: number, byteLength: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: byteLength }, (_, index) => (seed + index) % period);
}

/** Waits for a condition that becomes true without a call of this process. */
async function until(condition: () => boolean): Promise<void> {
  for (const deadline = performance.now() + answerTimeout; !condition();) {
    if (performance.now() > deadline) throw new Error(`It never came: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

test("the Python package writes and reads every golden message", { skip: noPython }, () => {
  const { status, stderr } = spawnSync(python!, ["-m", "unittest", "test_messages"], {
    cwd: pathOf("../../../python/tests"),
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
    encoding: "utf8",
  });
  assertEquals(status, 0, stderr);
  assertMatch(stderr, /^Ran [1-9]/m);
});

test(
  "the Python client reports missing requirements",
  { skip: noPython || !noBindings && "there are cuda-bindings" },
  async () => {
    await using exporting = startClient(["export", "/nowhere.sock"], {});
    assertEquals(
      await exporting.fails(),
      "Error: Cannot use CUDA: cuda-bindings is not installed; pip install cuda-bindings; without a GPU, set " +
        "POOLPASS_DRIVER=software\n",
    );
  },
);

testClient("a Python client lists the offers, and is notified when one is withdrawn", async ({ cuda, path, start }) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(100_000);
  await using exporter = Exporter.listen(path);
  exporter.offer("weights", buffer, { metadata: { dtype: "float32", shape: [25, 1000] } });
  exporter.offer("everything", pool);
  await using list = start("list", path, "--follow");
  assertEquals(await list.nextLine(), 'offer "weights": buffer, 100000 bytes, {"dtype":"float32","shape":[25,1000]}');
  assertEquals(await list.nextLine(), 'offer "everything": pool');
  const part = exporter.offer('ünï "x"', buffer.subarray(512, 1000));
  assertEquals(await list.nextLine(), 'offer "ünï \\"x\\"": buffer, 488 bytes');
  part.withdraw();
  assertEquals(await list.nextLine(), 'withdraw "ünï \\"x\\"": buffer, 488 bytes');
  await part.ended({ signal: AbortSignal.timeout(answerTimeout) });
  {
    await using _channel = exporter.createChannel("frames", { pool, slots: 4, slotByteLength: 1000 });
    assertEquals(await list.nextLine(), 'offer "frames": channel, 4096 bytes, 4 slots of 1000');
  }
  assertEquals(await list.nextLine(), 'withdraw "frames": channel, 4096 bytes, 4 slots of 1000');
  await exporter[Symbol.asyncDispose]();
  assertEquals((await list.succeeds()).at(-1), "the exporter has closed");
}, { only: "software", long: true });

testClient("a Python client imports a buffer, and a part of one", async ({ cuda, path, start }) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(1_000_003, stream);
  buffer.copyFrom(patternOf(5, buffer.byteLength));
  const disconnects: (SharingError | undefined)[] = [];
  await using exporter = Exporter.listen(path, { onDisconnect: (_, error) => disconnects.push(error) });
  exporter.offer("weights", buffer, { metadata: "all" });
  exporter.offer("part", buffer.subarray(1000, 3000));
  await using whole = start("import", path, "weights", "--verify", "5");
  await using part = start("import", path, "part", "--verify", String((5 + 1000) % period));
  await using wrong = start("import", path, "weights", "--verify", "6");
  const [offer, read, ...rest] = await whole.succeeds();
  assertEquals(offer, 'offer "weights": buffer, 1000003 bytes, "all"');
  assertMatch(read!, /^read 1000003 bytes of "weights", SHA-256 [0-9a-f]{64}$/);
  assertEquals(rest, ['verified "weights"', 'released "weights"']);
  assertEquals((await part.succeeds()).slice(-2), ['verified "part"', 'released "part"']);
  assertStringIncludes(await wrong.fails(), 'Byte 0 of "weights" is 5, and should be 6');
  await until(() => disconnects.length === 3);
  assertEquals(disconnects, [undefined, undefined, undefined]);
  assertEquals(exporter.leases, []);
}, { long: true });

testClient("a Python client waits for a kernel that still runs when its result is offered", async (place) => {
  const { cuda, path, start } = place;
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using module = gpu.loadModule(fillPtx);
  await using exporter = Exporter.listen(path);
  await using importing = start("import", path, "--verify", "0x40490FDB");
  await until(() => exporter.importers.length === 1);
  using buffer = pool.allocate(2 ** 24, stream);
  for (const pattern of [0, 0x40490fdb]) {
    module.kernel("fill").launch({ grid: 1, block: 64, stream }, buffer, buffer.byteLength, pattern);
  }
  exporter.offer("pi", buffer);
  assertEquals((await importing.succeeds()).slice(-2), ['verified "pi"', 'released "pi"']);
}, { long: true });

testClient("a Python client in another PID namespace asks for events, and answers for its own", async (place) => {
  const { cuda, path, startElsewhere } = place;
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using module = gpu.loadModule(fillPtx);
  const fill = (buffer: DeviceBuffer, pattern: number) =>
    module.kernel("fill").launch({ grid: 1, block: 64, stream }, buffer, buffer.byteLength, pattern);
  {
    await using exporter = Exporter.listen(path);
    await using importing = startElsewhere("import", path, "pi", "--verify", "0x40490FDB");
    await until(() => exporter.importers.length === 1);
    using buffer = pool.allocate(2 ** 22, stream);
    for (const pattern of [0, 0x40490fdb]) fill(buffer, pattern);
    exporter.offer("pi", buffer);
    assertEquals((await importing.succeeds()).slice(-2), ['verified "pi"', 'released "pi"']);
    assertEquals(exporter.leases, []);
    await using channel = exporter.createChannel("frames", { pool, slots: 3, slotByteLength: 5000, stream });
    await using consumer = startElsewhere("consume", path, "frames", "--verify", "0x7");
    for (let sequence = 1; sequence <= 6; sequence++) {
      const slot = await channel.reserve({ signal: consumer.whileItRuns });
      fill(slot.buffer, sequence);
      fill(slot.buffer, 7);
      channel.send(slot);
    }
    channel.end();
    assertEquals((await consumer.succeeds()).at(-1), "verified 6 frames");
  }
  const args = ["export", path, "--bytes", "4MiB", "--pattern", "3", "--importers", "1"];
  await using exporting = startElsewhere(...args);
  assertEquals(await exporting.nextLine(), `listening at ${path}`);
  {
    await using importer = await Importer.connect(cuda, path);
    using mapped = await (await importer.offer("buffer")).map({ stream });
    assertEquals(await mapped.read(Uint8Array), patternOf(3, 2 ** 22));
  }
  assertEquals((await exporting.succeeds()).at(-1), `freed ${2 ** 22} bytes`);
}, { only: "software", skip: noNamespace, long: true });

testClient("memory held by a Python client is freed when the client releases it or ends", async (place) => {
  const { cuda, path, start } = place;
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  await using exporter = Exporter.listen(path);
  for (const end of ["recall", "SIGKILL"] as const) {
    const buffer = pool.allocate(4096);
    buffer.copyFrom(patternOf(9, 4096));
    const offer = exporter.offer("held", buffer);
    await using holder = start("import", path, "held", "--verify", "9", "--hold");
    await until(() => offer.leases.some(({ state }) => state === "held"));
    buffer.free();
    assertEquals(exporter.leases.map(({ name, peer }) => [name, peer.pid]), [["held", holder.pid]]);
    for (let line = await holder.nextLine(); line !== 'verified "held"';) {
      assert(line !== undefined, "The client did not verify what it holds");
      line = await holder.nextLine();
    }
    if (end === "SIGKILL") holder.kill("SIGKILL");
    else await exporter.leases[0]!.recall({ deadline: 10_000 });
    await offer.ended({ signal: AbortSignal.timeout(answerTimeout) });
    assertEquals(exporter.leases, []);
    if (end === "recall") assertEquals(await holder.succeeds(), ['recalled "held"', 'released "held"']);
  }
  await until(() => pool.usage().used === 0);
}, { long: true });

for (const overflow of ["wait", "drop-oldest"] as const) {
  testClient(`a Python client reads the frames of a channel, overflow "${overflow}"`, async (place) => {
    const { cuda, path, start } = place;
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool({ handleType: "posix-fd" });
    await using exporter = Exporter.listen(path);
    await using channel = exporter.createChannel("frames", {
      pool,
      slots: 3,
      slotByteLength: 5000,
      stream,
      overflow,
      minimumConsumers: 1,
    });
    await using consumer = start("consume", path, "frames", "--verify", "sequence");
    using module = gpu.loadModule(fillPtx);
    using other = pool.allocate(2 ** 25, stream);
    for (let sequence = 1; sequence <= 12; sequence++) {
      const slot = await channel.reserve({ signal: consumer.whileItRuns });
      if (sequence === 6) {
        // Keeps the stream busy, so that the frame is sent before it is written.
        module.kernel("fill").launch({ grid: 1, block: 64, stream }, other, other.byteLength, sequence);
      }
      const byteLength = 5000 - sequence;
      slot.buffer.subarray(0, byteLength).copyFrom(patternOf(sequence, byteLength));
      channel.send(slot, { byteLength, metadata: { sequence } });
    }
    await channel[Symbol.asyncDispose]();
    const last = (await consumer.succeeds()).at(-1);
    const frames = 12 - channel.dropped;
    assertEquals(last, `verified ${frames} frames`);
    if (overflow === "wait") assertEquals(frames, 12);
  }, { long: overflow === "drop-oldest" });
}

testClient("a Python exporter's buffer and parts of it are imported", async ({ cuda, path, start }) => {
  const metadata = { dtype: "uint8", shape: [3, 100_000] };
  const args = ["--bytes", "300000", "--name", "tensor", "--pattern", "7", "--parts", "3", "--importers", "1"];
  await using exporting = start("export", path, ...args, "--metadata", JSON.stringify(metadata));
  assertEquals(await exporting.nextLine(), `listening at ${path}`);
  {
    using stream = cuda.device(0).createStream();
    const importer = await Importer.connect(cuda, path, { closeTimeout: 10_000 });
    await using closing = new AsyncDisposableStack();
    closing.use(importer);
    assertEquals(importer.peer.pid, exporting.pid);
    const whole = await importer.offer("tensor");
    assertEquals([whole.kind, whole.byteLength, whole.metadata], ["buffer", 300_000, metadata]);
    // The mapping waits for the exporter's copy.
    using buffer = await whole.map({ stream });
    assertEquals(await buffer.read(Uint8Array), patternOf(7, 300_000));
    for (const part of [0, 1, 2]) {
      const offer = await importer.offer(`tensor/${part}`);
      using buffer = await offer.map({ stream });
      assertEquals(await buffer.read(Uint8Array), patternOf(7 + part * 100_000, 100_000), offer.name);
    }
    buffer.free();
    const begin = performance.now();
    await closing.disposeAsync();
    assert(performance.now() - begin < 5000, "The exporter did not give the events back");
  }
  const lines = await exporting.succeeds();
  assertEquals(lines.filter((line) => line.startsWith("held")).length, 4);
  assertEquals(lines.filter((line) => line.startsWith("released")).length, 4);
  assertEquals(lines.slice(-2), [`importer ${process.pid} disconnected: done`, "freed 300000 bytes"]);
}, { long: true });

testClient("a Python exporter frees its memory when its importers release it or end", async (place) => {
  const { cuda, path, start } = place;
  await using exporting = start("export", path, "--bytes", "4096", "--name", "held", "--pattern", "3");
  assertEquals(await exporting.nextLine(), `listening at ${path}`);
  await using importer = await Importer.connect(cuda, path);
  assertEquals(await exporting.nextLine(), `importer ${process.pid} connected`);
  const offer = await importer.offer("held");
  using buffer = await offer.map();
  assertEquals(await exporting.nextLine(), `held "held" by ${process.pid}`);
  await using other = start("import", path, "held", "--verify", "3", "--hold");
  assertEquals(await exporting.nextLine(), `importer ${other.pid} connected`);
  assertEquals(await exporting.nextLine(), `held "held" by ${other.pid}`);
  other.kill("SIGKILL");
  assertStringIncludes((await exporting.nextLine())!, `importer ${other.pid} disconnected`);
  exporting.kill("SIGTERM");
  await until(() => offer.recalled.aborted && offer.isWithdrawn);
  assertEquals(await buffer.read(Uint8Array), patternOf(3, 4096));
  await assertRejects(() => offer.map(), SharingError, "withdrawn");
  buffer.free();
  assertEquals(await exporting.succeeds(), [`released "held" by ${process.pid}`, "freed 4096 bytes"]);
}, { long: true });

testClient("virtual memory goes to a Python client and comes from one", async ({ cuda, path, start }) => {
  const byteLength = 5 * 2 ** 20 + 3;
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  {
    using buffer = gpu.allocate(byteLength, { handleType: "posix-fd" });
    buffer.copyFrom(patternOf(5, byteLength));
    await using exporter = Exporter.listen(path);
    exporter.offer("weights", buffer);
    exporter.offer("part", buffer.subarray(1000, 3000));
    await using whole = start("import", path, "weights", "--verify", "5");
    await using part = start("import", path, "part", "--verify", String((5 + 1000) % period));
    assertEquals((await whole.succeeds()).slice(-2), ['verified "weights"', 'released "weights"']);
    assertEquals((await part.succeeds()).slice(-2), ['verified "part"', 'released "part"']);
    await until(() => exporter.leases.length === 0);
  }
  const args = ["--bytes", String(byteLength), "--pattern", "3", "--parts", "2", "--importers", "1", "--virtual"];
  await using exporting = start("export", path, ...args);
  assertEquals(await exporting.nextLine(), `listening at ${path}`);
  {
    await using importer = await Importer.connect(cuda, path, { memory: "virtual" });
    using mapped = await (await importer.offer("buffer")).map({ stream });
    assertEquals(await mapped.read(Uint8Array), patternOf(3, byteLength));
    const begin = Math.floor(byteLength / 2);
    using part = await (await importer.offer("buffer/1")).map({ stream });
    assertEquals(await part.read(Uint8Array, { length: 100 }), patternOf(3 + begin, 100));
  }
  assertEquals((await exporting.succeeds()).at(-1), `freed ${byteLength} bytes`);
});

testClient("a Python client and exporter refuse other versions", async ({ path, start }) => {
  {
    await using exporting = start("export", path, "--importers", "1");
    assertEquals(await exporting.nextLine(), `listening at ${path}`);
    await using socket = await UnixSocket.connect(path);
    await socket.send(fromHex("1000000001000000706f6f6c706173730400040000000000"));
    const { bytes } = await socket.receive(16);
    const header = new DataView(bytes.buffer);
    assertEquals([header.getUint16(4, true), header.getUint16(8, true)], [3, 1]);
    assertEquals([header.getUint16(10, true), header.getUint16(12, true)], [1, 3]);
    assertMatch((await exporting.nextLine())!, /disconnected: .*This exporter knows only versions 1 to 3/);
  }
  await using listener = UnixListener.listen(path);
  await using list = start("list", path);
  await using socket = await listener.accept();
  await socket.receive(24);
  await socket.send(fromHex("1000000002000000706f6f6c706173730900000000000000"));
  assertStringIncludes(await list.fails(), "The exporter chose version 9");
}, { only: "software", long: true });

for (
  const [what, hex, message] of [
    ["a message of an unknown type", "0400000063000000" + "00000000", "There is no message of type 99"],
    ["a body of 4 GiB", "ffffffff13000000", "OFFER has a body of 4294967295 bytes"],
    ["a pool without its descriptor", "1800000010000100" + "01000000".repeat(6), "POOL has no descriptor"],
    ["an allocation in no pool", "5000000011000000" + "01000000".repeat(20), "lies in pool 1, which was not announced"],
    ["a text that is not UTF-8", "0900000003000000" + "0300010001000000ff", "is not UTF-8"],
    ["a message that only importers send", "0400000020000000" + "01000000", "An exporter must not send HELD"],
  ] as const
) {
  testClient(`a Python client refuses ${what}`, async ({ path, start }) => {
    await using listener = UnixListener.listen(path);
    await using list = start("list", path, "--follow");
    await using socket = await listener.accept();
    await socket.receive(24);
    await socket.send(fromHex("1000000002000000706f6f6c706173730100000000000000" + hex));
    assertStringIncludes(await list.fails(), message);
    const { bytes } = await socket.receive(16);
    const view = new DataView(bytes.buffer);
    assertEquals([view.getUint16(4, true), view.getUint16(8, true)], [3, 3]);
  }, { only: "software", long: what !== "a message of an unknown type" });
}

function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hex.match(/../g)!, (digits) => Number.parseInt(digits, 16));
}
