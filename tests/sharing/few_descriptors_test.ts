import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { duplicateDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { ShareableHandle } from "../../src/memory/handles/shareable_handle.ts";
import type { Cuda } from "../../src/objects/cuda.ts";
import { encodeMessage } from "../../src/sharing/protocol/encode_message.ts";
import { MessageStream } from "../../src/sharing/protocol/message_stream.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { decodeHeader, decodeMessage, headerByteLength } from "../../src/sharing/protocol/decode_message.ts";
import {
  hasHandle,
  type Message,
  type OfferMessage,
  type RequestHandleMessage,
} from "../../src/sharing/protocol/messages.ts";
import { SharingError } from "../../src/support/errors.ts";
import { parseUuid } from "../../src/support/uuid.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { type ChildProcess, scriptCommand, startCommand } from "../support/child_process.ts";
import { open } from "../../src/open.ts";
import { leakTest } from "../support/resources.ts";
import { warmUpSockets } from "../support/warm_up.ts";

/** More pools than an importer with so few descriptors can have handles of. */
const pools = 60;
const script = "children/sharing/map_some_offers";
/** Python asks nothing of the runtime that starts it: what it asks of an exporter is the same for all. */
const notDeno = !("Deno" in globalThis) && "the importers in Python run where this runs in Deno";
const noPython = notDeno ||
  spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).status !== 0 &&
    "there is no python3, or it is older than 3.10";
const pythonPath = fileURLToPath(new URL("../../python", import.meta.url));

/**
 * The languages of the child processes, each with the function that starts one, and with as many pools that such an
 * importer has descriptors for, but not for twice as many.
 */
const languages: readonly (readonly [language: string, skip: string | false, start: Start, fitting: number])[] = [
  [
    "TypeScript",
    false,
    (args, options) => startCommand(scriptCommand(`${script}.ts`, args, anything), { ...options, env: unsanitized }),
    20,
  ],
  ["Python", noPython, startPython, 40],
];
type Start = (args: readonly string[], options?: { readonly descriptorLimit?: number }) => ChildProcess;

const few = { descriptorLimit: 64 };
const anything = { permissions: ["-A"] };
/** The sanitizer of a process takes descriptors, too. */
const unsanitized = { POOLPASS_SANITIZE: "0" };

function startPython(args: readonly string[], options: { readonly descriptorLimit?: number } = {}): ChildProcess {
  const path = fileURLToPath(new URL(`../${script}.py`, import.meta.url));
  const env = { PYTHONPATH: pythonPath, PYTHONDONTWRITEBYTECODE: "1", POOLPASS_DRIVER: "software" };
  return startCommand(["python3", path, ...args], { ...options, env });
}

