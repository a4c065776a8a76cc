import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { CudaError, type SharingError } from "../../src/support/errors.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import type { Peer } from "../../src/sharing/transport/unix_socket.ts";
import { assertFailsSoon, PeerError, type SharingPeer, sharingTest, soon } from "./sharing_peers.ts";

/** In bytes. */
const size = 4096;

function uniform(byte: number, length: number = size): Uint8Array {
  return new Uint8Array(length).fill(byte);
}

/** The peers that have left, with the codes of their errors. */
class Departures {
  readonly #seen: [number, string | undefined][] = [];
  readonly onDisconnect = ({ pid }: Peer, error: SharingError | undefined): void => {
    this.#seen.push([pid, error?.code]);
  };

  /** Resolves when a process has left with an error of this code. */
  until(pid: number, code: string | undefined): Promise<void> {
    const isSo = () => this.#seen.some((seen) => seen[0] === pid && seen[1] === code);
    return soon(isSo, `process ${pid} leaves (${code}); it was ${JSON.stringify(this.#seen)}`);
  }
}

/** Starts an importer in another process, which must not be affected by faults of other processes. */
async function startNeighbour(start: () => Promise<SharingPeer>, path: string, name: string): Promise<SharingPeer> {
  const peer = await start();
  await peer.call("connect", "neighbour", path);
  await peer.call("map", "neighbour", name, "neighbour");
  return peer;
}

async function assertUndisturbed(peer: SharingPeer, byte: number): Promise<void> {
  assert(await peer.call("isConnected", "neighbour"));
  assertEquals(await peer.call("read", "neighbour", 0, 16), uniform(byte, 16));
}

async function leave(peer: SharingPeer): Promise<void> {
  await peer.call("free", "neighbour");
  await peer.call("close", "neighbour");
}

sharingTest("an exporter is killed: importers with mappings can read and free them, and waits fail", async ({
  cuda,
  gpu,
  stream,
  path,
  start,
}) => {
  const [exporter, other] = await Promise.all([start(), start()]);
  await exporter.call("listen", path);
  await exporter.call("export", "ready", size, 3);
  await exporter.call("finished");
  await exporter.call("hold");
  await exporter.call("export", "pending", size, 4);
  const importer = await Importer.connect(cuda, path);
  const offer = await importer.offer("ready");
  const buffer = await offer.map({ stream });
  await other.call("connect", "one", path);
  await other.call("map", "one", "ready");
  const drained = (async () => {
    for await (const _ of importer.offers());
  })();
  const waits = [
    drained,
    importer.offer("never"),
    importer.offer("pending").then((pending) => pending.map()),
    other.call("offer", "one", "never"),
    other.call("map", "one", "pending"),
  ];
  const recalled = [
    new Promise((resolve) => offer.recalled.addEventListener("abort", resolve)),
    other.call("recalled", "ready"),
  ];
  // Once both mappings are pending, all the waits are in progress.
  while ((await exporter.call("leases")).filter(([name]) => name === "pending").length < 2);
  for (const wait of waits) wait.catch(() => {});
  await exporter.kill();
  await Promise.all(waits.map((wait) => assertFailsSoon(wait, "peer-gone")));
  assertEquals((await Promise.all(recalled))[1], "peer-gone");
  assertEquals(offer.recalled.reason.code, "peer-gone");
  assertEquals([importer.isConnected, await other.call("isConnected", "one")], [false, false]);
  await assertFailsSoon(offer.map(), "peer-gone");
  assertEquals(await buffer.read(Uint8Array), uniform(3));
  assertEquals(await other.call("read", "ready", 0, size), uniform(3));
  buffer.free();
  await stream.finished();
  await other.call("free", "ready");
  await Promise.all([importer[Symbol.asyncDispose](), other.call("close", "one")]);
  await gpu.finished();
  // The path is free for another exporter.
  await using _next = Exporter.listen(path);
});

sharingTest("an exporter is killed before its event is opened: its memory is not taken for ready", async ({
  cuda,
  path,
  start,
}) => {
  const exporter = await start();
  await exporter.call("listen", path);
  await exporter.call("hold");
  await exporter.call("export", "slow", size, 3);
  const importer = await Importer.connect(cuda, path);
  const offer = await importer.offer("slow");
  process.kill(exporter.pid, "SIGKILL");
  // The event loop must not notice the end before the event is opened.
  while (isRunning(exporter.pid));
  await assertFailsSoon(offer.map(), "peer-gone");
  await importer[Symbol.asyncDispose]();
}, { long: true });

