import { assert, assertEquals, assertInstanceOf, assertStringIncludes } from "@std/assert";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { isClosingStuck, openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import type { Cuda } from "../../../src/objects/cuda.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { answerGreeting } from "../../../src/sharing/protocol/handshake.ts";
import { badMessage } from "../../../src/sharing/protocol/messages.ts";
import { MessageStream } from "../../../src/sharing/protocol/message_stream.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { SharingError, type SharingErrorCode } from "../../../src/support/errors.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import type { ChildProcess } from "../../support/child_process.ts";
import { type Fixture, sharingTest, type SharingTestOptions } from "../sharing_peers.ts";
import { noPython, startHostile as startPython } from "./hostile_peers.ts";

/** Milliseconds in which an honest peer is served, and for which the event loop may stand still. */
const promptly = 2000;
/** Milliseconds for a child to start. */
const longTimeout = 20_000;

const noMount = process.getuid?.() === 0
  ? (existsSync("/dev/fuse") ? undefined : "there is no /dev/fuse")
  : "mounting a file system takes root";

const attacks = ["part of POOL", "at once", "POOL", "POOL with many", "behind GOODBYE", "an urgent byte"];

/** The kinds of descriptors, with why they cannot be made here and whether the long run alone has them. */
const kinds = [
  { kind: "lingering", what: "a socket that lingers", skip: noPython, long: false },
  { kind: "silent", what: "a file whose file system does not answer", skip: noPython || noMount, long: false },
  { kind: "failing", what: "a file that cannot be closed without an error", skip: noPython || noMount, long: true },
  { kind: "device", what: "a device file", skip: noPython, long: true },
] as const;

/** Records the longest time for which the event loop stood still. */
class StandstillWatch implements Disposable {
  #last = performance.now();
  #longest = 0;
  readonly #timer = setInterval(() => this.#turn(), 5);

  get longest(): number {
    this.#turn();
    return this.#longest;
  }

  #turn(): void {
    const now = performance.now();
    this.#longest = Math.max(this.#longest, now - this.#last);
    this.#last = now;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

interface Scene {
  readonly fixture: Fixture;
  readonly exporter: Exporter;
  /** The errors with which connections to the exporter have ended. */
  readonly ends: (SharingError | undefined)[];
  /** The path of the first hostile exporter. */
  readonly hostilePath: string;
  /** Starts a hostile peer, which then has all its descriptors. */
  startHostile(
    role: "exporter" | "importer",
    kind: string,
    names: readonly string[],
    at?: string,
  ): Promise<ChildProcess>;
  /** Maps and reads a buffer of an honest exporter, and lets an honest importer do that, both in another process. */
  serveHonest(): Promise<void>;
}

/** Declares a test with an exporter, an honest process that imports and exports, and room for hostile ones. */
function hostileTest(name: string, body: (scene: Scene) => Promise<void>, options: SharingTestOptions): void {
  sharingTest(name, async (fixture) => {
    const { cuda, path, pool, start, stream } = fixture;
    const mount = mkdtempSync("/tmp/poolpass-mount-");
    try {
      await using stack = new AsyncDisposableStack();
      const ends: (SharingError | undefined)[] = [];
      const exporter = stack.use(Exporter.listen(path, {
        closeTimeout: 0,
        onDisconnect: (_peer, error) => void ends.push(error),
      }));
      using buffer = pool.allocate(64, stream);
      buffer.fill(5);
      exporter.offer("weights", buffer);
      const honest = await start();
      const honestPath = `${path}-honest`;
      await honest.call("listen", honestPath);
      await honest.call("export", "steady", 64, 7);
      using watch = new StandstillWatch();
      await body({
        fixture,
        exporter,
        ends,
        hostilePath: `${path}-hostile`,
        async startHostile(role, kind, names, at = role === "exporter" ? `${path}-hostile` : path) {
          const child = stack.use(startPython("descriptor_senders.py", [role, kind, at, mount, ...names]));
          assertEquals(await child.nextLine(), "ready", await Promise.race([child.errors(), ""]));
          return child;
        },
        async serveHonest() {
          const since = performance.now();
          await honest.call("connect", "honest", path);
          await honest.call("map", "honest", "weights");
          assertEquals((await honest.call("read", "weights", 0, 1))[0], 5);
          await honest.call("free", "weights");
          await honest.call("close", "honest");
          {
            await using importer = await Importer.connect(cuda, honestPath);
            using mapped = await (await importer.offer("steady")).map();
            assertEquals((await mapped.read(Uint8Array))[0], 7);
          }
          const duration = performance.now() - since;
          assert(duration < promptly, `Honest peers were served after ${duration} ms`);
        },
      });
      assert(watch.longest < promptly, `The event loop stood still for ${watch.longest} ms`);
    } finally {
      rmSync(mount, { recursive: true });
    }
  }, { softwareOnly: true, ...options });
}

/** Connects to a hostile exporter, and resolves with the error that ended the connection. */
async function endOfConnection(cuda: Cuda, path: string): Promise<unknown> {
  try {
    await using importer = await Importer.connect(cuda, path, { closeTimeout: 0, messageTimeout: 200 });
    for await (const _ of importer.offers({ signal: AbortSignal.timeout(longTimeout) }));
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Greets an importer, and resolves with the error that ended its connection. */
async function endOfStream(stream: MessageStream): Promise<unknown> {
  await answerGreeting(stream, { handshakeTimeout: 200 });
  return await new Promise((resolve) =>
    stream.start({
      // An exporter accepts no POOL.
      onMessage: ({ type }) => {
        throw badMessage(`${type} comes from an importer`);
      },
      onDrain() {},
      onEnd: resolve,
    })
  );
}

function assertCode(error: unknown, codes: readonly SharingErrorCode[], what: string): void {
  assertInstanceOf(error, SharingError, `${what}: ${error}`);
  const { code, message } = error as SharingError;
  assert(codes.includes(code), `${what}: ${message}`);
}

for (const { kind, what, skip, long } of kinds) {
  hostileTest(`an exporter that sends ${what} harms no importer`, async (scene) => {
    const { fixture: { cuda }, hostilePath, serveHonest } = scene;
    await using _hostile = await scene.startHostile("exporter", kind, attacks);
    for (const name of attacks) {
      const since = performance.now();
      const error = await endOfConnection(cuda, hostilePath);
      if (name !== "behind GOODBYE") {
        assertCode(error, ["bad-message", "timed-out"], name);
      }
      assert(performance.now() - since < promptly, `${name} took ${performance.now() - since} ms`);
      await serveHonest();
    }
  }, { skip, long: long || kind === "lingering" });

  hostileTest(`a peer that sends ${what} harms no stream of a listener that passes it`, async (scene) => {
    const { fixture: { path }, serveHonest } = scene;
    const at = `${path}-listener`;
    await using listener = UnixListener.listen(at);
    const names = ["part of POOL before the greeting", ...attacks];
    await using hostile = await scene.startHostile("importer", kind, names, at);
    for (const name of names) {
      assertEquals(await hostile.nextLine(), "sent", name);
      const stream = new MessageStream(await listener.accept(), { messageTimeout: 200 });
      const error = await endOfStream(stream).catch((error) => error);
      stream.process[Symbol.dispose]();
      if (name !== "behind GOODBYE") assertCode(error, ["bad-message", "timed-out", "peer-gone"], name);
      await serveHonest();
    }
  }, { skip, long: true });

  hostileTest(`an importer that sends ${what} harms no exporter`, async (scene) => {
    const { exporter, ends, serveHonest } = scene;
    const names = ["part of POOL before the greeting", ...attacks];
    const hostile = await scene.startHostile("importer", kind, names);
    const results = new Set<string>();
    for (const _ of names) {
      results.add((await hostile.nextLine())!);
      await serveHonest();
    }
    // The exporter may have closed the connection by then, after GOODBYE.
    results.delete("EPIPE");
    // Linux 6.16 and newer refuse to send an exporter any descriptors.
    assert(results.size === 1 && (results.has("EPERM") || results.has("sent")), [...results].join());
    hostile.kill("SIGKILL");
    await hostile.ended;
    await waitUntil(() => exporter.importers.length === 0, { signal: AbortSignal.timeout(promptly) });
    await waitUntil(() => ends.filter((error) => error !== undefined).length >= names.length - 1, {
      signal: AbortSignal.timeout(promptly),
    });
    await serveHonest();
  }, { skip, long: long || kind === "silent" });
}

hostileTest("sockets close at once, whatever nobody has read or accepted", async (scene) => {
  const { fixture: { path }, serveHonest } = scene;
  const at = `${path}-listener`;
  const names = ["POOL with many", "POOL with many", "an urgent byte"];
  const listener = UnixListener.listen(at);
  const hostile = await scene.startHostile("importer", "lingering", names, at);
  for (const _ of names) assertEquals(await hostile.nextLine(), "sent");
  const since = performance.now();
  const unread = await listener.accept();
  await unread[Symbol.asyncDispose]();
  await listener[Symbol.asyncDispose]();
  assert(performance.now() - since < promptly, `Closing took ${performance.now() - since} ms`);
  await serveHonest();
}, { skip: noPython, long: true });

hostileTest("once no thread can close what peers send, more of it is refused, and pools are not", async (scene) => {
  const { fixture: { cuda, path }, hostilePath, serveHonest } = scene;
  const names = ["POOL", "POOL with many", "POOL with many"];
  await using _hostile = await scene.startHostile("exporter", "silent", names);
  for (const name of names) {
    const error = await endOfConnection(cuda, hostilePath);
    assertStringIncludes(String(error), name === "POOL" ? "is no pool's" : "more descriptors came");
  }
  await waitUntil(isClosingStuck, { signal: AbortSignal.timeout(promptly) });
  await using listener = UnixListener.listen(`${path}-listener`);
  const [near, far] = await Promise.all([UnixSocket.connect(listener.path), listener.accept()]);
  await using _near = near;
  await using _far = far;
  using file = ShareableHandle.fromFd(openDescriptor("/dev/zero"));
  await near.send(Uint8Array.of(1), { handles: [file] });
  const refusal = await far.receive(1, { handles: 1 }).catch((error) => error);
  assertCode(refusal, ["out-of-descriptors"], "receiving a descriptor");
  await serveHonest();
}, { skip: noPython || noMount, long: true });