/** Declares a test that is given a path for a socket. */
function pathTest(name: string, body: (path: string, cuda: Cuda) => Promise<void>, skip: string | false): void {
  leakTest(name, async () => {
    const folder = mkdtempSync(join(tmpdir(), "poolpass-few-"));
    try {
      using cuda = open({ driver: "software" });
      await body(join(folder, "offers"), cuda);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }, { skip, warmUp: warmUpSockets });
}

async function linesOf(child: ChildProcess): Promise<string[]> {
  const lines = [];
  for (let line; (line = await child.nextLine()) !== undefined;) lines.push(line);
  assertEquals(await child.ended, 0, await child.errors());
  return lines;
}

const patience = 30_000;

/** Resolves when the exporter has received all releases of a process that has ended, some through a relay. */
function leasesEnded(exporter: Exporter): Promise<void> {
  return waitUntil(() => exporter.leases.length === 0, { signal: AbortSignal.timeout(patience) });
}

const names = ["offer 0", "offer 59", "offer 30", "offer 59", "offer 58"];
const values = ["offer 0: 1000", "offer 59: 1059", "offer 30: 1030", "offer 59: 1059", "offer 58: 1058"];

/** Answers of an exporter to a request for the handle of the last pool, and the error in the importer. */
const falseAnswers: readonly (readonly [string, (socket: UnixSocket) => Promise<unknown>, string])[] = [
  ["that of another pool", (socket) => sendHandle(socket, pools - 1), "bad-message"],
  ["without a descriptor", (socket) => socket.send(handleOf(pools)), "bad-message"],
  ["a descriptor of no pool", async (socket) => {
    using handle = ShareableHandle.fromFd(duplicateDescriptor(0));
    await socket.send(handleOf(pools), { handles: [handle] });
  }, "bad-message"],
  ["the end of the connection", (socket) => socket[Symbol.asyncDispose](), "peer-gone"],
  [
    "that the pool is forgotten",
    (socket) => socket.send(encodeMessage({ type: "forget", kind: "pool", identifier: pools })),
    "bad-message",
  ],
];

for (const [language, skip, start, fitting] of languages) {
  pathTest(`${language} with few descriptors maps any of many offers`, async (path, cuda) => {
    using memory = new DisposableStack();
    await using exporter = Exporter.listen(path);
    for (let i = 0; i < pools; i++) {
      const pool = memory.use(cuda.device(0).createPool({ handleType: "posix-fd" }));
      exporter.offer(`offer ${i}`, memory.use(pool.allocateArray(new Uint32Array([1000 + i]))));
      if (i >= pools - 2) exporter.offer(`pool ${i}`, pool);
    }
    const virtual = memory.use(cuda.device(0).allocate(4, { handleType: "posix-fd" }));
    virtual.copyFrom(new Uint32Array([7]));
    exporter.offer("virtual", virtual);
    const others = ["pool 59", "pool 58", "virtual", "virtual"];
    await using child = start([path, ...names, ...others, ...namesOf(pools)], few);
    const expected = [...values, "pool 59: 0", "pool 58: 0", "virtual: 7", "virtual: 7"];
    expected.push(...valuesOf(pools), "left open: 0");
    assertEquals(await linesOf(child), expected);
    await leasesEnded(exporter);
  }, skip);

  pathTest(`${language} with few descriptors maps any of many offers of Python`, async (path) => {
    await using exporting = startPython([path, "--export", String(pools)]);
    assertEquals(await exporting.nextLine(), "ready");
    await using child = start([path, ...names, ...namesOf(pools)], few);
    assertEquals(await linesOf(child), [...values, ...valuesOf(pools), "left open: 0"]);
  }, skip || noPython);

  pathTest(`${language} with few descriptors maps all of many offers, and holds some`, async (path, cuda) => {
    using memory = new DisposableStack();
    await using exporter = offerMany(path, cuda, { count: pools, memory });
    await using relay = relayTo(path, 3);
    await using child = start([relay.path, "--hold", "4", ...namesOf(pools), ...namesOf(pools)], few);
    assertEquals(await linesOf(child), [...valuesOf(pools), ...valuesOf(pools), "left open: 0"]);
    await leasesEnded(exporter);
    assert(relay.requests > 0 && relay.requests <= 2 * pools, `${relay.requests} requests`);
  }, skip);

  pathTest(`${language} with few descriptors maps many offers of an older exporter`, async (path, cuda) => {
    using memory = new DisposableStack();
    await using exporter = offerMany(path, cuda, { count: fitting, memory });
    await using relay = relayTo(path, 2);
    await using child = start([relay.path, "--hold", "4", ...namesOf(fitting), ...namesOf(fitting)], few);
    assertEquals(await linesOf(child), [...valuesOf(fitting), ...valuesOf(fitting), "left open: 0"]);
    await leasesEnded(exporter);
    assertEquals(relay.requests, 0);
  }, skip);

  pathTest(`${language} with few descriptors requests none that it had room for`, async (path, cuda) => {
    using memory = new DisposableStack();
    await using _exporter = offerMany(path, cuda, { count: 4, memory });
    await using relay = relayTo(path, 3);
    await using child = start([relay.path, ...namesOf(4), ...namesOf(4)], few);
    assertEquals(await linesOf(child), [...valuesOf(4), ...valuesOf(4), "left open: 0"]);
    assertEquals(relay.requests, 0);
  }, skip);

  pathTest(`${language} with few descriptors says what helps against an older exporter`, async (path, cuda) => {
    await using child = start([path, "offer 0"], few);
    await using _exporter = await serveFalsely(path, cuda, { version: 2 });
    const [error] = await linesOf(child);
    assertMatch(error!, /^(offer 0|connect): out-of-descriptors: .*ulimit -n.*newer poolpass in the exporter/);
  }, skip);

  for (const [what, answer, code] of falseAnswers) {
    pathTest(`${language} keeps no descriptor if the answer to a request is ${what}`, async (path, cuda) => {
      await using child = start([path, "offer 0"], few);
      await using exporter = await serveFalsely(path, cuda, { version: 3 });
      const socket = exporter.last;
      assertEquals(await receive(socket), { type: "request-handle", pool: pools, token: 0 });
      await answer(socket);
      const [error, left] = await linesOf(child);
      assertMatch(error!, new RegExp(`^offer 0: ${code}: `));
      assertEquals(left, "left open: 0");
    }, skip);
  }
}

function namesOf(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `offer ${i}`);
}