/** Whether a process exists and is not a zombie. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

sharingTest("an importer is killed while it holds memory, and while its release is pending", async ({
  pool,
  stream,
  path,
  start,
}) => {
  const departures = new Departures();
  await using exporter = Exporter.listen(path, departures);
  const buffers = [1, 2, 3].map((value) => {
    const buffer = pool.allocate(size, stream);
    buffer.fill(value);
    return buffer;
  });
  const offers = buffers.map((buffer, index) => exporter.offer(`buffer ${index}`, buffer));
  const [neighbour, victim] = await Promise.all([startNeighbour(start, path, "buffer 2"), start()]);
  await victim.call("connect", "one", path);
  await victim.call("map", "one", "buffer 0");
  await victim.call("map", "one", "buffer 1");
  await victim.call("map", "one", "buffer 2");
  await victim.call("copy", "buffer 1", "copy");
  await victim.call("hold");
  await victim.call("free", "buffer 1");
  const statesOfVictim = () => exporter.leases.filter(({ peer }) => peer.pid === victim.pid).map(({ state }) => state);
  await soon(() => statesOfVictim().includes("releasing"), "the release is under way");
  assertEquals(statesOfVictim().sort(), ["held", "held", "releasing"]);
  for (const buffer of buffers) buffer.free();
  await stream.finished();
  const { used } = pool.usage();
  assert(used > 0);
  await victim.kill();
  await soon(() => statesOfVictim().length === 0, "dead importers hold nothing");
  await departures.until(victim.pid, "peer-gone");
  await Promise.all(offers.slice(0, 2).map((offer) => offer.ended({ signal: AbortSignal.timeout(1000) })));
  await stream.finished();
  assert(pool.usage().used < used);
  assertEquals(exporter.leases.map(({ name, peer }) => [name, peer.pid]), [["buffer 2", neighbour.pid]]);
  await assertUndisturbed(neighbour, 3);
  await leave(neighbour);
  await offers[2]!.ended();
});

sharingTest("importers are killed in the middle of the handshake", async ({ pool, stream, path, start }) => {
  const departures = new Departures();
  await using exporter = Exporter.listen(path, departures);
  using buffer = pool.allocate(size, stream);
  buffer.fill(5);
  exporter.offer("buffer", buffer);
  const hello = encodeMessage({ type: "hello", lowestVersion: 1, highestVersion: 1 });
  const [neighbour, ...victims] = await Promise.all([startNeighbour(start, path, "buffer"), start(), start()]);
  await victims[0]!.call("say", path, new Uint8Array());
  await victims[0]!.call("say", path, hello.subarray(0, 11));
  // This one sends all its messages, and is killed before it receives any.
  await victims[1]!.call("say", path, hello);
  await Promise.all(victims.map((victim) => victim.kill()));
  for (const victim of victims) await departures.until(victim.pid, "peer-gone");
  await soon(() => exporter.importers.length === 1, "the dead importers are removed");
  await assertUndisturbed(neighbour, 5);
  await leave(neighbour);
  await soon(() => exporter.leases.length === 0, "nothing is held");
}, { long: true });

sharingTest("an importer is stopped: others continue, and it releases memory once it is continued, or killed", async ({
  pool,
  stream,
  path,
  start,
}) => {
  await using exporter = Exporter.listen(path);
  using shared = pool.allocate(size, stream);
  shared.fill(6);
  exporter.offer("shared", shared);
  const [neighbour, stopped] = await Promise.all([startNeighbour(start, path, "shared"), start()]);
  await stopped.call("connect", "one", path);
  for (const end of ["SIGCONT", "SIGKILL"] as const) {
    const buffer = pool.allocate(size, stream);
    buffer.fill(7);
    const offer = exporter.offer("buffer", buffer);
    await stopped.call("map", "one", "buffer");
    await soon(() => offer.leases.length === 1, "it is held");
    await stopped.kill("SIGSTOP");
    const freeing = assertFreed(stopped, end);
    buffer.free();
    // Meanwhile the exporter sends more than a socket can hold.
    for (let index = 0; index < 200; index++) {
      exporter.offer(`more ${index}`, shared.subarray(index, index + 1), { metadata: "x".repeat(4000) });
    }
    assertEquals((await neighbour.call("offer", "neighbour", "more 199")).byteLength, 1);
    await neighbour.call("map", "neighbour", "more 7");
    await neighbour.call("free", "more 7");
    await assertUndisturbed(neighbour, 6);
    for (const each of exporter.offers) if (each.name.startsWith("more")) each.withdraw();
    assertEquals(offer.leases.map(({ peer, state }) => [peer.pid, state]), [[stopped.pid, "held"]]);
    await stopped.kill(end);
    await offer.ended({ signal: AbortSignal.timeout(1000) });
    await freeing;
  }
  await leave(neighbour);
  await soon(() => exporter.leases.length === 0, "nothing is held");
}, { long: true });

/** Asserts that a buffer is freed whose release was requested while the importer was stopped. */
async function assertFreed(stopped: SharingPeer, end: "SIGCONT" | "SIGKILL"): Promise<void> {
  const freeing = stopped.call("free", "buffer");
  if (end === "SIGCONT") await freeing;
  else await assertRejects(() => freeing, Error, "The process has ended");
}