function valuesOf(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `offer ${i}: ${1000 + i}`);
}

/** Offers buffers, each of a pool of its own. */
function offerMany(
  path: string,
  cuda: Cuda,
  { count, memory }: { count: number; memory: DisposableStack },
): Exporter {
  const exporter = Exporter.listen(path);
  for (let i = 0; i < count; i++) {
    const pool = memory.use(cuda.device(0).createPool({ handleType: "posix-fd" }));
    exporter.offer(`offer ${i}`, memory.use(pool.allocateArray(new Uint32Array([1000 + i]))));
  }
  return exporter;
}

/**
 * Listens beside an exporter, and relays messages between it and importers, of which it says that they know no later
 * version of the protocol. Counts the requests for handles.
 */
function relayTo(
  path: string,
  highestVersion: number,
): AsyncDisposable & { readonly path: string; readonly requests: number } {
  const listener = UnixListener.listen(`${path}-relay`);
  const streams: MessageStream[] = [];
  const relay = {
    path: `${path}-relay`,
    requests: 0,
    async [Symbol.asyncDispose]() {
      await listener[Symbol.asyncDispose]();
      for (const stream of streams) {
        stream.end("done");
        stream.process[Symbol.dispose]();
      }
    },
  };
  const connect = (from: MessageStream, to: MessageStream): void =>
    from.start({
      onMessage: (message) => {
        if (message.type === "request-handle") relay.requests++;
        to.send(message.type === "hello" ? { ...message, highestVersion } : message);
        if (hasHandle(message)) message.handle[Symbol.dispose]();
      },
      onDrain() {},
      onEnd: () => to.end("done"),
    });
  void (async () => {
    for (;;) {
      const importer = new MessageStream(await listener.accept(), { messageTimeout: 5000 });
      const exporter = new MessageStream(await UnixSocket.connect(path), { messageTimeout: 5000 });
      streams.push(importer, exporter);
      connect(importer, exporter);
      connect(exporter, importer);
    }
  })().catch(() => {});
  return relay;
}

function handleOf(pool: number): Uint8Array {
  return encodeMessage({ type: "pool-handle", pool, token: 1, handle: undefined as never });
}

async function sendHandle(socket: UnixSocket, pool: number): Promise<void> {
  using handle = ShareableHandle.fromFd(createMemoryFile("poolpass-test", 4096));
  await socket.send(handleOf(pool), { handles: [handle] });
}

/** Accepts two connections of `map_some_offers`, and announces many pools to the second, with one offer in the last. */
async function serveFalsely(
  path: string,
  cuda: Cuda,
  { version }: { version: number },
): Promise<AsyncDisposableStack & { readonly last: UnixSocket }> {
  const owned = new AsyncDisposableStack();
  const listener = owned.use(UnixListener.listen(path));
  using handle = ShareableHandle.fromFd(createMemoryFile("poolpass-test", 4096));
  const deviceUuid = parseUuid(cuda.device(0).uuid);
  const accept = async () => {
    const socket = owned.use(await listener.accept());
    await receive(socket);
    await socket.send(encodeMessage({ type: "welcome", version }));
    return socket;
  };
  // The first connection only opens what the process keeps.
  await accept();
  const last = await accept();
  const offer: OfferMessage = {
    type: "offer",
    offer: 1,
    kind: "buffer",
    allocation: 1,
    pool: pools,
    byteOffset: 0,
    byteLength: 4,
    readyEvent: 0,
    name: "offer 0",
    metadata: "",
  };
  const exportData = new Uint8Array(64);
  try {
    for (let pool = 1; pool <= pools; pool++) {
      await last.send(encodeMessage({ type: "pool", pool, kind: "memory", deviceUuid, handle }), { handles: [handle] });
    }
    await last.send(
      encodeMessage({ type: "allocation", allocation: 1, pool: pools, byteLength: 4096, exportData }),
    );
    await last.send(encodeMessage(offer));
  } catch (error) {
    // An importer that has no descriptor left has ended the connection.
    if (!(error instanceof SharingError && error.code === "peer-gone")) throw error;
  }
  return Object.assign(owned, { last });
}

/** Receives a message without a descriptor. */
async function receive(socket: UnixSocket): Promise<Message> {
  const header = decodeHeader((await socket.receive(headerByteLength)).bytes, 0);
  return decodeMessage(header, (await socket.receive(header.bodyByteLength)).bytes, undefined);
}

/** An importer that sends what it is told. */
class Speaker implements AsyncDisposable {
  readonly #stream: MessageStream;
  readonly #received: (Message | SharingError | undefined)[] = [];

  constructor(socket: UnixSocket) {
    this.#stream = new MessageStream(socket, { messageTimeout: 5000 });
    this.#stream.start({
      onMessage: (message) => {
        if (hasHandle(message)) message.handle[Symbol.dispose]();
        this.#received.push(message);
      },
      onDrain() {},
      onEnd: (error) => void this.#received.push(error),
    });
  }

  static async greet(path: string, version: number): Promise<Speaker> {
    const speaker = new Speaker(await UnixSocket.connect(path));
    speaker.send({ type: "hello", lowestVersion: 1, highestVersion: version });
    for (;;) {
      const message = await speaker.next();
      if (message === undefined || message instanceof SharingError) throw message;
      if (message.type === "offer") return speaker;
    }
  }

  send(message: Message): void {
    this.#stream.send(message);
  }

  /** Returns the next message, or the error of the connection. */
  async next(): Promise<Message | SharingError | undefined> {
    await waitUntil(() => this.#received.length > 0);
    return this.#received.shift();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stream.end("done");
    this.#stream.process[Symbol.dispose]();
    return Promise.resolve();
  }
}

/** Requests that an exporter refuses, and the version of the protocol that the importer speaks. */
const requests: readonly (readonly [string, readonly RequestHandleMessage[], number])[] = [
  ["of an unknown pool", [requestOf(99, 0)], 3],
  ["with a token before the first answer", [requestOf(1, 5)], 3],
  ["before the last answer was read", [requestOf(1, 0), requestOf(1, 0)], 3],
  ["in version 2", [requestOf(1, 0)], 2],
];

function requestOf(pool: number, token: number): RequestHandleMessage {
  return { type: "request-handle", pool, token };
}

for (const [language, skip, start] of languages) {
  pathTest(
    `an exporter in ${language} sends a handle again, once for each answer that was read`,
    async (path) => {
      await using exporter = start([path, "--export", "1"]);
      assertEquals(await exporter.nextLine(), "ready");
      await using honest = await Speaker.greet(path, 3);
      for (let token = 0, count = 0; count < 100; count++) {
        honest.send(requestOf(1, token));
        const answer = await honest.next();
        if (answer === undefined || answer instanceof SharingError || answer.type !== "pool-handle") throw answer;
        assertEquals(answer.pool, 1);
        assert(answer.token !== token);
        token = answer.token;
      }
      for (const [what, messages, version] of requests) {
        await using speaker = await Speaker.greet(path, version);
        for (const message of messages) speaker.send(message);
        for (const _ of messages.slice(1)) await speaker.next();
        const end = await speaker.next();
        assertEquals(end instanceof SharingError && end.code, "bad-message", what);
      }
    },
    skip,
  );
}