sharingTest("an importer is killed, while a child process of it keeps its socket open", async ({
  pool,
  stream,
  path,
  start,
}) => {
  const departures = new Departures();
  await using exporter = Exporter.listen(path, departures);
  const buffer = pool.allocate(size, stream);
  buffer.fill(8);
  const offer = exporter.offer("buffer", buffer);
  const [neighbour, victim] = await Promise.all([startNeighbour(start, path, "buffer"), start()]);
  await victim.call("connect", "one", path);
  await victim.call("map", "one", "buffer");
  const grandchild = await victim.call("startHolder");
  try {
    buffer.free();
    await victim.kill();
    await departures.until(victim.pid, "peer-gone");
    await soon(() => exporter.leases.length === 1, "the dead holds nothing");
    await assertUndisturbed(neighbour, 8);
    await leave(neighbour);
    await offer.ended({ signal: AbortSignal.timeout(1000) });
  } finally {
    process.kill(grandchild, "SIGKILL");
  }
}, { long: true });

sharingTest("the device of an offer is not visible to an importer", async ({ cuda, pool, stream, path, start }) => {
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(size, stream);
  buffer.fill(9);
  const [whole, part] = [exporter.offer("pool", pool), exporter.offer("buffer", buffer)];
  const env = { CUDA_VISIBLE_DEVICES: cuda.device(1).uuid, POOLPASS_SOFTWARE_DEVICES: "2" };
  const [neighbour, blind] = await Promise.all([
    startNeighbour(start, path, "buffer"),
    start({ byEnvironment: true, env }),
  ]);
  await blind.call("connect", "one", path);
  await assertFailsSoon(blind.call("map", "one", "buffer"), "device-not-visible", "see CUDA_VISIBLE_DEVICES");
  const data = buffer.exportPointer().toHex();
  await assertFailsSoon(blind.call("importPool", "one", "pool", "x", data, size), "device-not-visible");
  assert(await blind.call("isConnected", "one"));
  await assertUndisturbed(neighbour, 9);
  await leave(neighbour);
  for (const offer of [whole, part]) offer.withdraw();
  await Promise.all([whole.ended(), part.ended()]);
  await blind.call("close", "one");
}, { devices: 2, long: true });

sharingTest("either side has no memory left", async ({ gpu, stream, path, start }) => {
  await using exporter = Exporter.listen(path);
  using pool = gpu.createPool({ handleType: "posix-fd", maxSize: 2 ** 26 });
  using buffer = pool.allocate(2 ** 21, stream);
  buffer.fill(1);
  await stream.finished();
  const offer = exporter.offer("buffer", buffer);
  const [neighbour, poor] = await Promise.all([startNeighbour(start, path, "buffer"), start()]);
  assertThrows(
    () => exporter.createChannel("ring", { pool, slots: 100, slotByteLength: 2 ** 20 }),
    CudaError,
    "cudaErrorMemoryAllocation",
  );
  assertEquals(exporter.offers.map(({ name }) => name), ["buffer"]);
  await poor.call("connect", "one", path);
  await poor.call("exhaust");
  const error = await assertRejects(() => poor.call("map", "one", "buffer"), PeerError);
  assertEquals(error.code, "cudaErrorMemoryAllocation");
  await soon(() => exporter.leases.length === 1, "failed mappings are not held");
  await poor.call("recover");
  await poor.call("map", "one", "buffer");
  assertEquals(await poor.call("read", "buffer", 2 ** 21 - 1, 1), uniform(1, 1));
  await poor.call("close", "one");
  await assertUndisturbed(neighbour, 1);
  await leave(neighbour);
  offer.withdraw();
  await offer.ended();
}, { softwareOnly: true, long: true });

sharingTest("an exporter sends a wrong size, and the pointer of another pool", async ({
  cuda,
  path,
  start,
}) => {
  const liar = await start();
  await liar.call("lie", path);
  await using importer = await Importer.connect(cuda, path);
  const [long, foreign, honest] = await Promise.all(["long", "foreign", "honest"].map((name) => importer.offer(name)));
  await assertFailsSoon(long!.map(), "size-mismatch", `Cannot import a buffer of ${2 ** 40} bytes`);
  const error = await assertRejects(() => foreign!.map(), CudaError);
  assertEquals(error.code, "cudaErrorInvalidValue");
  // Neither affects anything else.
  assert(importer.isConnected);
  const buffer = await honest!.map();
  assertEquals(await buffer.read(Uint8Array), uniform(7));
  buffer.free();
  await liar.kill();
}, { long: true });

sharingTest("another program replaces an exporter's socket", async ({ cuda, pool, stream, path, start }) => {
  const usurper = await start({ permissions: ["--allow-ffi", "--allow-write"] });
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(size, stream);
  buffer.fill(2);
  const offer = exporter.offer("buffer", buffer);
  const neighbour = await startNeighbour(start, path, "buffer");
  await usurper.call("usurp", path, new TextEncoder().encode("220 mail.example ESMTP ready, and glad of it\r\n"));
  await assertFailsSoon(Importer.connect(cuda, path), "bad-message");
  // Connected importers continue, and receive new offers.
  exporter.offer("late", buffer.subarray(0, 8));
  assertEquals((await neighbour.call("offer", "neighbour", "late")).byteLength, 8);
  await assertUndisturbed(neighbour, 2);
  await leave(neighbour);
  offer.withdraw();
  await offer.ended();
  await exporter[Symbol.asyncDispose]();
  assert(existsSync(path), "the file of the other is left alone");
}, { long: true });

sharingTest("an exporter's device faults while importers wait for its work", async ({ cuda, stream, path, start }) => {
  const exporter = await start();
  await exporter.call("listen", path, { closeTimeout: 100 });
  await exporter.call("export", "ready", size, 3);
  await exporter.call("finished");
  await exporter.call("hold");
  await exporter.call("fail");
  await exporter.call("export", "pending", size, 4);
  await using importer = await Importer.connect(cuda, path);
  const buffer = await importer.offer("ready").then((offer) => offer.map({ stream }));
  const mapping = importer.offer("pending").then((offer) => offer.map());
  while ((await exporter.call("leases")).length < 2);
  mapping.catch(() => {});
  await exporter.call("release");
  // The driver reports a fault some time later.
  const error = await assertRejects(() => exporter.call("finished"), PeerError);
  assertEquals(error.thrown, "CudaError");
  await assertFailsSoon(mapping, "device-lost", "the exporter has lost its device");
  await assertFailsSoon(importer.offer("never"), "device-lost", "the exporter has lost its device");
  assertEquals(await buffer.read(Uint8Array), uniform(3));
  buffer.free();
  await stream.finished();
  // A later importer must not wait either.
  const late = Importer.connect(cuda, path).then((late) =>
    using(late, () => late.offer("pending").then((p) => p.map()))
  );
  await assertFailsSoon(late, "device-lost");
  await exporter.call("closeExporter");
}, { long: true });

sharingTest("an importer's device faults while it holds memory", async ({ pool, stream, path, start }) => {
  const ends: (SharingError | undefined)[] = [];
  await using exporter = Exporter.listen(path, { onDisconnect: (_peer, error) => void ends.push(error) });
  const buffer = pool.allocate(size, stream);
  buffer.fill(3);
  const offer = exporter.offer("buffer", buffer);
  const [neighbour, victim] = await Promise.all([startNeighbour(start, path, "buffer"), start()]);
  await victim.call("connect", "one", path);
  await victim.call("map", "one", "buffer");
  await victim.call("map", "one", "buffer", "again");
  await victim.call("fail");
  await assertRejects(() => victim.call("finished"), PeerError);
  const error = await assertRejects(() => victim.call("free", "buffer"), PeerError);
  assertEquals(error.thrown, "CudaError");
  const begin = performance.now();
  await victim.call("close", "one");
  assert(performance.now() - begin < 1000);
  buffer.free();
  const stateOf = ({ pid }: SharingPeer) => exporter.leases.find(({ peer }) => peer.pid === pid)?.state;
  await soon(() => stateOf(victim) === "quarantined", "the importer has left, but still maps the buffer");
  assertEquals(stateOf(neighbour), "held");
  assertEquals(ends.map((error) => error?.code), ["peer-gone"]);
  assertStringIncludes(ends[0]!.message, "(not-released)");
  await assertUndisturbed(neighbour, 3);
  await victim.kill();
  await soon(() => exporter.leases.length === 1, "the quarantine has ended");
  await leave(neighbour);
  await offer.ended();
}, { long: true });

async function using<T>(resource: AsyncDisposable, body: () => Promise<T>): Promise<T> {
  await using _resource = resource;
  return await body();
}
